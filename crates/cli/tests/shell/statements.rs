//! What has nothing to do with BigQuery is as it is in datafusion-cli.

use std::fs;

use crate::process::dfbq;

/// Rows as CSV, nothing else.
const CSV: [&str; 3] = ["--quiet", "--format", "csv"];

#[test]
fn statements_of_one_text_run_in_order() {
    let out = dfbq(&CSV)
        .args(&[
            "-c",
            "create table t as select 1 as a; select a + 1 as b from t; -- done",
        ])
        .args(&["-c", "select 'x;y' as s"])
        .run()
        .ok();
    // CREATE TABLE answers a result without columns.
    assert_eq!(out.replace("\n\n", "\n").trim_start(), "b\n2\ns\nx;y\n");
}

#[test]
fn a_table_is_printed_with_its_count() {
    let out = dfbq(&["-c", "select 1 as a union all select 2 order by a"])
        .run()
        .ok();
    assert!(
        out.starts_with("+---+\n| a |\n+---+\n| 1 |\n| 2 |\n+---+\n2 row(s) fetched."),
        "{out}"
    );
    assert!(out.contains("Elapsed "), "{out}");
}

#[test]
fn formats_and_maxrows() {
    let sql = "select column1 as a, column2 as b from (values (1, 'x'), (2, null))";
    let format = |name: &str| dfbq(&["-q", "--format", name, "-c", sql]).run().ok();
    assert_eq!(format("csv"), "a,b\n1,x\n2,\n");
    assert_eq!(format("tsv"), "a\tb\n1\tx\n2\t\n");
    assert_eq!(format("json"), "[{\"a\":1,\"b\":\"x\"},{\"a\":2}]\n");
    assert_eq!(format("nd-json"), "{\"a\":1,\"b\":\"x\"}\n{\"a\":2}\n");
    assert_eq!(format("table"), format("automatic"));

    let out = dfbq(&["--maxrows", "1", "-c", sql]).run().ok();
    assert!(
        out.contains("2 row(s) fetched. (First 1 displayed. Use --maxrows to adjust)"),
        "{out}"
    );
}

#[test]
fn files_are_tables() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("a.csv"), "id;name\n1;one\n2;two\n").expect("writable");
    let out = dfbq(&CSV)
        .current_dir(folder.path())
        .args(&[
            "-c",
            "create external table a stored as csv location 'a.csv' options ('format.delimiter' ';')",
            "copy (select * from a where id = 2) to 'b.parquet'",
            "select name from 'b.parquet'",
        ])
        .run()
        .ok();
    assert_eq!(out.trim_start(), "count\n1\nname\ntwo\n");
    assert!(folder.path().join("b.parquet").is_file());
}

#[test]
fn standard_input_can_be_a_table() {
    let out = dfbq(&CSV)
        .args(&[
            "-c",
            "create external table a stored as csv location '/dev/stdin'",
            "select sum(x) as s from a",
        ])
        .input("x\n1\n2\n")
        .run()
        .ok();
    assert_eq!(out.trim_start(), "s\n3\n");
}

#[test]
fn a_file_stops_at_the_statement_that_fails_and_names_its_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("three.sql");
    fs::write(
        &file,
        "#!/usr/bin/env -S dfbq -q -f\n-- the first\nselect 1 as a;\n\nselect\n  nothing;\nselect 3 as c;\n",
    )
    .expect("writable");
    let path = file.to_string_lossy().into_owned();
    let run = dfbq(&CSV).args(&["-f", &path]).run();
    assert_eq!(run.stdout, "a\n1\n");
    let error = run.error();
    assert!(
        error.starts_with(&format!("{path}:5: no column nothing")),
        "{error}"
    );

    let error = dfbq(&["-f", "/no/such/file.sql"]).run().error();
    assert!(
        error.starts_with("cannot read /no/such/file.sql: "),
        "{error}"
    );
}

#[test]
fn files_run_before_commands_and_share_the_session() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("make.sql");
    fs::write(&file, "create view v as select 7 as n").expect("writable");
    let path = file.to_string_lossy().into_owned();
    let out = dfbq(&CSV)
        .args(&["-c", "select n from v", "-f", &path])
        .run()
        .ok();
    assert_eq!(out.trim_start(), "n\n7\n");
}

#[test]
fn piped_statements_run_and_failures_show_in_the_exit_code() {
    let run = dfbq(&CSV)
        .input("select 1\n  as a; select 2 as b;\nselect oops;\n\\pset format nd-json\nselect 'a;\nb' as c")
        .run();
    assert_eq!(
        run.stdout,
        "a\n1\nb\n2\nOutput format is NdJson.\n{\"c\":\"a;\\nb\"}\n"
    );
    assert!(run.error().starts_with("no column oops"));

    let run = dfbq(&CSV)
        .input("select 1 as a;\n\\q\nselect oops;\n")
        .run();
    assert_eq!(run.ok(), "a\n1\n");
    assert_eq!(dfbq(&CSV).input("\n-- nothing\n").run().ok(), "");
}

#[test]
fn commands_of_the_shell() {
    let out = dfbq(&[
        "-q",
        "-c",
        "create table things as select 1 as a",
        "-c",
        "\\d",
    ])
    .run()
    .ok();
    assert!(out.contains("things"), "{out}");
    let out = dfbq(&["-q", "-c", "\\?"]).run().ok();
    assert!(out.contains("\\d NAME"), "{out}");
    let out = dfbq(&[
        "-q",
        "-c",
        "create table things as select 1 as a",
        "\\d things",
    ])
    .run()
    .ok();
    assert!(out.contains("Int64"), "{out}");
    let error = dfbq(&["-c", "\\nonsense"]).run().error();
    assert_eq!(
        error,
        "'\\nonsense' is not a command of the shell; \\? lists them"
    );
}

#[test]
fn a_file_can_be_read_from_within() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("a.sql"), "select 5 as five;").expect("writable");
    let out = dfbq(&CSV)
        .current_dir(folder.path())
        .args(&["-c", "\\i a.sql"])
        .run()
        .ok();
    assert_eq!(out, "five\n5\n");
}

#[test]
fn dialects() {
    // In GoogleSQL double quotes make strings and backticks names.
    let sql = "select \"it\\\"s\" as `a b`";
    let out = dfbq(&CSV)
        .args(&["--dialect", "bigquery", "-c", sql])
        .run()
        .ok();
    assert_eq!(out, "a b\n\"it\"\"s\"\n");

    // From the statement after SET on, also within one text.
    let text = format!("set datafusion.sql_parser.dialect = 'bigquery'; {sql}");
    let out = dfbq(&CSV).args(&["-c", &text]).run().ok();
    assert_eq!(out.trim_start(), "a b\n\"it\"\"s\"\n");

    let error = dfbq(&["--dialect", "klingon", "-c", "select 1"])
        .run()
        .error();
    assert!(error.contains("klingon"), "{error}");
}

#[test]
fn what_cannot_be_parsed_is_said_in_one_line() {
    let error = dfbq(&["-c", "selec 1"]).run().error();
    assert!(
        error.starts_with("cannot parse the SQL: Expected: "),
        "{error}"
    );
    let error = dfbq(&["-c", "select 'open"]).run().error();
    assert!(error.starts_with("cannot parse the SQL: "), "{error}");
}

#[test]
fn a_panic_on_a_closed_pipe_does_not_happen() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_dfbq"))
        .args([
            "-q",
            "--format",
            "csv",
            "--maxrows",
            "inf",
            "-c",
            "select * from generate_series(1, 200000)",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("dfbq was built for this test");
    // Whoever reads the rows has seen enough.
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("dfbq ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn a_result_without_rows_has_its_header_or_brackets() {
    let sql = "select 1 as a, 'x' as \"b,c\" where false";
    let format = |name: &str| dfbq(&["-q", "--format", name, "-c", sql]).run().ok();
    assert_eq!(format("csv").trim_end(), "a,\"b,c\"");
    assert_eq!(format("tsv").trim_end(), "a\tb,c");
    assert_eq!(format("json").trim_end(), "[]");
    assert_eq!(format("nd-json").trim_end(), "");
}

#[test]
fn a_byte_order_mark_is_no_statement() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("a.sql");
    fs::write(&file, "\u{feff}select 1 as a;\n").expect("writable");
    let name = file.to_str().expect("UTF-8");
    assert_eq!(dfbq(&CSV).args(&["-f", name]).run().ok(), "a\n1\n");
    let piped = dfbq(&CSV).input("\u{feff}select 1 as a;\n").run().ok();
    assert_eq!(piped, "a\n1\n");
}

#[test]
fn the_shells_commands_are_listed_as_lines() {
    let out = dfbq(&CSV).input("\\?\n").run().ok();
    assert!(out.contains("\\q               quit\n"), "{out}");
    assert!(!out.contains("datafusion-cli"), "{out}");
}

#[test]
fn statements_are_not_in_the_log() {
    let sql = "create external table t stored as bigquery location 'p.d.t' \
               options ('credentials.key_file' '/home/me/of-secrets.json')";
    let run = dfbq(&["--project", "p", "-q", "-c", sql])
        .env("RUST_LOG", "trace")
        .run();
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(!run.stderr.contains("of-secrets"), "{}", run.stderr);
    assert!(!run.stdout.contains("of-secrets"), "{}", run.stdout);
}

/// As tools write them. DataFusion takes them apart by functions that call themselves.
#[test]
fn long_chains_of_conditions_do_not_end_the_shell() {
    for (operator, comparison, count) in [("or", "=", "1"), ("and", "<>", "0")] {
        let conditions: Vec<String> = (1..=5_000)
            .map(|number| format!("id {comparison} {number}"))
            .collect();
        let sql = format!(
            "select count(*) as n from (select 1 as id) where {};\nselect 2 as next;",
            conditions.join(&format!(" {operator} "))
        );
        let printed = dfbq(&CSV).input(&sql).run().ok();
        assert_eq!(printed, format!("n\n{count}\nnext\n2\n"));
    }
}

#[test]
fn an_option_of_bigquery_is_reset() {
    let printed = dfbq(&CSV)
        .input(
            "SET bigquery.scan.snapshot_time = '2020-01-01T00:00:00Z';\n\
             RESET bigquery.scan.snapshot_time;\n\
             SHOW bigquery.scan.snapshot_time;",
        )
        .run()
        .ok();
    assert_eq!(printed, "name,value\nbigquery.scan.snapshot_time,\n");
}

#[test]
fn errors_of_datafusion_say_what_to_do() {
    for (sql, hint) in [
        ("SELECT * FROM shop.orders", "bq.<dataset>.<table>"),
        (
            "SELECT * FROM t FOR SYSTEM_TIME AS OF '2024-01-01'",
            "--dialect bigquery",
        ),
        (
            "CREATE EXTERNAL TABLE t STORED AS BIGQUERRY LOCATION 'a.b.c'",
            "BIGQUERY, PARQUET",
        ),
    ] {
        let error = dfbq(&["-c", sql]).run().error();
        assert!(error.contains(hint), "{sql}: {error}");
    }
}
