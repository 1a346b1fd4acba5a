//! Statuses whose details say more than their code.

use googleapis_storage::google::rpc;
use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

use super::proto::StorageError;

/// A status with `details` in `grpc-status-details-bin`.
pub(crate) fn with_details(code: Code, message: &str, details: Vec<Any>) -> Status {
    if details.is_empty() {
        return Status::new(code, message);
    }
    let whole = rpc::Status {
        code: code.into(),
        message: message.to_string(),
        details,
    };
    Status::with_details(code, message, whole.encode_to_vec().into())
}

/// A `StorageError` as a detail.
pub(crate) fn storage_error(error: &StorageError) -> Any {
    Any {
        type_url: "type.googleapis.com/google.cloud.bigquery.storage.v1.StorageError".into(),
        value: error.encode_to_vec(),
    }
}
