//! Reading statements from standard input that is not a terminal.

use std::io::BufRead;

use datafusion::error::DataFusionError;

use crate::report::print_error;
use crate::shell::{Failure, Next, Shell, without_byte_order_mark};
use crate::statements::is_ended;

/// How reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every statement was done.
    Clean,
    /// Some failed, and were reported.
    WithFailures,
}

/// Runs statements as their last lines arrive on `input`, until `\q` or its end.
/// A line that begins with a backslash between statements is a command of the
/// shell. A statement that fails is reported on standard error and reading goes
/// on; the last statement may lack its semicolon.
///
/// # Errors
/// `input` cannot be read or is not UTF-8, or nobody reads the output any more.
pub async fn read_and_run(shell: &mut Shell, mut input: impl BufRead) -> Result<Ended, Failure> {
    let mut ended = Ended::Clean;
    let mut pending = String::new();
    let mut first = true;
    loop {
        let begins_line = pending.len();
        let read = input.read_line(&mut pending).map_err(|error| {
            DataFusionError::Execution(format!("cannot read standard input: {error}"))
        })?;
        let at_end = read == 0;
        if first {
            first = false;
            pending = without_byte_order_mark(&pending).to_string();
        }
        let line = pending[begins_line..].trim();
        let command = line.starts_with('\\') && pending[..begins_line].trim().is_empty();
        let ready = at_end
            || command
            || (line.ends_with(';') && is_ended(&pending, shell.sql_dialect()?.as_ref()));
        if ready && !pending.trim().is_empty() {
            match shell.run(&pending).await {
                Ok(Next::Continue) => {}
                Ok(Next::Quit) => break,
                Err(failure) if failure.reader_is_gone() => return Err(failure),
                Err(failure) => {
                    print_error(&failure);
                    ended = Ended::WithFailures;
                }
            }
            pending.clear();
        }
        if at_end {
            break;
        }
    }
    Ok(ended)
}
