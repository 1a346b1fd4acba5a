//! The protobuf wire format, read without copying.

/// Bytes that are no protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// How a field's value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    Varint,
    Fixed64,
    Length,
    Start,
    End,
    Fixed32,
}

/// Groups that lie in each other at most; none of them is ever kept.
const MAX_GROUPS: u32 = 100;

/// Reads a message from its beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Field number and form of the next value; `None` at the end.
    #[inline]
    pub(super) fn tag(&mut self) -> Result<Option<(u32, Wire)>, Malformed> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let tag = u32::try_from(self.varint()?).map_err(|_| Malformed)?;
        let wire = match tag & 7 {
            0 => Wire::Varint,
            1 => Wire::Fixed64,
            2 => Wire::Length,
            3 => Wire::Start,
            4 => Wire::End,
            5 => Wire::Fixed32,
            _ => return Err(Malformed),
        };
        match tag >> 3 {
            0 => Err(Malformed),
            number => Ok(Some((number, wire))),
        }
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        let (&first, rest) = self.bytes.split_first().ok_or(Malformed)?;
        if first < 0x80 {
            self.bytes = rest;
            return Ok(u64::from(first));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for (i, &byte) in self.bytes.iter().take(10).enumerate() {
            // The tenth byte has room for one bit.
            if i == 9 && byte > 1 {
                return Err(Malformed);
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.bytes = &self.bytes[i + 1..];
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    #[inline]
    pub(super) fn fixed64(&mut self) -> Result<[u8; 8], Malformed> {
        let (value, rest) = self.bytes.split_first_chunk().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(*value)
    }

    #[inline]
    pub(super) fn fixed32(&mut self) -> Result<[u8; 4], Malformed> {
        let (value, rest) = self.bytes.split_first_chunk().ok_or(Malformed)?;
        self.bytes = rest;
        Ok(*value)
    }

    /// What a length is written before.
    #[inline]
    pub(super) fn slice(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        if length > self.bytes.len() {
            return Err(Malformed);
        }
        let (value, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(value)
    }

    /// Passes over a value.
    pub(super) fn skip(&mut self, number: u32, wire: Wire) -> Result<(), Malformed> {
        self.skip_inside(number, wire, 0)
    }

    fn skip_inside(&mut self, number: u32, wire: Wire, depth: u32) -> Result<(), Malformed> {
        match wire {
            Wire::Varint => self.varint().map(drop),
            Wire::Fixed64 => self.fixed64().map(drop),
            Wire::Fixed32 => self.fixed32().map(drop),
            Wire::Length => self.slice().map(drop),
            Wire::End => Err(Malformed),
            Wire::Start if depth >= MAX_GROUPS => Err(Malformed),
            Wire::Start => loop {
                match self.tag()?.ok_or(Malformed)? {
                    (end, Wire::End) if end == number => return Ok(()),
                    (inner, wire) => self.skip_inside(inner, wire, depth + 1)?,
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_have_ten_bytes_at_most() {
        let read = |bytes: &[u8]| Reader::new(bytes).varint();
        assert_eq!(read(&[0]), Ok(0));
        assert_eq!(read(&[0xac, 0x02]), Ok(300));
        let mut largest = [0xff; 10];
        largest[9] = 1;
        assert_eq!(read(&largest), Ok(u64::MAX));
        largest[9] = 2;
        assert_eq!(read(&largest), Err(Malformed));
        assert_eq!(read(&[0xff; 11]), Err(Malformed));
        assert_eq!(read(&[0x80]), Err(Malformed));
    }

    #[test]
    fn groups_are_passed_over_to_their_own_end() {
        // Field 1 a group that holds field 2 = 5; then field 3 = 1.
        let bytes = [0x0b, 0x10, 0x05, 0x0c, 0x18, 0x01];
        let mut reader = Reader::new(&bytes);
        let (number, wire) = reader.tag().unwrap().unwrap();
        assert_eq!((number, wire), (1, Wire::Start));
        reader.skip(number, wire).unwrap();
        assert_eq!(reader.tag(), Ok(Some((3, Wire::Varint))));
        let mut open = Reader::new(&bytes[..3]);
        let (number, wire) = open.tag().unwrap().unwrap();
        assert_eq!(open.skip(number, wire), Err(Malformed));
        let deep = [0x0b; 1000];
        let mut reader = Reader::new(&deep[1..]);
        assert_eq!(reader.skip(1, Wire::Start), Err(Malformed));
    }
}
