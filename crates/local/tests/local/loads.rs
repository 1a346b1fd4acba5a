//! Load jobs: dispositions, schemas, partitions, and that a job is all or nothing.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use crate::harness::{Local, PROJECT};
use crate::uploads::load_job;

const ROWS: &str = "datasets/d/tables/t/data";

fn fields(names: &[(&str, &str)]) -> Value {
    let fields: Vec<Value> = names
        .iter()
        .map(|(name, kind)| match kind.strip_suffix('!') {
            Some(kind) => json!({"name": name, "type": kind, "mode": "REQUIRED"}),
            None => json!({"name": name, "type": kind}),
        })
        .collect();
    json!({ "fields": fields })
}

pub(crate) fn parquet(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
            .expect("columns of one length");
    let mut data = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut data, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("memory takes it");
    writer.close().expect("memory takes it");
    data
}

fn error(job: &Value) -> (&str, &str) {
    let error = &job["status"]["errorResult"];
    assert_eq!(job["status"]["errors"][0], *error, "{job}");
    (
        error["reason"].as_str().unwrap_or("none"),
        error["message"].as_str().unwrap_or("none"),
    )
}

#[tokio::test]
async fn write_dispositions() {
    let local = Local::with_dataset().await;
    let a = fields(&[("a", "INTEGER!")]);
    let load = |write: &str| json!({"schema": a, "writeDisposition": write});
    local.load(load("WRITE_EMPTY"), "1\n").await;
    let job = local.load(load("WRITE_EMPTY"), "2\n").await;
    assert_eq!(
        error(&job),
        ("duplicate", "Already Exists: Table local:d.t")
    );
    local.load(load("WRITE_APPEND"), "3\n").await;
    assert_eq!(local.first_column(ROWS).await, ["1", "3"]);
    local.load(load("WRITE_TRUNCATE_DATA"), "4\n").await;
    assert_eq!(local.first_column(ROWS).await, ["4"]);
    let other = json!({"schema": fields(&[("b", "STRING")]), "writeDisposition": "WRITE_TRUNCATE"});
    local.load(other, "x\n").await;
    assert_eq!(local.first_column(ROWS).await, ["x"]);
    let table = local.get("datasets/d/tables/t").await.ok();
    assert_eq!(
        table["schema"],
        json!({"fields": [{"name": "b", "type": "STRING"}]})
    );
}

#[tokio::test]
async fn truncating_drops_constraints_and_keeps_the_rest() {
    let local = Local::with_dataset().await;
    let resource = json!({
        "schema": fields(&[("a", "INTEGER"), ("d", "DATE")]),
        "description": "kept", "labels": {"k": "v"},
        "timePartitioning": {"type": "DAY", "field": "d"},
        "tableConstraints": {"primaryKey": {"columns": ["a"]}}
    });
    local.table_with(resource).await;
    let load = |write: &str| json!({"writeDisposition": write});
    local
        .load(load("WRITE_TRUNCATE_DATA"), "1,2024-01-01\n")
        .await;
    let table = local.get("datasets/d/tables/t").await.ok();
    assert_eq!(
        table["tableConstraints"]["primaryKey"]["columns"],
        json!(["a"])
    );
    local.load(load("WRITE_TRUNCATE"), "2,2024-01-01\n").await;
    let table = local.get("datasets/d/tables/t").await.ok();
    assert_eq!(table["tableConstraints"], Value::Null);
    assert_eq!(
        (&table["description"], &table["labels"]["k"]),
        (&json!("kept"), &json!("v"))
    );
    assert_eq!(table["timePartitioning"]["field"], "d");
}

#[tokio::test]
async fn create_disposition_and_layout() {
    let local = Local::with_dataset().await;
    let never = json!({"schema": fields(&[("a", "INTEGER")]), "createDisposition": "CREATE_NEVER"});
    let job = local.load(never, "1\n").await;
    assert_eq!(error(&job), ("notFound", "Not found: Table local:d.t"));
    let no_schema = local.load(json!({}), "1\n").await;
    assert_eq!(
        error(&no_schema),
        ("invalid", "No schema specified on job or table.")
    );
    let wrong = json!({"schema": fields(&[("a", "INTEGER")]), "clustering": {"fields": ["b"]}});
    let job = local.load(wrong, "1\n").await;
    assert!(error(&job).1.contains("Invalid field: b"), "{job}");
    assert_eq!(local.get("datasets/d/tables/t").await.status, 404);
    let layout = json!({
        "schema": fields(&[("a", "INTEGER"), ("d", "DATE")]),
        "timePartitioning": {"type": "MONTH", "field": "d"}, "clustering": {"fields": ["a"]},
        "destinationTableProperties": {"description": "made", "friendlyName": "f"}
    });
    local.load(layout.clone(), "1,2024-01-01\n").await;
    let table = local.get("datasets/d/tables/t").await.ok();
    assert_eq!(
        table["timePartitioning"],
        json!({"type": "MONTH", "field": "d"})
    );
    assert_eq!(table["clustering"], json!({"fields": ["a"]}));
    assert_eq!(
        (&table["description"], &table["friendlyName"]),
        (&json!("made"), &json!("f"))
    );
    local.load(layout.clone(), "2,2024-01-01\n").await;
    let mut changed = layout;
    changed["timePartitioning"]["type"] = json!("DAY");
    let job = local.load(changed, "3,2024-01-01\n").await;
    assert!(
        error(&job).1.starts_with("Incompatible table partitioning"),
        "{job}"
    );
    assert_eq!(local.first_column(ROWS).await, ["1", "2"]);
}

#[tokio::test]
async fn a_bad_record_loads_nothing() {
    let local = Local::with_dataset().await;
    local
        .table(fields(&[("a", "INTEGER")])["fields"].clone())
        .await;
    let job = local.load(json!({}), "1\n2\nx\n").await;
    let (reason, message) = error(&job);
    assert_eq!(reason, "invalid");
    assert!(
        message.contains("CSV processing encountered too many errors"),
        "{message}"
    );
    assert_eq!(job["status"]["errors"].as_array().map(Vec::len), Some(2));
    assert_eq!(job["statistics"]["load"], Value::Null);
    assert!(local.first_column(ROWS).await.is_empty());
    let job = local.load(json!({"maxBadRecords": 1}), "1\n2\nx\n").await;
    assert_eq!(job["status"]["errorResult"], Value::Null);
    assert_eq!(job["status"]["errors"].as_array().map(Vec::len), Some(1));
    assert_eq!(job["statistics"]["load"]["badRecords"], "1");
    assert_eq!(local.first_column(ROWS).await, ["1", "2"]);
}

#[tokio::test]
async fn columns_are_added_and_relaxed_when_allowed() {
    let local = Local::with_dataset().await;
    local
        .table(fields(&[("a", "INTEGER!")])["fields"].clone())
        .await;
    let json_load = |names: &[(&str, &str)], updates: Value| {
        json!({
            "schema": fields(names), "sourceFormat": "NEWLINE_DELIMITED_JSON",
            "schemaUpdateOptions": updates
        })
    };
    let both = [("a", "INTEGER!"), ("b", "STRING")];
    let refused = local
        .load(json_load(&both, json!([])), "{\"a\":1,\"b\":\"x\"}")
        .await;
    assert_eq!(
        error(&refused).1,
        "Provided Schema does not match Table local:d.t. Cannot add fields (field: b)"
    );
    let add = json!(["ALLOW_FIELD_ADDITION"]);
    local
        .load(json_load(&both, add.clone()), "{\"a\":1,\"b\":\"x\"}")
        .await;
    let required = [("a", "INTEGER!"), ("c", "STRING!")];
    let job = local
        .load(json_load(&required, add), "{\"a\":1,\"c\":\"x\"}")
        .await;
    assert!(
        error(&job).1.contains("Cannot add required fields"),
        "{job}"
    );
    let relaxed = [("a", "INTEGER"), ("b", "STRING")];
    let job = local
        .load(json_load(&relaxed, json!([])), "{\"b\":\"y\"}")
        .await;
    assert!(
        error(&job)
            .1
            .contains("changed mode from REQUIRED to NULLABLE"),
        "{job}"
    );
    let relax = json!(["ALLOW_FIELD_RELAXATION"]);
    local
        .load(json_load(&relaxed, relax.clone()), "{\"b\":\"y\"}")
        .await;
    assert_eq!(local.first_column(ROWS).await, ["1", "NULL"]);
    let table = local.get("datasets/d/tables/t").await.ok();
    assert_eq!(
        table["schema"]["fields"],
        json!([
            {"name": "a", "type": "INTEGER", "mode": "NULLABLE"},
            {"name": "b", "type": "STRING", "mode": "NULLABLE"}
        ])
    );
    let mut truncating = json_load(&relaxed, relax);
    truncating["writeDisposition"] = json!("WRITE_TRUNCATE");
    let job = local.load(truncating, "{\"b\":\"y\"}").await;
    assert!(
        error(&job)
            .1
            .starts_with("Schema update options should only"),
        "{job}"
    );
}

#[tokio::test]
async fn required_columns_refuse_null_in_every_format() {
    let local = Local::with_dataset().await;
    local
        .table(fields(&[("a", "INTEGER!")])["fields"].clone())
        .await;
    let csv = local.load(json!({"nullMarker": "-"}), "-\n").await;
    assert_eq!(error(&csv).0, "invalid");
    let json_format = json!({"sourceFormat": "NEWLINE_DELIMITED_JSON"});
    let job = local.load(json_format, "{\"a\":null}").await;
    assert!(
        job["status"]["errors"][1]["message"]
            .as_str()
            .unwrap()
            .contains("Field: a"),
        "{job}"
    );
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    let explicit = json!({"sourceFormat": "PARQUET", "schema": fields(&[("a", "INTEGER!")])});
    let job = local.load(explicit, parquet(vec![("a", column)])).await;
    assert!(error(&job).1.contains("Field: a; Row: 1"), "{job}");
    assert!(local.first_column(ROWS).await.is_empty());
}

#[tokio::test]
async fn parquet_brings_its_columns_and_appends_by_name() {
    let local = Local::with_dataset().await;
    let load = json!({"sourceFormat": "PARQUET"});
    let first = parquet(vec![
        ("a", Arc::new(Int64Array::from(vec![1]))),
        ("b", Arc::new(StringArray::from(vec!["x"]))),
    ]);
    local.load(load.clone(), first).await;
    let second = parquet(vec![
        ("b", Arc::new(StringArray::from(vec!["y"]))),
        ("a", Arc::new(Int64Array::from(vec![2]))),
    ]);
    local.load(load.clone(), second).await;
    assert_eq!(local.first_column(ROWS).await, ["1", "2"]);
    let wrong = parquet(vec![("a", Arc::new(StringArray::from(vec!["z"])))]);
    let job = local.load(load, wrong).await;
    assert_eq!(
        error(&job).1,
        "Provided Schema does not match Table local:d.t. Field a has changed type from INTEGER to STRING"
    );
}

#[tokio::test]
async fn partitions_are_written_alone() {
    let local = Local::with_dataset().await;
    local
        .table_with(json!({
            "schema": fields(&[("a", "INTEGER"), ("d", "DATE")]),
            "timePartitioning": {"type": "DAY", "field": "d"}
        }))
        .await;
    local.load(json!({}), "1,2024-01-01\n2,2024-01-02\n").await;
    let into = |id: &str| {
        json!({
            "destinationTable": {"projectId": PROJECT, "datasetId": "d", "tableId": format!("t${id}")},
            "writeDisposition": "WRITE_TRUNCATE"
        })
    };
    local.load(into("20240101"), "3,2024-01-01\n").await;
    let mut rows = local.first_column(ROWS).await;
    rows.sort();
    assert_eq!(rows, ["2", "3"]);
    let job = local.load(into("20240101"), "4,2024-01-02\n").await;
    assert!(error(&job).1.contains("different partitions"), "{job}");
    let job = local.load(into("2024"), "4,2024-01-02\n").await;
    assert_eq!(error(&job).0, "invalid");
}

#[tokio::test]
async fn partitions_by_arrival_are_replaced_by_decorator() {
    let local = Local::with_dataset().await;
    local
        .table_with(json!({
            "schema": fields(&[("a", "INTEGER")]), "timePartitioning": {"type": "DAY"}
        }))
        .await;
    let into = |id: &str, write: &str| {
        json!({
            "destinationTable": {"projectId": PROJECT, "datasetId": "d", "tableId": format!("t${id}")},
            "writeDisposition": write
        })
    };
    local.load(into("20240101", "WRITE_APPEND"), "1\n").await;
    local.load(into("20240102", "WRITE_APPEND"), "2\n").await;
    local.load(json!({}), "3\n").await;
    local.load(into("20240101", "WRITE_TRUNCATE"), "4\n").await;
    let one = local
        .first_column("datasets/d/tables/t$20240101/data")
        .await;
    assert_eq!(one, ["4"]);
    let mut all = local.first_column(ROWS).await;
    all.sort();
    assert_eq!(all, ["2", "3", "4"]);
}

#[tokio::test]
async fn what_is_missing_is_said_at_submission() {
    let local = Local::with_dataset().await;
    let mut elsewhere = load_job(json!({"schema": fields(&[("a", "INTEGER")])}));
    elsewhere["jobReference"] = json!({"projectId": PROJECT, "location": "EU"});
    let message = local
        .upload(&elsewhere, b"1\n")
        .await
        .error(404, "notFound");
    assert_eq!(
        message,
        "Not found: Dataset local:d was not found in location EU"
    );
    let nowhere = load_job(json!({
        "destinationTable": {"projectId": PROJECT, "datasetId": "none", "tableId": "t"}
    }));
    let message = local.upload(&nowhere, b"1\n").await.error(404, "notFound");
    assert_eq!(message, "Not found: Dataset local:none");
    for (config, words) in [
        (
            json!({"sourceFormat": "ORC"}),
            "ORC is not supported by bigquery-local",
        ),
        (
            json!({"sourceFormat": "PARQUET", "schema": fields(&[("j", "JSON")])}),
            "Unsupported field type: JSON",
        ),
        (json!({"writeDisposition": "WRITE_MAYBE"}), "WRITE_MAYBE"),
        (
            json!({"destinationTable": {"projectId": PROJECT, "datasetId": "d", "tableId": "a/b"}}),
            "a/b",
        ),
    ] {
        let message = local
            .upload(&load_job(config), b"")
            .await
            .error(400, "invalid");
        assert!(message.contains(words), "{message}");
    }
    let no_file = local.post("jobs", load_job(json!({}))).await;
    let message = no_file.error(400, "invalid");
    assert!(message.contains("sourceUris"), "{message}");
}

#[tokio::test]
async fn damaged_files_are_errors_of_the_job() {
    let local = Local::with_dataset().await;
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let good = parquet(vec![("a", column)]);
    for at in (0..good.len()).step_by(7) {
        let mut damaged = good.clone();
        damaged[at] ^= 0x55;
        let job = local
            .load(
                json!({"sourceFormat": "PARQUET", "writeDisposition": "WRITE_TRUNCATE"}),
                damaged,
            )
            .await;
        // Some bytes do not matter; none may break the server.
        let reason = job["status"]["errorResult"]["reason"].as_str();
        assert!(matches!(reason, None | Some("invalid")), "{at}: {job}");
    }
}
