//! Names: resolution, result columns, errors that point at them.

use super::Sql;
use crate::error::Reason;

#[tokio::test]
async fn result_columns_are_named() {
    let sql = Sql::new().await;
    assert_eq!(
        sql.columns("SELECT 1, 'x' AS named, 2, t.a, t.s.b FROM (SELECT 1 a, STRUCT(2 AS b) s) t")
            .await,
        [
            "f0_ INT64",
            "named STRING",
            "f1_ INT64",
            "a INT64",
            "b INT64"
        ]
    );
    assert_eq!(
        sql.columns("SELECT 1 AS x, 2 AS X").await,
        ["x INT64", "X_1 INT64"]
    );
    assert_eq!(
        sql.columns("SELECT Abc FROM (SELECT 1 aBC)").await,
        ["Abc INT64"]
    );
    assert_eq!(
        sql.columns("SELECT * FROM UNNEST([1]) WITH OFFSET").await,
        ["f0_ INT64", "offset INT64"]
    );
}

#[tokio::test]
async fn errors_say_where() {
    let sql = Sql::new().await;
    sql.fails("SELECT\n  foo", "Unrecognized name: foo at [2:3]")
        .await;
    sql.fails(
        "SELECT t.x FROM (SELECT 1 a) t",
        "Name x not found inside t at [1:10]",
    )
    .await;
    sql.fails(
        "SELECT a FROM (SELECT 1 a), (SELECT 2 a)",
        "Column name a is ambiguous at [1:8]",
    )
    .await;
    sql.fails(
        "SELECT 1 AS by",
        "Syntax error: Unexpected keyword BY at [1:13]",
    )
    .await;
    sql.fails(
        "SELECT nofunction(1)",
        "Function not found: nofunction at [1:8]",
    )
    .await;
    for (text, message) in [
        ("SELECT NoFunction(1)", "NoFunction at [1:8]"),
        ("SELECT SAFE.NoFunction(1)", "NoFunction at [1:8]"),
        ("SELECT NOWHERE(nowhere(1))", "nowhere at [1:16]"),
        ("SELECT NoWindow(1) OVER ()", "NoWindow at [1:8]"),
    ] {
        sql.fails(text, &format!("Function not found: {message}"))
            .await;
    }
    let error = sql.error("SELECT (1").await;
    assert!(error.message.starts_with("Syntax error: "), "{error}");
    assert_eq!(error.reason, Reason::InvalidQuery);
    // DataFusion has these functions, GoogleSQL does not.
    for name in ["now", "array_has", "regexp_match", "to_char", "date_part"] {
        let error = sql.error(&format!("SELECT {name}('x')")).await;
        assert!(error.message.starts_with("Function not found"), "{error}");
    }
}

#[tokio::test]
async fn tables_are_found_by_all_their_names() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE t AS SELECT 1 x").await.unwrap();
    for name in ["t", "d.t", "p.d.t", "`p.d.t`", "`p`.d.`t`", "`d.t`"] {
        sql.rows(&format!("SELECT x FROM {name}"), &["1"]).await;
    }
    sql.rows(
        "SELECT t.x, d.x FROM t JOIN d.t AS d ON t.x = d.x",
        &["1|1"],
    )
    .await;
    sql.fails(
        "SELECT * FROM d.T",
        "Not found: Table p:d.T was not found in location US",
    )
    .await;
    sql.fails(
        "SELECT * FROM e.t",
        "Not found: Dataset p:e was not found in location US",
    )
    .await;
    let error = sql.error("SELECT * FROM `other-project`.d.t").await;
    assert_eq!(error.reason, Reason::AccessDenied);
}

#[tokio::test]
async fn aliases_in_clauses() {
    let sql = Sql::new().await;
    sql.rows(
        "SELECT -x AS x FROM UNNEST([1, 2]) x ORDER BY x",
        &["-2", "-1"],
    )
    .await;
    sql.rows(
        "SELECT x AS y FROM UNNEST([1, 2]) x ORDER BY y * -1",
        &["2", "1"],
    )
    .await;
    sql.rows(
        "SELECT MOD(x, 2) m, COUNT(*) n FROM UNNEST([1, 2, 3]) x GROUP BY m HAVING n > 1",
        &["1|2"],
    )
    .await;
    sql.rows("SELECT t FROM (SELECT 1 a, 'x' b) t", &["{a: 1, b: x}"])
        .await;
}
