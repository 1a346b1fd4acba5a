//! The nearest name to one that was mistyped.

/// The candidate with the fewest edits from `name`, if few enough that it is
/// likely to have been meant. The last segment of a dotted candidate counts as
/// the whole, so that `idle_timeout` finds `scan.idle_timeout`.
pub(super) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let allowed = (name.chars().count() / 3).max(2);
    candidates
        .into_iter()
        .map(|candidate| {
            let last = candidate.rsplit('.').next().unwrap_or(candidate);
            // A match of the whole name is the better one of two equals.
            let edits = distance(name, candidate) * 2;
            (edits.min(distance(name, last) * 2 + 1), candidate)
        })
        .min()
        .filter(|(edits, _)| *edits <= allowed * 2 + 1)
        .map(|(_, candidate)| candidate)
}

/// The number of characters to insert, delete or replace to get from `a` to
/// `b`, two neighbours that changed places counting as two.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = [
        "project",
        "scan.idle_timeout",
        "scan.row_restriction",
        "scan.retry_max_attempts",
    ];

    #[test]
    fn counts_edits() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
        assert_eq!(distance("ab", "ba"), 2);
    }

    #[test]
    fn finds_what_was_meant() {
        assert_eq!(nearest("projct", NAMES), Some("project"));
        assert_eq!(
            nearest("scan.idle_time_out", NAMES),
            Some("scan.idle_timeout")
        );
        assert_eq!(nearest("idle_timeout", NAMES), Some("scan.idle_timeout"));
        assert_eq!(
            nearest("row_restrictions", NAMES),
            Some("scan.row_restriction")
        );
    }

    #[test]
    fn stays_silent_when_nothing_is_near() {
        assert_eq!(nearest("colour", NAMES), None);
        assert_eq!(nearest("", NAMES), None);
    }
}
