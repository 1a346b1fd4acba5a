//! Change data capture: rows that replace and delete rows by their key.

use std::collections::BTreeMap;

use googleapis_storage::google::cloud::bigquery::storage::v1 as api;
use prost_types::DescriptorProto;
use prost_types::field_descriptor_proto::Type;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tonic::Code;

use api::append_rows_request::Rows;
use api::write_stream::Type as Kind;
use api::{AppendRowsRequest, ArrowSchema};

use crate::append::{
    Connection, Writer, appended, bad_rows, bytes, default_stream, field, int, message, query,
    refused, request, simple, simple_rows,
};
use crate::harness::Local;

/// `(id, s, n)` and the pseudocolumns, as fields 1 to 5.
pub(crate) fn changes() -> DescriptorProto {
    message(
        "Row",
        vec![
            field(1, "id", Type::Int64),
            field(2, "s", Type::String),
            field(3, "n", Type::Int64),
            field(4, "_CHANGE_TYPE", Type::String),
            field(5, "_CHANGE_SEQUENCE_NUMBER", Type::String),
        ],
    )
}

pub(crate) fn upsert(id: i64, s: &str, number: &str) -> Vec<u8> {
    let mut row = [int(1, id), bytes(2, s), int(3, 1), bytes(4, "UPSERT")].concat();
    if !number.is_empty() {
        row.extend(bytes(5, number));
    }
    row
}

pub(crate) fn delete(id: i64, number: &str) -> Vec<u8> {
    let mut row = [int(1, id), bytes(4, "DELETE")].concat();
    if !number.is_empty() {
        row.extend(bytes(5, number));
    }
    row
}

/// The columns of a table with a key, one of which a deletion lacks and has to have.
pub(crate) fn keyed() -> Value {
    json!({
        "schema": {"fields": [
            {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
            {"name": "s", "type": "STRING"},
            {"name": "n", "type": "INTEGER", "mode": "REQUIRED"},
        ]},
        "tableConstraints": {"primaryKey": {"columns": ["id"]}},
    })
}

async fn start() -> (Local, Writer) {
    let local = Local::with_dataset().await;
    local.table_with(keyed()).await;
    let writer = Writer::of(&local).await;
    (local, writer)
}

async fn send(connection: &mut Connection, rows: Vec<Vec<u8>>) {
    let request = request(&default_stream(), Some(&changes()), rows);
    assert_eq!(appended(connection.send(request).await), None);
}

async fn rows(local: &Local) -> Vec<(String, String)> {
    let text = |cell: &Value| cell.as_str().unwrap_or("NULL").to_string();
    query(local, "SELECT id, s FROM d.t ORDER BY id")
        .await
        .iter()
        .map(|row| (text(&row[0]), text(&row[1])))
        .collect()
}

fn pairs(expected: &[(i64, &str)]) -> Vec<(String, String)> {
    let owned = expected.iter();
    owned
        .map(|(id, s)| (id.to_string(), (*s).to_string()))
        .collect()
}

#[tokio::test]
async fn the_last_change_of_a_key_counts() {
    let (local, writer) = start().await;
    let mut connection = writer.connect();
    send(
        &mut connection,
        vec![upsert(1, "a", ""), upsert(2, "b", ""), upsert(3, "c", "")],
    )
    .await;
    send(
        &mut connection,
        vec![upsert(2, "B", ""), delete(1, ""), delete(9, "")],
    )
    .await;
    assert_eq!(rows(&local).await, pairs(&[(2, "B"), (3, "c")]));
    send(
        &mut connection,
        vec![
            upsert(1, "x", ""),
            upsert(1, "y", ""),
            delete(3, ""),
            upsert(3, "z", ""),
        ],
    )
    .await;
    assert_eq!(rows(&local).await, pairs(&[(1, "y"), (2, "B"), (3, "z")]));
    let table = local.get("datasets/d/tables/t").await.ok();
    assert_eq!(table["numRows"], "3");
    assert_eq!(table["schema"]["fields"].as_array().unwrap().len(), 3);
    let listed = local.get("datasets/d/tables/t/data").await.ok();
    assert_eq!(listed["totalRows"], "3");
    assert_eq!(listed["rows"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn greater_numbers_win_and_deleted_keys_keep_theirs() {
    let (local, writer) = start().await;
    let mut connection = writer.connect();
    send(
        &mut connection,
        vec![
            upsert(1, "new", "FFF/ABC"),
            upsert(1, "old", "FFF/B"),
            upsert(2, "x", "7B"),
            upsert(2, "y", "77"),
            upsert(3, "a", "1"),
            delete(3, "5"),
            upsert(3, "late", "3"),
            delete(4, "9"),
        ],
    )
    .await;
    assert_eq!(rows(&local).await, pairs(&[(1, "new"), (2, "x")]));
    // What loses is acknowledged too.
    send(
        &mut connection,
        vec![
            upsert(1, "older", "ABC"),
            delete(2, "7A"),
            upsert(4, "older", "8"),
        ],
    )
    .await;
    assert_eq!(rows(&local).await, pairs(&[(1, "new"), (2, "x")]));
    send(
        &mut connection,
        vec![upsert(2, "equal", "7b"), upsert(3, "again", "6")],
    )
    .await;
    assert_eq!(
        rows(&local).await,
        pairs(&[(1, "new"), (2, "equal"), (3, "again")])
    );
    // Another connection sees what the first wrote.
    let mut other = writer.connect();
    send(
        &mut other,
        vec![upsert(3, "less", "5"), upsert(4, "more", "A")],
    )
    .await;
    assert_eq!(
        rows(&local).await,
        pairs(&[(1, "new"), (2, "equal"), (3, "again"), (4, "more")])
    );
}

#[tokio::test]
async fn rows_that_were_appended_are_replaced_and_the_past_is_kept() {
    let (local, writer) = start().await;
    local
        .insert(&[
            json!({"id": 1, "s": "plain", "n": 0}),
            json!({"id": 1, "s": "twice", "n": 0}),
            json!({"id": 2, "s": "kept", "n": 0}),
        ])
        .await;
    let before = query(&local, "SELECT CAST(CURRENT_TIMESTAMP() AS STRING)").await;
    let before = before[0][0].as_str().unwrap().to_string();
    let mut connection = writer.connect();
    send(&mut connection, vec![upsert(1, "changed", "")]).await;
    assert_eq!(rows(&local).await, pairs(&[(1, "changed"), (2, "kept")]));
    // Appending goes on beside it.
    local
        .insert(&[
            json!({"id": 1, "s": "again", "n": 0}),
            json!({"id": 5, "s": "five", "n": 0}),
        ])
        .await;
    send(&mut connection, vec![delete(1, ""), upsert(5, "FIVE", "")]).await;
    assert_eq!(rows(&local).await, pairs(&[(2, "kept"), (5, "FIVE")]));
    let past = query(
        &local,
        &format!("SELECT s FROM d.t FOR SYSTEM_TIME AS OF TIMESTAMP '{before}' ORDER BY s"),
    )
    .await;
    assert_eq!(past, [json!(["kept"]), json!(["plain"]), json!(["twice"])]);
}

#[tokio::test]
async fn what_cannot_be_a_change_is_refused() {
    let (local, writer) = start().await;
    let stream = default_stream();
    for (row, why) in [
        (upsert(1, "a", "xyz"), "_CHANGE_SEQUENCE_NUMBER"),
        (upsert(1, "a", "1/2/3/4/5"), "_CHANGE_SEQUENCE_NUMBER"),
        (
            [int(1, 1), int(3, 1), bytes(4, "MERGE")].concat(),
            "not a valid CHANGE_TYPE: MERGE",
        ),
        ([int(1, 1), int(3, 1)].concat(), "not a valid CHANGE_TYPE"),
        (
            [int(1, 1), bytes(4, "UPSERT")].concat(),
            "Field n is required",
        ),
        (bytes(4, "DELETE"), "Field id is required"),
    ] {
        let good = upsert(7, "good", "1");
        let request = request(&stream, Some(&changes()), vec![good, row]);
        let found = bad_rows(writer.connect().send(request).await);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, 1);
        assert!(found[0].1.contains(why), "{found:?}");
    }
    assert_eq!(rows(&local).await, []);

    let mut mixed = writer.connect();
    send(&mut mixed, vec![upsert(1, "a", "")]).await;
    let plain = message(
        "Row",
        vec![field(1, "id", Type::Int64), field(3, "n", Type::Int64)],
    );
    let row = [int(1, 2), int(3, 1)].concat();
    let (code, text) = refused(
        mixed
            .send(request(&stream, Some(&plain), vec![row.clone()]))
            .await,
    );
    assert_eq!(code, Code::InvalidArgument);
    assert!(
        text.starts_with("The given value is not a valid CHANGE_TYPE"),
        "{text}"
    );
    // Apart from it, both may be.
    appended(
        writer
            .connect()
            .send(request(&stream, Some(&plain), vec![row]))
            .await,
    );

    let created = writer.create(Kind::Committed).await;
    let (code, text) = refused(
        writer
            .connect()
            .send(request(
                &created,
                Some(&changes()),
                vec![upsert(3, "c", "")],
            ))
            .await,
    );
    assert_eq!(code, Code::InvalidArgument);
    assert!(
        text.contains("not a valid CHANGE_TYPE in insert mode: UPSERT"),
        "{text}"
    );

    let schema = arrow::datatypes::Schema::new(vec![
        arrow::datatypes::Field::new("id", arrow::datatypes::DataType::Int64, false),
        arrow::datatypes::Field::new("_CHANGE_TYPE", arrow::datatypes::DataType::Utf8, false),
    ]);
    let generator = arrow::ipc::writer::IpcDataGenerator::default();
    let mut tracker = arrow::ipc::writer::DictionaryTracker::new(false);
    let options = arrow::ipc::writer::IpcWriteOptions::default();
    let encoded =
        generator.schema_to_bytes_with_dictionary_tracker(&schema, &mut tracker, &options);
    let mut framed = Vec::new();
    arrow::ipc::writer::write_message(&mut framed, encoded, &options).unwrap();
    let arrow_rows = AppendRowsRequest {
        write_stream: stream.clone(),
        rows: Some(Rows::ArrowRows(api::append_rows_request::ArrowData {
            writer_schema: Some(ArrowSchema {
                serialized_schema: framed.into(),
            }),
            rows: Some(api::ArrowRecordBatch::default()),
        })),
        ..AppendRowsRequest::default()
    };
    let (code, text) = refused(writer.connect().send(arrow_rows).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(text.contains("protobuf"), "{text}");

    let keyless = Local::with_dataset().await;
    keyless.table(keyed()["schema"]["fields"].clone()).await;
    let writer = Writer::of(&keyless).await;
    let sent = request(&stream, Some(&changes()), vec![upsert(1, "a", "")]);
    let (code, text) = refused(writer.connect().send(sent).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(text.contains("primary key"), "{text}");
    appended(
        writer
            .connect()
            .send(request(
                &stream,
                Some(&simple_with_n()),
                vec![[simple_rows(0..1).concat(), int(3, 1)].concat()],
            ))
            .await,
    );
}

fn simple_with_n() -> DescriptorProto {
    let mut row = simple();
    row.field.push(field(3, "n", Type::Int64));
    row
}

#[tokio::test]
async fn statements_that_change_rows_are_refused_until_all_rows_are_replaced() {
    let (local, writer) = start().await;
    let run = |sql: &'static str| {
        let local = &local;
        async move {
            local
                .post("queries", json!({"query": sql, "useLegacySql": false}))
                .await
        }
    };
    run("INSERT d.t (id, s, n) VALUES (1, 'a', 1), (2, 'b', 1)")
        .await
        .ok();
    run("UPDATE d.t SET s = 'A' WHERE id = 1").await.ok();
    let mut connection = writer.connect();
    send(&mut connection, vec![upsert(2, "B", "5")]).await;
    for sql in [
        "UPDATE d.t SET s = 'x' WHERE id = 1",
        "DELETE FROM d.t WHERE id = 1",
        "MERGE d.t AS t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ] {
        let text = run(sql).await.error(400, "invalidQuery");
        assert!(text.contains("change data capture"), "{sql}: {text}");
    }
    run("INSERT d.t (id, s, n) VALUES (3, 'c', 1)").await.ok();
    assert_eq!(rows(&local).await, pairs(&[(1, "A"), (2, "B"), (3, "c")]));
    // Columns come and go beside it, and the order is not forgotten.
    run("ALTER TABLE d.t ADD COLUMN more STRING").await.ok();
    run("ALTER TABLE d.t DROP COLUMN more").await.ok();
    send(&mut connection, vec![upsert(2, "late", "4")]).await;
    assert_eq!(rows(&local).await, pairs(&[(1, "A"), (2, "B"), (3, "c")]));
    run("TRUNCATE TABLE d.t").await.ok();
    send(&mut connection, vec![]).await;
    run("INSERT d.t (id, s, n) VALUES (1, 'a', 1)").await.ok();
    run("DELETE FROM d.t WHERE id = 1").await.ok();
    send(&mut connection, vec![upsert(2, "anew", "1")]).await;
    assert_eq!(rows(&local).await, pairs(&[(2, "anew")]));
}

#[tokio::test]
async fn staleness_is_set_by_statements_only() {
    let (local, _writer) = start().await;
    let shown = "SELECT option_value FROM d.INFORMATION_SCHEMA.TABLE_OPTIONS \
                 WHERE table_name = 't' AND option_name = 'max_staleness'";
    assert!(query(&local, shown).await.is_empty());
    let run = |sql: &'static str| {
        let local = &local;
        async move {
            local
                .post("queries", json!({"query": sql, "useLegacySql": false}))
                .await
                .ok()
        }
    };
    let patched = local
        .patch(
            "datasets/d/tables/t",
            json!({"maxStaleness": "0-0 0 0:15:0"}),
        )
        .await
        .ok();
    assert_eq!(patched["maxStaleness"], Value::Null);
    assert!(query(&local, shown).await.is_empty());
    run("ALTER TABLE d.t SET OPTIONS (max_staleness = INTERVAL 10 MINUTE)").await;
    assert_eq!(query(&local, shown).await, [json!(["0-0 0 0:10:0"])]);
    assert_eq!(
        local.get("datasets/d/tables/t").await.ok()["maxStaleness"],
        Value::Null
    );
    run("ALTER TABLE d.t SET OPTIONS (max_staleness = NULL)").await;
    assert_eq!(query(&local, shown).await, [json!(["0-0 0 0:0:0"])]);
    run(
        "CREATE TABLE d.u (id INT64, PRIMARY KEY (id) NOT ENFORCED) \
         OPTIONS (max_staleness = INTERVAL '0:15:0' HOUR TO SECOND)",
    )
    .await;
    let of_u = query(&local, &shown.replace("'t'", "'u'")).await;
    assert_eq!(of_u, [json!(["0-0 0 0:15:0"])]);
}

/// What a table holds after changes: for each key the newest change's number and text.
#[derive(Default)]
struct Model(BTreeMap<i64, (Option<u64>, Option<String>)>);

impl Model {
    fn change(&mut self, id: i64, number: Option<u64>, s: Option<String>) {
        let newest = self.0.entry(id).or_default();
        if number >= newest.0 {
            *newest = (number, s);
        }
    }

    fn rows(&self) -> Vec<(String, String)> {
        let live = self.0.iter();
        live.filter_map(|(id, (_, s))| Some((id.to_string(), s.clone()?)))
            .collect()
    }
}

/// Many small requests, and some large ones, over two connections in turn.
#[expect(
    clippy::print_stdout,
    reason = "the seed tells how to see a failure again"
)]
#[tokio::test(flavor = "multi_thread")]
async fn long_histories_end_as_they_should() {
    let seed = std::env::var("BIGQUERY_LOCAL_SEED")
        .map_or_else(|_| rand::random(), |s| s.parse().unwrap());
    println!("BIGQUERY_LOCAL_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (local, writer) = start().await;
    let mut connections = [writer.connect(), writer.connect()];
    let mut model = Model::default();
    for round in 0..120 {
        let count = if round % 40 == 39 {
            8_000
        } else {
            random.random_range(1..20)
        };
        let mut sent = Vec::with_capacity(count);
        for change in 0..count {
            let id = random.random_range(0..if count > 20 { 3_000 } else { 60 });
            let number = random.random_range(0..1_000 + 50 * round);
            let text = format!("{round}.{change}");
            let hex = format!("{number:X}");
            if random.random_ratio(1, 3) {
                model.change(id, Some(number), None);
                sent.push(delete(id, &hex));
            } else {
                model.change(id, Some(number), Some(text.clone()));
                sent.push(upsert(id, &text, &hex));
            }
        }
        let connection = &mut connections[random.random_range(0..2)];
        send(connection, sent).await;
        if round % 10 == 9 {
            assert_eq!(rows(&local).await, model.rows(), "round {round}");
        }
    }
}
