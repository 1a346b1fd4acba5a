//! Read sessions: a snapshot of a table, cut into streams.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::datatypes::SchemaRef;
use chrono::{DateTime, Utc};
use googleapis_storage::google::cloud::bigquery::storage::v1::{
    ArrowSerializationOptions, CreateReadSessionRequest, DataFormat, ReadSession as WireSession,
    arrow_serialization_options::{CompressionCodec, PicosTimestampPrecision},
    read_session::{
        Schema, TableModifiers, TableReadOptions,
        table_read_options::{OutputFormatSerializationOptions, ResponseCompressionCodec},
    },
};

use super::channel::{Connections, request};
use super::decode::{Decoder, Payload};
use super::{schema, status};
use crate::auth::Credentials;
use crate::client::endpoint;
use crate::client::retry::{Clock, retry};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Compression, TimestampPrecision};
use crate::types::TableRef;

/// How long one attempt may take; sessions of large tables take seconds.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(120);

/// What to read of which table, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadSessionRequest {
    /// The table.
    pub table: TableRef,
    /// The columns, as names or as dotted paths to fields of structs. None
    /// means all. They arrive in the table's order whatever their order here.
    pub selected_fields: Vec<String>,
    /// A GoogleSQL condition that rows have to meet.
    pub row_restriction: Option<String>,
    /// At most this many streams; 0 leaves it to the service.
    pub max_stream_count: u32,
    /// So many streams if the data allows; 0 leaves it to the service.
    pub preferred_min_stream_count: u32,
    /// Compression on the wire.
    pub compression: Compression,
    /// The time as of which to read; now if absent.
    pub snapshot_time: Option<DateTime<Utc>>,
    /// The share of the table's blocks to read, 0 to 100; all if absent.
    pub sample_percentage: Option<f64>,
    /// How TIMESTAMP(12) columns arrive.
    pub timestamp_precision: TimestampPrecision,
}

impl ReadSessionRequest {
    /// All of a table, with the service's own choices.
    pub fn new(table: TableRef) -> Self {
        ReadSessionRequest {
            table,
            selected_fields: Vec::new(),
            row_restriction: None,
            max_stream_count: 0,
            preferred_min_stream_count: 0,
            compression: Compression::default(),
            snapshot_time: None,
            sample_percentage: None,
            timestamp_precision: TimestampPrecision::default(),
        }
    }

    fn to_wire(&self, parent: String, trace_id: Option<&str>) -> CreateReadSessionRequest {
        let buffer_compression = match self.compression {
            Compression::None | Compression::Lz4Response => {
                CompressionCodec::CompressionUnspecified
            }
            Compression::Lz4 => CompressionCodec::Lz4Frame,
            Compression::Zstd => CompressionCodec::Zstd,
        };
        let response_compression = match self.compression {
            Compression::Lz4Response => Some(ResponseCompressionCodec::Lz4.into()),
            Compression::None | Compression::Lz4 | Compression::Zstd => None,
        };
        let picos = match self.timestamp_precision {
            TimestampPrecision::Micros => PicosTimestampPrecision::TimestampPrecisionMicros,
            TimestampPrecision::Nanos => PicosTimestampPrecision::TimestampPrecisionNanos,
            TimestampPrecision::Picos => PicosTimestampPrecision::TimestampPrecisionPicos,
        };
        let serialization = ArrowSerializationOptions {
            buffer_compression: buffer_compression.into(),
            picos_timestamp_precision: picos.into(),
        };
        let count = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        CreateReadSessionRequest {
            parent,
            read_session: Some(WireSession {
                data_format: DataFormat::Arrow.into(),
                table: self.table.resource_name(),
                table_modifiers: self.snapshot_time.map(|time| TableModifiers {
                    snapshot_time: Some(timestamp(time)),
                }),
                read_options: Some(TableReadOptions {
                    selected_fields: self.selected_fields.clone(),
                    row_restriction: self.row_restriction.clone().unwrap_or_default(),
                    sample_percentage: self.sample_percentage,
                    response_compression_codec: response_compression,
                    output_format_serialization_options: Some(
                        OutputFormatSerializationOptions::ArrowSerializationOptions(serialization),
                    ),
                }),
                trace_id: trace_id.unwrap_or_default().to_string(),
                ..WireSession::default()
            }),
            max_stream_count: count(self.max_stream_count),
            preferred_min_stream_count: count(self.preferred_min_stream_count),
        }
    }
}

fn timestamp(time: DateTime<Utc>) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: time.timestamp(),
        // Leap seconds count beyond the billion, which the message forbids.
        nanos: i32::try_from(time.timestamp_subsec_nanos())
            .unwrap_or(i32::MAX)
            .min(999_999_999),
    }
}

/// An open session. It shows the table as it was when the session began, and
/// lives for six hours.
#[derive(Clone)]
pub struct ReadSession(Arc<Inner>);

struct Inner {
    name: String,
    table: TableRef,
    parent: String,
    schema: SchemaRef,
    streams: Vec<String>,
    expire_time: Option<SystemTime>,
    estimated_row_count: Option<u64>,
    estimated_bytes_scanned: Option<u64>,
    payload: Payload,
}

impl ReadSession {
    /// The name, `projects/…/locations/…/sessions/…`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The table that the session reads.
    pub fn table(&self) -> &TableRef {
        &self.0.table
    }

    /// The schema of every batch: the selected columns in the table's order.
    /// It is known even when there are no rows and no streams.
    pub fn schema(&self) -> &SchemaRef {
        &self.0.schema
    }

    /// The names of the streams, none of which need have rows. There may be
    /// none at all. Every row is in exactly one of them.
    pub fn streams(&self) -> &[String] {
        &self.0.streams
    }

    /// When the session ends, finished or not.
    pub fn expire_time(&self) -> Option<SystemTime> {
        self.0.expire_time
    }

    /// About how many rows there are, if the service said.
    pub fn estimated_row_count(&self) -> Option<u64> {
        self.0.estimated_row_count
    }

    /// About how many bytes the service will scan, which is what is billed.
    pub fn estimated_bytes_scanned(&self) -> Option<u64> {
        self.0.estimated_bytes_scanned
    }

    /// The project that pays for the session.
    pub(super) fn billing_project(&self) -> &str {
        &self.0.parent
    }

    pub(super) fn decoder(&self) -> Decoder {
        Decoder::new(Arc::clone(&self.0.schema), self.0.payload)
    }
}

impl fmt::Debug for ReadSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadSession")
            .field("name", &self.0.name)
            .field("table", &self.0.table)
            .field("streams", &self.0.streams.len())
            .field("expire_time", &self.0.expire_time)
            .field("estimated_row_count", &self.0.estimated_row_count)
            .field("estimated_bytes_scanned", &self.0.estimated_bytes_scanned)
            .finish_non_exhaustive()
    }
}

/// Opens a session that `project` pays for.
pub(crate) async fn open(
    connections: &Connections,
    credentials: &Credentials,
    clock: &Arc<dyn Clock>,
    project: &str,
    trace_id: Option<&str>,
    wanted: &ReadSessionRequest,
) -> Result<ReadSession> {
    let table = &wanted.table;
    let message = wanted.to_wire(format!("projects/{project}"), trace_id);
    let routing = endpoint::routing("read_session.table", &table.resource_name());
    let policy = endpoint::request_policy(connections.endpoint());
    let lease = connections.lease();
    let answer = retry(policy, clock, || async {
        let request = request(message.clone(), credentials.headers().await?, &routing)?;
        let mut client = lease.client();
        let call = client.create_read_session(request);
        match tokio::time::timeout(ATTEMPT_TIMEOUT, call).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(status::error(status, connections.endpoint())),
            Err(_) => Err(Error::new(
                ErrorKind::DeadlineExceeded,
                format!(
                    "{} did not open a session within {} seconds",
                    connections.endpoint(),
                    ATTEMPT_TIMEOUT.as_secs()
                ),
            )),
        }
    })
    .await
    .map_err(|error| explain(error, table, project))?;
    let session = accept(answer, wanted, project)
        .map_err(|error| error.with_context(format!("reading table {table}")))?;
    tracing::debug!(
        session = session.name(),
        %table,
        streams = session.streams().len(),
        estimated_rows = ?session.estimated_row_count(),
        estimated_bytes = ?session.estimated_bytes_scanned(),
        "session opened"
    );
    Ok(session)
}

/// The error with the table, and for the usual kinds with what to do.
fn explain(error: Error, table: &TableRef, project: &str) -> Error {
    let told = error.message();
    match error.kind() {
        ErrorKind::NotFound => Error::new(
            ErrorKind::NotFound,
            format!(
                "table {table} does not exist ({told}): check the project, dataset and table \
                 names, case included"
            ),
        ),
        ErrorKind::PermissionDenied => Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "table {table} cannot be read ({told}): the caller needs \
                 bigquery.readsessions.create on project {project} (option 'billing_project'; \
                 role roles/bigquery.readSessionUser) and bigquery.tables.getData on the table \
                 (role roles/bigquery.dataViewer), and the table has to exist"
            ),
        ),
        _ => error.with_context(format!("reading table {table}")),
    }
}

fn accept(answer: WireSession, wanted: &ReadSessionRequest, project: &str) -> Result<ReadSession> {
    let schema = match &answer.schema {
        Some(Schema::ArrowSchema(arrow)) => schema::read(&arrow.serialized_schema)?,
        Some(Schema::AvroSchema(_)) => {
            return Err(Error::data(
                "the session was asked for in Arrow and is in Avro",
            ));
        }
        None => return Err(Error::data("the session has no schema")),
    };
    let payload = match wanted.compression {
        Compression::Lz4Response => Payload::Lz4Block,
        Compression::None | Compression::Lz4 | Compression::Zstd => Payload::Plain,
    };
    let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
    Ok(ReadSession(Arc::new(Inner {
        name: answer.name,
        table: wanted.table.clone(),
        parent: project.to_string(),
        schema,
        streams: answer
            .streams
            .into_iter()
            .map(|stream| stream.name)
            .collect(),
        expire_time: answer
            .expire_time
            .and_then(|time| SystemTime::try_from(time).ok()),
        estimated_row_count: positive(answer.estimated_row_count),
        estimated_bytes_scanned: positive(answer.estimated_total_bytes_scanned),
        payload,
    })))
}
