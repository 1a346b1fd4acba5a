//! DATE, TIME and DATETIME: civil time without a zone.
//!
//! A date is days since 1970-01-01, a time is microseconds since midnight, a
//! datetime is microseconds since 1970-01-01T00:00:00 on a clock without zone.

use std::fmt::Write;

use super::error::ValueError;

/// 0001-01-01.
pub const MIN_DATE: i32 = -719_162;
/// 9999-12-31.
pub const MAX_DATE: i32 = 2_932_896;
/// 0001-01-01 00:00:00, of DATETIME and TIMESTAMP.
pub const MIN_MICROS: i64 = -62_135_596_800_000_000;
/// 9999-12-31 23:59:59.999999, of DATETIME and TIMESTAMP.
pub const MAX_MICROS: i64 = 253_402_300_799_999_999;
/// One day.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// Days since the epoch of a proleptic Gregorian date, `None` when there is no
/// such day in the years 1 to 9999.
pub fn date_from_ymd(year: i32, month: u32, day: u32) -> Option<i32> {
    if !(1..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || day < 1
        || day > days_in_month(year, month)
    {
        return None;
    }
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * i32::try_from(m).ok()? + 2) / 5 + i32::try_from(day).ok()? - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Year, month and day of days since the epoch.
pub fn ymd_from_date(days: i32) -> (i32, u32, u32) {
    let z = i64::from(days) + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (
        i32::try_from(year).expect("32-bit days span fewer than 12 million years"),
        u32::try_from(month).expect("a month is 1 to 12"),
        u32::try_from(day).expect("a day is 1 to 31"),
    )
}

/// 28 to 31.
pub fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Reads `YYYY-[M]M-[D]D`.
pub fn parse_date(text: &str) -> Result<i32, ValueError> {
    let mut scan = Scan::new(text.trim_matches(is_space));
    scan.date('-')
        .filter(|_| scan.is_done())
        .ok_or_else(|| ValueError::new(format!("Invalid date: '{text}'")))
}

/// Reads `[H]H:[M]M:[S]S[.DDDDDD]`.
pub fn parse_time(text: &str) -> Result<i64, ValueError> {
    let mut scan = Scan::new(text.trim_matches(is_space));
    scan.time(Seconds::Needed)
        .filter(|_| scan.is_done())
        .ok_or_else(|| ValueError::new(format!("Invalid time string \"{text}\"")))
}

/// Reads `YYYY-[M]M-[D]D[( |T)[H]H:[M]M[:[S]S[.DDDDDD]]]`.
pub fn parse_datetime(text: &str) -> Result<i64, ValueError> {
    let mut scan = Scan::new(text.trim_matches(is_space));
    scan.datetime('-')
        .filter(|_| scan.is_done())
        .ok_or_else(|| ValueError::new(format!("Invalid datetime string \"{text}\"")))
}

/// Writes `YYYY-MM-DD`.
pub fn write_date(days: i32, out: &mut String) {
    let (year, month, day) = ymd_from_date(days);
    write_padded(year.unsigned_abs(), 4, out);
    out.push('-');
    write_padded(month, 2, out);
    out.push('-');
    write_padded(day, 2, out);
}

/// Writes `HH:MM:SS`, and six fractional digits unless they are all zero.
pub fn write_time(micros: i64, out: &mut String) {
    let micros = micros.rem_euclid(DAY_MICROS);
    let seconds = u32::try_from(micros / 1_000_000).expect("a day has 86,400 seconds");
    write_padded(seconds / 3600, 2, out);
    out.push(':');
    write_padded(seconds / 60 % 60, 2, out);
    out.push(':');
    write_padded(seconds % 60, 2, out);
    let fraction = u32::try_from(micros % 1_000_000).expect("below a million");
    if fraction != 0 {
        out.push('.');
        write_padded(fraction, 6, out);
    }
}

/// Writes a date, `separator` and a time.
pub fn write_datetime(micros: i64, separator: char, out: &mut String) {
    write_date(days_of(micros), out);
    out.push(separator);
    write_time(micros, out);
}

/// The day that an instant of a zoneless clock falls on.
pub fn days_of(micros: i64) -> i32 {
    i32::try_from(micros.div_euclid(DAY_MICROS)).expect("64-bit microseconds span 32-bit days")
}

pub(super) fn write_padded(value: u32, width: usize, out: &mut String) {
    write!(out, "{value:0width$}").expect("writing to a String does not fail");
}

pub(super) fn is_space(c: char) -> bool {
    c.is_ascii_whitespace()
}

/// Whether a time may end after its hours or minutes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seconds {
    Needed,
    Optional,
}

/// A cursor over text. Every reader returns `None` for what is malformed.
pub(super) struct Scan<'a> {
    rest: &'a str,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    pub(super) fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.as_bytes().first().copied()
    }

    /// Steps over one ASCII character, if it is next.
    pub(super) fn eat(&mut self, c: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(c)?;
        Some(())
    }

    /// Between `min` and `max` decimal digits.
    pub(super) fn digits(&mut self, min: usize, max: usize) -> Option<&'a str> {
        let n = self
            .rest
            .bytes()
            .take(max + 1)
            .take_while(u8::is_ascii_digit)
            .count();
        if n < min || n > max {
            return None;
        }
        let (digits, rest) = self.rest.split_at(n);
        self.rest = rest;
        Some(digits)
    }

    pub(super) fn number(&mut self, min: usize, max: usize) -> Option<u32> {
        self.digits(min, max)?.parse().ok()
    }

    pub(super) fn date(&mut self, separator: char) -> Option<i32> {
        let year = self.number(4, 4)?;
        self.eat(separator)?;
        let month = self.number(1, 2)?;
        self.eat(separator)?;
        let day = self.number(1, 2)?;
        date_from_ymd(i32::try_from(year).ok()?, month, day)
    }

    pub(super) fn time(&mut self, seconds: Seconds) -> Option<i64> {
        let hour = self.number(1, 2)?;
        let mut minute = 0;
        let mut second = 0;
        let mut micros = 0;
        if seconds == Seconds::Needed || self.peek() == Some(b':') {
            self.eat(':')?;
            minute = self.number(1, 2)?;
            if seconds == Seconds::Needed || self.peek() == Some(b':') {
                self.eat(':')?;
                second = self.number(1, 2)?;
                if self.eat('.').is_some() {
                    micros = self.fraction()?;
                }
            }
        }
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        Some(i64::from(hour * 3600 + minute * 60 + second) * 1_000_000 + micros)
    }

    /// Up to six fractional digits as microseconds.
    fn fraction(&mut self) -> Option<i64> {
        let digits = self.digits(0, 6)?;
        let scale = 10_i64.pow(6 - u32::try_from(digits.len()).ok()?);
        if digits.is_empty() {
            return Some(0);
        }
        Some(digits.parse::<i64>().ok()? * scale)
    }

    /// A date with or without a time.
    pub(super) fn datetime(&mut self, separator: char) -> Option<i64> {
        let midnight = i64::from(self.date(separator)?) * DAY_MICROS;
        match self.peek() {
            Some(b'T' | b't') => self.rest = &self.rest[1..],
            Some(b' ') if self.rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) => {
                self.rest = &self.rest[1..];
            }
            _ => return Some(midnight),
        }
        Some(midnight + self.time(Seconds::Optional)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(days: i32) -> String {
        let mut s = String::new();
        write_date(days, &mut s);
        s
    }

    fn time(micros: i64) -> String {
        let mut s = String::new();
        write_time(micros, &mut s);
        s
    }

    #[test]
    fn every_day_reads_back() {
        let mut previous = MIN_DATE - 1;
        for days in MIN_DATE..=MAX_DATE {
            let (y, m, d) = ymd_from_date(days);
            assert_eq!(date_from_ymd(y, m, d), Some(days));
            assert_eq!(days, previous + 1);
            previous = days;
        }
        assert_eq!(date(MIN_DATE), "0001-01-01");
        assert_eq!(date(MAX_DATE), "9999-12-31");
        assert_eq!(date(0), "1970-01-01");
    }

    #[test]
    fn dates() {
        assert_eq!(parse_date("2024-02-29"), Ok(19782));
        assert_eq!(parse_date("2024-2-9"), Ok(19762));
        for bad in [
            "2023-02-29",
            "2024/01/02",
            "24-01-02",
            "2024-13-01",
            "2024-01-00",
            "0000-01-01",
            "2024-01-02x",
            "",
            "2024-01-02 03:04:05",
            "20240-01-01",
        ] {
            assert!(parse_date(bad).is_err(), "{bad}");
        }
        assert_eq!(
            parse_date("2024/01/02").unwrap_err().message(),
            "Invalid date: '2024/01/02'"
        );
    }

    #[test]
    fn times() {
        assert_eq!(parse_time("04:05:06.5"), Ok(14_706_500_000));
        assert_eq!(time(14_706_500_000), "04:05:06.500000");
        assert_eq!(
            time(parse_time("23:59:59.999999").unwrap()),
            "23:59:59.999999"
        );
        assert_eq!(time(parse_time("1:2:3").unwrap()), "01:02:03");
        for bad in [
            "24:00:00",
            "1:60:0",
            "1:2",
            "1:2:60",
            "01:02:03.1234567",
            "01:02:03Z",
        ] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn datetimes() {
        let text = |micros| {
            let mut s = String::new();
            write_datetime(micros, 'T', &mut s);
            s
        };
        for (from, to) in [
            ("9999-12-31 23:59:59.999999", "9999-12-31T23:59:59.999999"),
            ("0001-01-01T00:00:00", "0001-01-01T00:00:00"),
            ("2024-01-02", "2024-01-02T00:00:00"),
            ("2024-01-02t3:4", "2024-01-02T03:04:00"),
            ("2024-01-02 3", "2024-01-02T03:00:00"),
            ("1969-12-31 23:59:59.000001", "1969-12-31T23:59:59.000001"),
        ] {
            assert_eq!(text(parse_datetime(from).unwrap()), to);
        }
        for bad in [
            "2024-01-02T",
            "2024-01-02 ",
            "2024-01-02 25:00:00",
            "2024-01-02 03:04:05Z",
        ] {
            assert!(
                parse_datetime(bad.trim_start()).is_err() || bad.ends_with(' '),
                "{bad}"
            );
        }
        assert_eq!(parse_datetime("9999-12-31 23:59:59.999999"), Ok(MAX_MICROS));
        assert_eq!(parse_datetime("0001-01-01"), Ok(MIN_MICROS));
    }
}
