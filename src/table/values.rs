//! `VALUES` in the source of an INSERT.
//!
//! DataFusion casts its columns to the types of the inserted columns, one by one, wherever
//! in the query it stands. Where a column goes to the table as it is, through nothing but
//! projections, conditions and orders that do not look at it, the casts are undone if its
//! values are of one type that the sink takes. Else, and where the failure policy leaves
//! rows out, they say beside the values what could not be kept. Where something
//! computes with a column (an expression, a join, a group), each cast becomes an
//! [`ExactCast`], which fails the statement where a cast would change the value, whatever
//! the policy: there is no row yet that could be left out.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{
    Expr, ExprSchemable, Filter, Limit, LogicalPlan, Projection, ScalarUDF, Sort, SubqueryAlias,
    Values, cast,
};

use super::exact_cast::{ExactCast, Goal, Misfit};
use super::writing::InsertTerms;
use crate::sink::{checked_metadata, checked_type};

/// Where the columns of a plan go.
#[derive(Debug, Clone)]
struct Columns {
    /// The table's column that each goes to as it is, if there is one.
    go_to: Vec<Option<String>>,
    /// Whether the plan's rows are those of the INSERT, in this order.
    numbered: bool,
}

impl Columns {
    /// The columns below `expressions`, whose own go where `above` says. None when one of
    /// them cannot be found.
    fn below(expressions: &[Expr], above: &[Option<String>], input: &DFSchema) -> Option<Self> {
        let mut go_to = vec![None; input.fields().len()];
        let mut uses = vec![0_usize; input.fields().len()];
        for (expression, goes_to) in expressions.iter().zip(above) {
            let plain = is_plain(expression);
            for column in expression.column_refs() {
                let at = input.maybe_index_of_column(column)?;
                uses[at] += 1;
                if plain {
                    go_to[at].clone_from(goes_to);
                }
            }
        }
        for (goes_to, uses) in go_to.iter_mut().zip(uses) {
            if uses != 1 {
                *goes_to = None;
            }
        }
        Some(Self {
            go_to,
            numbered: false,
        })
    }

    /// The same below something that looks at columns. None when one of them cannot be
    /// found.
    fn unread<'a>(&self, by: impl IntoIterator<Item = &'a Expr>, input: &DFSchema) -> Option<Self> {
        let mut go_to = self.go_to.clone();
        for expression in by {
            for column in expression.column_refs() {
                *go_to.get_mut(input.maybe_index_of_column(column)?)? = None;
            }
        }
        Some(Self {
            go_to,
            numbered: false,
        })
    }
}

/// Whether the expression is a column as it is.
fn is_plain(expression: &Expr) -> bool {
    match expression {
        Expr::Column(_) => true,
        Expr::Alias(alias) => is_plain(&alias.expr),
        _ => false,
    }
}

/// The source of an INSERT, whose columns `projection` casts to those of the table, with
/// `VALUES` as it was written.
pub(super) fn as_written(
    source: LogicalPlan,
    projection: &[Expr],
    terms: &InsertTerms<'_>,
) -> Result<LogicalPlan> {
    let fields = source.schema().fields();
    let go_to = fields
        .iter()
        .map(|field| goes_to(field.name(), projection).map(str::to_string))
        .collect();
    let columns = Columns {
        go_to,
        numbered: true,
    };
    within(source, &columns, terms)
}

fn within(plan: LogicalPlan, columns: &Columns, terms: &InsertTerms<'_>) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Values(values) => Ok(LogicalPlan::Values(written(values, columns, terms)?)),
        LogicalPlan::SubqueryAlias(alias) => {
            let input = within(Arc::unwrap_or_clone(alias.input), columns, terms)?;
            let alias = SubqueryAlias::try_new(Arc::new(input), alias.alias)?;
            Ok(LogicalPlan::SubqueryAlias(alias))
        }
        LogicalPlan::Projection(projection) if !any_subquery(&projection.expr) => {
            let input = projection.input.schema();
            match Columns::below(&projection.expr, &columns.go_to, input) {
                None => exact(LogicalPlan::Projection(projection)),
                Some(below) => {
                    let input = within(Arc::unwrap_or_clone(projection.input), &below, terms)?;
                    let projection = Projection::try_new(projection.expr, Arc::new(input))?;
                    Ok(LogicalPlan::Projection(projection))
                }
            }
        }
        LogicalPlan::Filter(filter) if !any_subquery([&filter.predicate]) => {
            match columns.unread([&filter.predicate], filter.input.schema()) {
                None => exact(LogicalPlan::Filter(filter)),
                Some(below) => {
                    let input = within(Arc::unwrap_or_clone(filter.input), &below, terms)?;
                    let filter = Filter::try_new(filter.predicate, Arc::new(input))?;
                    Ok(LogicalPlan::Filter(filter))
                }
            }
        }
        LogicalPlan::Sort(sort) if !any_subquery(sort.expr.iter().map(|by| &by.expr)) => {
            let by = sort.expr.iter().map(|by| &by.expr);
            match columns.unread(by, sort.input.schema()) {
                None => exact(LogicalPlan::Sort(sort)),
                Some(below) => {
                    let input = within(Arc::unwrap_or_clone(sort.input), &below, terms)?;
                    Ok(LogicalPlan::Sort(Sort {
                        input: Arc::new(input),
                        ..sort
                    }))
                }
            }
        }
        LogicalPlan::Limit(limit) => {
            let below = Columns {
                numbered: false,
                ..columns.clone()
            };
            let input = within(Arc::unwrap_or_clone(limit.input), &below, terms)?;
            Ok(LogicalPlan::Limit(Limit {
                input: Arc::new(input),
                ..limit
            }))
        }
        other => exact(other),
    }
}

/// Whether any of the expressions asks a query of its own, in which there may be `VALUES`.
fn any_subquery<'a>(expressions: impl IntoIterator<Item = &'a Expr>) -> bool {
    expressions.into_iter().any(|expression| {
        let found = expression.exists(|part| {
            Ok(matches!(
                part,
                Expr::ScalarSubquery(_)
                    | Expr::InSubquery(_)
                    | Expr::Exists(_)
                    | Expr::SetComparison(_)
            ))
        });
        found.unwrap_or(true)
    })
}

/// The name of the column that a column of the source goes to.
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

/// `VALUES` with the types that were written, where the sink takes them.
fn written(values: Values, columns: &Columns, terms: &InsertTerms<'_>) -> Result<Values> {
    let mut rows = values.values;
    let mut fields = Vec::with_capacity(values.schema.fields().len());
    for (column, field) in values.schema.fields().iter().enumerate() {
        let goes_to = columns.go_to.get(column).and_then(Option::as_deref);
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
            let goal = goes_to.and_then(|goes_to| terms.goal(goes_to));
            for (number, row) in rows.iter_mut().enumerate() {
                let value = std::mem::take(&mut row[column]);
                let value = match misfit {
                    Misfit::Fails => value,
                    // All values of the column have to be of one type.
                    Misfit::IsTold if matches!(value, Expr::Cast(_)) => value,
                    Misfit::IsTold => cast(value, field.data_type().clone()),
                };
                let row_number = columns.numbered.then_some(number + 1);
                row[column] = exactly(value, goal.clone(), row_number, misfit);
            }
            fields.push(match misfit {
                // A NULL for a REQUIRED column is for the sink to find, which names its row.
                Misfit::Fails => Arc::new(field.as_ref().clone().with_nullable(true)),
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
pub(super) fn exact(plan: LogicalPlan) -> Result<LogicalPlan> {
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
pub(super) fn exactly(value: Expr, goal: Option<Goal>, row: Option<usize>, misfit: Misfit) -> Expr {
    match value {
        Expr::Cast(cast) => {
            let to = cast.field.data_type().clone();
            let function = ExactCast::new(to, goal, row, misfit);
            ScalarUDF::from(function).call(vec![*cast.expr])
        }
        other => other,
    }
}
