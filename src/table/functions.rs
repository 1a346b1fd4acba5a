//! The table functions `bigquery_query` and `bigquery_scan`.
//!
//! ```sql
//! SELECT * FROM bigquery_query('SELECT …', parameters => [5, 'x'], location => 'EU')
//! SELECT * FROM bigquery_scan('project.dataset.table', snapshot_time => now() - INTERVAL '1' HOUR)
//! ```
//!
//! Arguments after the first are named: `parameters`, or an option by its name
//! with or without its `scan.`.

use std::sync::Arc;
use std::time::Duration;

use datafusion::catalog::TableProvider;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, TableFunctionArgs,
};

use super::provider::{BigQueryTable, Origin, TableContext};
use super::shared::Shared;
use super::version::{constant, instant};
use crate::client::background;
use crate::client::rest::jobs::QueryParameters;
use crate::error::{Error, ErrorKind, Result};
use crate::options::registry::{self, PROJECT, SCAN_QUERY, SCAN_SNAPSHOT_TIME};
use crate::options::{BigQueryOptions, Options, RawOptions};
use crate::query::{BigQueryQueryTable, QueryContext, parameters};
use crate::types::TableRef;

/// How long planning waits for the service to describe a query or table.
const PATIENCE: Duration = Duration::from_secs(300);

/// The functions of this library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Query,
    Scan,
}

impl Function {
    /// The function of this name, in any case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "bigquery_query" => Some(Function::Query),
            "bigquery_scan" => Some(Function::Scan),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Function::Query => "bigquery_query",
            Function::Scan => "bigquery_scan",
        }
    }

    fn takes(self) -> &'static str {
        match self {
            Function::Query => "a query in quotes, as in bigquery_query('SELECT …')",
            Function::Scan => {
                "a table's full name in quotes, as in bigquery_scan('project.dataset.table')"
            }
        }
    }

    /// The table that a call means. Waits for the service, because the planner
    /// cannot.
    pub(crate) fn call(
        self,
        shared: &Shared,
        arguments: TableFunctionArgs,
        context: &mut dyn RelationPlannerContext,
    ) -> DataFusionResult<Arc<dyn TableProvider>> {
        let said = self
            .arguments(arguments, context)
            .map_err(|error| error.context(self.name().to_string()))?;
        let defaults = BigQueryOptions::of(context.context_provider().options());
        let opened = match self {
            Function::Query => query(shared, said, defaults),
            Function::Scan => scan(shared, said, defaults),
        };
        opened.map_err(|error| error.with_context(self.name()).into())
    }

    fn arguments(
        self,
        arguments: TableFunctionArgs,
        context: &mut dyn RelationPlannerContext,
    ) -> DataFusionResult<Said> {
        let refuse = |message: String| -> DataFusionError {
            Error::new(ErrorKind::InvalidArgument, message).into()
        };
        let mut subject = None;
        let mut options = RawOptions::new();
        let mut parameters = QueryParameters::None;
        for argument in arguments.args {
            let (name, value) = match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (None, value),
                FunctionArg::Named {
                    name,
                    arg: FunctionArgExpr::Expr(value),
                    ..
                } => (Some(name.value), value),
                FunctionArg::ExprNamed {
                    name: SqlExpr::Identifier(name),
                    arg: FunctionArgExpr::Expr(value),
                    ..
                } => (Some(name.value), value),
                other => {
                    return Err(refuse(format!("the argument {other} has no value")));
                }
            };
            match name {
                None if subject.is_none() => {
                    let value = value_of(value, context)?;
                    let text = match &value {
                        ScalarValue::Utf8(Some(text))
                        | ScalarValue::LargeUtf8(Some(text))
                        | ScalarValue::Utf8View(Some(text)) => text.clone(),
                        _ => return Err(refuse(format!("it takes {}", self.takes()))),
                    };
                    subject = Some(text);
                }
                None => {
                    return Err(refuse(format!(
                        "it takes {}, and what follows is named, as in location => 'EU'",
                        self.takes()
                    )));
                }
                Some(name) if name.eq_ignore_ascii_case("parameters") => {
                    if self == Function::Scan {
                        return Err(refuse("a table has no parameters".to_string()));
                    }
                    if parameters != QueryParameters::None {
                        return Err(refuse("'parameters' is said twice: keep one".to_string()));
                    }
                    parameters = parameters_of(value, context)?;
                }
                Some(name) => set(&mut options, &name, value, context)?,
            }
        }
        let Some(subject) = subject else {
            return Err(refuse(format!("it takes {}", self.takes())));
        };
        Ok(Said {
            subject,
            options,
            parameters,
        })
    }
}

/// The arguments of a call.
struct Said {
    subject: String,
    options: RawOptions,
    parameters: QueryParameters,
}

fn query(shared: &Shared, said: Said, defaults: RawOptions) -> Result<Arc<dyn TableProvider>> {
    let mut own = said.options;
    own.set(SCAN_QUERY.name, &said.subject)?;
    let mut for_queries = defaults.clone();
    for_queries.unset(registry::SCAN_MATERIALIZE_VIEWS.name)?;
    let options = Options::resolve_over(&own, &for_queries)?;
    let connection = &options.connection;
    let project = connection
        .billing_project
        .clone()
        .or_else(|| options.table.project.clone())
        .ok_or_else(|| {
            Error::configuration(format!(
                "no project runs the query: say one as {} => 'my-project', or for the session \
                 with option '{}'",
                PROJECT.name, PROJECT.name
            ))
        })?;
    let context = QueryContext {
        client: shared.client_to_wait_for(connection)?,
        shared: Arc::clone(&shared.runs),
        options: own,
    };
    let opened = background::run(
        async move {
            BigQueryQueryTable::open(context, project, said.subject, said.parameters, &defaults)
                .await
        },
        PATIENCE,
    )?;
    Ok(Arc::new(opened))
}

fn scan(shared: &Shared, said: Said, defaults: RawOptions) -> Result<Arc<dyn TableProvider>> {
    if said.options.get(&SCAN_QUERY).is_some() {
        return Err(Error::configuration(
            "it reads a table: a query is read with bigquery_query('SELECT …')",
        ));
    }
    let table: TableRef = said.subject.parse()?;
    let options = Options::resolve_over(&said.options, &defaults)?;
    let context = TableContext {
        client: shared.client_to_wait_for(&options.connection)?,
        snapshots: Arc::clone(&shared.snapshots),
        runs: Arc::clone(&shared.runs),
        options: said.options,
        origin: Origin::Declared,
    };
    let opened = background::run(
        async move { BigQueryTable::live(&context, table, &defaults).await },
        PATIENCE,
    )?;
    Ok(Arc::new(opened))
}

fn value_of(
    value: SqlExpr,
    context: &mut dyn RelationPlannerContext,
) -> DataFusionResult<ScalarValue> {
    let expression = context.sql_to_expr(value, &DFSchema::empty())?;
    let config = context.context_provider().options();
    Ok(constant(&expression, None, config)?)
}

/// `[a, b]` and `(a, b)` are positional, each with a type of its own; a struct
/// is named.
fn parameters_of(
    value: SqlExpr,
    context: &mut dyn RelationPlannerContext,
) -> DataFusionResult<QueryParameters> {
    let elements = match value {
        SqlExpr::Array(array) => array.elem,
        SqlExpr::Tuple(elements) => elements,
        // One value in parentheses.
        SqlExpr::Nested(only) => vec![*only],
        other => {
            let text = other.to_string();
            let value = value_of(other, context)?;
            let named = parameters::named(&value).ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "parameters => {text} is neither a list, as [5, 'x'] for ? and ?, nor a \
                         struct, as named_struct('least', 5) for @least"
                    ),
                )
            })??;
            return Ok(QueryParameters::Named(named));
        }
    };
    let mut values = Vec::with_capacity(elements.len());
    for (position, element) in elements.into_iter().enumerate() {
        let value = value_of(element, context)?;
        let parameter = parameters::parameter(&value)
            .map_err(|error| error.with_context(format!("parameter {}", position + 1)))?;
        values.push(parameter);
    }
    Ok(QueryParameters::Positional(values))
}

/// Says an option by its name, with or without its `scan.`.
fn set(
    options: &mut RawOptions,
    name: &str,
    value: SqlExpr,
    context: &mut dyn RelationPlannerContext,
) -> DataFusionResult<()> {
    let row = registry::find(name)
        .or_else(|error| registry::find(&format!("scan.{name}")).map_err(|_| error))?;
    if options.get(row).is_some() {
        return Err(Error::configuration(format!(
            "option '{}' is said twice: keep one of the two",
            row.name
        ))
        .into());
    }
    let text = if row.name == SCAN_SNAPSHOT_TIME.name {
        let expression = context.sql_to_expr(value, &DFSchema::empty())?;
        let config = context.context_provider().options();
        instant(&expression, None, config)?.to_rfc3339()
    } else {
        let value = value_of(value, context)?;
        match &value {
            ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text))
            | ScalarValue::Utf8View(Some(text)) => text.clone(),
            ScalarValue::Boolean(Some(_))
            | ScalarValue::Int64(Some(_))
            | ScalarValue::UInt64(Some(_))
            | ScalarValue::Float64(Some(_))
            | ScalarValue::Decimal128(Some(_), ..) => value.to_string(),
            _ => {
                return Err(Error::configuration(format!(
                    "option '{}' cannot be {value}: it must be {}",
                    row.name,
                    row.form.allowed()
                ))
                .into());
            }
        }
    };
    options.set(row.name, &text)?;
    Ok(())
}
