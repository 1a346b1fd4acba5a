//! Running the program.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// The output of a run that must have succeeded without a word on stderr.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(
            (self.code, self.stderr.as_str()),
            (Some(0), ""),
            "stdout: {}",
            self.stdout
        );
        self.stdout
    }

    /// The error line of a run that must have failed, without `Error: `.
    #[track_caller]
    pub(crate) fn error(self) -> String {
        assert_eq!(self.code, Some(1), "{self:?}");
        let lines: Vec<&str> = self.stderr.lines().collect();
        let [line] = lines.as_slice() else {
            panic!("one line of error expected: {self:?}");
        };
        let line = line
            .strip_prefix("Error: ")
            .unwrap_or_else(|| panic!("the line begins with 'Error: ': {line}"));
        for debugging in ["Error(", "{ ", "DataFusionError", "backtrace", "stack"] {
            assert!(!line.contains(debugging), "reads like a debug dump: {line}");
        }
        line.to_string()
    }
}

/// A command line in the making.
pub(crate) struct Dfbq {
    command: Command,
    input: String,
}

/// `dfbq` in an environment without credentials or settings of the person who
/// runs the tests.
pub(crate) fn without_settings() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dfbq"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["DATAFUSION_", "GOOGLE_", "BIGQUERY_", "RUST_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
    command
}

/// `dfbq` with these arguments.
pub(crate) fn dfbq(args: &[&str]) -> Dfbq {
    let mut command = without_settings();
    command.args(args);
    Dfbq {
        command,
        input: String::new(),
    }
}

impl Dfbq {
    pub(crate) fn args<S: AsRef<std::ffi::OsStr>>(mut self, args: &[S]) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn current_dir(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Text on standard input.
    pub(crate) fn input(mut self, text: &str) -> Self {
        self.input = text.to_string();
        self
    }

    pub(crate) fn run(mut self) -> Run {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("dfbq was built for this test");
        let mut stdin = child.stdin.take().expect("piped");
        let input = self.input;
        // A program that ended already does not read it.
        let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
        let output = child.wait_with_output().expect("dfbq runs");
        writer.join().expect("the writer does not panic");
        Run {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}
