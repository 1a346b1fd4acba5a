//! A whole restriction: the user's part, ours, and the service's limit on both.

use std::fmt::Write;

use super::condition::Condition;
use super::translate::conjuncts;

/// The longest `row_restriction` that the service accepts, in bytes of UTF-8:
/// "Maximum bytes allowed: 1048576".
pub(crate) const MAX_RESTRICTION_BYTES: usize = 1_048_576;

const AND: &str = " AND ";

/// A `row_restriction` and the part of it that the user wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Restriction {
    /// The user's text, as given, if any.
    user: Option<String>,
    /// Conjuncts that were translated, joined and in brackets; maybe empty.
    generated: String,
}

impl Restriction {
    /// Only what the user wrote.
    pub(crate) fn of_user(user: Option<&str>) -> Self {
        Self {
            user: user
                .map(str::trim)
                .filter(|text| !text.is_empty())
                .map(str::to_string),
            generated: String::new(),
        }
    }

    /// Adds the conjuncts of `condition` that still fit, and says whether all
    /// of them did.
    pub(crate) fn admit(&mut self, condition: &Condition) -> Admission {
        let mut admission = Admission::Whole;
        for conjunct in conjuncts(condition) {
            let mut text = String::new();
            write!(text, "({conjunct})").expect("writing to a String does not fail");
            let separator = match self.generated.is_empty() {
                true => 0,
                false => AND.len(),
            };
            if self.len_with(separator + text.len()) > MAX_RESTRICTION_BYTES {
                admission = Admission::Part;
                continue;
            }
            if separator > 0 {
                self.generated.push_str(AND);
            }
            self.generated.push_str(&text);
        }
        admission
    }

    fn len_with(&self, more: usize) -> usize {
        let user = self
            .user
            .as_ref()
            .map_or(0, |user| user.len() + "()".len() + AND.len());
        user + self.generated.len() + more
    }

    /// The text for the service; empty for no restriction.
    pub(crate) fn text(&self) -> String {
        match (&self.user, self.generated.as_str()) {
            (None, generated) => generated.to_string(),
            (Some(user), "") => user.clone(),
            (Some(user), generated) => format!("({user}){AND}{generated}"),
        }
    }

    /// The text without the generated part, if there is one to leave out.
    pub(crate) fn text_without_generated(&self) -> Option<String> {
        (!self.generated.is_empty()).then(|| self.user.clone().unwrap_or_default())
    }

    /// The generated part.
    pub(crate) fn generated(&self) -> &str {
        &self.generated
    }
}

/// Whether a condition found room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// All of its conjuncts did.
    Whole,
    /// Some conjunct did not, and is left to the engine.
    Part,
}
