//! Uploads: one request, pieces, questions about pieces, wrong ids.

use bigquery_local::LocalBigQuery;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::harness::{Answer, Local, PROJECT};

/// A Job resource that loads into `d.t`; `load` adds to its configuration.
pub(crate) fn load_job(load: Value) -> Value {
    let mut configuration = json!({
        "destinationTable": {"projectId": PROJECT, "datasetId": "d", "tableId": "t"},
    });
    let own = configuration.as_object_mut().expect("an object");
    own.extend(load.as_object().expect("an object").clone());
    json!({"configuration": {"load": configuration}})
}

fn upload_url(server: &LocalBigQuery, query: &str) -> String {
    format!(
        "{}/upload/bigquery/v2/projects/{PROJECT}/jobs?{query}",
        server.rest_endpoint()
    )
}

pub(crate) fn multipart_body(resource: &Value, data: &[u8]) -> Vec<u8> {
    let mut body = format!(
        "--=x=\r\nContent-Type: application/json\r\n\r\n{resource}\r\n\
         --=x=\r\nContent-Type: */*\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(data);
    body.extend_from_slice(b"\r\n--=x=--\r\n");
    body
}

pub(crate) const MULTIPART: &str = "multipart/related; boundary=\"=x=\"";

impl Local {
    /// Starts a job with its file in one request.
    pub(crate) async fn upload(&self, resource: &Value, data: &[u8]) -> Answer {
        let response = self
            .client
            .post(upload_url(&self.server, "uploadType=multipart"))
            .header("Content-Type", MULTIPART)
            .body(multipart_body(resource, data))
            .send()
            .await
            .expect("the server answers");
        answer(response).await
    }

    /// Loads a file into `d.t`; the job must be done, well or not.
    pub(crate) async fn load(&self, load: Value, data: impl AsRef<[u8]>) -> Value {
        let job = self.upload(&load_job(load), data.as_ref()).await.ok();
        assert_eq!(job["status"]["state"], "DONE", "{job}");
        job
    }

    async fn begin(&self, resource: &Value) -> String {
        let response = self
            .client
            .post(upload_url(&self.server, "uploadType=resumable"))
            .json(resource)
            .send()
            .await
            .expect("the server answers");
        assert_eq!(response.status(), StatusCode::OK);
        let header = |name: &str| {
            let value = response.headers().get(name).expect("the header is there");
            value.to_str().expect("it is text").to_string()
        };
        let location = header("location");
        assert!(
            location.ends_with(&format!("upload_id={}", header("x-guploader-uploadid"))),
            "{location}"
        );
        assert_eq!(response.text().await.expect("a body"), "");
        location
    }

    async fn piece(&self, location: &str, range: &str, data: &[u8]) -> Response {
        self.client
            .put(location)
            .header("Content-Range", range)
            .body(data.to_vec())
            .send()
            .await
            .expect("the server answers")
    }
}

async fn answer(response: Response) -> Answer {
    let status = response.status().as_u16();
    let text = response.text().await.expect("the body arrives");
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Answer {
        status,
        body,
        etag: None,
    }
}

fn received(response: &Response) -> Option<&str> {
    assert_eq!(response.status(), StatusCode::PERMANENT_REDIRECT);
    let range = response.headers().get("range")?;
    Some(range.to_str().expect("it is text"))
}

fn csv() -> Value {
    load_job(json!({"schema": {"fields": [{"name": "a", "type": "INTEGER"}]}}))
}

#[tokio::test]
async fn one_request_brings_job_and_file() {
    let local = Local::with_dataset().await;
    let job = local.upload(&csv(), b"1\n2\n").await.ok();
    assert_eq!(job["status"], json!({"state": "DONE"}));
    assert_eq!(job["configuration"]["jobType"], "LOAD");
    assert_eq!(
        job["statistics"]["load"],
        json!({
            "inputFiles": "1", "inputFileBytes": "4", "outputRows": "2", "outputBytes": "16",
            "badRecords": "0"
        })
    );
    let rows = local.first_column("datasets/d/tables/t/data").await;
    assert_eq!(rows, ["1", "2"]);
}

#[tokio::test]
async fn compressed_files_are_told_by_their_bytes() {
    use std::io::Write;
    let local = Local::with_dataset().await;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"7\n").expect("memory takes it");
    let data = gzip.finish().expect("memory takes it");
    local.upload(&csv(), &data).await.ok();
    let rows = local.first_column("datasets/d/tables/t/data").await;
    assert_eq!(rows, ["7"]);
}

#[tokio::test]
async fn pieces_are_counted_and_may_be_asked_about() {
    let local = Local::with_dataset().await;
    let location = local.begin(&csv()).await;
    let probe = local.piece(&location, "bytes */8", b"").await;
    assert_eq!(received(&probe), None);
    let first = local.piece(&location, "bytes 0-2/*", b"1\n2").await;
    assert_eq!(received(&first), Some("bytes=0-2"));
    let probe = local.piece(&location, "bytes */*", b"").await;
    assert_eq!(received(&probe), Some("bytes=0-2"));
    let gap = local.piece(&location, "bytes 5-5/8", b"x").await;
    assert_eq!(gap.status(), StatusCode::BAD_REQUEST);
    // The client repeats a piece whose answer it did not see.
    let again = local.piece(&location, "bytes 2-4/8", b"2\n3").await;
    assert_eq!(received(&again), Some("bytes=0-4"));
    let last = local.piece(&location, "bytes 5-7/8", b"\n4\n").await;
    assert_eq!(last.status(), StatusCode::OK);
    let job = answer(last).await.ok();
    assert_eq!(job["statistics"]["load"]["outputRows"], "4");
    // So does one who did not see that the last piece arrived: the job runs once.
    let repeated = answer(local.piece(&location, "bytes */8", b"").await)
        .await
        .ok();
    assert_eq!(repeated["jobReference"], job["jobReference"]);
    let rows = local.first_column("datasets/d/tables/t/data").await;
    assert_eq!(rows, ["1", "2", "3", "4"]);
}

#[tokio::test]
async fn a_whole_file_needs_no_range() {
    let local = Local::with_dataset().await;
    let location = local.begin(&csv()).await;
    let response = local.client.put(&location).body("1\n").send().await;
    let job = answer(response.expect("the server answers")).await.ok();
    assert_eq!(job["status"]["state"], "DONE");
    let other = location.replace("/upload/", "/resumable/upload/");
    let repeated = local.client.put(&other).body("1\n").send().await;
    let repeated = answer(repeated.expect("the server answers")).await.ok();
    assert_eq!(repeated["jobReference"], job["jobReference"]);
}

#[tokio::test]
async fn wrong_ids_and_given_up_uploads_are_404() {
    let local = Local::with_dataset().await;
    let wrong = upload_url(&local.server, "uploadType=resumable&upload_id=nope");
    let response = answer(local.piece(&wrong, "bytes 0-0/1", b"1").await).await;
    response.error(404, "notFound");
    let location = local.begin(&csv()).await;
    let gone = local.call(Method::DELETE, &location, &[], None).await;
    assert_eq!(gone.status, 204);
    let response = answer(local.piece(&location, "bytes 0-0/1", b"1").await).await;
    response.error(404, "notFound");
    let missing = upload_url(&local.server, "uploadType=resumable");
    let response = local.client.put(&missing).body("1").send().await;
    answer(response.expect("the server answers"))
        .await
        .error(400, "invalid");
}

#[tokio::test]
async fn requests_that_are_no_uploads_are_refused() {
    let local = Local::with_dataset().await;
    for query in ["uploadType=bogus", "", "uploadType=media"] {
        let url = upload_url(&local.server, query);
        let answer = local.call(Method::POST, &url, &[], Some(json!({}))).await;
        answer.error(400, "invalid");
    }
    let url = upload_url(&local.server, "uploadType=multipart");
    let octets = [("Content-Type", "application/octet-stream")];
    let plain = local.call(Method::POST, &url, &octets, Some(csv())).await;
    plain.error(400, "invalid");
    let bogus = load_job(json!({"sourceFormat": "BOGUS"}));
    let message = local.upload(&bogus, b"").await.error(400, "invalid");
    assert!(message.contains("BOGUS"), "{message}");
    let query = json!({"configuration": {"query": {"query": "SELECT 1"}}});
    let message = local.upload(&query, b"").await.error(400, "invalid");
    assert!(message.contains("load jobs"), "{message}");
    let url = upload_url(&local.server, "uploadType=resumable");
    let early = local.call(Method::POST, &url, &[], Some(query)).await;
    early.error(400, "invalid");
}

#[tokio::test]
async fn the_job_of_an_upload_may_be_refused() {
    let local = Local::with_dataset().await;
    let mut named = csv();
    named["jobReference"] = json!({"projectId": PROJECT, "jobId": "twice"});
    local.upload(&named, b"1\n").await.ok();
    let message = local.upload(&named, b"1\n").await.error(409, "duplicate");
    assert_eq!(message, "Already Exists: Job local:US.twice");
    let location = local.begin(&named).await;
    let response = answer(local.piece(&location, "bytes 0-1/2", b"1\n").await).await;
    response.error(409, "duplicate");
    let response = answer(local.piece(&location, "bytes 0-1/2", b"1\n").await).await;
    response.error(404, "notFound");
    let rows = local.first_column("datasets/d/tables/t/data").await;
    assert_eq!(rows, ["1"], "refused jobs load nothing");
}
