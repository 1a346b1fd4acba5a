//! The bytes of objects, in memory or in files.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::error::{GcsError, Kind, Result};
use crate::store::blocking;

/// Bytes that never change.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    Memory(Bytes),
    File(Arc<ContentFile>, u64),
}

/// A file with the bytes of one generation. It is deleted when no object has it any
/// more and nobody reads it.
#[derive(Debug)]
pub(crate) struct ContentFile {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    kept: AtomicBool,
}

impl ContentFile {
    pub(super) fn new(number: u64, path: PathBuf) -> Self {
        Self {
            number,
            path,
            kept: AtomicBool::new(false),
        }
    }

    /// An object has the file, durably.
    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::SeqCst);
    }

    /// No object has it any more, durably.
    pub(super) fn release(&self) {
        self.kept.store(false, Ordering::SeqCst);
    }
}

impl Drop for ContentFile {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::SeqCst)
            && let Err(e) = fs::remove_file(&self.path)
        {
            // It is found and removed at the next start.
            tracing::debug!("{} stays: {e}", self.path.display());
        }
    }
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, length) => *length,
        }
    }

    /// All bytes.
    pub(crate) fn read(&self) -> Result<Bytes> {
        self.read_range(0, self.len())
    }

    /// The bytes from `start` to `end`, which lie inside.
    pub(crate) fn read_range(&self, start: u64, end: u64) -> Result<Bytes> {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        match self {
            Self::Memory(bytes) => Ok(bytes.slice(place(start)..place(end))),
            Self::File(file, _) => blocking(|| {
                let mut data = vec![0; place(end - start)];
                File::open(&file.path)
                    .and_then(|mut open| {
                        open.seek(SeekFrom::Start(start))?;
                        open.read_exact(&mut data)
                    })
                    .map_err(|e| {
                        GcsError::new(Kind::Internal, format!("the object cannot be read: {e}"))
                    })?;
                Ok(data.into())
            }),
        }
    }

    pub(super) fn file(&self) -> Option<&Arc<ContentFile>> {
        match self {
            Self::Memory(_) => None,
            Self::File(file, _) => Some(file),
        }
    }
}
