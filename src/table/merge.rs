//! MERGE INTO a table of changes.
//!
//! Changes say what rows are to be, whatever is there. A MERGE is made of them where it
//! says the same: a source row that updates the row of its key where there is one and
//! inserts the same values where there is none is an UPSERT, and one that deletes where
//! there is a row and does nothing where there is none is a DELETE. What looks at the
//! table's own values, or does only half of it, cannot be said by changes and is refused:
//! by its clauses when it is planned, and otherwise row by row.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::dml::{MergeIntoAction, MergeIntoClause, MergeIntoClauseKind};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, lit, when};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;

use super::change_table::BigQueryChangeTable;
use super::same_value::{keeps_values, same_value};
use crate::cdc::{CHANGE_SEQUENCE_NUMBER, CHANGE_TYPE, UNEVEN_MERGE};
use crate::error::{Error, ErrorKind, Result};

const UPSERT: &str = "UPSERT";
const DELETE: &str = "DELETE";

/// The changes that a MERGE with these clauses is made of.
pub(super) async fn changes(
    table: &BigQueryChangeTable,
    session: &dyn Session,
    source: Arc<dyn ExecutionPlan>,
    schema: &DFSchemaRef,
    on: &Expr,
    clauses: &[MergeIntoClause],
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let written = planned(table, session, source, schema, on, clauses)?;
    table.write(session, written).await
}

fn planned(
    table: &BigQueryChangeTable,
    session: &dyn Session,
    source: Arc<dyn ExecutionPlan>,
    schema: &DFSchemaRef,
    on: &Expr,
    clauses: &[MergeIntoClause],
) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let merge = Merge::new(table, schema)?;
    let key = merge.key(on)?;
    let Clauses {
        matched,
        inserts,
        values,
    } = merge.clauses(clauses, &key)?;
    // NULL where no clause is for the row.
    let mut kind = lit(datafusion::common::ScalarValue::Utf8(None));
    for (condition, change) in matched.into_iter().rev() {
        kind = when(condition, lit(change)).otherwise(kind)?;
    }
    let nothing = kind
        .clone()
        .is_null()
        .and(Expr::Not(Box::new(inserts.clone())));
    let upsert = kind.clone().eq(lit(UPSERT)).and(inserts.clone());
    let delete = kind.eq(lit(DELETE)).and(Expr::Not(Box::new(inserts)));
    let change = when(upsert, lit(UPSERT))
        .when(delete, lit(DELETE))
        .otherwise(lit(UNEVEN_MERGE))?;
    let physical = |expression| session.create_physical_expr(expression, &merge.source);
    let wanted = physical(Expr::Not(Box::new(nothing)))?;
    let source: Arc<dyn ExecutionPlan> = Arc::new(FilterExec::try_new(wanted, source)?);
    let mut columns = Vec::with_capacity(values.len() + 1);
    for (name, value) in values {
        columns.push((physical(value)?, name));
    }
    columns.push((physical(change)?, CHANGE_TYPE.to_string()));
    Ok(Arc::new(ProjectionExec::try_new(columns, source)?))
}

struct Merge<'a> {
    table: &'a BigQueryChangeTable,
    schema: &'a DFSchema,
    /// How many of its columns are the table's; the others are the source's.
    own: usize,
    source: DFSchema,
}

/// What the clauses say, as far as changes can say it.
struct Clauses {
    /// For rows of keys that are there: conditions, the first that holds counts.
    matched: Vec<(Expr, &'static str)>,
    /// Whether rows of keys that are not there are inserted.
    inserts: Expr,
    /// The columns of the changes.
    values: Vec<(String, Expr)>,
}

impl<'a> Merge<'a> {
    fn new(table: &'a BigQueryChangeTable, schema: &'a DFSchema) -> DataFusionResult<Self> {
        let own = table.columns();
        let fields = schema.iter().skip(own);
        let fields = fields.map(|(of, field)| (of.cloned(), Arc::clone(field)));
        Ok(Self {
            table,
            schema,
            own,
            source: DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?,
        })
    }

    fn refuse<T>(&self, why: String) -> Result<T> {
        Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "MERGE INTO changes of {}: {why}; run it in BigQuery, or insert the changes",
                self.table.table_ref()
            ),
        ))
    }

    /// Whether two expressions give the same values, whatever they are encoded as.
    fn alike(&self, one: &Expr, other: &Expr) -> bool {
        same_value(one, other, self.schema)
    }

    /// The name of the table's column that an expression is, as far as casts keep its
    /// values apart: compared as something else two keys could be one.
    fn compared_column(&self, expression: &Expr) -> Option<String> {
        match expression {
            Expr::Cast(cast) if keeps_values(cast, self.schema) => self.compared_column(&cast.expr),
            Expr::Column(_) => self.own_column(expression),
            _ => None,
        }
    }

    /// The name of the table's column that an expression is, whatever it is cast to.
    fn own_column(&self, expression: &Expr) -> Option<String> {
        match expression {
            Expr::Column(column) => {
                let at = self.schema.index_of_column(column).ok()?;
                (at < self.own).then(|| column.name.clone())
            }
            Expr::Cast(cast) => self.own_column(&cast.expr),
            _ => None,
        }
    }

    /// Refuses an expression that looks at the table.
    fn of_source(&self, expression: &Expr) -> Result<()> {
        let mut own = None;
        let visited = expression.apply(|part| {
            if matches!(part, Expr::Column(_)) && own.is_none() {
                own = self.own_column(part);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        if visited.is_err() {
            return self.refuse(format!("'{expression}' cannot be looked through"));
        }
        match own {
            None => Ok(()),
            Some(column) => self.refuse(format!(
                "'{expression}' looks at column {column} of the table, and changes are made \
                 without reading it"
            )),
        }
    }

    /// What the columns of the key are equal to.
    fn key(&self, on: &Expr) -> Result<BTreeMap<String, Expr>> {
        let mut found = BTreeMap::new();
        for condition in split_conjunction(on) {
            let sides = match condition {
                Expr::BinaryExpr(BinaryExpr {
                    left,
                    op: Operator::Eq,
                    right,
                }) => match (self.compared_column(left), self.compared_column(right)) {
                    (Some(column), None) => Some((column, right)),
                    (None, Some(column)) => Some((column, left)),
                    _ => None,
                },
                _ => None,
            };
            let Some((column, value)) = sides.filter(|(column, _)| self.table.is_key(column))
            else {
                return self.refuse(format!(
                    "ON must compare the columns of the primary key with values of their own types \
                     from the source and nothing else, not '{condition}'"
                ));
            };
            self.of_source(value)?;
            if found
                .insert(column.clone(), value.as_ref().clone())
                .is_some()
            {
                return self.refuse(format!("ON compares column {column} twice"));
            }
        }
        match self
            .table
            .key()
            .iter()
            .find(|column| !found.contains_key(*column))
        {
            None => Ok(found),
            Some(missing) => self.refuse(format!(
                "ON must compare all columns of the primary key, and {missing} is not"
            )),
        }
    }

    fn clauses(
        &self,
        clauses: &[MergeIntoClause],
        key: &BTreeMap<String, Expr>,
    ) -> Result<Clauses> {
        let mut matched = Vec::new();
        let mut inserts = lit(false);
        let (mut updated, mut inserted) = (None, None);
        for clause in clauses {
            let condition = match &clause.predicate {
                None => lit(true),
                Some(predicate) => {
                    self.of_source(predicate)?;
                    Expr::IsTrue(Box::new(predicate.clone()))
                }
            };
            match (clause.kind.canonical(), &clause.action) {
                (MergeIntoClauseKind::Matched, MergeIntoAction::Delete) => {
                    matched.push((condition, DELETE));
                }
                (MergeIntoClauseKind::Matched, MergeIntoAction::Update(assignments)) => {
                    let assigned = self.assigned(assignments.iter().map(|(c, v)| (c, v)))?;
                    if updated.replace(assigned).is_some() {
                        return self.refuse("several clauses update".to_string());
                    }
                    matched.push((condition, UPSERT));
                }
                (
                    MergeIntoClauseKind::NotMatchedByTarget,
                    MergeIntoAction::Insert { columns, values },
                ) => {
                    let schema = self.table.schema();
                    let all: Vec<String> = match columns.as_slice() {
                        [] => schema.fields().iter().map(|f| f.name().clone()).collect(),
                        columns => columns.to_vec(),
                    };
                    let assigned = self.assigned(all.iter().zip(values))?;
                    if inserted.replace(assigned).is_some() {
                        return self.refuse("several clauses insert".to_string());
                    }
                    inserts = condition;
                }
                (kind, _) => {
                    return self.refuse(format!(
                        "clauses for {kind:?} need to know which rows the table has"
                    ));
                }
            }
        }
        Ok(Clauses {
            matched,
            inserts,
            values: self.values(key, updated, inserted)?,
        })
    }

    fn assigned<'e>(
        &self,
        assignments: impl Iterator<Item = (&'e String, &'e Expr)>,
    ) -> Result<BTreeMap<String, Expr>> {
        let mut found = BTreeMap::new();
        for (column, value) in assignments {
            self.of_source(value)?;
            if column.eq_ignore_ascii_case(CHANGE_TYPE) {
                return self.refuse(format!("the clauses decide {CHANGE_TYPE}"));
            }
            if found.insert(column.clone(), value.clone()).is_some() {
                return self.refuse(format!("a clause says column {column} twice"));
            }
        }
        Ok(found)
    }

    /// Refuses a clause that gives the key other values than ON compares it with: a change
    /// has one key, and goes to the row that has it.
    fn keeps_key(
        &self,
        key: &BTreeMap<String, Expr>,
        assigned: &BTreeMap<String, Expr>,
        how: &str,
        instead: &str,
    ) -> Result<()> {
        for (column, value) in assigned {
            if let Some(of_key) = key.get(column)
                && !self.alike(of_key, value)
            {
                return self.refuse(format!(
                    "column {column} of the key is compared with '{of_key}' and {how} as \
                     '{value}'{instead}"
                ));
            }
        }
        Ok(())
    }

    /// The columns of the changes, which must be the same whether a row is there or not.
    fn values(
        &self,
        key: &BTreeMap<String, Expr>,
        updated: Option<BTreeMap<String, Expr>>,
        inserted: Option<BTreeMap<String, Expr>>,
    ) -> Result<Vec<(String, Expr)>> {
        let of_key = || {
            key.iter()
                .map(|(column, value)| (column.clone(), value.clone()))
        };
        let (updated, inserted) = match (updated, inserted) {
            // Only deletions, which are their keys.
            (None, None) => return Ok(of_key().collect()),
            (Some(updated), Some(inserted)) => (updated, inserted),
            (Some(_), None) => {
                return self.refuse(
                    "it updates rows and inserts none, and a change does either".to_string(),
                );
            }
            (None, Some(_)) => {
                return self.refuse(
                    "it inserts rows and updates none, and a change does either".to_string(),
                );
            }
        };
        let mut values: Vec<(String, Expr)> = of_key().collect();
        for column in self.table.others() {
            match (updated.get(&column), inserted.get(&column)) {
                (Some(one), Some(other)) if self.alike(one, other) => {
                    values.push((column, one.clone()));
                }
                (Some(one), Some(other)) => {
                    return self.refuse(format!(
                        "column {column} is updated to '{one}' and inserted as '{other}'"
                    ));
                }
                _ => {
                    return self.refuse(format!(
                        "column {column} is not both updated and inserted, and a change says all \
                         of its row"
                    ));
                }
            }
        }
        self.keeps_key(key, &inserted, "inserted", "")?;
        self.keeps_key(
            key,
            &updated,
            "updated",
            ": a change of a key is a DELETE of the old one and an UPSERT of the new one",
        )?;
        let sequence = |assigned: &BTreeMap<String, Expr>| {
            let mut found = assigned.iter();
            let found =
                found.find(|(column, _)| column.eq_ignore_ascii_case(CHANGE_SEQUENCE_NUMBER));
            found.map(|(_, value)| value.clone())
        };
        match (sequence(&updated), sequence(&inserted)) {
            (None, None) => {}
            (Some(one), Some(other)) if self.alike(&one, &other) => {
                values.push((CHANGE_SEQUENCE_NUMBER.to_string(), one));
            }
            _ => {
                return self.refuse(format!(
                    "{CHANGE_SEQUENCE_NUMBER} must be updated and inserted alike"
                ));
            }
        }
        Ok(values)
    }
}
