//! A store that survives the program, however it ends.
//!
//! A directory holds
//!
//! - `rows/N.arrow`: the rows of segments as Arrow IPC streams. A file is written
//!   and synced before a change names it, and never changed afterwards;
//! - `journal-N`: changes since image N, one framed and checksummed record each.
//!   A change is acknowledged once its record is synced; changes that run at the
//!   same time share one sync. Rows of small segments are in the record itself;
//! - `image-N`: the whole state, jobs and routines included, without rows, written beside the journal when
//!   that has grown, and renamed into place. Rows that were in the journal have
//!   moved to a file of `rows` by then;
//! - `lock`: held while a server uses the directory.
//!
//! A start reads the newest image and its journal up to the last whole record, and
//! no rows. Files that neither names are left over from changes that were not
//! acknowledged, and are removed.
//!
//! Rows stay in their files and are read batch by batch when they are asked for.
//! Rows that a change removed stay for time travel; when the window has passed, a
//! `Forget` is journaled and only then the files go, once nobody reads them.

mod columns;
mod file;
mod journal;
mod record;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use self::file::DataFile;
use self::journal::AppendError;
use self::record::Files;
use super::mutation::Mutation;
use super::segment::{Content, Segment, encode};
use super::state::State;
use crate::error::{Reason, Result, ServiceError};
use crate::schema::{column_bytes, logical_bytes};

pub(crate) use self::file::sync_directory;
pub(super) use self::file::{FileReader, FileSlice};
pub(crate) use self::journal::{Journal, framed};
pub(super) use self::record::{Image, LifeImage, LogImage, StoredSegment, StreamImage, TableImage};

/// Segments up to this size are written into the journal.
const SMALL_BYTES: usize = 64 << 10;
/// Larger segments are cut, so that no reader needs much more memory than this.
pub(super) const SEGMENT_BYTES: usize = 16 << 20;
/// Batches inside a segment are cut at about this size.
const BATCH_BYTES: usize = 4 << 20;
/// An image is written once the journal is this long, and as long as the last image.
const JOURNAL_BYTES: u64 = 16 << 20;

const ROWS: &str = "rows";

/// Runs what waits for files without keeping other tasks of this thread waiting.
pub(crate) fn blocking<R>(wait: impl FnOnce() -> R) -> R {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(wait)
        }
        _ => wait(),
    }
}

fn file_name(number: u64) -> String {
    format!("{number:016x}.arrow")
}

fn journal_name(number: u64) -> String {
    format!("journal-{number:016x}")
}

fn image_name(number: u64) -> String {
    format!("image-{number:016x}")
}

/// The number in a name of the form `prefix` + 16 hexadecimal digits + `suffix`.
fn numbered(name: &OsStr, prefix: &str, suffix: &str) -> Option<u64> {
    let digits = name.to_str()?.strip_prefix(prefix)?.strip_suffix(suffix)?;
    let valid = digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    valid.then(|| u64::from_str_radix(digits, 16).ok())?
}

/// A directory in use.
#[derive(Debug)]
pub(super) struct Disk {
    directory: PathBuf,
    /// Locked until [`Disk::close`] or the end of the program.
    lock: File,
    next_file: AtomicU64,
    current: Mutex<Current>,
    synced: Mutex<Synced>,
    turn: Condvar,
}

#[derive(Debug)]
struct Current {
    number: u64,
    journal: Journal,
    handle: Arc<File>,
    /// Changes appended since the start.
    changes: u64,
    /// Bytes of the image that the journal follows.
    image_bytes: u64,
}

#[derive(Debug, Default)]
struct Synced {
    /// Changes that are durable.
    changes: u64,
    /// Whether somebody syncs now.
    busy: bool,
    /// Why nothing can be made durable any more.
    broken: Option<String>,
}

/// What was found in a directory.
pub(super) struct Opened {
    pub(super) disk: Disk,
    pub(super) state: State,
    /// Commit time of the newest change.
    pub(super) last_commit: i64,
}

impl Disk {
    /// Opens a directory, which is made if it is not there.
    pub(super) fn open(directory: &Path) -> io::Result<Opened> {
        let rows = directory.join(ROWS);
        fs::create_dir_all(&rows).map_err(named(&rows))?;
        let lock = lock(&directory.join("lock"))?;
        let mut images = Vec::new();
        let mut journals = Vec::new();
        for entry in fs::read_dir(directory).map_err(named(directory))? {
            let name = entry?.file_name();
            images.extend(numbered(&name, "image-", ""));
            journals.extend(numbered(&name, "journal-", ""));
            if numbered(&name, "image-", ".new").is_some() {
                fs::remove_file(directory.join(name))?;
            }
        }
        let number = images.iter().copied().max();
        // The next journal is made before the image that it follows.
        if number.is_none() && !journals.is_empty() && !journals.contains(&0) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "{}: the image that its journal belongs to is missing",
                    directory.display()
                ),
            ));
        }
        let mut files = Files::new(&rows);
        let (mut state, mut last_commit, image_bytes) = match number {
            Some(number) => read_image(&directory.join(image_name(number)), &mut files)?,
            None => (State::default(), 0, 0),
        };
        let number = number.unwrap_or(0);
        let path = directory.join(journal_name(number));
        let (journal, records) = Journal::open(&path).map_err(named(&path))?;
        for payload in &records {
            let (time, mutations) = files.decode(payload).map_err(invalid(&path))?;
            state.check(&mutations).map_err(invalid(&path))?;
            for mutation in mutations {
                for gone in state.apply(mutation, time) {
                    gone.release();
                }
            }
            last_commit = last_commit.max(time);
        }
        for n in images.into_iter().filter(|n| *n != number) {
            fs::remove_file(directory.join(image_name(n)))?;
        }
        for n in journals.into_iter().filter(|n| *n != number) {
            fs::remove_file(directory.join(journal_name(n)))?;
        }
        let next_file = settle_rows(&rows, &files)?;
        sync_directory(&rows)?;
        sync_directory(directory)?;
        let handle = Arc::new(journal.handle()?);
        let disk = Self {
            directory: directory.to_path_buf(),
            lock,
            next_file: AtomicU64::new(next_file),
            current: Mutex::new(Current {
                number,
                journal,
                handle,
                changes: 0,
                image_bytes,
            }),
            synced: Mutex::new(Synced::default()),
            turn: Condvar::new(),
        };
        Ok(Opened {
            disk,
            state,
            last_commit,
        })
    }

    /// Writes rows down, so that a change can name them: large segments into files
    /// of their own, small ones into what the change will carry.
    pub(super) fn stage(&self, segments: Vec<Segment>) -> Result<Vec<Segment>> {
        let mut out = Vec::with_capacity(segments.len());
        for segment in segments {
            let segment = segment.whole()?;
            match segment.content() {
                Content::Batches(batches) => {
                    for piece in cut(segment, &batches) {
                        self.stage_one(&piece)?;
                        out.push(piece);
                    }
                }
                Content::Encoded(_) | Content::File(_) => out.push(segment),
            }
        }
        Ok(out)
    }

    /// Like [`Self::stage`], for rows that must stay one segment.
    pub(super) fn stage_whole(&self, segment: Segment) -> Result<Segment> {
        self.stage_one(&segment)?;
        Ok(segment)
    }

    fn stage_one(&self, segment: &Segment) -> Result<()> {
        let Content::Batches(batches) = segment.content() else {
            return Ok(());
        };
        let bytes = encode(&batches)?;
        let length = bytes.len() as u64;
        let content = if bytes.len() <= SMALL_BYTES {
            Content::Encoded(bytes.into())
        } else {
            let file = self.write_rows(|out| out.write_all(&bytes))?;
            Content::File(FileSlice {
                file,
                offset: 0,
                length,
            })
        };
        segment.move_to(content);
        Ok(())
    }

    /// Writes one file of rows, durably.
    fn write_rows(&self, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<Arc<DataFile>> {
        self.check()?;
        let number = self.next_file.fetch_add(1, Ordering::SeqCst);
        let rows = self.directory.join(ROWS);
        let path = rows.join(file_name(number));
        // From here on a failure removes the file again.
        let file = Arc::new(DataFile::new(number, path.clone()));
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .and_then(|mut out| {
                write(&mut out)?;
                out.sync_all()
            })
            .and_then(|()| sync_directory(&rows))
            .map_err(unwritten)?;
        Ok(file)
    }

    /// Appends a change to the journal and answers its number. It is not durable
    /// before [`Self::sync`].
    pub(super) fn append(&self, time: i64, mutations: &[Mutation]) -> Result<u64> {
        self.check()?;
        let record = framed(&record::encode(time, mutations)?);
        let mut current = self.current.lock();
        match current.journal.append(&record) {
            Ok(()) => {
                current.changes += 1;
                Ok(current.changes)
            }
            Err(AppendError::Refused(e)) => Err(unwritten(e)),
            Err(AppendError::Broken(e)) => {
                self.synced.lock().broken = Some(e.to_string());
                Err(unwritten(e))
            }
        }
    }

    /// The number of the newest change.
    pub(super) fn newest(&self) -> u64 {
        self.current.lock().changes
    }

    /// Waits until a change, and with it all before it, is durable.
    pub(super) fn sync(&self, change: u64) -> Result<()> {
        let mut synced = self.synced.lock();
        loop {
            if synced.changes >= change {
                return Ok(());
            }
            if let Some(why) = &synced.broken {
                return Err(broken(why));
            }
            if synced.busy {
                self.turn.wait(&mut synced);
                continue;
            }
            synced.busy = true;
            drop(synced);
            let (handle, changes) = {
                let current = self.current.lock();
                (Arc::clone(&current.handle), current.changes)
            };
            let done = handle.sync_data();
            synced = self.synced.lock();
            synced.busy = false;
            match done {
                Ok(()) => synced.changes = synced.changes.max(changes),
                Err(e) => synced.broken = Some(e.to_string()),
            }
            self.turn.notify_all();
        }
    }

    /// Takes no more changes, and lets another server use the directory. Nobody may
    /// append meanwhile.
    pub(super) fn close(&self) {
        let changes = self.newest();
        if let Err(error) = self.sync(changes) {
            tracing::error!("the data directory is closed: {error}");
        }
        self.synced.lock().broken = Some("it was closed".into());
        if let Err(error) = self.lock.unlock() {
            tracing::error!("the data directory stays locked: {error}");
        }
    }

    fn check(&self) -> Result<()> {
        match &self.synced.lock().broken {
            Some(why) => Err(broken(why)),
            None => Ok(()),
        }
    }

    /// Whether the journal is long enough for an image.
    pub(super) fn wants_image(&self) -> bool {
        let current = self.current.lock();
        current.journal.length() >= JOURNAL_BYTES.max(current.image_bytes)
    }

    /// Writes an image of `state` and begins a new journal. Nobody may append
    /// meanwhile. After an error the old journal goes on.
    pub(super) fn write_image(&self, state: &State, last_commit: i64) -> Result<()> {
        self.check()?;
        let moved = self.pack(state)?;
        let image = state.image(
            last_commit,
            &|segment| match moved.get(&Arc::as_ptr(segment)) {
                Some((_, slice)) => Ok(StoredSegment::at(segment, slice)),
                None => StoredSegment::of(segment, &mut Vec::new()),
            },
        )?;
        let payload = serde_json::to_vec(&image)
            .map_err(|e| ServiceError::internal(format!("the state cannot be written: {e}")))?;
        let mut current = self.current.lock();
        let number = current.number + 1;
        let next = self.switch(number, &payload).map_err(unwritten)?;
        let (journal, handle) = next;
        let changes = current.changes;
        let new = Current {
            number,
            journal,
            handle,
            changes,
            image_bytes: payload.len() as u64,
        };
        let old = std::mem::replace(&mut *current, new);
        drop(current);
        for (segment, slice) in moved.into_values() {
            slice.adopt();
            segment.move_to(Content::File(slice));
        }
        {
            let mut synced = self.synced.lock();
            synced.changes = synced.changes.max(changes);
            self.turn.notify_all();
        }
        for name in [image_name(old.number), journal_name(old.number)] {
            if let Err(e) = fs::remove_file(self.directory.join(&name))
                && e.kind() != io::ErrorKind::NotFound
            {
                tracing::debug!("{name} stays until the next start: {e}");
            }
        }
        Ok(())
    }

    /// Makes an image and its empty journal durable.
    fn switch(&self, number: u64, payload: &[u8]) -> io::Result<(Journal, Arc<File>)> {
        let journal_path = self.directory.join(journal_name(number));
        let (journal, _) = Journal::open(&journal_path)?;
        let handle = Arc::new(journal.handle()?);
        handle.sync_all()?;
        let new = self.directory.join(format!("{}.new", image_name(number)));
        let mut file = File::create(&new)?;
        file.write_all(&framed(payload))?;
        file.sync_all()?;
        sync_directory(&self.directory)?;
        fs::rename(&new, self.directory.join(image_name(number)))?;
        // The old image and journal are still there: whichever the directory shows
        // after a crash, it is the same state.
        if let Err(e) = sync_directory(&self.directory) {
            self.synced.lock().broken = Some(e.to_string());
            return Err(e);
        }
        Ok((journal, handle))
    }

    /// Writes the rows that only the journal has into one file.
    fn pack(&self, state: &State) -> Result<HashMap<*const Segment, (Arc<Segment>, FileSlice)>> {
        let mut small: Vec<(Arc<Segment>, Bytes)> = Vec::new();
        for segment in state.segments() {
            if let Content::Encoded(bytes) = segment.content() {
                small.push((segment, bytes));
            }
        }
        if small.is_empty() {
            return Ok(HashMap::new());
        }
        let file = self.write_rows(|out| {
            let mut out = io::BufWriter::new(out);
            for (_, bytes) in &small {
                out.write_all(bytes)?;
            }
            out.flush()
        })?;
        let mut offset = 0;
        Ok(small
            .into_iter()
            .map(|(segment, bytes)| {
                let slice = FileSlice {
                    file: Arc::clone(&file),
                    offset,
                    length: bytes.len() as u64,
                };
                offset += bytes.len() as u64;
                (Arc::as_ptr(&segment), (segment, slice))
            })
            .collect())
    }
}

/// Cuts rows into segments of at most about [`SEGMENT_BYTES`] and those into
/// batches of at most about [`BATCH_BYTES`].
fn cut(segment: Segment, batches: &[RecordBatch]) -> Vec<Segment> {
    let per_row = (segment.bytes() / segment.rows().max(1)).max(1);
    let batch_rows = (BATCH_BYTES / per_row).max(1);
    let segment_rows = (SEGMENT_BYTES / per_row).max(1);
    if segment.rows() <= segment_rows && batches.iter().all(|b| b.num_rows() <= batch_rows) {
        return vec![segment];
    }
    let mut out = Vec::new();
    let mut piece: Vec<RecordBatch> = Vec::new();
    let mut rows = 0;
    let mut finish = |piece: &mut Vec<RecordBatch>, rows: &mut usize| {
        let batches = std::mem::take(piece);
        let rows = std::mem::take(rows);
        out.push(Segment::recorded(
            rows,
            rows * per_row,
            batches.iter().map(logical_bytes).sum(),
            column_bytes(&batches),
            segment.partition(),
            Content::Batches(batches),
        ));
    };
    for batch in batches {
        let mut at = 0;
        while at < batch.num_rows() {
            let length = batch_rows
                .min(batch.num_rows() - at)
                .min(segment_rows - rows);
            piece.push(batch.slice(at, length));
            at += length;
            rows += length;
            if rows >= segment_rows {
                finish(&mut piece, &mut rows);
            }
        }
    }
    if rows > 0 {
        finish(&mut piece, &mut rows);
    }
    out
}

fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(named(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!(
                "{} is locked: another server uses this directory",
                path.display()
            ),
        )),
        Err(fs::TryLockError::Error(e)) => Err(named(path)(e)),
    }
}

fn read_image(path: &Path, files: &mut Files<'_>) -> io::Result<(State, i64, u64)> {
    let bytes = Bytes::from(fs::read(path).map_err(named(path))?);
    let (records, end) = journal::records(&bytes);
    let [payload] = records.as_slice() else {
        return Err(damaged(path, "its checksum is wrong"));
    };
    if end != bytes.len() {
        return Err(damaged(path, "something follows its end"));
    }
    let image: Image =
        serde_json::from_slice(payload).map_err(|e| damaged(path, &e.to_string()))?;
    let last_commit = image.last_commit;
    let state = State::from_image(image, &mut |stored| files.segment(stored, &Bytes::new()))
        .map_err(invalid(path))?;
    Ok((state, last_commit, bytes.len() as u64))
}

/// Removes the files that the state does not name, and answers the first number
/// that no file has had.
fn settle_rows(rows: &Path, files: &Files<'_>) -> io::Result<u64> {
    let mut used = std::collections::HashSet::new();
    for file in files.all() {
        file.settle();
        if file.is_kept() {
            used.insert(file.number());
        }
    }
    let mut next = 0;
    for entry in fs::read_dir(rows).map_err(named(rows))? {
        let name = entry?.file_name();
        let Some(number) = numbered(&name, "", ".arrow") else {
            continue;
        };
        next = next.max(number + 1);
        if !used.contains(&number) {
            fs::remove_file(rows.join(name))?;
        }
    }
    Ok(next)
}

fn named(path: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    move |e| io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

fn damaged(path: &Path, why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{} is damaged: {why}", path.display()),
    )
}

fn invalid(path: &Path) -> impl Fn(ServiceError) -> io::Error + '_ {
    move |e| damaged(path, &e.message)
}

fn unwritten(error: io::Error) -> ServiceError {
    ServiceError::new(
        Reason::BackendError,
        format!("the change could not be written to the data directory: {error}"),
    )
}

fn broken(why: &str) -> ServiceError {
    ServiceError::new(
        Reason::BackendError,
        format!("the data directory takes no changes until the server is started again: {why}"),
    )
}
