//! A live table as the planner needs it.

use std::time::Instant;

use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef};

use crate::client::rest::model::{Partitioning, Table, TableKind};
use crate::error::{Error, ErrorKind, Result};
use crate::filter::mention::mentions;
use crate::options::{Options, TimestampPrecision, registry};
use crate::types::{Field, FieldType, Mode, TableRef, TableSchema, TimestampDigits, arrow};

/// What `tables.get` said of a table, with its columns in Arrow's types.
#[derive(Debug, Clone)]
pub(crate) struct LiveTable {
    pub(crate) table: TableRef,
    pub(crate) columns: TableSchema,
    pub(crate) kind: TableKind,
    /// Rows without those in the streaming buffer.
    pub(crate) rows: Option<usize>,
    pub(crate) schema: SchemaRef,
    /// The column that every read has to filter on, if the table demands it.
    pub(crate) demanded_filter: Option<String>,
    /// What decided the schema; sessions have to be asked the same.
    pub(crate) terms: SchemaTerms,
    /// When the service said it, if that is known.
    pub(crate) found_at: Option<Instant>,
}

impl LiveTable {
    pub(crate) fn new(table: TableRef, found: Table, terms: SchemaTerms) -> Self {
        let SchemaTerms {
            precision,
            partition_columns,
        } = terms;
        let mut found = found;
        if reading(&found.kind) == Reading::ByQuery {
            for field in &mut found.schema.fields {
                as_result(field);
            }
        }
        if partition_columns {
            found.schema.fields.extend(pseudo_columns(&found));
        }
        found.collate();
        let schema = arrow::table_schema(&found.schema, precision);
        let demanded_filter = demanded_filter(&found);
        Self {
            table,
            kind: found.kind,
            rows: found.num_rows.and_then(|rows| usize::try_from(rows).ok()),
            demanded_filter,
            columns: found.schema,
            schema,
            terms,
            found_at: None,
        }
    }

    /// The same, said by the service at this time.
    pub(crate) fn found_at(self, found_at: Option<Instant>) -> Self {
        Self { found_at, ..self }
    }

    /// How it is read with these options.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] saying which option reads it;
    /// [`ErrorKind::Configuration`] for an option that it does not go with.
    pub(crate) fn reading(&self, options: &Options) -> Result<Reading> {
        let reading = reading(&self.kind);
        if reading == Reading::Directly {
            return Ok(reading);
        }
        let (table, kind) = (&self.table, &self.kind);
        if !options.query.materialize_views {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{table} is {kind}, which only a query job can read, and that is billed by the \
                     bytes that the query reads: allow it with option 'scan.materialize_views' set \
                     to true"
                ),
            ));
        }
        for (said, row) in [
            (
                options.scan.snapshot_time.is_some(),
                &registry::SCAN_SNAPSHOT_TIME,
            ),
            (
                options.scan.sample_percentage.is_some(),
                &registry::SCAN_SAMPLE_PERCENTAGE,
            ),
        ] {
            if said {
                return Err(Error::configuration(format!(
                    "{table} is {kind}, and option '{}' (in SQL FOR SYSTEM_TIME AS OF, \
                     TABLESAMPLE) is about tables: write it inside a query, with \
                     bigquery_query('…')",
                    row.name
                )));
            }
        }
        Ok(reading)
    }

    /// Whether no query job is needed to read it.
    pub(crate) fn is_read_directly(&self) -> bool {
        reading(&self.kind) == Reading::Directly
    }

    /// That a read with this restriction is not refused for want of a filter.
    /// Whether the filter is one that the service can use, it decides itself.
    ///
    /// # Errors
    /// [`ErrorKind::FailedPrecondition`] naming the column to filter on.
    pub(crate) fn check_filtered(&self, restriction: &str) -> Result<()> {
        let Some(column) = &self.demanded_filter else {
            return Ok(());
        };
        let by_ingestion = column == PARTITION_TIME;
        if mentions(restriction, column) || (by_ingestion && mentions(restriction, PARTITION_DATE))
        {
            return Ok(());
        }
        let table = &self.table;
        let shown = self.columns.field(column).is_some();
        Err(Error::new(
            ErrorKind::FailedPrecondition,
            match by_ingestion && !shown {
                true => format!(
                    "{table} demands a filter on {column}: set option 'scan.partition_columns' to \
                     true and compare {column} with a literal in WHERE, or say \
                     scan.row_restriction where the table is declared or in bigquery_scan"
                ),
                false => format!(
                    "{table} demands a filter on its partition column: compare {column} with a \
                     literal in WHERE, or say scan.row_restriction where the table is declared or in \
                     bigquery_scan"
                ),
            },
        ))
    }

    /// That the columns which a statement declared are the table's, or become so.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] naming the column with both types.
    pub(crate) fn check_declared(&self, declared: &Schema, new: NewColumns) -> Result<()> {
        for column in declared.fields() {
            let Some(live) = self.columns.field(column.name()) else {
                let what_to_do = match new {
                    NewColumns::Expected => continue,
                    NewColumns::Missing => "the first INSERT adds it",
                    NewColumns::Never => "leave the columns out to take the table's own",
                    NewColumns::Unwanted => {
                        "leave the columns out to take the table's own, or set option \
                         'sink.schema_update.allow_new_fields' to have an INSERT add it"
                    }
                };
                return Err(Error::configuration(format!(
                    "column '{}' is declared as {} and {} has no such column: {what_to_do}",
                    column.name(),
                    column.data_type(),
                    self.table
                )));
            };
            let position = self.schema.index_of(&live.name).ok();
            let read_as = position.map(|position| self.schema.field(position));
            let fits = |fields| {
                read_as.is_some_and(|read_as| agree(column, read_as, &live.field_type, fields))
            };
            if !fits(Fields::Same) {
                let what_to_do = match new {
                    NewColumns::Expected if fits(Fields::More) => continue,
                    NewColumns::Missing if fits(Fields::More) => {
                        "the first INSERT adds the fields that it lacks"
                    }
                    NewColumns::Unwanted if fits(Fields::More) => {
                        "leave the columns out to take the table's own, or set option \
                         'sink.schema_update.allow_new_fields' to have an INSERT add the fields \
                         that it lacks"
                    }
                    _ => "leave the columns out to take the table's own",
                };
                return Err(Error::configuration(format!(
                    "column '{}' is declared as {} and is {} in {}: {what_to_do}",
                    column.name(),
                    column.data_type(),
                    live.field_type,
                    self.table
                )));
            }
        }
        Ok(())
    }
}

/// What is made of declared columns that the table lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewColumns {
    /// They are an error, because nothing would add them.
    Never,
    /// They are an error, unless an option allows them.
    Unwanted,
    /// An INSERT adds them.
    Expected,
    /// An INSERT would have added them, and there was none yet.
    Missing,
}

impl NewColumns {
    /// In a statement that declares or writes columns.
    pub(crate) fn of(options: &Options) -> Self {
        match options.sink.schema_update.allow_new_fields {
            true => NewColumns::Expected,
            false => NewColumns::Unwanted,
        }
    }
}

/// How a table is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// By the Storage Read API.
    Directly,
    /// By a query job, whose result the Storage Read API reads.
    ByQuery,
}

/// What of the options decides a table's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SchemaTerms {
    pub(crate) precision: TimestampPrecision,
    pub(crate) partition_columns: bool,
}

impl From<&Options> for SchemaTerms {
    fn from(options: &Options) -> Self {
        Self {
            precision: options.scan.timestamp_precision,
            partition_columns: options.scan.partition_columns,
        }
    }
}

const PARTITION_TIME: &str = "_PARTITIONTIME";
const PARTITION_DATE: &str = "_PARTITIONDATE";
const TABLE_SUFFIX: &str = "_TABLE_SUFFIX";

fn reading(kind: &TableKind) -> Reading {
    match kind {
        TableKind::Table | TableKind::Snapshot => Reading::Directly,
        TableKind::View
        | TableKind::MaterializedView
        | TableKind::External
        | TableKind::Wildcard
        | TableKind::Other(_) => Reading::ByQuery,
    }
}

/// The columns that the table has beside those of its schema: a table that is
/// partitioned by ingestion has the time of the partition, and its date if the
/// partitions are days
/// (<https://cloud.google.com/bigquery/docs/querying-partitioned-tables>).
fn pseudo_columns(table: &Table) -> Vec<Field> {
    let column = |name: &str, field_type| Field::new(name, field_type, Mode::Nullable);
    let time = FieldType::Timestamp(TimestampDigits::Six);
    match (&table.kind, &table.partitioning) {
        (TableKind::Wildcard, _) => vec![column(TABLE_SUFFIX, FieldType::String)],
        (TableKind::Table, Some(Partitioning::Time { column: None, unit })) => {
            let mut columns = vec![column(PARTITION_TIME, time)];
            if unit.eq_ignore_ascii_case("DAY") {
                columns.push(column(PARTITION_DATE, FieldType::Date));
            }
            columns
        }
        _ => Vec::new(),
    }
}

/// A column as the result of a query has it: parameters of types and NOT NULL
/// are of tables, not of values.
fn as_result(field: &mut Field) {
    if field.mode == Mode::Required {
        field.mode = Mode::Nullable;
    }
    if let FieldType::Numeric(parameters) | FieldType::BigNumeric(parameters) =
        &mut field.field_type
    {
        *parameters = None;
    }
    field.field_type.fields_mut().iter_mut().for_each(as_result);
}

fn demanded_filter(table: &Table) -> Option<String> {
    if !table.require_partition_filter {
        return None;
    }
    Some(match table.partitioning.as_ref()? {
        Partitioning::Time {
            column: Some(column),
            ..
        }
        | Partitioning::Range { column } => column.clone(),
        Partitioning::Time { column: None, .. } => PARTITION_TIME.to_string(),
    })
}

/// Which fields a declared struct has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fields {
    /// Those of the live one.
    Same,
    /// These, and perhaps others.
    More,
}

/// Whether a declared column can mean the live one. SQL has one spelling for
/// several Arrow types, and its TIMESTAMP is in nanoseconds without a zone.
fn agree(declared: &ArrowField, read_as: &ArrowField, live: &FieldType, of: Fields) -> bool {
    let is_binary = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView
        )
    };
    match (declared.data_type(), read_as.data_type()) {
        (from, to) if from.equals_datatype(to) => true,
        (from, DataType::Utf8) => from.is_string(),
        (from, DataType::Binary) => is_binary(from),
        (from, DataType::Int64) => from.is_integer(),
        (from, DataType::Float64) => from.is_floating(),
        (DataType::Timestamp(_, None), DataType::Timestamp(..)) => true,
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, Some(_))) => true,
        (DataType::Time32(_) | DataType::Time64(_), DataType::Time64(_)) => true,
        (DataType::List(from) | DataType::LargeList(from), DataType::List(to)) => {
            agree(from, to, live, of)
        }
        (DataType::Struct(from), DataType::Struct(to)) => {
            let FieldType::Struct(fields) = live else {
                return false;
            };
            let mut found = 0;
            let each = from.iter().all(|from| {
                let mut live = fields.iter().filter(|live| live.is_named(from.name()));
                let mut to = to
                    .iter()
                    .filter(|to| to.name().eq_ignore_ascii_case(from.name()));
                match (live.next(), to.next()) {
                    (Some(live), Some(to)) => {
                        found += 1;
                        agree(from, to, &live.field_type, of)
                    }
                    _ => of == Fields::More,
                }
            });
            each && found == to.len()
        }
        (
            DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale),
            DataType::Decimal128(_, live_scale) | DataType::Decimal256(_, live_scale),
        ) => match live {
            FieldType::Numeric(None) | FieldType::BigNumeric(None) => scale <= live_scale,
            _ => scale == live_scale,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;
    use crate::options::RawOptions;

    fn live() -> LiveTable {
        let field = |name, field_type| Field::new(name, field_type, Mode::Nullable);
        let columns = TableSchema {
            fields: vec![
                field("Id", FieldType::Int64),
                field("name", FieldType::String),
                field("at", FieldType::Timestamp(TimestampDigits::Six)),
                field("price", FieldType::Numeric(None)),
                Field::new("tags", FieldType::String, Mode::Repeated),
                field(
                    "place",
                    FieldType::Struct(vec![field("x", FieldType::Int64)]),
                ),
            ],
        };
        LiveTable {
            table: TableRef::new("p", "d", "t").unwrap(),
            schema: arrow::table_schema(&columns, TimestampPrecision::Micros),
            columns,
            kind: TableKind::Table,
            rows: None,
            demanded_filter: None,
            terms: SchemaTerms {
                precision: TimestampPrecision::Micros,
                partition_columns: false,
            },
            found_at: None,
        }
    }

    fn list(of: DataType) -> DataType {
        DataType::List(Arc::new(ArrowField::new("item", of, true)))
    }

    fn place(of: DataType) -> DataType {
        DataType::Struct(vec![ArrowField::new("X", of, true)].into())
    }

    fn declared(name: &str, data_type: DataType) -> Schema {
        Schema::new(vec![Arc::new(ArrowField::new(name, data_type, true))])
    }

    #[test]
    fn sql_spellings_of_the_live_types_agree() {
        for (name, data_type) in [
            ("id", DataType::Int32),
            ("name", DataType::Utf8View),
            ("at", DataType::Timestamp(TimeUnit::Nanosecond, None)),
            ("price", DataType::Decimal128(10, 2)),
            ("tags", list(DataType::Utf8View)),
            ("place", place(DataType::Int32)),
        ] {
            let schema = declared(name, data_type);
            let agreed = live().check_declared(&schema, NewColumns::Unwanted);
            assert!(agreed.is_ok(), "{name}");
        }
    }

    #[test]
    fn a_disagreement_names_both_types() {
        let error = live()
            .check_declared(&declared("name", DataType::Int64), NewColumns::Unwanted)
            .unwrap_err();
        for part in ["'name'", "Int64", "STRING", "p.d.t"] {
            assert!(error.message().contains(part), "{part}: {error}");
        }
        let error = live()
            .check_declared(&declared("nope", DataType::Int64), NewColumns::Unwanted)
            .unwrap_err();
        assert!(error.message().contains("no such column"), "{error}");
        for (name, data_type) in [
            ("tags", list(DataType::Int64)),
            ("tags", DataType::Utf8),
            ("place", place(DataType::Utf8)),
            ("place", list(place(DataType::Int64))),
        ] {
            let schema = declared(name, data_type);
            let refused = live().check_declared(&schema, NewColumns::Unwanted);
            assert!(refused.is_err(), "{schema}");
        }
    }

    #[test]
    fn i04_a_demanded_filter_is_named() {
        let mut table = live();
        assert!(table.check_filtered("").is_ok());
        table.demanded_filter = Some("at".to_string());
        let error = table.check_filtered("").unwrap_err();
        assert!(error.message().contains("compare at"), "{error}");
        assert!(table.check_filtered("(`at` > TIMESTAMP '…')").is_ok());
    }

    #[test]
    fn i04_another_column_is_no_filter_on_the_partition() {
        let mut table = live();
        table.demanded_filter = Some("at".to_string());
        assert!(table.check_filtered("(`Id` > 5)").is_err());
        table.demanded_filter = Some(PARTITION_TIME.to_string());
        let error = table.check_filtered("").unwrap_err();
        assert!(
            error.message().contains("scan.partition_columns"),
            "{error}"
        );
        assert!(
            table
                .check_filtered("_partitiondate = '2024-01-01'")
                .is_ok()
        );
    }

    #[test]
    fn i01_views_are_refused_with_the_way_out() {
        let mut view = live();
        view.kind = TableKind::View;
        let options = |pairs: &[(&str, &str)]| {
            let raw = RawOptions::from_pairs(pairs.iter().copied()).unwrap();
            Options::resolve(&raw).unwrap()
        };
        let error = view.reading(&options(&[])).unwrap_err();
        assert!(error.message().contains("p.d.t is a view"), "{error}");
        assert!(
            error.message().contains("scan.materialize_views"),
            "{error}"
        );
        let allowed = ("scan.materialize_views", "true");
        assert_eq!(
            view.reading(&options(&[allowed])).unwrap(),
            Reading::ByQuery
        );
        let then = ("scan.snapshot_time", "2024-01-01T00:00:00Z");
        let error = view.reading(&options(&[allowed, then])).unwrap_err();
        assert!(error.message().contains("scan.snapshot_time"), "{error}");
    }
}
