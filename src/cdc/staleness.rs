//! How far queries of a table may be behind its changes: what the service shows of it,
//! and how it is set.

use std::time::Duration;

use crate::options::Staleness;
use crate::types::TableRef;

/// The statement that gives a table this staleness, if it is to be given one.
pub(crate) fn statement(table: &TableRef, wanted: Staleness) -> Option<String> {
    let value = match wanted {
        Staleness::Unmanaged => return None,
        Staleness::None => "NULL".to_string(),
        Staleness::AtMost(most) => {
            let seconds = most.as_secs();
            format!(
                "INTERVAL '{}:{}:{}' HOUR TO SECOND",
                seconds / 3600,
                seconds / 60 % 60,
                seconds % 60
            )
        }
    };
    Some(format!(
        "ALTER TABLE {} SET OPTIONS (max_staleness = {value})",
        quoted(table)
    ))
}

/// Whether a table has the staleness that is wanted. `shown` is its option as
/// `INFORMATION_SCHEMA.TABLE_OPTIONS` has it: nothing where it was never set, and zero
/// where it was taken away.
pub(crate) fn is(wanted: Staleness, shown: Option<&str>) -> bool {
    match wanted {
        Staleness::Unmanaged => true,
        Staleness::None => shown.is_none_or(|text| seconds(text) == Some(0)),
        Staleness::AtMost(most) => shown.and_then(seconds) == Some(most.as_secs()),
    }
}

/// What is wanted, in words.
pub(crate) fn words(wanted: Staleness) -> String {
    match wanted {
        Staleness::Unmanaged | Staleness::None => "none".to_string(),
        Staleness::AtMost(most) => format!("{} s", most.as_secs()),
    }
}

/// The seconds of an interval such as `0-0 0 0:10:0`, if it has neither months nor
/// fractions.
fn seconds(text: &str) -> Option<u64> {
    let mut parts = text.split_whitespace();
    let (months, days, clock) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || months != "0-0" {
        return None;
    }
    let mut total = days.parse::<u64>().ok()?.checked_mul(24)?;
    let clock: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = clock.as_slice() else {
        return None;
    };
    total = total.checked_add(hours.parse().ok()?)?;
    for (part, size) in [(minutes, 60), (seconds, 60)] {
        total = total.checked_mul(size)?.checked_add(part.parse().ok()?)?;
    }
    Some(Duration::from_secs(total).as_secs())
}

/// A table's name as GoogleSQL has it.
pub(crate) fn quoted(table: &TableRef) -> String {
    format!(
        "{}.{}.{}",
        in_backquotes(&table.project),
        in_backquotes(&table.dataset),
        in_backquotes(&table.table)
    )
}

/// A name in back-quotes, in which GoogleSQL reads escapes as in strings.
pub(crate) fn in_backquotes(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_most(seconds: u64) -> Staleness {
        Staleness::AtMost(Duration::from_secs(seconds))
    }

    #[test]
    fn what_is_set_is_found_again() {
        let table: TableRef = "my-project.d.t".parse().unwrap();
        assert_eq!(
            statement(&table, at_most(600)).unwrap(),
            "ALTER TABLE `my-project`.`d`.`t` SET OPTIONS (max_staleness = INTERVAL '0:10:0' HOUR \
             TO SECOND)"
        );
        assert!(
            statement(&table, Staleness::None)
                .unwrap()
                .contains("= NULL)")
        );
        assert_eq!(statement(&table, Staleness::Unmanaged), None);

        assert!(is(at_most(600), Some("0-0 0 0:10:0")));
        assert!(is(at_most(90_061), Some("0-0 1 1:1:1")));
        assert!(!is(at_most(600), Some("0-0 0 0:10:0.5")));
        assert!(!is(at_most(600), Some("0-1 0 0:10:0")));
        assert!(!is(at_most(600), Some("0-0 0 0:0:0")));
        assert!(!is(at_most(600), None));
        assert!(is(Staleness::None, None));
        assert!(is(Staleness::None, Some("0-0 0 0:0:0")));
        assert!(!is(Staleness::None, Some("0-0 0 0:0:1")));
        assert!(!is(Staleness::None, Some("nonsense")));
        assert!(is(Staleness::Unmanaged, Some("0-0 0 0:10:0")));
    }
}
