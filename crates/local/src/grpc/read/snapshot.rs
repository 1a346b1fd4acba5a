//! `snapshot_time`: which version of a table a session reads.

use tonic::Status;

use crate::server::Service;
use crate::store::{Snapshot, Table};

/// The version of `table` at `time` (its present one when unset), or the service's
/// reason why it cannot be read.
pub(super) fn take(
    service: &Service,
    table: &Table,
    time: Option<&prost_types::Timestamp>,
) -> Result<Snapshot, Status> {
    let Some(time) = time else {
        return Ok(table.snapshot());
    };
    let micros = time
        .seconds
        .checked_mul(1_000_000)
        .filter(|_| (0..1_000_000_000).contains(&time.nanos))
        .and_then(|s| s.checked_add(i64::from(time.nanos) / 1000))
        .ok_or_else(|| {
            Status::invalid_argument(format!(
                "request failed: snapshot_time {}s {}ns is not a valid timestamp",
                time.seconds, time.nanos
            ))
        })?;
    let now = service.read.clock().now();
    let table_name = table.reference();
    if micros > now {
        return Err(Status::invalid_argument(format!(
            "request failed: Invalid snapshot time {} for table {table_name}: it is in the future",
            micros / 1000
        )));
    }
    let window = service.store.options().time_travel;
    let window_micros = i64::try_from(window.as_micros()).unwrap_or(i64::MAX);
    if micros < now.saturating_sub(window_micros) {
        return Err(Status::invalid_argument(format!(
            "request failed: time travel timestamp exceeds the maximum time travel duration of {}h",
            window.as_secs() / 3600
        )));
    }
    table.snapshot_at(micros).ok_or_else(|| {
        Status::invalid_argument(format!(
            "request failed: Invalid snapshot time {} for table {table_name}. Cannot read before {}",
            micros / 1000,
            table.created() / 1000
        ))
    })
}
