//! A JSON object per line. INT64 is text, so that no reader loses digits; NULL is
//! left out.

use arrow::array::RecordBatch;

use super::text;
use crate::error::Result;
use crate::schema::{Field, FieldType, Mode, TableSchema};
use crate::value::json::write_json_string;
use crate::value::text::Column;

pub(super) fn write(schema: &TableSchema, batches: &[RecordBatch]) -> Result<Vec<u8>> {
    let mut out = String::new();
    let mut scratch = String::new();
    for batch in batches {
        let columns = schema
            .fields
            .iter()
            .zip(batch.columns())
            .map(|(field, array)| Column::new(field, array, text()))
            .collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            object(&schema.fields, &columns, row, &mut out, &mut scratch);
            out.push('\n');
        }
    }
    Ok(out.into_bytes())
}

fn object(
    fields: &[Field],
    columns: &[Column],
    row: usize,
    out: &mut String,
    scratch: &mut String,
) {
    out.push('{');
    let mut first = true;
    for (field, column) in fields.iter().zip(columns) {
        let repeated = field.mode() == Mode::Repeated;
        if !repeated && column.is_null(row) {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        write_json_string(&field.name, out);
        out.push(':');
        match column {
            Column::Array(list, element) => {
                let offsets = list.value_offsets();
                let place = |at: usize| usize::try_from(offsets[at]).unwrap_or(0);
                out.push('[');
                for at in place(row)..place(row + 1) {
                    if at > place(row) {
                        out.push(',');
                    }
                    value(field, element, at, out, scratch);
                }
                out.push(']');
            }
            column => value(field, column, row, out, scratch),
        }
    }
    out.push('}');
}

fn value(field: &Field, column: &Column, row: usize, out: &mut String, scratch: &mut String) {
    if column.is_null(row) {
        return out.push_str("null");
    }
    if let Column::Struct(_, columns) = column {
        return object(field.fields(), columns, row, out, scratch);
    }
    scratch.clear();
    column.write(row, scratch);
    let bare = match (&field.field_type, column) {
        (FieldType::Bool | FieldType::Json, _) => true,
        (FieldType::Float64, Column::Float64(values)) => values.value(row).is_finite(),
        _ => false,
    };
    if bare {
        out.push_str(scratch);
    } else {
        write_json_string(scratch, out);
    }
}
