//! The label on a table whose reconciliation has begun and has not ended.
//!
//! A reconciliation of several steps can be interrupted between them, and then the table
//! is neither as it was nor as it was to be. So the label is there before the first step
//! and goes after the last one. Its value says what the steps lead to, as far as the
//! table itself does not, so that a later write can complete them.

use std::time::Duration;

use crate::client::rest::model::Table;
use crate::options::Staleness;

/// The name of the label.
pub(crate) const PENDING_LABEL: &str = "datafusion_bigquery_cdc_pending";

const PREFIX: &str = "max_staleness_";

/// A label's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    value: String,
    /// Where the steps lead to; None where another program has written the value.
    staleness: Option<Staleness>,
}

impl Mark {
    /// A new mark of one writer, which no other has.
    pub(super) fn new(staleness: Staleness) -> Self {
        let told = match staleness {
            Staleness::Unmanaged => "unmanaged".to_string(),
            Staleness::None => "none".to_string(),
            Staleness::AtMost(most) => format!("{}s", most.as_secs()),
        };
        Self {
            value: format!("{PREFIX}{told}_{:08x}", rand::random::<u32>()),
            staleness: Some(staleness),
        }
    }

    /// That of a table, if it has one.
    pub(super) fn of(table: &Table) -> Option<Self> {
        let value = table.labels.get(PENDING_LABEL)?;
        let told = value
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.rsplit_once('_'))
            .map(|(told, _)| told);
        let staleness = told.and_then(|told| match told {
            "unmanaged" => Some(Staleness::Unmanaged),
            "none" => Some(Staleness::None),
            told => {
                let seconds = told.strip_suffix('s')?.parse().ok()?;
                Some(Staleness::AtMost(Duration::from_secs(seconds)))
            }
        });
        Some(Self {
            value: value.clone(),
            staleness,
        })
    }

    /// The label's value.
    pub(super) fn value(&self) -> &str {
        &self.value
    }

    /// The staleness that the steps lead to, if that can be read.
    pub(super) fn staleness(&self) -> Option<Staleness> {
        self.staleness
    }

    /// Whether the steps lead there.
    pub(super) fn leads_to(&self, staleness: Staleness) -> bool {
        self.staleness == Some(staleness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TableSchema;

    fn marked(value: &str) -> Option<Mark> {
        let reference = "p.d.t".parse().unwrap();
        let mut table = Table::planned(reference, TableSchema { fields: Vec::new() });
        table.labels.insert(PENDING_LABEL.into(), value.into());
        Mark::of(&table)
    }

    #[test]
    fn what_a_mark_says_is_read_again() {
        for staleness in [
            Staleness::Unmanaged,
            Staleness::None,
            Staleness::AtMost(Duration::from_secs(600)),
            Staleness::AtMost(Duration::from_secs(u64::MAX)),
        ] {
            let mark = Mark::new(staleness);
            assert!(mark.leads_to(staleness));
            assert_eq!(marked(mark.value()), Some(mark.clone()));
            // What the service takes as the value of a label.
            assert!(mark.value().len() <= 63, "{}", mark.value());
            let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(mark.value().chars().all(allowed), "{}", mark.value());
        }
        assert_ne!(Mark::new(Staleness::None), Mark::new(Staleness::None));
    }

    #[test]
    fn what_another_wrote_leads_nowhere() {
        for value in [
            "",
            "true",
            "max_staleness_600s",
            "max_staleness_-1s_ab",
            "max_staleness_x_ab",
        ] {
            assert_eq!(marked(value).unwrap().staleness(), None, "{value}");
        }
        let table = Table::planned("p.d.t".parse().unwrap(), TableSchema { fields: Vec::new() });
        assert_eq!(Mark::of(&table), None);
    }
}
