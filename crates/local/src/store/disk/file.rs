//! Files that hold rows.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;

use super::columns::ColumnReader;
use crate::error::{Result, ServiceError};

/// A file with the rows of one or more segments. It is deleted once no segment of
/// the state is in it and nobody reads it any more.
#[derive(Debug)]
pub(in crate::store) struct DataFile {
    number: u64,
    path: PathBuf,
    /// Segments of the state that are in this file.
    segments: AtomicUsize,
    /// Whether a durable change names the file: then it stays when the program ends.
    kept: AtomicBool,
}

impl DataFile {
    pub(super) fn new(number: u64, path: PathBuf) -> Self {
        Self {
            number,
            path,
            segments: AtomicUsize::new(0),
            kept: AtomicBool::new(false),
        }
    }

    /// Its number, which is its name too.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The file stays whatever happens, until [`Self::settle`].
    pub(super) fn keep(&self) {
        self.kept.store(true, Ordering::SeqCst);
    }

    /// The file stays only if a segment of the state is in it.
    pub(super) fn settle(&self) {
        let used = self.segments.load(Ordering::SeqCst) > 0;
        self.kept.store(used, Ordering::SeqCst);
    }

    /// Whether the file stays.
    pub(super) fn is_kept(&self) -> bool {
        self.kept.load(Ordering::SeqCst)
    }

    /// One more segment of the state is in this file.
    pub(super) fn adopt(&self) {
        self.segments.fetch_add(1, Ordering::SeqCst);
        self.kept.store(true, Ordering::SeqCst);
    }

    /// One less is, and the change that removed it is durable.
    pub(super) fn release(&self) {
        if self.segments.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.kept.store(false, Ordering::SeqCst);
        }
    }
}

impl Drop for DataFile {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::SeqCst)
            && let Err(e) = fs::remove_file(&self.path)
        {
            // It is found and removed at the next start.
            tracing::debug!("{} stays: {e}", self.path.display());
        }
    }
}

/// An Arrow IPC stream inside a file.
#[derive(Debug, Clone)]
pub(in crate::store) struct FileSlice {
    pub(super) file: Arc<DataFile>,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl FileSlice {
    pub(in crate::store) fn adopt(&self) {
        self.file.adopt();
    }

    pub(in crate::store) fn release(&self) {
        self.file.release();
    }

    /// Opens the stream for the columns that `wanted` picks by their names.
    pub(in crate::store) fn columns(&self, wanted: &dyn Fn(&str) -> bool) -> Result<FileReader> {
        let unreadable = |e: String| unreadable(&self.file.path, &e);
        let file = File::open(&self.file.path).map_err(|e| unreadable(e.to_string()))?;
        let end = self.offset + self.length;
        let stream = ColumnReader::open(file, self.offset, end, wanted)
            .map_err(|e| unreadable(e.to_string()))?;
        Ok(FileReader {
            file: Arc::clone(&self.file),
            stream: Stream::Columns(stream),
        })
    }

    /// Opens the stream.
    pub(in crate::store) fn reader(&self) -> Result<FileReader> {
        let unreadable = |e: String| unreadable(&self.file.path, &e);
        let mut file = File::open(&self.file.path).map_err(|e| unreadable(e.to_string()))?;
        file.seek(SeekFrom::Start(self.offset))
            .map_err(|e| unreadable(e.to_string()))?;
        let stream = StreamReader::try_new(BufReader::new(file).take(self.length), None)
            .map_err(|e| unreadable(e.to_string()))?;
        Ok(FileReader {
            file: Arc::clone(&self.file),
            stream: Stream::Whole(stream),
        })
    }
}

/// Reads a stream batch by batch; the file stays as long.
pub(in crate::store) struct FileReader {
    file: Arc<DataFile>,
    stream: Stream,
}

enum Stream {
    Whole(StreamReader<Take<BufReader<File>>>),
    Columns(ColumnReader),
}

impl FileReader {
    pub(in crate::store) fn next(&mut self) -> Option<Result<RecordBatch>> {
        let batch = match &mut self.stream {
            Stream::Whole(stream) => stream.next()?,
            Stream::Columns(stream) => stream.next()?,
        };
        Some(batch.map_err(|e| unreadable(&self.file.path, &e.to_string())))
    }
}

impl FileReader {
    /// Bytes of rows that were read, of a reader of some columns.
    pub(in crate::store) fn bytes_read(&self) -> Option<u64> {
        match &self.stream {
            Stream::Whole(_) => None,
            Stream::Columns(stream) => Some(stream.bytes_read()),
        }
    }
}

fn unreadable(path: &Path, why: &str) -> ServiceError {
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    ServiceError::internal(format!("the data file {name} cannot be read: {why}"))
}

/// Makes names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
