//! Decoding parts of files on every core.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

use super::reading;
use crate::error::Result;

/// What `work` makes of each item, in the items' order. The error is that of the first
/// item that has one; items behind it may be left out.
pub(super) fn in_parallel<T: Send, R: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = cores.min(items.len());
    if workers <= 1 {
        return items.into_iter().map(work).collect();
    }
    let items: Vec<_> = items
        .into_iter()
        .map(|item| Mutex::new((Some(item), None)))
        .collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= items.len() || at > failed.load(Ordering::Relaxed) {
                        return;
                    }
                    let item = items[at].lock().0.take();
                    let done = item.map(&work);
                    if matches!(done, Some(Err(_))) {
                        failed.fetch_min(at, Ordering::Relaxed);
                    }
                    items[at].lock().1 = done;
                }
            });
        }
    });
    items
        .into_iter()
        .map(|item| {
            let done = item.into_inner().1;
            done.unwrap_or_else(|| Err(reading("a part of the input was not read")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order_and_the_first_error_is_told() {
        let doubled = in_parallel((0..1_000).collect(), |n| Ok(n * 2)).unwrap();
        assert_eq!(doubled, (0..1_000).map(|n| n * 2).collect::<Vec<_>>());
        let error = in_parallel((0..1_000).collect(), |n| {
            if n % 7 == 5 {
                Err(reading(format_args!("item {n}")))
            } else {
                Ok(n)
            }
        });
        let error = error.unwrap_err();
        assert!(error.message.ends_with("item 5"), "{error:?}");
        assert!(in_parallel(Vec::<u8>::new(), Ok).unwrap().is_empty());
    }
}
