use super::*;

fn d(s: &str) -> Value<'static> {
    Value::Date(text::parse_date(s).unwrap())
}

fn ints(v: Answer) -> Vec<i64> {
    v.unwrap()
        .array()
        .unwrap()
        .iter()
        .map(|v| v.int().unwrap())
        .collect()
}

#[test]
fn sequences() {
    let i = Value::Int64;
    assert_eq!(ints(generate_array(&[i(1), i(5), i(2)])), [1, 3, 5]);
    assert_eq!(ints(generate_array(&[i(3), i(1), i(-1)])), [3, 2, 1]);
    assert!(ints(generate_array(&[i(3), i(1)])).is_empty());
    assert_eq!(
        ints(generate_array(&[i(i64::MAX - 1), i(i64::MAX)])).len(),
        2
    );
    assert!(generate_array(&[i(1), i(2), i(0)]).is_err());
    let months =
        generate_date_array(&[d("2024-01-30"), d("2024-04-01"), i(1), Value::text("MONTH")]);
    assert_eq!(
        months.unwrap(),
        Value::Array(vec![d("2024-01-30"), d("2024-02-29"), d("2024-03-29")])
    );
}

#[test]
fn joining_and_slicing() {
    let a = Value::Array(vec![Value::text("a"), Value::Null, Value::text("c")]);
    let join = |rest: &[&str]| {
        let mut args = vec![a.clone()];
        args.extend(rest.iter().map(|s| Value::text(*s)));
        array_to_string(&args).unwrap()
    };
    assert_eq!(join(&[","]), Value::text("a,c"));
    assert_eq!(join(&[",", "NA"]), Value::text("a,NA,c"));
    let n = Value::Array((0..5).map(Value::Int64).collect());
    let cut = |x, y| ints(slice(&[n.clone(), Value::Int64(x), Value::Int64(y)]));
    assert_eq!(cut(1, 2), [1, 2]);
    assert_eq!(cut(-2, -1), [3, 4]);
    assert!(cut(3, 1).is_empty());
}

#[test]
fn ranges() {
    let r = |s: &str, e: &str| make_range(d(s), d(e)).unwrap();
    let jan = r("2024-01-01", "2024-02-01");
    assert!(overlaps(&jan, &r("2024-01-31", "2024-03-01")).unwrap());
    assert!(!overlaps(&jan, &r("2024-02-01", "2024-03-01")).unwrap());
    let open = Value::Struct(vec![Value::Null, Value::Null]);
    assert!(overlaps(&jan, &open).unwrap());
    let contains = |v| range_contains(&[jan.clone(), v]).unwrap();
    assert_eq!(contains(d("2024-02-01")), Value::Bool(false));
    assert_eq!(contains(d("2024-01-01")), Value::Bool(true));
    let parts = generate_range_array(&[
        r("2024-01-01", "2024-01-08"),
        Value::Interval(interval::of_part(2, "DAY").unwrap()),
    ]);
    let parts = parts.unwrap();
    assert_eq!(parts.array().unwrap().len(), 4);
    assert_eq!(parts.array().unwrap()[3], r("2024-01-07", "2024-01-08"));
}
