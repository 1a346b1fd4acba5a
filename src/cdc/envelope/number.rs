//! Numbers of JSON as they are written.

/// A number: its digits, without zeros at either end, times ten to the power of its
/// exponent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Number {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Number {
    /// Reads the text of a number; None when it is none.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (rest, 0),
        };
        let (whole, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{behind}");
        if whole.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let shifted = exponent.checked_sub(i64::try_from(behind.len()).ok()?)?;
        let digits = all.trim_start_matches('0');
        let kept = digits.trim_end_matches('0');
        if kept.is_empty() {
            return Some(Self {
                negative: false,
                digits: String::new(),
                exponent: 0,
            });
        }
        let zeros = i64::try_from(digits.len() - kept.len()).ok()?;
        Some(Self {
            negative,
            digits: kept.to_string(),
            exponent: shifted.checked_add(zeros)?,
        })
    }

    /// Its text without an exponent, if it has at most so many digits before and behind
    /// the point.
    pub(super) fn plain(&self, before: i64, behind: i64) -> Option<String> {
        let count = i64::try_from(self.digits.len()).ok()?;
        if count.checked_add(self.exponent)? > before || self.exponent.checked_neg()? > behind {
            return None;
        }
        let sign = if self.negative { "-" } else { "" };
        Some(match usize::try_from(self.exponent) {
            Ok(zeros) if self.digits.is_empty() => "0".repeat(zeros + 1),
            Ok(zeros) => format!("{sign}{}{}", self.digits, "0".repeat(zeros)),
            Err(_) => {
                let places = usize::try_from(self.exponent.unsigned_abs()).ok()?;
                let padded = format!("{:0>width$}", self.digits, width = places + 1);
                let (whole, behind) = padded.split_at(padded.len() - places);
                format!("{sign}{whole}.{behind}")
            }
        })
    }

    /// Whether the nearest number of 64 bits with a floating point is written alike.
    pub(super) fn survives_f64(&self, text: &str) -> bool {
        let Ok(nearest) = text.parse::<f64>() else {
            return false;
        };
        nearest.is_finite() && Self::read(&format!("{nearest:e}")).as_ref() == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str, before: i64, behind: i64) -> Option<String> {
        Number::read(text).unwrap().plain(before, behind)
    }

    #[test]
    fn numbers_are_the_same_however_they_are_written() {
        for (one, other) in [
            ("10.50", "1.05E+1"),
            ("-0.0", "0"),
            ("1200", "1.2e3"),
            ("0.00120", "12e-4"),
        ] {
            assert_eq!(Number::read(one), Number::read(other), "{one} {other}");
        }
        for text in ["", "-", "x", "1x", "NaN", "1e", ".5", "--1", "1.2.3"] {
            assert_eq!(Number::read(text), None, "{text}");
        }
    }

    #[test]
    fn digits_that_do_not_fit_are_seen() {
        let long = "12345678901234567890.12";
        assert_eq!(plain(long, 29, 9).as_deref(), Some(long));
        assert_eq!(plain("-1.5e2", 3, 0).as_deref(), Some("-150"));
        assert_eq!(plain("12e-4", 0, 4).as_deref(), Some("0.0012"));
        assert_eq!(plain("0.000", 0, 0).as_deref(), Some("0"));
        assert_eq!(plain("1.50", 1, 1).as_deref(), Some("1.5"));
        assert_eq!(plain("1.55", 1, 1), None);
        assert_eq!(plain("100", 2, 9), None);
        assert_eq!(plain("1e999999999", 38, 9), None);
        assert_eq!(plain("1e-999999999", 38, 9), None);
    }

    #[test]
    fn what_floating_points_lose_is_seen() {
        let survives = |text: &str| Number::read(text).unwrap().survives_f64(text);
        for text in ["0.1", "10.50", "-2.5e-3", "9007199254740992", "1e300", "5"] {
            assert!(survives(text), "{text}");
        }
        for text in [
            "9007199254740993",
            "18446744073709551615",
            "12345678901234567890.12",
            "0.12345678901234567",
            "1e400",
        ] {
            assert!(!survives(text), "{text}");
        }
    }
}
