//! Tables with `require_partition_filter`.

use super::Sql;
use crate::error::Reason;

const OPTIONS: &str = "OPTIONS (require_partition_filter = TRUE)";

fn refusal(table: &str, columns: &str) -> String {
    format!(
        "Cannot query over table 'p.d.{table}' without a filter over column(s) {columns} that can be used for partition elimination"
    )
}

/// A table `t` partitioned by a date, with one row of 2024 and one of 2025.
async fn dated() -> Sql {
    let sql = Sql::new().await;
    sql.run(&format!(
        "CREATE TABLE t (d DATE, i INT64) PARTITION BY d {OPTIONS}"
    ))
    .await
    .unwrap();
    sql.run("INSERT INTO t VALUES ('2024-01-01', 1), ('2025-01-01', 2)")
        .await
        .unwrap();
    sql.run("CREATE TABLE u AS SELECT DATE '2024-01-01' d, 1 i")
        .await
        .unwrap();
    sql
}

#[tokio::test]
async fn queries_need_a_filter_over_the_partition() {
    let sql = dated().await;
    for text in [
        "SELECT i FROM t WHERE d = '2024-01-01'",
        "SELECT i FROM t AS x WHERE x.d < '2024-06-01' AND x.i > 0",
        "SELECT i FROM t WHERE DATE '2024-06-01' > d",
        "SELECT i FROM t WHERE d IN ('2024-01-01', '2023-01-01')",
        "SELECT i FROM t WHERE d IN UNNEST([DATE '2024-01-01'])",
        "SELECT i FROM t WHERE d BETWEEN '2023-01-01' AND '2024-02-01'",
        "SELECT i FROM t WHERE d NOT BETWEEN '2024-02-01' AND '2025-02-01'",
        "SELECT i FROM t WHERE d IS NOT NULL AND i = 1",
        "SELECT i FROM t WHERE d = '2024-01-01' OR d > '2030-01-01'",
        "SELECT i FROM t WHERE DATE_TRUNC(d, YEAR) = '2024-01-01'",
        "SELECT i FROM t WHERE CAST(d AS TIMESTAMP) < TIMESTAMP '2024-06-01'",
        "SELECT i FROM t WHERE d <= CURRENT_DATE() AND i = 1",
        "SELECT i FROM t WHERE d <= DATE_SUB(CURRENT_DATE(), INTERVAL 3 DAY) AND i < 2",
        "SELECT i FROM (SELECT * FROM t) WHERE d = '2024-01-01'",
        "WITH c AS (SELECT d AS e, i FROM t) SELECT i FROM c WHERE e = '2024-01-01'",
        "SELECT t.i FROM t JOIN u ON t.i = u.i WHERE t.d = '2024-01-01'",
        "SELECT t.i FROM t JOIN u ON t.i = u.i AND t.d = '2024-01-01'",
        "SELECT i FROM u WHERE i IN (SELECT i FROM t WHERE d < '2024-06-01')",
        "SELECT (SELECT MAX(i) FROM t WHERE d < '2024-06-01')",
        "SELECT SUM(i) FROM t WHERE d < '2024-06-01'",
    ] {
        sql.rows(text, &["1"]).await;
    }
    for text in [
        "SELECT i FROM t",
        "SELECT COUNT(*) FROM t",
        "SELECT i FROM t WHERE i = 1",
        "SELECT i FROM t WHERE d != '2024-01-01'",
        "SELECT i FROM t WHERE NOT d = '2024-01-01'",
        "SELECT i FROM t WHERE d = '2024-01-01' OR i = 1",
        "SELECT i FROM t WHERE EXTRACT(YEAR FROM d) = 2024",
        "SELECT i FROM t WHERE TRUE",
        "SELECT i FROM t WHERE d = d",
        "SELECT t.i FROM t JOIN u ON t.d = u.d",
        "SELECT u.i FROM u LEFT JOIN t ON u.i = t.i",
        "SELECT i FROM t WHERE d = (SELECT MAX(d) FROM u)",
        "SELECT i FROM (SELECT * FROM t LIMIT 1) WHERE d = '2024-01-01'",
        "SELECT i FROM u WHERE i IN (SELECT i FROM t)",
        "SELECT (SELECT MAX(t.i) FROM t WHERE t.d = u.d) FROM u",
        "SELECT i FROM t WHERE d = '2024-01-01' UNION ALL SELECT i FROM t",
        "INSERT INTO u SELECT * FROM t",
        "CREATE TABLE v AS SELECT * FROM t",
    ] {
        let error = sql.error(text).await;
        assert_eq!(error.message, refusal("t", "'d'"), "{text}");
        assert_eq!(error.reason, Reason::InvalidQuery, "{text}");
    }
    let mut dry = sql.request("SELECT i FROM t");
    dry.dry_run = true;
    let error = crate::engine::query::execute(&sql.service, dry)
        .await
        .unwrap_err();
    assert_eq!(error.message, refusal("t", "'d'"));
    sql.run("ALTER TABLE t SET OPTIONS (require_partition_filter = FALSE)")
        .await
        .unwrap();
    sql.rows("SELECT i FROM t ORDER BY i", &["1", "2"]).await;
}

#[tokio::test]
async fn views_pass_filters_on() {
    let sql = dated().await;
    sql.run("CREATE VIEW v AS SELECT d AS day, i FROM t")
        .await
        .unwrap();
    sql.rows("SELECT i FROM v WHERE day = '2025-01-01'", &["2"])
        .await;
    sql.fails("SELECT i FROM v", &refusal("t", "'d'")).await;
}

#[tokio::test]
async fn dml_needs_a_filter_over_the_partition() {
    let sql = dated().await;
    for text in [
        "UPDATE t SET i = 9 WHERE TRUE",
        "UPDATE t SET i = 9 WHERE i = 1",
        "UPDATE t SET i = u.i FROM u WHERE t.d = u.d",
        "DELETE FROM t WHERE TRUE",
        "DELETE FROM t WHERE i = 1",
        "MERGE t USING u ON t.i = u.i WHEN MATCHED THEN DELETE",
        "MERGE t USING u ON t.d = u.d WHEN NOT MATCHED THEN INSERT ROW",
        "MERGE u USING t ON t.i = u.i WHEN MATCHED THEN DELETE",
    ] {
        let error = sql.error(text).await;
        assert_eq!(error.message, refusal("t", "'d'"), "{text}");
        let mut dry = sql.request(text);
        dry.dry_run = true;
        let error = crate::engine::query::execute(&sql.service, dry)
            .await
            .unwrap_err();
        assert_eq!(error.message, refusal("t", "'d'"), "{text}");
    }
    let all = "SELECT d, i FROM t WHERE d IS NOT NULL ORDER BY i";
    sql.rows(all, &["2024-01-01|1", "2025-01-01|2"]).await;
    sql.run("UPDATE t SET i = 5 WHERE d = '2024-01-01'")
        .await
        .unwrap();
    sql.rows(all, &["2025-01-01|2", "2024-01-01|5"]).await;
    sql.run("UPDATE t SET i = u.i FROM u WHERE t.d = '2024-01-01' AND t.d = u.d")
        .await
        .unwrap();
    sql.rows(all, &["2024-01-01|1", "2025-01-01|2"]).await;
    sql.run("MERGE t USING (SELECT 3 i) s ON t.i = s.i AND t.d >= '2025-01-01' WHEN NOT MATCHED THEN INSERT VALUES ('2026-01-01', s.i) WHEN NOT MATCHED BY SOURCE THEN UPDATE SET i = t.i + 10")
        .await
        .unwrap();
    sql.rows(all, &["2026-01-01|3", "2024-01-01|11", "2025-01-01|12"])
        .await;
    sql.run("DELETE FROM t WHERE d < '2025-06-01'")
        .await
        .unwrap();
    sql.rows(all, &["2026-01-01|3"]).await;
}

#[tokio::test]
async fn other_partitionings() {
    let sql = Sql::new().await;
    sql.run(&format!(
        "CREATE TABLE r (n INT64) PARTITION BY RANGE_BUCKET(n, GENERATE_ARRAY(0, 100, 10)) {OPTIONS}"
    ))
    .await
    .unwrap();
    sql.run("INSERT INTO r VALUES (7), (70)").await.unwrap();
    sql.rows("SELECT n FROM r WHERE n < 10", &["7"]).await;
    sql.fails("SELECT n FROM r WHERE MOD(n, 2) = 0", &refusal("r", "'n'"))
        .await;
    sql.run(&format!(
        "CREATE TABLE s (n INT64) PARTITION BY _PARTITIONDATE {OPTIONS}"
    ))
    .await
    .unwrap();
    sql.run("INSERT INTO s (n) VALUES (1)").await.unwrap();
    let names = "'_PARTITION_LOAD_TIME', '_PARTITIONDATE', '_PARTITIONTIME'";
    sql.fails("SELECT n FROM s", &refusal("s", names)).await;
    sql.fails("DELETE FROM s WHERE n = 1", &refusal("s", names))
        .await;
    sql.rows(
        "SELECT n FROM s WHERE _PARTITIONTIME > '2020-01-01'",
        &["1"],
    )
    .await;
    sql.rows(
        "SELECT n FROM s WHERE _PARTITIONDATE > '2020-01-01'",
        &["1"],
    )
    .await;
    sql.run("DELETE FROM s WHERE _PARTITIONTIME > '2020-01-01'")
        .await
        .unwrap();
    sql.rows(
        "SELECT COUNT(*) FROM s WHERE _PARTITIONTIME IS NOT NULL",
        &["0"],
    )
    .await;
}
