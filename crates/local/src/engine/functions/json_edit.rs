//! Functions that make and change JSON documents.

use super::json::{Target, json, path, to_json};
use super::json_value::{Json, PathStyle, Step, parse_path};
use super::types::SqlType;
use super::value::{Answer, Binding, Value, fail};
use crate::error::{Result, ServiceError};

/// Puts `value` where `path` leads, making members and elements on the way.
fn set(doc: &mut Json, path: &[Step], value: Json, create: bool) {
    let Some((step, rest)) = path.split_first() else {
        *doc = value;
        return;
    };
    match (step, doc) {
        (Step::Member(name), Json::Object(members)) => {
            if let Some((_, member)) = members.iter_mut().find(|(n, _)| n == name) {
                set(member, rest, value, create);
            } else if create {
                let mut member = Json::Null;
                set(&mut member, rest, value, create);
                members.push((name.clone(), member));
            }
        }
        (Step::Element(i), Json::Array(items)) => {
            if let Some(item) = items.get_mut(*i) {
                set(item, rest, value, create);
            } else if create && *i < 1_000_000 {
                items.resize(*i, Json::Null);
                let mut item = Json::Null;
                set(&mut item, rest, value, create);
                items.push(item);
            }
        }
        (step, doc @ Json::Null) if create => {
            *doc = match step {
                Step::Member(_) => Json::Object(Vec::new()),
                Step::Element(_) => Json::Array(Vec::new()),
            };
            set(doc, path, value, create);
        }
        // A step that does not fit what is there changes nothing.
        _ => {}
    }
}

/// JSON_SET.
pub(crate) fn json_set(binding: &Binding<'_>, a: &[Value<'_>]) -> Answer {
    if a[0].is_null() {
        return Ok(Value::Null);
    }
    let mut doc = Json::stored(a[0].str()?)?;
    let mut pairs = &a[1..];
    let mut types = &binding.args[1..];
    let mut create = true;
    if pairs.len() % 2 == 1 {
        match pairs.last() {
            Some(Value::Bool(b)) => create = *b,
            _ => return Ok(Value::Null),
        }
        pairs = &pairs[..pairs.len() - 1];
        types = &types[..types.len() - 1];
    }
    for (pair, types) in pairs.chunks(2).zip(types.chunks(2)) {
        if pair[0].is_null() {
            continue;
        }
        let steps = parse_path(pair[0].str()?, PathStyle::Standard)?;
        set(
            &mut doc,
            &steps,
            to_json(&pair[1], &types[1], Target::Json)?,
            create,
        );
    }
    json(doc)
}

fn find_mut<'j>(doc: &'j mut Json, path: &[Step]) -> Option<&'j mut Json> {
    let mut here = doc;
    for step in path {
        here = match (step, here) {
            (Step::Member(name), Json::Object(members)) => {
                &mut members.iter_mut().find(|(n, _)| n == name)?.1
            }
            (Step::Element(i), Json::Array(items)) => items.get_mut(*i)?,
            _ => return None,
        };
    }
    Some(here)
}

/// JSON_REMOVE.
pub(crate) fn json_remove(a: &[Value<'_>]) -> Answer {
    let mut doc = Json::stored(a[0].str()?)?;
    for p in &a[1..] {
        let steps = parse_path(p.str()?, PathStyle::Standard)?;
        let Some((last, above)) = steps.split_last() else {
            return fail("The JSONPath of JSON_REMOVE cannot be '$'");
        };
        match (last, find_mut(&mut doc, above)) {
            (Step::Member(name), Some(Json::Object(members))) => {
                members.retain(|(n, _)| n != name);
            }
            (Step::Element(i), Some(Json::Array(items))) if *i < items.len() => {
                items.remove(*i);
            }
            _ => {}
        }
    }
    json(doc)
}

/// Where JSON_ARRAY_APPEND and JSON_ARRAY_INSERT put values.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Place {
    /// After the last element.
    Append,
    /// Before an element.
    Insert,
}

/// JSON_ARRAY_APPEND and JSON_ARRAY_INSERT.
pub(crate) fn json_array_edit(binding: &Binding<'_>, a: &[Value<'_>], place: Place) -> Answer {
    if a[0].is_null() {
        return Ok(Value::Null);
    }
    let mut doc = Json::stored(a[0].str()?)?;
    let mut pairs = &a[1..];
    let mut each = true;
    if pairs.len() % 2 == 1 {
        if let Some(Value::Bool(b)) = pairs.last() {
            each = *b;
        }
        pairs = &pairs[..pairs.len() - 1];
    }
    for (pair, types) in pairs.chunks(2).zip(binding.args[1..].chunks(2)) {
        if pair[0].is_null() {
            continue;
        }
        let steps = parse_path(pair[0].str()?, PathStyle::Standard)?;
        // An SQL array is put in element by element.
        let values = match (&pair[1], &types[1]) {
            (Value::Array(items), SqlType::Array(t)) if each => items
                .iter()
                .map(|v| to_json(v, t, Target::Json))
                .collect::<Result<Vec<_>>>()?,
            (v, t) => vec![to_json(v, t, Target::Json)?],
        };
        let (target, at) = match (place, steps.split_last()) {
            (Place::Append, _) => (find_mut(&mut doc, &steps), None),
            (Place::Insert, Some((Step::Element(i), above))) => {
                (find_mut(&mut doc, above), Some(*i))
            }
            (Place::Insert, _) => continue,
        };
        let Some(target) = target else { continue };
        if *target == Json::Null {
            *target = Json::Array(Vec::new());
        }
        if let Json::Array(items) = target {
            let at = at.unwrap_or(items.len());
            if at > items.len() && at < 1_000_000 {
                items.resize(at, Json::Null);
            }
            let at = at.min(items.len());
            items.splice(at..at, values);
        }
    }
    json(doc)
}

/// Drops members that are null; with `empty` what becomes empty by that too.
fn strip(doc: &mut Json, arrays: bool, empty: bool) {
    let gone = |j: &Json| match j {
        Json::Null => true,
        Json::Object(m) => empty && m.is_empty(),
        Json::Array(i) => empty && i.is_empty(),
        _ => false,
    };
    match doc {
        Json::Object(members) => {
            members
                .iter_mut()
                .for_each(|(_, v)| strip(v, arrays, empty));
            members.retain(|(_, v)| !gone(v));
        }
        Json::Array(items) => {
            items.iter_mut().for_each(|v| strip(v, arrays, empty));
            if arrays {
                items.retain(|v| !gone(v));
            }
        }
        _ => {}
    }
}

/// JSON_STRIP_NULLS.
pub(crate) fn json_strip_nulls(a: &[Value<'_>]) -> Answer {
    let mut doc = Json::stored(a[0].str()?)?;
    let steps = path(a, 1, PathStyle::Standard)?;
    let arrays = a.get(2).map_or(Ok(true), Value::bool)?;
    let empty = a.get(3).map_or(Ok(false), Value::bool)?;
    if let Some(part) = find_mut(&mut doc, &steps) {
        strip(part, arrays, empty);
        let bare = match part {
            Json::Object(m) => m.is_empty(),
            Json::Array(i) => i.is_empty(),
            _ => false,
        };
        if empty && bare {
            *part = Json::Null;
        }
    }
    json(doc)
}

fn keys(doc: &Json, prefix: &str, depth: i64, out: &mut Vec<String>) {
    if depth == 0 {
        return;
    }
    if let Json::Object(members) = doc {
        for (name, value) in members {
            let plain = !name.is_empty() && !name.contains(['.', '"', '[', ']', '$', ' ']);
            let shown = if plain {
                name.clone()
            } else {
                format!("\"{name}\"")
            };
            let full = if prefix.is_empty() {
                shown
            } else {
                format!("{prefix}.{shown}")
            };
            out.push(full.clone());
            keys(value, &full, depth - 1, out);
        }
    }
}

/// JSON_KEYS.
pub(crate) fn json_keys(a: &[Value<'_>]) -> Answer {
    let depth = a.get(1).map_or(Ok(i64::MAX), Value::int)?;
    if depth < 1 {
        return fail("max_depth must be positive");
    }
    if let Some(mode) = a.get(2)
        && mode.str()? != "strict"
    {
        return Err(ServiceError::unsupported("JSON_KEYS in a lax mode"));
    }
    let mut out = Vec::new();
    keys(&Json::stored(a[0].str()?)?, "", depth, &mut out);
    out.sort();
    out.dedup();
    Ok(Value::Array(out.into_iter().map(Value::text).collect()))
}

/// JSON_OBJECT.
pub(crate) fn json_object(binding: &Binding<'_>, a: &[Value<'_>]) -> Answer {
    let mut members: Vec<(String, Json)> = Vec::new();
    let mut put = |name: &Value<'_>, value: Json| {
        if name.is_null() {
            return fail("Invalid input to JSON_OBJECT: A key cannot be NULL");
        }
        let name = name.str()?.to_string();
        if members.iter().all(|(n, _)| *n != name) {
            members.push((name, value));
        }
        Ok(())
    };
    match a {
        [Value::Array(names), Value::Array(values)] => {
            if names.len() != values.len() {
                return fail(
                    "Invalid input to JSON_OBJECT: The number of keys and values must match",
                );
            }
            let t = binding.args[1].element().cloned().unwrap_or(SqlType::Null);
            for (n, v) in names.iter().zip(values) {
                put(n, to_json(v, &t, Target::Json)?)?;
            }
        }
        _ => {
            for (pair, types) in a.chunks(2).zip(binding.args.chunks(2)) {
                put(&pair[0], to_json(&pair[1], &types[1], Target::Json)?)?;
            }
        }
    }
    json(Json::Object(members))
}
