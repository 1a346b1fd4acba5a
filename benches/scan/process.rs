//! Processes of this benchmark: what they say, how much memory and CPU they took.

use std::env;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::Outcome;

/// This program in another role.
pub(crate) fn role(role: &str, arguments: &[String]) -> Outcome<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("--role").arg(role).args(arguments);
    Ok(command)
}

/// The role of this process, and what it is told; None for the one that starts others.
pub(crate) fn own_role() -> Option<Vec<String>> {
    let mut arguments = env::args().skip_while(|argument| argument != "--role");
    arguments.next()?;
    Some(arguments.collect())
}

/// What a reader said, and the most memory it held.
pub(crate) struct Said {
    pub(crate) rows: i64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    /// The same and what it took to plan, where a reader plans.
    #[allow(dead_code, reason = "writers do not")]
    pub(crate) with_planning: Option<f64>,
    pub(crate) peak_mib: f64,
}

/// Runs a reader to its end.
pub(crate) async fn read(mut command: Command) -> Outcome<Said> {
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let mut peak_kib = 0;
    let line = loop {
        tokio::select! {
            line = lines.next_line() => break line?,
            () = tokio::time::sleep(Duration::from_millis(20)) => {
                peak_kib = peak_kib.max(high_water_kib(&child).unwrap_or(0));
            }
        }
    };
    peak_kib = peak_kib.max(high_water_kib(&child).unwrap_or(0));
    let status = child.wait().await?;
    let line = line.ok_or_else(|| format!("a reader said nothing and ended with {status}"))?;
    let said: Value = serde_json::from_str(&line)?;
    let number = |name: &str| {
        said[name]
            .as_f64()
            .ok_or_else(|| format!("a reader said {line}"))
    };
    Ok(Said {
        rows: number("rows")? as i64,
        bytes: number("bytes")? as u64,
        seconds: number("seconds")?,
        with_planning: said["with_planning"].as_f64(),
        peak_mib: said["peak_kib"].as_u64().unwrap_or(peak_kib) as f64 / 1024.0,
    })
}

/// The most memory that `child` was seen to hold, from `/proc`.
fn high_water_kib(child: &Child) -> Option<u64> {
    high_water_of(&child.id()?.to_string())
}

/// The most memory that a process held, this one being `self`, from `/proc`. A process that
/// says it of itself misses nothing.
pub(crate) fn high_water_of(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The embedded BigQuery of this run; it ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    _input: ChildStdin,
    pub(crate) rest: String,
    pub(crate) grpc: String,
    #[allow(dead_code, reason = "only what writes files needs it")]
    pub(crate) storage: String,
}

impl Server {
    pub(crate) async fn start(mut command: Command) -> Outcome<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let line = lines.next_line().await?.ok_or("the server said nothing")?;
        let said: Value = serde_json::from_str(&line)?;
        let endpoint = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            rest: endpoint("rest"),
            grpc: endpoint("grpc"),
            storage: endpoint("storage"),
            child,
            _input: input,
        })
    }

    /// CPU time taken so far, in clock ticks (100 a second on Linux).
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let stat = self
            .child
            .id()
            .and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok())
            .unwrap_or_default();
        // The name of the program, in parentheses, may hold spaces.
        let after = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = after.split_whitespace().collect();
        let ticks = |at: usize| {
            fields
                .get(at)
                .and_then(|f| f.parse::<u64>().ok())
                .unwrap_or(0)
        };
        ticks(11) + ticks(12)
    }
}
