//! Arrow's decimals as a file's reader gives them → other forms of the same numbers.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Decimal256Array, PrimitiveArray, StringBuilder,
};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, i256};

use super::convert::{broken, plain};
use crate::error::Result;
use crate::value::decimal::{write_decimal128, write_decimal256};

/// Decimals with so many more digits after the point, and 38 in all; None when a value
/// has no place there.
pub(super) fn more_digits(
    decimals: &PrimitiveArray<Decimal128Type>,
    digits: u32,
    scale: i8,
) -> Option<ArrayRef> {
    let factor = 10_i128.checked_pow(digits)?;
    let most = (10_i128.pow(38) - 1) / factor;
    if digits == 0 && decimals.data_type() == &DataType::Decimal128(38, scale) {
        let mut present = decimals.iter().flatten();
        let fits = present.all(|value| (-most..=most).contains(&value));
        return fits.then(|| Arc::new(decimals.clone()) as ArrayRef);
    }
    let moved = decimals.try_unary::<_, Decimal128Type, ()>(|value| {
        if (-most..=most).contains(&value) {
            Ok(value * factor)
        } else {
            Err(())
        }
    });
    let moved = moved.ok()?.with_precision_and_scale(38, scale).ok()?;
    Some(Arc::new(moved))
}

/// Big-endian two's complement bytes as decimals of an Arrow type that has all of them.
/// They can be decimals already.
pub(super) fn decimals(array: &ArrayRef, scale: u8, path: &str) -> Result<ArrayRef> {
    if array.data_type().is_decimal() {
        return Ok(Arc::clone(array));
    }
    let bytes = plain(array, path)?;
    let DataType::Binary = bytes.data_type() else {
        return Err(broken(path, "decimals are not bytes"));
    };
    let bytes = bytes.as_binary::<i32>();
    let scale = i8::try_from(scale).map_err(|e| broken(path, e))?;
    // The precisions are promises about digits that nothing here relies on.
    let narrow: Option<Vec<Option<i128>>> = bytes
        .iter()
        .map(|value| value.map_or(Some(None), |value| big_endian_narrow(value).map(Some)))
        .collect();
    if let Some(narrow) = narrow
        && scale <= 38
    {
        return Decimal128Array::from(narrow)
            .with_precision_and_scale(38, scale)
            .map(|d| Arc::new(d) as ArrayRef)
            .map_err(|e| broken(path, e));
    }
    let mut values: Vec<Option<i256>> = Vec::with_capacity(bytes.len());
    for value in bytes {
        values.push(match value {
            None => None,
            Some(value) => {
                Some(big_endian(value).ok_or_else(|| {
                    broken(path, format_args!("a decimal of {} bytes", value.len()))
                })?)
            }
        });
    }
    let decimals: Decimal256Array = values.into_iter().collect();
    decimals
        .with_precision_and_scale(76, scale)
        .map(|d| Arc::new(d) as ArrayRef)
        .map_err(|e| broken(path, e))
}

/// A number of at most 16 bytes.
pub(super) fn big_endian_narrow(bytes: &[u8]) -> Option<i128> {
    let negative = bytes.first()? & 0x80 != 0;
    let mut wide = [if negative { 0xff } else { 0 }; 16];
    wide.get_mut(16_usize.checked_sub(bytes.len())?..)?
        .copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

fn big_endian(bytes: &[u8]) -> Option<i256> {
    let negative = bytes.first()? & 0x80 != 0;
    let fill = if negative { 0xff } else { 0 };
    let mut wide = [fill; 32];
    let (extra, kept) = bytes.split_at(bytes.len().saturating_sub(32));
    if extra.iter().any(|b| *b != fill) {
        return None;
    }
    wide[32 - kept.len()..].copy_from_slice(kept);
    // What was cut off must not have changed the sign.
    ((wide[0] & 0x80 != 0) == negative).then(|| i256::from_be_bytes(wide))
}

/// What decimals look like as text.
pub(super) fn decimal_texts(array: &ArrayRef, path: &str) -> Result<ArrayRef> {
    let mut out = StringBuilder::new();
    let mut text = String::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            out.append_null();
            continue;
        }
        text.clear();
        match array.data_type() {
            DataType::Decimal128(_, scale) => {
                let value = array.as_primitive::<Decimal128Type>().value(row);
                write_decimal128(value, *scale, &mut text);
            }
            DataType::Decimal256(_, scale) => {
                let value = array.as_primitive::<Decimal256Type>().value(row);
                write_decimal256(value, *scale, &mut text);
            }
            other => return Err(broken(path, format_args!("{other} is no decimal"))),
        }
        out.append_value(&text);
    }
    Ok(Arc::new(out.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_big_endian() {
        assert_eq!(big_endian_narrow(&[0xff]), Some(-1));
        assert_eq!(big_endian_narrow(&[1, 0]), Some(256));
        assert_eq!(big_endian_narrow(&[0xff; 16]), Some(-1));
        assert_eq!(big_endian_narrow(&[0; 17]), None);
        assert_eq!(big_endian_narrow(&[]), None);
        assert_eq!(big_endian(&[0xff]), Some(i256::MINUS_ONE));
        assert_eq!(big_endian(&[1, 0]), Some(i256::from_i128(256)));
        assert_eq!(big_endian(&[0; 40]), Some(i256::ZERO));
        assert_eq!(big_endian(&[1; 33]), None);
        assert_eq!(big_endian(&[]), None);
    }
}
