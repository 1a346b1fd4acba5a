//! Running statements and printing what they answer.
//!
//! Statements run through datafusion-cli, so that all of its SQL, its printing
//! and its treatment of files and object stores are here as they are there. One
//! statement cannot take that way: before a table factory sees
//! `CREATE EXTERNAL TABLE`, datafusion-cli reads LOCATION as the URL of a file
//! and OPTIONS as those of a file format, and refuses BigQuery's. So a statement
//! with `STORED AS BIGQUERY` goes to the session directly.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::instant::Instant;
use datafusion::common::plan_datafusion_err;
use datafusion::config::Dialect;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::dialect::{Dialect as SqlDialect, dialect_from_str};
use datafusion_cli::command::{Command, OutputFormat};
use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};

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
        // Kept as a comment, so that lines keep their numbers.
        let text = match text.strip_prefix("#!") {
            Some(rest) => format!("--{rest}"),
            None => text,
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
        match parsed.pop_front() {
            Some(statement) if parsed.is_empty() && is_bigquery_table(&statement) => {
                self.create_table(statement).await
            }
            _ => exec_from_commands(&self.context, vec![sql.to_string()], &self.printing()).await,
        }
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
            Command::Include(Some(file)) => self.run_file(Path::new(&file)).await?,
            Command::OutputFormat(Some(setting)) => match setting.parse::<OutputFormat>() {
                Ok(format) => format.execute(&mut self.print)?,
                Err(()) => return Err(unknown_command(text)),
            },
            Command::OutputFormat(None) => self.print_format(),
            other => other.execute(&self.context, &mut self.print).await?,
        }
        Ok(Next::Continue)
    }

    #[expect(clippy::print_stdout, reason = "the answer to a command of the shell")]
    fn print_format(&self) {
        println!("Output format is {:?}.", self.print.format);
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
