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

/// Writes rows `start..` of consecutive batches until `max_rows` rows or about
/// `max_bytes` of JSON are written; at least one row if there is any.
pub fn page(
    schema: &TableSchema,
    batches: &[RecordBatch],
    start: usize,
    max_rows: usize,
    max_bytes: usize,
    options: TextOptions,
) -> Result<Page> {
    let mut out = String::from("[");
    let mut count = 0;
    let mut skip = start;
    for batch in batches {
        if skip >= batch.num_rows() {
            skip -= batch.num_rows();
            continue;
        }
        if count >= max_rows || (count > 0 && out.len() >= max_bytes) {
            break;
        }
        let mut writer = RowWriter::new(schema, batch, options)?;
        for row in skip..batch.num_rows() {
            if count >= max_rows || (count > 0 && out.len() >= max_bytes) {
                break;
            }
            if count > 0 {
                out.push(',');
            }
            writer.write(row, &mut out);
            count += 1;
        }
        skip = 0;
    }
    out.push(']');
    let rows = RawValue::from_string(out)
        .map_err(|e| ServiceError::internal(format!("rows are no JSON: {e}")))?;
    Ok(Page { rows, count })
}
