//! Decimals, nested values, JSON, RANGE and INTERVAL, read.

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use serde_json::{Value, json};

use super::one_table::Table;
use crate::harness::{rows, text};
use crate::round_trip::shown;

async fn read(table: &Table, expression: &str) -> Vec<String> {
    let query = format!("SELECT {expression} FROM bq.d.t ORDER BY id");
    let batches = rows(&table.context, &query).await;
    let column = |batch: &RecordBatch| {
        (0..batch.num_rows())
            .map(|index| shown(batch.column(0), index))
            .collect::<Vec<_>>()
    };
    batches.iter().flat_map(column).collect()
}

async fn type_of(table: &Table, column: &str) -> DataType {
    let batches = rows(&table.context, &format!("SELECT {column} FROM bq.d.t")).await;
    batches[0].schema().field(0).data_type().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn g01_decimals_without_parameters_have_the_types_own() {
    let fields = json!([
        {"name": "n", "type": "NUMERIC"},
        {"name": "b", "type": "BIGNUMERIC"},
    ]);
    let smallest = format!("0.{}1", "0".repeat(37));
    let values = vec![json!({"n": "1.000000001", "b": smallest})];
    let table = Table::new(fields, values).await;
    assert_eq!(type_of(&table, "n").await, DataType::Decimal128(38, 9));
    assert_eq!(type_of(&table, "b").await, DataType::Decimal256(76, 38));
    assert_eq!(read(&table, "n").await, ["1000000001"]);
    assert_eq!(read(&table, "b").await, ["1"]);
    assert_eq!(table.ids("b > 0").await, [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g02_declared_precision_and_scale_are_honoured() {
    let fields = json!([{"name": "n", "type": "NUMERIC", "precision": "10", "scale": "2"}]);
    let table = Table::new(fields, vec![json!({"n": "12345678.90"})]).await;
    assert_eq!(type_of(&table, "n").await, DataType::Decimal128(10, 2));
    assert_eq!(read(&table, "n").await, ["1234567890"]);
    let literal = "CAST('12345678.90' AS DECIMAL(10, 2))";
    assert_eq!(table.ids(&format!("n = {literal}")).await, [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g04_g05_structs_in_structs_with_lists_in_them() {
    let fields = json!([{"name": "details", "type": "RECORD", "fields": [
        {"name": "order", "type": "RECORD", "fields": [
            {"name": "Order_Id", "type": "INTEGER"},
            {"name": "Item_Name", "type": "INTEGER", "mode": "REPEATED"},
        ]},
    ]}]);
    let values = vec![
        json!({"details": {"order": {"Order_Id": 2, "Item_Name": [1, 2]}}}),
        json!({"details": {"order": null}}),
    ];
    let table = Table::new(fields, values).await;
    assert_eq!(read(&table, "details").await, ["{{2, [1, 2]}}", "{NULL}"]);
    assert_eq!(
        read(&table, "details['order']['Item_Name']").await,
        ["[1, 2]", "NULL"]
    );
    let asked = table.server.sessions().pop().unwrap().selected_fields;
    assert_eq!(asked, ["id", "details.order.Item_Name"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g06_arrays_of_structs_are_read_in_depth() {
    let fields = json!([{"name": "items", "type": "RECORD", "mode": "REPEATED", "fields": [
        {"name": "at", "type": "DATETIME"},
        {"name": "parts", "type": "RECORD", "mode": "REPEATED", "fields": [
            {"name": "n", "type": "NUMERIC"},
        ]},
    ]}]);
    let values = vec![
        json!({"items": [
            {"at": "1969-12-31 23:59:59", "parts": [{"n": "1.5"}, {}]},
            {"at": null, "parts": []},
        ]}),
        json!({}),
    ];
    let table = Table::new(fields, values).await;
    assert_eq!(
        read(&table, "items").await,
        ["[{-1000000, [{1500000000}, {NULL}]}, {NULL, []}]", "[]"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn g08_a_range_is_a_struct_and_unbounded_is_not_null() {
    let range = |of: &str| json!({"name": "x", "type": "RANGE", "rangeElementType": {"type": of}});
    let values = vec![
        json!({"x": "[2024-01-01, 2025-01-01)"}),
        json!({"x": "[UNBOUNDED, 2025-01-01)"}),
        json!({"x": "[UNBOUNDED, UNBOUNDED)"}),
        json!({"x": Value::Null}),
    ];
    let table = Table::new(json!([range("DATE")]), values).await;
    assert_eq!(
        read(&table, "x").await,
        ["{19723, 20089}", "{NULL, 20089}", "{NULL, NULL}", "NULL"]
    );
    assert_eq!(table.ids("x IS NULL").await, [3]);
    assert_eq!(table.ids("x['start'] IS NULL").await, [1, 2, 3]);
    assert_eq!(
        read(&table, "x['end']").await,
        ["20089", "20089", "NULL", "NULL"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn g10_an_empty_table_has_its_schema() {
    let kinds = ["JSON", "INTERVAL", "GEOGRAPHY", "BIGNUMERIC"];
    for kind in kinds {
        let table = Table::of(kind, &[]).await;
        let plan = table.context.sql("SELECT x FROM bq.d.t").await.unwrap();
        let planned = plan.schema().inner().clone();
        let batches = plan.collect().await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
        for batch in &batches {
            assert_eq!(
                batch.schema().field(0).data_type(),
                planned.field(0).data_type()
            );
        }
        let counted = text(&table.context, "SELECT count(x) AS n FROM bq.d.t").await;
        assert!(counted.contains("| 0 |"), "{counted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g12_an_array_is_never_null() {
    let fields = json!([{"name": "x", "type": "STRING", "mode": "REPEATED"}]);
    let values = vec![json!({}), json!({"x": []}), json!({"x": ["", "a"]})];
    let table = Table::new(fields, values).await;
    assert_eq!(read(&table, "x").await, ["[]", "[]", "[\"\", \"a\"]"]);
    assert_eq!(table.ids("x IS NULL").await, [0_i64; 0]);
    assert_eq!(table.ids("cardinality(x) = 0").await, [0, 1]);
    let batches = rows(&table.context, "SELECT x FROM bq.d.t").await;
    assert_eq!(
        batches[0].column(0).as_list::<i32>().values().null_count(),
        0
    );
}
