//! PARSE_NUMERIC and PARSE_BIGNUMERIC.

use num_bigint::BigInt;

use super::decimal::{self, DecimalKind};
use super::value::{Answer, fail};

/// PARSE_NUMERIC reads more than CAST: groups of digits, and a sign after spaces
/// or behind the number.
pub(crate) fn parse_decimal(input: &str, kind: DecimalKind) -> Answer {
    let compact: String = input.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let (body, trailing_minus) = match compact.strip_suffix('-') {
        Some(body) => (body, true),
        None => (compact.strip_suffix('+').unwrap_or(&compact), false),
    };
    let signed_twice = body.len() < compact.len() && body.starts_with(['+', '-']);
    let spaced_digits = input
        .trim()
        .trim_start_matches(['+', '-'])
        .trim()
        .trim_end_matches(['+', '-'])
        .trim()
        .contains(|c: char| c.is_ascii_whitespace());
    let whole = body.split('.').next().unwrap_or_default();
    let comma_after_point = body.split_once('.').is_some_and(|(_, f)| f.contains(','));
    let digits: String = body.chars().filter(|c| *c != ',').collect();
    let parsed: Option<BigInt> =
        if signed_twice || spaced_digits || comma_after_point || whole.starts_with(',') {
            None
        } else {
            decimal::parse(&digits, kind.scale())
        };
    match parsed
        .map(|u| if trailing_minus { -u } else { u })
        .and_then(|u| kind.value(&u))
    {
        Some(v) => Ok(v),
        None => fail(format!(
            "Invalid input to PARSE_{}: \"{input}\"",
            kind.sql_name()
        )),
    }
}
