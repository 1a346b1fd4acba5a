//! Connections for many streams at once.
//!
//! HTTP/2 lets the streams of a connection share one window of bytes under
//! way. A query engine may leave some streams unread for a long time while it
//! waits for others, and then the unread ones would hold the window of all.
//! So a connection carries few streams, and its window has room for all of
//! them at their fullest: a stream that nobody reads never stops another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use googleapis_storage::google::cloud::bigquery::storage::v1::big_query_read_client::BigQueryReadClient;
use http::HeaderMap;
use parking_lot::Mutex;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

use crate::client::endpoint::USER_AGENT;
use crate::error::{Error, ErrorKind, Result};
use crate::options::EndpointUrl;

/// Bytes of one stream under way: a response is at most 128 MB and usually
/// about one, and this many keep a fast link busy while batches are decoded.
const STREAM_WINDOW: u32 = 8 << 20;
/// Streams that share a connection.
const STREAMS_PER_CONNECTION: u32 = 4;
/// Room for every stream of a connection, and for one unary call.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * (STREAMS_PER_CONNECTION + 1);
/// The largest frame that a server may send. HTTP/2's default of 16 KiB cuts each
/// response into dozens, and every frame has its cost.
const FRAME_BYTES: u32 = 1 << 20;
/// Idle connections kept for the next query.
const IDLE_CONNECTIONS: usize = 2;
/// The service's responses are at most 128 MB, tonic's own limit is 4 MB.
pub(super) const MAX_MESSAGE_BYTES: usize = 256 << 20;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// The connections to one server; cloning shares them.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    endpoint: EndpointUrl,
    template: Endpoint,
    open: Arc<Mutex<Vec<Connection>>>,
}

#[derive(Debug)]
struct Connection {
    channel: Channel,
    streams: Arc<AtomicU32>,
}

/// A connection with room for one stream, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Lease {
    channel: Channel,
    streams: Arc<AtomicU32>,
    open: Arc<Mutex<Vec<Connection>>>,
}

impl Connections {
    pub(crate) fn new(endpoint: EndpointUrl) -> Result<Self> {
        let unusable = |error: tonic::transport::Error| {
            Error::new(
                ErrorKind::Configuration,
                format!(
                    "no connection to {endpoint} can be set up: check option 'grpc_endpoint' and \
                     this machine's root certificates"
                ),
            )
            .with_source(error)
        };
        if !endpoint.path().is_empty() {
            return Err(Error::configuration(format!(
                "option 'grpc_endpoint' cannot be '{endpoint}': it must be an address without a \
                 path, such as 'http://127.0.0.1:9060'"
            )));
        }
        let mut template = Endpoint::from_shared(endpoint.origin())
            .map_err(unusable)?
            .user_agent(USER_AGENT)
            .map_err(unusable)?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_keepalive(Some(TCP_KEEPALIVE))
            .tcp_nodelay(true)
            .max_frame_size(FRAME_BYTES)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        if !endpoint.is_plaintext() {
            template = template
                .tls_config(ClientTlsConfig::new().with_enabled_roots())
                .map_err(unusable)?;
        }
        Ok(Connections {
            endpoint,
            template,
            open: Arc::default(),
        })
    }

    pub(crate) fn endpoint(&self) -> &EndpointUrl {
        &self.endpoint
    }

    /// Room for one stream, on a connection that has some or on a new one.
    /// Connections open when they are first used, and again when they broke.
    pub(crate) fn lease(&self) -> Lease {
        let mut open = self.open.lock();
        let free = open
            .iter()
            .find(|connection| connection.streams.load(Ordering::Relaxed) < STREAMS_PER_CONNECTION)
            .map(|connection| (connection.channel.clone(), Arc::clone(&connection.streams)));
        let (channel, streams) = free.unwrap_or_else(|| {
            let connection = Connection {
                channel: self.template.connect_lazy(),
                streams: Arc::default(),
            };
            let parts = (connection.channel.clone(), Arc::clone(&connection.streams));
            open.push(connection);
            parts
        });
        // Counted under the lock, so that no connection gets one too many.
        streams.fetch_add(1, Ordering::Relaxed);
        Lease {
            channel,
            streams,
            open: Arc::clone(&self.open),
        }
    }
}

impl Lease {
    /// The connection.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(super) fn client(&self) -> BigQueryReadClient<Channel> {
        BigQueryReadClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        self.streams.fetch_sub(1, Ordering::Relaxed);
        let mut idle = 0;
        open.retain(|connection| {
            if connection.streams.load(Ordering::Relaxed) > 0 {
                return true;
            }
            idle += 1;
            idle <= IDLE_CONNECTIONS
        });
    }
}

/// A call's request with the headers that identify and route it.
pub(crate) fn request<T>(
    message: T,
    credentials: HeaderMap,
    routing: &str,
) -> Result<tonic::Request<T>> {
    let mut request = tonic::Request::new(message);
    *request.metadata_mut() = MetadataMap::from_headers(credentials);
    let routing = routing.parse().map_err(|_| {
        Error::new(
            ErrorKind::Internal,
            "a routing header holds a character that its escaping let through",
        )
    })?;
    request
        .metadata_mut()
        .insert(crate::client::endpoint::ROUTING_HEADER, routing);
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{ConnectionOptions, Options, RawOptions};

    fn endpoint(text: &str) -> EndpointUrl {
        let raw =
            RawOptions::from_pairs([("grpc_endpoint", text), ("credentials", "adc")]).unwrap();
        Options::resolve(&raw).unwrap().connection.grpc_endpoint
    }

    #[tokio::test]
    async fn few_streams_share_a_connection() {
        let connections = Connections::new(endpoint("http://127.0.0.1:1")).unwrap();
        let leases: Vec<Lease> = (0..9).map(|_| connections.lease()).collect();
        let count = || {
            connections
                .open
                .lock()
                .iter()
                .map(|connection| connection.streams.load(Ordering::Relaxed))
                .collect::<Vec<_>>()
        };
        assert_eq!(count(), [4, 4, 1]);
        drop(leases);
        assert_eq!(count(), [0, 0]);
        let _lease = connections.lease();
        assert_eq!(count(), [1, 0]);
    }

    #[tokio::test]
    async fn encrypted_connections_can_be_set_up() {
        let google = ConnectionOptions::default().grpc_endpoint;
        Connections::new(google).unwrap().lease();
    }

    #[test]
    fn an_address_with_a_path_is_refused() {
        let error = Connections::new(endpoint("http://127.0.0.1:1/x")).unwrap_err();
        assert!(error.message().contains("'grpc_endpoint'"), "{error}");
    }
}
