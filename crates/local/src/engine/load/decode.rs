//! Other people's decoders, which are not all proof against hostile bytes.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::reading;
use crate::error::Result;

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a decoder, where a panic means a damaged file.
pub(crate) fn is_decoding() -> bool {
    DECODING.get()
}

/// Runs a decoder. If it panics, the file is damaged.
pub(crate) fn decoding<T>(work: impl FnOnce() -> T) -> Result<T> {
    DECODING.set(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    DECODING.set(false);
    done.map_err(|_| reading("The input file is damaged and cannot be decoded"))
}

/// What a decoder gives, one after the other. Nothing follows a panic.
pub(super) fn decoded<I: Iterator>(mut decoder: I) -> impl Iterator<Item = Result<I::Item>> {
    let mut broken = false;
    std::iter::from_fn(move || {
        if broken {
            return None;
        }
        let next = decoding(|| decoder.next());
        broken = next.is_err();
        next.transpose()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_decoder_is_a_damaged_file() {
        let numbers = [4_u32, 0, 2].into_iter().map(|n| 8_u32 / n);
        let read: Vec<_> = decoded(numbers).collect();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0], Ok(2));
        let error = read[1].as_ref().unwrap_err();
        assert!(error.message.contains("damaged"), "{error:?}");
        assert!(!is_decoding());
    }
}
