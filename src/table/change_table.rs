//! A table that takes changes by key.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchemaRef;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::dml::{InsertOp, MergeIntoClause};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::insert::LeftOut;
use super::merge;
use super::metadata::{LiveTable, NewColumns, SchemaTerms};
use super::provider::TableContext;
use super::writing::{InsertTerms, commit_time, why_not};
use crate::cdc::{
    self, CHANGE_SEQUENCE_NUMBER, CHANGE_TYPE, ChangeSinkBuilder, is_pseudocolumn,
    without_pseudocolumns,
};
use crate::client::rest::model::Table;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{BigQueryOptions, Options, RawOptions};
use crate::sink::{BigQueryCommitExec, BigQuerySink, BigQueryWriteExec};
use crate::types::{Field, FieldType, Mode, TableRef, TableSchema, arrow};

/// How a session reads names without quotes, in which the pseudocolumns must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// `_CHANGE_TYPE` means `_change_type`.
    InLowerCase,
    /// It means itself.
    AsWritten,
}

impl Names {
    pub(super) fn of(session: &dyn Session) -> Self {
        match session
            .config_options()
            .sql_parser
            .enable_ident_normalization
        {
            true => Names::InLowerCase,
            false => Names::AsWritten,
        }
    }
}

/// A table whose rows are replaced and deleted by its primary key: INSERT writes changes.
///
/// Its columns are those of the live table, or of one that the first change creates,
/// `_CHANGE_TYPE` and `_CHANGE_SEQUENCE_NUMBER`. All may be NULL but the key's, because a deletion has only
/// a key. Reading it is refused: what it takes are changes, and not what the table holds.
#[derive(Debug)]
pub struct BigQueryChangeTable {
    context: TableContext,
    table: TableRef,
    state: State,
    /// The columns of the key that a statement declares; none when it says nothing.
    declared_key: Vec<String>,
    /// The columns of the key.
    key: Vec<String>,
    schema: SchemaRef,
    /// What the columns take, the pseudocolumns included.
    takes: TableSchema,
    left_out: LeftOut,
}

/// What the service said of the table when it was declared.
#[derive(Debug)]
enum State {
    Live(Arc<Table>),
    /// It does not exist, and is created with these columns; as they are read then.
    Declared(SchemaRef),
}

impl BigQueryChangeTable {
    /// The live table, checked against what a statement declares of it; or one that is
    /// created with the declared columns by the first change.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is no such table and no columns are declared;
    /// and when its columns or its key are not the declared ones.
    pub(super) async fn open(
        context: TableContext,
        table: TableRef,
        declared: SchemaRef,
        declared_key: Vec<String>,
        options: &Options,
        names: Names,
    ) -> Result<Self> {
        let declared = Arc::new(without_pseudocolumns(&declared)?);
        let (state, columns, own, key) = match context.client.get_table(&table).await {
            Ok(found) => {
                let live = LiveTable::new(table.clone(), found.clone(), options.into());
                live.check_declared(&declared, NewColumns::Never)?;
                let key = cdc::agreed(&table, &found.schema, &declared_key, &found.primary_key)?;
                let columns = found.schema.clone();
                (State::Live(Arc::new(found)), columns, live.schema, key)
            }
            Err(missing)
                if missing.kind() == ErrorKind::NotFound && !declared.fields().is_empty() =>
            {
                let columns = cdc::new_columns(&table, &declared, &declared_key, &options.sink)?;
                let key = cdc::agreed(&table, &columns, &declared_key, &[])?;
                let own = arrow::table_schema(&columns, options.scan.timestamp_precision);
                (State::Declared(Arc::clone(&own)), columns, own, key)
            }
            Err(error) => return Err(error),
        };
        let mut fields: Vec<ArrowField> = own
            .fields()
            .iter()
            .map(|field| {
                let is_key = key.iter().any(|name| name == field.name());
                field.as_ref().clone().with_nullable(!is_key)
            })
            .collect();
        let mut takes = columns;
        for name in [CHANGE_TYPE, CHANGE_SEQUENCE_NUMBER] {
            let name = match names {
                Names::InLowerCase => name.to_lowercase(),
                Names::AsWritten => name.to_string(),
            };
            takes
                .fields
                .push(Field::new(&name, FieldType::String, Mode::Nullable));
            fields.push(ArrowField::new(name, DataType::Utf8, true));
        }
        Ok(Self {
            context,
            table,
            state,
            declared_key,
            key,
            schema: Arc::new(Schema::new(fields)),
            takes,
            left_out: LeftOut::default(),
        })
    }

    /// The table's full name.
    pub fn table_ref(&self) -> &TableRef {
        &self.table
    }

    /// How many columns it has, the pseudocolumns included.
    pub(super) fn columns(&self) -> usize {
        self.schema.fields().len()
    }

    /// The columns of the key.
    pub(super) fn key(&self) -> &[String] {
        &self.key
    }

    /// Whether a column is of the key.
    pub(super) fn is_key(&self, column: &str) -> bool {
        self.key.iter().any(|name| name == column)
    }

    /// The table's columns that are not of the key.
    pub(super) fn others(&self) -> impl Iterator<Item = String> {
        let names = self.schema.fields().iter().map(|field| field.name());
        let others = names.filter(|name| !self.is_key(name) && !is_pseudocolumn(name));
        others.cloned()
    }

    /// How values of an INSERT are cast, in a session with these options.
    ///
    /// # Errors
    /// An option that is wrong.
    pub(super) fn insert_terms(&self, defaults: &RawOptions) -> Result<InsertTerms<'_>> {
        let options = self.options(defaults)?.sink;
        Ok(InsertTerms::new(&self.table, &self.takes, options))
    }

    fn refuse<T>(&self, what: &str, instead: &str) -> DataFusionResult<T> {
        Err(DataFusionError::from(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{what}: this table takes changes of {} and holds nothing; {instead}",
                self.table
            ),
        )))
    }

    /// The error of DELETE.
    pub(super) fn refuse_delete<T>(&self) -> DataFusionResult<T> {
        self.refuse(
            "DELETE",
            "insert rows with the keys and _CHANGE_TYPE 'DELETE', or MERGE with WHEN MATCHED THEN \
             DELETE",
        )
    }

    /// The error of UPDATE.
    pub(super) fn refuse_update<T>(&self) -> DataFusionResult<T> {
        self.refuse(
            "UPDATE",
            "insert the rows as they are to be, with _CHANGE_TYPE 'UPSERT', or MERGE them",
        )
    }

    /// The plan that writes what `input` gives.
    pub(super) async fn write(
        &self,
        session: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        if let Some(why) = why_not(session) {
            return Err(DataFusionError::from(Error::new(
                ErrorKind::Unsupported,
                format!("writing changes of {}: {why}", self.table),
            )));
        }
        let defaults = BigQueryOptions::of(session.config_options());
        let options = self.options(&defaults)?;
        // Rows are visible before a commit, so a run cannot be repeated.
        options.sink.repeatable()?;
        let when = commit_time(&input, &options.sink)
            .map_err(|error| error.with_context(format!("writing changes of {}", self.table)))?;
        let sink = self.sink(options, input.schema()).await?;
        let mut write = BigQueryWriteExec::new(Arc::clone(&input), sink.clone());
        if write.writes_by_arrival() {
            write = BigQueryWriteExec::new(cdc::keep_order(input)?, sink.clone());
        }
        let write = Arc::new(write.committed(when));
        Ok(Arc::new(
            BigQueryCommitExec::new(write, sink).committed(when),
        ))
    }

    async fn sink(&self, options: Options, rows: SchemaRef) -> Result<BigQuerySink> {
        let terms = SchemaTerms::from(&options);
        let client = self.context.client.clone();
        let builder = ChangeSinkBuilder::new(client, self.table.clone(), options)
            .with_primary_key(self.declared_key.iter());
        match &self.state {
            State::Live(found) => builder.build_for(found, rows),
            State::Declared(declared) => match self.context.client.get_table(&self.table).await {
                Ok(found) => {
                    let live = LiveTable::new(self.table.clone(), found.clone(), terms);
                    live.check_declared(declared, NewColumns::Never)?;
                    builder.build_for(&found, rows)
                }
                Err(missing) if missing.kind() == ErrorKind::NotFound => builder
                    .with_new_table_columns(Arc::clone(declared))
                    .build_missing(missing, rows),
                Err(error) => Err(error),
            },
        }
    }

    fn options(&self, defaults: &RawOptions) -> Result<Options> {
        Options::resolve_over(&self.context.options, defaults)
    }
}

#[async_trait]
impl TableProvider for BigQueryChangeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let table = &self.table;
        self.refuse(
            "SELECT",
            &format!(
                "what {table} holds is read through a table without option 'sink.cdc.enabled', or \
                 as bigquery_scan('{table}')"
            ),
        )
    }

    /// As of every table of BigQuery: a NULL that can be told from one that was said.
    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.left_out.column(&self.schema, column)
    }

    async fn insert_into(
        &self,
        session: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        match operation {
            InsertOp::Append | InsertOp::Replace => self.write(session, input).await,
            InsertOp::Overwrite => self.refuse(
                "INSERT OVERWRITE",
                "insert the changes that lead to the rows that it is to have, or overwrite it \
                 through a table without option 'sink.cdc.enabled'",
            ),
        }
    }

    async fn delete_from(
        &self,
        _: &dyn Session,
        _: Vec<Expr>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.refuse_delete()
    }

    async fn update(
        &self,
        _: &dyn Session,
        _: Vec<(String, Expr)>,
        _: Vec<Expr>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.refuse_update()
    }

    async fn truncate(&self, _: &dyn Session) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.refuse(
            "TRUNCATE",
            "insert a row with _CHANGE_TYPE 'DELETE' for each key, or truncate it in BigQuery",
        )
    }

    async fn merge_into(
        &self,
        session: &dyn Session,
        source: Arc<dyn ExecutionPlan>,
        schema: DFSchemaRef,
        on: Expr,
        clauses: Vec<MergeIntoClause>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        merge::changes(self, session, source, &schema, &on, &clauses).await
    }
}
