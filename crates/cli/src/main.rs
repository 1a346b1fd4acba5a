//! `dfbq`: the DataFusion command line with BigQuery in it.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bigquery_local::LocalBigQuery;
use clap::Parser;
use datafusion_bigquery::client::finish_background_work;
use datafusion_bigquery::options::registry;
use datafusion_cli::print_options::PrintOptions;
use dfbq::args::Args;
use dfbq::piped::Ended;
use dfbq::progress::Progress;
use dfbq::report::{one_line, print_error, print_note};
use dfbq::session::{Frontend, Stdin};
use dfbq::shell::{Failure, Shell};
use dfbq::{demo, piped, repl, server, session};
use tracing::Level;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// DataFusion takes statements apart by functions that call themselves, and a chain of
/// 20,000 ORs, as tools write it, goes as deep. Memory is taken as the stack grows.
const STACK_BYTES: usize = 512 << 20;

/// What evaluates such a chain goes less deep, and there may be hundreds of its threads.
const WORKER_STACK_BYTES: usize = 64 << 20;

fn main() -> ExitCode {
    let args = Args::parse();
    let begin = || {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_stack_size(WORKER_STACK_BYTES)
            .build()
            .map(|runtime| runtime.block_on(run_to_end(args)))
    };
    let main = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(begin);
    match main.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(code))) => code,
        Ok(Ok(Err(error))) | Err(error) => {
            print_error(&format!("cannot start a thread: {error}"));
            ExitCode::FAILURE
        }
        // The panic has been printed.
        Ok(Err(_)) => ExitCode::FAILURE,
    }
}

async fn run_to_end(args: Args) -> ExitCode {
    log_to_stderr();
    let outcome = tokio::select! {
        outcome = run(&args) => outcome,
        () = interrupted(&args) => Err(Stopped::Interrupted),
    };
    ENDING.store(true, Ordering::Relaxed);
    if matches!(outcome, Err(Stopped::Interrupted)) {
        // The tasks of the statement end when the runtime comes to them.
        tokio::time::sleep(TASKS_END).await;
    }
    // Statements that were stopped cancel their jobs.
    finish_background_work(LAST_WORDS).await;
    match outcome {
        Ok(code) => code,
        Err(Stopped::Error(line)) => {
            print_error(&line);
            ExitCode::FAILURE
        }
        Err(Stopped::ReaderGone) => ExitCode::from(141),
        Err(Stopped::Interrupted) => ExitCode::from(130),
    }
}

/// How long the end of the program waits for jobs to be cancelled.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How long the tasks of a statement that was stopped take to end, amply.
const TASKS_END: Duration = Duration::from_millis(200);

/// How long a statement may go on that does not see that it was stopped.
const PATIENCE: Duration = Duration::from_millis(500);

/// The program is about to end by itself.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Waits for Ctrl-C. At the prompt it stops a statement, which is the prompt's own
/// business, and not the program.
async fn interrupted(args: &Args) {
    if is_attended(args) {
        return std::future::pending().await;
    }
    // A statement that is being planned may hold the thread that waits here.
    tokio::spawn(async {
        if tokio::signal::ctrl_c().await.is_ok() {
            tokio::time::sleep(PATIENCE).await;
            if ENDING.load(Ordering::Relaxed) {
                tokio::time::sleep(LAST_WORDS * 2).await;
            } else {
                finish_background_work(PATIENCE).await;
            }
            std::process::exit(130);
        }
    });
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Whether someone types statements at a prompt.
fn is_attended(args: &Args) -> bool {
    args.reads_stdin() && std::io::stdin().is_terminal()
}

/// Why the program ends before its statements do.
enum Stopped {
    /// One line of error.
    Error(String),
    /// Nobody reads the output any more. There is nobody to tell, and the exit
    /// code is that of a program which the signal SIGPIPE ends.
    ReaderGone,
    /// Someone pressed Ctrl-C. The exit code is that of a program which the signal
    /// SIGINT ends.
    Interrupted,
}

impl From<String> for Stopped {
    fn from(line: String) -> Self {
        Self::Error(line)
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        if failure.reader_is_gone() {
            Self::ReaderGone
        } else {
            Self::Error(failure.to_string())
        }
    }
}

/// Warnings of this project go to standard error; `RUST_LOG` asks for others.
fn log_to_stderr() {
    let wanted = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("datafusion_bigquery=warn,bigquery_local=warn"));
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_filter(wanted.and(filter_fn(|metadata| {
            !may_quote_statements(metadata.target(), *metadata.level())
        })));
    tracing_subscriber::registry().with(layer).init();
}

/// Whether messages may hold the text of statements, in which OPTIONS say where
/// keys are: the parser's do, and what DataFusion says to those who debug it.
fn may_quote_statements(target: &str, level: Level) -> bool {
    target.starts_with("sqlparser")
        || (target.starts_with("datafusion")
            && !target.starts_with("datafusion_bigquery")
            && level > Level::INFO)
}

async fn run(args: &Args) -> Result<ExitCode, Stopped> {
    let embedded = server::embedded(args).await?;
    let code = run_session(args, embedded.as_ref()).await?;
    if let Some(embedded) = embedded {
        embedded.shutdown().await;
    }
    Ok(code)
}

async fn run_session(args: &Args, embedded: Option<&LocalBigQuery>) -> Result<ExitCode, Stopped> {
    let options = server::options(args, embedded)?;
    let project = options.get(&registry::PROJECT).map(str::to_string);
    let attended = is_attended(args);
    let frontend = Frontend {
        dialect: args.dialect.clone(),
        stdin: if args.reads_stdin() {
            Stdin::Statements
        } else {
            Stdin::Data
        },
        progress: (std::io::stderr().is_terminal() && !args.quiet).then(Progress::on_stderr),
    };
    let opened = session::open(options, frontend)
        .await
        .map_err(|error| one_line(&error))?;
    let print = PrintOptions {
        format: args.format,
        quiet: args.quiet,
        maxrows: args.maxrows,
        color: args.color,
        instrumented_registry: opened.object_stores,
    };
    let mut shell = Shell::new(opened.context, print);

    if attended {
        greet(args, project.as_deref(), embedded);
        repl::read_and_run(&mut shell)
            .await
            .map_err(|error| format!("cannot read the terminal: {error}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.reads_stdin() {
        let ended = piped::read_and_run(&mut shell, std::io::stdin().lock()).await?;
        return Ok(match ended {
            Ended::Clean => ExitCode::SUCCESS,
            Ended::WithFailures => ExitCode::FAILURE,
        });
    }
    for file in &args.file {
        shell.run_file(file).await?;
    }
    for command in &args.command {
        shell.run(command).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what there is, to someone at a terminal.
fn greet(args: &Args, project: Option<&str>, embedded: Option<&LocalBigQuery>) {
    if args.quiet {
        return;
    }
    print_note(&format!("dfbq {}", env!("CARGO_PKG_VERSION")));
    if let Some(server) = embedded {
        print_note(&format!(
            "embedded BigQuery: REST at {}, gRPC at {}",
            server.rest_endpoint(),
            server.grpc_endpoint()
        ));
    }
    if args.demo {
        let tables: Vec<String> = demo::TABLES
            .iter()
            .map(|table| format!("bq.{}.{}", demo::DATASET, table.name))
            .collect();
        print_note(&format!("tables: {}", tables.join(", ")));
    } else if let Some(project) = project {
        print_note(&format!("catalog bq is project {project}"));
    } else {
        print_note("no --project was given, so there is no catalog bq");
    }
}
