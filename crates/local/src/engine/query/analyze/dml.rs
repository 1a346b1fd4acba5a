//! What DML statements compute: which rows of the target they pick and what
//! becomes of them.

use std::collections::HashSet;

use datafusion::common::JoinType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::scalar::ScalarValue;

use super::super::super::functions::{CastMode, SqlType, cast};
use super::super::ast::{
    Assignment, Expr, Ident, InsertValue, MergeAction, MergeClause, MergeMatch, Path, TableExpr,
};
use super::super::default::default_value;
use super::super::partition_filter::check_partition_filters;
use super::super::scan::rows;
use super::super::session::service_error;
use super::aggregate::has_aggregate;
use super::construct::Parts;
use super::expr::{NOTHING, binary};
use super::from::Source;
use super::literal::{constant, int};
use super::query::built;
use super::scope::{Col, Ctx, Range, Rel, Scope, Typed, column};
use super::{Analyzer, nested};
use crate::error::{Result, ServiceError};
use crate::schema::Field;
use crate::store::{RequiredFilter, Snapshot, TableMeta, TableRef};

/// Rows of the target and new values of some of its columns.
pub(in crate::engine::query) struct Assigned {
    pub(in crate::engine::query) plan: LogicalPlan,
    /// The column that numbers the target's rows.
    pub(in crate::engine::query) row: String,
    /// Positions of the target's columns and the plan's columns with their values.
    pub(in crate::engine::query) values: Vec<(usize, String)>,
}

/// The target of a statement.
pub(in crate::engine::query) struct Target<'t> {
    pub(in crate::engine::query) snapshot: Snapshot,
    /// The filter that the table must be read with.
    pub(in crate::engine::query) required: Option<RequiredFilter<'t>>,
    /// Whether the table is partitioned by ingestion time.
    pub(in crate::engine::query) ingestion: bool,
    pub(in crate::engine::query) path: &'t Path,
    pub(in crate::engine::query) alias: Option<&'t Ident>,
}

impl<'t> Target<'t> {
    pub(in crate::engine::query) fn new(
        table: &TableRef,
        meta: &'t TableMeta,
        snapshot: Snapshot,
        path: &'t Path,
        alias: Option<&'t Ident>,
    ) -> Self {
        Self {
            snapshot,
            required: meta.required_filter(table),
            ingestion: meta.ingestion_partition(0).is_some(),
            path,
            alias,
        }
    }

    pub(super) fn name(&self) -> String {
        match (self.alias, self.path.last()) {
            (Some(alias), _) => alias.name.clone(),
            (None, Some(last)) => last.name.clone(),
            (None, None) => String::new(),
        }
    }
}

/// A MERGE's rows before its clauses: target and source columns side by side.
pub(in crate::engine::query) struct Joined {
    pub(in crate::engine::query) plan: LogicalPlan,
    /// Id and type of every column of the plan.
    pub(in crate::engine::query) columns: Vec<(String, SqlType)>,
    pub(in crate::engine::query) row: String,
    /// The index of the clause that applies; NULL for none.
    pub(in crate::engine::query) clause: String,
    both: Scope,
    target: Scope,
    source: Scope,
}

/// The names of both sides.
fn side_by_side(target: &Source, source: &Source) -> Scope {
    let mut both = target.scope.clone();
    both.ranges.extend(source.scope.ranges.clone());
    both.merged.extend(source.scope.merged.clone());
    both.absorbed.extend(source.scope.absorbed.clone());
    both
}

impl Analyzer<'_> {
    fn target_source(
        &self,
        target: &Target<'_>,
        required: Option<RequiredFilter<'_>>,
    ) -> Result<(Source, String)> {
        let (rel, row) = self.target(target.snapshot.clone(), required, target.ingestion)?;
        let mut columns = rel.columns;
        let pseudo = if target.ingestion {
            columns.split_off(target.snapshot.schema.fields.len())
        } else {
            Vec::new()
        };
        let mut scope = Scope::default();
        scope.ranges.push(Range {
            alias: Some(target.name()),
            columns,
            pseudo,
            whole: None,
        });
        Ok((
            Source {
                plan: rel.plan,
                scope,
                row: None,
            },
            row,
        ))
    }

    /// Numbers of the rows that a DELETE removes.
    pub(in crate::engine::query) fn delete_rows(
        &self,
        target: &Target<'_>,
        filter: &Expr,
    ) -> Result<(LogicalPlan, String)> {
        let (source, row) = self.target_source(target, target.required.clone())?;
        let ctx = Ctx::new(&source.scope, None, "WHERE clause");
        let condition = self.condition(filter, ctx)?;
        let plan = built(
            LogicalPlanBuilder::from(source.plan)
                .filter(condition)
                .and_then(|b| b.project([column(&row)])),
        )?;
        Ok((plan, row))
    }

    /// Rows that an UPDATE changes and their new values.
    pub(in crate::engine::query) fn update_rows(
        &self,
        target: &Target<'_>,
        set: &[Assignment],
        from: Option<&TableExpr>,
        filter: &Expr,
    ) -> Result<Assigned> {
        let (mut source, row) = self.target_source(target, target.required.clone())?;
        let own = source.scope.clone();
        if let Some(from) = from {
            let other = self.table_expr(from, None, None)?;
            source.scope.ranges.extend(other.scope.ranges);
            source.scope.merged.extend(other.scope.merged);
            source.scope.absorbed.extend(other.scope.absorbed);
            // The left side of a join is held, the right side streams by.
            source.plan = built(LogicalPlanBuilder::from(other.plan).cross_join(source.plan))?;
        }
        let scope = source.scope.clone();
        let ctx = Ctx::new(&scope, None, "WHERE clause");
        let condition = self.condition(filter, ctx)?;
        source.plan = built(LogicalPlanBuilder::from(source.plan).filter(condition))?;
        let ctx = Ctx {
            clause: "UPDATE SET clause",
            ..ctx
        };
        self.assigned(source.plan, &row, set, target, &own, ctx)
    }

    // ----- values for columns -----

    /// An expression for a column: constructors without a type take the column's, as
    /// far as their parts do.
    pub(super) fn expr_for_column(&self, e: &Expr, field: &Field, ctx: Ctx<'_>) -> Result<Typed> {
        let ty = SqlType::of_column(field);
        match self.constructed(e, &ty, Parts::Converted, ctx) {
            Some(typed) => Ok(typed),
            None => self.expr(e, ctx),
        }
    }

    /// A value as a column holds it: its type, and the type's parameters checked.
    pub(in crate::engine::query) fn for_column(
        &self,
        value: Typed,
        field: &Field,
    ) -> Result<Typed> {
        let ty = SqlType::of_column(field);
        let given = value.ty.clone();
        let value = self.assign(value, &ty, &field.name).map_err(|e| {
            if e.message.starts_with("Value of type") {
                ServiceError::invalid_query(format!(
                    "Value has type {given} which cannot be inserted into column {}, which has type {ty}",
                    field.name
                ))
            } else {
                e
            }
        })?;
        if field.max_length.is_none() && field.precision.is_none() {
            return Ok(value);
        }
        let udf = cast(&ty.to_column(""), field, CastMode::Strict)?;
        Ok(Typed::new(
            DfExpr::ScalarFunction(datafusion::logical_expr::expr::ScalarFunction::new_udf(
                udf,
                vec![value.expr],
            )),
            ty,
        ))
    }

    /// A constant expression as a column's value.
    pub(in crate::engine::query) fn value_for_column(
        &self,
        e: &Expr,
        field: &Field,
    ) -> Result<Typed> {
        if has_aggregate(e) {
            return Err(self.error(e.at, "Aggregate functions are not allowed in VALUES"));
        }
        let value = self.expr_for_column(e, field, Ctx::new(&NOTHING, None, "VALUES"))?;
        self.for_column(value, field)
            .map_err(|error| self.locate(e.at, error))
    }

    /// A query's column as a column's value.
    pub(in crate::engine::query) fn column_for_column(
        &self,
        col: &Col,
        field: &Field,
    ) -> Result<Typed> {
        self.for_column(col.typed(), field)
    }

    /// A relation of the given columns over `rel`.
    pub(in crate::engine::query) fn projected(
        &self,
        rel: Rel,
        items: Vec<(Option<String>, Typed)>,
    ) -> Result<Rel> {
        self.project_rel(rel, items)
    }

    /// A value table with its fields as columns.
    pub(in crate::engine::query) fn exploded(&self, rel: Rel) -> Result<Rel> {
        let [value] = rel.columns.as_slice() else {
            return Ok(rel);
        };
        let SqlType::Struct(fields) = &value.ty else {
            return Ok(rel);
        };
        let items = fields
            .iter()
            .enumerate()
            .map(|(i, (name, ty))| {
                (
                    (!name.is_empty()).then(|| name.clone()),
                    Typed::new(nested::get_field(column(&value.id), i, ty), ty.clone()),
                )
            })
            .collect();
        let mut rel = self.project_rel(rel, items)?;
        rel.value_table = false;
        Ok(rel)
    }

    /// An expression without columns.
    pub(in crate::engine::query) fn free_expr(
        &self,
        e: &Expr,
        clause: &'static str,
    ) -> Result<Typed> {
        let value = self.expr(e, Ctx::new(&NOTHING, None, clause))?;
        self.settle(value)
    }

    /// An expression without columns whose type its place decides.
    pub(in crate::engine::query) fn raw_expr(
        &self,
        e: &Expr,
        clause: &'static str,
    ) -> Result<Typed> {
        self.expr(e, Ctx::new(&NOTHING, None, clause))
    }

    // ----- MERGE -----

    /// The rows of a MERGE with the clause that applies to each.
    pub(in crate::engine::query) fn merge_rows(
        &self,
        target: &Target<'_>,
        source: &TableExpr,
        on: &Expr,
        clauses: &[MergeClause],
    ) -> Result<Joined> {
        let s = self.table_expr(source, None, None)?;
        if target.required.is_some() {
            let (t, _) = self.target_source(target, target.required.clone())?;
            let scope = side_by_side(&t, &s);
            let condition = self.condition(on, Ctx::new(&scope, None, "MERGE ON clause"))?;
            check_partition_filters(&built(
                LogicalPlanBuilder::from(t.plan)
                    .cross_join(s.plan.clone())
                    .and_then(|b| b.filter(condition)),
            )?)?;
        }
        // Rows that the condition leaves out are needed too, so this scan has none.
        let (t, row) = self.target_source(target, None)?;
        let (t_here, s_here) = (self.env.id(), self.env.id());
        let mark = |source: &Source, id: &str| -> Result<LogicalPlan> {
            let mut exprs = source.all_columns();
            exprs.push(int(1).expr.alias(id));
            built(LogicalPlanBuilder::from(source.plan.clone()).project(exprs))
        };
        let both = side_by_side(&t, &s);
        let condition = self.condition(on, Ctx::new(&both, None, "MERGE ON clause"))?;
        let has = |when: MergeMatch| clauses.iter().any(|c| c.when == when);
        // The left side of a join is held: the source, while the target streams by.
        let join_type = match (
            has(MergeMatch::NotMatchedBySource),
            has(MergeMatch::NotMatchedByTarget),
        ) {
            (true, true) => JoinType::Full,
            (true, false) => JoinType::Right,
            (false, true) => JoinType::Left,
            (false, false) => JoinType::Inner,
        };
        let plan = built(LogicalPlanBuilder::from(mark(&s, &s_here)?).join_on(
            mark(&t, &t_here)?,
            join_type,
            [condition],
        ))?;
        let mut whens = Vec::new();
        for clause in clauses {
            let present = |id: &str| DfExpr::IsNotNull(Box::new(column(id)));
            let absent = |id: &str| DfExpr::IsNull(Box::new(column(id)));
            let (kind, scope) = match clause.when {
                MergeMatch::Matched => (
                    binary(present(&t_here), Operator::And, present(&s_here)),
                    &both,
                ),
                MergeMatch::NotMatchedByTarget => (absent(&t_here), &s.scope),
                MergeMatch::NotMatchedBySource => (absent(&s_here), &t.scope),
            };
            let condition = match &clause.condition {
                None => kind,
                Some(e) => binary(
                    kind,
                    Operator::And,
                    self.condition(e, Ctx::new(scope, None, "MERGE WHEN clause"))?,
                ),
            };
            whens.push(condition);
        }
        let clause = self.env.id();
        let values = (0..clauses.len())
            .map(|i| int(i64::try_from(i).unwrap_or(i64::MAX)))
            .chain([Typed::new(
                constant(ScalarValue::Int64(None), &SqlType::Int64),
                SqlType::Int64,
            )])
            .collect();
        let chosen = self.choose(whens, values, "MERGE")?;
        let mut columns: Vec<(String, SqlType)> = vec![(row.clone(), SqlType::Int64)];
        columns.extend(
            t.scope
                .all()
                .chain(s.scope.all())
                .map(|c| (c.id.clone(), c.ty.clone())),
        );
        columns.dedup_by(|a, b| a.0 == b.0);
        let mut seen = std::collections::HashSet::new();
        columns.retain(|(id, _)| seen.insert(id.clone()));
        let mut exprs: Vec<DfExpr> = columns.iter().map(|(id, _)| column(id)).collect();
        exprs.push(chosen.expr.alias(&clause));
        columns.push((clause.clone(), SqlType::Int64));
        let plan = built(
            LogicalPlanBuilder::from(plan)
                .project(exprs)
                .and_then(|b| b.filter(DfExpr::IsNotNull(Box::new(column(&clause))))),
        )?;
        Ok(Joined {
            plan,
            columns,
            row,
            clause,
            both,
            target: t.scope,
            source: s.scope,
        })
    }

    /// The joined rows to which the clause applies.
    fn clause_rows(
        &self,
        joined: &Joined,
        batches: &[arrow::array::RecordBatch],
        index: usize,
    ) -> Result<LogicalPlan> {
        let plan = rows(&joined.columns, batches.to_vec())?;
        let number = int(i64::try_from(index).unwrap_or(i64::MAX)).expr;
        built(LogicalPlanBuilder::from(plan).filter(binary(
            column(&joined.clause),
            Operator::Eq,
            number,
        )))
    }

    /// Leaves out the columns that no clause uses: the joined rows are held.
    pub(in crate::engine::query) fn keep_merge_columns(
        &self,
        joined: &mut Joined,
        clauses: &[MergeClause],
        target: &Target<'_>,
    ) -> Result<()> {
        let mut used = HashSet::from([joined.row.clone(), joined.clause.clone()]);
        for (index, clause) in clauses.iter().enumerate() {
            let plan = match &clause.action {
                MergeAction::Update(_) => {
                    self.merge_update(joined, &[], index, clause, target)?.plan
                }
                MergeAction::Insert { .. } | MergeAction::InsertRow => {
                    self.merge_insert(joined, &[], index, clause, target)?.plan
                }
                MergeAction::Delete => continue,
            };
            plan.apply_with_subqueries(|node| {
                node.apply_expressions(|e| {
                    used.extend(e.column_refs().into_iter().map(|c| c.name.clone()));
                    Ok(TreeNodeRecursion::Continue)
                })
            })
            .map_err(service_error)?;
        }
        joined.columns.retain(|(id, _)| used.contains(id));
        let exprs = joined.columns.iter().map(|(id, _)| column(id));
        joined.plan = built(LogicalPlanBuilder::from(joined.plan.clone()).project(exprs))?;
        Ok(())
    }

    /// New values of the rows that an UPDATE clause applies to.
    pub(in crate::engine::query) fn merge_update(
        &self,
        joined: &Joined,
        batches: &[arrow::array::RecordBatch],
        index: usize,
        clause: &MergeClause,
        target: &Target<'_>,
    ) -> Result<Assigned> {
        let MergeAction::Update(set) = &clause.action else {
            return Err(ServiceError::internal("the clause updates"));
        };
        let scope = match clause.when {
            MergeMatch::Matched => &joined.both,
            MergeMatch::NotMatchedByTarget | MergeMatch::NotMatchedBySource => &joined.target,
        };
        let plan = self.clause_rows(joined, batches, index)?;
        let ctx = Ctx::new(scope, None, "MERGE UPDATE clause");
        self.assigned(plan, &joined.row, set, target, &joined.target, ctx)
    }

    /// The rows that an INSERT clause adds, as values of all columns of the target.
    pub(in crate::engine::query) fn merge_insert(
        &self,
        joined: &Joined,
        batches: &[arrow::array::RecordBatch],
        index: usize,
        clause: &MergeClause,
        target: &Target<'_>,
    ) -> Result<Rel> {
        let plan = self.clause_rows(joined, batches, index)?;
        let ctx = Ctx::new(&joined.source, None, "MERGE INSERT clause");
        let schema = &target.snapshot.schema;
        let mut given: Vec<(usize, Typed)> = Vec::new();
        match &clause.action {
            MergeAction::Insert { columns, values } => {
                let positions = super::super::insert::positions(self, schema, columns)?;
                if positions.len() != values.len() {
                    return Err(ServiceError::invalid_query(format!(
                        "Inserted row has wrong column count; Has {}, expected {}",
                        values.len(),
                        positions.len()
                    )));
                }
                for (position, value) in positions.into_iter().zip(values) {
                    if let InsertValue::Expr(e) = value {
                        let typed = self.expr_for_column(e, &schema.fields[position], ctx)?;
                        let typed = self
                            .for_column(typed, &schema.fields[position])
                            .map_err(|error| self.locate(e.at, error))?;
                        given.push((position, typed));
                    }
                }
            }
            MergeAction::InsertRow => {
                let columns: Vec<Col> = joined
                    .source
                    .ranges
                    .iter()
                    .flat_map(|r| r.columns.clone())
                    .collect();
                if columns.len() != schema.fields.len() {
                    return Err(ServiceError::invalid_query(format!(
                        "Inserted row has wrong column count; Has {}, expected {}",
                        columns.len(),
                        schema.fields.len()
                    )));
                }
                for (position, col) in columns.iter().enumerate() {
                    given.push((
                        position,
                        self.for_column(col.typed(), &schema.fields[position])?,
                    ));
                }
            }
            MergeAction::Update(_) | MergeAction::Delete => {
                return Err(ServiceError::internal("the clause inserts"));
            }
        }
        let items = schema
            .fields
            .iter()
            .enumerate()
            .map(|(i, field)| {
                let value = match given.iter().find(|(p, _)| *p == i) {
                    Some((_, value)) => value.clone(),
                    None => {
                        let default = default_value(self.env, field)?;
                        Typed::new(constant(default.value, &default.ty), default.ty)
                    }
                };
                Ok((None, value))
            })
            .collect::<Result<Vec<_>>>()?;
        self.project_rel(
            Rel {
                plan,
                columns: Vec::new(),
                row: None,
                value_table: false,
            },
            items,
        )
    }
}
