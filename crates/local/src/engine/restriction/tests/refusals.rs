//! Text that is no restriction, and how the service says so.

use super::refuse;

#[test]
fn syntax_errors() {
    refuse(&[
        ("id = = 3", "Syntax error: Unexpected \"=\" at [1:6]"),
        ("", "Unexpected end of expression"),
        ("i =", "Unexpected end of expression"),
        ("i = 1 i", "Unexpected identifier \"i\""),
        ("i = 1 = 1", "Unexpected \"=\""),
        ("i < 1 < 2", "Unexpected \"<\""),
        ("(i = 1", "Expected \")\""),
        ("i = 1)", "Unexpected \")\""),
        ("order = 1", "Unexpected keyword ORDER"),
        ("i IN ()", "Unexpected"),
        ("i BETWEEN 1 OR 2", "Expected keyword AND"),
        ("CASE END", "Unexpected keyword END"),
        ("i = 9223372036854775808", "Invalid integer literal"),
        ("i = 1\n AND\n  )", "[3:3]"),
        ("i = @p", "parameters"),
        ("i = 1; DROP TABLE t", "Unexpected \";\""),
        ("s = 'a", "Unclosed string literal"),
        ("i IS 3", "Unexpected"),
    ]);
}

#[test]
fn what_a_restriction_may_not_hold() {
    refuse(&[
        ("i IN (SELECT 1)", "nested queries not supported"),
        ("EXISTS (SELECT 1)", "nested queries not supported"),
        ("(SELECT TRUE)", "nested queries not supported"),
        ("SUM(i) > 1", "Aggregate function SUM not allowed"),
        ("COUNT(*) > 1", "Aggregate"),
        ("ROW_NUMBER() OVER () = 1", "Analytic"),
        ("ST_EQUALS(g, g)", "Function not found: ST_EQUALS"),
        ("my.udf(i)", "Function not found: my.udf"),
        ("a[OFFSET(0)] = 1", "subscript"),
        ("(1, 2) = (1, 2)", "STRUCT constructors"),
    ]);
}

#[test]
fn types_that_do_not_meet() {
    refuse(&[
        (
            "i = 'x'",
            "No matching signature for operator = for argument types: INT64, STRING. Supported signature: ANY = ANY",
        ),
        ("s > 1", "No matching signature for operator >"),
        (
            "ts > DATETIME '2024-01-01 00:00:00'",
            "No matching signature for operator > for argument types: TIMESTAMP, DATETIME",
        ),
        ("ts > d", "No matching signature"),
        ("b = 1", "No matching signature"),
        (
            "y = 'x'",
            "No matching signature for operator = for argument types: BYTES, STRING",
        ),
        (
            "d = '2024-13-01'",
            "Could not cast literal \"2024-13-01\" to type DATE",
        ),
        ("ts = 'x'", "Could not cast literal \"x\" to type TIMESTAMP"),
        ("DATE 'x' = d", "Invalid DATE literal"),
        (
            "j = j",
            "Equality is not defined for arguments of type JSON",
        ),
        (
            "g = 'POINT(1 2)'",
            "Equality is not defined for arguments of type GEOGRAPHY",
        ),
        (
            "st = st",
            "Equality is not defined for arguments of type STRUCT",
        ),
        (
            "a = a",
            "Equality is not defined for arguments of type ARRAY<INT64>",
        ),
        (
            "i",
            "WHERE clause should return type BOOL, but returns type INT64",
        ),
        ("s AND b", "No matching signature for operator AND"),
        ("NOT i", "No matching signature for operator NOT"),
        ("nocol = 3", "Unrecognized name: nocol at [1:1]"),
        ("st.nope = 1", "Field name nope does not exist"),
        (
            "i.x = 1",
            "Cannot access field x on a value with type INT64",
        ),
        ("MOD(f, 2) = 1", "No matching signature for function MOD"),
        ("s + 1 = 2", "No matching signature for operator +"),
        ("i IN ('a')", "No matching signature for operator IN"),
        ("i LIKE 'a'", "No matching signature for operator LIKE"),
        ("CAST(d AS INT64) = 1", "Invalid cast from DATE to INT64"),
        ("CAST(i AS NOPE) = 1", "Type not found: NOPE"),
        (
            "TIMESTAMP_ADD(ts, INTERVAL 1 MONTH) > ts",
            "does not support the MONTH date part",
        ),
        (
            "EXTRACT(HOUR FROM d) = 1",
            "does not support the HOUR date part",
        ),
        ("LOWER() = 'x'", "Number of arguments does not match"),
        ("IF(b, 1, 'x') = 1", "No matching signature"),
        ("s LIKE 'a\\\\'", "backslash"),
        ("REGEXP_CONTAINS(s, '(')", "Cannot parse regular expression"),
    ]);
}

#[test]
fn nesting_is_bounded_and_long_chains_are_not() {
    let deep = format!("{}TRUE{}", "(".repeat(5_000), ")".repeat(5_000));
    refuse(&[(&deep, "levels deep")]);
    refuse(&[(&format!("{} b", "NOT ".repeat(5_000)), "levels deep")]);
    refuse(&[(&format!("i = {} 1", "- ".repeat(5_000)), "levels deep")]);
    refuse(&[(&format!("i = 1{}", " + 1".repeat(5_000)), "levels deep")]);
    let nested = format!("{}1{} > 0", "(1 + ".repeat(90), ")".repeat(90));
    super::check(&[(&nested, "TTT")]);
    let any: Vec<String> = (0..5_000).map(|n| format!("k = {n}")).collect();
    super::check(&[(&any.join(" OR "), "TTT")]);
    let all: Vec<String> = (100..5_000).map(|n| format!("(k <> {n})")).collect();
    super::check(&[(&all.join(" AND "), "TTT")]);
}
