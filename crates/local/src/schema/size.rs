//! Logical bytes of values, as BigQuery counts storage and bytes processed.
//!
//! Checked against recorded loads: INT64, FLOAT64, DATE, DATETIME, TIME and
//! TIMESTAMP take 8 bytes, BOOL 1, NUMERIC and INTERVAL 16, BIGNUMERIC 32, STRING
//! and BYTES 2 and their length, NULL nothing; a STRUCT is the sum of its fields
//! and an ARRAY that of its elements.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;

/// Logical bytes of all columns of a batch in the Arrow form of its schema.
pub fn logical_bytes(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(logical_bytes_of).sum()
}

/// Logical bytes of one column.
pub fn logical_bytes_of(array: &ArrayRef) -> u64 {
    let present = count(array.len() - array.logical_null_count());
    match array.data_type() {
        DataType::Boolean => present,
        DataType::Decimal128(_, _) | DataType::Interval(_) => present * 16,
        DataType::Decimal256(_, _) => present * 32,
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            present * 2 + present_lengths(array.value_offsets(), array)
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            present * 2 + present_lengths(array.value_offsets(), array)
        }
        DataType::Struct(_) => {
            let array = array.as_struct();
            array
                .columns()
                .iter()
                .map(|child| logical_bytes_of(&visible(child, array)))
                .sum()
        }
        DataType::List(_) => {
            let array = array.as_list::<i32>();
            let (first, last) = match (array.value_offsets().first(), array.value_offsets().last())
            {
                (Some(first), Some(last)) => (offset(*first), offset(*last)),
                _ => (0, 0),
            };
            logical_bytes_of(&array.values().slice(first, last - first))
        }
        _ => present * 8,
    }
}

/// The child of a struct with the struct's NULLs taken over, so that what hides
/// behind a NULL struct is not counted.
fn visible(child: &ArrayRef, parent: &arrow::array::StructArray) -> ArrayRef {
    use arrow::buffer::NullBuffer;
    match (parent.nulls(), child.data_type()) {
        (Some(nulls), data_type) if nulls.null_count() > 0 && !data_type.is_null() => {
            let both = NullBuffer::union(Some(nulls), child.nulls());
            let data = child.to_data().into_builder().nulls(both);
            match data.build() {
                Ok(data) => arrow::array::make_array(data),
                Err(_) => ArrayRef::clone(child),
            }
        }
        _ => ArrayRef::clone(child),
    }
}

fn present_lengths(offsets: &[i32], array: &dyn Array) -> u64 {
    if array.null_count() == 0 {
        return match (offsets.first(), offsets.last()) {
            (Some(first), Some(last)) => count(offset(*last) - offset(*first)),
            _ => 0,
        };
    }
    offsets
        .windows(2)
        .enumerate()
        .filter(|(i, _)| array.is_valid(*i))
        .map(|(_, pair)| count(offset(pair[1]) - offset(pair[0])))
        .sum()
}

fn offset(value: i32) -> usize {
    usize::try_from(value).unwrap_or(0)
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, ListArray,
        StringArray, StructArray, TimestampMicrosecondArray,
    };
    use arrow::buffer::NullBuffer;
    use arrow::datatypes::{Field, Fields, Int64Type};

    use super::*;

    /// The rows of a recorded load (`load_empty_fields`), counted as 59 bytes there.
    #[test]
    fn a_recorded_load_is_counted_alike() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new(Int64Array::from(vec![1, 2]))),
            ("b", Arc::new(BooleanArray::from(vec![None, Some(true)]))),
            (
                "ts",
                Arc::new(TimestampMicrosecondArray::from(vec![None, Some(1)])),
            ),
            ("d", Arc::new(Date32Array::from(vec![None, Some(1)]))),
            ("n", Arc::new(Decimal128Array::from(vec![None, Some(15)]))),
            ("f", Arc::new(Float64Array::from(vec![None, Some(1.5)]))),
            ("s", Arc::new(StringArray::from(vec![None, Some("")]))),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(n, c)| (n, c, true)),
        )
        .unwrap();
        assert_eq!(logical_bytes(&batch), 59);
        assert_eq!(logical_bytes(&batch.slice(0, 1)), 8);
    }

    #[test]
    fn nested_values_are_sums_and_hidden_ones_are_nothing() {
        let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
            Some(vec![Some(1), Some(2)]),
            Some(vec![]),
            Some(vec![Some(3)]),
        ]));
        assert_eq!(logical_bytes_of(&list), 24);
        assert_eq!(logical_bytes_of(&list.slice(1, 2)), 8);
        let strings: ArrayRef = Arc::new(StringArray::from(vec!["ab", "hidden"]));
        assert_eq!(logical_bytes_of(&strings), 12);
        let fields = Fields::from(vec![Field::new("s", DataType::Utf8, true)]);
        let nulls = NullBuffer::from(vec![true, false]);
        let structs: ArrayRef = Arc::new(StructArray::new(fields, vec![strings], Some(nulls)));
        assert_eq!(logical_bytes_of(&structs), 4);
    }
}
