//! CREATE and DROP.

use std::sync::Arc;

use super::super::request::DdlOutcome;
use super::alter;
use super::analyze::Analyzer;
use super::ast::{CreateMode, CreateSchema, CreateView, Statement, StatementKind};
use super::create_routine::{create_function, create_procedure};
use super::create_table::{create_table, plain_modes};
use super::drop::drop_object;
use super::env::{Effect, Env};
use super::options;
use super::select;
use crate::error::{Result, ServiceError};
use crate::schema::TableSchema;
use crate::store::{
    Dataset, DatasetRef, Mutation, TableKind, TableMeta, TableRef, View, millis_now,
};

/// What a DDL statement did.
pub(super) struct Done {
    pub(super) statement_type: &'static str,
    pub(super) outcome: DdlOutcome,
    /// Columns of a new table or view, which its job reports (recorded).
    pub(super) schema: Option<TableSchema>,
}

/// An outcome about a table.
pub(super) fn about_table(
    statement_type: &'static str,
    operation: &'static str,
    table: TableRef,
) -> Done {
    Done {
        statement_type,
        schema: None,
        outcome: DdlOutcome {
            operation: operation.into(),
            dataset: None,
            table: Some(table),
        },
    }
}

pub(super) fn about_dataset(
    statement_type: &'static str,
    operation: &'static str,
    dataset: DatasetRef,
) -> Done {
    Done {
        statement_type,
        schema: None,
        outcome: DdlOutcome {
            operation: operation.into(),
            dataset: Some(dataset),
            table: None,
        },
    }
}

pub(super) fn about_routine(statement_type: &'static str, operation: &'static str) -> Done {
    Done {
        statement_type,
        schema: None,
        outcome: DdlOutcome {
            operation: operation.into(),
            dataset: None,
            table: None,
        },
    }
}

/// Runs a DDL statement.
pub(super) fn run(
    env: &Env,
    analyzer: &Analyzer<'_>,
    statement: &Statement,
    text: &str,
) -> Result<Done> {
    let routine = matches!(
        statement.kind,
        StatementKind::CreateFunction(_) | StatementKind::CreateProcedure(_)
    );
    let temporary = matches!(&statement.kind, StatementKind::CreateTable(t) if t.temporary);
    if !routine && !temporary {
        env.no_transaction("A DDL statement")?;
    }
    match &statement.kind {
        StatementKind::CreateTable(create) => create_table(env, analyzer, create),
        StatementKind::CreateView(create) => create_view(env, analyzer, create),
        StatementKind::CreateSchema(create) => create_schema(env, analyzer, create),
        StatementKind::CreateFunction(create) => create_function(env, analyzer, create),
        StatementKind::CreateProcedure(create) => create_procedure(env, create),
        StatementKind::Drop(drop) => drop_object(env, drop),
        StatementKind::Alter(alter) => alter::alter(env, analyzer, alter),
        _ => Err(ServiceError::unsupported(format_args!(
            "The statement {}",
            text.split_whitespace().next().unwrap_or("")
        ))),
    }
}

/// The columns of a view's query.
pub(super) fn view_columns(env: &Env, text: &str) -> Result<TableSchema> {
    let query = super::parser::parse_query(text)?;
    let analyzer = Analyzer::new(env, text);
    let rel = select::result_columns(&analyzer, &query)?;
    let mut schema = select::distinct_schema(&rel.columns, "CREATE VIEW")?;
    schema.fields.iter_mut().for_each(plain_modes);
    Ok(schema)
}

fn create_view(env: &Env, analyzer: &Analyzer<'_>, create: &CreateView) -> Result<Done> {
    let statement_type = if create.materialized {
        "CREATE_MATERIALIZED_VIEW"
    } else {
        "CREATE_VIEW"
    };
    if create.partition_by.is_some() || !create.cluster_by.is_empty() {
        return Err(ServiceError::unsupported(
            "PARTITION BY or CLUSTER BY of a materialized view",
        ));
    }
    let reference = env.table_ref(&create.path)?;
    let schema = view_columns(env, &create.text)?;
    let schema = match &create.columns {
        None => schema,
        Some(columns) => {
            let same = columns.len() == schema.fields.len()
                && columns
                    .iter()
                    .zip(&schema.fields)
                    .all(|((name, _), f)| name.is(&f.name));
            if !same {
                return Err(ServiceError::unsupported(
                    "A column list in CREATE VIEW that renames columns",
                ));
            }
            let mut schema = schema;
            for ((_, opts), field) in columns.iter().zip(&mut schema.fields) {
                options::column(analyzer, opts, field)?;
            }
            schema
        }
    };
    let view = View {
        query: create.text.clone(),
    };
    let kind = if create.materialized {
        TableKind::MaterializedView(view)
    } else {
        TableKind::View(view)
    };
    let dataset = env.service.store.read(|state| {
        state
            .dataset(&reference.dataset_ref())
            .cloned()
            .ok_or_else(|| env.no_dataset(&reference.dataset_ref()))
    })?;
    let mut meta = TableMeta::new(&dataset, kind, Arc::new(schema), millis_now());
    options::table(analyzer, &create.options, &mut meta)?;
    let exists = env
        .service
        .store
        .read(|state| state.table(&reference).is_some());
    let operation = match (exists, create.mode) {
        (true, CreateMode::IfNotExists) => {
            return Ok(about_table(statement_type, "SKIP", reference));
        }
        (true, CreateMode::Plain) => {
            return Err(ServiceError::duplicate(format_args!("Table {reference}")));
        }
        (true, CreateMode::OrReplace) => "REPLACE",
        (false, _) => "CREATE",
    };
    let done = Done {
        schema: Some((*meta.schema).clone()),
        ..about_table(statement_type, operation, reference.clone())
    };
    if env.dry_run {
        return Ok(done);
    }
    env.commit(Effect::Ddl(&done), |state| {
        let mut mutations = Vec::new();
        if state.table(&reference).is_some() {
            if create.mode != CreateMode::OrReplace {
                return Err(ServiceError::duplicate(format_args!("Table {reference}")));
            }
            mutations.push(Mutation::DropTable(reference.clone()));
        }
        mutations.push(Mutation::PutTable(reference.clone(), Box::new(meta)));
        Ok(mutations)
    })?;
    Ok(done)
}

fn create_schema(env: &Env, analyzer: &Analyzer<'_>, create: &CreateSchema) -> Result<Done> {
    let reference = env.dataset_ref(&create.path)?;
    let valid = !reference.dataset.is_empty()
        && reference.dataset.len() <= 1024
        && reference
            .dataset
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !valid {
        return Err(ServiceError::invalid(format!(
            "Invalid dataset ID \"{}\". Dataset IDs must be alphanumeric (plus underscores) and must be at most 1024 characters long.",
            reference.dataset
        )));
    }
    match create.collate.as_deref() {
        None | Some("") => {}
        Some(other) => {
            return Err(ServiceError::unsupported(format_args!(
                "DEFAULT COLLATE '{other}'"
            )));
        }
    }
    if create.mode == CreateMode::OrReplace {
        return Err(ServiceError::invalid_query(
            "CREATE OR REPLACE SCHEMA is not supported",
        ));
    }
    let mut dataset = Dataset::new(env.location.clone(), millis_now());
    options::dataset(analyzer, &create.options, &mut dataset)?;
    let exists = env
        .service
        .store
        .read(|state| state.dataset(&reference).is_some());
    if exists {
        return match create.mode {
            CreateMode::IfNotExists => Ok(about_dataset("CREATE_SCHEMA", "SKIP", reference)),
            _ => Err(ServiceError::duplicate(format_args!("Dataset {reference}"))),
        };
    }
    let done = about_dataset("CREATE_SCHEMA", "CREATE", reference.clone());
    if !env.dry_run {
        env.commit(Effect::Ddl(&done), |state| {
            if state.dataset(&reference).is_some() {
                return Err(ServiceError::duplicate(format_args!("Dataset {reference}")));
            }
            Ok(vec![Mutation::PutDataset(reference.clone(), dataset)])
        })?;
    }
    Ok(done)
}
