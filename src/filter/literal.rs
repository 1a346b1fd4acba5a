//! Values that may stand in a restriction.
//!
//! A [`Literal`] is always inside the domain of its GoogleSQL type, because
//! there is no way to make one outside it: the service refuses a restriction
//! with `DATE '10000-01-01'` in it, and a refused restriction costs a session.

use datafusion::arrow::datatypes::i256;

/// `0001-01-01` as days since 1970-01-01.
pub(crate) const MIN_DATE: i32 = -719_162;
/// `9999-12-31` as days since 1970-01-01.
pub(crate) const MAX_DATE: i32 = 2_932_896;
/// Microseconds in a day.
pub(crate) const DAY_MICROS: i64 = 86_400_000_000;
/// `0001-01-01 00:00:00` as microseconds since 1970-01-01.
pub(crate) const MIN_MICROS: i64 = MIN_DATE as i64 * DAY_MICROS;
/// `9999-12-31 23:59:59.999999` as microseconds since 1970-01-01.
pub(crate) const MAX_MICROS: i64 = (MAX_DATE as i64 + 1) * DAY_MICROS - 1;
/// Digits after the point of NUMERIC.
pub(crate) const NUMERIC_SCALE: i8 = 9;
/// Digits after the point of BIGNUMERIC.
pub(crate) const BIGNUMERIC_SCALE: i8 = 38;
/// Digits of NUMERIC, before and after the point together.
const NUMERIC_PRECISION: u32 = 38;

/// A GoogleSQL value with its type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Literal(Value);

/// The types that restrictions compare with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Int64(i64),
    /// Finite.
    Float64(f64),
    String(String),
    Bytes(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 1970-01-01 00:00:00, without a zone.
    DateTime(i64),
    /// Microseconds since 1970-01-01 00:00:00 UTC.
    Timestamp(i64),
    /// Units of 10⁻⁹.
    Numeric(i128),
    /// Units of 10⁻³⁸.
    BigNumeric(i256),
}

impl Literal {
    /// What is printed.
    pub(crate) fn value(&self) -> &Value {
        &self.0
    }

    pub(crate) fn int64(value: i64) -> Self {
        Self(Value::Int64(value))
    }

    pub(crate) fn string(value: impl Into<String>) -> Self {
        Self(Value::String(value.into()))
    }

    pub(crate) fn bytes(value: impl Into<Vec<u8>>) -> Self {
        Self(Value::Bytes(value.into()))
    }

    /// None for NaN and the infinities, which have no literal.
    pub(crate) fn float64(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self(Value::Float64(value)))
    }

    /// None outside the years 0001 to 9999.
    pub(crate) fn date(days: i64) -> Option<Self> {
        let days = i32::try_from(days).ok()?;
        (MIN_DATE..=MAX_DATE)
            .contains(&days)
            .then_some(Self(Value::Date(days)))
    }

    /// None outside one day.
    pub(crate) fn time(micros: i64) -> Option<Self> {
        (0..DAY_MICROS)
            .contains(&micros)
            .then_some(Self(Value::Time(micros)))
    }

    /// None outside the years 0001 to 9999.
    pub(crate) fn datetime(micros: i64) -> Option<Self> {
        (MIN_MICROS..=MAX_MICROS)
            .contains(&micros)
            .then_some(Self(Value::DateTime(micros)))
    }

    /// None outside the years 0001 to 9999.
    pub(crate) fn timestamp(micros: i64) -> Option<Self> {
        (MIN_MICROS..=MAX_MICROS)
            .contains(&micros)
            .then_some(Self(Value::Timestamp(micros)))
    }

    /// `units` of 10⁻⁹; None beyond 38 digits.
    pub(crate) fn numeric(units: i256) -> Option<Self> {
        let units = units.to_i128()?;
        (units.unsigned_abs() < 10u128.pow(NUMERIC_PRECISION))
            .then_some(Self(Value::Numeric(units)))
    }

    /// `units` of 10⁻³⁸. Every 256-bit value is in BIGNUMERIC's range, which is
    /// the range of a 256-bit integer of such units.
    pub(crate) fn bignumeric(units: i256) -> Self {
        Self(Value::BigNumeric(units))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u04_dates_outside_the_calendar_have_no_literal() {
        assert!(Literal::date(MIN_DATE.into()).is_some());
        assert!(Literal::date(i64::from(MIN_DATE) - 1).is_none());
        assert!(Literal::date(MAX_DATE.into()).is_some());
        assert!(Literal::date(i64::from(MAX_DATE) + 1).is_none());
        assert!(Literal::date(i64::MAX).is_none());
        assert!(Literal::timestamp(MAX_MICROS + 1).is_none());
        assert!(Literal::datetime(MIN_MICROS - 1).is_none());
        assert!(Literal::time(DAY_MICROS).is_none());
        assert_eq!(MIN_MICROS, -62_135_596_800_000_000);
        assert_eq!(MAX_MICROS, 253_402_300_799_999_999);
    }

    #[test]
    fn numbers_outside_their_type_have_no_literal() {
        assert!(Literal::float64(f64::NAN).is_none());
        assert!(Literal::float64(f64::INFINITY).is_none());
        let limit = i256::from_i128(10i128.pow(38));
        assert!(Literal::numeric(limit).is_none());
        assert!(Literal::numeric(limit.wrapping_sub(i256::ONE)).is_some());
        assert!(Literal::numeric(i256::MIN).is_none());
    }
}
