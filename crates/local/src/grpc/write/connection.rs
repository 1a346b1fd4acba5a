//! AppendRows: one connection, its requests in order, one response for each.
//!
//! A refusal that a client can go on after is in a response: wrong offsets, wrong
//! rows, a writer schema that does not fit. What it cannot go on after ends the call
//! with a status: missing and re-created tables, finalized streams, a connection that
//! does not begin as it has to.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tonic::Status;

use super::apply::{Target, Unwritten, append, apply_changes, check};
use super::change::{NOT_A_CHANGE_TYPE, RowKind};
use super::errors::{bad_rows, failed, keyless, malformed, mismatch, too_large};
use super::name::{Name, micros, native_table, propagated};
use super::plan::{Plan, WriterSchema};
use super::request::{AppendRequest, Rows};
use super::rows::{DecodedRows, RowFault, Undecoded};
use super::schema::table_schema;
use crate::grpc::proto::append_rows_request::MissingValueInterpretation;
use crate::grpc::proto::append_rows_response::{AppendResult, Response};
use crate::grpc::proto::{AppendRowsResponse, RowError, row_error};
use crate::schema::TableSchema;
use crate::server::Service;
use crate::store::{Table, blocking, micros_now};

/// Requests above this are decoded without keeping other tasks of the thread
/// waiting.
const LARGE_BYTES: usize = 64 << 10;

/// Row errors of one response at most.
const MAX_ROW_ERRORS: usize = 10_000;

/// What a value that is not there means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Missing {
    #[default]
    Null,
    Default,
}

/// Where the requests of a connection go, until one says otherwise.
#[derive(Debug)]
struct Destination {
    stream: String,
    name: Name,
    /// Of the table when the connection began to write to it.
    incarnation: u64,
    writer: WriterSchema,
    plan: Option<Plan>,
    /// The table's columns as the client was told last.
    told: Arc<TableSchema>,
}

/// A connection between its requests.
#[derive(Debug)]
pub(super) struct Connection {
    service: Arc<Service>,
    destination: Option<Destination>,
    /// Whether the destination has ever changed.
    multiplexed: bool,
    missing: Missing,
    /// What rows of each stream are, which does not change within a connection.
    kinds: HashMap<String, RowKind>,
}

impl Connection {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self {
            service,
            destination: None,
            multiplexed: false,
            missing: Missing::default(),
            kinds: HashMap::new(),
        }
    }

    /// Carries out a request. An error ends the call.
    pub(super) async fn request(
        &mut self,
        request: AppendRequest,
    ) -> Result<AppendRowsResponse, Status> {
        let size = request.encoded_len();
        let limit = self.service.options.append_request_bytes;
        if size > limit {
            let stream = match &self.destination {
                Some(known) if request.write_stream.is_empty() => &known.stream,
                _ => &request.write_stream,
            };
            return Err(too_large(size, limit, stream));
        }
        let (writer, rows) = match request.rows {
            Some(Rows::Proto(data)) => (
                data.writer_schema
                    .map(|schema| WriterSchema::Proto(schema.descriptor.unwrap_or_default())),
                data.rows.unwrap_or_default(),
            ),
            Some(Rows::Arrow(data)) => (
                data.writer_schema
                    .map(|schema| WriterSchema::Arrow(schema.serialized_schema)),
                data.rows.unwrap_or_default().serialized_record_batch,
            ),
            None => {
                return Err(Status::invalid_argument(
                    "The request has neither proto_rows nor arrow_rows.",
                ));
            }
        };
        self.turn_to(&request.write_stream, writer)?;
        let interpretations = Interpretations {
            by_column: request.missing_values,
            default: request.default_missing_value,
        };
        let destination = self
            .destination
            .as_mut()
            .expect("a connection has a destination once it has turned to one");
        let answered = write(
            &self.service,
            destination,
            (&mut self.missing, &mut self.kinds),
            request.offset,
            rows,
            interpretations,
        )
        .await;
        let (response, row_errors, updated) = match answered {
            Ok((offset, updated)) => {
                let result = AppendResult { offset };
                (Response::AppendResult(result), Vec::new(), updated)
            }
            Err(Failure::Ended(status)) => return Err(status),
            Err(Failure::Refused(status)) => (in_band(&status), Vec::new(), None),
            Err(Failure::Rows(faults)) => {
                let status = bad_rows(&destination.stream);
                (in_band(&status), row_errors(faults), None)
            }
        };
        Ok(AppendRowsResponse {
            updated_schema: updated,
            row_errors,
            write_stream: destination.stream.clone(),
            response: Some(response),
        })
    }

    /// Finds out where the request goes.
    fn turn_to(&mut self, stream: &str, writer: Option<WriterSchema>) -> Result<(), Status> {
        let stays = match &self.destination {
            None => false,
            Some(_) if stream.is_empty() && self.multiplexed => {
                return Err(Status::invalid_argument(
                    "write_stream must be set in every request of a connection that writes to several streams.",
                ));
            }
            Some(known) => stream.is_empty() || stream == known.stream,
        };
        if let Some(known) = &self.destination
            && writer.as_ref().is_some_and(|w| !w.is_like(&known.writer))
        {
            return Err(Status::invalid_argument(format!(
                "The format of rows cannot change within a connection. Entity: {}",
                known.stream
            )));
        }
        if stays {
            if let (Some(known), Some(writer)) = (&mut self.destination, writer)
                && writer != known.writer
            {
                known.writer = writer;
                known.plan = None;
            }
            return Ok(());
        }
        if stream.is_empty() {
            return Err(Status::invalid_argument(
                "write_stream must be set in the first request of a connection.",
            ));
        }
        let name = Name::parse(stream).ok_or_else(malformed)?;
        if let Some(known) = &self.destination {
            let both = |kind: fn(&Name) -> bool| kind(&known.name) && kind(&name);
            if !both(|name| matches!(name, Name::Default(_))) {
                return Err(Status::invalid_argument(format!(
                    "The stream {stream} is not the stream {} that the connection was opened for; only default streams can share a connection.",
                    known.stream
                )));
            }
            self.multiplexed = true;
        }
        let Some(writer) = writer else {
            return Err(Status::invalid_argument(format!(
                "writer_schema must be set in the first request for a stream. Entity: {stream}"
            )));
        };
        propagated(&self.service, name.table(), "TABLES_GET")?;
        let table = self
            .service
            .store
            .read(|state| native_table(state, name.table(), "TABLES_GET"))?;
        self.destination = Some(Destination {
            stream: stream.to_string(),
            incarnation: table.incarnation(),
            told: known_schema(&self.service, &table),
            name,
            writer,
            plan: None,
        });
        Ok(())
    }
}

/// What the request says about missing values.
struct Interpretations {
    by_column: HashMap<String, i32>,
    default: i32,
}

impl Interpretations {
    /// For each column whether it has its default where rows leave it out.
    fn defaulted(&self, sticky: &mut Missing, schema: &TableSchema) -> Result<Vec<bool>, String> {
        let read = |value: i32| match MissingValueInterpretation::try_from(value) {
            Ok(MissingValueInterpretation::NullValue) => Some(Missing::Null),
            Ok(MissingValueInterpretation::DefaultValue) => Some(Missing::Default),
            Ok(MissingValueInterpretation::Unspecified) | Err(_) => None,
        };
        if self.default != 0 {
            *sticky = read(self.default).ok_or_else(|| {
                format!(
                    "default_missing_value_interpretation has no value {}",
                    self.default
                )
            })?;
        }
        let mut columns = vec![*sticky; schema.fields.len()];
        for (column, value) in &self.by_column {
            let at = schema.index_of(column).ok_or_else(|| {
                format!(
                    "missing_value_interpretations names {column}, which is no column of the table"
                )
            })?;
            columns[at] = read(*value).ok_or_else(|| {
                format!("missing_value_interpretations gives the column {column} no interpretation")
            })?;
        }
        Ok(columns
            .iter()
            .zip(&schema.fields)
            .map(|(missing, field)| {
                *missing == Missing::Default && field.default_value_expression.is_some()
            })
            .collect())
    }
}

/// Why a request was not carried out.
enum Failure {
    Rows(Vec<RowFault>),
    Refused(Status),
    Ended(Status),
}

impl From<Unwritten> for Failure {
    fn from(unwritten: Unwritten) -> Self {
        match unwritten {
            Unwritten::Refused(status) => Self::Refused(status),
            Unwritten::Ended(status) => Self::Ended(status),
        }
    }
}

/// The columns as AppendRows knows them.
fn known_schema(service: &Service, table: &Table) -> Arc<TableSchema> {
    let delay = service.options.realism.schema_delay;
    if delay.is_zero() {
        return Arc::clone(&table.meta().schema);
    }
    table.schema_at(micros_now().saturating_sub(micros(delay)))
}

type Written = (Option<i64>, Option<crate::grpc::proto::TableSchema>);

async fn write(
    service: &Arc<Service>,
    to: &mut Destination,
    (sticky, kinds): (&mut Missing, &mut HashMap<String, RowKind>),
    offset: Option<i64>,
    rows: Bytes,
    interpretations: Interpretations,
) -> Result<Written, Failure> {
    let target = Target {
        stream: &to.stream,
        name: &to.name,
        incarnation: to.incarnation,
        offset,
    };
    let (schema, meta) = service.store.read(|state| {
        check(state, &target)?;
        let table = native_table(state, to.name.table(), "TABLES_GET").map_err(Unwritten::Ended)?;
        Ok::<_, Unwritten>((known_schema(service, &table), table.meta()))
    })?;
    let key = &meta.primary_key;
    let refuse = |why: String| {
        Failure::Refused(Status::invalid_argument(format!(
            "{why} Entity: {}",
            target.stream
        )))
    };
    let defaulted = interpretations.defaulted(sticky, &schema).map_err(refuse)?;
    let plan = match &mut to.plan {
        Some(plan) if plan.is_for(&schema, key) => plan,
        slot => {
            let plan = Plan::compile(&to.writer, &schema, key)
                .map_err(|e| Failure::Refused(mismatch(&e, target.stream)))?;
            slot.insert(plan)
        }
    };
    let kind = plan.kind();
    if kind == RowKind::Change && key.is_empty() {
        return Err(Failure::Refused(keyless(target.stream)));
    }
    if *kinds.entry(target.stream.to_string()).or_insert(kind) != kind {
        return Err(refuse(format!(
            "{NOT_A_CHANGE_TYPE}: rows with and without a change type cannot share a connection."
        )));
    }
    let decoded = if rows.len() > LARGE_BYTES {
        blocking(|| plan.decode(&rows, &defaulted))
    } else {
        plan.decode(&rows, &defaulted)
    };
    let mut decoded = decoded.map_err(|e| match e {
        Undecoded::Rows(faults) => Failure::Rows(faults),
        Undecoded::Request(why) => refuse(why),
        Undecoded::Server(e) => Failure::Ended(failed(&e)),
    })?;
    decoded
        .fill(service, &schema)
        .await
        .map_err(|e| Failure::Ended(failed(&e)))?;
    let offset = match decoded.rows().map_err(|e| Failure::Ended(failed(&e)))? {
        DecodedRows::Added(batch) => append(&service.store, &target, batch)?,
        DecodedRows::Changed(changes) => {
            if let Name::Created(_) = target.name {
                let first = match changes.deleted.first() {
                    Some(true) => "DELETE",
                    _ => "UPSERT",
                };
                return Err(refuse(format!(
                    "{NOT_A_CHANGE_TYPE} in insert mode: {first}"
                )));
            }
            apply_changes(&service.store, &target, &changes)?;
            None
        }
    };
    let updated = (to.told != schema).then(|| table_schema(&schema));
    to.told = schema;
    Ok((offset, updated))
}

/// An error inside a response.
fn in_band(status: &Status) -> Response {
    use googleapis_storage::google::rpc;
    // Statuses of this server carry the whole form of themselves, or nothing.
    let whole = rpc::Status::decode(status.details()).unwrap_or_default();
    Response::Error(rpc::Status {
        code: status.code().into(),
        message: status.message().to_string(),
        details: whole.details,
    })
}

fn row_errors(faults: Vec<RowFault>) -> Vec<RowError> {
    faults
        .into_iter()
        .take(MAX_ROW_ERRORS)
        .map(|fault| RowError {
            index: i64::try_from(fault.row).unwrap_or(i64::MAX),
            code: row_error::RowErrorCode::FieldsError.into(),
            message: fault.message,
        })
        .collect()
}
