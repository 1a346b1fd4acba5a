//! Scripts, functions, procedures, parameters and dry runs.

use serde_json::json;

use super::Sql;
use crate::engine::{QueryParameter, QueryRequest, execute};
use crate::schema::{Field, FieldType, Mode};

#[tokio::test]
async fn control_flow() {
    let sql = Sql::new().await;
    sql.rows(
        "DECLARE i, total INT64 DEFAULT 0;
         WHILE i < 5 DO
           SET i = i + 1;
           IF MOD(i, 2) = 0 THEN CONTINUE; END IF;
           SET total = total + i;
         END WHILE;
         SELECT total",
        &["9"],
    )
    .await;
    sql.rows(
        "DECLARE s STRING DEFAULT '';
         FOR r IN (SELECT x, x * x AS q FROM UNNEST([1, 2]) x ORDER BY x) DO
           SET s = CONCAT(s, CAST(r.q AS STRING), ';');
         END FOR;
         SELECT s",
        &["1;4;"],
    )
    .await;
    sql.rows(
        "DECLARE n INT64 DEFAULT 0;
         LOOP SET n = n + 1; IF n >= 3 THEN LEAVE; END IF; END LOOP;
         REPEAT SET n = n + 10; UNTIL n > 20 END REPEAT;
         SELECT CASE n WHEN 23 THEN 'yes' ELSE 'no' END",
        &["yes"],
    )
    .await;
}

#[tokio::test]
async fn exceptions() {
    let sql = Sql::new().await;
    sql.rows(
        "DECLARE m STRING;
         BEGIN
           SELECT 1 / 0;
         EXCEPTION WHEN ERROR THEN
           SET m = @@error.message;
         END;
         SELECT m LIKE '%division by zero%'",
        &["true"],
    )
    .await;
    sql.fails("BEGIN RAISE USING MESSAGE = 'mine'; END", "mine")
        .await;
    sql.fails(
        "BEGIN SELECT ERROR('inner'); EXCEPTION WHEN ERROR THEN RAISE; END",
        "inner",
    )
    .await;
}

#[tokio::test]
async fn dynamic_sql() {
    let sql = Sql::new().await;
    sql.rows(
        "DECLARE x INT64; EXECUTE IMMEDIATE 'SELECT @a + @b' INTO x USING 1 AS a, 2 AS b; SELECT x",
        &["3"],
    )
    .await;
    sql.rows(
        "EXECUTE IMMEDIATE CONCAT('SELECT ', '?', ' * 2') USING 21",
        &["42"],
    )
    .await;
}

#[tokio::test]
async fn functions_and_procedures() {
    let sql = Sql::new().await;
    sql.rows(
        "CREATE TEMP FUNCTION twice(x INT64) RETURNS INT64 AS (x * 2); SELECT twice(y) FROM UNNEST([1, 2]) y ORDER BY 1",
        &["2", "4"],
    )
    .await;
    sql.rows(
        "CREATE TEMP FUNCTION total(a ARRAY<INT64>) AS ((SELECT SUM(x) FROM UNNEST(a) x)); SELECT total([1, 2, y]) FROM UNNEST([3, 4]) y ORDER BY 1",
        &["6", "7"],
    )
    .await;
    sql.run("CREATE FUNCTION d.plus(a INT64, b INT64) AS (a + b)")
        .await
        .unwrap();
    sql.rows("SELECT d.plus(1, 2), p.d.plus(3, 4)", &["3|7"])
        .await;
    sql.run(
        "CREATE TABLE FUNCTION d.upto(n INT64) AS SELECT x FROM UNNEST(GENERATE_ARRAY(1, n)) x",
    )
    .await
    .unwrap();
    sql.rows("SELECT SUM(x) FROM d.upto(4)", &["10"]).await;
    sql.run("CREATE PROCEDURE d.inc(INOUT n INT64, by_ INT64) BEGIN SET n = n + by_; END")
        .await
        .unwrap();
    sql.rows(
        "DECLARE v INT64 DEFAULT 1; CALL d.inc(v, 5); SELECT v",
        &["6"],
    )
    .await;
    sql.fails("SELECT d.gone(1)", "Function not found: `d`.gone at [1:8]")
        .await;
}

#[tokio::test]
async fn temporary_tables_go_with_their_script() {
    let sql = Sql::new().await;
    sql.rows(
        "CREATE TEMP TABLE z AS SELECT 1 x; INSERT z VALUES (2); SELECT SUM(x) FROM z",
        &["3"],
    )
    .await;
    assert!(sql.try_rows("SELECT * FROM z").await.is_err());
}

fn parameter(name: Option<&str>, field: Field, value: serde_json::Value) -> QueryParameter {
    QueryParameter {
        name: name.map(Into::into),
        field,
        value,
    }
}

#[tokio::test]
async fn parameters() {
    let sql = Sql::new().await;
    let ask = |text: &str, parameters: Vec<QueryParameter>| {
        let request = QueryRequest {
            parameters,
            ..sql.request(text)
        };
        let service = sql.service.clone();
        async move {
            let outcome = execute(&service, request).await?;
            let batch = outcome.statements[0].batches[0].clone();
            arrow::util::display::array_value_to_string(batch.column(0), 0)
                .map_err(|e| crate::error::ServiceError::internal(e.to_string()))
        }
    };
    let int = |n: Option<&str>, v: &str| {
        parameter(n, Field::new("", FieldType::Int64), json!({"value": v}))
    };
    assert_eq!(
        ask("SELECT @a + @A", vec![int(Some("a"), "2")])
            .await
            .unwrap(),
        "4"
    );
    assert_eq!(
        ask("SELECT ? * ?", vec![int(None, "2"), int(None, "3")])
            .await
            .unwrap(),
        "6"
    );
    let array = parameter(
        Some("l"),
        Field::new("", FieldType::Int64).with_mode(Mode::Repeated),
        json!({"arrayValues": [{"value": "1"}, {"value": "2"}]}),
    );
    assert_eq!(
        ask("SELECT 2 IN UNNEST(@l)", vec![array]).await.unwrap(),
        "true"
    );
    let date = parameter(
        Some("d"),
        Field::new("", FieldType::String),
        json!({"value": "2020-01-01"}),
    );
    assert_eq!(
        ask("SELECT DATE '2020-01-01' = @d", vec![date])
            .await
            .unwrap(),
        "true"
    );
    assert!(ask("SELECT @b", vec![int(Some("a"), "2")]).await.is_err());
    assert!(ask("SELECT @a", vec![int(Some("a"), "x")]).await.is_err());
}

#[tokio::test]
async fn dry_runs_change_nothing() {
    let sql = Sql::new().await;
    sql.run("CREATE TABLE t (x INT64)").await.unwrap();
    for text in [
        "INSERT t VALUES (1)",
        "DROP TABLE t",
        "CREATE TABLE u (a INT64)",
        "ALTER TABLE t ADD COLUMN y INT64",
    ] {
        let request = QueryRequest {
            dry_run: true,
            ..sql.request(text)
        };
        execute(&sql.service, request).await.unwrap();
    }
    sql.rows("SELECT * FROM t", &[]).await;
    assert!(sql.try_rows("SELECT * FROM u").await.is_err());
    let request = QueryRequest {
        dry_run: true,
        ..sql.request("SELECT ERROR('never run') AS x")
    };
    let outcome = execute(&sql.service, request).await.unwrap();
    assert_eq!(
        outcome.statements[0].schema.as_ref().unwrap().fields[0].name,
        "x"
    );
}

#[tokio::test]
async fn any_text_gives_an_answer() {
    let sql = Sql::new().await;
    let deep = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    let long = format!("SELECT {}", vec!["1"; 5000].join("+"));
    let wide = format!(
        "SELECT x FROM UNNEST([1]) x WHERE {}",
        vec!["x = 1"; 3000].join(" OR ")
    );
    for text in [
        deep.as_str(),
        &long,
        "",
        ";",
        "SELECT",
        "SELECT 'é",
        "`",
        "@",
        "/*",
        "\u{0}",
        "SELECT 1 FROM a-",
    ] {
        assert!(sql.try_rows(text).await.is_err(), "{text:.40}");
    }
    sql.rows(&wide, &["1"]).await;
}
