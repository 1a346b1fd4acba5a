//! Running statements and printing what they answer.
//!
//! Statements run through datafusion-cli, so that all of its SQL, its printing
//! and its treatment of files and object stores are here as they are there. One
//! statement cannot take that way: before a table factory sees
//! `CREATE EXTERNAL TABLE`, datafusion-cli reads LOCATION as the URL of a file
//! and OPTIONS as those of a file format, and refuses BigQuery's. So a statement
//! with `STORED AS BIGQUERY` goes to the session directly.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::instant::Instant;
use datafusion::common::plan_datafusion_err;
use datafusion::config::{ConfigExtension, Dialect};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, Statement as SqlStatement};
use datafusion::sql::sqlparser::dialect::{Dialect as SqlDialect, dialect_from_str};
use datafusion_cli::command::{Command, OutputFormat};
use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};

use datafusion_bigquery::BigQueryOptions;
use datafusion_bigquery::session::renew_catalog;
use futures::StreamExt;

use crate::definitions;
use crate::report::one_line;
use crate::statements::statements;

/// A session and how its answers are printed.
pub struct Shell {
    context: SessionContext,
    print: PrintOptions,
}

/// Whether the shell goes on after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Read the next statement.
    Continue,
    /// `\q`: leave the shell.
    Quit,
}

/// A statement that failed, and where it stands. Displays as one line.
#[derive(Debug)]
pub struct Failure {
    place: Option<String>,
    error: DataFusionError,
}

impl Failure {
    /// Whether the statement stopped because whoever read its output is gone, as
    /// in `dfbq … | head`.
    pub fn reader_is_gone(&self) -> bool {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&self.error);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<io::Error>()
                && error.kind() == io::ErrorKind::BrokenPipe
            {
                return true;
            }
            // All that Arrow's CSV writer keeps of an error is its text.
            if let Some(ArrowError::CsvError(text)) = error.downcast_ref()
                && text.starts_with("Broken pipe")
            {
                return true;
            }
            cause = error.source();
        }
        false
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Self {
        Self { place: None, error }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&one_line(&self.error))
    }
}

impl Error for Failure {}

impl Shell {
    /// A shell over `context`.
    pub fn new(context: SessionContext, print: PrintOptions) -> Self {
        Self { context, print }
    }

    /// The session.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// How answers are printed.
    pub fn print_options(&self) -> &PrintOptions {
        &self.print
    }

    /// How the next answer is printed. Only a table, which people read, ends after
    /// `maxrows`; what programs read has every row.
    fn printing(&self) -> PrintOptions {
        let maxrows = match self.print.format {
            PrintFormat::Table | PrintFormat::Automatic => self.print.maxrows,
            PrintFormat::Csv | PrintFormat::Tsv | PrintFormat::Json | PrintFormat::NdJson => {
                MaxRows::Unlimited
            }
        };
        PrintOptions {
            maxrows,
            ..self.print.clone()
        }
    }

    /// Name of the session's SQL dialect; `SET` may have changed it.
    pub fn dialect(&self) -> Dialect {
        self.context.state().config_options().sql_parser.dialect
    }

    /// The rules of [`dialect`](Self::dialect).
    ///
    /// # Errors
    /// DataFusion has no parser for it.
    pub fn sql_dialect(&self) -> Result<Box<dyn SqlDialect>> {
        let dialect = self.dialect();
        dialect_from_str(dialect).ok_or_else(|| {
            plan_datafusion_err!(
                "SQL dialect {dialect} is not supported; use one of {}",
                Dialect::available()
            )
        })
    }

    /// Runs the statements of `text` in order, or the shell's command in it, if it
    /// begins with a backslash.
    ///
    /// # Errors
    /// The first statement that fails; those after it are not run.
    pub async fn run(&mut self, text: &str) -> Result<Next, Failure> {
        match text.trim_start().strip_prefix('\\') {
            Some(command) => self.run_command(command.trim_end()).await,
            None => {
                self.run_statements(text, None).await?;
                Ok(Next::Continue)
            }
        }
    }

    /// Runs the statements of a file in order. A first line that begins with `#!`
    /// is skipped.
    ///
    /// # Errors
    /// The file cannot be read, or a statement fails, which is named by its line.
    pub async fn run_file(&self, path: &Path) -> Result<(), Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            DataFusionError::Execution(format!("cannot read {}: {error}", path.display()))
        })?;
        let text = without_byte_order_mark(&text);
        // Kept as a comment, so that lines keep their numbers.
        let text = match text.strip_prefix("#!") {
            Some(rest) => Cow::Owned(format!("--{rest}")),
            None => Cow::Borrowed(text),
        };
        self.run_statements(&text, Some(path)).await
    }

    async fn run_statements(&self, text: &str, file: Option<&Path>) -> Result<(), Failure> {
        let mut at = 0;
        while at < text.len() {
            let dialect = self.dialect();
            let rest = &text[at..];
            let start = at;
            at = text.len();
            for piece in statements(rest, self.sql_dialect()?.as_ref()) {
                self.run_statement(piece.sql).await.map_err(|error| {
                    let line = text[..start + piece.first_word].matches('\n').count() + 1;
                    Failure {
                        place: file.map(|path| format!("{}:{line}", path.display())),
                        error,
                    }
                })?;
                // What strings and comments are may be different from here on.
                if self.dialect() != dialect {
                    at = start + piece.end;
                    break;
                }
            }
        }
        Ok(())
    }

    async fn run_statement(&self, sql: &str) -> Result<()> {
        let dialect = self.sql_dialect()?;
        let mut parsed = DFParser::parse_sql_with_dialect(sql, dialect.as_ref())?;
        for statement in &parsed {
            definitions::refuse(&self.context, statement)?;
        }
        let statement = match parsed.len() {
            1 => parsed.pop_front(),
            _ => None,
        };
        if !statement.as_ref().is_some_and(is_set) {
            // What SET said of connections since the catalog was made.
            renew_catalog(&self.context)?;
        }
        match statement {
            Some(statement) if is_bigquery_table(&statement) => self.create_table(statement).await,
            Some(statement) if is_query(&statement) && self.prints_for_machines() => {
                self.print_query(statement).await
            }
            // DataFusion resets its own options only.
            Some(Statement::Reset(ResetStatement::Variable(name))) if is_bigquery_option(&name) => {
                self.exec(format!("SET {name} = ''")).await
            }
            _ => self.exec(sql.to_string()).await,
        }
    }

    async fn exec(&self, sql: String) -> Result<()> {
        exec_from_commands(&self.context, vec![sql], &self.printing()).await
    }

    fn prints_for_machines(&self) -> bool {
        match self.print.format {
            PrintFormat::Csv | PrintFormat::Tsv | PrintFormat::Json | PrintFormat::NdJson => true,
            PrintFormat::Table | PrintFormat::Automatic => false,
        }
    }

    /// Runs a query for a program to read: a result without rows has its header
    /// or brackets all the same.
    async fn print_query(&self, statement: Statement) -> Result<()> {
        let started = Instant::now();
        let state = self.context.state();
        let plan = state.statement_to_plan(statement).await?;
        let frame = self.context.execute_logical_plan(plan).await?;
        let memory = MemoryConsumer::new("dfbq").register(&state.runtime_env().memory_pool);
        let mut stream = frame.execute_stream().await?;
        let schema = stream.schema();
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            memory.try_grow(batch.get_array_memory_size())?;
            batches.push(batch);
        }
        let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if count == 0 {
            print_no_rows(self.print.format, &schema)?;
        }
        self.printing().print_batches(
            schema,
            &batches,
            started,
            count,
            &state.config_options().format,
        )
    }

    /// Runs `CREATE EXTERNAL TABLE … STORED AS BIGQUERY`.
    async fn create_table(&self, statement: Statement) -> Result<()> {
        let started = Instant::now();
        let state = self.context.state();
        let plan = state.statement_to_plan(statement).await?;
        let created = self.context.execute_logical_plan(plan).await?;
        let schema = Arc::clone(created.schema().inner());
        let rows = created.collect().await?;
        let count = rows.iter().map(RecordBatch::num_rows).sum();
        let print = PrintOptions {
            format: match self.print.format {
                PrintFormat::Automatic => PrintFormat::Table,
                chosen => chosen,
            },
            ..self.print.clone()
        };
        print.print_batches(
            schema,
            &rows,
            started,
            count,
            &state.config_options().format,
        )
    }

    /// Runs one of the shell's own commands, written without its backslash.
    async fn run_command(&mut self, text: &str) -> Result<Next, Failure> {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let Ok(command) = words.parse::<Command>() else {
            return Err(unknown_command(text));
        };
        match command {
            Command::Quit => return Ok(Next::Quit),
            Command::Help => print_lines(&HELP)?,
            Command::Include(Some(file)) => self.run_file(Path::new(&file)).await?,
            Command::OutputFormat(Some(setting)) => match setting.parse::<OutputFormat>() {
                Ok(format) => format.execute(&mut self.print)?,
                Err(()) => return Err(unknown_command(text)),
            },
            Command::OutputFormat(None) => {
                print_lines(&[&format!("Output format is {:?}.", self.print.format)])?;
            }
            other => other.execute(&self.context, &mut self.print).await?,
        }
        Ok(Next::Continue)
    }
}

/// The shell's own commands.
const HELP: [&str; 10] = [
    "\\d               list tables",
    "\\d NAME          describe a table",
    "\\q               quit",
    "\\?               this help",
    "\\i FILE          run the statements of a file",
    "\\h               list functions",
    "\\h FUNCTION      describe a function",
    "\\quiet [true]    show or set whether counts and times are left out",
    "\\pset [format F] show or set the output format",
    "\\object_store_profiling [MODE]  show or set profiling: disabled, summary, trace",
];

/// Prints lines; that nobody reads them is an error like any other.
fn print_lines(lines: &[&str]) -> Result<()> {
    let mut out = io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

/// What a result without rows is in a format for programs, which
/// datafusion-cli leaves empty.
fn print_no_rows(format: PrintFormat, schema: &Schema) -> Result<()> {
    let names: Vec<Cow<'_, str>> = schema
        .fields()
        .iter()
        .map(|field| match format {
            PrintFormat::Csv => quoted(field.name(), ','),
            _ => quoted(field.name(), '\t'),
        })
        .collect();
    match format {
        PrintFormat::Csv => print_lines(&[&names.join(",")]),
        PrintFormat::Tsv => print_lines(&[&names.join("\t")]),
        PrintFormat::Json => print_lines(&["[]"]),
        PrintFormat::NdJson | PrintFormat::Table | PrintFormat::Automatic => Ok(()),
    }
}

/// A field of CSV, in quotes if it needs them.
fn quoted(text: &str, separator: char) -> Cow<'_, str> {
    match text.contains([separator, '"', '\n', '\r']) {
        true => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
        false => Cow::Borrowed(text),
    }
}

/// Editors of some systems put one before the text.
pub fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn is_set(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => matches!(statement.as_ref(), SqlStatement::Set(_)),
        Statement::Reset(_) => true,
        _ => false,
    }
}

fn is_bigquery_option(name: &ObjectName) -> bool {
    let first = name.0.first().and_then(ObjectNamePart::as_ident);
    first.is_some_and(|first| first.value.eq_ignore_ascii_case(BigQueryOptions::PREFIX))
}

fn is_query(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => matches!(statement.as_ref(), SqlStatement::Query(_)),
        _ => false,
    }
}

fn is_bigquery_table(statement: &Statement) -> bool {
    match statement {
        Statement::CreateExternalTable(table) => table.file_type.eq_ignore_ascii_case("BIGQUERY"),
        _ => false,
    }
}

fn unknown_command(text: &str) -> Failure {
    Failure::from(DataFusionError::Execution(format!(
        "'\\{text}' is not a command of the shell; \\? lists them"
    )))
}
