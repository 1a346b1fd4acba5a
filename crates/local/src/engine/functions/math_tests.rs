use super::*;

fn n(text: &str) -> Value<'static> {
    Value::Numeric(i128::try_from(&decimal::parse(text, 9).unwrap()).unwrap())
}

fn show(answer: Answer) -> String {
    match answer {
        Ok(v) => shown(&v),
        Err(e) => e.message,
    }
}

#[test]
fn rounding() {
    let f = |x, d| round(&[Value::Float64(x), Value::Int64(d)]).unwrap();
    assert_eq!(f(2.5, 0), Value::Float64(3.0));
    assert_eq!(f(-2.5, 0), Value::Float64(-3.0));
    assert_eq!(f(123.7, -2), Value::Float64(100.0));
    assert_eq!(f(1.235, 2), Value::Float64(1.24));
    assert_eq!(f(f64::INFINITY, 2), Value::Float64(f64::INFINITY));
    assert_eq!(show(round(&[n("2.345"), Value::Int64(2)])), "2.35");
    let even = |s: &str, d| {
        show(round(&[
            n(s),
            Value::Int64(d),
            Value::text("ROUND_HALF_EVEN"),
        ]))
    };
    assert_eq!(even("2.25", 1), "2.2");
    assert_eq!(even("2.35", 1), "2.4");
    assert_eq!(even("-2.5", 0), "-2");
    assert_eq!(show(trunc(&[n("-1.99")])), "-1");
    assert_eq!(show(floor_ceil(&[n("-1.1")], false)), "-2");
    assert_eq!(show(floor_ceil(&[n("-1.1")], true)), "-1");
}

#[test]
fn division() {
    assert_eq!(show(div(&[Value::Int64(-7), Value::Int64(2)])), "-3");
    assert_eq!(show(modulo(&[Value::Int64(-7), Value::Int64(2)])), "-1");
    assert_eq!(
        show(modulo(&[Value::Int64(5), Value::Int64(0)])),
        "division by zero: MOD(5, 0)"
    );
    assert_eq!(
        show(div(&[Value::Int64(i64::MIN), Value::Int64(-1)])),
        "int64 overflow: DIV(-9223372036854775808, -1)"
    );
    assert_eq!(show(divide(&n("1"), &n("3"))), "0.333333333");
    assert_eq!(show(divide(&n("2"), &n("3"))), "0.666666667");
    assert_eq!(
        show(arithmetic(
            Arithmetic::Multiply,
            &n("1.5"),
            &n("0.000000001")
        )),
        "0.000000002"
    );
    assert_eq!(
        show(arithmetic(
            Arithmetic::Add,
            &Value::Int64(i64::MAX),
            &Value::Int64(1)
        )),
        "int64 overflow: 9223372036854775807 + 1"
    );
}

#[test]
fn powers() {
    assert_eq!(show(pow(&[n("1.5"), n("2")])), "2.25");
    assert_eq!(show(pow(&[n("2"), n("-2")])), "0.25");
    assert_eq!(
        show(pow(&[Value::Float64(2.0), Value::Float64(0.5)])),
        "1.4142135623730951"
    );
    assert_eq!(show(on_decimal("SQRT", &n("2"))), "1.414213562");
    assert!(log(&[Value::Float64(-1.0)]).is_err());
}

#[test]
fn buckets_and_extremes() {
    let bounds = Value::Array([0, 10, 20].map(Value::Int64).to_vec());
    let bucket = |x| range_bucket(&[Value::Int64(x), bounds.clone()]).unwrap();
    assert_eq!(bucket(-1), Value::Int64(0));
    assert_eq!(bucket(10), Value::Int64(2));
    assert_eq!(bucket(25), Value::Int64(3));
    let g = extreme(&[Value::Float64(1.0), Value::Float64(f64::NAN)], true).unwrap();
    assert!(matches!(g, Value::Float64(x) if x.is_nan()));
}
