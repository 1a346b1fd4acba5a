//! A live table as the planner needs it.

use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema, SchemaRef};

use crate::client::rest::model::{Partitioning, Table, TableKind};
use crate::error::{Error, ErrorKind, Result};
use crate::options::TimestampPrecision;
use crate::types::{Field, FieldType, TableRef, TableSchema, arrow};

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
    /// How the schema takes TIMESTAMP(12); sessions have to be asked the same.
    pub(crate) precision: TimestampPrecision,
}

impl LiveTable {
    pub(crate) fn new(table: TableRef, found: Table, precision: TimestampPrecision) -> Self {
        let mut found = found;
        if let Some(collation) = found.default_collation.take() {
            for field in &mut found.schema.fields {
                collate(field, &collation);
            }
        }
        let schema = arrow::table_schema(&found.schema, precision);
        let demanded_filter = demanded_filter(&found);
        Self {
            table,
            kind: found.kind,
            rows: found.num_rows.and_then(|rows| usize::try_from(rows).ok()),
            demanded_filter,
            columns: found.schema,
            schema,
            precision,
        }
    }

    /// That the Storage Read API can read it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] saying what to do instead.
    pub(crate) fn check_readable(&self) -> Result<()> {
        match &self.kind {
            TableKind::Table | TableKind::Snapshot => return Ok(()),
            TableKind::View
            | TableKind::MaterializedView
            | TableKind::External
            | TableKind::Other(_) => {}
        }
        Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{} is {}, and the Storage Read API reads only tables: write its result into \
                 a table (CREATE TABLE … AS SELECT * FROM `{}` in BigQuery) and read that",
                self.table, self.kind, self.table
            ),
        ))
    }

    /// That a read with this restriction is not refused for want of a filter.
    ///
    /// # Errors
    /// [`ErrorKind::FailedPrecondition`] naming the column to filter on.
    pub(crate) fn check_filtered(&self, restriction: &str) -> Result<()> {
        match &self.demanded_filter {
            Some(column) if restriction.is_empty() => Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "{} demands a filter on its partition column: compare {column} with a \
                     literal in WHERE, or set the option scan.row_restriction",
                    self.table
                ),
            )),
            _ => Ok(()),
        }
    }

    /// That the columns which a statement declared are the table's.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] naming the column with both types.
    pub(crate) fn check_declared(&self, declared: &Schema) -> Result<()> {
        for column in declared.fields() {
            let Some(live) = self.columns.field(column.name()) else {
                return Err(Error::configuration(format!(
                    "column '{}' is declared as {} and {} has no such column: leave the columns \
                     out to take the table's own",
                    column.name(),
                    column.data_type(),
                    self.table
                )));
            };
            let position = self.schema.index_of(&live.name).ok();
            let read_as = position.map(|position| self.schema.field(position));
            if !read_as.is_some_and(|read_as| agree(column, read_as, &live.field_type)) {
                return Err(Error::configuration(format!(
                    "column '{}' is declared as {} and is {} in {}: leave the columns out to take \
                     the table's own",
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
        Partitioning::Time { column: None, .. } => "_PARTITIONTIME".to_string(),
    })
}

/// Takes a STRING column that does not say its collation to have the table's:
/// comparisons that may ignore case must not be trusted.
fn collate(field: &mut Field, collation: &str) {
    match &mut field.field_type {
        FieldType::String => {
            field.collation.get_or_insert_with(|| collation.to_string());
        }
        FieldType::Struct(fields) => {
            for field in fields {
                collate(field, collation);
            }
        }
        FieldType::Int64
        | FieldType::Float64
        | FieldType::Bool
        | FieldType::Bytes
        | FieldType::Numeric(_)
        | FieldType::BigNumeric(_)
        | FieldType::Date
        | FieldType::Time
        | FieldType::DateTime
        | FieldType::Timestamp(_)
        | FieldType::Geography
        | FieldType::Json
        | FieldType::Interval
        | FieldType::Range(_)
        | FieldType::Unsupported(_) => {}
    }
}

/// Whether a declared column can mean the live one. SQL has one spelling for
/// several Arrow types, and its TIMESTAMP is in nanoseconds without a zone.
fn agree(declared: &ArrowField, read_as: &ArrowField, live: &FieldType) -> bool {
    let is_text = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    let is_binary = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView
        )
    };
    match (declared.data_type(), read_as.data_type()) {
        (from, to) if from.equals_datatype(to) => true,
        (from, DataType::Utf8) => is_text(from),
        (from, DataType::Binary) => is_binary(from),
        (from, DataType::Int64) => from.is_integer(),
        (from, DataType::Float64) => from.is_floating(),
        (DataType::Timestamp(_, None), DataType::Timestamp(..)) => true,
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, Some(_))) => true,
        (DataType::Time32(_) | DataType::Time64(_), DataType::Time64(_)) => true,
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
    use crate::types::{Mode, TimestampDigits};

    fn live() -> LiveTable {
        let field = |name, field_type| Field::new(name, field_type, Mode::Nullable);
        let columns = TableSchema {
            fields: vec![
                field("Id", FieldType::Int64),
                field("name", FieldType::String),
                field("at", FieldType::Timestamp(TimestampDigits::Six)),
                field("price", FieldType::Numeric(None)),
            ],
        };
        LiveTable {
            table: TableRef::new("p", "d", "t").unwrap(),
            schema: arrow::table_schema(&columns, TimestampPrecision::Micros),
            columns,
            kind: TableKind::Table,
            rows: None,
            demanded_filter: None,
            precision: TimestampPrecision::Micros,
        }
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
        ] {
            let schema = declared(name, data_type);
            assert!(live().check_declared(&schema).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_disagreement_names_both_types() {
        let error = live()
            .check_declared(&declared("name", DataType::Int64))
            .unwrap_err();
        for part in ["'name'", "Int64", "STRING", "p.d.t"] {
            assert!(error.message().contains(part), "{part}: {error}");
        }
        let error = live()
            .check_declared(&declared("nope", DataType::Int64))
            .unwrap_err();
        assert!(error.message().contains("no such column"), "{error}");
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
    fn i01_views_are_refused_with_the_way_out() {
        let mut view = live();
        view.kind = TableKind::View;
        let error = view.check_readable().unwrap_err();
        assert!(error.message().contains("p.d.t is a view"), "{error}");
        assert!(error.message().contains("CREATE TABLE"), "{error}");
    }
}
