//! Where rows go that cannot be written.
//!
//! A [`DeadLetter`] has the row, what was wrong with it and where it should have
//! gone. [`DeadLetters`] collects those of all writers of a sink and hands them to
//! an outlet: [`file`], [`objects`], [`table`] or [`topic`]. A letter is delivered at
//! least once: when a write is repeated after a crash, so are its letters. One that
//! cannot be delivered fails the write.

mod file;
mod objects;
mod row;
mod table;
mod topic;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, SecondsFormat, Utc};
use tokio::sync::Mutex;

use super::failure::{Content, FailedRow};
use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{DeadLetterTarget, FailureOptions, Outstanding};

/// A row that was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeadLetter {
    /// The table that it was for, or what should have named one.
    destination: String,
    /// The number of the writer, from 0.
    subtask: usize,
    /// Which row, counted from 1 in what the writer was given for the destination.
    row: u64,
    /// The column at fault, if that is known.
    column: Option<String>,
    error: String,
    at: DateTime<Utc>,
    /// The row: a JSON object, unless a resolver of destinations gave something else.
    payload: String,
    payload_is_json: bool,
}

impl DeadLetter {
    pub(super) fn new(destination: &str, subtask: usize, failed: &FailedRow) -> Self {
        let (payload, payload_is_json) = match &failed.content {
            None => ("null".to_string(), true),
            Some(Content::Row(batch)) => (row::object(batch, 0), true),
            Some(Content::Text(text)) => (text.clone(), false),
        };
        DeadLetter {
            destination: destination.to_string(),
            subtask,
            row: failed.row,
            column: failed.column.clone(),
            error: failed.message.clone(),
            at: Utc::now(),
            payload,
            payload_is_json,
        }
    }

    fn timestamp(&self) -> String {
        self.at.to_rfc3339_opts(SecondsFormat::Micros, true)
    }

    /// The letter as one line of JSON.
    fn line(&self) -> String {
        let mut out = String::from("{\"destination\":");
        row::quote(&self.destination, &mut out);
        out.push_str(",\"error\":");
        row::quote(&self.error, &mut out);
        out.push_str(",\"column\":");
        match &self.column {
            Some(column) => row::quote(column, &mut out),
            None => out.push_str("null"),
        }
        out.push_str(&format!(
            ",\"row\":{},\"subtask\":{},\"timestamp\":\"{}\",\"payload\":",
            self.row,
            self.subtask,
            self.timestamp()
        ));
        match self.payload_is_json {
            true => out.push_str(&self.payload),
            false => row::quote(&self.payload, &mut out),
        }
        out.push_str("}\n");
        out
    }
}

/// Takes letters. Calls come one after the other; after an error the same letters may
/// come again.
#[async_trait]
trait Outlet: fmt::Debug + Send {
    /// Whether letters can be delivered at all, as far as that can be known before
    /// there are any.
    async fn check(&mut self) -> Result<()>;

    /// Delivers letters: they are safe when it returns.
    async fn deliver(&mut self, letters: &[DeadLetter]) -> Result<()>;
}

/// The letters of all writers of a sink.
#[derive(Debug)]
pub(super) struct DeadLetters {
    state: Mutex<State>,
    outstanding: Outstanding,
    flush_timeout: Duration,
    shutdown_timeout: Duration,
    /// The outlet, for errors.
    target: String,
}

#[derive(Debug)]
struct State {
    outlet: Box<dyn Outlet>,
    checked: bool,
    waiting: Vec<DeadLetter>,
}

impl DeadLetters {
    /// What the options say; None unless they ask for dead letters. `client` is the
    /// sink's.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when no outlet can be made.
    pub(super) fn new(options: &FailureOptions, client: &Client) -> Result<Option<Self>> {
        let Some(target) = &options.dead_letter else {
            return Ok(None);
        };
        let client = match &options.credentials {
            Some(credentials) => client.with_credentials(credentials.clone())?,
            None => client.clone(),
        };
        let outlet: Box<dyn Outlet> = match target {
            DeadLetterTarget::File(path) => Box::new(file::FileOutlet::new(path.clone())),
            DeadLetterTarget::Objects(place) => Box::new(objects::ObjectOutlet::new(
                client.staging(place, "sink.failure.dead_letter")?,
            )),
            DeadLetterTarget::Table(table) => {
                let table = table.parse().map_err(|error: Error| {
                    Error::configuration(format!(
                        "option 'sink.failure.dead_letter' names no table: {}",
                        error.message()
                    ))
                })?;
                Box::new(table::TableOutlet::new(client, table))
            }
            DeadLetterTarget::Topic { project, topic } => Box::new(topic::TopicOutlet::new(
                client.publisher(&options.pubsub_endpoint, project, topic)?,
            )),
        };
        Ok(Some(DeadLetters {
            state: Mutex::new(State {
                outlet,
                checked: false,
                waiting: Vec::new(),
            }),
            outstanding: options.max_outstanding,
            flush_timeout: options.flush_timeout,
            shutdown_timeout: options.shutdown_timeout,
            target: target.to_string(),
        }))
    }

    /// Makes sure, once, that letters can be delivered.
    pub(super) async fn check(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        if !state.checked {
            let checked = state.outlet.check();
            self.within(self.flush_timeout, "sink.failure.flush_timeout", checked)
                .await?;
            state.checked = true;
        }
        Ok(())
    }

    /// Takes letters, and delivers when more are waiting than may.
    pub(super) async fn add(&self, letters: Vec<DeadLetter>) -> Result<()> {
        let mut state = self.state.lock().await;
        state.waiting.extend(letters);
        let due = match self.outstanding {
            Outstanding::Any => false,
            Outstanding::AtMost(most) => state.waiting.len() > most,
        };
        match due {
            true => {
                self.deliver(&mut state, self.flush_timeout, "sink.failure.flush_timeout")
                    .await
            }
            false => Ok(()),
        }
    }

    /// Delivers what is waiting.
    pub(super) async fn flush(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        self.deliver(&mut state, self.flush_timeout, "sink.failure.flush_timeout")
            .await
    }

    /// Delivers what is waiting at the end of a writer.
    pub(super) async fn shut_down(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        let timeout = self.shutdown_timeout;
        self.deliver(&mut state, timeout, "sink.failure.shutdown_timeout")
            .await
    }

    async fn deliver(&self, state: &mut State, timeout: Duration, option: &str) -> Result<()> {
        if state.waiting.is_empty() {
            return Ok(());
        }
        let delivered = state.outlet.deliver(&state.waiting);
        self.within(timeout, option, delivered).await?;
        state.waiting.clear();
        Ok(())
    }

    async fn within(
        &self,
        timeout: Duration,
        option: &str,
        work: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let outcome = tokio::time::timeout(timeout, work).await;
        let outcome = outcome.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::DeadlineExceeded,
                format!("it took longer than {timeout:?} (option '{option}')"),
            ))
        });
        outcome
            .map_err(|error| error.with_context(format!("writing dead letters to {}", self.target)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_a_line_of_json() {
        let failed = FailedRow {
            row: 7,
            column: Some("at".into()),
            message: "too \"fine\"\nby far".into(),
            content: Some(Content::Text("raw".into())),
        };
        let mut letter = DeadLetter::new("p.d.t", 2, &failed);
        letter.at = DateTime::from_timestamp_micros(1).unwrap();
        assert_eq!(
            letter.line(),
            "{\"destination\":\"p.d.t\",\"error\":\"too \\\"fine\\\"\\nby far\",\"column\":\"at\",\
             \"row\":7,\"subtask\":2,\"timestamp\":\"1970-01-01T00:00:00.000001Z\",\
             \"payload\":\"raw\"}\n"
        );
        letter.payload = "{\"a\":1}".into();
        letter.payload_is_json = true;
        assert!(letter.line().ends_with("\"payload\":{\"a\":1}}\n"));
    }
}
