//! `BigQueryRead`: sessions over snapshots of tables, read in parallel streams.

mod avro;
mod blocks;
mod clock;
mod create;
mod cursor;
mod format;
mod log;
mod pick;
mod picoseconds;
mod projection;
mod registry;
mod rows;
mod run;
mod size;
mod snapshot;
mod split;

use std::sync::Arc;

use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

pub use clock::Clock;
pub use log::SessionRecord;
pub use registry::ReadSessions;

use super::generated::big_query_read_server::BigQueryRead;
use super::proto::{
    CreateReadSessionRequest, ReadRowsRequest, ReadRowsResponse, ReadSession,
    SplitReadStreamRequest, SplitReadStreamResponse,
};
use crate::error::Result as ServiceResult;
use crate::schema::TableSchema;
use crate::server::Service;

/// The Avro schema of a record called `name` with the columns of a table.
pub(crate) fn avro_schema(table: &TableSchema, name: &str) -> ServiceResult<String> {
    avro::named(table, name, avro::DisplayNames::Off)
}

/// Rows as Avro datums, one after the other.
pub(crate) fn avro_rows(
    table: &TableSchema,
    batch: &arrow::array::RecordBatch,
) -> ServiceResult<Vec<u8>> {
    avro::encode(table, batch)
}

impl Service {
    /// The newest successful CreateReadSession calls, oldest first.
    pub fn read_log(&self) -> Vec<SessionRecord> {
        self.read.log()
    }
}

/// The service over a server's state.
#[derive(Debug)]
pub(crate) struct ReadService {
    service: Arc<Service>,
}

impl ReadService {
    /// Serves the tables of `service`.
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service }
    }
}

#[tonic::async_trait]
impl BigQueryRead for ReadService {
    async fn create_read_session(
        &self,
        request: Request<CreateReadSessionRequest>,
    ) -> Result<Response<ReadSession>, Status> {
        let service = Arc::clone(&self.service);
        let request = request.into_inner();
        // Parsing a restriction of a megabyte takes a while.
        tokio::task::spawn_blocking(move || create::create(&service, request))
            .await
            .map_err(|e| Status::internal(format!("creating a session failed: {e}")))?
            .map(Response::new)
    }

    type ReadRowsStream = ReceiverStream<Result<ReadRowsResponse, Status>>;

    async fn read_rows(
        &self,
        request: Request<ReadRowsRequest>,
    ) -> Result<Response<Self::ReadRowsStream>, Status> {
        let request = request.into_inner();
        let (session, stream) = self.service.read.stream(&request.read_stream)?;
        let cursor = cursor::Cursor::new(Arc::clone(&session), &stream, request.offset)?;
        let call = self.service.read.open_call();
        Ok(Response::new(ReceiverStream::new(rows::start(
            session, cursor, call,
        ))))
    }

    async fn split_read_stream(
        &self,
        request: Request<SplitReadStreamRequest>,
    ) -> Result<Response<SplitReadStreamResponse>, Status> {
        split::split(&self.service, &request.into_inner()).map(Response::new)
    }
}
