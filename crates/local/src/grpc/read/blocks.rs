//! Storage blocks: the unit in which rows are sampled, given to streams and cut
//! by SplitReadStream.

use std::ops::Range;
use std::sync::Arc;

use rand::Rng;

use crate::store::{Segment, Snapshot};

/// Some consecutive rows of one segment.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// Where the rows are.
    pub(super) segment: Arc<Segment>,
    /// Which of the segment's rows.
    pub(super) rows: Range<usize>,
}

/// Largest size of a block in bytes of Arrow buffers, all columns counted.
const MAX_BLOCK_BYTES: usize = 1 << 20;

/// A stream of the aimed-at size has about this many blocks, so that it can be split.
const BLOCKS_PER_STREAM: usize = 8;

/// Cuts a snapshot into blocks, in storage order. `stream_bytes` is the size
/// aimed at for a stream.
pub(super) fn cut(snapshot: &Snapshot, stream_bytes: usize) -> Vec<Block> {
    let block_bytes = (stream_bytes / BLOCKS_PER_STREAM).clamp(1, MAX_BLOCK_BYTES);
    let mut blocks = Vec::new();
    for segment in &snapshot.segments {
        let rows = segment.rows();
        if rows == 0 {
            continue;
        }
        let row_bytes = (segment.bytes() / rows).max(1);
        let step = (block_bytes / row_bytes).max(1);
        let mut start = 0;
        while start < rows {
            let end = (start + step).min(rows);
            blocks.push(Block {
                segment: Arc::clone(segment),
                rows: start..end,
            });
            start = end;
        }
    }
    blocks
}

/// Keeps each block with a probability of `percent` in a hundred.
pub(super) fn sample(blocks: Vec<Block>, percent: f64, rng: &mut impl Rng) -> Vec<Block> {
    blocks
        .into_iter()
        .filter(|_| rng.random::<f64>() * 100.0 < percent)
        .collect()
}

/// Number of rows in `blocks`.
pub(super) fn rows(blocks: &[Block]) -> usize {
    blocks.iter().map(|b| b.rows.len()).sum()
}

/// Divides `blocks` among at most `streams` streams of about equal row counts,
/// in order. No stream is empty.
pub(super) fn divide(blocks: &[Block], streams: usize) -> Vec<Vec<Block>> {
    let total = rows(blocks);
    let streams = streams.clamp(1, blocks.len().max(1));
    let mut out: Vec<Vec<Block>> = Vec::with_capacity(streams);
    let mut current = Vec::new();
    let mut seen = 0usize;
    for block in blocks {
        current.push(block.clone());
        seen += block.rows.len();
        // 128-bit so that no row count can overflow the product.
        let due = (seen as u128 * streams as u128 / total.max(1) as u128) as usize;
        if due > out.len() {
            out.push(std::mem::take(&mut current));
        }
    }
    if !current.is_empty() {
        out.push(current);
    }
    out
}

/// Cuts `blocks` in two at the block boundary nearest to `fraction` of the rows,
/// or answers `None` when there is no boundary inside.
pub(super) fn split(blocks: &[Block], fraction: f64) -> Option<(Vec<Block>, Vec<Block>)> {
    if blocks.len() < 2 {
        return None;
    }
    let wanted = rows(blocks) as f64 * fraction;
    let mut best = (1, f64::INFINITY);
    let mut seen = 0usize;
    for (i, block) in blocks.iter().enumerate().take(blocks.len() - 1) {
        seen += block.rows.len();
        let distance = (seen as f64 - wanted).abs();
        if distance < best.1 {
            best = (i + 1, distance);
        }
    }
    Some((blocks[..best.0].to_vec(), blocks[best.0..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, RecordBatch};
    use rand::SeedableRng;

    fn segment(rows: i64) -> Arc<Segment> {
        let batch = RecordBatch::try_from_iter([(
            "a",
            Arc::new(Int64Array::from_iter_values(0..rows)) as arrow::array::ArrayRef,
        )])
        .unwrap();
        Arc::new(Segment::in_memory(vec![batch], None))
    }

    fn blocks(sizes: &[usize]) -> Vec<Block> {
        let segment = segment(1000);
        sizes
            .iter()
            .map(|n| Block {
                segment: Arc::clone(&segment),
                rows: 0..*n,
            })
            .collect()
    }

    #[test]
    fn division_keeps_order_and_rows_and_has_no_empty_stream() {
        for streams in 1..12 {
            let all = blocks(&[10, 1, 1, 1, 50, 3, 9, 9]);
            let divided = divide(&all, streams);
            assert!(divided.len() <= streams, "{streams}: {}", divided.len());
            assert!(divided.iter().all(|s| rows(s) > 0));
            let sizes: Vec<_> = divided.concat().iter().map(|b| b.rows.len()).collect();
            assert_eq!(sizes, [10, 1, 1, 1, 50, 3, 9, 9]);
        }
        assert_eq!(divide(&blocks(&[5; 8]), 4).len(), 4);
        assert!(divide(&[], 4).is_empty());
    }

    #[test]
    fn split_is_at_the_nearest_boundary_and_never_empty() {
        let all = blocks(&[10, 10, 10, 10]);
        let (a, b) = split(&all, 0.5).unwrap();
        assert_eq!((rows(&a), rows(&b)), (20, 20));
        let (a, b) = split(&all, 0.001).unwrap();
        assert_eq!((rows(&a), rows(&b)), (10, 30));
        let (a, b) = split(&all, 0.999).unwrap();
        assert_eq!((rows(&a), rows(&b)), (30, 10));
        assert!(split(&blocks(&[10]), 0.5).is_none());
    }

    #[test]
    fn sampling_takes_all_or_none_at_the_ends() {
        let mut rng = rand::rngs::StdRng::seed_from_u64(7);
        assert_eq!(sample(blocks(&[1; 100]), 100.0, &mut rng).len(), 100);
        assert_eq!(sample(blocks(&[1; 100]), 0.0, &mut rng).len(), 0);
        let some = sample(blocks(&[1; 1000]), 30.0, &mut rng).len();
        assert!((200..400).contains(&some), "{some}");
    }
}
