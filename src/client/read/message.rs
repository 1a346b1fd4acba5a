//! The framing of Arrow's inter-process messages
//! (<https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format>).

use arrow::ipc::{Message, root_as_message};
use bytes::{Buf, Bytes};

use crate::error::{Error, Result};

/// Marks the beginning of a message in the present form of the framing.
const CONTINUATION: u32 = 0xFFFF_FFFF;

/// One message: its metadata, and the buffers that the metadata describes.
#[derive(Debug)]
pub(super) struct Encapsulated {
    metadata: Bytes,
    /// The buffers.
    pub(super) body: Bytes,
}

impl Encapsulated {
    /// The metadata, verified to lie within its bytes.
    pub(super) fn metadata(&self) -> Result<Message<'_>> {
        root_as_message(&self.metadata)
            .map_err(|error| Error::data(format!("an Arrow message is damaged: {error}")))
    }
}

/// Takes the next message off `bytes`; `None` at the end of the bytes or at
/// the mark that ends a stream.
pub(super) fn next(bytes: &mut Bytes) -> Result<Option<Encapsulated>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut length = read_u32(bytes)?;
    if length == CONTINUATION {
        length = read_u32(bytes)?;
    }
    if length == 0 {
        bytes.clear();
        return Ok(None);
    }
    let length = usize::try_from(length).map_err(|_| cut_short())?;
    if bytes.len() < length {
        return Err(cut_short());
    }
    let mut message = Encapsulated {
        metadata: bytes.split_to(length),
        body: Bytes::new(),
    };
    let body = usize::try_from(message.metadata()?.bodyLength())
        .map_err(|_| Error::data("an Arrow message has a negative length"))?;
    if bytes.len() < body {
        return Err(cut_short());
    }
    message.body = bytes.split_to(body);
    Ok(Some(message))
}

fn read_u32(bytes: &mut Bytes) -> Result<u32> {
    if bytes.len() < 4 {
        return Err(cut_short());
    }
    Ok(bytes.get_u32_le())
}

fn cut_short() -> Error {
    Error::data("an Arrow message ends before its end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_message() {
        assert!(next(&mut Bytes::new()).unwrap().is_none());
    }

    #[test]
    fn the_end_mark_ends_in_both_forms_of_the_framing() {
        for mark in [&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0][..], &[0, 0, 0, 0]] {
            let mut bytes = Bytes::copy_from_slice(mark);
            assert!(next(&mut bytes).unwrap().is_none());
            assert!(bytes.is_empty());
        }
    }

    #[test]
    fn damage_is_an_error() {
        for damaged in [
            &[1][..],
            &[0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xff, 8, 0, 0, 0, 1],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1],
            &[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        ] {
            next(&mut Bytes::copy_from_slice(damaged)).unwrap_err();
        }
    }
}
