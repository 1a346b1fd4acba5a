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
use super::metadata::{LiveTable, SchemaTerms};
use super::provider::TableContext;
use super::writing::{InsertTerms, why_not};
use crate::cdc::{self, CHANGE_SEQUENCE_NUMBER, CHANGE_TYPE};
use crate::client::rest::model::Table;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{BigQueryOptions, Options, RawOptions};
use crate::sink::{BigQueryCommitExec, BigQueryWriteExec};
use crate::types::{Field, FieldType, Mode, TableRef, TableSchema};

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
/// Its columns are those of the live table, `_CHANGE_TYPE` and
/// `_CHANGE_SEQUENCE_NUMBER`. All may be NULL but the key's, because a deletion has only
/// a key. Reading it is refused: what it takes are changes, and not what the table holds.
#[derive(Debug)]
pub struct BigQueryChangeTable {
    context: TableContext,
    table: TableRef,
    found: Arc<Table>,
    /// The columns of the key that a statement declares; none when it says nothing.
    declared_key: Vec<String>,
    /// The columns of the key.
    key: Vec<String>,
    schema: SchemaRef,
    /// What the columns take, the pseudocolumns included.
    takes: TableSchema,
    left_out: LeftOut,
}

impl BigQueryChangeTable {
    /// The live table, checked against what a statement declares of it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is no such table; and when its columns or its
    /// key are not the declared ones.
    pub(super) async fn open(
        context: TableContext,
        table: TableRef,
        declared: SchemaRef,
        declared_key: Vec<String>,
        options: &Options,
        names: Names,
    ) -> Result<Self> {
        let found = match context.client.get_table(&table).await {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!(
                        "table {table} does not exist, and this version creates none for changes: \
                         create it in BigQuery with PRIMARY KEY (…) NOT ENFORCED"
                    ),
                )
                .with_source(error));
            }
            Err(error) => return Err(error),
        };
        let terms = SchemaTerms::from(options);
        let live = LiveTable::new(table.clone(), found.clone(), terms);
        live.check_declared(&without_pseudocolumns(&declared))?;
        let key = cdc::agreed(&table, &found.schema, &declared_key, &found.primary_key)?;
        let columns = live.schema.fields().iter().map(|field| {
            let is_key = key.iter().any(|name| name == field.name());
            field.as_ref().clone().with_nullable(!is_key)
        });
        let mut fields: Vec<ArrowField> = columns.collect();
        let mut takes = found.schema.clone();
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
            found: Arc::new(found),
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

    /// Whether rows of a column must have a value.
    pub(super) fn is_required(&self, column: &str) -> bool {
        let column = self.found.schema.field(column);
        column.is_some_and(|column| column.mode == Mode::Required)
    }

    /// How values of an INSERT are cast, in a session with these options.
    ///
    /// # Errors
    /// An option that is wrong.
    pub(super) fn insert_terms(&self, defaults: &RawOptions) -> Result<InsertTerms<'_>> {
        let options = self.options(defaults)?.sink;
        Ok(InsertTerms::new(&self.takes, options))
    }

    fn refuse<T>(&self, what: &str) -> DataFusionResult<T> {
        Err(DataFusionError::from(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{what}: this table takes changes of {table} and holds nothing; what {table} holds \
                 is read through a table without option 'sink.cdc.enabled', or as \
                 bigquery_scan('{table}')",
                table = self.table
            ),
        )))
    }

    /// The plan that writes what `input` gives.
    pub(super) fn write(
        &self,
        session: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        if let Some(why) = why_not(session, &input) {
            return Err(DataFusionError::from(Error::new(
                ErrorKind::Unsupported,
                format!("writing changes of {}: {why}", self.table),
            )));
        }
        let defaults = BigQueryOptions::of(session.config_options());
        let options = self.options(&defaults)?;
        // Rows are visible before a commit, so a run cannot be repeated.
        options.sink.repeatable()?;
        let sink = cdc::change_sink(
            self.context.client.clone(),
            self.table.clone(),
            &self.found,
            &self.declared_key,
            &options,
            input.schema(),
        )?;
        let mut write = BigQueryWriteExec::new(Arc::clone(&input), sink.clone());
        if write.writes_by_arrival() {
            write = BigQueryWriteExec::new(cdc::keep_order(input)?, sink.clone());
        }
        Ok(Arc::new(BigQueryCommitExec::new(Arc::new(write), sink)))
    }

    fn options(&self, defaults: &RawOptions) -> Result<Options> {
        Options::resolve_over(&self.context.options, defaults)
    }
}

/// The declared columns of the table itself.
fn without_pseudocolumns(declared: &Schema) -> Schema {
    let fields = declared.fields().iter();
    let own = fields.filter(|field| !is_pseudocolumn(field.name()));
    Schema::new(own.cloned().collect::<Vec<_>>())
}

fn is_pseudocolumn(name: &str) -> bool {
    let mut pseudo = [CHANGE_TYPE, CHANGE_SEQUENCE_NUMBER].into_iter();
    pseudo.any(|known| name.eq_ignore_ascii_case(known))
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
        self.refuse("SELECT")
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
            InsertOp::Append | InsertOp::Replace => self.write(session, input),
            InsertOp::Overwrite => self.refuse("INSERT OVERWRITE"),
        }
    }

    async fn delete_from(
        &self,
        _: &dyn Session,
        _: Vec<Expr>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.refuse("DELETE (insert rows whose _CHANGE_TYPE is 'DELETE')")
    }

    async fn update(
        &self,
        _: &dyn Session,
        _: Vec<(String, Expr)>,
        _: Vec<Expr>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.refuse("UPDATE (insert the rows as they are to be)")
    }

    async fn truncate(&self, _: &dyn Session) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.refuse("TRUNCATE")
    }

    async fn merge_into(
        &self,
        session: &dyn Session,
        source: Arc<dyn ExecutionPlan>,
        schema: DFSchemaRef,
        on: Expr,
        clauses: Vec<MergeIntoClause>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        merge::changes(self, session, source, &schema, &on, &clauses)
    }
}
