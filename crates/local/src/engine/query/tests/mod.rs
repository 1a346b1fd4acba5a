//! GoogleSQL end to end, without a protocol around it.

mod ddl;
mod dml;
mod names;
mod partition_filter;
mod queries;
mod script;
mod subqueries;

use std::sync::Arc;

use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::execute;
use crate::engine::{QueryOutcome, QueryRequest};
use crate::error::{Result, ServiceError};
use crate::server::{LocalBigQuery, LocalOptions, Service};
use crate::store::DatasetRef;

/// A server and the dataset `d`, which unqualified names mean.
struct Sql {
    service: Arc<Service>,
    _server: LocalBigQuery,
}

impl Sql {
    async fn new() -> Self {
        let server = LocalBigQuery::start(LocalOptions {
            project: "p".into(),
            ..LocalOptions::default()
        })
        .await
        .unwrap();
        let sql = Self {
            service: Arc::clone(server.service()),
            _server: server,
        };
        sql.run("CREATE SCHEMA d").await.unwrap();
        sql
    }

    fn request(&self, sql: &str) -> QueryRequest {
        QueryRequest {
            project: "p".into(),
            default_dataset: Some(DatasetRef::new("p", "d")),
            sql: sql.into(),
            parameters: Vec::new(),
            dry_run: false,
            location: "US".into(),
            cancel: tokio_util::sync::CancellationToken::new(),
            applying: None,
        }
    }

    async fn run(&self, sql: &str) -> Result<QueryOutcome> {
        execute(&self.service, self.request(sql))
            .await?
            .to_the_end()
    }

    /// The rows of the last statement, cells between bars.
    async fn try_rows(&self, sql: &str) -> Result<Vec<String>> {
        let outcome = self.run(sql).await?;
        let last = outcome.statements.last().unwrap();
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        for batch in &last.batches {
            let columns: Vec<_> = batch
                .columns()
                .iter()
                .map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap())
                .collect();
            for i in 0..batch.num_rows() {
                let cells: Vec<String> = columns.iter().map(|c| c.value(i).to_string()).collect();
                rows.push(cells.join("|"));
            }
        }
        Ok(rows)
    }

    #[track_caller]
    fn check(found: Result<Vec<String>>, sql: &str, want: &[&str]) {
        match found {
            Ok(rows) => assert_eq!(rows, want, "{sql}"),
            Err(error) => panic!("{sql}: {error}"),
        }
    }

    async fn rows(&self, sql: &str, want: &[&str]) {
        Self::check(self.try_rows(sql).await, sql, want);
    }

    async fn error(&self, sql: &str) -> ServiceError {
        match self.try_rows(sql).await {
            Ok(rows) => panic!("{sql} answered {rows:?}"),
            Err(error) => error,
        }
    }

    /// The statement fails with exactly this message.
    async fn fails(&self, sql: &str, message: &str) {
        assert_eq!(self.error(sql).await.message, message, "{sql}");
    }

    /// Names and types of the result's columns.
    async fn columns(&self, sql: &str) -> Vec<String> {
        let outcome = self.run(sql).await.unwrap();
        let schema = outcome.statements.last().unwrap().schema.clone().unwrap();
        schema
            .fields
            .iter()
            .map(|f| format!("{} {}", f.name, f.sql_type()))
            .collect()
    }
}
