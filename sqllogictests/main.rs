//! The chapters as one test binary. It takes the arguments that a test binary of
//! `cargo test` takes, and `--complete` to write the answers into the chapters:
//!
//! ```text
//! cargo test -p sqllogictests --test slt                          # all chapters
//! cargo test -p sqllogictests --test slt -- filter                # those with "filter" in their name
//! cargo test -p sqllogictests --test slt -- filter --complete
//! ```

#![expect(
    clippy::print_stdout,
    reason = "a test binary reports on standard output"
)]

use std::process::ExitCode;
use std::time::Instant;

use bigquery_local::{LocalBigQuery, LocalOptions};
use clap::Parser;
use sqllogictests::chapters::{self, Chapter, Task};

/// The arguments of a test binary that mean something here, and those that are
/// accepted because `cargo test` passes them to every binary.
#[derive(Debug, Parser)]
struct Args {
    /// Write what the statements answer into the chapters.
    #[arg(long)]
    complete: bool,
    /// Run the chapters whose names contain one of these.
    filters: Vec<String>,
    /// Leave out the chapters whose names contain this.
    #[arg(long)]
    skip: Vec<String>,
    #[command(flatten)]
    libtest: Libtest,
}

#[derive(Debug, clap::Args)]
struct Libtest {
    /// Print the names of the chapters.
    #[arg(long)]
    list: bool,
    /// Match whole names.
    #[arg(long)]
    exact: bool,
    /// Run ignored tests only: there are none.
    #[arg(long)]
    ignored: bool,
    #[arg(long, hide = true, num_args = 0, action = clap::ArgAction::Count)]
    nocapture: u8,
    #[arg(long, hide = true, num_args = 0, action = clap::ArgAction::Count)]
    include_ignored: u8,
    #[arg(short, long, hide = true, num_args = 0, action = clap::ArgAction::Count)]
    quiet: u8,
    #[arg(long, hide = true)]
    test_threads: Option<usize>,
    #[arg(long, hide = true)]
    color: Option<String>,
    #[arg(long, hide = true)]
    format: Option<String>,
}

impl Args {
    fn wants(&self, chapter: &Chapter) -> bool {
        let matches = |filter: &String| {
            if self.libtest.exact {
                chapter.name == *filter
            } else {
                chapter.name.contains(filter.as_str())
            }
        };
        !self.libtest.ignored
            && (self.filters.is_empty() || self.filters.iter().any(matches))
            && !self.skip.iter().any(matches)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(failed) if failed.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(101),
        Err(error) => {
            println!("error: {error}");
            ExitCode::from(101)
        }
    }
}

/// Runs what `args` select and answers the names of the chapters that failed.
async fn run(args: &Args) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let all = chapters::all()?;
    let wanted: Vec<&Chapter> = all.iter().filter(|chapter| args.wants(chapter)).collect();
    if args.libtest.list {
        for chapter in &wanted {
            println!("{}: test", chapter.name);
        }
        return Ok(Vec::new());
    }
    let task = if args.complete {
        Task::Complete
    } else {
        Task::Check
    };

    let started = Instant::now();
    println!("\nrunning {} chapters", wanted.len());
    let mut failed = Vec::new();
    if !wanted.is_empty() {
        let server = LocalBigQuery::start(LocalOptions {
            project: dfbq::demo::PROJECT.to_string(),
            ..LocalOptions::default()
        })
        .await?;
        dfbq::demo::load(&server.rest_endpoint(), dfbq::demo::PROJECT).await?;
        for chapter in &wanted {
            let result = chapters::run(chapter, task, &server).await;
            let verdict = if result.is_ok() { "ok" } else { "FAILED" };
            println!("test {} ... {verdict}", chapter.name);
            if let Err(error) = result {
                println!("\n{error}\n");
                failed.push(chapter.name.clone());
            }
        }
        server.shutdown().await;
    }
    if !failed.is_empty() {
        println!("\nfailures:\n    {}\n", failed.join("\n    "));
    }
    println!(
        "\ntest result: {}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out; finished in {:.2}s\n",
        if failed.is_empty() { "ok" } else { "FAILED" },
        wanted.len() - failed.len(),
        failed.len(),
        all.len() - wanted.len(),
        started.elapsed().as_secs_f64()
    );
    Ok(failed)
}
