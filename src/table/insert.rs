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
//! `VALUES` is cast to the table's types even before that projection. Where a column
//! of it has values of one type, the casts are undone too. Where its types differ,
//! in a `VALUES` deeper inside the query, and from types that the sink does not take
//! (text for an INT64), each cast becomes an [`ExactCast`], which fails where a cast
//! would change the value.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::DefaultTableSource;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable, LogicalPlan, Projection, ScalarUDF, TableSource, Values,
    WriteOp, cast,
};
use datafusion::optimizer::AnalyzerRule;

use super::change_table::BigQueryChangeTable;
use super::digest::digest;
use super::exact_cast::{ExactCast, Misfit};
use super::provider::BigQueryTable;
use super::writing::InsertTerms;
use crate::options::BigQueryOptions;
use crate::sink::{checked_metadata, checked_type};

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
            let target = target(&statement);
            let table = target.as_deref();
            let statement = if let Some(table) = table.and_then(|t| t.downcast_ref()) {
                let table: &BigQueryTable = table;
                let named = table.of_statement(digest(&statement.input)?);
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
            let source = match Arc::unwrap_or_clone(projection.input) {
                LogicalPlan::Values(values) => {
                    LogicalPlan::Values(as_written(values, &projection.expr, terms)?)
                }
                source => exact(source)?,
            };
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
                exactly(cast, Some(&alias.name), None, terms.misfit)
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

/// `VALUES` with the types that were written, where the sink takes them.
fn as_written(values: Values, projection: &[Expr], terms: &InsertTerms<'_>) -> Result<Values> {
    let mut rows = values.values;
    let mut fields = Vec::with_capacity(values.schema.fields().len());
    for (column, field) in values.schema.fields().iter().enumerate() {
        let goes_to = goes_to(field.name(), projection);
        let written = rows
            .iter()
            .filter_map(|row| written_type(&row[column]).transpose())
            .collect::<Result<Vec<_>>>()?;
        let alike = written
            .first()
            .filter(|first| written.iter().all(|other| other == *first))
            .filter(|only| goes_to.is_some_and(|goes_to| terms.takes(goes_to, only)));
        let Some(data_type) = alike else {
            // Values of columns that go nowhere are no rows' values.
            let misfit = match goes_to {
                Some(_) if !written.is_empty() => terms.misfit,
                _ => Misfit::Fails,
            };
            for (number, row) in rows.iter_mut().enumerate() {
                let value = std::mem::take(&mut row[column]);
                let value = match misfit {
                    Misfit::Fails => value,
                    // All values of the column have to be of one type.
                    Misfit::IsTold if matches!(value, Expr::Cast(_)) => value,
                    Misfit::IsTold => cast(value, field.data_type().clone()),
                };
                row[column] = exactly(value, goes_to, Some(number + 1), misfit);
            }
            fields.push(match misfit {
                Misfit::Fails => Arc::clone(field),
                Misfit::IsTold => {
                    let told = Field::new(field.name(), checked_type(field.data_type()), true);
                    Arc::new(told.with_metadata(checked_metadata()))
                }
            });
            continue;
        };
        for row in &mut rows {
            row[column] = match std::mem::take(&mut row[column]) {
                Expr::Cast(cast) => *cast.expr,
                Expr::Literal(value, metadata) if value.is_null() => {
                    Expr::Literal(ScalarValue::try_from(data_type)?, metadata)
                }
                other => other,
            };
        }
        fields.push(Arc::new(Field::new(field.name(), data_type.clone(), true)));
    }
    let schema = DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?;
    Ok(Values {
        schema: Arc::new(schema),
        values: rows,
    })
}

/// The name of the column that a column of `VALUES` goes to.
fn goes_to<'a>(column: &str, projection: &'a [Expr]) -> Option<&'a str> {
    projection.iter().find_map(|expression| match expression {
        Expr::Alias(alias) => {
            let from = match alias.expr.as_ref() {
                Expr::Cast(cast) => cast.expr.as_ref(),
                other => other,
            };
            let found = matches!(from, Expr::Column(from) if from.name == column);
            found.then_some(alias.name.as_str())
        }
        _ => None,
    })
}

/// The type of a value before it was cast to the table's; None for a bare NULL.
fn written_type(value: &Expr) -> Result<Option<DataType>> {
    let schema = DFSchema::empty();
    match value {
        Expr::Literal(value, _) if value.is_null() => Ok(None),
        Expr::Cast(cast) => cast.expr.get_type(&schema).map(Some),
        other => other.get_type(&schema).map(Some),
    }
}

/// The plan with exact casts in every `VALUES`.
fn exact(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_down_with_subqueries(|plan| match plan {
        LogicalPlan::Values(mut values) => {
            for row in &mut values.values {
                for value in row {
                    *value = exactly(std::mem::take(value), None, None, Misfit::Fails);
                }
            }
            Ok(Transformed::yes(LogicalPlan::Values(values)))
        }
        other => Ok(Transformed::no(other)),
    })
    .map(|transformed| transformed.data)
}

/// The value with the outermost cast, if there is one, made exact.
fn exactly(value: Expr, column: Option<&str>, row: Option<usize>, misfit: Misfit) -> Expr {
    match value {
        Expr::Cast(cast) => {
            let to = cast.field.data_type().clone();
            let function = ExactCast::new(to, column.map(str::to_string), row, misfit);
            ScalarUDF::from(function).call(vec![*cast.expr])
        }
        other => other,
    }
}
