//! GoogleSQL's functions, operators and casts: which exist, which argument types
//! they take, and what they compute.
//!
//! The contract with the analyzer (`engine::query`), which calls [`resolve`] once per
//! call site and [`cast`] once per conversion, explicit or implicit:
//!
//! - Types are [`Field`]s of the schema module, whose name means nothing here. An
//!   array is a REPEATED field; precision, scale and maximum length are absent;
//!   `collation` travels along. Arrow forms are those of
//!   [`crate::schema::arrow_field`], everywhere and without exception (Utf8, not
//!   views; DATETIME without zone, TIMESTAMP in UTC, microseconds;
//!   Decimal128(38, 9); Decimal256(76, 38)). In the middle of a query an array may
//!   be NULL and may hold NULL elements.
//! - What a function does is fixed by [`resolve`]'s arguments: the UDF that it answers
//!   belongs to this call, knows its types and literals, and never looks at the
//!   metadata of the fields that DataFusion hands it, for the planner loses some.
//! - Names are lower case (`net.host`, `json_value`). Operators are called `$add`,
//!   `$subtract`, `$multiply`, `$divide`, `$unary_minus`, `$concat`, `$equal`,
//!   `$not_equal`, `$less`, `$less_or_equal`, `$greater`, `$greater_or_equal`,
//!   `$like`, `$bitwise_and`, `$bitwise_or`, `$bitwise_xor`, `$bitwise_not`,
//!   `$shift_left`, `$shift_right`, `$is_distinct` (never NULL). AND, OR, NOT, IS NULL, CASE, IF, COALESCE,
//!   IFNULL, NULLIF, IN, BETWEEN, subscripts, field access and the STRUCT and ARRAY
//!   constructors belong to the analyzer.
//! - A date part arrives as a STRING literal in upper case (`DAY`, `WEEK(MONDAY)`):
//!   `DATE_ADD(d, INTERVAL n DAY)` is `date_add(d, n, 'DAY')`, `DATE_TRUNC(d, MONTH)`
//!   is `date_trunc(d, 'MONTH')`, `EXTRACT(HOUR FROM t AT TIME ZONE z)` is
//!   `$extract('HOUR', t, z)`, `INTERVAL n DAY` is `$interval(n, 'DAY')` and
//!   `INTERVAL '1-2' YEAR TO MONTH` is `$interval('1-2', 'YEAR TO MONTH')`.
//!   `NORMALIZE(s, NFD)` and the like get the word as a STRING literal too.
//! - DISTINCT, ORDER BY, LIMIT, IGNORE/RESPECT NULLS and HAVING MAX/MIN inside an
//!   aggregate call, and the SAFE. prefix, are wrapped around the UDF by the
//!   analyzer; an aggregate sees the rows that count, in order.
//! - `count(*)` is `count` without arguments.

mod aggregate;
mod array;
mod arrays;
mod cast;
mod cast_format;
mod catalogue;
mod civil;
mod coercion;
mod collect;
mod dates;
mod decimal;
mod folds;
mod format;
mod geo;
mod geometry;
mod hash;
mod interval;
mod json;
mod json_edit;
mod json_value;
mod math;
mod net;
mod operators;
mod parse_decimal;
mod pattern;
mod regexp;
mod scalar;
mod signature;
mod strftime;
mod strings;
mod text;
mod times;
mod types;
mod value;
mod window;
mod words;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use datafusion::scalar::ScalarValue;

pub(crate) use catalogue::{FunctionKind, kind, takes_named};
pub(crate) use coercion::{Literalness, distance, supertype};
pub(crate) use types::SqlType;

use crate::error::{Result, ServiceError};
use crate::schema::Field;

/// An argument of a call, as far as analysis knows it.
#[derive(Debug, Clone)]
pub struct Argument {
    /// Type. An untyped NULL says INT64, an empty array literal ARRAY<INT64>.
    pub field: Field,
    /// The value of a literal, which coerces more freely than a column: an untyped
    /// NULL is [`ScalarValue::Null`]; a STRING literal becomes a DATE, an INT64
    /// literal a FLOAT64, and so on where a signature wants it.
    pub literal: Option<ScalarValue>,
    /// A query parameter: not a literal, but coerces as one.
    pub parameter: bool,
}

/// What to call.
#[derive(Debug, Clone)]
pub enum Function {
    /// A value from values.
    Scalar(Arc<ScalarUDF>),
    /// A value from rows, also usable with OVER.
    Aggregate(Arc<AggregateUDF>),
    /// A value from a window only.
    Window(Arc<WindowUDF>),
}

/// A call whose signature matched.
#[derive(Debug, Clone)]
pub struct Call {
    /// What to call.
    pub function: Function,
    /// The types to which the arguments must be coerced, one each.
    pub arguments: Vec<Field>,
    /// Type of the result.
    pub returns: Field,
}

/// What a failing conversion does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CastMode {
    /// Fails the query.
    Strict,
    /// Answers NULL.
    Safe,
}

static SCALARS: LazyLock<HashMap<&'static str, Arc<scalar::Definition>>> = LazyLock::new(|| {
    catalogue::scalars()
        .into_iter()
        .map(|d| (d.name, Arc::new(d)))
        .collect()
});

static AGGREGATES: LazyLock<HashMap<&'static str, Arc<aggregate::AggregateDefinition>>> =
    LazyLock::new(|| {
        folds::definitions()
            .into_iter()
            .chain(collect::definitions())
            .map(|d| (d.name, Arc::new(d)))
            .collect()
    });

static WINDOWS: LazyLock<HashMap<&'static str, Arc<window::WindowDefinition>>> =
    LazyLock::new(|| {
        window::definitions()
            .into_iter()
            .map(|d| (d.name, Arc::new(d)))
            .collect()
    });

/// Finds the function called `name` (lower case) that takes `arguments`.
///
/// Errors: `Function not found: f` for a name that GoogleSQL does not have,
/// [`ServiceError::unsupported`] for one that is missing here, and
/// `No matching signature for function F …` / `… for operator = …` for wrong
/// argument types.
pub fn resolve(name: &str, arguments: &[Argument]) -> Result<Call> {
    let arguments: Vec<signature::Argument> = arguments.iter().map(Into::into).collect();
    if let Some(definition) = SCALARS.get(name) {
        let resolved = definition.resolve(&arguments)?;
        let (arguments, returns) = resolved.columns();
        return Ok(Call {
            function: Function::Scalar(scalar::bind(definition, resolved)),
            arguments,
            returns,
        });
    }
    if name == "count" {
        return count(&arguments);
    }
    if let Some(definition) = AGGREGATES.get(name) {
        let resolved = definition.resolve(&arguments)?;
        let (arguments, returns) = resolved.columns();
        return Ok(Call {
            function: Function::Aggregate(aggregate::bind(definition, resolved)),
            arguments,
            returns,
        });
    }
    if let Some(definition) = WINDOWS.get(name) {
        let resolved = definition.resolve(&arguments)?;
        let (arguments, returns) = resolved.columns();
        return Ok(Call {
            function: Function::Window(window::bind(definition, resolved)),
            arguments,
            returns,
        });
    }
    Err(match kind(name) {
        Some(_) => {
            ServiceError::unsupported(format_args!("Function {}", name.to_ascii_uppercase()))
        }
        None => ServiceError::invalid_query(format!("Function not found: {name}")),
    })
}

/// COUNT is DataFusion's own, which counts rows and values as GoogleSQL does.
fn count(arguments: &[signature::Argument]) -> Result<Call> {
    if arguments.len() > 1 {
        return signature::no_signature("count", arguments, &[]);
    }
    Ok(Call {
        function: Function::Aggregate(datafusion::functions_aggregate::count::count_udaf()),
        arguments: arguments
            .iter()
            .map(|a| match &a.sql_type {
                SqlType::Null => SqlType::Int64.to_column(""),
                t => t.to_column(""),
            })
            .collect(),
        returns: SqlType::Int64.to_column(""),
    })
}

/// The conversion from one type to another as a function of one argument, or of two
/// or three with FORMAT: value, format string and time zone. A precision, scale or
/// maximum length of `to` is checked.
///
/// Errors: `Invalid cast from X to Y`.
pub fn cast(from: &Field, to: &Field, mode: CastMode) -> Result<Arc<ScalarUDF>> {
    cast::bind(from, to, mode)
}
