//! What the service demands of a schema.

use std::collections::HashSet;

use super::field::{Field, FieldType, Mode, TableSchema};
use crate::error::{Result, ServiceError};

/// Longest column name in characters.
const MAX_NAME: usize = 300;
/// Most columns of a table, counting nested ones.
pub const MAX_COLUMNS: usize = 10_000;
/// Deepest nesting of STRUCTs.
const MAX_DEPTH: usize = 15;
/// Longest description of a column in characters.
const MAX_DESCRIPTION: usize = 1024;

/// Prefixes that no column's name may start with, in any case.
const RESERVED_PREFIXES: [&str; 9] = [
    "_PARTITION",
    "_TABLE_",
    "_FILE_",
    "_ROW_TIMESTAMP",
    "__ROOT__",
    "_COLIDENTIFIER",
    "_CHANGE_SEQUENCE_NUMBER",
    "_CHANGE_TYPE",
    "_CHANGE_TIMESTAMP",
];

/// Refuses a schema that no table may have.
pub fn validate_schema(schema: &TableSchema) -> Result<()> {
    let leaves: usize = schema.fields.iter().map(leaves).sum();
    if leaves > MAX_COLUMNS {
        return Err(ServiceError::invalid(format!(
            "Too many total leaf fields: {leaves}, (max allowed: {MAX_COLUMNS})"
        )));
    }
    fields(&schema.fields, "", 1)
}

fn leaves(field: &Field) -> usize {
    match &field.field_type {
        FieldType::Struct(inner) => inner.iter().map(leaves).sum(),
        _ => 1,
    }
}

fn fields(all: &[Field], path: &str, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH + 1 {
        return Err(ServiceError::invalid(format!(
            "Field {path} is nested too deeply: a schema may have at most {MAX_DEPTH} levels of nested RECORD fields"
        )));
    }
    let mut seen = HashSet::with_capacity(all.len());
    for field in all {
        name(&field.name)?;
        if !seen.insert(field.name.to_lowercase()) {
            return Err(ServiceError::invalid(format!(
                "Field {} already exists in schema",
                joined(path, &field.name)
            )));
        }
        parameters(field, &joined(path, &field.name), depth)?;
        if let FieldType::Struct(inner) = &field.field_type {
            let path = joined(path, &field.name);
            if inner.is_empty() {
                return Err(ServiceError::invalid(format!(
                    "Field {path} is type RECORD but has no schema"
                )));
            }
            fields(inner, &path, depth + 1)?;
        }
    }
    Ok(())
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_string()
    } else {
        format!("{path}.{name}")
    }
}

fn name(name: &str) -> Result<()> {
    // What flexible column names exclude.
    let forbidden = |c: char| c.is_control() || "!\"$()*,./;?@[\\]^`{}~".contains(c);
    if name.is_empty() || name.chars().count() > MAX_NAME || name.contains(forbidden) {
        return Err(ServiceError::invalid(format!(
            "Invalid field name \"{name}\". Fields must contain the allowed characters, and be at most {MAX_NAME} characters long. For allowed characters, please refer to https://cloud.google.com/bigquery/docs/schemas#column_names"
        )));
    }
    let upper = name.to_ascii_uppercase();
    if RESERVED_PREFIXES.iter().any(|p| upper.starts_with(p)) {
        return Err(ServiceError::invalid(format!(
            "Invalid field name \"{name}\". Field names are not allowed to start with the (case-insensitive) prefixes {}",
            RESERVED_PREFIXES.join(", ")
        )));
    }
    Ok(())
}

fn parameters(field: &Field, path: &str, depth: usize) -> Result<()> {
    let refuse = |what: String| Err(ServiceError::invalid(format!("Field {path}: {what}")));
    let kind = field.field_type.sql_name();
    if field
        .description
        .as_ref()
        .is_some_and(|d| d.chars().count() > MAX_DESCRIPTION)
    {
        return refuse(format!(
            "the description has more than {MAX_DESCRIPTION} characters"
        ));
    }
    if let Some(n) = field.max_length {
        if !matches!(field.field_type, FieldType::String | FieldType::Bytes) {
            return refuse(format!("maxLength is not allowed for type {kind}"));
        }
        if n < 1 {
            return refuse(format!("maxLength must be at least 1, not {n}"));
        }
    }
    decimal_parameters(field, path)?;
    if let Some(rounding) = &field.rounding_mode {
        if !matches!(field.field_type, FieldType::Numeric | FieldType::Bignumeric) {
            return refuse(format!("roundingMode is not allowed for type {kind}"));
        }
        if !matches!(
            rounding.as_str(),
            "ROUNDING_MODE_UNSPECIFIED" | "ROUND_HALF_AWAY_FROM_ZERO" | "ROUND_HALF_EVEN"
        ) {
            return refuse(format!("{rounding} is not a valid roundingMode"));
        }
    }
    if let Some(collation) = field.collation.as_deref().filter(|c| !c.is_empty()) {
        if !matches!(field.field_type, FieldType::String) {
            return refuse(format!("collation is not allowed for type {kind}"));
        }
        if collation != "und:ci" {
            return refuse(format!("{collation} is not a valid collation"));
        }
    }
    if let Some(p) = field.timestamp_precision
        && (field.field_type != FieldType::Timestamp || !matches!(p, 6 | 12))
    {
        return refuse(format!(
            "timestampPrecision {p} is not allowed for type {kind}"
        ));
    }
    if depth > 1 && field.default_value_expression.is_some() {
        return refuse("a default value is only allowed for a top-level field".into());
    }
    Ok(())
}

fn decimal_parameters(field: &Field, path: &str) -> Result<()> {
    let refuse = |what: String| Err(ServiceError::invalid(format!("Field {path}: {what}")));
    if field.precision.is_none() && field.scale.is_none() {
        return Ok(());
    }
    let kind = field.field_type.sql_name();
    let (max_scale, max_whole) = match field.field_type {
        FieldType::Numeric => (9, 29),
        FieldType::Bignumeric => (38, 38),
        _ => {
            return refuse(format!(
                "precision and scale are not allowed for type {kind}"
            ));
        }
    };
    let Some(precision) = field.precision else {
        return refuse("scale needs a precision".into());
    };
    let scale = field.scale.unwrap_or(0);
    if !(0..=max_scale).contains(&scale) {
        return refuse(format!(
            "the scale of {kind} must be between 0 and {max_scale}, not {scale}"
        ));
    }
    let least = scale.max(1);
    let most = scale + max_whole;
    if !(least..=most).contains(&precision) {
        return refuse(format!(
            "the precision of {kind} with scale {scale} must be between {least} and {most}, not {precision}"
        ));
    }
    Ok(())
}

/// Refuses a new schema that an existing table cannot take by an update: fields
/// may be added and relaxed, descriptions, defaults and limits may change.
///
/// Answers the schema that the table has afterwards: the old fields in their old
/// order, then the new ones.
pub fn evolve_schema(table: &str, old: &TableSchema, new: &TableSchema) -> Result<TableSchema> {
    let refuse = |why: String| {
        ServiceError::invalid(format!(
            "Provided Schema does not match Table {table}. {why}"
        ))
    };
    evolve_fields(&old.fields, &new.fields, "")
        .map(TableSchema::new)
        .map_err(refuse)
}

fn evolve_fields(old: &[Field], new: &[Field], path: &str) -> Result<Vec<Field>, String> {
    let find = |fields: &[Field], name: &str| {
        fields
            .iter()
            .position(|f| f.name.eq_ignore_ascii_case(name))
    };
    let mut out = Vec::with_capacity(new.len());
    for before in old {
        let at = joined(path, &before.name);
        let Some(i) = find(new, &before.name) else {
            return Err(format!("Field {at} is missing in new schema"));
        };
        out.push(evolve_field(before, &new[i], &at)?);
    }
    for added in new.iter().filter(|f| find(old, &f.name).is_none()) {
        if added.mode() == Mode::Required {
            return Err(format!(
                "Cannot add required fields to an existing schema. (field: {})",
                joined(path, &added.name)
            ));
        }
        out.push(added.clone());
    }
    Ok(out)
}

fn evolve_field(old: &Field, new: &Field, at: &str) -> Result<Field, String> {
    let mut field = new.clone();
    field.name.clone_from(&old.name);
    match (&old.field_type, &new.field_type) {
        (FieldType::Struct(before), FieldType::Struct(after)) => {
            field.field_type = FieldType::Struct(evolve_fields(before, after, at)?);
        }
        (before, after) if before == after => {}
        (before, after) => {
            return Err(format!(
                "Field {at} has changed type from {} to {}",
                before.rest_name(),
                after.rest_name()
            ));
        }
    }
    match (old.mode(), new.mode()) {
        (before, after) if before == after => field.mode = new.mode.or(old.mode),
        (Mode::Required, Mode::Nullable) => {}
        (before, after) => {
            let word = |mode| match mode {
                Mode::Nullable => "NULLABLE",
                Mode::Required => "REQUIRED",
                Mode::Repeated => "REPEATED",
            };
            return Err(format!(
                "Field {at} has changed mode from {} to {}",
                word(before),
                word(after)
            ));
        }
    }
    // A limit may be widened or dropped.
    let narrower = |before: Option<i64>, after: Option<i64>| match (before, after) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(before), Some(after)) => after < before,
    };
    let whole = |f: &Field| f.precision.map(|p| p - f.scale.unwrap_or(0));
    let scale = |f: &Field| f.precision.map(|_| f.scale.unwrap_or(0));
    if narrower(old.max_length, new.max_length)
        || narrower(whole(old), whole(new))
        || narrower(scale(old), scale(new))
    {
        return Err(format!(
            "Field {at} has changed type from {} to {}",
            old.sql_type(),
            new.sql_type()
        ));
    }
    if old.collation.as_deref().unwrap_or("") != new.collation.as_deref().unwrap_or("") {
        return Err(format!("Field {at} has changed collation"));
    }
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn schema(fields: Value) -> TableSchema {
        serde_json::from_value(json!({ "fields": fields })).unwrap()
    }

    fn refusal(fields: Value) -> String {
        validate_schema(&schema(fields)).unwrap_err().message
    }

    #[test]
    fn refuses_what_no_table_may_have() {
        for (fields, words) in [
            (
                json!([{"name": "a", "type": "STRING"}, {"name": "A", "type": "STRING"}]),
                "Field A already exists in schema",
            ),
            (
                json!([{"name": "a.b", "type": "STRING"}]),
                "Invalid field name \"a.b\"",
            ),
            (
                json!([{"name": "_partitiontime", "type": "STRING"}]),
                "not allowed to start with",
            ),
            (
                json!([{"name": "x".repeat(301), "type": "STRING"}]),
                "at most 300 characters",
            ),
            (
                json!([{"name": "n", "type": "NUMERIC", "precision": "40"}]),
                "the precision of NUMERIC with scale 0 must be between 1 and 29, not 40",
            ),
            (
                json!([{"name": "n", "type": "NUMERIC", "precision": 10, "scale": 10}]),
                "the scale of NUMERIC must be between 0 and 9",
            ),
            (
                json!([{"name": "n", "type": "BIGNUMERIC", "precision": 77, "scale": 38}]),
                "between 38 and 76",
            ),
            (
                json!([{"name": "n", "type": "NUMERIC", "scale": 2}]),
                "scale needs a precision",
            ),
            (
                json!([{"name": "n", "type": "INTEGER", "precision": 2}]),
                "not allowed for type INT64",
            ),
            (
                json!([{"name": "s", "type": "STRING", "maxLength": "0"}]),
                "at least 1",
            ),
            (
                json!([{"name": "d", "type": "DATE", "maxLength": "3"}]),
                "maxLength is not allowed",
            ),
            (
                json!([{"name": "s", "type": "STRING", "collation": "de:ci"}]),
                "not a valid collation",
            ),
            (
                json!([{"name": "r", "type": "RECORD", "fields": [{"name": "x", "type": "STRING"}, {"name": "X", "type": "STRING"}]}]),
                "Field r.X already exists",
            ),
            (
                json!([{"name": "r", "type": "RECORD", "fields": [{"name": "x", "type": "INTEGER", "defaultValueExpression": "1"}]}]),
                "Field r.x: a default value",
            ),
        ] {
            let message = refusal(fields);
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| {
            let mut field = json!({"name": "leaf", "type": "STRING"});
            for i in 0..depth {
                field = json!({"name": format!("r{i}"), "type": "RECORD", "fields": [field]});
            }
            schema(json!([field]))
        };
        assert!(validate_schema(&nested(15)).is_ok());
        assert!(validate_schema(&nested(16)).is_err());
        let wide = (0..=MAX_COLUMNS)
            .map(|i| Field::new(format!("c{i}"), FieldType::Bool))
            .collect();
        let message = validate_schema(&TableSchema::new(wide))
            .unwrap_err()
            .message;
        assert_eq!(
            message,
            "Too many total leaf fields: 10001, (max allowed: 10000)"
        );
    }

    #[test]
    fn accepts_what_tables_have() {
        validate_schema(&schema(json!([
            {"name": "Ä b%=+-&#", "type": "STRING", "maxLength": "10", "collation": "und:ci"},
            {"name": "n", "type": "NUMERIC", "precision": "38", "scale": "9", "roundingMode": "ROUND_HALF_EVEN"},
            {"name": "b", "type": "BIGNUMERIC", "precision": "76", "scale": "38"},
            {"name": "t", "type": "TIMESTAMP", "timestampPrecision": "12", "defaultValueExpression": "CURRENT_TIMESTAMP()"}
        ])))
        .unwrap();
    }

    #[test]
    fn evolution_adds_and_relaxes_only() {
        let old = schema(json!([
            {"name": "a", "type": "INTEGER", "mode": "REQUIRED"},
            {"name": "b", "type": "STRING", "maxLength": "5"},
            {"name": "r", "type": "RECORD", "fields": [{"name": "x", "type": "INTEGER"}]},
            {"name": "n", "type": "NUMERIC", "precision": "5", "scale": "2"}
        ]));
        let evolve = |fields: Value| {
            evolve_schema("p:d.t", &old, &schema(fields)).map_err(|e| {
                e.message
                    .strip_prefix("Provided Schema does not match Table p:d.t. ")
                    .unwrap()
                    .to_string()
            })
        };
        let (a, b) = (
            json!({"name": "A", "type": "INTEGER"}),
            json!({"name": "b", "type": "STRING"}),
        );
        let r = json!({"name": "r", "type": "RECORD", "fields": [{"name": "y", "type": "DATE", "mode": "REPEATED"}, {"name": "x", "type": "INTEGER"}]});
        let n = json!({"name": "n", "type": "NUMERIC", "precision": "7", "scale": "3"});
        let new = evolve(json!([{"name": "z", "type": "JSON"}, r, b, a, n])).unwrap();
        let names: Vec<&str> = new.fields.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "r", "n", "z"]);
        assert_eq!(new.fields[0].mode(), Mode::Nullable);
        assert_eq!(new.fields[2].fields()[0].name, "x");
        for (fields, words) in [
            (json!([a, b, n]), "Field r is missing in new schema"),
            (
                json!([{"name": "a", "type": "STRING"}, b, r, n]),
                "Field a has changed type from INTEGER to STRING",
            ),
            (
                json!([a, {"name": "b", "type": "STRING", "mode": "REQUIRED"}, r, n]),
                "Field b has changed mode from NULLABLE to REQUIRED",
            ),
            (
                json!([a, {"name": "b", "type": "STRING", "mode": "REPEATED"}, r, n]),
                "Field b has changed mode from NULLABLE to REPEATED",
            ),
            (
                json!([a, {"name": "b", "type": "STRING", "maxLength": "4"}, r, n]),
                "Field b has changed type from STRING(5) to STRING(4)",
            ),
            (
                json!([a, b, r, {"name": "n", "type": "NUMERIC", "precision": "6", "scale": "3"}, {"name": "q", "type": "DATE", "mode": "REQUIRED"}]),
                "Cannot add required fields to an existing schema. (field: q)",
            ),
            (
                json!([a, b, r, {"name": "n", "type": "NUMERIC", "precision": "5", "scale": "3"}]),
                "Field n has changed type from NUMERIC(5, 2) to NUMERIC(5, 3)",
            ),
            (
                json!([a, b, {"name": "r", "type": "RECORD", "fields": [{"name": "x", "type": "FLOAT"}]}, n]),
                "Field r.x has changed type from INTEGER to FLOAT",
            ),
        ] {
            assert_eq!(evolve(fields).unwrap_err(), words);
        }
    }
}
