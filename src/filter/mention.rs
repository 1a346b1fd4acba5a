//! Whether a restriction's text names a column.

/// Whether `restriction` compares a column called `name`, in any case of letters.
/// Fields of other columns, literals and types are no mention of it.
pub(crate) fn mentions(restriction: &str, name: &str) -> bool {
    let name = name.to_lowercase();
    let mut rest = restriction;
    let mut after_point = false;
    while let Some(first) = rest.chars().next() {
        let (taken, found) = match first {
            '\'' | '"' => (text_literal(rest), None),
            '`' => {
                let inner = rest[1..].split('`').next().unwrap_or_default();
                (inner.len() + 2, Some(inner))
            }
            c if is_word(c) => {
                let word = rest.split(|c| !is_word(c)).next().unwrap_or(rest);
                let of_literal = rest[word.len()..].trim_start().starts_with(['\'', '"']);
                (word.len(), (!of_literal).then_some(word))
            }
            c => (c.len_utf8(), None),
        };
        if !after_point && found.is_some_and(|found| found.to_lowercase() == name) {
            return true;
        }
        after_point = first == '.' || (after_point && first.is_whitespace());
        rest = rest.get(taken..).unwrap_or_default();
    }
    false
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The bytes of the text literal that `rest` begins with.
fn text_literal(rest: &str) -> usize {
    let quote = &rest[..1];
    let tripled = quote.repeat(3);
    let quote = match rest.starts_with(&tripled) {
        true => tripled.as_str(),
        false => quote,
    };
    let mut at = quote.len();
    while at < rest.len() {
        if rest[at..].starts_with(quote) {
            return at + quote.len();
        }
        let mut chars = rest[at..].chars();
        let first = chars.next().map_or(1, char::len_utf8);
        let escaped = match rest[at..].starts_with('\\') {
            true => chars.next().map_or(0, char::len_utf8),
            false => 0,
        };
        at += first + escaped;
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_told_from_what_only_looks_like_them() {
        for (restriction, mentioned) in [
            ("(`d` = DATE '2024-01-01')", true),
            ("d = '2024-01-01'", true),
            ("x > 1 AND D < CURRENT_DATE()", true),
            ("d.part = 1", true),
            ("", false),
            ("(`id` = 1)", false),
            ("(`s` = 'd')", false),
            ("(`s` = 'it\\'s d')", false),
            ("s = '''a 'd' b'''", false),
            ("(`s`.`d` = 1)", false),
            ("s . d = 1", false),
            ("x = D '2024-01-01'", false),
            ("x = b'd' OR y = r\"d\"", false),
            ("'unclosed d", false),
        ] {
            assert_eq!(mentions(restriction, "d"), mentioned, "{restriction}");
        }
    }
}
