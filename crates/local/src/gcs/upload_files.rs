//! Uploads that survive the program: in `objects/uploads` a journal for each, which
//! begins with what the upload is and goes on with the bytes that were acknowledged.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::disk::unwritten;
use super::error::Result;
use super::object::{Attributes, ObjectMeta};
use super::objects::New;
use crate::store::{Journal, blocking, framed, sync_directory};

/// A record of an upload's journal; bytes may follow it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Entry {
    /// A resumable upload into a bucket begins.
    Resumable(String, Box<New>),
    /// An upload in parts of an object in a bucket begins.
    Parts(String, String, Box<Attributes>),
    /// The next bytes of a resumable upload.
    Piece,
    /// The bytes of a part, with its entity tag.
    Part(u32, String),
    /// A resumable upload has become this object.
    Done(Box<ObjectMeta>),
}

/// What a journal says, in order.
pub(super) type Entries = Vec<(Entry, Bytes)>;

/// The directory of the journals.
#[derive(Debug)]
pub(super) struct UploadFiles(PathBuf);

impl UploadFiles {
    /// Opens a directory, which is made if it is not there, and answers the uploads in
    /// it with their ids.
    pub(super) fn open(directory: &Path) -> io::Result<(Self, Vec<(String, Entries)>)> {
        fs::create_dir_all(directory)?;
        let mut found = Vec::new();
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let id = path.file_name().and_then(|name| name.to_str());
            let Some(id) = id.map(str::to_string) else {
                continue;
            };
            let (_, records) = Journal::open(&path)?;
            let entries = records
                .iter()
                .map(read)
                .collect::<io::Result<Entries>>()
                .map_err(|e| {
                    let why = format!("{} is damaged: {e}", path.display());
                    io::Error::new(io::ErrorKind::InvalidData, why)
                })?;
            // One that was never acknowledged, or was being replaced.
            if entries.is_empty() || id.contains('.') {
                fs::remove_file(&path)?;
            } else {
                found.push((id, entries));
            }
        }
        Ok((Self(directory.to_path_buf()), found))
    }

    /// An upload begins. It is durable when this returns, as what is added to it.
    pub(super) fn begin(&self, id: &str, entry: &Entry) -> Result<()> {
        let record = written(entry, &[])?;
        blocking(|| {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(self.0.join(id))?;
            file.write_all(&record)?;
            file.sync_all()?;
            sync_directory(&self.0)
        })
        .map_err(unwritten)
    }

    /// Adds to an upload. After an error nothing may be added to it any more.
    pub(super) fn add(&self, id: &str, entry: &Entry, data: &[u8]) -> Result<()> {
        let record = written(entry, data)?;
        blocking(|| {
            let mut file = OpenOptions::new().append(true).open(self.0.join(id))?;
            file.write_all(&record)?;
            file.sync_data()
        })
        .map_err(unwritten)
    }

    /// An upload is complete: its bytes are those of an object, and only what became of
    /// it is still of use.
    pub(super) fn finish(&self, id: &str, begun: &Entry, done: &Entry) -> Result<()> {
        let mut records = written(begun, &[])?;
        records.extend(written(done, &[])?);
        let new = self.0.join(format!("{id}.new"));
        blocking(|| {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(&new)?;
            file.write_all(&records)?;
            file.sync_all()?;
            fs::rename(&new, self.0.join(id))?;
            sync_directory(&self.0)
        })
        .map_err(unwritten)
    }

    /// Forgets an upload.
    pub(super) fn remove(&self, id: &str) -> Result<()> {
        let removed = blocking(|| {
            fs::remove_file(self.0.join(id))?;
            sync_directory(&self.0)
        });
        match removed {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(unwritten(e)),
            _ => Ok(()),
        }
    }
}

/// A framed record: the length of the entry, the entry, the bytes.
fn written(entry: &Entry, data: &[u8]) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(entry).map_err(|e| unwritten(io::Error::other(e)))?;
    let length = u32::try_from(text.len()).map_err(|e| unwritten(io::Error::other(e)))?;
    let mut record = Vec::with_capacity(4 + text.len() + data.len());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&text);
    record.extend_from_slice(data);
    Ok(framed(&record))
}

fn read(record: &Bytes) -> io::Result<(Entry, Bytes)> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a record is too short");
    let (length, _) = record.split_first_chunk::<4>().ok_or_else(damaged)?;
    let end = usize::try_from(u32::from_le_bytes(*length))
        .ok()
        .and_then(|length| length.checked_add(4))
        .filter(|end| *end <= record.len())
        .ok_or_else(damaged)?;
    let entry = serde_json::from_slice(&record[4..end])?;
    Ok((entry, record.slice(end..)))
}
