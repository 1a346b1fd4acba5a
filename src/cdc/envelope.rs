//! `debezium_envelopes('file', …)`: the changes in files of Debezium's JSON.
//!
//! A file has an envelope on each line, with or without its schema around it. The table
//! has a row for each envelope, in the order of the files and of their lines:
//!
//! | column | |
//! |---|---|
//! | `op` | `c`, `u`, `d`, `r` (snapshot), `t` (truncate), `m` (message) |
//! | `before`, `after` | the row before and after, as a struct of all columns that occur |
//! | `source` | where the change comes from, as JSON text for the functions of sequence numbers |
//! | `ts_ms` | when the connector saw it, in milliseconds |
//!
//! Lines that are empty or `null`, which Kafka's compaction leaves, have no row. The types
//! of the columns are read off the files when the statement is planned.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::json::ReaderBuilder;
use arrow::json::reader::infer_json_schema_from_iterator;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::PartitionStream;
use serde_json::{Map, Value};

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
        let files = args
            .exprs()
            .iter()
            .map(|argument| match argument {
                Expr::Literal(
                    ScalarValue::Utf8(Some(path))
                    | ScalarValue::Utf8View(Some(path))
                    | ScalarValue::LargeUtf8(Some(path)),
                    _,
                ) => Ok(PathBuf::from(path)),
                other => Err(wrong(format!(
                    "{DEBEZIUM_ENVELOPES} takes names of files in quotes, not {other}"
                ))),
            })
            .collect::<Result<Vec<_>>>()?;
        if files.is_empty() {
            let message =
                format!("{DEBEZIUM_ENVELOPES} takes names of files in quotes, and has none");
            return Err(wrong(message).into());
        }
        let rows = inferred(&files)?;
        let text = |name| Field::new(name, DataType::Utf8, true);
        let row = |name| Field::new(name, DataType::Struct(rows.clone()), true);
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
    rows: Fields,
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
                let batch = batch(&schema, &rows, some)?;
                if send.blocking_send(Ok(batch)).is_err() {
                    // Nobody wants more.
                    return Ok(());
                }
            }
        });
        builder.build()
    }
}

/// An envelope without what is around it, and where it is.
struct Envelope {
    fields: Map<String, Value>,
    place: String,
}

fn envelopes(files: Vec<PathBuf>) -> impl Iterator<Item = Result<Envelope>> {
    files.into_iter().flat_map(|file| {
        let name = file.display().to_string();
        let unreadable = {
            let name = name.clone();
            move |error: std::io::Error| {
                let kind = match error.kind() {
                    std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                    _ => ErrorKind::InvalidArgument,
                };
                Error::new(kind, format!("{name} cannot be read: {error}"))
            }
        };
        let (first, lines) = match File::open(&file) {
            Ok(file) => (None, Some(BufReader::new(file).lines())),
            Err(error) => (Some(Err(unreadable(error))), None),
        };
        let lines = lines.into_iter().flatten().enumerate();
        let read = lines.filter_map(move |(number, line)| {
            let place = format!("{name}, line {}", number + 1);
            match line {
                Ok(line) => envelope(&line, place).transpose(),
                Err(error) => Some(Err(unreadable(error))),
            }
        });
        first.into_iter().chain(read)
    })
}

fn envelope(line: &str, place: String) -> Result<Option<Envelope>> {
    let none = |why: &str| Err(wrong(format!("{place} is no envelope of Debezium: {why}")));
    if line.trim().is_empty() {
        return Ok(None);
    }
    let value: Value = match serde_json::from_str(line) {
        Ok(value) => value,
        Err(error) => return none(&format!("it is no JSON ({error})")),
    };
    let mut fields = match value {
        Value::Null => return Ok(None),
        Value::Object(fields) => fields,
        _ => return none("it is no object"),
    };
    if !fields.contains_key("op") {
        match fields.remove("payload") {
            Some(Value::Object(payload)) => fields = payload,
            Some(Value::Null) => return Ok(None),
            _ => return none("it has neither 'op' nor 'payload'"),
        }
    }
    for (name, what) in [
        ("before", "an object"),
        ("after", "an object"),
        ("op", "text"),
    ] {
        let fits = match fields.get(name) {
            None | Some(Value::Null) => name != "op",
            Some(Value::Object(_)) => name != "op",
            Some(Value::String(_)) => name == "op",
            Some(_) => false,
        };
        if !fits {
            return none(&format!("its '{name}' is not {what}"));
        }
    }
    Ok(Some(Envelope { fields, place }))
}

/// The columns that rows have in any envelope.
fn inferred(files: &[PathBuf]) -> Result<Fields> {
    let mut failed = None;
    let rows = envelopes(files.to_vec()).map_while(|envelope| match envelope {
        Ok(mut envelope) => Some([
            envelope.fields.remove("before"),
            envelope.fields.remove("after"),
        ]),
        Err(error) => {
            failed = Some(error);
            None
        }
    });
    let rows = rows.flatten().flatten().filter(Value::is_object);
    let schema = infer_json_schema_from_iterator(rows.map(Ok));
    if let Some(error) = failed {
        return Err(error);
    }
    let schema = schema.map_err(|error| {
        wrong(format!(
            "the rows of the envelopes have no common columns: {error}"
        ))
    })?;
    // A column that is null everywhere is text, so that it has a type.
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Null => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
        _ => Arc::clone(field),
    });
    Ok(fields.collect())
}

fn batch(schema: &SchemaRef, rows: &Fields, envelopes: Vec<Envelope>) -> Result<RecordBatch> {
    let text = |name: &str| -> StringArray {
        let of = envelopes
            .iter()
            .map(|envelope| match envelope.fields.get(name) {
                None | Some(Value::Null) => None,
                Some(Value::String(text)) => Some(text.clone()),
                Some(other) => Some(other.to_string()),
            });
        of.collect()
    };
    let times = envelopes
        .iter()
        .map(|envelope| envelope.fields.get("ts_ms")?.as_i64());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(text("op")),
        images(rows, &envelopes, "before")?,
        images(rows, &envelopes, "after")?,
        Arc::new(text("source")),
        Arc::new(times.collect::<Int64Array>()),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns)
        .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
}

/// The rows before or after the changes, as structs.
fn images(rows: &Fields, envelopes: &[Envelope], name: &str) -> Result<ArrayRef> {
    let image = Field::new(name, DataType::Struct(rows.clone()), true);
    let unfit = |error: String| {
        let places = (envelopes.first(), envelopes.last());
        let (Some(first), Some(last)) = places else {
            return wrong(error);
        };
        wrong(format!(
            "between {} and {}, '{name}' does not fit the columns of the others: {error}",
            first.place, last.place
        ))
    };
    let mut decoder = ReaderBuilder::new_with_field(image)
        .with_batch_size(envelopes.len())
        .build_decoder()
        .map_err(|error| unfit(error.to_string()))?;
    let values: Vec<_> = envelopes
        .iter()
        .map(|envelope| envelope.fields.get(name).unwrap_or(&Value::Null))
        .collect();
    decoder
        .serialize(&values)
        .map_err(|error| unfit(error.to_string()))?;
    let decoded = decoder.flush().map_err(|error| unfit(error.to_string()))?;
    match decoded {
        Some(batch) => Ok(Arc::clone(batch.column(0))),
        None => Ok(Arc::new(StructArray::new_null(
            rows.clone(),
            envelopes.len(),
        ))),
    }
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Option<Envelope>> {
        envelope(line, "changes.jsonl, line 7".to_string())
    }

    #[test]
    fn envelopes_are_unwrapped() {
        let bare = r#"{"op":"u","before":{"id":1},"after":{"id":1,"n":2},"source":{"lsn":5}}"#;
        for line in [
            bare.to_string(),
            format!(r#"{{"schema":{{"type":"struct"}},"payload":{bare}}}"#),
        ] {
            let found = of(&line).unwrap().unwrap();
            assert_eq!(found.fields["op"], "u");
            assert_eq!(found.fields["after"]["n"], 2);
        }
        for nothing in ["", "  ", "null", r#"{"schema":null,"payload":null}"#] {
            assert!(of(nothing).unwrap().is_none(), "{nothing}");
        }
    }

    #[test]
    fn what_is_no_envelope_is_refused_by_its_line() {
        for (line, why) in [
            ("{", "no JSON"),
            ("[1]", "no object"),
            (r#"{"id":1}"#, "neither 'op' nor 'payload'"),
            (r#"{"op":null,"after":{}}"#, "'op' is not text"),
            (r#"{"op":"c","after":[1]}"#, "'after' is not an object"),
        ] {
            let error = of(line).err().unwrap().to_string();
            assert!(
                error.contains("changes.jsonl, line 7") && error.contains(why),
                "{error}"
            );
        }
    }
}
