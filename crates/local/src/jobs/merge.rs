//! What a write may change in its destination's schema.

use super::config::SchemaUpdateOption;
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, TableSchema};
use crate::store::TableRef;

/// Whose words a refusal uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wording {
    /// Recorded of query jobs: `Invalid schema update. …`.
    Query,
    /// Of load jobs: `Provided Schema does not match Table p:d.t. …`.
    Load,
}

/// The schema that `table` has after rows of `incoming` were added to `existing`.
///
/// Fields match by name. New ones and relaxed modes need their option; a mode that
/// `incoming` tightens is silently left as it is (measured, section 5.2 of the
/// service reference).
pub fn merge(
    table: &TableRef,
    existing: &TableSchema,
    incoming: &TableSchema,
    updates: &[SchemaUpdateOption],
    wording: Wording,
) -> Result<TableSchema> {
    let merge = Merge {
        prefix: match wording {
            Wording::Query => "Invalid schema update.".to_string(),
            Wording::Load => format!("Provided Schema does not match Table {table}."),
        },
        addition: updates.contains(&SchemaUpdateOption::FieldAddition),
        relaxation: updates.contains(&SchemaUpdateOption::FieldRelaxation),
    };
    let fields = merge.fields(&existing.fields, &incoming.fields, "")?;
    Ok(TableSchema::new(fields))
}

struct Merge {
    prefix: String,
    addition: bool,
    relaxation: bool,
}

impl Merge {
    fn refuse<T>(&self, why: std::fmt::Arguments<'_>) -> Result<T> {
        Err(ServiceError::invalid(format!("{} {why}", self.prefix)))
    }

    fn fields(&self, existing: &[Field], incoming: &[Field], path: &str) -> Result<Vec<Field>> {
        let find = |fields: &[Field], name: &str| {
            fields
                .iter()
                .position(|f| f.name.eq_ignore_ascii_case(name))
        };
        let mut merged = Vec::with_capacity(existing.len());
        for old in existing {
            let name = format!("{path}{}", old.name);
            match find(incoming, &old.name) {
                Some(i) => merged.push(self.field(old, &incoming[i], &name)?),
                None => merged.push(self.missing(old, &name)?),
            }
        }
        for new in incoming {
            if find(existing, &new.name).is_none() {
                merged.push(self.added(new, &format!("{path}{}", new.name))?);
            }
        }
        Ok(merged)
    }

    fn field(&self, old: &Field, new: &Field, name: &str) -> Result<Field> {
        let mut merged = old.clone();
        match (&old.field_type, &new.field_type) {
            (FieldType::Struct(a), FieldType::Struct(b)) => {
                merged.field_type = FieldType::Struct(self.fields(a, b, &format!("{name}."))?);
            }
            (a, b) if a == b => {}
            (a, b) => {
                return self.refuse(format_args!(
                    "Field {name} has changed type from {} to {}",
                    a.rest_name(),
                    b.rest_name()
                ));
            }
        }
        match (old.mode(), new.mode()) {
            (a, b) if a == b => {}
            (Mode::Nullable, Mode::Required) => {}
            (Mode::Required, Mode::Nullable) if self.relaxation => {
                merged.mode = Some(Mode::Nullable);
            }
            (a, b) => {
                return self.refuse(format_args!(
                    "Field {name} has changed mode from {} to {}",
                    mode_name(a),
                    mode_name(b)
                ));
            }
        }
        Ok(merged)
    }

    fn missing(&self, old: &Field, name: &str) -> Result<Field> {
        let mut kept = old.clone();
        if old.mode() == Mode::Required && old.default_value_expression.is_none() {
            if !self.relaxation {
                return self.refuse(format_args!("Field {name} is missing in new schema"));
            }
            kept.mode = Some(Mode::Nullable);
        }
        Ok(kept)
    }

    fn added(&self, new: &Field, name: &str) -> Result<Field> {
        if new.mode() == Mode::Required {
            return self.refuse(format_args!(
                "Cannot add required fields to an existing schema. (field: {name})"
            ));
        }
        if !self.addition {
            return self.refuse(format_args!("Cannot add fields (field: {name})"));
        }
        let mut added = new.clone();
        added.mode = Some(new.mode());
        Ok(added)
    }
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Nullable => "NULLABLE",
        Mode::Required => "REQUIRED",
        Mode::Repeated => "REPEATED",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ADD: SchemaUpdateOption = SchemaUpdateOption::FieldAddition;
    const RELAX: SchemaUpdateOption = SchemaUpdateOption::FieldRelaxation;

    fn schema(fields: serde_json::Value) -> TableSchema {
        serde_json::from_value(json!({"fields": fields})).unwrap()
    }

    fn run(
        existing: serde_json::Value,
        incoming: serde_json::Value,
        updates: &[SchemaUpdateOption],
        wording: Wording,
    ) -> Result<serde_json::Value, String> {
        let table = TableRef::new("p", "d", "t");
        merge(
            &table,
            &schema(existing),
            &schema(incoming),
            updates,
            wording,
        )
        .map(|s| serde_json::to_value(s).unwrap()["fields"].clone())
        .map_err(|e| e.message)
    }

    #[test]
    fn recorded_refusals() {
        let id = json!([{"name": "id", "type": "INTEGER"}]);
        let shape = json!([{"name": "shape", "type": "STRING"}]);
        assert_eq!(
            run(id.clone(), shape.clone(), &[], Wording::Query),
            Err("Invalid schema update. Cannot add fields (field: shape)".into())
        );
        assert_eq!(
            run(id, shape, &[], Wording::Load),
            Err(
                "Provided Schema does not match Table p:d.t. Cannot add fields (field: shape)"
                    .into()
            )
        );
    }

    #[test]
    fn columns_are_added_at_the_end_and_in_structs() {
        let merged = run(
            json!([{"name": "s", "type": "RECORD", "fields": [{"name": "a", "type": "INTEGER"}]}]),
            json!([
                {"name": "n", "type": "STRING"},
                {"name": "S", "type": "STRUCT", "fields": [{"name": "b", "type": "DATE", "mode": "REPEATED"}]}
            ]),
            &[ADD],
            Wording::Load,
        )
        .unwrap();
        assert_eq!(
            merged,
            json!([
                {"name": "s", "type": "RECORD", "fields": [
                    {"name": "a", "type": "INTEGER"},
                    {"name": "b", "type": "DATE", "mode": "REPEATED"}]},
                {"name": "n", "type": "STRING", "mode": "NULLABLE"}
            ])
        );
        let required = run(
            json!([]),
            json!([{"name": "n", "type": "STRING", "mode": "REQUIRED"}]),
            &[ADD],
            Wording::Query,
        );
        assert!(
            required
                .unwrap_err()
                .contains("Cannot add required fields to an existing schema")
        );
    }

    #[test]
    fn modes_relax_with_leave_and_tighten_never() {
        let nullable = json!([{"name": "a", "type": "INTEGER", "mode": "NULLABLE"}]);
        let required = json!([{"name": "a", "type": "INTEGER", "mode": "REQUIRED"}]);
        assert_eq!(
            run(required.clone(), nullable.clone(), &[], Wording::Query),
            Err("Invalid schema update. Field a has changed mode from REQUIRED to NULLABLE".into())
        );
        assert_eq!(
            run(required.clone(), nullable.clone(), &[RELAX], Wording::Query),
            Ok(nullable.clone())
        );
        assert_eq!(
            run(nullable.clone(), required.clone(), &[], Wording::Query),
            Ok(nullable.clone())
        );
        assert_eq!(
            run(required.clone(), json!([]), &[RELAX], Wording::Query),
            Ok(nullable)
        );
        let missing = run(required, json!([]), &[ADD], Wording::Query);
        assert!(
            missing
                .unwrap_err()
                .ends_with("Field a is missing in new schema")
        );
    }

    #[test]
    fn types_stay() {
        let result = run(
            json!([{"name": "a", "type": "INTEGER"}]),
            json!([{"name": "a", "type": "STRING"}]),
            &[ADD, RELAX],
            Wording::Query,
        );
        assert_eq!(
            result,
            Err("Invalid schema update. Field a has changed type from INTEGER to STRING".into())
        );
    }
}
