//! JSON functions.

use super::civil::Zone;
use super::decimal::{self, DecimalKind};
use super::json_edit::{
    Place, json_array_edit, json_keys, json_object, json_remove, json_set, json_strip_nulls,
};
use super::json_value::{Json, PathStyle, Step, WideNumbers, float_json, parse_path};
use super::scalar::{Definition, row, typed};
use super::signature::{Argument, Resolved, no_signature};
use super::text;
use super::types::SqlType;
use super::value::{Answer, Binding, Value, fail};
use crate::error::{Result, ServiceError};
use base64::Engine;

/// Integers that every reader of JSON holds exactly.
const SAFE_INTEGER: i64 = 1 << 53;

/// Where a value's JSON goes: a STRING quotes wide numbers, a JSON value keeps
/// them.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// TO_JSON_STRING.
    Text,
    /// A value of type JSON.
    Json,
    /// TO_JSON with stringify_wide_numbers.
    Stringified,
}

/// The JSON of any value.
pub(crate) fn to_json(value: &Value<'_>, t: &SqlType, target: Target) -> Result<Json> {
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

/// A value of type JSON.
pub(crate) fn json(value: Json) -> Answer {
    Ok(Value::text(value.normalized(WideNumbers::Round)?.to_text()))
}

/// The path argument at `i`, the whole document when it is not given.
pub(crate) fn path(a: &[Value<'_>], i: usize, style: PathStyle) -> Result<Vec<Step>> {
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
            arrays || (n.is_multiple_of(2) && pairs(0, n))
        }
        _ => {
            let flag = n.is_multiple_of(2) && is(n - 1, &SqlType::Bool);
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
            super::parse_decimal::parse_decimal(a[0].str()?, DecimalKind::Numeric)
        }),
        row("parse_bignumeric", &["STRING -> BIGNUMERIC"], |a| {
            super::parse_decimal::parse_decimal(a[0].str()?, DecimalKind::BigNumeric)
        }),
    ]
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
