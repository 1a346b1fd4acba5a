//! Dates, times, instants and intervals, each in whole microseconds or not at all.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Int32Type, IntervalDayTimeType,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use chrono::{DateTime, FixedOffset, Timelike, Utc};

use super::faults::{Faults, Place};
use super::numbers::{each, unplanned};
use super::text::text_at;
use crate::error::Result;

/// The days from 0001-01-01 to 9999-12-31, counted from 1970-01-01.
const DAYS: std::ops::RangeInclusive<i32> = -719_162..=2_932_896;
pub(super) const DAY_MICROS: i64 = 86_400_000_000;
/// The microseconds from the beginning of year 1 to the end of year 9999.
const MICROS: std::ops::RangeInclusive<i64> = -62_135_596_800_000_000..=253_402_300_799_999_999;

const MAX_MONTHS: i32 = 120_000;
const MAX_DAYS: i32 = 3_660_000;

const YEARS: &str = "which begins with year 1 and ends with year 9999";

/// DATE.
pub(super) fn date(array: &ArrayRef, place: Place<'_>, faults: &mut Faults) -> Result<ArrayRef> {
    let within = |days: i32| DAYS.contains(&days).then_some(days);
    let dates: PrimitiveArray<Date32Type> = match array.data_type() {
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            each(days, place, faults, within, |days| {
                format!("day {days} after 1970-01-01 is outside of DATE, {YEARS}")
            })
        }
        DataType::Int32 => {
            let days = array.as_primitive::<Int32Type>();
            each(days, place, faults, within, |days| {
                format!("day {days} after 1970-01-01 is outside of DATE, {YEARS}")
            })
        }
        DataType::Date64 => {
            let millis = array.as_primitive::<Date64Type>();
            let days = |millis: i64| {
                let days = i32::try_from(millis.div_euclid(86_400_000)).ok()?;
                (millis.rem_euclid(86_400_000) == 0).then(|| within(days))?
            };
            each(millis, place, faults, days, |millis| {
                format!("millisecond {millis} after 1970-01-01 is no whole day of DATE, {YEARS}")
            })
        }
        _ => from_text(array, place, faults, "DATE", |text| {
            // Longer text has a time, which would be lost.
            (text.len() <= 10)
                .then(|| Date32Type::parse(text).and_then(within))
                .flatten()
        })?,
    };
    Ok(Arc::new(dates))
}

/// TIME.
pub(super) fn time(array: &ArrayRef, place: Place<'_>, faults: &mut Faults) -> Result<ArrayRef> {
    let within = |micros: i64| (0..DAY_MICROS).contains(&micros).then_some(micros);
    macro_rules! from {
        ($type:ty, $unit:literal, $micros:expr) => {{
            let array = array.as_primitive::<$type>();
            let micros: PrimitiveArray<Time64MicrosecondType> =
                each(array, place, faults, $micros, |v| {
                    format!(
                        "{v} {} after midnight is no TIME, which has whole microseconds of one day; \
                         round it first",
                        $unit
                    )
                });
            micros
        }};
    }
    let times = match array.data_type() {
        DataType::Time32(TimeUnit::Second) => from!(Time32SecondType, "s", |v| {
            within(i64::from(v) * 1_000_000)
        }),
        DataType::Time32(_) => from!(Time32MillisecondType, "ms", |v| within(i64::from(v) * 1000)),
        DataType::Time64(TimeUnit::Microsecond) => from!(Time64MicrosecondType, "µs", within),
        DataType::Time64(_) => {
            from!(Time64NanosecondType, "ns", |v| whole_micros(v)
                .and_then(within))
        }
        _ => from_text(array, place, faults, "TIME", |text| {
            (!is_finer(text))
                .then(|| Time64NanosecondType::parse(text))?
                .and_then(whole_micros)
                .and_then(within)
        })?,
    };
    Ok(Arc::new(times))
}

/// DATETIME.
pub(super) fn datetime(
    array: &ArrayRef,
    place: Place<'_>,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    let text = |text: &str| {
        let utc = instant(text)?;
        let zone = FixedOffset::east_opt(3600)?;
        // Text that names its zone means the same everywhere, and so is no civil time.
        (string_to_datetime(&zone, text).ok()?.with_timezone(&Utc) != utc)
            .then(|| utc.timestamp_micros())
    };
    let micros = moments(array, place, faults, "DATETIME", text)?;
    Ok(Arc::new(micros))
}

/// TIMESTAMP. Times without a zone are in UTC.
pub(super) fn timestamp(
    array: &ArrayRef,
    place: Place<'_>,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    let text = |text: &str| Some(instant(text)?.timestamp_micros());
    let micros = moments(array, place, faults, "TIMESTAMP", text)?;
    Ok(Arc::new(micros.with_timezone("UTC")))
}

/// An instant in whole microseconds.
fn instant(text: &str) -> Option<DateTime<Utc>> {
    if is_finer(text) {
        return None;
    }
    let instant = string_to_datetime(&Utc, text).ok()?;
    // A leap second would become another second.
    (instant.nanosecond() < 1_000_000_000).then_some(instant)
}

fn moments(
    array: &ArrayRef,
    place: Place<'_>,
    faults: &mut Faults,
    name: &str,
    text: impl Fn(&str) -> Option<i64>,
) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
    let within = |micros: i64| MICROS.contains(&micros).then_some(micros);
    macro_rules! from {
        ($type:ty, $micros:expr) => {{
            let array = array.as_primitive::<$type>();
            // Checked as it stands, the value needs no copy.
            each(array, place, faults, $micros, |v| {
                describe::<$type>(v, name)
            })
        }};
    }
    Ok(match array.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let given = array.as_primitive::<TimestampMicrosecondType>();
            if given.values().iter().all(|v| MICROS.contains(v)) {
                return Ok(given.clone().with_timezone_opt(None::<Arc<str>>));
            }
            from!(TimestampMicrosecondType, within)
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            from!(TimestampSecondType, |v| v
                .checked_mul(1_000_000)
                .and_then(within))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            from!(TimestampMillisecondType, |v| v
                .checked_mul(1000)
                .and_then(within))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            from!(TimestampNanosecondType, |v| whole_micros(v)
                .and_then(within))
        }
        DataType::Date32 => from!(Date32Type, |v| i64::from(v)
            .checked_mul(DAY_MICROS)
            .and_then(within)),
        DataType::Date64 => from!(Date64Type, |v| v.checked_mul(1000).and_then(within)),
        _ => from_text(array, place, faults, name, |given| {
            text(given).and_then(within)
        })?,
    })
}

/// What is wrong with a moment, which is given in the unit of its type.
fn describe<T: ArrowPrimitiveType>(value: T::Native, name: &str) -> String
where
    T::Native: Into<i64>,
{
    let value: i64 = value.into();
    let (unit, printed) = match T::DATA_TYPE {
        DataType::Timestamp(TimeUnit::Second, _) => ("seconds", DateTime::from_timestamp(value, 0)),
        DataType::Timestamp(TimeUnit::Millisecond, _) | DataType::Date64 => {
            ("milliseconds", DateTime::from_timestamp_millis(value))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            ("nanoseconds", Some(DateTime::from_timestamp_nanos(value)))
        }
        DataType::Date32 => (
            "days",
            value
                .checked_mul(86_400)
                .and_then(|seconds| DateTime::from_timestamp(seconds, 0)),
        ),
        _ => ("microseconds", DateTime::from_timestamp_micros(value)),
    };
    let moment = match printed {
        Some(moment) => moment.naive_utc().to_string(),
        None => format!("{value} {unit} after 1970-01-01"),
    };
    if T::DATA_TYPE == DataType::Timestamp(TimeUnit::Nanosecond, None) && value % 1000 != 0 {
        format!(
            "{moment} is finer than the microseconds of {name}; round it first, for example with \
             date_trunc('microsecond', …)"
        )
    } else {
        format!("{moment} is outside of {name}, {YEARS}")
    }
}

fn whole_micros(nanos: i64) -> Option<i64> {
    (nanos % 1000 == 0).then_some(nanos / 1000)
}

/// Whether text has digits behind the microseconds.
fn is_finer(text: &str) -> bool {
    text.split_once('.').is_some_and(|(_, fraction)| {
        fraction
            .bytes()
            .take_while(u8::is_ascii_digit)
            .skip(6)
            .any(|digit| digit != b'0')
    })
}

fn from_text<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    place: Place<'_>,
    faults: &mut Faults,
    name: &str,
    parse: impl Fn(&str) -> Option<T::Native>,
) -> Result<PrimitiveArray<T>> {
    let mut values = Vec::with_capacity(array.len());
    for at in 0..array.len() {
        let value = match text_at(array, at)? {
            None => T::Native::default(),
            Some(text) => parse(text).unwrap_or_else(|| {
                place.fault(faults, at, || {
                    format!("'{text}' cannot be read as a {name} without losing something of it")
                });
                T::Native::default()
            }),
        };
        values.push(value);
    }
    Ok(PrimitiveArray::new(values.into(), array.nulls().cloned()))
}

/// INTERVAL.
pub(super) fn interval(
    array: &ArrayRef,
    place: Place<'_>,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    macro_rules! from {
        ($type:ty, $convert:expr) => {{
            let array = array.as_primitive::<$type>();
            each(array, place, faults, $convert, |v| {
                format!(
                    "{v:?} is no INTERVAL, which has at most 10,000 years, 3,660,000 days and \
                     2,562,047 hours in whole microseconds; round it first"
                )
            })
        }};
    }
    let time = |nanos: i64| Some(IntervalMonthDayNano::new(0, 0, nanos));
    let intervals: PrimitiveArray<IntervalMonthDayNanoType> = match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            from!(IntervalMonthDayNanoType, within_interval)
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            from!(IntervalYearMonthType, |months| {
                within_interval(IntervalMonthDayNano::new(months, 0, 0))
            })
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            from!(
                IntervalDayTimeType,
                |v: arrow::datatypes::IntervalDayTime| {
                    let nanos = i64::from(v.milliseconds) * 1_000_000;
                    within_interval(IntervalMonthDayNano::new(0, v.days, nanos))
                }
            )
        }
        DataType::Duration(TimeUnit::Second) => {
            from!(DurationSecondType, |v: i64| v
                .checked_mul(1_000_000_000)
                .and_then(time))
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            from!(DurationMillisecondType, |v: i64| v
                .checked_mul(1_000_000)
                .and_then(time))
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            from!(DurationMicrosecondType, |v: i64| v
                .checked_mul(1000)
                .and_then(time))
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            from!(DurationNanosecondType, |v: i64| {
                (v % 1000 == 0).then(|| time(v))?
            })
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            from_text(array, place, faults, "INTERVAL", |text| {
                parsed_interval(text).and_then(within_interval)
            })?
        }
        other => return Err(unplanned(other, "INTERVAL")),
    };
    Ok(Arc::new(intervals))
}

fn within_interval(value: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let fits = value.months.unsigned_abs() <= MAX_MONTHS.unsigned_abs()
        && value.days.unsigned_abs() <= MAX_DAYS.unsigned_abs()
        && value.nanoseconds % 1000 == 0;
    fits.then_some(value)
}

/// Reads `Y-M D H:M:S[.F]`, each part with a sign of its own.
fn parsed_interval(text: &str) -> Option<IntervalMonthDayNano> {
    let mut parts = text.split_ascii_whitespace();
    let (date, days, clock) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let (negative, date) = signed(date);
    let (years, months) = date.split_once('-')?;
    let months = natural(years)?
        .checked_mul(12)?
        .checked_add(natural(months)?)?;
    let months = i32::try_from(if negative { -months } else { months }).ok()?;
    let (negative, days) = signed(days);
    let days = i32::try_from(natural(days)?).ok()?;
    let days = if negative { -days } else { days };
    let (negative, clock) = signed(clock);
    let mut clock = clock.split(':');
    let (hours, minutes, seconds) = (clock.next()?, clock.next()?, clock.next()?);
    if clock.next().is_some() || is_finer(seconds) {
        return None;
    }
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let mut micros = 0;
    for place in 0..6 {
        let digit = fraction.as_bytes().get(place).copied().unwrap_or(b'0');
        micros = micros * 10 + i64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let nanos = natural(hours)?
        .checked_mul(60)?
        .checked_add(natural(minutes)?)?
        .checked_mul(60)?
        .checked_add(natural(seconds)?)?
        .checked_mul(1_000_000)?
        .checked_add(micros)?
        .checked_mul(1000)?;
    let nanos = if negative { -nanos } else { nanos };
    Some(IntervalMonthDayNano::new(months, days, nanos))
}

fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

fn natural(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// Year, month and day of a day after 1970-01-01.
pub(super) fn civil_date(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the leap day is their last.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// The microseconds of a day as BigQuery packs a civil time.
pub(super) fn packed_time(micros: i64) -> i64 {
    let seconds = micros / 1_000_000;
    (seconds / 3600) << 32 | (seconds / 60 % 60) << 26 | (seconds % 60) << 20 | (micros % 1_000_000)
}

/// The microseconds after 1970-01-01 as BigQuery packs a civil date and time.
pub(super) fn packed_datetime(micros: i64) -> i64 {
    let (year, month, day) = civil_date(micros.div_euclid(DAY_MICROS));
    year << 46 | month << 42 | day << 37 | packed_time(micros.rem_euclid(DAY_MICROS))
}

/// Writes an interval as `Y-M D H:M:S[.F]`, each part with its own sign.
pub(super) fn write_interval(value: IntervalMonthDayNano, out: &mut impl std::fmt::Write) {
    let sign = |negative: bool| if negative { "-" } else { "" };
    let months = value.months.unsigned_abs();
    let micros = value.nanoseconds.unsigned_abs() / 1000;
    let seconds = micros / 1_000_000;
    let mut written = write!(
        out,
        "{}{}-{} {} {}{}:{}:{}",
        sign(value.months < 0),
        months / 12,
        months % 12,
        value.days,
        sign(value.nanoseconds < 0),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
    );
    if !micros.is_multiple_of(1_000_000) {
        written = written.and_then(|()| write!(out, ".{:06}", micros % 1_000_000));
    }
    written.expect("there is room for an interval");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn civil_times_are_packed_as_documented() {
        // 12:34:56.789012
        let micros = ((12 * 60 + 34) * 60 + 56) * 1_000_000 + 789_012;
        assert_eq!(
            packed_time(micros),
            0xC_0000_0000 | 34 << 26 | 56 << 20 | 789_012
        );
        assert_eq!(packed_time(0), 0);
        assert_eq!(
            packed_time(DAY_MICROS - 1),
            23 << 32 | 59 << 26 | 59 << 20 | 999_999
        );
        assert_eq!(packed_datetime(0), 1970 << 46 | 1 << 42 | 1 << 37);
        assert_eq!(
            packed_datetime(*MICROS.start()),
            1 << 46 | 1 << 42 | 1 << 37
        );
        assert_eq!(
            packed_datetime(*MICROS.end()),
            9999 << 46 | 12 << 42 | 31 << 37 | 23 << 32 | 59 << 26 | 59 << 20 | 999_999
        );
        // 2024-02-29 12:34:56.789012
        let day = 19_782;
        assert_eq!(
            packed_datetime(day * DAY_MICROS + micros),
            2024 << 46 | 2 << 42 | 29 << 37 | packed_time(micros)
        );
    }

    #[test]
    fn civil_dates_are_those_of_the_calendar() {
        for days in (-719_162..=2_932_896).step_by(97) {
            let date = chrono::NaiveDate::from_epoch_days(days).unwrap();
            let expected = date.format("%Y-%m-%d").to_string();
            let (year, month, day) = civil_date(days.into());
            assert_eq!(format!("{year:04}-{month:02}-{day:02}"), expected);
        }
    }

    #[test]
    fn intervals_are_written_and_read() {
        for (value, text) in [
            ((0, 0, 0), "0-0 0 0:0:0"),
            ((14, 3, 14_706_789_000_000), "1-2 3 4:5:6.789000"),
            ((-3, 0, 0), "-0-3 0 0:0:0"),
            ((-12, -1, -1000), "-1-0 -1 -0:0:0.000001"),
            (
                (0, 0, i64::MIN / 1000 * 1000),
                "0-0 0 -2562047:47:16.854775",
            ),
        ] {
            let value = IntervalMonthDayNano::new(value.0, value.1, value.2);
            let mut written = String::new();
            write_interval(value, &mut written);
            assert_eq!(written, text);
            assert_eq!(parsed_interval(text), Some(value), "{text}");
        }
        for text in [
            "",
            "1-2",
            "1-2 3",
            "1-2 3 4:5",
            "1-2 3 4:5:6.0000001",
            "a-b c d:e:f",
        ] {
            assert_eq!(parsed_interval(text), None, "{text}");
        }
    }
}
