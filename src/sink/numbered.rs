//! Which row of its input a row is, wherever it has been taken since.

use arrow::array::RecordBatch;

/// Rows on their way to a table's writer.
#[derive(Debug, Clone)]
pub(super) struct Numbered {
    pub(super) rows: RecordBatch,
    pub(super) numbers: RowNumbers,
}

/// The numbers of rows in what a task was given, from 1, by their positions in a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RowNumbers {
    /// From this position on rows have this number and those after it, until the next.
    runs: Vec<(usize, u64)>,
}

impl RowNumbers {
    /// Of rows that follow each other.
    pub(super) fn from(first: u64) -> Self {
        Self {
            runs: vec![(0, first)],
        }
    }

    /// The number of the row at this position.
    pub(super) fn of(&self, position: usize) -> u64 {
        let after = self.runs.partition_point(|(at, _)| *at <= position);
        let Some((at, number)) = after.checked_sub(1).and_then(|run| self.runs.get(run)) else {
            return 0;
        };
        number.saturating_add(u64::try_from(position - at).unwrap_or(u64::MAX))
    }

    /// Of the rows at these positions, one behind the other.
    pub(super) fn select(&self, positions: impl IntoIterator<Item = usize>) -> Self {
        let mut selected = Self::default();
        for (at, position) in positions.into_iter().enumerate() {
            selected.push(at, self.of(position));
        }
        selected
    }

    /// Adds those of rows that stand from position `from` on.
    pub(super) fn append(&mut self, from: usize, more: &Self) {
        for (at, number) in &more.runs {
            self.push(from + at, *number);
        }
    }

    fn push(&mut self, at: usize, number: u64) {
        if self.runs.is_empty() || self.of(at) != number {
            self.runs.push((at, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_with_their_rows() {
        let six = RowNumbers::from(11);
        assert_eq!((six.of(0), six.of(5)), (11, 16));
        let kept = six.select([0, 2, 3, 5]);
        let numbers: Vec<_> = (0..4).map(|at| kept.of(at)).collect();
        assert_eq!(numbers, [11, 13, 14, 16]);
        assert_eq!(kept.runs.len(), 3);
        let mut both = kept.clone();
        both.append(4, &RowNumbers::from(17));
        // The next rows follow the last of the first.
        assert_eq!(both.runs.len(), 3);
        both.append(6, &RowNumbers::from(30).select([1, 0]));
        let numbers: Vec<_> = (0..8).map(|at| both.of(at)).collect();
        assert_eq!(numbers, [11, 13, 14, 16, 17, 18, 31, 30]);
    }
}
