//! Reading ahead of the engine, as far as memory allows.
//!
//! A task for each partition receives and decodes while the engine works on what
//! came before. It is a few messages ahead at most, and what it holds is reserved
//! with the session's memory pool. Where the pool has no room, the task waits for
//! the engine to take what is there already; only a message that finds no room
//! when nothing else is held is an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use futures::{Stream, StreamExt};
use tokio::sync::{Notify, mpsc};

/// Messages that wait for the engine at most, decoded; the connection holds more of them as they
/// came.
const MESSAGES_AHEAD: usize = 1;

/// A message's rows, and the memory that is reserved for them until this is
/// dropped.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) batch: RecordBatch,
    _memory: MemoryReservation,
    _share: Share,
}

/// What the partitions of one execution know of each other's memory.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// Partitions that read and hold no message.
    empty_handed: AtomicUsize,
    /// The largest message so far.
    largest: AtomicUsize,
}

/// The memory of one partition.
#[derive(Debug)]
struct Memory {
    pool: Arc<dyn MemoryPool>,
    /// Of nothing; reservations for messages are made after it.
    reservation: MemoryReservation,
    holdings: Arc<Holdings>,
}

/// What one partition holds.
#[derive(Debug)]
struct Holdings {
    neighbours: Arc<Neighbours>,
    messages: AtomicUsize,
    released: Notify,
}

/// One of the messages that a partition holds.
#[derive(Debug)]
struct Share(Arc<Holdings>);

impl Holdings {
    fn new(neighbours: Arc<Neighbours>) -> Self {
        neighbours.empty_handed.fetch_add(1, Ordering::Relaxed);
        Self {
            neighbours,
            messages: AtomicUsize::new(0),
            released: Notify::new(),
        }
    }

    fn take(self: &Arc<Self>) -> Share {
        if self.messages.fetch_add(1, Ordering::AcqRel) == 0 {
            self.neighbours.empty_handed.fetch_sub(1, Ordering::Relaxed);
        }
        Share(Arc::clone(self))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let holdings = &self.0;
        if holdings.messages.fetch_sub(1, Ordering::AcqRel) == 1 {
            let neighbours = &holdings.neighbours;
            neighbours.empty_handed.fetch_add(1, Ordering::Relaxed);
        }
        holdings.released.notify_one();
    }
}

impl Drop for Holdings {
    fn drop(&mut self) {
        // Every share keeps the holdings, so none is left.
        self.neighbours.empty_handed.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Memory {
    fn new(consumer: MemoryConsumer, pool: &Arc<dyn MemoryPool>, of: Arc<Neighbours>) -> Self {
        Self {
            pool: Arc::clone(pool),
            reservation: consumer.register(pool),
            holdings: Arc::new(Holdings::new(of)),
        }
    }

    /// Reserves room for `batch`, after a wait for what was given out before it
    /// where there is none.
    async fn hold(&self, batch: RecordBatch) -> Result<Held> {
        let bytes = get_record_batch_memory_size(&batch);
        let largest = &self.holdings.neighbours.largest;
        largest.fetch_max(bytes, Ordering::Relaxed);
        let memory = self.reservation.new_empty();
        loop {
            // Made first, so that no release after the look is missed.
            let released = self.holdings.released.notified();
            if self.holdings.messages.load(Ordering::Acquire) == 0 {
                memory.try_grow(bytes).map_err(|error| {
                    error.context(format!(
                        "one response of {bytes} bytes needs room in the session's memory pool, \
                         whose limit is too low"
                    ))
                })?;
                break;
            }
            if self.leaves_room_for_others(bytes) && memory.try_grow(bytes).is_ok() {
                break;
            }
            released.await;
        }
        Ok(Held {
            batch,
            _memory: memory,
            _share: self.holdings.take(),
        })
    }

    /// Whether another message of `bytes` leaves room for one of each partition
    /// that has none: being ahead must not be what makes others fail.
    fn leaves_room_for_others(&self, bytes: usize) -> bool {
        let MemoryLimit::Finite(limit) = self.pool.memory_limit() else {
            return true;
        };
        let neighbours = &self.holdings.neighbours;
        let others = neighbours.empty_handed.load(Ordering::Relaxed);
        let largest = neighbours.largest.load(Ordering::Relaxed);
        let wanted = largest.saturating_mul(others).saturating_add(bytes);
        self.pool.reserved().saturating_add(wanted) <= limit
    }
}

/// The other end of what a task reads ahead.
#[derive(Debug)]
pub(super) struct ReadAhead {
    messages: mpsc::Receiver<Held>,
    /// Dropping it ends the task, and with it the task's calls.
    task: Option<SpawnedTask<Result<()>>>,
}

impl ReadAhead {
    /// Begins to read `batches`, none of which is asked for before there is room
    /// for it.
    pub(super) fn start(
        batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
        consumer: MemoryConsumer,
        pool: &Arc<dyn MemoryPool>,
        neighbours: Arc<Neighbours>,
    ) -> Self {
        let (sender, messages) = mpsc::channel(MESSAGES_AHEAD);
        let memory = Memory::new(consumer, pool, neighbours);
        Self {
            messages,
            task: Some(SpawnedTask::spawn(read(batches, memory, sender))),
        }
    }

    /// The next message; None at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Held>> {
        if let Some(held) = self.messages.recv().await {
            return Ok(Some(held));
        }
        // The task has ended: of itself, or with an error or a panic, after which
        // rows are missing.
        let Some(task) = self.task.take() else {
            return Ok(None);
        };
        match task.join_unwind().await {
            Ok(outcome) => outcome.map(|()| None),
            Err(error) => Err(DataFusionError::ExecutionJoin(Box::new(error))),
        }
    }
}

async fn read(
    batches: impl Stream<Item = Result<RecordBatch>>,
    memory: Memory,
    sender: mpsc::Sender<Held>,
) -> Result<()> {
    let mut batches = std::pin::pin!(batches);
    // Nobody waits for more once the receiver is gone.
    while let Ok(place) = sender.reserve().await {
        match batches.next().await {
            Some(batch) => place.send(memory.hold(batch?).await?),
            None => break,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
    use futures::stream;

    use super::*;

    const ROWS: i64 = 1_000;
    const BYTES: usize = 8_000;

    fn message(number: i64) -> RecordBatch {
        let values = Int64Array::from_iter_values(number * ROWS..(number + 1) * ROWS);
        RecordBatch::try_from_iter([("n", Arc::new(values) as ArrayRef)]).unwrap()
    }

    /// So many messages, and how many of them were asked for.
    fn messages(
        count: i64,
    ) -> (
        impl Stream<Item = Result<RecordBatch>> + Send + 'static,
        Arc<AtomicUsize>,
    ) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let messages = stream::iter(0..count).map(move |number| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(message(number))
        });
        (messages, asked)
    }

    fn pool_of(messages: usize) -> Arc<dyn MemoryPool> {
        Arc::new(GreedyMemoryPool::new(messages * BYTES))
    }

    fn start(
        messages: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
        pool: &Arc<dyn MemoryPool>,
        neighbours: &Arc<Neighbours>,
    ) -> ReadAhead {
        let consumer = MemoryConsumer::new("scan");
        ReadAhead::start(messages, consumer, pool, Arc::clone(neighbours))
    }

    /// Lets the tasks go on until none of them can.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    async fn rest(mut ahead: ReadAhead) -> Result<usize> {
        let mut rows = 0;
        while let Some(held) = ahead.next().await? {
            rows += held.batch.num_rows();
        }
        Ok(rows)
    }

    #[tokio::test]
    async fn so_many_messages_are_read_ahead_and_no_more() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let (messages, asked) = messages(50);
        let mut ahead = start(messages, &pool, &Arc::default());
        settle().await;
        assert_eq!(asked.load(Ordering::SeqCst), MESSAGES_AHEAD);
        assert_eq!(pool.reserved(), MESSAGES_AHEAD * BYTES);
        let first = ahead.next().await.unwrap();
        settle().await;
        assert_eq!(asked.load(Ordering::SeqCst), MESSAGES_AHEAD + 1);
        drop(first);
        assert_eq!(rest(ahead).await.unwrap(), 49_000);
        assert_eq!(pool.reserved(), 0);
    }

    #[tokio::test]
    async fn a_full_pool_stops_reading_ahead() {
        let pool = pool_of(1);
        let (messages, asked) = messages(5);
        let mut ahead = start(messages, &pool, &Arc::default());
        let first = ahead.next().await.unwrap().unwrap();
        assert_eq!(first.batch, message(0));
        settle().await;
        // The second was asked for and finds no room beside the first.
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert_eq!(pool.reserved(), BYTES);
        drop(first);
        for number in 1..5 {
            let held = ahead.next().await.unwrap().unwrap();
            assert_eq!(held.batch, message(number));
            assert_eq!(pool.reserved(), BYTES);
        }
        assert!(ahead.next().await.unwrap().is_none());
        assert!(ahead.next().await.unwrap().is_none());
        assert_eq!(pool.reserved(), 0);
    }

    #[tokio::test]
    async fn a_message_that_fits_nowhere_is_an_error() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(BYTES - 1));
        let (messages, _) = messages(2);
        let mut ahead = start(messages, &pool, &Arc::default());
        let error = ahead.next().await.unwrap_err();
        let root = error.find_root();
        assert!(
            matches!(root, DataFusionError::ResourcesExhausted(_)),
            "{error}"
        );
        assert!(error.to_string().contains("8000 bytes"), "{error}");
        assert_eq!(pool.reserved(), 0);
    }

    /// Every partition gets its first message before any gets a second that would
    /// take its room.
    #[tokio::test]
    async fn being_ahead_does_not_make_others_fail() {
        let pool = pool_of(4);
        let neighbours = Arc::default();
        let readers: Vec<_> = (0..4)
            .map(|_| start(messages(20).0, &pool, &neighbours))
            .collect();
        settle().await;
        assert_eq!(pool.reserved(), 4 * BYTES);
        for reader in readers {
            assert_eq!(rest(reader).await.unwrap(), 20_000);
        }
        assert_eq!(pool.reserved(), 0);
        assert_eq!(neighbours.empty_handed.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn dropping_the_reader_drops_what_it_reads() {
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let endless = stream::pending().inspect(move |_: &Result<RecordBatch>| {
            let _ = &held;
        });
        let pool = pool_of(1);
        let ahead = start(endless, &pool, &Arc::default());
        settle().await;
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(ahead);
        settle().await;
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[tokio::test]
    #[should_panic(expected = "on purpose")]
    async fn a_panic_is_not_the_end_of_the_rows() {
        let panics = stream::once(async { panic!("on purpose") });
        let mut ahead = start(panics, &pool_of(1), &Arc::default());
        let _ = ahead.next().await;
    }
}
