//! Options as they apply: typed, with defaults, checked against each other.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::endpoint::{EndpointUrl, Plaintext};
use super::failure::DeadLetterTarget;
use super::raw::RawOptions;
use super::registry::{self, OptionRow};
use super::sink::{SinkOptions, WriteMethod, check_methods, sink};
use super::values;
use crate::error::{Error, Result};

/// Google's addresses.
const GOOGLE_REST: &str = "https://bigquery.googleapis.com";
const GOOGLE_GRPC: &str = "https://bigquerystorage.googleapis.com";
const GOOGLE_STORAGE: &str = "https://storage.googleapis.com";

/// The service keeps no more of a trace id than this
/// (`ReadSession.trace_id`).
const MAX_TRACE_ID_BYTES: usize = 256;

/// Every option as it applies.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// How to reach the service, and as whom.
    pub connection: ConnectionOptions,
    /// Which table.
    pub table: TableOptions,
    /// How to read.
    pub scan: ScanOptions,
    /// Which queries to run, and how.
    pub query: QueryOptions,
    /// How to write.
    pub sink: SinkOptions,
}

/// Which queries to run, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryOptions {
    /// The query whose result is the table.
    pub text: Option<String>,
    /// The region of query jobs; where absent, that of the data.
    pub location: Option<String>,
    /// `dataset` or `project.dataset` for results.
    pub result_dataset: Option<String>,
    /// How old a result may be to be read again.
    pub reuse_within: Option<Duration>,
    /// Whether what cannot be read directly is read by a query.
    pub materialize_views: bool,
    /// Labels of jobs.
    pub labels: Vec<(String, String)>,
}

/// How to reach the service, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// The project that pays; where absent, the table's.
    pub billing_project: Option<String>,
    /// The region of jobs; where absent, the dataset's.
    pub location: Option<String>,
    /// The REST interface.
    pub rest_endpoint: EndpointUrl,
    /// The Storage Read and Write interfaces.
    pub grpc_endpoint: EndpointUrl,
    /// Cloud Storage.
    pub storage_endpoint: EndpointUrl,
    /// As whom.
    pub credentials: CredentialsOptions,
    /// Text of at most 256 bytes that the service logs with sessions.
    pub trace_id: Option<String>,
}

impl Default for ConnectionOptions {
    /// The service itself, as the application-default identity.
    fn default() -> Self {
        ConnectionOptions {
            billing_project: None,
            location: None,
            rest_endpoint: EndpointUrl::google(GOOGLE_REST),
            grpc_endpoint: EndpointUrl::google(GOOGLE_GRPC),
            storage_endpoint: EndpointUrl::google(GOOGLE_STORAGE),
            credentials: CredentialsOptions {
                source: CredentialsSource::ApplicationDefault,
                impersonate: None,
                executables: Executables::Refused,
            },
            trace_id: None,
        }
    }
}

/// As whom requests are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialsOptions {
    /// Where the identity comes from.
    pub source: CredentialsSource,
    /// The e-mail of a service account that this identity acts as.
    pub impersonate: Option<String>,
    /// What to do with external-account configurations that run programs.
    pub executables: Executables,
}

/// Where an identity comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum CredentialsSource {
    /// Application-default credentials.
    ApplicationDefault,
    /// The JSON key of a service account, in the file of this path.
    KeyFile(PathBuf),
    /// Nowhere: requests carry no identity. Only for local servers.
    Anonymous,
}

/// The path of a key file does not show.
impl fmt::Debug for CredentialsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CredentialsSource::ApplicationDefault => "ApplicationDefault",
            CredentialsSource::KeyFile(_) => "KeyFile(..)",
            CredentialsSource::Anonymous => "Anonymous",
        })
    }
}

/// What to do with external-account configurations that run a program to get
/// a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executables {
    /// Refuse them.
    Refused,
    /// Run the program.
    Allowed,
}

/// Which table, as far as options say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableOptions {
    /// The project that holds the table.
    pub project: Option<String>,
    /// The dataset that holds the table.
    pub dataset: Option<String>,
    /// The table.
    pub table: Option<String>,
}

/// How to read.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanOptions {
    /// A GoogleSQL condition that rows must meet besides the query's own.
    pub row_restriction: Option<String>,
    /// Whether conditions of the query go to BigQuery.
    pub pushdown_filters: bool,
    /// Whether the keys of a hash join's build side go to BigQuery.
    pub dynamic_filters: bool,
    /// How long a session waits for those keys at most.
    pub dynamic_filter_wait: Duration,
    /// Beyond this many keys only their bounds are sent.
    pub dynamic_filter_max_values: usize,
    /// Greatest number of streams; 0 leaves it to the service.
    pub max_stream_count: u32,
    /// Number of streams to ask for; where absent, twice the target partitions.
    pub preferred_min_stream_count: Option<u32>,
    /// Compression on the wire.
    pub compression: Compression,
    /// The time as of which to read; where absent, now.
    pub snapshot_time: Option<DateTime<Utc>>,
    /// The share of blocks to read, 0 to 100.
    pub sample_percentage: Option<f64>,
    /// How TIMESTAMP(12) columns arrive.
    pub timestamp_precision: TimestampPrecision,
    /// Refuse a session that would scan more bytes than this.
    pub max_bytes_scanned: Option<u64>,
    /// Attempts in a row without a new row before a stream fails.
    pub retry_max_attempts: u32,
    /// A stream silent for this long is opened again where it stopped.
    pub idle_timeout: Duration,
    /// Whether a table's pseudo-columns are columns.
    pub partition_columns: bool,
}

impl Default for ScanOptions {
    fn default() -> Self {
        ScanOptions {
            row_restriction: None,
            pushdown_filters: true,
            dynamic_filters: true,
            dynamic_filter_wait: Duration::from_secs(10),
            dynamic_filter_max_values: 10_000,
            max_stream_count: 0,
            preferred_min_stream_count: None,
            compression: Compression::default(),
            snapshot_time: None,
            sample_percentage: None,
            timestamp_precision: TimestampPrecision::default(),
            max_bytes_scanned: None,
            retry_max_attempts: 25,
            idle_timeout: Duration::from_secs(300),
            partition_columns: false,
        }
    }
}

/// Compression on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// None.
    None,
    /// LZ4 frames, one for each Arrow buffer. The default: it halves the
    /// bytes of uncompressed Arrow and costs next to nothing to undo.
    #[default]
    Lz4,
    /// Zstandard, one frame for each Arrow buffer.
    Zstd,
    /// One LZ4 block around each response.
    Lz4Response,
}

/// How TIMESTAMP(12) columns arrive; columns of microseconds always arrive as
/// such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimestampPrecision {
    /// As microseconds.
    #[default]
    Micros,
    /// As nanoseconds.
    Nanos,
    /// As ISO-8601 text with twelve fractional digits.
    Picos,
}

impl Options {
    /// What options mean that are all said of one thing.
    ///
    /// # Errors
    /// As [`resolve_over`](Self::resolve_over).
    pub fn resolve(raw: &RawOptions) -> Result<Self> {
        Self::resolve_over(raw, &RawOptions::new())
    }

    /// What the options of a table mean over the defaults of its session. A
    /// default may be about what this table does not do; its own options may
    /// not.
    ///
    /// # Errors
    /// A pair that cannot go together, or an address that is not allowed. The error
    /// names them.
    pub fn resolve_over(own: &RawOptions, defaults: &RawOptions) -> Result<Self> {
        let raw = &own.or_defaults(defaults);
        check_pairs(raw)?;
        check_used(own, raw)?;
        check_methods(own, raw)?;
        super::cdc::check_used(own, raw)?;
        let connection = connection(raw)?;
        let sink = sink(raw)?;
        check_storage(raw, &connection, &sink)?;
        Ok(Options {
            connection,
            table: TableOptions {
                project: text(raw, &registry::PROJECT),
                dataset: text(raw, &registry::DATASET),
                table: text(raw, &registry::TABLE),
            },
            scan: scan(raw),
            query: query(raw),
            sink,
        })
    }
}

/// The pairs that cannot go together whatever else is said.
fn check_pairs(raw: &RawOptions) -> Result<()> {
    use registry::{
        SCAN_MATERIALIZE_VIEWS, SCAN_MAX_STREAM_COUNT, SCAN_PREFERRED_MIN_STREAM_COUNT, SCAN_QUERY,
        SCAN_QUERY_LOCATION, SCAN_REUSE_QUERY_RESULT_WITHIN, SCAN_SAMPLE_PERCENTAGE,
        SCAN_SNAPSHOT_TIME,
    };
    let said = |row: &OptionRow| raw.get(row).is_some();
    let views = is_on(raw, &SCAN_MATERIALIZE_VIEWS);
    if said(&SCAN_QUERY) && views {
        return Err(pair(
            &SCAN_QUERY,
            &SCAN_MATERIALIZE_VIEWS,
            "a query and a view are two sources: keep one",
        ));
    }
    if said(&SCAN_QUERY) && said(&SCAN_SNAPSHOT_TIME) {
        return Err(pair(
            &SCAN_SNAPSHOT_TIME,
            &SCAN_QUERY,
            "leave the first one out (or RESET it, if the session says it) and write FOR SYSTEM_TIME \
             AS OF inside the query",
        ));
    }
    if said(&SCAN_QUERY) && said(&SCAN_SAMPLE_PERCENTAGE) {
        return Err(pair(
            &SCAN_SAMPLE_PERCENTAGE,
            &SCAN_QUERY,
            "leave the first one out (or RESET it, if the session says it) and write TABLESAMPLE \
             inside the query",
        ));
    }
    if let Some(window) = duration(raw, &SCAN_REUSE_QUERY_RESULT_WITHIN) {
        if window > Duration::from_secs(24 * 3600) {
            let value = raw.get(&SCAN_REUSE_QUERY_RESULT_WITHIN).unwrap_or_default();
            return Err(SCAN_REUSE_QUERY_RESULT_WITHIN.refused(
                value,
                "at most 24 h, because BigQuery keeps results for a day",
            ));
        }
        let runs = said(&SCAN_QUERY) || views;
        if runs && !said(&SCAN_QUERY_LOCATION) && !said(&registry::LOCATION) {
            return Err(Error::configuration(format!(
                "option '{}' needs '{}': jobs are found again only in their region",
                SCAN_REUSE_QUERY_RESULT_WITHIN.name, SCAN_QUERY_LOCATION.name
            )));
        }
    }
    let most = count(raw, &SCAN_MAX_STREAM_COUNT).unwrap_or(0);
    if let Some(least) = count(raw, &SCAN_PREFERRED_MIN_STREAM_COUNT)
        && most != 0
        && least > most
    {
        return Err(pair(
            &SCAN_PREFERRED_MIN_STREAM_COUNT,
            &SCAN_MAX_STREAM_COUNT,
            &format!("{least} is more than {most}"),
        ));
    }
    Ok(())
}

/// Options about queries that a table says of itself need a query.
fn check_used(own: &RawOptions, all: &RawOptions) -> Result<()> {
    use registry::{
        SCAN_MATERIALIZE_VIEWS, SCAN_QUERY, SCAN_QUERY_LOCATION, SCAN_QUERY_RESULT_DATASET,
        SCAN_REUSE_QUERY_RESULT_WITHIN,
    };
    if all.get(&SCAN_QUERY).is_some() || is_on(all, &SCAN_MATERIALIZE_VIEWS) {
        return Ok(());
    }
    for row in [
        &SCAN_QUERY_LOCATION,
        &SCAN_QUERY_RESULT_DATASET,
        &SCAN_REUSE_QUERY_RESULT_WITHIN,
    ] {
        if own.get(row).is_some() {
            return Err(Error::configuration(format!(
                "option '{}' needs '{}' or '{}': without them no query runs",
                row.name, SCAN_QUERY.name, SCAN_MATERIALIZE_VIEWS.name
            )));
        }
    }
    Ok(())
}

fn query(raw: &RawOptions) -> QueryOptions {
    QueryOptions {
        text: text(raw, &registry::SCAN_QUERY),
        location: text(raw, &registry::SCAN_QUERY_LOCATION)
            .or_else(|| text(raw, &registry::LOCATION)),
        result_dataset: text(raw, &registry::SCAN_QUERY_RESULT_DATASET),
        reuse_within: duration(raw, &registry::SCAN_REUSE_QUERY_RESULT_WITHIN),
        materialize_views: is_on(raw, &registry::SCAN_MATERIALIZE_VIEWS),
        labels: raw
            .get(&registry::JOB_LABELS)
            .and_then(values::map)
            .unwrap_or_default(),
    }
}

pub(super) fn pair(one: &OptionRow, other: &OptionRow, why: &str) -> Error {
    Error::configuration(format!(
        "options '{}' and '{}' cannot go together: {why}",
        one.name, other.name
    ))
}

fn connection(raw: &RawOptions) -> Result<ConnectionOptions> {
    let plaintext = if is_on(raw, &registry::ALLOW_PLAINTEXT) {
        Plaintext::Anywhere
    } else {
        Plaintext::LoopbackOnly
    };
    let endpoint = |row: &OptionRow, google| match raw.get(row) {
        Some(text) => EndpointUrl::parse(row, text, plaintext),
        None => Ok(EndpointUrl::google(google)),
    };
    let rest_endpoint = endpoint(&registry::REST_ENDPOINT, GOOGLE_REST)?;
    let grpc_endpoint = endpoint(&registry::GRPC_ENDPOINT, GOOGLE_GRPC)?;
    let storage_endpoint = endpoint(&registry::STORAGE_ENDPOINT, GOOGLE_STORAGE)?;
    // Cloud Storage is used by none of the requests that need both others, so
    // a local server without it is complete as long as nothing is staged.
    let mut endpoints = vec![
        (&registry::REST_ENDPOINT, &rest_endpoint),
        (&registry::GRPC_ENDPOINT, &grpc_endpoint),
    ];
    if raw.get(&registry::STORAGE_ENDPOINT).is_some() {
        endpoints.push((&registry::STORAGE_ENDPOINT, &storage_endpoint));
    }
    let credentials = credentials(raw, &endpoints)?;
    let trace_id = text(raw, &registry::TRACE_ID);
    if let Some(trace_id) = &trace_id
        && trace_id.len() > MAX_TRACE_ID_BYTES
    {
        return Err(registry::TRACE_ID.refused(trace_id, "at most 256 bytes long"));
    }
    Ok(ConnectionOptions {
        billing_project: text(raw, &registry::BILLING_PROJECT),
        location: text(raw, &registry::LOCATION),
        rest_endpoint,
        grpc_endpoint,
        storage_endpoint,
        credentials,
        trace_id,
    })
}

/// Who writes to Cloud Storage beside a local BigQuery needs a local one: the service's
/// own would be asked without credentials.
fn check_storage(
    raw: &RawOptions,
    connection: &ConnectionOptions,
    sink: &SinkOptions,
) -> Result<()> {
    let user = if sink.write_method == WriteMethod::FileLoads {
        &registry::SINK_WRITE_METHOD
    } else if let Some(DeadLetterTarget::Objects(_)) = sink.failure.dead_letter {
        &registry::SINK_FAILURE_DEAD_LETTER
    } else {
        return Ok(());
    };
    if connection.rest_endpoint.is_local() == connection.storage_endpoint.is_local() {
        return Ok(());
    }
    Err(Error::configuration(format!(
        "option '{}' set to '{}' needs '{}' and '{}' to be of one place, and they are {} and {}",
        user.name,
        raw.get(user).unwrap_or_default(),
        registry::REST_ENDPOINT.name,
        registry::STORAGE_ENDPOINT.name,
        connection.rest_endpoint,
        connection.storage_endpoint
    )))
}

/// The identity, checked against where it would be sent.
fn credentials(
    raw: &RawOptions,
    endpoints: &[(&'static OptionRow, &EndpointUrl)],
) -> Result<CredentialsOptions> {
    use registry::{CREDENTIALS, CREDENTIALS_IMPERSONATE, CREDENTIALS_KEY_FILE};
    let local = endpoints.iter().find(|(_, endpoint)| endpoint.is_local());
    let google = endpoints.iter().find(|(_, endpoint)| !endpoint.is_local());
    let key_file = raw.get(&CREDENTIALS_KEY_FILE).map(PathBuf::from);
    let impersonate = text(raw, &CREDENTIALS_IMPERSONATE);
    let said = raw.get(&CREDENTIALS).map(str::to_ascii_lowercase);
    let needs = |what: &OptionRow| {
        Err(Error::configuration(format!(
            "option '{}' set to '{}' needs option '{}' beside it",
            CREDENTIALS.name,
            said.as_deref().unwrap_or_default(),
            what.name
        )))
    };
    let contradicts = |what: &OptionRow| {
        Err(pair(
            &CREDENTIALS,
            what,
            &format!("'{}' does not use it", said.as_deref().unwrap_or_default()),
        ))
    };
    let source = match (said.as_deref(), key_file) {
        (Some("key_file"), None) => return needs(&CREDENTIALS_KEY_FILE),
        (Some("adc" | "anonymous"), Some(_)) => return contradicts(&CREDENTIALS_KEY_FILE),
        (Some("adc" | "anonymous"), None) if impersonate.is_some() => {
            return contradicts(&CREDENTIALS_IMPERSONATE);
        }
        (Some("impersonate"), _) if impersonate.is_none() => {
            return needs(&CREDENTIALS_IMPERSONATE);
        }
        (_, Some(path)) => CredentialsSource::KeyFile(path),
        (Some("anonymous"), None) => CredentialsSource::Anonymous,
        (None, None) if google.is_none() && impersonate.is_none() => CredentialsSource::Anonymous,
        (_, None) => CredentialsSource::ApplicationDefault,
    };
    if let (CredentialsSource::KeyFile(_), Some((endpoint, _))) = (&source, local) {
        return Err(pair(
            &CREDENTIALS_KEY_FILE,
            endpoint,
            "a local server needs no key, and must not see one; leave the key out",
        ));
    }
    if let (Some(_), Some((endpoint, _))) = (&impersonate, local) {
        return Err(pair(
            &CREDENTIALS_IMPERSONATE,
            endpoint,
            "a local server needs no identity, and must not see one; leave it out",
        ));
    }
    if let (CredentialsSource::Anonymous, Some((endpoint, address))) = (&source, google) {
        return Err(Error::configuration(format!(
            "option '{}' cannot be 'anonymous' with '{}' at {address}: only a local server \
             answers without credentials",
            CREDENTIALS.name, endpoint.name
        )));
    }
    Ok(CredentialsOptions {
        source,
        impersonate,
        executables: if is_on(raw, &registry::CREDENTIALS_ALLOW_EXECUTABLES) {
            Executables::Allowed
        } else {
            Executables::Refused
        },
    })
}

fn scan(raw: &RawOptions) -> ScanOptions {
    let defaults = ScanOptions::default();
    ScanOptions {
        row_restriction: text(raw, &registry::SCAN_ROW_RESTRICTION),
        pushdown_filters: raw
            .get(&registry::SCAN_PUSHDOWN_FILTERS)
            .and_then(values::switch)
            .unwrap_or(defaults.pushdown_filters),
        dynamic_filters: raw
            .get(&registry::SCAN_DYNAMIC_FILTERS)
            .and_then(values::switch)
            .unwrap_or(defaults.dynamic_filters),
        dynamic_filter_wait: duration(raw, &registry::SCAN_DYNAMIC_FILTER_WAIT)
            .unwrap_or(defaults.dynamic_filter_wait),
        dynamic_filter_max_values: count(raw, &registry::SCAN_DYNAMIC_FILTER_MAX_VALUES)
            .and_then(|most| usize::try_from(most).ok())
            .unwrap_or(defaults.dynamic_filter_max_values),
        max_stream_count: count(raw, &registry::SCAN_MAX_STREAM_COUNT)
            .unwrap_or(defaults.max_stream_count),
        preferred_min_stream_count: count(raw, &registry::SCAN_PREFERRED_MIN_STREAM_COUNT),
        compression: match lower(raw, &registry::SCAN_COMPRESSION).as_deref() {
            Some("none") => Compression::None,
            Some("lz4") => Compression::Lz4,
            Some("zstd") => Compression::Zstd,
            Some("lz4_response") => Compression::Lz4Response,
            _ => defaults.compression,
        },
        snapshot_time: raw
            .get(&registry::SCAN_SNAPSHOT_TIME)
            .and_then(values::instant),
        sample_percentage: raw
            .get(&registry::SCAN_SAMPLE_PERCENTAGE)
            .and_then(values::percentage),
        timestamp_precision: match lower(raw, &registry::SCAN_TIMESTAMP_PRECISION).as_deref() {
            Some("micros") => TimestampPrecision::Micros,
            Some("nanos") => TimestampPrecision::Nanos,
            Some("picos") => TimestampPrecision::Picos,
            _ => defaults.timestamp_precision,
        },
        max_bytes_scanned: raw
            .get(&registry::SCAN_MAX_BYTES_SCANNED)
            .and_then(values::size),
        retry_max_attempts: count(raw, &registry::SCAN_RETRY_MAX_ATTEMPTS)
            .unwrap_or(defaults.retry_max_attempts),
        idle_timeout: duration(raw, &registry::SCAN_IDLE_TIMEOUT).unwrap_or(defaults.idle_timeout),
        partition_columns: is_on(raw, &registry::SCAN_PARTITION_COLUMNS),
    }
}

fn text(raw: &RawOptions, row: &OptionRow) -> Option<String> {
    raw.get(row).map(str::to_string)
}

pub(super) fn lower(raw: &RawOptions, row: &OptionRow) -> Option<String> {
    raw.get(row).map(str::to_ascii_lowercase)
}

pub(super) fn is_on(raw: &RawOptions, row: &OptionRow) -> bool {
    raw.get(row).and_then(values::switch).unwrap_or(false)
}

pub(super) fn count(raw: &RawOptions, row: &OptionRow) -> Option<u32> {
    let count = values::count(raw.get(row)?)?;
    Some(u32::try_from(count).expect("the registry bounds counts below 2^32"))
}

pub(super) fn duration(raw: &RawOptions, row: &OptionRow) -> Option<Duration> {
    raw.get(row).and_then(values::duration)
}

#[cfg(test)]
#[path = "resolved_connection_tests.rs"]
mod connection_tests;
#[cfg(test)]
#[path = "resolved_tests.rs"]
mod tests;
