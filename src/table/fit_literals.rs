//! Literals in the types of what they are compared with.
//!
//! DataFusion brings the two sides of a comparison to a common type. Three of those
//! types have no room for what BigQuery's columns hold:
//!
//! - text beside a TIMESTAMP or DATETIME, and `TIMESTAMP '…'`, become nanoseconds,
//!   which end in 1677 and 2262: `ts >= '9999-12-31'` would fail;
//! - `TIME '…'` has nanoseconds, for which a TIME in microseconds has no common type;
//! - a number with a point is a float, and as a decimal of 38 fractional digits it is
//!   not what was written: `2.5` would become `2.49999999999999984927…` beside a
//!   BIGNUMERIC.
//!
//! [`FitLiterals`] comes before that and gives such a literal the type of the other
//! side, where that keeps its value.

use datafusion::arrow::compute::kernels::cast_utils::parse_decimal;
use datafusion::arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};
use datafusion::optimizer::AnalyzerRule;

/// Fractional digits of BigQuery's BIGNUMERIC, as Arrow has it.
const BIGNUMERIC_SCALE: i8 = 38;

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
                fitted(value, &wanted.flatten()?)
            };
            let left = fitted_beside(&comparison.left, &comparison.right);
            let right = fitted_beside(&comparison.right, &comparison.left);
            let changed =
                replace(&mut comparison.left, left) | replace(&mut comparison.right, right);
            Transformed::new_transformed(Expr::BinaryExpr(comparison), changed)
        }
        Expr::Between(mut between) => {
            let Some(wanted) = roomy(&between.expr, schema) else {
                return Transformed::no(Expr::Between(between));
            };
            let low = fitted(&between.low, &wanted);
            let high = fitted(&between.high, &wanted);
            let changed = replace(&mut between.low, low) | replace(&mut between.high, high);
            Transformed::new_transformed(Expr::Between(between), changed)
        }
        Expr::InList(mut list) => {
            // Once, however long the list is.
            let Some(wanted) = roomy(&list.expr, schema) else {
                return Transformed::no(Expr::InList(list));
            };
            let mut changed = false;
            for value in &mut list.list {
                let fitted = fitted(value, &wanted);
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
fn roomy(other: &Expr, schema: &DFSchema) -> Option<DataType> {
    let data_type = other.get_type(schema).ok()?;
    let roomy = matches!(
        data_type,
        DataType::Timestamp(TimeUnit::Microsecond, _)
            | DataType::Time64(TimeUnit::Microsecond)
            | DataType::Decimal256(DECIMAL256_MAX_PRECISION, BIGNUMERIC_SCALE)
    );
    roomy.then_some(data_type)
}

/// `value` as it is to be compared with something of the type `wanted`, if that is not
/// as it stands.
fn fitted(value: &Expr, wanted: &DataType) -> Option<Expr> {
    match wanted {
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let (text, said) = time_text(value)?;
            let zone = match said {
                None => zone,
                Some(DataType::Timestamp(TimeUnit::Nanosecond, zone)) => zone,
                Some(_) => return None,
            };
            let in_nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
            let fine = ScalarValue::from(text).cast_to(&in_nanoseconds).is_ok();
            let in_microseconds = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
            (!fine && kept(text, &in_microseconds)).then(|| cast(lit(text), in_microseconds))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let (text, said) = time_text(value)?;
            let finer = said == Some(&DataType::Time64(TimeUnit::Nanosecond));
            (finer && kept(text, wanted)).then(|| cast(lit(text), wanted.clone()))
        }
        DataType::Decimal256(DECIMAL256_MAX_PRECISION, BIGNUMERIC_SCALE) => {
            let number = float(value)?;
            let text = number.to_string();
            let digits = fractional_digits(&text);
            if !number.is_finite() || digits > BIGNUMERIC_SCALE.unsigned_abs().into() {
                return None;
            }
            let decimal =
                parse_decimal::<Decimal256Type>(&text, DECIMAL256_MAX_PRECISION, BIGNUMERIC_SCALE)
                    .ok()?;
            let decimal =
                ScalarValue::Decimal256(Some(decimal), DECIMAL256_MAX_PRECISION, BIGNUMERIC_SCALE);
            Some(Expr::Literal(decimal, None))
        }
        _ => None,
    }
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
