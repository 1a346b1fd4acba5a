//! What INSERT means before a plan is optimized.
//!
//! DataFusion plans an INSERT as a projection to the table's columns: values are
//! cast to the table's types, and columns that the statement leaves out are filled.
//! The casts would cut values that a column cannot hold (nanoseconds, digits after
//! the point) without a word, and a column that was left out could not be told from
//! an explicit NULL. [`PlanInserts`] undoes both for BigQuery's tables: the sink
//! gets the values as they are, converts them itself and finds out which cannot be
//! kept, and columns that were left out are not in its input at all.
//!
//! Under a failure policy that leaves rows out, such a cast says beside the values
//! which it could not keep, and the sink leaves out their rows.
//!
//! `VALUES` is cast to the table's types even before that projection; [`values`] undoes
//! that, too.
//!
//! [`values`]: super::values

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::DefaultTableSource;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable, LogicalPlan, Projection, TableSource, WriteOp,
};
use datafusion::optimizer::AnalyzerRule;

use super::change_table::BigQueryChangeTable;
use super::digest::digest;
use super::exact_cast::Misfit;
use super::provider::BigQueryTable;
use super::values::{as_written, exact, exactly};
use super::writing::InsertTerms;
use crate::options::BigQueryOptions;
use crate::sink::checked_metadata;

/// The metadata of a literal that stands for a column that was left out.
const LEFT_OUT: &str = "datafusion_bigquery.left_out";

static LEFT_OUT_MARK: LazyLock<FieldMetadata> =
    LazyLock::new(|| FieldMetadata::from(HashMap::from([(LEFT_OUT.to_string(), String::new())])));

/// What DataFusion is told to fill columns with that a statement leaves out: a NULL
/// that can be told from one that was said.
#[derive(Debug, Default)]
pub(super) struct LeftOut(OnceLock<HashMap<String, Expr>>);

impl LeftOut {
    /// The filling of a column of `schema`, which is always the same one.
    pub(super) fn column(&self, schema: &Schema, name: &str) -> Option<&Expr> {
        let columns = self.0.get_or_init(|| {
            let fields = schema.fields().iter();
            fields
                .filter_map(|field| Some((field.name().clone(), left_out(field.data_type())?)))
                .collect()
        });
        columns.get(name)
    }
}

fn left_out(data_type: &DataType) -> Option<Expr> {
    let null = ScalarValue::try_from(data_type).ok()?;
    Some(Expr::Literal(null, Some(LEFT_OUT_MARK.clone())))
}

fn is_left_out(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(value, Some(metadata)) => {
            value.is_null() && metadata.inner().contains_key(LEFT_OUT)
        }
        Expr::Cast(cast) => is_left_out(&cast.expr),
        Expr::Alias(alias) => is_left_out(&alias.expr),
        _ => false,
    }
}

/// Gives sinks the values of an INSERT as they are.
#[derive(Debug)]
pub(crate) struct PlanInserts;

impl AnalyzerRule for PlanInserts {
    fn name(&self) -> &str {
        "plan_bigquery_inserts"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let defaults = BigQueryOptions::of(config);
        plan.transform_down(|plan| {
            let LogicalPlan::Dml(statement) = plan else {
                return Ok(Transformed::no(plan));
            };
            refuse_unless_changes(&statement)?;
            let target = target(&statement);
            let table = target.as_deref();
            let statement = if let Some(table) = table.and_then(|t| t.downcast_ref()) {
                let table: &BigQueryTable = table;
                let operation = statement.op.name();
                let named = table.of_statement(digest(operation, &statement.input)?);
                let named = Arc::new(DefaultTableSource::new(Arc::new(named)));
                insert(statement, named, &table.insert_terms(&defaults)?)?
            } else if let Some(table) = table.and_then(|t| t.downcast_ref()) {
                let table: &BigQueryChangeTable = table;
                let itself = Arc::clone(&statement.target);
                insert(statement, itself, &table.insert_terms(&defaults)?)?
            } else {
                return Ok(Transformed::no(LogicalPlan::Dml(statement)));
            };
            let statement = LogicalPlan::Dml(statement);
            Ok(Transformed::new(statement, true, TreeNodeRecursion::Jump))
        })
        .map(|transformed| transformed.data)
    }
}

/// Refuses what a table of changes does not take before the statement's own reading of
/// the table is planned, whose refusal would speak of reading.
fn refuse_unless_changes(statement: &DmlStatement) -> Result<()> {
    let source = statement.target.downcast_ref::<DefaultTableSource>();
    let table = source.and_then(|source| source.table_provider.as_ref().downcast_ref());
    let Some(table): Option<&BigQueryChangeTable> = table else {
        return Ok(());
    };
    match statement.op {
        WriteOp::Update => table.refuse_update(),
        WriteOp::Delete => table.refuse_delete(),
        _ => Ok(()),
    }
}

/// The table of an INSERT.
fn target(statement: &DmlStatement) -> Option<Arc<dyn TableProvider>> {
    if !matches!(statement.op, WriteOp::Insert(_)) {
        return None;
    }
    let source = statement.target.downcast_ref::<DefaultTableSource>()?;
    Some(Arc::clone(&source.table_provider))
}

/// The INSERT of values as they are, into `target`.
fn insert(
    statement: DmlStatement,
    target: Arc<dyn TableSource>,
    terms: &InsertTerms<'_>,
) -> Result<DmlStatement> {
    let columns = statement.target.schema();
    let input = Arc::unwrap_or_clone(statement.input);
    let input = match input {
        LogicalPlan::Projection(projection) if is_of_insert(&projection, &columns) => {
            let source = Arc::unwrap_or_clone(projection.input);
            let source = as_written(source, &projection.expr, terms)?;
            let expressions = projection
                .expr
                .into_iter()
                .filter(|expression| !is_left_out(expression))
                .map(|expression| uncast(expression, source.schema(), terms))
                .collect::<Result<_>>()?;
            LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(source))?)
        }
        other => exact(other)?,
    };
    Ok(DmlStatement::new(
        statement.table_name,
        target,
        statement.op,
        Arc::new(input),
    ))
}

/// Whether the projection is the one that DataFusion puts under an INSERT: one
/// expression for each of the table's columns, called like it.
fn is_of_insert(projection: &Projection, columns: &SchemaRef) -> bool {
    projection.expr.len() == columns.fields().len()
        && projection
            .expr
            .iter()
            .zip(columns.fields())
            .all(|(expression, column)| match expression {
                Expr::Alias(alias) => alias.name == *column.name(),
                _ => false,
            })
}

/// A column as it is, under the name of the one that it goes to, if the sink takes
/// its type.
fn uncast(expression: Expr, source: &DFSchema, terms: &InsertTerms<'_>) -> Result<Expr> {
    let Expr::Alias(mut alias) = expression else {
        return Ok(expression);
    };
    if let Expr::Cast(cast) = alias.expr.as_ref()
        && matches!(cast.expr.as_ref(), Expr::Column(_))
    {
        let from = cast.expr.get_type(source)?;
        let is_told = terms.misfit == Misfit::IsTold && is_checked(&cast.expr, source);
        *alias.expr = match is_told || terms.takes(&alias.name, &from) {
            true => cast.expr.as_ref().clone(),
            false => {
                let cast = alias.expr.as_ref().clone();
                exactly(cast, terms.goal(&alias.name), None, terms.misfit)
            }
        };
    }
    Ok(Expr::Alias(alias))
}

/// Whether a column is of values that were cast already, with what could not be.
fn is_checked(column: &Expr, source: &DFSchema) -> bool {
    let Expr::Column(column) = column else {
        return false;
    };
    let field = source.qualified_field_from_column(column);
    field.is_ok_and(|(_, field)| *field.metadata() == checked_metadata())
}
