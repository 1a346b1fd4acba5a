//! A table that is larger than the memory that statements about it take.

#![cfg(target_os = "linux")]

use std::process::Child;

use reqwest::Client;
use serde_json::{Value, json};

use crate::process::{ANY_PORTS, program, ready};

/// Rows of about a kilobyte each.
const ROWS: i64 = 300_000;
/// What a statement may take, far less than the table's 300 MB.
const MOST: i64 = 130 << 20;

struct Server {
    child: Child,
    rest: String,
    client: Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Server {
    fn file(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.child.id())
    }

    /// A line of the process's status, in bytes.
    fn status(&self, name: &str) -> i64 {
        let text = std::fs::read_to_string(self.file("status")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.unwrap().trim_start_matches(':').trim();
        kilobytes
            .strip_suffix(" kB")
            .unwrap()
            .parse::<i64>()
            .unwrap()
            * 1024
    }

    async fn job(&self, configuration: Value) -> Value {
        let url = format!("{}/projects/p/jobs", self.rest);
        let body = json!({"configuration": configuration});
        let sent = self.client.post(url).json(&body).send().await.unwrap();
        let mut job: Value = sent.json().await.unwrap();
        while job["status"]["state"] != "DONE" {
            let id = job["jobReference"]["jobId"].as_str().unwrap();
            // It answers when the job is done.
            let url = format!("{}/projects/p/queries/{id}?maxResults=0", self.rest);
            self.client.get(url).send().await.unwrap();
            let url = format!("{}/projects/p/jobs/{id}", self.rest);
            job = self
                .client
                .get(url)
                .send()
                .await
                .unwrap()
                .json()
                .await
                .unwrap();
        }
        assert!(job["status"]["errorResult"].is_null(), "{job}");
        job
    }

    async fn query(&self, sql: &str) -> Value {
        self.job(json!({"query": {"query": sql, "useLegacySql": false}}))
            .await
    }

    /// Runs a job and looks at how much memory it took at most.
    async fn bounded(&self, what: &str, configuration: Value) {
        let before = self.status("VmRSS");
        // The peak counts from now on.
        std::fs::write(self.file("clear_refs"), "5").unwrap();
        self.job(configuration).await;
        let took = self.status("VmHWM") - before;
        assert!(took < MOST, "{what} took {} MiB", took >> 20);
    }
}

#[tokio::test]
async fn statements_do_not_hold_the_tables_they_change() {
    let data = tempfile::TempDir::new().unwrap();
    let mut child = program(&ANY_PORTS)
        .arg("--data")
        .arg(data.path())
        .spawn()
        .unwrap();
    let rest = ready(&mut child)["rest"].as_str().unwrap().to_string();
    let server = Server {
        child,
        rest,
        client: Client::new(),
    };
    server.query("CREATE SCHEMA d").await;
    let query = |sql: String| json!({"query": {"query": sql, "useLegacySql": false}});
    let rows = format!(
        "SELECT k, REPEAT(CHR(97 + MOD(k, 26)), 1000) AS text \
         FROM UNNEST(GENERATE_ARRAY(1, {ROWS})) AS k"
    );
    let create = format!("CREATE TABLE d.t AS {rows}");
    server.bounded("CREATE TABLE AS", query(create)).await;
    for (what, sql) in [
        (
            "UPDATE",
            "UPDATE d.t SET text = UPPER(text) WHERE MOD(k, 3) > 0",
        ),
        ("DELETE", "DELETE FROM d.t WHERE MOD(k, 50) = 0"),
        (
            "MERGE",
            "MERGE d.t USING (SELECT 50 * k AS k FROM UNNEST(GENERATE_ARRAY(1, 200)) AS k) AS s \
             ON t.k = s.k + 1 WHEN MATCHED THEN UPDATE SET text = CONCAT(text, '!') \
             WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)",
        ),
        ("INSERT", "INSERT d.t SELECT -k, text FROM d.t WHERE k > 0"),
        ("ALTER TABLE", "ALTER TABLE d.t RENAME COLUMN text TO words"),
        ("SELECT", "SELECT SUM(LENGTH(words)) FROM d.t"),
    ] {
        server.bounded(what, query(sql.to_string())).await;
    }
    let table = |name: &str| json!({"projectId": "p", "datasetId": "d", "tableId": name});
    let copy = json!({"copy": {"sourceTable": table("t"), "destinationTable": table("u")}});
    server.bounded("copy", copy).await;
    let sql = "SELECT COUNT(*) AS n FROM d.u WHERE ABS(k) BETWEEN 1 AND 300000";
    let body = json!({"query": sql, "useLegacySql": false});
    let url = format!("{}/projects/p/queries", server.rest);
    let sent = server.client.post(url).json(&body).send().await.unwrap();
    let answer: Value = sent.json().await.unwrap();
    let deleted = ROWS / 50;
    // Once as they were and once with the other sign.
    let rows = 2 * (ROWS - deleted);
    let found: i64 = answer["rows"][0]["f"][0]["v"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(found, rows);
}
