//! Write streams that clients made, and the rows that they hold back.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::disk::{StoredSegment, StreamImage};
use super::reference::TableRef;
use super::segment::Segment;
use crate::error::Result;

/// When the rows of a stream are visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamKind {
    /// When they are acknowledged.
    Committed,
    /// When they are flushed.
    Buffered,
    /// When the finalized stream is committed.
    Pending,
}

/// What a stream has been through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamMeta {
    /// See the type.
    pub kind: StreamKind,
    /// Where its rows go.
    pub table: TableRef,
    /// Tells the table from another that got the same name later.
    pub incarnation: u64,
    /// Microseconds since the epoch.
    pub created: i64,
    /// Offset that the next row gets.
    pub end: i64,
    /// Rows before this offset are in the table.
    pub visible: i64,
    /// Whether it takes no more rows.
    pub finalized: bool,
    /// When a PENDING stream was committed, in microseconds since the epoch.
    pub committed: Option<i64>,
}

/// A stream: its state, and the rows `visible..end` that no reader sees yet.
#[derive(Debug)]
pub struct WriteStream {
    meta: StreamMeta,
    held: Vec<Arc<Segment>>,
}

impl WriteStream {
    /// A stream that holds nothing.
    pub(super) fn new(meta: StreamMeta) -> Self {
        Self {
            meta,
            held: Vec::new(),
        }
    }

    /// Its state.
    pub fn meta(&self) -> &StreamMeta {
        &self.meta
    }

    /// The rows that it holds back, in order.
    pub fn held(&self) -> &[Arc<Segment>] {
        &self.held
    }

    pub(super) fn put_meta(&mut self, meta: StreamMeta) {
        self.meta = meta;
    }

    /// Puts `segments` in the place of `gone` held ones, from position `at` on, and
    /// answers those.
    pub(super) fn splice(
        &mut self,
        at: usize,
        gone: usize,
        segments: Vec<Segment>,
    ) -> Vec<Arc<Segment>> {
        let at = at.min(self.held.len());
        let end = at.saturating_add(gone).min(self.held.len());
        let segments = segments.into_iter().map(|segment| {
            segment.adopt();
            Arc::new(segment)
        });
        self.held.splice(at..end, segments).collect()
    }

    /// Takes everything away that it holds.
    pub(super) fn empty(&mut self) -> Vec<Arc<Segment>> {
        std::mem::take(&mut self.held)
    }

    /// The stream in the form in which it is written.
    pub(super) fn image(
        &self,
        name: &str,
        store: &dyn Fn(&Arc<Segment>) -> Result<StoredSegment>,
    ) -> Result<StreamImage> {
        Ok(StreamImage {
            name: name.to_string(),
            meta: self.meta.clone(),
            held: self.held.iter().map(store).collect::<Result<_>>()?,
        })
    }

    /// The stream of an image.
    pub(super) fn from_image(
        image: &StreamImage,
        load: &mut dyn FnMut(&StoredSegment) -> Result<Segment>,
    ) -> Result<Self> {
        let held = image.held.iter().map(load).collect::<Result<_>>()?;
        let mut stream = Self::new(image.meta.clone());
        stream.splice(0, 0, held);
        Ok(stream)
    }
}
