//! Open read sessions, their streams and their expiry.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::DateTime;
use parking_lot::{Mutex, RwLock};
use tonic::Status;

use super::blocks::{self, Block};
use super::clock::Clock;
use super::format::Format;
use super::log::{SessionLog, SessionRecord};
use super::projection::Projection;
use crate::engine::restriction::{Bound, Restriction};
use crate::store::TableRef;

/// How long a session can be read: six hours, exactly, in microseconds.
pub(super) const LIFETIME_MICROS: i64 = 6 * 3600 * 1_000_000;

/// How long an expired session is still told apart from one that never was.
const REMEMBERED_MICROS: i64 = 24 * 3600 * 1_000_000;

/// A stream: its blocks, in order.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    /// What it reads.
    pub(super) blocks: Arc<[Block]>,
}

/// One read session. It holds the segments it reads, so later changes of the
/// table do not touch it.
#[derive(Debug)]
pub(super) struct Session {
    /// `projects/{p}/locations/{l}/sessions/{id}`.
    pub(super) name: String,
    /// What is read.
    pub(super) table: TableRef,
    /// Microseconds since the epoch.
    pub(super) expires: i64,
    /// Arrow form of the snapshot's schema.
    pub(super) table_arrow: arrow::datatypes::SchemaRef,
    /// What is answered.
    pub(super) projection: Projection,
    /// Which rows are answered.
    pub(super) restriction: Option<Restriction>,
    /// What the restriction says of single columns.
    pub(super) bounds: Vec<Bound>,
    /// How rows are written.
    pub(super) format: Format,
    /// By id.
    streams: RwLock<HashMap<String, Stream>>,
}

impl Session {
    /// A session without streams.
    pub(super) fn new(
        name: String,
        table: TableRef,
        expires: i64,
        table_arrow: arrow::datatypes::SchemaRef,
        projection: Projection,
        restriction: Option<Restriction>,
        format: Format,
    ) -> Self {
        Self {
            name,
            table,
            expires,
            table_arrow,
            projection,
            bounds: restriction
                .as_ref()
                .map(Restriction::bounds)
                .unwrap_or_default(),
            restriction,
            format,
            streams: RwLock::default(),
        }
    }

    /// Adds a stream and answers its name.
    pub(super) fn add_stream(&self, blocks: Vec<Block>) -> String {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("{}/streams/{id}", self.name);
        let stream = Stream {
            blocks: blocks.into(),
        };
        self.streams.write().insert(id, stream);
        name
    }
}

#[derive(Debug)]
enum Entry {
    Open(Arc<Session>),
    /// When it expired; its data is let go.
    Expired(i64),
}

/// All read sessions of a server.
#[derive(Debug, Default)]
pub struct ReadSessions {
    clock: Clock,
    sessions: Mutex<HashMap<String, Entry>>,
    log: SessionLog,
    open_calls: Arc<AtomicUsize>,
}

/// One ReadRows call that runs.
#[derive(Debug)]
pub(super) struct OpenCall(Arc<AtomicUsize>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ReadSessions {
    /// The clock that expiry goes by; a test can move it forward.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The newest successful CreateReadSession calls, oldest first.
    pub fn log(&self) -> Vec<SessionRecord> {
        self.log.records()
    }

    /// Number of ReadRows calls that run at the moment: neither at their end nor
    /// given up by their client.
    pub fn open_calls(&self) -> usize {
        self.open_calls.load(Ordering::Relaxed)
    }

    /// The table that an open session's stream reads.
    pub(crate) fn table_of(&self, stream: &str) -> Option<TableRef> {
        let (session, _) = parse_stream_name(stream)?;
        match self.sessions.lock().get(session)? {
            Entry::Open(session) => Some(session.table.clone()),
            Entry::Expired(_) => None,
        }
    }

    /// The status of a stream whose session expires at this moment.
    pub(crate) fn expired_now(&self, stream: &str) -> Status {
        expired(stream, self.clock.now())
    }

    pub(super) fn open_call(&self) -> OpenCall {
        self.open_calls.fetch_add(1, Ordering::Relaxed);
        OpenCall(Arc::clone(&self.open_calls))
    }

    /// Lets go of the data of expired sessions, and after a day of their names.
    pub fn forget_expired(&self) {
        let now = self.clock.now();
        self.sessions.lock().retain(|_, entry| {
            match entry {
                Entry::Open(s) if s.expires <= now => *entry = Entry::Expired(s.expires),
                Entry::Open(_) | Entry::Expired(_) => {}
            }
            !matches!(entry, Entry::Expired(at) if *at + REMEMBERED_MICROS < now)
        });
    }

    pub(super) fn insert(&self, session: Arc<Session>, record: SessionRecord) {
        self.sessions
            .lock()
            .insert(session.name.clone(), Entry::Open(session));
        self.log.push(record);
    }

    /// The session and the stream called `name`.
    pub(super) fn stream(&self, name: &str) -> Result<(Arc<Session>, Stream), Status> {
        let (session_name, id) = parse_stream_name(name).ok_or_else(|| {
            Status::invalid_argument("Invalid resource field value in the request.")
        })?;
        let session = {
            let mut sessions = self.sessions.lock();
            let entry = sessions
                .get_mut(session_name)
                .ok_or_else(|| unknown_stream(name))?;
            let now = self.clock.now();
            if let Entry::Open(session) = entry
                && session.expires <= now
            {
                *entry = Entry::Expired(session.expires);
            }
            match entry {
                Entry::Open(session) => Arc::clone(session),
                Entry::Expired(at) => return Err(expired(name, *at)),
            }
        };
        let stream = session.streams.read().get(id).cloned();
        match stream {
            Some(stream) => Ok((session, stream)),
            None => Err(unknown_stream(name)),
        }
    }
}

impl Stream {
    /// Number of rows before the restriction.
    pub(super) fn rows(&self) -> usize {
        blocks::rows(&self.blocks)
    }
}

fn unknown_stream(name: &str) -> Status {
    Status::not_found(format!(
        "there was an error operating on '{name}': the stream does not exist"
    ))
}

fn expired(name: &str, at: i64) -> Status {
    let at = DateTime::from_timestamp_micros(at)
        .map(|t| t.format("%Y-%m-%dT%H:%M:%S+00:00").to_string())
        .unwrap_or_default();
    Status::failed_precondition(format!(
        "there was an error operating on '{name}': session expired at {at}"
    ))
}

/// `(session name, stream id)` of `projects/p/locations/l/sessions/s/streams/id`.
fn parse_stream_name(name: &str) -> Option<(&str, &str)> {
    let (session, id) = name.rsplit_once("/streams/")?;
    let parts: Vec<&str> = session.split('/').collect();
    match parts[..] {
        ["projects", p, "locations", l, "sessions", s]
            if [p, l, s, id].iter().all(|part| !part.is_empty()) && !id.contains('/') =>
        {
            Some((session, id))
        }
        _ => None,
    }
}
