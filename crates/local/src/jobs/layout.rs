//! Partitioning and clustering of a destination.

use super::config::{LayoutConfig, WriteDisposition};
use crate::error::{Result, ServiceError};
use crate::store::{RangePartitioning, TableMeta};

impl LayoutConfig {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.time_partitioning.is_none()
            && self.range_partitioning.is_none()
            && self.clustering.is_none()
    }

    fn range(&self) -> Option<RangePartitioning> {
        self.range_partitioning.as_ref().map(|p| RangePartitioning {
            field: p.field.clone(),
            start: p.range.start,
            end: p.range.end,
            interval: p.range.interval,
        })
    }

    /// Takes over what is said.
    pub fn apply(&self, meta: &mut TableMeta) {
        if let Some(partitioning) = &self.time_partitioning {
            meta.time_partitioning = Some(partitioning.clone());
        }
        if let Some(partitioning) = self.range() {
            meta.range_partitioning = Some(partitioning);
        }
        if let Some(clustering) = &self.clustering {
            meta.clustering = Some(clustering.clone());
        }
    }

    /// Refuses a layout that is not the existing table's: writing never changes one.
    /// Clustering may change when all rows are replaced.
    pub fn check_same(&self, meta: &TableMeta, write: WriteDisposition) -> Result<()> {
        let partitioned = self.time_partitioning.is_some() || self.range_partitioning.is_some();
        let same_time = match (&self.time_partitioning, &meta.time_partitioning) {
            (Some(a), Some(b)) => {
                a.granularity.eq_ignore_ascii_case(&b.granularity)
                    && same_name(a.field.as_deref(), b.field.as_deref())
            }
            (None, None) => true,
            _ => false,
        };
        let same_clustering = match (&self.clustering, &meta.clustering) {
            (None, _) => true,
            (Some(_), _) if write == WriteDisposition::Truncate => true,
            (a, b) => a == b,
        };
        if (!partitioned || (same_time && self.range() == meta.range_partitioning))
            && same_clustering
        {
            return Ok(());
        }
        Err(ServiceError::invalid(format!(
            "Incompatible table partitioning specification. Expects partitioning specification {}, \
             but input partitioning specification is {}",
            describe(meta),
            {
                let mut asked = meta.clone();
                asked.time_partitioning = None;
                asked.range_partitioning = None;
                asked.clustering = None;
                self.apply(&mut asked);
                describe(&asked)
            }
        )))
    }
}

fn same_name(a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
        (None, None) => true,
        _ => false,
    }
}

fn describe(meta: &TableMeta) -> String {
    let mut parts = Vec::new();
    if let Some(p) = &meta.time_partitioning {
        let granularity = p.granularity.to_lowercase();
        parts.push(match &p.field {
            Some(field) => format!("interval(type:{granularity},field:{field})"),
            None => format!("interval(type:{granularity})"),
        });
    }
    if let Some(p) = &meta.range_partitioning {
        parts.push(format!(
            "range(field:{},start:{},end:{},interval:{})",
            p.field, p.start, p.end, p.interval
        ));
    }
    if let Some(c) = &meta.clustering {
        parts.push(format!("clustering({})", c.fields.join(",")));
    }
    if parts.is_empty() {
        return "none".to_string();
    }
    parts.join(" ")
}
