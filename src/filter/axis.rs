//! Comparisons as thresholds on the column's own grid.
//!
//! The values of an INT64, NUMERIC, DATE, TIME, DATETIME or TIMESTAMP column lie
//! on a grid of whole units (1, 10⁻⁹, a day, a microsecond). DataFusion compares
//! some function `f` of the column with a literal `c`: a cast to another unit, a
//! cast to a date, `date_trunc`. All of these are non-decreasing, and for such
//! an `f` two thresholds say everything about `f(x)` against `c`:
//!
//! - `lower`, the least grid point with `f(x) >= c`;
//! - `upper`, the least grid point with `f(x) > c`.
//!
//! `f(x) = c` is `lower <= x < upper`, and so on for the other comparisons. A
//! literal between two grid points, such as nanoseconds against microseconds,
//! gives `lower = upper`: no value equals it, and the order comparisons are
//! still exact.

use datafusion::arrow::datatypes::{DataType, TimeUnit, i256};
use datafusion::common::ScalarValue;

use super::literal::{BIGNUMERIC_SCALE, DAY_MICROS, Literal, MAX_DATE, MIN_DATE, NUMERIC_SCALE};
use super::predicate::{Step, Unit};
use super::print::civil;
use crate::types::{FieldType, TimestampDigits};

const NANOS_PER_DAY: i64 = DAY_MICROS * 1_000;

/// A grid that values lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Integer,
    /// Units of 10 to the minus this.
    Decimal(i8),
    Date,
    /// Milliseconds of whole days.
    DateMillis,
    /// A point in time, in units of this many nanoseconds. Whether it is an
    /// instant or a civil time does not show in the numbers as long as every
    /// zone on the way is UTC.
    Point(i64),
    /// A time of day in units of this many nanoseconds.
    TimeOfDay(i64),
}

/// A pair of thresholds on the column's grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// The least point that is not below the literal.
    pub(crate) lower: i256,
    /// The least point that is above the literal.
    pub(crate) upper: i256,
}

impl Thresholds {
    /// The one point that equals the literal, if there is exactly one.
    pub(crate) fn point(&self) -> Option<i256> {
        (self.upper.wrapping_sub(self.lower) == i256::ONE).then_some(self.lower)
    }
}

impl Axis {
    /// The grid of a column's values as they are read; none for types that are
    /// not numbers in disguise.
    pub(crate) fn of(field_type: &FieldType) -> Option<Self> {
        Some(match field_type {
            FieldType::Int64 => Self::Integer,
            FieldType::Numeric(parameters) => Self::Decimal(scale(parameters, NUMERIC_SCALE)?),
            FieldType::BigNumeric(parameters) => {
                Self::Decimal(scale(parameters, BIGNUMERIC_SCALE)?)
            }
            FieldType::Date => Self::Date,
            FieldType::DateTime | FieldType::Timestamp(TimestampDigits::Six) => Self::Point(1_000),
            FieldType::Time => Self::TimeOfDay(1_000),
            // The service compares all twelve digits, the engine those it read.
            FieldType::Timestamp(TimestampDigits::Twelve) => return None,
            FieldType::Float64
            | FieldType::Bool
            | FieldType::String
            | FieldType::Bytes
            | FieldType::Geography
            | FieldType::Json
            | FieldType::Interval
            | FieldType::Range(_)
            | FieldType::Struct(_)
            | FieldType::Unsupported(_) => return None,
        })
    }

    /// Where the literal lies on this grid.
    fn locate(self, literal: &ScalarValue) -> Option<Thresholds> {
        let whole = |value: i256| Thresholds {
            lower: value,
            upper: value.wrapping_add(i256::ONE),
        };
        let integer = |value: i128| Some(whole(i256::from_i128(value)));
        match (self, literal) {
            (Self::Integer | Self::Decimal(_), literal) => {
                let (value, from) = number(literal)?;
                let to = match self {
                    Self::Decimal(scale) => i32::from(scale),
                    _ => 0,
                };
                match to - i32::from(from) {
                    finer @ 0.. => {
                        let factor = ten_to(finer.unsigned_abs())?;
                        Some(whole(value.checked_mul(factor)?))
                    }
                    coarser => Some(between(value, ten_to(coarser.unsigned_abs())?)),
                }
            }
            (Self::Date, ScalarValue::Date32(Some(days))) => integer((*days).into()),
            (Self::Date, ScalarValue::Date64(Some(millis))) => {
                Some(between(i256::from(*millis), i256::from(86_400_000_i64)))
            }
            (Self::DateMillis, ScalarValue::Date64(Some(millis))) => integer((*millis).into()),
            (Self::Point(unit), literal) => {
                let (value, nanos) = point(literal)?;
                scaled(value, nanos, unit)
            }
            (Self::TimeOfDay(unit), literal) => {
                let (value, nanos) = match literal {
                    ScalarValue::Time32Second(Some(value)) => (i64::from(*value), 1_000_000_000),
                    ScalarValue::Time32Millisecond(Some(value)) => (i64::from(*value), 1_000_000),
                    ScalarValue::Time64Microsecond(Some(value)) => (*value, 1_000),
                    ScalarValue::Time64Nanosecond(Some(value)) => (*value, 1),
                    _ => return None,
                };
                scaled(value, nanos, unit)
            }
            (Self::Date | Self::DateMillis, _) => None,
        }
    }

    /// The grid after a step from this one, and how thresholds there map back.
    fn after(self, step: &Step) -> Option<(Self, Back)> {
        let target = match step {
            Step::Cast(target) | Step::TryCast(target) => target,
            Step::Truncate(unit) => {
                return match self {
                    Self::Point(nanos) => Some((self, Back::Truncated(*unit, nanos))),
                    _ => None,
                };
            }
            Step::Year => {
                let per_day = match self {
                    Self::Date => 1,
                    Self::Point(nanos) => NANOS_PER_DAY / nanos,
                    _ => return None,
                };
                return Some((Self::Integer, Back::FirstOfYear(i256::from(per_day))));
            }
        };
        let exact = |axis, factor: i64| Some((axis, Back::Multiplied(i256::from(factor))));
        match (self, target) {
            (
                Self::Integer,
                DataType::Int64 | DataType::Int32 | DataType::Int16 | DataType::Int8,
            ) => exact(Self::Integer, 1),
            (Self::Integer, target) => {
                let to = decimal_scale(target)?;
                let factor = ten_to(u32::try_from(to).ok()?)?;
                Some((Self::Decimal(to), Back::Multiplied(factor)))
            }
            (Self::Decimal(from), target) => {
                let to = decimal_scale(target)?;
                // Fewer digits would round.
                let factor = ten_to(u32::try_from(i32::from(to) - i32::from(from)).ok()?)?;
                Some((Self::Decimal(to), Back::Multiplied(factor)))
            }
            (Self::Date, DataType::Date32) => exact(Self::Date, 1),
            (Self::Date, DataType::Date64) => exact(Self::DateMillis, 86_400_000),
            (Self::Date, DataType::Timestamp(unit, zone)) if is_utc(zone.as_deref()) => {
                let nanos = nanos_per(unit);
                exact(Self::Point(nanos), NANOS_PER_DAY / nanos)
            }
            (Self::Point(from), DataType::Timestamp(unit, zone)) if is_utc(zone.as_deref()) => {
                let to = nanos_per(unit);
                match from >= to {
                    true => exact(Self::Point(to), from / to),
                    false => Some((Self::Point(to), Back::DividedToZero(i256::from(to / from)))),
                }
            }
            (Self::Point(from), DataType::Date32) => {
                let per_day = i256::from(NANOS_PER_DAY / from);
                Some((Self::Date, Back::DividedDown(per_day)))
            }
            (Self::TimeOfDay(from), DataType::Time64(unit)) => {
                let to = nanos_per(unit);
                match from >= to {
                    true => exact(Self::TimeOfDay(to), from / to),
                    false => None,
                }
            }
            _ => None,
        }
    }
}

/// The thresholds of `literal` on a column's grid, seen through `steps`.
pub(crate) fn thresholds(
    field_type: &FieldType,
    steps: &[Step],
    literal: &ScalarValue,
) -> Option<Thresholds> {
    let mut axis = Axis::of(field_type)?;
    let mut backs = Vec::new();
    for step in steps {
        let (next, back) = axis.after(step)?;
        backs.push(back);
        axis = next;
    }
    let mut thresholds = axis.locate(literal)?;
    for back in backs.iter().rev() {
        thresholds = Thresholds {
            lower: back.apply(thresholds.lower)?,
            upper: back.apply(thresholds.upper)?,
        };
    }
    Some(thresholds)
}

/// The literal of a column's type at a grid point, if the type reaches it.
pub(crate) fn literal_at(field_type: &FieldType, point: i256) -> Option<Literal> {
    let small = || point.to_i128().and_then(|value| i64::try_from(value).ok());
    match field_type {
        FieldType::Int64 => Some(Literal::int64(small()?)),
        FieldType::Date => Literal::date(small()?),
        FieldType::Time => Literal::time(small()?),
        FieldType::DateTime => Literal::datetime(small()?),
        FieldType::Timestamp(_) => Literal::timestamp(small()?),
        FieldType::Numeric(parameters) => {
            let scale = scale(parameters, NUMERIC_SCALE)?;
            let factor = ten_to(u32::try_from(NUMERIC_SCALE - scale).ok()?)?;
            Literal::numeric(point.checked_mul(factor)?)
        }
        FieldType::BigNumeric(parameters) => {
            let scale = scale(parameters, BIGNUMERIC_SCALE)?;
            let factor = ten_to(u32::try_from(BIGNUMERIC_SCALE - scale).ok()?)?;
            Some(Literal::bignumeric(point.checked_mul(factor)?))
        }
        _ => None,
    }
}

/// How a threshold behind a step becomes one before it: the least point that
/// the step takes to the threshold or beyond.
#[derive(Debug, Clone, Copy)]
enum Back {
    /// The step multiplies.
    Multiplied(i256),
    /// The step divides and rounds down.
    DividedDown(i256),
    /// The step divides and rounds towards zero.
    DividedToZero(i256),
    /// The step truncates points of this many nanoseconds.
    Truncated(Unit, i64),
    /// The step gives the year of points of which a day has this many.
    FirstOfYear(i256),
}

impl Back {
    fn apply(self, threshold: i256) -> Option<i256> {
        match self {
            Self::Multiplied(factor) => Some(ceil_div(threshold, factor)),
            Self::DividedDown(factor) => threshold.checked_mul(factor),
            Self::DividedToZero(factor) if threshold.is_positive() => threshold.checked_mul(factor),
            // Everything above the previous multiple rounds up to this one.
            Self::DividedToZero(factor) => threshold
                .checked_sub(i256::ONE)?
                .checked_mul(factor)?
                .checked_add(i256::ONE),
            Self::Truncated(unit, nanos) => ceil_to(unit, nanos, threshold),
            Self::FirstOfYear(per_day) => {
                let year = i64::try_from(threshold.to_i128()?).ok()?;
                // One beyond the calendar, so that bounds at its ends can be said.
                (1..=10_000)
                    .contains(&year)
                    .then(|| i256::from(days_of(year, 1)).checked_mul(per_day))?
            }
        }
    }
}

/// The first beginning of a `unit` at or after `point`.
fn ceil_to(unit: Unit, nanos: i64, point: i256) -> Option<i256> {
    let day = i256::from(NANOS_PER_DAY / nanos);
    let multiple_of = |length: i256, origin: i256| {
        let shifted = point.checked_sub(origin)?;
        ceil_div(shifted, length)
            .checked_mul(length)?
            .checked_add(origin)
    };
    let length = |length: i64| {
        // A grid coarser than the unit is already truncated to it.
        multiple_of(i256::from((length / nanos).max(1)), i256::ZERO)
    };
    let seconds = |count: i64| length(count * 1_000_000_000);
    let months = match unit {
        Unit::Microsecond => return length(1_000),
        Unit::Millisecond => return length(1_000_000),
        Unit::Second => return seconds(1),
        Unit::Minute => return seconds(60),
        Unit::Hour => return seconds(3_600),
        Unit::Day => return seconds(86_400),
        // 1970-01-05 was a Monday.
        Unit::Week => {
            let week = day.checked_mul(i256::from(7_i64))?;
            return multiple_of(week, day.checked_mul(i256::from(4_i64))?);
        }
        Unit::Month => 1,
        Unit::Quarter => 3,
        Unit::Year => 12,
    };
    let days = i64::try_from(ceil_div(point, day).to_i128()?).ok()?;
    if !(i64::from(MIN_DATE)..=i64::from(MAX_DATE)).contains(&days) {
        return None;
    }
    let (year, month, day_of_month) = civil(days);
    let begun = (year * 12 + month - 1).div_euclid(months) * months;
    let at_start = begun == year * 12 + month - 1 && day_of_month == 1;
    let start = match at_start {
        true => days,
        false => {
            let next = begun + months;
            days_of(next.div_euclid(12), next.rem_euclid(12) + 1)
        }
    };
    i256::from(start).checked_mul(day)
}

/// Days from 1970-01-01 to the first of a month.
fn days_of(year: i64, month: i64) -> i64 {
    // Years that begin in March end with the leap day.
    let (year, month_from_march) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let before_year = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    before_year + (153 * month_from_march + 2) / 5 - 719_468
}

fn scale(parameters: &Option<crate::types::DecimalParameters>, default: i8) -> Option<i8> {
    match parameters {
        Some(parameters) => i8::try_from(parameters.scale)
            .ok()
            .filter(|scale| (0..=default).contains(scale)),
        None => Some(default),
    }
}

fn decimal_scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => (*scale >= 0).then_some(*scale),
        _ => None,
    }
}

/// A number and the digits behind its point.
fn number(literal: &ScalarValue) -> Option<(i256, i8)> {
    let integer = |value: i128| Some((i256::from_i128(value), 0));
    match literal {
        ScalarValue::Int8(Some(value)) => integer((*value).into()),
        ScalarValue::Int16(Some(value)) => integer((*value).into()),
        ScalarValue::Int32(Some(value)) => integer((*value).into()),
        ScalarValue::Int64(Some(value)) => integer((*value).into()),
        ScalarValue::UInt8(Some(value)) => integer((*value).into()),
        ScalarValue::UInt16(Some(value)) => integer((*value).into()),
        ScalarValue::UInt32(Some(value)) => integer((*value).into()),
        ScalarValue::UInt64(Some(value)) => integer((*value).into()),
        ScalarValue::Decimal32(Some(value), _, scale) => {
            Some((i256::from_i128((*value).into()), *scale))
        }
        ScalarValue::Decimal64(Some(value), _, scale) => {
            Some((i256::from_i128((*value).into()), *scale))
        }
        ScalarValue::Decimal128(Some(value), _, scale) => Some((i256::from_i128(*value), *scale)),
        ScalarValue::Decimal256(Some(value), _, scale) => Some((*value, *scale)),
        _ => None,
    }
}

/// A point in time and the nanoseconds of its unit.
fn point(literal: &ScalarValue) -> Option<(i64, i64)> {
    let (value, nanos, zone) = match literal {
        ScalarValue::TimestampSecond(Some(value), zone) => (value, 1_000_000_000, zone),
        ScalarValue::TimestampMillisecond(Some(value), zone) => (value, 1_000_000, zone),
        ScalarValue::TimestampMicrosecond(Some(value), zone) => (value, 1_000, zone),
        ScalarValue::TimestampNanosecond(Some(value), zone) => (value, 1, zone),
        _ => return None,
    };
    is_utc(zone.as_deref()).then_some((*value, nanos))
}

/// Zones in which a civil time and its instant have the same number.
fn is_utc(zone: Option<&str>) -> bool {
    match zone {
        None => true,
        Some(zone) => matches!(
            zone,
            "UTC" | "utc" | "Z" | "+00:00" | "+00" | "+0000" | "Etc/UTC"
        ),
    }
}

fn nanos_per(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// A value in units of `nanos` on a grid of `unit` nanoseconds.
fn scaled(value: i64, nanos: i64, unit: i64) -> Option<Thresholds> {
    let value = i256::from(value).checked_mul(i256::from(nanos))?;
    Some(between(value, i256::from(unit)))
}

/// Where `value / divisor` lies among the whole numbers.
fn between(value: i256, divisor: i256) -> Thresholds {
    let lower = ceil_div(value, divisor);
    let on_grid = lower.wrapping_mul(divisor) == value;
    Thresholds {
        lower,
        upper: match on_grid {
            true => lower.wrapping_add(i256::ONE),
            false => lower,
        },
    }
}

/// Rounds up; `divisor` is positive.
fn ceil_div(value: i256, divisor: i256) -> i256 {
    let quotient = value.wrapping_div(divisor);
    let remainder = value.wrapping_rem(divisor);
    match remainder.is_positive() {
        true => quotient.wrapping_add(i256::ONE),
        false => quotient,
    }
}

pub(crate) fn ten_to(exponent: u32) -> Option<i256> {
    i256::from(10_i64).checked_pow(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{Datelike, NaiveDate};

    #[test]
    fn months_begin_where_the_calendar_says() {
        for year in [1, 4, 100, 400, 1969, 1970, 2000, 2023, 2024, 9999] {
            for month in 1..=12 {
                let expected = NaiveDate::from_ymd_opt(year, month, 1)
                    .unwrap()
                    .num_days_from_ce()
                    - 719_163;
                assert_eq!(days_of(year.into(), month.into()), i64::from(expected));
            }
        }
    }

    #[test]
    fn division_rounds_up() {
        let ceil = |a: i64, b: i64| ceil_div(i256::from(a), i256::from(b));
        assert_eq!(ceil(7, 3), i256::from(3_i64));
        assert_eq!(ceil(6, 3), i256::from(2_i64));
        assert_eq!(ceil(-7, 3), i256::from(-2_i64));
        assert_eq!(ceil(-6, 3), i256::from(-2_i64));
        assert_eq!(ceil(0, 3), i256::ZERO);
    }

    /// Thresholds against a search over the grid points around the literal.
    #[test]
    fn thresholds_are_the_least_points() {
        let micros = |value| i256::from(value);
        let hour = 3_600_000_000_i64;
        let truncate = |value: i64| value - value.rem_euclid(hour);
        for literal in [-2 * hour, -hour - 1, -1, 0, 1, hour, hour + 5] {
            let found = thresholds(
                &FieldType::DateTime,
                &[Step::Truncate(Unit::Hour)],
                &ScalarValue::TimestampMicrosecond(Some(literal), None),
            )
            .unwrap();
            let boundaries = (-4..=4).map(|n| n * hour);
            let lower = boundaries
                .clone()
                .find(|x| truncate(*x) >= literal)
                .unwrap();
            let upper = boundaries.clone().find(|x| truncate(*x) > literal).unwrap();
            assert_eq!((found.lower, found.upper), (micros(lower), micros(upper)));
        }
    }

    #[test]
    fn seconds_round_towards_zero() {
        let cast = |micros: i64| micros / 1_000_000;
        for literal in -3..=3_i64 {
            let found = thresholds(
                &FieldType::DateTime,
                &[Step::Cast(DataType::Timestamp(TimeUnit::Second, None))],
                &ScalarValue::TimestampSecond(Some(literal), None),
            )
            .unwrap();
            for (threshold, reached) in [
                (
                    found.lower,
                    Box::new(|x| cast(x) >= literal) as Box<dyn Fn(i64) -> bool>,
                ),
                (found.upper, Box::new(|x| cast(x) > literal)),
            ] {
                let threshold = i64::try_from(threshold.to_i128().unwrap()).unwrap();
                assert!(reached(threshold), "{literal} {threshold}");
                assert!(!reached(threshold - 1), "{literal} {threshold}");
            }
        }
    }
}
