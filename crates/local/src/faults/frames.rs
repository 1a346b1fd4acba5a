//! gRPC messages in a sequence of bytes: a flag, a length, the message.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

const HEADER: usize = 5;

/// Puts messages together from pieces.
#[derive(Debug, Default)]
pub(super) struct Assembler(BytesMut);

impl Assembler {
    /// More bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next complete message with its header.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        let header = self.0.get(..HEADER)?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
        let whole = HEADER + usize::try_from(length).ok()?;
        (self.0.len() >= whole).then(|| self.0.split_to(whole).freeze())
    }

    /// Bytes of a message that is not complete.
    pub(super) fn rest(&mut self) -> Bytes {
        self.0.split().freeze()
    }
}

/// A framed message without its header.
pub(super) fn payload(framed: &Bytes) -> Bytes {
    framed.slice(HEADER.min(framed.len())..)
}

/// A message with its header.
pub(super) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(HEADER + length);
    out.put_u8(0);
    out.put_u32(u32::try_from(length).expect("gRPC messages are below 4 GiB"));
    out.extend_from_slice(&message.encode_to_vec());
    out.freeze()
}
