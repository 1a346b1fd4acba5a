//! INSERT through SQL, by one of the write methods, or into many tables.

use std::sync::Arc;
use std::time::Instant;

use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_bigquery::{RawOptions, with_bigquery};

use crate::Outcome;
use crate::bare::CONNECTIONS;
use crate::report::{BUCKET, DESTINATIONS};
use crate::rows;
use crate::target::{Target, say};

/// How the rows are written.
struct How {
    method: &'static str,
    format: Option<&'static str>,
    routed: bool,
}

/// Names of ways to write, as [`run`] takes them.
pub(crate) const AT_LEAST_ONCE: &str = "at_least_once";
pub(crate) const ARROW: &str = "at_least_once, arrow";
pub(crate) const METHODS: [&str; 5] =
    [AT_LEAST_ONCE, ARROW, "exactly_once", "atomic", "file_loads"];
pub(crate) const ROUTED: &str = "routed";

fn how(name: &str) -> Outcome<How> {
    let (method, format) = match name {
        "at_least_once" | ROUTED => ("storage_api_at_least_once", None),
        ARROW => ("storage_api_at_least_once", Some("arrow")),
        "exactly_once" => ("storage_api_exactly_once", None),
        "atomic" => ("storage_api_atomic", None),
        "file_loads" => ("file_loads", None),
        other => return Err(format!("no way to write is {other}").into()),
    };
    Ok(How {
        method,
        format,
        routed: name == ROUTED,
    })
}

pub(crate) async fn run(target: &Target, name: &str) -> Outcome<()> {
    let how = how(name)?;
    let batches = rows::read(&target.batches)?;
    let schema = batches.first().ok_or("there are no batches")?.schema();
    let parts = rows::repeated(&batches, target.rows, CONNECTIONS);
    let context = session(target, &how)?;
    context.register_table("held", Arc::new(MemTable::try_new(schema, parts)?))?;
    let [_, dataset, table] = target.parts()?;
    let statement = if how.routed {
        context.sql(&declaration(target)).await?.collect().await?;
        format!(
            "INSERT INTO routed SELECT * REPLACE (l_suppkey % {DESTINATIONS} AS l_suppkey) \
             FROM held"
        )
    } else {
        format!("INSERT INTO bq.{dataset}.{table} SELECT * FROM held")
    };
    let began = Instant::now();
    context.sql(&statement).await?.collect().await?;
    say(target.rows, 0, began.elapsed());
    Ok(())
}

/// The tables that rows are routed to; the first INSERT makes them.
fn declaration(target: &Target) -> String {
    let table = &target.table;
    format!(
        "CREATE EXTERNAL TABLE routed (l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, \
         l_linenumber BIGINT, l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), \
         l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag VARCHAR, \
         l_linestatus VARCHAR, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, \
         l_shipinstruct VARCHAR, l_shipmode VARCHAR, l_comment VARCHAR) \
         STORED AS BIGQUERY LOCATION '{table}' \
         OPTIONS ('sink.destination' '{table}_{{l_suppkey}}')"
    )
}

fn session(target: &Target, how: &How) -> Outcome<SessionContext> {
    let [project, _, _] = target.parts()?;
    let staging = format!("gs://{BUCKET}/staged");
    let mut options = vec![
        ("project", project),
        ("rest_endpoint", &target.rest),
        ("grpc_endpoint", &target.grpc),
        ("storage_endpoint", &target.storage),
        ("sink.write_method", how.method),
    ];
    if let Some(format) = how.format {
        options.push(("sink.format", format));
    }
    if how.method == "file_loads" {
        options.push(("sink.file_loads.staging_path", &staging));
        options.push(("sink.file_loads.load_job_poll.initial_backoff", "20 ms"));
    }
    let builder = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::new().with_target_partitions(CONNECTIONS));
    Ok(SessionContext::new_with_state(
        with_bigquery(builder, RawOptions::from_pairs(options)?)?.build(),
    ))
}
