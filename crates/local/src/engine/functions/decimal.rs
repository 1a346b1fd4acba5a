//! NUMERIC and BIGNUMERIC: text, rounding and exact arithmetic.
//!
//! A decimal is an integer of units 10^-scale. Results that have more digits than
//! the scale are rounded half away from zero; results beyond the range fail.

use arrow::datatypes::i256;
use num_bigint::{BigInt, Sign};

use super::value::{Value, fail};
use crate::error::Result;

/// NUMERIC or BIGNUMERIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecimalKind {
    /// Scale 9, 38 digits.
    Numeric,
    /// Scale 38, 256 bits.
    BigNumeric,
}

impl DecimalKind {
    /// Fractional digits.
    pub(crate) fn scale(self) -> u32 {
        match self {
            DecimalKind::Numeric => 9,
            DecimalKind::BigNumeric => 38,
        }
    }

    /// The type's name.
    pub(crate) fn sql_name(self) -> &'static str {
        match self {
            DecimalKind::Numeric => "NUMERIC",
            DecimalKind::BigNumeric => "BIGNUMERIC",
        }
    }

    /// The units of a value of this kind.
    pub(crate) fn units(self, value: &Value<'_>) -> Result<BigInt> {
        match self {
            DecimalKind::Numeric => value.numeric().map(BigInt::from),
            DecimalKind::BigNumeric => value.bignumeric().map(to_big),
        }
    }

    /// The value of `units`, `None` when it is out of range.
    pub(crate) fn value(self, units: &BigInt) -> Option<Value<'static>> {
        match self {
            DecimalKind::Numeric => {
                let v = i128::try_from(units).ok()?;
                (v.unsigned_abs() < 10u128.pow(38)).then_some(Value::Numeric(v))
            }
            DecimalKind::BigNumeric => from_big(units).map(Value::BigNumeric),
        }
    }

    /// The value of `units`, or the error that `what` overflowed.
    pub(crate) fn checked(
        self,
        units: &BigInt,
        what: impl FnOnce() -> String,
    ) -> Result<Value<'static>> {
        match self.value(units) {
            Some(value) => Ok(value),
            None => fail(format!(
                "{} overflow: {}",
                self.sql_name().to_ascii_lowercase(),
                what()
            )),
        }
    }
}

/// A 256-bit integer as a [`BigInt`].
pub(crate) fn to_big(v: i256) -> BigInt {
    BigInt::from_signed_bytes_le(&v.to_le_bytes())
}

/// A [`BigInt`] as a 256-bit integer, if it fits.
pub(crate) fn from_big(v: &BigInt) -> Option<i256> {
    let bytes = v.to_signed_bytes_le();
    if bytes.len() > 32 {
        return None;
    }
    let mut out = [if v.sign() == Sign::Minus { 0xff } else { 0 }; 32];
    out[..bytes.len()].copy_from_slice(&bytes);
    Some(i256::from_le_bytes(out))
}

/// 10^n.
pub(crate) fn ten(n: u32) -> BigInt {
    BigInt::from(10u8).pow(n)
}

/// `a / b`, rounded half away from zero; `b` is not zero.
pub(crate) fn divide_rounded(a: &BigInt, b: &BigInt) -> BigInt {
    let quotient = a / b;
    let remainder = a % b;
    if remainder.magnitude() * 2u8 >= *b.magnitude() {
        if (a.sign() == Sign::Minus) == (b.sign() == Sign::Minus) {
            quotient + 1
        } else {
            quotient - 1
        }
    } else {
        quotient
    }
}

/// Changes the scale of `units`, rounding half away from zero.
pub(crate) fn rescale(units: &BigInt, from: u32, to: u32) -> BigInt {
    if to >= from {
        units * ten(to - from)
    } else {
        divide_rounded(units, &ten(from - to))
    }
}

/// The decimal text of `units` at `scale`, without trailing zeros.
pub(crate) fn to_text(units: &BigInt, scale: u32) -> String {
    let negative = units.sign() == Sign::Minus;
    let digits = units.magnitude().to_string();
    let scale = scale as usize;
    let digits = if digits.len() <= scale {
        format!("{}{digits}", "0".repeat(scale + 1 - digits.len()))
    } else {
        digits
    };
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let fraction = fraction.trim_end_matches('0');
    let sign = if negative { "-" } else { "" };
    if fraction.is_empty() {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

/// The text of a NUMERIC or BIGNUMERIC value.
pub(crate) fn value_text(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Numeric(v) => Some(to_text(&BigInt::from(*v), 9)),
        Value::BigNumeric(v) => Some(to_text(&to_big(*v), 38)),
        _ => None,
    }
}

/// The units of decimal text: sign, digits with an optional point, optional
/// exponent, spaces around. `None` when it is not a number; digits beyond the
/// scale are rounded.
pub(crate) fn parse(text: &str, scale: u32) -> Option<BigInt> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], parse_exponent(&rest[at + 1..])?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    if !whole
        .bytes()
        .chain(fraction.bytes())
        .all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let mut digits = format!("{whole}{fraction}");
    let trimmed = digits.trim_start_matches('0');
    if trimmed.is_empty() {
        return Some(BigInt::ZERO);
    }
    digits = trimmed.to_string();
    let shift = exponent - fraction.len() as i64 + i64::from(scale);
    // Nothing beyond this is representable, and powers of ten stay small.
    if shift + digits.len() as i64 > 400 {
        return Some(if negative { -ten(400) } else { ten(400) });
    }
    if shift + (digits.len() as i64) < -1 {
        return Some(BigInt::ZERO);
    }
    let magnitude: BigInt = digits.parse().ok()?;
    let units = if shift >= 0 {
        magnitude * ten(u32::try_from(shift).ok()?)
    } else {
        divide_rounded(&magnitude, &ten(u32::try_from(-shift).ok()?))
    };
    Some(if negative { -units } else { units })
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let magnitude: i64 = digits.parse().unwrap_or(100_000).min(100_000);
    Some(if text.starts_with('-') {
        -magnitude
    } else {
        magnitude
    })
}

/// The units nearest to a finite double, half away from zero. The double's exact
/// binary value counts.
pub(crate) fn from_float(value: f64, scale: u32) -> BigInt {
    let bits = value.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i64;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) = if exponent == 0 {
        (fraction, -1074)
    } else {
        (fraction | (1 << 52), exponent - 1075)
    };
    let scaled = BigInt::from(mantissa) * ten(scale);
    let units = if exponent >= 0 {
        scaled << exponent as u64
    } else {
        divide_rounded(&scaled, &(BigInt::from(1u8) << exponent.unsigned_abs()))
    };
    if value.is_sign_negative() {
        -units
    } else {
        units
    }
}

/// The double nearest to `units` at `scale`.
pub(crate) fn to_float(units: &BigInt, scale: u32) -> f64 {
    // Rust's parser rounds decimal text correctly.
    to_text(units, scale).parse().unwrap_or(f64::NAN)
}

/// Rounds `units` at `scale` to `digits` fractional digits (negative: to the left
/// of the point) half away from zero.
pub(crate) fn round(units: &BigInt, scale: u32, digits: i64) -> BigInt {
    match drop_digits(scale, digits) {
        None => units.clone(),
        Some(drop) => {
            let unit = ten(drop);
            divide_rounded(units, &unit) * unit
        }
    }
}

/// Cuts `units` at `scale` to `digits` fractional digits, towards zero.
pub(crate) fn truncate(units: &BigInt, scale: u32, digits: i64) -> BigInt {
    match drop_digits(scale, digits) {
        None => units.clone(),
        Some(drop) => {
            let unit = ten(drop);
            units / &unit * unit
        }
    }
}

fn drop_digits(scale: u32, digits: i64) -> Option<u32> {
    let drop = i64::from(scale).saturating_sub(digits);
    (drop > 0).then(|| u32::try_from(drop.min(200)).unwrap_or(200))
}

/// The largest multiple of 10^scale that is not above `units`.
pub(crate) fn floor(units: &BigInt, scale: u32) -> BigInt {
    let unit = ten(scale);
    let cut = units / &unit * &unit;
    if cut > *units { cut - unit } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_units() {
        let p = |s: &str| parse(s, 9).map(|u| to_text(&u, 9));
        assert_eq!(p("1.50").as_deref(), Some("1.5"));
        assert_eq!(p("-.5").as_deref(), Some("-0.5"));
        assert_eq!(p(" 12e-3 ").as_deref(), Some("0.012"));
        assert_eq!(p("0.0000000005").as_deref(), Some("0.000000001"));
        assert_eq!(p("-0.0000000005").as_deref(), Some("-0.000000001"));
        assert_eq!(p("1e-400").as_deref(), Some("0"));
        assert_eq!(p("1e5").as_deref(), Some("100000"));
        for bad in ["", ".", "1.2.3", "e5", "1e", "0x10", "1 2", "--1", "NaN"] {
            assert_eq!(p(bad), None, "{bad}");
        }
        assert_eq!(DecimalKind::Numeric.value(&parse("1e30", 9).unwrap()), None);
    }

    #[test]
    fn rounding_is_half_away_from_zero() {
        let r = |s: &str, d| to_text(&round(&parse(s, 9).unwrap(), 9, d), 9);
        assert_eq!(r("2.345", 2), "2.35");
        assert_eq!(r("-2.345", 2), "-2.35");
        assert_eq!(r("15", -1), "20");
        assert_eq!(r("-2.5", 0), "-3");
        assert_eq!(r("123", -500), "0");
        assert_eq!(to_text(&floor(&parse("-1.1", 9).unwrap(), 9), 9), "-2");
    }

    #[test]
    fn doubles_convert_by_their_exact_value() {
        let f = |x: f64, scale| to_text(&from_float(x, scale), scale);
        assert_eq!(f(0.1, 9), "0.1");
        assert_eq!(f(1.0000000005, 9), "1.000000001");
        assert_eq!(f(-2.5, 0), "-3");
        assert_eq!(f(0.1, 38), "0.10000000000000000555111512312578270212");
        assert_eq!(to_float(&parse("0.1", 38).unwrap(), 38), 0.1);
    }

    #[test]
    fn the_ends_of_bignumeric_fit() {
        let max = "578960446186580977117854925043439539266.34992332820282019728792003956564819967";
        let units = parse(max, 38).unwrap();
        let value = DecimalKind::BigNumeric.value(&units).unwrap();
        assert_eq!(value_text(&value).unwrap(), max);
        assert_eq!(DecimalKind::BigNumeric.value(&(units + 1)), None);
    }
}
