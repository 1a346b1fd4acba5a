//! The task behind an open stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use googleapis_storage::google::cloud::bigquery::storage::v1::append_rows_response::Response;
use googleapis_storage::google::cloud::bigquery::storage::v1::{AppendRowsResponse, RowError};
use googleapis_storage::google::rpc;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::Code;

use super::append::{Denied, RequestOrder, RowRefusal, Settled, Unexplained, recovery, retry};
use super::connection::{Call, Ending};
use super::counters::{WriteCounters, add};
use super::message::{Opening, Request, RequestRows};
use super::place::{Before, Place, Verdict};
use super::status;
use crate::auth::Credentials;
use crate::client::read::Connections;
use crate::client::retry::{Backoff, Clock};
use crate::error::{Effect, Error, ErrorKind, Result, RetryAdvice};
use crate::options::StreamOptions;
use crate::types::TableRef;

/// What appending to a stream needs to know.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) connections: Connections,
    pub(super) credentials: Credentials,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) opening: Opening,
    pub(super) table: TableRef,
    pub(super) defaulted: Vec<String>,
    pub(super) denied: Denied,
    pub(super) unexplained: Unexplained,
    pub(super) order: RequestOrder,
    /// Where the options of such streams are.
    pub(super) options: &'static str,
    pub(super) counters: Arc<WriteCounters>,
}

/// A request until it is settled.
#[derive(Debug)]
pub(super) struct Kept<T> {
    tag: T,
    rows: RequestRows,
    /// Where it stands in its stream.
    pub(super) offset: Option<i64>,
    /// Whether it was sent to its offset before.
    pub(super) sent: bool,
    /// Whether a broken call has left it without an answer, so that it may arrive
    /// at some later time.
    pub(super) dangling: bool,
}

impl<T> Kept<T> {
    pub(super) fn new(tag: T, rows: RequestRows) -> Self {
        Self {
            tag,
            rows,
            offset: None,
            sent: false,
            dangling: false,
        }
    }

    /// How many rows these are.
    pub(super) fn count(&self) -> i64 {
        i64::try_from(self.rows.count()).unwrap_or(i64::MAX)
    }
}

/// What a driver is told to send.
#[derive(Debug)]
pub(super) enum Command<T> {
    /// Behind everything else.
    Append(Kept<T>),
    /// In the place of what was rejected, before everything behind that.
    Instead(Vec<Kept<T>>),
}

/// What became of a request, and the room that it took.
#[derive(Debug)]
pub(super) struct Outcome<T> {
    pub(super) settled: Settled<T>,
    pub(super) bytes: usize,
}

/// Sends, receives, and sends again.
pub(super) struct Driver<T> {
    terms: Terms,
    place: Place,
    /// Between calls.
    recovery: Backoff,
    /// Between attempts of requests that the service refused for now.
    retry: Backoff,
    /// While a new table is not known everywhere, until it is.
    propagation: Option<Backoff>,
    /// Whether the present credentials were refused already.
    unauthenticated: bool,
    overload: Duration,
    append_timeout: Duration,
    incoming: mpsc::UnboundedReceiver<Command<T>>,
    outcomes: mpsc::UnboundedSender<Result<Outcome<T>>>,
    call: Option<Call>,
    /// Until the service has taken a request of the call, each says what the first has to
    /// say, because one that was refused may have said nothing.
    opened: Opened,
    calls: u64,
    /// To be sent, oldest first.
    unsent: VecDeque<Kept<T>>,
    /// Sent on `call` and not answered, oldest first.
    sent: VecDeque<Kept<T>>,
    /// Refused on `call`. They are sent again when everything behind them is
    /// answered too, so that requests keep their order.
    refused: VecDeque<Kept<T>>,
    /// Whether nothing is sent until a rejected request has a substitute: those behind it
    /// keep their order.
    held: bool,
    /// Why the first of them was.
    refusal: Option<Error>,
    stranded: bool,
    /// When the call last answered, or got the first request to answer.
    last_answer: Instant,
}

/// Whether the service knows what a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opened {
    NotYet,
    Known,
}

/// What is done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repetition {
    /// A call that broke.
    Call,
    /// Requests that were refused on a call that goes on.
    Request,
}

/// What a driver waits for.
enum Event<T> {
    Command(Option<Command<T>>),
    Answer(Result<AppendRowsResponse, Ending>),
    Hung,
}

impl<T: Send + 'static> Driver<T> {
    pub(super) fn new(
        terms: Terms,
        place: Place,
        options: &StreamOptions,
        incoming: mpsc::UnboundedReceiver<Command<T>>,
        outcomes: mpsc::UnboundedSender<Result<Outcome<T>>>,
    ) -> Self {
        let backoff = |policy| Backoff::new(policy, Arc::clone(&terms.clock));
        Self {
            recovery: backoff(recovery(options)),
            retry: backoff(retry(options)),
            propagation: terms.denied.policy().map(backoff),
            unauthenticated: false,
            overload: options.recovery_max_backoff,
            append_timeout: options.append_timeout,
            terms,
            place,
            incoming,
            outcomes,
            call: None,
            opened: Opened::NotYet,
            calls: 0,
            unsent: VecDeque::new(),
            sent: VecDeque::new(),
            refused: VecDeque::new(),
            held: false,
            refusal: None,
            stranded: false,
            last_answer: Instant::now(),
        }
    }

    pub(super) async fn run(mut self) {
        if let Err(error) = self.drive().await {
            let error = match self.sent.is_empty() && self.unsent.iter().all(|r| !r.dangling) {
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
                Event::Command(Some(Command::Append(request))) => self.unsent.push_back(request),
                Event::Command(Some(Command::Instead(requests))) => {
                    for request in requests.into_iter().rev() {
                        self.refused.push_front(request);
                    }
                    self.held = false;
                    self.turn_when_answered().await?;
                }
                Event::Command(None) => return Ok(()),
                Event::Answer(Ok(response)) => self.accept(response).await?,
                Event::Answer(Err(ending)) => self.broken(ending).await?,
                Event::Hung => {
                    self.terms.counters.failed("TIMEOUT");
                    let error = Error::new(
                        ErrorKind::DeadlineExceeded,
                        format!(
                            "no answer to an append for {:?} (option '{}.append_timeout')",
                            self.append_timeout, self.terms.options
                        ),
                    );
                    self.reconnect(error).await?;
                }
            }
        }
    }

    /// Sends what is to be sent, on a new call if there is none.
    fn send_all(&mut self) {
        if self.stranded {
            return self.strand_all();
        }
        while self.may_send()
            && let Some(mut request) = self.unsent.pop_front()
        {
            let terms = &self.terms;
            if self.call.is_none() {
                let counter = match self.calls {
                    0 => &terms.counters.connections,
                    _ => &terms.counters.reconnects,
                };
                add(counter, 1);
                self.calls += 1;
                self.opened = Opened::NotYet;
                let stream = &terms.opening.stream;
                let call = Call::open(&terms.connections, &terms.credentials, stream);
                self.call = Some(call);
            }
            let Some(call) = &self.call else { return };
            let opening = match self.opened {
                Opened::NotYet => Some(&terms.opening),
                Opened::Known => None,
            };
            self.place.assign(&mut request);
            let message = Request::new(opening, request.offset, &terms.defaulted, &request.rows);
            add(&terms.counters.requests, 1);
            add(&terms.counters.bytes, message.encoded_len());
            call.send(message);
            if self.sent.is_empty() {
                self.last_answer = Instant::now();
            }
            self.sent.push_back(request);
        }
    }

    fn may_send(&self) -> bool {
        !self.turns() && (self.place.is_confirmed() || self.sent.is_empty())
    }

    /// Whether answers are awaited before anything is sent again.
    fn turns(&self) -> bool {
        self.held || !self.refused.is_empty() || self.place.is_vacated()
    }

    /// Whether a request is sent again whatever its answer is, because one before it is.
    fn follows(&self) -> bool {
        self.terms.order == RequestOrder::Kept && self.turns()
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
            add(&self.terms.counters.schema_updates, 1);
            tracing::info!(
                table = %self.terms.table,
                columns = schema.fields.len(),
                "the table's columns have changed; rows are still written to those it had"
            );
        }
        let Some(request) = self.sent.pop_front() else {
            return Err(Error::data(
                "the service answered a request that was not made",
            ));
        };
        if let Some(Response::AppendResult(_)) = response.response {
            self.opened = Opened::Known;
        }
        match response.response {
            Some(_) if self.follows() => self.refused.push_back(request),
            Some(Response::AppendResult(result)) => {
                self.place.written(&request, result.offset)?;
                self.written_after(request);
            }
            Some(Response::Error(error)) => self.refused(request, &error, response.row_errors)?,
            None => {
                return Err(Error::data(
                    "an answer says neither what was written nor why not",
                ));
            }
        }
        self.turn_when_answered().await
    }

    /// Sends again what is to be, if everything on the call is answered.
    async fn turn_when_answered(&mut self) -> Result<()> {
        if self.sent.is_empty() && self.turns() && !self.held && !self.stranded {
            self.turn().await?;
        }
        Ok(())
    }

    /// A request is written. Where others before it are in doubt, that says
    /// something of them: requests are settled as written in their order, so that what
    /// is written is the beginning of the stream.
    fn written_after(&mut self, request: Kept<T>) {
        match self.place.before_written() {
            Before::Unknown => {}
            Before::Written => {
                self.refusal = None;
                while let Some(earlier) = self.refused.pop_front() {
                    self.written(earlier);
                }
            }
            Before::Foreign if self.refused.is_empty() => {}
            Before::Foreign => {
                self.refused.push_back(request);
                let why = "rows were written behind others that are not known to be";
                return self.strand(&Error::new(ErrorKind::FailedPrecondition, why));
            }
        }
        self.written(request);
    }

    fn written(&mut self, request: Kept<T>) {
        self.progressed();
        self.retry.progressed();
        add(&self.terms.counters.rows, request.rows.count());
        let rows = request.rows.count();
        let tag = request.tag;
        self.settle(Settled::Written { tag, rows }, request.rows.bytes());
    }

    /// The service has done something, and so knows the table and the caller.
    fn progressed(&mut self) {
        self.recovery.progressed();
        self.propagation = None;
        self.unauthenticated = false;
    }

    fn refused(
        &mut self,
        request: Kept<T>,
        error: &rpc::Status,
        row_errors: Vec<RowError>,
    ) -> Result<()> {
        let named = !row_errors.is_empty() || self.terms.unexplained == Unexplained::Rows;
        if named && status::is_about_rows(error) {
            self.terms.counters.failed(name(Code::from(error.code)));
            self.progressed();
            self.place.rejected(&request);
            let wrong = row_errors
                .into_iter()
                .map(|wrong| refusal(wrong.index, wrong.message, request.rows.count()))
                .collect::<Result<Vec<_>>>()?;
            let bytes = request.rows.bytes();
            let settled = Settled::Rejected {
                tag: request.tag,
                rows: request.rows,
                wrong,
                message: error.message.clone(),
            };
            self.held = self.terms.order == RequestOrder::Kept;
            self.settle(settled, bytes);
            return Ok(());
        }
        let refusal = status::of_response(error, self.overload);
        let verdict = self.place.judge(&request, refusal, self.turns());
        if !matches!(verdict, Verdict::Written | Verdict::Behind) {
            self.terms.counters.failed(name(Code::from(error.code)));
        }
        match verdict {
            Verdict::Written => self.written_after(request),
            Verdict::Behind => self.refused.push_back(request),
            Verdict::Refused(error) if self.may_pass(&error) => {
                self.refused.push_back(request);
                self.refusal.get_or_insert(error);
            }
            Verdict::Refused(error) => return Err(error),
            Verdict::Strand(error) => {
                self.refused.push_back(request);
                self.strand(&error);
            }
        }
        Ok(())
    }

    /// Everything on the call is answered: what was refused is sent again.
    async fn turn(&mut self) -> Result<()> {
        if let Some(error) = self.refusal.take() {
            self.wait(error, Repetition::Request).await?;
        }
        add(&self.terms.counters.retries, self.refused.len());
        self.requeue();
        Ok(())
    }

    /// Puts everything that was not settled in front of what was not sent.
    fn requeue(&mut self) {
        for request in &mut self.sent {
            request.dangling = true;
        }
        for mut request in self
            .sent
            .drain(..)
            .rev()
            .chain(self.refused.drain(..).rev())
        {
            request.sent = true;
            self.unsent.push_front(request);
        }
        if !self.place.move_up(&mut self.unsent) {
            let why = "a call broke while rows were refused, and requests of it may still arrive";
            self.strand(&Error::new(ErrorKind::Unavailable, why));
        }
    }

    /// Finds out why a call ended, and makes another if it is needed.
    async fn broken(&mut self, ending: Ending) -> Result<()> {
        let Some(oldest) = self.sent.front() else {
            // Nothing is lost by an idle call that the service closes.
            self.call = None;
            return Ok(());
        };
        if let Some(refusal) = self.refusal.take() {
            // What follows a refusal comes of it.
            return self.reconnect(refusal).await;
        }
        let endpoint = self.terms.connections.endpoint();
        let error = match ending {
            Ending::Status(status) => {
                self.terms.counters.failed(name(status.code()));
                let refusal = status::of_append(&status, endpoint, self.overload);
                match self.place.judge(oldest, refusal, false) {
                    Verdict::Refused(error) => self.with_new_token(error),
                    Verdict::Written => {
                        if let Some(request) = self.sent.pop_front() {
                            self.written(request);
                        }
                        Error::new(ErrorKind::Unavailable, status.message())
                    }
                    Verdict::Behind => Error::new(ErrorKind::Unavailable, status.message()),
                    Verdict::Strand(error) => {
                        self.strand(&error);
                        return Ok(());
                    }
                }
            }
            Ending::Unsent(error) => error,
            Ending::Silent => {
                self.terms.counters.failed("OK");
                status::ended(endpoint)
            }
        };
        self.reconnect(error).await
    }

    /// A token may run out during a call. The next call has a new one; if that is
    /// refused too, it is not for its age.
    fn with_new_token(&mut self, error: Error) -> Error {
        if error.kind() != ErrorKind::Unauthenticated || self.unauthenticated {
            return error;
        }
        self.unauthenticated = true;
        error.with_retry(RetryAdvice::Backoff)
    }

    /// Makes ready for another call.
    async fn reconnect(&mut self, error: Error) -> Result<()> {
        self.call = None;
        self.refusal = None;
        self.wait(error, Repetition::Call).await?;
        let again = self.sent.len() + self.refused.len();
        add(&self.terms.counters.retries, again);
        self.requeue();
        Ok(())
    }

    /// Whether another attempt may succeed.
    fn may_pass(&self, error: &Error) -> bool {
        let may_pass = self.terms.denied.covers(error.kind()) && self.propagation.is_some();
        error.is_retryable() || may_pass
    }

    /// Waits until the time of another attempt.
    async fn wait(&mut self, error: Error, of: Repetition) -> Result<()> {
        match (&mut self.propagation, of) {
            (Some(propagation), _) if self.terms.denied.covers(error.kind()) => {
                // A call keeps the columns that its server knew when it began.
                self.call = None;
                let error = error.with_retry(RetryAdvice::Backoff);
                propagation.after(error).await
            }
            (_, Repetition::Call) => self.recovery.after(error).await,
            (_, Repetition::Request) => self.retry.after(error).await,
        }
    }

    /// Gives the stream up.
    fn strand(&mut self, why: &Error) {
        tracing::warn!(
            table = %self.terms.table,
            stream = self.terms.opening.stream,
            reason = why.message(),
            "a write stream is given up, and its rows that are not settled go to another"
        );
        self.stranded = true;
        self.strand_all();
    }

    fn strand_all(&mut self) {
        self.call = None;
        for queue in [&mut self.refused, &mut self.sent, &mut self.unsent] {
            for request in queue.drain(..) {
                let bytes = request.rows.bytes();
                let settled = Settled::Stranded {
                    tag: request.tag,
                    rows: request.rows,
                };
                // Without a receiver the task is about to be ended.
                let _ = self.outcomes.send(Ok(Outcome { settled, bytes }));
            }
        }
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
