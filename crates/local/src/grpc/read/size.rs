//! Logical sizes as the service counts bytes scanned: fixed widths, text and bytes
//! with two bytes of overhead, NULL for nothing.
//!
//! Source: the data type sizes that the pricing documentation lists.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::DataType;

/// Logical size in bytes of all columns of `batch`.
pub(super) fn logical_bytes(batch: &RecordBatch) -> u64 {
    batch
        .columns()
        .iter()
        .map(|c| array_bytes(c.as_ref()))
        .sum()
}

fn array_bytes(array: &dyn Array) -> u64 {
    let present = (array.len() - array.null_count()) as u64;
    match array.data_type() {
        DataType::Boolean => present,
        DataType::Utf8 => {
            let offsets = array.as_string::<i32>().value_offsets();
            2 * present + span(offsets)
        }
        DataType::Binary => {
            let offsets = array.as_binary::<i32>().value_offsets();
            2 * present + span(offsets)
        }
        DataType::Decimal128(_, _) | DataType::Interval(_) => 16 * present,
        DataType::Decimal256(_, _) => 32 * present,
        DataType::Struct(_) => array
            .as_struct()
            .columns()
            .iter()
            .map(|c| array_bytes(c.as_ref()))
            .sum(),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            let (start, end) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
            array_bytes(list.values().slice(start, end - start).as_ref())
        }
        // INT64, FLOAT64, DATE, TIME, DATETIME and TIMESTAMP all count eight.
        _ => 8 * present,
    }
}

fn span(offsets: &[i32]) -> u64 {
    match offsets {
        [first, .., last] => u64::try_from(last - first).unwrap_or(0),
        _ => 0,
    }
}

/// Bytes of Arrow buffers that encoding `batch` touches, slices counted as such.
pub(super) fn buffer_bytes(batch: &RecordBatch) -> usize {
    batch
        .columns()
        .iter()
        .map(|c| {
            let data = c.to_data();
            data.get_slice_memory_size()
                .unwrap_or_else(|_| data.get_array_memory_size())
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, ListArray, StringArray};
    use arrow::datatypes::Int64Type;
    use std::sync::Arc;

    #[test]
    fn counts_as_the_price_list_does() {
        let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
        let s: ArrayRef = Arc::new(StringArray::from(vec![Some("abc"), None, Some("")]));
        let l: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
            Some(vec![Some(1), Some(2)]),
            Some(vec![]),
            Some(vec![Some(3)]),
        ]));
        let batch = RecordBatch::try_from_iter([("a", a), ("s", s), ("l", l)]).unwrap();
        assert_eq!(logical_bytes(&batch), 16 + (2 + 3 + 2) + 24);
        assert_eq!(logical_bytes(&batch.slice(2, 1)), 8 + 2 + 8);
    }
}
