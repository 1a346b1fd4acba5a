//! Runs all writers and prints their ratios.

use std::env;
use std::io::{self, Write};

use serde_json::Value;
use tokio::process::Command;

use crate::ours::{ARROW, AT_LEAST_ONCE, METHODS, ROUTED};
use crate::peers::{self, Peers};
use crate::process::{self, Said, Server, role};
use crate::target::Target;
use crate::{Outcome, encoders, rows};

/// Turns of every writer; the fastest counts.
const ROUNDS: usize = 2;

/// Rows of lineitem at scale factor 1.
const ROWS_AT_ONE: f64 = 6_000_000.0;

/// What Python's protobuf rows are fewer by, because they take so long.
const PYTHON_SHARE: usize = 10;

/// The bucket that files are staged in.
pub(crate) const BUCKET: &str = "staging";

/// Tables that the rows of one statement are routed to.
pub(crate) const DESTINATIONS: usize = 1_000;

/// A writer and what came of its fastest turn.
struct Turn {
    name: String,
    said: Said,
}

pub(crate) async fn run() -> Outcome<()> {
    let scale: f64 = env::var("WRITE_SCALE").map_or(Ok(0.5), |said| said.parse())?;
    let count = (scale * ROWS_AT_ONE) as usize;
    let peers = peers::ready().await?;
    let file = rows::file()?;
    let batches = rows::read(&file)?;
    let mut out = io::stdout();
    print_encoders(&mut out, &batches, peers.as_ref()).await?;

    let server = Server::start(role("serve", &[])?).await?;
    let run = Run {
        http: reqwest::Client::new(),
        server: &server,
        file,
        schema: schema()?,
    };
    run.prepare().await?;

    let mut turns: Vec<Turn> = Vec::new();
    let mut busy = (0, 0.0);
    for _ in 0..ROUNDS {
        let before = server.cpu_ticks();
        let said = run.turn(role("bare", &[])?, &[], count).await?;
        busy = (busy.0 + server.cpu_ticks() - before, busy.1 + said.seconds);
        keep(&mut turns, "bare", said);
        for method in METHODS {
            let said = run.turn(role("ours", &[])?, &[method], count).await?;
            keep(&mut turns, method, said);
        }
        if let Some(peers) = &peers {
            let sdk = peers.binary("write");
            let said = run.turn(sdk.command(), &[], count).await?;
            keep(&mut turns, "rust sdk, arrow", said);
            for (name, format, rows) in [
                ("python, protobuf", "protobuf", count / PYTHON_SHARE),
                ("python, arrow", "arrow", count),
            ] {
                let python = peers.script("write.py");
                let said = run.turn(python.command(), &[format], rows).await?;
                keep(&mut turns, name, said);
            }
        }
    }
    let share = busy.0 as f64 / 100.0 / busy.1;
    print(&mut out, &turns)?;
    writeln!(
        out,
        "  server while the bare client wrote: {share:.2} cores busy"
    )?;

    writeln!(
        out,
        "\npeak memory of a process that writes through SQL, MiB"
    )?;
    for method in METHODS {
        let small = run.turn(role("ours", &[])?, &[method], count / 10).await?;
        let large = turns
            .iter()
            .find(|turn| turn.name == method)
            .map_or(f64::NAN, |turn| turn.said.peak_mib);
        writeln!(
            out,
            "  {method:<22} {count} rows: {large:.0}, {} rows: {:.0}, ratio {:.2}",
            count / 10,
            small.peak_mib,
            large / small.peak_mib
        )?;
    }
    let routed = run.routed(count / 3).await?;
    writeln!(
        out,
        "  into {DESTINATIONS} tables         {} rows: {:.0}, {:.0} rows/s",
        count / 3,
        routed.peak_mib,
        routed.rows as f64 / routed.seconds
    )?;
    Ok(())
}

struct Run<'a> {
    http: reqwest::Client,
    server: &'a Server,
    file: std::path::PathBuf,
    /// lineitem's columns, as the REST API has them.
    schema: Value,
}

impl Run<'_> {
    /// One writer's turn at a table of its own, which has its rows afterwards.
    async fn turn(&self, mut command: Command, more: &[&str], rows: usize) -> Outcome<Said> {
        let body = serde_json::json!({
            "tableReference": {"projectId": "local", "datasetId": "tpch", "tableId": "written"},
            "schema": self.schema,
        });
        self.post(&format!("{}/tables", self.dataset()), &body)
            .await?;
        command
            .args(self.target("written", rows).arguments())
            .args(more);
        let said = process::read(command).await?;
        let counted = self.count("SELECT COUNT(*) FROM tpch.written").await?;
        let table = format!("{}/tables/written", self.dataset());
        self.http.delete(table).send().await?.error_for_status()?;
        if counted == said.rows && said.rows == i64::try_from(rows)? {
            Ok(said)
        } else {
            Err(format!("{counted} of {rows} rows are in the table after {more:?}").into())
        }
    }

    /// An INSERT into many tables, which it makes.
    async fn routed(&self, rows: usize) -> Outcome<Said> {
        let mut command = role("ours", &[])?;
        command
            .args(self.target("many", rows).arguments())
            .arg(ROUTED);
        let said = process::read(command).await?;
        let counted = self.count("SELECT COUNT(*) FROM `tpch.many_*`").await?;
        if counted == i64::try_from(rows)? {
            Ok(said)
        } else {
            Err(format!("{counted} of {rows} rows are in the {DESTINATIONS} tables").into())
        }
    }

    fn target(&self, table: &str, rows: usize) -> Target {
        Target {
            rest: self.server.rest.clone(),
            grpc: self.server.grpc.clone(),
            storage: self.server.storage.clone(),
            table: format!("local.tpch.{table}"),
            rows,
            batches: self.file.clone(),
        }
    }

    fn dataset(&self) -> String {
        format!(
            "{}/bigquery/v2/projects/local/datasets/tpch",
            self.server.rest
        )
    }

    /// Makes the dataset and the bucket.
    async fn prepare(&self) -> Outcome<()> {
        let url = format!("{}/bigquery/v2/projects/local/datasets", self.server.rest);
        let dataset = serde_json::json!({"datasetReference": {"datasetId": "tpch"}});
        self.post(&url, &dataset).await?;
        let url = format!("{}/storage/v1/b?project=local", self.server.storage);
        self.post(&url, &serde_json::json!({"name": BUCKET}))
            .await?;
        Ok(())
    }

    async fn count(&self, sql: &str) -> Outcome<i64> {
        let url = format!("{}/bigquery/v2/projects/local/queries", self.server.rest);
        let body = serde_json::json!({"query": sql, "useLegacySql": false, "timeoutMs": 60_000});
        let mut answer = self.post(&url, &body).await?;
        while answer["jobComplete"] == false {
            let job = answer["jobReference"]["jobId"].as_str().unwrap_or_default();
            let again = format!("{url}/{job}?location=US&timeoutMs=60000");
            let text = self.http.get(again).send().await?.error_for_status()?;
            answer = serde_json::from_str(&text.text().await?)?;
        }
        let count = answer["rows"][0]["f"][0]["v"].as_str();
        Ok(count.ok_or_else(|| answer.to_string())?.parse()?)
    }

    async fn post(&self, url: &str, body: &Value) -> Outcome<Value> {
        let answer = self
            .http
            .post(url)
            .header("content-type", "application/json")
            .body(body.to_string())
            .send()
            .await?;
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            return Err(format!("{url} was answered with {status}: {text}").into());
        }
        Ok(serde_json::from_str(&text)?)
    }
}

/// lineitem's columns, as the REST API has them.
fn schema() -> Outcome<Value> {
    let fields: Vec<Value> = rows::table()
        .fields
        .iter()
        .map(datafusion_bigquery::types::json_write::field)
        .collect();
    Ok(serde_json::json!({"fields": fields}))
}

/// Keeps the fastest of a writer's turns, and the most memory of all of them.
fn keep(turns: &mut Vec<Turn>, name: &str, mut said: Said) {
    match turns.iter_mut().find(|turn| turn.name == name) {
        Some(turn) => {
            let peak = turn.said.peak_mib.max(said.peak_mib);
            if said.seconds < turn.said.seconds {
                std::mem::swap(&mut turn.said, &mut said);
            }
            turn.said.peak_mib = peak;
        }
        None => turns.push(Turn {
            name: name.to_owned(),
            said,
        }),
    }
}

fn per_second(said: &Said) -> f64 {
    said.rows as f64 / said.seconds
}

fn print(out: &mut impl Write, turns: &[Turn]) -> io::Result<()> {
    let speed = |name: &str| {
        turns
            .iter()
            .find(|turn| turn.name == name)
            .map_or(f64::NAN, |turn| per_second(&turn.said))
    };
    let (bare, ours, arrow) = (speed("bare"), speed(AT_LEAST_ONCE), speed(ARROW));
    let row_bytes = turns
        .iter()
        .find(|turn| turn.name == "bare")
        .map_or(f64::NAN, |turn| {
            turn.said.bytes as f64 / turn.said.rows as f64
        });
    writeln!(
        out,
        "\nwriting lineitem, {row_bytes:.0} bytes a row as protobuf"
    )?;
    for Turn { name, said } in turns {
        let rate = per_second(said);
        write!(
            out,
            "  {name:<22} {:8} rows {:8.0} ms {rate:9.0} rows/s {:6.0} MB/s {:5.0} MiB peak",
            said.rows,
            said.seconds * 1e3,
            rate * row_bytes / 1e6,
            said.peak_mib
        )?;
        if METHODS.contains(&name.as_str()) {
            writeln!(out, "   {:.2} of the bare client", rate / bare)?;
        } else {
            writeln!(
                out,
                "   {AT_LEAST_ONCE} is {:.2} times as fast, with Arrow {:.2}",
                ours / rate,
                arrow / rate
            )?;
        }
    }
    Ok(())
}

async fn print_encoders(
    out: &mut impl Write,
    batches: &[arrow::array::RecordBatch],
    peers: Option<&Peers>,
) -> Outcome<()> {
    writeln!(out, "encoding a row of lineitem")?;
    let costs = encoders::costs(batches)?;
    for cost in &costs {
        writeln!(
            out,
            "  {:<16} {:7.1} ns, {:5.0} bytes, {:5.1} times the cost of copying them",
            cost.name,
            cost.encoding,
            cost.size,
            cost.encoding / cost.copying
        )?;
    }
    let Some(peers) = peers else {
        return Ok(());
    };
    let mut command = peers.binary("avro").command();
    command.arg(encoders::avro_file(batches)?);
    let said = process::read(command).await?;
    let records = said.seconds * 1e9 / said.rows as f64;
    let ours = costs
        .iter()
        .find(|cost| cost.name == "avro")
        .map_or(f64::NAN, |cost| cost.encoding);
    writeln!(
        out,
        "  apache-avro      {records:7.1} ns by records made before; ours is {:.2} times as fast",
        records / ours
    )?;
    Ok(())
}
