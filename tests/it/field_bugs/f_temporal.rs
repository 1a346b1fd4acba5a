//! Temporal values, read.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use serde_json::{Value, json};

use super::one_table::Table;
use crate::harness::{rows, text};
use crate::round_trip::shown;

/// Column `x` in the order of ids.
async fn read(table: &Table) -> Vec<String> {
    let batches = rows(&table.context, "SELECT x FROM bq.d.t ORDER BY id").await;
    let column = |batch: &datafusion::arrow::array::RecordBatch| {
        (0..batch.num_rows())
            .map(|index| shown(batch.column(0), index))
            .collect::<Vec<_>>()
    };
    batches.iter().flat_map(column).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn f01_a_datetime_before_1970_is_exact() {
    let table = Table::of(
        "DATETIME",
        &["1969-12-31 23:59:59.999999", "1969-12-31 00:00:00"],
    )
    .await;
    assert_eq!(read(&table).await, ["-1", "-86400000000"]);
    let printed = text(&table.context, "SELECT x FROM bq.d.t WHERE id = 0").await;
    assert!(printed.contains("1969-12-31T23:59:59.999999"), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f02_an_instant_does_not_depend_on_the_sessions_zone() {
    let table = Table::of("TIMESTAMP", &["2024-03-31 01:30:00.000001Z"]).await;
    let here = read(&table).await;
    table
        .context
        .sql("SET datafusion.execution.time_zone = '+09:00'")
        .await
        .unwrap();
    assert_eq!(read(&table).await, here);
    assert_eq!(here, ["1711848600000001"]);
    assert_eq!(
        table
            .ids("x = TIMESTAMP '2024-03-31T01:30:00.000001Z'")
            .await,
        [0]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn f04_the_ends_of_the_calendar_are_read_and_compared() {
    for (kind, first, last) in [
        ("DATE", "0001-01-01", "9999-12-31"),
        (
            "DATETIME",
            "0001-01-01 00:00:00",
            "9999-12-31 23:59:59.999999",
        ),
        (
            "TIMESTAMP",
            "0001-01-01 00:00:00Z",
            "9999-12-31 23:59:59.999999Z",
        ),
    ] {
        let table = Table::of(kind, &[first, last]).await;
        let ends = match kind {
            "DATE" => ["-719162", "2932896"],
            _ => ["-62135596800000000", "253402300799999999"],
        };
        assert_eq!(read(&table).await, ends, "{kind}");
        assert_eq!(table.ids("x > DATE '2000-01-01'").await, [1], "{kind}");
        assert_eq!(table.ids("x < DATE '2000-01-01'").await, [0], "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f05_a_null_timestamp_is_null_nested_too() {
    let fields = json!([
        {"name": "x", "type": "TIMESTAMP"},
        {"name": "s", "type": "RECORD", "fields": [{"name": "x", "type": "TIMESTAMP"}]},
    ]);
    let values = vec![
        json!({"x": null, "s": {"x": null}}),
        json!({"x": null, "s": null}),
        json!({"x": "1970-01-01 00:00:00Z", "s": {"x": "1970-01-01 00:00:00Z"}}),
    ];
    let table = Table::new(fields, values).await;
    assert_eq!(read(&table).await, ["NULL", "NULL", "0"]);
    assert_eq!(table.ids("s['x'] IS NULL").await, [0, 1]);
    assert_eq!(
        table.ids("s['x'] = TIMESTAMP '1970-01-01T00:00:00Z'").await,
        [2]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn f08_datetime_and_timestamp_are_two_types() {
    let fields = json!([
        {"name": "civil", "type": "DATETIME"},
        {"name": "instant", "type": "TIMESTAMP"},
    ]);
    let table = Table::new(fields, vec![json!({"civil": Value::Null})]).await;
    let batches = rows(&table.context, "SELECT civil, instant FROM bq.d.t").await;
    let schema = batches[0].schema();
    let micros =
        |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
    assert_eq!(schema.field(0).data_type(), &micros(None));
    assert_eq!(schema.field(1).data_type(), &micros(Some("UTC")));
    let mark = schema.field(0).metadata().get("ARROW:extension:name");
    assert_eq!(mark.map(String::as_str), Some("google:sqlType:datetime"));
}
