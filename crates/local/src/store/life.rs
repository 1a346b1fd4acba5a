//! A segment of a table, and when which of its rows were live.

use std::sync::{Arc, OnceLock};

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;

use super::disk::{LifeImage, StoredSegment};
use super::segment::Segment;
use crate::error::Result;

/// A segment and when it was live, in commit times (microseconds since the epoch).
#[derive(Debug)]
pub(super) struct Life {
    pub(super) id: u64,
    pub(super) segment: Arc<Segment>,
    /// The commits that brought the rows, oldest first, each with its number of
    /// rows: one commit, or those of segments that were put together.
    pub(super) parts: Vec<(i64, usize)>,
    /// First commit time at which the segment is gone; `None` while live.
    pub(super) to: Option<i64>,
    /// Rows that changes took away one by one, with the changes' commit times,
    /// oldest first.
    removed: Vec<(i64, Vec<u32>)>,
    /// What is left of the segment, made when it is first asked for.
    left: OnceLock<Arc<Segment>>,
}

impl Life {
    /// A segment that begins to be live now.
    pub(super) fn begun(id: u64, segment: Arc<Segment>, now: i64) -> Self {
        segment.adopt();
        Self {
            id,
            parts: vec![(now, segment.rows())],
            segment,
            to: None,
            removed: Vec::new(),
            left: OnceLock::new(),
        }
    }

    /// One segment in the place of several with the same rows.
    pub(super) fn together(id: u64, segment: Arc<Segment>, lives: &[Life]) -> Self {
        segment.adopt();
        let mut removed: Vec<(i64, Vec<u32>)> = Vec::new();
        let mut first = 0;
        for life in lives {
            for (time, rows) in &life.removed {
                removed.push((*time, rows.iter().map(|row| row + first).collect()));
            }
            first += position(life.segment.rows());
        }
        removed.sort_by_key(|(time, _)| *time);
        Self {
            id,
            segment,
            parts: lives.iter().flat_map(|life| life.parts.clone()).collect(),
            to: None,
            removed,
            left: OnceLock::new(),
        }
    }

    /// The rows that are live now, if the segment is.
    pub(super) fn left(&self) -> &Arc<Segment> {
        self.left.get_or_init(|| match self.removed.is_empty() {
            true => Arc::clone(&self.segment),
            false => Arc::new(
                self.segment
                    .picked(self.kept(i64::MAX, self.segment.rows())),
            ),
        })
    }

    /// The rows that were live at `time`.
    pub(super) fn at(&self, time: i64) -> Option<Arc<Segment>> {
        if self.to.is_some_and(|to| to <= time) {
            return None;
        }
        let rows = self
            .parts
            .iter()
            .take_while(|(from, _)| *from <= time)
            .map(|(_, rows)| rows)
            .sum();
        let arrived = self.parts.first().is_some_and(|(from, _)| *from <= time);
        let untouched = |life: &Self| life.removed.first().is_none_or(|(at, _)| *at > time);
        if !arrived {
            None
        } else if rows == self.segment.rows()
            && self.removed.last().is_none_or(|(at, _)| *at <= time)
        {
            Some(Arc::clone(self.left()))
        } else if untouched(self) {
            Some(Arc::new(self.segment.prefix(rows)))
        } else {
            Some(Arc::new(self.segment.picked(self.kept(time, rows))))
        }
    }

    /// Takes rows away, which are live. The segment is gone when none is left.
    pub(super) fn remove(&mut self, rows: Vec<u32>, now: i64) {
        self.removed.push((now, rows));
        self.left = OnceLock::new();
        let removed: usize = self.removed.iter().map(|(_, rows)| rows.len()).sum();
        if removed >= self.segment.rows() && self.to.is_none() {
            self.to = Some(now);
        }
    }

    /// Which of the first `rows` rows were left at `time`.
    pub(super) fn kept(&self, time: i64, rows: usize) -> BooleanBuffer {
        let mut kept = BooleanBufferBuilder::new(rows);
        kept.append_n(rows, true);
        let removed = self.removed.iter().take_while(|(at, _)| *at <= time);
        for row in removed.flat_map(|(_, rows)| rows) {
            let row = usize::try_from(*row).unwrap_or(usize::MAX);
            if row < rows {
                kept.set_bit(row, false);
            }
        }
        kept.finish()
    }

    /// The form in which it is written.
    pub(super) fn image(&self, segment: StoredSegment) -> LifeImage {
        LifeImage {
            id: self.id,
            parts: self.parts.clone(),
            to: self.to,
            removed: self.removed.clone(),
            segment,
        }
    }

    /// The life of an image.
    pub(super) fn from_image(
        image: LifeImage,
        load: &mut dyn FnMut(&StoredSegment) -> Result<Segment>,
    ) -> Result<Self> {
        let segment = Arc::new(load(&image.segment)?);
        segment.adopt();
        Ok(Self {
            id: image.id,
            segment,
            parts: image.parts,
            to: image.to,
            removed: image.removed,
            left: OnceLock::new(),
        })
    }
}

/// A row's position in its segment. Segments are cut long before they have so many
/// rows.
pub(super) fn position(row: usize) -> u32 {
    u32::try_from(row).expect("a segment has fewer than 2^32 rows")
}
