//! How many bytes are under way on several streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes under way on all streams that share it, which bounds the memory of what
/// writes over many of them. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Window(Arc<AtomicUsize>);

impl Window {
    /// Bytes of rows that are sent and not settled.
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}
