//! Topics of Pub/Sub: made, published to, and read by tests. A message is kept until
//! its topic goes.

use std::collections::BTreeMap;

use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::call::{Call, unescaped};
use super::error::{GcsError, Kind, Result};
use super::json::ok;
use super::resource::time;
use crate::store::micros_now;

/// Bytes of one publish request at most, and messages.
const MAX_REQUEST_BYTES: usize = 10_000_000;
const MAX_MESSAGES: usize = 1_000;

/// Topics with their messages.
#[derive(Debug, Default)]
pub struct Topics(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    topics: BTreeMap<String, Topic>,
    messages: u64,
}

#[derive(Debug, Default)]
struct Topic {
    labels: Value,
    messages: Vec<Value>,
}

fn no_topic(name: &str) -> GcsError {
    GcsError::new(
        Kind::NoSuchTopic,
        format!(
            "Resource not found (resource={}).",
            name.rsplit('/').next().unwrap_or(name)
        ),
    )
}

fn resource(name: &str, topic: &Topic) -> Value {
    let mut out = json!({"name": name});
    if !topic.labels.is_null() {
        out["labels"] = topic.labels.clone();
    }
    out
}

/// Answers `/v1/projects/P/topics/T` and `/_local/pubsub/projects/P/topics/T/messages`.
pub(super) fn answer(topics: &Topics, call: &Call) -> Result<Response> {
    let unknown = || GcsError::new(Kind::NoSuchTopic, "There is no such method.");
    let segments: Vec<String> = call
        .path
        .trim_start_matches('/')
        .split('/')
        .map(unescaped)
        .collect::<Result<_>>()?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let mut state = topics.0.lock();
    match segments[..] {
        [
            "_local",
            "pubsub",
            "projects",
            project,
            "topics",
            topic,
            "messages",
        ] if call.method == Method::GET => {
            let name = format!("projects/{project}/topics/{topic}");
            let topic = state.topics.get(&name).ok_or_else(|| no_topic(&name))?;
            Ok(ok(&json!({"messages": topic.messages})))
        }
        ["v1", "projects", project, "topics"] if call.method == Method::GET => {
            let prefix = format!("projects/{project}/topics/");
            let all = state
                .topics
                .iter()
                .filter(|(name, _)| name.starts_with(&prefix));
            let topics: Vec<Value> = all.map(|(name, topic)| resource(name, topic)).collect();
            Ok(ok(&json!({"topics": topics})))
        }
        ["v1", "projects", project, "topics", topic] => {
            if let Some(topic) = topic.strip_suffix(":publish") {
                if call.method != Method::POST {
                    return Err(unknown());
                }
                return publish(
                    &mut state,
                    &format!("projects/{project}/topics/{topic}"),
                    call,
                );
            }
            let name = format!("projects/{project}/topics/{topic}");
            match call.method {
                Method::PUT => create(&mut state, &name, call),
                Method::GET => {
                    let topic = state.topics.get(&name).ok_or_else(|| no_topic(&name))?;
                    Ok(ok(&resource(&name, topic)))
                }
                Method::DELETE => {
                    state.topics.remove(&name).ok_or_else(|| no_topic(&name))?;
                    Ok(ok(&json!({})))
                }
                _ => Err(unknown()),
            }
        }
        _ => Err(unknown()),
    }
}

fn body(call: &Call) -> Result<Map<String, Value>> {
    if call.body.is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_slice(&call.body)
        .map_err(|e| GcsError::invalid(format!("Invalid JSON payload received: {e}")))
}

fn create(state: &mut State, name: &str, call: &Call) -> Result<Response> {
    let id = name.rsplit('/').next().unwrap_or_default();
    let legal = (3..=255).contains(&id.len())
        && id.starts_with(|c: char| c.is_ascii_alphabetic())
        && !id.starts_with("goog")
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.~+%".contains(&b));
    if !legal {
        return Err(GcsError::invalid(format!(
            "Invalid [topics] name: (name={name})"
        )));
    }
    if state.topics.contains_key(name) {
        return Err(GcsError::new(
            Kind::Conflict,
            format!("Resource already exists in the project (resource={id})."),
        ));
    }
    let mut body = body(call)?;
    let topic = Topic {
        labels: body.remove("labels").unwrap_or_default(),
        messages: Vec::new(),
    };
    let answer = ok(&resource(name, &topic));
    state.topics.insert(name.to_string(), topic);
    Ok(answer)
}

fn publish(state: &mut State, name: &str, call: &Call) -> Result<Response> {
    let topic = state.topics.get_mut(name).ok_or_else(|| no_topic(name))?;
    if call.body.len() > MAX_REQUEST_BYTES {
        return Err(GcsError::invalid(format!(
            "The request has {} bytes; at most {MAX_REQUEST_BYTES} are allowed.",
            call.body.len()
        )));
    }
    let body = body(call)?;
    let messages = body
        .get("messages")
        .and_then(Value::as_array)
        .filter(|messages| !messages.is_empty() && messages.len() <= MAX_MESSAGES)
        .ok_or_else(|| {
            GcsError::invalid(format!(
                "A publish request has 1 to {MAX_MESSAGES} messages."
            ))
        })?;
    let now = time(micros_now());
    let mut ids = Vec::new();
    let mut taken = Vec::new();
    for message in messages {
        let mut kept = checked(message)?;
        let id = (state.messages + ids.len() as u64 + 1).to_string();
        kept.insert("messageId".into(), json!(id));
        kept.insert("publishTime".into(), json!(now));
        taken.push(Value::Object(kept));
        ids.push(id);
    }
    state.messages += ids.len() as u64;
    topic.messages.append(&mut taken);
    Ok(ok(&json!({"messageIds": ids})))
}

/// A message that a topic takes: data or attributes, keys of at most 256 bytes and
/// values of at most 1,024.
fn checked(message: &Value) -> Result<Map<String, Value>> {
    let message = message
        .as_object()
        .ok_or_else(|| GcsError::invalid("A message is an object."))?;
    let data = match message.get("data") {
        None | Some(Value::Null) => "",
        Some(Value::String(data)) => data,
        Some(_) => return Err(GcsError::invalid("data is base64 text.")),
    };
    BASE64_STANDARD
        .decode(data)
        .map_err(|e| GcsError::invalid(format!("Invalid value at data: {e}")))?;
    let attributes = match message.get("attributes") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(attributes)) => attributes.clone(),
        Some(_) => return Err(GcsError::invalid("attributes is an object of strings.")),
    };
    for (key, value) in &attributes {
        let fits = value.as_str().is_some_and(|value| value.len() <= 1024);
        if key.is_empty() || key.len() > 256 || !fits {
            return Err(GcsError::invalid(format!(
                "The attribute {key} must have a key of 1 to 256 bytes and a string of at most 1024 bytes."
            )));
        }
    }
    if attributes.len() > 100 || (data.is_empty() && attributes.is_empty()) {
        return Err(GcsError::invalid(
            "A message has data or attributes, and at most 100 attributes.",
        ));
    }
    Ok(message.clone())
}
