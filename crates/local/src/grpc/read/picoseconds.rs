//! `picos_timestamp_precision`: in which form TIMESTAMP(12) columns are answered.
//!
//! Values are kept in microseconds here, and text with more digits is refused
//! when it is written, so a finer form adds zeros that are true.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, RecordBatch, RecordBatchOptions, StringBuilder,
    StructArray, TimestampNanosecondArray,
};
use arrow::datatypes::{
    DataType, Field as ArrowField, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType,
};
use arrow::error::ArrowError;

use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, TableSchema, arrow_field};
use crate::value::timestamp::write_iso8601;

/// A form with more digits than microseconds have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finer {
    /// `Timestamp(ns, "UTC")`, for the years 1677 to 2262.
    Nanos,
    /// ISO 8601 text with twelve fractional digits.
    Picos,
}

/// Changes batches of a table with TIMESTAMP(12) columns to a finer form.
#[derive(Debug)]
pub(super) struct Refinement {
    finer: Finer,
    fields: Vec<Field>,
    schema: SchemaRef,
}

impl Refinement {
    /// None where no column changes.
    pub(super) fn of(table: &TableSchema, finer: Finer) -> Option<Self> {
        if !table.fields.iter().any(has_picoseconds) {
            return None;
        }
        let fields = table.fields.iter().map(|field| refined(field, finer));
        Some(Self {
            finer,
            fields: table.fields.clone(),
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        })
    }

    /// The schema of changed batches.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The batch in the finer form.
    ///
    /// # Errors
    /// A value that nanoseconds do not reach.
    pub(super) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = batch
            .columns()
            .iter()
            .zip(&self.fields)
            .zip(self.schema.fields())
            .map(|((array, field), target)| self.convert(array, field, target))
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(misfit)
    }

    fn convert(&self, array: &ArrayRef, field: &Field, target: &ArrowField) -> Result<ArrayRef> {
        if !has_picoseconds(field) {
            return Ok(Arc::clone(array));
        }
        if let (Mode::Repeated, DataType::List(item)) = (field.mode(), target.data_type()) {
            let list = array.as_list::<i32>();
            let values = self.convert(list.values(), &field.element(), item)?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            let list = ListArray::try_new(Arc::clone(item), offsets, values, nulls);
            return list.map(|a| Arc::new(a) as ArrayRef).map_err(misfit);
        }
        if let DataType::Struct(targets) = target.data_type() {
            let array = array.as_struct();
            let columns = array
                .columns()
                .iter()
                .zip(field.fields())
                .zip(targets)
                .map(|((child, field), target)| self.convert(child, field, target))
                .collect::<Result<Vec<_>>>()?;
            let nulls = array.nulls().cloned();
            return StructArray::try_new_with_length(targets.clone(), columns, nulls, array.len())
                .map(|a| Arc::new(a) as ArrayRef)
                .map_err(misfit);
        }
        let micros = array.as_primitive::<TimestampMicrosecondType>();
        match self.finer {
            Finer::Nanos => {
                let nanos: TimestampNanosecondArray = micros.try_unary(|value| {
                    value.checked_mul(1_000).ok_or_else(|| {
                        ServiceError::invalid(format!(
                            "column {} has a value outside the years that nanoseconds reach",
                            field.name
                        ))
                    })
                })?;
                Ok(Arc::new(nanos.with_timezone("UTC")))
            }
            Finer::Picos => {
                let mut texts = StringBuilder::new();
                let mut text = String::new();
                for value in micros {
                    text.clear();
                    texts.append_option(value.map(|value| {
                        write_iso8601(value, &mut text);
                        &text
                    }));
                }
                Ok(Arc::new(texts.finish()))
            }
        }
    }
}

fn misfit(error: ArrowError) -> ServiceError {
    ServiceError::internal(format!("refined rows do not fit their schema: {error}"))
}

/// Whether the field is a TIMESTAMP(12), or one is inside it.
fn has_picoseconds(field: &Field) -> bool {
    (field.field_type == FieldType::Timestamp && field.timestamp_precision == Some(12))
        || field.fields().iter().any(has_picoseconds)
}

/// The Arrow field of a column in the finer form.
fn refined(field: &Field, finer: Finer) -> ArrowField {
    let coarse = arrow_field(field);
    if !has_picoseconds(field) {
        return coarse;
    }
    let scalar = match &field.field_type {
        FieldType::Struct(fields) => {
            let fields = fields.iter().map(|field| refined(field, finer));
            DataType::Struct(fields.collect::<Vec<_>>().into())
        }
        _ => match finer {
            Finer::Nanos => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Finer::Picos => DataType::Utf8,
        },
    };
    let data_type = match coarse.data_type() {
        DataType::List(item) => {
            DataType::List(Arc::new(item.as_ref().clone().with_data_type(scalar)))
        }
        _ => scalar,
    };
    coarse.with_data_type(data_type)
}
