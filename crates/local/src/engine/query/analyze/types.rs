//! Types as written to types.

use super::super::super::functions::SqlType;
use super::super::ast::{TypeKind, TypeName};
use super::super::parser::position;
use crate::error::{Result, ServiceError};
use crate::schema::Field;

/// The parameters of a parameterized type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::query) enum TypeParameters {
    /// Characters of a STRING or bytes of BYTES.
    MaxLength(i64),
    /// Precision and scale of a decimal, the latter 0 when it is not written.
    Decimal(i64, Option<i64>),
}

impl TypeParameters {
    /// Writes the parameters into a column.
    pub(in crate::engine::query) fn apply(self, field: &mut Field) {
        match self {
            TypeParameters::MaxLength(n) => field.max_length = Some(n),
            TypeParameters::Decimal(p, s) => {
                field.precision = Some(p);
                field.scale = s;
            }
        }
    }
}

/// The type that `name` says, and its parameters if it has some.
pub(in crate::engine::query) fn resolve_type(
    name: &TypeName,
    sql: &str,
) -> Result<(SqlType, Option<TypeParameters>)> {
    let nested = |inner: &TypeName| -> Result<SqlType> {
        match resolve_type(inner, sql)? {
            (t, None) => Ok(t),
            (_, Some(_)) => Err(ServiceError::unsupported(
                "A parameterized type inside another type",
            )),
        }
    };
    match &name.kind {
        TypeKind::Array(element) => {
            if matches!(element.kind, TypeKind::Array(_)) {
                return Err(ServiceError::invalid_query(format!(
                    "Arrays of arrays are not supported at {}",
                    position(sql, name.at)
                )));
            }
            Ok((SqlType::Array(Box::new(nested(element)?)), None))
        }
        TypeKind::Struct(fields) => Ok((
            SqlType::Struct(
                fields
                    .iter()
                    .map(|(n, t)| {
                        let name = n.as_ref().map(|i| i.name.clone()).unwrap_or_default();
                        Ok((name, nested(t)?))
                    })
                    .collect::<Result<_>>()?,
            ),
            None,
        )),
        TypeKind::Range(element) => match nested(element)? {
            element @ (SqlType::Date | SqlType::Datetime | SqlType::Timestamp) => {
                Ok((SqlType::Range(Box::new(element)), None))
            }
            other => Err(ServiceError::invalid_query(format!(
                "Unsupported type: RANGE<{other}> at {}",
                position(sql, name.at)
            ))),
        },
        TypeKind::Simple(word, parameters) => simple(word, parameters, name, sql),
    }
}

fn simple(
    word: &str,
    parameters: &[i64],
    name: &TypeName,
    sql: &str,
) -> Result<(SqlType, Option<TypeParameters>)> {
    let ty = match word {
        "INT64" | "INT" | "SMALLINT" | "INTEGER" | "BIGINT" | "TINYINT" | "BYTEINT" => {
            SqlType::Int64
        }
        "FLOAT64" => SqlType::Float64,
        "BOOL" | "BOOLEAN" => SqlType::Bool,
        "STRING" => SqlType::String,
        "BYTES" => SqlType::Bytes,
        "NUMERIC" | "DECIMAL" => SqlType::Numeric,
        "BIGNUMERIC" | "BIGDECIMAL" => SqlType::BigNumeric,
        "DATE" => SqlType::Date,
        "TIME" => SqlType::Time,
        "DATETIME" => SqlType::Datetime,
        "TIMESTAMP" => SqlType::Timestamp,
        "JSON" => SqlType::Json,
        "GEOGRAPHY" => SqlType::Geography,
        "INTERVAL" => SqlType::Interval,
        other => {
            return Err(ServiceError::invalid_query(format!(
                "Type not found: {other} at {}",
                position(sql, name.at)
            )));
        }
    };
    let bad =
        |what: &str| ServiceError::invalid_query(format!("{what} at {}", position(sql, name.at)));
    let parameters = match (&ty, parameters) {
        (_, []) => None,
        (SqlType::String | SqlType::Bytes, [length]) => {
            if *length < 1 {
                return Err(bad(&format!("{word} length must be greater than 0")));
            }
            Some(TypeParameters::MaxLength(*length))
        }
        (SqlType::Numeric | SqlType::BigNumeric, [precision, rest @ ..]) if rest.len() < 2 => {
            let scale = rest.first().copied().unwrap_or(0);
            let (digits, scales) = if ty == SqlType::Numeric {
                (29, 9)
            } else {
                (38, 38)
            };
            if !(0..=scales).contains(&scale) {
                return Err(bad(&format!("{word} scale must be between 0 and {scales}")));
            }
            if *precision < scale.max(1) || *precision > digits + scale {
                return Err(bad(&format!(
                    "{word} precision must be between {} and {}",
                    scale.max(1),
                    digits + scale
                )));
            }
            Some(TypeParameters::Decimal(*precision, rest.first().copied()))
        }
        (SqlType::Timestamp, [12]) => {
            return Err(ServiceError::unsupported("TIMESTAMP(12)"));
        }
        _ => return Err(bad(&format!("{word} does not support type parameters"))),
    };
    Ok((ty, parameters))
}
