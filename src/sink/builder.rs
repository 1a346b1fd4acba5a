//! Checks tables, a schema and options, and makes a sink of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::ScalarValue;

use super::arrival::{Arrival, ExtraField, ExtraSource};
use super::budget::Budget;
use super::changes::ChangedTable;
use super::destination::{
    Destinations, check_writable, denied, new_columns, not_created, plan, wanted_changes,
};
use super::failure::FailureHandler;
use super::load::LoadLimits;
use super::protocol::{BigQuerySink, PlannedChange};
use super::route::{DestinationResolver, Pattern, Route};
use super::writer::SinkShared;
use crate::client::Client;
use crate::client::rest::model::Table;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{
    CreateDisposition, CredentialsOptions, SinkOptions, WriteEffect, WriteMethod,
};
use crate::types::{TableRef, evolve};

/// Makes a [`BigQuerySink`].
#[derive(Debug, Clone)]
pub struct BigQuerySinkBuilder {
    client: Client,
    target: Target,
    options: SinkOptions,
    extra: Vec<ExtraField>,
    new_columns: Option<SchemaRef>,
    credentials: Option<CredentialsOptions>,
    load_limits: LoadLimits,
}

/// Where rows go, unless a pattern says otherwise.
#[derive(Debug, Clone)]
enum Target {
    Table(TableRef),
    Resolver(Arc<dyn DestinationResolver>),
}

impl BigQuerySinkBuilder {
    pub(super) fn to_table(client: Client, table: TableRef) -> Self {
        Self::new(client, Target::Table(table))
    }

    pub(super) fn to_resolved(client: Client, resolver: Arc<dyn DestinationResolver>) -> Self {
        Self::new(client, Target::Resolver(resolver))
    }

    fn new(client: Client, target: Target) -> Self {
        Self {
            client,
            target,
            options: SinkOptions::default(),
            extra: Vec::new(),
            new_columns: None,
            credentials: None,
            load_limits: LoadLimits::default(),
        }
    }

    /// How to write, in place of the defaults.
    #[must_use]
    pub fn with_options(mut self, options: SinkOptions) -> Self {
        self.options = options;
        self
    }

    /// As whom to write, where that is not the client's identity.
    #[must_use]
    pub fn with_credentials(mut self, credentials: CredentialsOptions) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// What the service allows of load jobs, where that is less than usual.
    #[must_use]
    pub fn with_load_limits(mut self, limits: LoadLimits) -> Self {
        self.load_limits = limits;
        self
    }

    /// Adds a column with the same value in every row, after those that are given.
    #[must_use]
    pub fn with_constant_field(mut self, field: FieldRef, value: ScalarValue) -> Self {
        let source = ExtraSource::Constant(value);
        self.extra.push(ExtraField { field, source });
        self
    }

    /// Adds a column whose values are computed from each batch, after those that are
    /// given. The function sees the columns that were added before it. It may be called
    /// from several tasks at once; an error of it ends the write.
    #[must_use]
    pub fn with_computed_field<F>(mut self, field: FieldRef, compute: F) -> Self
    where
        F: Fn(&RecordBatch) -> Result<ArrayRef> + Send + Sync + 'static,
    {
        let source = ExtraSource::Computed(Arc::new(compute));
        self.extra.push(ExtraField { field, source });
        self
    }

    /// The columns of tables that are created, where they are more than those of the
    /// rows, and the types of columns that are added to tables.
    #[must_use]
    pub fn with_new_table_columns(mut self, columns: SchemaRef) -> Self {
        self.new_columns = Some(columns);
        self
    }

    /// The sink for batches of `schema`, after a look at the live table if there is
    /// one for all rows. Columns are matched by name without regard to case; those of
    /// the table that `schema` lacks are left out, and [`SinkOptions::missing_value`]
    /// says what they get. Nothing is created or changed before the first row.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is no such table and none is to be created;
    /// [`ErrorKind::Unsupported`] when it is a view or lies elsewhere;
    /// [`ErrorKind::InvalidArgument`] naming the columns that do not fit, or that
    /// BigQuery cannot hold; [`ErrorKind::Configuration`] when an option does not go
    /// with the others or with the columns.
    pub async fn build(self, schema: SchemaRef) -> Result<BigQuerySink> {
        let Some(table) = self.only_table().cloned() else {
            return self.build_planned(None, schema);
        };
        match self.client.get_table(&table).await {
            Ok(found) => self.build_for(Arc::new(found), schema),
            Err(missing) if missing.kind() == ErrorKind::NotFound => {
                self.build_missing(missing, schema)
            }
            Err(error) => Err(error),
        }
    }

    /// As [`build`](Self::build), for a table that was looked at already.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_for(self, live: Arc<Table>, schema: SchemaRef) -> Result<BigQuerySink> {
        if self.only_table().is_some() {
            self.build_planned(Some(live), schema)
        } else {
            self.build_planned(None, schema)
        }
    }

    /// As [`build`](Self::build), for a table that was found to be `missing`.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_missing(self, missing: Error, schema: SchemaRef) -> Result<BigQuerySink> {
        if let Some(table) = self.only_table()
            && self.options.create_disposition == CreateDisposition::CreateNever
        {
            let disposition = self.options.create_disposition;
            return Err(not_created(table, disposition, missing));
        }
        self.build_planned(None, schema)
    }

    /// A sink for batches of `given` whose rows are changes of the one table that they go
    /// to, which is live or is going to be like `planned`.
    ///
    /// # Errors
    /// As [`build`](Self::build), and when rows go to several tables.
    pub(crate) fn build_changes(
        self,
        planned: &Table,
        change: PlannedChange,
        given: SchemaRef,
        changes: Arc<dyn ChangedTable>,
    ) -> Result<BigQuerySink> {
        let dropped = &self.options.destination.drop_columns;
        let arrival = Arrival::new(given, self.extra.clone(), dropped)?;
        let Some(table) = self.only_table().cloned() else {
            return Err(Error::configuration(
                "changes by key go to one table: leave option 'sink.destination' out",
            ));
        };
        check_writable(&table, &planned.kind)?;
        let destination = changes
            .plan(planned, &arrival.written)
            .map_err(|error| error.with_context(format!("writing changes of {table}")))?
            .destination(&table, &self.options, denied(planned, &self.options))?;
        let client = match self.credentials {
            Some(credentials) => self.client.with_credentials(credentials)?,
            None => self.client,
        };
        let budget = Budget::new(self.options.default_connections);
        Ok(BigQuerySink {
            shared: Arc::new(SinkShared {
                failures: FailureHandler::new(self.options.failure.clone(), &client)?,
                client,
                options: self.options,
                schema: Arc::clone(&arrival.written),
                new_columns: None,
                changes: Some(changes),
                declared: None,
                destinations: Destinations::default(),
                budget,
                load_limits: self.load_limits,
            }),
            route: Arc::new(Route::Fixed(table)),
            arrival: Arc::new(arrival),
            planned: Some(Arc::new(destination)),
            change,
        })
    }

    /// The table of all rows.
    fn only_table(&self) -> Option<&TableRef> {
        match &self.target {
            Target::Table(table) if self.options.destination.pattern.is_none() => Some(table),
            Target::Table(_) | Target::Resolver(_) => None,
        }
    }

    fn build_planned(self, live: Option<Arc<Table>>, given: SchemaRef) -> Result<BigQuerySink> {
        if self.options.cdc.is_some() {
            return Err(Error::configuration(
                "option 'sink.cdc.enabled' makes rows changes by key: declare a table of changes \
                 by CREATE EXTERNAL TABLE, or build the sink by cdc::ChangeSinkBuilder",
            ));
        }
        self.check_replaced()?;
        let dropped = &self.options.destination.drop_columns;
        let arrival = Arrival::new(given, self.extra.clone(), dropped)?;
        let route = self.route(&arrival)?;
        let context = |error: Error| error.with_context(format!("writing table {route}"));
        let rows = Arc::clone(&arrival.written);
        let creates = self.options.create_disposition == CreateDisposition::CreateIfNeeded;
        let columns = match (&live, creates) {
            (None, true) => Some(self.new_columns(&rows).map_err(context)?),
            _ => None,
        };
        let (planned, change) = match (&live, &columns) {
            (Some(live), _) => {
                check_writable(&live.reference, &live.kind)?;
                let declared = self.new_columns.as_deref();
                let changes = wanted_changes(&rows, declared, &live.schema, &self.options)
                    .map_err(context)?;
                let change = match changes.is_empty() {
                    true => PlannedChange::None,
                    false => PlannedChange::Columns(
                        changes.iter().map(evolve::SchemaChange::path).collect(),
                    ),
                };
                let mut after = live.as_ref().clone();
                after.schema = evolve::changed(&live.schema, &changes);
                (Some(Arc::new(after)), change)
            }
            (None, Some(columns)) => {
                let table = route.table().cloned().unwrap_or_else(|| nameless(&route));
                let planned = Table::planned(table, columns.clone());
                (Some(Arc::new(planned)), PlannedChange::Creation)
            }
            (None, None) => (None, PlannedChange::None),
        };
        let destination = planned
            .map(|planned| {
                let table = match route.table() {
                    Some(table) => table.clone(),
                    None => nameless(&route),
                };
                let denied = denied(&planned, &self.options);
                plan(&table, planned, &rows, &self.options, denied)
            })
            .transpose()
            .map_err(context)?
            .map(Arc::new);
        let client = match self.credentials {
            Some(credentials) => self.client.with_credentials(credentials)?,
            None => self.client,
        };
        let destinations = Destinations::default();
        if let (Some(destination), PlannedChange::None, Some(_)) =
            (&destination, &change, route.table())
        {
            destinations.ready(destination);
        }
        Ok(BigQuerySink {
            shared: Arc::new(SinkShared {
                failures: FailureHandler::new(self.options.failure.clone(), &client)?,
                budget: Budget::new(self.options.default_connections),
                client,
                options: self.options,
                schema: rows,
                new_columns: columns,
                changes: None,
                declared: self.new_columns,
                destinations,
                load_limits: self.load_limits,
            }),
            route: Arc::new(route),
            arrival: Arc::new(arrival),
            planned: destination,
            change,
        })
    }

    /// Rows of one table are replaced, or of one partition of it.
    fn check_replaced(&self) -> Result<()> {
        let one = self.only_table().is_some();
        if !one && self.options.effect == WriteEffect::Replace {
            return Err(Error::configuration(
                "INSERT OVERWRITE replaces the rows of one table, and option 'sink.destination' or \
                 a resolver names several: use INSERT INTO",
            ));
        }
        let Some(partition) = &self.options.partition else {
            return Ok(());
        };
        if !one {
            return Err(Error::configuration(format!(
                "option 'sink.partition' '{partition}' is of one table, and rows go to several"
            )));
        }
        let adds = self.options.effect == WriteEffect::Add;
        if adds && self.options.write_method != WriteMethod::FileLoads {
            return Err(Error::configuration(format!(
                "rows cannot be added to partition '{partition}' alone by sink.write_method '{}': \
                 use file_loads, or INSERT OVERWRITE to replace its rows",
                self.options.write_method.name()
            )));
        }
        Ok(())
    }

    fn route(&self, arrival: &Arrival) -> Result<Route> {
        match (&self.options.destination.pattern, &self.target) {
            (Some(pattern), Target::Table(_)) => {
                Pattern::parse(pattern, &arrival.whole).map(Route::Pattern)
            }
            (Some(_), Target::Resolver(_)) => Err(Error::configuration(
                "option 'sink.destination' does not go with a resolver of destinations: one of \
                 them says where rows go",
            )),
            (None, Target::Table(table)) => Ok(Route::Fixed(table.clone())),
            (None, Target::Resolver(resolver)) => Ok(Route::Resolver(Arc::clone(resolver))),
        }
    }

    fn new_columns(&self, rows: &SchemaRef) -> Result<crate::types::TableSchema> {
        let Some(declared) = &self.new_columns else {
            return new_columns(rows, &self.options);
        };
        // Columns that only say where rows go are of no table; added ones are of all.
        let dropped = &self.options.destination.drop_columns;
        let declared = Arrival::new(Arc::clone(declared), self.extra.clone(), dropped)?;
        new_columns(&declared.written, &self.options)
    }
}

/// What stands for the tables of a route in plans; it is never asked for.
fn nameless(route: &Route) -> TableRef {
    TableRef {
        project: String::new(),
        dataset: String::new(),
        table: route.to_string(),
    }
}
