//! TABLE_OPTIONS.

use std::sync::Arc;

use serde_json::Value;

use super::{S, View, days, labels_text, name_of, quoted, text, with_name};
use crate::store::Table;

pub(super) fn table_options(tables: &[Arc<Table>]) -> View {
    let mut view = with_name(&[("option_name", S), ("option_type", S), ("option_value", S)]);
    for table in tables {
        let meta = table.meta();
        let mut put = |name: &str, ty: &str, value: String| {
            let mut row = name_of(table);
            row.extend([text(name), text(ty), text(value)]);
            view.rows.push(row);
        };
        if let Some(description) = &meta.description {
            put("description", "STRING", quoted(description));
        }
        if let Some(at) = meta.expiration_time {
            let mut shown = String::new();
            crate::value::timestamp::write_iso8601(at.saturating_mul(1000), &mut shown);
            put(
                "expiration_timestamp",
                "TIMESTAMP",
                format!("TIMESTAMP {}", quoted(&shown)),
            );
        }
        if let Some(Value::String(name)) = meta.extra.get("friendlyName") {
            put("friendly_name", "STRING", quoted(name));
        }
        if !meta.labels.is_empty() {
            put(
                "labels",
                "ARRAY<STRUCT<STRING, STRING>>",
                labels_text(&meta.labels),
            );
        }
        if let Some(staleness) = &meta.max_staleness {
            put("max_staleness", "INTERVAL", staleness.clone());
        }
        if let Some(ms) = meta
            .time_partitioning
            .as_ref()
            .and_then(|t| t.expiration_ms.as_ref())
            .and_then(|ms| ms.parse().ok())
        {
            put("partition_expiration_days", "FLOAT64", days(ms));
        }
        if meta.require_partition_filter {
            put("require_partition_filter", "BOOL", "true".into());
        }
    }
    view
}
