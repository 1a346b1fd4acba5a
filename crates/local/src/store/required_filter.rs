//! The filter that `requirePartitionFilter` asks for.

use super::reference::TableRef;
use super::table::TableMeta;

/// A table's rows may only be read with a filter over its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredFilter<'m> {
    /// The partitioning column; none where the partition is the ingestion time.
    pub column: Option<&'m str>,
    /// The error's message without such a filter.
    pub refusal: String,
}

/// Names of the ingestion time.
const INGESTION: [&str; 3] = ["_PARTITION_LOAD_TIME", "_PARTITIONDATE", "_PARTITIONTIME"];

impl RequiredFilter<'_> {
    /// The columns, a filter over one of which is enough.
    pub fn columns(&self) -> Vec<&str> {
        match self.column {
            Some(column) => vec![column],
            None => INGESTION.to_vec(),
        }
    }
}

impl TableMeta {
    /// The filter that reading the table, called `table`, requires; none if
    /// `requirePartitionFilter` is not set.
    pub fn required_filter(&self, table: &TableRef) -> Option<RequiredFilter<'_>> {
        if !self.require_partition_filter {
            return None;
        }
        let column = match (&self.time_partitioning, &self.range_partitioning) {
            (Some(time), _) => time.field.as_deref(),
            (None, Some(range)) => Some(range.field.as_str()),
            (None, None) => return None,
        };
        let mut required = RequiredFilter {
            column,
            refusal: String::new(),
        };
        let quoted: Vec<String> = required
            .columns()
            .iter()
            .map(|c| format!("'{c}'"))
            .collect();
        required.refusal = format!(
            "Cannot query over table '{}.{}.{}' without a filter over column(s) {} that can be used for partition elimination",
            table.project,
            table.dataset,
            table.table,
            quoted.join(", ")
        );
        Some(required)
    }
}
