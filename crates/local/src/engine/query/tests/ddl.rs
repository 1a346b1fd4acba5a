//! CREATE, ALTER, DROP, views, versions and INFORMATION_SCHEMA.

use super::Sql;
use crate::error::Reason;

#[tokio::test]
async fn create_and_drop() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE t (a INT64 NOT NULL OPTIONS (description = 'key'), b ARRAY<STRUCT<x DATE, y NUMERIC(10, 2)>>) PARTITION BY RANGE_BUCKET(a, GENERATE_ARRAY(0, 100, 10)) CLUSTER BY a OPTIONS (description = 'd', labels = [('k', 'v')])")
        .await
        .unwrap();
    sql.rows(
        "SELECT column_name, is_nullable, data_type, is_partitioning_column, clustering_ordinal_position FROM d.INFORMATION_SCHEMA.COLUMNS ORDER BY ordinal_position",
        &["a|NO|INT64|YES|1", "b|YES|ARRAY<STRUCT<x DATE, y NUMERIC(10, 2)>>|NO|NULL"],
    )
    .await;
    sql.rows(
        "SELECT option_name, option_value FROM d.INFORMATION_SCHEMA.TABLE_OPTIONS ORDER BY 1",
        &["description|\"d\"", "labels|[STRUCT(\"k\", \"v\")]"],
    )
    .await;
    let error = sql.error("CREATE TABLE t (a INT64)").await;
    assert_eq!(
        (error.reason, error.message.as_str()),
        (Reason::Duplicate, "Already Exists: Table p:d.t")
    );
    let outcome = sql
        .run("CREATE TABLE IF NOT EXISTS t (a INT64)")
        .await
        .unwrap();
    assert_eq!(
        outcome.statements[0].ddl.as_ref().unwrap().operation,
        "SKIP"
    );
    let outcome = sql
        .run("CREATE OR REPLACE TABLE t AS SELECT 1 AS x")
        .await
        .unwrap();
    assert_eq!(
        outcome.statements[0].ddl.as_ref().unwrap().operation,
        "REPLACE"
    );
    assert_eq!(
        outcome.statements[0].statement_type,
        "CREATE_TABLE_AS_SELECT"
    );
    sql.rows("SELECT * FROM t", &["1"]).await;
    sql.run("DROP TABLE t").await.unwrap();
    assert_eq!(sql.error("DROP TABLE t").await.reason, Reason::NotFound);
    sql.run("DROP TABLE IF EXISTS t").await.unwrap();
    sql.fails(
        "CREATE TABLE t AS SELECT 1 a, 2 A",
        "CREATE TABLE has columns with duplicate name A",
    )
    .await;
    assert!(
        sql.try_rows("CREATE TABLE t (a INT64 DEFAULT 'x')")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn schemas() {
    let sql = Sql::new().await;
    sql.run("CREATE SCHEMA e OPTIONS (location = 'EU'); CREATE TABLE e.t (x INT64)")
        .await
        .unwrap();
    sql.rows(
        "SELECT schema_name, location FROM `region-eu`.INFORMATION_SCHEMA.SCHEMATA",
        &["e|EU"],
    )
    .await;
    assert_eq!(
        sql.error("DROP SCHEMA e").await.reason,
        Reason::ResourceInUse
    );
    sql.run("DROP SCHEMA e CASCADE").await.unwrap();
    assert_eq!(
        sql.error("SELECT * FROM e.t").await.reason,
        Reason::NotFound
    );
}

#[tokio::test]
async fn alter() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE t (a INT64 NOT NULL, b STRING); INSERT t VALUES (1, 'x')")
        .await
        .unwrap();
    sql.run("ALTER TABLE t ADD COLUMN c ARRAY<INT64>, ADD COLUMN IF NOT EXISTS b STRING")
        .await
        .unwrap();
    sql.rows("SELECT * FROM t", &["1|x|[]"]).await;
    sql.run("ALTER TABLE t DROP COLUMN b").await.unwrap();
    // A column of the same name is a new one.
    sql.run("ALTER TABLE t ADD COLUMN b STRING").await.unwrap();
    sql.rows("SELECT * FROM t", &["1|[]|NULL"]).await;
    sql.run("ALTER TABLE t RENAME COLUMN a TO k").await.unwrap();
    sql.rows("SELECT k FROM t", &["1"]).await;
    sql.run("ALTER TABLE t ALTER COLUMN k DROP NOT NULL, ALTER COLUMN b SET DEFAULT 'dflt', ALTER COLUMN k SET DATA TYPE NUMERIC")
        .await
        .unwrap();
    sql.run("INSERT t (k) VALUES (NULL)").await.unwrap();
    sql.rows(
        "SELECT k, b FROM t ORDER BY k",
        &["NULL|dflt", "1.000000000|NULL"],
    )
    .await;
    sql.run("ALTER TABLE t RENAME TO u").await.unwrap();
    sql.rows("SELECT COUNT(*) FROM u", &["2"]).await;
    assert_eq!(sql.error("SELECT * FROM t").await.reason, Reason::NotFound);
    assert!(
        sql.try_rows("ALTER TABLE u ALTER COLUMN b SET DATA TYPE INT64")
            .await
            .is_err()
    );
    assert!(
        sql.try_rows("ALTER TABLE u ADD COLUMN z INT64 NOT NULL")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn views() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE t AS SELECT 1 x UNION ALL SELECT 2")
        .await
        .unwrap();
    sql.run("CREATE VIEW v AS SELECT x, x * 2 AS y FROM p.d.t")
        .await
        .unwrap();
    sql.rows("SELECT y FROM v WHERE x = 2", &["4"]).await;
    sql.run("INSERT d.t VALUES (3)").await.unwrap();
    sql.rows("SELECT SUM(y) FROM d.v", &["12"]).await;
    sql.rows(
        "SELECT table_name, table_type FROM d.INFORMATION_SCHEMA.TABLES ORDER BY 1",
        &["t|BASE TABLE", "v|VIEW"],
    )
    .await;
    assert!(sql.try_rows("INSERT v VALUES (1, 2)").await.is_err());
    assert!(sql.try_rows("DROP TABLE v").await.is_err());
    sql.run("DROP VIEW v").await.unwrap();
    assert!(
        sql.try_rows("CREATE VIEW w AS SELECT nope FROM d.t")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn versions_clones_and_copies() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE t (x INT64); INSERT t VALUES (1)")
        .await
        .unwrap();
    sql.run("CREATE SNAPSHOT TABLE s CLONE t; CREATE TABLE c CLONE t; CREATE TABLE k COPY t; CREATE TABLE l LIKE t")
        .await
        .unwrap();
    let before = crate::store::micros_now();
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    sql.run("INSERT t VALUES (2)").await.unwrap();
    sql.rows(
        &format!("SELECT COUNT(*) FROM t FOR SYSTEM_TIME AS OF TIMESTAMP_MICROS({before})"),
        &["1"],
    )
    .await;
    for name in ["s", "c", "k"] {
        sql.rows(&format!("SELECT x FROM {name}"), &["1"]).await;
    }
    sql.rows("SELECT x FROM l", &[]).await;
    assert!(sql.try_rows("INSERT s VALUES (9)").await.is_err());
}

#[tokio::test]
async fn wildcards_and_pseudo_columns() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE e_1 AS SELECT 1 x; CREATE TABLE e_2 AS SELECT 2 x, 'n' y")
        .await
        .unwrap();
    sql.rows(
        "SELECT x, y, _TABLE_SUFFIX FROM `d.e_*` ORDER BY x",
        &["1|NULL|1", "2|n|2"],
    )
    .await;
    sql.rows("SELECT x FROM `d.e_*` WHERE _TABLE_SUFFIX = '2'", &["2"])
        .await;
    sql.run("CREATE TABLE i (x INT64) PARTITION BY _PARTITIONDATE; INSERT i VALUES (1)")
        .await
        .unwrap();
    sql.rows(
        "SELECT _PARTITIONDATE = CURRENT_DATE(), _PARTITIONTIME = TIMESTAMP_TRUNC(CURRENT_TIMESTAMP(), DAY) FROM i",
        &["true|true"],
    )
    .await;
    sql.rows("SELECT * FROM i", &["1"]).await;
}
