//! The JSON form of jobs.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::super::answer::{Domain, error_proto};
use crate::engine::DmlStats;
use crate::jobs::job::Progress;
use crate::jobs::statistics::{QueryStatistics, Statistics};
use crate::jobs::{Job, JobRef, JobState, USER_EMAIL};
use crate::server::Service;

/// How much of a job a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) enum Projection {
    /// Everything.
    Full,
    /// Without the configuration.
    Minimal,
}

/// The resource that jobs.get and jobs.insert answer.
pub(in crate::rest) fn resource(service: &Service, job: &Job) -> Value {
    let progress = job.progress();
    let mut body = json!({
        "kind": "bigquery#job",
        "id": job.reference.to_string(),
        "selfLink": self_link(service, &job.reference),
        "user_email": USER_EMAIL,
        "configuration": job.configuration(),
        "jobReference": reference(&job.reference),
        "statistics": statistics(job, &progress),
        "status": status(&progress),
        "principal_subject": format!("user:{USER_EMAIL}"),
        "jobCreationReason": {"code": "REQUESTED"},
    });
    let etag = etag(&body);
    body["etag"] = Value::String(etag);
    body
}

/// The resource of a dry run: it has no id, because it is not kept.
pub(in crate::rest) fn dry_run(service: &Service, job: &Job) -> Value {
    let mut body = resource(service, job);
    let place = &job.reference;
    body["id"] = json!(format!("{}:{}.", place.project, place.location));
    body["jobReference"] = nameless(place);
    body
}

/// An entry of jobs.list.
pub(in crate::rest) fn list_item(job: &Job, projection: Projection) -> Value {
    let progress = job.progress();
    let mut item = json!({
        "kind": "bigquery#job",
        "id": job.reference.to_string(),
        "user_email": USER_EMAIL,
        "jobReference": reference(&job.reference),
        "state": progress.state.as_str(),
        "statistics": statistics(job, &progress),
        "status": status(&progress),
        "principal_subject": format!("user:{USER_EMAIL}"),
    });
    if let Some(error) = &progress.error {
        item["errorResult"] = error_proto(error, Domain::Left);
    }
    if projection == Projection::Full {
        item["configuration"] = Value::Object(job.configuration());
    }
    item
}

/// `jobReference`.
pub(in crate::rest) fn reference(job: &JobRef) -> Value {
    json!({"projectId": job.project, "jobId": job.id, "location": job.location})
}

/// `jobReference` of a job that is not kept.
pub(in crate::rest) fn nameless(job: &JobRef) -> Value {
    json!({"projectId": job.project, "location": job.location})
}

/// `dmlStats`, without the counts that are zero.
pub(in crate::rest) fn dml_stats(dml: DmlStats) -> Value {
    let mut stats = Map::new();
    for (name, count) in [
        ("insertedRowCount", dml.inserted),
        ("updatedRowCount", dml.updated),
        ("deletedRowCount", dml.deleted),
    ] {
        if count > 0 {
            stats.insert(name.into(), count.to_string().into());
        }
    }
    Value::Object(stats)
}

/// Rows that a DML statement touched.
pub(in crate::rest) fn affected_rows(dml: DmlStats) -> u64 {
    dml.inserted + dml.updated + dml.deleted
}

/// Milliseconds since the epoch as REST writes them.
pub(in crate::rest) fn millis(time: i64) -> Value {
    Value::String(time.to_string())
}

fn self_link(service: &Service, job: &JobRef) -> String {
    format!(
        "http://{}/bigquery/v2/projects/{}/jobs/{}?location={}",
        service.options.rest, job.project, job.id, job.location
    )
}

fn etag(body: &Value) -> String {
    BASE64_STANDARD.encode(&Sha256::digest(body.to_string())[..16])
}

fn status(progress: &Progress) -> Value {
    let mut status = json!({"state": progress.state.as_str()});
    if let Some(error) = &progress.error {
        status["errorResult"] = error_proto(error, Domain::Left);
    }
    if !progress.errors.is_empty() {
        status["errors"] = progress
            .errors
            .iter()
            .map(|error| error_proto(error, Domain::Left))
            .collect();
    }
    status
}

fn statistics(job: &Job, progress: &Progress) -> Value {
    let mut out = json!({"creationTime": millis(job.created)});
    if let Some(started) = progress.started {
        out["startTime"] = millis(started);
    }
    if let Some(ended) = progress.ended {
        out["endTime"] = millis(ended);
        let busy = ended - progress.started.unwrap_or(ended);
        out["finalExecutionDurationMs"] = millis(busy);
        // One slot, busy from start to end.
        out["totalSlotMs"] = millis(busy);
    }
    if progress.children > 0 {
        out["numChildJobs"] = progress.children.to_string().into();
    }
    if let Some(parent) = &job.parent {
        out["parentJobId"] = parent.id.clone().into();
        out["scriptStatistics"] = json!({"evaluationKind": "STATEMENT"});
    }
    match &progress.statistics {
        Statistics::None => {}
        Statistics::Query(query) => {
            if let Some(bytes) = query.bytes_processed {
                out["totalBytesProcessed"] = bytes.to_string().into();
            }
            out["query"] = query_statistics(job, query);
        }
        Statistics::Load(load) => {
            out["load"] = json!({
                "inputFiles": load.input_files.to_string(),
                "inputFileBytes": load.input_file_bytes.to_string(),
                "outputRows": load.output_rows.to_string(),
                "outputBytes": load.output_bytes.to_string(),
                "badRecords": load.bad_records.to_string(),
            });
        }
        Statistics::Extract(extract) => {
            let counts = extract.file_counts.iter().map(u64::to_string);
            out["extract"] = json!({
                "destinationUriFileCounts": counts.collect::<Vec<_>>(),
                "inputBytes": extract.input_bytes.to_string(),
            });
        }
        Statistics::Copy(copy) => {
            out["copy"] = json!({
                "copiedRows": copy.copied_rows.to_string(),
                "copiedLogicalBytes": copy.copied_logical_bytes.to_string(),
            });
        }
    }
    out
}

fn query_statistics(job: &Job, query: &QueryStatistics) -> Value {
    let mut out = Map::new();
    let Some(statement_type) = query.statement_type.clone() else {
        // Recorded: a text that could not be analysed has nothing here.
        return Value::Object(out);
    };
    out.insert("statementType".into(), statement_type.into());
    out.insert("cacheHit".into(), query.cache_hit.into());
    if let Some(bytes) = query.bytes_processed {
        let bytes = bytes.to_string();
        out.insert("totalBytesProcessed".into(), bytes.clone().into());
        out.insert("estimatedBytesProcessed".into(), bytes.into());
        out.insert(
            "totalBytesBilled".into(),
            query.bytes_billed.to_string().into(),
        );
        out.insert("billingTier".into(), 0.into());
        out.insert("totalPartitionsProcessed".into(), "0".into());
        out.insert("transferredBytes".into(), "0".into());
    }
    let is_dry_run = job.configuration().get("dryRun") == Some(&Value::Bool(true));
    if is_dry_run && job.state() == JobState::Done {
        out.insert("totalBytesProcessedAccuracy".into(), "PRECISE".into());
    }
    if !query.referenced.is_empty() {
        out.insert("referencedTables".into(), json!(query.referenced));
    }
    if let Some(schema) = &query.schema {
        out.insert("schema".into(), json!(schema));
    }
    if let Some(ddl) = &query.ddl {
        out.insert("ddlOperationPerformed".into(), ddl.operation.clone().into());
        if let Some(table) = &ddl.table {
            out.insert("ddlTargetTable".into(), json!(table));
        }
        if let Some(dataset) = &ddl.dataset {
            out.insert("ddlTargetDataset".into(), json!(dataset));
        }
    }
    if let Some(dml) = query.dml {
        let affected = affected_rows(dml).to_string();
        out.insert("numDmlAffectedRows".into(), affected.into());
        out.insert("dmlStats".into(), dml_stats(dml));
    }
    Value::Object(out)
}
