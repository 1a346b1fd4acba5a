//! NUMERIC and BIGNUMERIC: scaled integers.

use std::fmt::Write;

use arrow::datatypes::i256;

use super::civil::is_space;
use super::error::ValueError;

/// What to do with fractional digits beyond the scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// Round half away from zero, as CAST does.
    Round,
    /// Round half to even (`roundingMode` ROUND_HALF_EVEN of a column).
    RoundHalfEven,
    /// Refuse unless they are zero, as literals and loads do.
    Refuse,
}

/// Fractional digits of NUMERIC.
pub const NUMERIC_SCALE: u8 = 9;
/// Digits of NUMERIC.
pub const NUMERIC_PRECISION: u8 = 38;
/// Fractional digits of BIGNUMERIC.
pub const BIGNUMERIC_SCALE: u8 = 38;
/// Digits with which [`parse_decimal`] reads a BIGNUMERIC: one more than a
/// `Decimal256` promises, because the type ends at ±2^255 / 10^38, and every
/// 256-bit integer is a BIGNUMERIC.
pub const BIGNUMERIC_PRECISION: u8 = 77;

/// Reads a NUMERIC; the result is scaled by 10^9.
pub fn parse_numeric(text: &str, excess: Excess) -> Result<i128, ValueError> {
    parse_decimal(text, NUMERIC_PRECISION, NUMERIC_SCALE, excess)
        .ok()
        .and_then(|v| v.to_i128())
        .ok_or_else(|| ValueError::new(format!("Invalid NUMERIC value: {text}")))
}

/// Reads a BIGNUMERIC; the result is scaled by 10^38 and may be any 256-bit integer.
pub fn parse_bignumeric(text: &str, excess: Excess) -> Result<i256, ValueError> {
    parse_decimal(text, BIGNUMERIC_PRECISION, BIGNUMERIC_SCALE, excess)
        .map_err(|_| ValueError::new(format!("Invalid BIGNUMERIC value: {text}")))
}

/// Reads `[+|-]digits[.digits][e[+|-]digits]` as an integer scaled by 10^`scale`
/// with at most `precision` digits (77: as many as fit 256 bits).
pub fn parse_decimal(
    text: &str,
    precision: u8,
    scale: u8,
    excess: Excess,
) -> Result<i256, ValueError> {
    let invalid = || ValueError::new(format!("Invalid numeric value: {text}"));
    let literal = Literal::read(text.trim_matches(is_space)).ok_or_else(invalid)?;
    literal.scaled(precision, scale, excess).ok_or_else(invalid)
}

/// The parts of a decimal literal: the value is ±0.`digits` × 10^`point`.
struct Literal {
    negative: bool,
    /// Significant digits as characters, without leading zeros.
    digits: Vec<u8>,
    point: i64,
}

impl Literal {
    fn read(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], exponent(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let all = whole.bytes().chain(fraction.bytes());
        if !all.clone().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let zeros = all.clone().take_while(|b| *b == b'0').count();
        let digits: Vec<u8> = all.skip(zeros).collect();
        let point = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()?;
        Some(Self {
            negative,
            digits,
            point: point.checked_add(exponent)?,
        })
    }

    fn scaled(&self, precision: u8, scale: u8, excess: Excess) -> Option<i256> {
        if self.digits.is_empty() {
            return Some(i256::ZERO);
        }
        // How many digits stand before the end of the scaled integer.
        let kept = self.point.checked_add(i64::from(scale))?;
        if kept > i64::from(BIGNUMERIC_PRECISION) {
            return None;
        }
        let available = i64::try_from(self.digits.len()).ok()?;
        let whole = usize::try_from(kept.clamp(0, available)).ok()?;
        let dropped = &self.digits[whole..];
        if excess == Excess::Refuse && dropped.iter().any(|d| *d != b'0') {
            return None;
        }
        let half = dropped.first() == Some(&b'5') && dropped[1..].iter().all(|d| *d == b'0');
        let odd = whole > 0 && self.digits[whole - 1] % 2 == 1;
        let rounds_up = kept >= 0
            && dropped.first().is_some_and(|d| *d >= b'5')
            && (excess != Excess::RoundHalfEven || !half || odd);
        // Accumulated below zero: -2^255 has no positive counterpart.
        let mut value = i256::ZERO;
        for chunk in self.digits[..whole].chunks(18) {
            value = value
                .checked_mul(power(chunk.len()))?
                .checked_sub(i256::from_i128(small(chunk)))?;
        }
        let zeros = usize::try_from(kept - available).unwrap_or(0);
        value = value.checked_mul(power(zeros))?;
        if rounds_up {
            value = value.checked_sub(i256::ONE)?;
        }
        if !self.negative {
            value = value.checked_neg()?;
        }
        (precision >= BIGNUMERIC_PRECISION || digits_at_most(value, precision)).then_some(value)
    }
}

fn exponent(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned.is_empty() || unsigned.len() > 10 || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: i64 = unsigned.parse().ok()?;
    Some(if text.starts_with('-') { -value } else { value })
}

fn small(digits: &[u8]) -> i128 {
    digits
        .iter()
        .fold(0, |value, d| value * 10 + i128::from(d - b'0'))
}

fn power(exponent: usize) -> i256 {
    let ten = |n: u32| i256::from_i128(10_i128.pow(n));
    let mut rest = u32::try_from(exponent).unwrap_or(u32::MAX);
    let mut value = i256::ONE;
    while rest > 0 {
        let step = rest.min(38);
        value = value.wrapping_mul(ten(step));
        rest -= step;
    }
    value
}

/// An integer that is scaled by 10^`from`, scaled by 10^`to`; `None` when it does not
/// fit 256 bits, or has digits that `excess` refuses.
pub fn rescaled(value: i256, from: u8, to: u8, excess: Excess) -> Option<i256> {
    if to >= from {
        return value.checked_mul(power(usize::from((to - from).min(76))));
    }
    let unit = power(usize::from((from - to).min(76)));
    let (whole, rest) = (value.checked_div(unit)?, value.checked_rem(unit)?);
    let doubled = rest.checked_abs()?.checked_mul(i256::from_i128(2));
    let order = doubled.map_or(std::cmp::Ordering::Greater, |doubled| doubled.cmp(&unit));
    let odd = whole.checked_rem(i256::from_i128(2))? != i256::ZERO;
    let away = match (excess, order) {
        (Excess::Refuse, _) => return (rest == i256::ZERO).then_some(whole),
        (_, std::cmp::Ordering::Greater) => true,
        (_, std::cmp::Ordering::Less) => false,
        (Excess::RoundHalfEven, std::cmp::Ordering::Equal) => odd,
        (Excess::Round, std::cmp::Ordering::Equal) => true,
    };
    match (away, value < i256::ZERO) {
        (false, _) => Some(whole),
        (true, false) => whole.checked_add(i256::ONE),
        (true, true) => whole.checked_sub(i256::ONE),
    }
}

/// Whether a scaled integer has at most `precision` digits (below 77).
pub fn digits_at_most(value: i256, precision: u8) -> bool {
    let bound = power(usize::from(precision.min(76)));
    value < bound && value > -bound
}

/// Writes a scaled integer without trailing fractional zeros: `123.45`, `-0.001`, `7`.
pub fn write_decimal128(value: i128, scale: i8, out: &mut String) {
    if value < 0 {
        out.push('-');
    }
    let scale = u32::try_from(scale).unwrap_or(0);
    match 10_u128.checked_pow(scale) {
        Some(unit) => {
            let magnitude = value.unsigned_abs();
            write!(out, "{}", magnitude / unit).expect("writing to a String does not fail");
            let fraction = magnitude % unit;
            if fraction != 0 {
                let width = usize::try_from(scale).expect("a scale fits");
                let digits = format!("{fraction:0width$}");
                out.push('.');
                out.push_str(digits.trim_end_matches('0'));
            }
        }
        None => write_digits(&value.unsigned_abs().to_string(), scale, out),
    }
}

/// Writes a scaled 256-bit integer without trailing fractional zeros.
pub fn write_decimal256(value: i256, scale: i8, out: &mut String) {
    if let Some(small) = value.to_i128().filter(|_| scale < 38) {
        return write_decimal128(small, scale, out);
    }
    let text = value.to_string();
    let digits = match text.strip_prefix('-') {
        Some(digits) => {
            out.push('-');
            digits
        }
        None => &text,
    };
    write_digits(digits, u32::try_from(scale).unwrap_or(0), out);
}

fn write_digits(digits: &str, scale: u32, out: &mut String) {
    let scale = usize::try_from(scale).expect("a scale fits");
    let padded = if digits.len() <= scale {
        format!("{digits:0>width$}", width = scale + 1)
    } else {
        digits.to_string()
    };
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    out.push_str(whole);
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_scale_rounds_as_it_is_told() {
        let scaled =
            |v: i128, excess| rescaled(i256::from_i128(v), 3, 1, excess).and_then(i256::to_i128);
        for (value, half_up, half_even) in [
            (1_249, 12, 12),
            (1_250, 13, 12),
            (1_350, 14, 14),
            (-1_250, -13, -12),
            (-1_251, -13, -13),
            (49, 0, 0),
        ] {
            assert_eq!(scaled(value, Excess::Round), Some(half_up), "{value}");
            assert_eq!(
                scaled(value, Excess::RoundHalfEven),
                Some(half_even),
                "{value}"
            );
        }
        assert_eq!(scaled(1_250, Excess::Refuse), None);
        assert_eq!(scaled(1_200, Excess::Refuse), Some(12));
        let up = rescaled(i256::from_i128(-7), 0, 2, Excess::Refuse);
        assert_eq!(up.and_then(i256::to_i128), Some(-700));
        assert_eq!(rescaled(i256::MAX, 0, 1, Excess::Round), None);
    }

    fn numeric(text: &str) -> String {
        let mut s = String::new();
        write_decimal128(parse_numeric(text, Excess::Round).unwrap(), 9, &mut s);
        s
    }

    fn bignumeric(text: &str) -> String {
        let mut s = String::new();
        write_decimal256(parse_bignumeric(text, Excess::Round).unwrap(), 38, &mut s);
        s
    }

    #[test]
    fn numeric_spellings() {
        for (from, to) in [
            ("1.50", "1.5"),
            ("1e3", "1000"),
            (".5", "0.5"),
            ("5.", "5"),
            ("+7", "7"),
            (" -0.000000001 ", "-0.000000001"),
            ("0.0000000005", "0.000000001"),
            ("-0.0000000005", "-0.000000001"),
            ("0.00000000049999", "0"),
            ("-0", "0"),
            (
                "99999999999999999999999999999.999999999",
                "99999999999999999999999999999.999999999",
            ),
            (
                "-99999999999999999999999999999.999999999",
                "-99999999999999999999999999999.999999999",
            ),
            ("1234e-12", "0.000000001"),
            ("0e999999999", "0"),
            ("1e-999999999", "0"),
            ("000000000000000000000000000000000000000000000012", "12"),
        ] {
            assert_eq!(numeric(from), to, "{from}");
        }
        for bad in [
            "",
            "-",
            ".",
            "1e",
            "1e+",
            "abc",
            "1_000",
            "1.2.3",
            "99999999999999999999999999999.9999999995",
            "1e29",
            "1e999999999999",
            "0x10",
            "NaN",
            "1 2",
            "é",
        ] {
            let error = parse_numeric(bad, Excess::Round).unwrap_err();
            assert_eq!(error.message(), format!("Invalid NUMERIC value: {bad}"));
        }
        assert!(parse_numeric("1.0000000001", Excess::Refuse).is_err());
        assert_eq!(
            parse_numeric("1.0000000000", Excess::Refuse),
            Ok(1_000_000_000)
        );
    }

    #[test]
    fn bignumeric_extremes() {
        let max = "578960446186580977117854925043439539266.34992332820282019728792003956564819967";
        let min = "-578960446186580977117854925043439539266.34992332820282019728792003956564819968";
        assert_eq!(bignumeric(max), max);
        assert_eq!(bignumeric(min), min);
        assert_eq!(parse_bignumeric(max, Excess::Refuse), Ok(i256::MAX));
        assert_eq!(parse_bignumeric(min, Excess::Refuse), Ok(i256::MIN));
        for bad in [
            &min[1..],
            "578960446186580977117854925043439539266.349923328202820197287920039565648199675",
            "578960446186580977117854925043439539267",
            "1e39",
        ] {
            assert!(parse_bignumeric(bad, Excess::Round).is_err(), "{bad}");
        }
        let long = "-12345678901234567890123456789012345678.90123456789012345678901234567890123456";
        assert_eq!(bignumeric(long), long);
        assert_eq!(
            bignumeric("1e-38"),
            "0.00000000000000000000000000000000000001"
        );
        assert_eq!(bignumeric("-0.1"), "-0.1");
        assert_eq!(bignumeric("100"), "100");
    }

    #[test]
    fn parameterized() {
        let read = |text, p, s| {
            parse_decimal(text, p, s, Excess::Round)
                .ok()
                .map(|v| v.to_string())
        };
        assert_eq!(read("123.456", 5, 2).as_deref(), Some("12346"));
        assert_eq!(read("999.995", 5, 2), None);
        assert_eq!(read("-999.99", 5, 2).as_deref(), Some("-99999"));
        assert_eq!(read("1000", 5, 2), None);
        let even = |text| {
            parse_decimal(text, 5, 2, Excess::RoundHalfEven)
                .ok()
                .map(|v| v.to_string())
        };
        assert_eq!(even("0.125").as_deref(), Some("12"));
        assert_eq!(even("0.135").as_deref(), Some("14"));
        assert_eq!(even("-0.1251").as_deref(), Some("-13"));
        assert_eq!(even("0.005").as_deref(), Some("0"));
    }
}
