//! ReadRows: rows become messages as fast as the client takes them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tonic::Status;

use super::cursor::{Chunk, Cursor};
use super::format::ResponseCompression;
use super::registry::{OpenCall, Session};
use crate::grpc::proto::{ReadRowsResponse, StreamStats, stream_stats};

/// The service's limit on one response.
const MAX_RESPONSE_BYTES: usize = 128 << 20;

/// Messages made ahead of the client.
const AHEAD: usize = 2;

/// A client that takes nothing for this long is disconnected.
const IDLE: Duration = Duration::from_secs(3600);

/// Starts reading. The work stops when the receiver is dropped.
pub(super) fn start(
    session: Arc<Session>,
    cursor: Cursor,
    call: OpenCall,
) -> mpsc::Receiver<Result<ReadRowsResponse, Status>> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        pump(session, cursor, sender).await;
        drop(call);
    });
    receiver
}

async fn pump(
    session: Arc<Session>,
    mut cursor: Cursor,
    sender: mpsc::Sender<Result<ReadRowsResponse, Status>>,
) {
    let mut first = true;
    loop {
        // Room first: nothing is made for a client that does not read.
        let permit = match tokio::time::timeout(IDLE, sender.reserve()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) | Err(_) => return,
        };
        let maker = Arc::clone(&session);
        let made = tokio::task::spawn_blocking(move || {
            let message = cursor
                .next()
                .and_then(|chunk| chunk.map(|c| message(&maker, c)).transpose());
            (cursor, message)
        })
        .await;
        match made {
            Ok((next, Ok(Some(mut message)))) => {
                if first {
                    message.schema = Some(session.format.message_schema());
                    first = false;
                }
                cursor = next;
                permit.send(Ok(message));
            }
            Ok((_, Ok(None))) => return,
            Ok((_, Err(status))) => {
                permit.send(Err(status));
                return;
            }
            Err(failure) => {
                permit.send(Err(Status::internal(format!("reading failed: {failure}"))));
                return;
            }
        }
    }
}

fn message(session: &Session, chunk: Chunk) -> Result<ReadRowsResponse, Status> {
    let row_count = i64::try_from(chunk.rows.num_rows()).unwrap_or(i64::MAX);
    let payload = session.format.encode(&chunk.rows)?;
    if payload.len() > MAX_RESPONSE_BYTES {
        return Err(Status::invalid_argument(format!(
            "a row of {} bytes exceeds the limit of {MAX_RESPONSE_BYTES} bytes per response",
            payload.len()
        )));
    }
    let (payload, uncompressed_byte_size) = match session.format.response {
        ResponseCompression::None => (payload, None),
        ResponseCompression::Lz4 => {
            let compressed = lz4_flex::block::compress(&payload);
            if compressed.len() < payload.len() {
                let size = i64::try_from(payload.len()).unwrap_or(i64::MAX);
                (compressed, Some(size))
            } else {
                (payload, Some(-1))
            }
        }
    };
    Ok(ReadRowsResponse {
        row_count,
        stats: Some(StreamStats {
            progress: Some(stream_stats::Progress {
                at_response_start: chunk.start,
                at_response_end: chunk.end,
            }),
        }),
        throttle_state: None,
        uncompressed_byte_size,
        rows: Some(session.format.rows(Bytes::from(payload))),
        schema: None,
    })
}
