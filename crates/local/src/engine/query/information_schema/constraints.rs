//! TABLE_CONSTRAINTS, KEY_COLUMN_USAGE and CONSTRAINT_COLUMN_USAGE.

use std::sync::Arc;

use datafusion::scalar::ScalarValue;
use serde_json::Value;

use super::super::super::functions::SqlType;
use super::{I, NAME, S, View, int, name_of, text, yes};
use crate::store::Table;

/// Names of a table's constraints: the primary key's and the foreign keys'.
fn constraint_names(table: &Table) -> Vec<(String, &'static str, Vec<String>, Value)> {
    let meta = table.meta();
    let name = &table.reference().table;
    let mut out = Vec::new();
    if !meta.primary_key.is_empty() {
        out.push((
            format!("{name}.pk$"),
            "PRIMARY KEY",
            meta.primary_key.clone(),
            Value::Null,
        ));
    }
    for (i, key) in meta.foreign_keys.iter().enumerate() {
        let own = key["name"]
            .as_str()
            .map_or_else(|| format!("fk${}", i + 1), ToString::to_string);
        let columns = key["columnReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|c| c["referencingColumn"].as_str().map(ToString::to_string))
            .collect();
        out.push((format!("{name}.{own}"), "FOREIGN KEY", columns, key.clone()));
    }
    out
}

fn constraint_name(table: &Table, name: &str) -> Vec<ScalarValue> {
    let reference = table.reference();
    vec![
        text(&reference.project),
        text(&reference.dataset),
        text(name),
    ]
}

const CONSTRAINT: [(&str, SqlType); 3] = [
    ("constraint_catalog", S),
    ("constraint_schema", S),
    ("constraint_name", S),
];

pub(super) fn constraints(tables: &[Arc<Table>]) -> View {
    let mut all = CONSTRAINT.to_vec();
    all.extend(NAME);
    all.extend([
        ("constraint_type", S),
        ("is_deferrable", S),
        ("initially_deferred", S),
        ("enforced", S),
    ]);
    let mut view = View::new(&all);
    for table in tables {
        for (name, kind, ..) in constraint_names(table) {
            let mut row = constraint_name(table, &name);
            row.extend(name_of(table));
            row.extend([text(kind), yes(false), yes(false), yes(false)]);
            view.rows.push(row);
        }
    }
    view
}

pub(super) fn key_columns(tables: &[Arc<Table>]) -> View {
    let mut all = CONSTRAINT.to_vec();
    all.extend(NAME);
    all.extend([
        ("column_name", S),
        ("ordinal_position", I),
        ("position_in_unique_constraint", I),
    ]);
    let mut view = View::new(&all);
    for table in tables {
        for (name, kind, columns, _) in constraint_names(table) {
            for (i, column) in columns.iter().enumerate() {
                let position = i64::try_from(i + 1).unwrap_or(i64::MAX);
                let mut row = constraint_name(table, &name);
                row.extend(name_of(table));
                row.extend([
                    text(column),
                    int(position),
                    ScalarValue::Int64((kind == "FOREIGN KEY").then_some(position)),
                ]);
                view.rows.push(row);
            }
        }
    }
    view
}

pub(super) fn constraint_columns(tables: &[Arc<Table>]) -> View {
    let mut all = NAME.to_vec();
    all.push(("column_name", S));
    all.extend(CONSTRAINT);
    let mut view = View::new(&all);
    for table in tables {
        for (name, kind, columns, key) in constraint_names(table) {
            let part = |field: &str| key["referencedTable"][field].as_str().unwrap_or("");
            let target = match kind {
                "FOREIGN KEY" => vec![
                    text(part("projectId")),
                    text(part("datasetId")),
                    text(part("tableId")),
                ],
                _ => name_of(table),
            };
            let named: Vec<String> = match kind {
                "FOREIGN KEY" => key["columnReferences"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|c| c["referencedColumn"].as_str().map(ToString::to_string))
                    .collect(),
                _ => columns,
            };
            for column in named {
                let mut row = target.clone();
                row.push(text(column));
                row.extend(constraint_name(table, &name));
                view.rows.push(row);
            }
        }
    }
    view
}
