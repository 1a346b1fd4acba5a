//! How large the service says that rows are.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;

/// The logical size of rows in bytes: INT64, FLOAT64, DATE, TIME, DATETIME and
/// TIMESTAMP 8, BOOL 1, NUMERIC and INTERVAL 16, BIGNUMERIC 32, STRING and BYTES 2
/// more than their content, STRUCT and ARRAY the sum of what they hold, NULL 0.
pub fn logical_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(column).sum()
}

/// The logical size of each column of rows that have the same columns, by name.
pub fn column_bytes(batches: &[RecordBatch]) -> Vec<(String, u64)> {
    let Some(first) = batches.first() else {
        return Vec::new();
    };
    let fields = first.schema_ref().fields().iter().enumerate();
    fields
        .map(|(i, field)| {
            let sizes = batches.iter().map(|batch| column(batch.column(i)));
            (field.name().clone(), sizes.sum())
        })
        .collect()
}

fn column(array: &ArrayRef) -> u64 {
    let values = wide(array.len() - array.null_count());
    match array.data_type() {
        DataType::Boolean => values,
        DataType::Decimal128(..) | DataType::Interval(_) => 16 * values,
        DataType::Decimal256(..) => 32 * values,
        DataType::Utf8 => {
            let offsets = array.as_string::<i32>().value_offsets();
            2 * values + content(offsets)
        }
        DataType::Binary => {
            let offsets = array.as_binary::<i32>().value_offsets();
            2 * values + content(offsets)
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(column).sum(),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
            let start = usize::try_from(first).unwrap_or(0);
            let length = usize::try_from(last - first).unwrap_or(0);
            column(&list.values().slice(start, length))
        }
        _ => 8 * values,
    }
}

fn content(offsets: &[i32]) -> u64 {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    u64::try_from(i64::from(last) - i64::from(first)).unwrap_or(0)
}

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
