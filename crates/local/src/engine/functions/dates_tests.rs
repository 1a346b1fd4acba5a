use super::*;

fn d(s: &str) -> Value<'static> {
    Value::Date(text::parse_date(s).unwrap())
}
fn dt(s: &str) -> Value<'static> {
    Value::Datetime(text::parse_datetime(s).unwrap())
}
fn ts(s: &str) -> Value<'static> {
    Value::Timestamp(text::parse_timestamp(s, Zone::UTC).unwrap())
}
fn p(s: &str) -> Value<'static> {
    Value::text(s)
}
fn int(a: Answer) -> i64 {
    a.unwrap().int().unwrap()
}

#[test]
fn parts_of_a_date() {
    let e = |part, date| int(extract(&[p(part), d(date)]));
    assert_eq!(e("WEEK", "2024-01-07"), 1);
    assert_eq!(e("WEEK", "2024-01-06"), 0);
    assert_eq!(e("WEEK(MONDAY)", "2024-01-07"), 1);
    assert_eq!(e("ISOWEEK", "2024-03-15"), 11);
    assert_eq!(e("ISOYEAR", "2021-01-01"), 2020);
    assert_eq!(e("DAYOFWEEK", "2024-03-03"), 1);
    assert_eq!(e("DAYOFYEAR", "2024-12-31"), 366);
    assert_eq!(e("QUARTER", "2024-06-30"), 2);
    assert!(extract(&[p("HOUR"), d("2024-01-01")]).is_err());
    let z = extract(&[p("HOUR"), ts("2024-06-15 00:00:00+00"), p("+05:45")]);
    assert_eq!(int(z), 5);
}

#[test]
fn differences_count_boundaries_or_whole_units() {
    let diff = |x, y, part| int(difference(&[x, y, p(part)], "F"));
    assert_eq!(diff(d("2024-03-05"), d("2024-01-31"), "DAY"), 34);
    assert_eq!(diff(d("2024-03-01"), d("2024-01-31"), "MONTH"), 2);
    assert_eq!(diff(d("2017-10-15"), d("2017-10-14"), "WEEK"), 1);
    assert_eq!(diff(d("2017-10-15"), d("2017-10-14"), "ISOWEEK"), 0);
    assert_eq!(diff(d("2017-12-30"), d("2014-12-30"), "ISOYEAR"), 2);
    assert_eq!(
        diff(dt("2024-01-02 00:00:00"), dt("2024-01-01 12:00:00"), "DAY"),
        1
    );
    assert_eq!(
        diff(ts("2024-01-02 00:00:00"), ts("2024-01-01 12:00:00"), "DAY"),
        0
    );
    assert_eq!(
        diff(ts("2024-01-01 00:00:00"), ts("2024-01-01 01:30:00"), "HOUR"),
        -1
    );
}

#[test]
fn adding_and_truncating() {
    let add_ = |x, n, part| add(&[x, Value::Int64(n), p(part)], "F", 1);
    assert_eq!(add_(d("2024-01-31"), 1, "MONTH").unwrap(), d("2024-02-29"));
    assert_eq!(add_(d("2024-01-31"), 1, "WEEK").unwrap(), d("2024-02-07"));
    assert!(add_(d("9999-12-31"), 1, "DAY").is_err());
    assert!(add_(ts("2024-01-01"), 1, "MONTH").is_err());
    assert_eq!(
        add_(Value::Time(DAY_MICROS - 1_800_000_000), 60, "MINUTE").unwrap(),
        Value::Time(1_800_000_000)
    );
    let t = |x, part| truncate(&[x, p(part)], "F").unwrap();
    assert_eq!(t(d("2024-05-15"), "WEEK"), d("2024-05-12"));
    assert_eq!(t(d("2017-11-07"), "WEEK(WEDNESDAY)"), d("2017-11-01"));
    assert_eq!(t(d("2015-06-15"), "ISOYEAR"), d("2014-12-29"));
    assert_eq!(
        t(dt("2024-05-15 12:34:56"), "HOUR"),
        dt("2024-05-15 12:00:00")
    );
    let zone = truncate(
        &[ts("2024-03-10 06:30:00"), p("DAY"), p("America/New_York")],
        "F",
    );
    assert_eq!(zone.unwrap(), ts("2024-03-10 05:00:00"));
    assert_eq!(
        last_day(&[d("2024-02-15"), p("WEEK")]).unwrap(),
        d("2024-02-17")
    );
    assert_eq!(last_day(&[d("2024-02-15")]).unwrap(), d("2024-02-29"));
    assert_eq!(
        last_day(&[d("2024-02-15"), p("ISOYEAR")]).unwrap(),
        d("2024-12-29")
    );
    assert_eq!(
        last_day(&[d("2020-06-15"), p("ISOYEAR")]).unwrap(),
        d("2021-01-03")
    );
}
