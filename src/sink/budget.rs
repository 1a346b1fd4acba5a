//! What the writers of a sink share: how many connections they may have to default
//! streams, and how many bytes may be under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::write::Window;
use crate::options::ConnectionCounts;

/// The connections of all writers of a sink, and the bytes under way on them.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    counts: ConnectionCounts,
    open: Arc<AtomicUsize>,
    window: Window,
}

/// One of them, for as long as this lives.
#[derive(Debug)]
pub(super) struct Slot(Arc<AtomicUsize>);

impl Budget {
    pub(super) fn new(counts: ConnectionCounts) -> Self {
        Self {
            counts,
            open: Arc::default(),
            window: Window::default(),
        }
    }

    /// The bytes under way on the streams of all writers.
    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    /// One that cannot be denied: every writer needs one.
    pub(super) fn first(&self) -> Slot {
        self.open.fetch_add(1, Ordering::Relaxed);
        Slot(Arc::clone(&self.open))
    }

    /// One more because the others are not idle, as long as there are few.
    pub(super) fn for_speed(&self) -> Option<Slot> {
        self.below(self.counts.min)
    }

    /// One more because the others are full.
    pub(super) fn for_room(&self) -> Option<Slot> {
        self.below(self.counts.max)
    }

    fn below(&self, most: usize) -> Option<Slot> {
        let one_more = |open| (open < most).then_some(open + 1);
        self.open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()
            .map(|_| Slot(Arc::clone(&self.open)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_and_room_have_their_limits_and_a_writer_has_none() {
        let budget = Budget::new(ConnectionCounts { min: 2, max: 3 });
        let mut slots = vec![budget.first()];
        slots.extend(budget.for_speed());
        assert_eq!(slots.len(), 2);
        assert!(budget.for_speed().is_none());
        slots.extend(budget.for_room());
        assert_eq!(slots.len(), 3);
        assert!(budget.clone().for_room().is_none());
        slots.push(budget.first());
        slots.truncate(1);
        assert!(budget.for_speed().is_some());
    }
}
