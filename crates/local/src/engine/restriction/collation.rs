//! `und:ci`: comparison of text without case.

use std::cmp::Ordering;

/// The form in which texts that differ by case alone are the same.
pub(super) fn folded(text: &str) -> String {
    // Upper case first, so that letters with two lower-case forms (ς, σ) or a
    // longer upper-case one (ß) meet.
    text.to_uppercase().to_lowercase()
}

/// Order by folded code points. The service orders by the root collation, which
/// differs from this for punctuation and accented letters.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    folded(a).cmp(&folded(b))
}
