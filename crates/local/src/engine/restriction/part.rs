//! Parts of dates and times by name.

use std::fmt;

use super::types::Type;

/// A part of a date or time. Weeks carry the day they begin on, Sunday being 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    DayOfWeek,
    DayOfYear,
    Week(u8),
    IsoWeek,
    Month,
    Quarter,
    Year,
    IsoYear,
    Date,
    Time,
    Datetime,
}

impl Part {
    /// The part called `name` (upper case), with the weekday of `WEEK(…)`.
    pub(super) fn named(name: &str, weekday: Option<&str>) -> Option<Self> {
        if let Some(day) = weekday {
            const DAYS: [&str; 7] = [
                "SUNDAY",
                "MONDAY",
                "TUESDAY",
                "WEDNESDAY",
                "THURSDAY",
                "FRIDAY",
                "SATURDAY",
            ];
            let start = DAYS.iter().position(|d| d.eq_ignore_ascii_case(day))?;
            let start = u8::try_from(start).ok()?;
            return name
                .eq_ignore_ascii_case("WEEK")
                .then_some(Part::Week(start));
        }
        Some(match name.to_ascii_uppercase().as_str() {
            "MICROSECOND" => Part::Microsecond,
            "MILLISECOND" => Part::Millisecond,
            "SECOND" => Part::Second,
            "MINUTE" => Part::Minute,
            "HOUR" => Part::Hour,
            "DAY" => Part::Day,
            "DAYOFWEEK" => Part::DayOfWeek,
            "DAYOFYEAR" => Part::DayOfYear,
            "WEEK" => Part::Week(0),
            "ISOWEEK" => Part::IsoWeek,
            "MONTH" => Part::Month,
            "QUARTER" => Part::Quarter,
            "YEAR" => Part::Year,
            "ISOYEAR" => Part::IsoYear,
            "DATE" => Part::Date,
            "TIME" => Part::Time,
            "DATETIME" => Part::Datetime,
            _ => return None,
        })
    }

    /// The length of a part of fixed length below a day.
    pub(super) fn micros(self) -> Option<i64> {
        Some(match self {
            Part::Microsecond => 1,
            Part::Millisecond => 1_000,
            Part::Second => 1_000_000,
            Part::Minute => 60_000_000,
            Part::Hour => 3_600_000_000,
            _ => return None,
        })
    }

    /// Whether `INTERVAL n part` exists.
    pub(super) fn is_duration(self) -> bool {
        self.micros().is_some()
            || matches!(
                self,
                Part::Day | Part::Week(0) | Part::Month | Part::Quarter | Part::Year
            )
    }

    /// Whether values of `ty` have this part to be truncated to or counted in.
    pub(super) fn divides(self, ty: &Type) -> bool {
        let calendar = matches!(
            self,
            Part::Day
                | Part::Week(_)
                | Part::IsoWeek
                | Part::Month
                | Part::Quarter
                | Part::Year
                | Part::IsoYear
        );
        match ty {
            Type::Date => calendar,
            Type::Time => self.micros().is_some(),
            _ => calendar || self.micros().is_some(),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Microsecond => "MICROSECOND",
            Part::Millisecond => "MILLISECOND",
            Part::Second => "SECOND",
            Part::Minute => "MINUTE",
            Part::Hour => "HOUR",
            Part::Day => "DAY",
            Part::DayOfWeek => "DAYOFWEEK",
            Part::DayOfYear => "DAYOFYEAR",
            Part::Week(_) => "WEEK",
            Part::IsoWeek => "ISOWEEK",
            Part::Month => "MONTH",
            Part::Quarter => "QUARTER",
            Part::Year => "YEAR",
            Part::IsoYear => "ISOYEAR",
            Part::Date => "DATE",
            Part::Time => "TIME",
            Part::Datetime => "DATETIME",
        })
    }
}
