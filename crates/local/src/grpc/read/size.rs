//! Sizes of rows in Arrow buffers.

use arrow::array::{Array, RecordBatch};

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
