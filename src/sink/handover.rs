//! What writers give to the commit above them, as rows of the plan.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BinaryArray, BooleanArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::internal_datafusion_err;
use datafusion::error::{DataFusionError, Result};

use super::protocol::Committable;
use crate::error::{Error, ErrorKind};

/// The columns of a writer's rows. A row has a committable, or says with NULL in its
/// place that the writer has given out all that a checkpoint asked for.
pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("committable", DataType::Binary, true),
        Field::new("writer", DataType::UInt64, false),
        Field::new("ended", DataType::Boolean, false),
    ]))
}

/// Where a writer stands after what it gave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    /// It has given out all that it was asked for, and goes on.
    Answered,
    /// The same, and it was the last.
    Ended,
}

/// What a writer gives out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Handover {
    pub(super) committables: Vec<Committable>,
    /// What is said of writers, by their numbers.
    pub(super) stands: Vec<(usize, Stand)>,
}

impl Handover {
    /// Of one writer; `stand` is for those that can be asked.
    pub(super) fn new(writer: usize, committables: Vec<Committable>, stand: Option<Stand>) -> Self {
        Self {
            committables,
            stands: stand.into_iter().map(|stand| (writer, stand)).collect(),
        }
    }

    pub(super) fn to_batch(&self, writer: usize) -> Result<RecordBatch> {
        let mut texts = self
            .committables
            .iter()
            .map(|committable| {
                serde_json::to_vec(committable).map(Some).map_err(|error| {
                    internal_datafusion_err!("a committable cannot be written down: {error}")
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let mut ended = vec![false; texts.len()];
        for (_, stand) in &self.stands {
            texts.push(None);
            ended.push(*stand == Stand::Ended);
        }
        let number = u64::try_from(writer).unwrap_or(u64::MAX);
        let writers = UInt64Array::from_value(number, texts.len());
        let texts: BinaryArray = texts.iter().map(Option::as_deref).collect();
        Ok(RecordBatch::try_new(
            schema(),
            vec![
                Arc::new(texts),
                Arc::new(writers),
                Arc::new(BooleanArray::from(ended)),
            ],
        )?)
    }

    pub(super) fn of_batch(batch: &RecordBatch) -> Result<Self> {
        let texts = batch.column(0).as_binary::<i32>();
        let writers = batch.column(1).as_primitive::<UInt64Type>();
        let ended = batch.column(2).as_boolean();
        let mut handover = Self::new(0, Vec::new(), None);
        for row in 0..batch.num_rows() {
            if texts.is_valid(row) {
                let read = serde_json::from_slice(texts.value(row));
                let committable = read.map_err(|error| {
                    DataFusionError::from(Error::new(
                        ErrorKind::Internal,
                        format!("what a writer prepared for the commit cannot be read: {error}"),
                    ))
                })?;
                handover.committables.push(committable);
            } else {
                let stand = match ended.value(row) {
                    true => Stand::Ended,
                    false => Stand::Answered,
                };
                let writer = usize::try_from(writers.value(row)).unwrap_or(usize::MAX);
                handover.stands.push((writer, stand));
            }
        }
        Ok(handover)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_what_is_taken() {
        let rows = |rows| Committable::StorageApiAtLeastOnceV1 { rows };
        for (committables, stand) in [
            (vec![], None),
            (vec![rows(3), rows(4)], None),
            (vec![rows(3)], Some(Stand::Answered)),
            (vec![], Some(Stand::Ended)),
        ] {
            let given = Handover::new(7, committables, stand);
            let batch = given.to_batch(7).unwrap();
            assert_eq!(Handover::of_batch(&batch).unwrap(), given);
        }
    }
}
