//! One execution of a scan: its session and the streams still to be read.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use datafusion::common::config::ConfigOptions;
use datafusion::error::DataFusionError;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::align::{self, Alignment};
use super::dynamic::{LateFilters, Waited, is_never};
use super::guard::{Guard, Sent, SessionGuard};
use super::metrics::{ScanMetrics, Totals};
use super::read_ahead::Neighbours;
use super::rounds::Rounds;
use super::snapshot::Snapshot;
use super::spec::ReadSpec;
use crate::client::Client;
use crate::client::read::session::{ReadSession, ReadSessionRequest};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::condition::Condition;
use crate::filter::translate::changed;
use crate::options::ScanOptions;
use crate::types::{TableRef, TableSchema};

/// For so long what the service said of a table's columns is taken to hold. A statement that
/// names a table of a catalog asks when it is planned.
const FRESH: Duration = Duration::from_secs(2);

/// A read session lives this long, to the microsecond.
const SESSION_LIFETIME: TimeDelta = TimeDelta::hours(6);

/// What all executions of a scan have in common.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) client: Client,
    pub(crate) table: TableRef,
    /// The table's columns, to say late filters in their terms.
    pub(crate) columns: TableSchema,
    pub(crate) options: ScanOptions,
    pub(crate) snapshot: Arc<Snapshot>,
    /// When the service said what columns the table has; None for a result that stays as
    /// it is.
    pub(crate) found_at: Option<Instant>,
}

/// The executions of one plan node.
#[derive(Debug, Default)]
pub(crate) struct Executions {
    rounds: Rounds<Execution>,
    sent: Arc<LastSent>,
}

/// What the last session was asked, once there is one.
#[derive(Debug, Default)]
struct LastSent(Mutex<Option<Asked>>);

/// What a session was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) selected_fields: Vec<String>,
    pub(crate) restriction: String,
    pub(crate) sent: Sent,
}

impl Executions {
    /// The execution that the next call for `partition` of `partitions` belongs
    /// to.
    pub(crate) fn join(&self, partition: usize, partitions: usize) -> Arc<Execution> {
        let begin = |number| Execution::new(number, Arc::clone(&self.sent));
        self.rounds.join(partition, partitions, begin)
    }

    /// What the last session was asked, if one was opened.
    pub(crate) fn asked(&self) -> Option<Asked> {
        self.sent.0.lock().clone()
    }
}

/// One execution.
#[derive(Debug)]
pub(crate) struct Execution {
    number: usize,
    /// Opened by the partition that is polled first; a failure is everyone's.
    session: OnceCell<Result<Option<Opened>, Arc<DataFusionError>>>,
    sent: Arc<LastSent>,
    /// Rows that were given out, of all partitions.
    delivered: AtomicUsize,
    /// What the partitions know of each other's memory.
    pub(super) neighbours: Arc<Neighbours>,
    /// Of the partitions that are through.
    totals: Mutex<Option<Totals>>,
}

/// An open session.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) session: ReadSession,
    pub(crate) alignment: Alignment,
    /// What the restriction leaves to evaluate of the filters that the plan relies on.
    pub(crate) guard: Option<SessionGuard>,
    /// Streams that no partition has taken.
    queue: Mutex<VecDeque<String>>,
}

impl Execution {
    fn new(number: usize, sent: Arc<LastSent>) -> Self {
        Self {
            number,
            sent,
            session: OnceCell::new(),
            delivered: AtomicUsize::new(0),
            neighbours: Arc::default(),
            totals: Mutex::default(),
        }
    }

    /// The session, opened by whoever asks first; None when it is known without
    /// one that no row is needed.
    pub(crate) async fn opened(
        &self,
        terms: &Terms<'_>,
        metrics: &ScanMetrics,
    ) -> Result<Option<&Opened>, DataFusionError> {
        let opened = self
            .session
            .get_or_init(|| async {
                self.open(terms, metrics).await.map_err(|error| {
                    let context = format!("reading table {}", terms.source.table);
                    Arc::new(DataFusionError::from(error.with_context(context)))
                })
            })
            .await;
        match opened {
            Ok(opened) => Ok(opened.as_ref()),
            Err(error) => Err(DataFusionError::Shared(Arc::clone(error))),
        }
    }

    /// Adds up what a partition did, which is through now.
    pub(crate) fn leave(&self, table: &TableRef, metrics: &ScanMetrics) {
        let mut totals = self.totals.lock();
        let totals = totals.get_or_insert_with(|| Totals::of(table));
        totals.add(metrics);
    }

    /// Takes up to `rows` of what `limit` leaves, and says how many.
    pub(crate) fn take(&self, rows: usize, limit: Option<usize>) -> usize {
        let Some(limit) = limit else {
            return rows;
        };
        let before = self
            .delivered
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |delivered| {
                Some(delivered.saturating_add(rows).min(limit))
            })
            .unwrap_or_else(|delivered| delivered);
        rows.min(limit.saturating_sub(before))
    }

    /// Whether `limit` rows were given out.
    pub(crate) fn is_satisfied(&self, limit: Option<usize>) -> bool {
        limit.is_some_and(|limit| self.delivered.load(Ordering::Relaxed) >= limit)
    }

    async fn open(&self, terms: &Terms<'_>, metrics: &ScanMetrics) -> Result<Option<Opened>> {
        let source = terms.source;
        // Before anything that other scans may be waiting for.
        let late = self.late_condition(terms, metrics).await?;
        let mut spec = Cow::Borrowed(terms.spec);
        if let Some(late) = late {
            metrics.late_filters.add(1);
            if is_never(&late) {
                tracing::debug!(table = %source.table, "a join has no keys, nothing is read");
                return Ok(None);
            }
            spec.to_mut().restriction.admit(&late);
        }
        let spec = spec.as_ref();
        let mut request = request(source, spec, terms.partitions);
        if request.snapshot_time.is_none() {
            let probe = ReadSessionRequest {
                max_stream_count: 1,
                preferred_min_stream_count: 0,
                ..request.clone()
            };
            request.snapshot_time = source
                .snapshot
                .time(self.number, || async {
                    let created = create(terms, spec, probe, metrics).await?;
                    server_time(&created.session)
                })
                .await?;
        }
        let (created, ()) = futures::try_join!(
            create(terms, spec, request, metrics),
            terms.check_unchanged(spec)
        )?;
        let Created {
            session,
            asked,
            guard,
        } = created;
        *self.sent.0.lock() = Some(asked);
        check_cost(&session, source.options.max_bytes_scanned)?;
        let estimate = |value: Option<u64>| {
            value.map_or(0, |value| usize::try_from(value).unwrap_or(usize::MAX))
        };
        metrics
            .estimated_bytes_scanned
            .add(estimate(session.estimated_bytes_scanned()));
        metrics
            .estimated_rows
            .add(estimate(session.estimated_row_count()));
        let alignment = Alignment::new(&spec.columns, session.schema())?;
        let guard = guard
            .map(|guard| guard.over(session.schema()))
            .transpose()?;
        let queue = Mutex::new(session.streams().iter().cloned().collect());
        Ok(Some(Opened {
            session,
            alignment,
            guard,
            queue,
        }))
    }

    /// What late filters say of the rows that are needed, after a wait for those
    /// that are awaited.
    async fn late_condition(
        &self,
        terms: &Terms<'_>,
        metrics: &ScanMetrics,
    ) -> Result<Option<Condition>> {
        // A plan that runs again without being reset has the filters of its first
        // run, complete and of no concern to this one.
        if self.number > 0 || terms.late_filters.is_empty() {
            return Ok(None);
        }
        let options = &terms.source.options;
        let timer = metrics.late_filter_wait.timer();
        let waited = terms.late_filters.wait(options.dynamic_filter_wait).await;
        timer.done();
        if waited == Some(Waited::TimedOut) && !options.dynamic_filter_wait.is_zero() {
            metrics.late_filter_timeouts.add(1);
            tracing::warn!(
                table = %terms.source.table,
                wait = ?options.dynamic_filter_wait,
                "a join's keys did not come in time (option 'scan.dynamic_filter_wait'), the \
                 session opens without them"
            );
        }
        let most = options.dynamic_filter_max_values;
        terms
            .late_filters
            .condition(&terms.source.columns, most)
            .map_err(|error| {
                Error::new(ErrorKind::Internal, "a filter of a join cannot be read")
                    .with_source(error)
            })
    }
}

/// What is to be read, and by how many.
#[derive(Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) source: &'a Source,
    pub(crate) spec: &'a ReadSpec,
    pub(crate) late_filters: &'a LateFilters,
    pub(crate) partitions: usize,
    pub(crate) config: &'a Arc<ConfigOptions>,
}

impl Terms<'_> {
    /// That the columns of the filters which the service alone evaluates are what they were
    /// when the restriction was written: for another type or collation it may keep other
    /// rows. The columns that are read say so themselves. What was found out just now is
    /// not asked again.
    async fn check_unchanged(&self, spec: &ReadSpec) -> Result<()> {
        let source = self.source;
        let (Some(found_at), false) = (source.found_at, spec.promised.is_empty()) else {
            return Ok(());
        };
        let client = &source.client;
        if client.clock().now().saturating_duration_since(found_at) < FRESH {
            return Ok(());
        }
        let mut now = client.get_table(&source.table).await?;
        now.collate();
        let mut filters = spec.promised.iter().map(|promised| &promised.filter);
        match filters.find_map(|filter| changed(&source.columns, &now.schema, filter)) {
            Some(field) => Err(align::changed(
                &field.name,
                "is not what it was when the filter on it was planned",
            )),
            None => Ok(()),
        }
    }

    /// What is left to evaluate if so much of the restriction is sent.
    fn guard(&self, spec: &ReadSpec, sent: Sent) -> Result<Option<Guard>> {
        Guard::new(&spec.promised, sent, &spec.table, self.config).map_err(|error| {
            Error::new(
                ErrorKind::Internal,
                "a filter that the scan promised cannot be evaluated",
            )
            .with_source(error)
        })
    }
}

/// A session, what it was asked, and what that leaves to do.
struct Created {
    session: ReadSession,
    asked: Asked,
    guard: Option<Guard>,
}

impl Drop for Execution {
    /// The execution is over, whether it was read to its end or not.
    fn drop(&mut self) {
        if let Some(totals) = self.totals.get_mut() {
            totals.report();
        }
    }
}

impl Opened {
    /// The next stream that nobody reads yet.
    pub(crate) fn next_stream(&self) -> Option<String> {
        self.queue.lock().pop_front()
    }
}

fn request(source: &Source, spec: &ReadSpec, partitions: usize) -> ReadSessionRequest {
    let options = &source.options;
    // Twice as many streams as readers evens out streams of different length.
    let wanted = u32::try_from(partitions.saturating_mul(2)).unwrap_or(u32::MAX);
    let preferred = options.preferred_min_stream_count.unwrap_or(wanted);
    ReadSessionRequest {
        table: source.table.clone(),
        selected_fields: spec.selected_fields.clone(),
        row_restriction: text(spec.restriction.text()),
        max_stream_count: options.max_stream_count,
        preferred_min_stream_count: match options.max_stream_count {
            0 => preferred,
            most => preferred.min(most),
        },
        snapshot_time: options.snapshot_time,
        sample_percentage: options.sample_percentage,
        compression: options.compression,
        timestamp_precision: options.timestamp_precision,
    }
}

fn asked(request: ReadSessionRequest, sent: Sent) -> Asked {
    Asked {
        selected_fields: request.selected_fields,
        restriction: request.row_restriction.unwrap_or_default(),
        sent,
    }
}

/// The request with the columns that `guard` needs.
fn guarded(request: ReadSessionRequest, guard: Option<&Guard>) -> ReadSessionRequest {
    match guard {
        Some(guard) => ReadSessionRequest {
            selected_fields: guard.selected_fields(&request.selected_fields),
            ..request
        },
        None => request,
    }
}

/// Creates a session. A refusal of a restriction that we wrote is no reason to
/// fail: without it the filters are evaluated here, by the engine or by the scan, so
/// the session is opened once more with the user's part alone.
async fn create(
    terms: &Terms<'_>,
    spec: &ReadSpec,
    request: ReadSessionRequest,
    metrics: &ScanMetrics,
) -> Result<Created> {
    let source = terms.source;
    let guard = terms.guard(spec, Sent::Whole)?;
    let selected_fields = request.selected_fields.clone();
    let request = guarded(request, guard.as_ref());
    let refused = match source.client.create_read_session(&request).await {
        Ok(session) => {
            metrics.sessions.add(1);
            return Ok(Created {
                session,
                asked: asked(request, Sent::Whole),
                guard,
            });
        }
        Err(error) => error,
    };
    if refused.kind() != ErrorKind::InvalidArgument {
        return Err(refused);
    }
    // The service's own words for times that it cannot read at.
    let message = refused.message();
    let about_time = message.contains("snapshot time") || message.contains("time travel");
    let said = if message.contains("without a filter over column") {
        Some(
            "compare the column with a literal in a condition that stands by itself or is joined by \
             AND, not by OR, or say scan.row_restriction where the table is declared or in \
             bigquery_scan",
        )
    } else if about_time && source.options.snapshot_time.is_some() {
        Some("the time is that of option scan.snapshot_time, or of FOR SYSTEM_TIME AS OF")
    } else if spec.restriction.has_user() {
        Some("the option scan.row_restriction is part of the request")
    } else {
        None
    };
    let refused = match said {
        Some(said) => Error::new(refused.kind(), format!("{} ({said})", refused.message()))
            .with_source(refused)
            .with_context(format!("reading table {}", source.table)),
        None => refused,
    };
    let Some(without) = spec.restriction.text_without_generated() else {
        return Err(refused);
    };
    let guard = terms.guard(spec, Sent::WithoutGenerated)?;
    let request = ReadSessionRequest {
        row_restriction: text(without),
        selected_fields,
        ..request
    };
    let request = guarded(request, guard.as_ref());
    match source.client.create_read_session(&request).await {
        Ok(session) => {
            tracing::warn!(
                table = %source.table,
                restriction = spec.restriction.generated(),
                error = %refused,
                "the service refused a generated row restriction; the filter runs locally instead"
            );
            metrics.sessions.add(1);
            metrics.restriction_refusals.add(1);
            Ok(Created {
                session,
                asked: asked(request, Sent::WithoutGenerated),
                guard,
            })
        }
        // Not the restriction's fault, or not only: the first answer is about what was
        // asked.
        Err(other) if other.message() == refused.message() => Err(refused),
        Err(other) => Err(refused.with_context(format!(
            "without the restriction that was written here the service refuses too ({})",
            other.message()
        ))),
    }
}

/// The service's clock when it created the session. Sessions expire exactly six
/// hours later, which is the only time in the answer.
fn server_time(session: &ReadSession) -> Result<DateTime<Utc>> {
    let expires = session.expire_time().ok_or_else(|| {
        Error::data(
            "the service does not say when the read session expires, so the scans of one \
             statement cannot share a snapshot: set scan.snapshot_time",
        )
    })?;
    Ok(DateTime::<Utc>::from(expires) - SESSION_LIFETIME)
}

/// None for no restriction.
fn text(restriction: String) -> Option<String> {
    (!restriction.is_empty()).then_some(restriction)
}

fn check_cost(session: &ReadSession, most: Option<u64>) -> Result<()> {
    let Some(most) = most else {
        return Ok(());
    };
    let Some(estimate) = session.estimated_bytes_scanned() else {
        return Err(Error::new(
            ErrorKind::FailedPrecondition,
            "the service gives no estimate to hold against scan.max_bytes_scanned: leave the \
             option out to read all the same",
        ));
    };
    if estimate <= most {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::FailedPrecondition,
        format!(
            "the scan would read {estimate} bytes by the service's estimate and \
             scan.max_bytes_scanned allows {most}: select fewer columns, filter on the partition \
             column, or raise the option"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_shared_by_the_partitions() {
        let execution = Execution::new(0, Arc::default());
        assert_eq!(execution.take(7, Some(10)), 7);
        assert!(!execution.is_satisfied(Some(10)));
        assert_eq!(execution.take(7, Some(10)), 3);
        assert!(execution.is_satisfied(Some(10)));
        assert_eq!(execution.take(7, Some(10)), 0);
        assert_eq!(execution.take(7, None), 7);
    }
}
