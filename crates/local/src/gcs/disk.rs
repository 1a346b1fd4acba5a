//! Objects that survive the program: `objects/journal` with one framed and
//! checksummed record for each change, `objects/content/N` with the bytes of one
//! generation each. A file of bytes is written and synced before a change names it,
//! and a change is acknowledged once its record is. Names of objects never become
//! names of files.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::content::{Content, ContentFile};
use super::error::{GcsError, Kind, Result};
use super::object::{BucketMeta, Object, ObjectMeta};
use super::objects::{Bucket, Buckets};
use crate::store::{Journal, blocking, framed, sync_directory};

/// A journal this much longer than the state that it began with is written anew.
const JOURNAL_BYTES: u64 = 16 << 20;

/// One change.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Change {
    PutBucket(BucketMeta),
    DropBucket(String),
    /// In a bucket, with the number of the file that holds its bytes.
    PutObject(String, Box<ObjectMeta>, u64),
    DropObject(String, String),
    /// The newest generation so far.
    Generation(i64),
}

/// A directory in use.
#[derive(Debug)]
pub(super) struct Disk {
    directory: PathBuf,
    next: AtomicU64,
    journal: Mutex<Writing>,
}

#[derive(Debug)]
struct Writing {
    journal: Journal,
    handle: File,
    /// Length of the journal when it was written anew.
    began: u64,
    broken: bool,
}

impl Disk {
    /// Opens a directory, and answers what is in it.
    pub(super) fn open(directory: &Path) -> io::Result<(Self, Buckets, i64)> {
        let content = directory.join("content");
        fs::create_dir_all(&content)?;
        let path = directory.join("journal");
        let (_, records) = Journal::open(&path)?;
        let mut buckets = Buckets::new();
        let mut generation = 0;
        for record in &records {
            let change = serde_json::from_slice(record).map_err(|e| {
                let why = format!("{} is damaged: {e}", path.display());
                io::Error::new(io::ErrorKind::InvalidData, why)
            })?;
            replay(&mut buckets, &mut generation, change, &content);
        }
        let mut next = 0;
        let used: std::collections::HashSet<u64> = buckets
            .values()
            .flat_map(|bucket| bucket.objects.values())
            .filter_map(|object| object.content.file().map(|file| file.number))
            .collect();
        for entry in fs::read_dir(&content)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|n| u64::from_str_radix(n, 16).ok());
            if let Some(number) = number {
                next = next.max(number + 1);
                if !used.contains(&number) {
                    fs::remove_file(content.join(&name))?;
                }
            }
        }
        let writing = write_anew(directory, &buckets, generation)?;
        let disk = Self {
            directory: directory.to_path_buf(),
            next: AtomicU64::new(next),
            journal: Mutex::new(writing),
        };
        Ok((disk, buckets, generation))
    }

    /// Writes bytes down, so that a change can name them.
    pub(super) fn stage(&self, data: &Bytes) -> Result<Content> {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let content = self.directory.join("content");
        let path = content.join(file_name(number));
        let file = Arc::new(ContentFile::new(number, path.clone()));
        blocking(|| {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&path)
                .and_then(|mut out| {
                    out.write_all(data)?;
                    out.sync_all()
                })
                .and_then(|()| sync_directory(&content))
        })
        .map_err(unwritten)?;
        Ok(Content::File(file, data.len() as u64))
    }

    /// Writes a change down. It is durable when this returns.
    pub(super) fn append(&self, change: &Change) -> Result<()> {
        let record = serde_json::to_vec(change)
            .map_err(|e| GcsError::new(Kind::Internal, format!("a change has a JSON form: {e}")))?;
        let mut writing = self.journal.lock();
        if writing.broken {
            return Err(GcsError::new(
                Kind::Internal,
                "the data directory takes no changes until the server is started again",
            ));
        }
        let done = blocking(|| {
            writing
                .journal
                .append(&framed(&record))
                .map_err(|e| io::Error::other(format!("{e:?}")))?;
            writing.handle.sync_data()
        });
        // Whether the record is there is unknown then, so nothing may follow it.
        writing.broken = done.is_err();
        done.map_err(unwritten)
    }

    /// Writes the journal anew once it is long.
    pub(super) fn shorten(&self, buckets: &Buckets, generation: i64) {
        let mut writing = self.journal.lock();
        if writing.broken || writing.journal.length() < writing.began + JOURNAL_BYTES {
            return;
        }
        match blocking(|| write_anew(&self.directory, buckets, generation)) {
            Ok(new) => *writing = new,
            Err(e) => tracing::warn!("the journal of objects goes on as it is: {e}"),
        }
    }
}

fn file_name(number: u64) -> String {
    format!("{number:016x}")
}

fn replay(buckets: &mut Buckets, generation: &mut i64, change: Change, content: &Path) {
    match change {
        Change::PutBucket(meta) => match buckets.get_mut(&meta.name) {
            Some(bucket) => bucket.meta = meta,
            None => {
                let name = meta.name.clone();
                let objects = BTreeMap::new();
                buckets.insert(name, Bucket { meta, objects });
            }
        },
        Change::DropBucket(name) => {
            buckets.remove(&name);
        }
        Change::PutObject(bucket, meta, number) => {
            *generation = (*generation).max(meta.generation);
            if let Some(bucket) = buckets.get_mut(&bucket) {
                let file = ContentFile::new(number, content.join(file_name(number)));
                // The files that no object has are removed once all are known.
                file.keep();
                let content = Content::File(Arc::new(file), meta.size);
                let meta = *meta;
                let object = Arc::new(Object { meta, content });
                bucket.objects.insert(object.meta.name.clone(), object);
            }
        }
        Change::DropObject(bucket, name) => {
            if let Some(bucket) = buckets.get_mut(&bucket) {
                bucket.objects.remove(&name);
            }
        }
        Change::Generation(newest) => *generation = (*generation).max(newest),
    }
}

/// Writes a journal that makes this state, in the place of the one that is there.
fn write_anew(directory: &Path, buckets: &Buckets, generation: i64) -> io::Result<Writing> {
    let new = directory.join("journal.new");
    if new.exists() {
        fs::remove_file(&new)?;
    }
    let (mut journal, _) = Journal::open(&new)?;
    let mut write = |change: &Change| -> io::Result<()> {
        let record = serde_json::to_vec(change)?;
        journal
            .append(&framed(&record))
            .map_err(|e| io::Error::other(format!("{e:?}")))
    };
    write(&Change::Generation(generation))?;
    for (name, bucket) in buckets {
        write(&Change::PutBucket(bucket.meta.clone()))?;
        for object in bucket.objects.values() {
            if let Some(file) = object.content.file() {
                let meta = Box::new(object.meta.clone());
                write(&Change::PutObject(name.clone(), meta, file.number))?;
            }
        }
    }
    let handle = journal.handle()?;
    handle.sync_all()?;
    fs::rename(&new, directory.join("journal"))?;
    sync_directory(directory)?;
    Ok(Writing {
        began: journal.length(),
        journal,
        handle,
        broken: false,
    })
}

pub(super) fn unwritten(error: io::Error) -> GcsError {
    GcsError::new(
        Kind::Internal,
        format!("the change could not be written to the data directory: {error}"),
    )
}
