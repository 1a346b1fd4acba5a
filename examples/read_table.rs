//! Reads a BigQuery table from Rust: start an embedded BigQuery, make a table,
//! register BigQuery with a DataFusion session, query.
//!
//! Run it with `cargo run --example read_table`. To read the service itself,
//! leave out the endpoints and name your project.

use std::error::Error;
use std::sync::Arc;

use bigquery_local::{LocalBigQuery, LocalOptions};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionContext, col, lit};
use datafusion_bigquery::options::ConnectionOptions;
use datafusion_bigquery::{BigQueryTable, Client, RawOptions, TableRef, with_bigquery};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = LocalBigQuery::start(LocalOptions::default()).await?;
    make_table(&server).await?;

    // One call registers the catalog `bq`, CREATE EXTERNAL TABLE … STORED AS
    // BIGQUERY, and SET bigquery.<option>.
    let options = RawOptions::from_pairs([
        ("project", "local"),
        ("rest_endpoint", &server.rest_endpoint()),
        ("grpc_endpoint", &server.grpc_endpoint()),
    ])?;
    let builder = SessionStateBuilder::new_with_default_features();
    let state = with_bigquery(builder, options.clone())?.build();
    let context = SessionContext::new_with_state(state);

    context
        .sql("SELECT name, population FROM bq.world.cities WHERE population > 3000000")
        .await?
        .show()
        .await?;

    // Without SQL: a table by its full name, as a DataFrame.
    let connection: ConnectionOptions =
        datafusion_bigquery::options::Options::resolve(&options)?.connection;
    let client = Client::new(&connection)?;
    let cities: TableRef = "local.world.cities".parse()?;
    let table = BigQueryTable::open(client, cities, RawOptions::new()).await?;
    context
        .read_table(Arc::new(table))?
        .filter(col("name").eq(lit("Hamburg")))?
        .select_columns(&["population"])?
        .show()
        .await?;
    Ok(())
}

/// A small table, made the way any client of BigQuery makes one.
async fn make_table(server: &LocalBigQuery) -> Result<(), Box<dyn Error>> {
    let http = reqwest::Client::new();
    let project = format!("{}/bigquery/v2/projects/local", server.rest_endpoint());
    for (path, body) in [
        (
            "datasets",
            r#"{"datasetReference": {"datasetId": "world"}}"#,
        ),
        (
            "datasets/world/tables",
            r#"{"tableReference": {"datasetId": "world", "tableId": "cities"}, "schema": {"fields": [
                {"name": "name", "type": "STRING"},
                {"name": "population", "type": "INT64"}]}}"#,
        ),
        (
            "datasets/world/tables/cities/insertAll",
            r#"{"rows": [
                {"json": {"name": "Berlin", "population": 3755251}},
                {"json": {"name": "Hamburg", "population": 1892122}},
                {"json": {"name": "Tokyo", "population": 14094034}}]}"#,
        ),
    ] {
        http.post(format!("{project}/{path}"))
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await?
            .error_for_status()?;
    }
    Ok(())
}
