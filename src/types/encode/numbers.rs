//! Integers, floating point numbers and decimals, each exactly or not at all.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type, i256,
};

use super::faults::{Faults, Place};
use super::plan::{Decimal, WIDEST_IN_PARQUET};
use super::text::text_at;
use crate::error::{Error, ErrorKind, Result};

/// Converts each value, or notes what is wrong with it.
pub(super) fn each<I: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    array: &PrimitiveArray<I>,
    place: Place<'_>,
    faults: &mut Faults,
    convert: impl Fn(I::Native) -> Option<O::Native>,
    why: impl Fn(I::Native) -> String,
) -> PrimitiveArray<O> {
    let mut failed = false;
    let values: Vec<O::Native> = array
        .values()
        .iter()
        .map(|value| {
            convert(*value).unwrap_or_else(|| {
                failed = true;
                O::Native::default()
            })
        })
        .collect();
    // What stands where a value is NULL may be anything.
    if failed {
        for (at, value) in array.iter().enumerate() {
            if let Some(value) = value
                && convert(value).is_none()
            {
                place.fault(faults, at, || why(value));
            }
        }
    }
    PrimitiveArray::new(values.into(), array.nulls().cloned())
}

/// INT64 from integers, from decimals and floating point numbers that are whole.
pub(super) fn int64(array: &ArrayRef, place: Place<'_>, faults: &mut Faults) -> Result<ArrayRef> {
    macro_rules! from {
        ($type:ty, $convert:expr) => {{
            let array = array.as_primitive::<$type>();
            let whole: PrimitiveArray<Int64Type> = each(array, place, faults, $convert, |v| {
                format!("{v} is no whole number from -2^63 to 2^63 - 1, which is what INT64 holds")
            });
            Ok(Arc::new(whole) as ArrayRef)
        }};
    }
    let decimal = |value: i256, scale: i8| {
        rescaled(value, scale, 0)
            .and_then(i256::to_i128)
            .and_then(|value| i64::try_from(value).ok())
    };
    match *array.data_type() {
        DataType::Int64 => Ok(Arc::clone(array)),
        DataType::Int8 => from!(Int8Type, |v| Some(v.into())),
        DataType::Int16 => from!(Int16Type, |v| Some(v.into())),
        DataType::Int32 => from!(Int32Type, |v| Some(v.into())),
        DataType::UInt8 => from!(UInt8Type, |v| Some(v.into())),
        DataType::UInt16 => from!(UInt16Type, |v| Some(v.into())),
        DataType::UInt32 => from!(UInt32Type, |v| Some(v.into())),
        DataType::UInt64 => from!(UInt64Type, |v| i64::try_from(v).ok()),
        DataType::Float16 => from!(Float16Type, |v| whole(v.to_f64())),
        DataType::Float32 => from!(Float32Type, |v| whole(v.into())),
        DataType::Float64 => from!(Float64Type, whole),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => {
            let (array, scale) = wide(array)?;
            let whole: PrimitiveArray<Int64Type> = each(
                &array,
                place,
                faults,
                |v| decimal(v, scale),
                |v| {
                    format!(
                        "{} is no whole number from -2^63 to 2^63 - 1, which is what INT64 holds",
                        Digits::of(v, scale).text()
                    )
                },
            );
            Ok(Arc::new(whole))
        }
        ref other => Err(unplanned(other, "INT64")),
    }
}

/// The integer that a floating point number is.
fn whole(value: f64) -> Option<i64> {
    // From -2^63, which is a double, to below 2^63, which is one too.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (value.fract() == 0.0 && (-LIMIT..LIMIT).contains(&value)).then_some(value as i64)
}

/// FLOAT64 from floating point numbers, and from integers and decimals that a
/// double gives back.
pub(super) fn float64(array: &ArrayRef, place: Place<'_>, faults: &mut Faults) -> Result<ArrayRef> {
    macro_rules! from {
        ($type:ty, $convert:expr) => {{
            let array = array.as_primitive::<$type>();
            let floats: PrimitiveArray<Float64Type> = each(array, place, faults, $convert, |v| {
                format!("{v} has more digits than FLOAT64 keeps; round it or cast it to DOUBLE")
            });
            Ok(Arc::new(floats) as ArrayRef)
        }};
    }
    match *array.data_type() {
        DataType::Float64 => Ok(Arc::clone(array)),
        DataType::Float32 => from!(Float32Type, |v| Some(v.into())),
        DataType::Float16 => from!(Float16Type, |v| Some(v.to_f64())),
        DataType::Int8 => from!(Int8Type, |v| Some(v.into())),
        DataType::Int16 => from!(Int16Type, |v| Some(v.into())),
        DataType::Int32 => from!(Int32Type, |v| Some(v.into())),
        DataType::UInt8 => from!(UInt8Type, |v| Some(v.into())),
        DataType::UInt16 => from!(UInt16Type, |v| Some(v.into())),
        DataType::UInt32 => from!(UInt32Type, |v| Some(v.into())),
        DataType::Int64 => from!(Int64Type, |v| {
            let float = v as f64;
            // In 128 bits, because a cast to 64 would stop at the ends.
            (float as i128 == i128::from(v)).then_some(float)
        }),
        DataType::UInt64 => from!(UInt64Type, |v| {
            let float = v as f64;
            (float as i128 == i128::from(v)).then_some(float)
        }),
        DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => {
            let (array, scale) = wide(array)?;
            let floats: PrimitiveArray<Float64Type> = each(
                &array,
                place,
                faults,
                |v| float(v, scale),
                |v| {
                    format!(
                        "{} has more digits than FLOAT64 keeps; round it or cast it to DOUBLE",
                        Digits::of(v, scale).text()
                    )
                },
            );
            Ok(Arc::new(floats))
        }
        ref other => Err(unplanned(other, "FLOAT64")),
    }
}

/// The double nearest to a decimal, if its shortest text is that decimal again.
pub(super) fn float(value: i256, scale: i8) -> Option<f64> {
    let mut text = Stack::<112>::new();
    match value.to_i128() {
        Some(value) => write!(text, "{value}e{}", -i32::from(scale)).ok()?,
        None => write!(text, "{value}e{}", -i32::from(scale)).ok()?,
    }
    let float: f64 = text.as_str().parse().ok()?;
    (scaled_float(float, scale) == Some(value)).then_some(float)
}

/// NUMERIC and BIGNUMERIC.
pub(super) fn decimal(
    array: &ArrayRef,
    to: Decimal,
    place: Place<'_>,
    faults: &mut Faults,
) -> Result<ArrayRef> {
    let target = Target::of(to);
    macro_rules! integers {
        ($type:ty) => {{
            let array = array.as_primitive::<$type>();
            target.each(
                array,
                place,
                faults,
                |v| target.rescaled(v.into(), 0),
                |v| v.to_string(),
            )
        }};
    }
    macro_rules! decimals {
        ($type:ty, $scale:expr) => {{
            let (array, scale) = (array.as_primitive::<$type>(), $scale);
            target.each(
                array,
                place,
                faults,
                |v| target.rescaled(v.into(), scale),
                |v| Digits::of(i256::from_i128(v.into()), scale).text(),
            )
        }};
    }
    macro_rules! floats {
        ($type:ty) => {{
            let array = array.as_primitive::<$type>();
            target.each(
                array,
                place,
                faults,
                // The digits of the type that the value has, not of a wider one.
                |v| {
                    let value = scaled_float(v, target.form.1)?;
                    target.within(value)
                },
                |v| v.to_string(),
            )
        }};
    }
    Ok(match *array.data_type() {
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Float16 => floats!(Float16Type),
        DataType::Float32 => floats!(Float32Type),
        DataType::Float64 => floats!(Float64Type),
        DataType::Decimal32(_, scale) => decimals!(Decimal32Type, scale),
        DataType::Decimal64(_, scale) => decimals!(Decimal64Type, scale),
        DataType::Decimal128(_, scale) => {
            match target.multiplied(array.as_primitive::<Decimal128Type>(), scale) {
                Some(done) => done,
                None => decimals!(Decimal128Type, scale),
            }
        }
        DataType::Decimal256(_, scale) => target.each(
            array.as_primitive::<Decimal256Type>(),
            place,
            faults,
            |v| target.rescaled_wide(v, scale),
            |v| Digits::of(v, scale).text(),
        ),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            return target.read_text(array, place, faults);
        }
        ref other => return Err(unplanned(other, "NUMERIC")),
    })
}

/// What a decimal column takes.
#[derive(Debug, Clone, Copy)]
struct Target {
    to: Decimal,
    form: (u8, i8),
    /// One more than the greatest absolute value in the Arrow form; `None` where
    /// 256 bits are the limit.
    bound: Option<i256>,
    /// The same, where 128 bits hold it.
    narrow_bound: Option<i128>,
    /// What values in the Arrow form are multiples of.
    step: i128,
}

impl Target {
    fn of(to: Decimal) -> Self {
        let form = to.form;
        // Digits in all, counted at the scale of the Arrow form.
        let unused = form.1.cast_unsigned().saturating_sub(to.fraction);
        let bound = to
            .digits
            .and_then(|digits| ten_to(u32::from(digits) + u32::from(unused)));
        Target {
            to,
            form,
            bound,
            narrow_bound: bound.and_then(i256::to_i128),
            step: 10_i128.pow(u32::from(unused.min(38))),
        }
    }

    fn each<I: ArrowPrimitiveType>(
        &self,
        array: &PrimitiveArray<I>,
        place: Place<'_>,
        faults: &mut Faults,
        convert: impl Fn(I::Native) -> Option<i256>,
        text: impl Fn(I::Native) -> String,
    ) -> ArrayRef {
        let why = |value| self.refusal(&text(value));
        if self.to.wide {
            let done: PrimitiveArray<Decimal256Type> = each(array, place, faults, convert, why);
            Arc::new(done.with_data_type(DataType::Decimal256(self.form.0, self.form.1)))
        } else {
            let done: PrimitiveArray<Decimal128Type> = each(
                array,
                place,
                faults,
                |value| convert(value).and_then(i256::to_i128),
                why,
            );
            Arc::new(done.with_data_type(DataType::Decimal128(self.form.0, self.form.1)))
        }
    }

    /// All values in the Arrow form, if that takes no more than to multiply them by one
    /// number, and the column takes each of them. What stands under a NULL counts too.
    fn multiplied(&self, array: &PrimitiveArray<Decimal128Type>, scale: i8) -> Option<ArrayRef> {
        let shift = u32::try_from(i32::from(self.form.1) - i32::from(scale)).ok()?;
        let factor = 10_i128.checked_pow(shift)?;
        if self.to.wide || factor % self.step != 0 {
            return None;
        }
        let most = ((self.narrow_bound? - 1) / factor).unsigned_abs();
        // To the end in any case: values that are too large are rare.
        let fits = |fits: bool, value: &i128| fits & (value.unsigned_abs() <= most);
        if !array.values().iter().fold(true, fits) {
            return None;
        }
        let done: PrimitiveArray<Decimal128Type> = match factor {
            1 => array.clone(),
            _ => array.unary(|value| value * factor),
        };
        let form = DataType::Decimal128(self.form.0, self.form.1);
        Some(Arc::new(done.with_data_type(form)))
    }

    fn refusal(&self, value: &str) -> String {
        let name = if self.to.wide {
            "BIGNUMERIC"
        } else {
            "NUMERIC"
        };
        if self.to.digits == Some(WIDEST_IN_PARQUET) {
            return format!(
                "{value} does not fit a BIGNUMERIC in a Parquet file, which has 38 digits before \
                 the point and 38 behind it: round it first, or, where it has more digits before \
                 the point, write with 'sink.file_loads.staging_format' 'avro'"
            );
        }
        let takes = match self.to.digits {
            Some(digits) => format!(
                "{} digits before the point and {} behind it",
                digits.saturating_sub(self.to.fraction),
                self.to.fraction
            ),
            None => "about 5.7896e38 at most and 38 digits behind the point".to_string(),
        };
        format!("{value} does not fit the column, a {name} of {takes}; round it first")
    }

    /// `value` with `scale` fractional digits, in the Arrow form.
    #[inline]
    fn rescaled(&self, value: i128, scale: i8) -> Option<i256> {
        let shift = i32::from(self.form.1) - i32::from(scale);
        let narrow = match u32::try_from(shift) {
            Ok(0) => Some(value),
            Ok(shift @ 1..=38) => value.checked_mul(10_i128.pow(shift)),
            _ => None,
        };
        match (narrow, self.narrow_bound) {
            (Some(value), Some(bound)) => (value.checked_abs()? < bound
                && (self.step == 1 || value % self.step == 0))
                .then(|| i256::from_i128(value)),
            _ => self.rescaled_wide(i256::from_i128(value), scale),
        }
    }

    fn rescaled_wide(&self, value: i256, scale: i8) -> Option<i256> {
        self.within(rescaled(value, scale, self.form.1)?)
    }

    /// `value`, which is in the Arrow form, if the column takes it.
    fn within(&self, value: i256) -> Option<i256> {
        if let Some(bound) = self.bound
            && (value >= bound || value <= bound.wrapping_neg())
        {
            return None;
        }
        let fits = self.step == 1 || {
            let rest = value.checked_rem(i256::from_i128(self.step))?;
            rest == i256::ZERO
        };
        fits.then_some(value)
    }

    fn read_text(
        &self,
        array: &ArrayRef,
        place: Place<'_>,
        faults: &mut Faults,
    ) -> Result<ArrayRef> {
        let mut values = Vec::with_capacity(array.len());
        for at in 0..array.len() {
            let value = match text_at(array, at)? {
                None => i256::ZERO,
                Some(text) => parsed(text, self.form.1)
                    .and_then(|value| self.within(value))
                    .unwrap_or_else(|| {
                        place.fault(faults, at, || self.refusal(&format!("'{text}'")));
                        i256::ZERO
                    }),
            };
            values.push(value);
        }
        let whole = PrimitiveArray::<Decimal256Type>::new(values.into(), array.nulls().cloned());
        Ok(self.each(&whole, place, faults, Some, |_| String::new()))
    }
}

/// `value` of `scale` fractional digits with `to` of them, if none is lost.
pub(super) fn rescaled(value: i256, scale: i8, to: i8) -> Option<i256> {
    let shift = i32::from(to) - i32::from(scale);
    if value == i256::ZERO {
        return Some(value);
    }
    let factor = ten_to(shift.unsigned_abs())?;
    if shift >= 0 {
        value.checked_mul(factor)
    } else if value.checked_rem(factor)? == i256::ZERO {
        value.checked_div(factor)
    } else {
        None
    }
}

fn ten_to(digits: u32) -> Option<i256> {
    i256::from_i128(10).checked_pow(digits)
}

fn wide(array: &ArrayRef) -> Result<(PrimitiveArray<Decimal256Type>, i8)> {
    Ok(match *array.data_type() {
        DataType::Decimal32(_, scale) => (
            array
                .as_primitive::<Decimal32Type>()
                .unary(|v| i256::from_i128(v.into())),
            scale,
        ),
        DataType::Decimal64(_, scale) => (
            array
                .as_primitive::<Decimal64Type>()
                .unary(|v| i256::from_i128(v.into())),
            scale,
        ),
        DataType::Decimal128(_, scale) => (
            array
                .as_primitive::<Decimal128Type>()
                .unary(i256::from_i128),
            scale,
        ),
        DataType::Decimal256(_, scale) => (array.as_primitive::<Decimal256Type>().clone(), scale),
        ref other => return Err(unplanned(other, "a decimal")),
    })
}

/// A floating point number, by its shortest digits, as an integer of `scale`
/// fractional digits.
fn scaled_float(value: impl std::fmt::LowerExp, scale: i8) -> Option<i256> {
    let mut text = Stack::<48>::new();
    write!(text, "{value:e}").ok()?;
    parsed(text.as_str(), scale)
}

/// The decimal that `text` spells, as an integer of `scale` fractional digits.
fn parsed(text: &str, scale: i8) -> Option<i256> {
    let text = text.trim();
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.as_bytes().first()? {
        b'-' => (true, &mantissa[1..]),
        b'+' => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    // Zeros at either end say nothing, and could be many.
    let fraction = fraction.trim_end_matches('0');
    let mut value = i256::ZERO;
    for digit in whole
        .trim_start_matches('0')
        .bytes()
        .chain(fraction.bytes())
    {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i256::from_i128(i128::from(digit - b'0'));
        let tens = value.checked_mul(i256::from_i128(10))?;
        value = if negative {
            tens.checked_sub(digit)?
        } else {
            tens.checked_add(digit)?
        };
    }
    let written = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    if value == i256::ZERO {
        return Some(value);
    }
    let shift = i32::from(scale).checked_sub(written)?;
    // Trailing zeros of the integer may pay for a large scale.
    let factor = ten_to(shift.unsigned_abs())?;
    if shift >= 0 {
        value.checked_mul(factor)
    } else if value.checked_rem(factor)? == i256::ZERO {
        value.checked_div(factor)
    } else {
        None
    }
}

/// A decimal as text.
pub(super) struct Digits {
    value: i256,
    scale: i8,
}

impl Digits {
    pub(super) fn of(value: i256, scale: i8) -> Self {
        Digits { value, scale }
    }

    /// Writes the digits with a point where the scale puts it.
    pub(super) fn write(&self, out: &mut String) {
        let start = out.len();
        match self.value.to_i128() {
            Some(value) => write!(out, "{value}"),
            None => write!(out, "{}", self.value),
        }
        .expect("a string takes text");
        let Ok(fraction) = usize::try_from(self.scale) else {
            if self.value != i256::ZERO {
                out.extend((0..self.scale.unsigned_abs()).map(|_| '0'));
            }
            return;
        };
        if fraction == 0 {
            return;
        }
        let digits = start + usize::from(self.value.is_negative());
        while out.len() - digits <= fraction {
            out.insert(digits, '0');
        }
        out.insert(out.len() - fraction, '.');
    }

    fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }
}

/// Text of at most `N` bytes without an allocation.
pub(super) struct Stack<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Stack<N> {
    pub(super) fn new() -> Self {
        Stack {
            bytes: [0; N],
            len: 0,
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("only text was written")
    }
}

impl<const N: usize> std::fmt::Write for Stack<N> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// A conversion that the plan does not make.
pub(super) fn unplanned(from: &DataType, to: &str) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("no conversion of {from} to {to} was planned"),
    )
}
