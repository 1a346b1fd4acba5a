//! Everything about write streams but appending: making them, looking at them,
//! ending them, and making their rows visible.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use googleapis_storage::google::cloud::bigquery::storage::v1::big_query_write_client::BigQueryWriteClient;
use googleapis_storage::google::cloud::bigquery::storage::v1::storage_error::StorageErrorCode;
use googleapis_storage::google::cloud::bigquery::storage::v1::write_stream::Type;
use googleapis_storage::google::cloud::bigquery::storage::v1::{
    BatchCommitWriteStreamsRequest, CreateWriteStreamRequest, FinalizeWriteStreamRequest,
    FlushRowsRequest, GetWriteStreamRequest, StorageError, WriteStream,
};
use tonic::Status;
use tonic::transport::Channel;

use super::append::{Denied, StartAt};
use super::{Access, status};
use crate::client::endpoint::{self, request_policy};
use crate::client::read::request;
use crate::client::retry::Backoff;
use crate::error::{Effect, Error, ErrorKind, Result, RetryAdvice};
use crate::types::TableRef;

/// The service commits no more streams at once
/// (`BatchCommitWriteStreamsRequest.write_streams`).
pub const MAX_COMMITTED_STREAMS: usize = 10_000;

/// How long one attempt may take. Above 40 streams a second their creation has been
/// seen to take 25 seconds.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);

/// A kind of stream that has to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// Rows are visible up to where it was flushed.
    Buffered,
    /// Rows are visible when it is committed, which is once and after its end.
    Pending,
}

impl StreamKind {
    fn wire(self) -> Type {
        match self {
            StreamKind::Buffered => Type::Buffered,
            StreamKind::Pending => Type::Pending,
        }
    }

    /// Where the options of such streams are.
    pub(super) fn options(self) -> &'static str {
        match self {
            StreamKind::Buffered => "sink.buffered_stream",
            StreamKind::Pending => "sink.pending_stream",
        }
    }
}

/// A stream that was created, as who appends to it knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedStream {
    /// Its kind.
    pub kind: StreamKind,
    /// Its name, as the service gave it.
    pub name: String,
    /// What it has.
    pub start: StartAt,
}

/// Whether a flush changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// Rows have become visible, or were the last ones that had.
    Now,
    /// Those rows and others behind them were visible before.
    Before,
}

impl Access<'_> {
    /// Makes a stream and answers its name. An attempt whose answer was lost leaves
    /// an empty stream behind, which nobody sees.
    pub(in crate::client) async fn create(
        self,
        table: &TableRef,
        kind: StreamKind,
        denied: Denied,
    ) -> Result<String> {
        let parent = table.resource_name();
        let routing = endpoint::routing("parent", &parent);
        let message = CreateWriteStreamRequest {
            parent,
            write_stream: Some(WriteStream {
                r#type: kind.wire().into(),
                ..WriteStream::default()
            }),
        };
        let made = self.call(
            message,
            &routing,
            denied,
            |mut client, request| async move { client.create_write_stream(request).await },
        );
        let made = made.await?;
        if made.name.is_empty() {
            return Err(Error::data("the service made a stream and did not name it"));
        }
        Ok(made.name)
    }

    /// Whether a stream was committed.
    pub(in crate::client) async fn is_committed(self, stream: &str) -> Result<bool> {
        let routing = endpoint::routing("name", stream);
        let message = GetWriteStreamRequest {
            name: stream.to_string(),
            ..GetWriteStreamRequest::default()
        };
        let found = self.call(
            message,
            &routing,
            Denied::Final,
            |mut client, request| async move { client.get_write_stream(request).await },
        );
        Ok(found.await?.commit_time.is_some())
    }

    /// Ends a stream, and answers how many rows it has. Ending it again is harmless.
    pub(in crate::client) async fn finalize(self, stream: &str) -> Result<i64> {
        let routing = endpoint::routing("name", stream);
        let message = FinalizeWriteStreamRequest {
            name: stream.to_string(),
        };
        let ended = self.call(
            message,
            &routing,
            Denied::Final,
            |mut client, request| async move { client.finalize_write_stream(request).await },
        );
        Ok(ended.await?.row_count)
    }

    /// Makes the rows of a buffered stream visible up to this offset, inclusive.
    pub(in crate::client) async fn flush(
        self,
        stream: &str,
        offset: i64,
        denied: Denied,
    ) -> Result<Flushed> {
        let routing = endpoint::routing("write_stream", stream);
        let message = FlushRowsRequest {
            write_stream: stream.to_string(),
            offset: Some(offset),
        };
        let flushed = self.call(
            message,
            &routing,
            denied,
            |mut client, request| async move { client.flush_rows(request).await },
        );
        match flushed.await {
            Ok(_) => Ok(Flushed::Now),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Flushed::Before),
            Err(error) => Err(error),
        }
    }

    /// Makes the rows of pending streams visible, all at once.
    pub(in crate::client) async fn batch_commit(
        self,
        table: &TableRef,
        streams: &[String],
    ) -> Result<()> {
        let parent = table.resource_name();
        let routing = endpoint::routing("parent", &parent);
        let message = BatchCommitWriteStreamsRequest {
            parent,
            write_streams: streams.to_vec(),
        };
        let commit = self.call(
            message,
            &routing,
            Denied::Final,
            |mut client, request| async move { client.batch_commit_write_streams(request).await },
        );
        let answer = commit.await?;
        let Some(refused) = refused(&answer.stream_errors, streams.len()) else {
            return match answer.commit_time {
                Some(_) => Ok(()),
                None => Err(Error::data(
                    "the service says neither that streams are committed nor why not",
                )),
            };
        };
        let committed = committed(&answer.stream_errors);
        if committed.len() < answer.stream_errors.len() {
            return Err(refused);
        }
        // An earlier attempt, or an earlier call, has committed them, which is what
        // was asked for if it is so of all of them.
        for stream in streams {
            if !committed.contains(stream.as_str()) && !self.is_committed(stream).await? {
                return Err(refused);
            }
        }
        Ok(())
    }

    async fn call<M, A, F>(
        self,
        message: M,
        routing: &str,
        denied: Denied,
        call: impl Fn(BigQueryWriteClient<Channel>, tonic::Request<M>) -> F,
    ) -> Result<A>
    where
        M: Clone,
        F: Future<Output = Result<tonic::Response<A>, Status>>,
    {
        let endpoint = self.connections.endpoint();
        let backoff = |policy| Backoff::new(policy, Arc::clone(self.clock));
        let mut requests = backoff(request_policy(endpoint));
        let mut propagation = denied.policy().map(backoff);
        let (mut renewed, mut effect) = (false, Effect::None);
        loop {
            let headers = self.credentials.headers().await;
            let error = match headers {
                Err(error) => error,
                Ok(headers) => {
                    let request = request(message.clone(), headers, routing)?;
                    let lease = self.connections.lease();
                    let client = BigQueryWriteClient::new(lease.channel());
                    match tokio::time::timeout(ATTEMPT_TIMEOUT, call(client, request)).await {
                        Ok(Ok(answer)) => return Ok(answer.into_inner()),
                        Ok(Err(status)) => {
                            let error = status::of_unary(&status, endpoint);
                            match error.kind() {
                                // A token that ran out a moment ago.
                                ErrorKind::Unauthenticated if !renewed => {
                                    renewed = true;
                                    error.with_retry(RetryAdvice::Backoff)
                                }
                                _ => error,
                            }
                        }
                        Err(_) => Error::new(
                            ErrorKind::DeadlineExceeded,
                            format!("{endpoint} did not answer within {ATTEMPT_TIMEOUT:?}"),
                        )
                        .with_effect(Effect::Unknown),
                    }
                }
            };
            if error.may_have_applied() {
                effect = Effect::Unknown;
            }
            let error = error.with_effect(effect);
            match &mut propagation {
                Some(propagation) if error.kind() == ErrorKind::PermissionDenied => {
                    let error = error.with_retry(RetryAdvice::Backoff);
                    propagation.after(error).await?;
                }
                _ => requests.after(error).await?,
            }
        }
    }
}

/// The error of a commit that was refused.
fn refused(errors: &[StorageError], of: usize) -> Option<Error> {
    let first = errors.first()?;
    let kind = match StorageErrorCode::try_from(first.code) {
        Ok(StorageErrorCode::TableNotFound | StorageErrorCode::StreamNotFound) => {
            ErrorKind::NotFound
        }
        _ => ErrorKind::FailedPrecondition,
    };
    Some(Error::new(
        kind,
        format!(
            "nothing is committed, because of {} of {of} streams: {}",
            errors.len(),
            crate::client::excerpt::excerpt(&first.error_message)
        ),
    ))
}

/// The streams that are committed already.
fn committed(errors: &[StorageError]) -> HashSet<&str> {
    let code = i32::from(StorageErrorCode::StreamAlreadyCommitted);
    let committed = errors.iter().filter(|error| error.code == code);
    committed.map(|error| error.entity.as_str()).collect()
}
