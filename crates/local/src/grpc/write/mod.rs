//! `BigQueryWrite`: write streams of tables.
//!
//! | module | what |
//! |---|---|
//! | [`connection`] | AppendRows: requests in order, what sticks between them |
//! | [`request`] | its request, with rows left as bytes |
//! | [`plan`], [`proto`], [`arrow`] | rows into Arrow columns |
//! | [`rows`] | defaults |
//! | [`apply`] | rows into the table or the stream |
//! | [`streams`] | the other calls |

mod apply;
mod arrow;
mod change;
mod connection;
mod errors;
mod name;
mod plan;
mod proto;
pub(crate) mod request;
mod rows;
mod schema;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use self::connection::Connection;
use self::name::Name;
use self::request::AppendRequest;
use super::generated::big_query_write_server::BigQueryWrite;
use super::proto::{
    AppendRowsResponse, BatchCommitWriteStreamsRequest, BatchCommitWriteStreamsResponse,
    CreateWriteStreamRequest, FinalizeWriteStreamRequest, FinalizeWriteStreamResponse,
    FlushRowsRequest, FlushRowsResponse, GetWriteStreamRequest, WriteStream,
};
use crate::quotas::Quota;
use crate::server::Service;
use crate::store::TableRef;

/// Responses that wait for a slow client at most; then its requests wait too.
const RESPONSES: usize = 64;

/// The next request, or ABORTED when none comes for too long.
async fn next(
    requests: &mut Streaming<AppendRequest>,
    idle: Option<Duration>,
) -> Result<Option<AppendRequest>, Status> {
    let Some(idle) = idle else {
        return requests.message().await;
    };
    tokio::time::timeout(idle, requests.message())
        .await
        .unwrap_or_else(|_| {
            Err(Status::aborted(
                "Closing the stream because it was idle for too long. The client is advised to reconnect.",
            ))
        })
}

/// The service over a server's state.
#[derive(Debug)]
pub(crate) struct WriteService {
    service: Arc<Service>,
}

impl WriteService {
    /// Writes the tables of `service`.
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service }
    }
}

#[tonic::async_trait]
impl BigQueryWrite for WriteService {
    async fn create_write_stream(
        &self,
        request: Request<CreateWriteStreamRequest>,
    ) -> Result<Response<WriteStream>, Status> {
        let request = request.into_inner();
        if let Some(table) = TableRef::from_path(&request.parent) {
            name::propagated(&self.service, &table, "TABLES_UPDATE_DATA")?;
            let quotas = &self.service.quotas;
            quotas.charge(Quota::WriteStreams, &table.project)?;
        }
        streams::create(&self.service.store, &request).map(Response::new)
    }

    type AppendRowsStream = ReceiverStream<Result<AppendRowsResponse, Status>>;

    async fn append_rows(
        &self,
        request: Request<Streaming<AppendRequest>>,
    ) -> Result<Response<Self::AppendRowsStream>, Status> {
        let mut requests = request.into_inner();
        let (answers, receiver) = mpsc::channel(RESPONSES);
        let mut connection = Connection::new(Arc::clone(&self.service));
        let idle = self.service.options.realism.append_idle;
        tokio::spawn(async move {
            loop {
                let answer = match next(&mut requests, idle).await {
                    Ok(None) => return,
                    Ok(Some(request)) => connection.request(request).await,
                    Err(status) => Err(status),
                };
                let ends = answer.is_err();
                if answers.send(answer).await.is_err() || ends {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn get_write_stream(
        &self,
        request: Request<GetWriteStreamRequest>,
    ) -> Result<Response<WriteStream>, Status> {
        streams::get(&self.service.store, &request.into_inner()).map(Response::new)
    }

    async fn finalize_write_stream(
        &self,
        request: Request<FinalizeWriteStreamRequest>,
    ) -> Result<Response<FinalizeWriteStreamResponse>, Status> {
        streams::finalize(&self.service.store, &request.into_inner()).map(Response::new)
    }

    async fn batch_commit_write_streams(
        &self,
        request: Request<BatchCommitWriteStreamsRequest>,
    ) -> Result<Response<BatchCommitWriteStreamsResponse>, Status> {
        streams::batch_commit(&self.service.store, &request.into_inner()).map(Response::new)
    }

    async fn flush_rows(
        &self,
        request: Request<FlushRowsRequest>,
    ) -> Result<Response<FlushRowsResponse>, Status> {
        let request = request.into_inner();
        if let Some(name) = Name::parse(&request.write_stream) {
            name::propagated(&self.service, name.table(), "TABLES_UPDATE_DATA")?;
        }
        streams::flush(&self.service.store, &request).map(Response::new)
    }
}
