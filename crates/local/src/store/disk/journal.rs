//! Framed records in a file: length, checksum, payload.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use bytes::Bytes;

/// `BQL1` and the payload's length and CRC-32, all little endian.
const HEADER: usize = 16;
const MAGIC: [u8; 4] = *b"BQL1";

/// The record of `payload`.
pub(crate) fn framed(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + payload.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    out.extend_from_slice(&checksum(payload).to_le_bytes());
    out.extend_from_slice(payload);
    out
}

fn checksum(payload: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(payload);
    crc.sum()
}

/// The whole records at the beginning of `bytes`, and where they end.
pub(super) fn records(bytes: &Bytes) -> (Vec<Bytes>, usize) {
    let mut records = Vec::new();
    let mut at = 0;
    while let Some(payload) = record(bytes, at) {
        at += HEADER + payload.len();
        records.push(payload);
    }
    (records, at)
}

fn record(bytes: &Bytes, at: usize) -> Option<Bytes> {
    let header = bytes.get(at..at.checked_add(HEADER)?)?;
    let (magic, rest) = header.split_at(4);
    let (length, crc) = rest.split_at(8);
    let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
    let start = at + HEADER;
    let end = start.checked_add(length)?;
    if magic != MAGIC || end > bytes.len() {
        return None;
    }
    let payload = bytes.slice(start..end);
    (checksum(&payload) == u32::from_le_bytes(crc.try_into().ok()?)).then_some(payload)
}

/// A journal that records are appended to.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    length: u64,
}

impl Journal {
    /// Opens the journal at `path`, making an empty one if there is none, and
    /// answers its records. What follows the last whole record is cut off: it
    /// was never acknowledged.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Vec<Bytes>)> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let bytes = Bytes::from(bytes);
        let (records, length) = records(&bytes);
        if length < bytes.len() {
            tracing::warn!(
                "the journal ended in {} bytes of a change that was not finished; they are cut off",
                bytes.len() - length
            );
            file.set_len(length as u64)?;
            file.sync_all()?;
        }
        file.seek(SeekFrom::Start(length as u64))?;
        let length = length as u64;
        Ok((Self { file, length }, records))
    }

    /// Appends a record. After an error the journal is as it was before, or
    /// answers an error in turn: then it must not be appended to any more.
    pub(crate) fn append(&mut self, record: &[u8]) -> Result<(), AppendError> {
        match self.file.write_all(record) {
            Ok(()) => {
                self.length += record.len() as u64;
                Ok(())
            }
            Err(e) => {
                let undone = self
                    .file
                    .set_len(self.length)
                    .and_then(|()| self.file.seek(SeekFrom::Start(self.length)));
                match undone {
                    Ok(_) => Err(AppendError::Refused(e)),
                    Err(_) => Err(AppendError::Broken(e)),
                }
            }
        }
    }

    /// Length in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// A handle that syncs while others append.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

/// Why nothing was appended.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// The journal is as before.
    Refused(io::Error),
    /// The journal's end is unknown.
    Broken(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_cut_off_the_whole_records_stay() {
        let mut all = Vec::new();
        let mut ends = vec![0];
        for payload in [&b"one"[..], b"", b"three"] {
            all.extend(framed(payload));
            ends.push(all.len());
        }
        for cut in 0..=all.len() {
            let (records, end) = records(&Bytes::copy_from_slice(&all[..cut]));
            let whole = ends.iter().filter(|e| **e <= cut).count() - 1;
            assert_eq!((records.len(), end), (whole, ends[whole]), "{cut}");
        }
    }

    #[test]
    fn whatever_byte_is_wrong_its_record_and_the_rest_are_left_out() {
        let mut all = framed(b"one");
        let second = all.len();
        all.extend(framed(b"two"));
        for i in 0..all.len() {
            let mut bad = all.clone();
            bad[i] ^= 0x55;
            let (records, _) = records(&Bytes::from(bad));
            assert_eq!(records.len(), usize::from(i >= second), "{i}");
        }
    }

    #[test]
    fn a_journal_is_appended_to_after_its_whole_records() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let (mut journal, records) = Journal::open(&path).unwrap();
        assert!(records.is_empty());
        journal.append(&framed(b"one")).unwrap();
        let torn = framed(b"two");
        journal.append(&torn[..torn.len() - 1]).unwrap();
        drop(journal);
        let (mut journal, records) = Journal::open(&path).unwrap();
        assert_eq!(records, [&b"one"[..]]);
        journal.append(&framed(b"three")).unwrap();
        drop(journal);
        let (_, records) = Journal::open(&path).unwrap();
        assert_eq!(records, [&b"one"[..], b"three"]);
    }
}
