//! Errors of Cloud Storage, in the words of its two APIs.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::json;

/// What can be wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Invalid,
    NoSuchBucket,
    NoSuchObject,
    NoSuchUpload,
    NoSuchTopic,
    Conflict,
    NotEmpty,
    Precondition,
    NotModified,
    Range,
    BadDigest,
    InvalidPart,
    TooLarge,
    Unsupported,
    Internal,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GcsError {
    pub(crate) kind: Kind,
    pub(crate) message: String,
}

pub(crate) type Result<T> = std::result::Result<T, GcsError>;

impl GcsError {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    pub(crate) fn no_bucket(_name: &str) -> Self {
        Self::new(Kind::NoSuchBucket, "The specified bucket does not exist.")
    }

    pub(crate) fn no_object(bucket: &str, name: &str) -> Self {
        Self::new(
            Kind::NoSuchObject,
            format!("No such object: {bucket}/{name}"),
        )
    }

    pub(crate) fn unsupported(feature: &str) -> Self {
        Self::new(
            Kind::Unsupported,
            format!("{feature} is not supported by bigquery-local"),
        )
    }

    fn status(&self) -> StatusCode {
        match self.kind {
            Kind::Invalid | Kind::BadDigest | Kind::InvalidPart => StatusCode::BAD_REQUEST,
            Kind::NoSuchBucket | Kind::NoSuchObject | Kind::NoSuchUpload | Kind::NoSuchTopic => {
                StatusCode::NOT_FOUND
            }
            Kind::Conflict | Kind::NotEmpty => StatusCode::CONFLICT,
            Kind::Precondition => StatusCode::PRECONDITION_FAILED,
            Kind::NotModified => StatusCode::NOT_MODIFIED,
            Kind::Range => StatusCode::RANGE_NOT_SATISFIABLE,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// `errors[].reason` of the JSON API.
    fn reason(&self) -> &'static str {
        match self.kind {
            Kind::Invalid | Kind::BadDigest | Kind::InvalidPart => "invalid",
            Kind::NoSuchBucket | Kind::NoSuchObject | Kind::NoSuchUpload | Kind::NoSuchTopic => {
                "notFound"
            }
            Kind::Conflict | Kind::NotEmpty => "conflict",
            Kind::Precondition => "conditionNotMet",
            Kind::NotModified => "notModified",
            Kind::Range => "requestedRangeNotSatisfiable",
            Kind::TooLarge => "uploadTooLarge",
            Kind::Unsupported => "notImplemented",
            Kind::Internal => "internalError",
        }
    }

    /// `Code` of the XML API.
    fn code(&self) -> &'static str {
        match self.kind {
            Kind::Invalid => "InvalidArgument",
            Kind::NoSuchBucket => "NoSuchBucket",
            Kind::NoSuchObject | Kind::NoSuchTopic => "NoSuchKey",
            Kind::NoSuchUpload => "NoSuchUpload",
            Kind::Conflict => "BucketAlreadyOwnedByYou",
            Kind::NotEmpty => "BucketNotEmpty",
            Kind::Precondition => "PreconditionFailed",
            Kind::NotModified => "NotModified",
            Kind::Range => "InvalidRange",
            Kind::BadDigest => "BadDigest",
            Kind::InvalidPart => "InvalidPart",
            Kind::TooLarge => "EntityTooLarge",
            Kind::Unsupported => "NotImplemented",
            Kind::Internal => "InternalError",
        }
    }

    /// The answer of the JSON API.
    pub(crate) fn json(&self) -> Response {
        let status = self.status();
        if self.kind == Kind::NotModified {
            return status.into_response();
        }
        let body = json!({"error": {
            "code": status.as_u16(),
            "message": self.message,
            "errors": [{"message": self.message, "domain": "global", "reason": self.reason()}],
        }});
        (
            status,
            [(CONTENT_TYPE, "application/json; charset=UTF-8")],
            body.to_string(),
        )
            .into_response()
    }

    /// The answer of the XML API.
    pub(crate) fn xml(&self) -> Response {
        if self.kind == Kind::NotModified {
            return self.status().into_response();
        }
        let body = format!(
            "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{}</Code><Message>{}</Message></Error>",
            self.code(),
            super::xml::escaped(&self.message)
        );
        (
            self.status(),
            [(CONTENT_TYPE, "application/xml; charset=UTF-8")],
            body,
        )
            .into_response()
    }
}
