//! BigQuery types as the Arrow types in which the Storage Read API delivers
//! them (<https://cloud.google.com/bigquery/docs/reference/storage#arrow_schema_details>).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, IntervalUnit, Schema, SchemaRef, TimeUnit};

use super::field::{DecimalParameters, Field, FieldType, Mode, TableSchema, TimestampDigits};
use crate::error::{Error, ErrorKind, Result};
use crate::options::TimestampPrecision;

/// The metadata key under which Arrow keeps the name of an extension type.
pub const EXTENSION_NAME: &str = "ARROW:extension:name";
/// The metadata key under which Arrow keeps the parameters of an extension type.
pub const EXTENSION_METADATA: &str = "ARROW:extension:metadata";
/// The metadata key that marks a struct of two bounds as a RANGE.
pub const SQL_TYPE: &str = "google:sqlType";

/// The time zone that marks TIMESTAMP columns.
const UTC: &str = "UTC";

/// The Arrow schema of a table, in the table's column order. Columns of types
/// that this version does not know are left out, and named in a warning.
///
/// `precision` is how TIMESTAMP(12) columns are asked for and therefore come.
pub fn table_schema(schema: &TableSchema, precision: TimestampPrecision) -> SchemaRef {
    let mut fields = Vec::with_capacity(schema.fields.len());
    for field in &schema.fields {
        match arrow_field(field, precision) {
            Ok(field) => fields.push(field),
            Err(error) => {
                tracing::warn!(column = %field.name, %error, "a column is left out");
            }
        }
    }
    Arc::new(Schema::new(fields))
}

/// The Arrow field of a column.
///
/// # Errors
/// [`ErrorKind::Unsupported`] when the type, or one inside it, is unknown to
/// this version.
pub fn arrow_field(field: &Field, precision: TimestampPrecision) -> Result<ArrowField> {
    let value = value_type(field, precision)?;
    let metadata = extension_metadata(&field.field_type);
    let arrow = match field.mode {
        Mode::Nullable => ArrowField::new(&field.name, value, true),
        Mode::Required => ArrowField::new(&field.name, value, false),
        // The mark of an element's type stands on the list, not on the child.
        Mode::Repeated => {
            ArrowField::new_list(&field.name, ArrowField::new_list_field(value, true), false)
        }
    };
    Ok(if metadata.is_empty() {
        arrow
    } else {
        arrow.with_metadata(metadata)
    })
}

/// The Arrow type of one value of the field: of an element if it is repeated.
fn value_type(field: &Field, precision: TimestampPrecision) -> Result<DataType> {
    Ok(match &field.field_type {
        FieldType::Int64 => DataType::Int64,
        FieldType::Float64 => DataType::Float64,
        FieldType::Bool => DataType::Boolean,
        FieldType::String | FieldType::Geography | FieldType::Json => DataType::Utf8,
        FieldType::Bytes => DataType::Binary,
        FieldType::Numeric(parameters) => {
            let (precision, scale) = decimal(*parameters, 38, 9);
            DataType::Decimal128(precision, scale)
        }
        FieldType::BigNumeric(parameters) => {
            let (precision, scale) = decimal(*parameters, 76, 38);
            DataType::Decimal256(precision, scale)
        }
        FieldType::Date => DataType::Date32,
        FieldType::Time => DataType::Time64(TimeUnit::Microsecond),
        FieldType::DateTime => DataType::Timestamp(TimeUnit::Microsecond, None),
        FieldType::Timestamp(TimestampDigits::Six) => {
            DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
        }
        FieldType::Timestamp(TimestampDigits::Twelve) => match precision {
            TimestampPrecision::Micros => {
                DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
            }
            TimestampPrecision::Nanos => {
                DataType::Timestamp(TimeUnit::Nanosecond, Some(UTC.into()))
            }
            TimestampPrecision::Picos => DataType::Utf8,
        },
        FieldType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        FieldType::Range(element) => {
            let bound = |name: &str| {
                let field = Field::new(name, element.field_type(), Mode::Nullable);
                arrow_field(&field, precision)
            };
            DataType::Struct(vec![bound("start")?, bound("end")?].into())
        }
        FieldType::Struct(fields) => DataType::Struct(
            fields
                .iter()
                .map(|field| arrow_field(field, precision))
                .collect::<Result<Vec<_>>>()?
                .into(),
        ),
        FieldType::Unsupported(name) => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "column '{}' has type {name}, which this version cannot read",
                    field.name
                ),
            ));
        }
    })
}

fn decimal(parameters: Option<DecimalParameters>, precision: u8, scale: i8) -> (u8, i8) {
    match parameters {
        None => (precision, scale),
        Some(DecimalParameters { precision, scale }) => (
            precision,
            i8::try_from(scale).expect("the scale of a decimal is at most 76"),
        ),
    }
}

/// The metadata that tells apart BigQuery types which share an Arrow type.
fn extension_metadata(field_type: &FieldType) -> HashMap<String, String> {
    let extension = |name: &str| {
        HashMap::from([(EXTENSION_NAME.to_string(), format!("google:sqlType:{name}"))])
    };
    match field_type {
        FieldType::DateTime => extension("datetime"),
        FieldType::Json => extension("json"),
        FieldType::Interval => extension("interval"),
        FieldType::Geography => {
            let mut metadata = extension("geography");
            metadata.insert(
                EXTENSION_METADATA.to_string(),
                r#"{"encoding": "WKT"}"#.to_string(),
            );
            metadata
        }
        FieldType::Range(_) => HashMap::from([(SQL_TYPE.to_string(), "range".to_string())]),
        FieldType::Int64
        | FieldType::Float64
        | FieldType::Bool
        | FieldType::String
        | FieldType::Bytes
        | FieldType::Numeric(_)
        | FieldType::BigNumeric(_)
        | FieldType::Date
        | FieldType::Time
        | FieldType::Timestamp(_)
        | FieldType::Struct(_)
        | FieldType::Unsupported(_) => HashMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::RangeElement;

    fn nullable(field_type: FieldType) -> ArrowField {
        let field = Field::new("c", field_type, Mode::Nullable);
        arrow_field(&field, TimestampPrecision::Micros).unwrap()
    }

    #[test]
    fn scalars_map_as_documented() {
        let utc = || Some("UTC".into());
        for (bigquery, arrow) in [
            (FieldType::Int64, DataType::Int64),
            (FieldType::Float64, DataType::Float64),
            (FieldType::Bool, DataType::Boolean),
            (FieldType::String, DataType::Utf8),
            (FieldType::Bytes, DataType::Binary),
            (FieldType::Date, DataType::Date32),
            (FieldType::Time, DataType::Time64(TimeUnit::Microsecond)),
            (
                FieldType::Timestamp(TimestampDigits::Six),
                DataType::Timestamp(TimeUnit::Microsecond, utc()),
            ),
            (FieldType::Numeric(None), DataType::Decimal128(38, 9)),
            (FieldType::BigNumeric(None), DataType::Decimal256(76, 38)),
        ] {
            let field = nullable(bigquery);
            assert_eq!(field.data_type(), &arrow);
            assert!(field.is_nullable());
            assert!(field.metadata().is_empty());
        }
        let parameters = Some(DecimalParameters {
            precision: 10,
            scale: 2,
        });
        assert_eq!(
            nullable(FieldType::Numeric(parameters)).data_type(),
            &DataType::Decimal128(10, 2)
        );
        assert_eq!(
            nullable(FieldType::BigNumeric(parameters)).data_type(),
            &DataType::Decimal256(10, 2)
        );
    }

    #[test]
    fn types_that_share_an_arrow_type_are_marked() {
        for (bigquery, arrow, name) in [
            (
                FieldType::DateTime,
                DataType::Timestamp(TimeUnit::Microsecond, None),
                "google:sqlType:datetime",
            ),
            (FieldType::Json, DataType::Utf8, "google:sqlType:json"),
            (
                FieldType::Interval,
                DataType::Interval(IntervalUnit::MonthDayNano),
                "google:sqlType:interval",
            ),
            (
                FieldType::Geography,
                DataType::Utf8,
                "google:sqlType:geography",
            ),
        ] {
            let field = nullable(bigquery.clone());
            assert_eq!(field.data_type(), &arrow);
            assert_eq!(field.metadata()[EXTENSION_NAME], name);
            assert_eq!(
                field.metadata().get(EXTENSION_METADATA).map(String::as_str),
                (bigquery == FieldType::Geography).then_some(r#"{"encoding": "WKT"}"#)
            );
        }
    }

    #[test]
    fn a_range_is_a_struct_of_nullable_bounds_with_a_plain_mark() {
        let field = nullable(FieldType::Range(RangeElement::Date));
        assert_eq!(
            field.data_type(),
            &DataType::Struct(
                vec![
                    ArrowField::new("start", DataType::Date32, true),
                    ArrowField::new("end", DataType::Date32, true),
                ]
                .into()
            )
        );
        assert_eq!(
            field.metadata(),
            &HashMap::from([("google:sqlType".to_string(), "range".to_string())])
        );
    }

    #[test]
    fn a_repeated_field_is_a_required_list_that_carries_the_mark() {
        let field = Field::new("docs", FieldType::Json, Mode::Repeated);
        let arrow = arrow_field(&field, TimestampPrecision::Micros).unwrap();
        assert!(!arrow.is_nullable());
        assert_eq!(
            arrow.data_type(),
            &DataType::List(Arc::new(ArrowField::new("item", DataType::Utf8, true)))
        );
        assert_eq!(arrow.metadata()[EXTENSION_NAME], "google:sqlType:json");
    }

    #[test]
    fn required_is_not_nullable_inside_structs_too() {
        let field = nullable(FieldType::Struct(vec![
            Field::new("a", FieldType::Int64, Mode::Required),
            Field::new("b", FieldType::DateTime, Mode::Nullable),
        ]));
        let DataType::Struct(fields) = field.data_type() else {
            panic!("a struct, not {field:?}")
        };
        assert!(!fields[0].is_nullable());
        assert!(fields[1].is_nullable());
        assert_eq!(
            fields[1].metadata()[EXTENSION_NAME],
            "google:sqlType:datetime"
        );
    }

    #[test]
    fn picosecond_timestamps_come_as_they_are_asked_for() {
        let field = Field::new(
            "t",
            FieldType::Timestamp(TimestampDigits::Twelve),
            Mode::Nullable,
        );
        for (precision, expected) in [
            (
                TimestampPrecision::Micros,
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            ),
            (
                TimestampPrecision::Nanos,
                DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            ),
            (TimestampPrecision::Picos, DataType::Utf8),
        ] {
            assert_eq!(
                arrow_field(&field, precision).unwrap().data_type(),
                &expected
            );
        }
    }

    #[test]
    fn unknown_types_are_left_out_and_the_rest_stays() {
        let vector = Field::new("v", FieldType::Unsupported("VECTOR".into()), Mode::Nullable);
        let schema = TableSchema {
            fields: vec![
                Field::new("a", FieldType::Int64, Mode::Nullable),
                Field::new("s", FieldType::Struct(vec![vector.clone()]), Mode::Nullable),
                vector.clone(),
            ],
        };
        let arrow = table_schema(&schema, TimestampPrecision::Micros);
        assert_eq!(arrow.fields().len(), 1);
        let error = arrow_field(&vector, TimestampPrecision::Micros).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("'v'") && error.message().contains("VECTOR"));
    }
}
