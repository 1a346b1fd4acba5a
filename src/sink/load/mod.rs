//! The write method `file_loads`: rows become files in Cloud Storage, and a commit
//! loads them by jobs, exactly once.
//!
//! [`stage`] is the writer, whose committables name exact files. [`plan`] decides,
//! without asking anyone, which jobs a commit takes: one load job where that is
//! enough, else loads into temporary tables and one last job that takes their rows
//! over, so that a commit is one change in any case. [`commit`] runs the plan, and
//! [`job`] runs each of its jobs under an id that is made of what it does, so that
//! a repeated commit finds the jobs of the first.

mod commit;
mod job;
mod plan;
mod stage;

pub use plan::{LoadLimits, StagedFile};

pub(super) use commit::{commit, delete_tables, discard, is_final};
pub(super) use job::{Jobs, Work, named};
pub(super) use stage::LoadWriter;

use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef};

use crate::client::rest::model::Table;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{LoadDisposition, SinkOptions, StagingFormat};
use crate::types::encode::{FieldMarks, FileEncoder, FileRows};
use crate::types::{Field, FieldType, TableRef};

/// The option that says where files are staged.
const PATH_OPTION: &str = "sink.file_loads.staging_path";

/// How the rows of a table become files.
#[derive(Debug, Clone)]
pub(super) struct LoadTarget {
    pub(super) encoder: FileEncoder,
    /// The batches' columns and those that are written as NULL.
    schema: SchemaRef,
    /// How many columns of `schema` the batches lack.
    nulls: usize,
    /// The partition that is written, if it is one.
    pub(super) partition: Option<String>,
    pub(super) disposition: LoadDisposition,
}

impl LoadTarget {
    /// Plans files for `table` from batches of `batch`. A load job gives a column
    /// that files lack its default, so those of `null` that have one are written.
    pub(super) fn plan(
        table: &TableRef,
        live: &Table,
        batch: &Schema,
        null: &[String],
        marks: &FieldMarks,
        options: &SinkOptions,
    ) -> Result<Self> {
        let partition = options.partition.clone();
        let disposition = options.load_disposition()?;
        let options = &options.file_loads;
        let mut fields: Vec<_> = batch.fields().iter().cloned().collect();
        for name in null {
            let has_default = live
                .schema
                .field(name)
                .is_some_and(|column| column.default_value_expression.is_some());
            if has_default {
                fields.push(Arc::new(ArrowField::new(name, DataType::Null, true)));
            }
        }
        let nulls = fields.len() - batch.fields().len();
        let schema = Arc::new(Schema::new(fields));
        let encoder = FileEncoder::plan(
            &schema,
            &live.schema,
            options.staging_format,
            options.compression,
            marks,
        )?;
        if encoder.format() != options.staging_format {
            tracing::info!(
                %table,
                "files are staged as avro, because load jobs read no JSON from parquet"
            );
        }
        if disposition == LoadDisposition::Truncate && partition.is_none() {
            check_whole(&live.schema.fields)?;
        }
        Ok(LoadTarget {
            encoder,
            schema,
            nulls,
            partition,
            disposition,
        })
    }

    /// The format of the files.
    pub(super) fn format(&self) -> StagingFormat {
        self.encoder.format()
    }

    fn encode(&self, batch: &RecordBatch) -> Result<FileRows> {
        if self.nulls == 0 {
            return self.encoder.encode(batch);
        }
        let rows = batch.num_rows();
        let mut columns = batch.columns().to_vec();
        columns.extend((0..self.nulls).map(|_| Arc::new(NullArray::new(rows)) as ArrayRef));
        let mut fields: Vec<_> = batch.schema().fields().iter().cloned().collect();
        fields.extend(self.schema.fields().iter().skip(fields.len()).cloned());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let whole =
            RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
                .map_err(|error| {
                    Error::new(
                        ErrorKind::Internal,
                        format!("a batch cannot be given its NULL columns: {error}"),
                    )
                })?;
        self.encoder.encode(&whole)
    }
}

/// Replacing a table's schema by that of a load would lose columns that no load can
/// have.
fn check_whole(fields: &[Field]) -> Result<()> {
    match fields.iter().find(|field| unloadable(&field.field_type)) {
        None => Ok(()),
        Some(field) => Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "column '{}' is of type {}, which load jobs do not take, \
                 and sink.file_loads.write_disposition 'write_truncate' would drop it: use \
                 'write_truncate_data'",
                field.name, field.field_type
            ),
        )),
    }
}

/// Whether load jobs refuse a schema with this type.
fn unloadable(field_type: &FieldType) -> bool {
    match field_type {
        FieldType::Interval | FieldType::Range(_) | FieldType::Unsupported(_) => true,
        FieldType::Struct(fields) => fields.iter().any(|field| unloadable(&field.field_type)),
        _ => false,
    }
}
