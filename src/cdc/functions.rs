//! SQL functions that make sequence numbers.
//!
//! | function | of |
//! |---|---|
//! | `bigquery_change_sequence(section, …)` | 1 to 4 whole numbers |
//! | `bigquery_sequence_debezium_postgres(source)` | `source` of Debezium's envelope, as JSON text |
//! | `bigquery_sequence_debezium_mysql(source)` | the same; UUIDs in option `sink.cdc.debezium_mysql.source_uuids` |
//! | `bigquery_sequence_debezium_spanner(source)` | the same |
//! | `bigquery_sequence_ticdc(source)` | the same, of TiCDC; cluster in option `sink.cdc.ticdc.cluster_id` |
//! | `bigquery_sequence_spanner(committed, record_sequence, mod_number)` | what a change stream gives |
//!
//! NULL in any argument gives NULL, which the sink refuses where a place is needed. A
//! source that cannot be ordered fails the statement.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampNanosecondType, UInt64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::ChangeSequence;
use super::profile::{
    DebeziumMySql, DebeziumPostgres, DebeziumSpanner, SourceBlock, Spanner, TiCdc,
};
use crate::options::{BigQueryOptions, ChangeSourceOptions};

/// The functions, to be registered.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    [
        Kind::Sections,
        Kind::DebeziumPostgres,
        Kind::DebeziumMySql,
        Kind::DebeziumSpanner,
        Kind::TiCdc,
        Kind::Spanner,
    ]
    .into_iter()
    .map(|kind| Arc::new(ScalarUDF::from(SequenceFunction::new(kind))))
    .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Sections,
    DebeziumPostgres,
    DebeziumMySql,
    DebeziumSpanner,
    TiCdc,
    Spanner,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SequenceFunction {
    kind: Kind,
    signature: Signature,
}

impl SequenceFunction {
    fn new(kind: Kind) -> Self {
        let arguments = match kind {
            Kind::Sections => TypeSignature::VariadicAny,
            Kind::Spanner => TypeSignature::Any(3),
            Kind::DebeziumPostgres | Kind::DebeziumMySql | Kind::DebeziumSpanner | Kind::TiCdc => {
                TypeSignature::String(1)
            }
        };
        // Options are settled when a statement is planned.
        let volatility = match kind {
            Kind::DebeziumMySql | Kind::TiCdc => Volatility::Stable,
            _ => Volatility::Immutable,
        };
        Self {
            kind,
            signature: Signature::new(arguments, volatility),
        }
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Sections => "bigquery_change_sequence",
            Kind::DebeziumPostgres => "bigquery_sequence_debezium_postgres",
            Kind::DebeziumMySql => "bigquery_sequence_debezium_mysql",
            Kind::DebeziumSpanner => "bigquery_sequence_debezium_spanner",
            Kind::TiCdc => "bigquery_sequence_ticdc",
            Kind::Spanner => "bigquery_sequence_spanner",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if self.kind == Kind::Sections {
            if arguments.is_empty() || arguments.len() > 4 {
                return plan_err!(
                    "bigquery_change_sequence takes 1 to 4 sections, not {}",
                    arguments.len()
                );
            }
            let wrong = arguments.iter().find(|t| !(t.is_integer() || t.is_null()));
            if let Some(wrong) = wrong {
                return plan_err!("bigquery_change_sequence takes whole numbers, not {wrong}");
            }
        }
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args
            .args
            .iter()
            .all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args
            .args
            .iter()
            .map(|argument| argument.to_array(rows))
            .collect::<Result<Vec<_>>>()?;
        let raw = BigQueryOptions::of(&args.config_options);
        let options = ChangeSourceOptions::of(&raw);
        let sequences: ArrayRef = Arc::new(match self.kind {
            Kind::Sections => sections(&arrays, rows)?,
            Kind::Spanner => spanner(&arrays, rows)?,
            Kind::DebeziumPostgres => {
                of_sources(&arrays[0], |source| DebeziumPostgres.sequence(source))?
            }
            Kind::DebeziumSpanner => {
                of_sources(&arrays[0], |source| DebeziumSpanner.sequence(source))?
            }
            Kind::DebeziumMySql => {
                let profile = DebeziumMySql::new(&options.mysql_source_uuids)?;
                of_sources(&arrays[0], |source| profile.sequence(source))?
            }
            Kind::TiCdc => {
                let profile = TiCdc::new(options.ticdc_cluster_id);
                of_sources(&arrays[0], |source| profile.sequence(source))?
            }
        });
        match scalar {
            true => datafusion::common::ScalarValue::try_from_array(&sequences, 0)
                .map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(sequences)),
        }
    }
}

fn of_sources(
    sources: &ArrayRef,
    sequence: impl Fn(&SourceBlock) -> crate::Result<ChangeSequence>,
) -> Result<StringArray> {
    let sources = cast(sources, &DataType::Utf8)?;
    let sources = sources.as_string::<i32>();
    sources
        .iter()
        .map(|source| {
            let Some(source) = source else {
                return Ok(None);
            };
            let found = SourceBlock::read(source).and_then(|block| sequence(&block))?;
            Ok(Some(found.to_string()))
        })
        .collect::<Result<StringArray>>()
}

fn sections(arrays: &[ArrayRef], rows: usize) -> Result<StringArray> {
    let columns = arrays
        .iter()
        .map(|array| {
            if array.data_type().is_signed_integer() {
                let signed = cast(array, &DataType::Int64)?;
                let signed = signed.as_primitive::<Int64Type>();
                if let Some(negative) = signed.iter().flatten().find(|value| *value < 0) {
                    return exec_err!(
                        "bigquery_change_sequence: a section is an unsigned number, and {negative} \
                         is negative"
                    );
                }
            }
            Ok(cast(array, &DataType::UInt64)?)
        })
        .collect::<Result<Vec<_>>>()?;
    (0..rows)
        .map(|row| {
            if columns.iter().any(|column| column.is_null(row)) {
                return Ok(None);
            }
            let columns = columns.iter();
            let numbers: Vec<u64> = columns
                .map(|column| column.as_primitive::<UInt64Type>().value(row))
                .collect();
            Ok(Some(ChangeSequence::new(&numbers)?.to_string()))
        })
        .collect::<Result<StringArray>>()
}

fn spanner(arrays: &[ArrayRef], rows: usize) -> Result<StringArray> {
    let [committed, record, change] = arrays else {
        return exec_err!("bigquery_sequence_spanner takes 3 arguments");
    };
    match committed.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) | DataType::Null => {}
        other => {
            return exec_err!(
                "bigquery_sequence_spanner takes the commit time in nanoseconds, and {other} is \
                 coarser or no time: changes of one key could get the same place"
            );
        }
    }
    let committed = cast(committed, &DataType::Timestamp(TimeUnit::Nanosecond, None))?;
    let committed = committed.as_primitive::<TimestampNanosecondType>();
    let record = cast(record, &DataType::Utf8)?;
    let record = record.as_string::<i32>();
    let change = cast(change, &DataType::Int64)?;
    let change = change.as_primitive::<Int64Type>();
    (0..rows)
        .map(|row| {
            if committed.is_null(row) || record.is_null(row) || change.is_null(row) {
                return Ok(None);
            }
            Spanner
                .sequence(committed.value(row), record.value(row), change.value(row))
                .map(|sequence| Some(sequence.to_string()))
                .map_err(DataFusionError::from)
        })
        .collect::<Result<StringArray>>()
}
