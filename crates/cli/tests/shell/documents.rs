//! The examples of the documentation do what it says they do.
//!
//! In a block marked `console`, a line that begins with `$ ` is a command and the
//! lines after it are what it prints. A block marked `sql` is run in the demo.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::dfbq;

/// How documents call the program.
const PROGRAMS: [&str; 2] = ["cargo run -p dfbq -- ", "dfbq "];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and docs/*.md.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md")];
    for entry in fs::read_dir(root().join("docs")).expect("docs is a folder") {
        let path = entry.expect("readable").path();
        if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A fenced block.
#[derive(Debug)]
struct Block {
    language: String,
    /// Number of the line after the fence.
    line: usize,
    text: String,
}

fn blocks(path: &Path) -> Vec<Block> {
    let text = fs::read_to_string(path).expect("a readable document");
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (fence, open) {
            (Some(language), false) => {
                found.push(Block {
                    language: language.trim().to_string(),
                    line: index + 2,
                    text: String::new(),
                });
                open = true;
            }
            (Some(_), true) => open = false,
            (None, true) => {
                let block = found.last_mut().expect("one is open");
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, false) => {}
        }
    }
    assert!(!open, "{}: a block is not closed", path.display());
    found
}

#[test]
fn sql_blocks_run_in_the_demo() {
    let mut run = 0;
    for path in documents() {
        let mut text = String::new();
        for block in blocks(&path) {
            if block.language == "sql" {
                // Kept on their lines, so that a failure names the document's.
                let lines = text.matches('\n').count();
                text.push_str(&"\n".repeat(block.line - 1 - lines));
                text.push_str(&block.text);
                run += 1;
            }
        }
        if text.is_empty() {
            continue;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("document.sql");
        fs::write(&file, text).expect("writable");
        let outcome = dfbq(&["--demo", "-q", "-f", &file.to_string_lossy()])
            .current_dir(&root())
            .run();
        assert_eq!(
            outcome.code,
            Some(0),
            "{}: {}",
            path.display(),
            outcome.stderr
        );
    }
    assert!(run > 0, "no document has SQL");
}

#[test]
fn console_blocks_print_what_they_show() {
    let mut run = 0;
    for path in documents() {
        for block in blocks(&path) {
            if block.language == "console" {
                run += console(&path, &block);
            }
        }
    }
    assert!(run > 0, "no document has commands");
}

/// Runs the commands of a block and answers how many those were.
fn console(path: &Path, block: &Block) -> usize {
    let place = format!("{}:{}", path.display(), block.line);
    let mut run = 0;
    let mut lines = block.text.lines().peekable();
    while let Some(line) = lines.next() {
        let mut command = line
            .strip_prefix("$ ")
            .unwrap_or_else(|| panic!("{place}: a command begins with '$ ': {line}"))
            .to_string();
        while command.ends_with('\\') || !quotes_closed(&command) {
            let next = lines.next().expect("a continued command");
            if command.ends_with('\\') {
                command.pop();
            } else {
                command.push('\n');
            }
            command.push_str(next);
        }
        let mut shown = Vec::new();
        while let Some(output) = lines.next_if(|line| !line.starts_with("$ ")) {
            shown.push(output);
        }
        let args = PROGRAMS
            .iter()
            .find_map(|program| command.strip_prefix(program))
            .unwrap_or_else(|| panic!("{place}: not a command of dfbq: {command}"));
        let outcome = dfbq(&[]).args(&words(args)).current_dir(&root()).run();
        let printed = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(
            steady(printed.lines()),
            steady(shown.into_iter()),
            "{place}: {command}"
        );
        run += 1;
    }
    run
}

/// Lines without what differs from run to run: times, and white space at ends.
fn steady<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut kept: Vec<String> = lines
        .map(|line| {
            if line.starts_with("Elapsed ") {
                "Elapsed".to_string()
            } else {
                line.trim_end().to_string()
            }
        })
        .collect();
    while kept.last().is_some_and(String::is_empty) {
        kept.pop();
    }
    kept
}

fn quotes_closed(command: &str) -> bool {
    command.matches('"').count().is_multiple_of(2)
}

/// The words of a command, with double quotes around those that have spaces.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for letter in command.chars() {
        match letter {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            letter if letter.is_whitespace() && !quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}
