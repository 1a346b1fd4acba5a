//! The functions of DataFusion that predicates may be made of.
//!
//! A function is known by its implementation, not by its name: a session may
//! give the name to another one.

use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::functions::core::r#struct::StructFunc;
use datafusion::functions::datetime::date_part::DatePartFunc;
use datafusion::functions::datetime::date_trunc::DateTruncFunc;
use datafusion::functions::string::contains::ContainsFunc;
use datafusion::functions::string::ends_with::EndsWithFunc;
use datafusion::functions::string::starts_with::StartsWithFunc;
use datafusion::logical_expr::ScalarUDF;

use super::condition::Pattern;

/// A function with a translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// `get_field(struct, name, …)`
    GetField,
    /// `date_trunc(unit, time)`
    DateTrunc,
    /// `date_part(part, time)`
    DatePart,
    /// `starts_with(text, prefix)`
    StartsWith,
    /// `ends_with(text, suffix)`
    EndsWith,
    /// `contains(text, infix)`
    Contains,
    /// `struct(value, …)`
    Struct,
}

impl Known {
    pub(super) fn of(function: &ScalarUDF) -> Option<Self> {
        let function = function.inner().as_ref();
        Some(if function.is::<GetFieldFunc>() {
            Self::GetField
        } else if function.is::<DateTruncFunc>() {
            Self::DateTrunc
        } else if function.is::<DatePartFunc>() {
            Self::DatePart
        } else if function.is::<StartsWithFunc>() {
            Self::StartsWith
        } else if function.is::<EndsWithFunc>() {
            Self::EndsWith
        } else if function.is::<ContainsFunc>() {
            Self::Contains
        } else if function.is::<StructFunc>() {
            Self::Struct
        } else {
            return None;
        })
    }

    /// The LIKE pattern that a test of text for `wanted` amounts to.
    pub(super) fn pattern(self, wanted: &str) -> Option<Pattern> {
        match self {
            Self::StartsWith => Some(Pattern::prefix(wanted)),
            Self::EndsWith => Some(Pattern::suffix(wanted)),
            Self::Contains => Some(Pattern::infix(wanted)),
            Self::GetField | Self::DateTrunc | Self::DatePart | Self::Struct => None,
        }
    }
}
