//! JOBS, JOBS_BY_USER and JOBS_BY_PROJECT.

use datafusion::scalar::ScalarValue;

use super::super::super::functions::SqlType;
use super::super::env::Env;
use super::{I, S, T, View, maybe, millis, no_time, text};
use crate::error::Result;

pub(super) fn jobs(env: &Env, project: &str) -> Result<View> {
    let mut view = View::new(&[
        ("creation_time", T),
        ("project_id", S),
        ("user_email", S),
        ("job_id", S),
        ("job_type", S),
        ("statement_type", S),
        ("priority", S),
        ("start_time", T),
        ("end_time", T),
        ("query", S),
        ("state", S),
        ("total_bytes_processed", I),
        ("total_bytes_billed", I),
        ("cache_hit", SqlType::Bool),
        ("parent_job_id", S),
    ]);
    for job in env.service.jobs.registry.of_project(project) {
        let progress = job.progress();
        let query = match &progress.statistics {
            crate::jobs::statistics::Statistics::Query(query) => Some(query),
            _ => None,
        };
        let time = |t: Option<i64>| t.map_or_else(no_time, millis);
        let count = |n: Option<u64>| ScalarValue::Int64(n.and_then(|n| i64::try_from(n).ok()));
        view.rows.push(vec![
            millis(job.created),
            text(project),
            maybe(None),
            text(&job.reference.id),
            text(job.kind.as_str()),
            maybe(
                query
                    .and_then(|q| q.statement_type.as_deref())
                    .map(ToString::to_string),
            ),
            text("INTERACTIVE"),
            time(progress.started),
            time(progress.ended),
            maybe(job.query()),
            text(job.state().as_str()),
            count(query.and_then(|q| q.bytes_processed)),
            count(query.map(|q| q.bytes_billed)),
            ScalarValue::Boolean(query.map(|q| q.cache_hit)),
            maybe(job.parent.as_ref().map(|p| p.id.clone())),
        ]);
    }
    Ok(view)
}
