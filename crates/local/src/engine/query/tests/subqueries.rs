//! Subqueries, correlated and not.

use super::Sql;

#[tokio::test]
async fn uncorrelated() {
    let sql = Sql::new().await;
    sql.rows("SELECT (SELECT MAX(x) FROM UNNEST([1, 3, 2]) x)", &["3"])
        .await;
    sql.rows("SELECT (SELECT 1 FROM (SELECT 1) WHERE FALSE)", &["NULL"])
        .await;
    sql.rows(
        "SELECT ARRAY(SELECT x * 2 FROM UNNEST([3, 1]) x ORDER BY x)",
        &["[2, 6]"],
    )
    .await;
    sql.rows(
        "SELECT EXISTS(SELECT 1), NOT EXISTS(SELECT 1 FROM (SELECT 1) WHERE FALSE)",
        &["true|true"],
    )
    .await;
    sql.rows(
        "SELECT 1 IN (SELECT 1), 2 IN (SELECT x FROM UNNEST([1, NULL]) x), 2 NOT IN (SELECT 1), NULL IN (SELECT 1 FROM (SELECT 1) WHERE FALSE)",
        &["true|NULL|true|false"],
    )
    .await;
    sql.fails(
        "SELECT (SELECT x FROM UNNEST([1, 2]) x)",
        "Scalar subquery produced more than one element",
    )
    .await;
}

#[tokio::test]
async fn correlated() {
    let sql = Sql::new().await;
    let t = "(SELECT 1 id, [10, 20] v UNION ALL SELECT 2, [5] UNION ALL SELECT 3, [])";
    sql.rows(
        &format!("SELECT id, (SELECT SUM(x) FROM UNNEST(t.v) x), (SELECT COUNT(*) FROM UNNEST(v) x WHERE x > 5) FROM {t} t ORDER BY id"),
        &["1|30|2", "2|5|0", "3|NULL|0"],
    )
    .await;
    sql.rows(
        &format!("SELECT id, ARRAY(SELECT x + id FROM UNNEST(v) x ORDER BY x DESC LIMIT 1) FROM {t} t ORDER BY id"),
        &["1|[21]", "2|[7]", "3|[]"],
    )
    .await;
    sql.rows(
        &format!("SELECT id FROM {t} t WHERE EXISTS(SELECT 1 FROM UNNEST(v) x WHERE x = id * 10) ORDER BY id"),
        &["1"],
    )
    .await;
    sql.rows(
        &format!("SELECT id, 5 IN (SELECT x FROM UNNEST(v) x) FROM {t} t ORDER BY id"),
        &["1|false", "2|true", "3|false"],
    )
    .await;
    sql.rows(
        "WITH s AS (SELECT * FROM UNNEST([STRUCT('a' AS k, 1 AS v), ('a', 3), ('b', 2)])) SELECT k, v FROM s WHERE v = (SELECT MAX(i.v) FROM s i WHERE i.k = s.k) ORDER BY k",
        &["a|3", "b|2"],
    )
    .await;
    sql.rows(
        "SELECT x, (SELECT STRING_AGG(CAST(y AS STRING) ORDER BY y) FROM UNNEST([1, 2, 3]) y WHERE y <= x AND y > (SELECT MIN(z) FROM UNNEST([0, 1]) z WHERE z < x)) FROM UNNEST([1, 3]) x ORDER BY x",
        &["1|1", "3|1,2,3"],
    )
    .await;
}

#[tokio::test]
async fn correlated_with_windows_groups_and_unions() {
    let sql = Sql::new().await;
    sql.rows(
        "SELECT x, ARRAY(SELECT AS STRUCT y, ROW_NUMBER() OVER (ORDER BY y DESC) n FROM UNNEST([1, 2]) y WHERE y <= x ORDER BY y) FROM UNNEST([1, 2]) x ORDER BY x",
        &["1|[{y: 1, n: 1}]", "2|[{y: 1, n: 2}, {y: 2, n: 1}]"],
    )
    .await;
    sql.rows(
        "SELECT x, ARRAY(SELECT y FROM (SELECT x AS y UNION ALL SELECT x * 10) ORDER BY y) FROM UNNEST([1, 2]) x ORDER BY x",
        &["1|[1, 10]", "2|[2, 20]"],
    )
    .await;
    sql.rows(
        "SELECT x, ARRAY(SELECT COUNT(*) FROM UNNEST([1, 1, 2]) y WHERE y <= x GROUP BY y ORDER BY 1) FROM UNNEST([1, 2]) x ORDER BY x",
        &["1|[2]", "2|[1, 2]"],
    )
    .await;
}

#[tokio::test]
async fn in_floats() {
    let sql = Sql::new().await;
    sql.rows(
        "SELECT 0.0 IN (SELECT -0.0), CAST('nan' AS FLOAT64) IN (SELECT CAST('nan' AS FLOAT64)), 1 IN (SELECT 1.0)",
        &["true|false|true"],
    )
    .await;
}
