//! `debezium_envelopes('file', …, 'columns')`: the changes in files of Debezium's JSON.
//!
//! A file has an envelope on each line, with or without its schema around it. The table
//! has a row for each envelope, in the order of the files and of their lines:
//!
//! | column | |
//! |---|---|
//! | `op` | `c`, `u`, `d`, `r` (snapshot), `t` (truncate), `m` (message) |
//! | `before`, `after` | the row before and after, as a struct of the columns |
//! | `source` | where the change comes from, as JSON text for the functions of sequence numbers |
//! | `ts_ms` | when the connector saw it, in milliseconds |
//!
//! Lines that are empty or `null`, which Kafka's compaction leaves, have no row. The last
//! of several arguments may declare the columns, as CREATE TABLE has them; fields that are
//! not declared are left out, and those that a row does not have are NULL. Otherwise the
//! columns that occur are read off the files when the statement is planned. Numbers are
//! what is written, or an error.

mod columns;
mod images;
mod lines;
mod number;

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;

use self::columns::{files_and_columns, inferred};
use self::images::{Columns, Image};
use self::lines::{Envelope, envelopes};
use crate::error::{Error, ErrorKind, Result};

/// The function's name.
pub(crate) const DEBEZIUM_ENVELOPES: &str = "debezium_envelopes";

/// Envelopes of one batch.
const ROWS: usize = 1_024;

/// Batches that wait for the engine.
const AHEAD: usize = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct DebeziumEnvelopes;

impl TableFunctionImpl for DebeziumEnvelopes {
    fn call_with_args(
        &self,
        args: TableFunctionArgs<'_, '_>,
    ) -> DataFusionResult<Arc<dyn TableProvider>> {
        let arguments = args
            .exprs()
            .iter()
            .map(|argument| match argument {
                Expr::Literal(
                    ScalarValue::Utf8(Some(path))
                    | ScalarValue::Utf8View(Some(path))
                    | ScalarValue::LargeUtf8(Some(path)),
                    _,
                ) => Ok(path.clone()),
                other => Err(wrong(format!(
                    "{DEBEZIUM_ENVELOPES} takes names of files and, last, columns, in quotes, not \
                     {other}"
                ))),
            })
            .collect::<Result<Vec<_>>>()?;
        let context = |error: Error| error.with_context(DEBEZIUM_ENVELOPES);
        let (files, declared) = files_and_columns(arguments, args.session()).map_err(context)?;
        if files.is_empty() {
            let message =
                format!("{DEBEZIUM_ENVELOPES} takes names of files in quotes, and has none");
            return Err(wrong(message).into());
        }
        let rows = match declared {
            Some(fields) => Columns {
                fields,
                declared: true,
            },
            None => Columns {
                fields: inferred(&files)?,
                declared: false,
            },
        };
        let text = |name| Field::new(name, DataType::Utf8, true);
        let row = |name| Field::new(name, DataType::Struct(rows.fields.clone()), true);
        let schema = Arc::new(Schema::new(vec![
            text("op"),
            row("before"),
            row("after"),
            text("source"),
            Field::new("ts_ms", DataType::Int64, true),
        ]));
        let partition = EnvelopeFiles {
            files,
            rows,
            schema: Arc::clone(&schema),
        };
        Ok(Arc::new(StreamingTable::try_new(
            schema,
            vec![Arc::new(partition)],
        )?))
    }
}

/// The files, read one after the other so that changes keep their order.
#[derive(Debug)]
struct EnvelopeFiles {
    files: Vec<PathBuf>,
    rows: Columns,
    schema: SchemaRef,
}

impl PartitionStream for EnvelopeFiles {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), AHEAD);
        let send = builder.tx();
        let (files, rows) = (self.files.clone(), self.rows.clone());
        builder.spawn_blocking(move || {
            let mut envelopes = envelopes(files);
            loop {
                let some = envelopes.by_ref().take(ROWS).collect::<Result<Vec<_>>>()?;
                if some.is_empty() {
                    return Ok(());
                }
                let batch = batch(&schema, &rows, &some)?;
                if send.blocking_send(Ok(batch)).is_err() {
                    // Nobody wants more.
                    return Ok(());
                }
            }
        });
        builder.build()
    }
}

fn batch(schema: &SchemaRef, rows: &Columns, envelopes: &[Envelope]) -> Result<RecordBatch> {
    let op: StringArray = envelopes.iter().map(|e| Some(e.op.as_str())).collect();
    let source: StringArray = envelopes.iter().map(|e| e.source.as_deref()).collect();
    let times: Int64Array = envelopes.iter().map(|e| e.ts_ms).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(op),
        rows.images(envelopes, Image::Before)?,
        rows.images(envelopes, Image::After)?,
        Arc::new(source),
        Arc::new(times),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns)
        .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}
