//! What a rule says.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::method;

/// Which calls fail, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// An RPC (`ReadRows`), a REST method (`tables.get`), or a pattern with `*`
    /// (`tables.*`, `*`).
    pub method: String,
    /// `project.dataset.table`, where `*` stands for any characters. Without it
    /// calls on any table match, and calls on none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Matching calls that are let through first.
    #[serde(default)]
    pub skip: u64,
    /// After those, only every so many-th matching call.
    #[serde(default = "one")]
    pub every: u64,
    /// How often the rule acts at most; `null` for always.
    #[serde(default = "once")]
    pub times: Option<u64>,
    /// Chance that it acts on a call that is due.
    #[serde(default = "certain")]
    pub probability: f64,
    /// What happens.
    pub action: Action,
}

fn one() -> u64 {
    1
}

// The wire form tells absent (once) from null (always).
#[allow(clippy::unnecessary_wraps)]
fn once() -> Option<u64> {
    Some(1)
}

fn certain() -> f64 {
    1.0
}

/// What happens to a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    /// An RPC ends with this status, unprocessed.
    Status {
        /// Canonical code, such as `UNAVAILABLE`.
        code: String,
        /// Message.
        #[serde(default)]
        message: String,
        /// A `RetryInfo` detail with this delay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
        /// A `StorageError` detail with this code, such as `STREAM_FINALIZED`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        storage_error: Option<String>,
    },
    /// A REST call answers this error, unprocessed.
    Http {
        /// HTTP status.
        status: u16,
        /// `errors[].reason`.
        reason: String,
        /// Message.
        #[serde(default)]
        message: String,
    },
    /// Too many requests: `rateLimitExceeded` with status 403, or 429 of Cloud Storage,
    /// or RESOURCE_EXHAUSTED.
    RateLimit {
        /// For an RPC a `RetryInfo` detail with this delay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// The TCP connection is reset.
    Reset,
    /// The HTTP/2 connection says that it goes away (RPCs only).
    Goaway {
        /// What becomes of calls that run on it, this one included.
        streams: Detached,
    },
    /// The call waits this long first.
    Delay {
        /// Milliseconds.
        ms: u64,
    },
    /// The call is never answered.
    Hang,
    /// ReadRows ends after some messages.
    Truncate {
        /// Messages sent before.
        messages: u64,
        /// How it ends.
        ending: Ending,
    },
    /// The rows of one message of ReadRows are damaged.
    Corrupt {
        /// Which, from 0.
        message: u64,
    },
    /// One message of ReadRows claims another number of rows.
    RowCount {
        /// Which, from 0.
        message: u64,
        /// Added to the right number.
        add: i64,
    },
    /// One request of AppendRows is answered with an error inside the response,
    /// unprocessed; the call goes on.
    AppendError {
        /// Canonical code.
        code: String,
        /// Message.
        #[serde(default)]
        message: String,
        /// A `StorageError` detail with this code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        storage_error: Option<String>,
    },
    /// CreateReadSession refuses a restriction as too complex; a request without
    /// one passes.
    RefuseRestriction,
    /// ReadRows and SplitReadStream find the session expired.
    ExpireSession,
    /// The call is carried out, then the connection is reset.
    LoseAnswer,
    /// The call is carried out twice; the first answer is given.
    ApplyTwice,
}

/// What becomes of open calls when a connection goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detached {
    /// They finish; new ones need a new connection.
    Finish,
    /// They were not processed and must be made again.
    Refuse,
}

/// How a truncated stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// With OK, as if it were complete.
    Ok,
    /// With UNAVAILABLE.
    Unavailable,
    /// With RST_STREAM.
    Reset,
}

/// Why a rule was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError(pub(super) String);

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RuleError {}

impl Rule {
    /// A rule that acts on the next call of `method`.
    pub fn once(method: impl Into<String>, action: Action) -> Self {
        Self {
            method: method.into(),
            table: None,
            skip: 0,
            every: 1,
            times: Some(1),
            probability: 1.0,
            action,
        }
    }

    /// The same for every call.
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    /// The same after `skip` calls that pass.
    pub fn after(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }

    /// The same for calls on tables whose `project.dataset.table` matches.
    pub fn on_table(mut self, pattern: impl Into<String>) -> Self {
        self.table = Some(pattern.into());
        self
    }

    /// Whether the rule can ever do what it says.
    pub(super) fn check(&self) -> Result<(), RuleError> {
        let error = |text: String| Err(RuleError(text));
        let known: Vec<&str> = method::ALL
            .iter()
            .copied()
            .filter(|m| matches_pattern(&self.method, m))
            .collect();
        if known.is_empty() {
            return error(format!(
                "no method matches {:?}; RPCs are written like ReadRows, REST methods like tables.get",
                self.method
            ));
        }
        if self.every == 0 {
            return error("every must be at least 1".into());
        }
        if !(0.0..=1.0).contains(&self.probability) {
            return error(format!(
                "probability must be between 0 and 1, got {}",
                self.probability
            ));
        }
        let all = |fits: fn(&str) -> bool| known.iter().all(|m| fits(m));
        let (fits, wanted) = match &self.action {
            Action::Status {
                code,
                storage_error,
                ..
            }
            | Action::AppendError {
                code,
                storage_error,
                ..
            } => {
                if super::rpc::code(code).is_none() {
                    return error(format!("{code:?} is not a gRPC status code"));
                }
                if let Some(name) = storage_error
                    && super::rpc::storage_code(name).is_none()
                {
                    return error(format!("{name:?} is not a StorageError code"));
                }
                match self.action {
                    Action::AppendError { .. } => (known == ["AppendRows"], "AppendRows"),
                    _ => (all(method::is_rpc), "RPCs; REST methods take \"http\""),
                }
            }
            Action::Goaway { .. } => (all(method::is_rpc), "RPCs"),
            Action::Http { status, .. } => {
                if !(400..600).contains(status) {
                    return error(format!("{status} is not an HTTP error status"));
                }
                (
                    all(|m| !method::is_rpc(m)),
                    "REST methods; RPCs take \"status\"",
                )
            }
            Action::Truncate { .. } | Action::Corrupt { .. } | Action::RowCount { .. } => {
                (known == ["ReadRows"], "ReadRows")
            }
            Action::RefuseRestriction => (known == ["CreateReadSession"], "CreateReadSession"),
            Action::ExpireSession => (
                all(|m| matches!(m, "ReadRows" | "SplitReadStream")),
                "ReadRows and SplitReadStream",
            ),
            Action::LoseAnswer | Action::ApplyTwice => (
                all(|m| m != "ReadRows"),
                "calls and requests with one answer",
            ),
            Action::RateLimit { .. } | Action::Reset | Action::Delay { .. } | Action::Hang => {
                (true, "all methods")
            }
        };
        if !fits {
            return error(format!(
                "this action is for {wanted}, and {:?} is not",
                self.method
            ));
        }
        Ok(())
    }
}

/// Whether `text` is `pattern`, in which `*` stands for any characters.
pub(super) fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, want) in [
            ("a.b.c", "a.b.c", true),
            ("a.b.c", "a.b.cd", false),
            ("a.*", "a.b.c", true),
            ("*.c", "a.b.c", true),
            ("a*c", "a.b.c", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXc", false),
            ("*", "", true),
            ("ab*bc", "abc", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        let check = |text: &str| {
            serde_json::from_str::<Rule>(text)
                .map_err(|e| e.to_string())
                .and_then(|r| r.check().map_err(|e| e.to_string()))
        };
        for good in [
            r#"{"method": "ReadRows", "action": "hang"}"#,
            r#"{"method": "*", "times": null, "probability": 0.1, "action": {"delay": {"ms": 5}}}"#,
            r#"{"method": "tables.*", "table": "p.d.*", "action": {"http": {"status": 503, "reason": "backendError"}}}"#,
            r#"{"method": "ReadRows", "action": {"truncate": {"messages": 1, "ending": "reset"}}}"#,
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, words) in [
            (
                r#"{"method": "Nope", "action": "hang"}"#,
                "no method matches",
            ),
            (r#"{"method": "ReadRows", "action": "explode"}"#, "explode"),
            (
                r#"{"method": "ReadRows", "tables": "x", "action": "hang"}"#,
                "tables",
            ),
            (
                r#"{"method": "tables.get", "action": {"status": {"code": "ABORTED"}}}"#,
                "for RPCs",
            ),
            (
                r#"{"method": "*", "action": {"http": {"status": 500, "reason": "x"}}}"#,
                "REST methods",
            ),
            (
                r#"{"method": "ReadRows", "action": {"status": {"code": "OOPS"}}}"#,
                "OOPS",
            ),
            (
                r#"{"method": "ReadRows", "action": "apply_twice"}"#,
                "one answer",
            ),
            (
                r#"{"method": "tables.get", "action": {"corrupt": {"message": 0}}}"#,
                "ReadRows",
            ),
            (
                r#"{"method": "ReadRows", "every": 0, "action": "hang"}"#,
                "every",
            ),
            (
                r#"{"method": "ReadRows", "probability": 2, "action": "hang"}"#,
                "probability",
            ),
        ] {
            let error = check(bad).unwrap_err();
            assert!(error.contains(words), "{bad}: {error}");
        }
    }
}
