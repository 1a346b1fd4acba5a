//! The JSON API.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::call::{Call, range, unescaped};
use super::error::{GcsError, Kind, Result};
use super::listing::Query;
use super::object::{Attributes, BucketMeta, Conditions, Object, ObjectMeta, base64};
use super::objects::{New, Objects};
use super::resource;
use super::uploads::{Piece, Progress};
use crate::rest::multipart_parts;

/// Entries of a page at most.
const PAGE: usize = 1_000;

/// 200 with JSON.
pub(super) fn ok(body: &Value) -> Response {
    let kind = HeaderValue::from_static("application/json; charset=UTF-8");
    ([(CONTENT_TYPE, kind)], body.to_string()).into_response()
}

fn no_content() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

fn unknown() -> GcsError {
    GcsError::new(Kind::NoSuchObject, "Not Found")
}

fn host(call: &Call) -> &str {
    call.header("host").unwrap_or("storage.googleapis.com")
}

/// Answers a request of the JSON API.
pub(super) fn answer(objects: &Objects, call: &Call) -> Result<Response> {
    let path = call.path.trim_start_matches('/');
    if path.starts_with("batch/") {
        return Err(GcsError::unsupported("The batch endpoint of Cloud Storage"));
    }
    let uploads = path
        .strip_prefix("resumable/upload/storage/v1/")
        .or_else(|| path.strip_prefix("upload/storage/v1/"));
    if let Some(rest) = uploads {
        let ["b", bucket, "o"] = rest.split('/').collect::<Vec<_>>()[..] else {
            return Err(unknown());
        };
        return upload(objects, call, &unescaped(bucket)?);
    }
    let (rest, media) = match path.strip_prefix("download/storage/v1/") {
        Some(rest) => (rest, true),
        None => (path.strip_prefix("storage/v1/").ok_or_else(unknown)?, false),
    };
    let segments: Vec<&str> = rest.split('/').collect();
    match segments[..] {
        ["b"] => buckets(objects, call),
        ["b", name] => bucket(objects, call, &unescaped(name)?),
        ["b", name, "o"] if call.method == Method::GET => list(objects, call, &unescaped(name)?),
        ["b", from, "o", source, "rewriteTo", "b", to, "o", target] => {
            let (from, to) = (unescaped(from)?, unescaped(to)?);
            let meta = copy(
                objects,
                call,
                &from,
                &unescaped(source)?,
                &to,
                &unescaped(target)?,
            )?;
            Ok(ok(&json!({
                "kind": "storage#rewriteResponse",
                "totalBytesRewritten": meta.size.to_string(),
                "objectSize": meta.size.to_string(),
                "done": true,
                "resource": resource::object(&to, &meta, host(call)),
            })))
        }
        ["b", from, "o", source, "copyTo", "b", to, "o", target] => {
            let (from, to) = (unescaped(from)?, unescaped(to)?);
            let meta = copy(
                objects,
                call,
                &from,
                &unescaped(source)?,
                &to,
                &unescaped(target)?,
            )?;
            Ok(ok(&resource::object(&to, &meta, host(call))))
        }
        ["b", name, "o", target, "compose"] if call.method == Method::POST => {
            compose(objects, call, &unescaped(name)?, &unescaped(target)?)
        }
        ["b", name, "o", ref object @ ..] if !object.is_empty() => {
            let name = unescaped(name)?;
            // A name with slashes that were not escaped is taken as it is.
            object_call(objects, call, &name, &unescaped(&object.join("/"))?, media)
        }
        _ => Err(unknown()),
    }
}

fn object_body(call: &Call) -> Result<Map<String, Value>> {
    if call.body.is_empty() {
        return Ok(Map::new());
    }
    parsed(&call.body)
}

fn parsed(body: &[u8]) -> Result<Map<String, Value>> {
    serde_json::from_slice(body).map_err(|e| GcsError::invalid(format!("Parse Error: {e}")))
}

fn conditions(call: &Call) -> Result<Conditions> {
    Ok(Conditions {
        generation: call.number("ifGenerationMatch")?,
        not_generation: call.number("ifGenerationNotMatch")?,
        metageneration: call.number("ifMetagenerationMatch")?,
        not_metageneration: call.number("ifMetagenerationNotMatch")?,
    })
}

fn buckets(objects: &Objects, call: &Call) -> Result<Response> {
    match call.method {
        Method::GET => {
            let prefix = call.param("prefix").unwrap_or("");
            let items: Vec<Value> = objects
                .buckets(prefix)
                .iter()
                .map(|meta| resource::bucket(meta, host(call)))
                .collect();
            let mut out = json!({"kind": "storage#buckets"});
            if !items.is_empty() {
                out["items"] = json!(items);
            }
            Ok(ok(&out))
        }
        Method::POST => {
            let body = object_body(call)?;
            let name = body
                .get("name")
                .and_then(Value::as_str)
                .ok_or_else(|| GcsError::invalid("Required: name"))?;
            let text = |field: &str, default: &str| {
                let value = body.get(field).and_then(Value::as_str);
                value.unwrap_or(default).to_ascii_uppercase()
            };
            let mut meta = BucketMeta {
                name: name.to_string(),
                location: text("location", "US"),
                storage_class: text("storageClass", "STANDARD"),
                labels: std::collections::BTreeMap::new(),
                created: 0,
                updated: 0,
                metageneration: 1,
            };
            if let Some(labels) = body.get("labels").and_then(Value::as_object) {
                resource::texts("labels", labels, &mut meta.labels)?;
            }
            let meta = objects.create_bucket(meta)?;
            Ok(ok(&resource::bucket(&meta, host(call))))
        }
        _ => Err(unknown()),
    }
}

fn bucket(objects: &Objects, call: &Call, name: &str) -> Result<Response> {
    match call.method {
        Method::GET => Ok(ok(&resource::bucket(&objects.bucket(name)?, host(call)))),
        Method::PATCH | Method::PUT => {
            let body = object_body(call)?;
            let meta = objects.update_bucket(name, |meta| {
                if let Some(labels) = body.get("labels").and_then(Value::as_object) {
                    resource::texts("labels", labels, &mut meta.labels)?;
                }
                if let Some(class) = body.get("storageClass").and_then(Value::as_str) {
                    meta.storage_class = class.to_ascii_uppercase();
                }
                Ok(())
            })?;
            Ok(ok(&resource::bucket(&meta, host(call))))
        }
        Method::DELETE => {
            objects.delete_bucket(name)?;
            Ok(no_content())
        }
        _ => Err(unknown()),
    }
}

fn list(objects: &Objects, call: &Call, bucket: &str) -> Result<Response> {
    if call.param("matchGlob").is_some() {
        return Err(GcsError::unsupported("matchGlob"));
    }
    let text = |name: &str| call.param(name).filter(|v| !v.is_empty()).map(String::from);
    let after = text("pageToken")
        .map(|token| crate::value::scalar::parse_base64(&token))
        .transpose()
        .ok()
        .map(|token| token.map(String::from_utf8).transpose())
        .and_then(std::result::Result::ok)
        .ok_or_else(|| GcsError::invalid("Invalid value for pageToken"))?;
    let query = Query {
        prefix: text("prefix").unwrap_or_default(),
        delimiter: text("delimiter").unwrap_or_default(),
        after,
        start: text("startOffset"),
        end: text("endOffset"),
        limit: call.number("maxResults")?.unwrap_or(PAGE).clamp(1, PAGE),
    };
    let page = objects.list(bucket, &query)?;
    let mut out = json!({"kind": "storage#objects"});
    if !page.objects.is_empty() {
        let items = page.objects.iter();
        out["items"] = items
            .map(|object| resource::object(bucket, &object.meta, host(call)))
            .collect();
    }
    if !page.prefixes.is_empty() {
        out["prefixes"] = json!(page.prefixes);
    }
    if let Some(next) = page.next {
        out["nextPageToken"] = json!(base64(next.as_bytes()));
    }
    Ok(ok(&out))
}

fn object_call(
    objects: &Objects,
    call: &Call,
    bucket: &str,
    name: &str,
    media: bool,
) -> Result<Response> {
    let generation = call.number("generation")?;
    match call.method {
        Method::GET | Method::HEAD => {
            let object = objects.object(bucket, name, generation)?;
            conditions(call)?.check_read(&object.meta)?;
            if media || call.param("alt") == Some("media") {
                return content(&object, call);
            }
            Ok(ok(&resource::object(bucket, &object.meta, host(call))))
        }
        Method::PATCH | Method::PUT => {
            let body = object_body(call)?;
            let replaces = call.method == Method::PUT;
            let meta = objects.update(bucket, name, &conditions(call)?, |attributes| {
                if replaces {
                    *attributes = Attributes::default();
                }
                resource::change(attributes, &body)
            })?;
            Ok(ok(&resource::object(bucket, &meta, host(call))))
        }
        Method::DELETE => {
            objects.delete(bucket, name, generation, &conditions(call)?)?;
            Ok(no_content())
        }
        _ => Err(unknown()),
    }
}

/// The bytes of an object, or the range of them that is asked for.
pub(super) fn content(object: &Object, call: &Call) -> Result<Response> {
    let meta = &object.meta;
    let wanted = range(call.header("range"), meta.size)?;
    let (start, end) = wanted.unwrap_or((0, meta.size));
    let data = if call.method == Method::HEAD {
        Bytes::new()
    } else {
        object.content.read_range(start, end)?
    };
    let mut response = data.into_response();
    let length = end - start;
    if wanted.is_some() {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let last = end.saturating_sub(1);
        set(
            &mut response,
            "content-range",
            &format!("bytes {start}-{last}/{}", meta.size),
        );
    }
    set(&mut response, "content-length", &length.to_string());
    describe(&mut response, meta);
    Ok(response)
}

/// What is known of an object, as headers.
pub(super) fn describe(response: &mut Response, meta: &ObjectMeta) {
    let attributes = &meta.attributes;
    let kind = attributes.content_type.as_deref();
    set(
        response,
        "content-type",
        kind.unwrap_or("application/octet-stream"),
    );
    let optional = [
        ("content-disposition", &attributes.content_disposition),
        ("content-language", &attributes.content_language),
        ("cache-control", &attributes.cache_control),
        (
            "x-goog-stored-content-encoding",
            &attributes.content_encoding,
        ),
        ("content-encoding", &attributes.content_encoding),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            set(response, name, value);
        }
    }
    for (key, value) in &attributes.metadata {
        set(response, &format!("x-goog-meta-{key}"), value);
    }
    set(response, "accept-ranges", "bytes");
    set(response, "etag", &meta.etag());
    set(response, "last-modified", &http_date(meta.updated));
    set(response, "x-goog-generation", &meta.generation.to_string());
    set(
        response,
        "x-goog-metageneration",
        &meta.metageneration.to_string(),
    );
    set(
        response,
        "x-goog-stored-content-length",
        &meta.size.to_string(),
    );
    let class = attributes.storage_class.as_deref().unwrap_or("STANDARD");
    set(response, "x-goog-storage-class", class);
    let mut hash = format!("crc32c={}", base64(&meta.crc32c.to_be_bytes()));
    if let Some(md5) = &meta.md5 {
        hash.push_str(&format!(",md5={}", base64(md5)));
    }
    set(response, "x-goog-hash", &hash);
}

/// Sets a header, unless it cannot be one.
pub(super) fn set(response: &mut Response, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (
        HeaderName::from_bytes(name.as_bytes()),
        HeaderValue::from_bytes(value.as_bytes()),
    ) {
        response.headers_mut().insert(name, value);
    }
}

/// `Wed, 31 Jan 2024 12:00:00 GMT`.
pub(super) fn http_date(micros: i64) -> String {
    chrono::DateTime::from_timestamp_micros(micros)
        .map(|at| at.format("%a, %d %b %Y %H:%M:%S GMT").to_string())
        .unwrap_or_default()
}

/// Copies an object, with the attributes that the body gives instead of its own.
fn copy(
    objects: &Objects,
    call: &Call,
    from: &str,
    source: &str,
    to: &str,
    target: &str,
) -> Result<ObjectMeta> {
    if call.method != Method::POST {
        return Err(unknown());
    }
    let object = objects.object(from, source, call.number("sourceGeneration")?)?;
    let given = Conditions {
        generation: call.number("ifSourceGenerationMatch")?,
        not_generation: call.number("ifSourceGenerationNotMatch")?,
        metageneration: call.number("ifSourceMetagenerationMatch")?,
        not_metageneration: call.number("ifSourceMetagenerationNotMatch")?,
    };
    given.check(Some(&object.meta))?;
    let mut attributes = object.meta.attributes.clone();
    resource::change(&mut attributes, &object_body(call)?)?;
    let new = New {
        name: target.to_string(),
        attributes,
        conditions: conditions(call)?,
        expected: Default::default(),
    };
    objects.put(to, new, object.content.read()?)
}

fn compose(objects: &Objects, call: &Call, bucket: &str, target: &str) -> Result<Response> {
    let body = object_body(call)?;
    let sources = body
        .get("sourceObjects")
        .and_then(Value::as_array)
        .ok_or_else(|| GcsError::invalid("Required: sourceObjects"))?;
    let mut found = Vec::new();
    for source in sources {
        let name = source["name"]
            .as_str()
            .ok_or_else(|| GcsError::invalid("Required: sourceObjects[].name"))?;
        let number = |value: &Value| {
            value
                .as_i64()
                .or_else(|| value.as_str().and_then(|text| text.parse().ok()))
        };
        let object = objects.object(bucket, name, number(&source["generation"]))?;
        let given = Conditions {
            generation: number(&source["objectPreconditions"]["ifGenerationMatch"]),
            ..Conditions::default()
        };
        given.check(Some(&object.meta))?;
        found.push(object);
    }
    let mut attributes = Attributes::default();
    if let Some(destination) = body.get("destination").and_then(Value::as_object) {
        resource::change(&mut attributes, destination)?;
    }
    let new = New {
        name: target.to_string(),
        attributes,
        conditions: conditions(call)?,
        expected: Default::default(),
    };
    let meta = objects.compose(bucket, new, &found)?;
    Ok(ok(&resource::object(bucket, &meta, host(call))))
}

fn upload(objects: &Objects, call: &Call, bucket: &str) -> Result<Response> {
    if let Some(id) = call.param("upload_id") {
        return resume(objects, call, id);
    }
    if call.method != Method::POST {
        return Err(unknown());
    }
    match call.param("uploadType") {
        Some("media") => {
            let attributes = Attributes {
                content_type: call.header("content-type").map(String::from),
                content_encoding: call.param("contentEncoding").map(String::from),
                ..Attributes::default()
            };
            let new = described(call, Map::new(), attributes)?;
            finished(objects, call, bucket, new, call.body.clone())
        }
        Some("multipart") => {
            let kind = call.header("content-type").unwrap_or_default();
            let [metadata, data] =
                multipart_parts(kind, &call.body).map_err(|e| GcsError::invalid(e.message))?;
            let attributes = Attributes {
                content_type: metadata_free_type(&call.body),
                ..Attributes::default()
            };
            let metadata = if metadata.trim_ascii().is_empty() {
                Map::new()
            } else {
                parsed(&metadata)?
            };
            finished(
                objects,
                call,
                bucket,
                described(call, metadata, attributes)?,
                data,
            )
        }
        Some("resumable") => {
            let attributes = Attributes {
                content_type: call.header("x-upload-content-type").map(String::from),
                ..Attributes::default()
            };
            let new = described(call, object_body(call)?, attributes)?;
            objects.bucket(bucket)?;
            let id = objects.uploads.begin(bucket, new)?;
            let host = host(call);
            let path = &call.path;
            let mut response = StatusCode::OK.into_response();
            let location = format!("http://{host}{path}?uploadType=resumable&upload_id={id}");
            set(&mut response, "location", &location);
            set(&mut response, "x-guploader-uploadid", &id);
            Ok(response)
        }
        other => Err(GcsError::invalid(format!(
            "Invalid uploadType {}: use media, multipart or resumable.",
            other.unwrap_or("(none)")
        ))),
    }
}

/// The type of the second part of a multipart body.
fn metadata_free_type(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&body[..body.len().min(64 << 10)]);
    let types = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-type")
            .then(|| value.trim().to_string())
    });
    types.take(2).nth(1)
}

/// The object that an upload makes: what the resource says goes before the query,
/// and that before the headers.
fn described(call: &Call, metadata: Map<String, Value>, mut attributes: Attributes) -> Result<New> {
    resource::change(&mut attributes, &metadata)?;
    let name = metadata
        .get("name")
        .and_then(Value::as_str)
        .or(call.param("name"))
        .ok_or_else(|| GcsError::invalid("Required: name"))?;
    Ok(New {
        name: name.to_string(),
        conditions: conditions(call)?,
        expected: resource::expected(&metadata),
        attributes,
    })
}

fn finished(
    objects: &Objects,
    call: &Call,
    bucket: &str,
    new: New,
    data: Bytes,
) -> Result<Response> {
    let meta = objects.put(bucket, new, data)?;
    Ok(ok(&resource::object(bucket, &meta, host(call))))
}

fn resume(objects: &Objects, call: &Call, id: &str) -> Result<Response> {
    match call.method {
        Method::DELETE => {
            objects.uploads.abandon(id)?;
            // As the service does: the client closed the request.
            let gone = StatusCode::from_u16(499).unwrap_or(StatusCode::NO_CONTENT);
            return Ok(gone.into_response());
        }
        Method::PUT | Method::POST => {}
        _ => return Err(unknown()),
    }
    let length = call.body.len() as u64;
    let piece = piece(call.header("content-range"), length)?;
    match objects.uploads.receive(id, piece, &call.body)? {
        Progress::Incomplete(received) => {
            let mut response = StatusCode::PERMANENT_REDIRECT.into_response();
            if received > 0 {
                set(&mut response, "range", &format!("bytes=0-{}", received - 1));
            }
            set(&mut response, "x-guploader-uploadid", id);
            Ok(response)
        }
        Progress::Complete(bucket, new, data) => {
            let meta = objects.put_upload(&bucket, *new, data, id)?;
            objects.uploads.finish(id, &meta);
            Ok(ok(&resource::object(&bucket, &meta, host(call))))
        }
        Progress::Done(bucket, meta) => Ok(ok(&resource::object(&bucket, &meta, host(call)))),
    }
}

/// Reads `bytes a-b/total`, `bytes a-b/*`, `bytes */total`, `bytes */*`.
fn piece(header: Option<&str>, length: u64) -> Result<Piece> {
    let Some(text) = header else {
        return Ok(Piece {
            start: Some(0),
            total: Some(length),
        });
    };
    let wrong = || GcsError::invalid(format!("Invalid Content-Range: {text}"));
    let spec = text.trim().strip_prefix("bytes").ok_or_else(wrong)?.trim();
    let (bytes, total) = spec.split_once('/').ok_or_else(wrong)?;
    let total = match total.trim() {
        "*" => None,
        total => Some(total.parse::<u64>().map_err(|_| wrong())?),
    };
    if bytes.trim() == "*" {
        return Ok(Piece { start: None, total });
    }
    let (first, last) = bytes.split_once('-').ok_or_else(wrong)?;
    let first = first.trim().parse::<u64>().map_err(|_| wrong())?;
    let last = last.trim().parse::<u64>().map_err(|_| wrong())?;
    if first.checked_add(length) != last.checked_add(1) {
        return Err(wrong());
    }
    Ok(Piece {
        start: Some(first),
        total,
    })
}
