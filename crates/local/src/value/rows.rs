//! Record batches as REST rows: `{"f":[{"v":…},…]}`.

use arrow::array::{Array, RecordBatch};
use serde_json::value::RawValue;

use super::json::write_json_string;
use super::text::{Column, TextOptions};
use crate::error::{Result, ServiceError};
use crate::schema::TableSchema;

/// Writes the rows of one batch, in any order and number, as JSON text.
#[derive(Debug)]
pub struct RowWriter {
    columns: Vec<Column>,
    rows: usize,
    /// One value's text, before it is quoted.
    scratch: String,
}

impl RowWriter {
    /// A writer for `batch`, whose columns are those of `schema` in order.
    pub fn new(schema: &TableSchema, batch: &RecordBatch, options: TextOptions) -> Result<Self> {
        if schema.fields.len() != batch.num_columns() {
            return Err(ServiceError::internal(format!(
                "a schema of {} columns describes a batch of {}",
                schema.fields.len(),
                batch.num_columns()
            )));
        }
        let columns = schema
            .fields
            .iter()
            .zip(batch.columns())
            .map(|(field, array)| Column::new(field, array, options))
            .collect::<Result<_>>()?;
        Ok(Self {
            columns,
            rows: batch.num_rows(),
            scratch: String::new(),
        })
    }

    /// Number of rows of the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends `{"f":[…]}` of one row.
    pub fn write(&mut self, row: usize, out: &mut String) {
        write_fields(&self.columns, row, out, &mut self.scratch);
    }
}

fn write_fields(columns: &[Column], row: usize, out: &mut String, scratch: &mut String) {
    out.push_str("{\"f\":[");
    for (i, column) in columns.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write_cell(column, row, out, scratch);
    }
    out.push_str("]}");
}

fn write_cell(column: &Column, row: usize, out: &mut String, scratch: &mut String) {
    out.push_str("{\"v\":");
    match column {
        // A NULL array reads as an empty one.
        Column::Array(list, element) => {
            out.push('[');
            if !list.is_null(row) {
                let offsets = list.value_offsets();
                let (start, end) = (offset(offsets[row]), offset(offsets[row + 1]));
                for i in start..end {
                    if i > start {
                        out.push(',');
                    }
                    write_cell(element, i, out, scratch);
                }
            }
            out.push(']');
        }
        _ if column.is_null(row) => out.push_str("null"),
        Column::Struct(_, columns) => write_fields(columns, row, out, scratch),
        scalar => {
            scratch.clear();
            scalar.write(row, scratch);
            write_json_string(scratch, out);
        }
    }
    out.push('}');
}

fn offset(offset: i32) -> usize {
    usize::try_from(offset).expect("list offsets are not negative")
}

/// A page of rows.
#[derive(Debug)]
pub struct Page {
    /// A JSON array of rows.
    pub rows: Box<RawValue>,
    /// How many rows it holds.
    pub count: usize,
}

/// Writes a page from batches that are shown to it one after the other.
#[derive(Debug)]
pub struct PageWriter {
    schema: TableSchema,
    options: TextOptions,
    max_rows: usize,
    max_bytes: usize,
    out: String,
    count: usize,
}

impl PageWriter {
    /// A page of at most `max_rows` rows and about `max_bytes` of JSON, but of at
    /// least one row if there is any.
    pub fn new(
        schema: &TableSchema,
        max_rows: usize,
        max_bytes: usize,
        options: TextOptions,
    ) -> Self {
        Self {
            schema: schema.clone(),
            options,
            max_rows,
            max_bytes,
            out: String::from("["),
            count: 0,
        }
    }

    /// Whether no more rows fit.
    pub fn is_full(&self) -> bool {
        self.count >= self.max_rows || (self.count > 0 && self.out.len() >= self.max_bytes)
    }

    /// Writes rows `start..` of a batch, as far as they fit.
    pub fn push(&mut self, batch: &RecordBatch, start: usize) -> Result<()> {
        if self.is_full() || start >= batch.num_rows() {
            return Ok(());
        }
        let mut writer = RowWriter::new(&self.schema, batch, self.options)?;
        for row in start..batch.num_rows() {
            if self.is_full() {
                break;
            }
            if self.count > 0 {
                self.out.push(',');
            }
            writer.write(row, &mut self.out);
            self.count += 1;
        }
        Ok(())
    }

    /// The page.
    pub fn finish(mut self) -> Result<Page> {
        self.out.push(']');
        let rows = RawValue::from_string(self.out)
            .map_err(|e| ServiceError::internal(format!("rows are no JSON: {e}")))?;
        Ok(Page {
            rows,
            count: self.count,
        })
    }
}

/// The page of rows `start..` of consecutive batches; see [`PageWriter::new`].
pub fn page(
    schema: &TableSchema,
    batches: &[RecordBatch],
    start: usize,
    max_rows: usize,
    max_bytes: usize,
    options: TextOptions,
) -> Result<Page> {
    let mut page = PageWriter::new(schema, max_rows, max_bytes, options);
    let mut skip = start;
    for batch in batches {
        if page.is_full() {
            break;
        }
        page.push(batch, skip)?;
        skip = skip.saturating_sub(batch.num_rows());
    }
    page.finish()
}
