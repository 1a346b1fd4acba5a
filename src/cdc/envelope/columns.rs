//! The columns of the rows in envelopes: declared as in CREATE TABLE, or read off the rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use arrow::json::ReaderBuilder;
use arrow::json::reader::infer_json_schema_from_iterator;
use datafusion::catalog::Session;
use datafusion::common::{TableReference, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::planner::ContextProvider;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF};
use datafusion::sql::planner::{ParserOptions, SqlToRel};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use serde_json::Value;
use serde_json::value::RawValue;

use super::lines::envelopes;
use super::wrong;
use crate::error::{Error, Result};

/// How columns are declared, for errors.
const SUCH_AS: &str = "such as 'id BIGINT, name VARCHAR, price DECIMAL(38, 9)'";

/// The files and, after them, the columns, if they are declared.
///
/// # Errors
/// The last argument is neither a file nor columns.
pub(super) fn files_and_columns(
    mut arguments: Vec<String>,
    session: &dyn Session,
) -> Result<(Vec<PathBuf>, Option<Fields>)> {
    let declared = match arguments.last() {
        Some(last) if arguments.len() > 1 && !Path::new(last).exists() => {
            match declared(last, session) {
                Ok(fields) => Some(fields),
                // A name of a file that does not exist has no spaces that could part names
                // from types.
                Err(_) if !last.trim().contains([' ', '\t', '\n', ',']) => None,
                Err(error) => {
                    return Err(wrong(format!(
                        "'{last}' is neither a file nor columns as CREATE TABLE has them, \
                         {SUCH_AS}: {}",
                        error.message()
                    )));
                }
            }
        }
        _ => None,
    };
    if declared.is_some() {
        arguments.pop();
    }
    let files = arguments.into_iter().map(PathBuf::from).collect();
    Ok((files, declared))
}

/// The columns of definitions such as `id BIGINT, name VARCHAR`.
fn declared(definitions: &str, session: &dyn Session) -> Result<Fields> {
    let unread = |error: ParserError| wrong(error.to_string());
    let dialect = GenericDialect {};
    let mut parser = Parser::new(&dialect)
        .try_with_sql(definitions)
        .map_err(unread)?;
    let columns = parser
        .parse_comma_separated(Parser::parse_column_def)
        .map_err(unread)?;
    if parser.peek_token().token != Token::EOF {
        let rest = parser.peek_token();
        return Err(wrong(format!("'{rest}' is not expected there")));
    }
    if let Some(column) = columns.iter().find(|column| !column.options.is_empty()) {
        return Err(wrong(format!(
            "column {} has more than a name and a type: rows before and after a change may leave \
             any column out",
            column.name
        )));
    }
    let config = session.config_options();
    let options = ParserOptions::from(&config.sql_parser);
    let schema = SqlToRel::new_with_options(&TypesOnly(config), options)
        .build_schema(columns)
        .map_err(|error| wrong(error.strip_backtrace()))?;
    for (at, field) in schema.fields().iter().enumerate() {
        let name = field.name();
        if schema.fields()[..at]
            .iter()
            .any(|other| other.name() == name)
        {
            return Err(wrong(format!("column {name} is declared twice")));
        }
        if matches!(
            field.data_type(),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView
        ) {
            return Err(wrong(format!(
                "column {name} cannot be {}: JSON has bytes as text, so declare it VARCHAR and \
                 write decode({name}, 'base64')",
                field.data_type()
            )));
        }
        // Whether there are values of the type in JSON at all.
        let image = Field::new(name, field.data_type().clone(), true);
        ReaderBuilder::new_with_field(image)
            .build_decoder()
            .map_err(|error| wrong(format!("column {name} cannot be read off JSON: {error}")))?;
    }
    let fields = schema.fields().iter();
    Ok(fields
        .map(|field| Arc::new(field.as_ref().clone().with_nullable(true)))
        .collect())
}

/// What the planner needs for types: nothing but options.
struct TypesOnly<'a>(&'a ConfigOptions);

impl ContextProvider for TypesOnly<'_> {
    fn get_table_source(&self, name: TableReference) -> DataFusionResult<Arc<dyn TableSource>> {
        plan_err!("there is no table {name} in a type")
    }

    fn get_function_meta(&self, _: &str) -> Option<Arc<ScalarUDF>> {
        None
    }

    fn get_higher_order_meta(&self, _: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, _: &str) -> Option<Arc<AggregateUDF>> {
        None
    }

    fn get_window_meta(&self, _: &str) -> Option<Arc<WindowUDF>> {
        None
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.0
    }

    fn udf_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The columns that rows have in any envelope.
///
/// # Errors
/// A file cannot be read, its rows have no common columns, or there is no row at all.
pub(super) fn inferred(files: &[PathBuf]) -> Result<Fields> {
    let mut failed: Option<Error> = None;
    let value = |image: Option<Box<RawValue>>, place: &str| {
        let value = image.map(|image| serde_json::from_str::<Value>(image.get()));
        value
            .transpose()
            .map_err(|error| wrong(format!("{place} cannot be read: {error}")))
    };
    let rows = envelopes(files.to_vec()).map_while(|envelope| {
        let images = envelope.and_then(|envelope| {
            let before = value(envelope.before, &envelope.place)?;
            Ok([before, value(envelope.after, &envelope.place)?])
        });
        match images {
            Ok(images) => Some(images),
            Err(error) => {
                failed = Some(error);
                None
            }
        }
    });
    let schema = infer_json_schema_from_iterator(rows.flatten().flatten().map(Ok));
    if let Some(error) = failed {
        return Err(error);
    }
    let schema = schema.map_err(|error| {
        wrong(format!(
            "the rows of the envelopes have no common columns ({error}): declare them in a last \
             argument, {SUCH_AS}"
        ))
    })?;
    if schema.fields().is_empty() {
        let names: Vec<_> = files.iter().map(|f| f.display().to_string()).collect();
        return Err(wrong(format!(
            "{} has no rows before or after changes, so that their columns are not known: declare \
             them in a last argument, {SUCH_AS}",
            names.join(", ")
        )));
    }
    // A column that is null everywhere is text, so that it has a type.
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Null => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
        _ => Arc::clone(field),
    });
    Ok(fields.collect())
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;

    fn of(arguments: &[&str]) -> Result<(Vec<PathBuf>, Option<Fields>)> {
        let arguments = arguments.iter().map(|text| (*text).to_string()).collect();
        files_and_columns(arguments, &SessionContext::new().state())
    }

    #[test]
    fn columns_are_declared_as_in_create_table() {
        let definitions = "id BIGINT, \"Name\" VARCHAR, Price DECIMAL(38, 9), tags INT[]";
        let (files, columns) = of(&["a.jsonl", "b.jsonl", definitions]).unwrap();
        assert_eq!(files.len(), 2);
        let columns = columns.unwrap();
        let names: Vec<_> = columns.iter().map(|c| c.name().as_str()).collect();
        assert_eq!(names, ["id", "Name", "price", "tags"]);
        assert_eq!(columns[2].data_type(), &DataType::Decimal128(38, 9));
        assert!(columns.iter().all(|column| column.is_nullable()));
    }

    #[test]
    fn names_of_files_are_no_columns() {
        for arguments in [&["a.jsonl"][..], &["a", "b.jsonl"], &["a", "b"], &["x y"]] {
            let (files, columns) = of(arguments).unwrap();
            assert_eq!((files.len(), columns), (arguments.len(), None));
        }
        for (definitions, why) in [
            ("id BIGNT", "BIGNT"),
            ("id BIGINT, id INT", "declared twice"),
            ("id BIGINT NOT NULL", "more than a name and a type"),
            ("id BYTEA", "base64"),
            ("id INT; DROP", "not expected"),
        ] {
            let error = of(&["a.jsonl", definitions]).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("neither"), "{error}");
        }
    }
}
