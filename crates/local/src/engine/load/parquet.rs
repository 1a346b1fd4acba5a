//! Parquet.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field as ArrowField, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use super::convert::{FileField, FileKind, convert};
use super::decode::{decoded, decoding};
use super::encoding::contents;
use super::parallel::in_parallel;
use super::parquet_schema::Rules;
use super::{Columns, FormatOptions, LoadFile, Loaded, reading};
use crate::error::Result;
use crate::schema::{Field, FieldType, Mode, TableSchema};

/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 64 * 1024;

/// Reads Parquet files. Columns match by name; the columns are those of the file
/// whose name comes last.
pub(super) fn read(
    files: &[LoadFile],
    options: &FormatOptions,
    columns: Columns<'_>,
) -> Result<Loaded> {
    let rules = Rules::read(options)?;
    let mut opened = Vec::with_capacity(files.len());
    for file in files {
        opened.push((file.name.as_str(), open(file, &rules)?));
    }
    let newest = opened
        .iter()
        .max_by_key(|(name, _)| *name)
        .map(|(_, (_, fields))| fields.as_slice())
        .unwrap_or_default();
    let schema = target_schema(newest, columns);
    let parts = opened.into_iter().map(|(_, open)| open).collect();
    let batches = in_parallel(parts, |(builder, fields)| {
        let builder = builder.with_batch_size(BATCH_ROWS);
        let reader = decoding(|| builder.build())?.map_err(reading)?;
        decoded(reader)
            .map(|batch| {
                columns_of(
                    &batch?.map_err(reading)?,
                    &fields,
                    &schema,
                    FileKind::Parquet,
                )
            })
            .collect::<Result<Vec<_>>>()
    })?;
    Ok(Loaded {
        schema,
        batches: batches.into_iter().flatten().collect(),
        bad_records: 0,
        errors: Vec::new(),
    })
}

type Open = (
    ParquetRecordBatchReaderBuilder<bytes::Bytes>,
    Vec<FileField>,
);

fn open(file: &LoadFile, rules: &Rules) -> Result<Open> {
    let data = contents(file)?;
    if !data.starts_with(b"PAR1") {
        return Err(reading("Input file is not in Parquet format."));
    }
    // BigQuery knows Parquet's types only, not the Arrow schema some writers embed.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder =
        decoding(|| ParquetRecordBatchReaderBuilder::try_new_with_options(data, options))?
            .map_err(reading)?;
    let root = builder.parquet_schema().root_schema();
    let arrow = builder.schema().fields().iter().map(AsRef::as_ref);
    let fields = rules.fields(root, arrow, 0)?;
    Ok((builder, fields))
}

/// The columns to produce: those given, or the file's with the types that are
/// wanted.
pub(super) fn target_schema(fields: &[FileField], columns: Columns<'_>) -> TableSchema {
    let wanted = match columns {
        Columns::Given(schema) => return schema.clone(),
        Columns::FromFiles(wanted) => wanted,
    };
    let fields = fields.iter().map(|file| {
        let want = wanted.and_then(|w| w.field(&file.field.name));
        want.map_or_else(|| file.field.clone(), |want| as_wanted(&file.field, want))
    });
    TableSchema::new(fields.collect())
}

/// The file's field with the type of the column that it goes to, where the file's
/// values have more than one meaning. Its own mode stays, so that appending NULLABLE
/// values to a REQUIRED column is noticed.
fn as_wanted(file: &Field, want: &Field) -> Field {
    let mut field = file.clone();
    if file.mode() != Mode::Repeated && want.mode() == Mode::Repeated {
        // A list that was not inferred (see `Shape::Wrapped`).
        field.mode = want.mode;
        field.field_type = want.field_type.clone();
        return field;
    }
    field.field_type = match (&file.field_type, &want.field_type) {
        (FieldType::Struct(from), FieldType::Struct(to)) => FieldType::Struct(
            from.iter()
                .map(|f| {
                    let want = to.iter().find(|t| t.name.eq_ignore_ascii_case(&f.name));
                    want.map_or_else(|| f.clone(), |want| as_wanted(f, want))
                })
                .collect(),
        ),
        (from, to) if may_mean(from, to) => to.clone(),
        (from, _) => from.clone(),
    };
    field
}

/// Whether values that are `from` by default may be `to`.
fn may_mean(from: &FieldType, to: &FieldType) -> bool {
    matches!(
        (from, to),
        (
            FieldType::Numeric | FieldType::Bignumeric,
            FieldType::Numeric | FieldType::Bignumeric | FieldType::String
        ) | (
            FieldType::String | FieldType::Bytes,
            FieldType::String | FieldType::Bytes | FieldType::Json | FieldType::Geography
        ) | (FieldType::Timestamp, FieldType::Datetime)
            | (FieldType::Datetime, FieldType::Timestamp)
    )
}

/// The columns of `schema` from a batch whose columns are `fields`. A column that
/// the file lacks is left out: it is NULL, or empty, when the rows are written.
pub(super) fn columns_of(
    batch: &RecordBatch,
    fields: &[FileField],
    schema: &TableSchema,
    kind: FileKind,
) -> Result<RecordBatch> {
    let mut arrow = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for target in &schema.fields {
        let position = fields
            .iter()
            .position(|f| f.name.eq_ignore_ascii_case(&target.name));
        let Some(position) = position else {
            continue;
        };
        let column = convert(
            batch.column(position),
            &fields[position],
            target,
            kind,
            &target.name,
        )?;
        arrow.push(ArrowField::new(
            &target.name,
            column.data_type().clone(),
            true,
        ));
        columns.push(column);
    }
    RecordBatch::try_new_with_options(
        Arc::new(Schema::new(arrow)),
        columns,
        &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
    )
    .map_err(reading)
}

#[cfg(test)]
mod tests;
