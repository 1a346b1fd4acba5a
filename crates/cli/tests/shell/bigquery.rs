//! Queries over BigQuery answer what DataFusion answers over the Parquet files
//! that were loaded.

use std::fs;
use std::path::{Path, PathBuf};

use bigquery_local::{LocalBigQuery, LocalOptions};
use datafusion::arrow::csv::WriterBuilder;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionContext};

use crate::process::dfbq;
use crate::server::dfbq_local;

const JUNE_FROM_JFK: &str = "select carrier, count(*) n, round(avg(arr_delay),2) d \
     from bq.nycflights13.flights where origin = 'JFK' and month = 6 \
     group by carrier order by n desc";

fn data(table: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/data")
        .join(format!("{table}.parquet"))
}

/// The rows of `sql` as CSV, with every `bq.nycflights13.t` read from the Parquet
/// file of t by DataFusion alone.
async fn expected(sql: &str, csv: Option<&Path>) -> String {
    let context = SessionContext::new();
    for table in dfbq::demo::TABLES {
        context
            .register_parquet(
                table.name,
                data(table.name).to_string_lossy(),
                ParquetReadOptions::default(),
            )
            .await
            .expect("the example file is readable");
    }
    if let Some(csv) = csv {
        context
            .register_csv("local", csv.to_string_lossy(), CsvReadOptions::new())
            .await
            .expect("the CSV file is readable");
    }
    let batches = context
        .sql(&sql.replace("bq.nycflights13.", ""))
        .await
        .expect("the statement is planned")
        .collect()
        .await
        .expect("the statement runs");
    let mut out = Vec::new();
    let mut writer = WriterBuilder::new().with_header(true).build(&mut out);
    for batch in &batches {
        writer.write(batch).expect("rows print as CSV");
    }
    drop(writer);
    String::from_utf8(out).expect("UTF-8")
}

#[tokio::test]
async fn the_demo_answers_what_the_parquet_file_holds() {
    let out = dfbq(&["--demo", "-q", "--format", "csv", "-c", JUNE_FROM_JFK])
        .run()
        .ok();
    assert_eq!(out, expected(JUNE_FROM_JFK, None).await);
    assert_eq!(out.lines().count(), 11, "{out}");
}

#[tokio::test]
async fn every_table_of_the_demo_is_whole() {
    let sql = "select \
        (select count(*) from bq.nycflights13.flights) as flights, \
        (select count(*) from bq.nycflights13.planes) as planes, \
        (select count(*) from bq.nycflights13.airports) as airports, \
        (select count(*) from bq.nycflights13.airlines) as airlines, \
        (select count(*) from bq.nycflights13.weather) as weather";
    let out = dfbq_local(&["-c", sql]).run().ok();
    assert_eq!(
        out,
        "flights,planes,airports,airlines,weather\n336776,3322,1458,16,26115\n"
    );
    assert_eq!(out, expected(sql, None).await);
}

#[tokio::test]
async fn a_join_with_a_local_csv_file_equals_both_local() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let csv = folder.path().join("regions.csv");
    fs::write(
        &csv,
        "faa,region\nLAX,west\nSFO,west\nATL,south\nMIA,south\nXXX,nowhere\n",
    )
    .expect("writable");
    let sql = "select l.region, f.carrier, count(*) as n, min(f.time_hour) as first \
         from bq.nycflights13.flights f join local l on f.dest = l.faa \
         where f.month in (1, 7) group by l.region, f.carrier order by l.region, f.carrier";
    let create = format!(
        "create external table local stored as csv location '{}'",
        csv.display()
    );
    let out = dfbq_local(&["-c", &create, sql]).run().ok();
    assert_eq!(out.trim_start(), expected(sql, Some(&csv)).await);
    assert!(out.lines().count() > 10, "{out}");
}

#[tokio::test]
async fn joins_within_bigquery_equal_both_local() {
    let sql = "select a.name, p.manufacturer, count(*) as n, avg(w.temp) as temp \
         from bq.nycflights13.flights f \
         join bq.nycflights13.airlines a on a.carrier = f.carrier \
         join bq.nycflights13.planes p on p.tailnum = f.tailnum \
         join bq.nycflights13.weather w on w.origin = f.origin and w.time_hour = f.time_hour \
         where f.day = 13 and p.seats > 200 \
         group by a.name, p.manufacturer order by a.name, p.manufacturer";
    let out = dfbq_local(&["-c", sql]).run().ok();
    // Sums of floating point numbers depend on the order of the rows.
    assert_eq!(rounded(&out), rounded(&expected(sql, None).await));
    assert!(out.lines().count() > 5, "{out}");
}

/// Numbers with a fraction, to nine digits.
fn rounded(csv: &str) -> String {
    csv.split_inclusive([',', '\n'])
        .map(|cell| {
            let (value, end) = cell.split_at(cell.len() - 1);
            match value.parse::<f64>() {
                Ok(number) if value.contains('.') => format!("{number:.9}{end}"),
                _ => cell.to_string(),
            }
        })
        .collect()
}

#[test]
fn declared_tables_and_their_options() {
    let out = dfbq_local(&[
        "-c",
        "create external table june stored as bigquery location 'demo.nycflights13.flights' \
         options (scan.row_restriction 'month = 6', 'Billing-Project' 'demo')",
        "select count(*) as n, min(month) as a, max(month) as b from june",
        "create external table if not exists june stored as bigquery location 'demo.nycflights13.flights'",
        "drop table june",
    ])
    .run()
    .ok();
    assert_eq!(out.trim(), "n,a,b\n28243,6,6");
}

#[test]
fn session_options_by_flag_and_by_set() {
    let sql = "explain format indent select flight from bq.nycflights13.flights where month = 6";
    let pushed = dfbq_local(&["-c", sql]).run().ok();
    let kept = dfbq_local(&["-o", "scan.pushdown_filters=false", "-c", sql])
        .run()
        .ok();
    let set = dfbq_local(&["-c", "set bigquery.scan.pushdown_filters = false", sql])
        .run()
        .ok();
    assert!(pushed.contains("`month` = 6"), "{pushed}");
    assert!(!kept.contains("`month` = 6"), "{kept}");
    assert_eq!(set.trim_start(), kept);
}

#[test]
fn bigquery_results_go_into_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = dfbq_local(&[
        "-c",
        "copy (select * from bq.nycflights13.airlines) to 'airlines.csv'",
        "select count(*) as n from 'airlines.csv'",
    ])
    .current_dir(folder.path())
    .run()
    .ok();
    assert_eq!(out, "count\n16\nn\n16\n");
}

#[test]
fn tables_are_listed_and_described() {
    let out = dfbq_local(&["-c", "show tables"]).run().ok();
    for table in dfbq::demo::TABLES {
        let line = format!("bq,nycflights13,{},BASE TABLE\n", table.name);
        assert!(out.contains(&line), "{out}");
    }
    let out = dfbq_local(&["-c", "describe bq.nycflights13.airlines"])
        .run()
        .ok();
    assert_eq!(
        out,
        "column_name,data_type,is_nullable\ncarrier,Utf8,YES\nname,Utf8,YES\n"
    );
}

#[tokio::test]
async fn the_embedded_bigquery_keeps_its_tables_in_a_directory() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = LocalBigQuery::start(LocalOptions {
        data: Some(folder.path().to_path_buf()),
        ..LocalOptions::default()
    })
    .await
    .expect("a directory of its own");
    dfbq::demo::load(&server.rest_endpoint(), "kept")
        .await
        .expect("the demo's tables load");
    server.shutdown().await;

    let path = folder.path().to_string_lossy().into_owned();
    let sql = "select count(*) as n from bq.nycflights13.flights";
    let out = dfbq(&[
        "-q",
        "--format",
        "csv",
        "--local",
        &path,
        "--project",
        "kept",
        "-c",
        sql,
    ])
    .run()
    .ok();
    assert_eq!(out, "n\n336776\n");
}

#[test]
fn what_programs_read_has_every_row() {
    let sql = "select flight from bq.nycflights13.flights";
    let lines = |args: &[&str]| {
        let out = dfbq_local(args).run().ok();
        out.lines().count()
    };
    assert_eq!(lines(&["-c", sql]), 336_777, "csv, with its heading");
    assert_eq!(
        lines(&["--maxrows", "5", "-c", "\\pset format nd-json", "-c", sql]),
        336_777,
        "nd-json, with a line that says so"
    );
}

#[test]
fn set_reaches_the_catalog() {
    let out = dfbq(&["--demo", "-q", "--format", "csv"])
        .input(
            "select count(*) as n from bq.nycflights13.airlines;\n\
             set bigquery.trace_id = 'me';\n\
             select count(*) as n from bq.nycflights13.airlines;\n",
        )
        .run()
        .ok();
    assert_eq!(out.matches("n\n16\n").count(), 2, "{out}");
    let refused = dfbq(&["--demo", "-q"])
        .args(&[
            "-c",
            "set bigquery.project = 'elsewhere'",
            "-c",
            "select * from bq.nycflights13.airlines",
        ])
        .run()
        .error();
    assert!(refused.contains("elsewhere"), "{refused}");
}

#[test]
fn lists_of_a_server_that_does_not_answer_are_errors() {
    let local = [
        "--project",
        "p",
        "-q",
        "-o",
        "rest_endpoint=http://127.0.0.1:1",
    ];
    for sql in ["show tables", "select * from information_schema.columns"] {
        let line = dfbq(&local)
            .args(&["-o", "grpc_endpoint=http://127.0.0.1:1", "-c", sql])
            .run()
            .error();
        assert!(line.contains("nothing answers at"), "{line}");
    }
}
