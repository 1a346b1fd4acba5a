//! INSERT, UPDATE, DELETE, MERGE, TRUNCATE and transactions.

use super::Sql;

async fn table(sql: &Sql) {
    sql.run("CREATE OR REPLACE TABLE t (id INT64 NOT NULL, name STRING DEFAULT 'none', s STRUCT<a INT64, b STRING>)")
        .await
        .unwrap();
    sql.run("INSERT INTO t VALUES (1, 'one', (10, 'x')), (2, DEFAULT, NULL), (3, 'three', STRUCT(30, 'z'))")
        .await
        .unwrap();
}

#[tokio::test]
async fn insert() {
    let sql = Sql::new().await;
    table(&sql).await;
    sql.run("INSERT t (id) SELECT 4").await.unwrap();
    sql.rows(
        "SELECT id, name, s.a FROM t ORDER BY id",
        &["1|one|10", "2|none|NULL", "3|three|30", "4|none|NULL"],
    )
    .await;
    sql.fails(
        "INSERT t (name) VALUES ('x')",
        "Required field id cannot be null",
    )
    .await;
    sql.fails(
        "INSERT t (id) VALUES (1.5)",
        "Value has type FLOAT64 which cannot be inserted into column id, which has type INT64 at [1:23]",
    )
    .await;
    sql.fails(
        "INSERT t (id, name) VALUES (1)",
        "Inserted row has wrong column count; Has 1, expected 2",
    )
    .await;
    sql.rows("SELECT COUNT(*) FROM t", &["4"]).await;
}

#[tokio::test]
async fn parameters_of_types_are_enforced() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE n (a NUMERIC(4, 2), b STRING(3))")
        .await
        .unwrap();
    sql.run("INSERT n VALUES (12.345, 'abc')").await.unwrap();
    sql.rows("SELECT a, b FROM n", &["12.350000000|abc"]).await;
    assert!(
        sql.try_rows("INSERT n VALUES (123.4, 'abc')")
            .await
            .is_err()
    );
    assert!(sql.try_rows("INSERT n VALUES (1, 'abcd')").await.is_err());
    assert!(
        sql.try_rows("UPDATE n SET b = CONCAT(b, 'd') WHERE TRUE")
            .await
            .is_err()
    );
    sql.rows("SELECT COUNT(*) FROM n", &["1"]).await;
}

#[tokio::test]
async fn update() {
    let sql = Sql::new().await;
    table(&sql).await;
    let outcome = sql
        .run("UPDATE t SET name = UPPER(name), s.b = 'new' WHERE id < 3")
        .await
        .unwrap();
    assert_eq!(outcome.statements[0].dml.unwrap().updated, 2);
    sql.rows(
        "SELECT id, name, s.a, s.b FROM t ORDER BY id",
        &["1|ONE|10|new", "2|NONE|NULL|new", "3|three|30|z"],
    )
    .await;
    sql.run("UPDATE t SET name = u.n FROM (SELECT 3 i, 'joined' n) u WHERE t.id = u.i")
        .await
        .unwrap();
    sql.rows("SELECT name FROM t WHERE id = 3", &["joined"])
        .await;
    sql.fails(
        "UPDATE t SET name = u FROM UNNEST(['a', 'b']) u WHERE t.id = 1",
        "UPDATE/MERGE must match at most one source row for each target row",
    )
    .await;
    let error = sql.error("UPDATE t SET name = 'x'").await;
    assert!(error.message.contains("WHERE"), "{error}");
}

#[tokio::test]
async fn delete_and_truncate() {
    let sql = Sql::new().await;
    table(&sql).await;
    let outcome = sql
        .run("DELETE FROM t WHERE id IN (SELECT MAX(id) FROM t)")
        .await
        .unwrap();
    assert_eq!(outcome.statements[0].dml.unwrap().deleted, 1);
    sql.rows("SELECT id FROM t ORDER BY id", &["1", "2"]).await;
    let error = sql.error("DELETE FROM t").await;
    assert!(error.message.contains("WHERE"), "{error}");
    sql.run("DELETE t WHERE name IS NULL").await.unwrap();
    sql.rows("SELECT COUNT(*) FROM t", &["2"]).await;
    let outcome = sql.run("TRUNCATE TABLE t").await.unwrap();
    assert_eq!(outcome.statements[0].dml.unwrap().deleted, 2);
    sql.rows("SELECT COUNT(*) FROM t", &["0"]).await;
}

#[tokio::test]
async fn merge() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE m (k INT64, v STRING); INSERT m VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        .await
        .unwrap();
    let outcome = sql
        .run("MERGE m USING (SELECT 2 k, 'B' v UNION ALL SELECT 3, NULL UNION ALL SELECT 4, 'D') s ON m.k = s.k
              WHEN MATCHED AND s.v IS NULL THEN DELETE
              WHEN MATCHED THEN UPDATE SET v = s.v
              WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)
              WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = CONCAT(m.v, '!')")
        .await
        .unwrap();
    let dml = outcome.statements[0].dml.unwrap();
    assert_eq!((dml.inserted, dml.updated, dml.deleted), (1, 2, 1));
    sql.rows("SELECT k, v FROM m ORDER BY k", &["1|a!", "2|B", "4|D"])
        .await;
    sql.fails(
        "MERGE m USING (SELECT 2 k UNION ALL SELECT 2) s ON m.k = s.k WHEN MATCHED THEN DELETE",
        "UPDATE/MERGE must match at most one source row for each target row",
    )
    .await;
    sql.run("MERGE m USING (SELECT 9 k, 'z' v) s ON FALSE WHEN NOT MATCHED THEN INSERT ROW")
        .await
        .unwrap();
    sql.rows(
        "SELECT k, v FROM m ORDER BY k",
        &["1|a!", "2|B", "4|D", "9|z"],
    )
    .await;
}

#[tokio::test]
async fn transactions_are_all_or_nothing() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE x (i INT64)").await.unwrap();
    sql.rows(
        "BEGIN TRANSACTION; INSERT x VALUES (1); INSERT x VALUES (2); DELETE x WHERE i = 1; SELECT COUNT(*) FROM x",
        &["1"],
    )
    .await;
    // Neither committed nor rolled back: nothing of it stays.
    sql.rows("SELECT COUNT(*) FROM x", &["0"]).await;
    sql.run("BEGIN TRANSACTION; INSERT x VALUES (1); ROLLBACK TRANSACTION")
        .await
        .unwrap();
    sql.rows("SELECT COUNT(*) FROM x", &["0"]).await;
    sql.run("BEGIN; INSERT x VALUES (1), (2); UPDATE x SET i = 7 WHERE i = 2; COMMIT")
        .await
        .unwrap();
    sql.rows("SELECT i FROM x ORDER BY i", &["1", "7"]).await;
}

#[tokio::test]
async fn concurrent_changes_are_all_kept() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE c (n INT64); INSERT c VALUES (0)")
        .await
        .unwrap();
    let add = || sql.run("UPDATE c SET n = n + 1 WHERE TRUE");
    let (a, b, c, d) = tokio::join!(add(), add(), add(), add());
    for outcome in [a, b, c, d] {
        outcome.unwrap();
    }
    sql.rows("SELECT n FROM c", &["4"]).await;
}

#[tokio::test]
async fn segments_without_changed_rows_stay_and_rows_keep_their_order() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE t (x INT64, y STRING)").await.unwrap();
    for first in [10, 20, 30] {
        let text = format!("INSERT t SELECT x, 'a' FROM UNNEST([{first}, {first} + 1]) AS x");
        sql.run(&text).await.unwrap();
    }
    let segments = || {
        let table = crate::store::TableRef::new("p", "d", "t");
        sql.service.store.table(&table).unwrap().snapshot().segments
    };
    let before = segments();
    let kept = |now: &[std::sync::Arc<crate::store::Segment>]| -> Vec<usize> {
        let stays = |i: &usize| now.iter().any(|s| std::sync::Arc::ptr_eq(s, &before[*i]));
        (0..before.len()).filter(stays).collect()
    };
    sql.run("UPDATE t SET y = 'b' WHERE x = 20").await.unwrap();
    assert_eq!(kept(&segments()), [0, 2]);
    sql.rows(
        "SELECT * FROM t",
        &["10|a", "11|a", "20|b", "21|a", "30|a", "31|a"],
    )
    .await;
    sql.run("DELETE FROM t WHERE x >= 30").await.unwrap();
    assert_eq!(kept(&segments()), [0]);
    assert_eq!(segments().len(), 2, "an empty segment goes");
    let merge = "MERGE t USING (SELECT 11 AS x, 'm' AS y UNION ALL SELECT 99, 'n') AS s \
         ON t.x = s.x WHEN MATCHED THEN UPDATE SET y = s.y WHEN NOT MATCHED THEN INSERT ROW";
    sql.run(merge).await.unwrap();
    assert_eq!(kept(&segments()), [0usize; 0]);
    sql.rows("SELECT * FROM t", &["10|a", "11|m", "20|b", "21|a", "99|n"])
        .await;
    // Out of order, from a join.
    sql.run(
        "UPDATE t SET y = CONCAT(t.y, s.z) FROM UNNEST([STRUCT(99 AS k, 'p' AS z), (10, 'q')]) AS s \
         WHERE t.x = s.k",
    )
    .await
    .unwrap();
    sql.rows(
        "SELECT * FROM t",
        &["10|aq", "11|m", "20|b", "21|a", "99|np"],
    )
    .await;
    sql.fails(
        "UPDATE t SET y = s FROM UNNEST(['1', '2']) AS s WHERE x = 21",
        "UPDATE/MERGE must match at most one source row for each target row",
    )
    .await;
    // Inside a transaction too.
    sql.run(
        "BEGIN TRANSACTION; DELETE FROM t WHERE x = 20; UPDATE t SET y = 'z' WHERE x = 21; \
         COMMIT TRANSACTION;",
    )
    .await
    .unwrap();
    sql.rows("SELECT * FROM t", &["10|aq", "11|m", "21|z", "99|np"])
        .await;
}

#[tokio::test]
async fn constructors_take_the_types_of_their_columns() {
    let sql = Sql::new().await;
    sql.run(
        "CREATE TABLE t (k INT64, a ARRAY<STRUCT<x INT64, y STRING>>, s STRUCT<x NUMERIC, y STRING>, \
         l ARRAY<NUMERIC>)",
    )
    .await
    .unwrap();
    for text in [
        "INSERT t VALUES (1, [], (NULL, NULL), [])",
        "INSERT t VALUES (2, [(1, NULL), STRUCT(NULL, 'q')], NULL, [NUMERIC '1', NUMERIC '2.5'])",
        "INSERT t VALUES (3, NULL, (1, 'a'), NULL)",
        "UPDATE t SET s = (NULL, 'u'), a = [(NULL, NULL)] WHERE k = 3",
        "MERGE t USING (SELECT 4 AS k) AS s ON FALSE \
         WHEN NOT MATCHED THEN INSERT (k, a, s) VALUES (s.k, [], (NULL, 'm'))",
    ] {
        sql.run(text).await.unwrap();
    }
    sql.rows(
        "SELECT k, TO_JSON_STRING(a), TO_JSON_STRING(s), TO_JSON_STRING(l) FROM t ORDER BY k",
        &[
            r#"1|[]|{"x":null,"y":null}|[]"#,
            r#"2|[{"x":1,"y":null},{"x":null,"y":"q"}]|null|[1,"2.5"]"#,
            r#"3|[{"x":null,"y":null}]|{"x":null,"y":"u"}|[]"#,
            r#"4|[]|{"x":null,"y":"m"}|[]"#,
        ],
    )
    .await;
    sql.fails(
        "INSERT t (k, l) VALUES (5, [1, 2])",
        "Value has type ARRAY<INT64> which cannot be inserted into column l, which has type \
         ARRAY<NUMERIC> at [1:28]",
    )
    .await;
    assert!(
        sql.run("INSERT t (k, a) VALUES (5, [('1', 'a')])")
            .await
            .is_err()
    );
    sql.fails(
        "INSERT t (k, l) VALUES (5, [NUMERIC '1', NULL])",
        "Array cannot have a null element; error in writing field l",
    )
    .await;
    let error = sql.error("INSERT t (k, l) VALUES (5, ['a'])").await;
    assert!(error.message.contains("ARRAY<STRING>"), "{error}");
}
