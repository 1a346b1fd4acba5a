//! The schema message of a session as an Arrow schema.
//!
//! Only the types that BigQuery delivers are accepted; whatever else a message
//! may declare is an error naming the column, so that decoding never meets a
//! type it was not written for.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use arrow::ipc;
use bytes::Bytes;

use super::message;
use crate::error::{Error, Result};

/// Reads the first message of `bytes`, which has to be a schema. Some servers
/// send a whole stream here; what follows the schema says nothing new.
pub(super) fn read(bytes: &Bytes) -> Result<SchemaRef> {
    let first = message::next(&mut bytes.clone())?
        .ok_or_else(|| Error::data("the session has an empty Arrow schema"))?;
    let metadata = first.metadata()?;
    let schema = metadata
        .header_as_schema()
        .ok_or_else(|| Error::data("the session's Arrow schema is a message of another kind"))?;
    convert(schema).map(Arc::new)
}

pub(super) fn convert(schema: ipc::Schema<'_>) -> Result<Schema> {
    if schema.endianness() != ipc::Endianness::Little {
        return Err(Error::data("the service's Arrow data is big-endian"));
    }
    let mut fields = Vec::new();
    for field in schema.fields().into_iter().flatten() {
        fields.push(convert_field(field, &mut Vec::new())?);
    }
    Ok(Schema::new(fields))
}

fn convert_field(field: ipc::Field<'_>, path: &mut Vec<String>) -> Result<Field> {
    let name = field.name().unwrap_or_default();
    path.push(name.to_string());
    if field.dictionary().is_some() {
        return Err(unexpected(path, "dictionary-encoded"));
    }
    let data_type = data_type(field, path)?;
    path.pop();
    let metadata: HashMap<String, String> = field
        .custom_metadata()
        .into_iter()
        .flatten()
        .filter_map(|pair| Some((pair.key()?.to_string(), pair.value()?.to_string())))
        .collect();
    let converted = Field::new(name, data_type, field.nullable());
    Ok(if metadata.is_empty() {
        converted
    } else {
        converted.with_metadata(metadata)
    })
}

fn data_type(field: ipc::Field<'_>, path: &mut Vec<String>) -> Result<DataType> {
    let children = |path: &mut Vec<String>| {
        field
            .children()
            .into_iter()
            .flatten()
            .map(|child| convert_field(child, path))
            .collect::<Result<Vec<_>>>()
    };
    let found = match field.type_type() {
        ipc::Type::Bool => Some(DataType::Boolean),
        ipc::Type::Utf8 => Some(DataType::Utf8),
        ipc::Type::Binary => Some(DataType::Binary),
        ipc::Type::Int => field
            .type_as_int()
            .filter(|int| int.bitWidth() == 64 && int.is_signed())
            .map(|_| DataType::Int64),
        ipc::Type::FloatingPoint => field
            .type_as_floating_point()
            .filter(|float| float.precision() == ipc::Precision::DOUBLE)
            .map(|_| DataType::Float64),
        ipc::Type::Date => field
            .type_as_date()
            .filter(|date| date.unit() == ipc::DateUnit::DAY)
            .map(|_| DataType::Date32),
        ipc::Type::Time => field
            .type_as_time()
            .filter(|time| time.unit() == ipc::TimeUnit::MICROSECOND && time.bitWidth() == 64)
            .map(|_| DataType::Time64(TimeUnit::Microsecond)),
        ipc::Type::Timestamp => field.type_as_timestamp().and_then(|timestamp| {
            let unit = match timestamp.unit() {
                ipc::TimeUnit::MICROSECOND => TimeUnit::Microsecond,
                ipc::TimeUnit::NANOSECOND => TimeUnit::Nanosecond,
                _ => return None,
            };
            Some(DataType::Timestamp(
                unit,
                timestamp.timezone().map(Into::into),
            ))
        }),
        ipc::Type::Decimal => field.type_as_decimal().and_then(|decimal| {
            let precision = u8::try_from(decimal.precision()).ok()?;
            let scale = i8::try_from(decimal.scale()).ok()?;
            if precision == 0 || !(0..=decimal.precision()).contains(&decimal.scale()) {
                return None;
            }
            match decimal.bitWidth() {
                128 if precision <= 38 => Some(DataType::Decimal128(precision, scale)),
                256 if precision <= 76 => Some(DataType::Decimal256(precision, scale)),
                _ => None,
            }
        }),
        ipc::Type::Interval => field
            .type_as_interval()
            .filter(|interval| interval.unit() == ipc::IntervalUnit::MONTH_DAY_NANO)
            .map(|_| DataType::Interval(IntervalUnit::MonthDayNano)),
        ipc::Type::List => match <[Field; 1]>::try_from(children(path)?) {
            Ok([element]) => Some(DataType::List(Arc::new(element))),
            Err(_) => None,
        },
        ipc::Type::Struct_ => {
            let fields = children(path)?;
            (!fields.is_empty()).then(|| DataType::Struct(fields.into()))
        }
        _ => None,
    };
    found.ok_or_else(|| {
        let name = field.type_type().variant_name().unwrap_or("unknown");
        unexpected(path, &format!("of Arrow type {name} in a form"))
    })
}

fn unexpected(path: &[String], what: &str) -> Error {
    Error::data(format!(
        "column '{}' arrives {what} that BigQuery does not document",
        path.join(".")
    ))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions};

    /// The schema as one encapsulated message, as the service sends it.
    pub(in crate::client::read) fn encode(schema: &Schema) -> Bytes {
        let options = IpcWriteOptions::default();
        let encoded = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
            schema,
            &mut DictionaryTracker::new(false),
            &options,
        );
        let mut bytes = Vec::new();
        arrow::ipc::writer::write_message(&mut bytes, encoded, &options).unwrap();
        bytes.into()
    }

    /// A schema of every type that BigQuery delivers.
    pub(in crate::client::read) fn every_type() -> Schema {
        let micros =
            |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        let marked = |name: &str, data_type, mark: &str| {
            Field::new(name, data_type, true).with_metadata(HashMap::from([(
                "ARROW:extension:name".to_string(),
                format!("google:sqlType:{mark}"),
            )]))
        };
        Schema::new(vec![
            Field::new("int", DataType::Int64, false),
            Field::new("float", DataType::Float64, true),
            Field::new("bool", DataType::Boolean, true),
            Field::new("string", DataType::Utf8, true),
            Field::new("bytes", DataType::Binary, true),
            Field::new("date", DataType::Date32, true),
            Field::new("time", DataType::Time64(TimeUnit::Microsecond), true),
            marked("datetime", micros(None), "datetime"),
            Field::new("timestamp", micros(Some("UTC")), true),
            Field::new("numeric", DataType::Decimal128(38, 9), true),
            Field::new("bignumeric", DataType::Decimal256(76, 38), true),
            marked("json", DataType::Utf8, "json"),
            marked(
                "interval",
                DataType::Interval(IntervalUnit::MonthDayNano),
                "interval",
            ),
            Field::new(
                "struct",
                DataType::Struct(
                    vec![
                        Field::new("a", DataType::Int64, false),
                        Field::new_list("b", Field::new_list_field(DataType::Utf8, true), false),
                    ]
                    .into(),
                ),
                true,
            ),
            Field::new_list(
                "list",
                Field::new_list_field(
                    DataType::Struct(vec![Field::new("x", DataType::Date32, true)].into()),
                    true,
                ),
                false,
            ),
        ])
    }

    #[test]
    fn every_type_comes_back_with_its_metadata() {
        let schema = every_type();
        assert_eq!(*read(&encode(&schema)).unwrap(), schema);
    }

    #[test]
    fn a_schema_that_begins_a_stream_is_read_too() {
        let schema = every_type();
        let mut stream = encode(&schema).to_vec();
        stream.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert_eq!(*read(&stream.into()).unwrap(), schema);
    }

    #[test]
    fn other_types_are_errors_naming_the_column() {
        let inner = Field::new("inner", DataType::UInt8, true);
        for data_type in [
            DataType::Int32,
            DataType::UInt64,
            DataType::Float32,
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Date64,
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Timestamp(TimeUnit::Second, None),
            DataType::Interval(IntervalUnit::YearMonth),
            DataType::Null,
            DataType::Struct(vec![inner.clone()].into()),
            DataType::Struct(Vec::<Field>::new().into()),
            DataType::Map(
                Arc::new(Field::new(
                    "entries",
                    DataType::Struct(vec![inner.clone(), inner].into()),
                    false,
                )),
                false,
            ),
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        ] {
            let schema = Schema::new(vec![Field::new("odd", data_type.clone(), true)]);
            let error = read(&encode(&schema)).unwrap_err();
            assert!(error.message().contains("'odd"), "{data_type}: {error}");
        }
    }

    #[test]
    fn what_is_not_a_schema_is_an_error() {
        for bytes in [&b""[..], b"x", b"\xff\xff\xff\xff\0\0\0\0"] {
            read(&Bytes::from_static(bytes)).unwrap_err();
        }
    }

    #[test]
    fn no_byte_makes_it_panic() {
        let good = encode(&every_type()).to_vec();
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = good.clone();
                bytes[at] = value;
                // Many changes go unnoticed (a letter of a name); none may panic.
                let _ = read(&bytes.into());
            }
            let _ = read(&good[..at].to_vec().into());
        }
    }
}
