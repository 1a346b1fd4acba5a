//! The statements by which a table is looked after. REST drops `max_staleness`, so it is
//! set and read by query jobs.

use super::staleness;
use crate::client::Client;
use crate::client::rest::job_model::{Job, JobState};
use crate::client::rest::jobs::{Inserted, QueryParameter, QueryParameters, QueryRequest, failed};
use crate::error::{Error, Result};
use crate::options::{Options, Staleness};
use crate::types::TableRef;

/// Runs statements about one table.
#[derive(Debug)]
pub(super) struct Statements {
    client: Client,
    table: TableRef,
    location: Option<String>,
    labels: Vec<(String, String)>,
}

impl Statements {
    pub(super) fn new(client: Client, table: TableRef, options: &Options) -> Self {
        Self {
            client,
            table,
            location: options.query.location.clone(),
            labels: options.query.labels.clone(),
        }
    }

    /// Gives the table a primary key. It fails where there is one.
    pub(super) async fn add_key(&self, key: &[String]) -> Result<()> {
        let columns: Vec<_> = key.iter().map(|c| staleness::in_backquotes(c)).collect();
        self.run(&format!(
            "ALTER TABLE {} ADD PRIMARY KEY ({}) NOT ENFORCED",
            staleness::quoted(&self.table),
            columns.join(", ")
        ))
        .await
    }

    /// Gives the table this staleness, if it is to be given one.
    pub(super) async fn set_staleness(&self, wanted: Staleness) -> Result<()> {
        match staleness::statement(&self.table, wanted) {
            Some(statement) => self.run(&statement).await,
            None => Ok(()),
        }
    }

    /// The table's staleness as the service shows it.
    pub(super) async fn shown_staleness(&self) -> Result<Option<String>> {
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
