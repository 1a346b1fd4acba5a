//! A whole restriction: the user's part, ours, and the service's limit on both.

use super::condition::{Condition, Test};
use super::translate::conjuncts;

/// The longest `row_restriction` that the service accepts, in bytes of UTF-8:
/// "Maximum bytes allowed: 1048576".
pub(crate) const MAX_RESTRICTION_BYTES: usize = 1_048_576;

const AND: &str = " AND ";

/// A `row_restriction` in its three parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Restriction {
    /// The user's text, as given, if any.
    user: Option<String>,
    /// Conjuncts that nobody evaluates again, joined and in brackets; maybe
    /// empty.
    required: String,
    /// Conjuncts that the engine evaluates again, joined and in brackets; maybe
    /// empty.
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
            ..Self::default()
        }
    }

    /// Adds a condition that nobody evaluates again, whole or not at all.
    pub(crate) fn require(&mut self, condition: &Condition) -> Admission {
        let mut required = self.required.clone();
        for conjunct in conjuncts(condition) {
            append(&mut required, &format!("({conjunct})"));
        }
        let more = required.len() - self.required.len();
        if self.len_with(AND.len() + more) > MAX_RESTRICTION_BYTES {
            return Admission::Part;
        }
        self.required = required;
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
            .map_or(0, |user| user.len() + "()".len() + AND.len());
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
            (Some(user), "") => user.clone(),
            (Some(user), ours) => format!("({user}){AND}{ours}"),
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
