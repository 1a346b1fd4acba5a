//! Names of destinations: a table, or one partition of it (`table$20240131`).

use crate::error::{Result, ServiceError};
use crate::store::partition::Granularity;
use crate::store::{TableMeta, TableRef};

/// A destination as a job names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The table.
    pub table: TableRef,
    /// The partition's id, when one is named.
    pub partition: Option<String>,
}

impl Target {
    /// Splits a partition decorator off the table's id.
    pub fn parse(reference: &TableRef) -> Result<Self> {
        let mut table = reference.clone();
        let mut partition = None;
        if let Some((name, id)) = reference.table.split_once('$') {
            if id.is_empty() {
                return Err(ServiceError::invalid(format!(
                    "Invalid table ID \"{}\": no partition after $",
                    reference.table
                )));
            }
            table.table = name.to_string();
            partition = Some(id.to_string());
        }
        let length = table.table.len();
        let legal = |c: char| {
            c.is_alphanumeric() || matches!(c, '_' | '-' | ' ') || (c > '\u{7f}' && !c.is_control())
        };
        if length == 0 || length > 1024 || !table.table.chars().all(legal) {
            return Err(ServiceError::invalid(format!(
                "Invalid table ID \"{}\".",
                reference.table
            )));
        }
        Ok(Self { table, partition })
    }

    /// The start of the named partition in microseconds since the epoch, for a table
    /// that is partitioned by time.
    pub fn partition_start(&self, meta: &TableMeta) -> Result<Option<i64>> {
        let Some(id) = &self.partition else {
            return Ok(None);
        };
        let Some(partitioning) = &meta.time_partitioning else {
            return Err(ServiceError::invalid(format!(
                "Cannot write to partition {id} of {}: the table is not partitioned by time",
                self.table
            )));
        };
        Granularity::parse(&partitioning.granularity)
            .and_then(|g| g.parse_id(id))
            .map(Some)
            .ok_or_else(|| {
                ServiceError::invalid(format!(
                    "Invalid partition id {id} for the {} partitioned table {}",
                    partitioning.granularity, self.table
                ))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decorators_are_split_off() {
        let parse = |id: &str| Target::parse(&TableRef::new("p", "d", id));
        assert_eq!(parse("t").unwrap().partition, None);
        let target = parse("t$20240131").unwrap();
        assert_eq!(target.table, TableRef::new("p", "d", "t"));
        assert_eq!(target.partition.as_deref(), Some("20240131"));
        for bad in ["", "t$", "a/b", "a.b", "$1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse("tä-b c").is_ok());
    }
}
