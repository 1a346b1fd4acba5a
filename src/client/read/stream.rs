//! Reading one stream to its end, whatever happens on the way.
//!
//! The position in a stream is the number of rows delivered. When a call
//! breaks, the next one starts there, so that every row arrives once: no
//! response is taken apart across calls, and none is delivered before all of
//! it was decoded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use arrow::array::RecordBatch;
use futures::stream::{self, BoxStream, StreamExt};
use googleapis_storage::google::cloud::bigquery::storage::v1::{
    ReadRowsRequest, ReadRowsResponse, read_rows_response::Rows,
};
use tonic::Streaming;

use super::aligned;
use super::channel::{Connections, Lease, request};
use super::decode::Decoder;
use super::session::ReadSession;
use super::status;
use crate::auth::Credentials;
use crate::client::endpoint;
use crate::client::retry::{Backoff, Clock, RetryPolicy};
use crate::error::{Error, ErrorKind, Result};
use crate::options::ScanOptions;

/// How to read a stream.
#[derive(Debug, Clone)]
pub struct ReadStreamOptions {
    /// Attempts in a row without a new row before the stream fails.
    pub max_attempts: u32,
    /// A call that is silent for this long is given up and made again.
    pub idle_timeout: Duration,
    /// Where to count.
    pub counters: Arc<ReadCounters>,
}

impl Default for ReadStreamOptions {
    fn default() -> Self {
        ReadStreamOptions::from(&ScanOptions::default())
    }
}

impl From<&ScanOptions> for ReadStreamOptions {
    fn from(options: &ScanOptions) -> Self {
        ReadStreamOptions {
            max_attempts: options.retry_max_attempts,
            idle_timeout: options.idle_timeout,
            counters: Arc::default(),
        }
    }
}

/// What happened while reading; several streams may count into one.
#[derive(Debug, Default)]
pub struct ReadCounters {
    rows: AtomicU64,
    wire_bytes: AtomicU64,
    responses: AtomicU64,
    reconnects: AtomicU64,
    throttle_percent: AtomicU64,
    wait_nanos: AtomicU64,
    decode_nanos: AtomicU64,
}

impl ReadCounters {
    /// Rows delivered.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes of record batches as they arrived, compressed or not.
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes.load(Ordering::Relaxed)
    }

    /// Responses that arrived.
    pub fn responses(&self) -> u64 {
        self.responses.load(Ordering::Relaxed)
    }

    /// Calls made because an earlier one of the stream broke.
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    /// By how much the service said it slowed a stream down, at worst.
    pub fn throttle_percent(&self) -> u64 {
        self.throttle_percent.load(Ordering::Relaxed)
    }

    /// Time spent waiting for the service, summed over streams.
    pub fn wait_time(&self) -> Duration {
        Duration::from_nanos(self.wait_nanos.load(Ordering::Relaxed))
    }

    /// Time spent decoding, summed over streams.
    pub fn decode_time(&self) -> Duration {
        Duration::from_nanos(self.decode_nanos.load(Ordering::Relaxed))
    }

    fn add_time(counter: &AtomicU64, since: Instant) {
        let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        counter.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// Some rows of a stream.
#[derive(Debug, Clone)]
pub struct StreamBatch {
    /// The rows, never none.
    pub batch: RecordBatch,
    /// The position of the first of them in the stream. A reader that starts
    /// at this number plus the number of rows gets what follows.
    pub offset: u64,
}

/// Reads the stream of this name from row `offset` to its end. Nothing happens
/// before the first poll; dropping the result ends the call.
pub(crate) fn open(
    connections: &Connections,
    credentials: &Credentials,
    clock: &Arc<dyn Clock>,
    session: &ReadSession,
    name: &str,
    offset: u64,
    options: ReadStreamOptions,
) -> BoxStream<'static, Result<StreamBatch>> {
    let reader = Reader {
        connections: connections.clone(),
        credentials: credentials.clone(),
        decoder: session.decoder(),
        session: session.clone(),
        backoff: Backoff::new(RetryPolicy::stream(options.max_attempts), Arc::clone(clock)),
        name: name.to_string(),
        position: offset,
        call: None,
        ready: VecDeque::new(),
        calls: 0,
        ended_at: None,
        options,
    };
    stream::try_unfold(reader, |mut reader| async move {
        match reader.next().await {
            Ok(Some(batch)) => Ok(Some((batch, reader))),
            Ok(None) => Ok(None),
            Err(error) => Err(reader.explain(error)),
        }
    })
    .boxed()
}

struct Reader {
    connections: Connections,
    credentials: Credentials,
    session: ReadSession,
    decoder: Decoder,
    options: ReadStreamOptions,
    backoff: Backoff,
    name: String,
    /// The row after the last one that was taken into `ready`.
    position: u64,
    call: Option<Call>,
    ready: VecDeque<StreamBatch>,
    calls: u64,
    /// Where a call ended well of which it is not known that it came to the stream's
    /// end.
    ended_at: Option<u64>,
}

/// A call under way, and the room on a connection that it takes.
struct Call {
    responses: Streaming<ReadRowsResponse>,
    reached: Reached,
    _lease: Lease,
}

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reached {
    /// It has not answered yet.
    Nothing,
    /// It answers and does not say how far it is.
    Unsaid,
    /// This share of the stream, from 0 to 1.
    Share(f64),
}

impl Reached {
    fn of(response: &ReadRowsResponse) -> Self {
        let said = response.stats.and_then(|stats| stats.progress);
        said.map_or(Reached::Unsaid, |said| Reached::Share(said.at_response_end))
    }

    /// Whether a call that ends here, and well, has come to the stream's end.
    fn is_end(self) -> bool {
        match self {
            Reached::Nothing => false,
            Reached::Unsaid => true,
            Reached::Share(share) => share >= 1.0,
        }
    }
}

impl Reader {
    async fn next(&mut self) -> Result<Option<StreamBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            match self.receive().await {
                Ok(Some(response)) => self.accept(response)?,
                Ok(None) => {
                    let reached = self.call.take().map_or(Reached::Nothing, |c| c.reached);
                    if reached.is_end() || self.ended_at == Some(self.position) {
                        return Ok(None);
                    }
                    // A call that is cut off in between may look like one that came to
                    // the end. From the end on, another one brings nothing.
                    tracing::debug!(
                        stream = self.name,
                        offset = self.position,
                        ?reached,
                        "a call ended before its stream, as far as it said"
                    );
                    self.ended_at = Some(self.position);
                }
                Err(error) => {
                    self.call = None;
                    self.backoff.after(error).await?;
                }
            }
        }
    }

    /// The next response of the call, which is made if there is none.
    async fn receive(&mut self) -> Result<Option<ReadRowsResponse>> {
        let started = Instant::now();
        let idle_timeout = self.options.idle_timeout;
        let outcome = tokio::time::timeout(idle_timeout, async {
            let call = match &mut self.call {
                Some(call) => call,
                None => {
                    let call = self.connect().await?;
                    self.call.insert(call)
                }
            };
            let response = call.responses.message().await;
            if let Ok(Some(response)) = &response {
                call.reached = Reached::of(response);
            }
            response.map_err(|status| status::error(status, self.connections.endpoint()))
        })
        .await;
        ReadCounters::add_time(&self.options.counters.wait_nanos, started);
        outcome.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::DeadlineExceeded,
                format!("the stream was silent for {idle_timeout:?} (option 'scan.idle_timeout')"),
            ))
        })
    }

    async fn connect(&mut self) -> Result<Call> {
        // To make sure of the end is no reconnection.
        if self.calls > 0 && self.ended_at != Some(self.position) {
            self.options
                .counters
                .reconnects
                .fetch_add(1, Ordering::Relaxed);
        }
        self.calls += 1;
        tracing::debug!(stream = self.name, offset = self.position, "reading");
        let offset = i64::try_from(self.position).map_err(|_| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("no stream has a row {}", self.position),
            )
        })?;
        let message = ReadRowsRequest {
            read_stream: self.name.clone(),
            offset,
        };
        let routing = endpoint::routing("read_stream", &self.name);
        let request = request(message, self.credentials.headers().await?, &routing)?;
        let lease = self.connections.lease();
        let responses = aligned::read_rows(lease.channel(), request)
            .await
            .map_err(|status| status::error(status, self.connections.endpoint()))?;
        Ok(Call {
            responses,
            reached: Reached::Nothing,
            _lease: lease,
        })
    }

    /// Takes the rows of a response.
    fn accept(&mut self, response: ReadRowsResponse) -> Result<()> {
        let counters = &self.options.counters;
        counters.responses.fetch_add(1, Ordering::Relaxed);
        if let Some(throttle) = response.throttle_state {
            let percent = u64::try_from(throttle.throttle_percent).unwrap_or(0);
            counters
                .throttle_percent
                .fetch_max(percent.min(100), Ordering::Relaxed);
        }
        let batches = match response.rows {
            None => Vec::new(),
            Some(Rows::ArrowRecordBatch(arrow)) => {
                let payload = arrow.serialized_record_batch;
                let size = u64::try_from(payload.len()).unwrap_or(u64::MAX);
                counters.wire_bytes.fetch_add(size, Ordering::Relaxed);
                let started = Instant::now();
                let decoded = self
                    .decoder
                    .decode(payload, response.uncompressed_byte_size);
                ReadCounters::add_time(&counters.decode_nanos, started);
                decoded?
            }
            Some(Rows::AvroRows(_)) => {
                return Err(Error::data("a response of an Arrow session is in Avro"));
            }
        };
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if i64::try_from(rows) != Ok(response.row_count) {
            return Err(Error::data(format!(
                "a response announces {} rows and holds {rows}",
                response.row_count
            )));
        }
        for batch in batches {
            let rows = u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
            if rows == 0 {
                continue;
            }
            self.ready.push_back(StreamBatch {
                batch,
                offset: self.position,
            });
            self.position = self
                .position
                .checked_add(rows)
                .ok_or_else(|| Error::data("a stream has more rows than any table can have"))?;
            counters.rows.fetch_add(rows, Ordering::Relaxed);
            self.backoff.progressed();
        }
        Ok(())
    }

    /// The error with where it happened, and for the usual kinds with what to do.
    fn explain(&self, error: Error) -> Error {
        let table = self.session.table();
        let told = error.message();
        let expired = self
            .session
            .expire_time()
            .is_some_and(|end| end <= SystemTime::now())
            || told.contains("session expired");
        match error.kind() {
            ErrorKind::FailedPrecondition | ErrorKind::NotFound if expired => Error::new(
                ErrorKind::SessionExpired,
                format!(
                    "the read session of table {table} is over: BigQuery ends sessions after six \
                     hours, and this stream was not read to its end by then. Read less at once, \
                     or with more partitions"
                ),
            ),
            ErrorKind::PermissionDenied => Error::new(
                ErrorKind::PermissionDenied,
                format!(
                    "the rows of table {table} cannot be read ({told}): the caller needs \
                     bigquery.readsessions.getData on project {} (option 'billing_project'; role \
                     roles/bigquery.readSessionUser)",
                    self.session.billing_project()
                ),
            ),
            _ => error
                .with_context(format!("at row {} of stream {}", self.position, self.name))
                .with_context(format!("reading table {table}")),
        }
    }
}
