//! Resumable uploads: bytes that arrive in pieces, for a job that starts when all
//! are there.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use serde_json::Value;
use uuid::Uuid;

use super::job::Job;
use crate::error::{Reason, Result, ServiceError};
use crate::store::millis_now;

/// The bytes of one upload at most.
pub const MAX_UPLOAD_BYTES: u64 = 1 << 30;

/// How long an upload is kept without a request, in milliseconds. The service
/// keeps them for a week.
const LIFETIME: i64 = 7 * 24 * 3_600_000;

/// Uploads at the same time at most.
const MAX_UPLOADS: usize = 1_000;

/// A piece of an upload: where it starts and how long the whole is, as far as the
/// client says (`Content-Range`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Position of the first byte; `None` for a question about the state.
    pub start: Option<u64>,
    /// Length of the whole.
    pub total: Option<u64>,
}

/// What became of a piece.
#[derive(Debug, Clone)]
pub enum Progress {
    /// More bytes are expected; so many are there.
    Incomplete(u64),
    /// All bytes are there and nobody has started the job yet: the caller does, and
    /// then calls [`Uploads::finish`].
    Complete {
        /// The project of the job.
        project: String,
        /// The request body that began the upload.
        resource: Value,
        /// The bytes.
        data: Bytes,
    },
    /// The job was started by an earlier piece.
    Done(Arc<Job>),
}

#[derive(Debug)]
enum State {
    Receiving(BytesMut),
    /// Complete; the job is being started.
    Starting(Bytes),
    Done(Arc<Job>),
}

#[derive(Debug)]
struct Upload {
    project: String,
    resource: Value,
    state: State,
    touched: i64,
}

/// Uploads by id.
#[derive(Debug, Default)]
pub struct Uploads {
    uploads: Mutex<HashMap<String, Upload>>,
}

impl Uploads {
    /// Begins an upload for the job that `resource` describes; answers its id.
    pub fn begin(&self, project: &str, resource: Value) -> Result<String> {
        let now = millis_now();
        let mut uploads = self.uploads.lock();
        uploads.retain(|_, upload| now - upload.touched < LIFETIME);
        if uploads.len() >= MAX_UPLOADS {
            let finished = uploads
                .iter()
                .filter(|(_, upload)| matches!(upload.state, State::Done(_)))
                .min_by_key(|(_, upload)| upload.touched)
                .map(|(id, _)| id.clone());
            match finished {
                Some(id) => uploads.remove(&id),
                None => {
                    return Err(ServiceError::new(
                        Reason::QuotaExceeded,
                        format!("Too many uploads at the same time; the limit is {MAX_UPLOADS}."),
                    ));
                }
            };
        }
        let id = Uuid::new_v4().simple().to_string();
        uploads.insert(
            id.clone(),
            Upload {
                project: project.to_string(),
                resource,
                state: State::Receiving(BytesMut::new()),
                touched: now,
            },
        );
        Ok(id)
    }

    /// Takes a piece, or answers the state when `range` has no start.
    pub fn receive(&self, project: &str, id: &str, range: Range, piece: &[u8]) -> Result<Progress> {
        let mut uploads = self.uploads.lock();
        let now = millis_now();
        let upload = uploads
            .get_mut(id)
            .filter(|upload| upload.project == project && now - upload.touched < LIFETIME)
            .ok_or_else(|| ServiceError::not_found("Upload: no upload with this upload_id"))?;
        upload.touched = now;
        let buffer = match &mut upload.state {
            State::Receiving(buffer) => buffer,
            // A start that failed is tried again by the next request.
            State::Starting(data) => {
                return Ok(Progress::Complete {
                    project: upload.project.clone(),
                    resource: upload.resource.clone(),
                    data: data.clone(),
                });
            }
            State::Done(job) => return Ok(Progress::Done(Arc::clone(job))),
        };
        let received = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
        let mut complete = range.total == Some(received);
        if let Some(start) = range.start {
            let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
            if start > received {
                return Err(ServiceError::invalid(format!(
                    "Invalid Content-Range: the piece starts at {start} but only {received} bytes \
                     were received"
                )));
            }
            let end = start.saturating_add(length);
            if end > MAX_UPLOAD_BYTES || range.total.is_some_and(|total| total > MAX_UPLOAD_BYTES) {
                return Err(ServiceError::new(
                    Reason::RequestTooLarge,
                    format!("An upload has at most {MAX_UPLOAD_BYTES} bytes."),
                ));
            }
            if range.total.is_some_and(|total| end > total) {
                return Err(ServiceError::invalid(
                    "Invalid Content-Range: the piece ends behind the total size",
                ));
            }
            // A piece may repeat bytes that arrived before its answer was lost.
            let known = usize::try_from(received - start).unwrap_or(usize::MAX);
            buffer.extend_from_slice(piece.get(known..).unwrap_or_default());
            let received = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
            complete = range.total == Some(received);
        }
        if !complete {
            return Ok(Progress::Incomplete(
                u64::try_from(buffer.len()).unwrap_or(u64::MAX),
            ));
        }
        let data = std::mem::take(buffer).freeze();
        upload.state = State::Starting(data.clone());
        Ok(Progress::Complete {
            project: upload.project.clone(),
            resource: upload.resource.clone(),
            data,
        })
    }

    /// Remembers the job that a complete upload has started.
    pub fn finish(&self, id: &str, job: &Arc<Job>) {
        if let Some(upload) = self.uploads.lock().get_mut(id) {
            upload.state = State::Done(Arc::clone(job));
        }
    }

    /// Ends an upload whose job was refused, or that the client gave up.
    pub fn abandon(&self, id: &str) -> Result<()> {
        self.uploads
            .lock()
            .remove(id)
            .map(drop)
            .ok_or_else(|| ServiceError::not_found("Upload: no upload with this upload_id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn range(start: u64, total: Option<u64>) -> Range {
        Range {
            start: Some(start),
            total,
        }
    }

    const PROBE: Range = Range {
        start: None,
        total: Some(6),
    };

    #[test]
    fn pieces_arrive_in_order_and_may_repeat() {
        let uploads = Uploads::default();
        let id = uploads.begin("p", Value::Null).unwrap();
        let step = |range, piece: &[u8]| uploads.receive("p", &id, range, piece);
        let have = |progress| match progress {
            Progress::Incomplete(n) => n,
            other => panic!("{other:?}"),
        };
        assert_eq!(have(step(PROBE, b"").unwrap()), 0);
        assert_eq!(have(step(range(0, None), b"abc").unwrap()), 3);
        assert_eq!(have(step(PROBE, b"").unwrap()), 3);
        assert!(step(range(4, None), b"e").is_err(), "a gap");
        assert_eq!(have(step(range(1, Some(6)), b"bcd").unwrap()), 4);
        assert!(step(range(4, Some(6)), b"efg").is_err(), "too long");
        let Progress::Complete { data, .. } = step(range(4, Some(6)), b"ef").unwrap() else {
            panic!("complete")
        };
        assert_eq!(data, "abcdef");
    }

    #[test]
    fn wrong_ids_are_404_and_huge_uploads_413() {
        let uploads = Uploads::default();
        let missing = uploads.receive("p", "x", PROBE, b"").unwrap_err();
        assert_eq!(missing.reason, Reason::NotFound);
        let id = uploads.begin("p", Value::Null).unwrap();
        assert!(
            uploads.receive("q", &id, PROBE, b"").is_err(),
            "another project's"
        );
        let huge = uploads
            .receive("p", &id, range(0, Some(MAX_UPLOAD_BYTES + 1)), b"")
            .unwrap_err();
        assert_eq!(huge.reason, Reason::RequestTooLarge);
        uploads.abandon(&id).unwrap();
        assert!(uploads.abandon(&id).is_err());
    }

    #[test]
    fn an_empty_upload_is_complete_at_once() {
        let uploads = Uploads::default();
        let id = uploads.begin("p", Value::Null).unwrap();
        let done = uploads.receive("p", &id, range(0, Some(0)), b"").unwrap();
        assert!(matches!(done, Progress::Complete { .. }));
    }
}
