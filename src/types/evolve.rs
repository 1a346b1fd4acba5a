//! What has to change of a table's columns so that it takes rows, and nothing more.
//!
//! Only two things ever change: columns and fields are added, NULLABLE or REPEATED,
//! and REQUIRED becomes NULLABLE. Nothing is dropped, renamed, given another type or
//! made REQUIRED.

use arrow::datatypes::{DataType, Field as ArrowField, Schema};
use serde_json::{Value, json};

use super::create::{NewModes, element, field_for, plain};
use super::encode::FieldMarks;
use super::field::{Field, FieldType, Mode, TableSchema};
use super::json_write;
use crate::error::{Error, Result};

/// A change of a table's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaChange {
    /// A column is added, or a field to the struct at `parent`.
    Add {
        /// The names from the top to the struct; none for a column.
        parent: Vec<String>,
        /// What is added.
        field: Field,
    },
    /// A REQUIRED column or field becomes NULLABLE.
    Relax {
        /// The names from the top.
        path: Vec<String>,
    },
}

impl SchemaChange {
    /// The dotted path of the column or field.
    pub fn path(&self) -> String {
        match self {
            SchemaChange::Add { parent, field } => {
                let mut path = parent.clone();
                path.push(field.name.clone());
                path.join(".")
            }
            SchemaChange::Relax { path } => path.join("."),
        }
    }
}

/// The changes by which `table` takes rows of `rows`: all columns that it lacks are
/// added, and REQUIRED columns relaxed that the rows lack or that may be NULL in
/// them.
///
/// # Errors
/// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) naming a column that
/// cannot be added.
pub fn changes(
    rows: &Schema,
    table: &TableSchema,
    marks: &FieldMarks,
) -> Result<Vec<SchemaChange>> {
    let given: Vec<ArrowField> = rows
        .fields()
        .iter()
        .map(|field| field.as_ref().clone())
        .collect();
    let mut changes = Vec::new();
    level(&given, &table.fields, &[], marks, &mut changes)?;
    Ok(changes)
}

fn level(
    given: &[ArrowField],
    fields: &[Field],
    parent: &[String],
    marks: &FieldMarks,
    changes: &mut Vec<SchemaChange>,
) -> Result<()> {
    for column in given {
        let Some(live) = fields.iter().find(|field| field.is_named(column.name())) else {
            // Rows that are there already have no value for it.
            let field = field_for(column, &parent.join("."), marks, NewModes::Nullable)?;
            changes.push(SchemaChange::Add {
                parent: parent.to_vec(),
                field,
            });
            continue;
        };
        let mut path = parent.to_vec();
        path.push(live.name.clone());
        if live.mode == Mode::Required && column.is_nullable() {
            changes.push(SchemaChange::Relax { path: path.clone() });
        }
        if let FieldType::Struct(live_fields) = &live.field_type
            && let Some(inner) = struct_fields(column.data_type())
        {
            level(&inner, live_fields, &path, marks, changes)?;
        }
    }
    for live in fields {
        let given = given.iter().any(|column| live.is_named(column.name()));
        if !given && live.mode == Mode::Required && live.default_value_expression.is_none() {
            let mut path = parent.to_vec();
            path.push(live.name.clone());
            changes.push(SchemaChange::Relax { path });
        }
    }
    Ok(())
}

/// The fields of a struct, or of the structs of a list; the entries of a map are
/// structs of `key` and `value`.
fn struct_fields(data_type: &DataType) -> Option<Vec<ArrowField>> {
    let plain_type = plain(data_type);
    let is_map = matches!(plain_type, DataType::Map(..));
    let DataType::Struct(fields) = element(plain_type).unwrap_or(plain_type) else {
        return None;
    };
    let fields = fields.iter().map(|field| field.as_ref().clone());
    Some(match is_map {
        true => fields
            .zip(["key", "value"])
            .map(|(field, name)| field.with_name(name))
            .collect(),
        false => fields.collect(),
    })
}

/// The columns after the changes.
pub fn changed(table: &TableSchema, changes: &[SchemaChange]) -> TableSchema {
    fn at<'a>(fields: &'a mut [Field], path: &[String]) -> Option<&'a mut Field> {
        let (first, rest) = path.split_first()?;
        let field = fields.iter_mut().find(|field| field.is_named(first))?;
        match rest {
            [] => Some(field),
            rest => match &mut field.field_type {
                FieldType::Struct(fields) => at(fields, rest),
                _ => None,
            },
        }
    }
    let mut table = table.clone();
    for change in changes {
        match change {
            SchemaChange::Add { parent, field } if parent.is_empty() => {
                table.fields.push(field.clone());
            }
            SchemaChange::Add { parent, field } => {
                if let Some(Field {
                    field_type: FieldType::Struct(fields),
                    ..
                }) = at(&mut table.fields, parent)
                {
                    fields.push(field.clone());
                }
            }
            SchemaChange::Relax { path } => {
                if let Some(field) = at(&mut table.fields, path) {
                    field.mode = Mode::Nullable;
                }
            }
        }
    }
    table
}

/// Makes the changes in the `fields` of a table resource, which keeps whatever else
/// the service says there.
///
/// # Errors
/// [`Data`](crate::ErrorKind::Data) when the resource has no such columns.
pub fn apply(fields: &mut Value, changes: &[SchemaChange]) -> Result<()> {
    for change in changes {
        match change {
            SchemaChange::Add { parent, field } => {
                let children = match parent.as_slice() {
                    [] => &mut *fields,
                    parent => member(fields, parent)?
                        .get_mut("fields")
                        .ok_or_else(|| not_there(parent))?,
                };
                let Value::Array(children) = children else {
                    return Err(not_there(parent));
                };
                children.push(json_write::field(field));
            }
            SchemaChange::Relax { path } => {
                member(fields, path)?["mode"] = json!("NULLABLE");
            }
        }
    }
    Ok(())
}

/// The field at a path that is not empty.
fn member<'a>(fields: &'a mut Value, path: &[String]) -> Result<&'a mut Value> {
    let (first, rest) = path.split_first().ok_or_else(|| not_there(path))?;
    let first_lower = first.to_lowercase();
    let found = fields.as_array_mut().and_then(|fields| {
        fields.iter_mut().find(|field| {
            field["name"]
                .as_str()
                .is_some_and(|name| name.to_lowercase() == first_lower)
        })
    });
    let found = found.ok_or_else(|| not_there(path))?;
    match rest {
        [] => Ok(found),
        rest => {
            let inner = found.get_mut("fields").ok_or_else(|| not_there(rest))?;
            member(inner, rest)
        }
    }
}

fn not_there(path: &[String]) -> Error {
    Error::data(format!(
        "the service's schema has no column '{}' with fields",
        path.join(".")
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::types::create::table_schema_for;
    use crate::types::json::table_schema;

    fn nullable(name: &str, field_type: FieldType) -> Field {
        Field::new(name, field_type, Mode::Nullable)
    }

    fn live() -> TableSchema {
        TableSchema {
            fields: vec![
                Field::new("Id", FieldType::Int64, Mode::Required),
                nullable(
                    "address",
                    FieldType::Struct(vec![nullable("street", FieldType::String)]),
                ),
                Field::new(
                    "items",
                    FieldType::Struct(vec![Field::new("sku", FieldType::String, Mode::Required)]),
                    Mode::Repeated,
                ),
            ],
        }
    }

    fn arrow(name: &str, data_type: DataType) -> ArrowField {
        ArrowField::new(name, data_type, true)
    }

    fn paths(changes: &[SchemaChange]) -> Vec<String> {
        changes
            .iter()
            .map(|change| match change {
                SchemaChange::Add { field, .. } => {
                    format!("+{} {}", change.path(), field.field_type)
                }
                SchemaChange::Relax { .. } => format!("~{}", change.path()),
            })
            .collect()
    }

    #[test]
    fn n04_what_is_missing_is_added_at_every_depth() {
        let items = DataType::Struct(
            vec![
                ArrowField::new("sku", DataType::Utf8, false),
                ArrowField::new("price", DataType::Decimal128(10, 2), false),
            ]
            .into(),
        );
        let rows = Schema::new(vec![
            ArrowField::new("ID", DataType::Int64, false),
            arrow(
                "address",
                DataType::Struct(
                    vec![
                        arrow("street", DataType::Utf8),
                        arrow("zip", DataType::Utf8),
                    ]
                    .into(),
                ),
            ),
            arrow("items", DataType::List(Arc::new(arrow("item", items)))),
            arrow("placed", DataType::Date32),
        ]);
        let found = changes(&rows, &live(), &FieldMarks::default()).unwrap();
        assert_eq!(
            paths(&found),
            [
                "+address.zip STRING",
                "+items.price NUMERIC(10, 2)",
                "+placed DATE"
            ]
        );
        // What is added to rows that are there already is never REQUIRED.
        let after = changed(&live(), &found);
        let price = after.field_at(&["items", "price"]).unwrap();
        assert_eq!(price.mode, Mode::Nullable);
        assert_eq!(changes(&rows, &after, &FieldMarks::default()).unwrap(), []);
    }

    #[test]
    fn required_is_relaxed_where_rows_may_lack_it() {
        let rows = Schema::new(vec![arrow("address", DataType::Null)]);
        let found = changes(&rows, &live(), &FieldMarks::default()).unwrap();
        assert_eq!(paths(&found), ["~Id"]);
        let rows = Schema::new(vec![arrow("id", DataType::Int64)]);
        let found = changes(&rows, &live(), &FieldMarks::default()).unwrap();
        assert_eq!(paths(&found), ["~Id"]);
        let never = Schema::new(vec![ArrowField::new("id", DataType::Int64, false)]);
        assert_eq!(
            changes(&never, &live(), &FieldMarks::default()).unwrap(),
            []
        );
        let mut with_default = live();
        with_default.fields[0].default_value_expression = Some("1".into());
        let none = Schema::new(vec![arrow("address", DataType::Null)]);
        assert_eq!(
            changes(&none, &with_default, &FieldMarks::default()).unwrap(),
            []
        );
    }

    #[test]
    fn a_column_that_cannot_be_added_is_named() {
        let rows = Schema::new(vec![
            arrow("id", DataType::Int64),
            arrow(
                "address",
                DataType::Struct(vec![arrow("x", DataType::Null)].into()),
            ),
        ]);
        let error = changes(&rows, &live(), &FieldMarks::default()).unwrap_err();
        assert!(error.message().contains("'address.x'"), "{error}");
    }

    #[test]
    fn the_resource_keeps_what_is_not_changed() {
        let mut fields = json!([
            {"name": "id", "type": "INTEGER", "mode": "REQUIRED", "policyTags": {"names": ["x"]}},
            {"name": "s", "type": "RECORD", "fields": [{"name": "a", "type": "STRING"}]},
        ]);
        let parent = vec!["S".to_string()];
        apply(
            &mut fields,
            &[
                SchemaChange::Relax {
                    path: vec!["Id".into()],
                },
                SchemaChange::Add {
                    parent,
                    field: nullable("b", FieldType::Date),
                },
            ],
        )
        .unwrap();
        assert_eq!(fields[0]["mode"], "NULLABLE");
        assert_eq!(fields[0]["policyTags"]["names"][0], "x");
        assert_eq!(fields[1]["fields"][1]["name"], "b");
        let gone = SchemaChange::Relax {
            path: vec!["nope".into()],
        };
        assert!(apply(&mut fields, &[gone]).is_err());
    }

    fn data_type() -> impl Strategy<Value = DataType> {
        let leaf = prop_oneof![
            Just(DataType::Int64),
            Just(DataType::Utf8),
            Just(DataType::Date32),
            Just(DataType::Decimal128(10, 2)),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                fields_of(inner.clone()).prop_map(|fields| DataType::Struct(fields.into())),
                fields_of(inner).prop_map(|fields| {
                    let item = DataType::Struct(fields.into());
                    DataType::List(Arc::new(arrow("item", item)))
                }),
            ]
        })
    }

    fn fields_of(inner: impl Strategy<Value = DataType>) -> impl Strategy<Value = Vec<ArrowField>> {
        proptest::collection::btree_map("[a-e]", (inner, any::<bool>()), 1..4).prop_map(|fields| {
            fields
                .into_iter()
                .map(|(name, (data_type, nullable))| ArrowField::new(name, data_type, nullable))
                .collect()
        })
    }

    proptest! {
        /// Every change is needed once, changes nothing else, and the resource and
        /// the columns agree afterwards.
        #[test]
        fn after_the_changes_nothing_is_left_to_change(
            rows in fields_of(data_type()),
            other in fields_of(data_type()),
        ) {
            let marks = FieldMarks::default();
            let table = table_schema_for(&Schema::new(other), &marks, NewModes::Derived).unwrap();
            let rows = Schema::new(rows);
            let found = changes(&rows, &table, &marks).unwrap();
            let after = changed(&table, &found);
            prop_assert_eq!(changes(&rows, &after, &marks).unwrap(), vec![]);
            for field in &table.fields {
                let kept = after.field(&field.name).unwrap();
                prop_assert!(kept.mode == field.mode || kept.mode == Mode::Nullable);
            }
            let mut resource = json_write::fields(&table.fields);
            apply(&mut resource, &found).unwrap();
            let read = table_schema(Some(&json!({"fields": resource}))).unwrap();
            prop_assert_eq!(read, after);
        }
    }
}
