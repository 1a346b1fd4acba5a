//! Uploads in several requests to a server that is killed between and in them.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use reqwest::{Client, Response};
use serde_json::json;

use super::server::Running;
use super::{rounds, seed};

const PIECE: usize = 1000;
const MOST_PARTS: usize = 3;

/// The bytes of an upload, whatever their number.
fn bytes(seed: usize, range: std::ops::Range<usize>) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at * 7 + seed * 31 + at / 251) % 256).unwrap();
    range.map(byte).collect()
}

/// A resumable upload, and how many of its bytes were acknowledged.
struct Resumable {
    number: usize,
    id: String,
    acknowledged: usize,
}

impl Resumable {
    async fn begin(storage: &str, number: usize) -> Self {
        let url = format!(
            "{storage}/upload/storage/v1/b/bucket/o?uploadType=resumable&name=r{number}\
             &ifGenerationMatch=0"
        );
        let body = json!({"contentType": "text/x"});
        let begun = Client::new().post(url).json(&body).send().await.unwrap();
        let location = begun.headers()["location"].to_str().unwrap();
        Self {
            number,
            id: location.split("upload_id=").nth(1).unwrap().to_string(),
            acknowledged: 0,
        }
    }

    async fn send(&self, storage: &str, range: &str, body: Vec<u8>) -> Option<Response> {
        let url = format!(
            "{storage}/upload/storage/v1/b/bucket/o?uploadType=resumable&upload_id={}",
            self.id
        );
        let request = Client::new().put(url).header("content-range", range);
        request.body(body).send().await.ok()
    }

    /// Sends pieces until the server is gone.
    async fn run(mut self, storage: String) -> Self {
        loop {
            let (from, to) = (self.acknowledged, self.acknowledged + PIECE);
            let range = format!("bytes {from}-{}/*", to - 1);
            let piece = bytes(self.number, from..to);
            match self.send(&storage, &range, piece).await {
                None => return self,
                Some(answer) => assert_eq!(answer.status(), 308),
            }
            self.acknowledged = to;
        }
    }

    /// Asks what is there: all that was acknowledged, and perhaps the piece on its way.
    async fn check(&mut self, storage: &str, context: &str) {
        let answer = self.send(storage, "bytes */*", Vec::new()).await.unwrap();
        assert_eq!(answer.status(), 308, "{context}");
        let found = match answer.headers().get("range") {
            None => 0,
            Some(range) => {
                let last = range.to_str().unwrap().strip_prefix("bytes=0-").unwrap();
                last.parse::<usize>().unwrap() + 1
            }
        };
        let allowed = [self.acknowledged, self.acknowledged + PIECE];
        assert!(allowed.contains(&found), "{context}: {found} {allowed:?}");
        self.acknowledged = found;
    }

    async fn complete(&self, storage: &str) -> Response {
        let range = format!("bytes */{}", self.acknowledged);
        self.send(storage, &range, Vec::new()).await.unwrap()
    }
}

/// An upload in parts.
struct Parts {
    number: usize,
    id: String,
    tags: Vec<String>,
}

impl Parts {
    async fn begin(storage: &str, number: usize) -> Self {
        let url = format!("{storage}/bucket/p{number}?uploads=");
        let begun = Client::new().post(url).send().await.unwrap();
        let text = begun.text().await.unwrap();
        let id = text.split("<UploadId>").nth(1).unwrap();
        Self {
            number,
            id: id.split('<').next().unwrap().to_string(),
            tags: Vec::new(),
        }
    }

    fn part(&self, at: usize) -> Vec<u8> {
        bytes(self.number + at, 0..5 << 20)
    }

    async fn put(&self, storage: &str, at: usize) -> Option<Response> {
        let (number, id) = (self.number, &self.id);
        let url = format!(
            "{storage}/bucket/p{number}?partNumber={}&uploadId={id}",
            at + 1
        );
        let request = Client::new().put(url).body(self.part(at));
        request.send().await.ok()
    }

    async fn run(mut self, storage: String) -> Self {
        loop {
            // A part that is sent again takes the place of the first.
            let at = self.tags.len().min(MOST_PARTS - 1);
            let Some(answer) = self.put(&storage, at).await else {
                return self;
            };
            assert_eq!(answer.status(), 200);
            let tag = answer.headers()["etag"].to_str().unwrap().to_string();
            self.tags.truncate(at);
            self.tags.push(tag);
        }
    }

    async fn complete(&self, storage: &str) -> u16 {
        let parts: String = (1..)
            .zip(&self.tags)
            .map(|(n, tag)| {
                let tag = tag.replace('"', "&quot;");
                format!("<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>")
            })
            .collect();
        let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        let url = format!("{storage}/bucket/p{}?uploadId={}", self.number, self.id);
        let answer = Client::new().post(url).body(body).send().await.unwrap();
        answer.status().as_u16()
    }
}

async fn content(storage: &str, name: &str) -> Vec<u8> {
    let url = format!("{storage}/bucket/{name}");
    let answer = Client::new().get(url).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{name}");
    answer.bytes().await.unwrap().to_vec()
}

#[expect(
    clippy::print_stdout,
    reason = "the seed tells how to see a failure again"
)]
#[tokio::test(flavor = "multi_thread")]
async fn killed_uploads_go_on_where_they_were() {
    let seed = seed();
    println!("BIGQUERY_LOCAL_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let data = tempfile::TempDir::new().unwrap();
    let mut running = Running::start(data.path());
    let bucket = format!("{}/storage/v1/b", running.storage);
    let name = json!({"name": "bucket"});
    let made = Client::new().post(bucket).json(&name).send().await;
    assert_eq!(made.unwrap().status(), 200);
    let mut resumable = Resumable::begin(&running.storage, 0).await;
    let mut parts = Parts::begin(&running.storage, 0).await;
    let given_up = Resumable::begin(&running.storage, 1).await;
    let gone = format!(
        "{}/upload/storage/v1/b/bucket/o?uploadType=resumable&upload_id={}",
        running.storage, given_up.id
    );
    let gone = Client::new().delete(gone).send().await.unwrap();
    assert_eq!(gone.status().as_u16(), 499);
    for round in 0..rounds().min(20) {
        let context = format!("round {round}, BIGQUERY_LOCAL_SEED={seed}");
        let sending = tokio::spawn(resumable.run(running.storage.clone()));
        let putting = tokio::spawn(parts.run(running.storage.clone()));
        tokio::time::sleep(Duration::from_micros(random.random_range(0..150_000))).await;
        running.kill();
        (resumable, parts) = (sending.await.unwrap(), putting.await.unwrap());
        running = Running::start(data.path());
        resumable.check(&running.storage, &context).await;
        let answer = given_up.send(&running.storage, "bytes */*", Vec::new());
        assert_eq!(answer.await.unwrap().status(), 404, "{context}");
        // What is acknowledged is enough to complete it; a new one begins.
        if random.random_ratio(1, 2) {
            let number = parts.number;
            if !parts.tags.is_empty() {
                assert_eq!(parts.complete(&running.storage).await, 200, "{context}");
                let expected: Vec<u8> = (0..parts.tags.len()).flat_map(|n| parts.part(n)).collect();
                let found = content(&running.storage, &format!("p{number}")).await;
                assert!(found == expected, "{context}");
            }
            parts = Parts::begin(&running.storage, number + 100).await;
        }
    }
    let done = resumable.complete(&running.storage).await;
    assert_eq!(done.status(), 200);
    let made = done.json::<serde_json::Value>().await.unwrap();
    running.kill();
    running = Running::start(data.path());
    // It is done, and is not done again: the object would be there already.
    let again = resumable.complete(&running.storage).await;
    assert_eq!(again.status(), 200);
    let again = again.json::<serde_json::Value>().await.unwrap();
    assert_eq!(again["generation"], made["generation"]);
    let expected = bytes(0, 0..resumable.acknowledged);
    assert!(content(&running.storage, "r0").await == expected);
}
