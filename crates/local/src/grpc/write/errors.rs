//! The service's words for what cannot be done to a write stream.

use tonic::{Code, Status};

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

/// A flush past the last row.
pub(super) fn beyond_end(offset: i64, stream: &str) -> Status {
    Status::out_of_range(format!(
        "Offset {offset} is beyond the end of the stream Entity: {stream}"
    ))
}

/// A refusal with its `StorageError` in the details.
pub(super) fn refused(code: StorageErrorCode, stream: &str, message: String) -> Status {
    let detail = storage_error(&detail(code, stream, message.clone()));
    with_details(Code::InvalidArgument, &message, vec![detail])
}

/// A `StorageError` about a stream.
pub(super) fn detail(code: StorageErrorCode, stream: &str, message: String) -> StorageError {
    StorageError {
        code: code.into(),
        entity: stream.to_string(),
        error_message: message,
    }
}
