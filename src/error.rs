//! The one error of the library.
//!
//! An [`Error`] says what kind of failure it is ([`ErrorKind`], for programs),
//! what was wrong and what to do about it (one line, for people), and whether
//! trying again can help. Its text never contains credentials, tokens or the
//! paths of key files: whoever creates an error is held to that, and sources
//! whose own text could contain them are not attached.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use datafusion::error::DataFusionError;

/// What the functions of this library return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure an [`Error`] is.
///
/// The kinds are decided by status codes and by what this library knows, never
/// by the text of a service's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A project, dataset, table, stream or column does not exist.
    NotFound,
    /// Something of that name exists already.
    AlreadyExists,
    /// The caller is known, and lacks a permission.
    PermissionDenied,
    /// The caller could not be identified: credentials are missing, unreadable
    /// or refused.
    Unauthenticated,
    /// The service refused the request as wrong.
    InvalidArgument,
    /// An option, or a combination of options, is wrong.
    Configuration,
    /// Nothing answers, or the service is briefly unable to.
    Unavailable,
    /// A quota or rate limit was reached.
    ResourceExhausted,
    /// The request is right, but not in the present state of what it is about.
    FailedPrecondition,
    /// The resource changed since it was read (an etag that does not match).
    Conflict,
    /// The read session is over: it lives for six hours.
    SessionExpired,
    /// The service's answer does not have the form that it must have.
    Data,
    /// No answer within the time allowed.
    DeadlineExceeded,
    /// The operation was cancelled.
    Cancelled,
    /// The service or this library does not offer what was asked.
    Unsupported,
    /// The service failed inside.
    Internal,
}

impl ErrorKind {
    /// Whether errors of this kind are worth another attempt unless something
    /// more is known of the one at hand.
    fn is_transient(self) -> bool {
        match self {
            ErrorKind::Unavailable | ErrorKind::DeadlineExceeded => true,
            ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::PermissionDenied
            | ErrorKind::Unauthenticated
            | ErrorKind::InvalidArgument
            | ErrorKind::Configuration
            | ErrorKind::ResourceExhausted
            | ErrorKind::FailedPrecondition
            | ErrorKind::Conflict
            | ErrorKind::SessionExpired
            | ErrorKind::Data
            | ErrorKind::Cancelled
            | ErrorKind::Unsupported
            | ErrorKind::Internal => false,
        }
    }
}

/// Whether, and when, another attempt may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAdvice {
    /// Another attempt will fail in the same way.
    Never,
    /// Another attempt may succeed after a while.
    Backoff,
    /// The service asked to wait this long before another attempt.
    After(Duration),
}

/// Whether a failed request may have taken effect all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It has not: it was refused, never sent, or only reads.
    None,
    /// It was sent and its answer was lost.
    Unknown,
}

/// A failure of this library or of the service.
///
/// Printed with `{}` it is one line: the contexts, outermost first, then the
/// message.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    /// Innermost first, in the order of the calls to `with_context`.
    context: Vec<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    retry: RetryAdvice,
    effect: Effect,
}

impl Error {
    /// An error of `kind` whose `message` says what was wrong and what to do.
    ///
    /// Line breaks in the message become spaces.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let retry = if kind.is_transient() {
            RetryAdvice::Backoff
        } else {
            RetryAdvice::Never
        };
        Error(Box::new(Inner {
            kind,
            message: one_line(message.into()),
            context: Vec::new(),
            source: None,
            retry,
            effect: Effect::None,
        }))
    }

    /// A wrong option: [`ErrorKind::Configuration`].
    pub fn configuration(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Configuration, message)
    }

    /// An answer that cannot be understood: [`ErrorKind::Data`].
    pub fn data(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Data, message)
    }

    /// Adds what was being done, for example `reading table p.d.t`. Layers that
    /// say the same one after the other say it once.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        let context = one_line(context.into());
        if self.0.context.last() != Some(&context) {
            self.0.context.push(context);
        }
        self
    }

    /// Attaches the error that caused this one. It is not part of the printed
    /// line, so the message has to stand without it; and its own text must be
    /// free of secrets, because error reporters print sources.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Replaces what the kind implies about another attempt.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryAdvice) -> Self {
        self.0.retry = retry;
        self
    }

    /// Says whether the request may have taken effect.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.0.effect = effect;
        self
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was wrong and what to do, without the contexts.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether another attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        self.0.retry != RetryAdvice::Never
    }

    /// Whether, and when, another attempt may succeed.
    pub fn retry_advice(&self) -> RetryAdvice {
        self.0.retry
    }

    /// Whether the request may have changed something although it failed: its
    /// answer was lost on the way. Requests that only read never have.
    pub fn may_have_applied(&self) -> bool {
        self.0.effect == Effect::Unknown
    }

    /// The error of this library inside a DataFusion error, however deeply
    /// DataFusion wrapped it.
    pub fn find_in(error: &DataFusionError) -> Option<&Error> {
        let mut current: Option<&(dyn StdError + 'static)> = Some(error);
        while let Some(candidate) = current {
            if let Some(found) = candidate.downcast_ref::<Error>() {
                return Some(found);
            }
            current = candidate.source();
        }
        None
    }
}

/// The text with every run of line breaks and the blanks around it as one space.
/// Other control characters, which would move the cursor of a terminal or change
/// its colours, are written out as `\u{1b}`.
fn one_line(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    let joined = text
        .split(['\n', '\r'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let mut line = String::with_capacity(joined.len());
    for c in joined.chars() {
        match c {
            '\t' => line.push(' '),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for context in self.0.context.iter().rev() {
            write!(f, "{context}: ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("context", &self.0.context)
            .field("retry", &self.0.retry)
            .field("effect", &self.0.effect)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}

/// The border to DataFusion: the error travels whole, so that
/// [`Error::find_in`] gets it back with its kind.
impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn prints_one_line_with_contexts_outermost_first() {
        let error = Error::new(ErrorKind::NotFound, "table p.d.t\n  does not exist")
            .with_context("reading p.d.t")
            .with_context("reading p.d.t")
            .with_context("query 7");
        assert_eq!(
            error.to_string(),
            "query 7: reading p.d.t: table p.d.t does not exist"
        );
        assert_eq!(error.message(), "table p.d.t does not exist");
    }

    #[test]
    fn control_characters_are_written_out() {
        let error =
            Error::data("red \u{1b}[31mtext\u{7}\u{9b}2J,\ttab").with_context("table \u{1b}c");
        assert_eq!(
            error.to_string(),
            r"table \u{1b}c: red \u{1b}[31mtext\u{7}\u{9b}2J, tab"
        );
    }

    #[test]
    fn a_source_is_reachable_but_not_printed() {
        let error =
            Error::data("bad schema").with_source(std::io::Error::other("the inner reason"));
        assert_eq!(error.to_string(), "bad schema");
        assert_eq!(
            StdError::source(&error).map(ToString::to_string),
            Some("the inner reason".to_string())
        );
    }

    #[test]
    fn the_kind_implies_whether_to_retry_until_more_is_known() {
        assert!(Error::new(ErrorKind::Unavailable, "x").is_retryable());
        assert!(Error::new(ErrorKind::DeadlineExceeded, "x").is_retryable());
        for kind in [
            ErrorKind::NotFound,
            ErrorKind::PermissionDenied,
            ErrorKind::ResourceExhausted,
            ErrorKind::SessionExpired,
            ErrorKind::Internal,
        ] {
            assert!(!Error::new(kind, "x").is_retryable(), "{kind:?}");
        }
        let told = Error::new(ErrorKind::ResourceExhausted, "x")
            .with_retry(RetryAdvice::After(Duration::from_secs(3)));
        assert!(told.is_retryable());
        assert_eq!(
            told.retry_advice(),
            RetryAdvice::After(Duration::from_secs(3))
        );
    }

    #[test]
    fn only_a_lost_answer_may_have_applied() {
        let error = Error::new(ErrorKind::Unavailable, "x");
        assert!(!error.may_have_applied());
        assert!(error.with_effect(Effect::Unknown).may_have_applied());
    }

    #[test]
    fn datafusion_carries_the_error_whole() {
        let make = || DataFusionError::from(Error::new(ErrorKind::NotFound, "no table p.d.t"));
        for wrapped in [
            make(),
            make().context("while planning"),
            DataFusionError::Shared(Arc::new(make())),
            DataFusionError::External(Box::new(make().context("twice"))),
        ] {
            let found = Error::find_in(&wrapped).expect("our error is inside");
            assert_eq!(found.kind(), ErrorKind::NotFound);
            assert_eq!(found.to_string(), "no table p.d.t");
        }
        assert!(make().to_string().contains("no table p.d.t"));
        assert!(!make().to_string().contains('\n'));
        assert!(Error::find_in(&DataFusionError::Plan("x".into())).is_none());
    }
}
