//! What conditions say of single columns.

use super::{Restriction, schema};

/// The bounds as `column least greatest`, open ends as `-` and `+`.
fn bounds(text: &str) -> Vec<String> {
    let schema = schema();
    let restriction = Restriction::parse(text, &schema).unwrap();
    let end = |value: i128| match value {
        i128::MIN => "-".to_owned(),
        i128::MAX => "+".to_owned(),
        value => value.to_string(),
    };
    restriction
        .bounds()
        .iter()
        .map(|bound| {
            let name = &schema.fields[bound.column].name;
            format!("{name} {} {}", end(bound.least), end(bound.greatest))
        })
        .collect()
}

#[test]
fn comparisons_with_constants_are_bounds() {
    for (text, expected) in [
        ("i = 5", vec!["i 5 5"]),
        ("i < 5 AND 7 < k", vec!["i - 4", "k 8 +"]),
        ("i >= 5 AND (k <= 6 AND i != 3)", vec!["i 5 +", "k - 6"]),
        ("i BETWEEN 3 AND 9", vec!["i 3 9"]),
        ("n > 1.5", vec!["n 1500000001 +"]),
        ("np <= NUMERIC '1.5'", vec!["np - 1500000000"]),
        ("d = '1970-01-02'", vec!["d 1 1"]),
        ("t < '00:00:01'", vec!["t - 999999"]),
        ("dt >= '1970-01-01 00:00:01'", vec!["dt 1000000 +"]),
        ("ts >= '1970-01-01 00:00:01+00'", vec!["ts 1000000 +"]),
    ] {
        assert_eq!(bounds(text), expected, "{text}");
    }
}

#[test]
fn what_says_nothing_of_every_row_is_no_bound() {
    for text in [
        "i = 5 OR k = 6",
        "NOT i = 5",
        "i != 5",
        "i NOT BETWEEN 3 AND 9",
        "i IS NULL",
        "f < 5",
        "s = 'a'",
        "bn < 5",
        "st.x = 5",
        "i = k",
        "i + 1 = 5",
    ] {
        assert_eq!(bounds(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn nothing_counts_behind_what_can_fail() {
    assert_eq!(bounds("i = 5 AND 1 / k > 0 AND k = 3"), ["i 5 5"]);
    assert_eq!(bounds("(i = 5 AND 1 / k > 0) AND k = 3"), ["i 5 5"]);
    assert!(bounds("1 / k > 0 AND i = 5").is_empty());
}
