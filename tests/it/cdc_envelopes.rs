//! What `debezium_envelopes` makes of values, and of files without the fields that a
//! statement asks for.

use std::io::Write;
use std::path::Path;

use datafusion::prelude::SessionContext;
use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use crate::harness::{Server, lines, refused, rows};

fn line(op: &str, before: &str, after: &str, lsn: u64) -> String {
    format!(
        "{{\"op\":\"{op}\",\"before\":{before},\"after\":{after},\"source\":\
         {{\"connector\":\"postgresql\",\"snapshot\":\"false\",\"sequence\":\"[null,\\\"{lsn}\\\"]\",\
         \"lsn\":{lsn}}},\"ts_ms\":5}}\n"
    )
}

fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn changes(afters: &[&str]) -> String {
    let afters = afters.iter();
    afters.map(|after| line("c", "null", after, 7)).collect()
}

async fn session() -> (Server, SessionContext, TempDir) {
    let server = Server::with_dataset().await;
    let context = server.session(1);
    (server, context, TempDir::new().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_what_is_written_or_refused() {
    let (_server, context, folder) = session().await;
    let long = file(
        &folder,
        "long.jsonl",
        &changes(&[
            r#"{"id":18446744073709551615,"price":12345678901234567890.12}"#,
            r#"{"id":1,"price":1.05E+1}"#,
            r#"{"id":"2","price":"-0.000000001"}"#,
        ]),
    );
    let columns = "id BIGINT UNSIGNED, price DECIMAL(38, 9)";
    let sql = format!(
        "SELECT after['id'], after['price'] FROM debezium_envelopes('{long}', '{columns}')"
    );
    assert_eq!(
        lines(&context, &sql).await,
        [
            "18446744073709551615 12345678901234567890.120000000",
            "1 10.500000000",
            "2 -0.000000001"
        ]
    );
    let as_text =
        format!("SELECT after['price'] FROM debezium_envelopes('{long}', 'price VARCHAR') LIMIT 1");
    assert_eq!(lines(&context, &as_text).await, ["12345678901234567890.12"]);
    // Without types a number is a floating point only where that keeps it.
    for (name, afters, parts) in [
        (
            "decimal.jsonl",
            &[r#"{"id":1}"#, r#"{"price":12345678901234567890.12}"#][..],
            ["decimal.jsonl, line 2", "field 'price'", "DECIMAL"],
        ),
        (
            "mixed.jsonl",
            &[r#"{"n":9007199254740993}"#, r#"{"n":1.5}"#],
            ["mixed.jsonl, line 1", "field 'n'", "9007199254740993"],
        ),
        (
            "large.jsonl",
            &[r#"{"n":18446744073709551615}"#],
            ["large.jsonl, line 1", "field 'n'", "18446744073709551615"],
        ),
        (
            "nested.jsonl",
            &[r#"{"s":{"list":[1.5, 0.1234567890123456789]}}"#],
            ["nested.jsonl, line 1", "field 's.list[1]'", "DOUBLE"],
        ),
    ] {
        let file = file(&folder, name, &changes(afters));
        let sql = format!("SELECT * FROM debezium_envelopes('{file}')");
        refused(&context, &sql, &parts).await;
    }
    let short = file(
        &folder,
        "short.jsonl",
        &changes(&[r#"{"n":2}"#, r#"{"n":0.1}"#]),
    );
    let sql = format!("SELECT after['n'] FROM debezium_envelopes('{short}')");
    assert_eq!(lines(&context, &sql).await, ["2.0", "0.1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_do_not_fit_are_refused_by_line_and_field() {
    let (_server, context, folder) = session().await;
    for (columns, value, why) in [
        ("v INT", "2147483648", "no Int32"),
        ("v INT", "1.5", "no Int32"),
        ("v BIGINT", "\"x\"", "no Int64"),
        ("v DECIMAL(4, 2)", "1.005", "more digits"),
        ("v DECIMAL(4, 2)", "100", "more digits"),
        ("v DECIMAL(4, 2)", "\"AfQ=\"", "decimal.handling.mode"),
        ("v BOOLEAN", "1", "no BOOLEAN"),
        ("v TIMESTAMP", "1714991051743", "to_timestamp_millis"),
        ("v TIMESTAMP", "\"yesterday\"", "yesterday"),
        ("v DATE", "1.5", "no DATE"),
        ("v VARCHAR", "{\"a\":1}", "neither text nor a number"),
        (
            "v VARCHAR",
            "\"__debezium_unavailable_value\"",
            "REPLICA IDENTITY FULL",
        ),
        (
            "v BIGINT[]",
            "[1, \"__debezium_unavailable_value\"]",
            "REPLICA IDENTITY FULL",
        ),
    ] {
        let afters = [r#"{"v":null}"#, &format!(r#"{{"v":{value}}}"#)];
        let values = file(&folder, "values.jsonl", &changes(&afters));
        let sql = format!("SELECT after FROM debezium_envelopes('{values}', '{columns}')");
        refused(&context, &sql, &["values.jsonl, line 2", "field 'v", why]).await;
    }
    let row = r#"{"d":19848,"at":"2024-05-06T10:24:11.743Z","OK":true,"other":1e400}"#;
    let right = file(&folder, "right.jsonl", &changes(&[row]));
    let sql = format!(
        "SELECT after['d'], after['at'], after['ok'] \
         FROM debezium_envelopes('{right}', 'd DATE, at TIMESTAMP, ok BOOLEAN')"
    );
    assert_eq!(
        lines(&context, &sql).await,
        ["2024-05-05 2024-05-06T10:24:11.743 true"]
    );
    let two = file(&folder, "two.jsonl", &changes(&[r#"{"ID":1,"Id":2}"#]));
    let sql = format!("SELECT after FROM debezium_envelopes('{two}', 'id INT')");
    refused(&context, &sql, &["'ID' or 'Id'", "double quotes"]).await;
    let sql = format!("SELECT after['Id'] FROM debezium_envelopes('{two}', '\"Id\" INT')");
    assert_eq!(lines(&context, &sql).await, ["2"]);
}

/// One statement replicates whatever there is in a file, also where there is nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_replication_runs_over_files_without_rows() {
    let (server, context, folder) = session().await;
    server
        .query(
            "CREATE TABLE d.t (id INT64 NOT NULL, name STRING NOT NULL, price NUMERIC, \
             PRIMARY KEY (id) NOT ENFORCED)",
        )
        .await;
    rows(
        &context,
        "CREATE EXTERNAL TABLE t STORED AS BIGQUERY LOCATION 'demo.d.t' \
         OPTIONS ('sink.cdc.enabled' 'true')",
    )
    .await;
    let replicate = |file: &str| {
        format!(
            "INSERT INTO t (id, name, price, _CHANGE_TYPE, _CHANGE_SEQUENCE_NUMBER) \
             SELECT coalesce(after['id'], before['id']), after['name'], after['price'], \
             CASE op WHEN 'd' THEN 'DELETE' ELSE 'UPSERT' END, \
             bigquery_sequence_debezium_postgres(source) FROM debezium_envelopes('{file}', \
             'id BIGINT, name VARCHAR, price DECIMAL(38, 9)') WHERE op IN ('c', 'r', 'u', 'd')"
        )
    };
    let first = file(
        &folder,
        "1.jsonl",
        &changes(&[
            r#"{"id":1,"name":"a","price":12345678901234567890.12}"#,
            r#"{"id":2,"name":"b","price":null}"#,
        ]),
    );
    rows(&context, &replicate(&first)).await;
    let stored = "SELECT id, name, price FROM bq.d.t ORDER BY id";
    let both = ["1 a 12345678901234567890.120000000", "2 b "];
    assert_eq!(lines(&context, stored).await, both);
    for (name, text) in [
        ("empty.jsonl", String::new()),
        ("tombstones.jsonl", "null\n\nnull\n".to_string()),
        ("truncates.jsonl", line("t", "null", "null", 9)),
    ] {
        let file = file(&folder, name, &text);
        rows(&context, &replicate(&file)).await;
        assert_eq!(lines(&context, stored).await, both, "{name}");
        let bare = format!("SELECT after['id'] FROM debezium_envelopes('{file}')");
        refused(&context, &bare, &[name, "last argument", "id BIGINT"]).await;
    }
    let deletes = file(&folder, "d.jsonl", &line("d", r#"{"id":2}"#, "null", 9));
    rows(&context, &replicate(&deletes)).await;
    assert_eq!(lines(&context, stored).await, both[..1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn packed_files_are_read_beside_others() {
    let (_server, context, folder) = session().await;
    let plain = file(&folder, "1.jsonl", &changes(&[r#"{"id":1}"#]));
    let packed = folder.path().join("2.jsonl.gz");
    pack(&packed, &changes(&[r#"{"id":2}"#, r#"{"id":3}"#]));
    for columns in ["", ", 'id BIGINT'"] {
        let sql = format!(
            "SELECT after['id'] FROM debezium_envelopes('{plain}', '{}'{columns})",
            packed.display()
        );
        assert_eq!(lines(&context, &sql).await, ["1", "2", "3"]);
    }
    std::fs::write(&packed, "not packed").unwrap();
    let sql = format!("SELECT * FROM debezium_envelopes('{}')", packed.display());
    refused(&context, &sql, &["2.jsonl.gz", "cannot be read"]).await;
}

fn pack(path: &Path, text: &str) {
    let mut packed = GzEncoder::new(std::fs::File::create(path).unwrap(), Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap();
}
