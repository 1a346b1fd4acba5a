//! An embedded BigQuery, and a session of DataFusion that writes to it.

use std::error::Error;

use bigquery_local::{LocalBigQuery, LocalOptions};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion_bigquery::{RawOptions, with_bigquery};

/// Where the table `customers` of a shop is replicated to.
pub(crate) struct Replica {
    context: SessionContext,
    // It ends when it is dropped.
    _server: LocalBigQuery,
}

impl Replica {
    /// Starts BigQuery with an empty dataset `shop`, and declares the table of changes.
    /// The first of them creates the table itself.
    pub(crate) async fn start() -> Result<Self, Box<dyn Error>> {
        let server = LocalBigQuery::start(LocalOptions::default()).await?;
        let datasets = format!(
            "{}/bigquery/v2/projects/local/datasets",
            server.rest_endpoint()
        );
        reqwest::Client::new()
            .post(datasets)
            .header("content-type", "application/json")
            .body(r#"{"datasetReference": {"datasetId": "shop"}}"#)
            .send()
            .await?
            .error_for_status()?;

        let options = RawOptions::from_pairs([
            ("project", "local"),
            ("rest_endpoint", &server.rest_endpoint()),
            ("grpc_endpoint", &server.grpc_endpoint()),
        ])?;
        let builder = SessionStateBuilder::new_with_default_features();
        let state = with_bigquery(builder, options)?.build();
        let replica = Self {
            context: SessionContext::new_with_state(state),
            _server: server,
        };
        replica
            .run(
                "CREATE EXTERNAL TABLE changes (
                   id BIGINT, name VARCHAR, city VARCHAR, balance DECIMAL(38, 9),
                   PRIMARY KEY (id)
                 ) STORED AS BIGQUERY LOCATION 'local.shop.customers'
                 OPTIONS ('sink.cdc.enabled' 'true')",
            )
            .await?;
        Ok(replica)
    }

    /// Runs a statement to its end.
    pub(crate) async fn run(&self, sql: &str) -> Result<(), Box<dyn Error>> {
        self.context.sql(sql).await?.collect().await?;
        Ok(())
    }

    /// Writes the changes of a file of Debezium's envelopes, each at the place that
    /// `sequence`, an expression over its `source`, gives it in the order of changes.
    ///
    /// Their order in the file does not matter, and neither does how often they are
    /// written: BigQuery keeps the change of each key with the greatest sequence number.
    pub(crate) async fn apply(&self, file: &str, sequence: &str) -> Result<(), Box<dyn Error>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/cdc");
        self.run(&format!(
            "INSERT INTO changes
               (id, name, city, balance, _CHANGE_TYPE, _CHANGE_SEQUENCE_NUMBER)
             SELECT coalesce(after['id'], before['id']),
               after['name'], after['city'], after['balance'],
               CASE op WHEN 'd' THEN 'DELETE' ELSE 'UPSERT' END, {sequence}
             FROM debezium_envelopes('{folder}/{file}')"
        ))
        .await
    }

    /// What the replica holds.
    pub(crate) async fn customers(&self) -> Result<DataFrame, Box<dyn Error>> {
        let sql = "SELECT id, name, city, balance FROM bq.shop.customers ORDER BY id";
        Ok(self.context.sql(sql).await?)
    }
}
