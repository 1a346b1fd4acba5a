//! Names of destinations: a table, or one partition of it (`table$20240131`).

use crate::error::{Result, ServiceError};
use crate::rest::names::check_table_id;
use crate::store::{Partition, TableMeta, TableRef};

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
        check_table_id(&table.table)?;
        Ok(Self { table, partition })
    }

    /// The named partition of a table that is laid out as `meta` says.
    pub fn partition_of(&self, meta: &TableMeta) -> Result<Option<Partition>> {
        self.partition
            .as_ref()
            .map(|id| meta.partition(id))
            .transpose()
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
