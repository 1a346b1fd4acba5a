//! Load jobs when the services do not do as asked: every row is there once, or
//! none is.

use bigquery_local::faults::{Action, Rule};
use datafusion_bigquery::ErrorKind;
use datafusion_bigquery::client::finish_background_work;
use datafusion_bigquery::sink::{BigQuerySink, LoadLimits};

use crate::harness::Server;
use crate::load_commit::{TINY, files, server, sink, stage, stored, tables};

fn http(status: u16, reason: &str) -> Action {
    Action::Http {
        status,
        reason: reason.into(),
        message: "on purpose".into(),
    }
}

async fn table() -> Server {
    let server = server().await;
    server.query("CREATE TABLE d.t (n INT64, s STRING)").await;
    server
}

/// A sink of another process.
async fn other(server: &Server, limits: LoadLimits) -> BigQuerySink {
    sink(server, "t", limits, &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_failure_of_any_call_changes_nothing() {
    for method in [
        "objects.insert",
        "objects.delete",
        "jobs.insert",
        "jobs.get",
        "tables.get",
        "tables.insert",
        "tables.delete",
    ] {
        for (name, action) in [
            ("unavailable", http(503, "backendError")),
            ("internal", http(500, "internalError")),
            ("reset", Action::Reset),
            ("answer lost", Action::LoseAnswer),
            ("applied twice", Action::ApplyTwice),
            ("throttled", http(429, "rateLimitExceeded")),
        ] {
            let server = table().await;
            let sink = sink(&server, "t", TINY, &[]).await;
            let rule = server.fault(Rule {
                every: 2,
                times: Some(3),
                ..Rule::once(method, action)
            });
            let prepared = stage(&sink, 0..100).await;
            let committed = sink.committer().commit(prepared).await;
            assert_eq!(committed.unwrap(), 100, "{method} {name}");
            assert!(server.acted(rule) > 0, "{method} {name}");
            server.unfault(rule);
            assert_eq!(
                stored(&server, "t").await,
                "100 100 0 99",
                "{method} {name}"
            );
            assert_eq!(tables(&server).await, ["t"], "{method} {name}");
            let objects = server.objects("bucket").await;
            assert_eq!(objects, Vec::<String>::new(), "{method} {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_answer_was_lost_is_found_again() {
    let server = table().await;
    let sink = sink(&server, "t", LoadLimits::default(), &[]).await;
    let prepared = stage(&sink, 0..100).await;
    let rule = server.fault(Rule::once("jobs.insert", Action::LoseAnswer));
    let committer = sink.committer();
    committer.commit(prepared).await.unwrap();
    assert_eq!(server.acted(rule), 1);
    assert_eq!(committer.counters().jobs_reattached(), 1);
    assert_eq!(committer.counters().jobs_submitted(), 0);
    assert_eq!(server.jobs("load").await.len(), 1);
    assert_eq!(stored(&server, "t").await, "100 100 0 99");
}

/// From its `n`-th request about tables or jobs on a commit is refused everything,
/// and is made again; for every `n` until a commit gets through.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_stops_anywhere_is_completed_by_the_next() {
    for (limits, about) in [
        (LoadLimits::default(), "jobs.*"),
        (TINY, "jobs.*"),
        (TINY, "tables.*"),
    ] {
        let mut stops = 0;
        loop {
            let server = table().await;
            let sink = sink(&server, "t", limits, &[]).await;
            let prepared = stage(&sink, 0..60).await;
            let rule = Rule::once(about, http(400, "invalid"))
                .after(stops)
                .always();
            let rule = server.fault(rule);
            let outcome = sink.committer().commit(prepared.clone()).await;
            let acted = server.acted(rule);
            server.unfault(rule);
            if acted == 0 {
                outcome.unwrap();
                break;
            }
            // What only cleans up may fail without consequences.
            if outcome.is_err() {
                assert_eq!(server.objects("bucket").await.len(), files(&prepared));
            }
            let committed = other(&server, limits).await.committer();
            assert_eq!(committed.commit(prepared).await.unwrap(), 60, "{stops}");
            assert_eq!(stored(&server, "t").await, "60 60 0 59", "{stops}");
            stops += 1;
        }
        assert!(stops >= 1, "{about}");
    }
}

/// A process that dies in a commit: its requests stop, and jobs go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_dies_anywhere_is_completed_by_the_next() {
    for stops in 0..25 {
        let server = table().await;
        let sink = sink(&server, "t", TINY, &[]).await;
        let prepared = stage(&sink, 0..60).await;
        let rule = Rule::once("*", Action::Hang).after(stops).always();
        let rule = server.fault(rule);
        let committer = sink.committer();
        let dying = committer.commit(prepared.clone());
        let watch = async {
            while server.acted(rule) == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            outcome = dying => drop(outcome.unwrap()),
            () = watch => {}
        }
        server.unfault(rule);
        let other = other(&server, TINY).await.committer();
        assert_eq!(other.commit(prepared).await.unwrap(), 60, "{stops}");
        assert_eq!(stored(&server, "t").await, "60 60 0 59", "{stops}");
        assert_eq!(tables(&server).await, ["t"], "{stops}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_staged_fail_the_write() {
    let server = table().await;
    let sink = sink(&server, "t", LoadLimits::default(), &[]).await;
    let rule = server.fault(Rule::once("objects.insert", http(403, "forbidden")).always());
    let mut writer = sink.writer(0, None).unwrap();
    let batch = crate::load_commit::batch(0..100);
    writer.write(batch.clone()).await.ok();
    let failed = match writer.prepare_commit().await {
        Err(error) => error,
        Ok(prepared) => panic!("nothing can be staged: {prepared:?}"),
    };
    assert!(server.acted(rule) > 0);
    // The first error is told where it happens; a writer is over after it.
    assert!(
        matches!(
            failed.kind(),
            ErrorKind::PermissionDenied | ErrorKind::FailedPrecondition
        ),
        "{failed}"
    );
    server.unfault(rule);
    assert_eq!(
        stored(&server, "t").await,
        "0 0 NULL NULL".replace(" NULL", "")
    );
}

/// Nobody waits for the job any more, so it is cancelled, and the commit can be made
/// again all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_dropped_cancels_its_job() {
    for round in 0..4 {
        let server = table().await;
        let sink = sink(&server, "t", LoadLimits::default(), &[]).await;
        let prepared = stage(&sink, 0..100).await;
        let sent = server.fault(Rule::once("jobs.insert", Action::Hang));
        let cancelled = server.fault(Rule::once("jobs.cancel", Action::Delay { ms: 0 }).always());
        let committer = sink.committer();
        let dropped = committer.commit(prepared.clone());
        let watch = async {
            while server.acted(sent) == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            outcome = dropped => panic!("the job was not answered: {outcome:?}"),
            () = watch => {}
        }
        // Also while the cancellation is on its way, which may meet the next job.
        if round > 1 {
            finish_background_work(std::time::Duration::from_secs(60)).await;
            assert_eq!(server.acted(cancelled), 1);
        }
        let other = other(&server, LoadLimits::default()).await.committer();
        assert_eq!(other.commit(prepared).await.unwrap(), 100);
        assert_eq!(stored(&server, "t").await, "100 100 0 99");
        let jobs = server.jobs("load").await;
        let is_good = |job: &&serde_json::Value| job["status"].get("errorResult").is_none();
        assert_eq!(jobs.iter().filter(is_good).count(), 1, "{jobs:?}");
    }
}
