//! The flags of `dfbq`.

use std::path::PathBuf;

use clap::Parser;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::MaxRows;

/// SQL over BigQuery tables and local files, with Apache DataFusion.
///
/// Without -c or -f statements are read from the terminal or from standard
/// input. BigQuery is the catalog `bq`: SELECT … FROM bq.dataset.table.
#[derive(Debug, Parser)]
#[command(name = "dfbq", version)]
pub struct Args {
    /// Start an embedded BigQuery with the nycflights13 tables in it and query that:
    /// bq.nycflights13.flights, .planes, .airports, .airlines, .weather.
    #[arg(long, conflicts_with_all = ["local", "project", "rest_endpoint", "grpc_endpoint", "storage_endpoint"])]
    pub demo: bool,

    /// Start an embedded BigQuery and query that, instead of Google's. Its tables are
    /// kept in DIR; without one they are gone when dfbq ends.
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with_all = ["rest_endpoint", "grpc_endpoint", "storage_endpoint"])]
    pub local: Option<Option<PathBuf>>,

    /// Project whose datasets are the catalog `bq`. Taken from GOOGLE_CLOUD_PROJECT
    /// if not given.
    #[arg(long, value_name = "ID")]
    pub project: Option<String>,

    /// Project that jobs and read sessions are billed to, if another one.
    #[arg(long, value_name = "ID")]
    pub billing_project: Option<String>,

    /// Region of jobs, where it cannot be inferred from a dataset.
    #[arg(long, value_name = "REGION")]
    pub location: Option<String>,

    /// REST endpoint of a local server. Taken from BIGQUERY_EMULATOR_HOST if not given.
    #[arg(long, value_name = "URL")]
    pub rest_endpoint: Option<String>,

    /// gRPC (Storage API) endpoint of a local server.
    #[arg(long, value_name = "URL")]
    pub grpc_endpoint: Option<String>,

    /// Cloud Storage endpoint of a local server, where files for load jobs are staged.
    #[arg(long, value_name = "URL")]
    pub storage_endpoint: Option<String>,

    /// Set a BigQuery option for the session, as SET bigquery.NAME = VALUE does: -o
    /// credentials=key_file. May be repeated.
    #[arg(short, long = "option", value_name = "NAME=VALUE", value_parser = name_and_value)]
    pub option: Vec<(String, String)>,

    /// SQL dialect of the session: generic, bigquery, postgresql, …
    #[arg(long, value_name = "NAME")]
    pub dialect: Option<String>,

    /// Run these statements, then exit. May be repeated; stops at the first error.
    #[arg(short, long = "command", value_name = "SQL", num_args = 1..)]
    pub command: Vec<String>,

    /// Run the statements of this file, then exit. May be repeated; files run before
    /// -c; stops at the first error.
    #[arg(short, long = "file", value_name = "FILE", num_args = 1..)]
    pub file: Vec<PathBuf>,

    /// How rows are printed.
    #[arg(long, value_enum, default_value_t = PrintFormat::Automatic)]
    pub format: PrintFormat,

    /// Print rows and errors only.
    #[arg(short, long)]
    pub quiet: bool,

    /// Rows shown in format table: a number or inf. Other formats print every row.
    #[arg(long, default_value = "40")]
    pub maxrows: MaxRows,

    /// Highlight SQL while typing.
    #[arg(long)]
    pub color: bool,
}

impl Args {
    /// Whether statements come from the terminal or standard input.
    pub fn reads_stdin(&self) -> bool {
        self.command.is_empty() && self.file.is_empty()
    }
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_string(), value.trim().to_string()))
        }
        _ => Err("expected NAME=VALUE, such as scan.max_stream_count=4".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn flags_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn local_takes_a_directory_or_none() {
        let args = Args::parse_from(["dfbq", "--local", "-c", "select 1"]);
        assert_eq!(args.local, Some(None));
        let args = Args::parse_from(["dfbq", "--local", "data", "-c", "select 1"]);
        assert_eq!(args.local, Some(Some(PathBuf::from("data"))));
        assert_eq!(Args::parse_from(["dfbq"]).local, None);
    }

    #[test]
    fn commands_and_options_repeat() {
        let args = Args::parse_from([
            "dfbq", "-c", "a", "b", "-c", "c", "-o", "x.y=1=2", "-o", "z = w ",
        ]);
        assert_eq!(args.command, ["a", "b", "c"]);
        assert_eq!(
            args.option,
            [
                ("x.y".to_string(), "1=2".to_string()),
                ("z".to_string(), "w".to_string())
            ]
        );
        assert!(!args.reads_stdin());
        assert!(Args::try_parse_from(["dfbq", "-o", "novalue"]).is_err());
    }

    #[test]
    fn demo_brings_its_own_server() {
        assert!(Args::try_parse_from(["dfbq", "--demo", "--project", "p"]).is_err());
        assert!(Args::try_parse_from(["dfbq", "--local", "--rest-endpoint", "x"]).is_err());
    }
}
