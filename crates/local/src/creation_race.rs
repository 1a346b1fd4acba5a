//! What those hear who make a table at the same time as somebody else.
//!
//! Measured on the service: of 16 concurrent tables.insert of one table one succeeded,
//! five were refused with `rateLimitExceeded`, and the others with `duplicate`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Reason, ServiceError};
use crate::store::{Table, TableRef, micros_now};

/// Of those who come too late every so many-th is refused for its haste, from the first
/// on,
const EVERY: u64 = 3;

/// as long as they are no more than were measured.
const MEASURED: u64 = 15;

/// Who came too late so far, for each table.
#[derive(Debug, Default)]
pub(crate) struct CreationRaces(Mutex<BTreeMap<TableRef, u64>>);

impl CreationRaces {
    /// The error of one who wants to make `table`, which exists. `race` is how long after
    /// its creation others are taken to have come at the same time.
    pub(crate) fn lost(&self, table: &Table, reference: &TableRef, race: Duration) -> ServiceError {
        let age = micros_now().saturating_sub(table.created());
        let race = i64::try_from(race.as_micros()).unwrap_or(i64::MAX);
        if age < race {
            let mut losers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let before = losers.entry(reference.clone()).or_default();
            let hasty = *before < MEASURED && before.is_multiple_of(EVERY);
            *before += 1;
            if hasty {
                return ServiceError::new(
                    Reason::RateLimitExceeded,
                    "Exceeded rate limits: too many table update operations for this table",
                );
            }
        }
        ServiceError::duplicate(format_args!("Table {reference}"))
    }
}
