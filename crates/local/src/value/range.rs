//! RANGE: `[start, end)` over DATE, DATETIME or TIMESTAMP.

use super::civil::{is_space, parse_date, parse_datetime};
use super::error::ValueError;
use super::timestamp::{Zone, parse_timestamp};
use crate::schema::RangeElement;

/// The bounds of a range in its element's unit (days, or microseconds); `None`
/// is unbounded.
pub type Bounds = (Option<i64>, Option<i64>);

/// Reads `[a, b)`; `UNBOUNDED` or `NULL` leaves an end open.
pub fn parse_range(text: &str, element: RangeElement) -> Result<Bounds, ValueError> {
    let invalid = || ValueError::new(format!("Invalid range value: '{text}'"));
    let inner = text
        .trim_matches(is_space)
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(')'))
        .ok_or_else(invalid)?;
    let (start, end) = inner.split_once(',').ok_or_else(invalid)?;
    checked(
        parse_bound(start.trim_matches(is_space), element)?,
        parse_bound(end.trim_matches(is_space), element)?,
    )
}

/// Reads one bound.
pub fn parse_bound(text: &str, element: RangeElement) -> Result<Option<i64>, ValueError> {
    if text.eq_ignore_ascii_case("unbounded") || text.eq_ignore_ascii_case("null") {
        return Ok(None);
    }
    match element {
        RangeElement::Date => parse_date(text).map(i64::from),
        RangeElement::Datetime => parse_datetime(text),
        RangeElement::Timestamp => parse_timestamp(text, Zone::UTC),
    }
    .map(Some)
}

/// The bounds, if the start is before the end.
pub fn checked(start: Option<i64>, end: Option<i64>) -> Result<Bounds, ValueError> {
    match (start, end) {
        (Some(a), Some(b)) if a >= b => Err(ValueError::new(
            "Range start element must be less than range end element",
        )),
        bounds => Ok(bounds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let read = |text| parse_range(text, RangeElement::Date);
        assert_eq!(read("[2024-01-01, UNBOUNDED)"), Ok((Some(19723), None)));
        assert_eq!(read("[unbounded,2024-01-02)"), Ok((None, Some(19724))));
        assert_eq!(read("[NULL, NULL)"), Ok((None, None)));
        assert_eq!(
            parse_range(
                "[1970-01-01 00:00:01, 1970-01-01T00:00:02)",
                RangeElement::Datetime
            ),
            Ok((Some(1_000_000), Some(2_000_000)))
        );
        assert_eq!(
            parse_range(
                "[1970-01-01 00:00:01+01, UNBOUNDED)",
                RangeElement::Timestamp
            ),
            Ok((Some(-3_599_000_000), None))
        );
        for bad in [
            "",
            "[2024-01-01, 2024-01-02]",
            "2024-01-01, 2024-01-02",
            "[2024-01-01)",
            "[2024-01-02, 2024-01-01)",
            "[2024-01-01, 2024-01-01)",
            "[x, y)",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
