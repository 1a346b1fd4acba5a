use serde_json::{Map, Value, json};

use super::api::AvroSerializationOptions;
use super::api::read_session::TableReadOptions;
use super::api::read_session::table_read_options::OutputFormatSerializationOptions;
use super::*;

/// Reads datums by their schema, for what this server writes.
struct Datums<'a> {
    bytes: &'a [u8],
    named: Map<String, Value>,
}

impl Datums<'_> {
    fn take(&mut self, n: usize) -> &[u8] {
        let (head, rest) = self.bytes.split_at(n);
        self.bytes = rest;
        head
    }

    fn long(&mut self) -> i64 {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.take(1)[0];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return (value >> 1) as i64 ^ -((value & 1) as i64);
            }
        }
    }

    fn value(&mut self, schema: &Value) -> Value {
        match schema {
            Value::Array(union) => {
                let branch = self.long();
                self.value(&union[branch as usize])
            }
            Value::String(name) => match name.as_str() {
                "null" => Value::Null,
                "boolean" => json!(self.take(1)[0] == 1),
                "int" | "long" => json!(self.long()),
                "double" => json!(f64::from_le_bytes(self.take(8).try_into().unwrap())),
                "string" => {
                    let n = self.long() as usize;
                    json!(std::str::from_utf8(self.take(n)).unwrap())
                }
                "bytes" => {
                    let n = self.long() as usize;
                    json!(self.take(n))
                }
                other => {
                    let schema = self.named[other].clone();
                    self.value(&schema)
                }
            },
            Value::Object(object) => match object["type"].as_str().unwrap() {
                "record" => {
                    if let Some(namespace) = object.get("namespace") {
                        let name = format!(
                            "{}.{}",
                            namespace.as_str().unwrap(),
                            object["name"].as_str().unwrap()
                        );
                        self.named.insert(name, schema.clone());
                    }
                    let fields = object["fields"].as_array().unwrap();
                    let values: Map<String, Value> = fields
                        .iter()
                        .map(|f| {
                            (
                                f["name"].as_str().unwrap().to_string(),
                                self.value(&f["type"]),
                            )
                        })
                        .collect();
                    values.into()
                }
                "array" => {
                    let mut items = Vec::new();
                    loop {
                        let n = self.long();
                        if n == 0 {
                            return items.into();
                        }
                        for _ in 0..n {
                            items.push(self.value(&object["items"]));
                        }
                    }
                }
                _ => self.value(&object["type"]),
            },
            other => panic!("{other} is no schema"),
        }
    }
}

fn avro_schema(session: &ReadSession) -> Value {
    match session.schema.as_ref().unwrap() {
        Schema::AvroSchema(schema) => serde_json::from_str(&schema.schema).unwrap(),
        Schema::ArrowSchema(_) => panic!("not Avro"),
    }
}

async fn rows(reader: &Reader, session: &ReadSession, offset: i64) -> Vec<Value> {
    let schema = avro_schema(session);
    let mut rows = Vec::new();
    for stream in &session.streams {
        for message in reader.read(&stream.name, offset).await {
            let bytes = payload(&message);
            let mut datums = Datums {
                bytes: &bytes,
                named: Map::new(),
            };
            for _ in 0..message.row_count {
                rows.push(datums.value(&schema));
            }
            assert!(datums.bytes.is_empty());
        }
    }
    rows
}

fn in_avro(mut request: CreateReadSessionRequest) -> CreateReadSessionRequest {
    session_of(&mut request).data_format = DataFormat::Avro.into();
    request
}

#[tokio::test]
async fn every_type() {
    let (local, reader) = start(64 << 20).await;
    local
        .table(json!([
            {"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
            {"name": "f", "type": "FLOAT"}, {"name": "b", "type": "BOOLEAN"},
            {"name": "s", "type": "STRING"}, {"name": "y", "type": "BYTES"},
            {"name": "n", "type": "NUMERIC"}, {"name": "bn", "type": "BIGNUMERIC"},
            {"name": "d", "type": "DATE"}, {"name": "dt", "type": "DATETIME"},
            {"name": "t", "type": "TIME"}, {"name": "ts", "type": "TIMESTAMP"},
            {"name": "g", "type": "GEOGRAPHY"}, {"name": "j", "type": "JSON"},
            {"name": "iv", "type": "INTERVAL"},
            {"name": "r", "type": "RANGE", "rangeElementType": {"type": "DATE"}},
            {"name": "r2", "type": "RANGE", "rangeElementType": {"type": "DATE"}},
            {"name": "st", "type": "RECORD", "fields": [{"name": "x", "type": "INTEGER"}]},
            {"name": "a", "type": "INTEGER", "mode": "REPEATED"},
        ]))
        .await;
    local
        .insert(&[
            json!({"id": 1, "f": 1.5, "b": true, "s": "é", "y": "AP8=", "n": "-1.5", "bn": "0.5",
                "d": "1969-12-31", "dt": "2024-02-29 01:02:03", "t": "00:00:01", "ts": "1970-01-01 00:00:01 UTC",
                "g": "POINT(1 2)", "j": "{\"b\": 1, \"a\": 2}", "iv": "1-2 3 4:5:6.789", "r": "[2024-01-01, UNBOUNDED)",
                "r2": "[UNBOUNDED, 1970-01-02)", "st": {"x": 7}, "a": [1, -2]}),
            json!({"id": 2}),
        ])
        .await;
    let session = reader.session(in_avro(request())).await;
    let schema = avro_schema(&session);
    assert_eq!(schema["name"], "__root__");
    assert_eq!(schema["fields"][0], json!({"name": "id", "type": "long"}));
    let got = rows(&reader, &session, 0).await;
    assert_eq!(
        got[0],
        json!({"id": 1, "f": 1.5, "b": true, "s": "é", "y": [0, 255],
            "n": (-1_500_000_000_i32).to_be_bytes(), "bn": (5 * 10_i128.pow(37)).to_be_bytes(),
            "d": -1, "dt": "2024-02-29T01:02:03.000000", "t": 1_000_000, "ts": 1_000_000,
            "g": "POINT(1 2)", "j": "{\"a\":2,\"b\":1}",
            "iv": {"months": 14, "days": 3, "microseconds": 14_706_789_000_i64},
            "r": {"start": 19_723, "end": null}, "r2": {"start": null, "end": 1},
            "st": {"x": 7}, "a": [1, -2]})
    );
    let nulls = got[1].as_object().unwrap();
    assert_eq!(nulls["id"], 2);
    assert_eq!(nulls["a"], json!([]));
    assert_eq!(nulls.values().filter(|v| v.is_null()).count(), 16);
    assert_eq!(rows(&reader, &session, 1).await, got[1..]);
}

#[tokio::test]
async fn projection_restriction_and_first_schema() {
    let (local, reader) = start(64 << 20).await;
    counted(&local, &[150_000]).await;
    let session = reader
        .session(in_avro(with_options(TableReadOptions {
            selected_fields: vec!["id".into()],
            row_restriction: "id > 10".into(),
            ..TableReadOptions::default()
        })))
        .await;
    let got = rows(&reader, &session, 0).await;
    assert_eq!(got.len(), 149_989);
    assert_eq!(got[0], json!({"id": 11}));
    let messages = reader.read(&session.streams[0].name, 5).await;
    assert!(messages.len() > 1);
    assert!(messages[0].schema.is_some() && messages[1].schema.is_none());
}

#[tokio::test]
async fn names_that_avro_does_not_have() {
    let (local, reader) = start(64 << 20).await;
    local
        .table(json!([{"name": "größe", "type": "INTEGER"}]))
        .await;
    local.insert(&[json!({"größe": 5})]).await;
    let error = reader.try_session(in_avro(request())).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
    assert!(error.message().contains("größe"), "{error}");
    let session = reader
        .session(in_avro(with_options(TableReadOptions {
            output_format_serialization_options: Some(
                OutputFormatSerializationOptions::AvroSerializationOptions(
                    AvroSerializationOptions {
                        enable_display_name_attribute: true,
                        ..AvroSerializationOptions::default()
                    },
                ),
            ),
            ..TableReadOptions::default()
        })))
        .await;
    let schema = avro_schema(&session);
    assert_eq!(schema["fields"][0]["displayName"], "größe");
    assert_eq!(rows(&reader, &session, 0).await, [json!({"_column_0": 5})]);
}
