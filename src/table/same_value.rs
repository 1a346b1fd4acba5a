//! Whether two expressions give the same values.
//!
//! The planner casts what a statement says to the types that it needs: what is compared
//! with a column to one that both have, and what is assigned to the column's. So one
//! expression of a statement comes back in several ways, which differ in casts only. Casts
//! that keep every value are seen through.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};

/// Whether the expressions are one but for casts that keep every value.
pub(super) fn same_value(one: &Expr, other: &Expr, schema: &DFSchema) -> bool {
    plain(one, schema) == plain(other, schema)
}

/// The expression without casts around it that keep every value. Text is text, however it
/// is encoded.
fn plain(expression: &Expr, schema: &DFSchema) -> Expr {
    match expression {
        Expr::Alias(alias) => plain(&alias.expr, schema),
        Expr::Cast(cast) if keeps_values(cast, schema) => plain(&cast.expr, schema),
        Expr::Cast(cast) if is_text(cast.field.data_type()) => {
            let inner = plain(&cast.expr, schema);
            Expr::Cast(Cast::new(Box::new(inner), DataType::Utf8))
        }
        Expr::Literal(value, _) => match value.try_as_str() {
            Some(text) => {
                let text = ScalarValue::Utf8(text.map(str::to_string));
                Expr::Literal(text, None)
            }
            None => Expr::Literal(value.clone(), None),
        },
        other => other.clone(),
    }
}

/// Whether different values stay different, and the same ones the same.
pub(super) fn keeps_values(cast: &Cast, schema: &DFSchema) -> bool {
    let from = cast.expr.get_type(schema);
    from.is_ok_and(|from| widens(&from, cast.field.data_type()))
}

fn widens(from: &DataType, to: &DataType) -> bool {
    if from == to || from.is_null() {
        return true;
    }
    match (from, to) {
        (DataType::Dictionary(_, from), to) => widens(from, to),
        (from, DataType::Dictionary(_, to)) => widens(from, to),
        (from, to) if is_text(from) => is_text(to),
        (from, to) if is_bytes(from) => is_bytes(to),
        (DataType::Float16, DataType::Float32 | DataType::Float64)
        | (DataType::Float32, DataType::Float64)
        | (DataType::Date32, DataType::Date64) => true,
        (DataType::Timestamp(from, zone), DataType::Timestamp(to, to_zone)) => {
            zone == to_zone && fineness(*from) <= fineness(*to)
        }
        (from, to) => match (whole_digits(from), whole_digits(to)) {
            (Some(from), Some(to)) => from.fit(&to),
            _ => false,
        },
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_text(value),
        other => other.is_string(),
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    )
}

fn fineness(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

/// What numbers an exact type has.
#[derive(Debug, Clone, Copy)]
enum Exact {
    /// So many bits of value, and a sign or none.
    Bits { value: u8, signed: bool },
    /// So many digits before and behind the point.
    Digits { before: i16, behind: i16 },
}

impl Exact {
    fn fit(self, to: &Exact) -> bool {
        match (self, *to) {
            (
                Exact::Bits { value, signed },
                Exact::Bits {
                    value: most,
                    signed: sign,
                },
            ) => value <= most && (sign || !signed),
            (Exact::Bits { value, .. }, Exact::Digits { before, behind }) => {
                let digits = match value {
                    0..=8 => 3,
                    9..=16 => 5,
                    17..=32 => 10,
                    33..=63 => 19,
                    _ => 20,
                };
                behind >= 0 && digits <= before
            }
            (
                Exact::Digits { before, behind },
                Exact::Digits {
                    before: most,
                    behind: finest,
                },
            ) => before <= most && behind <= finest,
            (Exact::Digits { .. }, Exact::Bits { .. }) => false,
        }
    }
}

fn whole_digits(data_type: &DataType) -> Option<Exact> {
    let bits = |value, signed| Some(Exact::Bits { value, signed });
    match data_type {
        DataType::Int8 => bits(7, true),
        DataType::Int16 => bits(15, true),
        DataType::Int32 => bits(31, true),
        DataType::Int64 => bits(63, true),
        DataType::UInt8 => bits(8, false),
        DataType::UInt16 => bits(16, false),
        DataType::UInt32 => bits(32, false),
        DataType::UInt64 => bits(64, false),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some(Exact::Digits {
            before: i16::from(*precision) - i16::from(*scale),
            behind: i16::from(*scale),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::logical_expr::{cast, col, lit};

    use super::*;

    fn schema() -> DFSchema {
        let field = |name: &str, of| datafusion::arrow::datatypes::Field::new(name, of, true);
        DFSchema::try_from(Schema::new(vec![
            field("text", DataType::Utf8View),
            field("small", DataType::Int32),
            field("amount", DataType::Decimal128(10, 2)),
        ]))
        .unwrap()
    }

    fn same(one: Expr, other: Expr) -> bool {
        same_value(&one, &other, &schema())
    }

    #[test]
    fn casts_that_keep_values_are_seen_through() {
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        for to in [DataType::Utf8, DataType::LargeUtf8, dictionary] {
            let twice = cast(cast(col("text"), to), DataType::Utf8);
            assert!(same(col("text"), twice));
        }
        for to in [DataType::Int64, DataType::Decimal128(38, 9)] {
            assert!(same(cast(col("small"), to), col("small")));
        }
        let wider = cast(col("amount"), DataType::Decimal256(76, 38));
        assert!(same(wider, col("amount")));
        let view = cast(col("small"), DataType::Utf8View);
        let text = cast(cast(col("small"), DataType::LargeUtf8), DataType::Utf8);
        assert!(same(view, text));
        let view = lit(ScalarValue::Utf8View(Some("x".into())));
        assert!(same(view, lit("x")));
    }

    #[test]
    fn casts_that_change_values_are_not() {
        for (column, to) in [
            ("text", DataType::Int64),
            ("small", DataType::Int16),
            ("small", DataType::UInt64),
            ("small", DataType::Float32),
            ("small", DataType::Utf8),
            ("amount", DataType::Decimal128(38, 1)),
            ("amount", DataType::Decimal128(9, 2)),
            ("amount", DataType::Float64),
        ] {
            assert!(
                !same(cast(col(column), to.clone()), col(column)),
                "{column} {to}"
            );
        }
        assert!(!same(lit("x"), lit("y")));
    }
}
