//! A query's rows over REST, for callers who may run queries and not open read
//! sessions. Slower than the Storage Read API by an order of magnitude, so it is
//! for small results and says so where it is not.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};

use super::job::Finished;
use crate::client::Client;
use crate::client::rest::rows;
use crate::error::{Error, Result};
use crate::scan::ReadSpec;

/// Results of more rows than this are worth a word about the missing permission.
const MANY_ROWS: u64 = 100_000;

/// Pages of a result, as far as they were read.
#[derive(Debug, Default)]
pub(super) struct Pages {
    token: Option<String>,
    ended: bool,
    rows: u64,
    total: Option<u64>,
}

/// Whether rows over REST are what the plan expects: conditions that nobody
/// evaluates again can only be sent with a read session.
pub(super) fn suffices(spec: &ReadSpec) -> bool {
    let restriction = &spec.restriction;
    restriction.text().is_empty()
        || restriction
            .text_without_generated()
            .is_some_and(|rest| rest.is_empty())
}

impl Pages {
    /// The rows of the next page, with the columns of `schema`.
    pub(super) async fn next(
        &mut self,
        client: &Client,
        finished: &Finished,
        schema: &SchemaRef,
    ) -> Result<Option<RecordBatch>> {
        if self.ended {
            return Ok(None);
        }
        let job = &finished.job.reference;
        let page = client.result_page(job, self.token.as_deref()).await?;
        if self.total.is_none() {
            self.total = page.total_rows;
            if let Some(total) = page.total_rows.filter(|total| *total > MANY_ROWS) {
                tracing::warn!(
                    %job,
                    total,
                    "a large result is read over REST, because the caller may not open read \
                     sessions: role roles/bigquery.readSessionUser makes it faster"
                );
            }
        }
        let batch = rows::decode(&page.rows, &page.schema, schema)?;
        self.rows += u64::try_from(batch.num_rows()).unwrap_or(u64::MAX);
        if page.next.is_some() && page.next == self.token {
            return Err(Error::data("the service answers the same page for ever"));
        }
        self.ended = page.next.is_none();
        self.token = page.next;
        if self.ended && self.total.is_some_and(|total| total != self.rows) {
            return Err(Error::data(format!(
                "job {job} has {} rows and gave {}",
                self.total.unwrap_or_default(),
                self.rows
            )));
        }
        Ok(Some(batch))
    }
}

/// The schema of a result that carries some columns under other names.
pub(super) fn renamed(
    schema: &SchemaRef,
    name: impl Fn(&str) -> Option<&'static str>,
) -> SchemaRef {
    let fields: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| match name(field.name()) {
            Some(name) => Arc::new(field.as_ref().clone().with_name(name)),
            None => Arc::clone(field),
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
