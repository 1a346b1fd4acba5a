//! The service's words for what cannot be done to a write stream.

use tonic::{Code, Status};

use super::plan::Mismatch;
use crate::error::ServiceError;
use crate::grpc::proto::StorageError;
use crate::grpc::proto::storage_error::StorageErrorCode;
use crate::grpc::status::{storage_error, with_details};
use crate::store::TableRef;

/// A name that is not of the documented form.
pub(super) fn malformed() -> Status {
    Status::invalid_argument("Invalid resource field value in the request.")
}

/// A stream id that was never created.
pub(super) fn invalid_name(stream: &str) -> Status {
    Status::invalid_argument(format!("Invalid stream name. Entity: {stream}"))
}

/// What the default stream, or a table that is gone, answers to finalizing.
pub(super) fn not_found(entity: &str) -> Status {
    Status::not_found(format!("Requested entity was not found. Entity: {entity}"))
}

/// A missing table looks like a forbidden one.
pub(super) fn masked(permission: &str, table: &TableRef) -> Status {
    Status::permission_denied(format!(
        "Permission '{permission}' denied on resource '{}' (or it may not exist).",
        table.path()
    ))
}

/// A table that was dropped and made again while rows were appended to it.
pub(super) fn recreated(table: &TableRef, stream: &str) -> Status {
    Status::not_found(format!(
        "Table {}:{}.{} is re-created. Entity: {stream}",
        table.project, table.dataset, table.table
    ))
}

/// Changes of a table whose rows have no key.
pub(super) fn keyless(stream: &str) -> Status {
    Status::invalid_argument(format!(
        "Change data capture needs a table with a primary key. Entity: {stream}"
    ))
}

/// A flush past the last row.
pub(super) fn beyond_end(offset: i64, stream: &str) -> Status {
    Status::out_of_range(format!(
        "Offset {offset} is beyond the end of the stream Entity: {stream}"
    ))
}

/// A flush of rows that are visible already.
pub(super) fn already_flushed(offset: i64, stream: &str) -> Status {
    Status::already_exists(format!(
        "Offset {offset} has already been flushed. Entity: {stream}"
    ))
}

/// Rows whose offset is not the stream's end.
pub(super) fn wrong_offset(expected: i64, received: i64, stream: &str) -> Status {
    let (code, storage, place) = if received < expected {
        let code = StorageErrorCode::OffsetAlreadyExists;
        (Code::AlreadyExists, code, "within")
    } else {
        (
            Code::OutOfRange,
            StorageErrorCode::OffsetOutOfRange,
            "beyond",
        )
    };
    refused_with(
        code,
        storage,
        stream,
        format!(
            "The offset is {place} stream, expected offset {expected}, received {received} Entity: {stream}"
        ),
    )
}

/// Anything that a finalized stream does not do.
pub(super) fn finalized(stream: &str) -> Status {
    refused(
        StorageErrorCode::StreamFinalized,
        stream,
        format!("Stream has been finalized and cannot be appended or flushed. Entity: {stream}"),
    )
}

/// A stream of another kind than the call is for.
pub(super) fn wrong_kind(stream: &str, message: &str) -> Status {
    refused(
        StorageErrorCode::InvalidStreamType,
        stream,
        format!("{message} Entity: {stream}"),
    )
}

/// A request above the limit, in bytes.
pub(super) fn too_large(size: usize, limit: usize, stream: &str) -> Status {
    Status::invalid_argument(format!(
        "AppendRows request too large: {size} limit {limit} Entity: {stream}"
    ))
}

/// A writer schema that does not fit the table.
pub(super) fn mismatch(mismatch: &Mismatch, stream: &str) -> Status {
    match mismatch {
        Mismatch::Extra(fields) => refused(
            StorageErrorCode::SchemaMismatchExtraFields,
            stream,
            format!(
                "Input schema has more fields than BigQuery schema, extra fields: '{}' Entity: {stream}",
                fields.join(",")
            ),
        ),
        Mismatch::Incompatible(fields) => Status::invalid_argument(format!(
            "Found incompatible fields: '{}' and/or mismatch fields, extra proto fields: '' extra bq fields: '' Entity: {stream}",
            fields.join(",")
        )),
        Mismatch::Invalid(why) => {
            Status::invalid_argument(format!("Invalid writer schema: {why} Entity: {stream}"))
        }
    }
}

/// What the list of row errors belongs to.
pub(super) fn bad_rows(stream: &str) -> Status {
    Status::invalid_argument(format!(
        "Errors found while processing rows. Please refer to the row_errors field for details. The list may not be complete because of the size limitations. Entity: {stream}"
    ))
}

/// A failure that the store or the engine answered.
pub(super) fn failed(error: &ServiceError) -> Status {
    Status::new(error.reason.grpc_code(), error.message.clone())
}

/// A refusal with its `StorageError` in the details.
pub(super) fn refused(code: StorageErrorCode, stream: &str, message: String) -> Status {
    refused_with(Code::InvalidArgument, code, stream, message)
}

fn refused_with(code: Code, storage: StorageErrorCode, stream: &str, message: String) -> Status {
    let detail = storage_error(&detail(storage, stream, message.clone()));
    with_details(code, &message, vec![detail])
}

/// A `StorageError` about a stream.
pub(super) fn detail(code: StorageErrorCode, stream: &str, message: String) -> StorageError {
    StorageError {
        code: code.into(),
        entity: stream.to_string(),
        error_message: message,
    }
}
