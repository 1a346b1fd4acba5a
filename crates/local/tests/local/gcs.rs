//! Cloud Storage: the XML API as `object_store` speaks it, the JSON API as Google's
//! clients do, and topics of Pub/Sub.

use bigquery_local::faults::{Action, Rule};
use bigquery_local::{LocalBigQuery, LocalOptions};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};

/// A server with the bucket `bucket`, and a client of it.
struct Storage {
    server: LocalBigQuery,
    client: Client,
}

/// What was answered.
struct Got {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: Vec<u8>,
}

impl Got {
    async fn of(response: Response) -> Self {
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await.expect("the body arrives").to_vec(),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }

    #[track_caller]
    fn json(&self) -> Value {
        assert!(self.status < 300, "{} {}", self.status, self.text());
        serde_json::from_slice(&self.body).expect("JSON")
    }

    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("text"))
    }

    /// The text of the first element of this name.
    fn element(&self, name: &str) -> String {
        let text = self.text();
        let (_, rest) = text.split_once(&format!("<{name}>")).expect("the element");
        rest.split_once("</").expect("its end").0.to_string()
    }
}

impl Storage {
    async fn start() -> Self {
        let storage = Self {
            server: LocalBigQuery::start(LocalOptions::default()).await.unwrap(),
            client: Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .build()
                .unwrap(),
        };
        let made = storage
            .json(
                Method::POST,
                "/storage/v1/b?project=p",
                json!({"name": "bucket"}),
            )
            .await;
        assert_eq!(made.status, 200);
        storage
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Got {
        let url = format!("{}{path}", self.server.storage_endpoint());
        let mut request = self.client.request(method, url).body(body.into());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Got::of(request.send().await.expect("the server answers")).await
    }

    async fn json(&self, method: Method, path: &str, body: Value) -> Got {
        let kind = [("content-type", "application/json")];
        self.call(method, path, &kind, body.to_string()).await
    }

    async fn get(&self, path: &str) -> Got {
        self.call(Method::GET, path, &[], "").await
    }

    async fn put(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
        self.call(Method::PUT, path, headers, body).await
    }
}

#[tokio::test]
async fn objects_are_put_read_in_ranges_and_deleted() {
    let storage = Storage::start().await;
    let path = "/bucket/a%2Fb%20c";
    let headers = [("content-type", "text/plain"), ("x-goog-meta-k", "v")];
    let put = storage.put(path, &headers, "0123456789").await;
    assert_eq!(put.status, 200, "{}", put.text());
    let (etag, generation) = (
        put.header("etag").to_string(),
        put.header("x-goog-generation").to_string(),
    );
    let got = storage.get("/bucket/a/b%20c").await;
    assert_eq!((got.status, got.text().as_str()), (200, "0123456789"));
    assert_eq!(got.header("etag"), etag);
    assert_eq!(got.header("content-type"), "text/plain");
    assert_eq!(got.header("x-goog-meta-k"), "v");
    assert!(got.header("last-modified").ends_with("GMT"));
    for (range, status, want, place) in [
        ("bytes=2-4", 206, "234", "bytes 2-4/10"),
        ("bytes=7-", 206, "789", "bytes 7-9/10"),
        ("bytes=-2", 206, "89", "bytes 8-9/10"),
        ("bytes=0-99", 206, "0123456789", "bytes 0-9/10"),
    ] {
        let got = storage
            .call(Method::GET, path, &[("range", range)], "")
            .await;
        assert_eq!((got.status, got.text().as_str()), (status, want), "{range}");
        assert_eq!(got.header("content-range"), place);
    }
    let beyond = storage
        .call(Method::GET, path, &[("range", "bytes=10-")], "")
        .await;
    assert_eq!(beyond.status, 416);
    let head = storage.call(Method::HEAD, path, &[], "").await;
    assert_eq!((head.status, head.header("content-length")), (200, "10"));
    for (name, value, status) in [
        ("if-none-match", etag.as_str(), 304),
        ("if-match", etag.as_str(), 200),
        ("if-match", "\"other\"", 412),
        ("if-modified-since", "Fri, 01 Jan 2100 00:00:00 GMT", 304),
        ("if-unmodified-since", "Thu, 01 Jan 1970 00:00:00 GMT", 412),
    ] {
        let got = storage.call(Method::GET, path, &[(name, value)], "").await;
        assert_eq!(got.status, status, "{name}: {value}");
    }
    let old = storage.get(&format!("{path}?generation=1")).await;
    assert_eq!(
        (old.status, old.element("Code").as_str()),
        (404, "NoSuchKey")
    );
    let same = storage
        .get(&format!("{path}?generation={generation}"))
        .await;
    assert_eq!(same.status, 200);
    assert_eq!(
        storage.call(Method::DELETE, path, &[], "").await.status,
        204
    );
    assert_eq!(
        storage.call(Method::DELETE, path, &[], "").await.status,
        404
    );
    assert_eq!(storage.get(path).await.status, 404);
    let nowhere = storage.get("/nowhere/a").await;
    assert_eq!(
        (nowhere.status, nowhere.element("Code").as_str()),
        (404, "NoSuchBucket")
    );
}

#[tokio::test]
async fn preconditions_guard_generations() {
    let storage = Storage::start().await;
    let only_new = [("x-goog-if-generation-match", "0")];
    let first = storage.put("/bucket/o", &only_new, "1").await;
    assert_eq!(first.status, 200);
    let again = storage.put("/bucket/o", &only_new, "2").await;
    assert_eq!(
        (again.status, again.element("Code").as_str()),
        (412, "PreconditionFailed")
    );
    let generation = first.header("x-goog-generation");
    let update = [("x-goog-if-generation-match", generation)];
    assert_eq!(storage.put("/bucket/o", &update, "3").await.status, 200);
    assert_eq!(storage.put("/bucket/o", &update, "4").await.status, 412);
    assert_eq!(storage.get("/bucket/o").await.text(), "3");
    let stale = storage
        .call(
            Method::DELETE,
            &format!("/storage/v1/b/bucket/o/o?ifGenerationMatch={generation}"),
            &[],
            "",
        )
        .await;
    assert_eq!(stale.status, 412);
    let wrong = storage
        .put("/bucket/o", &[("content-md5", "AAAA")], "5")
        .await;
    assert_eq!(
        (wrong.status, wrong.element("Code").as_str()),
        (400, "BadDigest")
    );
}

#[tokio::test]
async fn listings_have_pages_prefixes_and_delimiters() {
    let storage = Storage::start().await;
    for name in ["a%2F1", "a%2F2", "b", "c%26d"] {
        assert_eq!(
            storage
                .put(&format!("/bucket/{name}"), &[], "x")
                .await
                .status,
            200
        );
    }
    let list = storage
        .get("/bucket?list-type=2&delimiter=%2F&prefix=")
        .await
        .text();
    assert!(
        list.contains("<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>"),
        "{list}"
    );
    assert!(
        list.contains("<Key>b</Key>") && list.contains("<Key>c&amp;d</Key>"),
        "{list}"
    );
    assert!(!list.contains("<Key>a/1</Key>"), "{list}");
    let mut token = String::new();
    let mut keys = Vec::new();
    loop {
        let page = storage
            .get(&format!(
                "/bucket?list-type=2&max-keys=1&prefix=a%2F{token}"
            ))
            .await;
        keys.push(page.element("Key"));
        if page.element("IsTruncated") == "false" {
            break;
        }
        let next = page.element("NextContinuationToken").replace('/', "%2F");
        token = format!("&continuation-token={next}");
    }
    assert_eq!(keys, ["a/1", "a/2"]);
    let page = storage
        .get("/storage/v1/b/bucket/o?maxResults=2&delimiter=/")
        .await
        .json();
    assert_eq!(page["prefixes"], json!(["a/"]));
    assert_eq!(page["items"][0]["name"], "b");
    let next = page["nextPageToken"].as_str().unwrap();
    let rest = storage
        .get(&format!(
            "/storage/v1/b/bucket/o?delimiter=/&pageToken={}",
            next.replace('=', "%3D")
        ))
        .await
        .json();
    assert_eq!(rest["items"][0]["name"], "c&d");
    assert!(rest.get("nextPageToken").is_none());
}

/// A rule looks into bodies for a table, and takes large ones as they are.
#[tokio::test]
async fn rules_leave_large_objects_alone() {
    let storage = Storage::start().await;
    let rules = &storage.server.service().faults;
    let rule = Rule::once("objects.insert", Action::ApplyTwice);
    rules.add(rule.on_table("nobody.has.this")).unwrap();
    rules
        .add(Rule::once("jobs.get", Action::Delay { ms: 1 }))
        .unwrap();
    let large = "x".repeat((64 << 20) + 1);
    let put = storage.put("/bucket/large", &[], &large).await;
    assert_eq!(put.status, 200);
    let got = storage.call(Method::GET, "/bucket/large", &[], "").await;
    assert_eq!(got.body.len(), large.len());
}

#[tokio::test]
async fn uploads_in_parts() {
    let storage = Storage::start().await;
    let begun = storage
        .call(Method::POST, "/bucket/big?uploads=", &[], "")
        .await;
    let id = begun.element("UploadId");
    let large = "x".repeat(5 << 20);
    let mut tags = Vec::new();
    for (number, data) in [(1, large.as_str()), (2, "end")] {
        let path = format!("/bucket/big?partNumber={number}&uploadId={id}");
        tags.push(
            storage
                .put(&path, &[], data)
                .await
                .header("etag")
                .to_string(),
        );
    }
    let complete = |parts: &[(u32, &str)]| {
        let parts: String = parts
            .iter()
            .map(|(n, tag)| {
                let tag = tag.replace('"', "&quot;");
                format!("<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>")
            })
            .collect();
        format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")
    };
    let path = format!("/bucket/big?uploadId={id}");
    let wrong = complete(&[(1, &tags[0]), (2, "\"other\"")]);
    let refused = storage.call(Method::POST, &path, &[], wrong).await;
    assert_eq!(
        (refused.status, refused.element("Code").as_str()),
        (400, "InvalidPart")
    );
    let small_first = complete(&[(2, &tags[1]), (3, &tags[0])]);
    assert_eq!(
        storage
            .call(Method::POST, &path, &[], small_first)
            .await
            .status,
        400
    );
    let right = complete(&[(1, &tags[0]), (2, &tags[1])]);
    let done = storage.call(Method::POST, &path, &[], right.clone()).await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(!done.header("x-goog-generation").is_empty());
    assert_eq!(storage.get("/bucket/big").await.body.len(), (5 << 20) + 3);
    let again = storage.call(Method::POST, &path, &[], right).await;
    assert_eq!(
        (again.status, again.element("Code").as_str()),
        (404, "NoSuchUpload")
    );
    let begun = storage
        .call(Method::POST, "/bucket/gone?uploads=", &[], "")
        .await;
    let path = format!("/bucket/gone?uploadId={}", begun.element("UploadId"));
    assert_eq!(
        storage.call(Method::DELETE, &path, &[], "").await.status,
        204
    );
    assert_eq!(storage.get("/bucket/gone").await.status, 404);
}

#[tokio::test]
async fn resumable_uploads_go_on_where_they_were() {
    let storage = Storage::start().await;
    let begin = || async {
        let path = "/upload/storage/v1/b/bucket/o?uploadType=resumable&name=r&ifGenerationMatch=0";
        let body = json!({"contentType": "text/x", "metadata": {"k": "v"}});
        let begun = storage.json(Method::POST, path, body).await;
        assert_eq!(begun.status, 200, "{}", begun.text());
        let location = begun.header("location").to_string();
        location.replace(&storage.server.storage_endpoint(), "")
    };
    let path = begin().await;
    let probe = [("content-range", "bytes */*")];
    let empty = storage.put(&path, &probe, "").await;
    assert_eq!((empty.status, empty.header("range")), (308, ""));
    let piece = storage
        .put(&path, &[("content-range", "bytes 0-3/*")], "0123")
        .await;
    assert_eq!((piece.status, piece.header("range")), (308, "bytes=0-3"));
    let gap = storage
        .put(&path, &[("content-range", "bytes 6-7/*")], "67")
        .await;
    assert_eq!(gap.status, 400);
    // A piece that repeats what arrived.
    let overlap = storage
        .put(&path, &[("content-range", "bytes 2-5/8")], "2345")
        .await;
    assert_eq!(
        (overlap.status, overlap.header("range")),
        (308, "bytes=0-5")
    );
    let last = storage
        .put(&path, &[("content-range", "bytes 6-7/8")], "67")
        .await;
    let made = last.json();
    assert_eq!(
        (made["size"].as_str(), made["contentType"].as_str()),
        (Some("8"), Some("text/x"))
    );
    assert_eq!(made["metadata"]["k"], "v");
    let done = storage
        .put(&path, &[("content-range", "bytes */8")], "")
        .await
        .json();
    assert_eq!(done["generation"], made["generation"]);
    let media = storage.get("/storage/v1/b/bucket/o/r?alt=media").await;
    assert_eq!(media.text(), "01234567");
    // The condition is looked at when the object is written.
    let path = begin().await;
    assert_eq!(storage.put(&path, &[], "other").await.status, 412);
    assert_eq!(
        storage.call(Method::DELETE, &path, &[], "").await.status,
        499
    );
    assert_eq!(storage.put(&path, &probe, "").await.status, 404);
}

#[tokio::test]
async fn the_json_api_copies_composes_and_describes() {
    let storage = Storage::start().await;
    let boundary = [("content-type", "multipart/related; boundary=b")];
    let body = "--b\r\nContent-Type: application/json\r\n\r\n{\"name\": \"x/1\"}\r\n--b\r\nContent-Type: text/plain\r\n\r\nhello\r\n--b--";
    let made = storage
        .call(
            Method::POST,
            "/upload/storage/v1/b/bucket/o?uploadType=multipart",
            &boundary,
            body,
        )
        .await
        .json();
    assert_eq!(
        (&made["name"], &made["contentType"]),
        (&json!("x/1"), &json!("text/plain"))
    );
    assert_eq!(made["md5Hash"], "XUFAKrxLKna5cZ2REBfFkg==");
    assert_eq!(made["crc32c"], "mnG7TA==");
    let object = "/storage/v1/b/bucket/o/x%2F1";
    let patched = storage
        .json(Method::PATCH, object, json!({"metadata": {"a": "b"}}))
        .await
        .json();
    assert_eq!(patched["metageneration"], "2");
    assert_eq!(patched["generation"], made["generation"]);
    let rewritten = storage
        .json(
            Method::POST,
            &format!("{object}/rewriteTo/b/bucket/o/y"),
            json!({}),
        )
        .await
        .json();
    assert_eq!(
        (&rewritten["done"], &rewritten["objectSize"]),
        (&json!(true), &json!("5"))
    );
    assert_eq!(rewritten["resource"]["metadata"]["a"], "b");
    let composed = storage
        .json(
            Method::POST,
            "/storage/v1/b/bucket/o/z/compose",
            json!({"sourceObjects": [{"name": "x/1"}, {"name": "y"}], "destination": {"contentType": "c/d"}}),
        )
        .await
        .json();
    assert_eq!(
        (&composed["componentCount"], &composed["md5Hash"]),
        (&json!(2), &Value::Null)
    );
    assert_eq!(
        storage
            .get("/download/storage/v1/b/bucket/o/z?alt=media")
            .await
            .text(),
        "hellohello"
    );
    let unchanged = format!("{object}?ifMetagenerationNotMatch=2");
    assert_eq!(storage.get(&unchanged).await.status, 304);
    let copied = storage
        .put(
            "/bucket/copy",
            &[("x-goog-copy-source", "bucket/x%2F1")],
            "",
        )
        .await;
    assert_eq!(copied.status, 200, "{}", copied.text());
    assert_eq!(
        storage.get("/bucket/copy").await.header("x-goog-meta-a"),
        "b"
    );
    let media = storage
        .call(
            Method::POST,
            "/upload/storage/v1/b/bucket/o?uploadType=media&name=m",
            &[],
            "m",
        )
        .await;
    assert_eq!(media.json()["size"], "1");
}

#[tokio::test]
async fn buckets_are_made_once_and_deleted_empty() {
    let storage = Storage::start().await;
    let make = |name: &str| {
        storage.json(
            Method::POST,
            "/storage/v1/b?project=p",
            json!({"name": name}),
        )
    };
    assert_eq!(make("bucket").await.status, 409);
    assert_eq!(make("Not A Bucket").await.status, 400);
    assert_eq!(make("other-bucket").await.status, 200);
    let list = storage.get("/storage/v1/b?project=p").await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let bucket = storage.get("/storage/v1/b/bucket").await.json();
    assert_eq!(
        (&bucket["location"], &bucket["kind"]),
        (&json!("US"), &json!("storage#bucket"))
    );
    storage.put("/bucket/o", &[], "x").await;
    assert_eq!(
        storage
            .call(Method::DELETE, "/storage/v1/b/bucket", &[], "")
            .await
            .status,
        409
    );
    storage.call(Method::DELETE, "/bucket/o", &[], "").await;
    assert_eq!(
        storage
            .call(Method::DELETE, "/storage/v1/b/bucket", &[], "")
            .await
            .status,
        204
    );
    assert_eq!(storage.get("/storage/v1/b/bucket").await.status, 404);
}

#[tokio::test]
async fn topics_take_messages_once_they_exist() {
    let storage = Storage::start().await;
    let topic = "/v1/projects/p/topics/dead-letters";
    let message = json!({"messages": [{"data": "eA==", "attributes": {"dlq-error": "why"}}]});
    let publish = format!("{topic}:publish");
    assert_eq!(
        storage
            .json(Method::POST, &publish, message.clone())
            .await
            .status,
        404
    );
    let made = storage.json(Method::PUT, topic, json!({})).await.json();
    assert_eq!(made["name"], "projects/p/topics/dead-letters");
    assert_eq!(
        storage.json(Method::PUT, topic, json!({})).await.status,
        409
    );
    let sent = storage.json(Method::POST, &publish, message).await.json();
    assert_eq!(sent["messageIds"], json!(["1"]));
    for bad in [
        json!({"messages": []}),
        json!({"messages": [{}]}),
        json!({"messages": [{"data": "not base64!"}]}),
        json!({"messages": [{"attributes": {"k": "v".repeat(1025)}}]}),
    ] {
        assert_eq!(
            storage
                .json(Method::POST, &publish, bad.clone())
                .await
                .status,
            400,
            "{bad}"
        );
    }
    let kept = storage
        .get("/_local/pubsub/projects/p/topics/dead-letters/messages")
        .await
        .json();
    assert_eq!(kept["messages"].as_array().unwrap().len(), 1);
    assert_eq!(kept["messages"][0]["attributes"]["dlq-error"], "why");
    assert_eq!(
        storage.call(Method::DELETE, topic, &[], "").await.status,
        200
    );
    assert_eq!(storage.get(topic).await.status, 404);
}
