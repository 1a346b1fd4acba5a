//! What becomes of rows that cannot be written.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::endpoint::{EndpointUrl, Plaintext};
use super::file_loads::{STAGING_PATH_FORM, StagingPath};
use super::raw::RawOptions;
use super::registry::{self, OptionRow};
use super::resolved::{
    CredentialsOptions, CredentialsSource, Executables, count, duration, is_on, lower,
};
use super::values;
use crate::error::{Error, Result};

const GOOGLE_PUBSUB: &str = "https://pubsub.googleapis.com";

/// What becomes of rows that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureOptions {
    /// The rule.
    pub policy: FailurePolicy,
    /// Unless the first such row fails the write, so many rows may fail.
    pub max_rows: Option<u32>,
    /// Where rows go under [`FailurePolicy::DeadLetter`].
    pub dead_letter: Option<DeadLetterTarget>,
    /// How many rows may wait to be delivered there.
    pub max_outstanding: Outstanding,
    /// How long a delivery may take.
    pub flush_timeout: Duration,
    /// How long the last delivery of a writer may take.
    pub shutdown_timeout: Duration,
    /// Pub/Sub.
    pub pubsub_endpoint: EndpointUrl,
    /// As whom rows are delivered, where that is not who writes the others.
    pub credentials: Option<CredentialsOptions>,
}

impl Default for FailureOptions {
    fn default() -> Self {
        FailureOptions {
            policy: FailurePolicy::default(),
            max_rows: None,
            dead_letter: None,
            max_outstanding: Outstanding::AtMost(1_000),
            flush_timeout: Duration::from_secs(60),
            shutdown_timeout: Duration::from_secs(30),
            pubsub_endpoint: EndpointUrl::google(GOOGLE_PUBSUB),
            credentials: None,
        }
    }
}

/// What becomes of a row that cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FailurePolicy {
    /// Writing fails.
    #[default]
    Fail,
    /// It is counted, logged and left out.
    Drop,
    /// It is counted, left out, and kept elsewhere with the reason.
    DeadLetter,
}

/// Where rows go that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadLetterTarget {
    /// To a file of this machine, a line of JSON each.
    File(PathBuf),
    /// To objects of Cloud Storage below this place, a line of JSON each.
    Objects(StagingPath),
    /// To a table, `project.dataset.table`.
    Table(String),
    /// To a topic of Pub/Sub.
    Topic {
        /// The project that has it.
        project: String,
        /// Its name.
        topic: String,
    },
}

impl fmt::Display for DeadLetterTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeadLetterTarget::File(path) => write!(f, "file://{}", path.display()),
            DeadLetterTarget::Objects(place) => write!(f, "{place}"),
            DeadLetterTarget::Table(table) => write!(f, "bigquery://{table}"),
            DeadLetterTarget::Topic { project, topic } => {
                write!(f, "pubsub://projects/{project}/topics/{topic}")
            }
        }
    }
}

/// How many rows may wait to be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outstanding {
    /// So many; none means that each is delivered at once.
    AtMost(usize),
    /// Any number, until the flush.
    Any,
}

/// What the options say of rows that cannot be written.
///
/// # Errors
/// A value out of range, or options that cannot go together.
pub(super) fn failure(raw: &RawOptions) -> Result<FailureOptions> {
    let defaults = FailureOptions::default();
    let policy_row = &registry::SINK_FAILURE_POLICY;
    let policy = match lower(raw, policy_row).as_deref() {
        Some("drop") => FailurePolicy::Drop,
        Some("dead_letter") => FailurePolicy::DeadLetter,
        _ => FailurePolicy::Fail,
    };
    let max_rows = count(raw, &registry::SINK_FAILURE_MAX_ROWS);
    if max_rows.is_some() && policy == FailurePolicy::Fail {
        return Err(Error::configuration(format!(
            "option '{}' needs '{}' to be 'drop' or 'dead_letter': under 'fail' the first row that \
             cannot be written is the last",
            registry::SINK_FAILURE_MAX_ROWS.name,
            policy_row.name
        )));
    }
    let target_row = &registry::SINK_FAILURE_DEAD_LETTER;
    let dead_letter = raw.get(target_row).map(target).transpose()?;
    match (policy, &dead_letter) {
        (FailurePolicy::DeadLetter, None) => {
            return Err(Error::configuration(format!(
                "option '{}' set to 'dead_letter' needs '{}' beside it",
                policy_row.name, target_row.name
            )));
        }
        (FailurePolicy::DeadLetter, Some(_)) | (_, None) => {}
        (_, Some(_)) => {
            return Err(Error::configuration(format!(
                "option '{}' needs '{}' to be 'dead_letter'",
                target_row.name, policy_row.name
            )));
        }
    }
    let plaintext = match is_on(raw, &registry::ALLOW_PLAINTEXT) {
        true => Plaintext::Anywhere,
        false => Plaintext::LoopbackOnly,
    };
    let endpoint_row = &registry::SINK_FAILURE_PUBSUB_ENDPOINT;
    let pubsub_endpoint = match raw.get(endpoint_row) {
        Some(text) => EndpointUrl::parse(endpoint_row, text, plaintext)?,
        None => defaults.pubsub_endpoint,
    };
    Ok(FailureOptions {
        policy,
        max_rows,
        dead_letter,
        max_outstanding: outstanding(raw)?.unwrap_or(defaults.max_outstanding),
        flush_timeout: duration(raw, &registry::SINK_FAILURE_FLUSH_TIMEOUT)
            .unwrap_or(defaults.flush_timeout),
        shutdown_timeout: duration(raw, &registry::SINK_FAILURE_SHUTDOWN_TIMEOUT)
            .unwrap_or(defaults.shutdown_timeout),
        pubsub_endpoint,
        credentials: credentials(raw)?,
    })
}

fn outstanding(raw: &RawOptions) -> Result<Option<Outstanding>> {
    let row = &registry::SINK_FAILURE_MAX_OUTSTANDING;
    let Some(said) = raw.get(row) else {
        return Ok(None);
    };
    match values::integer(said) {
        Some(-1) => Ok(Some(Outstanding::Any)),
        Some(most @ 0..=1_000_000) => Ok(usize::try_from(most).ok().map(Outstanding::AtMost)),
        _ => Err(row.refused(
            said,
            "a whole number from 0 to 1,000,000, or -1 for any number",
        )),
    }
}

/// Reads where dead letters go.
fn target(text: &str) -> Result<DeadLetterTarget> {
    let row: &OptionRow = &registry::SINK_FAILURE_DEAD_LETTER;
    let wrong = || {
        row.refused(
            text,
            &format!(
                "'file:///directory/file', 'bigquery://project.dataset.table', \
                 'pubsub://projects/project/topics/topic' or {STAGING_PATH_FORM}"
            ),
        )
    };
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    match scheme.to_ascii_lowercase().as_str() {
        "file" => {
            let url = Url::parse(text).map_err(|_| wrong())?;
            let path = url.to_file_path().map_err(|()| wrong())?;
            Ok(DeadLetterTarget::File(path))
        }
        "gs" => match format!("gs://{rest}").parse() {
            Ok(place) => Ok(DeadLetterTarget::Objects(place)),
            Err(()) => Err(wrong()),
        },
        "bigquery" if !rest.is_empty() => Ok(DeadLetterTarget::Table(rest.to_string())),
        "pubsub" => {
            let parts: Vec<_> = rest.split('/').collect();
            match parts.as_slice() {
                ["projects", project, "topics", topic]
                    if !project.is_empty() && !topic.is_empty() =>
                {
                    Ok(DeadLetterTarget::Topic {
                        project: (*project).to_string(),
                        topic: (*topic).to_string(),
                    })
                }
                _ => Err(wrong()),
            }
        }
        _ => Err(wrong()),
    }
}

/// As whom dead letters are delivered, if that is said.
fn credentials(raw: &RawOptions) -> Result<Option<CredentialsOptions>> {
    let key_file = &registry::SINK_FAILURE_KEY_FILE;
    let impersonate = &registry::SINK_FAILURE_IMPERSONATE;
    let source = match (raw.get(key_file), raw.get(impersonate)) {
        (None, None) => return Ok(None),
        (Some(path), _) => CredentialsSource::KeyFile(PathBuf::from(path)),
        (None, Some(_)) => CredentialsSource::ApplicationDefault,
    };
    let said = match raw.get(key_file) {
        Some(_) => key_file,
        None => impersonate,
    };
    for (endpoint, text) in [
        &registry::REST_ENDPOINT,
        &registry::GRPC_ENDPOINT,
        &registry::STORAGE_ENDPOINT,
        &registry::SINK_FAILURE_PUBSUB_ENDPOINT,
    ]
    .into_iter()
    .filter_map(|endpoint| raw.get(endpoint).map(|text| (endpoint, text)))
    {
        if EndpointUrl::parse(endpoint, text, Plaintext::Anywhere)?.is_local() {
            return Err(Error::configuration(format!(
                "options '{}' and '{}' cannot go together: a local server needs no identity, and \
                 must not see one; leave it out",
                said.name, endpoint.name
            )));
        }
    }
    Ok(Some(CredentialsOptions {
        source,
        impersonate: raw.get(impersonate).map(str::to_string),
        executables: match is_on(raw, &registry::CREDENTIALS_ALLOW_EXECUTABLES) {
            true => Executables::Allowed,
            false => Executables::Refused,
        },
    }))
}
