//! Looking after the table that changes go to, before the first one is sent.

use tokio::sync::OnceCell;

use super::{key, staleness};
use crate::client::Client;
use crate::client::rest::job_model::{Job, JobState};
use crate::client::rest::jobs::{Inserted, QueryParameter, QueryParameters, QueryRequest, failed};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{CdcOptions, Staleness, TableReconciliation};
use crate::types::TableRef;

/// What a table has to be like.
#[derive(Debug)]
pub(super) struct Upkeep {
    pub(super) client: Client,
    pub(super) table: TableRef,
    pub(super) key: Vec<String>,
    pub(super) options: CdcOptions,
    pub(super) location: Option<String>,
    pub(super) labels: Vec<(String, String)>,
    pub(super) done: OnceCell<()>,
}

impl Upkeep {
    /// Makes sure once that the table has its key and its staleness. Every step can be
    /// repeated, so one that a crash interrupted is completed by the next write.
    pub(super) async fn done(&self) -> Result<()> {
        let checked = self.done.get_or_try_init(|| self.check()).await;
        checked
            .map_err(|error| error.with_context(format!("preparing {} for changes", self.table)))?;
        Ok(())
    }

    async fn check(&self) -> Result<()> {
        let live = self.client.get_table(&self.table).await?.primary_key;
        if live.is_empty() {
            if self.options.reconciliation == TableReconciliation::VerifyOnly {
                return Err(Error::new(
                    ErrorKind::FailedPrecondition,
                    format!(
                        "it has no primary key, and ({}) is declared: set option \
                         'sink.cdc.table_reconciliation' to 'reconcile' to add it",
                        self.key.join(", ")
                    ),
                ));
            }
            let columns: Vec<_> = self
                .key
                .iter()
                .map(|c| staleness::in_backquotes(c))
                .collect();
            self.run(&format!(
                "ALTER TABLE {} ADD PRIMARY KEY ({}) NOT ENFORCED",
                staleness::quoted(&self.table),
                columns.join(", ")
            ))
            .await?;
        }
        let live = match live.is_empty() {
            true => self.client.get_table(&self.table).await?.primary_key,
            false => live,
        };
        if !key::same(&live, &self.key) {
            return Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "its primary key is ({}) and was ({}) when the statement was planned: declare \
                     the table again",
                    live.join(", "),
                    self.key.join(", ")
                ),
            ));
        }
        self.check_staleness().await
    }

    async fn check_staleness(&self) -> Result<()> {
        let wanted = self.options.staleness;
        if wanted == Staleness::Unmanaged {
            return Ok(());
        }
        let shown = self.shown_staleness().await?;
        if staleness::is(wanted, shown.as_deref()) {
            return Ok(());
        }
        let differs = |shown: Option<String>, what: &str| {
            Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "its max_staleness is {} and the options say {}: {what}",
                    shown.as_deref().unwrap_or("none"),
                    staleness::words(wanted)
                ),
            ))
        };
        match (
            self.options.reconciliation,
            staleness::statement(&self.table, wanted),
        ) {
            (TableReconciliation::Reconcile, Some(statement)) => self.run(&statement).await?,
            _ => {
                return differs(
                    shown,
                    "set it in BigQuery, or set option 'sink.cdc.table_reconciliation' to \
                     'reconcile'",
                );
            }
        }
        let shown = self.shown_staleness().await?;
        match staleness::is(wanted, shown.as_deref()) {
            true => Ok(()),
            false => differs(
                shown,
                "it was set and is not there; another writer may set it too",
            ),
        }
    }

    async fn shown_staleness(&self) -> Result<Option<String>> {
        let dataset = format!(
            "{}.{}",
            staleness::in_backquotes(&self.table.project),
            staleness::in_backquotes(&self.table.dataset)
        );
        let name = QueryParameter {
            parameter_type: serde_json::json!({"type": "STRING"}),
            parameter_value: serde_json::json!({"value": self.table.table}),
        };
        let job = self
            .job(QueryRequest {
                parameters: QueryParameters::Named(vec![("name".to_string(), name)]),
                ..self.request(&format!(
                    "SELECT option_value FROM {dataset}.INFORMATION_SCHEMA.TABLE_OPTIONS \
                     WHERE table_name = @name AND option_name = 'max_staleness'"
                ))
            })
            .await?;
        let page = self.client.result_page(&job.reference, None).await?;
        match page.rows.first() {
            None => Ok(None),
            Some(row) => match row["f"][0]["v"].as_str() {
                Some(text) => Ok(Some(text.to_string())),
                None => Err(Error::data("the option max_staleness has no value")),
            },
        }
    }

    async fn run(&self, statement: &str) -> Result<()> {
        tracing::info!(table = %self.table, statement, "preparing a table for changes");
        self.job(self.request(statement)).await.map(drop)
    }

    fn request(&self, sql: &str) -> QueryRequest {
        QueryRequest {
            project: self.client.billing_project(&self.table).to_string(),
            sql: sql.to_string(),
            parameters: QueryParameters::None,
            location: self.location.clone(),
            destination: None,
            labels: self.labels.clone(),
        }
    }

    async fn job(&self, query: QueryRequest) -> Result<Job> {
        let id = format!("datafusion_cdc_{:032x}", rand::random::<u128>());
        let (Inserted::New(job) | Inserted::Existing(job)) =
            self.client.insert_query(&query, &id).await?;
        let job = self.client.wait_for_job(job).await?;
        match &job.state {
            JobState::Failed(failure) => Err(failed(&job.reference, failure)),
            JobState::Running | JobState::Succeeded => Ok(job),
        }
    }
}
