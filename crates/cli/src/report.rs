//! An error as one line for a terminal.

use std::error::Error;
use std::fmt;

use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

use crate::hints::with_hint;

/// Names of rules of planning, which DataFusion puts before their errors.
const RULES: [&str; 7] = [
    "plan_bigquery_inserts",
    "fit_literals_to_bigquery_types",
    "read_files_before_bigquery",
    "bigquery_late_filters",
    "bigquery_arrange_writers",
    "bigquery_keep_change_order",
    "type_coercion",
];

/// Prints `Error: ` and what failed on standard error.
pub fn print_error(error: &dyn fmt::Display) {
    print_note(&format!("Error: {error}"));
}

/// Prints a line on standard error.
#[expect(
    clippy::print_stderr,
    reason = "where a command-line program reports to"
)]
pub fn print_note(line: &str) {
    eprintln!("{}", printable(line));
}

/// The line with control characters written out. What a server says, and names,
/// must not move the cursor of a terminal or change its colours.
fn printable(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\n' | '\t' => text.push(c),
            c if c.is_control() => text.extend(c.escape_default()),
            c => text.push(c),
        }
    }
    text
}

/// What `error` says, on one line: the words of its cause, behind the contexts
/// it passed through, without the names of Rust types around them; and what to do
/// about it, where DataFusion does not say.
pub fn one_line(error: &DataFusionError) -> String {
    with_hint(words(error))
}

fn words(error: &DataFusionError) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in parts_of(error) {
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        // A context often repeats the message of what it wraps.
        if !part.is_empty() && !parts.iter().any(|known| known.contains(&part)) {
            parts.push(part);
        }
    }
    parts.join(": ")
}

fn parts_of(error: &DataFusionError) -> Vec<String> {
    match error {
        // Which rule of the planner has found it says nothing to who wrote the statement.
        DataFusionError::Context(context, inner) if RULES.contains(&context.as_str()) => {
            parts_of(inner)
        }
        DataFusionError::Context(context, inner) => {
            let mut parts = vec![context.clone()];
            parts.extend(parts_of(inner));
            parts
        }
        DataFusionError::Diagnostic(_, inner) => parts_of(inner),
        DataFusionError::Shared(inner) => parts_of(inner),
        DataFusionError::Collection(errors) => {
            let lines: Vec<String> = errors.iter().map(words).collect();
            vec![lines.join("; ")]
        }
        DataFusionError::SQL(inner, _) => vec![format!("cannot parse the SQL: {}", parser(inner))],
        DataFusionError::SchemaError(inner, _) => vec![schema(inner)],
        DataFusionError::External(inner) => external(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => external(inner.as_ref()),
        DataFusionError::ParquetError(inner) => external(inner.as_ref()),
        DataFusionError::ObjectStore(inner) => external(inner.as_ref()),
        DataFusionError::Internal(_) => vec![error.strip_backtrace()],
        other => vec![without_backtrace(&other.message())],
    }
}

/// An error from outside DataFusion, with those it was caused by.
fn external(error: &(dyn Error + 'static)) -> Vec<String> {
    if let Some(inner) = error.downcast_ref::<DataFusionError>() {
        return parts_of(inner);
    }
    // Its line stands without what caused it.
    if let Some(error) = error.downcast_ref::<datafusion_bigquery::Error>() {
        return vec![error.to_string()];
    }
    let mut parts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(inner) = cause.downcast_ref::<DataFusionError>() {
            parts.extend(parts_of(inner));
            break;
        }
        parts.push(cause.to_string());
        source = cause.source();
    }
    parts
}

fn parser(error: &ParserError) -> String {
    match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message.clone(),
        ParserError::RecursionLimitExceeded => {
            "the statement is nested too deeply for the parser".to_string()
        }
    }
}

fn schema(error: &SchemaError) -> String {
    match error {
        SchemaError::FieldNotFound {
            field,
            valid_fields,
        } => no_column(field, valid_fields),
        other => other.to_string(),
    }
}

/// The name of the column that is not there and those that are, which stand
/// without their table if that is the same for all.
fn no_column(wrong: &Column, right: &[Column]) -> String {
    /// More names than this make the line useless.
    const SHOWN: usize = 40;
    let table = right
        .first()
        .and_then(|column| column.relation.as_ref())
        .filter(|table| {
            right
                .iter()
                .all(|column| column.relation.as_ref() == Some(*table))
        });
    let names: Vec<String> = right
        .iter()
        .take(SHOWN)
        .map(|column| match table {
            Some(_) => Column::from_name(&column.name).quoted_flat_name(),
            None => column.quoted_flat_name(),
        })
        .collect();
    let mut line = format!("no column {}", wrong.quoted_flat_name());
    if names.is_empty() {
        return line;
    }
    line.push_str(&match table {
        Some(table) => format!("; the columns of {table} are "),
        None => "; the columns here are ".to_string(),
    });
    line.push_str(&names.join(", "));
    if right.len() > SHOWN {
        line.push_str(&format!(" and {} more", right.len() - SHOWN));
    }
    line
}

fn without_backtrace(message: &str) -> String {
    message
        .split(DataFusionError::BACK_TRACE_SEP)
        .next()
        .unwrap_or(message)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::{TableReference, plan_datafusion_err};
    use datafusion::sql::parser::DFParser;

    #[derive(Debug)]
    struct Outer(Inner);
    #[derive(Debug)]
    struct Inner;

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("cannot reach http://127.0.0.1:1")
        }
    }
    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }
    impl fmt::Display for Inner {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("connection\nrefused")
        }
    }
    impl Error for Inner {}

    #[test]
    fn contexts_and_causes_on_one_line() {
        let error = DataFusionError::External(Box::new(Outer(Inner)))
            .context("reading table p.d.t")
            .context("reading table p.d.t");
        assert_eq!(
            one_line(&error),
            "reading table p.d.t: cannot reach http://127.0.0.1:1: connection refused"
        );
    }

    #[test]
    fn rules_of_bigquery_are_known() {
        let options = datafusion_bigquery::RawOptions::new();
        let builder = datafusion::execution::SessionStateBuilder::new_with_default_features();
        let state = datafusion_bigquery::with_bigquery(builder, options)
            .unwrap()
            .build();
        let analyzer = state.analyzer().rules.iter().map(|rule| rule.name());
        let physical = state.physical_optimizers().iter().map(|rule| rule.name());
        let ours: Vec<_> = analyzer
            .chain(physical)
            .filter(|name| name.contains("bigquery"))
            .collect();
        assert!(ours.len() >= 5, "{ours:?}");
        for rule in ours {
            assert!(RULES.contains(&rule), "{rule}");
        }
    }

    #[test]
    fn names_of_rules_are_left_out() {
        for rule in RULES {
            let error = plan_datafusion_err!("no order")
                .context(rule)
                .context("INSERT");
            assert_eq!(one_line(&error), "INSERT: no order");
        }
    }

    #[test]
    fn a_cause_that_the_message_has_already_is_left_out() {
        #[derive(Debug)]
        struct Quoting(Inner);
        impl fmt::Display for Quoting {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("failed: connection refused")
            }
        }
        impl Error for Quoting {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = DataFusionError::External(Box::new(Quoting(Inner)));
        assert_eq!(one_line(&error), "failed: connection refused");
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(
            printable("a\u{1b}[2Jb\u{9b}31m\tc\r"),
            r"a\u{1b}[2Jb\u{9b}31m	c\r"
        );
    }

    #[test]
    fn errors_of_the_library_are_a_line_already() {
        let error = datafusion_bigquery::Error::data("table p.d.t: the schema is empty")
            .with_source(Inner)
            .with_context("reading table p.d.t");
        assert_eq!(
            one_line(&error.into()),
            "reading table p.d.t: table p.d.t: the schema is empty"
        );
    }

    #[test]
    fn plan_and_parser_errors_carry_no_type_names() {
        let error = plan_datafusion_err!("table 'a.b.c' not found");
        assert_eq!(one_line(&error), "table 'a.b.c' not found");

        let error = DFParser::parse_sql("selec 1").expect_err("not SQL");
        let line = one_line(&error);
        assert!(line.starts_with("cannot parse the SQL: Expected"), "{line}");
        assert!(!line.contains("ParserError"), "{line}");
    }

    #[test]
    fn a_wrong_column_names_the_right_ones() {
        let line = |right: Vec<Column>| {
            one_line(&DataFusionError::SchemaError(
                Box::new(SchemaError::FieldNotFound {
                    field: Box::new(Column::from_name("carier")),
                    valid_fields: right,
                }),
                Box::new(None),
            ))
        };
        let of = |table: &str, name: &str| Column::new(Some(TableReference::from(table)), name);
        assert_eq!(line(vec![]), "no column carier");
        assert_eq!(
            line(vec![of("a.b.c", "x"), of("a.b.c", "Y")]),
            "no column carier; the columns of a.b.c are x, \"Y\""
        );
        assert_eq!(
            line(vec![of("s", "x"), of("t", "x")]),
            "no column carier; the columns here are s.x, t.x"
        );
        let many = (0..50).map(|i| of("t", &format!("c{i}"))).collect();
        let line = line(many);
        assert!(line.ends_with("c38, c39 and 10 more"), "{line}");
    }

    #[test]
    fn several_errors_stand_side_by_side() {
        let error = DataFusionError::Collection(vec![
            plan_datafusion_err!("first"),
            plan_datafusion_err!("second"),
        ]);
        assert_eq!(one_line(&error), "first; second");
    }
}
