//! CreateReadSession: checks a request and fixes what the session will answer.

use std::sync::Arc;

use arrow::ipc::CompressionType;
use prost_types::Timestamp;
use tonic::Status;

use super::avro::DisplayNames;
use super::blocks;
use super::format::{Format, ResponseCompression};
use super::log::SessionRecord;
use super::picoseconds::{Finer, Refinement};
use super::projection::Projection;
use super::registry::{LIFETIME_MICROS, Session};
use super::snapshot;
use crate::engine::restriction::{MAX_RESTRICTION_BYTES, PseudoColumns, Restriction};
use crate::error::Result as ServiceResult;
use crate::grpc::proto::arrow_serialization_options::{CompressionCodec, PicosTimestampPrecision};
use crate::grpc::proto::read_session::TableReadOptions;
use crate::grpc::proto::read_session::table_read_options::{
    OutputFormatSerializationOptions, ResponseCompressionCodec,
};
use crate::grpc::proto::{
    ArrowSerializationOptions, AvroSerializationOptions, CreateReadSessionRequest, DataFormat,
    ReadSession, ReadStream,
};
use crate::schema::{TableSchema, adapt_batch, logical_bytes};
use crate::server::Service;
use crate::store::{Snapshot, TableKind, TableMeta, TableRef};

/// The service's limit on streams of one session.
const MAX_STREAMS: usize = 1000;

/// `preferred_min_stream_count` makes streams smaller than the server would by
/// at most this factor (138 became 552 when measured).
const FINER: usize = 4;

const MAX_TRACE_ID_BYTES: usize = 256;

fn malformed() -> Status {
    Status::invalid_argument("Invalid resource field value in the request.")
}

/// Opens a session.
pub(super) fn create(
    service: &Service,
    request: CreateReadSessionRequest,
) -> Result<ReadSession, Status> {
    let project = parse_parent(&request.parent).ok_or_else(malformed)?;
    let asked = request
        .read_session
        .ok_or_else(|| Status::invalid_argument("request failed: read_session is required"))?;
    let (max, preferred) =
        stream_counts(request.max_stream_count, request.preferred_min_stream_count)?;
    let table_ref = TableRef::from_path(&asked.table).ok_or_else(malformed)?;
    let data_format = DataFormat::try_from(asked.data_format)
        .ok()
        .filter(|f| *f != DataFormat::Unspecified)
        .ok_or_else(|| Status::invalid_argument("request failed: data format unspecified"))?;
    let options = asked.read_options.clone().unwrap_or_default();
    check_options(&options, &asked.trace_id)?;

    let table = service.store.table(&table_ref)?;
    let meta = table.meta();
    if meta.kind != TableKind::Table {
        return Err(Status::invalid_argument(
            "request failed: non-table entities cannot be read with the storage API",
        ));
    }
    let snapshot = snapshot::take(
        service,
        &table,
        asked
            .table_modifiers
            .as_ref()
            .and_then(|m| m.snapshot_time.as_ref()),
    )?;
    let projection = Projection::resolve(&snapshot.schema, &meta, &options.selected_fields)?;
    let restriction = restriction(&options.row_restriction, &snapshot.schema, &meta)?;
    check_partition_filter(&table_ref, &meta, &snapshot.schema, restriction.as_ref())?;
    let format = format(data_format, &options, &projection)?;

    let total = scanned(&snapshot, &projection)?;
    let mut all = blocks::cut(&snapshot, service.options.stream_bytes);
    if let Some(percent) = options.sample_percentage {
        all = blocks::sample(all, percent, &mut rand::rng());
    }
    let streams = blocks::divide(
        &all,
        how_many(total, service.options.stream_bytes, max, preferred),
    );

    let now = service.read.clock().now();
    let expires = now + LIFETIME_MICROS;
    let name = format!(
        "projects/{project}/locations/{}/sessions/{}",
        meta.location.to_ascii_lowercase(),
        uuid::Uuid::new_v4().simple()
    );
    let schema = format.session_schema();
    let session = Arc::new(Session::new(
        name.clone(),
        table_ref.clone(),
        expires,
        snapshot.arrow,
        projection,
        restriction,
        format,
    ));
    let streams: Vec<ReadStream> = streams
        .into_iter()
        .map(|blocks| ReadStream {
            name: session.add_stream(blocks),
        })
        .collect();
    service.read.insert(
        session,
        SessionRecord {
            session: name.clone(),
            table: table_ref.clone(),
            selected_fields: options.selected_fields,
            row_restriction: options.row_restriction,
            streams: streams.len(),
        },
    );
    // Measured: a session over an anonymous result table claims no scanned bytes.
    let anonymous = table_ref.dataset.starts_with('_');
    Ok(ReadSession {
        name,
        expire_time: Some(Timestamp {
            seconds: expires.div_euclid(1_000_000),
            nanos: i32::try_from(expires.rem_euclid(1_000_000) * 1000)
                .expect("less than a second of nanoseconds"),
        }),
        data_format: data_format.into(),
        table: asked.table,
        table_modifiers: asked.table_modifiers,
        read_options: asked.read_options,
        streams,
        estimated_total_bytes_scanned: if anonymous { 0 } else { clamp(total) },
        estimated_total_physical_file_size: 0,
        estimated_row_count: clamp(blocks::rows(&all) as u64),
        trace_id: asked.trace_id,
        schema: Some(schema),
    })
}

fn clamp(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The project of `projects/{p}`.
fn parse_parent(parent: &str) -> Option<&str> {
    parent
        .strip_prefix("projects/")
        .filter(|p| !p.is_empty() && !p.contains('/'))
}

/// `(max, preferred)`, each `None` when zero.
fn stream_counts(max: i32, preferred: i32) -> Result<(Option<usize>, Option<usize>), Status> {
    let count = |name: &str, n: i32| {
        usize::try_from(n).map_err(|_| {
            Status::invalid_argument(format!(
                "request failed: {name} must be non-negative, got {n}"
            ))
        })
    };
    let max = Some(count("max_stream_count", max)?).filter(|n| *n > 0);
    let preferred = Some(count("preferred_min_stream_count", preferred)?).filter(|n| *n > 0);
    if let (Some(max), Some(preferred)) = (max, preferred)
        && preferred > max
    {
        return Err(Status::invalid_argument(format!(
            "request failed: preferred_min_stream_count {preferred} must not be greater than max_stream_count {max}"
        )));
    }
    Ok((max, preferred))
}

/// How many streams `bytes` are divided into.
fn how_many(
    bytes: u64,
    stream_bytes: usize,
    max: Option<usize>,
    preferred: Option<usize>,
) -> usize {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let usual = bytes.div_ceil(stream_bytes.max(1));
    let finest = bytes.div_ceil((stream_bytes / FINER).max(1));
    usual
        .max(preferred.unwrap_or(0).min(finest))
        .clamp(1, max.unwrap_or(MAX_STREAMS).min(MAX_STREAMS))
}

fn check_options(options: &TableReadOptions, trace_id: &str) -> Result<(), Status> {
    if options.row_restriction.len() > MAX_RESTRICTION_BYTES {
        return Err(Status::invalid_argument(format!(
            "read_session.read_options.row_restriction exceeded maximum allowed length. Maximum bytes allowed: {MAX_RESTRICTION_BYTES}"
        )));
    }
    if trace_id.len() > MAX_TRACE_ID_BYTES {
        return Err(Status::invalid_argument(format!(
            "read_session.trace_id exceeded maximum allowed length. Maximum bytes allowed: {MAX_TRACE_ID_BYTES}"
        )));
    }
    if let Some(percent) = options.sample_percentage
        && !(0.0..=100.0).contains(&percent)
    {
        return Err(Status::invalid_argument(format!(
            "request failed: sample_percentage must be between 0 and 100, got {percent}"
        )));
    }
    Ok(())
}

/// The pseudo columns that a restriction on a table with `meta` may name.
fn pseudo_columns(meta: &TableMeta) -> PseudoColumns {
    match &meta.time_partitioning {
        Some(p) if p.field.is_none() && p.granularity.eq_ignore_ascii_case("DAY") => {
            PseudoColumns::TimeAndDate
        }
        Some(p) if p.field.is_none() => PseudoColumns::Time,
        _ => PseudoColumns::None,
    }
}

fn restriction(
    text: &str,
    schema: &TableSchema,
    meta: &TableMeta,
) -> ServiceResult<Option<Restriction>> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    Restriction::parse_with(text, schema, pseudo_columns(meta)).map(Some)
}

fn check_partition_filter(
    table: &TableRef,
    meta: &TableMeta,
    schema: &TableSchema,
    restriction: Option<&Restriction>,
) -> Result<(), Status> {
    let Some(required) = meta.required_filter(table) else {
        return Ok(());
    };
    let columns = required.columns();
    if restriction.is_some_and(|r| columns.iter().any(|c| r.narrows(c, schema))) {
        return Ok(());
    }
    Err(Status::invalid_argument(format!(
        "request failed: Query error: {}",
        required.refusal
    )))
}

fn format(
    data_format: DataFormat,
    options: &TableReadOptions,
    projection: &Projection,
) -> Result<Format, Status> {
    let response = match options
        .response_compression_codec
        .map(ResponseCompressionCodec::try_from)
    {
        None | Some(Ok(ResponseCompressionCodec::Unspecified)) => ResponseCompression::None,
        Some(Ok(ResponseCompressionCodec::Lz4)) => ResponseCompression::Lz4,
        Some(Err(e)) => {
            return Err(Status::invalid_argument(format!(
                "request failed: unknown response_compression_codec: {e}"
            )));
        }
    };
    match data_format {
        DataFormat::Arrow => {
            let arrow = match &options.output_format_serialization_options {
                Some(OutputFormatSerializationOptions::ArrowSerializationOptions(o)) => *o,
                Some(OutputFormatSerializationOptions::AvroSerializationOptions(_)) | None => {
                    ArrowSerializationOptions::default()
                }
            };
            let buffers = match CompressionCodec::try_from(arrow.buffer_compression) {
                Ok(CompressionCodec::CompressionUnspecified) => None,
                Ok(CompressionCodec::Lz4Frame) => Some(CompressionType::LZ4_FRAME),
                Ok(CompressionCodec::Zstd) => Some(CompressionType::ZSTD),
                Err(e) => {
                    return Err(Status::invalid_argument(format!(
                        "request failed: unknown buffer_compression: {e}"
                    )));
                }
            };
            if buffers.is_some() && response != ResponseCompression::None {
                return Err(Status::invalid_argument(
                    "request failed: Arrow buffer compression and response compression cannot be set together",
                ));
            }
            let refinement = match finer(arrow.picos_timestamp_precision)? {
                Some(finer) => Refinement::of(&projection.schema, finer),
                None => None,
            };
            Ok(Format::arrow(
                &projection.arrow,
                refinement,
                buffers,
                response,
            )?)
        }
        DataFormat::Avro | DataFormat::Unspecified => {
            let avro = match &options.output_format_serialization_options {
                Some(OutputFormatSerializationOptions::AvroSerializationOptions(o)) => *o,
                Some(OutputFormatSerializationOptions::ArrowSerializationOptions(_)) | None => {
                    AvroSerializationOptions::default()
                }
            };
            check_avro(avro.picos_timestamp_precision, &projection.schema)?;
            let names = if avro.enable_display_name_attribute {
                DisplayNames::On
            } else {
                DisplayNames::Off
            };
            Ok(Format::avro(&projection.schema, names, response)?)
        }
    }
}

/// The form of TIMESTAMP(12) columns that is asked for; none for microseconds.
fn finer(precision: i32) -> Result<Option<Finer>, Status> {
    match PicosTimestampPrecision::try_from(precision) {
        Ok(
            PicosTimestampPrecision::Unspecified
            | PicosTimestampPrecision::TimestampPrecisionMicros,
        ) => Ok(None),
        Ok(PicosTimestampPrecision::TimestampPrecisionNanos) => Ok(Some(Finer::Nanos)),
        Ok(PicosTimestampPrecision::TimestampPrecisionPicos) => Ok(Some(Finer::Picos)),
        Err(e) => Err(Status::invalid_argument(format!(
            "request failed: unknown picos_timestamp_precision: {e}"
        ))),
    }
}

/// Avro in a finer form than microseconds is refused.
fn check_avro(precision: i32, fields: &TableSchema) -> Result<(), Status> {
    match finer(precision)?.and_then(|finer| Refinement::of(fields, finer)) {
        Some(_) => Err(Status::unimplemented(
            "TIMESTAMP(12) finer than microseconds in Avro is not supported by bigquery-local",
        )),
        None => Ok(()),
    }
}

/// Segments that are looked into for the share of the selected fields.
const SAMPLED_SEGMENTS: usize = 16;

/// Logical bytes of the selected fields of every row, estimated where finding out
/// would mean reading the table: from the first batch of some segments.
fn scanned(snapshot: &Snapshot, projection: &Projection) -> ServiceResult<u64> {
    let all = snapshot.logical_bytes();
    if projection.schema == snapshot.schema {
        return Ok(all);
    }
    let (mut whole, mut part) = (0u128, 0u128);
    let step = snapshot.segments.len().div_ceil(SAMPLED_SEGMENTS).max(1);
    for segment in snapshot.segments.iter().step_by(step) {
        if let Some(batch) = segment.reader()?.next().transpose()? {
            let adapted = adapt_batch(&batch, &snapshot.arrow)?;
            whole += u128::from(logical_bytes(&adapted));
            part += u128::from(logical_bytes(
                &projection.apply(&adapted, segment.partition())?,
            ));
        }
    }
    let share = u128::from(all) * part / whole.max(1);
    Ok(u64::try_from(share).unwrap_or(u64::MAX))
}
