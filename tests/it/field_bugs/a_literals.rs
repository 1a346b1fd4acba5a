//! Filter literals: quoting, escaping, typing.

use super::one_table::Table;

const TEXTS: [&str; 7] = [
    "Looney's Lane",
    "a\\b",
    "line1\nline2",
    "O'Brien",
    "foo'bar baz",
    "x' OR TRUE --",
    "\u{1}\r\t\"`",
];

#[tokio::test(flavor = "multi_thread")]
async fn a01_a_quote_in_a_literal_finds_its_row() {
    let table = Table::of("STRING", &TEXTS).await;
    assert_eq!(table.ids("x = 'Looney''s Lane'").await, [0]);
    assert_eq!(
        table.asked("x = 'Looney''s Lane'").await,
        r"(`x` = 'Looney\'s Lane')"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a02_backslashes_line_ends_and_controls_find_their_rows() {
    let table = Table::of("STRING", &TEXTS).await;
    assert_eq!(table.ids("x = 'a\\b'").await, [1]);
    assert_eq!(table.ids("x IN ('a\\b', 'line1\nline2')").await, [1, 2]);
    assert_eq!(table.ids("x = '\u{1}\r\t\"`'").await, [6]);
    let many = "x IN ('a\\b', 'line1\nline2', 'p', 'q', '\u{1}\r\t\"`')";
    assert_eq!(table.ids(many).await, [1, 2, 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a03_text_of_a_literal_never_becomes_syntax() {
    let table = Table::of("STRING", &TEXTS).await;
    assert_eq!(table.ids("x = 'O''Brien'").await, [3]);
    assert_eq!(table.ids("x LIKE 'foo''bar%'").await, [4]);
    assert_eq!(table.ids("x = 'y'' OR TRUE --'").await, [0_i64; 0]);
    assert_eq!(table.ids("x = 'x'' OR TRUE --'").await, [5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a05_a_text_literal_for_a_date_reaches_the_server_as_a_date() {
    let table = Table::of("DATE", &["2018-12-31", "2019-01-01"]).await;
    assert_eq!(table.ids("x >= '2019-01-01'").await, [1]);
    assert_eq!(
        table.asked("x >= '2019-01-01'").await,
        "(`x` >= DATE '2019-01-01')"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a06_dates_and_timestamps_in_lists_are_typed() {
    let table = Table::of(
        "TIMESTAMP",
        &["2000-06-30 00:00:00Z", "2000-09-27 12:00:00Z"],
    )
    .await;
    let predicate = "x IN (TIMESTAMP '2000-06-30T00:00:00Z', TIMESTAMP '2000-11-17T00:00:00Z')";
    assert_eq!(table.ids(predicate).await, [0]);
    assert!(
        table
            .asked(predicate)
            .await
            .contains("TIMESTAMP '2000-06-30")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a07_a_datetime_of_year_one_is_found() {
    let table = Table::of(
        "DATETIME",
        &["0001-01-01 00:00:00.999", "0001-01-01 00:00:01"],
    )
    .await;
    let literal = "arrow_cast('0001-01-01T00:00:00.999', 'Timestamp(Microsecond, None)')";
    assert_eq!(table.ids(&format!("x = {literal}")).await, [0]);
    assert_eq!(
        table.asked(&format!("x = {literal}")).await,
        "(`x` = DATETIME '0001-01-01 00:00:00.999000')"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a10_an_offset_is_not_dropped() {
    let table = Table::of(
        "TIMESTAMP",
        &["2016-08-06 20:05:00Z", "2016-08-06 18:05:00Z"],
    )
    .await;
    assert_eq!(
        table
            .ids("x = TIMESTAMP '2016-08-06 20:05:00 +00:00'")
            .await,
        [0]
    );
    assert_eq!(
        table.ids("x = TIMESTAMP '2016-08-06T20:05:00+02:00'").await,
        [1]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a11_six_fractional_digits_always() {
    let values = [
        "2024-01-01 00:00:00",
        "2024-01-01 00:00:00.1",
        "2024-01-01 00:00:00.100001",
    ];
    let table = Table::of("TIMESTAMP", &values).await;
    for (predicate, found) in [
        ("x = TIMESTAMP '2024-01-01T00:00:00Z'", vec![0]),
        ("x = TIMESTAMP '2024-01-01T00:00:00.1Z'", vec![1]),
        ("x > TIMESTAMP '2024-01-01T00:00:00.1Z'", vec![2]),
    ] {
        assert_eq!(table.ids(predicate).await, found, "{predicate}");
    }
    assert_eq!(
        table.asked("x = TIMESTAMP '2024-01-01T00:00:00.1Z'").await,
        "(`x` = TIMESTAMP '2024-01-01 00:00:00.100000+00:00')"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a13_a_timestamp_column_meets_only_timestamps() {
    let table = Table::of(
        "TIMESTAMP",
        &["2024-01-01 00:00:00Z", "2023-12-31 23:59:59Z"],
    )
    .await;
    // A literal without a zone is a DATETIME elsewhere.
    let predicate = "x >= TIMESTAMP '2024-01-01 00:00:00'";
    assert_eq!(table.ids(predicate).await, [0]);
    assert!(table.asked(predicate).await.contains("TIMESTAMP '2024"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a14_a_datetime_column_meets_only_datetimes() {
    let table = Table::of("DATETIME", &["2020-03-01 00:00:01", "2020-03-01 00:00:00"]).await;
    assert_eq!(table.ids("x > DATE '2020-03-01'").await, [0]);
    assert_eq!(
        table.asked("x > DATE '2020-03-01'").await,
        "(`x` > DATETIME '2020-03-01 00:00:00.000000')"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a15_the_last_year_loses_no_rows() {
    let values = ["2024-01-01 00:00:00Z", "9999-12-31 23:59:59.999999Z"];
    let table = Table::of("TIMESTAMP", &values).await;
    let last = "arrow_cast('9999-12-31T23:59:59.999999Z', 'Timestamp(Microsecond, Some(\"UTC\"))')";
    for (operator, found) in [
        ("<", vec![0]),
        ("<=", vec![0, 1]),
        ("=", vec![1]),
        (">", vec![]),
    ] {
        assert_eq!(table.ids(&format!("x {operator} {last}")).await, found);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a17_the_users_or_does_not_swallow_the_generated_filter() {
    let table = Table::of("INTEGER", &["1", "2", "3"]).await;
    let create = "CREATE EXTERNAL TABLE mine STORED AS BIGQUERY LOCATION 'demo.d.t' \
                  OPTIONS (scan.row_restriction 'x = 1 OR x = 2 -- mine')";
    table.context.sql(create).await.unwrap();
    let query = "SELECT id FROM mine WHERE x = 2";
    assert_eq!(
        super::one_table::ids(&crate::harness::rows(&table.context, query).await),
        [1]
    );
    assert_eq!(
        table.server.sessions().pop().unwrap().row_restriction,
        "(x = 1 OR x = 2 -- mine\n) AND (`x` = 2)"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a18_like_reaches_the_server() {
    let table = Table::of("STRING", &["abc", "xbc", "50%_x", "50abx"]).await;
    assert_eq!(table.ids("x LIKE 'a_c'").await, [0]);
    assert_eq!(table.asked("x LIKE 'a_c'").await, "(`x` LIKE 'a_c')");
    assert_eq!(table.ids("starts_with(x, '50%_')").await, [2]);
    assert!(table.asked("starts_with(x, '50%_')").await.contains("LIKE"));
}

/// Beyond what nanoseconds reach, finer than nothing, and beside floats.
#[tokio::test(flavor = "multi_thread")]
async fn a_literal_keeps_its_value_beside_any_type() {
    for (column, values, predicates) in [
        (
            "BIGNUMERIC",
            ["2.5", "2.49999999999999984927291592900794646528", "-0.1"],
            [
                ("x = 2.5", [0].as_slice()),
                ("x IN (2.5, -0.1)", &[0, 2]),
                ("x BETWEEN -0.1 AND 2.4999", &[2]),
                ("x < 2.5", &[1, 2]),
            ],
        ),
        (
            "TIMESTAMP",
            [
                "9999-12-31T23:59:59.999999Z",
                "0001-01-01T00:00:00Z",
                "2024-01-01T00:00:00Z",
            ],
            [
                ("x >= '9999-12-31'", &[0]),
                ("x = TIMESTAMP '0001-01-01 00:00:00'", &[1]),
                ("x BETWEEN '1500-01-01' AND '9999-12-31'", &[2]),
                (
                    "x IN (TIMESTAMPTZ '9999-12-31 21:59:59.999999-02:00')",
                    &[0],
                ),
            ],
        ),
        (
            "DATETIME",
            [
                "9999-12-31T23:59:59.999999",
                "0001-01-01T00:00:00",
                "2024-01-01T00:00:00",
            ],
            [
                ("x >= '9999-12-31'", &[0]),
                ("x < TIMESTAMP '1600-01-01 00:00:00.000'", &[1]),
                ("x BETWEEN '1500-01-01' AND '9999-12-31'", &[2]),
                ("x <> '0001-01-01 00:00:00.0000000'", &[0, 2]),
            ],
        ),
        (
            "TIME",
            ["12:34:56.789", "00:00:00", "23:59:59.999999"],
            [
                ("x = TIME '12:34:56.789'", &[0]),
                ("x < TIME '12:00:00'", &[1]),
                ("x IN (TIME '00:00:00', TIME '23:59:59.999999')", &[1, 2]),
                ("x BETWEEN '00:00:01' AND TIME '23:59:59'", &[0]),
            ],
        ),
    ] {
        let table = Table::of(column, &values).await;
        for (predicate, ids) in predicates {
            assert_eq!(table.ids(predicate).await, ids, "{column}: {predicate}");
        }
    }
}

/// Beside other literals of the same list, and beside the widest NUMERIC.
#[tokio::test(flavor = "multi_thread")]
async fn a_literal_keeps_its_value_beside_other_literals() {
    let far = [
        "9999-12-31T23:59:59.999999",
        "0001-01-01T00:00:00",
        "2024-01-01T00:00:00",
    ];
    let times: [(&str, &[i64]); 5] = [
        ("x BETWEEN '2024-01-01' AND '9999-12-31'", &[2]),
        (
            "x BETWEEN TIMESTAMP '2024-01-01 00:00:00' AND TIMESTAMP '9999-12-31 00:00:00'",
            &[2],
        ),
        ("x BETWEEN '0001-01-01' AND '2024-06-01'", &[1, 2]),
        ("x IN ('0001-01-01', '2024-01-01')", &[1, 2]),
        (
            "x NOT IN ('2024-01-01', '2024-01-02', '2024-01-03', '2024-01-04', \
             '9999-12-31 23:59:59.999999')",
            &[1],
        ),
    ];
    let numbers: [(&str, &[i64]); 7] = [
        ("x > 1.5", &[0, 2]),
        ("x > 1.5 AND x < 1e29", &[0, 2]),
        ("x > 100000000000000000000000000", &[0]),
        ("x < 100000000000000000000000000", &[1, 2]),
        ("x IN (2.000000001, -1.5)", &[1, 2]),
        ("x < 0.0000000001", &[1]),
        ("x BETWEEN -1e30 AND 2.000000001", &[1, 2]),
    ];
    let widest = [
        "99999999999999999999999999999.999999999",
        "-1.5",
        "2.000000001",
    ];
    for (column, values, predicates) in [
        ("TIMESTAMP", far, times.as_slice()),
        ("DATETIME", far, &times),
        ("NUMERIC", widest, &numbers),
    ] {
        let table = Table::of(column, &values).await;
        for (predicate, ids) in predicates {
            assert_eq!(table.ids(predicate).await, *ids, "{column}: {predicate}");
            // What DataFusion makes of it alone.
            let here = format!("random() >= 0 AND coalesce({predicate}, false)");
            assert_eq!(table.ids(&here).await, *ids, "{column}: {here}");
        }
    }
}
