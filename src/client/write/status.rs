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

/// Why the service did not do something.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The code; that of an offset where the service's own error says so.
    pub(super) code: Code,
    /// What it means.
    pub(super) error: Error,
}

impl Refusal {
    fn new(code: Code, storage: Option<StorageErrorCode>, error: Error) -> Self {
        let code = match storage {
            Some(StorageErrorCode::OffsetAlreadyExists) => Code::AlreadyExists,
            Some(StorageErrorCode::OffsetOutOfRange) => Code::OutOfRange,
            _ => code,
        };
        Self { code, error }
    }
}

/// What the status means with which an AppendRows call to `endpoint` ended.
/// `overload` is the wait after RESOURCE_EXHAUSTED where the service names none.
pub(super) fn of_append(status: &Status, endpoint: &EndpointUrl, overload: Duration) -> Refusal {
    let storage = storage_error_of(status);
    Refusal::new(
        status.code(),
        storage,
        of_call(status, endpoint, Some(overload), Asked::Append),
    )
}

/// The error for the status with which a call with one answer to `endpoint` ended.
pub(super) fn of_unary(status: &Status, endpoint: &EndpointUrl) -> Error {
    of_call(status, endpoint, None, Asked::Once)
}

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// To append rows.
    Append,
    /// Something with one answer.
    Once,
}

fn of_call(
    status: &Status,
    endpoint: &EndpointUrl,
    overload: Option<Duration>,
    asked: Asked,
) -> Error {
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
    let error = refusal(status.code(), told, storage_error_of(status), asked);
    let delay = retry_delay(status);
    match (status.code(), error.retry_advice(), delay.or(overload)) {
        (_, RetryAdvice::Never, _) => error,
        (Code::ResourceExhausted, _, Some(wait)) => error.with_retry(RetryAdvice::After(wait)),
        _ => match delay {
            Some(delay) => error.with_retry(RetryAdvice::After(delay)),
            None => error,
        },
    }
}

/// What the error inside a response means. After it the call goes on.
pub(super) fn of_response(status: &rpc::Status, overload: Duration) -> Refusal {
    let code = Code::from(status.code);
    let told = match status.message.as_str() {
        "" => code.description().to_string(),
        message => excerpt(message),
    };
    let storage = storage_error(status);
    let error = refusal(code, told, storage, Asked::Append);
    let error = match (code, error.retry_advice()) {
        (Code::ResourceExhausted, RetryAdvice::Backoff) => {
            error.with_retry(RetryAdvice::After(overload))
        }
        _ => error,
    };
    Refusal::new(code, storage, error)
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

fn refusal(code: Code, told: String, storage: Option<StorageErrorCode>, asked: Asked) -> Error {
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
        | Code::ResourceExhausted => RetryAdvice::Backoff,
        // An earlier request may have been lost: then the next attempt sends it first.
        Code::NotFound | Code::OutOfRange if asked == Asked::Append => RetryAdvice::Backoff,
        _ => RetryAdvice::Never,
    };
    Error::new(kind(code), told).with_retry(retry)
}

fn storage_error_of(status: &Status) -> Option<StorageErrorCode> {
    let details = rpc::Status::decode(status.details()).ok()?;
    storage_error(&details)
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
        let endpoint = &ConnectionOptions::default().grpc_endpoint;
        of_append(status, endpoint, OVERLOAD).error
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
            (Code::OutOfRange, true),
            (Code::AlreadyExists, false),
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
            let error = of_response(&status, OVERLOAD).error;
            assert_eq!(error.is_retryable(), retryable, "{code:?}");
        }
    }

    #[test]
    fn a_single_call_does_not_look_again_for_what_is_not_there() {
        let endpoint = &ConnectionOptions::default().grpc_endpoint;
        for (code, retryable) in [
            (Code::NotFound, false),
            (Code::OutOfRange, false),
            (Code::Unavailable, true),
        ] {
            let error = of_unary(&Status::new(code, "told"), endpoint);
            assert_eq!(error.is_retryable(), retryable, "{code:?}");
        }
    }

    #[test]
    fn offsets_are_known_by_their_own_code() {
        let status = |code: Code, storage: StorageErrorCode| rpc::Status {
            code: code.into(),
            message: String::new(),
            details: vec![prost_types::Any {
                type_url: STORAGE_ERROR.into(),
                value: StorageError {
                    code: storage.into(),
                    ..StorageError::default()
                }
                .encode_to_vec(),
            }],
        };
        for (storage, code) in [
            (StorageErrorCode::OffsetAlreadyExists, Code::AlreadyExists),
            (StorageErrorCode::OffsetOutOfRange, Code::OutOfRange),
            (StorageErrorCode::StreamFinalized, Code::InvalidArgument),
        ] {
            let status = status(Code::InvalidArgument, storage);
            assert_eq!(of_response(&status, OVERLOAD).code, code);
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
        let error = of_response(&status, OVERLOAD).error;
        assert_eq!(error.kind(), ErrorKind::FailedPrecondition);
        let whole = status.encode_to_vec();
        let ended = Status::with_details(Code::InvalidArgument, "more", whole.into());
        assert_eq!(call(&ended).kind(), ErrorKind::FailedPrecondition);
    }
}
