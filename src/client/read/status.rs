//! What the status of a failed call means.

use std::error::Error as StdError;
use std::time::Duration;

use googleapis_storage::google::rpc;
use prost::Message;
use tonic::{Code, ConnectError, Status};

use crate::client::endpoint;
use crate::client::excerpt::excerpt;
use crate::error::{Error, ErrorKind, RetryAdvice};
use crate::options::EndpointUrl;

/// How the service's error details name the wait that it asks for.
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// The error for the status with which a call to `endpoint` ended.
///
/// Another attempt is advised after faults of the connection, whatever code
/// they were given, after UNAVAILABLE, and after RESOURCE_EXHAUSTED only if
/// the service says when to come back: the rule of Google's own clients. And
/// after DEADLINE_EXCEEDED, with which the service ends long calls at times
/// (<https://github.com/googleapis/python-bigquery-storage/issues/4>): what is
/// called here only reads.
pub(super) fn error(status: Status, endpoint: &EndpointUrl) -> Error {
    if is_connect_failure(&status) {
        return endpoint::nothing_answers("grpc_endpoint", endpoint);
    }
    let fault = is_transport_fault(&status);
    let (kind, retry) = match status.code() {
        _ if fault => (ErrorKind::Unavailable, RetryAdvice::Backoff),
        Code::Unavailable => (ErrorKind::Unavailable, RetryAdvice::Backoff),
        Code::DeadlineExceeded => (ErrorKind::DeadlineExceeded, RetryAdvice::Backoff),
        _ if is_another_server(&status) => (ErrorKind::Data, RetryAdvice::Never),
        Code::ResourceExhausted => (
            ErrorKind::ResourceExhausted,
            retry_delay(&status).map_or(RetryAdvice::Never, RetryAdvice::After),
        ),
        code => (kind(code), RetryAdvice::Never),
    };
    let retry = match (retry, retry_delay(&status)) {
        (RetryAdvice::Backoff, Some(delay)) => RetryAdvice::After(delay),
        (retry, _) => retry,
    };
    let told = quoted(&status);
    let message = if fault {
        format!("the connection to {endpoint} broke ({told})")
    } else if is_another_server(&status) {
        format!(
            "what answers at {endpoint} is not BigQuery's Storage API ({told}): check option \
             'grpc_endpoint'"
        )
    } else {
        told
    };
    Error::new(kind, message).with_retry(retry)
}

pub(crate) fn kind(code: Code) -> ErrorKind {
    match code {
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::AlreadyExists,
        Code::PermissionDenied => ErrorKind::PermissionDenied,
        Code::Unauthenticated => ErrorKind::Unauthenticated,
        Code::InvalidArgument | Code::OutOfRange => ErrorKind::InvalidArgument,
        Code::FailedPrecondition => ErrorKind::FailedPrecondition,
        Code::Unimplemented => ErrorKind::Unsupported,
        Code::DeadlineExceeded => ErrorKind::DeadlineExceeded,
        Code::Cancelled => ErrorKind::Cancelled,
        Code::ResourceExhausted => ErrorKind::ResourceExhausted,
        Code::Unavailable | Code::Aborted => ErrorKind::Unavailable,
        Code::DataLoss => ErrorKind::Data,
        Code::Ok | Code::Unknown | Code::Internal => ErrorKind::Internal,
    }
}

/// What the service said, or the name of the code where it said nothing.
pub(crate) fn quoted(status: &Status) -> String {
    let message = status.message();
    if message.is_empty() {
        return status.code().description().to_string();
    }
    excerpt(message)
}

/// Whether no connection came about.
pub(crate) fn is_connect_failure(status: &Status) -> bool {
    sources(status).any(|source| source.is::<ConnectError>())
}

/// Whether the call ended because its connection or its stream did, and not
/// because the service said so.
///
/// A status that was sent has no source; one that this process made of a
/// broken connection has. Proxies pass a reset stream on as INTERNAL, and
/// tonic reports a stream that ends without any status as UNKNOWN.
pub(crate) fn is_transport_fault(status: &Status) -> bool {
    if sources(status).next().is_some() {
        return true;
    }
    let message = status.message();
    match status.code() {
        Code::Internal => {
            message.contains("RST_STREAM")
                || message.contains("unexpected EOS")
                || message.contains("unexpected EOF")
        }
        Code::Unknown => message.contains("missing grpc-status trailer"),
        _ => false,
    }
}

/// Whether the answer was no gRPC answer at all: tonic then makes a status of
/// the HTTP status, or of a body that does not begin like a message. A proxy whose
/// server is away for a while answers with another status than those from 400 to 499.
pub(crate) fn is_another_server(status: &Status) -> bool {
    let message = status.message();
    message.starts_with("grpc-status header missing, mapped from HTTP status code")
        || message.contains("while receiving response with status: 4")
}

fn sources(status: &Status) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let mut next = status.source();
    std::iter::from_fn(move || {
        let current = next?;
        next = current.source();
        Some(current)
    })
}

/// The wait that the service asks for, if it does.
pub(crate) fn retry_delay(status: &Status) -> Option<Duration> {
    let details = rpc::Status::decode(status.details()).ok()?;
    let info = details
        .details
        .iter()
        .find(|detail| detail.type_url == RETRY_INFO)?;
    let info = rpc::RetryInfo::decode(info.value.as_slice()).ok()?;
    Duration::try_from(info.retry_delay?).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::options::{ConnectionOptions, Options, RawOptions};

    fn local() -> EndpointUrl {
        let raw = RawOptions::from_pairs([
            ("grpc_endpoint", "http://127.0.0.1:1"),
            ("credentials", "adc"),
        ])
        .unwrap();
        Options::resolve(&raw).unwrap().connection.grpc_endpoint
    }

    /// A status that asks to wait.
    pub(in crate::client::read) fn with_retry_info(code: Code, delay: Duration) -> Status {
        let info = rpc::RetryInfo {
            retry_delay: Some(delay.try_into().unwrap()),
        };
        let details = rpc::Status {
            code: code.into(),
            message: "wait".into(),
            details: vec![prost_types::Any {
                type_url: RETRY_INFO.into(),
                value: info.encode_to_vec(),
            }],
        };
        Status::with_details(code, "wait", details.encode_to_vec().into())
    }

    #[test]
    fn only_some_codes_are_worth_another_attempt() {
        for (status, kind, retryable) in [
            (Status::unavailable("x"), ErrorKind::Unavailable, true),
            (Status::internal("x"), ErrorKind::Internal, false),
            (
                Status::internal(
                    "protocol error: received message with invalid compression flag: 123 (valid \
                     flags are 0 and 1) while receiving response with status: 404 Not Found",
                ),
                ErrorKind::Data,
                false,
            ),
            (
                Status::internal("Received RST_STREAM with error code 2"),
                ErrorKind::Unavailable,
                true,
            ),
            (
                Status::internal("Received unexpected EOS on DATA frame from server"),
                ErrorKind::Unavailable,
                true,
            ),
            (Status::unknown("x"), ErrorKind::Internal, false),
            (
                Status::resource_exhausted("x"),
                ErrorKind::ResourceExhausted,
                false,
            ),
            (
                Status::permission_denied("x"),
                ErrorKind::PermissionDenied,
                false,
            ),
            (
                Status::failed_precondition("x"),
                ErrorKind::FailedPrecondition,
                false,
            ),
            (Status::not_found("x"), ErrorKind::NotFound, false),
            (
                Status::invalid_argument("x"),
                ErrorKind::InvalidArgument,
                false,
            ),
            (Status::cancelled("x"), ErrorKind::Cancelled, false),
            (Status::aborted("x"), ErrorKind::Unavailable, false),
            (
                Status::deadline_exceeded("x"),
                ErrorKind::DeadlineExceeded,
                true,
            ),
        ] {
            let text = format!("{status}");
            let error = error(status, &local());
            assert_eq!(error.kind(), kind, "{text}");
            assert_eq!(error.is_retryable(), retryable, "{text}");
        }
    }

    #[test]
    fn a_wait_is_honoured_where_it_is_asked_for() {
        let delay = Duration::from_millis(1500);
        for code in [Code::ResourceExhausted, Code::Unavailable] {
            let error = error(with_retry_info(code, delay), &local());
            assert_eq!(error.retry_advice(), RetryAdvice::After(delay), "{code:?}");
        }
        let error = error(with_retry_info(Code::PermissionDenied, delay), &local());
        assert!(!error.is_retryable());
    }

    #[test]
    fn broken_connections_are_worth_another_attempt_whatever_their_code() {
        for code in [Code::Unknown, Code::Internal, Code::Cancelled] {
            let status = Status::from_error(Box::new(std::io::Error::other("reset")));
            assert!(status.source().is_some(), "{code:?}");
            assert!(error(status, &local()).is_retryable());
        }
    }

    #[test]
    fn details_that_are_no_details_are_ignored() {
        let status =
            Status::with_details(Code::ResourceExhausted, "x", vec![0xff, 0xff, 0xff].into());
        assert!(!error(status, &local()).is_retryable());
    }

    #[test]
    fn google_is_the_default() {
        let endpoint = ConnectionOptions::default().grpc_endpoint;
        let error = error(Status::new(Code::Internal, ""), &endpoint);
        assert!(!error.message().is_empty());
    }
}
