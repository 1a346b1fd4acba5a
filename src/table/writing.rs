//! What an INSERT writes to.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema};
use datafusion::catalog::Session;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::exact_cast::{Goal, Misfit};
use super::metadata::{LiveTable, NewColumns, SchemaTerms};
use super::provider::{BigQueryTable, State};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{
    BigQueryOptions, FailurePolicy, RawOptions, SinkOptions, WriteEffect, WriteMethod,
};
use crate::sink::{BigQuerySink, CommitTime, Run};
use crate::types::encode::{FieldMarks, RowEncoder, RowFormat};
use crate::types::{TableRef, TableSchema, arrow};

/// What of a table and of options decides how values of an INSERT are cast.
pub(super) struct InsertTerms<'a> {
    table: &'a TableRef,
    columns: &'a TableSchema,
    marks: FieldMarks,
    /// What becomes of values that a column cannot hold.
    pub(super) misfit: Misfit,
}

impl<'a> InsertTerms<'a> {
    /// The terms for a table with these columns.
    pub(super) fn new(table: &'a TableRef, columns: &'a TableSchema, options: SinkOptions) -> Self {
        Self {
            table,
            columns,
            marks: FieldMarks {
                json: options.json_field_paths,
                geography: options.geography_field_paths,
            },
            misfit: match options.failure.policy {
                FailurePolicy::Fail => Misfit::Fails,
                _ => Misfit::IsTold,
            },
        }
    }

    /// A column that values go to, as errors name it.
    pub(super) fn goal(&self, column: &str) -> Option<Goal> {
        let column = self.columns.field(column)?;
        Some(Goal {
            table: self.table.clone(),
            column: column.name.clone(),
            type_name: column.type_name(),
        })
    }

    /// Whether the sink takes values of this type for a column.
    pub(super) fn takes(&self, column: &str, data_type: &DataType) -> bool {
        let Some(column) = self.columns.field(column) else {
            return false;
        };
        let given = Schema::new(vec![ArrowField::new(&column.name, data_type.clone(), true)]);
        let columns = TableSchema {
            fields: vec![column.clone()],
        };
        let of_column = |paths: &[String]| {
            let named = |path: &&String| {
                let first = path.split('.').next().unwrap_or_default();
                column.is_named(first)
            };
            paths.iter().filter(named).cloned().collect()
        };
        let marks = FieldMarks {
            json: of_column(&self.marks.json),
            geography: of_column(&self.marks.geography),
        };
        RowEncoder::plan(&given, &columns, RowFormat::Protobuf, &marks).is_ok()
    }
}

/// Why rows cannot be written in this session whatever they are; None if they can.
pub(super) fn why_not(session: &dyn Session) -> Option<&'static str> {
    let extensions = &session.config_options().extensions;
    let unknown = extensions.get::<BigQueryOptions>().is_none();
    unknown.then_some(
        "the session does not know BigQuery's INSERT, and would cast values to the table's types \
         at any cost: make it by with_bigquery",
    )
}

/// When the rows of `input` are committed.
///
/// # Errors
/// It never ends, and the options do not say how its rows are committed.
pub(super) fn commit_time(
    input: &Arc<dyn ExecutionPlan>,
    options: &SinkOptions,
) -> Result<CommitTime> {
    match input.boundedness().is_unbounded() {
        true => options.interval_of_unbounded().map(CommitTime::Every),
        false => Ok(CommitTime::AtTheEnd),
    }
}

impl BigQueryTable {
    /// How values of an INSERT are cast, in a session with these options.
    ///
    /// # Errors
    /// An option that is wrong.
    pub(super) fn insert_terms(&self, defaults: &RawOptions) -> Result<InsertTerms<'_>> {
        let options = self.options_over(defaults)?.sink;
        let columns = match &self.state {
            State::Live { found, .. } => &found.schema,
            State::Declared { columns, .. } => columns,
        };
        Ok(InsertTerms::new(&self.table, columns, options))
    }

    /// As which run an INSERT is executed, if it may be repeated.
    pub(super) fn run(&self, session: &dyn Session) -> Result<Option<Run>> {
        let options = self.options(session)?;
        let run = options.sink.repeatable()?.cloned();
        match (run, &self.statement) {
            (None, _) => Ok(None),
            (Some(run), Some(statement)) => {
                // Says, like the statement itself, what becomes of the rows that are there.
                let disposition = match options.sink.write_method {
                    WriteMethod::FileLoads => options.sink.file_loads.write_disposition.name(),
                    _ => "",
                };
                Ok(Some(Run::new(run, format!("{statement}{disposition}"))))
            }
            (Some(run), None) => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "inserting into {}: run '{}' (option 'sink.run_id') is not an INSERT statement \
                     that could be told from others",
                    self.table, run.id
                ),
            )),
        }
    }

    /// What an INSERT of `input` writes to, and when it commits.
    pub(super) async fn sink(
        &self,
        session: &dyn Session,
        input: &Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> Result<(BigQuerySink, CommitTime)> {
        let refuse = |why: &str| {
            Err(Error::new(
                ErrorKind::Unsupported,
                format!("inserting into {}: {why}", self.table),
            ))
        };
        let effect = match operation {
            InsertOp::Append => WriteEffect::Add,
            InsertOp::Overwrite => WriteEffect::Replace,
            InsertOp::Replace => {
                return refuse(
                    "rows are added, or replaced all of them, and not replaced one by one: use \
                     INSERT INTO or INSERT OVERWRITE",
                );
            }
        };
        if let Some(why) = why_not(session) {
            return refuse(why);
        }
        let options = self.options(session)?;
        let sink = SinkOptions {
            effect,
            ..options.sink.clone()
        };
        let inserting = |error: Error| error.with_context(format!("inserting into {}", self.table));
        sink.check_disposition().map_err(inserting)?;
        let when = commit_time(input, &sink).map_err(inserting)?;
        let builder =
            BigQuerySink::builder(self.client.clone(), self.table.clone()).with_options(sink);
        let rows = input.schema();
        let routed = options.sink.destination.pattern.is_some();
        let sink = match &self.state {
            State::Live { found, .. } if routed => {
                let precision = options.scan.timestamp_precision;
                let columns = arrow::table_schema(&found.schema, precision);
                builder.with_new_table_columns(columns).build(rows).await
            }
            State::Live { found, .. } => builder.build_for(Arc::clone(found), rows),
            State::Declared { schema, .. } if routed => {
                let columns = Arc::clone(schema);
                builder.with_new_table_columns(columns).build(rows).await
            }
            State::Declared { schema, .. } => match self.client.get_table(&self.table).await {
                Ok(found) => {
                    let terms = SchemaTerms::from(&options);
                    let live = LiveTable::new(self.table.clone(), found.clone(), terms);
                    live.check_declared(schema, NewColumns::of(&options))?;
                    let columns = Arc::clone(schema);
                    builder
                        .with_new_table_columns(columns)
                        .build_for(Arc::new(found), rows)
                }
                Err(missing) if missing.kind() == ErrorKind::NotFound => {
                    let columns = Arc::clone(schema);
                    builder
                        .with_new_table_columns(columns)
                        .build_missing(missing, rows)
                }
                Err(error) => Err(error),
            },
        };
        Ok((sink?, when))
    }
}
