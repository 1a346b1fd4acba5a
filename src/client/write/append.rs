//! Appending to a write stream.
//!
//! [`AppendStream`] sends requests without waiting for the answers to earlier
//! ones, and keeps each until it is answered. When a call breaks, everything that
//! was not answered is sent again in its order on a new one. On the default stream
//! of a table it cannot be known then whether the service had written it already:
//! this is where a row can come to be written twice, and never not at all. On a
//! stream that was created every request has its offset, by which the service
//! knows what it has.
//!
//! A task of its own receives, so that answers are taken, broken calls noticed
//! and requests sent again also while the caller does something else. Dropping
//! the [`AppendStream`] ends the task and the call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::counters::{WriteCounters, add, subtract};
use super::driver::{Command, Driver, Kept, Outcome, Terms};
use super::message::{RequestRows, WriterSchema, most_overhead};
use super::place::Place;
use super::window::Window;
use crate::client::retry::RetryPolicy;
use crate::error::{Error, ErrorKind, Result};
use crate::options::StreamOptions;
use crate::types::TableRef;

/// What to append to, and in which form.
#[derive(Debug, Clone)]
pub struct AppendTarget {
    /// The table.
    pub table: TableRef,
    /// What rows look like.
    pub schema: WriterSchema,
    /// Columns without rows of their own that get their defaults; all others
    /// that the writer schema lacks are NULL.
    pub defaulted: Vec<String>,
    /// What it means when the service denies access.
    pub denied: Denied,
    /// What it means when the service refuses a request and names no rows.
    pub unexplained: Unexplained,
    /// Whether the service has to apply requests in the order in which they are sent.
    pub order: RequestOrder,
}

/// What it means when the service refuses a request as wrong, and says neither which
/// rows of it are wrong nor what else is: what it says of rows in Arrow's format is not
/// documented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unexplained {
    /// The write fails.
    #[default]
    Final,
    /// Rows may be wrong: the request is [`Settled::Rejected`] with none of them named.
    Rows,
}

/// Whether requests of a default stream may be applied in another order than they were
/// sent in, when the service refuses one for now or refuses rows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestOrder {
    /// They may: each adds rows of its own.
    #[default]
    Free,
    /// They may not. When one is refused, all after it are sent again behind it, also
    /// those that the service has taken meanwhile. After a [`Settled::Rejected`] nothing
    /// is sent before [`AppendStream::send_instead`] says what takes its place.
    Kept,
}

/// What it means when the service denies access to a table.
///
/// For a while after a table was created, the service denies that it is there
/// (`PERMISSION_DENIED`, as for every table that is missing), and after columns were
/// added that it has them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Denied {
    /// The table is missing or forbidden.
    #[default]
    Final,
    /// The table was created or changed a moment ago: it is tried again so often.
    MayPass(RetryPolicy),
    /// Somebody else created the table a moment ago: that it is denied may pass, and
    /// its columns are known.
    New(RetryPolicy),
}

impl Denied {
    /// How often a denial is waited for.
    pub(super) fn policy(self) -> Option<RetryPolicy> {
        match self {
            Denied::Final => None,
            Denied::MayPass(policy) | Denied::New(policy) => Some(policy),
        }
    }

    /// Whether such an error may mean that the service does not know the table yet, or
    /// not its columns.
    pub(super) fn covers(self, error: ErrorKind) -> bool {
        match self {
            Denied::Final => false,
            Denied::MayPass(_) => matches!(
                error,
                ErrorKind::PermissionDenied | ErrorKind::FailedPrecondition
            ),
            Denied::New(_) => error == ErrorKind::PermissionDenied,
        }
    }
}

/// From where a stream that was created is appended to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// It has just been created by who appends.
    Beginning,
    /// It may have been appended to before, by somebody who is no more. It should
    /// have so many rows. If the first append shows that it has another number of
    /// them, or is not there any more, nothing is written to it.
    Offset(i64),
}

/// What happened to a request.
#[derive(Debug)]
pub enum Settled<T> {
    /// All of its rows are written.
    Written {
        /// What the caller gave the request.
        tag: T,
        /// How many rows that are.
        rows: usize,
    },
    /// None of its rows is written, because some of them are wrong.
    Rejected {
        /// What the caller gave the request.
        tag: T,
        /// Its rows.
        rows: RequestRows,
        /// Which are wrong and why. Perhaps not all of them.
        wrong: Vec<RowRefusal>,
        /// What the service said of the request.
        message: String,
    },
    /// The stream takes no more requests, and this one is not among those that
    /// count. Never on a default stream.
    ///
    /// The rows that were written before, in the order of their offsets, are good.
    /// Behind them the stream may have rows that nobody must make visible.
    Stranded {
        /// What the caller gave the request.
        tag: T,
        /// Its rows.
        rows: RequestRows,
    },
}

/// A row that the service did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowRefusal {
    /// Its position in the request, from 0.
    pub row: usize,
    /// What the service says.
    pub message: String,
}

/// An open write stream, for one user. `T` is what the user wants to have back
/// with the fate of each request.
///
/// Calls are made in any order: [`send`](Self::send) when there is
/// [`room`](Self::has_room), and [`settled`](Self::settled) or
/// [`try_settled`](Self::try_settled) for what became of requests, which is the
/// order in which the service answered. After an error the stream is over, and
/// what was in flight may or may not have been written.
pub struct AppendStream<T> {
    commands: mpsc::UnboundedSender<Command<T>>,
    settled: mpsc::UnboundedReceiver<Result<Outcome<T>>>,
    task: tokio::task::JoinHandle<()>,
    max_requests: usize,
    max_bytes: usize,
    overhead: usize,
    counters: Arc<WriteCounters>,
    requests: usize,
    bytes: usize,
    window: Window,
}

impl<T> fmt::Debug for AppendStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendStream")
            .field("in_flight", &self.requests)
            .field("in_flight_bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> AppendStream<T> {
    /// A stream on these terms. Nothing is sent yet. Needs a Tokio runtime.
    pub(super) fn open(terms: Terms, place: Place, options: &StreamOptions) -> Self {
        let (commands, incoming) = mpsc::unbounded_channel();
        let (outcomes, settled) = mpsc::unbounded_channel();
        let overhead = most_overhead(&terms.opening, &terms.defaulted);
        let counters = Arc::clone(&terms.counters);
        let driver = Driver::new(terms, place, options, incoming, outcomes);
        AppendStream {
            commands,
            settled,
            task: tokio::spawn(driver.run()),
            max_requests: options.max_inflight_requests,
            max_bytes: options.max_inflight_bytes,
            overhead,
            counters,
            requests: 0,
            bytes: 0,
            window: Window::default(),
        }
    }

    /// The stream, whose bytes under way count with those of others. Before the first
    /// request.
    #[must_use]
    pub fn sharing(mut self, window: &Window) -> Self {
        self.window = window.clone();
        self
    }

    /// Bytes at most that a request has besides its rows.
    pub fn overhead(&self) -> usize {
        self.overhead
    }

    /// Requests that are not settled.
    pub fn in_flight(&self) -> usize {
        self.requests
    }

    /// Bytes of their rows.
    pub fn in_flight_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a request with rows of so many bytes may be sent now, or has to
    /// wait until others are settled. One alone on its stream is never too large, so
    /// that a stream never waits for others with which it shares a window.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.requests == 0 || (self.requests < self.max_requests && self.window_has_room(bytes))
    }

    /// Whether the streams that share a window may have so many bytes more under way.
    pub fn window_has_room(&self, bytes: usize) -> bool {
        self.window.bytes().saturating_add(bytes) <= self.max_bytes
    }

    /// Sends rows. They are kept until they are settled.
    pub fn send(&mut self, tag: T, rows: RequestRows) {
        self.requests += 1;
        self.bytes += rows.bytes();
        self.window.add(rows.bytes());
        add(&self.counters.in_flight, 1);
        // Why the driver is gone, if it is, comes with what is settled.
        let _ = self.commands.send(Command::Append(Kept::new(tag, rows)));
    }

    /// Sends rows in the place of a request that was rejected, before everything that was
    /// sent after it. Needed once for each rejected request of a stream that keeps the
    /// order of its requests, also when nothing is left.
    pub fn send_instead(&mut self, requests: Vec<(T, RequestRows)>) {
        let kept: Vec<_> = requests
            .into_iter()
            .map(|(tag, rows)| {
                self.requests += 1;
                self.bytes += rows.bytes();
                self.window.add(rows.bytes());
                Kept::new(tag, rows)
            })
            .collect();
        add(&self.counters.in_flight, kept.len());
        let _ = self.commands.send(Command::Instead(kept));
    }

    /// Waits until a request is settled. Nothing is lost if the future is
    /// dropped.
    ///
    /// # Errors
    /// When another attempt cannot help or none is left; then and after it no
    /// further request is settled. An error too if none is in flight.
    pub async fn settled(&mut self) -> Result<Settled<T>> {
        let outcome = match self.requests {
            0 => Err(Error::new(ErrorKind::Internal, "no request is in flight")),
            _ => self.settled.recv().await.unwrap_or_else(|| Err(over())),
        };
        self.take(outcome)
    }

    /// A request that is settled already.
    ///
    /// # Errors
    /// As [`settled`](Self::settled).
    pub fn try_settled(&mut self) -> Result<Option<Settled<T>>> {
        match self.settled.try_recv() {
            Ok(outcome) => self.take(outcome).map(Some),
            Err(mpsc::error::TryRecvError::Empty) => Ok(None),
            Err(mpsc::error::TryRecvError::Disconnected) => Err(over()),
        }
    }

    fn take(&mut self, outcome: Result<Outcome<T>>) -> Result<Settled<T>> {
        let outcome = outcome?;
        self.requests -= 1;
        self.bytes -= outcome.bytes;
        self.window.subtract(outcome.bytes);
        subtract(&self.counters.in_flight, 1);
        Ok(outcome.settled)
    }
}

impl<T> Drop for AppendStream<T> {
    fn drop(&mut self) {
        self.task.abort();
        subtract(&self.counters.in_flight, self.requests);
        self.window.subtract(self.bytes);
    }
}

fn over() -> Error {
    Error::new(ErrorKind::Internal, "the stream has failed before")
}

/// How broken connections are replaced.
pub(super) fn recovery(options: &StreamOptions) -> RetryPolicy {
    RetryPolicy {
        max_attempts: options.recovery_max_attempts,
        initial_delay: options.recovery_initial_backoff,
        multiplier: 2.0,
        max_delay: options.recovery_max_backoff,
        max_elapsed: Duration::from_secs(24 * 3600),
    }
}

/// How requests are repeated that the service refused for now.
pub(super) fn retry(options: &StreamOptions) -> RetryPolicy {
    RetryPolicy {
        max_attempts: options.retry_max_attempts,
        initial_delay: options.retry_initial_delay,
        multiplier: options.retry_delay_multiplier,
        max_delay: options.retry_max_delay,
        max_elapsed: options.retry_max_duration,
    }
}
