//! Appending to a table's default stream, at least once.
//!
//! [`DefaultStream`] sends requests without waiting for the answers to earlier
//! ones, and keeps each until it is answered. When a call breaks, everything that
//! was not answered is sent again in its order on a new one. Whether the service
//! had written it already cannot be known then: this is where a row can come to
//! be written twice, and never not at all.
//!
//! A task of its own receives, so that answers are taken, broken calls noticed
//! and requests sent again also while the caller does something else. Dropping
//! the [`DefaultStream`] ends the task and the call.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use googleapis_storage::google::cloud::bigquery::storage::v1::AppendRowsResponse;
use googleapis_storage::google::cloud::bigquery::storage::v1::append_rows_response::Response;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::Code;

use super::connection::{Call, Ending};
use super::message::{Opening, Request, RequestRows, WriterSchema, most_overhead};
use super::status;
use crate::auth::Credentials;
use crate::client::read::Connections;
use crate::client::retry::{Backoff, Clock, RetryPolicy};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::options::DefaultStreamOptions;
use crate::types::TableRef;

/// What to append to, and in which form.
#[derive(Debug, Clone)]
pub struct DefaultStreamTarget {
    /// The table.
    pub table: TableRef,
    /// What rows look like.
    pub schema: WriterSchema,
    /// Columns without rows of their own that get their defaults; all others
    /// that the writer schema lacks are NULL.
    pub defaulted: Vec<String>,
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
}

/// A row that the service did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowRefusal {
    /// Its position in the request, from 0.
    pub row: usize,
    /// What the service says.
    pub message: String,
}

/// What happened while writing; several streams may count into one.
#[derive(Debug, Default)]
pub struct WriteCounters {
    rows: AtomicU64,
    bytes: AtomicU64,
    requests: AtomicU64,
    retries: AtomicU64,
    reconnects: AtomicU64,
    schema_updates: AtomicU64,
    in_flight: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl WriteCounters {
    /// Rows that the service acknowledged.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes of requests sent, each sending counted.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Requests sent, each sending counted.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Requests sent again.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Calls opened after one broke.
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    /// How often the service said that the table's columns have changed.
    pub fn schema_updates(&self) -> u64 {
        self.schema_updates.load(Ordering::Relaxed)
    }

    /// Requests without an answer at this moment.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Failures by the canonical code of their status, `TIMEOUT` for requests
    /// that were not answered in time.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        self.errors.lock().clone()
    }

    fn failed(&self, code: &str) {
        *self.errors.lock().entry(code.to_string()).or_default() += 1;
    }
}

/// Adds to a counter.
fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
}

fn subtract(counter: &AtomicU64, less: usize) {
    counter.fetch_sub(u64::try_from(less).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// An open default stream of a table, for one user. `T` is what the user wants
/// to have back with the fate of each request.
///
/// Calls are made in any order: [`send`](Self::send) when there is
/// [`room`](Self::has_room), and [`settled`](Self::settled) or
/// [`try_settled`](Self::try_settled) for what became of requests, which is the
/// order in which the service answered. After an error the stream is over, and
/// what was in flight may or may not have been written.
pub struct DefaultStream<T> {
    commands: mpsc::UnboundedSender<Kept<T>>,
    settled: mpsc::UnboundedReceiver<Result<Outcome<T>>>,
    task: tokio::task::JoinHandle<()>,
    options: DefaultStreamOptions,
    overhead: usize,
    counters: Arc<WriteCounters>,
    requests: usize,
    bytes: usize,
}

impl<T> fmt::Debug for DefaultStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultStream")
            .field("in_flight", &self.requests)
            .field("in_flight_bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// A request until it is answered.
struct Kept<T> {
    tag: T,
    rows: RequestRows,
}

/// What became of a request, and the room that it took.
struct Outcome<T> {
    settled: Settled<T>,
    bytes: usize,
}

impl<T: Send + 'static> DefaultStream<T> {
    /// A stream to `target`. Nothing is sent yet. Needs a Tokio runtime.
    pub(crate) fn open(
        connections: Connections,
        credentials: Credentials,
        clock: &Arc<dyn Clock>,
        trace_id: Option<String>,
        target: DefaultStreamTarget,
        options: &DefaultStreamOptions,
        counters: Arc<WriteCounters>,
    ) -> Self {
        let (commands, incoming) = mpsc::unbounded_channel();
        let (outcomes, settled) = mpsc::unbounded_channel();
        let opening = Opening {
            stream: format!("{}/streams/_default", target.table.resource_name()),
            schema: target.schema,
            trace_id,
        };
        let overhead = most_overhead(&opening, &target.defaulted);
        let driver = Driver {
            connections,
            credentials,
            opening,
            table: target.table,
            defaulted: target.defaulted,
            recovery: Backoff::new(recovery(options), Arc::clone(clock)),
            retry: Backoff::new(retry(options), Arc::clone(clock)),
            overload: options.recovery_max_backoff,
            append_timeout: options.append_timeout,
            counters: Arc::clone(&counters),
            incoming,
            outcomes,
            call: None,
            unsent: VecDeque::new(),
            sent: VecDeque::new(),
            last_answer: Instant::now(),
            calls: 0,
        };
        DefaultStream {
            commands,
            settled,
            task: tokio::spawn(driver.run()),
            options: options.clone(),
            overhead,
            counters,
            requests: 0,
            bytes: 0,
        }
    }

    /// Bytes at most that a request has besides its rows.
    pub fn overhead(&self) -> usize {
        self.overhead
    }

    /// Requests that are not settled.
    pub fn in_flight(&self) -> usize {
        self.requests
    }

    /// Whether a request with rows of so many bytes may be sent now, or has to
    /// wait until others are settled. One alone is never too large.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.requests == 0
            || (self.requests < self.options.max_inflight_requests
                && self.bytes.saturating_add(bytes) <= self.options.max_inflight_bytes)
    }

    /// Sends rows. They are kept until they are settled.
    pub fn send(&mut self, tag: T, rows: RequestRows) {
        self.requests += 1;
        self.bytes += rows.bytes();
        add(&self.counters.in_flight, 1);
        // Why the driver is gone, if it is, comes with what is settled.
        let _ = self.commands.send(Kept { tag, rows });
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
        subtract(&self.counters.in_flight, 1);
        Ok(outcome.settled)
    }
}

impl<T> Drop for DefaultStream<T> {
    fn drop(&mut self) {
        self.task.abort();
        subtract(&self.counters.in_flight, self.requests);
    }
}

fn over() -> Error {
    Error::new(ErrorKind::Internal, "the stream has failed before")
}

fn recovery(options: &DefaultStreamOptions) -> RetryPolicy {
    RetryPolicy {
        max_attempts: options.recovery_max_attempts,
        initial_delay: options.recovery_initial_backoff,
        multiplier: 2.0,
        max_delay: options.recovery_max_backoff,
        max_elapsed: Duration::from_secs(24 * 3600),
    }
}

fn retry(options: &DefaultStreamOptions) -> RetryPolicy {
    RetryPolicy {
        max_attempts: options.retry_max_attempts,
        initial_delay: options.retry_initial_delay,
        multiplier: options.retry_delay_multiplier,
        max_delay: options.retry_max_delay,
        max_elapsed: options.retry_max_duration,
    }
}

/// The task behind a stream.
struct Driver<T> {
    connections: Connections,
    credentials: Credentials,
    opening: Opening,
    table: TableRef,
    defaulted: Vec<String>,
    /// Between calls.
    recovery: Backoff,
    /// Between attempts of requests that the service refused for now.
    retry: Backoff,
    overload: Duration,
    append_timeout: Duration,
    counters: Arc<WriteCounters>,
    incoming: mpsc::UnboundedReceiver<Kept<T>>,
    outcomes: mpsc::UnboundedSender<Result<Outcome<T>>>,
    call: Option<Call>,
    /// To be sent, oldest first.
    unsent: VecDeque<Kept<T>>,
    /// Sent on `call` and not answered, oldest first.
    sent: VecDeque<Kept<T>>,
    /// When the call last answered, or got the first request to answer.
    last_answer: Instant,
    calls: u64,
}

/// What a driver waits for.
enum Event<T> {
    Command(Option<Kept<T>>),
    Answer(Result<AppendRowsResponse, Ending>),
    Hung,
}

impl<T: Send + 'static> Driver<T> {
    async fn run(mut self) {
        if let Err(error) = self.drive().await {
            let error = match self.sent.is_empty() {
                true => error,
                // What is in flight may have been written.
                false => error.with_effect(Effect::Unknown),
            };
            let _ = self.outcomes.send(Err(error));
        }
    }

    async fn drive(&mut self) -> Result<()> {
        loop {
            self.send_all();
            match self.next().await {
                Event::Command(Some(request)) => self.unsent.push_back(request),
                Event::Command(None) => return Ok(()),
                Event::Answer(Ok(response)) => self.accept(response).await?,
                Event::Answer(Err(ending)) => self.broken(ending).await?,
                Event::Hung => {
                    self.counters.failed("TIMEOUT");
                    let error = Error::new(
                        ErrorKind::DeadlineExceeded,
                        format!(
                            "no answer to an append for {:?} (option \
                             'sink.default_stream.append_timeout')",
                            self.append_timeout
                        ),
                    );
                    self.reconnect(error).await?;
                }
            }
        }
    }

    /// Sends what is to be sent, on a new call if there is none.
    fn send_all(&mut self) {
        while let Some(request) = self.unsent.pop_front() {
            let (call, opening) = match &self.call {
                Some(call) => (call, None),
                None => {
                    if self.calls > 0 {
                        add(&self.counters.reconnects, 1);
                    }
                    self.calls += 1;
                    let stream = &self.opening.stream;
                    let call = Call::open(&self.connections, &self.credentials, stream);
                    (&*self.call.insert(call), Some(&self.opening))
                }
            };
            let message = Request::new(opening, &self.defaulted, &request.rows);
            add(&self.counters.requests, 1);
            add(&self.counters.bytes, message.encoded_len());
            call.send(message);
            if self.sent.is_empty() {
                self.last_answer = Instant::now();
            }
            self.sent.push_back(request);
        }
    }

    async fn next(&mut self) -> Event<T> {
        let hung = self.last_answer + self.append_timeout;
        let waits = !self.sent.is_empty();
        let call = &mut self.call;
        let answer = async {
            match call {
                Some(call) => call.receive().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = answer => Event::Answer(answer),
            command = self.incoming.recv() => Event::Command(command),
            () = tokio::time::sleep_until(hung), if waits => Event::Hung,
        }
    }

    /// Takes the answer to the oldest request.
    async fn accept(&mut self, response: AppendRowsResponse) -> Result<()> {
        self.last_answer = Instant::now();
        if let Some(schema) = &response.updated_schema {
            add(&self.counters.schema_updates, 1);
            tracing::info!(
                table = %self.table,
                columns = schema.fields.len(),
                "the table's columns have changed; rows are still written to those it had"
            );
        }
        let Some(request) = self.sent.pop_front() else {
            return Err(Error::data(
                "the service answered a request that was not made",
            ));
        };
        match response.response {
            Some(Response::AppendResult(_)) => {
                self.recovery.progressed();
                self.retry.progressed();
                add(&self.counters.rows, request.rows.count());
                let rows = request.rows.count();
                let tag = request.tag;
                self.settle(Settled::Written { tag, rows }, request.rows.bytes());
                Ok(())
            }
            Some(Response::Error(error)) => {
                self.counters.failed(name(Code::from(error.code)));
                if !response.row_errors.is_empty() && status::is_about_rows(&error) {
                    self.recovery.progressed();
                    let wrong = response
                        .row_errors
                        .into_iter()
                        .map(|wrong| refusal(wrong.index, wrong.message, request.rows.count()))
                        .collect::<Result<Vec<_>>>()?;
                    let bytes = request.rows.bytes();
                    let settled = Settled::Rejected {
                        tag: request.tag,
                        rows: request.rows,
                        wrong,
                        message: error.message,
                    };
                    self.settle(settled, bytes);
                    return Ok(());
                }
                let error = status::of_response(&error, self.overload);
                self.retry.after(error).await?;
                // The call goes on, and others may have been written meanwhile.
                add(&self.counters.retries, 1);
                self.unsent.push_back(request);
                Ok(())
            }
            None => Err(Error::data(
                "an answer says neither what was written nor why not",
            )),
        }
    }

    /// Finds out why a call ended, and makes another if it is needed.
    async fn broken(&mut self, ending: Ending) -> Result<()> {
        if self.sent.is_empty() {
            // Nothing is lost by an idle call that the service closes.
            self.call = None;
            return Ok(());
        }
        let endpoint = self.connections.endpoint();
        let error = match ending {
            Ending::Status(status) => {
                self.counters.failed(name(status.code()));
                status::of_call(&status, endpoint, self.overload)
            }
            Ending::Unsent(error) => error,
            Ending::Silent => {
                self.counters.failed("OK");
                status::ended(endpoint)
            }
        };
        self.reconnect(error).await
    }

    /// Puts everything that was not answered in front of what was not sent.
    async fn reconnect(&mut self, error: Error) -> Result<()> {
        self.call = None;
        self.recovery.after(error).await?;
        add(&self.counters.retries, self.sent.len());
        while let Some(request) = self.sent.pop_back() {
            self.unsent.push_front(request);
        }
        Ok(())
    }

    fn settle(&self, settled: Settled<T>, bytes: usize) {
        // Without a receiver the task is about to be ended.
        let _ = self.outcomes.send(Ok(Outcome { settled, bytes }));
    }
}

fn refusal(index: i64, message: String, rows: usize) -> Result<RowRefusal> {
    let row = usize::try_from(index).ok().filter(|row| *row < rows);
    let row = row.ok_or_else(|| {
        Error::data(format!(
            "the service refused row {index} of a request of {rows} rows ({message})"
        ))
    })?;
    Ok(RowRefusal { row, message })
}

/// The canonical name of a code.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
