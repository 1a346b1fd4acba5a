//! FROM clauses.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::scalar::ScalarValue;

use super::super::super::functions::SqlType;
use super::super::ast::{BinaryOp, Expr, ExprKind, Ident, JoinKind, JoinOn, Path, TableExpr};
use super::super::information_schema;
use super::super::scan::{ScanColumn, Source as ScanSource, scan};
use super::super::session::service_error;
use super::Analyzer;
use super::expr::{NOTHING, binary};
use super::nested::{self, Padding};
use super::query::built;
use super::scope::{Col, Ctx, Found, Frame, Mode, Range, Rel, Scope, column};
use crate::error::{Result, ServiceError};
use crate::store::{Snapshot, Table, TableKind, TableRef};

/// Rows and the names they bring into scope.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) plan: LogicalPlan,
    pub(super) scope: Scope,
    /// In a correlated subquery: the column that numbers the outer rows.
    pub(super) row: Option<String>,
}

impl Source {
    pub(super) fn all_columns(&self) -> Vec<DfExpr> {
        self.plan
            .schema()
            .fields()
            .iter()
            .map(|f| column(f.name()))
            .collect()
    }
}

impl Analyzer<'_> {
    pub(super) fn from_clause(
        &self,
        from: Option<&TableExpr>,
        frame: Option<&Frame<'_>>,
    ) -> Result<Source> {
        let Some(Frame {
            outer,
            mode: Mode::Apply { row, .. },
            ..
        }) = frame
        else {
            return match from {
                None => Ok(Source {
                    plan: built(Ok(LogicalPlanBuilder::empty(true)))?,
                    scope: Scope::default(),
                    row: None,
                }),
                Some(from) => self.table_expr(from, None, frame),
            };
        };
        let frame = frame.ok_or_else(|| ServiceError::internal("the frame just matched"))?;
        let rows = Source {
            plan: self.outer_rows(frame)?,
            scope: Scope::default(),
            row: Some(row.clone()),
        };
        let Some(from) = from else {
            return Ok(rows);
        };
        match self.uncorrelated(*outer, &|probe| self.table_expr(from, None, probe))? {
            Some(own) => self.cross(rows, own),
            None => self.table_expr(from, Some(rows), Some(frame)),
        }
    }

    /// What `analyze` makes of a place at which outer columns may be named, unless
    /// it names some.
    fn uncorrelated<T>(
        &self,
        outer: Ctx<'_>,
        analyze: &dyn Fn(Option<&Frame<'_>>) -> Result<T>,
    ) -> Result<Option<T>> {
        let probe = Frame {
            outer,
            mode: Mode::Probe,
            correlated: std::cell::Cell::new(false),
            captured: std::cell::RefCell::default(),
        };
        let result = analyze(Some(&probe));
        if probe.correlated.get() {
            return Ok(None);
        }
        result.map(Some)
    }

    /// Every row of one beside every row of the other that has the same outer row.
    fn cross(&self, left: Source, right: Source) -> Result<Source> {
        let mut scope = left.scope;
        scope.ranges.extend(right.scope.ranges);
        scope.merged.extend(right.scope.merged);
        scope.absorbed.extend(right.scope.absorbed);
        let builder = LogicalPlanBuilder::from(left.plan);
        let plan = match (&left.row, &right.row) {
            (Some(l), Some(r)) => built(builder.join_on(
                right.plan,
                JoinType::Inner,
                [binary(column(l), Operator::Eq, column(r))],
            ))?,
            _ => built(builder.cross_join(right.plan))?,
        };
        Ok(Source {
            plan,
            scope,
            row: left.row.or(right.row),
        })
    }

    fn beside(&self, left: Option<Source>, right: Source) -> Result<Source> {
        match left {
            None => Ok(right),
            Some(left) => self.cross(left, right),
        }
    }

    /// A FROM item; `left` is what stands before it and may be named by it.
    pub(super) fn table_expr(
        &self,
        from: &TableExpr,
        left: Option<Source>,
        frame: Option<&Frame<'_>>,
    ) -> Result<Source> {
        match from {
            TableExpr::Table {
                path,
                alias,
                offset,
                system_time,
                sample,
            } => {
                if let Some(array) = self.array_path(path, left.as_ref(), frame)? {
                    if system_time.is_some() || sample.is_some() {
                        return Err(self.error(path[0].at, "An array has no versions or samples"));
                    }
                    return self.unnest(left, &array, alias, offset, Padding::Drop, frame);
                }
                if offset.is_some() {
                    return Err(
                        self.error(path[0].at, "WITH OFFSET can only be used with array scans")
                    );
                }
                let table = self.named_table(path, alias, system_time.as_ref(), frame)?;
                let table = match sample {
                    Some(percent) => self.sampled(table, percent)?,
                    None => table,
                };
                self.beside(left, table)
            }
            TableExpr::Unnest {
                exprs,
                alias,
                offset,
                at,
            } => {
                let [array] = exprs.as_slice() else {
                    return Err(ServiceError::unsupported("UNNEST of several arrays"));
                };
                self.unnest(left, array, alias, offset, Padding::Drop, frame)
                    .map_err(|e| self.locate(*at, e))
            }
            TableExpr::Subquery { query, alias } => {
                let rel = self.derived(frame, &|frame| self.query(query, frame))?;
                let source = self.relation(rel, alias.as_ref().map(|a| a.name.clone()));
                self.beside(left, source)
            }
            TableExpr::Function { name, args, alias } => {
                let rel = self.table_function(name, args)?;
                let alias = alias.as_ref().map(|a| a.name.clone());
                let source = self.relation(rel, alias);
                self.beside(left, source)
            }
            TableExpr::Join {
                left: l,
                right: r,
                kind,
                on,
                at,
            } => self.join(l, r, *kind, on, *at, left, frame),
            TableExpr::Pivot { .. } | TableExpr::Unpivot { .. } => {
                let source = self.pivot(from, frame)?;
                self.beside(left, source)
            }
        }
    }

    /// A subquery in FROM, correlated only if it must be.
    pub(super) fn derived(
        &self,
        frame: Option<&Frame<'_>>,
        analyze: &dyn Fn(Option<&Frame<'_>>) -> Result<Rel>,
    ) -> Result<Rel> {
        match frame {
            Some(Frame {
                outer,
                mode: Mode::Apply { .. },
                ..
            }) => match self.uncorrelated(*outer, analyze)? {
                Some(rel) => Ok(rel),
                None => analyze(frame),
            },
            _ => analyze(frame),
        }
    }

    /// A relation as a FROM item.
    pub(super) fn relation(&self, rel: Rel, alias: Option<String>) -> Source {
        let mut scope = Scope::default();
        let mut range = Range {
            alias,
            columns: rel.columns,
            ..Default::default()
        };
        let mut plan = rel.plan;
        if rel.value_table
            && let [value] = range.columns.as_slice()
        {
            let whole = value.clone();
            if let SqlType::Struct(fields) = &whole.ty
                && let Ok((with_fields, columns)) = self.explode(plan.clone(), &whole, fields)
            {
                plan = with_fields;
                range.columns = columns;
            } else {
                range.columns[0].name = range.alias.clone();
            }
            range.whole = Some(whole);
        }
        scope.ranges.push(range);
        Source {
            plan,
            scope,
            row: rel.row,
        }
    }

    /// The fields of a struct column as columns of their own beside it.
    fn explode(
        &self,
        plan: LogicalPlan,
        whole: &Col,
        fields: &[(String, SqlType)],
    ) -> Result<(LogicalPlan, Vec<Col>)> {
        let mut exprs: Vec<DfExpr> = plan
            .schema()
            .fields()
            .iter()
            .map(|f| column(f.name()))
            .collect();
        let mut columns = Vec::new();
        for (i, (name, ty)) in fields.iter().enumerate() {
            let id = self.env.id();
            exprs.push(nested::get_field(column(&whole.id), i, ty).alias(&id));
            columns.push(Col {
                name: (!name.is_empty()).then(|| name.clone()),
                id,
                ty: ty.clone(),
                fold_case: false,
            });
        }
        Ok((
            built(LogicalPlanBuilder::from(plan).project(exprs))?,
            columns,
        ))
    }

    /// The array that a path in FROM names, if its first part is a range variable
    /// or column that stands before it or around it.
    fn array_path(
        &self,
        path: &Path,
        left: Option<&Source>,
        frame: Option<&Frame<'_>>,
    ) -> Result<Option<Expr>> {
        if path.len() < 2 {
            return Ok(None);
        }
        let here = left.is_some_and(|l| l.scope.ranges.iter().any(|r| r.is(&path[0].name)));
        let mut outer = frame.map(|f| &f.outer);
        let mut around = false;
        while let Some(ctx) = outer {
            around |= matches!(ctx.scope.find(&path[0].name, true), Found::Range(_));
            outer = ctx.frame.map(|f| &f.outer);
        }
        if !here && !around {
            return Ok(None);
        }
        let mut names = path.iter();
        let Some(first) = names.next() else {
            return Ok(None);
        };
        let mut expr = Expr {
            kind: ExprKind::Ident(first.clone()),
            at: first.at,
        };
        for name in names {
            expr = Expr {
                at: first.at,
                kind: ExprKind::Dot(Box::new(expr), name.clone()),
            };
        }
        Ok(Some(expr))
    }

    fn join(
        &self,
        l: &TableExpr,
        r: &TableExpr,
        kind: JoinKind,
        on: &JoinOn,
        at: usize,
        before: Option<Source>,
        frame: Option<&Frame<'_>>,
    ) -> Result<Source> {
        let apart = matches!(kind, JoinKind::Right | JoinKind::Full);
        if apart && before.is_some() {
            return Err(ServiceError::unsupported(
                "RIGHT or FULL JOIN in a correlated FROM clause",
            ));
        }
        let left = self.table_expr(l, before, frame)?;
        let padding = if kind == JoinKind::Left {
            Padding::Keep
        } else {
            Padding::Drop
        };
        let array = match r {
            TableExpr::Unnest {
                exprs,
                alias,
                offset,
                ..
            } if exprs.len() == 1 => Some((exprs[0].clone(), alias, offset)),
            TableExpr::Table {
                path,
                alias,
                offset,
                system_time: None,
                sample: None,
            } => self
                .array_path(path, Some(&left), frame)?
                .map(|e| (e, alias, offset)),
            _ => None,
        };
        if let Some((array, alias, offset)) = array {
            if apart {
                return Err(ServiceError::unsupported("RIGHT or FULL JOIN with UNNEST"));
            }
            let joined = self.unnest(Some(left), &array, alias, offset, padding, frame)?;
            return match on {
                JoinOn::None => Ok(joined),
                JoinOn::On(condition) => {
                    let always = matches!(condition.kind, ExprKind::Bool(true));
                    if always {
                        return Ok(joined);
                    }
                    if kind == JoinKind::Left {
                        return Err(ServiceError::unsupported(
                            "LEFT JOIN UNNEST with a condition",
                        ));
                    }
                    let ctx = Ctx::new(&joined.scope, frame, "JOIN ON clause");
                    let condition = self.condition(condition, ctx)?;
                    Ok(Source {
                        plan: built(LogicalPlanBuilder::from(joined.plan).filter(condition))?,
                        ..joined
                    })
                }
                JoinOn::Using(_) => Err(ServiceError::unsupported("JOIN UNNEST with USING")),
            };
        }
        let right = self.table_expr(r, None, frame)?;
        match (kind, on) {
            (JoinKind::Comma | JoinKind::Cross, JoinOn::None) => self.cross(left, right),
            (JoinKind::Comma | JoinKind::Cross, _) => {
                Err(self.error(at, "CROSS JOIN cannot have an ON or USING clause"))
            }
            (_, JoinOn::None) => {
                Err(self.error(at, "JOIN must have an immediately following ON clause"))
            }
            (_, JoinOn::On(condition)) => {
                let mut scope = left.scope.clone();
                scope.ranges.extend(right.scope.ranges.clone());
                scope.merged.extend(right.scope.merged.clone());
                scope.absorbed.extend(right.scope.absorbed.clone());
                let ctx = Ctx::new(&scope, frame, "JOIN ON clause");
                let condition = self.condition(condition, ctx)?;
                self.join_on(left, right, kind, condition, scope)
            }
            (_, JoinOn::Using(names)) => self.join_using(left, right, kind, names),
        }
    }

    fn join_on(
        &self,
        left: Source,
        right: Source,
        kind: JoinKind,
        condition: DfExpr,
        scope: Scope,
    ) -> Result<Source> {
        let mut conditions = vec![condition];
        if let (Some(l), Some(r)) = (&left.row, &right.row) {
            conditions.push(binary(column(l), Operator::Eq, column(r)));
        }
        let join_type = match kind {
            JoinKind::Left => JoinType::Left,
            JoinKind::Right => JoinType::Right,
            JoinKind::Full => JoinType::Full,
            JoinKind::Inner | JoinKind::Comma | JoinKind::Cross => JoinType::Inner,
        };
        if join_type != JoinType::Inner && left.row.is_none() && right.row.is_some() {
            return Err(ServiceError::unsupported(
                "An outer join with a correlated subquery",
            ));
        }
        let row = left.row.or(right.row);
        Ok(Source {
            plan: built(
                LogicalPlanBuilder::from(left.plan).join_on(right.plan, join_type, conditions),
            )?,
            scope,
            row,
        })
    }

    fn join_using(
        &self,
        left: Source,
        right: Source,
        kind: JoinKind,
        names: &[Ident],
    ) -> Result<Source> {
        let find = |source: &Source, name: &Ident, side: &str| match source
            .scope
            .find(&name.name, false)
        {
            Found::Column(col) => Ok(col.clone()),
            Found::Ambiguous => Err(self.error(
                name.at,
                format_args!("Column name {} is ambiguous", name.name),
            )),
            _ => Err(self.error(
                name.at,
                format_args!(
                    "Column {} in USING clause not found on {side} side of join",
                    name.name
                ),
            )),
        };
        let mut condition: Option<DfExpr> = None;
        let mut pairs = Vec::new();
        for name in names {
            let l = find(&left, name, "left")?;
            let r = find(&right, name, "right")?;
            let equal = self
                .binary(BinaryOp::Equal, l.typed(), r.typed())
                .map_err(|e| self.locate(name.at, e))?;
            condition = Some(match condition {
                None => equal.expr,
                Some(so_far) => binary(so_far, Operator::And, equal.expr),
            });
            pairs.push((name, l, r));
        }
        let condition = condition.ok_or_else(|| ServiceError::internal("USING has columns"))?;
        let mut scope = left.scope.clone();
        scope.ranges.extend(right.scope.ranges.clone());
        scope.absorbed.extend(right.scope.absorbed.clone());
        let mut merged: Vec<Col> = Vec::new();
        let mut computed = Vec::new();
        for (name, l, r) in &pairs {
            scope.merged.retain(|c| c.id != l.id);
            scope.absorbed.extend([l.id.clone(), r.id.clone()]);
            let col = match kind {
                JoinKind::Right => r.clone(),
                JoinKind::Full => {
                    let ty = self.common_type(&[l.typed(), r.typed()], "USING")?;
                    let id = self.env.id();
                    let value = self.first_present(vec![l.typed(), r.typed()], &ty)?;
                    computed.push(value.expr.alias(&id));
                    Col {
                        name: None,
                        id,
                        ty,
                        fold_case: l.fold_case || r.fold_case,
                    }
                }
                _ => l.clone(),
            };
            merged.push(Col {
                name: Some(l.name.clone().unwrap_or_else(|| name.name.clone())),
                ..col
            });
        }
        merged.extend(std::mem::take(&mut scope.merged));
        merged.extend(right.scope.merged.clone());
        scope.merged = merged;
        let mut joined = self.join_on(left, right, kind, condition, scope)?;
        if !computed.is_empty() {
            let mut exprs = joined.all_columns();
            exprs.extend(computed);
            joined.plan = built(LogicalPlanBuilder::from(joined.plan).project(exprs))?;
        }
        Ok(joined)
    }

    /// The elements of an array as rows, beside the row that the array belongs to.
    fn unnest(
        &self,
        left: Option<Source>,
        array: &Expr,
        alias: &Option<Ident>,
        offset: &Option<Option<Ident>>,
        padding: Padding,
        frame: Option<&Frame<'_>>,
    ) -> Result<Source> {
        let left = match left {
            Some(left) => left,
            None => Source {
                plan: built(Ok(LogicalPlanBuilder::empty(true)))?,
                scope: Scope::default(),
                row: None,
            },
        };
        let value = self.expr(array, Ctx::new(&left.scope, frame, "UNNEST"))?;
        let value = self.settle(value)?;
        let SqlType::Array(element) = &value.ty else {
            return Err(self.error(
                array.at,
                format_args!(
                    "Values referenced in UNNEST must be arrays. UNNEST contains expression of type {}",
                    value.ty
                ),
            ));
        };
        let element = (**element).clone();
        let name = alias
            .as_ref()
            .map(|a| a.name.clone())
            .or_else(|| match &array.kind {
                // `FROM t, t.items` is called by the last part of its path.
                ExprKind::Dot(_, last) => Some(last.name.clone()),
                _ => None,
            });
        let (zipped, pair) = nested::zip(vec![value.expr], std::slice::from_ref(&element), padding);
        let list = self.env.id();
        let mut exprs = left.all_columns();
        exprs.push(zipped.alias(&list));
        let plan = built(
            LogicalPlanBuilder::from(left.plan.clone())
                .project(exprs)
                .and_then(|b| b.unnest_column(datafusion::common::Column::new_unqualified(&list))),
        )?;
        let SqlType::Struct(fields) = &pair else {
            return Err(ServiceError::internal("zipped arrays hold structs"));
        };
        let mut exprs = left.all_columns();
        let whole = Col {
            name: name.clone(),
            id: self.env.id(),
            ty: element,
            fold_case: false,
        };
        exprs.push(
            nested::marked(nested::get_field(column(&list), 0, &fields[0].1), &whole.ty)
                .alias(&whole.id),
        );
        let position = Col {
            name: offset.as_ref().map(|o| {
                o.as_ref()
                    .map_or_else(|| "offset".to_string(), |a| a.name.clone())
            }),
            id: self.env.id(),
            ty: SqlType::Int64,
            fold_case: false,
        };
        if offset.is_some() {
            exprs.push(nested::get_field(column(&list), 1, &SqlType::Int64).alias(&position.id));
        }
        let mut plan = built(LogicalPlanBuilder::from(plan).project(exprs))?;
        let mut range = Range {
            alias: name,
            columns: vec![whole.clone()],
            pseudo: Vec::new(),
            whole: Some(whole.clone()),
        };
        if let SqlType::Struct(fields) = &whole.ty {
            let (with_fields, columns) = self.explode(plan, &whole, fields)?;
            plan = with_fields;
            range.columns = columns;
        }
        let mut scope = left.scope;
        scope.ranges.push(range);
        if offset.is_some() {
            scope.ranges.push(Range {
                columns: vec![position],
                ..Default::default()
            });
        }
        Ok(Source {
            plan,
            scope,
            row: left.row,
        })
    }

    /// `TABLESAMPLE SYSTEM (n PERCENT)`. Blocks of a table are this server's own, so
    /// 0 and 100 percent are the shares that it can promise.
    fn sampled(&self, table: Source, percent: &Expr) -> Result<Source> {
        let value = self.expr(percent, Ctx::new(&NOTHING, None, "TABLESAMPLE"))?;
        let value = self.cast_to(value, &SqlType::Float64)?;
        match self.evaluate_typed(&value)?.value {
            ScalarValue::Float64(Some(p)) if p == 100.0 => Ok(table),
            ScalarValue::Float64(Some(p)) if p == 0.0 => Ok(Source {
                plan: built(LogicalPlanBuilder::from(table.plan).limit(0, Some(0)))?,
                ..table
            }),
            ScalarValue::Float64(Some(p)) if (0.0..100.0).contains(&p) => Err(
                ServiceError::unsupported("TABLESAMPLE of a part of the rows"),
            ),
            _ => Err(self.error(percent.at, "Sample percentage must be between 0 and 100")),
        }
    }

    // ----- tables -----

    fn named_table(
        &self,
        path: &Path,
        alias: &Option<Ident>,
        system_time: Option<&Expr>,
        frame: Option<&Frame<'_>>,
    ) -> Result<Source> {
        let alias = alias.as_ref().map(|a| a.name.clone());
        if let [name] = path.as_slice()
            && self.ctes.borrow().iter().any(|e| e.cte.name.is(&name.name))
        {
            if system_time.is_some() {
                return Err(self.error(name.at, "FOR SYSTEM_TIME AS OF needs a table"));
            }
            let rel = self.derived(frame, &|frame| {
                self.cte(name, frame)?
                    .ok_or_else(|| ServiceError::internal("the name was just found"))
            })?;
            return Ok(self.relation(rel, alias.or_else(|| Some(name.name.clone()))));
        }
        let last = path.last().map(|i| i.name.clone()).unwrap_or_default();
        if path.iter().any(|p| p.is("INFORMATION_SCHEMA")) {
            let rel = information_schema::relation(self.env, path)
                .map_err(|e| self.locate(path[0].at, e))?;
            return Ok(self.relation(rel, alias.or(Some(last))));
        }
        if last.ends_with('*') {
            return self.wildcard(path, alias);
        }
        let reference = self.env.table_ref(path)?;
        let table = self.env.table(&reference)?;
        let time = system_time.map(|e| self.instant(e)).transpose()?;
        self.table_source(&table, alias.or(Some(last)), time)
    }

    /// The instant that FOR SYSTEM_TIME AS OF names, in microseconds.
    pub(in crate::engine::query) fn instant(&self, e: &Expr) -> Result<i64> {
        let value = self.expr(e, Ctx::new(&NOTHING, None, "FOR SYSTEM_TIME AS OF"))?;
        let value = self.coerce(value, &SqlType::Timestamp)?;
        match self.evaluate_typed(&value)?.value {
            ScalarValue::TimestampMicrosecond(Some(t), _) => Ok(t),
            _ => Err(self.error(e.at, "FOR SYSTEM_TIME AS OF needs a TIMESTAMP")),
        }
    }

    /// A table or view as a FROM item.
    fn table_source(
        &self,
        table: &Arc<Table>,
        alias: Option<String>,
        time: Option<i64>,
    ) -> Result<Source> {
        let meta = table.meta();
        match &meta.kind {
            TableKind::Table => {}
            TableKind::View(view) | TableKind::MaterializedView(view) => {
                if time.is_some() {
                    return Err(ServiceError::unsupported("FOR SYSTEM_TIME AS OF a view"));
                }
                let rel = self.view(table.reference(), &view.query)?;
                return Ok(self.relation(rel, alias));
            }
            TableKind::External => {
                return Err(ServiceError::unsupported("An external table"));
            }
        }
        self.env.note_read(table.reference());
        let snapshot = match time {
            None => self.env.snapshot(table),
            Some(time) => self.snapshot_at(table, time)?,
        };
        self.env.note_rows(&snapshot);
        let ingestion = meta
            .time_partitioning
            .as_ref()
            .filter(|p| p.field.is_none())
            .map(|p| p.granularity == "DAY");
        let range = self.scan_range(snapshot, ingestion, alias, None)?;
        Ok(range)
    }

    pub(in crate::engine::query) fn snapshot_at(
        &self,
        table: &Table,
        time: i64,
    ) -> Result<Snapshot> {
        let now = crate::store::micros_now();
        let shown = table.reference();
        if time > now {
            return Err(ServiceError::invalid_query(format!(
                "Cannot read a snapshot of table {shown} in the future"
            )));
        }
        let window = i64::try_from(self.env.service.store.options().time_travel.as_micros())
            .unwrap_or(i64::MAX);
        if time < now.saturating_sub(window) {
            return Err(ServiceError::invalid_query(format!(
                "Invalid time travel timestamp {} for table {shown}: it is before the time travel window",
                time / 1000
            )));
        }
        table.snapshot_at(time).ok_or_else(|| {
            ServiceError::invalid_query(format!(
                "Invalid snapshot time {} for table {shown}. Cannot read before {}",
                time / 1000,
                table.created() / 1000
            ))
        })
    }

    /// A scan of a snapshot's columns; `suffix` adds `_TABLE_SUFFIX`.
    fn scan_range(
        &self,
        snapshot: Snapshot,
        ingestion: Option<bool>,
        alias: Option<String>,
        suffix: Option<&str>,
    ) -> Result<Source> {
        let mut columns = Vec::new();
        let mut range = Range {
            alias,
            ..Default::default()
        };
        for (i, field) in snapshot.schema.fields.iter().enumerate() {
            let col = Col {
                name: Some(field.name.clone()),
                id: self.env.id(),
                ty: SqlType::of_column(field),
                fold_case: field.collation.as_deref() == Some("und:ci"),
            };
            columns.push(ScanColumn {
                id: col.id.clone(),
                sql_type: col.ty.clone(),
                source: ScanSource::Column(i),
            });
            range.columns.push(col);
        }
        let pseudo = |name: &str, ty: SqlType| Col {
            name: Some(name.to_string()),
            id: self.env.id(),
            ty,
            fold_case: false,
        };
        let mut date = None;
        if let Some(daily) = ingestion {
            let time = pseudo("_PARTITIONTIME", SqlType::Timestamp);
            columns.push(ScanColumn {
                id: time.id.clone(),
                sql_type: SqlType::Timestamp,
                source: ScanSource::Partition,
            });
            if daily {
                date = Some((pseudo("_PARTITIONDATE", SqlType::Date), time.clone()));
            }
            range.pseudo.push(time);
        }
        let mut plan = scan(snapshot, columns)?;
        let mut extra: Vec<DfExpr> = Vec::new();
        if let Some((date, time)) = date {
            extra.push(
                self.cast_to(time.typed(), &SqlType::Date)?
                    .expr
                    .alias(&date.id),
            );
            range.pseudo.push(date);
        }
        if let Some(suffix) = suffix {
            let col = pseudo("_TABLE_SUFFIX", SqlType::String);
            extra.push(super::literal::text(suffix).expr.alias(&col.id));
            range.pseudo.push(col);
        }
        if !extra.is_empty() {
            let mut exprs: Vec<DfExpr> = plan
                .schema()
                .fields()
                .iter()
                .map(|f| column(f.name()))
                .collect();
            exprs.extend(extra);
            plan = built(LogicalPlanBuilder::from(plan).project(exprs))?;
        }
        let mut scope = Scope::default();
        scope.ranges.push(range);
        Ok(Source {
            plan,
            scope,
            row: None,
        })
    }

    /// The rows that a view's query gives.
    pub(in crate::engine::query) fn view(&self, reference: &TableRef, text: &str) -> Result<Rel> {
        if self.env.views.borrow().contains(reference) {
            return Err(ServiceError::invalid_query(format!(
                "View {reference} refers to itself"
            )));
        }
        if self.env.views.borrow().len() >= 16 {
            return Err(ServiceError::invalid_query(format!(
                "View {reference} is nested too deeply; the limit is 16 levels"
            )));
        }
        let query = super::super::parser::parse_query(text)?;
        self.env.views.borrow_mut().push(reference.clone());
        let analyzer = Analyzer::new(self.env, text);
        let rel = analyzer
            .query(&query, None)
            .and_then(|rel| analyzer.settle_rel(rel));
        self.env.views.borrow_mut().pop();
        let mut rel = rel?;
        let mut anonymous = 0;
        for col in &mut rel.columns {
            if col.name.is_none() {
                col.name = Some(format!("f{anonymous}_"));
                anonymous += 1;
            }
        }
        Ok(rel)
    }

    /// `prefix*`: the tables whose names begin so, the newest one's columns.
    fn wildcard(&self, path: &Path, alias: Option<String>) -> Result<Source> {
        let pattern = self.env.table_ref(path)?;
        let prefix = pattern.table.trim_end_matches('*').to_string();
        if prefix.contains('*') {
            return Err(ServiceError::unsupported("A wildcard inside a table name"));
        }
        let dataset = pattern.dataset_ref();
        let tables: Vec<Arc<Table>> = self.env.service.store.read(|state| {
            state
                .tables(&dataset)
                .filter(|t| t.reference().table.starts_with(&prefix))
                .cloned()
                .collect()
        });
        if tables.is_empty() {
            return Err(ServiceError::not_found(format_args!(
                "{} does not match any table.",
                pattern
            )));
        }
        if tables
            .iter()
            .any(|t| !matches!(t.meta().kind, TableKind::Table))
        {
            return Err(ServiceError::invalid_query(
                "Views cannot be queried through prefix",
            ));
        }
        let newest = tables
            .iter()
            .max_by_key(|t| t.created())
            .map(|t| t.snapshot())
            .ok_or_else(|| ServiceError::internal("there is a table"))?;
        let mut result: Option<Source> = None;
        for table in &tables {
            self.env.note_read(table.reference());
            let mut snapshot = self.env.snapshot(table);
            for field in &newest.schema.fields {
                if let Some(own) = snapshot.schema.field(&field.name)
                    && SqlType::of_column(own) != SqlType::of_column(field)
                {
                    return Err(ServiceError::invalid_query(format!(
                        "Cannot read field '{}' of type {} as {}",
                        field.name,
                        own.field_type.sql_name(),
                        field.field_type.sql_name()
                    )));
                }
            }
            snapshot.schema = Arc::clone(&newest.schema);
            snapshot.arrow = Arc::clone(&newest.arrow);
            let suffix = &table.reference().table[prefix.len()..];
            let source = self.scan_range(snapshot, None, alias.clone(), Some(suffix))?;
            result = Some(match result {
                None => source,
                Some(so_far) => self.union_of(so_far, source)?,
            });
        }
        result.ok_or_else(|| ServiceError::internal("there is a table"))
    }

    /// The rows of two scans of the same columns.
    fn union_of(&self, left: Source, right: Source) -> Result<Source> {
        let (l, r) = (&left.scope.ranges[0], &right.scope.ranges[0]);
        let renamed: Vec<DfExpr> = l
            .columns
            .iter()
            .chain(&l.pseudo)
            .zip(r.columns.iter().chain(&r.pseudo))
            .map(|(l, r)| column(&r.id).alias(&l.id))
            .collect();
        let same: Vec<DfExpr> = l
            .columns
            .iter()
            .chain(&l.pseudo)
            .map(|c| column(&c.id))
            .collect();
        let right = built(LogicalPlanBuilder::from(right.plan).project(renamed))?;
        let plan = built(
            LogicalPlanBuilder::from(left.plan)
                .project(same)
                .and_then(|b| b.union(right)),
        )?;
        let marked: Vec<DfExpr> = l
            .columns
            .iter()
            .chain(&l.pseudo)
            .map(|c| nested::marked(column(&c.id), &c.ty).alias(&c.id))
            .collect();
        Ok(Source {
            plan: LogicalPlanBuilder::from(plan)
                .project(marked)
                .and_then(LogicalPlanBuilder::build)
                .map_err(service_error)?,
            ..left
        })
    }

    /// A table as the target of DML: its rows, their numbers, and its names.
    pub(in crate::engine::query) fn target(
        &self,
        snapshot: Snapshot,
        ingestion: bool,
    ) -> Result<(Rel, String)> {
        let number = self.env.id();
        let mut columns = vec![ScanColumn {
            id: number.clone(),
            sql_type: SqlType::Int64,
            source: ScanSource::RowNumber,
        }];
        let mut cols = Vec::new();
        for (i, field) in snapshot.schema.fields.iter().enumerate() {
            let col = Col {
                name: Some(field.name.clone()),
                id: self.env.id(),
                ty: SqlType::of_column(field),
                fold_case: field.collation.as_deref() == Some("und:ci"),
            };
            columns.push(ScanColumn {
                id: col.id.clone(),
                sql_type: col.ty.clone(),
                source: ScanSource::Column(i),
            });
            cols.push(col);
        }
        if ingestion {
            let col = Col {
                name: Some("_PARTITIONTIME".into()),
                id: self.env.id(),
                ty: SqlType::Timestamp,
                fold_case: false,
            };
            columns.push(ScanColumn {
                id: col.id.clone(),
                sql_type: SqlType::Timestamp,
                source: ScanSource::Partition,
            });
            cols.push(col);
        }
        Ok((
            Rel {
                plan: scan(snapshot, columns)?,
                columns: cols,
                row: None,
                value_table: false,
            },
            number,
        ))
    }
}
