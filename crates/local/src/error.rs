//! Errors as the service words them: one reason, one HTTP status, one gRPC code.
//!
//! Source: section 6.4 of the service reference (REST reasons) and section 1.6
//! (Storage Read).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The `reason` of a BigQuery error, which fixes its HTTP status and gRPC code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reason {
    /// A malformed request or value.
    Invalid,
    /// A request body that is no JSON.
    ParseError,
    /// A malformed query, or one that failed while running.
    InvalidQuery,
    /// An operation that the object's contents forbid.
    ResourceInUse,
    /// A query or a restriction that needs too much.
    ResourcesExceeded,
    /// A query that would be billed for more than its job allows.
    BytesBilledLimitExceeded,
    /// The caller may not do this.
    AccessDenied,
    /// Too many requests in a short time.
    RateLimitExceeded,
    /// A daily or hourly quota is used up.
    QuotaExceeded,
    /// The answer does not fit.
    ResponseTooLarge,
    /// A dataset, table, job, stream or object that is not there.
    NotFound,
    /// A dataset, table or job that is there already.
    Duplicate,
    /// An `If-Match` header that names an older etag.
    ConditionNotMet,
    /// A request body above the limit.
    RequestTooLarge,
    /// A transient failure of the server.
    BackendError,
    /// A job that a transient failure of the server ended.
    JobBackendError,
    /// A job that a bug of the server ended.
    JobInternalError,
    /// A failure of the server that is a bug.
    InternalError,
    /// A method or feature that this server lacks.
    NotImplemented,
    /// A cancelled job.
    Stopped,
}

impl Reason {
    /// The word in `errors[].reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Invalid => "invalid",
            Reason::ParseError => "parseError",
            Reason::InvalidQuery => "invalidQuery",
            Reason::ResourceInUse => "resourceInUse",
            Reason::ResourcesExceeded => "resourcesExceeded",
            Reason::BytesBilledLimitExceeded => "bytesBilledLimitExceeded",
            Reason::AccessDenied => "accessDenied",
            Reason::RateLimitExceeded => "rateLimitExceeded",
            Reason::QuotaExceeded => "quotaExceeded",
            Reason::ResponseTooLarge => "responseTooLarge",
            Reason::NotFound => "notFound",
            Reason::Duplicate => "duplicate",
            Reason::ConditionNotMet => "conditionNotMet",
            Reason::RequestTooLarge => "requestTooLarge",
            Reason::BackendError => "backendError",
            Reason::JobBackendError => "jobBackendError",
            Reason::JobInternalError => "jobInternalError",
            Reason::InternalError => "internalError",
            Reason::NotImplemented => "notImplemented",
            Reason::Stopped => "stopped",
        }
    }

    /// The HTTP status of a REST answer that carries this reason.
    pub fn http_status(self) -> u16 {
        match self {
            Reason::Invalid
            | Reason::ParseError
            | Reason::InvalidQuery
            | Reason::ResourceInUse
            | Reason::ResourcesExceeded
            | Reason::BytesBilledLimitExceeded
            | Reason::JobBackendError
            | Reason::JobInternalError => 400,
            Reason::AccessDenied
            | Reason::RateLimitExceeded
            | Reason::QuotaExceeded
            | Reason::ResponseTooLarge => 403,
            Reason::NotFound => 404,
            Reason::Duplicate => 409,
            Reason::ConditionNotMet => 412,
            Reason::RequestTooLarge => 413,
            Reason::BackendError => 503,
            Reason::InternalError => 500,
            Reason::NotImplemented => 501,
            Reason::Stopped => 200,
        }
    }

    /// The canonical status word in `error.status`.
    pub fn status(self) -> &'static str {
        match self.http_status() {
            400 | 413 => "INVALID_ARGUMENT",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            409 => "ALREADY_EXISTS",
            412 => "FAILED_PRECONDITION",
            501 => "UNIMPLEMENTED",
            503 => "UNAVAILABLE",
            200 => "CANCELLED",
            _ => "INTERNAL",
        }
    }

    /// The gRPC code of a Storage API answer that carries this reason.
    pub fn grpc_code(self) -> tonic::Code {
        match self {
            Reason::RateLimitExceeded | Reason::QuotaExceeded => tonic::Code::ResourceExhausted,
            _ => match self.http_status() {
                400 | 413 => tonic::Code::InvalidArgument,
                403 => tonic::Code::PermissionDenied,
                404 => tonic::Code::NotFound,
                409 => tonic::Code::AlreadyExists,
                412 => tonic::Code::FailedPrecondition,
                501 => tonic::Code::Unimplemented,
                503 => tonic::Code::Unavailable,
                200 => tonic::Code::Cancelled,
                _ => tonic::Code::Internal,
            },
        }
    }
}

/// A failure in the service's own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceError {
    /// Why, as a code.
    pub reason: Reason,
    /// Why, in words.
    pub message: String,
    /// What the error is about where the service says so (a field, `query`, …).
    pub location: Option<String>,
}

impl ServiceError {
    /// An error of `reason` with `message`.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            location: None,
        }
    }

    /// The same error, with its `location` set.
    pub fn at(mut self, location: impl Into<String>) -> Self {
        self.location = Some(location.into());
        self
    }

    /// HTTP 400 `invalid`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Reason::Invalid, message)
    }

    /// HTTP 400 `invalidQuery`, located at the query as the service does.
    pub fn invalid_query(message: impl Into<String>) -> Self {
        Self::new(Reason::InvalidQuery, message).at("query")
    }

    /// HTTP 404 `notFound`; `what` reads like `Table p:d.t`.
    pub fn not_found(what: impl fmt::Display) -> Self {
        Self::new(Reason::NotFound, format!("Not found: {what}"))
    }

    /// HTTP 409 `duplicate`; `what` reads like `Table p:d.t`.
    pub fn duplicate(what: impl fmt::Display) -> Self {
        Self::new(Reason::Duplicate, format!("Already Exists: {what}"))
    }

    /// HTTP 500 `internalError`: a broken invariant of this server.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Reason::InternalError, message)
    }

    /// HTTP 400 `invalidQuery` for a GoogleSQL feature that this server lacks.
    /// The wording is what clients and the conformance checks look for.
    pub fn unsupported(feature: impl fmt::Display) -> Self {
        Self::invalid_query(format!("{feature} is not supported by bigquery-local"))
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ServiceError {}

impl From<ServiceError> for tonic::Status {
    fn from(error: ServiceError) -> Self {
        tonic::Status::new(error.reason.grpc_code(), error.message)
    }
}

/// What every fallible function of this crate returns.
pub type Result<T, E = ServiceError> = std::result::Result<T, E>;
