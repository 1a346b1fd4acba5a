//! Google's own clients, made ready to run.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::Outcome;

/// Google's own clients.
pub(crate) struct Peers {
    binaries: PathBuf,
    python: PathBuf,
    scripts: PathBuf,
}

/// A program of another library and how to start it.
pub(crate) struct Peer {
    program: PathBuf,
    script: Option<PathBuf>,
}

impl Peer {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.script);
        command
    }
}

impl Peers {
    /// The program `name`, which was built from this crate's sources.
    pub(crate) fn binary(&self, name: &str) -> Peer {
        Peer {
            program: self.binaries.join(name),
            script: None,
        }
    }

    /// The script `name`, run by Python.
    pub(crate) fn script(&self, name: &str) -> Peer {
        Peer {
            program: self.python.clone(),
            script: Some(self.scripts.join(name)),
        }
    }
}

/// Builds the programs that use Google's Rust SDK, and finds or makes a Python with
/// Google's client. `None` if they are to be left out.
pub(crate) async fn ready() -> Outcome<Option<Peers>> {
    if env::var("PEERS").is_ok_and(|said| said == "0") {
        return Ok(None);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers");
    let beside = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let target = beside.join("peers");
    run(Command::new(env::var("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target))
    .await?;
    Ok(Some(Peers {
        binaries: target.join("release"),
        python: python(beside).await?,
        scripts: folder,
    }))
}

async fn python(beside: &Path) -> Outcome<PathBuf> {
    if let Ok(said) = env::var("PEERS_PYTHON") {
        return Ok(said.into());
    }
    let environment = beside.join("peers-python");
    let program = environment.join("bin/python");
    if !environment.join("ready").exists() {
        run(Command::new("python3")
            .args(["-m", "venv"])
            .arg(&environment))
        .await?;
        run(Command::new(&program).args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "google-cloud-bigquery-storage",
            "pyarrow",
        ]))
        .await?;
        std::fs::write(environment.join("ready"), "")?;
    }
    Ok(program)
}

async fn run(command: &mut Command) -> Outcome<()> {
    let status = command.stdout(Stdio::null()).status().await?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{:?} ended with {status}", command.as_std()).into())
    }
}
