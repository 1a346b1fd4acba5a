//! Record batches as the rows that the Storage Write API takes.
//!
//! A [`RowEncoder`] is planned once for the schema of a plan's batches and the
//! columns of a live table. It then turns batch after batch into
//! [`EncodedRows`], in two steps that both formats share as far as possible:
//!
//! 1. [`convert`] brings each column into the one Arrow form of its BigQuery
//!    type. What cannot be kept exactly becomes a [`RowError`] here, so the two
//!    formats refuse the same values in the same words.
//! 2. [`protobuf`] or [`ipc`] writes the rows that are left.
//!
//! A [`FileEncoder`] does the same for files that load jobs read: its second step
//! is [`avro`] or Parquet, into a [`FileWriter`].
//!
//! "Exactly" means that nothing of the value is lost: a decimal, a time or an
//! integer is kept digit by digit, and a conversion between floating point and
//! decimal numbers has to give the first number back when it is undone.

mod avro;
mod avro_container;
mod avro_schema;
mod convert;
mod descriptor;
mod faults;
mod file;
mod ipc;
mod layout;
mod lists;
mod numbers;
mod plan;
mod protobuf;
mod rows;
mod spare;
mod text;
mod times;
mod to_json;
mod unpack;

#[cfg(test)]
mod tests;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use bytes::Bytes;

use super::TableSchema;
use crate::error::Result;

pub use file::{FileEncoder, FileFull, FileRows, FileWriter, Finished};
pub use ipc::ArrowMessage;
pub use plan::FieldMarks;
pub use rows::{EncodedRows, Payload, Piece, Pieces, RowError};

/// In which form rows travel to the Storage Write API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowFormat {
    /// Serialized protocol buffer messages, described by a `DescriptorProto`.
    Protobuf,
    /// Arrow record batches, one to a request.
    Arrow,
}

/// What rows are converted for. The forms take text and decimals in different
/// layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Protobuf,
    Arrow,
    Avro,
    Parquet,
}

impl From<RowFormat> for Form {
    fn from(format: RowFormat) -> Self {
        match format {
            RowFormat::Protobuf => Form::Protobuf,
            RowFormat::Arrow => Form::Arrow,
        }
    }
}

/// Turns record batches of one schema into rows for one table.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow::array::{Int64Array, RecordBatch};
/// # use datafusion_bigquery::types::{Field, FieldType, Mode, TableSchema};
/// # use datafusion_bigquery::types::encode::{FieldMarks, RowEncoder, RowFormat};
/// let table = TableSchema {
///     fields: vec![Field::new("id", FieldType::Int64, Mode::Nullable)],
/// };
/// let ids = Arc::new(Int64Array::from(vec![7, 150])) as _;
/// let batch = RecordBatch::try_from_iter([("ID", ids)])?;
/// let encoder = RowEncoder::plan(
///     &batch.schema(),
///     &table,
///     RowFormat::Protobuf,
///     &FieldMarks::default(),
/// )?;
/// let rows = encoder.encode(&batch)?;
/// let pieces = rows.pieces(1024)?;
/// assert_eq!(pieces.sendable.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct RowEncoder {
    format: RowFormat,
    columns: Vec<plan::Column>,
    /// The names in `columns`, as the table spells them.
    names: Vec<String>,
    writer_schema: Bytes,
    arrow: arrow::datatypes::SchemaRef,
}

impl RowEncoder {
    /// Decides how batches of `batch` become rows of `table`.
    ///
    /// Columns are matched by name without regard to case, and so are the fields
    /// of structs; order does not matter. Columns of the table that the batches
    /// lack are not written at all, which the service reads as NULL or, where it
    /// is asked to, as the column's default.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::error::ErrorKind::InvalidArgument), in one
    /// message about all columns that are wrong: the table lacks the column, the
    /// type cannot become the column's, a mark does not fit, or a REQUIRED column
    /// without a default is missing.
    pub fn plan(
        batch: &Schema,
        table: &TableSchema,
        format: RowFormat,
        marks: &FieldMarks,
    ) -> Result<Self> {
        let columns = plan::columns(batch, table, format.into(), marks)?;
        let arrow = std::sync::Arc::new(plan::arrow_schema(&columns));
        let writer_schema = match format {
            RowFormat::Protobuf => descriptor::descriptor(&columns),
            RowFormat::Arrow => ipc::schema(&arrow)?,
        };
        Ok(RowEncoder {
            format,
            names: columns.iter().map(|column| column.name.clone()).collect(),
            columns,
            writer_schema,
            arrow,
        })
    }

    /// The format of the rows.
    pub fn format(&self) -> RowFormat {
        self.format
    }

    /// The columns that are written, as the table spells them, in the order of
    /// the batches' columns.
    pub fn columns(&self) -> &[String] {
        &self.names
    }

    /// What describes the rows to the service.
    ///
    /// Protobuf: a serialized `DescriptorProto`, for field 1 of a `ProtoSchema`.
    /// It carries extension options that `prost_types::DescriptorProto` would
    /// drop, so it has to be put there as bytes. Arrow: the IPC schema message,
    /// for `ArrowSchema.serialized_schema`.
    pub fn writer_schema(&self) -> &Bytes {
        &self.writer_schema
    }

    /// The rows of `batch`, which has the schema of the plan: those that can be
    /// written, in their order, and why the others cannot.
    ///
    /// # Errors
    /// The batch has another schema than was planned for, or is too large: more
    /// than 2 GiB of text or array elements in one column.
    pub fn encode(&self, batch: &RecordBatch) -> Result<EncodedRows> {
        let converted = convert::batch(&self.columns, batch, self.format.into())?;
        match self.format {
            RowFormat::Protobuf => protobuf::encode(&self.columns, converted),
            RowFormat::Arrow => ipc::encode(&self.arrow, converted),
        }
    }
}
