//! Finding chapters, running them, and rewriting what they expect.

use std::path::{Path, PathBuf};

use bigquery_local::LocalBigQuery;
use dfbq::session::Frontend;
use sqllogictest::{Runner, default_normalizer, default_validator, strict_column_validator};

use crate::database::Database;

/// What to do with a chapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Run it and compare.
    Check,
    /// Run it and write what it answered into it.
    Complete,
}

/// A file of statements and their expected answers.
#[derive(Debug, Clone)]
pub struct Chapter {
    /// Where it is.
    pub path: PathBuf,
    /// Its path below `chapters/` without the extension, such as `filter`.
    pub name: String,
}

impl Chapter {
    /// Where the statements are, if there are any, that the server runs before it.
    pub fn setup(&self) -> PathBuf {
        self.path.with_extension("sql")
    }
}

/// Every chapter, in the order of their names.
///
/// # Errors
/// A folder cannot be read.
pub fn all() -> std::io::Result<Vec<Chapter>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("chapters");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "slt") {
                let name = path
                    .strip_prefix(&root)
                    .unwrap_or(&path)
                    .with_extension("")
                    .to_string_lossy()
                    .into_owned();
                found.push(Chapter { path, name });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Does `task` with `chapter` in a new session over `server`.
///
/// Before a chapter with a file of the same name that ends in `.sql`, the server runs
/// the statements in it, in its own dialect: they make what the chapter writes to.
///
/// Every chapter has an empty bucket `staging` of Cloud Storage.
///
/// In a chapter, after `control substitution on`, `${REST}` and `${GRPC}` are the
/// server's endpoints, `${DATA}` is the folder of the example files, and
/// `${__TEST_DIR__}` is an empty folder of the chapter's own.
///
/// # Errors
/// The first difference, with its place; or the chapter cannot be read, parsed
/// or written.
pub async fn run(
    chapter: &Chapter,
    task: Task,
    server: &LocalBigQuery,
) -> Result<(), Box<dyn std::error::Error>> {
    let setup = chapter.setup();
    if setup.exists() {
        prepare(server, &std::fs::read_to_string(setup)?).await?;
    }
    create_bucket(server).await?;
    let options = dfbq::server::of_server(server)?;
    let mut runner = Runner::new(|| {
        let options = options.clone();
        async move {
            let context = dfbq::session::open(options, Frontend::default())
                .await?
                .context;
            // Plans must not depend on the machine.
            for setting in [
                "SET datafusion.execution.target_partitions = 4",
                "SET datafusion.explain.format = 'indent'",
                "SET datafusion.explain.physical_plan_only = true",
            ] {
                context.sql(setting).await?;
            }
            Ok(Database::new(context))
        }
    });
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data");
    for (name, value) in [
        ("REST", server.rest_endpoint()),
        ("GRPC", server.grpc_endpoint()),
        ("DATA", data.to_string_lossy().into_owned()),
    ] {
        runner.set_var(name.to_string(), value);
    }
    runner.with_column_validator(strict_column_validator);
    match task {
        Task::Check => runner.run_file_async(&chapter.path).await?,
        Task::Complete => {
            runner
                .update_test_file(
                    &chapter.path,
                    " ",
                    default_validator,
                    default_normalizer,
                    strict_column_validator,
                )
                .await?;
        }
    }
    runner.shutdown_async().await;
    Ok(())
}

/// Makes the bucket that chapters stage files in, unless it exists.
async fn create_bucket(server: &LocalBigQuery) -> Result<(), Box<dyn std::error::Error>> {
    let url = format!(
        "{}/storage/v1/b?project={}",
        server.storage_endpoint(),
        dfbq::demo::PROJECT
    );
    let request = reqwest::Client::new()
        .post(url)
        .header("content-type", "application/json")
        .body(serde_json::json!({"name": "staging"}).to_string());
    let answer = request.send().await?;
    match answer.status().as_u16() {
        200 | 409 => Ok(()),
        _ => Err(format!("the bucket could not be made: {}", answer.text().await?).into()),
    }
}

/// Has the server run statements.
async fn prepare(
    server: &LocalBigQuery,
    statements: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let url = format!(
        "{}/bigquery/v2/projects/{}/queries",
        server.rest_endpoint(),
        dfbq::demo::PROJECT
    );
    let body = serde_json::json!({
        "query": statements, "useLegacySql": false, "timeoutMs": 60_000,
    });
    let request = reqwest::Client::new()
        .post(url)
        .header("content-type", "application/json")
        .body(body.to_string());
    let answer = request.send().await?;
    let status = answer.status();
    let text = answer.text().await?;
    let answer: serde_json::Value = serde_json::from_str(&text)?;
    if !status.is_success() || answer["jobComplete"] != true {
        return Err(format!("the statements before the chapter failed: {text}").into());
    }
    Ok(())
}
