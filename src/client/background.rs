//! A thread of this library's own, for what nobody waits for in time.
//!
//! DataFusion asks some questions of the service in functions that cannot wait
//! (lists of tables, table functions), and a query that is dropped still has to
//! cancel its job. Both happen here, because whoever asks may be blocking a
//! thread of the runtime that would otherwise do the work.

use std::future::Future;
use std::sync::{LazyLock, mpsc};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::sync::watch;

use crate::error::{Error, ErrorKind, Result};

static BACKGROUND: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("bigquery-background")
        .enable_all()
        .build()
});

/// How many pieces of work are under way.
static UNDER_WAY: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// Counts as work under way until it is dropped, also by a panic.
struct UnderWay;

impl UnderWay {
    fn begin() -> Self {
        UNDER_WAY.send_modify(|count| *count += 1);
        Self
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.send_modify(|count| *count -= 1);
    }
}

/// Waits until everything is done that queries left behind when they were dropped,
/// which is to cancel their jobs. A program calls it before it ends, because what
/// is under way ends with it.
///
/// Returns after `patience` at the latest.
pub async fn finish_background_work(patience: Duration) {
    let mut count = UNDER_WAY.subscribe();
    // The sender is never dropped, and being out of patience is no failure.
    let _ = tokio::time::timeout(patience, count.wait_for(|count| *count == 0)).await;
}

/// Starts `work`, whose end nobody waits for.
///
/// # Errors
/// When this machine gives no thread.
pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    match &*BACKGROUND {
        Ok(runtime) => {
            let under_way = UnderWay::begin();
            runtime.spawn(async move {
                work.await;
                drop(under_way);
            });
            Ok(())
        }
        Err(error) => Err(Error::new(
            ErrorKind::Internal,
            format!("no thread to work in: {error}"),
        )),
    }
}

/// Whether waiting here stops every other task of this thread's runtime, and with
/// them the connections that the runtime opened.
pub(crate) fn waiting_stops_others() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() != RuntimeFlavor::MultiThread)
}

/// Waits for an answer that comes from [`spawn`]ed work. Other tasks of this
/// thread's runtime move to other threads meanwhile, where it has any.
///
/// # Errors
/// [`ErrorKind::DeadlineExceeded`] after `patience`.
pub(crate) fn wait<T>(answer: &mpsc::Receiver<Result<T>>, patience: Duration) -> Result<T> {
    let wait = || answer.recv_timeout(patience);
    let on_worker = Handle::try_current()
        .is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    let answer = match on_worker {
        true => tokio::task::block_in_place(wait),
        false => wait(),
    };
    answer.unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::DeadlineExceeded,
            format!("no answer within {} seconds", patience.as_secs()),
        ))
    })
}

/// Does `work` and waits for its end.
///
/// # Errors
/// Those of `work`, and [`ErrorKind::DeadlineExceeded`] after `patience`.
pub(crate) fn run<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
    patience: Duration,
) -> Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    spawn(async move {
        // Nobody listens when patience ended first.
        let _ = sender.send(work.await);
    })?;
    wait(&receiver, patience)
}
