//! JSON functions.

use super::civil::Zone;
use super::decimal::{self, DecimalKind};
use super::json_value::{Json, PathStyle, Step, WideNumbers, float_json, parse_path};
use super::scalar::{Definition, row, typed};
use super::signature::{Argument, Resolved, no_signature};
use super::text;
use super::types::SqlType;
use super::value::{Answer, Binding, Value, fail};
use crate::error::{Result, ServiceError};
use base64::Engine;
use num_bigint::BigInt;

/// Integers that every reader of JSON holds exactly.
const SAFE_INTEGER: i64 = 1 << 53;

/// Where a value's JSON goes: a STRING quotes wide numbers, a JSON value keeps
/// them.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    Text,
    Json,
    /// TO_JSON with stringify_wide_numbers.
    Stringified,
}

/// The JSON of any value.
fn to_json(value: &Value<'_>, t: &SqlType, target: Target) -> Result<Json> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int64(v) => {
            if target != Target::Json && v.unsigned_abs() > SAFE_INTEGER.unsigned_abs() {
                Json::String(v.to_string())
            } else {
                Json::Number(v.to_string())
            }
        }
        Value::Float64(v) if v.is_nan() => Json::String("NaN".into()),
        Value::Float64(v) if v.is_infinite() => {
            Json::String(if *v > 0.0 { "Infinity" } else { "-Infinity" }.into())
        }
        Value::Float64(v) => Json::Number(match target {
            Target::Text => text::float_text(if *v == 0.0 { 0.0 } else { *v }),
            _ => float_json(*v),
        }),
        Value::Numeric(_) | Value::BigNumeric(_) => {
            let text = decimal::value_text(value).unwrap_or_default();
            let integer = text
                .parse::<i64>()
                .is_ok_and(|v| v.unsigned_abs() <= SAFE_INTEGER.unsigned_abs());
            match target {
                Target::Text | Target::Stringified if integer => Json::Number(text),
                Target::Text | Target::Stringified => Json::String(text),
                Target::Json if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() => {
                    Json::Number(text)
                }
                Target::Json => {
                    let kind = match value {
                        Value::Numeric(_) => DecimalKind::Numeric,
                        _ => DecimalKind::BigNumeric,
                    };
                    Json::Number(float_json(decimal::to_float(
                        &kind.units(value)?,
                        kind.scale(),
                    )))
                }
            }
        }
        Value::String(s) if *t == SqlType::Json => Json::stored(s)?,
        Value::String(s) => Json::String(s.to_string()),
        Value::Bytes(b) => Json::String(base64::engine::general_purpose::STANDARD.encode(b)),
        Value::Date(d) => Json::String(text::date_text(*d)),
        Value::Time(v) => Json::String(text::time_text(*v)),
        Value::Datetime(v) => Json::String(text::datetime_text(*v, 'T')),
        Value::Timestamp(v) => Json::String(text::timestamp_json(*v)),
        Value::Interval(v) => Json::String(text::interval_text(*v)),
        Value::Array(items) => {
            let element = t.element().cloned().unwrap_or(SqlType::Null);
            Json::Array(
                items
                    .iter()
                    .map(|v| to_json(v, &element, target))
                    .collect::<Result<_>>()?,
            )
        }
        Value::Struct(values) => match t {
            SqlType::Range(_) => Json::String(super::cast::value_to_string(value, t, Zone::UTC)?),
            SqlType::Struct(fields) => Json::Object(
                values
                    .iter()
                    .zip(fields)
                    .map(|(v, (name, t))| Ok((name.clone(), to_json(v, t, target)?)))
                    .collect::<Result<_>>()?,
            ),
            _ => return Err(ServiceError::internal("a struct value has a struct type")),
        },
    })
}

fn json(value: Json) -> Answer {
    Ok(Value::text(value.normalized(WideNumbers::Round)?.to_text()))
}

fn path(a: &[Value<'_>], i: usize, style: PathStyle) -> Result<Vec<Step>> {
    match a.get(i) {
        Some(p) => parse_path(p.str()?, style),
        None => Ok(Vec::new()),
    }
}

/// The document of the first argument; text that is not JSON has none.
fn document(value: &Value<'_>) -> Result<Option<Json>> {
    Ok(Json::parse(value.str()?))
}

fn query(binding: &Binding<'_>, a: &[Value<'_>], style: PathStyle) -> Answer {
    let path = path(a, 1, style)?;
    let Some(doc) = document(&a[0])? else {
        return Ok(Value::Null);
    };
    Ok(match doc.at(&path) {
        // JSON's null in text is SQL's NULL.
        Some(Json::Null) if *binding.ret == SqlType::String => Value::Null,
        Some(found) => Value::text(found.to_text()),
        None => Value::Null,
    })
}

fn scalar(a: &[Value<'_>], style: PathStyle) -> Answer {
    let path = path(a, 1, style)?;
    let found = document(&a[0])?.and_then(|d| d.at(&path).and_then(Json::scalar_text));
    Ok(found.map_or(Value::Null, Value::text))
}

fn query_array(a: &[Value<'_>], style: PathStyle) -> Answer {
    let path = path(a, 1, style)?;
    Ok(match document(&a[0])?.as_ref().and_then(|d| d.at(&path)) {
        Some(Json::Array(items)) => {
            Value::Array(items.iter().map(|i| Value::text(i.to_text())).collect())
        }
        _ => Value::Null,
    })
}

fn scalar_array(a: &[Value<'_>], style: PathStyle) -> Answer {
    let path = path(a, 1, style)?;
    let doc = document(&a[0])?;
    let Some(Json::Array(items)) = doc.as_ref().and_then(|d| d.at(&path)) else {
        return Ok(Value::Null);
    };
    if items
        .iter()
        .any(|i| matches!(i, Json::Array(_) | Json::Object(_)))
    {
        return Ok(Value::Null);
    }
    Ok(Value::Array(
        items
            .iter()
            .map(|i| i.scalar_text().map_or(Value::Null, Value::text))
            .collect(),
    ))
}

fn parse_json(a: &[Value<'_>]) -> Answer {
    let wide = match a.get(1).map(Value::str).transpose()? {
        None | Some("exact") => WideNumbers::Exact,
        Some("round") => WideNumbers::Round,
        Some(other) => return fail(format!("Invalid wide_number_mode: {other}")),
    };
    let input = a[0].str()?;
    match Json::parse(input) {
        Some(doc) => match doc.normalized(wide) {
            Ok(doc) => Ok(Value::text(doc.to_text())),
            Err(e) => fail(format!("Invalid input to PARSE_JSON: {}", e.message)),
        },
        None => fail(format!(
            "Invalid input to PARSE_JSON: syntax error while parsing value in '{input}'"
        )),
    }
}

fn type_name(doc: &Json) -> &'static str {
    match doc {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

/// INT64(json) and its kin: the document must be of the type.
fn extract(binding: &Binding<'_>, a: &[Value<'_>]) -> Answer {
    let doc = Json::stored(a[0].str()?)?;
    let wrong = |t: &str| {
        fail(format!(
            "The provided JSON input is not {t}: its type is {}",
            type_name(&doc)
        ))
    };
    match (binding.ret, &doc) {
        (SqlType::Bool, Json::Bool(b)) => Ok(Value::Bool(*b)),
        (SqlType::Bool, _) => wrong("a boolean"),
        (SqlType::String, Json::String(s)) => Ok(Value::text(s.clone())),
        (SqlType::String, _) => wrong("a string"),
        (SqlType::Float64, Json::Number(n)) => Ok(Value::Float64(n.parse().unwrap_or(f64::NAN))),
        (SqlType::Float64, _) => wrong("a number"),
        (_, Json::Number(n)) => match whole(n) {
            Some(v) => Ok(Value::Int64(v)),
            None => fail(format!(
                "The provided JSON number: {n} cannot be converted to an int64"
            )),
        },
        _ => wrong("an integer"),
    }
}

/// An integer that a number stands for exactly.
fn whole(n: &str) -> Option<i64> {
    if let Ok(v) = n.parse() {
        return Some(v);
    }
    let v: f64 = n.parse().ok()?;
    (v.fract() == 0.0 && v.abs() < 9_223_372_036_854_775_808.0).then_some(v as i64)
}

/// LAX_INT64 and its kin: NULL where nothing fits.
fn lax(binding: &Binding<'_>, a: &[Value<'_>]) -> Answer {
    let doc = Json::stored(a[0].str()?)?;
    let number = |s: &str| text::parse_float(s);
    let rounded = |v: f64| {
        let v = v.round();
        (v.abs() < 9_223_372_036_854_775_808.0).then_some(v as i64)
    };
    Ok(match binding.ret {
        SqlType::Bool => match &doc {
            Json::Bool(b) => Some(Value::Bool(*b)),
            Json::Number(n) => number(n).map(|v| Value::Bool(v != 0.0)),
            Json::String(s) if s.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
            Json::String(s) if s.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
            _ => None,
        },
        SqlType::Int64 => match &doc {
            Json::Bool(b) => Some(i64::from(*b)),
            Json::Number(n) => n.parse().ok().or_else(|| number(n).and_then(rounded)),
            Json::String(s) => text::parse_int(s)
                .filter(|_| !s.to_ascii_lowercase().contains("0x"))
                .or_else(|| number(s).and_then(rounded)),
            _ => None,
        }
        .map(Value::Int64),
        SqlType::Float64 => match &doc {
            Json::Number(n) | Json::String(n) => number(n).map(Value::Float64),
            _ => None,
        },
        _ => doc.scalar_text().map(Value::text),
    }
    .unwrap_or(Value::Null))
}

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

fn json_set(binding: &Binding<'_>, a: &[Value<'_>]) -> Answer {
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

fn json_remove(a: &[Value<'_>]) -> Answer {
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

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Append,
    Insert,
}

fn json_array_edit(binding: &Binding<'_>, a: &[Value<'_>], place: Place) -> Answer {
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

fn json_strip_nulls(a: &[Value<'_>]) -> Answer {
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

fn json_keys(a: &[Value<'_>]) -> Answer {
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

fn json_object(binding: &Binding<'_>, a: &[Value<'_>]) -> Answer {
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

/// The signature of functions that take a document, then paths, each with any
/// value.
fn any_values(name: &str, args: &[Argument]) -> Result<Resolved> {
    let types: Vec<SqlType> = args
        .iter()
        .map(|a| match &a.sql_type {
            SqlType::Null => SqlType::Int64,
            t => t.clone(),
        })
        .collect();
    let is = |i: usize, t: &SqlType| {
        args.get(i)
            .is_some_and(|a| a.sql_type == *t || a.sql_type == SqlType::Null)
    };
    let mut types = types;
    let pairs = |from: usize, to: usize| (from..to).step_by(2).all(|i| is(i, &SqlType::String));
    let n = args.len();
    let ok = match name {
        "json_array" => true,
        "to_json" | "to_json_string" => n == 1 || (n == 2 && is(1, &SqlType::Bool)),
        "json_object" => {
            let arrays = n == 2
                && matches!(&args[0].sql_type, SqlType::Array(t) if **t == SqlType::String)
                && matches!(args[1].sql_type, SqlType::Array(_));
            arrays || (n % 2 == 0 && pairs(0, n))
        }
        _ => {
            let flag = n % 2 == 0 && is(n - 1, &SqlType::Bool);
            n >= 3
                && is(0, &SqlType::Json)
                && (n % 2 == 1 || flag)
                && pairs(1, n - usize::from(flag))
        }
    };
    if !ok {
        return no_signature(name, args, &[]);
    }
    for (i, a) in args.iter().enumerate() {
        if a.sql_type == SqlType::Null {
            let wanted = match name {
                "json_array" | "to_json" | "to_json_string" => SqlType::Int64,
                "json_object" if i % 2 == 0 => SqlType::String,
                "json_object" => SqlType::Int64,
                _ if i == 0 => SqlType::Json,
                _ if i % 2 == 1 => SqlType::String,
                _ => SqlType::Int64,
            };
            types[i] = wanted;
        }
    }
    Ok(Resolved {
        args: types,
        ret: if name == "to_json_string" {
            SqlType::String
        } else {
            SqlType::Json
        },
    })
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    let queries: &[&'static str] = &["STRING, STRING? -> STRING", "JSON, STRING? -> JSON"];
    let scalars: &[&'static str] = &["STRING, STRING? -> STRING", "JSON, STRING? -> STRING"];
    let arrays: &[&'static str] = &[
        "STRING, STRING? -> ARRAY<STRING>",
        "JSON, STRING? -> ARRAY<JSON>",
    ];
    let texts: &[&'static str] = &[
        "STRING, STRING? -> ARRAY<STRING>",
        "JSON, STRING? -> ARRAY<STRING>",
    ];
    vec![
        typed("json_query", queries, |b, a| {
            query(b, a, PathStyle::Standard)
        }),
        typed("json_extract", queries, |b, a| {
            query(b, a, PathStyle::Legacy)
        }),
        row("json_value", scalars, |a| scalar(a, PathStyle::Standard)),
        row("json_extract_scalar", scalars, |a| {
            scalar(a, PathStyle::Legacy)
        }),
        row("json_query_array", arrays, |a| {
            query_array(a, PathStyle::Standard)
        }),
        row("json_extract_array", arrays, |a| {
            query_array(a, PathStyle::Legacy)
        }),
        row("json_value_array", texts, |a| {
            scalar_array(a, PathStyle::Standard)
        }),
        row("json_extract_string_array", texts, |a| {
            scalar_array(a, PathStyle::Legacy)
        }),
        row("parse_json", &["STRING, STRING? -> JSON"], parse_json),
        typed("to_json", &[], |b, a| {
            let wide = match a.get(1) {
                Some(Value::Bool(true)) => Target::Stringified,
                _ => Target::Json,
            };
            json(to_json(&a[0], &b.args[0], wide)?)
        })
        .resolved_by(any_values)
        .seeing_nulls(),
        typed("to_json_string", &[], |b, a| {
            let doc = to_json(&a[0], &b.args[0], Target::Text)?;
            Ok(match a.get(1) {
                Some(Value::Null) => Value::Null,
                Some(Value::Bool(true)) => Value::text(doc.to_pretty_text()),
                _ => Value::text(doc.to_text()),
            })
        })
        .resolved_by(any_values)
        .seeing_nulls(),
        row("json_type", &["JSON -> STRING"], |a| {
            Ok(Value::text(type_name(&Json::stored(a[0].str()?)?)))
        }),
        typed("bool", &["JSON -> BOOL"], extract),
        typed("int64", &["JSON -> INT64"], extract),
        typed("float64", &["JSON, STRING? -> FLOAT64"], extract),
        typed("double", &["JSON, STRING? -> FLOAT64"], extract),
        typed(
            "string",
            &[
                "JSON -> STRING",
                "TIMESTAMP, STRING? -> STRING",
                "DATE -> STRING",
                "DATETIME -> STRING",
                "TIME -> STRING",
            ],
            |b, a| match &b.args[0] {
                SqlType::Json => extract(b, a),
                t => {
                    let zone = match a.get(1) {
                        Some(z) => Zone::parse(z.str()?)?,
                        None => Zone::UTC,
                    };
                    super::cast::value_to_string(&a[0], t, zone).map(Value::text)
                }
            },
        ),
        typed("lax_bool", &["JSON -> BOOL"], lax),
        typed("lax_int64", &["JSON -> INT64"], lax),
        typed("lax_float64", &["JSON -> FLOAT64"], lax),
        typed("lax_double", &["JSON -> FLOAT64"], lax),
        typed("lax_string", &["JSON -> STRING"], lax),
        typed("json_set", &[], json_set)
            .resolved_by(any_values)
            .seeing_nulls(),
        row("json_remove", &["JSON, STRING... -> JSON"], json_remove),
        typed("json_array_append", &[], |b, a| {
            json_array_edit(b, a, Place::Append)
        })
        .resolved_by(any_values)
        .seeing_nulls(),
        typed("json_array_insert", &[], |b, a| {
            json_array_edit(b, a, Place::Insert)
        })
        .resolved_by(any_values)
        .seeing_nulls(),
        row(
            "json_strip_nulls",
            &["JSON, STRING?, BOOL?, BOOL? -> JSON"],
            json_strip_nulls,
        ),
        row(
            "json_keys",
            &["JSON, INT64?, STRING? -> ARRAY<STRING>"],
            json_keys,
        ),
        typed("json_array", &[], |b, a| {
            let items = a
                .iter()
                .zip(b.args)
                .map(|(v, t)| to_json(v, t, Target::Json))
                .collect::<Result<_>>()?;
            json(Json::Array(items))
        })
        .resolved_by(any_values)
        .seeing_nulls(),
        typed("json_object", &[], json_object)
            .resolved_by(any_values)
            .seeing_nulls(),
        row("parse_numeric", &["STRING -> NUMERIC"], |a| {
            parse_decimal(a[0].str()?, DecimalKind::Numeric)
        }),
        row("parse_bignumeric", &["STRING -> BIGNUMERIC"], |a| {
            parse_decimal(a[0].str()?, DecimalKind::BigNumeric)
        }),
    ]
}

/// PARSE_NUMERIC reads more than CAST: groups of digits, and a sign after spaces
/// or behind the number.
fn parse_decimal(input: &str, kind: DecimalKind) -> Answer {
    let compact: String = input.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let (body, trailing_minus) = match compact.strip_suffix('-') {
        Some(body) => (body, true),
        None => (compact.strip_suffix('+').unwrap_or(&compact), false),
    };
    let signed_twice = body.len() < compact.len() && body.starts_with(['+', '-']);
    let spaced_digits = input
        .trim()
        .trim_start_matches(['+', '-'])
        .trim()
        .trim_end_matches(['+', '-'])
        .trim()
        .contains(|c: char| c.is_ascii_whitespace());
    let whole = body.split('.').next().unwrap_or_default();
    let comma_after_point = body.split_once('.').is_some_and(|(_, f)| f.contains(','));
    let digits: String = body.chars().filter(|c| *c != ',').collect();
    let parsed: Option<BigInt> =
        if signed_twice || spaced_digits || comma_after_point || whole.starts_with(',') {
            None
        } else {
            decimal::parse(&digits, kind.scale())
        };
    match parsed
        .map(|u| if trailing_minus { -u } else { u })
        .and_then(|u| kind.value(&u))
    {
        Some(v) => Ok(v),
        None => fail(format!(
            "Invalid input to PARSE_{}: \"{input}\"",
            kind.sql_name()
        )),
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
