//! `OPTIONS (…)` of tables, views, datasets and columns.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray};
use datafusion::scalar::ScalarValue;
use serde_json::{Value, json};

use super::super::functions::SqlType;
use super::analyze::Analyzer;
use super::ast::{Ident, Options};
use super::session::service_error;
use crate::error::{Result, ServiceError};
use crate::schema::Field;
use crate::store::{Dataset, TableMeta};

const DAY_MS: f64 = 86_400_000.0;

/// The value of an option, `None` for NULL.
fn value(
    analyzer: &Analyzer<'_>,
    option: &(Ident, super::ast::Expr),
    ty: &SqlType,
) -> Result<Option<ScalarValue>> {
    let typed = analyzer.raw_expr(&option.1, "OPTIONS")?;
    let typed = analyzer.assign(typed, ty, &option.0.name)?;
    let value = analyzer.evaluate_typed(&typed)?.value;
    Ok((!value.is_null()).then_some(value))
}

fn text(analyzer: &Analyzer<'_>, option: &(Ident, super::ast::Expr)) -> Result<Option<String>> {
    match value(analyzer, option, &SqlType::String)? {
        Some(ScalarValue::Utf8(text)) => Ok(text),
        _ => Ok(None),
    }
}

fn number(analyzer: &Analyzer<'_>, option: &(Ident, super::ast::Expr)) -> Result<Option<f64>> {
    match value(analyzer, option, &SqlType::Float64)? {
        Some(ScalarValue::Float64(number)) => Ok(number),
        _ => Ok(None),
    }
}

fn flag(analyzer: &Analyzer<'_>, option: &(Ident, super::ast::Expr)) -> Result<bool> {
    match value(analyzer, option, &SqlType::Bool)? {
        Some(ScalarValue::Boolean(flag)) => Ok(flag.unwrap_or(false)),
        _ => Ok(false),
    }
}

/// `[("key", "value"), …]`
fn labels(
    analyzer: &Analyzer<'_>,
    option: &(Ident, super::ast::Expr),
) -> Result<BTreeMap<String, String>> {
    let pair = SqlType::Struct(vec![
        (String::new(), SqlType::String),
        (String::new(), SqlType::String),
    ]);
    let Some(value) = value(analyzer, option, &SqlType::Array(Box::new(pair)))? else {
        return Ok(BTreeMap::new());
    };
    let array = value.to_array().map_err(service_error)?;
    let pairs = array.as_list::<i32>().value(0);
    let pairs = pairs.as_struct();
    let (keys, values) = (
        pairs.column(0).as_string::<i32>(),
        pairs.column(1).as_string::<i32>(),
    );
    Ok((0..pairs.len())
        .map(|i| (keys.value(i).to_string(), values.value(i).to_string()))
        .collect())
}

fn unknown(option: &Ident) -> ServiceError {
    ServiceError::invalid_query(format!("Unknown option: {}", option.name))
}

fn milliseconds(days: f64) -> i64 {
    (days * DAY_MS) as i64
}

/// Writes options into a table's or view's metadata.
pub(super) fn table(
    analyzer: &Analyzer<'_>,
    options: &Options,
    meta: &mut TableMeta,
) -> Result<()> {
    for option in options {
        match option.0.name.to_ascii_lowercase().as_str() {
            "description" => meta.description = text(analyzer, option)?,
            "friendly_name" => put(
                meta,
                "friendlyName",
                text(analyzer, option)?.map(|t| json!(t)),
            ),
            "labels" => meta.labels = labels(analyzer, option)?,
            "expiration_timestamp" => {
                meta.expiration_time = match value(analyzer, option, &SqlType::Timestamp)? {
                    Some(ScalarValue::TimestampMicrosecond(Some(t), _)) => Some(t / 1000),
                    _ => None,
                };
            }
            "partition_expiration_days" => {
                let days = number(analyzer, option)?;
                let Some(time) = &mut meta.time_partitioning else {
                    return Err(ServiceError::invalid_query(
                        "partition_expiration_days needs a table partitioned by time",
                    ));
                };
                time.expiration_ms = days.map(|d| milliseconds(d).to_string());
            }
            "require_partition_filter" => {
                meta.require_partition_filter = flag(analyzer, option)?;
            }
            "max_staleness" => {
                meta.max_staleness = match value(analyzer, option, &SqlType::Interval)? {
                    Some(ScalarValue::IntervalMonthDayNano(Some(interval))) => {
                        let mut out = String::new();
                        crate::value::interval::write_interval(interval, &mut out);
                        Some(out)
                    }
                    // The service shows an option that was taken back as this.
                    _ => Some("0-0 0 0:0:0".to_string()),
                };
            }
            "default_rounding_mode" => put(
                meta,
                "defaultRoundingMode",
                text(analyzer, option)?.map(|t| json!(t)),
            ),
            "kms_key_name" => put(
                meta,
                "encryptionConfiguration",
                text(analyzer, option)?.map(|t| json!({ "kmsKeyName": t })),
            ),
            // How a materialized view is kept fresh: here it always is.
            "enable_refresh" | "refresh_interval_minutes" | "allow_non_incremental_definition" => {
                analyzer.raw_expr(&option.1, "OPTIONS")?;
            }
            "privacy_policy"
            | "tags"
            | "storage_uri"
            | "file_format"
            | "table_format"
            | "enable_change_history"
            | "enable_fine_grained_mutations" => {
                return Err(ServiceError::unsupported(format_args!(
                    "The option {}",
                    option.0.name
                )));
            }
            _ => return Err(unknown(&option.0)),
        }
    }
    Ok(())
}

fn put(meta: &mut TableMeta, key: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            meta.extra.insert(key.to_string(), value);
        }
        None => {
            meta.extra.remove(key);
        }
    }
}

/// Writes options into a dataset's metadata.
pub(super) fn dataset(
    analyzer: &Analyzer<'_>,
    options: &Options,
    dataset: &mut Dataset,
) -> Result<()> {
    for option in options {
        let days = |key: &str, dataset: &mut Dataset| -> Result<()> {
            match number(analyzer, option)? {
                Some(days) => {
                    let ms = milliseconds(days).to_string();
                    dataset.extra.insert(key.to_string(), json!(ms));
                }
                None => {
                    dataset.extra.remove(key);
                }
            }
            Ok(())
        };
        match option.0.name.to_ascii_lowercase().as_str() {
            "description" => dataset.description = text(analyzer, option)?,
            "location" => {
                if let Some(location) = text(analyzer, option)? {
                    dataset.location = location;
                }
            }
            "labels" => dataset.labels = labels(analyzer, option)?,
            "friendly_name" => {
                if let Some(name) = text(analyzer, option)? {
                    dataset.extra.insert("friendlyName".into(), json!(name));
                }
            }
            "default_table_expiration_days" => days("defaultTableExpirationMs", dataset)?,
            "default_partition_expiration_days" => days("defaultPartitionExpirationMs", dataset)?,
            "is_case_insensitive" => {
                if flag(analyzer, option)? {
                    return Err(ServiceError::unsupported("A case-insensitive dataset"));
                }
            }
            "max_time_travel_hours" => {
                if let Some(hours) = number(analyzer, option)? {
                    dataset
                        .extra
                        .insert("maxTimeTravelHours".into(), json!(format!("{hours}")));
                }
            }
            "storage_billing_model" => {
                if let Some(model) = text(analyzer, option)? {
                    dataset
                        .extra
                        .insert("storageBillingModel".into(), json!(model));
                }
            }
            "default_rounding_mode" => {
                if let Some(mode) = text(analyzer, option)? {
                    dataset
                        .extra
                        .insert("defaultRoundingMode".into(), json!(mode));
                }
            }
            "default_kms_key_name" | "failover_reservation" | "primary_replica" | "tags" => {
                return Err(ServiceError::unsupported(format_args!(
                    "The option {}",
                    option.0.name
                )));
            }
            _ => return Err(unknown(&option.0)),
        }
    }
    Ok(())
}

/// Writes options into a column.
pub(super) fn column(analyzer: &Analyzer<'_>, options: &Options, field: &mut Field) -> Result<()> {
    for option in options {
        match option.0.name.to_ascii_lowercase().as_str() {
            "description" => field.description = text(analyzer, option)?,
            "rounding_mode" => field.rounding_mode = text(analyzer, option)?,
            "data_policies" | "tags" => {
                return Err(ServiceError::unsupported(format_args!(
                    "The option {}",
                    option.0.name
                )));
            }
            _ => return Err(unknown(&option.0)),
        }
    }
    Ok(())
}
