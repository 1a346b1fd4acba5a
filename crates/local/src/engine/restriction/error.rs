//! What is wrong with a restriction, and where.

use crate::error::ServiceError;

/// A complaint about the text, at a byte of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SyntaxError {
    pub(super) at: usize,
    pub(super) message: String,
}

/// A complaint `message` at byte `at`.
pub(super) fn syntax(at: usize, message: impl Into<String>) -> SyntaxError {
    SyntaxError {
        at,
        message: message.into(),
    }
}

impl SyntaxError {
    /// In the service's words, with line and column.
    pub(super) fn in_text(self, text: &str) -> ServiceError {
        let before = text.get(..self.at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        failed(format_args!("{} at [{line}:{column}]", self.message))
    }
}

/// A failure of a restriction in the service's words (`INVALID_ARGUMENT`).
pub(super) fn failed(message: impl std::fmt::Display) -> ServiceError {
    ServiceError::invalid(format!("request failed: Query error: {message}"))
}
