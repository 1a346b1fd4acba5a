//! What tables that a write creates are like.

use std::collections::HashSet;
use std::time::Duration;

use super::raw::RawOptions;
use super::registry::{self, OptionRow};
use super::resolved::{duration, lower};
use super::values;
use crate::error::{Error, Result};

/// The service takes no more columns to cluster by
/// (<https://cloud.google.com/bigquery/docs/clustered-tables#limitations>).
const MAX_CLUSTERED_FIELDS: usize = 4;

/// The service makes no more partitions
/// (<https://cloud.google.com/bigquery/quotas#partitioned_tables>).
const MAX_PARTITIONS: i128 = 10_000;

/// Of labels (<https://cloud.google.com/bigquery/docs/labels-intro#requirements>).
const MAX_LABELS: usize = 64;
const MAX_LABEL_LENGTH: usize = 63;

/// What a table is like that a write creates, besides its columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableCreateOptions {
    /// By what its rows are divided.
    pub partitioning: Option<NewPartitioning>,
    /// The columns by which its rows are kept together, up to four.
    pub clustered_fields: Vec<String>,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// What it is for.
    pub description: Option<String>,
    /// How long after its creation the service deletes it.
    pub expiration: Option<Duration>,
}

/// By what the rows of a new table are divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewPartitioning {
    /// By a column of time, or by the time of ingestion where there is none.
    Time {
        /// How long a partition is.
        unit: PartitionUnit,
        /// The column.
        field: Option<String>,
        /// How long after its time the service deletes a partition.
        expiration: Option<Duration>,
    },
    /// By ranges of an INT64 column.
    Range {
        /// The column.
        field: String,
        /// Where the first range begins.
        start: i64,
        /// Where the last range ends, itself not included.
        end: i64,
        /// How wide a range is.
        interval: i64,
    },
}

/// How long a partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionUnit {
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// A month.
    Month,
    /// A year.
    Year,
}

impl PartitionUnit {
    /// The name that the service has for it.
    pub fn name(self) -> &'static str {
        match self {
            PartitionUnit::Hour => "HOUR",
            PartitionUnit::Day => "DAY",
            PartitionUnit::Month => "MONTH",
            PartitionUnit::Year => "YEAR",
        }
    }
}

/// What the options say of new tables.
///
/// # Errors
/// A value out of range, or options that cannot go together.
pub(super) fn table_create(raw: &RawOptions) -> Result<TableCreateOptions> {
    let clustered = &registry::SINK_CREATE_CLUSTERED_FIELDS;
    let clustered_fields = raw.get(clustered).map(values::list).unwrap_or_default();
    if clustered_fields.len() > MAX_CLUSTERED_FIELDS {
        let said = raw.get(clustered).unwrap_or_default();
        return Err(clustered.refused(said, "at most four columns"));
    }
    let mut seen = HashSet::new();
    if !clustered_fields
        .iter()
        .all(|field| seen.insert(field.to_lowercase()))
    {
        let said = raw.get(clustered).unwrap_or_default();
        return Err(clustered.refused(said, "columns that are each there once"));
    }
    Ok(TableCreateOptions {
        partitioning: partitioning(raw)?,
        clustered_fields,
        labels: labels(raw)?,
        description: raw
            .get(&registry::SINK_CREATE_DESCRIPTION)
            .map(str::to_string),
        expiration: duration(raw, &registry::SINK_CREATE_EXPIRATION),
    })
}

fn needs(row: &OptionRow, other: &OptionRow) -> Error {
    Error::configuration(format!(
        "option '{}' needs '{}' beside it",
        row.name, other.name
    ))
}

fn partitioning(raw: &RawOptions) -> Result<Option<NewPartitioning>> {
    use registry::{
        SINK_CREATE_RANGE_END, SINK_CREATE_RANGE_FIELD, SINK_CREATE_RANGE_INTERVAL,
        SINK_CREATE_RANGE_START, SINK_CREATE_TIME_EXPIRATION, SINK_CREATE_TIME_FIELD,
        SINK_CREATE_TIME_TYPE,
    };
    let said = |row: &OptionRow| raw.get(row).is_some();
    let range = [
        &SINK_CREATE_RANGE_FIELD,
        &SINK_CREATE_RANGE_START,
        &SINK_CREATE_RANGE_END,
        &SINK_CREATE_RANGE_INTERVAL,
    ];
    let time = [
        &SINK_CREATE_TIME_TYPE,
        &SINK_CREATE_TIME_FIELD,
        &SINK_CREATE_TIME_EXPIRATION,
    ];
    let of_time = time.into_iter().find(|row| said(row));
    let of_range = range.into_iter().find(|row| said(row));
    match (of_time, of_range) {
        (None, None) => Ok(None),
        (Some(one), Some(other)) => Err(Error::configuration(format!(
            "options '{}' and '{}' cannot go together: a table is partitioned by time or by \
             ranges",
            one.name, other.name
        ))),
        (Some(row), None) => {
            let unit = match lower(raw, &SINK_CREATE_TIME_TYPE).as_deref() {
                Some("hour") => PartitionUnit::Hour,
                Some("day") => PartitionUnit::Day,
                Some("month") => PartitionUnit::Month,
                Some("year") => PartitionUnit::Year,
                _ => return Err(needs(row, &SINK_CREATE_TIME_TYPE)),
            };
            Ok(Some(NewPartitioning::Time {
                unit,
                field: raw.get(&SINK_CREATE_TIME_FIELD).map(str::to_string),
                expiration: duration(raw, &SINK_CREATE_TIME_EXPIRATION),
            }))
        }
        (None, Some(row)) => {
            if let Some(missing) = range.into_iter().find(|row| !said(row)) {
                return Err(needs(row, missing));
            }
            let whole = |row: &OptionRow| {
                let text = raw.get(row).unwrap_or_default();
                values::integer(text).ok_or_else(|| row.refused(text, "a whole number"))
            };
            let (start, end) = (
                whole(&SINK_CREATE_RANGE_START)?,
                whole(&SINK_CREATE_RANGE_END)?,
            );
            let interval = whole(&SINK_CREATE_RANGE_INTERVAL)?;
            if end <= start {
                return Err(Error::configuration(format!(
                    "option '{}' is {end} and '{}' is {start}: ranges end after they start",
                    SINK_CREATE_RANGE_END.name, SINK_CREATE_RANGE_START.name
                )));
            }
            if interval <= 0 {
                return Err(SINK_CREATE_RANGE_INTERVAL
                    .refused(&interval.to_string(), "a whole number above zero"));
            }
            let width = i128::from(end) - i128::from(start);
            let partitions = (width + i128::from(interval) - 1) / i128::from(interval);
            if partitions > MAX_PARTITIONS {
                return Err(Error::configuration(format!(
                    "options '{}' {start}, '{}' {end} and '{}' {interval} make {partitions} \
                     partitions, and a table has {MAX_PARTITIONS} at most: make them wider",
                    SINK_CREATE_RANGE_START.name,
                    SINK_CREATE_RANGE_END.name,
                    SINK_CREATE_RANGE_INTERVAL.name
                )));
            }
            Ok(Some(NewPartitioning::Range {
                field: raw
                    .get(&SINK_CREATE_RANGE_FIELD)
                    .unwrap_or_default()
                    .to_string(),
                start,
                end,
                interval,
            }))
        }
    }
}

fn labels(raw: &RawOptions) -> Result<Vec<(String, String)>> {
    let row = &registry::SINK_CREATE_LABELS;
    let Some(said) = raw.get(row) else {
        return Ok(Vec::new());
    };
    let labels = values::map(said).unwrap_or_default();
    let fits = |text: &str| {
        text.chars().count() <= MAX_LABEL_LENGTH
            && text
                .chars()
                .all(|c| matches!(c, '_' | '-') || (c.is_alphanumeric() && !c.is_uppercase()))
    };
    if labels.len() > MAX_LABELS
        || labels
            .iter()
            .any(|(key, value)| !fits(key) || !fits(value) || key.is_empty())
    {
        return Err(row.refused(
            said,
            "at most 64 pairs key=value, each part of up to 63 lower-case letters, digits, \
             underscores and dashes",
        ));
    }
    Ok(labels)
}
