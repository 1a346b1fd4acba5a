//! Starting and stopping the listeners.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::ServiceExt;
use axum::extract::Request;
use axum::response::Response;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::creation_race::CreationRaces;
use crate::faults::{Faults, Handle, HttpFaults, WireListener};
use crate::grpc::ReadSessions;
use crate::jobs::Jobs;
use crate::quotas::{QuotaLimits, Quotas};
use crate::store::{Store, StoreOptions};
use crate::{gcs, grpc, rest};

/// How long [`LocalBigQuery::shutdown`] waits for running requests.
const DRAIN: Duration = Duration::from_secs(5);

/// How often old row versions and expired tables are forgotten.
const UPKEEP: Duration = Duration::from_secs(60);

/// Which addresses may be listened on. There is no authentication, so everything
/// that reaches a listener may read and change all data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exposure {
    /// Only addresses of this machine.
    #[default]
    Loopback,
    /// Any address.
    Remote,
}

/// What the service does and a local server need not: off unless it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Realism {
    /// How long CreateWriteStream, FlushRows and the first AppendRows of a connection
    /// deny that a new table is there. Measured on the service: 23 % of the first
    /// CreateWriteStream calls after tables.insert.
    pub creation_delay: Duration,
    /// How long AppendRows does not know a change of a table's columns. Measured on
    /// the service: about 35 seconds, once two hours.
    pub schema_delay: Duration,
    /// How long an AppendRows call may be without a request before it is ended with
    /// ABORTED.
    pub append_idle: Option<Duration>,
    /// How long after a table was made others that want to make it are taken to have come
    /// at the same time: of the first fifteen of them every third is refused with
    /// `rateLimitExceeded`, the others as usual with `duplicate`.
    pub creation_race: Duration,
    /// Which quotas are enforced; they are counted in any case.
    pub quotas: Option<QuotaLimits>,
}

/// Where and how an embedded BigQuery listens.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Address of the REST API; port 0 picks one.
    pub rest: SocketAddr,
    /// Address of the Storage API (gRPC, plaintext); port 0 picks one.
    pub grpc: SocketAddr,
    /// Address of the Cloud Storage API; port 0 picks one.
    pub storage: SocketAddr,
    /// Whether addresses of other machines are refused.
    pub exposure: Exposure,
    /// The project that exists from the start. Any other project named in a
    /// request exists as soon as a dataset is made in it.
    pub project: String,
    /// Storage Read splits a table into streams of about this many bytes of Arrow
    /// buffers. The service gives one stream below about 1 MB.
    pub stream_bytes: usize,
    /// AppendRows requests above this many bytes are refused. The service's
    /// documentation says 20 MB; its servers have been seen to take 10 MiB.
    pub append_request_bytes: usize,
    /// See the type.
    pub realism: Realism,
    /// Directory in which datasets, tables and rows are kept; `None` keeps them in
    /// memory.
    pub data: Option<PathBuf>,
}

impl Default for LocalOptions {
    /// Loopback, free ports, project `local`.
    fn default() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            rest: any,
            grpc: any,
            storage: any,
            exposure: Exposure::Loopback,
            project: "local".to_string(),
            stream_bytes: 64 << 20,
            append_request_bytes: 20 << 20,
            realism: Realism::default(),
            data: None,
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
    /// Insert ids of streamed rows.
    pub insert_ids: rest::insert_all::InsertIds,
    /// Failures on purpose; none by default.
    pub faults: Faults,
    /// Jobs and what belongs to them.
    pub jobs: Jobs,
    /// Buckets and objects of Cloud Storage.
    pub objects: gcs::Objects,
    /// Topics of Pub/Sub.
    pub topics: gcs::Topics,
    /// What is counted as the service counts it.
    pub quotas: Quotas,
    /// Who wanted to make a table that another had just made.
    pub(crate) creation_races: CreationRaces,
    /// As given at the start, with the addresses that are really listened on.
    pub options: LocalOptions,
}

impl Service {
    /// A service over `store`, with nothing else yet.
    pub(crate) fn new(store: Store, options: LocalOptions) -> Self {
        Self {
            store: Arc::new(store),
            read: ReadSessions::default(),
            insert_ids: rest::insert_all::InsertIds::default(),
            faults: Faults::default(),
            jobs: Jobs::default(),
            objects: gcs::Objects::default(),
            topics: gcs::Topics::default(),
            quotas: Quotas::new(options.realism.quotas),
            creation_races: CreationRaces::default(),
            options,
        }
    }
}

/// A running embedded BigQuery. Dropping it stops the listeners.
#[derive(Debug)]
pub struct LocalBigQuery {
    service: Arc<Service>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl LocalBigQuery {
    /// Binds the listeners and answers once requests can be served.
    pub async fn start(mut options: LocalOptions) -> io::Result<Self> {
        let rest = bind("REST", &mut options.rest, options.exposure).await?;
        let grpc = bind("gRPC", &mut options.grpc, options.exposure).await?;
        let storage = bind("storage", &mut options.storage, options.exposure).await?;
        let (store, objects) = match options.data.clone() {
            Some(directory) => tokio::task::spawn_blocking(move || {
                // The store's lock is that of the whole directory.
                let store = Store::open(&directory, StoreOptions::default())?;
                Ok::<_, io::Error>((store, gcs::Objects::open(&directory.join("objects"))?))
            })
            .await
            .map_err(io::Error::other)??,
            None => {
                let store = Store::in_memory(StoreOptions::default());
                (store, gcs::Objects::default())
            }
        };
        let service = Arc::new(Service {
            objects,
            ..Service::new(store, options)
        });
        crate::jobs::restore(&service).map_err(io::Error::other)?;
        let stop = CancellationToken::new();
        let tasks = vec![
            spawn_http(
                "REST",
                rest,
                HttpFaults::new(Arc::clone(&service), rest::app(&service)),
                &stop,
            ),
            spawn_grpc(grpc, &service, &stop),
            spawn_http(
                "storage",
                storage,
                HttpFaults::of_storage(Arc::clone(&service), gcs::app(&service)),
                &stop,
            ),
            spawn_upkeep(&service, &stop),
        ];
        Ok(Self {
            service,
            stop,
            tasks,
        })
    }

    /// `http://127.0.0.1:port` of the REST API.
    pub fn rest_endpoint(&self) -> String {
        format!("http://{}", self.service.options.rest)
    }

    /// `http://127.0.0.1:port` of the Storage API (gRPC, plaintext).
    pub fn grpc_endpoint(&self) -> String {
        format!("http://{}", self.service.options.grpc)
    }

    /// `http://127.0.0.1:port` of the Cloud Storage API.
    pub fn storage_endpoint(&self) -> String {
        format!("http://{}", self.service.options.storage)
    }

    /// The state, for tests that look at it from inside.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Stops accepting, lets what runs finish for a few seconds, and returns. A data
    /// directory may then be used again.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        let tasks = std::mem::take(&mut self.tasks);
        let aborts: Vec<_> = tasks.iter().map(JoinHandle::abort_handle).collect();
        let drained = tokio::time::timeout(DRAIN, async {
            futures::future::join_all(tasks).await;
            self.service.jobs.idle().await;
        })
        .await;
        if drained.is_err() {
            tracing::warn!("requests still ran {DRAIN:?} after the stop and were cut off");
            aborts.iter().for_each(tokio::task::AbortHandle::abort);
        }
        self.service.store.close();
    }
}

impl Drop for LocalBigQuery {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Forgets old row versions and expired tables from time to time, and puts small
/// segments together.
fn spawn_upkeep(service: &Arc<Service>, stop: &CancellationToken) -> JoinHandle<()> {
    let (service, stop) = (Arc::clone(service), stop.clone());
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval_at(Instant::now() + UPKEEP, UPKEEP);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            service.jobs.forget_old();
            service.read.forget_expired();
            service.quotas.forget_old();
            let service = Arc::clone(&service);
            let done = tokio::task::spawn_blocking(move || {
                service.store.expire_partitions()?;
                service.store.forget_old_versions()?;
                service.store.compact()
            });
            match done.await {
                Ok(Ok(())) => {}
                Ok(Err(e)) => tracing::error!("upkeep of the store: {e}"),
                Err(e) => tracing::error!("upkeep of the store: {e}"),
            }
        }
    })
}

/// Binds `address`, and puts the port that was picked into it.
async fn bind(name: &str, address: &mut SocketAddr, exposure: Exposure) -> io::Result<TcpListener> {
    if exposure == Exposure::Loopback && !address.ip().is_loopback() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "the {name} address {address} is not a loopback address; this server has no authentication, so listening there must be allowed explicitly"
            ),
        ));
    }
    let listener = TcpListener::bind(*address).await.map_err(|e| {
        io::Error::new(
            e.kind(),
            format!("cannot listen on the {name} address {address}: {e}"),
        )
    })?;
    *address = listener.local_addr()?;
    Ok(listener)
}

fn spawn_http<S>(
    name: &'static str,
    listener: TcpListener,
    app: S,
    stop: &CancellationToken,
) -> JoinHandle<()>
where
    S: tower::Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let stopped = stop.clone().cancelled_owned();
    tokio::spawn(async move {
        let app = ServiceExt::<Request>::into_make_service_with_connect_info::<Handle>(app);
        let served = axum::serve(WireListener(listener), app)
            .with_graceful_shutdown(stopped)
            .await;
        if let Err(e) = served {
            tracing::error!("the {name} listener ended: {e}");
        }
    })
}

fn spawn_grpc(
    listener: TcpListener,
    service: &Arc<Service>,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let stopped = stop.clone().cancelled_owned();
    let served = grpc::serve(Arc::clone(service), listener, stopped);
    tokio::spawn(async move {
        if let Err(e) = served.await {
            tracing::error!("the gRPC listener ended: {e}");
        }
    })
}
