//! No text panics, whatever it is.

use proptest::prelude::*;
use proptest::sample::select;

use super::{Restriction, batch, evaluate, schema};

/// Pieces that restrictions are made of.
const PIECES: &[&str] = &[
    "i",
    "k",
    "f",
    "b",
    "s",
    "ci",
    "y",
    "n",
    "np",
    "bn",
    "d",
    "t",
    "dt",
    "ts",
    "j",
    "g",
    "iv",
    "r",
    "st",
    "st.x",
    "a",
    "`order`",
    "1",
    "-1",
    "0",
    "1.5",
    "1e308",
    "9223372036854775807",
    "'abc'",
    "''",
    "'2024-02-29'",
    "b'\\xff'",
    "r'('",
    "NULL",
    "TRUE",
    "FALSE",
    "NUMERIC '1'",
    "BIGNUMERIC '578960446186580977117854925043439539266'",
    "DATE '0001-01-01'",
    "TIMESTAMP '9999-12-31 23:59:59Z'",
    "TIME '0:0:0'",
    "INTERVAL 1 DAY",
    "INTERVAL k YEAR",
    "RANGE<DATE> '[UNBOUNDED, UNBOUNDED)'",
    "=",
    "!=",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "||",
    "AND",
    "OR",
    "NOT",
    "IS NULL",
    "IS NOT TRUE",
    "IN (",
    "IN UNNEST(a)",
    "BETWEEN",
    "LIKE",
    "(",
    ")",
    ",",
    "[",
    "]",
    "CASE WHEN",
    "THEN",
    "ELSE",
    "END",
    "IF(",
    "COALESCE(",
    "CAST(",
    "AS INT64)",
    "AS STRING)",
    "AS NUMERIC)",
    "SAFE_CAST(",
    "MOD(",
    "SUBSTR(",
    "REGEXP_CONTAINS(",
    "DATE_ADD(",
    "DATE_TRUNC(",
    "WEEK(MONDAY))",
    "EXTRACT(ISOWEEK FROM",
    "AT TIME ZONE 'UTC')",
    "TIMESTAMP(",
    "DATETIME(",
    "JSON_VALUE(",
    "SAFE.",
    "ABS(",
    ".",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn arbitrary_text(text in ".{0,60}") {
        let _ = evaluate(&text);
    }

    #[test]
    fn plausible_text(pieces in proptest::collection::vec(select(PIECES), 1..14)) {
        let _ = evaluate(&pieces.join(" "));
    }

    #[test]
    fn comparisons_of_anything(
        left in select(&PIECES[..44]),
        right in select(&PIECES[..44]),
        operator in select(&["=", "<", ">=", "+ 1 >", "IS DISTINCT FROM", "||", "LIKE", "- 1 <", "* 2 =", "/ 3 >"][..]),
    ) {
        let _ = evaluate(&format!("{left} {operator} {right}"));
        let _ = evaluate(&format!("NOT ({left} IN ({right}, {left}))"));
    }

    /// One row at a time gives the same answers as all rows at once.
    #[test]
    fn rows_do_not_touch_each_other(
        left in select(&PIECES[..44]),
        right in select(&PIECES[..44]),
        operator in select(&["=", "<", ">=", "IS DISTINCT FROM", "BETWEEN NULL AND"][..]),
    ) {
        let schema = schema();
        let batch = batch();
        if let Ok(restriction) = Restriction::parse(&format!("{left} {operator} {right}"), &schema) {
            let all = restriction.evaluate(&batch).map(|m| super::answers(&m));
            let each: Result<String, _> = (0..batch.num_rows())
                .map(|i| restriction.evaluate(&batch.slice(i, 1)).map(|m| super::answers(&m)))
                .collect();
            match (all, each) {
                (Ok(all), Ok(each)) => prop_assert_eq!(all, each),
                (Err(_), Err(_)) => {}
                (all, each) => prop_assert!(false, "{:?} and {:?}", all, each),
            }
        }
    }
}
