//! Buffers of encoded rows, used again.
//!
//! The rows of a batch take about a megabyte. Allocators give so much back to the
//! system and ask for it anew, and the system clears its pages each time, which takes
//! about as long as encoding does.

use bytes::Bytes;
use parking_lot::Mutex;

/// Buffers that nobody uses; the last was used last.
static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Allocators keep smaller ones themselves.
const SMALLEST: usize = 64 << 10;

/// What is kept at most of one buffer, and of all of them.
const LARGEST: usize = 4 << 20;
const MOST: usize = 24 << 20;

/// A buffer of so many bytes, which may be any.
pub(super) fn buffer(length: usize) -> Vec<u8> {
    if length < SMALLEST {
        return vec![0; length];
    }
    let found = {
        let mut spare = SPARE.lock();
        // A much larger one is left to those who need it.
        let fits = |buffer: &Vec<u8>| (length..=length * 3 / 2).contains(&buffer.capacity());
        spare.iter().rposition(fits).map(|at| spare.remove(at))
    };
    // Batches are about alike: a little more room serves the next one too.
    let mut buffer = found.unwrap_or_else(|| Vec::with_capacity(length + length / 8));
    buffer.resize(length, 0);
    buffer
}

/// The bytes of a buffer that is spare again when nobody has any of them.
pub(super) fn bytes(buffer: Vec<u8>) -> Bytes {
    if buffer.capacity() < SMALLEST {
        return buffer.into();
    }
    Bytes::from_owner(Used(buffer))
}

struct Used(Vec<u8>);

impl AsRef<[u8]> for Used {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.0);
        if buffer.capacity() > LARGEST {
            return;
        }
        let mut spare = SPARE.lock();
        let kept: usize = spare.iter().map(Vec::capacity).sum();
        if kept + buffer.capacity() <= MOST {
            spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_have_the_length_that_is_asked_for_and_keep_what_is_written() {
        for length in [0, 1, SMALLEST - 1, SMALLEST, 1 << 20, LARGEST + 1] {
            for byte in 1..4 {
                let mut buffer = buffer(length);
                assert_eq!(buffer.len(), length);
                buffer.fill(byte);
                let bytes = bytes(buffer);
                let part = bytes.slice(length / 2..);
                drop(bytes);
                assert_eq!(part, vec![byte; length - length / 2]);
            }
        }
        let spare = SPARE.lock();
        let kept = spare.iter().map(Vec::capacity);
        assert!(kept.clone().all(|one| (SMALLEST..=LARGEST).contains(&one)));
        assert!(kept.sum::<usize>() <= MOST);
    }
}
