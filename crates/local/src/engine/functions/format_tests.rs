use super::*;

fn f(pattern: &str, args: &[(SqlType, Value<'static>)]) -> String {
    let mut types = vec![SqlType::String];
    let mut values = vec![Value::text(pattern)];
    for (t, v) in args {
        types.push(t.clone());
        values.push(v.clone());
    }
    let binding = Binding {
        name: "format",
        args: &types,
        ret: &SqlType::String,
    };
    match format(&binding, &values) {
        Ok(Value::Null) => "<null>".into(),
        Ok(v) => v.str().unwrap().to_string(),
        Err(e) => e.message,
    }
}

fn i(v: i64) -> (SqlType, Value<'static>) {
    (SqlType::Int64, Value::Int64(v))
}

fn x(v: f64) -> (SqlType, Value<'static>) {
    (SqlType::Float64, Value::Float64(v))
}

fn s(v: &str) -> (SqlType, Value<'static>) {
    (SqlType::String, Value::text(v))
}

#[test]
fn numbers() {
    assert_eq!(
        f("%05d|%-5d|%+d", &[i(42), i(42), i(42)]),
        "00042|42   |+42"
    );
    assert_eq!(f("%'d", &[i(1_234_567)]), "1,234,567");
    assert_eq!(
        f("%x %X %o %#x", &[i(255), i(255), i(8), i(255)]),
        "ff FF 10 0xff"
    );
    assert_eq!(
        f("%.3f %8.2f|%e", &[x(2.71859), x(2.5), x(12345.678)]),
        "2.719     2.50|1.234568e+04"
    );
    assert_eq!(f("%g %g", &[x(0.0001), x(1e10)]), "0.0001 1e+10");
    assert_eq!(f("%f", &[x(f64::INFINITY)]), "inf");
    assert_eq!(
        f("%.2f", &[(SqlType::Numeric, Value::Numeric(1_005_000_000))]),
        "1.01"
    );
    assert_eq!(f("%*d", &[i(5), i(1)]), "    1");
    assert_eq!(f("%d", &[(SqlType::Int64, Value::Null)]), "<null>");
    assert_eq!(
        f("%d", &[s("a")]),
        "Invalid type for argument 2 to FORMAT; Expected integer; Got STRING"
    );
}

#[test]
fn text_and_literals() {
    assert_eq!(
        f("|%-10s|%5s|%.1s|", &[s("hi"), s("hi"), s("hi")]),
        "|hi        |   hi|h|"
    );
    assert_eq!(f("100%%", &[]), "100%");
    assert_eq!(f("%t %T", &[s("a\"b"), s("a\"b")]), "a\"b \"a\\\"b\"");
    assert_eq!(
        f("%t %T", &[x(1.0), (SqlType::Date, Value::Date(0))]),
        "1.0 DATE \"1970-01-01\""
    );
    let array = (
        SqlType::Array(Box::new(SqlType::Int64)),
        Value::Array(vec![Value::Int64(1), Value::Null]),
    );
    assert_eq!(f("%t", &[array]), "[1, NULL]");
    assert!(f("%d", &[]).starts_with("Too few arguments"));
    assert!(f("x", &[i(1)]).starts_with("Too many arguments"));
}
