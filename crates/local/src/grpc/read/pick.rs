//! Few rows out of many.

use std::hint::black_box;

use arrow::array::{Array, AsArray, BooleanArray, GenericByteArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{ArrowNativeType, BinaryType, ByteArrayType, DataType, Utf8Type};
use arrow::error::ArrowError;

/// Where at most one row in so many is picked, most of the time goes to waiting for
/// memory.
const FEW: usize = 8;

/// The rows of `rows` for which `mask` is true.
pub(super) fn pick(rows: &RecordBatch, mask: &BooleanArray) -> Result<RecordBatch, ArrowError> {
    if mask.true_count() <= rows.num_rows() / FEW && mask.null_count() == 0 {
        let picked: Vec<usize> = mask.values().set_indices().collect();
        for column in rows.columns() {
            match column.data_type() {
                DataType::Utf8 => warm::<Utf8Type>(column.as_bytes(), &picked),
                DataType::Binary => warm::<BinaryType>(column.as_bytes(), &picked),
                _ => {}
            }
        }
    }
    filter_record_batch(rows, mask)
}

/// Looks at the ends of some texts, each without waiting for another. To copy a text is
/// to wait for its bytes before the next one's are asked for.
fn warm<T: ByteArrayType>(texts: &GenericByteArray<T>, picked: &[usize]) {
    let (bytes, offsets) = (texts.value_data(), texts.value_offsets());
    let end = |at: usize| -> u8 {
        let offset = offsets.get(at).map_or(0, |offset| offset.as_usize());
        bytes.get(offset).copied().unwrap_or_default()
    };
    let seen = |seen: u8, at: &usize| seen ^ end(*at) ^ end(at + 1);
    black_box(picked.iter().fold(0, seen));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringArray};

    use super::*;

    #[test]
    fn the_rows_that_are_picked_are_those_of_the_mask() {
        let texts: Vec<_> = (0..1_000)
            .map(|n| (n % 7 > 0).then(|| "x".repeat(n % 13)))
            .collect();
        let bytes = texts.iter().map(|text| text.as_ref().map(String::as_bytes));
        let columns: [(&str, ArrayRef); 3] = [
            ("n", Arc::new(Int64Array::from_iter_values(0..1_000))),
            ("b", Arc::new(bytes.collect::<BinaryArray>())),
            ("t", Arc::new(StringArray::from(texts.clone()))),
        ];
        let rows = RecordBatch::try_from_iter_with_nullable(
            columns.map(|(name, column)| (name, column, true)),
        );
        let rows = rows.unwrap().slice(3, 990);
        for one_in in [1, 2, 7, 50, 989, 2_000] {
            let mask: BooleanArray = (0..990).map(|n| Some(n % one_in == one_in - 1)).collect();
            let picked = pick(&rows, &mask).unwrap();
            let expected = (0..990).filter(|n| n % one_in == one_in - 1);
            for (at, row) in expected.clone().enumerate() {
                assert_eq!(picked.slice(at, 1), rows.slice(row, 1), "1 in {one_in}");
            }
            assert_eq!(picked.num_rows(), expected.count());
        }
        let none = rows.slice(0, 0);
        let picked = pick(&none, &BooleanArray::from(Vec::<bool>::new())).unwrap();
        assert_eq!(picked.num_rows(), 0);
    }
}
