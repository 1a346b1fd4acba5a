//! Reading statements from a terminal.

use std::path::PathBuf;

use std::borrow::Cow;

use datafusion::config::Dialect;
use datafusion::sql::sqlparser::dialect::{GenericDialect, dialect_from_str};
use datafusion_cli::helper::CliHelper;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};

use crate::report::{print_error, print_note};
use crate::shell::{Next, Shell};
use crate::statements::is_ended;

/// Reads statements with datafusion-cli's line editor and runs each, until `\q`
/// or the end of input. A statement that fails is reported on standard error and
/// the next one is read; Ctrl-C ends the statement that is running.
///
/// # Errors
/// The terminal cannot be read.
pub async fn read_and_run(shell: &mut Shell) -> Result<(), ReadlineError> {
    let mut editor: Editor<LineHelper, DefaultHistory> = Editor::new()?;
    editor.set_helper(Some(LineHelper::new(
        shell.dialect(),
        shell.print_options().color,
    )));
    let history = history_file();
    if let Some(file) = &history {
        // There is none before the first session.
        let _ = editor.load_history(file);
    }

    loop {
        match editor.readline("> ") {
            Ok(text) => {
                if text.trim().is_empty() {
                    continue;
                }
                editor.add_history_entry(text.trim_end())?;
                let outcome = tokio::select! {
                    outcome = shell.run(&text) => outcome,
                    _ = tokio::signal::ctrl_c() => {
                        print_note("cancelled");
                        continue;
                    }
                };
                match outcome {
                    Ok(Next::Continue) => {}
                    Ok(Next::Quit) => break,
                    Err(failure) => print_error(&failure),
                }
                if let Some(helper) = editor.helper_mut() {
                    helper.set_dialect(shell.dialect());
                }
            }
            Err(ReadlineError::Interrupted) => {
                if let Some(helper) = editor.helper() {
                    helper.cli.reset_hint();
                }
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error),
        }
    }

    if let Some(file) = &history
        && let Err(error) = editor.save_history(file)
    {
        print_note(&format!("cannot save {}: {error}", file.display()));
    }
    Ok(())
}

/// `~/.dfbq_history`.
fn history_file() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".dfbq_history"))
}

/// datafusion-cli's help at the prompt, but for what a statement is: there, one
/// that does not parse can be neither run nor left, and its error stays on the
/// screen among the lines. Here a semicolon ends it, and running it says what is
/// wrong with it.
struct LineHelper {
    cli: CliHelper,
    dialect: Dialect,
}

impl LineHelper {
    fn new(dialect: Dialect, color: bool) -> Self {
        Self {
            cli: CliHelper::new(&dialect, color),
            dialect,
        }
    }

    fn set_dialect(&mut self, dialect: Dialect) {
        self.cli.set_dialect(&dialect);
        self.dialect = dialect;
    }

    fn is_whole(&self, input: &str) -> bool {
        let dialect = dialect_from_str(self.dialect).unwrap_or_else(|| Box::new(GenericDialect {}));
        let input = input.trim();
        input.is_empty() || input.starts_with('\\') || is_ended(input, dialect.as_ref())
    }
}

impl Validator for LineHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        self.cli.reset_hint();
        Ok(match self.is_whole(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Completer for LineHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        self.cli.complete(line, position, context)
    }
}

impl Hinter for LineHelper {
    type Hint = String;

    fn hint(&self, line: &str, position: usize, context: &Context<'_>) -> Option<String> {
        self.cli.hint(line, position, context)
    }
}

impl Highlighter for LineHelper {
    fn highlight<'l>(&self, line: &'l str, position: usize) -> Cow<'l, str> {
        self.cli.highlight(line, position)
    }

    fn highlight_char(&self, line: &str, position: usize, kind: CmdKind) -> bool {
        self.cli.highlight_char(line, position, kind)
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        self.cli.highlight_hint(hint)
    }
}

impl Helper for LineHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semicolon_ends_a_statement_that_does_not_parse() {
        let helper = LineHelper::new(Dialect::Generic, false);
        for whole in ["selec 1;", ";", "\\q", "", "select 1; -- done"] {
            assert!(helper.is_whole(whole), "{whole}");
        }
        for part in ["select 1", "select 'a;", "select 1; select"] {
            assert!(!helper.is_whole(part), "{part}");
        }
    }
}
