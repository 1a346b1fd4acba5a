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
use futures::Stream;
use tokio::sync::{Notify, mpsc};

/// Messages that wait for the engine at most.
const MESSAGES_AHEAD: usize = 2;

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
                memory.try_grow(bytes)?;
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
    use futures::StreamExt;
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
