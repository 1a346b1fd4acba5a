//! `BigQueryWrite`: write streams of tables.
//!
//! Streams can be created, looked at, finalized, flushed and committed as the
//! service does (sections 3.1 to 3.4 of the service reference); `AppendRows` is
//! refused, so a stream's end stays at offset 0.

mod errors;
mod schema;
mod streams;

use std::sync::Arc;

use tonic::{Request, Response, Status, Streaming};

pub use streams::WriteStreams;

use super::generated::big_query_write_server::BigQueryWrite;
use super::proto::{
    AppendRowsRequest, AppendRowsResponse, BatchCommitWriteStreamsRequest,
    BatchCommitWriteStreamsResponse, CreateWriteStreamRequest, FinalizeWriteStreamRequest,
    FinalizeWriteStreamResponse, FlushRowsRequest, FlushRowsResponse, GetWriteStreamRequest,
    WriteStream,
};
use crate::server::Service;

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
        self.service
            .write
            .create(&self.service.store, &request.into_inner())
            .map(Response::new)
    }

    type AppendRowsStream = tokio_stream::Empty<Result<AppendRowsResponse, Status>>;

    async fn append_rows(
        &self,
        _request: Request<Streaming<AppendRowsRequest>>,
    ) -> Result<Response<Self::AppendRowsStream>, Status> {
        Err(Status::unimplemented(
            "AppendRows is not supported by bigquery-local; load the rows with a load job, \
             tabledata.insertAll or INSERT",
        ))
    }

    async fn get_write_stream(
        &self,
        request: Request<GetWriteStreamRequest>,
    ) -> Result<Response<WriteStream>, Status> {
        self.service
            .write
            .get(&self.service.store, &request.into_inner())
            .map(Response::new)
    }

    async fn finalize_write_stream(
        &self,
        request: Request<FinalizeWriteStreamRequest>,
    ) -> Result<Response<FinalizeWriteStreamResponse>, Status> {
        self.service
            .write
            .finalize(&self.service.store, &request.into_inner())
            .map(Response::new)
    }

    async fn batch_commit_write_streams(
        &self,
        request: Request<BatchCommitWriteStreamsRequest>,
    ) -> Result<Response<BatchCommitWriteStreamsResponse>, Status> {
        self.service
            .write
            .batch_commit(&self.service.store, &request.into_inner())
            .map(Response::new)
    }

    async fn flush_rows(
        &self,
        request: Request<FlushRowsRequest>,
    ) -> Result<Response<FlushRowsResponse>, Status> {
        self.service
            .write
            .flush(&self.service.store, &request.into_inner())
            .map(Response::new)
    }
}
