//! Dead letters in a table of BigQuery, which is created if there is none.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;

use super::{DeadLetter, Outlet};
use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::sink::{BigQuerySink, SinkWriter};
use crate::types::TableRef;

/// Appends to the default stream of a table.
#[derive(Debug)]
pub(super) struct TableOutlet {
    client: Client,
    table: TableRef,
    /// Made when letters are known to have a place.
    sink: Option<BigQuerySink>,
    writer: Option<SinkWriter>,
}

impl TableOutlet {
    pub(super) fn new(client: Client, table: TableRef) -> Self {
        Self {
            client,
            table,
            sink: None,
            writer: None,
        }
    }
}

fn schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let number = |name: &str| Field::new(name, DataType::Int64, true);
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        text("destination"),
        text("error"),
        text("column"),
        number("row"),
        number("subtask"),
        Field::new("timestamp", time, true),
        // Not JSON, which has no place for every value of a row.
        text("payload"),
    ]))
}

fn batch(letters: &[DeadLetter]) -> Result<RecordBatch> {
    let text = |of: fn(&DeadLetter) -> Option<&str>| {
        Arc::new(letters.iter().map(of).collect::<StringArray>()) as ArrayRef
    };
    let rows = letters
        .iter()
        .map(|letter| i64::try_from(letter.row).unwrap_or(i64::MAX));
    let subtasks = letters
        .iter()
        .map(|letter| i64::try_from(letter.subtask).unwrap_or(i64::MAX));
    let times = letters.iter().map(|letter| letter.at.timestamp_micros());
    let columns: Vec<ArrayRef> = vec![
        text(|letter| Some(&letter.destination)),
        text(|letter| Some(&letter.error)),
        text(|letter| letter.column.as_deref()),
        Arc::new(Int64Array::from_iter_values(rows)),
        Arc::new(Int64Array::from_iter_values(subtasks)),
        Arc::new(TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC")),
        text(|letter| Some(&letter.payload)),
    ];
    RecordBatch::try_new(schema(), columns).map_err(|error| {
        Error::new(ErrorKind::Internal, "dead letters make no batch").with_source(error)
    })
}

#[async_trait]
impl Outlet for TableOutlet {
    async fn check(&mut self) -> Result<()> {
        let builder = BigQuerySink::builder(self.client.clone(), self.table.clone());
        self.sink = Some(builder.build(schema()).await?);
        Ok(())
    }

    async fn deliver(&mut self, letters: &[DeadLetter]) -> Result<()> {
        let Some(sink) = &self.sink else {
            return Err(Error::new(
                ErrorKind::Internal,
                "dead letters came before their table was looked at",
            ));
        };
        // A writer that failed is over, and letters come again.
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => sink.writer(0, None)?,
        };
        writer.write(batch(letters)?).await?;
        writer.flush().await?;
        self.writer = Some(writer);
        Ok(())
    }
}
