//! A sink whose rows are changes.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use tokio::sync::OnceCell;

use super::key;
use super::rows::ChangeRowsPlan;
use super::upkeep::Upkeep;
use crate::client::Client;
use crate::client::rest::model::Table;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::sink::{BigQuerySink, Places, PlannedChanges, Prepared, RowChanges};
use crate::types::TableRef;

/// Changes of one table.
#[derive(Debug)]
struct Changes {
    plan: ChangeRowsPlan,
    upkeep: Upkeep,
}

#[async_trait]
impl RowChanges for Changes {
    async fn ready(&self) -> Result<()> {
        self.upkeep.done().await
    }

    fn prepare(&self, batch: &RecordBatch) -> Result<Prepared> {
        self.plan.prepare(batch)
    }

    fn key(&self) -> &[String] {
        &self.plan.key
    }

    fn places(&self) -> Places {
        self.plan.places()
    }
}

/// The sink for changes of `table` in batches of `schema`: columns of the table, the
/// whole key among them, and the pseudocolumns `_CHANGE_TYPE` and
/// `_CHANGE_SEQUENCE_NUMBER`, if any. `declared` is the key that is declared, none when
/// it is the table's own. Nothing is sent yet.
///
/// # Errors
/// [`Configuration`](crate::ErrorKind::Configuration) when the options are not of
/// changes; [`InvalidArgument`](crate::ErrorKind::InvalidArgument) and
/// [`FailedPrecondition`](crate::ErrorKind::FailedPrecondition) for a key or columns
/// that do not fit.
pub fn change_sink(
    client: Client,
    table: TableRef,
    found: &Table,
    declared: &[String],
    options: &Options,
    schema: SchemaRef,
) -> Result<BigQuerySink> {
    let Some(cdc) = &options.sink.cdc else {
        return Err(Error::configuration(format!(
            "writing changes of {table} needs option 'sink.cdc.enabled' to be true"
        )));
    };
    let key = key::agreed(&table, &found.schema, declared, &found.primary_key)?;
    let builder = BigQuerySink::builder(client.clone(), table.clone());
    let upkeep = Upkeep {
        client,
        table,
        key,
        options: cdc.clone(),
        location: options.query.location.clone(),
        labels: options.query.labels.clone(),
        done: OnceCell::new(),
    };
    builder
        .with_options(options.sink.clone())
        .build_changes(found, schema, |given| {
            let plan = ChangeRowsPlan::new(&upkeep.table, &found.schema, &upkeep.key, given)?;
            Ok(PlannedChanges {
                written: Arc::clone(&plan.written),
                columns: plan.columns.clone(),
                changes: Arc::new(Changes { plan, upkeep }),
            })
        })
}
