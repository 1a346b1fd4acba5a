//! A whole restriction: the user's part, ours, and the service's limit on both.

use super::condition::{Condition, Test};
use super::translate::conjuncts;
use super::user::UserRestriction;

/// The longest `row_restriction` that the service accepts, in bytes of UTF-8:
/// "Maximum bytes allowed: 1048576".
pub(crate) const MAX_RESTRICTION_BYTES: usize = 1_048_576;

const AND: &str = " AND ";

/// A `row_restriction` in its three parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Restriction {
    /// What the user wrote, if anything.
    user: Option<UserRestriction>,
    /// Conjuncts that nobody evaluates again, joined and in brackets; maybe
    /// empty.
    required: String,
    /// Conjuncts that the engine evaluates again, joined and in brackets; maybe
    /// empty.
    generated: String,
}

impl Restriction {
    /// Only what the user wrote.
    pub(crate) fn of_user(user: Option<UserRestriction>) -> Self {
        Self {
            user,
            ..Self::default()
        }
    }

    /// Whether a part of it is the user's.
    pub(crate) fn has_user(&self) -> bool {
        self.user.is_some()
    }

    /// Adds a condition that nobody evaluates again, whole or not at all.
    pub(crate) fn require(&mut self, condition: &Condition) -> Admission {
        let mut text = String::new();
        for conjunct in conjuncts(condition) {
            append(&mut text, &format!("({conjunct})"));
        }
        if self.len_with(2 * AND.len() + text.len()) > MAX_RESTRICTION_BYTES {
            return Admission::Part;
        }
        append(&mut self.required, &text);
        Admission::Whole
    }

    /// Adds the conjuncts of `condition` that still fit, and says whether all
    /// of them did.
    pub(crate) fn admit(&mut self, condition: &Condition) -> Admission {
        let mut admission = Admission::Whole;
        for conjunct in conjuncts(condition) {
            if *conjunct == Test::Constant(true) {
                continue;
            }
            let text = format!("({conjunct})");
            let separator = match self.generated.is_empty() {
                true => 0,
                false => AND.len(),
            };
            if self.len_with(separator + text.len()) > MAX_RESTRICTION_BYTES {
                admission = Admission::Part;
                continue;
            }
            append(&mut self.generated, &text);
        }
        admission
    }

    /// The length with so many bytes more in the generated part.
    fn len_with(&self, more: usize) -> usize {
        let user = self
            .user
            .as_ref()
            .map_or(0, |user| user.bracketed().len() + AND.len());
        let required = match self.required.len() {
            0 => 0,
            length => length + AND.len(),
        };
        user + required + self.generated.len() + more
    }

    /// The text for the service; empty for no restriction.
    pub(crate) fn text(&self) -> String {
        self.joined(&[&self.required, &self.generated])
    }

    /// The text without the generated part, if there is one to leave out.
    pub(crate) fn text_without_generated(&self) -> Option<String> {
        (!self.generated.is_empty()).then(|| self.joined(&[&self.required]))
    }

    /// The user's part with these others.
    fn joined(&self, parts: &[&str]) -> String {
        let mut text = String::new();
        for part in parts.iter().filter(|part| !part.is_empty()) {
            append(&mut text, part);
        }
        match (&self.user, text.as_str()) {
            (None, _) => text,
            (Some(user), "") => user.text().to_string(),
            (Some(user), ours) => format!("{}{AND}{ours}", user.bracketed()),
        }
    }

    /// The generated part.
    pub(crate) fn generated(&self) -> &str {
        &self.generated
    }
}

fn append(text: &mut String, conjunct: &str) {
    if !text.is_empty() {
        text.push_str(AND);
    }
    text.push_str(conjunct);
}

/// Whether a condition found room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// All of its conjuncts did.
    Whole,
    /// Some conjunct did not, and is left to the engine.
    Part,
}
