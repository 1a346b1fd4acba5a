//! Queries as statements: their result's columns and rows.

use arrow::array::RecordBatch;

use super::super::functions::SqlType;
use super::analyze::{Analyzer, Col, Rel};
use super::ast::Query;
use super::env::Env;
use super::output::to_batch;
use super::session::run;
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, TableSchema, arrow_schema};

/// The columns that a query's result shows: those of a value table are its fields.
pub(super) fn result_columns(analyzer: &Analyzer<'_>, query: &Query) -> Result<Rel> {
    let rel = analyzer.query(query, None)?;
    let rel = analyzer.settle_rel(rel)?;
    if rel.value_table {
        return analyzer.exploded(rel);
    }
    Ok(rel)
}

/// The columns' schema, with names for columns that have none.
pub(super) fn schema_of(columns: &[Col]) -> Result<TableSchema> {
    let mut fields: Vec<Field> = Vec::with_capacity(columns.len());
    let mut anonymous = 0;
    for column in columns {
        let name = match &column.name {
            Some(name) => name.clone(),
            None => {
                anonymous += 1;
                format!("f{}_", anonymous - 1)
            }
        };
        let mut field = column.ty.to_column(&name);
        name_fields(&mut field);
        if column.fold_case && column.ty == SqlType::String {
            field.collation = Some("und:ci".into());
        }
        fields.push(field);
    }
    Ok(TableSchema::new(fields))
}

/// The schema of a query's result: a name that was there before gets a number
/// (recorded: `id`, `id_1`).
pub(super) fn result_schema(columns: &[Col]) -> Result<TableSchema> {
    let mut schema = schema_of(columns)?;
    for i in 0..schema.fields.len() {
        let taken = |name: &str, schema: &TableSchema| {
            schema.fields[..i]
                .iter()
                .any(|f| f.name.eq_ignore_ascii_case(name))
        };
        let own = schema.fields[i].name.clone();
        let mut name = own.clone();
        let mut number = 0;
        while taken(&name, &schema) {
            number += 1;
            name = format!("{own}_{number}");
        }
        schema.fields[i].name = name;
    }
    Ok(schema)
}

/// The schema of a table or view: names must differ.
pub(super) fn distinct_schema(columns: &[Col], what: &str) -> Result<TableSchema> {
    let schema = schema_of(columns)?;
    for (i, field) in schema.fields.iter().enumerate() {
        if schema.fields[..i]
            .iter()
            .any(|f| f.name.eq_ignore_ascii_case(&field.name))
        {
            return Err(ServiceError::invalid_query(format!(
                "{what} has columns with duplicate name {}",
                field.name
            )));
        }
    }
    Ok(schema)
}

/// Fields of a STRUCT without a name are called by their place.
fn name_fields(field: &mut Field) {
    if let FieldType::Struct(fields) = &mut field.field_type {
        for (i, inner) in fields.iter_mut().enumerate() {
            if inner.name.is_empty() {
                inner.name = format!("_field_{}", i + 1);
            }
            name_fields(inner);
        }
    }
}

/// Runs a relation and gives its rows the form of `schema`.
pub(super) fn rows(env: &Env, rel: &Rel, schema: &TableSchema) -> Result<Vec<RecordBatch>> {
    let arrow = arrow_schema(schema);
    run(&env.context, &rel.plan)?
        .iter()
        .filter(|b| b.num_rows() > 0)
        .map(|batch| {
            let columns = rel
                .columns
                .iter()
                .map(|c| {
                    batch.column_by_name(&c.id).cloned().ok_or_else(|| {
                        ServiceError::internal(format!("column {} is missing", c.id))
                    })
                })
                .collect::<Result<Vec<_>>>()?;
            to_batch(&columns, batch.num_rows(), &arrow)
        })
        .collect()
}
