//! Which Arrow types each column takes.

use arrow::datatypes::{DataType, TimeUnit};

use crate::schema::{Field, FieldType, Mode};

/// Looks at the type of a field, called `path`, for the column `field`.
pub(super) fn check(
    data_type: &DataType,
    field: &Field,
    path: &str,
    extra: &mut Vec<String>,
    incompatible: &mut Vec<String>,
) {
    if field.mode() == Mode::Repeated {
        match data_type {
            DataType::List(item) => {
                check(
                    item.data_type(),
                    &field.element(),
                    path,
                    extra,
                    incompatible,
                );
            }
            _ => incompatible.push(path.to_string()),
        }
        return;
    }
    let bounds;
    let fields = match &field.field_type {
        FieldType::Struct(fields) => fields.as_slice(),
        FieldType::Range(element) => {
            bounds = [
                Field::new("start", element.field_type()),
                Field::new("end", element.field_type()),
            ];
            bounds.as_slice()
        }
        scalar => {
            if !takes(scalar, data_type) {
                incompatible.push(path.to_string());
            }
            return;
        }
    };
    let DataType::Struct(given) = data_type else {
        return incompatible.push(path.to_string());
    };
    let mut seen = Vec::new();
    for inner in given {
        let path = format!("{path}.{}", inner.name());
        match fields
            .iter()
            .position(|f| f.name.eq_ignore_ascii_case(inner.name()))
        {
            None => extra.push(path),
            Some(at) if seen.contains(&at) => incompatible.push(path),
            Some(at) => {
                seen.push(at);
                check(inner.data_type(), &fields[at], &path, extra, incompatible);
            }
        }
    }
}

fn takes(column: &FieldType, data_type: &DataType) -> bool {
    let decimal = |precision: u8, scale: i8, whole: i32, fraction: i8| {
        (0..=fraction).contains(&scale) && i32::from(precision) - i32::from(scale) <= whole
    };
    match (column, data_type) {
        (FieldType::Numeric, DataType::Decimal128(p, s)) => decimal(*p, *s, 29, 9),
        (FieldType::Bignumeric, DataType::Decimal128(p, s) | DataType::Decimal256(p, s)) => {
            decimal(*p, *s, 38, 38)
        }
        (FieldType::Timestamp, DataType::Timestamp(TimeUnit::Microsecond, zone)) => zone
            .as_deref()
            .is_none_or(|zone| matches!(zone, "UTC" | "utc" | "Etc/UTC" | "Z" | "+00:00")),
        (column, data_type) => matches!(
            (column, data_type),
            (FieldType::Bool, DataType::Boolean)
                | (
                    FieldType::Int64,
                    DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64
                )
                | (FieldType::Float64, DataType::Float32 | DataType::Float64)
                | (
                    FieldType::String | FieldType::Geography | FieldType::Json,
                    DataType::Utf8
                )
                | (FieldType::Bytes, DataType::Binary)
                | (
                    FieldType::Date,
                    DataType::Date32 | DataType::Int32 | DataType::Utf8
                )
                | (FieldType::Time, DataType::Time64(TimeUnit::Microsecond))
                | (
                    FieldType::Datetime,
                    DataType::Timestamp(TimeUnit::Microsecond, None)
                )
                | (FieldType::Interval, DataType::Interval(_) | DataType::Utf8)
        ),
    }
}
