//! What a conversion answers when text is no value of a type.

use std::fmt;

use crate::error::ServiceError;

/// Why text is no value of a type, in the service's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError(String);

impl ValueError {
    /// An error that reads `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The words.
    pub fn message(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ValueError {}

impl From<ValueError> for ServiceError {
    fn from(error: ValueError) -> Self {
        ServiceError::invalid(error.0)
    }
}
