//! What the refusal of an append means.
//!
//! Refusals are told apart by code, never by the text of a message. Another
//! attempt is worth it after whatever passes: restarts and overload of servers,
//! broken connections, and NOT_FOUND, with which the service answers on a
//! connection whose table was dropped and created again: a new connection finds
//! the new table.

use std::time::Duration;

use googleapis_storage::google::cloud::bigquery::storage::v1::{
    StorageError, storage_error::StorageErrorCode,
};
use googleapis_storage::google::rpc;
use prost::Message;
use tonic::{Code, Status};

use crate::client::endpoint;
use crate::client::excerpt::excerpt;
use crate::client::read::status::{
    is_another_server, is_connect_failure, is_transport_fault, kind, quoted, retry_delay,
};
use crate::error::{Effect, Error, ErrorKind, RetryAdvice};
use crate::options::EndpointUrl;

/// How the service's error details name its own error.
const STORAGE_ERROR: &str = "type.googleapis.com/google.cloud.bigquery.storage.v1.StorageError";

/// The error for the status with which a call to `endpoint` ended. `overload` is
/// the wait after RESOURCE_EXHAUSTED where the service names none.
pub(super) fn of_call(status: &Status, endpoint: &EndpointUrl, overload: Duration) -> Error {
    if is_connect_failure(status) {
        return endpoint::nothing_answers("grpc_endpoint", endpoint);
    }
    let told = quoted(status);
    if is_transport_fault(status) {
        return Error::new(
            ErrorKind::Unavailable,
            format!("the connection to {endpoint} broke ({told})"),
        )
        .with_effect(Effect::Unknown);
    }
    if is_another_server(status) {
        return Error::new(
            ErrorKind::Data,
            format!(
                "what answers at {endpoint} is not BigQuery's Storage API ({told}): check option \
                 'grpc_endpoint'"
            ),
        );
    }
    let storage = rpc::Status::decode(status.details())
        .ok()
        .and_then(|details| storage_error(&details));
    let error = refusal(status.code(), told, storage);
    let delay = retry_delay(status);
    match (status.code(), error.retry_advice(), delay) {
        (_, RetryAdvice::Never, _) => error,
        (_, _, Some(delay)) => error.with_retry(RetryAdvice::After(delay)),
        (Code::ResourceExhausted, _, None) => error.with_retry(RetryAdvice::After(overload)),
        _ => error,
    }
}

/// The error inside a response. After it the call goes on.
pub(super) fn of_response(status: &rpc::Status, overload: Duration) -> Error {
    let code = Code::from(status.code);
    let told = match status.message.as_str() {
        "" => code.description().to_string(),
        message => excerpt(message),
    };
    let error = refusal(code, told, storage_error(status));
    match (code, error.retry_advice()) {
        (Code::ResourceExhausted, RetryAdvice::Backoff) => {
            error.with_retry(RetryAdvice::After(overload))
        }
        _ => error,
    }
}

/// Whether the response says that rows were wrong, which is not yet known of a
/// bare INVALID_ARGUMENT.
pub(super) fn is_about_rows(status: &rpc::Status) -> bool {
    Code::from(status.code) == Code::InvalidArgument && storage_error(status).is_none()
}

/// The error of a call that ended without a word while requests were unanswered.
pub(super) fn ended(endpoint: &EndpointUrl) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("{endpoint} ended the call before it had answered every request"),
    )
    .with_effect(Effect::Unknown)
}

fn refusal(code: Code, told: String, storage: Option<StorageErrorCode>) -> Error {
    if storage == Some(StorageErrorCode::SchemaMismatchExtraFields) {
        return Error::new(
            ErrorKind::FailedPrecondition,
            format!(
                "{told}: a column that was added a short while ago takes minutes until rows can \
                 be written to it; one that was dropped needs the table to be declared again"
            ),
        );
    }
    let retry = match code {
        Code::Aborted
        | Code::Unavailable
        | Code::Cancelled
        | Code::Internal
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::NotFound => RetryAdvice::Backoff,
        _ => RetryAdvice::Never,
    };
    Error::new(kind(code), told).with_retry(retry)
}

fn storage_error(status: &rpc::Status) -> Option<StorageErrorCode> {
    let detail = status
        .details
        .iter()
        .find(|detail| detail.type_url == STORAGE_ERROR)?;
    let error = StorageError::decode(detail.value.as_ref()).ok()?;
    StorageErrorCode::try_from(error.code).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ConnectionOptions;

    const OVERLOAD: Duration = Duration::from_secs(7);

    fn call(status: &Status) -> Error {
        of_call(
            status,
            &ConnectionOptions::default().grpc_endpoint,
            OVERLOAD,
        )
    }

    #[test]
    fn what_passes_is_tried_again() {
        for (code, retryable) in [
            (Code::Aborted, true),
            (Code::Unavailable, true),
            (Code::Cancelled, true),
            (Code::Internal, true),
            (Code::DeadlineExceeded, true),
            (Code::ResourceExhausted, true),
            (Code::NotFound, true),
            (Code::PermissionDenied, false),
            (Code::InvalidArgument, false),
            (Code::FailedPrecondition, false),
            (Code::Unauthenticated, false),
            (Code::Unknown, false),
            (Code::DataLoss, false),
        ] {
            let error = call(&Status::new(code, "told"));
            assert_eq!(error.is_retryable(), retryable, "{code:?}");
            assert!(error.message().contains("told"), "{error}");
            let status = rpc::Status {
                code: code.into(),
                message: "told".into(),
                details: vec![],
            };
            let error = of_response(&status, OVERLOAD);
            assert_eq!(error.is_retryable(), retryable, "{code:?}");
        }
    }

    #[test]
    fn overload_waits_longer() {
        let error = call(&Status::resource_exhausted("quota"));
        assert_eq!(error.retry_advice(), RetryAdvice::After(OVERLOAD));
    }

    #[test]
    fn a_broken_connection_may_have_applied() {
        let status = Status::from_error(Box::new(std::io::Error::other("reset")));
        let error = call(&status);
        assert!(error.is_retryable() && error.may_have_applied());
    }

    #[test]
    fn the_services_own_error_is_read_from_the_details() {
        let detail = StorageError {
            code: StorageErrorCode::SchemaMismatchExtraFields.into(),
            entity: "stream".into(),
            error_message: "extra".into(),
        };
        let details = vec![prost_types::Any {
            type_url: STORAGE_ERROR.into(),
            value: detail.encode_to_vec(),
        }];
        let status = rpc::Status {
            code: Code::InvalidArgument.into(),
            message: "Input schema has more fields".into(),
            details,
        };
        assert!(!is_about_rows(&status));
        let error = of_response(&status, OVERLOAD);
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
        let whole = status.encode_to_vec();
        let ended = Status::with_details(Code::InvalidArgument, "more", whole.into());
        assert_eq!(call(&ended).kind(), ErrorKind::FailedPrecondition);
    }
}
