//! What is wrong with which row.

use std::collections::BTreeMap;

use arrow::buffer::NullBuffer;

use super::rows::RowError;

/// The first fault of each row that has one.
#[derive(Debug, Default)]
pub(super) struct Faults(BTreeMap<usize, RowError>);

impl Faults {
    /// Notes what is wrong with a row, unless something is already.
    pub(super) fn add(&mut self, row: usize, column: &str, message: impl FnOnce() -> String) {
        self.0.entry(row).or_insert_with(|| RowError {
            row,
            column: column.to_string(),
            message: message(),
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, row: usize) -> bool {
        self.0.contains_key(&row)
    }

    /// By ascending row.
    pub(super) fn into_errors(self) -> Vec<RowError> {
        self.0.into_values().collect()
    }
}

/// Which rows the values of an array belong to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owners<'a> {
    /// Value `i` is of row `i`.
    Rows,
    /// The values are the elements of lists: those of list `i` begin at
    /// `offsets[i]`, and the list is value `i` of `lists`.
    Lists {
        lists: &'a Owners<'a>,
        offsets: &'a [i32],
    },
}

impl Owners<'_> {
    /// The row of the value at `at`. Only asked for faults, which are rare.
    pub(super) fn row(&self, at: usize) -> usize {
        match self {
            Owners::Rows => at,
            Owners::Lists { lists, offsets } => {
                let begun = offsets
                    .partition_point(|offset| usize::try_from(*offset).is_ok_and(|o| o <= at));
                lists.row(begun.saturating_sub(1))
            }
        }
    }
}

/// Where the values of an array stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// The path of the column.
    pub(super) path: &'a str,
    /// Which rows the values belong to.
    pub(super) owners: &'a Owners<'a>,
    /// Which of the structs that hold the values are there; all without it. A
    /// value of a NULL struct is NULL itself, and nobody misses it.
    pub(super) holders: Option<&'a NullBuffer>,
}

impl Place<'_> {
    /// Notes that the value at `at` is wrong.
    pub(super) fn fault(&self, faults: &mut Faults, at: usize, message: impl FnOnce() -> String) {
        faults.add(self.owners.row(at), self.path, message);
    }
}
