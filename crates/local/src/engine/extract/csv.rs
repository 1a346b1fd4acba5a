//! Separated values.

use arrow::array::RecordBatch;

use super::{FileOptions, Header, text};
use crate::error::{Result, ServiceError};
use crate::schema::{FieldType, Mode, TableSchema};
use crate::value::text::Column;

pub(super) fn write(
    schema: &TableSchema,
    batches: &[RecordBatch],
    options: &FileOptions,
) -> Result<Vec<u8>> {
    for field in &schema.fields {
        let nested = matches!(field.field_type, FieldType::Struct(_));
        if nested || field.mode() == Mode::Repeated {
            return Err(ServiceError::invalid(format!(
                "Operation cannot be performed on a nested schema. Field: {}",
                field.name
            )));
        }
    }
    let mut out = Vec::new();
    if options.header == Header::Names {
        for (i, field) in schema.fields.iter().enumerate() {
            if i > 0 {
                out.push(options.delimiter);
            }
            value(&field.name, options.delimiter, &mut out);
        }
        out.push(b'\n');
    }
    let mut scratch = String::new();
    for batch in batches {
        let columns = schema
            .fields
            .iter()
            .zip(batch.columns())
            .map(|(field, array)| Column::new(field, array, text()))
            .collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            for (i, column) in columns.iter().enumerate() {
                if i > 0 {
                    out.push(options.delimiter);
                }
                if column.is_null(row) {
                    continue;
                }
                scratch.clear();
                column.write(row, &mut scratch);
                value(&scratch, options.delimiter, &mut out);
            }
            out.push(b'\n');
        }
    }
    Ok(out)
}

/// A value, quoted where it must be. An empty text is quoted, because what is not is
/// NULL.
fn value(text: &str, delimiter: u8, out: &mut Vec<u8>) {
    let plain = !text.is_empty()
        && !text
            .bytes()
            .any(|b| b == delimiter || matches!(b, b'"' | b'\n' | b'\r'));
    if plain {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}
