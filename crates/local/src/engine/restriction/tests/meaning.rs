//! Three-valued logic, comparison and coercion.

use super::{check, evaluate, refuse};

#[test]
fn logic_tables() {
    let value = ["TRUE", "FALSE", "NULL"];
    let and = ["TFN", "FFF", "NFN"];
    let or = ["TTT", "TFN", "TNN"];
    let letter = |text: &str| text.chars().next().unwrap();
    for (x, a) in value.iter().enumerate() {
        for (y, b) in value.iter().enumerate() {
            for (left, right) in [
                (a.to_string(), b.to_string()),
                // The same with columns: row 0 of each is what is asked for.
                (
                    format!("IF(k > 0, {a}, k = 0)"),
                    format!("IF(k > 0, {b}, k = 0)"),
                ),
            ] {
                let got = evaluate(&format!("{left} AND {right}")).unwrap();
                assert_eq!(letter(&got), and[x].chars().nth(y).unwrap(), "{a} AND {b}");
                let got = evaluate(&format!("{left} OR {right}")).unwrap();
                assert_eq!(letter(&got), or[x].chars().nth(y).unwrap(), "{a} OR {b}");
            }
        }
    }
    check(&[
        ("NOT b", "FTN"),
        ("b", "TFN"),
        ("b IS TRUE", "TFF"),
        ("b IS NOT TRUE", "FTT"),
        ("b IS FALSE", "FTF"),
        ("b IS NOT FALSE", "TFT"),
        ("b IS NULL", "FFT"),
        ("b IS NOT NULL", "TTF"),
        ("NOT b IS NULL", "TTF"),
        ("b = FALSE", "FTN"),
        ("b > FALSE", "TFN"),
        ("NULL", "NNN"),
        ("NOT NULL", "NNN"),
        ("NULL IS NULL", "TTT"),
        ("NULL = NULL", "NNN"),
        ("TRUE", "TTT"),
        ("b OR i IS NULL", "TFT"),
        ("b AND i = 1 OR s IS NULL AND k = 30", "TFT"),
        ("NOT b OR b", "TTN"),
        ("NOT NOT b", "TFN"),
    ]);
}

#[test]
fn comparison_of_every_type() {
    check(&[
        ("i = 1", "TFN"),
        ("i <> 1", "FTN"),
        ("i != 1", "FTN"),
        ("i < 1", "FTN"),
        ("i <= 1", "TTN"),
        ("1 <= i", "TFN"),
        ("i = -9223372036854775808", "FTN"),
        ("i = -0x8000000000000000", "FTN"),
        ("i = 0x1", "TFN"),
        ("k = 10", "TFF"),
        ("f = 1.5", "TFN"),
        ("f = f", "TFN"),
        ("f != f", "FTN"),
        ("f < 2", "TFN"),
        ("f > 2", "FFN"),
        ("NOT f > 2", "TTN"),
        ("f >= f", "TFN"),
        ("-0.0 = 0.0", "TTT"),
        ("f * 0 = -0.0", "TFN"),
        ("s = 'abc'", "TFN"),
        (r#"s = "50%_\\\n'\"é""#, "FTN"),
        ("s > 'abb'", "TFN"),
        ("s < 'b'", "TTN"),
        ("y = b'\\x00\\xff'", "TFN"),
        ("y < b'\\x00'", "FTN"),
        ("y = b''", "FTN"),
        ("n = 1.5", "TFN"),
        ("n = NUMERIC '1.5'", "TFN"),
        ("n < -99999999999999999999999999999.0", "FTN"),
        ("np = 1.50", "TFN"),
        ("np = n", "TFN"),
        ("np < 0", "FTN"),
        ("bn = 1.5", "TFN"),
        ("bn = n", "TFN"),
        (
            "bn = BIGNUMERIC '578960446186580977117854925043439539266.34992332820282019728792003956564819967'",
            "FTN",
        ),
        ("bn > n", "FTN"),
        ("d = DATE '2024-2-29'", "TFN"),
        ("d = '2024-02-29'", "TFN"),
        ("'2024-02-29' = d", "TFN"),
        ("d < '2024-01-01'", "FTN"),
        ("d = CAST('2024-2-29' AS DATE)", "TFN"),
        ("t = TIME '12:34:56.789'", "TFN"),
        ("t < '1:0:0'", "FTN"),
        ("dt = DATETIME '2024-02-29T12:34:56.789000'", "TFN"),
        ("dt > '2024-02-29'", "TFN"),
        ("dt > d", "TFN"),
        ("ts = TIMESTAMP '2024-02-29 12:34:56.789+00'", "TFN"),
        ("ts = '2024-02-29 13:34:56.789+01:00'", "TFN"),
        ("ts = '2024-02-29 04:34:56.789 America/Los_Angeles'", "TFN"),
        ("ts > TIMESTAMP '9999-12-31 23:59:59.999998Z'", "FTN"),
        ("iv > INTERVAL 1 YEAR", "TFN"),
        ("iv = INTERVAL '1-2 3 4:5:6' YEAR TO SECOND", "TFN"),
        ("INTERVAL 30 DAY = INTERVAL 1 MONTH", "TTT"),
        ("iv < INTERVAL 0 SECOND", "FTN"),
        ("r = RANGE<DATE> '[2024-01-01, 2024-12-31)'", "TFN"),
        ("r < RANGE<DATE> '[2024-01-01, 2024-12-31)'", "FTN"),
        ("st.x = 7", "TNN"),
        ("ST.X IS NULL", "FTT"),
        ("st.in.z = 'q'", "TNN"),
        ("`st`.`in`.`z` = 'q'", "TNN"),
        ("`order` > 0", "TFN"),
        ("st IS NULL", "FFT"),
        ("g IS NOT NULL", "TTF"),
        ("j IS NULL", "FFT"),
        ("a IS NULL", "FFF"),
        ("ARRAY_LENGTH(a) = 2", "TFF"),
    ]);
}

#[test]
fn numbers_meet_exactly() {
    check(&[
        // An INT64 next to a NUMERIC is compared as a decimal, not as a double.
        ("NUMERIC '9007199254740993' = 9007199254740993", "TTT"),
        ("NUMERIC '9007199254740993' = 9007199254740992", "FFF"),
        ("n + 0.1 = 1.6", "TFN"),
        ("NUMERIC '0.1' + NUMERIC '0.2' = 0.3", "TTT"),
        ("0.1 + 0.2 = 0.3", "FFF"),
        // INT64 with FLOAT64 is a comparison of doubles.
        ("9007199254740993 = 9007199254740992.0", "TTT"),
        ("i = 1.0", "TFN"),
        ("i < 1.5", "TTN"),
        ("n = f", "TFN"),
        ("bn > 1e38", "FTN"),
        ("n = 1e-12", "FFN"),
        ("n < 1e40", "TTN"),
    ]);
}

#[test]
fn distinct_from_treats_null_as_a_value() {
    check(&[
        ("i IS DISTINCT FROM 1", "FTT"),
        ("i IS NOT DISTINCT FROM 1", "TFF"),
        ("i IS NOT DISTINCT FROM NULL", "FFT"),
        ("f IS NOT DISTINCT FROM f", "TTT"),
        ("NULL IS DISTINCT FROM NULL", "FFF"),
        ("ci IS NOT DISTINCT FROM 'strasse'", "TTF"),
    ]);
}

#[test]
fn membership() {
    check(&[
        ("i IN (1, 2)", "TFN"),
        ("i IN (2, 3)", "FFN"),
        ("i IN (1, NULL)", "TNN"),
        ("i NOT IN (1, NULL)", "FNN"),
        ("i NOT IN (2, 3)", "TTN"),
        ("NULL IN (1)", "NNN"),
        ("i IN (NULL)", "NNN"),
        ("1 IN (i, 2)", "TFN"),
        ("1 NOT IN (i, k)", "FTN"),
        ("k IN (i, 10, NULL)", "TNN"),
        ("f IN (1.5, 0)", "TFN"),
        ("f * 0 IN (-0.0)", "TFN"),
        ("s IN ('abc', 'x')", "TFN"),
        ("y IN (b'')", "FTN"),
        ("n IN (1.5, 2)", "TFN"),
        ("bn IN (1.5)", "TFN"),
        ("d IN ('2024-02-29')", "TFN"),
        ("t IN ('0:0:0')", "FTN"),
        ("dt IN (DATETIME '0001-01-01 00:00:00')", "FTN"),
        ("ts IN ('2024-02-29 12:34:56.789')", "TFN"),
        ("b IN (TRUE)", "TFN"),
        ("iv IN (INTERVAL '1-2 3 4:5:6' YEAR TO SECOND)", "TFN"),
        ("i IN UNNEST([1, 2])", "TFN"),
        ("i IN UNNEST(ARRAY<INT64>[1])", "TFN"),
        ("i IN UNNEST([])", "FFF"),
        ("i NOT IN UNNEST([])", "TTT"),
        ("2 IN UNNEST(a)", "TFF"),
        ("i IN UNNEST(a)", "TFF"),
        ("NULL IN UNNEST(a)", "NFF"),
        ("ci IN ('sTRASSE')", "TTN"),
        ("i BETWEEN 1 AND 2", "TFN"),
        ("i NOT BETWEEN 1 AND 2", "FTN"),
        ("i BETWEEN NULL AND 0", "FNN"),
        ("d BETWEEN '2024-01-01' AND DATE '2024-12-31'", "TFN"),
        ("n BETWEEN 1.0 AND 5.0", "TFN"),
        ("k BETWEEN 10 AND 20 AND k <> 20", "TFF"),
    ]);
}

#[test]
fn patterns_and_collation() {
    check(&[
        ("s LIKE 'a%'", "TFN"),
        ("s NOT LIKE 'a%'", "FTN"),
        ("s LIKE '___'", "TFN"),
        (r"s LIKE '50\\%%'", "FTN"),
        (r"s LIKE r'50\%\_%'", "FTN"),
        ("s LIKE s", "TTN"),
        ("s LIKE NULL", "NNN"),
        ("y LIKE b'_\\xff'", "TFN"),
        ("ci = 'STRASSE'", "TTN"),
        ("ci LIKE 'stra%'", "TTN"),
        ("STARTS_WITH(ci, 'sTR')", "TTN"),
        ("ci > 'straSSD'", "TTN"),
        ("LOWER(ci) = UPPER(ci)", "TTN"),
        ("s = 'ABC'", "FFN"),
    ]);
}

#[test]
fn failures_happen_only_on_rows_that_are_reached() {
    check(&[
        ("k <> 10 AND 1 / (k - 10) > 0", "FTT"),
        ("k = 10 OR 1 / (k - 10) > 0", "TTT"),
        ("IF(k = 10, FALSE, 1 / (k - 10) > 0)", "FTT"),
        ("CASE WHEN k = 10 THEN 0 ELSE 1 / (k - 10) END > 0", "FTT"),
        ("COALESCE(k, DIV(1, 0)) > 0", "TTT"),
        ("CASE k WHEN 10 THEN 'x' WHEN 20 THEN 'y' END = 'y'", "FTN"),
        ("FALSE AND 1 / 0 > 1", "FFF"),
        ("SAFE_CAST(s AS INT64) IS NULL", "TTT"),
        ("SAFE.MOD(1, k - 10) IS NULL", "TFF"),
        ("SAFE_DIVIDE(1, k - 10) IS NULL", "TFF"),
        ("NULLIF(k, 10) IS NULL", "TFF"),
        ("IFNULL(i, 5) = 5", "FFT"),
        ("COALESCE(NULL, i, 3) = 3", "FFT"),
    ]);
    refuse(&[
        ("1 / (k - 10) > 0", "division by zero"),
        ("1 / 0 > 0", "division by zero"),
        ("MOD(k, 0) = 1", "division by zero"),
        ("i - 1 < 0", "int64 overflow"),
        ("-i < 0", "int64 overflow"),
        ("ABS(i) > 0", "int64 overflow"),
        ("k * 9223372036854775807 > 0", "int64 overflow"),
        ("f * 1e308 > 0 OR 1e308 * 10 > 0", "double overflow"),
        ("n * 10 > 0", "numeric overflow"),
        ("bn * 10 > 0", "numeric overflow"),
        ("CAST(s AS INT64) > 0", "Bad int64 value"),
        ("CAST(f AS INT64) > 0", "Illegal conversion"),
        ("s LIKE CONCAT(s, '\\\\')", "backslash"),
    ]);
}
