//! Checks a table, a schema and options, and makes a sink of them.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use super::failure::FailureHandler;
use super::protocol::BigQuerySink;
use super::writer::{Destination, SinkShared};
use crate::client::Client;
use crate::client::rest::model::TableKind;
use crate::client::write::append::Denied;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{AppendFormat, MissingValue, SinkOptions};
use crate::types::encode::{FieldMarks, RowEncoder, RowFormat};
use crate::types::{Mode, TableRef, TableSchema};

/// Makes a [`BigQuerySink`].
#[derive(Debug, Clone)]
pub struct BigQuerySinkBuilder {
    client: Client,
    table: TableRef,
    options: SinkOptions,
}

impl BigQuerySinkBuilder {
    pub(super) fn new(client: Client, table: TableRef) -> Self {
        Self {
            client,
            table,
            options: SinkOptions::default(),
        }
    }

    /// How to write, in place of the defaults.
    #[must_use]
    pub fn with_options(mut self, options: SinkOptions) -> Self {
        self.options = options;
        self
    }

    /// The sink for batches of `schema`, after a look at the live table. Columns are
    /// matched by name without regard to case; those of the table that `schema`
    /// lacks are left out, and [`SinkOptions::missing_value`] says what they get.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is no such table;
    /// [`ErrorKind::Unsupported`] when it is a view or lies elsewhere;
    /// [`ErrorKind::InvalidArgument`] naming the columns that do not fit.
    pub async fn build(self, schema: SchemaRef) -> Result<BigQuerySink> {
        let found = self.client.get_table(&self.table).await?;
        self.build_for(&found.kind, &found.schema, schema)
    }

    /// As [`build`](Self::build), for a table of this kind with these columns.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_for(
        self,
        kind: &TableKind,
        columns: &TableSchema,
        schema: SchemaRef,
    ) -> Result<BigQuerySink> {
        check_writable(&self.table, kind)?;
        let left_out = columns.fields.iter().filter(|column| {
            let mut given = schema.fields().iter();
            !given.any(|field| column.is_named(field.name()))
        });
        let (mut defaulted, mut null) = (Vec::new(), Vec::new());
        for column in left_out {
            let default = column.default_value_expression.is_some();
            match (self.options.missing_value, default, column.mode) {
                (MissingValue::Default, true, _) => defaulted.push(column.name.clone()),
                (MissingValue::Null, true, Mode::Required) => {
                    return Err(Error::new(
                        ErrorKind::InvalidArgument,
                        format!(
                            "column '{}' of {} is REQUIRED and not written: give it a value, or \
                             its default by the option sink.missing_value 'default'",
                            column.name, self.table
                        ),
                    ));
                }
                _ => null.push(column.name.clone()),
            }
        }
        let format = match self.options.format {
            AppendFormat::Arrow => RowFormat::Arrow,
            AppendFormat::Auto | AppendFormat::Proto => RowFormat::Protobuf,
        };
        let encoder = RowEncoder::plan(&schema, columns, format, &FieldMarks::default())
            .map_err(|error| error.with_context(format!("writing table {}", self.table)))?;
        Ok(BigQuerySink {
            shared: Arc::new(SinkShared {
                failures: FailureHandler::new(self.options.failure.clone()),
                client: self.client,
                options: self.options,
                schema,
            }),
            destination: Arc::new(Destination {
                table: self.table,
                encoder,
                defaulted,
                null,
                denied: Denied::Final,
            }),
        })
    }
}

/// That rows can be appended to the table.
fn check_writable(table: &TableRef, kind: &TableKind) -> Result<()> {
    let instead = match kind {
        TableKind::Table => return Ok(()),
        TableKind::View | TableKind::MaterializedView => "write to the table that it reads from",
        TableKind::Snapshot => "restore it into a table and write to that",
        TableKind::Wildcard => "name one of its tables",
        TableKind::External | TableKind::Other(_) => "write to where its data lies",
    };
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("{table} is {kind}, and rows can be written only to tables: {instead}"),
    ))
}
