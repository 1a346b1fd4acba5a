//! Statements that define, change or remove what is in a BigQuery catalog.
//!
//! DataFusion would answer them with what it knows of catalogs in general: that a
//! schema exists already, or that a table does not. This version of the library
//! does none of it, and says so.

use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectType, SchemaName, Statement as SqlStatement,
};
use datafusion_bigquery::BigQueryCatalog;

/// How many parts the full name of something has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// `catalog.schema`
    Schema = 2,
    /// `catalog.schema.table`
    Table = 3,
}

/// What to do instead of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instead {
    /// Declare the table that an INSERT shall make.
    Declare,
    /// Make or remove the dataset by other means.
    Dataset,
    /// Have BigQuery run it.
    InBigQuery,
}

impl Instead {
    fn text(self) -> &'static str {
        match self {
            Instead::Declare => {
                "a table is made by the first INSERT into one declared with CREATE EXTERNAL TABLE … \
                 STORED AS BIGQUERY, and a table of this session has a name"
            }
            Instead::Dataset => {
                "a dataset is made and removed by BigQuery's own tools, as with 'bq mk', or by \
                 requests to the REST endpoint (SHOW bigquery.rest_endpoint), and a schema of this \
                 session is"
            }
            Instead::InBigQuery => {
                "run the statement in BigQuery; a table or view of this session has a name"
            }
        }
    }
}

/// Refuses a statement that would define, change or remove something in a
/// BigQuery catalog of `context`.
///
/// # Errors
/// It would; the error names the statement and what to write instead.
pub fn refuse(context: &SessionContext, statement: &Statement) -> Result<()> {
    use Instead::{Dataset, Declare, InBigQuery};
    let table = |name| vec![(name, Parts::Table)];
    let (words, names, instead) = match statement {
        Statement::CreateExternalTable(created) => {
            ("CREATE EXTERNAL TABLE", table(&created.name), Declare)
        }
        Statement::Statement(statement) => match statement.as_ref() {
            SqlStatement::CreateTable(created) => ("CREATE TABLE", table(&created.name), Declare),
            SqlStatement::CreateView(view) => ("CREATE VIEW", table(&view.name), InBigQuery),
            SqlStatement::AlterTable(altered) => ("ALTER TABLE", table(&altered.name), InBigQuery),
            SqlStatement::CreateSchema {
                schema_name: SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _),
                ..
            } => ("CREATE SCHEMA", vec![(name, Parts::Schema)], Dataset),
            SqlStatement::Drop {
                object_type, names, ..
            } => match object_type {
                ObjectType::Table => ("DROP TABLE", all(names, Parts::Table), InBigQuery),
                ObjectType::View => ("DROP VIEW", all(names, Parts::Table), InBigQuery),
                ObjectType::Schema => ("DROP SCHEMA", all(names, Parts::Schema), Dataset),
                _ => return Ok(()),
            },
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    for (name, parts) in names {
        let catalog = catalog_of(context, name, parts);
        let is_bigquery = context
            .catalog(&catalog)
            .is_some_and(|catalog| catalog.downcast_ref::<BigQueryCatalog>().is_some());
        if is_bigquery {
            return plan_err!(
                "{words} {name}: this version reads BigQuery and writes rows to it, and does not \
                 define, change or drop anything by this statement; {} outside of catalog {catalog}",
                instead.text()
            );
        }
    }
    Ok(())
}

fn all(names: &[ObjectName], parts: Parts) -> Vec<(&ObjectName, Parts)> {
    names.iter().map(|name| (name, parts)).collect()
}

/// The catalog that a name is in: its first part, if it has all of them.
fn catalog_of(context: &SessionContext, name: &ObjectName, parts: Parts) -> String {
    let state = context.state();
    let options = state.config_options();
    match name.0.first().and_then(|part| part.as_ident()) {
        Some(first) if name.0.len() == parts as usize => {
            normalized(first, options.sql_parser.enable_ident_normalization)
        }
        _ => options.catalog.default_catalog.clone(),
    }
}

fn normalized(ident: &Ident, fold: impl Into<bool>) -> String {
    if ident.quote_style.is_none() && fold.into() {
        ident.value.to_lowercase()
    } else {
        ident.value.clone()
    }
}
