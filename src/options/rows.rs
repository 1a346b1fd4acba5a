//! The rows of the table of options.

use std::sync::LazyLock;

use super::registry::{Display, OptionRow, Scope, ValueForm};
use super::stream_rows;

/// Declares the rows, each as a constant and all of them as [`REGISTRY`].
macro_rules! options {
    ($($constant:ident = $name:literal $(or $spelling:literal)* {
        $default:literal, $form:expr, $scope:ident, $display:ident, $meaning:literal
    })*) => {
        $(
            #[doc = concat!("`", $name, "`: ", $meaning)]
            pub static $constant: OptionRow = OptionRow {
                name: $name,
                spellings: &[$($spelling),*],
                default: $default,
                meaning: $meaning,
                form: $form,
                scope: Scope::$scope,
                display: Display::$display,
            };
        )*

        /// Every option, in the order of the documentation.
        pub static REGISTRY: LazyLock<Vec<&'static OptionRow>> = LazyLock::new(|| {
            let mut rows: Vec<&'static OptionRow> = vec![$(&$constant),*];
            for streams in [
                &stream_rows::DEFAULT_STREAM,
                &stream_rows::BUFFERED_STREAM,
                &stream_rows::PENDING_STREAM,
            ] {
                rows.extend(streams.all());
            }
            rows
        });
    };
}

/// The greatest number of streams that the protocol can ask for.
const MAX_STREAMS: u64 = i32::MAX as u64;

options! {
    PROJECT = "project" or "project_id" {
        "from LOCATION", ValueForm::Text, Session, Shown,
        "the project that holds the table"
    }
    DATASET = "dataset" or "dataset_id" {
        "from LOCATION", ValueForm::Text, Table, Shown,
        "the dataset that holds the table"
    }
    TABLE = "table" or "table_id" {
        "from LOCATION", ValueForm::Text, Table, Shown,
        "the table"
    }
    BILLING_PROJECT = "billing_project" or "quota_project" {
        "the table's project", ValueForm::Text, Session, Shown,
        "the project that pays: parent of read sessions and jobs, quota project of requests"
    }
    LOCATION = "location" {
        "the dataset's", ValueForm::Text, Session, Shown,
        "the region of jobs, such as US or europe-west3"
    }
    REST_ENDPOINT = "rest_endpoint" {
        "https://bigquery.googleapis.com", ValueForm::Address, Session, Shown,
        "address of the REST interface, for a local server or a private endpoint"
    }
    GRPC_ENDPOINT = "grpc_endpoint" {
        "https://bigquerystorage.googleapis.com", ValueForm::Address, Session, Shown,
        "address of the Storage Read and Write interfaces"
    }
    STORAGE_ENDPOINT = "storage_endpoint" {
        "https://storage.googleapis.com", ValueForm::Address, Session,
        Shown,
        "address of Cloud Storage, where sink.write_method file_loads stages its files and dead \
         letters may go"
    }
    ALLOW_PLAINTEXT = "allow_plaintext" {
        "false", ValueForm::Switch, Session, Shown,
        "allow http:// endpoints on other machines; this machine's are always allowed"
    }
    CREDENTIALS = "credentials" {
        "adc; anonymous when the endpoints are local",
        ValueForm::Choice(&["adc", "anonymous", "key_file", "impersonate"]),
        Session, Shown,
        "where the identity comes from: application-default credentials (an access token in \
         GOOGLE_OAUTH_ACCESS_TOKEN comes first), none (local endpoints only), a service account's \
         key file, or a service account to act as"
    }
    CREDENTIALS_KEY_FILE = "credentials.key_file" or "key_file" {
        "none", ValueForm::Text, Session, Hidden,
        "path of a service account's JSON key, read when first needed; implies credentials key_file"
    }
    CREDENTIALS_IMPERSONATE = "credentials.impersonate" or "impersonate" {
        "none", ValueForm::Text, Session, Shown,
        "e-mail of the service account to act as, from application-default credentials or the key \
         file; implies credentials impersonate"
    }
    CREDENTIALS_ALLOW_EXECUTABLES = "credentials.allow_executables" {
        "false", ValueForm::Switch, Session, Shown,
        "accept external-account configurations that run a program to get a token"
    }
    JOB_LABELS = "job_labels" {
        "none", ValueForm::Map, Session, Shown,
        "labels on query jobs, by which their cost can be told apart"
    }
    TRACE_ID = "trace_id" {
        "none", ValueForm::Text, Session, Shown,
        "text of up to 256 bytes that the service logs with each session"
    }
    SCAN_ROW_RESTRICTION = "scan.row_restriction" or "row_restriction" {
        "none", ValueForm::Text, Table, Shown,
        "a GoogleSQL condition that rows must meet, ANDed with the query's own"
    }
    SCAN_PUSHDOWN_FILTERS = "scan.pushdown_filters" {
        "true", ValueForm::Switch, Session, Shown,
        "send the query's conditions to BigQuery where that is sound"
    }
    SCAN_DYNAMIC_FILTERS = "scan.dynamic_filters" {
        "true", ValueForm::Switch, Session, Shown,
        "send the keys of a hash join's build side to BigQuery, in the restriction of the session \
         that reads its other side"
    }
    SCAN_DYNAMIC_FILTER_WAIT = "scan.dynamic_filter_wait" {
        "10 s", ValueForm::DurationOrZero, Session, Shown,
        "how long a session waits for those keys at most; it opens without them then"
    }
    SCAN_DYNAMIC_FILTER_MAX_VALUES = "scan.dynamic_filter_max_values" {
        "10,000", ValueForm::Count { min: 0, max: 1_000_000 }, Session, Shown,
        "beyond this many keys only their bounds are sent; a session is made with DataFusion's own \
         limits, datafusion.optimizer.hash_join_inlist_pushdown_*, raised to it"
    }
    SCAN_MAX_STREAM_COUNT = "scan.max_stream_count" {
        "0", ValueForm::Count { min: 0, max: MAX_STREAMS }, Session, Shown,
        "greatest number of streams of a session; 0 leaves it to the service"
    }
    SCAN_PREFERRED_MIN_STREAM_COUNT = "scan.preferred_min_stream_count" {
        "twice the target partitions", ValueForm::Count { min: 0, max: MAX_STREAMS }, Session,
        Shown,
        "number of streams to ask for; the service gives as many as the data allows"
    }
    SCAN_COMPRESSION = "scan.compression" {
        "lz4", ValueForm::Choice(&["none", "lz4", "zstd", "lz4_response"]), Session,
        Shown,
        "compression on the wire: of Arrow buffers (lz4, zstd) or of whole responses (lz4_response)"
    }
    SCAN_SNAPSHOT_TIME = "scan.snapshot_time" {
        "now", ValueForm::Instant, Session, Shown,
        "read the table as it was then, within its time-travel window; UTC unless an offset is given"
    }
    SCAN_SAMPLE_PERCENTAGE = "scan.sample_percentage" {
        "none", ValueForm::Percentage, Table, Shown,
        "read about this share of the table's blocks"
    }
    SCAN_TIMESTAMP_PRECISION = "scan.timestamp_precision" {
        "micros", ValueForm::Choice(&["micros", "nanos", "picos"]), Session, Shown,
        "how TIMESTAMP(12) columns arrive: microseconds, nanoseconds, or text with picoseconds"
    }
    SCAN_QUERY = "scan.query" {
        "none", ValueForm::Text, Table, Shown,
        "a GoogleSQL SELECT whose result is the table; LOCATION is then the project that runs it"
    }
    SCAN_QUERY_LOCATION = "scan.query_location" {
        "location", ValueForm::Text, Session, Shown,
        "the region of the query's job"
    }
    SCAN_QUERY_RESULT_DATASET = "scan.query_result_dataset" {
        "the service's hidden one", ValueForm::Text, Session, Shown,
        "dataset (or project.dataset) for the query's result, in a table that is deleted after a day"
    }
    SCAN_REUSE_QUERY_RESULT_WITHIN = "scan.reuse_query_result_within" {
        "none", ValueForm::Duration, Session, Shown,
        "read the result of the same query again if it began at most this long ago, up to 24 h; \
         needs a location"
    }
    SCAN_MATERIALIZE_VIEWS = "scan.materialize_views" {
        "false", ValueForm::Switch, Session, Shown,
        "read views, external tables and wildcard tables by a query job, which is billed by what it \
         reads; projection, conditions and limit become part of the query"
    }
    SCAN_MAX_BYTES_SCANNED = "scan.max_bytes_scanned" {
        "none", ValueForm::Size, Session, Shown,
        "refuse a session or query that would scan more, naming the estimate"
    }
    SCAN_RETRY_MAX_ATTEMPTS = "scan.retry_max_attempts" {
        "25", ValueForm::Count { min: 1, max: 1_000_000 }, Session, Shown,
        "attempts in a row without a new row before a stream fails"
    }
    SCAN_IDLE_TIMEOUT = "scan.idle_timeout" {
        "5 min", ValueForm::Duration, Session, Shown,
        "a stream that is silent for this long is opened again where it stopped"
    }
    SCAN_PARTITION_COLUMNS = "scan.partition_columns" {
        "false", ValueForm::Switch, Session, Shown,
        "show _PARTITIONTIME and _PARTITIONDATE where the table has them, and _TABLE_SUFFIX of \
         wildcard tables"
    }
    SINK_WRITE_METHOD = "sink.write_method" or "write_method" {
        "storage_api_at_least_once",
        ValueForm::Choice(&[
            "storage_api_at_least_once", "storage_api_exactly_once", "storage_api_atomic",
            "file_loads",
        ]),
        Session, Shown,
        "how INSERT writes: to the default stream, to buffered streams, to pending streams, or by load \
         jobs from files in Cloud Storage"
    }
    SINK_FORMAT = "sink.format" {
        "auto", ValueForm::Choice(&["auto", "arrow", "proto"]), Session, Shown,
        "how rows are encoded for the Storage Write API; auto takes proto, which can hold every \
         column"
    }
    SINK_PARTITION = "sink.partition" {
        "none", ValueForm::Text, Table, Shown,
        "the table's one partition that is written, as 20260101 for a day, 202601 for a month or \
         2026010100 for an hour; LOCATION 'project.dataset.table$20260101' says it too"
    }
    SINK_STAGING_PATH = "sink.file_loads.staging_path" {
        "none", ValueForm::Text, Session, Shown,
        "where file_loads stages files, as gs://bucket/prefix; the bucket lies where the table's \
         dataset does"
    }
    SINK_WRITE_DISPOSITION = "sink.file_loads.write_disposition" {
        "write_append",
        ValueForm::Choice(&[
            "write_append", "write_truncate", "write_truncate_data", "write_empty",
        ]),
        Session, Shown,
        "what a commit by file_loads does with the rows that the table has: it adds to them, replaces \
         them (write_truncate takes schema and constraints from the load, write_truncate_data keeps \
         the table's), or fails when there are any (write_empty)"
    }
    SINK_STAGING_FORMAT = "sink.file_loads.staging_format" {
        "avro", ValueForm::Choice(&["avro", "parquet"]), Session, Shown,
        "format of staged files; a JSON column makes it avro"
    }
    SINK_STAGING_COMPRESSION = "sink.file_loads.compression" {
        "zstd",
        ValueForm::Choice(&["none", "snappy", "deflate", "gzip", "lz4_raw", "zstd"]),
        Session, Shown,
        "compression of staged files; deflate is avro's alone, gzip and lz4_raw are parquet's"
    }
    SINK_MAX_STAGING_FILE_BYTES = "sink.file_loads.max_staging_file_bytes" {
        "16 MiB", ValueForm::Size, Session, Shown,
        "a staged file of about this size is finished and the next begun"
    }
    SINK_TEMP_DATASET = "sink.file_loads.temp_dataset" {
        "none", ValueForm::Text, Session, Shown,
        "dataset (or project.dataset), in the region of the table's, for the temporary tables of \
         commits that one job cannot do; the table's dataset if not said"
    }
    SINK_MIN_CHECKPOINT_INTERVAL = "sink.file_loads.min_checkpoint_interval" {
        "2 min", ValueForm::Duration, Session, Shown,
        "sink.checkpoint_interval may not be shorter under file_loads, because a table takes 1,500 \
         load jobs in a day; below 5 min it is logged"
    }
    SINK_LOAD_POLL_INITIAL_BACKOFF = "sink.file_loads.load_job_poll.initial_backoff" {
        "1 s", ValueForm::Duration, Session, Shown,
        "wait before a job that runs is looked at again, or a fifth of the time that it was waited \
         for, if that is longer"
    }
    SINK_LOAD_POLL_MAX_BACKOFF = "sink.file_loads.load_job_poll.max_backoff" {
        "30 s", ValueForm::Duration, Session, Shown,
        "greatest of these waits; a job is waited for until it is done"
    }
    SINK_RECONCILE_INITIAL_BACKOFF = "sink.file_loads.schema_reconcile.initial_backoff" {
        "500 ms", ValueForm::Duration, Session, Shown,
        "wait before file_loads tries again to change a table that somebody else changed first; it \
         doubles from try to try"
    }
    SINK_RECONCILE_MAX_BACKOFF = "sink.file_loads.schema_reconcile.max_backoff" {
        "10 s", ValueForm::Duration, Session, Shown,
        "greatest of these waits"
    }
    SINK_RECONCILE_MAX_ATTEMPTS = "sink.file_loads.schema_reconcile.max_attempts" {
        "10", ValueForm::Count { min: 1, max: 1_000 }, Session, Shown,
        "tries, the first one included"
    }
    SINK_MAX_CONCURRENT_FINALIZATIONS = "sink.file_loads.max_concurrent_finalizations" {
        "1", ValueForm::Count { min: 1, max: 8 }, Session, Shown,
        "files of one writer that are finished and uploaded at the same time"
    }
    SINK_KEEP_STAGED_FILES = "sink.file_loads.keep_staged_files" {
        "false", ValueForm::Switch, Session, Shown,
        "keep staged files after a commit; those of a failed commit always stay"
    }
    SINK_MISSING_VALUE = "sink.missing_value" {
        "null", ValueForm::Choice(&["null", "default"]), Session, Shown,
        "what a column that an INSERT leaves out gets: NULL, or the default that the table has for \
         it. An explicit NULL stays NULL"
    }
    SINK_CREATE_DISPOSITION = "sink.create_disposition" or "create_disposition" {
        "create_if_needed", ValueForm::Choice(&["create_if_needed", "create_never"]), Session,
        Shown,
        "what INSERT does when its table does not exist: make it of the columns that were declared, \
         with the first row, or fail"
    }
    SINK_CREATE_TIME_TYPE = "sink.table_create.time_partitioning.type" {
        "none", ValueForm::Choice(&["hour", "day", "month", "year"]), Session, Shown,
        "a table that is made is partitioned by this much time"
    }
    SINK_CREATE_TIME_FIELD = "sink.table_create.time_partitioning.field" {
        "none", ValueForm::Text, Session, Shown,
        "by the time in this DATE, DATETIME or TIMESTAMP column; without it by the time of ingestion"
    }
    SINK_CREATE_TIME_EXPIRATION = "sink.table_create.time_partitioning.expiration" {
        "none", ValueForm::Duration, Session, Shown,
        "partitions are deleted by the service this long after their time"
    }
    SINK_CREATE_RANGE_FIELD = "sink.table_create.range_partitioning.field" {
        "none", ValueForm::Text, Session, Shown,
        "a table that is made is partitioned by ranges of this INT64 column"
    }
    SINK_CREATE_RANGE_START = "sink.table_create.range_partitioning.start" {
        "none", ValueForm::Integer, Session, Shown,
        "where the first range begins"
    }
    SINK_CREATE_RANGE_END = "sink.table_create.range_partitioning.end" {
        "none", ValueForm::Integer, Session, Shown,
        "where the last range ends, itself not included"
    }
    SINK_CREATE_RANGE_INTERVAL = "sink.table_create.range_partitioning.interval" {
        "none", ValueForm::Integer, Session, Shown,
        "how wide a range is"
    }
    SINK_CREATE_CLUSTERED_FIELDS = "sink.table_create.clustered_fields" {
        "none", ValueForm::Text, Session, Shown,
        "up to four columns by which a table that is made keeps its rows together"
    }
    SINK_CREATE_LABELS = "sink.table_create.labels" {
        "none", ValueForm::Map, Session, Shown,
        "labels of a table that is made"
    }
    SINK_CREATE_DESCRIPTION = "sink.table_create.description" {
        "none", ValueForm::Text, Session, Shown,
        "description of a table that is made"
    }
    SINK_CREATE_EXPIRATION = "sink.table_create.expiration" {
        "none", ValueForm::Duration, Session, Shown,
        "a table that is made is deleted by the service this long after"
    }
    SINK_DERIVE_REQUIRED_COLUMNS = "sink.derive_required_columns" {
        "false", ValueForm::Switch, Session, Shown,
        "columns that are declared NOT NULL are REQUIRED in a table that is made; otherwise all are \
         NULLABLE"
    }
    SINK_JSON_FIELD_PATHS = "sink.json_field_paths" {
        "none", ValueForm::Text, Session, Shown,
        "columns that are JSON, as dotted paths such as payload or order.details: text that is JSON \
         already, and structs and maps, which become JSON text"
    }
    SINK_GEOGRAPHY_FIELD_PATHS = "sink.geography_field_paths" {
        "none", ValueForm::Text, Session, Shown,
        "columns of text that are GEOGRAPHY, as dotted paths: well-known text or GeoJSON"
    }
    SINK_ALLOW_NEW_FIELDS = "sink.schema_update.allow_new_fields" {
        "false", ValueForm::Switch, Session, Shown,
        "columns and fields of structs that the rows have and the table lacks are added to it, \
         NULLABLE; otherwise such a column is an error"
    }
    SINK_ALLOW_FIELD_RELAXATION = "sink.schema_update.allow_field_relaxation" {
        "false", ValueForm::Switch, Session, Shown,
        "REQUIRED columns that the rows lack or that may be NULL in them become NULLABLE; nothing \
         ever becomes REQUIRED"
    }
    SINK_PROPAGATION_INTERVAL = "sink.propagation.interval" {
        "30 s", ValueForm::Duration, Session, Shown,
        "wait before rows are sent again that were refused because the change of their table, or its \
         creation, has not reached the servers that take rows"
    }
    SINK_PROPAGATION_ATTEMPTS = "sink.propagation.attempts" {
        "30", ValueForm::Count { min: 1, max: 1_000_000 }, Session, Shown,
        "such refusals in a row before the statement fails"
    }
    SINK_FAILURE_POLICY = "sink.failure.policy" {
        "fail", ValueForm::Choice(&["fail", "drop", "dead_letter"]), Session, Shown,
        "what becomes of a row that cannot be written: the statement fails, or the row is counted \
         and left out, and logged (drop) or kept elsewhere with the reason (dead_letter)"
    }
    SINK_FAILURE_MAX_ROWS = "sink.failure.max_rows" {
        "none", ValueForm::Count { min: 0, max: 4_294_967_295 }, Session, Shown,
        "under drop and dead_letter, the statement fails when more rows than this could not be \
         written"
    }
    SINK_FAILURE_DEAD_LETTER = "sink.failure.dead_letter" {
        "none", ValueForm::Text, Session, Shown,
        "where rows go under dead_letter: file:///directory/file (lines of JSON), gs://bucket/prefix \
         (objects of such lines), bigquery://project.dataset.table or \
         pubsub://projects/project/topics/topic"
    }
    SINK_FAILURE_MAX_OUTSTANDING = "sink.failure.max_outstanding" {
        "1000", ValueForm::Integer, Session, Shown,
        "so many dead letters may wait until they are delivered together; 0 delivers each at once, -1 \
         all before the commit"
    }
    SINK_FAILURE_FLUSH_TIMEOUT = "sink.failure.flush_timeout" {
        "60 s", ValueForm::Duration, Session, Shown,
        "a delivery of dead letters that takes longer fails the statement"
    }
    SINK_FAILURE_SHUTDOWN_TIMEOUT = "sink.failure.shutdown_timeout" {
        "30 s", ValueForm::Duration, Session, Shown,
        "the same for the last delivery, at the end of a writer"
    }
    SINK_FAILURE_PUBSUB_ENDPOINT = "sink.failure.pubsub_endpoint" {
        "https://pubsub.googleapis.com", ValueForm::Address, Session, Shown,
        "address of Pub/Sub, for a local server"
    }
    SINK_FAILURE_KEY_FILE = "sink.failure.credentials.key_file" {
        "none", ValueForm::Text, Session, Hidden,
        "path of a service account's JSON key: dead letters are delivered as that account"
    }
    SINK_FAILURE_IMPERSONATE = "sink.failure.credentials.impersonate" {
        "none", ValueForm::Text, Session, Shown,
        "e-mail of a service account as which dead letters are delivered"
    }
    SINK_DESTINATION = "sink.destination" {
        "none", ValueForm::Text, Table, Shown,
        "a table's name with columns in braces, such as project.dataset.orders_{tenant}: each row \
         goes to the table that its values name; otherwise all go to the one of LOCATION. Not \
         with the write method storage_api_atomic, whose commit is of one table"
    }
    SINK_DESTINATION_DROP_COLUMNS = "sink.destination.drop_columns" {
        "none", ValueForm::Text, Table, Shown,
        "columns that only say where rows go and are not written"
    }
    SINK_DESTINATION_IDLE_TIMEOUT = "sink.destination_idle_timeout" {
        "1 h", ValueForm::Duration, Session, Shown,
        "the writer of a table that has no rows for this long is put away"
    }
    SINK_PER_DESTINATION_METRICS = "sink.per_destination_metrics" {
        "false", ValueForm::Switch, Session, Shown,
        "count rows for each table that they go to, besides all together"
    }
    SINK_PARALLELISM = "sink.parallelism" {
        "none", ValueForm::Count { min: 1, max: 1_000 }, Session,
        Shown,
        "so many writers of a statement side by side, in place of one for each of the plan's \
         partitions; changes of one key go to one of them"
    }
    SINK_MIN_CONNECTIONS = "sink.default_stream.min_connections" {
        "2", ValueForm::Count { min: 1, max: 1_000 }, Session, Shown,
        "a writer opens another connection while it waits for answers on those it has, until the \
         statement has so many"
    }
    SINK_MAX_CONNECTIONS = "sink.default_stream.max_connections" {
        "20", ValueForm::Count { min: 1, max: 1_000 }, Session, Shown,
        "a writer opens another connection when those it has take no more requests, until the \
         statement has so many; each partition's writer has one in any case"
    }
    SINK_FLUSH_INTERVAL = "sink.default_stream.flush_interval" {
        "none", ValueForm::Duration, Session, Shown,
        "rows of an input that gives few of them are sent, and visible, at the latest so long after \
         they came; without it they wait until there are enough for a request, or for the commit"
    }
    SINK_CHECKPOINT_PATH = "sink.checkpoint_path" {
        "none", ValueForm::Text, Session, Shown,
        "directory, gs://bucket/prefix, or URL of a folder in an object store that the session \
         knows, where statements with a run id note what they have prepared and committed"
    }
    SINK_CHECKPOINT_INTERVAL = "sink.checkpoint_interval" {
        "none", ValueForm::Duration, Session, Shown,
        "time between two commits of an INSERT whose input never ends, which cannot do without; one \
         whose input ends commits once, at its end"
    }
    SINK_RUN_ID = "sink.run_id" {
        "none", ValueForm::Text, Session, Shown,
        "name of a statement by which it can be repeated: a repetition completes what the first \
         execution had prepared, or does nothing; letters, digits, '.', '-' and '_'"
    }
    SINK_CDC_ENABLED = "sink.cdc.enabled" {
        "false", ValueForm::Switch, Table, Shown,
        "rows are changes by the table's primary key: the table is write-only and has the columns \
         _CHANGE_TYPE ('UPSERT', which NULL means too, or 'DELETE') and _CHANGE_SEQUENCE_NUMBER; \
         needs sink.write_method storage_api_at_least_once"
    }
    SINK_CDC_MAX_STALENESS = "sink.cdc.max_staleness" {
        "none", ValueForm::Duration, Table, Shown,
        "how far queries may be behind the changes, in whole seconds; verified before the first \
         write, and set before it for a table that is created and under \
         sink.cdc.table_reconciliation reconcile; where it is not said, the table keeps what it has"
    }
    SINK_CDC_CLEAR_MAX_STALENESS = "sink.cdc.clear_max_staleness" {
        "false", ValueForm::Switch, Table, Shown,
        "queries see every change: the table must have no max_staleness, which is taken away under \
         sink.cdc.table_reconciliation reconcile"
    }
    SINK_CDC_TABLE_RECONCILIATION = "sink.cdc.table_reconciliation" {
        "verify_only", ValueForm::Choice(&["verify_only", "reconcile"]), Table, Shown,
        "what becomes of a table without the declared primary key, with another max_staleness or \
         with an interrupted reconciliation: the write fails, or the table is changed before it; \
         another primary key is never replaced"
    }
    SINK_CDC_MYSQL_SOURCE_UUIDS = "sink.cdc.debezium_mysql.source_uuids" {
        "none", ValueForm::Uuids, Session, Shown,
        "only with SET: UUIDs of the MySQL servers behind bigquery_sequence_debezium_mysql, in the order in which \
         they took over from each other; append new ones, and never move or remove one"
    }
    SINK_CDC_TICDC_CLUSTER_ID = "sink.cdc.ticdc.cluster_id" {
        "none", ValueForm::Text, Session, Shown,
        "only with SET: the cluster whose changes bigquery_sequence_ticdc orders; those of another \
         fail"
    }
}
