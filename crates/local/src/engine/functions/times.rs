//! Making dates and times, and converting them.

use super::civil::{self, DAY_MICROS, Zone};
use super::scalar::{Definition, row};
use super::strftime::{self, Fields};
use super::text;
use super::value::{Answer, Value, fail};
use crate::error::Result;

/// The zone argument at `i`, UTC when it is not given.
fn zone(a: &[Value<'_>], i: usize) -> Result<Zone> {
    match a.get(i) {
        Some(z) => Zone::parse(z.str()?),
        None => Ok(Zone::UTC),
    }
}

fn timestamp(micros: Option<i64>, what: impl FnOnce() -> String) -> Answer {
    match micros.filter(|m| (civil::MIN_MICROS..=civil::MAX_MICROS).contains(m)) {
        Some(m) => Ok(Value::Timestamp(m)),
        None => fail(format!("Timestamp is out of range: {}", what())),
    }
}

fn civil_date(a: &[Value<'_>]) -> Result<i32> {
    let (y, m, d) = (a[0].int()?, a[1].int()?, a[2].int()?);
    match civil::days_from_civil(y, m, d) {
        Some(days) => Ok(days),
        None => fail(format!(
            "Input calculates to invalid date: {y:04}-{m:02}-{d:02}"
        )),
    }
}

fn clock(a: &[Value<'_>]) -> Result<i64> {
    let (h, m, s) = (a[0].int()?, a[1].int()?, a[2].int()?);
    if !(0..24).contains(&h) || !(0..60).contains(&m) || !(0..60).contains(&s) {
        return fail(format!(
            "Input calculates to invalid time: {h:02}:{m:02}:{s:02}"
        ));
    }
    Ok(((h * 60 + m) * 60 + s) * 1_000_000)
}

fn date(a: &[Value<'_>]) -> Answer {
    Ok(Value::Date(match &a[0] {
        Value::Int64(_) => civil_date(a)?,
        Value::Date(d) => *d,
        Value::Datetime(t) => civil::split(*t).0,
        other => civil::split(zone(a, 1)?.to_local(other.timestamp()?)).0,
    }))
}

fn datetime(a: &[Value<'_>]) -> Answer {
    Ok(Value::Datetime(match &a[0] {
        Value::Int64(_) => civil::join(civil_date(&a[..3])?, clock(&a[3..])?),
        Value::Date(d) => civil::join(*d, a.get(1).map_or(Ok(0), Value::time)?),
        Value::Datetime(t) => *t,
        other => zone(a, 1)?.to_local(other.timestamp()?),
    }))
}

fn time(a: &[Value<'_>]) -> Answer {
    Ok(Value::Time(match &a[0] {
        Value::Int64(_) => clock(a)?,
        Value::Time(t) => *t,
        Value::Datetime(t) => civil::split(*t).1,
        other => civil::split(zone(a, 1)?.to_local(other.timestamp()?)).1,
    }))
}

fn to_timestamp(a: &[Value<'_>]) -> Answer {
    let zone = zone(a, 1)?;
    let micros = match &a[0] {
        Value::Timestamp(t) => *t,
        Value::Date(d) => zone.to_instant(civil::join(*d, 0)),
        Value::Datetime(t) => zone.to_instant(*t),
        other => {
            let text = other.str()?;
            match text::parse_timestamp(text, zone) {
                Some(t) => t,
                None => return fail(format!("Invalid timestamp: '{text}'")),
            }
        }
    };
    timestamp(Some(micros), || "TIMESTAMP()".into())
}

fn now() -> i64 {
    chrono::Utc::now().timestamp_micros()
}

fn of_unix(a: &[Value<'_>], unit: i64) -> Answer {
    let n = a[0].int()?;
    timestamp(n.checked_mul(unit), || n.to_string())
}

fn to_unix(a: &[Value<'_>], unit: i64) -> Answer {
    Ok(Value::Int64(a[0].timestamp()?.div_euclid(unit)))
}

fn format(a: &[Value<'_>]) -> Answer {
    let pattern = a[0].str()?;
    let (local, zone, fields) = match &a[1] {
        Value::Date(d) => (civil::join(*d, 0), None, Fields::Date),
        Value::Time(t) => (*t, None, Fields::Time),
        Value::Datetime(t) => (*t, None, Fields::Datetime),
        other => {
            let zone = zone(a, 2)?;
            let t = other.timestamp()?;
            (zone.to_local(t), Some((zone, t)), Fields::Timestamp)
        }
    };
    strftime::format(pattern, local, zone, fields).map(Value::text)
}

fn parse(a: &[Value<'_>], fields: Fields) -> Answer {
    let zone = zone(a, 2)?;
    let (pattern, input) = (a[0].str()?, a[1].str()?);
    let micros = strftime::parse(pattern, input, zone, fields)?;
    Ok(match fields {
        Fields::Date => Value::Date(civil::split(micros).0),
        Fields::Time => Value::Time(micros.rem_euclid(DAY_MICROS)),
        Fields::Datetime => Value::Datetime(micros),
        Fields::Timestamp => return timestamp(Some(micros), || format!("'{input}'")),
    })
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        row(
            "date",
            &[
                "INT64, INT64, INT64 -> DATE",
                "DATE -> DATE",
                "DATETIME -> DATE",
                "TIMESTAMP, STRING? -> DATE",
            ],
            date,
        ),
        row(
            "datetime",
            &[
                "INT64, INT64, INT64, INT64, INT64, INT64 -> DATETIME",
                "DATE, TIME? -> DATETIME",
                "DATETIME -> DATETIME",
                "TIMESTAMP, STRING? -> DATETIME",
            ],
            datetime,
        ),
        row(
            "time",
            &[
                "INT64, INT64, INT64 -> TIME",
                "TIME -> TIME",
                "DATETIME -> TIME",
                "TIMESTAMP, STRING? -> TIME",
            ],
            time,
        ),
        row(
            "timestamp",
            &[
                "STRING, STRING? -> TIMESTAMP",
                "DATE, STRING? -> TIMESTAMP",
                "DATETIME, STRING? -> TIMESTAMP",
                "TIMESTAMP -> TIMESTAMP",
            ],
            to_timestamp,
        ),
        row("current_timestamp", &["-> TIMESTAMP"], |_| {
            Ok(Value::Timestamp(now()))
        })
        .stable(),
        row("current_date", &["STRING? -> DATE"], |a| {
            Ok(Value::Date(civil::split(zone(a, 0)?.to_local(now())).0))
        })
        .stable(),
        row("current_datetime", &["STRING? -> DATETIME"], |a| {
            Ok(Value::Datetime(zone(a, 0)?.to_local(now())))
        })
        .stable(),
        row("current_time", &["STRING? -> TIME"], |a| {
            Ok(Value::Time(civil::split(zone(a, 0)?.to_local(now())).1))
        })
        .stable(),
        row("unix_date", &["DATE -> INT64"], |a| {
            Ok(Value::Int64(i64::from(a[0].date()?)))
        }),
        row("date_from_unix_date", &["INT64 -> DATE"], |a| {
            let n = a[0].int()?;
            match i32::try_from(n)
                .ok()
                .filter(|d| (civil::MIN_DATE..=civil::MAX_DATE).contains(d))
            {
                Some(d) => Ok(Value::Date(d)),
                None => fail(format!(
                    "DATE_FROM_UNIX_DATE: {n} is out of the range of DATE"
                )),
            }
        }),
        row("unix_seconds", &["TIMESTAMP -> INT64"], |a| {
            to_unix(a, 1_000_000)
        }),
        row("unix_millis", &["TIMESTAMP -> INT64"], |a| {
            to_unix(a, 1_000)
        }),
        row("unix_micros", &["TIMESTAMP -> INT64"], |a| to_unix(a, 1)),
        row("timestamp_seconds", &["INT64 -> TIMESTAMP"], |a| {
            of_unix(a, 1_000_000)
        }),
        row("timestamp_millis", &["INT64 -> TIMESTAMP"], |a| {
            of_unix(a, 1_000)
        }),
        row("timestamp_micros", &["INT64 -> TIMESTAMP"], |a| {
            of_unix(a, 1)
        }),
        row(
            "format_date",
            &[
                "STRING, DATE -> STRING",
                "STRING, DATETIME -> STRING",
                "STRING, TIMESTAMP, STRING? -> STRING",
            ],
            format,
        ),
        row(
            "format_datetime",
            &[
                "STRING, DATETIME -> STRING",
                "STRING, TIMESTAMP, STRING? -> STRING",
            ],
            format,
        ),
        row("format_time", &["STRING, TIME -> STRING"], format),
        row(
            "format_timestamp",
            &["STRING, TIMESTAMP, STRING? -> STRING"],
            format,
        ),
        row("parse_date", &["STRING, STRING -> DATE"], |a| {
            parse(a, Fields::Date)
        }),
        row("parse_datetime", &["STRING, STRING -> DATETIME"], |a| {
            parse(a, Fields::Datetime)
        }),
        row("parse_time", &["STRING, STRING -> TIME"], |a| {
            parse(a, Fields::Time)
        }),
        row(
            "parse_timestamp",
            &["STRING, STRING, STRING? -> TIMESTAMP"],
            |a| parse(a, Fields::Timestamp),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructors() {
        let i = Value::Int64;
        assert!(date(&[i(2024), i(2), i(30)]).is_err());
        let t = datetime(&[i(2024), i(1), i(15), i(12), i(34), i(56)]).unwrap();
        assert_eq!(
            text::datetime_text(t.datetime().unwrap(), ' '),
            "2024-01-15 12:34:56"
        );
        assert!(time(&[i(24), i(0), i(0)]).is_err());
        let ts = |s: &str, z: &str| to_timestamp(&[Value::text(s), Value::text(z)]).unwrap();
        assert_eq!(
            ts("2024-01-15 12:00:00", "America/New_York"),
            ts("2024-01-15 17:00:00", "UTC")
        );
        assert_eq!(to_unix(&[Value::Timestamp(-1)], 1_000_000).unwrap(), i(-1));
        assert!(of_unix(&[i(i64::MAX)], 1_000).is_err());
    }
}
