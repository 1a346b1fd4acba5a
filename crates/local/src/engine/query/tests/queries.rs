//! SELECT: clauses, joins, arrays, grouping, windows, set operations.

use super::{Sql, execute};
use crate::engine::QueryRequest;

#[tokio::test]
async fn select_lists() {
    let sql = Sql::new().await;
    sql.rows("SELECT * EXCEPT (b) FROM (SELECT 1 a, 2 b, 3 c)", &["1|3"])
        .await;
    sql.rows(
        "SELECT * REPLACE (a + 10 AS a) FROM (SELECT 1 a, 2 b)",
        &["11|2"],
    )
    .await;
    sql.rows("SELECT t.* FROM (SELECT 1 a, 'x' b) t", &["1|x"])
        .await;
    sql.rows(
        "SELECT s.* FROM (SELECT STRUCT(1 AS a, 2 AS b) s)",
        &["1|2"],
    )
    .await;
    sql.rows(
        "SELECT DISTINCT x FROM UNNEST([2, 1, 2]) x ORDER BY x",
        &["1", "2"],
    )
    .await;
    sql.rows("SELECT AS STRUCT 1 a, 2 b", &["1|2"]).await;
    sql.rows("SELECT AS VALUE 5", &["5"]).await;
}

#[tokio::test]
async fn nulls_and_nan_have_their_places() {
    let sql = Sql::new().await;
    let values = "UNNEST([1.0, NULL, CAST('nan' AS FLOAT64), CAST('-inf' AS FLOAT64)])";
    sql.rows(
        &format!("SELECT x FROM {values} x ORDER BY x"),
        &["NULL", "NaN", "-inf", "1.0"],
    )
    .await;
    sql.rows(
        &format!("SELECT x FROM {values} x ORDER BY x DESC"),
        &["1.0", "-inf", "NaN", "NULL"],
    )
    .await;
    sql.rows(
        "SELECT x FROM UNNEST([2, NULL, 1]) x ORDER BY x NULLS LAST",
        &["1", "2", "NULL"],
    )
    .await;
    let nan = "CAST('nan' AS FLOAT64)";
    sql.rows(
        &format!("SELECT {nan} = {nan}, {nan} != {nan}, {nan} < 1.0, 0.0 = -0.0"),
        &["false|true|false|true"],
    )
    .await;
    sql.rows(
        "SELECT COUNT(*) FROM UNNEST([0.0, -0.0]) x GROUP BY x",
        &["2"],
    )
    .await;
}

#[tokio::test]
async fn three_valued_logic() {
    let sql = Sql::new().await;
    sql.rows(
        "SELECT NULL AND FALSE, NULL OR TRUE, NOT CAST(NULL AS BOOL), NULL = 1, NULL IN (1)",
        &["false|true|NULL|NULL|NULL"],
    )
    .await;
    sql.rows(
        "SELECT 1 IN (1, NULL), 2 IN (1, NULL), 2 NOT IN (1, 3), 2 BETWEEN 1 AND NULL",
        &["true|NULL|true|NULL"],
    )
    .await;
    sql.rows(
        "SELECT NULL IS DISTINCT FROM 1, NULL IS NOT DISTINCT FROM NULL",
        &["true|true"],
    )
    .await;
    sql.rows("SELECT 1 FROM (SELECT 1) WHERE NULL", &[]).await;
}

#[tokio::test]
async fn arithmetic_is_exact_or_an_error() {
    let sql = Sql::new().await;
    assert_eq!(
        sql.columns("SELECT 7 / 2 AS q, 1 + 2 AS s, 1 + 2.5 AS f, NUMERIC '1' * 2 AS n")
            .await,
        ["q FLOAT64", "s INT64", "f FLOAT64", "n NUMERIC"]
    );
    sql.rows("SELECT 7 / 2", &["3.5"]).await;
    let error = sql.error("SELECT 1 / 0").await;
    assert!(error.message.contains("division by zero: 1 / 0"), "{error}");
    let error = sql
        .error("SELECT 9223372036854775807 + x FROM UNNEST([1]) x")
        .await;
    assert!(error.message.contains("int64 overflow"), "{error}");
    sql.rows("SELECT -9223372036854775808", &["-9223372036854775808"])
        .await;
    sql.rows(
        "SELECT CASE WHEN x = 0 THEN 0 ELSE 1 / x END FROM UNNEST([0, 2]) x",
        &["0.0", "0.5"],
    )
    .await;
    sql.rows(
        "SELECT IF(x = 0, NULL, 1 / x) FROM UNNEST([0]) x",
        &["NULL"],
    )
    .await;
}

#[tokio::test]
async fn joins() {
    let sql = Sql::new().await;
    let a = "(SELECT * FROM UNNEST([STRUCT(1 AS k, 'a' AS l), (2, 'b')]))";
    let b = "(SELECT * FROM UNNEST([STRUCT(2 AS k, 'x' AS r), (3, 'y')]))";
    let ask = |join: &str, on: &str| {
        format!("SELECT a.l, b.r FROM {a} a {join} {b} b {on} ORDER BY a.l NULLS LAST, b.r")
    };
    sql.rows(&ask("JOIN", "ON a.k = b.k"), &["b|x"]).await;
    sql.rows(&ask("LEFT JOIN", "ON a.k = b.k"), &["a|NULL", "b|x"])
        .await;
    sql.rows(&ask("RIGHT JOIN", "ON a.k = b.k"), &["b|x", "NULL|y"])
        .await;
    sql.rows(
        &ask("FULL JOIN", "ON a.k = b.k"),
        &["a|NULL", "b|x", "NULL|y"],
    )
    .await;
    sql.rows(&ask("CROSS JOIN", ""), &["a|x", "a|y", "b|x", "b|y"])
        .await;
    sql.rows(
        &format!("SELECT * FROM {a} a FULL JOIN {b} b USING (k) ORDER BY k"),
        &["1|a|NULL", "2|b|x", "3|NULL|y"],
    )
    .await;
    sql.rows(
        &format!("SELECT COUNT(*) FROM {a} a JOIN {b} b ON a.k < b.k"),
        &["3"],
    )
    .await;
    sql.rows(
        "SELECT COUNT(*) FROM (SELECT CAST('nan' AS FLOAT64) x) a JOIN (SELECT CAST('nan' AS FLOAT64) x) b ON a.x = b.x",
        &["0"],
    )
    .await;
}

#[tokio::test]
async fn arrays_as_rows() {
    let sql = Sql::new().await;
    sql.rows(
        "SELECT a, b FROM UNNEST([1, 2]) a FULL JOIN UNNEST([2, 3]) b ON a = b ORDER BY a NULLS LAST, b",
        &["1|NULL", "2|2", "NULL|3"],
    )
    .await;
    sql.rows(
        "SELECT a, b FROM UNNEST([1, 2]) a LEFT JOIN UNNEST([2, 3]) b ON a = b ORDER BY a",
        &["1|NULL", "2|2"],
    )
    .await;
    sql.rows(
        "SELECT x, o FROM UNNEST(['a', 'b']) x WITH OFFSET o ORDER BY o",
        &["a|0", "b|1"],
    )
    .await;
    let t = "(SELECT 1 id, ['x', 'y'] tags UNION ALL SELECT 2, [])";
    sql.rows(
        &format!("SELECT t.id, tag FROM {t} t, t.tags tag ORDER BY 1, 2"),
        &["1|x", "1|y"],
    )
    .await;
    sql.rows(
        &format!("SELECT t.id, tag FROM {t} t LEFT JOIN UNNEST(t.tags) tag ORDER BY 1, 2"),
        &["1|x", "1|y", "2|NULL"],
    )
    .await;
    sql.rows(
        "SELECT s.a, b FROM UNNEST([STRUCT(1 AS a, 2 AS b)]) s",
        &["1|2"],
    )
    .await;
    sql.rows(
        "SELECT [1, 2][OFFSET(0)], [1, 2][ORDINAL(2)], [1, 2][SAFE_OFFSET(5)], ARRAY<STRING>[]",
        &["1|2|NULL|[]"],
    )
    .await;
    sql.fails(
        "SELECT [1, NULL]",
        "Array cannot have a null element; error in writing field f0_",
    )
    .await;
    sql.rows(
        "SELECT CAST(NULL AS ARRAY<INT64>), ARRAY_LENGTH([1, NULL])",
        &["[]|2"],
    )
    .await;
}

#[tokio::test]
async fn grouping() {
    let sql = Sql::new().await;
    let t = "UNNEST([STRUCT('a' AS k, 1 AS v), ('a', 2), ('b', 5)])";
    sql.rows(
        &format!("SELECT k, SUM(v), COUNT(*) FROM {t} GROUP BY k ORDER BY k"),
        &["a|3|2", "b|5|1"],
    )
    .await;
    sql.rows(
        &format!("SELECT UPPER(k) u, MAX(v) + 1 FROM {t} GROUP BY u HAVING MAX(v) > 2"),
        &["B|6"],
    )
    .await;
    sql.rows(
        &format!("SELECT k, SUM(v) s, GROUPING(k) FROM {t} GROUP BY ROLLUP (k) ORDER BY s"),
        &["a|3|0", "b|5|0", "NULL|8|1"],
    )
    .await;
    sql.rows(
        &format!("SELECT COUNT(DISTINCT k), ARRAY_AGG(v ORDER BY v DESC LIMIT 2) FROM {t}"),
        &["2|[5, 2]"],
    )
    .await;
    sql.rows(
        &format!("SELECT SUM(v), COUNT(v) FROM {t} WHERE FALSE"),
        &["NULL|0"],
    )
    .await;
    sql.fails(
        &format!("SELECT k, v FROM {t} GROUP BY k"),
        "SELECT list expression references column v which is neither grouped nor aggregated at [1:11]",
    )
    .await;
}

#[tokio::test]
async fn windows() {
    let sql = Sql::new().await;
    let t = "UNNEST([STRUCT('a' AS k, 1 AS v), ('a', 2), ('b', 5)])";
    sql.rows(
        &format!("SELECT v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC), SUM(v) OVER (ORDER BY v) FROM {t} ORDER BY v"),
        &["1|2|1", "2|1|3", "5|1|8"],
    )
    .await;
    sql.rows(
        &format!("SELECT v, SUM(v) OVER (ORDER BY v ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM {t} ORDER BY v"),
        &["1|1", "2|3", "5|7"],
    )
    .await;
    sql.rows(
        &format!("SELECT v, COUNT(*) OVER w FROM {t} WINDOW w AS (PARTITION BY k) ORDER BY v"),
        &["1|2", "2|2", "5|1"],
    )
    .await;
    sql.rows(
        &format!("SELECT v FROM {t} WHERE TRUE QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) = 1 ORDER BY v"),
        &["2", "5"],
    )
    .await;
    sql.rows(
        &format!("SELECT v, COUNT(DISTINCT k) OVER () FROM {t} ORDER BY v"),
        &["1|2", "2|2", "5|2"],
    )
    .await;
}

#[tokio::test]
async fn set_operations() {
    let sql = Sql::new().await;
    sql.rows(
        "SELECT 1 x UNION ALL SELECT 2.5 ORDER BY x",
        &["1.0", "2.5"],
    )
    .await;
    sql.rows("SELECT 1 UNION DISTINCT SELECT 1", &["1"]).await;
    sql.rows(
        "SELECT x FROM UNNEST([1, 2, NULL]) x INTERSECT DISTINCT SELECT x FROM UNNEST([2, NULL]) x ORDER BY 1",
        &["NULL", "2"],
    )
    .await;
    sql.rows(
        "SELECT x FROM UNNEST([1, 2, NULL]) x EXCEPT DISTINCT SELECT x FROM UNNEST([2, NULL]) x",
        &["1"],
    )
    .await;
    sql.fails(
        "SELECT 1 UNION ALL SELECT 1, 2",
        "Queries in UNION ALL have mismatched column count; query 1 has 1 column, query 2 has 2 columns at [1:10]",
    )
    .await;
    let error = sql.error("SELECT 1 UNION ALL SELECT 'x'").await;
    assert!(
        error.message.contains("incompatible types: INT64, STRING"),
        "{error}"
    );
}

#[tokio::test]
async fn common_table_expressions() {
    let sql = Sql::new().await;
    sql.rows(
        "WITH a AS (SELECT 1 x), b AS (SELECT x + 1 y FROM a) SELECT c.x, y FROM a, b, a AS c",
        &["1|2"],
    )
    .await;
    sql.rows(
        "WITH RECURSIVE t AS (SELECT 1 n UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT SUM(n) FROM t",
        &["10"],
    )
    .await;
    sql.fails(
        "WITH a AS (SELECT nope) SELECT 1",
        "Unrecognized name: nope at [1:19]",
    )
    .await;
}

#[tokio::test]
async fn pivots() {
    let sql = Sql::new().await;
    let t = "(SELECT * FROM UNNEST([STRUCT('a' AS k, 'q1' AS q, 1 AS v), ('a', 'q2', 2), ('b', 'q1', 5)]))";
    sql.rows(
        &format!("SELECT * FROM {t} PIVOT (SUM(v) FOR q IN ('q1', 'q2' AS second)) ORDER BY k"),
        &["a|1|2", "b|5|NULL"],
    )
    .await;
    assert_eq!(
        sql.columns(&format!(
            "SELECT * FROM {t} PIVOT (SUM(v) AS s, COUNT(*) AS n FOR q IN ('q1'))"
        ))
        .await,
        ["k STRING", "s_q1 INT64", "n_q1 INT64"]
    );
    sql.rows(
        "SELECT * FROM (SELECT 'x' id, 1 a, CAST(NULL AS INT64) b) UNPIVOT (v FOR n IN (a, b))",
        &["x|1|a"],
    )
    .await;
}

#[tokio::test]
async fn types_keep_apart() {
    let sql = Sql::new().await;
    assert_eq!(
        sql.columns("SELECT DATE '2020-01-01' d, DATETIME '2020-01-01 00:00:00' dt, TIMESTAMP '2020-01-01 00:00:00+00' ts, JSON '1' j, b'x' b, NUMERIC '1' n, BIGNUMERIC '1' bn, [DATE '2020-01-01'] a, STRUCT(1 AS x, 'y') s").await,
        [
            "d DATE", "dt DATETIME", "ts TIMESTAMP", "j JSON", "b BYTES", "n NUMERIC",
            "bn BIGNUMERIC", "a ARRAY<DATE>", "s STRUCT<x INT64, _field_2 STRING>"
        ]
    );
    assert_eq!(
        sql.columns("SELECT IF(TRUE, JSON '1', NULL) j UNION ALL SELECT JSON '2'")
            .await,
        ["j JSON"]
    );
    sql.rows("SELECT DATE '2020-01-01' = '2020-01-01'", &["true"])
        .await;
    let error = sql.error("SELECT 'a' = 1").await;
    assert!(
        error
            .message
            .starts_with("No matching signature for operator = for argument types: STRING, INT64"),
        "{error}"
    );
    let error = sql
        .error("SELECT d FROM (SELECT DATE '2020-01-01' d, '2020-01-01' s) WHERE d = s")
        .await;
    assert!(
        error
            .message
            .contains("No matching signature for operator ="),
        "{error}"
    );
    sql.rows("SELECT JSON '{\"a\": {\"b\": [1, 2]}}'.a.b[1]", &["2"])
        .await;
}

#[tokio::test]
async fn comparisons_of_untyped_nulls_are_null() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE t AS SELECT 1 k").await.unwrap();
    for op in ["=", "!=", "<", "<=", ">", ">="] {
        sql.rows(&format!("SELECT NULL {op} NULL"), &["NULL"]).await;
        sql.rows(&format!("SELECT k FROM t WHERE NULL {op} NULL"), &[])
            .await;
        sql.rows(
            &format!("SELECT k FROM t WHERE (NULL {op} NULL) IS NULL"),
            &["1"],
        )
        .await;
    }
    assert_eq!(sql.columns("SELECT NULL = NULL AS b").await, ["b BOOL"]);
    sql.rows(
        "SELECT NULL IN (NULL), NULL BETWEEN NULL AND NULL, NULL IS NOT DISTINCT FROM NULL, CASE NULL WHEN NULL THEN 1 ELSE 2 END FROM t",
        &["NULL|NULL|true|2"],
    )
    .await;
}

#[tokio::test]
async fn unions_of_literals_join_in_order() {
    let sql = Sql::new().await;
    sql.rows(
        "SELECT l.n AS left_n, r.label AS right_label
         FROM (SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3) AS l
         JOIN (SELECT 1 AS n, 'one' AS label UNION ALL SELECT 2, 'two') AS r USING (n)
         ORDER BY left_n",
        &["1|one", "2|two"],
    )
    .await;
    sql.rows(
        "SELECT n, label
         FROM (SELECT 3 AS n UNION ALL SELECT 2 UNION ALL SELECT 1) AS l
         LEFT JOIN (SELECT 2 AS m, 'two' AS label UNION ALL SELECT 1, 'one') AS r ON n = m
         ORDER BY n DESC",
        &["3|NULL", "2|two", "1|one"],
    )
    .await;
}

#[tokio::test]
async fn bytes_are_those_of_the_columns_that_are_read() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE t (a INT64, b STRING, c NUMERIC)")
        .await
        .unwrap();
    // 8, 2 + 3 and 16 bytes; a NULL has none.
    sql.run("INSERT t VALUES (1, 'abc', 1), (2, 'def', NULL)")
        .await
        .unwrap();
    sql.run("CREATE VIEW v AS SELECT a, c FROM t")
        .await
        .unwrap();
    for (text, bytes) in [
        ("SELECT a FROM t", 16),
        ("SELECT COUNT(*) FROM t", 0),
        ("SELECT a FROM t WHERE b = 'abc'", 26),
        ("SELECT * FROM t", 42),
        ("SELECT c FROM v", 16),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM t)", 32),
        ("SELECT 1", 0),
        ("INSERT t (a) SELECT a FROM t", 16),
        ("CREATE OR REPLACE TABLE u AS SELECT b FROM t", 10),
        ("UPDATE t SET a = 3 WHERE a = 3", 42),
        ("DELETE FROM t WHERE a IN (SELECT a FROM t WHERE a = 7)", 58),
    ] {
        let plan = QueryRequest {
            dry_run: true,
            ..sql.request(text)
        };
        let plan = execute(&sql.service, plan).await.unwrap();
        assert_eq!(plan.statements[0].bytes_processed, bytes, "dry run: {text}");
        if text.starts_with("SELECT") {
            let done = sql.run(text).await.unwrap();
            assert_eq!(done.statements[0].bytes_processed, bytes, "{text}");
        }
    }
}
