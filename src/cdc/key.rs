//! The primary key by which rows are replaced and deleted.

use std::sync::Arc;

use arrow::datatypes::Schema;

use crate::error::{Error, ErrorKind, Result};
use crate::types::{Field, FieldType, Mode, TableRef, TableSchema};

/// Columns of a key at most.
///
/// Source: BigQuery's documentation of primary keys.
const MOST_COLUMNS: usize = 16;

/// The names of pseudocolumns. No column of a table can have one.
pub(crate) const CHANGE_TYPE: &str = "_CHANGE_TYPE";
/// See [`CHANGE_TYPE`].
pub(crate) const CHANGE_SEQUENCE_NUMBER: &str = "_CHANGE_SEQUENCE_NUMBER";

/// The columns of the key that a table has or is to have.
///
/// `declared` are those of a statement, none when it says nothing; `live` those of the
/// table.
///
/// # Errors
/// [`ErrorKind::FailedPrecondition`] when both differ, and when there is none at all;
/// [`ErrorKind::InvalidArgument`] for columns that cannot be a key.
pub(crate) fn agreed(
    table: &TableRef,
    columns: &TableSchema,
    declared: &[String],
    live: &[String],
) -> Result<Vec<String>> {
    if let Some(pseudo) = columns
        .fields
        .iter()
        .find(|field| is_pseudocolumn(&field.name))
    {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "{table} has a column {}, which is the name of a pseudocolumn of changes",
                pseudo.name
            ),
        ));
    }
    let key = match (declared.is_empty(), live.is_empty()) {
        (true, true) => {
            return Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "{table} has no primary key, and changes go to rows by it: declare PRIMARY KEY \
                     (…) in CREATE EXTERNAL TABLE and set option 'sink.cdc.table_reconciliation' to \
                     'reconcile', or ALTER TABLE … ADD PRIMARY KEY (…) NOT ENFORCED in BigQuery"
                ),
            ));
        }
        (true, false) => live,
        (false, true) => declared,
        (false, false) if same(declared, live) => live,
        (false, false) => {
            return Err(Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "the primary key of {table} is ({}), and ({}) is declared: changes by another \
                     key would leave rows behind; declare the table's, or replace its key in \
                     BigQuery",
                    live.join(", "),
                    declared.join(", ")
                ),
            ));
        }
    };
    if key.len() > MOST_COLUMNS {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "a primary key has at most {MOST_COLUMNS} columns, and that of {table} has {}",
                key.len()
            ),
        ));
    }
    let mut named = Vec::with_capacity(key.len());
    for name in key {
        let Some(column) = columns.field(name) else {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("the primary key of {table} names {name}, which is no column of it"),
            ));
        };
        check(table, column)?;
        named.push(column.name.clone());
    }
    Ok(named)
}

/// Whether two keys have the same columns, in whatever order and case.
pub(crate) fn same(one: &[String], other: &[String]) -> bool {
    let names = |key: &[String]| {
        let mut names: Vec<String> = key.iter().map(|name| name.to_lowercase()).collect();
        names.sort();
        names
    };
    names(one) == names(other)
}

/// The columns that a table itself has of those that are declared for its changes.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] for a pseudocolumn that is not declared as text.
pub(crate) fn without_pseudocolumns(declared: &Schema) -> Result<Schema> {
    let mut own = Vec::with_capacity(declared.fields().len());
    for field in declared.fields() {
        if !is_pseudocolumn(field.name()) {
            own.push(Arc::clone(field));
        } else if !field.data_type().is_string() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "column {} must be text, not {}",
                    field.name(),
                    field.data_type()
                ),
            ));
        }
    }
    Ok(Schema::new(own))
}

/// Whether a column is said of a change, and is none of its table.
pub(crate) fn is_pseudocolumn(name: &str) -> bool {
    [CHANGE_TYPE, CHANGE_SEQUENCE_NUMBER]
        .iter()
        .any(|pseudo| name.eq_ignore_ascii_case(pseudo))
}

fn check(table: &TableRef, column: &Field) -> Result<()> {
    let fits = match &column.field_type {
        FieldType::BigNumeric(_)
        | FieldType::Bool
        | FieldType::Bytes
        | FieldType::Date
        | FieldType::DateTime
        | FieldType::Int64
        | FieldType::Numeric(_)
        | FieldType::String
        | FieldType::Timestamp(_) => column.mode != Mode::Repeated,
        FieldType::Float64
        | FieldType::Time
        | FieldType::Geography
        | FieldType::Interval
        | FieldType::Json
        | FieldType::Range(_)
        | FieldType::Struct(_)
        | FieldType::Unsupported(_) => false,
    };
    if fits {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format!(
            "column {} of {table} is of type {}, which cannot be in a primary key",
            column.name, column.field_type
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TableRef {
        "p.d.t".parse().unwrap()
    }

    fn columns() -> TableSchema {
        let field = |name: &str, field_type| Field::new(name, field_type, Mode::Nullable);
        let mut fields = vec![
            field("Id", FieldType::Int64),
            field("region", FieldType::String),
            field("price", FieldType::Float64),
            Field::new("tags", FieldType::String, Mode::Repeated),
        ];
        fields.extend((0..20).map(|n| field(&format!("k{n}"), FieldType::Int64)));
        TableSchema { fields }
    }

    fn of(declared: &[&str], live: &[&str]) -> Result<Vec<String>> {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        agreed(&table(), &columns(), &owned(declared), &owned(live))
    }

    #[test]
    fn a_key_is_declared_or_live_or_both() {
        assert_eq!(of(&["ID"], &[]).unwrap(), ["Id"]);
        assert_eq!(of(&[], &["id", "region"]).unwrap(), ["Id", "region"]);
        assert_eq!(
            of(&["REGION", "id"], &["id", "region"]).unwrap(),
            ["Id", "region"]
        );
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for (declared, live, why) in [
            (&[][..], &[][..], "no primary key"),
            (&["id"], &["region"], "is declared"),
            (&["id"], &["id", "region"], "is declared"),
            (&["price"], &[], "FLOAT64"),
            (&["tags"], &[], "cannot be in a primary key"),
            (&["nothing"], &[], "no column of it"),
        ] {
            let error = of(declared, live).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
        let many: Vec<String> = (0..17).map(|n| format!("k{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(
            of(&many, &[])
                .unwrap_err()
                .to_string()
                .contains("at most 16")
        );
        assert!(of(&many[..16], &[]).is_ok());

        let mut columns = columns();
        columns.fields[1].name = "_change_type".to_string();
        let key = ["Id".to_string()];
        let error = agreed(&table(), &columns, &key, &[]).unwrap_err();
        assert!(error.to_string().contains("pseudocolumn"), "{error}");
    }
}
