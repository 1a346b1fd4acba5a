//! Uploads that take several requests: resumable ones of the JSON API, and those in
//! parts of the XML API. They are in memory until they are complete, and with a data
//! directory also there ([`UploadFiles`]): a server that is started again goes on with
//! what it has acknowledged.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use uuid::Uuid;

use super::error::{GcsError, Kind, Result};
use super::object::{Attributes, Digests, ObjectMeta, base64};
use super::objects::New;
use super::upload_files::{Entries, Entry, UploadFiles};
use crate::store::micros_now;

/// Bytes of one object at most.
pub(crate) const MAX_OBJECT_BYTES: u64 = 4 << 30;

/// Parts but the last have at least so many bytes.
const MIN_PART_BYTES: usize = 5 << 20;

/// Uploads at the same time at most; the ones that were not touched longest go.
const MAX_UPLOADS: usize = 10_000;

/// A piece of a resumable upload, as `Content-Range` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Position of the first byte; `None` for a question about the state.
    pub(crate) start: Option<u64>,
    /// Length of the whole, if it is known.
    pub(crate) total: Option<u64>,
}

/// What became of a piece.
#[derive(Debug)]
pub(crate) enum Progress {
    /// So many bytes are there.
    Incomplete(u64),
    /// All are, and the object is to be written.
    Complete(String, Box<New>, Bytes),
    /// The object was written before.
    Done(String, Box<ObjectMeta>),
}

#[derive(Debug)]
enum State {
    Receiving(BytesMut),
    /// Complete, not written yet, or refused when it was.
    Received(Bytes),
    Done(Box<ObjectMeta>),
}

#[derive(Debug)]
struct Resumable {
    bucket: String,
    new: New,
    state: State,
    touched: i64,
}

#[derive(Debug)]
struct Multipart {
    bucket: String,
    name: String,
    attributes: Attributes,
    parts: BTreeMap<u32, (Bytes, String)>,
    touched: i64,
}

/// All uploads.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    resumable: Mutex<HashMap<String, Resumable>>,
    multipart: Mutex<HashMap<String, Multipart>>,
    files: Option<UploadFiles>,
}

fn no_upload() -> GcsError {
    GcsError::new(Kind::NoSuchUpload, "The requested upload was not found.")
}

/// Makes room for one more; answers what had to go for it.
fn make_room<T>(uploads: &mut HashMap<String, T>, touched: impl Fn(&T) -> i64) -> Option<String> {
    if uploads.len() < MAX_UPLOADS {
        return None;
    }
    let oldest = uploads.iter().min_by_key(|(_, upload)| touched(upload));
    let oldest = oldest.map(|(id, _)| id.clone())?;
    uploads.remove(&oldest);
    Some(oldest)
}

impl Uploads {
    /// The uploads in a directory, which is made if it is not there. `object` says what
    /// is known of one in a bucket.
    pub(super) fn open(
        directory: &Path,
        object: impl Fn(&str, &str) -> Option<ObjectMeta>,
    ) -> io::Result<Self> {
        let (files, found) = UploadFiles::open(directory)?;
        let mut uploads = Self::default();
        for (id, entries) in found {
            // The server may have ended between an object and the end of its upload.
            let became = |bucket: &str, name: &str| {
                object(bucket, name).filter(|meta| meta.upload.as_ref() == Some(&id))
            };
            match Restored::of(entries) {
                Some(Restored::Resumable(mut upload)) => {
                    if let Some(meta) = became(&upload.bucket, &upload.new.name) {
                        upload.state = State::Done(Box::new(meta));
                    }
                    uploads.resumable.get_mut().insert(id, upload);
                }
                Some(Restored::Multipart(upload)) => {
                    if became(&upload.bucket, &upload.name).is_some() {
                        files.remove(&id).map_err(|e| io::Error::other(e.message))?;
                    } else {
                        uploads.multipart.get_mut().insert(id, upload);
                    }
                }
                None => {
                    let why = format!("{} does not begin an upload", directory.join(&id).display());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
            }
        }
        uploads.files = Some(files);
        Ok(uploads)
    }

    fn write_begin(&self, id: &str, entry: &Entry, gone: Option<String>) -> Result<()> {
        let Some(files) = &self.files else {
            return Ok(());
        };
        if let Some(gone) = gone {
            files.remove(&gone)?;
        }
        files.begin(id, entry)
    }

    fn write(&self, id: &str, entry: &Entry, data: &[u8]) -> Result<()> {
        match &self.files {
            Some(files) => files.add(id, entry, data),
            None => Ok(()),
        }
    }

    fn forget(&self, id: &str) -> Result<()> {
        match &self.files {
            Some(files) => files.remove(id),
            None => Ok(()),
        }
    }

    /// Begins a resumable upload; answers its id.
    pub(super) fn begin(&self, bucket: &str, new: New) -> Result<String> {
        let id = Uuid::new_v4().simple().to_string();
        let mut uploads = self.resumable.lock();
        let gone = make_room(&mut uploads, |upload| upload.touched);
        let entry = Entry::Resumable(bucket.to_string(), Box::new(new.clone()));
        self.write_begin(&id, &entry, gone)?;
        let upload = Resumable {
            bucket: bucket.to_string(),
            new,
            state: State::Receiving(BytesMut::new()),
            touched: micros_now(),
        };
        uploads.insert(id.clone(), upload);
        Ok(id)
    }

    /// Takes a piece, or answers the state when it has no start.
    pub(super) fn receive(&self, id: &str, piece: Piece, data: &[u8]) -> Result<Progress> {
        let mut uploads = self.resumable.lock();
        let upload = uploads.get_mut(id).ok_or_else(no_upload)?;
        upload.touched = micros_now();
        let buffer = match &mut upload.state {
            State::Receiving(buffer) => buffer,
            State::Received(data) => {
                let new = Box::new(upload.new.clone());
                return Ok(Progress::Complete(upload.bucket.clone(), new, data.clone()));
            }
            State::Done(meta) => return Ok(Progress::Done(upload.bucket.clone(), meta.clone())),
        };
        let received = buffer.len() as u64;
        if let Some(start) = piece.start {
            let end = start.saturating_add(data.len() as u64);
            if start > received {
                return Err(GcsError::invalid(format!(
                    "The piece begins at {start}, but only {received} bytes were received."
                )));
            }
            if end > MAX_OBJECT_BYTES || piece.total.is_some_and(|t| t > MAX_OBJECT_BYTES) {
                return Err(too_large());
            }
            if piece.total.is_some_and(|total| end > total) {
                return Err(GcsError::invalid("The piece ends behind the total size."));
            }
            // A piece may repeat bytes that arrived before its answer was lost.
            let known = usize::try_from(received - start).unwrap_or(usize::MAX);
            let more = data.get(known..).unwrap_or_default();
            if !more.is_empty() {
                if let Err(error) = self.write(id, &Entry::Piece, more) {
                    // What is in its file now is not known, so nothing may follow it.
                    uploads.remove(id);
                    return Err(error);
                }
                buffer.extend_from_slice(more);
            }
        }
        if piece.total != Some(buffer.len() as u64) {
            return Ok(Progress::Incomplete(buffer.len() as u64));
        }
        let data = std::mem::take(buffer).freeze();
        upload.state = State::Received(data.clone());
        let new = Box::new(upload.new.clone());
        Ok(Progress::Complete(upload.bucket.clone(), new, data))
    }

    /// Remembers the object that a complete upload became.
    pub(super) fn finish(&self, id: &str, meta: &ObjectMeta) {
        let mut uploads = self.resumable.lock();
        let Some(upload) = uploads.get_mut(id) else {
            return;
        };
        upload.state = State::Done(Box::new(meta.clone()));
        if let Some(files) = &self.files {
            let begun = Entry::Resumable(upload.bucket.clone(), Box::new(upload.new.clone()));
            let done = Entry::Done(Box::new(meta.clone()));
            if let Err(error) = files.finish(id, &begun, &done) {
                tracing::warn!("the end of an upload was not recorded: {}", error.message);
            }
        }
    }

    /// Ends a resumable upload.
    pub(super) fn abandon(&self, id: &str) -> Result<()> {
        let mut uploads = self.resumable.lock();
        uploads.remove(id).ok_or_else(no_upload)?;
        self.forget(id)
    }

    /// Begins an upload in parts; answers its id.
    pub(super) fn begin_parts(
        &self,
        bucket: &str,
        name: &str,
        attributes: Attributes,
    ) -> Result<String> {
        let id = Uuid::new_v4().simple().to_string();
        let mut uploads = self.multipart.lock();
        let gone = make_room(&mut uploads, |upload| upload.touched);
        let entry = Entry::Parts(
            bucket.to_string(),
            name.to_string(),
            Box::new(attributes.clone()),
        );
        self.write_begin(&id, &entry, gone)?;
        let upload = Multipart {
            bucket: bucket.to_string(),
            name: name.to_string(),
            attributes,
            parts: BTreeMap::new(),
            touched: micros_now(),
        };
        uploads.insert(id.clone(), upload);
        Ok(id)
    }

    /// Takes a part; answers its entity tag.
    pub(super) fn put_part(
        &self,
        bucket: &str,
        name: &str,
        id: &str,
        number: u32,
        data: Bytes,
    ) -> Result<String> {
        if !(1..=10_000).contains(&number) {
            return Err(GcsError::invalid(format!(
                "partNumber must be 1 to 10000, not {number}."
            )));
        }
        let etag = format!("\"{}\"", base64(&Digests::of(&data).md5));
        let mut uploads = self.multipart.lock();
        let upload = uploads
            .get_mut(id)
            .filter(|upload| upload.bucket == bucket && upload.name == name)
            .ok_or_else(no_upload)?;
        upload.touched = micros_now();
        if let Err(error) = self.write(id, &Entry::Part(number, etag.clone()), &data) {
            uploads.remove(id);
            return Err(error);
        }
        upload.parts.insert(number, (data, etag.clone()));
        Ok(etag)
    }

    /// Puts parts together, in the order and with the entity tags that are given.
    pub(super) fn complete(
        &self,
        bucket: &str,
        name: &str,
        id: &str,
        parts: &[(u32, String)],
    ) -> Result<(Attributes, Bytes)> {
        let uploads = self.multipart.lock();
        let upload = uploads
            .get(id)
            .filter(|upload| upload.bucket == bucket && upload.name == name)
            .ok_or_else(no_upload)?;
        let bad = |message: String| Err(GcsError::new(Kind::InvalidPart, message));
        if parts.is_empty() {
            return bad("An upload is completed with at least one part.".into());
        }
        let mut data = BytesMut::new();
        let mut last = 0;
        for (i, (number, etag)) in parts.iter().enumerate() {
            let Some((part, known)) = upload.parts.get(number) else {
                return bad(format!("Part {number} was not uploaded."));
            };
            if *number <= last {
                return bad(format!("Part {number} is not in ascending order."));
            }
            last = *number;
            if etag.trim_matches('"') != known.trim_matches('"') {
                return bad(format!(
                    "The entity tag of part {number} is not the one that its upload answered."
                ));
            }
            if i + 1 < parts.len() && part.len() < MIN_PART_BYTES {
                return bad(format!(
                    "Part {number} has {} bytes; parts but the last have at least {MIN_PART_BYTES}.",
                    part.len()
                ));
            }
            data.extend_from_slice(part);
        }
        if data.len() as u64 > MAX_OBJECT_BYTES {
            return Err(too_large());
        }
        Ok((upload.attributes.clone(), data.freeze()))
    }

    /// Ends an upload in parts.
    pub(super) fn end_parts(&self, bucket: &str, name: &str, id: &str) -> Result<()> {
        let mut uploads = self.multipart.lock();
        let known = uploads
            .get(id)
            .is_some_and(|upload| upload.bucket == bucket && upload.name == name);
        if !known {
            return Err(no_upload());
        }
        uploads.remove(id);
        self.forget(id)
    }
}

/// An upload as its journal says.
enum Restored {
    Resumable(Resumable),
    Multipart(Multipart),
}

impl Restored {
    /// None when the journal does not begin one.
    fn of(entries: Entries) -> Option<Self> {
        let touched = micros_now();
        let mut entries = entries.into_iter();
        match entries.next()?.0 {
            Entry::Resumable(bucket, new) => {
                let mut state = State::Receiving(BytesMut::new());
                for entry in entries {
                    match (entry, &mut state) {
                        ((Entry::Piece, data), State::Receiving(buffer)) => {
                            buffer.extend_from_slice(&data);
                        }
                        ((Entry::Done(meta), _), state) => *state = State::Done(meta),
                        _ => return None,
                    }
                }
                Some(Restored::Resumable(Resumable {
                    bucket,
                    new: *new,
                    state,
                    touched,
                }))
            }
            Entry::Parts(bucket, name, attributes) => {
                let mut parts = BTreeMap::new();
                for entry in entries {
                    let (Entry::Part(number, etag), data) = entry else {
                        return None;
                    };
                    parts.insert(number, (data, etag));
                }
                Some(Restored::Multipart(Multipart {
                    bucket,
                    name,
                    attributes: *attributes,
                    parts,
                    touched,
                }))
            }
            _ => None,
        }
    }
}

/// The error of an object that is too large.
pub(super) fn too_large() -> GcsError {
    GcsError::new(
        Kind::TooLarge,
        format!("Objects above {MAX_OBJECT_BYTES} bytes are not supported by bigquery-local"),
    )
}
