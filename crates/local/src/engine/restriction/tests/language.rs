//! Operators, functions and casts.

use super::check;

#[test]
fn arithmetic_and_precedence() {
    check(&[
        ("k + 1 = 11", "TFF"),
        ("k - 1 - 1 = 8", "TFF"),
        ("2 + 3 * 4 = 14", "TTT"),
        ("(2 + 3) * 4 = 20", "TTT"),
        ("7 / 2 = 3.5", "TTT"),
        ("DIV(7, 2) = 3 AND DIV(-7, 2) = -3", "TTT"),
        ("MOD(-7, 2) = -1", "TTT"),
        ("MOD(NUMERIC '7.5', 2) = 1.5", "TTT"),
        ("1 | 2 = 3", "TTT"),
        ("6 & 3 = 2 AND 6 ^ 3 = 5 AND ~0 = -1", "TTT"),
        ("1 << 4 = 16 AND -1 >> 63 = 1 AND 1 << 64 = 0", "TTT"),
        ("'a' || 'b' || 'c' = s", "TFN"),
        ("b'\\x00' || b'\\xff' = y", "TFN"),
        ("-(-3) = +3", "TTT"),
        ("- k = -10", "TFF"),
        ("NOT k = 10 AND k = 20", "FTF"),
        ("NUMERIC '1' / 3 = NUMERIC '0.333333333'", "TTT"),
        (
            "BIGNUMERIC '2' / 3 = BIGNUMERIC '0.66666666666666666666666666666666666667'",
            "TTT",
        ),
        ("NUMERIC '1.5' * 1.5 = 2.25", "TTT"),
        ("d + 1 = '2024-03-01'", "TFN"),
        (
            "DATE '2024-03-01' - DATE '2024-02-28' = INTERVAL 2 DAY",
            "TTT",
        ),
        ("ts - INTERVAL 1 HOUR > '2024-02-29 11:00:00'", "TTN"),
        ("dt + INTERVAL 1 MONTH > '2024-03-29'", "TFN"),
    ]);
}

#[test]
fn text_functions() {
    check(&[
        ("UPPER(s) = 'ABC'", "TFN"),
        ("LOWER('ÀB') = 'àb'", "TTT"),
        (
            "LENGTH('é') = 1 AND BYTE_LENGTH('é') = 2 AND LENGTH(b'ab') = 2",
            "TTT",
        ),
        ("SUBSTR(s, 2) = 'bc'", "TFN"),
        (
            "SUBSTR('abc', -2, 1) = 'b' AND SUBSTR('abc', 0, 2) = 'ab' AND SUBSTR('abc', 5) = ''",
            "TTT",
        ),
        ("SUBSTR(y, 2) = b'\\xff'", "TFN"),
        (
            "TRIM('  x ') = 'x' AND LTRIM('xxa', 'x') = 'a' AND RTRIM('axx', 'x') = 'a'",
            "TTT",
        ),
        ("CONCAT(s, 'd') = 'abcd'", "TFN"),
        ("CONCAT(s, NULL) IS NULL", "TTT"),
        ("STARTS_WITH(s, 'ab') AND ENDS_WITH(s, 'bc')", "TFN"),
        ("REGEXP_CONTAINS(s, r'^a.c$')", "TFN"),
        ("REGEXP_CONTAINS(s, r'(?i)ABC')", "TFN"),
        ("REGEXP_EXTRACT(s, r'a(.)') = 'b'", "TNN"),
        ("REPLACE(s, 'b', '') = 'ac'", "TFN"),
        ("STRPOS(s, 'c') = 3", "TFN"),
        ("REVERSE(s) = 'cba'", "TFN"),
        ("LEFT(s, 1) = 'a' AND RIGHT(s, 1) = 'c'", "TFN"),
        ("JSON_VALUE(j, '$.a[1]') = 'x'", "TNN"),
        ("JSON_VALUE(j, '$.a[0]') = '1'", "TNN"),
        ("JSON_VALUE(j, '$.a') IS NULL", "TTT"),
    ]);
}

#[test]
fn number_functions() {
    check(&[
        ("ABS(-2) = 2 AND ABS(np) > 0", "TTN"),
        ("SIGN(np) = -1", "FTN"),
        (
            "FLOOR(1.5) = 1 AND CEIL(-1.5) = -1 AND ROUND(2.5) = 3 AND TRUNC(-1.5) = -1",
            "TTT",
        ),
        (
            "FLOOR(NUMERIC '-1.5') = -2 AND CEIL(NUMERIC '1.2') = 2 AND ROUND(NUMERIC '-2.5') = -3",
            "TTT",
        ),
        ("IS_NAN(f)", "FTN"),
        ("IS_INF(f * 0 + CAST('inf' AS FLOAT64))", "TFN"),
        ("GREATEST(1, k) = 10 AND LEAST(k, 11) = 10", "TFF"),
        ("GREATEST(1, NULL) IS NULL", "TTT"),
        ("SQRT(4) = 2", "TTT"),
    ]);
}

#[test]
fn dates_and_times() {
    check(&[
        ("EXTRACT(YEAR FROM d) = 2024", "TFN"),
        ("EXTRACT(DAYOFWEEK FROM d) = 5", "TFN"),
        ("EXTRACT(WEEK(MONDAY) FROM d) = 9", "TFN"),
        (
            "EXTRACT(HOUR FROM ts AT TIME ZONE 'America/New_York') = 7",
            "TFN",
        ),
        ("EXTRACT(DATE FROM ts) = d", "TFN"),
        ("EXTRACT(MILLISECOND FROM t) = 789", "TFN"),
        ("EXTRACT(MONTH FROM iv) = 2", "TFN"),
        ("DATE(ts) = d", "TFN"),
        ("DATE(ts, 'America/Adak') = '2024-02-29'", "TFN"),
        ("DATE(2024, 2, 29) = d", "TFN"),
        ("DATE(dt) = d AND DATE('2024-02-29') = d", "TFN"),
        ("DATETIME(ts) = dt", "TFN"),
        ("DATETIME(d, t) = dt", "TTN"),
        ("DATETIME(2024, 2, 29, 12, 34, 56) < dt", "TFN"),
        ("TIMESTAMP(dt) = ts", "TFN"),
        ("TIMESTAMP('2024-02-29 12:34:56.789') = ts", "TFN"),
        (
            "TIMESTAMP(DATETIME '2024-07-01 00:00:00', 'Europe/Berlin') = TIMESTAMP '2024-06-30 22:00:00Z'",
            "TTT",
        ),
        ("TIME(dt) = t AND TIME(12, 0, 0) < TIME '12:0:1'", "TTN"),
        ("DATE_TRUNC(d, MONTH) = '2024-02-01'", "TFN"),
        ("DATE_TRUNC(DATE '2024-02-29', WEEK(THURSDAY)) = d", "TFN"),
        ("TIMESTAMP_TRUNC(ts, HOUR) = '2024-02-29 12:00:00'", "TFN"),
        (
            "TIMESTAMP_TRUNC(ts, DAY, 'America/New_York') = '2024-02-29 05:00:00'",
            "TFN",
        ),
        ("DATETIME_TRUNC(dt, QUARTER) = '2024-01-01 00:00:00'", "TFN"),
        ("DATE_ADD(d, INTERVAL 1 YEAR) = '2025-02-28'", "TFN"),
        ("DATE_SUB(d, INTERVAL 0 DAY) = d", "TTN"),
        (
            "TIMESTAMP_SUB(TIMESTAMP '2024-01-01 00:00:00', INTERVAL 1 DAY) = '2023-12-31 00:00:00'",
            "TTT",
        ),
        (
            "DATETIME_ADD(dt, INTERVAL 211 MILLISECOND) = '2024-02-29 12:34:57'",
            "TFN",
        ),
        ("TIME_ADD(t, INTERVAL 12 HOUR) < t", "TFN"),
        ("DATE_DIFF(d, '2024-01-01', DAY) = 59", "TFN"),
        ("DATE_DIFF(d, '2023-12-31', MONTH) = 2", "TFN"),
        (
            "TIMESTAMP_DIFF('2024-01-02', '2024-01-01', HOUR) = 24",
            "TTT",
        ),
        ("LAST_DAY(d) = '2024-02-29'", "TFN"),
        (
            "UNIX_DATE(d) = 19782 AND DATE_FROM_UNIX_DATE(19782) = d",
            "TFN",
        ),
        (
            "UNIX_SECONDS(ts) = 1709210096 AND TIMESTAMP_MILLIS(1709210096789) = ts",
            "TFN",
        ),
        (
            "CURRENT_DATE > d AND CURRENT_TIMESTAMP() > TIMESTAMP '2024-01-01'",
            "TTN",
        ),
        ("d <= CURRENT_DATE('Asia/Tokyo')", "TTN"),
        ("INTERVAL '1:30' HOUR TO MINUTE = INTERVAL 90 MINUTE", "TTT"),
        ("INTERVAL '1.5' SECOND = INTERVAL 1500 MILLISECOND", "TTT"),
    ]);
}

#[test]
fn casts() {
    check(&[
        ("CAST(i AS STRING) = '1'", "TFN"),
        ("CAST(f AS STRING) = '1.5'", "TFN"),
        ("CAST(b AS STRING) = 'true' AND CAST(b AS INT64) = 1", "TFN"),
        ("CAST(n AS STRING) = '1.5' AND CAST(n AS INT64) = 2", "TFN"),
        (
            "CAST(n AS FLOAT64) = 1.5 AND CAST(bn AS NUMERIC) = n",
            "TFN",
        ),
        ("CAST(2.5 AS INT64) = 3 AND CAST(-2.5 AS INT64) = -3", "TTT"),
        ("CAST('0x10' AS INT64) = 16", "TTT"),
        ("CAST(d AS STRING) = '2024-02-29'", "TFN"),
        ("CAST(dt AS STRING) = '2024-02-29 12:34:56.789000'", "TFN"),
        ("CAST(d AS TIMESTAMP) < ts AND CAST(ts AS DATE) = d", "TFN"),
        (
            "CAST('a' AS BYTES) = b'a' AND CAST(b'a' AS STRING) = 'a'",
            "TTT",
        ),
        ("SAFE_CAST(y AS STRING) IS NULL", "TFT"),
        ("SAFE_CAST('x' AS DATE) IS NULL", "TTT"),
        ("CAST(NULL AS DATE) IS NULL", "TTT"),
        ("CAST('1-2 3 4:5:6' AS INTERVAL) = iv", "TFN"),
        ("CAST(3 AS BOOL)", "TTT"),
        ("CAST(0.1 AS NUMERIC) = NUMERIC '0.1'", "TTT"),
    ]);
}

#[test]
fn spelling() {
    check(&[
        ("  I=1  -- comment", "TFN"),
        ("/* a */ `i` = 1 # end", "TFN"),
        ("((((i)))) = (1)", "TFN"),
        ("not (I is null) aNd s LiKe '%'", "TTF"),
        ("s = '''abc'''", "TFN"),
        ("s = R\"abc\"", "TFN"),
        ("s = '\\x61\\142\\u0063'", "TFN"),
        ("s IN ('drop; select -- it', 'abc')", "TFN"),
        ("IF(b, 'IN', 'OR') = 'IN'", "TFF"),
    ]);
}
