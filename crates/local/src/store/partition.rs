//! Partitions by time: their starts and their ids (`20240131`, `2024013117`, …).

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike};

/// How wide a time partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granularity {
    /// `HOUR`, ids `YYYYMMDDHH`.
    Hour,
    /// `DAY`, ids `YYYYMMDD`.
    Day,
    /// `MONTH`, ids `YYYYMM`.
    Month,
    /// `YEAR`, ids `YYYY`.
    Year,
}

impl Granularity {
    /// Reads `timePartitioning.type`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_uppercase().as_str() {
            "HOUR" => Some(Self::Hour),
            "DAY" => Some(Self::Day),
            "MONTH" => Some(Self::Month),
            "YEAR" => Some(Self::Year),
            _ => None,
        }
    }

    /// The start of the partition that holds an instant, both in microseconds since
    /// the epoch, UTC.
    pub fn start_of(self, micros: i64) -> i64 {
        let Some(time) = DateTime::from_timestamp_micros(micros).map(|t| t.naive_utc()) else {
            return micros;
        };
        let date = time.date();
        let first = |month| NaiveDate::from_ymd_opt(date.year(), month, 1).unwrap_or(date);
        let start = match self {
            Self::Hour => date.and_hms_opt(time.hour(), 0, 0),
            Self::Day => date.and_hms_opt(0, 0, 0),
            Self::Month => first(date.month()).and_hms_opt(0, 0, 0),
            Self::Year => first(1).and_hms_opt(0, 0, 0),
        };
        start.map_or(micros, |s| s.and_utc().timestamp_micros())
    }

    /// The id of the partition that starts at `start` (microseconds since the epoch).
    pub fn id(self, start: i64) -> String {
        let format = match self {
            Self::Hour => "%Y%m%d%H",
            Self::Day => "%Y%m%d",
            Self::Month => "%Y%m",
            Self::Year => "%Y",
        };
        DateTime::from_timestamp_micros(start)
            .map(|t| t.format(format).to_string())
            .unwrap_or_default()
    }

    /// The start (microseconds since the epoch) of the partition called `id`, as in a
    /// decorator `table$id`; `None` when no partition of this width is called so.
    pub fn parse_id(self, id: &str) -> Option<i64> {
        let length = match self {
            Self::Hour => 10,
            Self::Day => 8,
            Self::Month => 6,
            Self::Year => 4,
        };
        if id.len() != length || !id.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let part = |from: usize, to: usize, default: u32| match id.get(from..to) {
            Some(digits) => digits.parse().ok(),
            None => Some(default),
        };
        let year = i32::try_from(part(0, 4, 0)?).ok()?;
        let date = NaiveDate::from_ymd_opt(year, part(4, 6, 1)?, part(6, 8, 1)?)?;
        let time: NaiveDateTime = date.and_hms_opt(part(8, 10, 0)?, 0, 0)?;
        Some(time.and_utc().timestamp_micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-02-29 12:34:56.789012 UTC.
    const INSTANT: i64 = 1_709_210_096_789_012;

    #[test]
    fn ids_and_starts_agree() {
        for (granularity, id) in [
            (Granularity::Hour, "2024022912"),
            (Granularity::Day, "20240229"),
            (Granularity::Month, "202402"),
            (Granularity::Year, "2024"),
        ] {
            let start = granularity.start_of(INSTANT);
            assert!(start <= INSTANT);
            assert_eq!(granularity.id(start), id);
            assert_eq!(granularity.parse_id(id), Some(start));
            assert_eq!(granularity.start_of(start), start);
        }
        assert_eq!(Granularity::Day.start_of(-1), -86_400_000_000);
    }

    #[test]
    fn other_texts_are_no_ids() {
        for bad in ["20240230", "2024", "2024022", "abcdefgh", "", "٠٠٠٠"] {
            assert_eq!(Granularity::Day.parse_id(bad), None, "{bad}");
        }
        assert_eq!(Granularity::parse("day"), Some(Granularity::Day));
        assert_eq!(Granularity::parse("WEEK"), None);
    }
}
