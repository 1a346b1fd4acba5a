//! Reading statements from a terminal.

use std::path::PathBuf;

use datafusion_cli::helper::CliHelper;
use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;

use crate::report::{print_error, print_note};
use crate::shell::{Next, Shell};

/// Reads statements with datafusion-cli's line editor and runs each, until `\q`
/// or the end of input. A statement that fails is reported on standard error and
/// the next one is read; Ctrl-C ends the statement that is running.
///
/// # Errors
/// The terminal cannot be read.
pub async fn read_and_run(shell: &mut Shell) -> Result<(), ReadlineError> {
    let mut editor: Editor<CliHelper, DefaultHistory> = Editor::new()?;
    editor.set_helper(Some(CliHelper::new(
        &shell.dialect(),
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
                    helper.set_dialect(&shell.dialect());
                }
            }
            Err(ReadlineError::Interrupted) => {
                if let Some(helper) = editor.helper() {
                    helper.reset_hint();
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
