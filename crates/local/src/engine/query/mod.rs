//! GoogleSQL: parsing, analysis into DataFusion plans, and execution.
//!
//! | module | what |
//! |---|---|
//! | [`parser`], [`ast`] | text to syntax trees |
//! | [`analyze`] | syntax trees to typed plans |
//! | [`env`] | what a statement sees besides its text |
//! | [`run`], [`script`] | statements one after the other, the procedural language |
//! | [`select`], [`insert`], [`change`], [`merge`], [`ddl`] | what each kind of statement does |
//! | [`rewrite`] | changed rows in the place of old ones |
//! | [`partition_filter`] | filters that tables require |
//! | [`information_schema`] | the store's metadata as rows |
//! | [`session`], [`scan`], [`output`] | DataFusion: sessions, sources, results |

mod alter;
mod analyze;
mod ast;
mod change;
mod create_routine;
mod create_table;
mod ddl;
mod default;
mod drop;
mod env;
mod information_schema;
mod insert;
mod merge;
mod options;
mod output;
mod parameters;
mod parser;
mod partition_filter;
mod rewrite;
mod routine_call;
mod routines;
mod run;
mod scan;
mod script;
mod select;
mod session;
mod snapshot_exec;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::request::{QueryOutcome, QueryRequest};
use crate::error::{Result, ServiceError};
use crate::schema::TableSchema;
use crate::server::Service;

pub use default::{column_default, column_defaults};
pub use env::is_temporary;
pub use routines::has_function;

/// Runs a script of GoogleSQL, or plans it when the request is a dry run.
pub async fn execute(service: &Arc<Service>, request: QueryRequest) -> Result<QueryOutcome> {
    let service = Arc::clone(service);
    on_own_thread(move || run::run(service, request)).await
}

/// Refuses a text that is no GoogleSQL. What is GoogleSQL and not known here is found
/// when it runs.
pub fn check_syntax(sql: &str) -> Result<()> {
    let sql = sql.to_string();
    let parsing = std::thread::Builder::new()
        .name("syntax".into())
        .stack_size(session::STACK_BYTES)
        .spawn(move || parser::parse_script(&sql).map(drop))
        .map_err(|e| ServiceError::internal(format!("no thread for a statement: {e}")))?;
    let parsed = parsing
        .join()
        .unwrap_or_else(|_| Err(ServiceError::internal("reading a statement panicked")));
    match parsed {
        Err(error) if error.message.starts_with("Syntax error: ") => Err(error),
        _ => Ok(()),
    }
}

/// Plans a view's query and answers its columns. Dataset names without a project
/// are looked up in `project`.
pub async fn view_schema(
    service: &Arc<Service>,
    project: &str,
    query: &str,
) -> Result<TableSchema> {
    let service = Arc::clone(service);
    let (project, query) = (project.to_string(), query.to_string());
    on_own_thread(move || {
        let env = env::Env::new(service, session::context(), project, "US".into(), None);
        ddl::view_columns(&env, &query)
    })
    .await
}

/// Analysis recurses deeper than the threads of a runtime allow.
async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (done, answer) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("statement".into())
        .stack_size(session::STACK_BYTES)
        .spawn(move || {
            // The receiver is gone when the request was given up: nobody to tell.
            let _ = done.send(work());
        })
        .map_err(|e| ServiceError::internal(format!("no thread for a statement: {e}")))?;
    answer
        .await
        .map_err(|_| ServiceError::internal("a statement panicked"))?
}
