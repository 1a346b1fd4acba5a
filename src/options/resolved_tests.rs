use super::*;
use crate::options::{
    FileLoadOptions, LoadDisposition, ReconcileOptions, StagedFiles, StagingCompression,
    StagingFormat, WriteMethod,
};

pub(super) fn resolve(pairs: &[(&str, &str)]) -> Result<Options> {
    Options::resolve(&RawOptions::from_pairs(pairs.iter().copied())?)
}

/// The message of the error, which has to name each of the parts.
pub(super) fn refused(pairs: &[(&str, &str)], parts: &[&str]) -> String {
    let error = resolve(pairs).expect_err("these options cannot go together");
    assert_eq!(error.kind(), crate::error::ErrorKind::Configuration);
    for part in parts {
        assert!(error.message().contains(part), "no {part} in: {error}");
    }
    error.message().to_string()
}

#[test]
fn defaults_are_the_service_and_the_documented_numbers() {
    let options = resolve(&[]).unwrap();
    assert_eq!(options.connection, ConnectionOptions::default());
    assert_eq!(options.scan, ScanOptions::default());
    assert_eq!(options.table, TableOptions::default());
    let connection = &options.connection;
    assert_eq!(
        connection.rest_endpoint.to_string(),
        registry::REST_ENDPOINT.default
    );
    assert_eq!(
        connection.grpc_endpoint.to_string(),
        registry::GRPC_ENDPOINT.default
    );
    assert_eq!(
        connection.storage_endpoint.to_string(),
        registry::STORAGE_ENDPOINT.default
    );
}

/// The defaults in the documentation are the ones in effect: saying them
/// changes nothing.
#[test]
fn documented_defaults_are_the_ones_in_effect() {
    let scan_defaults = [
        &registry::SCAN_PUSHDOWN_FILTERS,
        &registry::SCAN_MAX_STREAM_COUNT,
        &registry::SCAN_COMPRESSION,
        &registry::SCAN_TIMESTAMP_PRECISION,
        &registry::SCAN_RETRY_MAX_ATTEMPTS,
        &registry::SCAN_IDLE_TIMEOUT,
    ];
    let said: Vec<_> = scan_defaults
        .iter()
        .map(|row| (row.name, row.default))
        .collect();
    assert_eq!(resolve(&said).unwrap().scan, ScanOptions::default());

    let said: Vec<_> = registry::REGISTRY
        .iter()
        .filter(|row| row.name.starts_with("sink.") && row.default != "none")
        .map(|row| (row.name, row.default))
        .collect();
    let (loads, said): (Vec<_>, Vec<_>) = said
        .into_iter()
        .partition(|(name, _)| name.starts_with("sink.file_loads."));
    assert!(said.len() > 10);
    // As defaults of a session, which may be about other methods than the selected.
    let said = RawOptions::from_pairs(said).unwrap();
    let options = Options::resolve_over(&RawOptions::new(), &said).unwrap();
    assert_eq!(options.sink, SinkOptions::default());

    assert!(loads.len() > 7);
    let staging_path = "gs://bucket/prefix";
    let mut said = loads;
    said.push(("sink.write_method", "file_loads"));
    said.push(("sink.file_loads.staging_path", staging_path));
    let expected = SinkOptions {
        write_method: WriteMethod::FileLoads,
        file_loads: FileLoadOptions {
            staging_path: Some(staging_path.parse().unwrap()),
            ..FileLoadOptions::default()
        },
        ..SinkOptions::default()
    };
    assert_eq!(resolve(&said).unwrap().sink, expected);
}

#[test]
fn the_least_number_of_connections_is_not_more_than_the_greatest() {
    let (min, max) = (
        "sink.default_stream.min_connections",
        "sink.default_stream.max_connections",
    );
    refused(&[(min, "4"), (max, "3")], &[min, max]);
    let counts = |said: &[(&str, &str)]| {
        let counts = resolve(said).unwrap().sink.default_connections;
        (counts.min, counts.max)
    };
    assert_eq!(counts(&[]), (2, 20));
    assert_eq!(counts(&[(max, "1")]), (1, 1));
    assert_eq!(counts(&[(min, "30")]), (30, 30));
    let method = ("sink.write_method", "storage_api_atomic");
    refused(&[method, (max, "3")], &[max, method.0]);
}

#[test]
fn each_method_has_its_stream_options() {
    for (method, streams, selected) in [
        (
            "storage_api_at_least_once",
            "default_stream",
            WriteMethod::StorageApiAtLeastOnce,
        ),
        (
            "storage_api_exactly_once",
            "buffered_stream",
            WriteMethod::StorageApiExactlyOnce,
        ),
        (
            "STORAGE_API_ATOMIC",
            "pending_stream",
            WriteMethod::StorageApiAtomic,
        ),
    ] {
        let option = format!("sink.{streams}.max_inflight_requests");
        let sink = resolve(&[("sink.write_method", method), (&option, "7")])
            .unwrap()
            .sink;
        assert_eq!(sink.write_method, selected);
        let inflight = [
            &sink.default_stream,
            &sink.buffered_stream,
            &sink.pending_stream,
        ]
        .map(|streams| streams.max_inflight_requests);
        assert_eq!(inflight.iter().filter(|most| **most == 7).count(), 1);
        assert_eq!(inflight[selected as usize], 7);
        for other in ["default_stream", "buffered_stream", "pending_stream"] {
            if other != streams {
                let option = format!("sink.{other}.append_timeout");
                let method = method.to_lowercase();
                refused(
                    &[("sink.write_method", &method), (&option, "1 s")],
                    &[&option, "sink.write_method", &method],
                );
            }
        }
    }
}

#[test]
fn what_is_said_of_writing_is_checked() {
    for (option, value, part) in [
        (
            "sink.write_method",
            "file_loads",
            "sink.file_loads.staging_path",
        ),
        (
            "sink.file_loads.staging_path",
            "gs://bucket/prefix",
            "sink.write_method",
        ),
        (
            "sink.file_loads.keep_staged_files",
            "true",
            "sink.write_method",
        ),
        (
            "sink.failure.policy",
            "dead_letter",
            "'sink.failure.dead_letter'",
        ),
        (
            "sink.failure.dead_letter",
            "ftp://x",
            "'file:///directory/file'",
        ),
        (
            "sink.failure.dead_letter",
            "gs://Bucket",
            "gs://bucket/prefix",
        ),
        (
            "sink.failure.dead_letter",
            "file:///x",
            "'sink.failure.policy'",
        ),
        ("sink.failure.max_outstanding", "-2", "-1"),
        ("sink.destination.drop_columns", "a", "'sink.destination'"),
        (
            "sink.table_create.time_partitioning.field",
            "day",
            "time_partitioning.type",
        ),
        (
            "sink.table_create.time_partitioning.expiration",
            "1 day",
            "time_partitioning.type",
        ),
        (
            "sink.table_create.range_partitioning.field",
            "n",
            "range_partitioning.start",
        ),
        ("sink.table_create.clustered_fields", "a,b,c,d,e", "four"),
        ("sink.table_create.clustered_fields", "id, Id", "once"),
        ("sink.table_create.labels", "Team=x", "lower-case"),
        ("sink.failure.max_rows", "3", "sink.failure.policy"),
        (
            "sink.default_stream.max_append_request_bytes",
            "10 MiB",
            "9 MiB",
        ),
        ("sink.default_stream.max_inflight_bytes", "7", "1 KiB"),
        ("sink.run_id", "r1", "sink.checkpoint_path"),
        ("sink.run_id", "../r1", "letters"),
        ("sink.run_id", ".hidden", "without a dot"),
    ] {
        refused(&[(option, value)], &[option, part]);
    }
}

#[test]
fn what_is_said_of_new_tables_goes_together() {
    let by_time = ("sink.table_create.time_partitioning.type", "day");
    let mut range = vec![
        ("sink.table_create.range_partitioning.field", "n"),
        ("sink.table_create.range_partitioning.start", "0"),
        ("sink.table_create.range_partitioning.end", "100"),
        ("sink.table_create.range_partitioning.interval", "10"),
    ];
    resolve(&range).unwrap();
    range[3].1 = "1";
    range[2].1 = "10000";
    resolve(&range).unwrap();
    range[2].1 = "10001";
    refused(&range, &["range_partitioning.interval", "10001", "10000"]);
    range.push(by_time);
    refused(&range, &["time_partitioning.type", "range_partitioning"]);
    let marks = [
        ("sink.json_field_paths", "a.b, c"),
        ("sink.geography_field_paths", "x, C"),
    ];
    refused(&marks, &[marks[0].0, marks[1].0, "'c'"]);
    range[2].1 = "0";
    range.pop();
    refused(
        &range,
        &["range_partitioning.end", "range_partitioning.start"],
    );
    refused(
        &[by_time, ("sink.create_disposition", "create_never")],
        &[
            "sink.table_create.time_partitioning.type",
            "sink.create_disposition",
        ],
    );
    refused(
        &[
            ("sink.write_method", "storage_api_atomic"),
            ("sink.destination", "p.d.t_{x}"),
        ],
        &["sink.write_method", "sink.destination"],
    );
    let local = ("rest_endpoint", "http://127.0.0.1:1");
    let letters = ("sink.failure.policy", "dead_letter");
    let objects = ("sink.failure.dead_letter", "gs://bucket/letters");
    refused(
        &[local, letters, objects],
        &[objects.0, objects.1, "storage_endpoint"],
    );
    let storage = ("storage_endpoint", "http://127.0.0.1:1");
    let failure = resolve(&[local, storage, letters, objects])
        .unwrap()
        .sink
        .failure;
    let place = "gs://bucket/letters".parse().unwrap();
    assert_eq!(failure.dead_letter, Some(DeadLetterTarget::Objects(place)));
    refused(
        &[storage, ("sink.failure.credentials.key_file", "/x/y.json")],
        &["sink.failure.credentials.key_file", "storage_endpoint"],
    );
    refused(
        &[local, ("sink.failure.credentials.key_file", "/x/y.json")],
        &["sink.failure.credentials.key_file", "rest_endpoint"],
    );
}

#[test]
fn every_value_arrives() {
    let options = resolve(&[
        ("project", "p"),
        ("dataset", "d"),
        ("table", "t"),
        ("billing_project", "b"),
        ("location", "EU"),
        ("trace_id", "me"),
        ("scan.row_restriction", "a > 1"),
        ("scan.pushdown_filters", "off"),
        ("scan.dynamic_filters", "no"),
        ("scan.dynamic_filter_wait", "0 s"),
        ("scan.dynamic_filter_max_values", "7"),
        ("scan.max_stream_count", "8"),
        ("scan.preferred_min_stream_count", "4"),
        ("scan.compression", "ZSTD"),
        ("scan.snapshot_time", "2024-05-01T12:00:00Z"),
        ("scan.sample_percentage", "10"),
        ("scan.timestamp_precision", "picos"),
        ("scan.max_bytes_scanned", "1 GiB"),
        ("scan.retry_max_attempts", "3"),
        ("scan.idle_timeout", "10 s"),
        ("scan.partition_columns", "on"),
    ])
    .unwrap();
    assert_eq!(options.connection.billing_project.as_deref(), Some("b"));
    assert_eq!(options.connection.location.as_deref(), Some("EU"));
    assert_eq!(options.connection.trace_id.as_deref(), Some("me"));
    assert_eq!(options.table.project.as_deref(), Some("p"));
    assert_eq!(options.table.dataset.as_deref(), Some("d"));
    assert_eq!(options.table.table.as_deref(), Some("t"));
    assert_eq!(
        options.scan,
        ScanOptions {
            row_restriction: Some("a > 1".into()),
            pushdown_filters: false,
            dynamic_filters: false,
            dynamic_filter_wait: Duration::ZERO,
            dynamic_filter_max_values: 7,
            max_stream_count: 8,
            preferred_min_stream_count: Some(4),
            compression: Compression::Zstd,
            snapshot_time: Some("2024-05-01T12:00:00Z".parse().unwrap()),
            sample_percentage: Some(10.0),
            timestamp_precision: TimestampPrecision::Picos,
            max_bytes_scanned: Some(1 << 30),
            retry_max_attempts: 3,
            idle_timeout: Duration::from_secs(10),
            partition_columns: true,
        }
    );
}

#[test]
fn what_is_said_of_load_jobs_is_checked() {
    let loads = ("sink.write_method", "file_loads");
    let staging = ("sink.file_loads.staging_path", "gs://bucket/prefix");
    let elsewhere = ("sink.file_loads.staging_path", "s3://bucket/prefix");
    refused(&[loads, elsewhere], &["gs://bucket/prefix"]);
    for (said, parts) in [
        (
            ("sink.file_loads.compression", "gzip"),
            &["'sink.file_loads.compression' 'gzip'", "'avro'"][..],
        ),
        (
            ("sink.file_loads.max_staging_file_bytes", "2 GiB"),
            &["1 GiB"],
        ),
        (("sink.format", "arrow"), &["'sink.format'", "'file_loads'"]),
        (
            ("sink.default_stream.append_timeout", "1 s"),
            &["append_timeout", "'file_loads'"],
        ),
        (
            ("rest_endpoint", "http://127.0.0.1:1"),
            &["'storage_endpoint'", "https://storage.googleapis.com"],
        ),
    ] {
        refused(&[staging, loads, said], parts);
    }
    refused(
        &[
            loads,
            staging,
            ("sink.file_loads.staging_format", "parquet"),
            ("sink.file_loads.compression", "deflate"),
        ],
        &["'deflate'", "'parquet'"],
    );
    let options = resolve(&[
        loads,
        staging,
        ("sink.file_loads.write_disposition", "WRITE_TRUNCATE_DATA"),
        ("sink.file_loads.staging_format", "parquet"),
        ("sink.file_loads.compression", "lz4_raw"),
        ("sink.file_loads.max_staging_file_bytes", "2 MiB"),
        ("sink.file_loads.temp_dataset", "scratch"),
        ("sink.file_loads.min_checkpoint_interval", "10 min"),
        ("sink.file_loads.load_job_poll.initial_backoff", "5 ms"),
        ("sink.file_loads.load_job_poll.max_backoff", "7 s"),
        ("sink.file_loads.schema_reconcile.initial_backoff", "6 ms"),
        ("sink.file_loads.schema_reconcile.max_backoff", "8 s"),
        ("sink.file_loads.schema_reconcile.max_attempts", "12"),
        ("sink.file_loads.max_concurrent_finalizations", "4"),
        ("sink.file_loads.keep_staged_files", "true"),
    ])
    .unwrap();
    assert_eq!(
        options.sink.file_loads,
        FileLoadOptions {
            staging_path: Some("gs://bucket/prefix".parse().unwrap()),
            write_disposition: LoadDisposition::TruncateData,
            staging_format: StagingFormat::Parquet,
            compression: StagingCompression::Lz4Raw,
            max_staging_file_bytes: 2 << 20,
            temp_dataset: Some("scratch".to_string()),
            schema_reconcile: ReconcileOptions {
                initial_backoff: Duration::from_millis(6),
                max_backoff: Duration::from_secs(8),
                max_attempts: 12,
            },
            min_checkpoint_interval: Duration::from_secs(600),
            poll_initial_backoff: Duration::from_millis(5),
            poll_max_backoff: Duration::from_secs(7),
            max_concurrent_finalizations: 4,
            staged_files: StagedFiles::Kept,
        }
    );
}

#[test]
fn a_session_may_say_of_load_jobs_what_a_table_does_not_use() {
    let said = |pairs: &[(&str, &str)]| RawOptions::from_pairs(pairs.iter().copied()).unwrap();
    let session = said(&[("sink.file_loads.staging_path", "gs://bucket/prefix")]);
    let options = Options::resolve_over(&said(&[]), &session).unwrap();
    assert_eq!(
        options.sink.write_method,
        WriteMethod::StorageApiAtLeastOnce
    );
    let table = said(&[("sink.write_method", "file_loads")]);
    let options = Options::resolve_over(&table, &session).unwrap();
    assert_eq!(options.sink.write_method, WriteMethod::FileLoads);
}

#[test]
fn what_is_said_of_queries_arrives() {
    let options = resolve(&[
        ("scan.query", "SELECT 1"),
        ("scan.query_location", "EU"),
        ("location", "US"),
        ("scan.query_result_dataset", "d"),
        ("scan.reuse_query_result_within", "1 h"),
        ("job_labels", "team=data, stage=test"),
    ])
    .unwrap();
    let label = |name: &str, value: &str| (name.to_string(), value.to_string());
    assert_eq!(
        options.query,
        QueryOptions {
            text: Some("SELECT 1".into()),
            location: Some("EU".into()),
            result_dataset: Some("d".into()),
            reuse_within: Some(Duration::from_secs(3600)),
            materialize_views: false,
            labels: vec![label("team", "data"), label("stage", "test")],
        }
    );
    let location = resolve(&[("location", "US")]).unwrap().query.location;
    assert_eq!(location.as_deref(), Some("US"));
}

#[test]
fn a_sessions_default_about_queries_leaves_tables_alone() {
    let pairs = |pairs: &[(&str, &str)]| RawOptions::from_pairs(pairs.iter().copied()).unwrap();
    let defaults = pairs(&[
        ("scan.query_location", "EU"),
        ("scan.query_result_dataset", "d"),
        ("scan.reuse_query_result_within", "1 h"),
    ]);
    assert!(Options::resolve_over(&RawOptions::new(), &defaults).is_ok());
    assert!(Options::resolve_over(&defaults, &RawOptions::new()).is_err());
    let views = pairs(&[("scan.materialize_views", "true")]);
    assert!(Options::resolve_over(&views, &defaults).is_ok());
}

#[test]
fn an_empty_value_is_called_that() {
    let error = RawOptions::from_pairs([("location", " ")]).unwrap_err();
    assert!(
        error
            .message()
            .contains("'location' is said and has no value"),
        "{error}"
    );
}

#[test]
fn pairs_that_cannot_go_together() {
    refused(
        &[
            ("scan.query", "SELECT 1"),
            ("scan.materialize_views", "true"),
        ],
        &["'scan.query'", "'scan.materialize_views'"],
    );
    refused(
        &[
            ("scan.query", "SELECT 1"),
            ("scan.snapshot_time", "2024-05-01"),
        ],
        &["'scan.query'", "'scan.snapshot_time'"],
    );
    for name in [
        "scan.query_location",
        "scan.query_result_dataset",
        "scan.reuse_query_result_within",
    ] {
        refused(&[(name, "1 h")], &[name, "'scan.query'"]);
    }
    refused(
        &[
            ("scan.query", "SELECT 1"),
            ("scan.reuse_query_result_within", "25 h"),
            ("location", "EU"),
        ],
        &["'scan.reuse_query_result_within'", "25 h", "24 h"],
    );
    refused(
        &[
            ("scan.query", "SELECT 1"),
            ("scan.reuse_query_result_within", "1 h"),
        ],
        &["'scan.reuse_query_result_within'", "'scan.query_location'"],
    );
    refused(
        &[
            ("scan.max_stream_count", "2"),
            ("scan.preferred_min_stream_count", "3"),
        ],
        &[
            "'scan.max_stream_count'",
            "'scan.preferred_min_stream_count'",
        ],
    );
    // Zero leaves the number to the service, so nothing exceeds it.
    assert!(
        resolve(&[
            ("scan.max_stream_count", "0"),
            ("scan.preferred_min_stream_count", "3"),
        ])
        .is_ok()
    );
}
