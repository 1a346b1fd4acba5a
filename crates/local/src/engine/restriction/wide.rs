//! Products and quotients of scaled integers, through 512 bits, rounded half away
//! from zero.

use arrow::datatypes::i256;

/// Little-endian digits of an unsigned number.
type Wide = [u64; 8];

fn magnitude(value: i256) -> Wide {
    // |−2^255| wraps to itself, whose bits are right as an unsigned number.
    let bytes = value.wrapping_abs().to_le_bytes();
    let mut out = [0; 8];
    for (digit, chunk) in out.iter_mut().zip(bytes.chunks_exact(8)) {
        *digit = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
    }
    out
}

fn signed(value: Wide, negative: bool) -> Option<i256> {
    if value[4..].iter().any(|d| *d != 0) {
        return None;
    }
    let mut bytes = [0; 32];
    for (chunk, digit) in bytes.chunks_exact_mut(8).zip(value) {
        chunk.copy_from_slice(&digit.to_le_bytes());
    }
    let positive = i256::from_le_bytes(bytes);
    if negative {
        // −2^255 is the one value whose magnitude is not a positive i256.
        (positive >= i256::ZERO || positive == i256::MIN).then(|| positive.wrapping_neg())
    } else {
        (positive >= i256::ZERO).then_some(positive)
    }
}

fn product(a: Wide, b: Wide) -> Wide {
    let mut out = [0u64; 8];
    for i in 0..4 {
        let mut carry = 0u128;
        for j in 0..4 {
            let sum = u128::from(out[i + j]) + u128::from(a[i]) * u128::from(b[j]) + carry;
            out[i + j] = sum as u64;
            carry = sum >> 64;
        }
        out[i + 4] = carry as u64;
    }
    out
}

fn less(a: &Wide, b: &Wide) -> bool {
    a.iter().rev().lt(b.iter().rev())
}

fn subtract(a: &mut Wide, b: &Wide) {
    let mut borrow = false;
    for (x, y) in a.iter_mut().zip(b) {
        let (d, b1) = x.overflowing_sub(*y);
        let (d, b2) = d.overflowing_sub(u64::from(borrow));
        *x = d;
        borrow = b1 || b2;
    }
}

fn double(a: &mut Wide, low: u64) {
    let mut carry = low;
    for digit in a.iter_mut() {
        let next = *digit >> 63;
        *digit = (*digit << 1) | carry;
        carry = next;
    }
}

fn increment(a: &mut Wide) {
    for digit in a.iter_mut() {
        let (sum, carry) = digit.overflowing_add(1);
        *digit = sum;
        if !carry {
            return;
        }
    }
}

/// `a / b` rounded half away from zero; `b` is not zero and below 2^256.
fn quotient(a: &Wide, b: &Wide) -> Wide {
    let mut result = [0u64; 8];
    let mut remainder = [0u64; 8];
    let top = a.iter().rposition(|d| *d != 0).map_or(0, |i| (i + 1) * 64);
    for bit in (0..top).rev() {
        double(&mut remainder, (a[bit / 64] >> (bit % 64)) & 1);
        if !less(&remainder, b) {
            subtract(&mut remainder, b);
            result[bit / 64] |= 1 << (bit % 64);
        }
    }
    double(&mut remainder, 0);
    if !less(&remainder, b) {
        increment(&mut result);
    }
    result
}

fn power(scale: u32) -> Wide {
    magnitude(i256::from_i128(10_i128.pow(scale)))
}

/// The product of two numbers scaled by 10^`scale` (at most 38), scaled the same.
pub(super) fn multiply(a: i256, b: i256, scale: u32) -> Option<i256> {
    let negative = (a < i256::ZERO) != (b < i256::ZERO);
    let exact = product(magnitude(a), magnitude(b));
    signed(quotient(&exact, &power(scale)), negative)
}

/// The quotient of two numbers scaled by 10^`scale` (at most 38), scaled the same.
/// `b` is not zero.
pub(super) fn divide(a: i256, b: i256, scale: u32) -> Option<i256> {
    let negative = (a < i256::ZERO) != (b < i256::ZERO);
    let exact = product(magnitude(a), power(scale));
    signed(quotient(&exact, &magnitude(b)), negative)
}

/// `value` scaled by 10^`from` as one scaled by 10^`to`, rounded half away from
/// zero.
pub(super) fn rescale(value: i256, from: u32, to: u32) -> Option<i256> {
    if to >= from {
        return value.checked_mul(i256::from_i128(10_i128.checked_pow(to - from)?));
    }
    signed(
        quotient(&magnitude(value), &power(from - to)),
        value < i256::ZERO,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn big(v: i128) -> i256 {
        i256::from_i128(v)
    }

    #[test]
    fn rounds_half_away_from_zero() {
        assert_eq!(
            multiply(big(15), big(5), 1),
            Some(big(8)),
            "1.5 × 0.5 = 0.75"
        );
        assert_eq!(multiply(big(-15), big(5), 1), Some(big(-8)));
        assert_eq!(divide(big(10), big(30), 1), Some(big(3)), "1 / 3");
        assert_eq!(divide(big(-20), big(30), 1), Some(big(-7)), "−2 / 3");
        assert_eq!(rescale(big(25), 1, 0), Some(big(3)));
        assert_eq!(rescale(big(-25), 1, 0), Some(big(-3)));
        assert_eq!(
            rescale(big(7), 9, 38),
            Some(i256::from_string("700000000000000000000000000000").unwrap())
        );
    }

    #[test]
    fn the_ends_of_the_type() {
        let one = big(10_i128.pow(38));
        assert_eq!(multiply(i256::MIN, one, 38), Some(i256::MIN));
        assert_eq!(multiply(i256::MAX, one, 38), Some(i256::MAX));
        assert_eq!(multiply(i256::MIN, big(-10_i128.pow(38)), 38), None);
        assert_eq!(divide(i256::MIN, one, 38), Some(i256::MIN));
        assert_eq!(divide(i256::MAX, big(1), 38), None);
    }

    proptest! {
        #[test]
        fn agrees_with_128_bits(a in -1_000_000_000_000_i64..1_000_000_000_000, b in 1_i64..1_000_000_000) {
            let (a, b) = (i128::from(a), i128::from(b));
            let round = |n: i128, d: i128| {
                let (q, r) = (n.abs() / d, n.abs() % d);
                let q = if 2 * r >= d { q + 1 } else { q };
                if n < 0 { -q } else { q }
            };
            prop_assert_eq!(multiply(big(a), big(b), 9), Some(big(round(a * b, 1_000_000_000))));
            prop_assert_eq!(divide(big(a), big(b), 9), Some(big(round(a * 1_000_000_000, b))));
        }
    }
}
