//! INTERVAL: literals, parts, arithmetic and the JUSTIFY functions.

use super::civil;
use super::scalar::{Definition, row};
use super::signature::{Argument, Resolved, no_signature};
use super::types::SqlType;
use super::value::{Answer, Interval, Value, fail};
use crate::error::{Result, ServiceError};

const MICRO: i128 = 1_000;
const SECOND: i128 = 1_000_000_000;
const HOUR: i128 = 3600 * SECOND;

/// Fails when a part is beyond what an INTERVAL holds: 10,000 years, 3,660,000
/// days, 87,840,000 hours.
pub(crate) fn checked(interval: Interval) -> Result<Interval> {
    if interval.months.abs() > 120_000 {
        return fail(format!(
            "Interval field months '{}' is out of range -120000 to 120000",
            interval.months
        ));
    }
    if interval.days.abs() > 3_660_000 {
        return fail(format!(
            "Interval field days '{}' is out of range -3660000 to 3660000",
            interval.days
        ));
    }
    if interval.nanos.abs() > 87_840_000 * HOUR {
        return fail(format!(
            "Interval field micros '{}' is out of range -316224000000000000 to 316224000000000000",
            interval.nanos / MICRO
        ));
    }
    Ok(interval)
}

/// `amount` of a date part as an interval.
pub(crate) fn of_part(amount: i64, part: &str) -> Result<Interval> {
    let part = part.to_ascii_uppercase();
    let times = |unit: i64| {
        amount.checked_mul(unit).ok_or_else(|| {
            ServiceError::invalid_query(format!(
                "Interval overflow: INTERVAL {amount} {part} is out of range"
            ))
        })
    };
    let nanos = |unit: i128| Interval {
        nanos: i128::from(amount) * unit,
        ..Interval::default()
    };
    checked(match part.as_str() {
        "YEAR" => Interval {
            months: times(12)?,
            ..Interval::default()
        },
        "QUARTER" => Interval {
            months: times(3)?,
            ..Interval::default()
        },
        "MONTH" => Interval {
            months: amount,
            ..Interval::default()
        },
        "WEEK" => Interval {
            days: times(7)?,
            ..Interval::default()
        },
        "DAY" => Interval {
            days: amount,
            ..Interval::default()
        },
        "HOUR" => nanos(HOUR),
        "MINUTE" => nanos(60 * SECOND),
        "SECOND" => nanos(SECOND),
        "MILLISECOND" => nanos(1_000_000),
        "MICROSECOND" => nanos(MICRO),
        _ => return fail(format!("Unsupported INTERVAL date part: {part}")),
    })
}

/// Text between two parts, such as `'1-2'` YEAR TO MONTH.
pub(crate) fn of_range(text: &str, from: &str, to: &str) -> Result<Interval> {
    match parse_range(text, from, to) {
        Some(interval) => checked(interval),
        None => fail(format!("Invalid INTERVAL literal '{text}' {from} TO {to}")),
    }
}

fn parse_range(text: &str, from: &str, to: &str) -> Option<Interval> {
    let rank = |part: &str| {
        ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"]
            .iter()
            .position(|p| part.eq_ignore_ascii_case(p))
    };
    let (from, to) = (rank(from)?, rank(to)?);
    if from >= to {
        return None;
    }
    let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
    let mut out = Interval::default();
    if from <= 1 {
        // MONTH TO … has one number, YEAR TO MONTH and further `Y-M`.
        let word = take_first(&mut words)?;
        if from == 0 {
            let (sign, body) = signed(word);
            let (y, m) = body.split_once('-')?;
            out.months = sign * (number(y)? * 12 + number(m)?);
        } else {
            let (sign, body) = signed(word);
            out.months = sign * number(body)?;
        }
    }
    if from <= 2 && to >= 2 {
        let word = take_first(&mut words)?;
        let (sign, body) = signed(word);
        out.days = sign * number(body)?;
    }
    if to >= 3 {
        let word = take_first(&mut words)?;
        let (sign, body) = signed(word);
        let first = from.max(3);
        let pieces: Vec<&str> = body.split(':').collect();
        if pieces.len() != to - first + 1 {
            return None;
        }
        let mut nanos = 0i128;
        for (piece, rank) in pieces.iter().zip(first..) {
            nanos += match rank {
                3 => i128::from(number(piece)?) * HOUR,
                4 => i128::from(number(piece)?) * 60 * SECOND,
                _ => seconds(piece)?,
            };
        }
        out.nanos = i128::from(sign) * nanos;
    }
    words.is_empty().then_some(out)
}

fn take_first<'a>(words: &mut Vec<&'a str>) -> Option<&'a str> {
    (!words.is_empty()).then(|| words.remove(0))
}

fn signed(word: &str) -> (i64, &str) {
    match word.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    }
}

fn number(text: &str) -> Option<i64> {
    (!text.is_empty() && text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

fn seconds(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut micros = fraction.to_string();
    micros.truncate(6);
    while micros.len() < 6 {
        micros.push('0');
    }
    let whole = if whole.is_empty() { 0 } else { number(whole)? };
    Some(i128::from(whole) * SECOND + micros.parse::<i128>().ok()? * MICRO)
}

/// An INTERVAL from its canonical text `Y-M D H:M:S[.F]` or an ISO 8601 duration.
pub(crate) fn parse(text: &str) -> Result<Interval> {
    let trimmed = text.trim();
    let parsed = if trimmed.trim_start_matches('-').starts_with('P') {
        parse_iso(trimmed)
    } else {
        parse_range(trimmed, "YEAR", "SECOND")
    };
    match parsed {
        Some(interval) => checked(interval),
        None => fail(format!("Invalid INTERVAL value '{text}'")),
    }
}

fn parse_iso(text: &str) -> Option<Interval> {
    let (sign, rest) = signed(text);
    let rest = rest.strip_prefix('P')?;
    let (date, time) = match rest.split_once('T') {
        Some((d, t)) if !t.is_empty() => (d, t),
        Some(_) => return None,
        None => (rest, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let mut out = Interval::default();
    let each = |part: &str, f: &mut dyn FnMut(&str, char) -> Option<()>| -> Option<()> {
        let mut start = 0;
        for (i, c) in part.char_indices() {
            if c.is_ascii_alphabetic() {
                f(&part[start..i], c)?;
                start = i + c.len_utf8();
            }
        }
        (start == part.len()).then_some(())
    };
    each(date, &mut |n, unit| {
        let (s, n) = signed(n);
        let n = s * number(n)?;
        match unit {
            'Y' => out.months += n * 12,
            'M' => out.months += n,
            'W' => out.days += n * 7,
            'D' => out.days += n,
            _ => return None,
        }
        Some(())
    })?;
    each(time, &mut |n, unit| {
        let (s, n) = signed(n);
        let n = i128::from(s)
            * match unit {
                'H' => i128::from(number(n)?) * HOUR,
                'M' => i128::from(number(n)?) * 60 * SECOND,
                'S' => seconds(n)?,
                _ => return None,
            };
        out.nanos += n;
        Some(())
    })?;
    let sign_wide = i128::from(sign);
    Some(Interval {
        months: out.months * sign,
        days: out.days * sign,
        nanos: out.nanos * sign_wide,
    })
}

/// A DATETIME moved by an interval: months first, then days, then time.
pub(crate) fn add_to_datetime(micros: i64, interval: Interval) -> Option<i64> {
    let (days, time) = civil::split(micros);
    let days = civil::add_months(days, interval.months)?;
    let total = (i128::from(days) + i128::from(interval.days)) * i128::from(civil::DAY_MICROS)
        + i128::from(time)
        + interval.nanos / MICRO;
    let micros = i64::try_from(total).ok()?;
    (civil::MIN_MICROS..=civil::MAX_MICROS)
        .contains(&micros)
        .then_some(micros)
}

/// A TIMESTAMP moved by an interval without months; a day is 24 hours.
pub(crate) fn add_to_timestamp(micros: i64, interval: Interval) -> Result<i64> {
    if interval.months != 0 {
        return fail(
            "TIMESTAMP +/- INTERVAL is not supported for intervals with non-zero MONTH or YEAR part.",
        );
    }
    let total = i128::from(micros)
        + i128::from(interval.days) * i128::from(civil::DAY_MICROS)
        + interval.nanos / MICRO;
    match i64::try_from(total) {
        Ok(t) if (civil::MIN_MICROS..=civil::MAX_MICROS).contains(&t) => Ok(t),
        _ => fail("TIMESTAMP overflow: adding the INTERVAL leaves the range of TIMESTAMP"),
    }
}

/// The interval with every part negated.
pub(crate) fn negate(i: Interval) -> Interval {
    Interval {
        months: -i.months,
        days: -i.days,
        nanos: -i.nanos,
    }
}

fn justify_hours(i: Interval) -> Interval {
    let day = 24 * HOUR;
    let mut days = i.days + i64::try_from(i.nanos / day).unwrap_or(0);
    let mut nanos = i.nanos % day;
    if days > 0 && nanos < 0 {
        days -= 1;
        nanos += day;
    } else if days < 0 && nanos > 0 {
        days += 1;
        nanos -= day;
    }
    Interval {
        months: i.months,
        days,
        nanos,
    }
}

fn justify_days(i: Interval) -> Interval {
    let mut months = i.months + i.days / 30;
    let mut days = i.days % 30;
    if months > 0 && days < 0 {
        months -= 1;
        days += 30;
    } else if months < 0 && days > 0 {
        months += 1;
        days -= 30;
    }
    Interval {
        months,
        days,
        nanos: i.nanos,
    }
}

fn justify_interval(i: Interval) -> Interval {
    let mut j = justify_days(justify_hours(i));
    // The time part takes the sign of what is left above it.
    let day = 24 * HOUR;
    if (j.months > 0 || (j.months == 0 && j.days > 0)) && j.nanos < 0 {
        j.nanos += day;
        j.days -= 1;
    } else if (j.months < 0 || (j.months == 0 && j.days < 0)) && j.nanos > 0 {
        j.nanos -= day;
        j.days += 1;
    }
    justify_days(j)
}

fn make_interval(a: &[Value<'_>]) -> Answer {
    let part = |i: usize| a.get(i).map_or(Ok(0), Value::int);
    let months = part(0)?
        .checked_mul(12)
        .and_then(|y| part(1).ok().and_then(|m| y.checked_add(m)));
    let Some(months) = months else {
        return fail("Interval overflow: MAKE_INTERVAL");
    };
    let nanos = i128::from(part(3)?) * HOUR
        + i128::from(part(4)?) * 60 * SECOND
        + i128::from(part(5)?) * SECOND;
    checked(Interval {
        months,
        days: part(2)?,
        nanos,
    })
    .map(Value::Interval)
}

/// EXTRACT of an interval's part, with the part's own sign.
pub(crate) fn extract(i: Interval, part: &str) -> Result<i64> {
    let micros = i64::try_from(i.nanos / MICRO).unwrap_or(0);
    Ok(match part {
        "YEAR" => i.months / 12,
        "MONTH" => i.months % 12,
        "DAY" => i.days,
        "HOUR" => micros / 3_600_000_000,
        "MINUTE" => micros / 60_000_000 % 60,
        "SECOND" => micros / 1_000_000 % 60,
        "MILLISECOND" => micros / 1_000 % 1_000,
        "MICROSECOND" => micros % 1_000_000,
        _ => {
            return fail(format!(
                "EXTRACT from INTERVAL does not support the {part} date part"
            ));
        }
    })
}

fn interval_call(name: &str, args: &[Argument]) -> Result<Resolved> {
    let ok = args.len() == 2
        && matches!(
            args[0].sql_type,
            SqlType::Int64 | SqlType::String | SqlType::Null
        )
        && args[1].literal_text().is_some();
    if !ok {
        return no_signature(name, args, &[]);
    }
    let amount = match args[0].sql_type {
        SqlType::String => SqlType::String,
        _ => SqlType::Int64,
    };
    Ok(Resolved {
        args: vec![amount, SqlType::String],
        ret: SqlType::Interval,
    })
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        row("$interval", &[], |a| {
            let part = a[1].str()?;
            let interval = match &a[0] {
                Value::String(text) => match part.split_once(" TO ") {
                    Some((from, to)) => of_range(text, from.trim(), to.trim())?,
                    None => {
                        // A quoted number may have a fraction in the SECOND part.
                        let (sign, body) = signed(text.trim());
                        match (part.to_ascii_uppercase().as_str(), number(body)) {
                            (_, Some(n)) => of_part(sign * n, part)?,
                            ("SECOND", None) => match seconds(body) {
                                Some(nanos) => checked(Interval {
                                    nanos: i128::from(sign) * nanos,
                                    ..Interval::default()
                                })?,
                                None => {
                                    return fail(format!(
                                        "Invalid INTERVAL literal '{text}' {part}"
                                    ));
                                }
                            },
                            _ => return fail(format!("Invalid INTERVAL literal '{text}' {part}")),
                        }
                    }
                },
                other => of_part(other.int()?, part)?,
            };
            Ok(Value::Interval(interval))
        })
        .resolved_by(interval_call),
        row(
            "make_interval",
            &["INT64?, INT64?, INT64?, INT64?, INT64?, INT64? -> INTERVAL"],
            make_interval,
        ),
        row("justify_hours", &["INTERVAL -> INTERVAL"], |a| {
            checked(justify_hours(a[0].interval()?)).map(Value::Interval)
        }),
        row("justify_days", &["INTERVAL -> INTERVAL"], |a| {
            checked(justify_days(a[0].interval()?)).map(Value::Interval)
        }),
        row("justify_interval", &["INTERVAL -> INTERVAL"], |a| {
            checked(justify_interval(a[0].interval()?)).map(Value::Interval)
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::text::interval_text;
    use super::*;

    #[test]
    fn literals() {
        let r = |s, a, b| interval_text(of_range(s, a, b).unwrap());
        assert_eq!(r("1-2", "YEAR", "MONTH"), "1-2 0 0:0:0");
        assert_eq!(r("1 6", "DAY", "HOUR"), "0-0 1 6:0:0");
        assert_eq!(r("0-0 40 30:0:0", "YEAR", "SECOND"), "0-0 40 30:0:0");
        assert_eq!(r("-1:30.5", "MINUTE", "SECOND"), "0-0 0 -0:1:30.500");
        assert!(of_range("1", "YEAR", "MONTH").is_err());
        let p = |s| interval_text(parse(s).unwrap());
        assert_eq!(p("P1Y2M3DT4H5M6.5S"), "1-2 3 4:5:6.500");
        assert_eq!(p("-0-3 0 0:0:0"), "-0-3 0 0:0:0");
        assert!(parse("P").is_err());
        assert!(of_part(10_001, "YEAR").is_err());
    }

    #[test]
    fn justify() {
        let j = |f: fn(Interval) -> Interval, s| interval_text(f(parse(s).unwrap()));
        assert_eq!(j(justify_hours, "0-0 0 30:0:0"), "0-0 1 6:0:0");
        assert_eq!(j(justify_days, "0-0 40 0:0:0"), "0-1 10 0:0:0");
        assert_eq!(j(justify_interval, "0-0 40 30:0:0"), "0-1 11 6:0:0");
        assert_eq!(j(justify_hours, "0-0 1 -1:0:0"), "0-0 0 23:0:0");
        assert_eq!(j(justify_days, "0-1 -5 0:0:0"), "0-0 25 0:0:0");
    }
}
