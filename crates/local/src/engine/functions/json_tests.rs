use super::*;

fn s(v: &str) -> Value<'static> {
    Value::text(v)
}

fn call(name: &str, types: &[SqlType], args: &[Value<'static>]) -> String {
    let definition = definitions().into_iter().find(|d| d.name == name).unwrap();
    let given: Vec<_> = types
        .iter()
        .map(|t| Argument::expression(t.clone()))
        .collect();
    let resolved = definition.resolve(&given).unwrap();
    match definition.run(&resolved, args) {
        Ok(Value::Null) => "NULL".into(),
        Ok(Value::String(s)) => s.into_owned(),
        Ok(Value::Array(items)) => format!(
            "{:?}",
            items
                .iter()
                .map(|v| v.str().unwrap_or("NULL").to_string())
                .collect::<Vec<_>>()
        ),
        Ok(other) => format!("{other:?}"),
        Err(e) => e.message,
    }
}

const S: SqlType = SqlType::String;
const J: SqlType = SqlType::Json;
const I: SqlType = SqlType::Int64;

#[test]
fn text_is_queried_by_path() {
    let q = |f: &str, doc: &str, path: &str| call(f, &[S, S], &[s(doc), s(path)]);
    assert_eq!(q("json_query", r#"{"a": {"b": [1, 2]}}"#, "$.a.b"), "[1,2]");
    assert_eq!(q("json_query", r#"{"a": null}"#, "$.a"), "NULL");
    assert_eq!(q("json_value", r#"{"a": {"b": 42}}"#, "$.a.b"), "42");
    assert_eq!(q("json_value", r#"{"a": {"b": 1}}"#, "$.a"), "NULL");
    assert_eq!(q("json_value", "not json", "$.a"), "NULL");
    assert_eq!(
        q("json_extract_array", r#"{"a": ["x", 2]}"#, "$.a"),
        r#"["\"x\"", "2"]"#
    );
    assert_eq!(
        q("json_value_array", r#"{"a": ["x", 2, null]}"#, "$.a"),
        r#"["x", "2", "NULL"]"#
    );
    assert_eq!(q("json_value_array", r#"{"a": ["x", {}]}"#, "$.a"), "NULL");
    assert_eq!(
        call("json_query", &[J, S], &[s(r#"{"a":null}"#), s("$.a")]),
        "null"
    );
}

#[test]
fn values_become_json() {
    let t = |types: &[SqlType], v: Value<'static>| call("to_json_string", types, &[v]);
    let record = SqlType::Struct(vec![
        ("s".into(), SqlType::Float64),
        ("n".into(), SqlType::Numeric),
        ("i".into(), I),
        ("t".into(), SqlType::Timestamp),
    ]);
    let value = Value::Struct(vec![
        Value::Float64(778.0),
        Value::Numeric(1_500_000_000),
        Value::Int64(9_007_199_254_740_993),
        Value::Timestamp(1_709_528_767_500_000),
    ]);
    assert_eq!(
        t(&[record], value),
        r#"{"s":778,"n":"1.5","i":"9007199254740993","t":"2024-03-04T05:06:07.500Z"}"#
    );
    assert_eq!(t(&[SqlType::Numeric], Value::Numeric(2_000_000_000)), "2");
    assert_eq!(t(&[SqlType::Float64], Value::Float64(f64::NAN)), "\"NaN\"");
    assert_eq!(t(&[I], Value::Null), "null");
    assert_eq!(t(&[J], s(r#"{"a":1}"#)), r#"{"a":1}"#);
    assert_eq!(
        call("to_json", &[SqlType::Float64], &[Value::Float64(3.0)]),
        "3.0"
    );
}

#[test]
fn documents_are_edited() {
    let doc = s(r#"{"a":1}"#);
    assert_eq!(
        call(
            "json_set",
            &[J, S, I],
            &[doc.clone(), s("$.b.c"), Value::Int64(2)]
        ),
        r#"{"a":1,"b":{"c":2}}"#
    );
    assert_eq!(
        call(
            "json_set",
            &[J, S, I, SqlType::Bool],
            &[doc, s("$.b"), Value::Int64(2), Value::Bool(false)]
        ),
        r#"{"a":1}"#
    );
    assert_eq!(
        call(
            "json_array_insert",
            &[J, S, I],
            &[s(r#"{"a":[1,2,3]}"#), s("$.a[1]"), Value::Int64(99)]
        ),
        r#"{"a":[1,99,2,3]}"#
    );
    assert_eq!(
        call("json_remove", &[J, S], &[s(r#"{"a":1,"b":2}"#), s("$.a")]),
        r#"{"b":2}"#
    );
    assert_eq!(
        call(
            "json_strip_nulls",
            &[J],
            &[s(r#"{"a":1,"b":null,"c":[null,2]}"#)]
        ),
        r#"{"a":1,"c":[2]}"#
    );
    assert_eq!(
        call("json_keys", &[J], &[s(r#"{"a":{"b":1},"c":2}"#)]),
        r#"["a", "a.b", "c"]"#
    );
}

#[test]
fn documents_become_values() {
    assert_eq!(call("int64", &[J], &[s("42")]), "Int64(42)");
    assert_eq!(call("int64", &[J], &[s("10.0")]), "Int64(10)");
    assert!(call("int64", &[J], &[s("\"1\"")]).contains("not an integer"));
    assert_eq!(call("lax_int64", &[J], &[s("\"42\"")]), "Int64(42)");
    assert_eq!(call("lax_int64", &[J], &[s("1.5")]), "Int64(2)");
    assert_eq!(call("lax_bool", &[J], &[s("[]")]), "NULL");
    assert_eq!(call("string", &[J], &[s("\"x\"")]), "x");
    assert_eq!(call("json_type", &[J], &[s("null")]), "null");
}

#[test]
fn decimals_are_read_loosely() {
    let p = |t: &str| call("parse_numeric", &[S], &[s(t)]);
    assert_eq!(p("- 1,234.5"), "Numeric(-1234500000000)");
    assert_eq!(p("1234-"), "Numeric(-1234000000000)");
    assert!(p("1 2").starts_with("Invalid input to PARSE_NUMERIC"));
    assert!(p("").starts_with("Invalid input to PARSE_NUMERIC"));
}
