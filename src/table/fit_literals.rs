//! Literals in the types of what they are compared with.
//!
//! DataFusion brings the two sides of a comparison to a common type. Some of those
//! types have no room for what BigQuery's columns hold:
//!
//! - text beside a TIMESTAMP or DATETIME, and `TIMESTAMP '…'`, become nanoseconds,
//!   which end in 1677 and 2262: `ts >= '9999-12-31'` would fail;
//! - `TIME '…'` has nanoseconds, for which a TIME in microseconds has no common type;
//! - a number with a point is a float, and as a decimal of 38 fractional digits it is
//!   not what was written: `2.5` would become `2.49999999999999984927…` beside a
//!   BIGNUMERIC. Beside a NUMERIC both become decimals of 15 fractional digits, which
//!   leaves 23 before the point, where NUMERIC has 29.
//!
//! [`FitLiterals`] comes before that and gives such a literal the type of the other
//! side, where that keeps its value.

use std::sync::Arc;

use datafusion::arrow::compute::kernels::cast_utils::parse_decimal;
use datafusion::arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, DecimalType, TimeUnit,
};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};
use datafusion::optimizer::AnalyzerRule;

/// Fractional digits of BigQuery's BIGNUMERIC, as Arrow has it.
const BIGNUMERIC_SCALE: i8 = 38;

/// Digits before the point that are left to a decimal beside a floating point number, which
/// DataFusion takes for a decimal of 15 fractional digits.
const DIGITS_BESIDE_FLOATS: i16 = 23;

/// Fractional digits of a second that microseconds keep.
const MICROSECOND_DIGITS: usize = 6;

/// Gives literals the types of what they are compared with.
#[derive(Debug)]
pub(crate) struct FitLiterals;

impl AnalyzerRule for FitLiterals {
    fn name(&self) -> &str {
        "fit_literals_to_bigquery_types"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let fitted = plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                schema.merge(&DFSchema::try_from_qualified_schema(
                    scan.table_name.clone(),
                    &scan.source.schema(),
                )?);
            }
            let names = NamePreserver::new(&plan);
            plan.map_expressions(|expression| {
                let name = names.save(&expression);
                let fitted = expression.transform_up(|part| Ok(fit(part, &schema)))?;
                Ok(fitted.update_data(|expression| name.restore(expression)))
            })
        })?;
        Ok(fitted.data)
    }
}

/// A comparison with its literals fitted; what else it may be, as it is.
fn fit(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expression {
        Expr::BinaryExpr(mut comparison) if compares(comparison.op) => {
            let fitted_beside = |value: &Expr, other: &Expr| {
                let wanted = is_literal(value).then(|| roomy(other, schema));
                wanted.flatten()?.for_all([value])?.fitted(value)
            };
            let left = fitted_beside(&comparison.left, &comparison.right);
            let right = fitted_beside(&comparison.right, &comparison.left);
            let changed =
                replace(&mut comparison.left, left) | replace(&mut comparison.right, right);
            Transformed::new_transformed(Expr::BinaryExpr(comparison), changed)
        }
        Expr::Between(mut between) => {
            // Both come to one type with what is between them.
            let bounds = [between.low.as_ref(), &between.high];
            let wanted = roomy(&between.expr, schema).and_then(|wanted| wanted.for_all(bounds));
            let Some(wanted) = wanted else {
                return Transformed::no(Expr::Between(between));
            };
            let low = wanted.fitted(&between.low);
            let high = wanted.fitted(&between.high);
            let changed = replace(&mut between.low, low) | replace(&mut between.high, high);
            Transformed::new_transformed(Expr::Between(between), changed)
        }
        Expr::InList(mut list) => {
            // Once, however long the list is.
            let wanted = roomy(&list.expr, schema);
            let Some(wanted) = wanted.and_then(|wanted| wanted.for_all(&list.list)) else {
                return Transformed::no(Expr::InList(list));
            };
            let mut changed = false;
            for value in &mut list.list {
                let fitted = wanted.fitted(value);
                changed |= replace(value, fitted);
            }
            Transformed::new_transformed(Expr::InList(list), changed)
        }
        other => Transformed::no(other),
    }
}

fn compares(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn replace(place: &mut Expr, fitted: Option<Expr>) -> bool {
    let changed = fitted.is_some();
    if let Some(fitted) = fitted {
        *place = fitted;
    }
    changed
}

/// Whether the expression may be a literal as SQL has them.
fn is_literal(value: &Expr) -> bool {
    matches!(value, Expr::Literal(..) | Expr::Cast(_) | Expr::Negative(_))
}

/// The type of what literals are compared with, if it has room for more than the type
/// that DataFusion would bring both to.
fn roomy(other: &Expr, schema: &DFSchema) -> Option<Roomy> {
    match other.get_type(schema).ok()? {
        DataType::Timestamp(TimeUnit::Microsecond, zone) => Some(Roomy::Microseconds(zone)),
        DataType::Time64(TimeUnit::Microsecond) => Some(Roomy::Time),
        DataType::Decimal256(DECIMAL256_MAX_PRECISION, BIGNUMERIC_SCALE) => Some(Roomy::BigNumeric),
        DataType::Decimal128(precision, scale)
            if i16::from(precision) - i16::from(scale) > DIGITS_BESIDE_FLOATS =>
        {
            Some(Roomy::Numeric(precision, scale))
        }
        _ => None,
    }
}

/// A type that has room for more than the type that DataFusion would bring it and a
/// literal to.
enum Roomy {
    Microseconds(Option<Arc<str>>),
    Time,
    BigNumeric,
    Numeric(u8, i8),
}

impl Roomy {
    /// This type, unless these literals may stay as they are.
    fn for_all<'a>(self, values: impl IntoIterator<Item = &'a Expr>) -> Option<Self> {
        match &self {
            // What nanoseconds hold may stay in them, but not beside what they do not.
            Roomy::Microseconds(zone) if values.into_iter().all(|v| fits_nanoseconds(v, zone)) => {
                None
            }
            _ => Some(self),
        }
    }

    /// `value` as it is to be compared, if that is not as it stands.
    fn fitted(&self, value: &Expr) -> Option<Expr> {
        match self {
            Roomy::Microseconds(zone) => {
                let (text, said) = time_text(value)?;
                let zone = match said {
                    None => zone,
                    Some(DataType::Timestamp(TimeUnit::Nanosecond, zone)) => zone,
                    Some(_) => return None,
                };
                let in_microseconds = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
                kept(text, &in_microseconds).then(|| cast(lit(text), in_microseconds))
            }
            Roomy::Time => {
                let (text, said) = time_text(value)?;
                let finer = said == Some(&DataType::Time64(TimeUnit::Nanosecond));
                let wanted = DataType::Time64(TimeUnit::Microsecond);
                (finer && kept(text, &wanted)).then(|| cast(lit(text), wanted))
            }
            Roomy::Numeric(precision, scale) => {
                let text = float_text(value)?;
                let decimal = decimal::<Decimal128Type>(&text, *precision, *scale);
                let decimal =
                    decimal.map(|value| ScalarValue::Decimal128(Some(value), *precision, *scale));
                let decimal = decimal.or_else(|| big_numeric(&text))?;
                Some(Expr::Literal(decimal, None))
            }
            Roomy::BigNumeric => {
                let decimal = big_numeric(&float_text(value)?)?;
                Some(Expr::Literal(decimal, None))
            }
        }
    }
}

/// Whether DataFusion may make nanoseconds of a literal.
fn fits_nanoseconds(value: &Expr, zone: &Option<Arc<str>>) -> bool {
    let Some((text, said)) = time_text(value) else {
        return true;
    };
    let zone = match said {
        Some(DataType::Timestamp(_, zone)) => zone,
        _ => zone,
    };
    let in_nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
    ScalarValue::from(text).cast_to(&in_nanoseconds).is_ok()
}

/// A number as a decimal with the digits of BIGNUMERIC, if they keep it.
fn big_numeric(text: &str) -> Option<ScalarValue> {
    let (precision, scale) = (DECIMAL256_MAX_PRECISION, BIGNUMERIC_SCALE);
    let value = decimal::<Decimal256Type>(text, precision, scale)?;
    Some(ScalarValue::Decimal256(Some(value), precision, scale))
}

/// A number as a decimal, if it is kept.
fn decimal<T: DecimalType>(text: &str, precision: u8, scale: i8) -> Option<T::Native> {
    let kept = fractional_digits(text) <= usize::from(scale.unsigned_abs());
    let value = kept.then(|| parse_decimal::<T>(text, precision, scale));
    value?.ok()
}

/// The text of a literal, and the type that the statement gives it.
fn time_text(value: &Expr) -> Option<(&str, Option<&DataType>)> {
    match value {
        Expr::Literal(text, _) => Some((text.try_as_str()??, None)),
        Expr::Cast(typed) => match typed.expr.as_ref() {
            Expr::Literal(text, _) => Some((text.try_as_str()??, Some(typed.field.data_type()))),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a time in microseconds keeps all that `text` says.
fn kept(text: &str, in_microseconds: &DataType) -> bool {
    fractional_digits(text) <= MICROSECOND_DIGITS
        && ScalarValue::from(text).cast_to(in_microseconds).is_ok()
}

/// How many digits there are after the point, without zeros at their end.
fn fractional_digits(text: &str) -> usize {
    let Some((_, after)) = text.split_once('.') else {
        return 0;
    };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    after[..digits].trim_end_matches('0').len()
}

/// The digits of a finite floating point literal, without an exponent.
fn float_text(value: &Expr) -> Option<String> {
    let number = float(value)?;
    number.is_finite().then(|| number.to_string())
}

fn float(value: &Expr) -> Option<f64> {
    match value {
        Expr::Literal(ScalarValue::Float64(number), _) => *number,
        Expr::Negative(negated) => Some(-float(negated)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_after_the_point() {
        for (text, digits) in [
            ("12:34:56", 0),
            ("12:34:56.", 0),
            ("9999-12-31 23:59:59.999999Z", 6),
            ("1500-01-01 00:00:00.1234560", 6),
            ("1500-01-01 00:00:00.1234567+02:00", 7),
            ("2.5", 1),
            ("-0.125", 3),
        ] {
            assert_eq!(fractional_digits(text), digits, "{text}");
        }
    }
}
