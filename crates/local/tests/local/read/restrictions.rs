use serde_json::json;

use super::api::read_session::TableReadOptions;
use super::*;

#[tokio::test]
async fn rows_are_filtered_exactly_and_over_columns_not_selected() {
    let (local, reader) = start(64 << 20).await;
    local
        .table(json!([
            {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
            {"name": "s", "type": "STRING"},
            {"name": "f", "type": "FLOAT"},
            {"name": "d", "type": "DATE"},
            {"name": "st", "type": "RECORD", "fields": [{"name": "x", "type": "INTEGER"}]},
        ]))
        .await;
    let rows: Vec<_> = (0..1000)
        .map(|i| {
            json!({
                "id": i, "s": (i % 10 != 0).then(|| format!("s{}", i % 7)), "f": f64::from(i) / 4.0,
                "d": format!("2024-01-{:02}", i % 28 + 1), "st": {"x": i * 2}})
        })
        .collect();
    for half in rows.chunks(500) {
        local.insert(half).await;
    }
    let filter = |text: &str| {
        with_options(TableReadOptions {
            selected_fields: vec!["id".into()],
            row_restriction: text.into(),
            ..TableReadOptions::default()
        })
    };
    for (text, keep) in [
        (
            "id >= 10 AND id < 20",
            (|i| (10..20).contains(&i)) as fn(i64) -> bool,
        ),
        ("s IS NULL", |i| i % 10 == 0),
        ("s = 's3'", |i| i % 10 != 0 && i % 7 == 3),
        ("s NOT IN ('s3', 's4')", |i| {
            i % 10 != 0 && ![3, 4].contains(&(i % 7))
        }),
        ("d = '2024-01-05'", |i| i % 28 == 4),
        ("f > 249.0", |i| i > 996),
        ("st.x = 14", |i| i == 7),
    ] {
        let session = reader.session(filter(text)).await;
        let want: Vec<i64> = (0..1000).filter(|i| keep(*i)).collect();
        assert_eq!(reader.numbers(&session).await, want, "{text}");
        assert_eq!(super::arrow_schema(&session).fields().len(), 1);
    }
}
