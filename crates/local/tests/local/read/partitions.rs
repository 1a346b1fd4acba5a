use serde_json::json;
use tonic::Code;

use super::*;

const DAY: i64 = 86_400_000_000;

async fn ingested(local: &Local) {
    local
        .table_with(json!({
            "schema": {"fields": [{"name": "id", "type": "INTEGER"}]},
            "timePartitioning": {"type": "DAY"},
            "requirePartitionFilter": true,
        }))
        .await;
    for day in 0..3 {
        append(
            local,
            vec![Arc::new(Int64Array::from(vec![day]))],
            Some((19_000 + day) * DAY),
        );
    }
}

#[tokio::test]
async fn pseudo_columns_can_be_filtered_and_selected() {
    let (local, reader) = start(64 << 20).await;
    ingested(&local).await;
    let session = reader
        .session(restricted("_PARTITIONTIME >= TIMESTAMP '2022-01-09'"))
        .await;
    assert_eq!(reader.numbers(&session).await, [1, 2]);
    assert_eq!(super::arrow_schema(&session).fields().len(), 1);
    let mut request = selecting(&["_PARTITIONDATE", "id", "_partitiontime"]);
    session_of(&mut request)
        .read_options
        .as_mut()
        .unwrap()
        .row_restriction = "_PARTITIONDATE = '2022-01-10'".into();
    let session = reader.session(request).await;
    let rows = reader.rows(&session).await;
    let names: Vec<_> = rows
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    assert_eq!(names, ["id", "_PARTITIONDATE", "_PARTITIONTIME"]);
    assert_eq!(numbers(&rows), [2]);
    let date = rows
        .column(1)
        .as_primitive::<arrow::datatypes::Date32Type>();
    assert_eq!(date.value(0), 19_002);
}

#[tokio::test]
async fn a_required_filter_is_required() {
    let (local, reader) = start(64 << 20).await;
    ingested(&local).await;
    for text in ["", "id = 1", "id = 1 OR _PARTITIONDATE = '2022-01-10'"] {
        let error = reader.try_session(restricted(text)).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(
            error.message(),
            "request failed: Query error: Cannot query over table 'local.d.t' without a filter over column(s) '_PARTITION_LOAD_TIME', '_PARTITIONDATE', '_PARTITIONTIME' that can be used for partition elimination"
        );
    }
    local.delete("datasets/d/tables/t").await;
    local
        .table_with(json!({
            "schema": {"fields": [{"name": "id", "type": "INTEGER"}, {"name": "day", "type": "DATE"}]},
            "timePartitioning": {"type": "DAY", "field": "day"},
            "requirePartitionFilter": true,
        }))
        .await;
    let error = reader.try_session(restricted("id = 1")).await.unwrap_err();
    assert!(error.message().contains("column(s) 'day' that"), "{error}");
    for text in ["day > '2024-01-01' AND id = 1", "day IS NOT NULL"] {
        reader.session(restricted(text)).await;
    }
}
