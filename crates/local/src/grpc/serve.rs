//! The gRPC listener.

use std::future::Future;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

use super::generated::big_query_read_server::BigQueryReadServer;
use super::generated::big_query_write_server::BigQueryWriteServer;
use super::read::ReadService;
use super::write::WriteService;
use crate::faults::{RpcFaults, Wire};
use crate::server::Service;

/// Requests above this are refused; the largest legitimate ones carry a
/// restriction of 1 MiB or 20 MB of appended rows.
const MAX_REQUEST_BYTES: usize = 32 << 20;

/// HTTP/2 windows wide enough that one stream fills a loopback connection.
const STREAM_WINDOW: u32 = 8 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;
const FRAME_BYTES: u32 = 1 << 20;

/// The two services of the Storage API, with their limits.
pub(crate) fn services(
    service: &Arc<Service>,
) -> (
    BigQueryReadServer<ReadService>,
    BigQueryWriteServer<WriteService>,
) {
    let read = BigQueryReadServer::new(ReadService::new(Arc::clone(service)))
        .max_decoding_message_size(MAX_REQUEST_BYTES)
        .max_encoding_message_size(usize::MAX);
    let write = BigQueryWriteServer::new(WriteService::new(Arc::clone(service)))
        .max_decoding_message_size(MAX_REQUEST_BYTES);
    (read, write)
}

/// Serves the Storage API on `listener` until `shutdown` resolves; open calls are
/// finished first.
pub async fn serve(
    service: Arc<Service>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> std::io::Result<()> {
    let (read, write) = services(&service);
    let connections = TcpListenerStream::new(listener).map(|accepted| accepted.map(Wire::new));
    Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .layer(tower::layer::layer_fn(move |inner| {
            RpcFaults::new(Arc::clone(&service), inner)
        }))
        .add_service(read)
        .add_service(write)
        .serve_with_incoming_shutdown(connections, shutdown)
        .await
        .map_err(std::io::Error::other)
}
