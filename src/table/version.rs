//! What a statement says of the one place where it names a table: as of when it
//! is read, and how much of it.

use chrono::{DateTime, Utc};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::catalog::Session;
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use crate::error::{Error, ErrorKind, Result};
use crate::options::ScanOptions;

/// FOR SYSTEM_TIME AS OF and TABLESAMPLE.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Version {
    /// The time, computed when the statement is planned: `now()` in it is the
    /// statement's beginning, the same for all of its tables.
    pub(crate) as_of: Option<Expr>,
    /// The share of blocks to read, in percent.
    pub(crate) sample: Option<f64>,
}

impl Version {
    /// Whether nothing is said.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Version::default()
    }

    /// Makes the options those of this version.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a time that is none;
    /// [`ErrorKind::Configuration`] for a second sample.
    pub(crate) fn apply(&self, session: &dyn Session, options: &mut ScanOptions) -> Result<()> {
        if let Some(expression) = &self.as_of {
            let began = session.execution_props().query_execution_start_time;
            let time = instant(expression, began, session.config_options())?;
            options.snapshot_time = Some(time);
        }
        if let Some(percentage) = self.sample {
            if options.sample_percentage.is_some() {
                return Err(Error::configuration(
                    "the table has option 'scan.sample_percentage' and the statement TABLESAMPLE: \
                     leave one out",
                ));
            }
            options.sample_percentage = Some(percentage);
        }
        Ok(())
    }
}

/// The value of an expression without columns, as of a statement that began at
/// `began`.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] when it has no value before the statement runs.
pub(crate) fn constant(
    expression: &Expr,
    began: Option<DateTime<Utc>>,
    config: &ConfigOptions,
) -> Result<ScalarValue> {
    let context = SimplifyContext::builder()
        .with_config_options(config.clone().into())
        .with_query_execution_start_time(Some(began.unwrap_or_else(Utc::now)))
        .build();
    let simplifier = ExprSimplifier::new(context);
    let value = simplifier
        .coerce(expression.clone(), &datafusion::common::DFSchema::empty())
        .and_then(|expression| simplifier.simplify(expression))
        .map_err(|error| {
            Error::new(ErrorKind::InvalidArgument, error.strip_backtrace()).with_source(error)
        })?;
    match value {
        Expr::Literal(value, _) => Ok(value),
        Expr::Alias(alias) if matches!(*alias.expr, Expr::Literal(..)) => match *alias.expr {
            Expr::Literal(value, _) => Ok(value),
            _ => unreachable!("matched as a literal"),
        },
        _ => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "{expression} has no value before the statement runs: write a literal or an \
                 expression of literals"
            ),
        )),
    }
}

/// The instant that an expression means. A timestamp or text without a zone is
/// in UTC, a date is its midnight.
pub(crate) fn instant(
    expression: &Expr,
    began: Option<DateTime<Utc>>,
    config: &ConfigOptions,
) -> Result<DateTime<Utc>> {
    let value = constant(expression, began, config)?;
    let wrong = || {
        Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "{expression} is not an instant: write one such as TIMESTAMP \
                 '2024-05-01T12:00:00Z' or now() - INTERVAL '1' HOUR"
            ),
        )
    };
    let takes = matches!(
        value.data_type(),
        DataType::Timestamp(..)
            | DataType::Date32
            | DataType::Date64
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
    );
    if !takes {
        return Err(wrong());
    }
    let to = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    match value.cast_to(&to) {
        Ok(ScalarValue::TimestampMicrosecond(Some(micros), _)) => {
            DateTime::from_timestamp_micros(micros).ok_or_else(wrong)
        }
        Ok(_) | Err(_) => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    fn read(expression: &Expr) -> Result<String> {
        let began = DateTime::from_timestamp(1_700_000_000, 0);
        let time = instant(expression, began, &ConfigOptions::default())?;
        Ok(time.to_rfc3339())
    }

    #[test]
    fn instants_in_their_forms() {
        let nanos = ScalarValue::TimestampNanosecond(Some(1_500_000_000), None);
        let zoned = ScalarValue::TimestampSecond(Some(0), Some("+02:00".into()));
        for (expression, expected) in [
            (lit(nanos), "1970-01-01T00:00:01.500+00:00"),
            (lit(zoned), "1970-01-01T00:00:00+00:00"),
            (
                lit("2024-05-01T12:00:00+02:00"),
                "2024-05-01T10:00:00+00:00",
            ),
            (lit("2024-05-01 12:00:00"), "2024-05-01T12:00:00+00:00"),
            (
                lit(ScalarValue::Date32(Some(1))),
                "1970-01-02T00:00:00+00:00",
            ),
            (datafusion::prelude::now(), "2023-11-14T22:13:20+00:00"),
        ] {
            assert_eq!(read(&expression).unwrap(), expected, "{expression}");
        }
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for expression in [
            lit(5_i64),
            lit("yesterday"),
            lit(ScalarValue::TimestampSecond(None, None)),
            col("a"),
            datafusion::prelude::random(),
        ] {
            assert!(read(&expression).is_err(), "{expression}");
        }
    }
}
