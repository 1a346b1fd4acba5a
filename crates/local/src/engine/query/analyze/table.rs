//! Tables, views and wildcards as FROM items.

use std::sync::Arc;

use datafusion::logical_expr::{Expr as DfExpr, LogicalPlanBuilder};
use datafusion::scalar::ScalarValue;

use super::super::super::functions::SqlType;
use super::super::ast::{Expr, Ident, Path};
use super::super::information_schema;
use super::super::scan::{ScanColumn, Source as ScanSource, scan};
use super::super::session::service_error;
use super::Analyzer;
use super::expr::NOTHING;
use super::from::Source;
use super::nested::{self};
use super::query::built;
use super::scope::{Col, Ctx, Frame, Range, Rel, Scope, column};
use crate::error::{Result, ServiceError};
use crate::store::{RequiredFilter, Snapshot, Table, TableKind, TableRef};

impl Analyzer<'_> {
    pub(super) fn named_table(
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
        let ingestion = meta
            .time_partitioning
            .as_ref()
            .filter(|p| p.field.is_none())
            .map(|p| p.granularity == "DAY");
        let range = self.scan_range(
            snapshot,
            meta.required_filter(table.reference()),
            ingestion,
            alias,
            None,
        )?;
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
        required: Option<RequiredFilter<'_>>,
        ingestion: Option<bool>,
        alias: Option<String>,
        suffix: Option<&str>,
    ) -> Result<Source> {
        let mut columns = Vec::new();
        let mut range = Range {
            alias,
            ..Default::default()
        };
        self.stored(&snapshot, &mut columns, &mut range.columns);
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
        let mut plan = scan(snapshot, columns, required, Some(self.env.bytes.clone()))?;
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
            let meta = table.meta();
            let required = meta.required_filter(table.reference());
            let source = self.scan_range(snapshot, required, None, alias.clone(), Some(suffix))?;
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

    /// The columns that a table's rows have, with new ids.
    fn stored(&self, snapshot: &Snapshot, columns: &mut Vec<ScanColumn>, cols: &mut Vec<Col>) {
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
    }

    /// A table as the target of DML: its rows, their numbers, and its names.
    pub(in crate::engine::query) fn target(
        &self,
        snapshot: Snapshot,
        required: Option<RequiredFilter<'_>>,
        ingestion: bool,
    ) -> Result<(Rel, String)> {
        let number = self.env.id();
        let mut columns = vec![ScanColumn {
            id: number.clone(),
            sql_type: SqlType::Int64,
            source: ScanSource::RowNumber,
        }];
        let mut cols = Vec::new();
        self.stored(&snapshot, &mut columns, &mut cols);
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
                // All of a target's columns count, whatever is read.
                plan: scan(snapshot, columns, required, None)?,
                columns: cols,
                row: None,
                value_table: false,
            },
            number,
        ))
    }
}
