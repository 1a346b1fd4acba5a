//! The XML API, with bucket and object in the path.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use regex::Regex;

use super::call::{Call, unescaped};
use super::error::{GcsError, Kind, Result};
use super::json::{content, describe, http_date, set};
use super::listing::Query;
use super::object::{Attributes, BucketMeta, Conditions, Expected, ObjectMeta};
use super::objects::{New, Objects};
use super::resource::time;

const PAGE: usize = 1_000;

/// Text inside of an element.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // XML 1.0 has no way to write the others below a space.
            c if c < ' ' && !matches!(c, '\t' | '\n' | '\r') => {
                out.push_str(&format!("&#x{:x};", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

fn unquoted(text: &str) -> String {
    text.replace("&quot;", "\"")
        .replace("&#34;", "\"")
        .replace("&apos;", "'")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

fn xml(body: &str) -> Response {
    let head = "<?xml version='1.0' encoding='UTF-8'?>";
    let kind = "application/xml; charset=UTF-8";
    ([(CONTENT_TYPE, kind)], format!("{head}{body}")).into_response()
}

/// Answers a request of the XML API.
pub(super) fn answer(objects: &Objects, call: &Call) -> Result<Response> {
    let path = call.path.trim_start_matches('/');
    let (bucket, object) = path.split_once('/').unwrap_or((path, ""));
    let (bucket, object) = (unescaped(bucket)?, unescaped(object)?);
    if bucket.is_empty() {
        return Err(GcsError::unsupported("Listing buckets by the XML API"));
    }
    if object.is_empty() {
        return bucket_call(objects, call, &bucket);
    }
    match (&call.method, call.param("uploadId"), call.param("uploads")) {
        (&Method::POST, None, Some(_)) => {
            objects.bucket(&bucket)?;
            let id = objects
                .uploads
                .begin_parts(&bucket, &object, attributes(call))?;
            Ok(xml(&format!(
                "<InitiateMultipartUploadResult><Bucket>{}</Bucket><Key>{}</Key><UploadId>{id}</UploadId></InitiateMultipartUploadResult>",
                escaped(&bucket),
                escaped(&object)
            )))
        }
        (&Method::PUT, Some(id), _) => {
            let number = call
                .number("partNumber")?
                .ok_or_else(|| GcsError::invalid("partNumber is missing."))?;
            let data = call.body.clone();
            let etag = objects
                .uploads
                .put_part(&bucket, &object, id, number, data)?;
            let mut response = StatusCode::OK.into_response();
            set(&mut response, "etag", &etag);
            Ok(response)
        }
        (&Method::POST, Some(id), _) => complete(objects, call, &bucket, &object, id),
        (&Method::DELETE, Some(id), _) => {
            objects.uploads.end_parts(&bucket, &object, id)?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        (_, Some(_), _) => Err(GcsError::unsupported("Listing the parts of an upload")),
        (method, None, _) => match *method {
            Method::GET | Method::HEAD => get(objects, call, &bucket, &object),
            Method::PUT => put(objects, call, &bucket, &object),
            Method::DELETE => {
                let generation = call.number("generation")?;
                objects.delete(&bucket, &object, generation, &conditions(call)?)?;
                Ok(StatusCode::NO_CONTENT.into_response())
            }
            _ => Err(GcsError::unsupported("This method of the XML API")),
        },
    }
}

fn conditions(call: &Call) -> Result<Conditions> {
    Ok(Conditions {
        generation: call.header_number("x-goog-if-generation-match")?,
        metageneration: call.header_number("x-goog-if-metageneration-match")?,
        ..Conditions::default()
    })
}

fn attributes(call: &Call) -> Attributes {
    let text = |name: &str| call.header(name).map(String::from);
    let metadata = call.headers.iter().filter_map(|(name, value)| {
        let key = name.as_str().strip_prefix("x-goog-meta-")?;
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        Some((key.to_string(), value))
    });
    Attributes {
        content_type: text("content-type"),
        content_encoding: text("content-encoding"),
        content_disposition: text("content-disposition"),
        content_language: text("content-language"),
        cache_control: text("cache-control"),
        storage_class: text("x-goog-storage-class"),
        custom_time: text("x-goog-custom-time"),
        metadata: metadata.collect(),
    }
}

fn expected(call: &Call) -> Expected {
    let mut expected = Expected {
        md5: call.header("content-md5").map(String::from),
        crc32c: None,
    };
    for hash in call.headers.get_all("x-goog-hash") {
        for part in hash.to_str().unwrap_or_default().split(',') {
            match part.trim().split_once('=') {
                Some(("crc32c", value)) => expected.crc32c = Some(value.to_string()),
                Some(("md5", value)) => expected.md5 = Some(value.to_string()),
                _ => {}
            }
        }
    }
    expected
}

fn bucket_call(objects: &Objects, call: &Call, bucket: &str) -> Result<Response> {
    match call.method {
        Method::GET => list(objects, call, bucket),
        Method::HEAD => {
            objects.bucket(bucket)?;
            Ok(StatusCode::OK.into_response())
        }
        Method::PUT => {
            objects.create_bucket(BucketMeta {
                name: bucket.to_string(),
                location: "US".into(),
                storage_class: "STANDARD".into(),
                labels: std::collections::BTreeMap::new(),
                created: 0,
                updated: 0,
                metageneration: 1,
            })?;
            Ok(StatusCode::OK.into_response())
        }
        Method::DELETE => {
            objects.delete_bucket(bucket)?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        _ => Err(GcsError::unsupported("This method of the XML API")),
    }
}

fn list(objects: &Objects, call: &Call, bucket: &str) -> Result<Response> {
    if call
        .param("list-type")
        .is_some_and(|version| version != "2")
    {
        return Err(GcsError::unsupported("This version of listing objects"));
    }
    let text = |name: &str| call.param(name).filter(|v| !v.is_empty()).map(String::from);
    let limit = call.number("max-keys")?.unwrap_or(PAGE).clamp(1, PAGE);
    let query = Query {
        prefix: text("prefix").unwrap_or_default(),
        delimiter: text("delimiter").unwrap_or_default(),
        after: text("continuation-token").or_else(|| text("start-after").or(text("marker"))),
        start: None,
        end: None,
        limit,
    };
    let page = objects.list(bucket, &query)?;
    let mut out = format!(
        "<ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'><Name>{}</Name><Prefix>{}</Prefix><KeyCount>{}</KeyCount><MaxKeys>{limit}</MaxKeys><IsTruncated>{}</IsTruncated>",
        escaped(bucket),
        escaped(&query.prefix),
        page.objects.len() + page.prefixes.len(),
        page.next.is_some()
    );
    if let Some(next) = &page.next {
        let next = escaped(next);
        out.push_str(&format!(
            "<NextContinuationToken>{next}</NextContinuationToken>"
        ));
    }
    for object in &page.objects {
        let meta = &object.meta;
        out.push_str(&format!(
            "<Contents><Key>{}</Key><Generation>{}</Generation><MetaGeneration>{}</MetaGeneration><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size></Contents>",
            escaped(&meta.name),
            meta.generation,
            meta.metageneration,
            time(meta.updated),
            escaped(&meta.etag()),
            meta.size
        ));
    }
    for prefix in &page.prefixes {
        let prefix = escaped(prefix);
        out.push_str(&format!(
            "<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes>"
        ));
    }
    out.push_str("</ListBucketResult>");
    Ok(xml(&out))
}

fn get(objects: &Objects, call: &Call, bucket: &str, name: &str) -> Result<Response> {
    let object = objects.object(bucket, name, call.number("generation")?)?;
    conditions(call)?.check(Some(&object.meta))?;
    check_validators(call, &object.meta)?;
    content(&object, call)
}

/// `If-Match` and its kin, as HTTP orders them.
fn check_validators(call: &Call, meta: &ObjectMeta) -> Result<()> {
    let names = |list: &str| {
        list.split(',')
            .map(str::trim)
            .any(|tag| tag == "*" || tag.trim_matches('"') == meta.etag().trim_matches('"'))
    };
    let seconds = |name: &str| {
        let text = call.header(name)?;
        let at = chrono::NaiveDateTime::parse_from_str(text, "%a, %d %b %Y %H:%M:%S GMT").ok()?;
        Some(at.and_utc().timestamp())
    };
    let modified = meta.updated.div_euclid(1_000_000);
    let failed = || {
        Err(GcsError::new(
            Kind::Precondition,
            "At least one of the pre-conditions you specified did not hold.",
        ))
    };
    match (call.header("if-match"), seconds("if-unmodified-since")) {
        (Some(tags), _) if !names(tags) => return failed(),
        (None, Some(since)) if modified > since => return failed(),
        _ => {}
    }
    let unchanged = match (call.header("if-none-match"), seconds("if-modified-since")) {
        (Some(tags), _) => names(tags),
        (None, Some(since)) => modified <= since,
        (None, None) => false,
    };
    if unchanged {
        return Err(GcsError::new(Kind::NotModified, "Not modified."));
    }
    Ok(())
}

fn put(objects: &Objects, call: &Call, bucket: &str, name: &str) -> Result<Response> {
    let conditions = conditions(call)?;
    let Some(source) = call.header("x-goog-copy-source") else {
        let new = New {
            name: name.to_string(),
            attributes: attributes(call),
            conditions,
            expected: expected(call),
        };
        let meta = objects.put(bucket, new, call.body.clone())?;
        let mut response = StatusCode::OK.into_response();
        describe(&mut response, &meta);
        response.headers_mut().remove(CONTENT_TYPE);
        return Ok(response);
    };
    let source = source.trim_start_matches('/');
    let (from, object) = source
        .split_once('/')
        .ok_or_else(|| GcsError::invalid("x-goog-copy-source must be bucket/object."))?;
    let generation = call.header_number("x-goog-copy-source-generation")?;
    let object = objects.object(&unescaped(from)?, &unescaped(object)?, generation)?;
    let given = Conditions {
        generation: call.header_number("x-goog-copy-source-if-generation-match")?,
        metageneration: call.header_number("x-goog-copy-source-if-metageneration-match")?,
        ..Conditions::default()
    };
    given.check(Some(&object.meta))?;
    let replaces = call
        .header("x-goog-metadata-directive")
        .is_some_and(|directive| directive.eq_ignore_ascii_case("REPLACE"));
    let new = New {
        name: name.to_string(),
        attributes: if replaces {
            attributes(call)
        } else {
            object.meta.attributes.clone()
        },
        conditions,
        expected: Expected::default(),
    };
    let meta = objects.put(bucket, new, object.content.read()?)?;
    let mut response = xml(&format!(
        "<CopyObjectResult><LastModified>{}</LastModified><ETag>{}</ETag></CopyObjectResult>",
        time(meta.updated),
        escaped(&meta.etag())
    ));
    set(
        &mut response,
        "x-goog-generation",
        &meta.generation.to_string(),
    );
    set(&mut response, "etag", &meta.etag());
    Ok(response)
}

static PART: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)<Part>(.*?)</Part>").expect("the pattern is valid"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"<PartNumber>\s*(\d{1,9})\s*</PartNumber>").expect("the pattern is valid")
});
static ETAG: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)<ETag>(.*?)</ETag>").expect("the pattern is valid"));

fn complete(
    objects: &Objects,
    call: &Call,
    bucket: &str,
    name: &str,
    id: &str,
) -> Result<Response> {
    let malformed = || GcsError::invalid("The XML of the parts cannot be read.");
    let body = std::str::from_utf8(&call.body).map_err(|_| malformed())?;
    let mut parts = Vec::new();
    for part in PART.captures_iter(body) {
        let number = NUMBER.captures(&part[1]).and_then(|c| c[1].parse().ok());
        let etag = ETAG.captures(&part[1]).map(|c| unquoted(c[1].trim()));
        parts.push((number.ok_or_else(malformed)?, etag.ok_or_else(malformed)?));
    }
    let (attributes, data) = objects.uploads.complete(bucket, name, id, &parts)?;
    let new = New {
        name: name.to_string(),
        attributes,
        conditions: conditions(call)?,
        expected: Expected::default(),
    };
    let meta = objects.put_upload(bucket, new, data, id)?;
    // The object is there: the upload is over, whatever becomes of the answer.
    objects.uploads.end_parts(bucket, name, id)?;
    let mut response = xml(&format!(
        "<CompleteMultipartUploadResult><Bucket>{}</Bucket><Key>{}</Key><ETag>{}</ETag></CompleteMultipartUploadResult>",
        escaped(bucket),
        escaped(name),
        escaped(&meta.etag())
    ));
    set(
        &mut response,
        "x-goog-generation",
        &meta.generation.to_string(),
    );
    set(&mut response, "last-modified", &http_date(meta.updated));
    Ok(response)
}
