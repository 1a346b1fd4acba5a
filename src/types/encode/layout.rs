//! Rows laid out one after the other in a buffer of exactly their size.

use std::ops::Range;

use bytes::Bytes;

use super::spare;

/// How many bytes of rows are written at a time, so that they stay in the cache.
const GROUP_BYTES: usize = 32 * 1024;

/// Rows one after the other: row `i` is `bytes[ends[i - 1]..ends[i]]`.
#[derive(Debug, Clone)]
pub(super) struct LaidOut {
    pub(super) bytes: Bytes,
    pub(super) ends: Vec<usize>,
}

/// Lays out rows of these lengths, group by group. `write` adds a field after the
/// other to the rows of a group, whose places in the buffer it moves to behind what it
/// wrote.
pub(super) fn lay_out(
    lengths: Vec<usize>,
    mut write: impl FnMut(Range<usize>, &mut [usize], &mut [u8]),
) -> LaidOut {
    let mut ends = lengths;
    let mut total = 0;
    for end in &mut ends {
        total += *end;
        *end = total;
    }
    let mut out = spare::buffer(total);
    let mut places = Vec::new();
    let mut row = 0;
    while row < ends.len() {
        let start = row.checked_sub(1).map_or(0, |before| ends[before]);
        let within = ends[row..].partition_point(|end| *end <= start + GROUP_BYTES);
        let group = row..row + within.max(1);
        places.clear();
        places.push(start);
        places.extend_from_slice(&ends[group.start..group.end - 1]);
        write(group.clone(), &mut places, &mut out);
        debug_assert_eq!(places, ends[group.clone()], "rows are as long as measured");
        row = group.end;
    }
    LaidOut {
        bytes: spare::bytes(out),
        ends,
    }
}

/// The elements of the list at `at`.
pub(super) fn span(offsets: &[i32], at: usize) -> Range<usize> {
    offsets[at] as usize..offsets[at + 1] as usize
}
