//! Which calls for a node's partitions belong together.
//!
//! A plan may be executed more than once. Each time, every partition is
//! executed once, so the n-th call for a partition belongs to the n-th round; rounds
//! share nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

/// The rounds of one plan node.
#[derive(Debug)]
pub(crate) struct Rounds<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    /// How often each partition was executed.
    calls: Vec<usize>,
    /// Rounds that some partition has not joined yet, by their number.
    open: VecDeque<(usize, Arc<T>)>,
}

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                calls: Vec::new(),
                open: VecDeque::new(),
            }),
        }
    }
}

impl<T> Rounds<T> {
    /// The round that the next call for `partition` of `partitions` belongs to,
    /// begun with its number if this is its first.
    pub(crate) fn join(
        &self,
        partition: usize,
        partitions: usize,
        begin: impl FnOnce(usize) -> T,
    ) -> Arc<T> {
        let mut state = self.state.lock();
        state.calls.resize(partitions, 0);
        let number = state.calls[partition];
        state.calls[partition] += 1;
        let found = state.open.iter().find(|(open, _)| *open == number);
        let round = match found {
            Some((_, round)) => Arc::clone(round),
            None => {
                let round = Arc::new(begin(number));
                state.open.push_back((number, Arc::clone(&round)));
                round
            }
        };
        // Joined by everyone: the streams alone keep it alive.
        let done = state.calls.iter().copied().min().unwrap_or(0);
        state.open.retain(|(open, _)| *open >= done);
        round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_round_meet() {
        let rounds = Rounds::default();
        let first = rounds.join(0, 2, |number| number);
        let second = rounds.join(0, 2, |number| number);
        assert_eq!((*first, *second), (0, 1));
        assert!(Arc::ptr_eq(&first, &rounds.join(1, 2, |_| 9)));
        assert!(Arc::ptr_eq(&second, &rounds.join(1, 2, |_| 9)));
        assert!(rounds.state.lock().open.is_empty());
    }
}
