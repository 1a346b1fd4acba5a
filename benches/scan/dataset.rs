//! Puts files into the server the way any client of BigQuery does: uploads.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::Outcome;

/// Makes dataset `tpch` of project `local` and loads `files` into its table `table`.
pub(crate) async fn load(rest: &str, table: &str, files: &[PathBuf]) -> Outcome<()> {
    let http = reqwest::Client::new();
    let answer = http
        .post(format!("{rest}/bigquery/v2/projects/local/datasets"))
        .header("content-type", "application/json")
        .body(r#"{"datasetReference": {"datasetId": "tpch"}}"#)
        .send()
        .await?;
    // 409: made for another table of this run.
    if answer.status() != 409 {
        answer.error_for_status()?;
    }
    for (number, file) in files.iter().enumerate() {
        let job = format!("load_{table}_{number}");
        let configuration = format!(
            r#"{{"jobReference": {{"jobId": "{job}"}}, "configuration": {{"load": {{
            "sourceFormat": "PARQUET", "destinationTable":
            {{"projectId": "local", "datasetId": "tpch", "tableId": "{table}"}}}}}}}}"#
        );
        let mut body = Vec::new();
        write!(
            body,
            "--part\r\nContent-Type: application/json\r\n\r\n{configuration}\r\n\
             --part\r\nContent-Type: application/octet-stream\r\n\r\n"
        )?;
        body.extend(std::fs::read(file)?);
        body.extend(b"\r\n--part--\r\n");
        http.post(format!(
            "{rest}/upload/bigquery/v2/projects/local/jobs?uploadType=multipart"
        ))
        .header("content-type", "multipart/related; boundary=part")
        .body(body)
        .send()
        .await?
        .error_for_status()?;
        done(&http, rest, &job).await?;
    }
    Ok(())
}

async fn done(http: &reqwest::Client, rest: &str, job: &str) -> Outcome<()> {
    loop {
        let text = http
            .get(format!(
                "{rest}/bigquery/v2/projects/local/jobs/{job}?location=US"
            ))
            .send()
            .await?
            .error_for_status()?
            .text()
            .await?;
        let answer: Value = serde_json::from_str(&text)?;
        let status = &answer["status"];
        if status["state"] != "DONE" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        } else if status["errorResult"].is_null() {
            return Ok(());
        } else {
            return Err(status["errorResult"].to_string().into());
        }
    }
}
