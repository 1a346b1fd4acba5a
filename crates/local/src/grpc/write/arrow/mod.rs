//! Arrow rows: one bare record batch a request, in the types that the service takes.
//!
//! Source: the table of supported Arrow types in BigQuery's Storage Write API
//! documentation. What that does not list (dictionaries, views, large types, buffer
//! compression, units other than microseconds) is refused.

mod convert;
mod ipc;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, MutableArrayData, make_array};
use arrow::datatypes::{Schema, SchemaRef};

use self::convert::{Faults, convert};
use self::types::check;
use super::change::is_pseudocolumn;
use super::plan::Mismatch;
use super::rows::{Decoded, RowFault, Undecoded, too_many};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, Mode, TableSchema, absent, arrow_field, arrow_schema};

/// Decodes record batches of one writer schema into the columns of one table schema.
#[derive(Debug)]
pub(super) struct ArrowPlan {
    writer: SchemaRef,
    fields: Vec<Field>,
    /// For each of the table's columns the one of the batches.
    sources: Vec<Option<usize>>,
    arrow: SchemaRef,
}

impl ArrowPlan {
    /// The plan for an encapsulated IPC schema message.
    pub(super) fn compile(
        message: &[u8],
        schema: &TableSchema,
    ) -> std::result::Result<Self, Mismatch> {
        let writer = ipc::schema(message).map_err(Mismatch::Invalid)?;
        if writer.fields().is_empty() {
            return Err(Mismatch::Invalid("it has no columns".into()));
        }
        if let Some(field) = writer.fields().iter().find(|f| is_pseudocolumn(f.name())) {
            return Err(Mismatch::Invalid(format!(
                "the column {}: change data capture takes protobuf rows, and these are Arrow's",
                field.name()
            )));
        }
        let sources = sources(&writer, schema)?;
        Ok(Self {
            writer: Arc::new(writer),
            fields: schema.fields.clone(),
            sources,
            arrow: arrow_schema(schema),
        })
    }

    /// Decodes an encapsulated record-batch message. A column of `defaulted` that the
    /// writer schema lacks has a value, which the caller fills in.
    pub(super) fn decode(
        &self,
        message: &[u8],
        defaulted: &[bool],
    ) -> std::result::Result<Decoded, Undecoded> {
        let batch = ipc::batch(message, &self.writer).map_err(Undecoded::Request)?;
        let rows = batch.num_rows();
        if too_many(rows, self.fields.len()) {
            return Err(Undecoded::Request(format!(
                "{rows} rows of {} columns in one request are not supported by bigquery-local.",
                self.fields.len()
            )));
        }
        let mut faults: Faults = BTreeMap::new();
        let mut columns = Vec::with_capacity(self.fields.len());
        let mut missing = vec![Vec::new(); self.fields.len()];
        for (i, (field, source)) in self.fields.iter().zip(&self.sources).enumerate() {
            columns.push(match source {
                Some(at) => {
                    let array = convert(batch.column(*at), field, &field.name, None, &mut faults)
                        .map_err(Undecoded::Server)?;
                    compact(&array).map_err(Undecoded::Server)?
                }
                None => {
                    if defaulted.get(i).is_some_and(|d| *d) {
                        missing[i] = vec![true; rows];
                    } else if field.mode() == Mode::Required {
                        for row in 0..rows {
                            faults.entry(row).or_insert_with(|| {
                                format!("Field {} is required but has no value.", field.name)
                            });
                        }
                    }
                    absent(&arrow_field(field), rows)
                }
            });
        }
        if !faults.is_empty() {
            let faults = faults.into_iter();
            return Err(Undecoded::Rows(
                faults
                    .map(|(row, message)| RowFault { row, message })
                    .collect(),
            ));
        }
        Ok(Decoded {
            schema: Arc::clone(&self.arrow),
            columns,
            rows,
            missing,
            changes: None,
        })
    }
}

/// Which column of `writer` fills each of the table's.
fn sources(
    writer: &Schema,
    schema: &TableSchema,
) -> std::result::Result<Vec<Option<usize>>, Mismatch> {
    let mut sources = vec![None; schema.fields.len()];
    let (mut extra, mut incompatible) = (Vec::new(), Vec::new());
    for (i, field) in writer.fields().iter().enumerate() {
        let Some(at) = schema.index_of(field.name()) else {
            extra.push(field.name().clone());
            continue;
        };
        if sources[at].replace(i).is_some() {
            return Err(Mismatch::Invalid(format!(
                "it has several fields for the column {}",
                field.name()
            )));
        }
        check(
            field.data_type(),
            &schema.fields[at],
            field.name(),
            &mut extra,
            &mut incompatible,
        );
    }
    if !extra.is_empty() {
        return Err(Mismatch::Extra(extra));
    }
    if !incompatible.is_empty() {
        return Err(Mismatch::Incompatible(incompatible));
    }
    Ok(sources)
}

/// The values in buffers of their own. Those that came are pieces of the request,
/// and each of them would keep all of it.
fn compact(array: &ArrayRef) -> Result<ArrayRef> {
    let data = array.to_data();
    let mut copy = MutableArrayData::new(vec![&data], false, data.len());
    copy.try_extend(0, 0, data.len())
        .map_err(|e| ServiceError::internal(format!("appended values: {e}")))?;
    Ok(make_array(copy.freeze()))
}

#[cfg(test)]
mod tests;
