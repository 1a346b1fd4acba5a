//! The wire: requests to BigQuery, and what comes of them.
//!
//! [`Client`] is the whole of it. [`rest`] talks to the REST interface,
//! [`read`] to the Storage Read API, [`write`] to the Storage Write API, [`retry`]
//! decides what is tried again; [`staging`] writes files for load jobs.
//! Nothing here knows DataFusion.

pub(crate) mod background;
pub(crate) mod cancel;
mod endpoint;
mod excerpt;
pub(crate) mod pubsub;
pub mod read;
pub mod rest;
pub mod retry;
pub mod staging;
pub mod write;

pub use background::finish_background_work;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::stream::BoxStream;
use object_store::{ObjectStore, RetryConfig};

use crate::auth::Credentials;
use crate::error::Result;
use crate::options::{ConnectionOptions, CredentialsOptions, StagingPath, StreamOptions};
use crate::types::{DatasetRef, TableRef};
use read::Connections;
use read::session::{ReadSession, ReadSessionRequest};
use read::stream::{ReadStreamOptions, StreamBatch};
use rest::Transport;
use rest::bulk_jobs::{BulkJob, BulkRequest};
use rest::job_model::{DryRun, Job, JobRef, JobState, ResultPage};
use rest::jobs::{Inserted, QueryParameters, QueryRequest};
use rest::model::{DatasetListItem, Table, TableListItem};
use rest::temporary::{KnownRows, TableDefinition};
use retry::{Backoff, Clock, Pace, SystemClock};
use staging::Staging;
use write::append::{AppendStream, AppendTarget, Denied};
use write::streams::{CreatedStream, Flushed, StreamKind};
use write::{Access, WriteCounters};

/// A client of BigQuery; cloning is cheap and shares connections and tokens.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    options: ConnectionOptions,
    rest: Transport,
    connections: Connections,
    /// Apart from those that read, so that neither waits for the other's bytes.
    write_connections: Connections,
    credentials: Credentials,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// A client that reaches the service as the options say. Nothing is
    /// connected, and no credentials are read, before the first request.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Configuration`] when no connection can be
    /// set up for an endpoint.
    pub fn new(options: &ConnectionOptions) -> Result<Self> {
        Client::with_clock(options, Arc::new(SystemClock))
    }

    /// As [`Client::new`], with another clock for the waits between attempts.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn with_clock(options: &ConnectionOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let credentials =
            Credentials::new(options.credentials.clone(), options.billing_project.clone());
        Ok(Client(Arc::new(Inner {
            rest: Transport::new(
                options.rest_endpoint.clone(),
                credentials.clone(),
                Arc::clone(&clock),
            )?,
            connections: Connections::new(options.grpc_endpoint.clone())?,
            write_connections: Connections::new(options.grpc_endpoint.clone())?,
            options: options.clone(),
            credentials,
            clock,
        })))
    }

    /// A client of the same service as another identity.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn with_credentials(&self, credentials: CredentialsOptions) -> Result<Self> {
        let options = ConnectionOptions {
            credentials,
            ..self.0.options.clone()
        };
        Client::with_clock(&options, Arc::clone(&self.0.clock))
    }

    /// Time, as this client has it.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// The options that the client was made from.
    pub fn options(&self) -> &ConnectionOptions {
        &self.0.options
    }

    /// The project that pays for reading `table`.
    pub fn billing_project<'a>(&'a self, table: &'a TableRef) -> &'a str {
        self.0
            .options
            .billing_project
            .as_deref()
            .unwrap_or(&table.project)
    }

    /// What the service says of a table, freshly asked.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::NotFound`] when the table, its dataset or
    /// its project does not exist; other kinds when the service cannot be
    /// asked or refuses to say.
    pub async fn get_table(&self, table: &TableRef) -> Result<Table> {
        if !table.is_wildcard() {
            return self.0.rest.get_table(table).await;
        }
        let query = QueryRequest {
            project: self.billing_project(table).to_string(),
            sql: format!("SELECT * FROM `{table}`"),
            parameters: QueryParameters::None,
            location: self.0.options.location.clone(),
            destination: None,
            labels: Vec::new(),
        };
        let described = self.0.rest.dry_run(&query).await;
        described
            .map(|described| Table::of_wildcard(table.clone(), described))
            .map_err(|error| error.with_context(format!("tables {table}")))
    }

    /// The datasets of a project that the caller may see; every page of them.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::NotFound`] when the project does not exist.
    pub async fn list_datasets(&self, project: &str) -> Result<Vec<DatasetListItem>> {
        self.0.rest.list_datasets(project).await
    }

    /// The tables and views of a dataset; every page of them.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::NotFound`] when the dataset does not exist.
    pub async fn list_tables(&self, dataset: &DatasetRef) -> Result<Vec<TableListItem>> {
        self.0.rest.list_tables(dataset).await
    }

    /// What a query would read and answer, and what kind of statement it is,
    /// without running it. Nothing is billed.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::InvalidArgument`] when the query is wrong;
    /// [`crate::error::ErrorKind::NotFound`] when something in it does not exist.
    pub async fn dry_run(&self, query: &QueryRequest) -> Result<DryRun> {
        self.0.rest.dry_run(query).await
    }

    /// Starts a query as the job `id`, or finds the job that has that id
    /// already: in a project and region an id is used once.
    ///
    /// # Errors
    /// As [`dry_run`](Self::dry_run). A job that ran and failed is no error
    /// here.
    pub async fn insert_query(&self, query: &QueryRequest, id: &str) -> Result<Inserted> {
        self.0.rest.insert_query(query, id).await
    }

    /// A job as it stands.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::NotFound`] when there is none in that region.
    pub async fn get_job(&self, job: &JobRef) -> Result<Job> {
        self.0.rest.get_job(job).await
    }

    /// Waits until a job is done.
    ///
    /// # Errors
    /// What made the job fail, and whatever keeps the service from answering.
    pub async fn wait_for_job(&self, job: Job) -> Result<Job> {
        let job = self.0.rest.wait_for_job(job).await?;
        match &job.state {
            JobState::Failed(failure) => Err(rest::jobs::failed(&job.reference, failure)),
            JobState::Succeeded | JobState::Running => Ok(job),
        }
    }

    /// Asks the service to end a job.
    ///
    /// # Errors
    /// Whatever keeps the service from answering.
    pub async fn cancel_job(&self, job: &JobRef) -> Result<()> {
        self.0.rest.cancel_job(job).await
    }

    /// A page of the rows of a finished query over REST.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::NotFound`] when the result is gone.
    pub async fn result_page(&self, job: &JobRef, token: Option<&str>) -> Result<ResultPage> {
        self.0.rest.result_page(job, token).await
    }

    /// Makes an empty table without columns that the service deletes at
    /// `expires`, unless there is a table of that name.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::NotFound`] when its dataset does not exist.
    pub async fn create_expiring_table(
        &self,
        table: &TableRef,
        expires: DateTime<Utc>,
    ) -> Result<()> {
        self.0.rest.create_expiring_table(table, expires).await
    }

    /// Sets when the service deletes a table.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::NotFound`] when it does not exist.
    pub async fn expire_table(&self, table: &TableRef, expires: DateTime<Utc>) -> Result<()> {
        self.0.rest.expire_table(table, expires).await
    }

    /// Inserts a load, copy or writing query job, or finds the job that has its id
    /// already: in a project and region an id is used once.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::FailedPrecondition`] when the id is of a job that
    /// does something else; whatever makes the service refuse the job. A job that ran
    /// and failed is no error here.
    pub async fn insert_bulk(&self, request: &BulkRequest) -> Result<BulkJob> {
        self.0.rest.insert_bulk(request).await
    }

    /// Waits until a job is done, looking at it after `first_wait` and then less and
    /// less often up to `longest_wait`. A job that failed is no error here.
    ///
    /// # Errors
    /// Whatever keeps the service from answering, again and again.
    pub async fn wait_for_bulk(
        &self,
        job: BulkJob,
        first_wait: Duration,
        longest_wait: Duration,
    ) -> Result<BulkJob> {
        self.0
            .rest
            .wait_for_bulk(job, first_wait, longest_wait)
            .await
    }

    /// The load, copy or query job of this id; `None` when there is none.
    ///
    /// # Errors
    /// Whatever keeps the service from answering.
    pub async fn find_bulk(&self, job: &JobRef) -> Result<Option<BulkJob>> {
        self.0.rest.find_bulk(job).await
    }

    /// What a table says of itself, freshly asked.
    ///
    /// # Errors
    /// As [`get_table`](Self::get_table).
    pub async fn table_definition(&self, table: &TableRef) -> Result<TableDefinition> {
        self.0.rest.table_definition(table).await
    }

    /// Makes an empty table with the columns, partitioning, clustering and
    /// constraints of another, which the service deletes at `expires`; one that
    /// exists stays as it is.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::NotFound`] when its dataset does not exist.
    pub async fn create_temporary(
        &self,
        table: &TableRef,
        like: &TableDefinition,
        expires: DateTime<Utc>,
    ) -> Result<()> {
        self.0.rest.create_temporary(table, like, expires).await
    }

    /// How many rows a table is known to have.
    ///
    /// # Errors
    /// Whatever keeps the service from answering; that there is no such table is an
    /// answer.
    pub async fn known_rows(&self, table: &TableRef) -> Result<KnownRows> {
        self.0.rest.known_rows(table).await
    }

    /// Deletes a table, if it exists.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::PermissionDenied`] when the identity may not, and
    /// whatever keeps the service from answering.
    pub async fn delete_table(&self, table: &TableRef) -> Result<()> {
        self.0.rest.delete_table(table).await
    }

    /// Decides when work whose job failed for a reason of the service's own is tried
    /// under another id.
    pub fn job_backoff(&self) -> Backoff {
        let policy = endpoint::request_policy(&self.0.options.rest_endpoint);
        Backoff::new(policy, Arc::clone(&self.0.clock))
    }

    /// Decides how long to wait between looks at something that takes its time.
    pub fn pace(&self, first: Duration, longest: Duration) -> Pace {
        Pace::new(first, longest, Arc::clone(&self.0.clock))
    }

    /// Files below a place in Cloud Storage, which an option of the name `option` says.
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Internal`] when no client can be set up on this
    /// machine.
    pub fn staging(&self, path: &StagingPath, option: &'static str) -> Result<Staging> {
        let inner = &self.0;
        Staging::new(
            path,
            option,
            &inner.options.storage_endpoint,
            &inner.credentials,
            inner.options.billing_project.as_deref(),
            Arc::clone(&inner.clock),
        )
    }

    /// The bucket of `path`, for what is neither staged nor a letter.
    pub(crate) fn bucket(&self, path: &StagingPath) -> Result<Arc<dyn ObjectStore>> {
        let inner = &self.0;
        let bucket = staging::bucket(
            path,
            &inner.options.storage_endpoint,
            &inner.credentials,
            inner.options.billing_project.as_deref(),
            RetryConfig::default(),
        )?;
        Ok(Arc::new(bucket))
    }

    /// Opens a read session: a snapshot of the table, cut into streams.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::InvalidArgument`] when the service refuses
    /// the request (an unknown column, a restriction it does not take, a kind
    /// of table that cannot be read); [`crate::error::ErrorKind::NotFound`] or
    /// [`crate::error::ErrorKind::PermissionDenied`] when the table does not
    /// exist or may not be read, which the service does not always tell apart.
    pub async fn create_read_session(&self, request: &ReadSessionRequest) -> Result<ReadSession> {
        let inner = &self.0;
        read::open_session(
            &inner.connections,
            &inner.credentials,
            &inner.clock,
            self.billing_project(&request.table),
            inner.options.trace_id.as_deref(),
            request,
        )
        .await
    }

    /// Reads the stream `name` of a session from row `offset` (the number of
    /// its rows read before; 0 for all) to its end. Broken calls are made
    /// again where they stopped: every row arrives once.
    ///
    /// Nothing is asked before the first poll, and dropping the stream ends
    /// the call. After an error the stream is over. The future behind a poll
    /// needs a Tokio runtime.
    ///
    /// # Errors
    /// Items are errors when no further attempt helps:
    /// [`crate::error::ErrorKind::SessionExpired`] six hours after the session
    /// began, [`crate::error::ErrorKind::PermissionDenied`],
    /// [`crate::error::ErrorKind::Data`] for responses that cannot be
    /// understood, and whatever the last of the allowed attempts met.
    pub fn read_stream(
        &self,
        session: &ReadSession,
        name: &str,
        offset: u64,
        options: ReadStreamOptions,
    ) -> BoxStream<'static, Result<StreamBatch>> {
        let inner = &self.0;
        read::open_stream(
            &inner.connections,
            &inner.credentials,
            &inner.clock,
            session,
            name,
            offset,
            options,
        )
    }

    /// Opens the default stream of a table for appending. Nothing is sent before
    /// the first request. Needs a Tokio runtime.
    pub fn default_stream<T: Send + 'static>(
        &self,
        target: AppendTarget,
        options: &StreamOptions,
        counters: Arc<WriteCounters>,
    ) -> AppendStream<T> {
        self.write_access()
            .default_stream(target, options, counters)
    }

    /// Opens a stream for appending that [`create_write_stream`] has made. One
    /// writer at a time may append to it. Nothing is sent before the first request.
    /// Needs a Tokio runtime.
    ///
    /// [`create_write_stream`]: Self::create_write_stream
    pub fn created_stream<T: Send + 'static>(
        &self,
        stream: CreatedStream,
        target: AppendTarget,
        options: &StreamOptions,
        counters: Arc<WriteCounters>,
    ) -> AppendStream<T> {
        self.write_access()
            .created_stream(stream, target, options, counters)
    }

    /// Makes a write stream of a table and answers its name,
    /// `projects/…/datasets/…/tables/…/streams/…`. The service has no call that
    /// removes one; it forgets those that are not used for days.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::PermissionDenied`] when the table does not exist
    /// or may not be written to, which the service does not tell apart.
    pub async fn create_write_stream(
        &self,
        table: &TableRef,
        kind: StreamKind,
        denied: Denied,
    ) -> Result<String> {
        self.write_access().create(table, kind, denied).await
    }

    /// Ends a write stream: nothing more can be appended to it. Answers how many
    /// rows it has. Ending it again changes nothing.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::InvalidArgument`] or
    /// [`crate::error::ErrorKind::NotFound`] when there is no such stream.
    pub async fn finalize_write_stream(&self, stream: &str) -> Result<i64> {
        self.write_access().finalize(stream).await
    }

    /// Makes the rows of a buffered stream visible up to `offset`, inclusive.
    /// Flushing again changes nothing.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::InvalidArgument`] when the stream has not so many
    /// rows, is finalized, or does not exist.
    pub async fn flush_rows(&self, stream: &str, offset: i64, denied: Denied) -> Result<Flushed> {
        self.write_access().flush(stream, offset, denied).await
    }

    /// Makes all rows of pending streams of a table visible at once. The streams
    /// have to be finalized. Committing the same streams again changes nothing.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::FailedPrecondition`] when the service refuses one
    /// of them, or some of them were committed before and others not; then nothing
    /// is committed by this call.
    pub async fn batch_commit_write_streams(
        &self,
        table: &TableRef,
        streams: &[String],
    ) -> Result<()> {
        self.write_access().batch_commit(table, streams).await
    }

    fn write_access(&self) -> Access<'_> {
        let inner = &self.0;
        Access {
            connections: &inner.write_connections,
            credentials: &inner.credentials,
            clock: &inner.clock,
            trace_id: inner.options.trace_id.as_deref(),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("rest_endpoint", &self.0.options.rest_endpoint)
            .field("grpc_endpoint", &self.0.options.grpc_endpoint)
            .field("credentials", &self.0.credentials)
            .finish_non_exhaustive()
    }
}
