//! How to write changes by key.

use std::time::Duration;

use super::raw::RawOptions;
use super::registry::{self, OptionRow};
use super::resolved::{duration, is_on, lower, pair};
use super::sink::AppendFormat;
use super::values;
use crate::error::{Error, Result};

/// How to write changes by key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CdcOptions {
    /// How far queries may be behind the changes.
    pub staleness: Staleness,
    /// What becomes of a table that is not as it has to be.
    pub reconciliation: TableReconciliation,
}

/// How far queries of a table may be behind its changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Staleness {
    /// As the table has it.
    #[default]
    Unmanaged,
    /// So much.
    AtMost(Duration),
    /// Not at all.
    None,
}

/// What becomes of a table that is not as the options have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TableReconciliation {
    /// Nothing is written.
    #[default]
    VerifyOnly,
    /// It is changed.
    Reconcile,
}

/// How the sources of changes are ordered, for the functions that do so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeSourceOptions {
    /// UUIDs of MySQL servers, in the order in which they took over.
    pub mysql_source_uuids: Vec<String>,
    /// The TiCDC cluster whose changes are taken.
    pub ticdc_cluster_id: Option<String>,
}

impl ChangeSourceOptions {
    /// What options say of sources.
    pub(crate) fn of(raw: &RawOptions) -> Self {
        let uuids = raw.get(&registry::SINK_CDC_MYSQL_SOURCE_UUIDS);
        Self {
            mysql_source_uuids: values::list(uuids.unwrap_or_default()),
            ticdc_cluster_id: raw
                .get(&registry::SINK_CDC_TICDC_CLUSTER_ID)
                .map(str::to_string),
        }
    }
}

/// What the options say of changes; None when rows are not changes.
///
/// # Errors
/// A pair that cannot go together.
pub(super) fn cdc(raw: &RawOptions, format: AppendFormat) -> Result<Option<CdcOptions>> {
    use registry::{
        SINK_ALLOW_FIELD_RELAXATION, SINK_ALLOW_NEW_FIELDS, SINK_CDC_CLEAR_MAX_STALENESS,
        SINK_CDC_ENABLED, SINK_CDC_MAX_STALENESS, SINK_CDC_TABLE_RECONCILIATION, SINK_FORMAT,
        SINK_MISSING_VALUE, SINK_PARTITION, SINK_WRITE_METHOD,
    };
    if !is_on(raw, &SINK_CDC_ENABLED) {
        return Ok(None);
    }
    if let Some(method) = lower(raw, &SINK_WRITE_METHOD)
        && method != "storage_api_at_least_once"
    {
        return Err(pair(
            &SINK_CDC_ENABLED,
            &SINK_WRITE_METHOD,
            "changes by key go by the default stream, which is 'storage_api_at_least_once'",
        ));
    }
    if format == AppendFormat::Arrow {
        return Err(pair(
            &SINK_CDC_ENABLED,
            &SINK_FORMAT,
            "BigQuery takes changes by key as protobuf rows only",
        ));
    }
    if lower(raw, &SINK_MISSING_VALUE).as_deref() == Some("default") {
        return Err(pair(
            &SINK_CDC_ENABLED,
            &SINK_MISSING_VALUE,
            "a change says all of its row, so what it leaves out is NULL",
        ));
    }
    if raw.get(&SINK_PARTITION).is_some() {
        return Err(pair(
            &SINK_CDC_ENABLED,
            &SINK_PARTITION,
            "a change goes to the row of its key, in whichever partition that is",
        ));
    }
    for row in [&SINK_ALLOW_NEW_FIELDS, &SINK_ALLOW_FIELD_RELAXATION] {
        if is_on(raw, row) {
            return Err(pair(
                &SINK_CDC_ENABLED,
                row,
                "columns of a table of changes are changed in BigQuery, by ALTER TABLE",
            ));
        }
    }
    let most = duration(raw, &SINK_CDC_MAX_STALENESS);
    let staleness = match (most, is_on(raw, &SINK_CDC_CLEAR_MAX_STALENESS)) {
        (Some(_), true) => {
            return Err(pair(
                &SINK_CDC_MAX_STALENESS,
                &SINK_CDC_CLEAR_MAX_STALENESS,
                "one sets what the other takes away",
            ));
        }
        (Some(most), false) => Staleness::AtMost(most),
        (None, true) => Staleness::None,
        (None, false) => Staleness::Unmanaged,
    };
    if let Staleness::AtMost(most) = staleness
        && (most.subsec_nanos() != 0 || most.is_zero())
    {
        let said = raw.get(&SINK_CDC_MAX_STALENESS).unwrap_or_default();
        return Err(SINK_CDC_MAX_STALENESS.refused(said, "whole seconds, at least one"));
    }
    let reconciliation = match lower(raw, &SINK_CDC_TABLE_RECONCILIATION).as_deref() {
        Some("reconcile") => TableReconciliation::Reconcile,
        _ => TableReconciliation::VerifyOnly,
    };
    Ok(Some(CdcOptions {
        staleness,
        reconciliation,
    }))
}

/// Options about changes that a table says of itself need changes, and those of functions
/// are no table's.
///
/// # Errors
/// Names the option that nothing would act on.
pub(super) fn check_used(own: &RawOptions, all: &RawOptions) -> Result<()> {
    use registry::{
        SINK_CDC_CLEAR_MAX_STALENESS, SINK_CDC_ENABLED, SINK_CDC_MAX_STALENESS,
        SINK_CDC_MYSQL_SOURCE_UUIDS, SINK_CDC_TABLE_RECONCILIATION, SINK_CDC_TICDC_CLUSTER_ID,
    };
    for (row, function) in [
        (
            &SINK_CDC_MYSQL_SOURCE_UUIDS,
            "bigquery_sequence_debezium_mysql",
        ),
        (&SINK_CDC_TICDC_CLUSTER_ID, "bigquery_sequence_ticdc"),
    ] {
        if own.get(row).is_some() {
            return Err(Error::configuration(format!(
                "option '{name}' is of the function {function}, which does not know the table that \
                 its result goes to: say it for the session, as SET bigquery.{name} = '…'",
                name = row.name
            )));
        }
    }
    if is_on(all, &SINK_CDC_ENABLED) {
        return Ok(());
    }
    let unused: [&OptionRow; 3] = [
        &SINK_CDC_MAX_STALENESS,
        &SINK_CDC_CLEAR_MAX_STALENESS,
        &SINK_CDC_TABLE_RECONCILIATION,
    ];
    match unused.into_iter().find(|row| own.get(row).is_some()) {
        None => Ok(()),
        Some(row) => Err(Error::configuration(format!(
            "option '{}' needs '{}': rows of this table are no changes",
            row.name, SINK_CDC_ENABLED.name
        ))),
    }
}
