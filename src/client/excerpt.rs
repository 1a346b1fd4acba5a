//! What a server said, as far as it is worth repeating.

/// Explanations are shorter; what is longer is not meant for people.
const MAX_BYTES: usize = 600;

/// The text, cut where an explanation has long ended.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().find(|(at, _)| *at >= MAX_BYTES) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_explanations_are_cut_between_characters() {
        let short = excerpt(&"é".repeat(10_000));
        assert_eq!(short.chars().count(), 301);
        assert!(short.ends_with('…'));
        assert_eq!(excerpt("short"), "short");
    }
}
