//! No bytes make the server panic or hang, whichever input they arrive through.
//!
//! Valid inputs are damaged and joined at random. `BIGQUERY_LOCAL_FULL=1` takes
//! longer over it; `BIGQUERY_LOCAL_SEED` repeats the seed that a failure names.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, BinaryArray, Float64Array, Int64Array, ListArray, StringArray};
use arrow::array::{RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::Int64Type;
use bigquery_local::fuzzing::{self, Verdict};
use googleapis_storage::google::cloud::bigquery::storage::v1 as proto;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{RngSeed, TestError, TestRunner};
use prost::Message;

/// A change to an input.
#[derive(Debug, Clone)]
enum Edit {
    Flip(Index, u8),
    Set(Index, u8),
    Cut(Index),
    Remove(Index, usize),
    Insert(Index, Vec<u8>),
    Splice(Index, Index, Index, usize),
}

/// Numbers at the edges, in the forms that lengths and counts have in files.
const EDGES: &[&[u8]] = &[
    &[0; 8],
    &[0xff; 4],
    &[0xff; 8],
    &[0xff, 0xff, 0xff, 0x7f],
    &[0, 0, 0, 0x80],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xfe, 0xff, 0xff, 0xff, 0x0f],
    b"9223372036854775808",
    b"-9223372036854775808",
    b"1e400",
    b"\"",
    b"'",
    b"(",
    b"[",
    b"{",
    b"\\u0000",
    b"\xed\xa0\x80",
    "\u{10ffff}\u{301}".as_bytes(),
];

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        4 => (at(), 0_u8..8).prop_map(|(i, bit)| Edit::Flip(i, bit)),
        3 => (at(), any::<u8>()).prop_map(|(i, byte)| Edit::Set(i, byte)),
        1 => at().prop_map(Edit::Cut),
        2 => (at(), 1_usize..40).prop_map(|(i, n)| Edit::Remove(i, n)),
        2 => (at(), proptest::sample::select(EDGES)).prop_map(|(i, e)| Edit::Insert(i, e.to_vec())),
        1 => (at(), proptest::collection::vec(any::<u8>(), 1..20)).prop_map(|(i, b)| Edit::Insert(i, b)),
        2 => (at(), at(), at(), 1_usize..200).prop_map(|(i, s, f, n)| Edit::Splice(i, s, f, n)),
    ]
}

fn apply(input: &mut Vec<u8>, edit: &Edit, seeds: &[Vec<u8>]) {
    let place = |index: &Index| index.index(input.len() + 1);
    match edit {
        Edit::Flip(..) | Edit::Set(..) if input.is_empty() => {}
        Edit::Flip(i, bit) => {
            let i = i.index(input.len());
            input[i] ^= 1 << bit;
        }
        Edit::Set(i, byte) => {
            let i = i.index(input.len());
            input[i] = *byte;
        }
        Edit::Cut(i) => input.truncate(i.index(input.len() + 1)),
        Edit::Remove(i, n) => {
            let from = place(i);
            let to = (from + n).min(input.len());
            input.drain(from..to);
        }
        Edit::Insert(i, bytes) => {
            let at = place(i);
            input.splice(at..at, bytes.iter().copied());
        }
        Edit::Splice(i, seed, from, n) => {
            let at = place(i);
            let seed = &seeds[seed.index(seeds.len())];
            let from = from.index(seed.len());
            let piece = &seed[from..(from + n).min(seed.len())];
            input.splice(at..at, piece.iter().copied());
        }
    }
}

/// Damaged seeds, and now and then bytes that were never an input.
fn inputs(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let damaged =
        (any::<Index>(), proptest::collection::vec(edit(), 1..6)).prop_map(move |(seed, edits)| {
            let mut input = seeds[seed.index(seeds.len())].clone();
            for edit in &edits {
                apply(&mut input, edit, &seeds);
            }
            input
        });
    prop_oneof![9 => damaged, 1 => proptest::collection::vec(any::<u8>(), 0..200)]
}

/// One entry point at a time, so that each has its time for itself.
static TURN: Mutex<()> = Mutex::new(());

/// Drives one entry point: the seeds, which it must take, then what becomes of
/// them.
#[track_caller]
fn hostile(entry: fn(&[u8]) -> Verdict, seeds: Vec<Vec<u8>>) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for seed in &seeds {
        let verdict = entry(seed);
        assert_eq!(verdict, Verdict::Accepted, "{}", seed.escape_ascii());
    }
    let full = std::env::var_os("BIGQUERY_LOCAL_FULL").is_some_and(|v| v == "1");
    let (cases, time) = if full {
        (20_000, Duration::from_secs(120))
    } else {
        (300, Duration::from_secs(3))
    };
    let number = std::env::var("BIGQUERY_LOCAL_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(number),
        failure_persistence: None,
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    });
    let began = Instant::now();
    let result = runner.run(&inputs(seeds), |input| {
        // What is left once the time is up counts as passed.
        if began.elapsed() < time {
            entry(&input);
        }
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, input)) => panic!(
            "BIGQUERY_LOCAL_SEED={number}: {reason}\ninput: {}",
            input.escape_ascii()
        ),
        Err(TestError::Abort(reason)) => panic!("BIGQUERY_LOCAL_SEED={number}: {reason}"),
    }
}

fn texts(seeds: &[&str]) -> Vec<Vec<u8>> {
    seeds.iter().map(|s| s.as_bytes().to_vec()).collect()
}

#[test]
fn rest_json() {
    let p = "/bigquery/v2/projects/local";
    let seeds = [
        format!(
            r#"POST {p}/datasets{}{{"datasetReference":{{"projectId":"local","datasetId":"e"}},"labels":{{"k":"v"}},"defaultTableExpirationMs":"3600000"}}"#,
            '\n'
        ),
        format!(
            r#"POST {p}/datasets/d/tables{}{{"tableReference":{{"projectId":"local","datasetId":"d","tableId":"u"}},"schema":{{"fields":[{{"name":"a","type":"NUMERIC","precision":"10","scale":"2"}},{{"name":"d","type":"DATE"}},{{"name":"s","type":"RECORD","mode":"REPEATED","fields":[{{"name":"x","type":"STRING","maxLength":"5"}}]}}]}},"timePartitioning":{{"type":"DAY","field":"d","expirationMs":"86400000"}},"clustering":{{"fields":["a"]}}}}"#,
            '\n'
        ),
        format!(
            r#"POST {p}/datasets/d/tables/t/insertAll{}{{"skipInvalidRows":true,"rows":[{{"insertId":"1","json":{{"i":"12","f":1e300,"ts":"2024-01-01T00:00:00.123456789Z","d":"2024-02-30","n":"1e20","iv":"1-2 3 4:5:6","r":"[2024-01-01, UNBOUNDED)","st":{{"x":1,"a":["b"]}},"a":[1,2],"g":"LINESTRING(0 0, 1 1)","j":"{{}}"}}}}]}}"#,
            '\n'
        ),
        format!(
            r#"POST {p}/queries{}{{"query":"SELECT @a + 1, @b, @c.x FROM d.t","useLegacySql":false,"parameterMode":"NAMED","queryParameters":[{{"name":"a","parameterType":{{"type":"INT64"}},"parameterValue":{{"value":"1"}}}},{{"name":"b","parameterType":{{"type":"ARRAY","arrayType":{{"type":"TIMESTAMP"}}}},"parameterValue":{{"arrayValues":[{{"value":"2024-01-01 00:00:00"}}]}}}},{{"name":"c","parameterType":{{"type":"STRUCT","structTypes":[{{"name":"x","type":{{"type":"BYTES"}}}}]}},"parameterValue":{{"structValues":{{"x":{{"value":"AA=="}}}}}}}}],"maxResults":2,"timeoutMs":10000}}"#,
            '\n'
        ),
        format!(
            r#"POST {p}/jobs{}{{"jobReference":{{"projectId":"local","jobId":"j1"}},"configuration":{{"query":{{"query":"SELECT * FROM t","useLegacySql":false,"defaultDataset":{{"projectId":"local","datasetId":"d"}},"destinationTable":{{"projectId":"local","datasetId":"d","tableId":"out"}},"writeDisposition":"WRITE_TRUNCATE"}}}}}}"#,
            '\n'
        ),
        format!(
            "GET {p}/datasets/d/tables/t/data?maxResults=2&startIndex=1&selectedFields=i,st.x&formatOptions.useInt64Timestamp=true\n"
        ),
        format!(
            "PATCH {p}/datasets/d/tables/t\n{}",
            r#"{"description":"x","schema":null}"#
        ),
        format!("DELETE {p}/datasets/d?deleteContents=true\n"),
    ];
    hostile(
        fuzzing::rest_json,
        seeds.into_iter().map(String::into_bytes).collect(),
    );
}

#[test]
fn protobuf() {
    let create = |restriction: &str, format: proto::DataFormat| {
        let request = proto::CreateReadSessionRequest {
            parent: "projects/local".into(),
            read_session: Some(proto::ReadSession {
                table: "projects/local/datasets/d/tables/t".into(),
                data_format: format.into(),
                trace_id: "trace".into(),
                read_options: Some(proto::read_session::TableReadOptions {
                    selected_fields: vec!["i".into(), "st.x".into(), "r".into(), "n".into()],
                    row_restriction: restriction.into(),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            max_stream_count: 3,
            ..Default::default()
        };
        let mut bytes = vec![0];
        bytes.extend(request.encode_to_vec());
        bytes
    };
    let seeds = vec![
        create("i = 1 OR s IS NULL", proto::DataFormat::Arrow),
        create("", proto::DataFormat::Avro),
    ];
    hostile(fuzzing::protobuf, seeds);
}

/// Rows of both formats, and their schemas.
#[test]
fn append_rows() {
    use crate::append::{bytes, field, int, message, named, repeated};
    use arrow::ipc::writer::{
        DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
    };
    use prost_types::field_descriptor_proto::Type;
    use proto::append_rows_request::{ArrowData, ProtoData, Rows};

    let seed = |rows: Rows| {
        let request = proto::AppendRowsRequest {
            write_stream: "projects/local/datasets/d/tables/t/streams/_default".into(),
            rows: Some(rows),
            ..Default::default()
        };
        [vec![3], request.encode_to_vec()].concat()
    };
    let mut row = message(
        "Row",
        vec![
            field(1, "i", Type::Int64),
            field(2, "s", Type::String),
            field(3, "n", Type::Bytes),
            field(4, "dt", Type::Int64),
            named(field(5, "st", Type::Message), "St"),
            repeated(field(6, "a", Type::Int64)),
            field(7, "iv", Type::String),
            field(8, "j", Type::String),
            named(field(9, "r", Type::Message), "R"),
        ],
    );
    let st = vec![
        field(1, "x", Type::Int64),
        repeated(field(2, "a", Type::String)),
    ];
    row.nested_type.push(message("St", st));
    let bounds = vec![field(1, "start", Type::Int32), field(2, "end", Type::Int32)];
    row.nested_type.push(message("R", bounds));
    let whole = [
        int(1, -1),
        bytes(2, "é"),
        bytes(3, [0xff, 1]),
        int(4, 2024 << 46 | 2 << 42 | 29 << 37),
        bytes(5, [int(1, 7), bytes(2, "q")].concat()),
        bytes(6, [1, 2, 3]),
        bytes(7, "1-2 3 4:5:6"),
        bytes(8, "{\"a\": [1]}"),
        bytes(9, [int(1, 1), int(2, 2)].concat()),
    ]
    .concat();
    let protobuf = Rows::ProtoRows(ProtoData {
        writer_schema: Some(proto::ProtoSchema {
            proto_descriptor: Some(row),
        }),
        rows: Some(proto::ProtoRows {
            serialized_rows: vec![whole.into(), int(1, 2).into(), vec![].into()],
        }),
    });
    let batch = batch();
    let options = IpcWriteOptions::default();
    let generator = IpcDataGenerator::default();
    let mut tracker = DictionaryTracker::new(false);
    let schema = generator.schema_to_bytes_with_dictionary_tracker(
        batch.schema_ref(),
        &mut tracker,
        &options,
    );
    let (_, rows) = generator
        .encode(
            &batch,
            &mut tracker,
            &options,
            &mut IpcWriteContext::default(),
        )
        .expect("the batch has no dictionaries");
    let written = |data| {
        let mut out = Vec::new();
        write_message(&mut out, data, &options).expect("memory takes it");
        out
    };
    let arrow = Rows::ArrowRows(ArrowData {
        writer_schema: Some(proto::ArrowSchema {
            serialized_schema: written(schema).into(),
        }),
        rows: Some(proto::ArrowRecordBatch {
            serialized_record_batch: written(rows).into(),
            ..Default::default()
        }),
    });
    hostile(fuzzing::protobuf, vec![seed(protobuf), seed(arrow)]);
}

#[test]
fn storage() {
    let seeds = texts(&[
        "PUT /bucket/a%2Fb\nx-goog-if-generation-match: 0\nx-goog-meta-k: v\ncontent-md5: XUFAKrxLKna5cZ2REBfFkg==\n\nhello",
        "GET /bucket/o\nrange: bytes=2-5\nif-none-match: \"x\"\n\n",
        "GET /bucket?list-type=2&prefix=o&delimiter=%2F&max-keys=3&continuation-token=a\n\n",
        "PUT /bucket/c\nx-goog-copy-source: bucket/o\n\n",
        "GET /storage/v1/b/bucket/o?pageToken=YQ==&startOffset=a&maxResults=2\n\n",
        "POST /upload/storage/v1/b/bucket/o?uploadType=multipart\ncontent-type: multipart/related; boundary=b\n\n--b\r\nContent-Type: application/json\r\n\r\n{\"name\": \"x\", \"metadata\": {\"k\": \"v\"}}\r\n--b\r\nContent-Type: text/plain\r\n\r\nhello\r\n--b--",
        "POST /upload/storage/v1/b/bucket/o?uploadType=resumable&name=r\n\n{\"contentType\": \"a/b\"}",
        "POST /storage/v1/b/bucket/o/z/compose\n\n{\"sourceObjects\": [{\"name\": \"o\"}]}",
        "POST /storage/v1/b/bucket/o/o/rewriteTo/b/bucket/o/p\n\n{}",
        "PATCH /storage/v1/b/bucket/o/o?ifMetagenerationMatch=1\n\n{\"metadata\": {\"k\": null}}",
        "POST /v1/projects/p/topics/topic:publish\n\n{\"messages\": [{\"data\": \"eA==\", \"attributes\": {\"k\": \"v\"}}]}",
    ]);
    hostile(fuzzing::storage, seeds);
}

/// Streams, offsets and rows that were never given out are errors.
#[test]
fn protobuf_of_other_calls() {
    let read = proto::ReadRowsRequest {
        read_stream: "projects/local/locations/us/sessions/s/streams/t".into(),
        offset: i64::MIN,
    };
    let split = proto::SplitReadStreamRequest {
        name: read.read_stream.clone(),
        fraction: f64::NAN,
    };
    let append = proto::AppendRowsRequest {
        write_stream: "projects/local/datasets/d/tables/t/streams/_default".into(),
        offset: Some(-1),
        ..Default::default()
    };
    let messages = [
        (1, read.encode_to_vec()),
        (2, split.encode_to_vec()),
        (3, append.encode_to_vec()),
    ];
    for (method, message) in messages {
        let whole = [&[method][..], &message].concat();
        for end in 0..whole.len() {
            let verdict = fuzzing::protobuf(&whole[..end]);
            // A prefix that is a message of its own may be an empty append.
            assert!(verdict == Verdict::Refused || method == 3, "{end}");
        }
        assert_eq!(fuzzing::protobuf(&whole), Verdict::Refused, "{method}");
    }
}

fn batch() -> RecordBatch {
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), Some(2)]),
        Some(vec![]),
        Some(vec![Some(3)]),
    ]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "i",
            std::sync::Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MAX)])),
        ),
        (
            "f",
            std::sync::Arc::new(Float64Array::from(vec![1.5, f64::NAN, 0.0])),
        ),
        (
            "s",
            std::sync::Arc::new(StringArray::from(vec!["abc", "é", "abc"])),
        ),
        (
            "y",
            std::sync::Arc::new(BinaryArray::from(vec![&b"\xff"[..], b"", b"x"])),
        ),
        (
            "ts",
            std::sync::Arc::new(
                TimestampMicrosecondArray::from(vec![0, 1, -1]).with_timezone("UTC"),
            ),
        ),
        ("a", std::sync::Arc::new(lists)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .expect("columns of one length")
}

#[test]
fn parquet() {
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::file::properties::WriterProperties;

    let seed = |compression: Compression, dictionary: bool| {
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_dictionary_enabled(dictionary)
            .build();
        let batch = batch();
        let mut data = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut data, batch.schema(), Some(properties)).expect("a writer");
        writer.write(&batch).expect("memory takes it");
        writer.close().expect("memory takes it");
        data
    };
    let seeds = vec![
        seed(Compression::UNCOMPRESSED, true),
        seed(Compression::SNAPPY, false),
        seed(Compression::ZSTD(ZstdLevel::default()), true),
    ];
    hostile(fuzzing::parquet, seeds);
}

#[test]
fn avro() {
    use arrow_avro::compression::CompressionCodec;
    use arrow_avro::writer::WriterBuilder;
    use arrow_avro::writer::format::AvroOcfFormat;

    let seed = |codec: Option<CompressionCodec>| {
        let batch = batch();
        let mut writer = WriterBuilder::new(batch.schema().as_ref().clone())
            .with_compression(codec)
            .build::<_, AvroOcfFormat>(Vec::new())
            .expect("a writer");
        writer.write(&batch).expect("memory takes it");
        writer.finish().expect("memory takes it");
        writer.into_inner()
    };
    let seeds = vec![seed(None), seed(Some(CompressionCodec::Deflate))];
    hostile(fuzzing::avro, seeds);
}

#[test]
fn csv() {
    let seeds = texts(&[
        "i,f,s\n1,2.5,abc\n-2,NaN,\"a \"\"quoted\"\" one\"\n,,\n",
        "a;b|c\t d\n2024-01-01,12:00:00,2024-01-01 00:00:00 UTC\n",
        "x\n\"two\nlines\"\n",
        "9223372036854775808,1e400,{\"a\":1},\"POINT(1 2)\",0x1F\r\n",
    ]);
    hostile(fuzzing::csv, seeds);
}

#[test]
fn newline_json() {
    let seeds = texts(&[
        "{\"i\": 1, \"s\": \"é\\u00e9\\ud83d\\ude00\", \"a\": [1, 2]}\n{\"i\": null}\n",
        "{\"st\": {\"x\": \"7\", \"a\": [\"q\"]}, \"d\": \"2024-02-29\"}\n\n{\"f\": 1e308}\n",
        "{\"n\": 99999999999999999999999999999.999999999, \"ts\": 1700000000.123456}\n",
    ]);
    hostile(fuzzing::newline_json, seeds);
}

#[test]
fn sql() {
    let seeds = texts(&[
        "SELECT i, f + 1, s || 'x', st.x, a[SAFE_OFFSET(0)] FROM d.t WHERE i > 0 ORDER BY 1 LIMIT 2",
        "WITH c AS (SELECT 1 AS x UNION ALL SELECT 2) SELECT x, COUNT(*) OVER (PARTITION BY x ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM c",
        "SELECT d, SUM(n), ARRAY_AGG(s IGNORE NULLS ORDER BY s LIMIT 1) FROM t GROUP BY d HAVING COUNT(*) >= 1",
        "INSERT INTO d.t (i, s) VALUES (3, r'\\d'), (4, DEFAULT)",
        "UPDATE d.t SET s = 'y', i = i + 1 WHERE d IS NULL; DELETE FROM d.t WHERE TRUE",
        "MERGE d.t USING (SELECT 1 AS k) ON i = k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (i) VALUES (k)",
        "CREATE OR REPLACE TABLE d.u (a INT64 NOT NULL, b ARRAY<STRUCT<x STRING(5), y NUMERIC(10, 2)>>) PARTITION BY RANGE_BUCKET(a, GENERATE_ARRAY(0, 100, 10)) CLUSTER BY a OPTIONS (description = 'x')",
        "DECLARE x INT64 DEFAULT 1; WHILE x < 3 DO SET x = x + 1; END WHILE; IF x = 3 THEN SELECT x; END IF",
        "SELECT FORMAT('%10.3f|%t|%T|%x', 1.5, DATE '2024-01-01', [1, 2], 255), PARSE_TIMESTAMP('%Y-%m-%d %H:%M:%E*S', '2024-01-01 01:02:03.4'), CAST('1e3' AS BIGNUMERIC)",
        "SELECT DATE_ADD(DATE '9999-12-30', INTERVAL 1 DAY), TIMESTAMP_TRUNC(ts, WEEK(MONDAY)), EXTRACT(ISOYEAR FROM dt), GENERATE_DATE_ARRAY('2024-01-01', '2024-01-05'), LPAD(s, 5, 'é'), SPLIT(s, ''), REGEXP_REPLACE(s, r'(a)', r'\\1\\1') FROM d.t WHERE d > '2000-01-01'",
        "SELECT * FROM d.t, UNNEST(a) AS e WITH OFFSET o WHERE JSON_VALUE(j, '$.a[0]') = '1' AND e IN (SELECT 1)",
        "SELECT * FROM (SELECT i, s FROM d.t) PIVOT (COUNT(i) FOR s IN ('abc', 'x'))",
    ]);
    hostile(fuzzing::sql, seeds);
}

#[test]
fn restriction() {
    let seeds = texts(&[
        "i = 1 AND (s LIKE 'a%' OR NOT b) AND n BETWEEN -1 AND 1.5",
        "d >= DATE '2024-01-01' AND ts < TIMESTAMP '2024-03-01 00:00:00+01:00'",
        "st.x IN (1, 7) OR ARRAY_LENGTH(a) > 1 OR y = b'\\xff'",
        "EXTRACT(YEAR FROM d) = 2024 OR SUBSTR(s, -2) = 'bc' OR CAST(f AS STRING) IS NOT NULL",
        "iv IS NOT NULL OR r IS NULL OR g IS NOT NULL",
        "JSON_VALUE(j, '$.a[0]') = '1' OR ci = 'strasse'",
    ]);
    hostile(fuzzing::restriction, seeds);
}

/// The fuzz targets are a workspace of their own that is not built with this one:
/// each must call the function that it is named for, and none may be missing.
#[test]
fn every_function_has_its_fuzz_target() {
    type Entry = fn(&[u8]) -> Verdict;
    let entries: [(&str, Entry); 9] = [
        ("avro", fuzzing::avro),
        ("csv", fuzzing::csv),
        ("newline_json", fuzzing::newline_json),
        ("parquet", fuzzing::parquet),
        ("protobuf", fuzzing::protobuf),
        ("rest_json", fuzzing::rest_json),
        ("restriction", fuzzing::restriction),
        ("sql", fuzzing::sql),
        ("storage", fuzzing::storage),
    ];
    let fuzz = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for (name, entry) in entries {
        assert_eq!(entry(b""), entry(b""), "{name} takes anything");
        let target = fuzz.join(format!("targets/{name}.rs"));
        let target = std::fs::read_to_string(target).unwrap();
        let call = format!("bigquery_local::fuzzing::{name}(bytes);");
        assert!(target.contains(&call), "targets/{name}.rs does not {call}");
        let path = format!("name = \"{name}\"\npath = \"targets/{name}.rs\"");
        assert!(manifest.contains(&path), "no [[bin]] is {name}");
    }
    let calling = std::fs::read_dir(fuzz.join("targets"))
        .unwrap()
        .filter(|target| {
            let text = std::fs::read_to_string(target.as_ref().unwrap().path()).unwrap();
            text.contains("bigquery_local::fuzzing::")
        });
    assert_eq!(
        calling.count(),
        entries.len(),
        "a target is not listed here"
    );
}
