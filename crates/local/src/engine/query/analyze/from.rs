//! FROM clauses.

use datafusion::common::JoinType;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::scalar::ScalarValue;

use super::super::super::functions::SqlType;
use super::super::ast::{Expr, ExprKind, Ident, JoinKind, JoinOn, Path, TableExpr};
use super::Analyzer;
use super::aggregate::walk;
use super::expr::{NOTHING, binary};
use super::nested::{self, Padding};
use super::query::built;
use super::scope::{Col, Ctx, Found, Frame, Mode, Range, Rel, Scope, column};
use crate::error::{Result, ServiceError};

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
    pub(super) fn source(
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
            TableExpr::Join { .. } => self.join(from, left, frame),
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
        join: &TableExpr,
        before: Option<Source>,
        frame: Option<&Frame<'_>>,
    ) -> Result<Source> {
        let TableExpr::Join {
            left: l,
            right: r,
            kind,
            on,
            at,
        } = join
        else {
            return Err(ServiceError::internal("a join is a join"));
        };
        let (kind, at) = (*kind, *at);
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
        let array = match r.as_ref() {
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
        // An array that names no column is a table like any other.
        let conditional = kind == JoinKind::Left
            && !matches!(on, JoinOn::None)
            && !matches!(on, JoinOn::On(e) if e.kind == ExprKind::Bool(true));
        let array = array.filter(|(array, ..)| !(apart || conditional) || names_columns(array));
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
            ScalarValue::Float64(Some(100.0)) => Ok(table),
            ScalarValue::Float64(Some(0.0)) => Ok(Source {
                plan: built(LogicalPlanBuilder::from(table.plan).limit(0, Some(0)))?,
                ..table
            }),
            ScalarValue::Float64(Some(p)) if (0.0..100.0).contains(&p) => Err(
                ServiceError::unsupported("TABLESAMPLE of a part of the rows"),
            ),
            _ => Err(self.error(percent.at, "Sample percentage must be between 0 and 100")),
        }
    }
}

/// Whether an expression has names in it, in subqueries or outside of them.
fn names_columns(e: &Expr) -> bool {
    let mut found = false;
    walk(e, &mut |e| {
        found |= matches!(
            e.kind,
            ExprKind::Ident(_)
                | ExprKind::ArrayQuery(_)
                | ExprKind::Exists(_)
                | ExprKind::Subquery(_)
                | ExprKind::In { .. }
        );
    });
    found
}
