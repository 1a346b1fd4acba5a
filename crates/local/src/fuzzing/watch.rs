//! Sees every panic of the process, and whether there is an end.

use std::future::Future;
use std::sync::{LazyLock, Once};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Runtime;

use crate::engine::load::is_decoding;

/// An input that takes longer than this hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// Panics since the last input began.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// One input at a time, so that a panic belongs to it.
static TURN: Mutex<()> = Mutex::new(());

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads can be started")
});

/// Keeps every panic but those of decoders of files, which are caught and mean a
/// damaged file, and those of the tests of this process.
fn watch() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if is_decoding() {
                return;
            }
            let of_a_test = info
                .location()
                .is_some_and(|at| at.file().contains("tests"));
            if !of_a_test {
                PANICS.lock().push(info.to_string());
            }
            previous(info);
        }));
    });
}

/// Runs the work on one input to its end.
pub(super) fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    watch();
    let _turn = TURN.lock();
    PANICS.lock().clear();
    let done = RUNTIME.block_on(async { tokio::time::timeout(LIMIT, tokio::spawn(work)).await });
    let panics = std::mem::take(&mut *PANICS.lock());
    assert!(panics.is_empty(), "{}", panics.join("\n"));
    match done {
        Ok(Ok(answer)) => answer,
        Ok(Err(failure)) => panic!("{failure}"),
        Err(_) => panic!("no end after {LIMIT:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A panic is seen where its thread's end is not looked at.
    #[test]
    #[should_panic(expected = "out of sight")]
    fn a_panic_of_another_thread_is_seen() {
        run(async {
            let lost = std::thread::spawn(|| panic!("out of sight")).join();
            drop(lost);
        });
    }

    #[test]
    #[should_panic(expected = "in a task")]
    fn a_panic_of_a_task_is_seen() {
        run(async {
            let lost = tokio::spawn(async { panic!("in a task") }).await;
            drop(lost);
        });
    }

    #[test]
    fn what_does_not_panic_passes() {
        assert_eq!(run(async { 3 }), 3);
    }
}
