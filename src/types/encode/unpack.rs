//! Arrays that stand for others: dictionaries and runs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, nullif, take};
use arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type, RunEndIndexType};

use super::convert::unwritable;
use crate::error::Result;

/// The type of the values behind dictionaries and runs.
pub(super) fn plain_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        other => other,
    }
}

/// The values themselves: without dictionaries and runs.
pub(super) fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let mut values = plain(dictionary.values())?;
            // Views of the dictionary's text are cheaper than copies of it.
            values = match values.data_type() {
                DataType::Utf8 | DataType::LargeUtf8 => {
                    cast(&values, &DataType::Utf8View).map_err(unwritable)?
                }
                DataType::Binary | DataType::LargeBinary => {
                    cast(&values, &DataType::BinaryView).map_err(unwritable)?
                }
                _ => values,
            };
            take(&values, dictionary.keys(), None).map_err(unwritable)
        }
        DataType::RunEndEncoded(ends, _) => match ends.data_type() {
            DataType::Int16 => runs::<Int16Type>(array),
            DataType::Int32 => runs::<Int32Type>(array),
            _ => runs::<Int64Type>(array),
        },
        _ => Ok(Arc::clone(array)),
    }
}

fn runs<R: RunEndIndexType>(array: &ArrayRef) -> Result<ArrayRef> {
    let runs = array.as_run::<R>();
    let mut places = Vec::with_capacity(runs.len());
    let mut run = runs.get_start_physical_index();
    let ends = runs.run_ends();
    for at in 0..runs.len() {
        let logical = ends.offset() + at;
        while ends
            .values()
            .get(run)
            .is_some_and(|end| arrow::datatypes::ArrowNativeType::as_usize(*end) <= logical)
        {
            run += 1;
        }
        places.push(u32::try_from(run).map_err(|_| {
            crate::error::Error::new(
                crate::error::ErrorKind::InvalidArgument,
                "a column has more than 2^32 runs in one batch; give smaller batches",
            )
        })?);
    }
    let values = plain(runs.values())?;
    take(&values, &UInt32Array::from(places), None).map_err(unwritable)
}

/// `array`, NULL wherever the struct that holds its values is.
pub(super) fn masked(array: ArrayRef, holders: Option<&NullBuffer>) -> Result<ArrayRef> {
    match holders {
        Some(holders) if holders.null_count() > 0 && array.data_type() != &DataType::Null => {
            let absent = arrow::array::BooleanArray::new(!holders.inner(), None);
            nullif(&array, &absent).map_err(unwritable)
        }
        _ => Ok(array),
    }
}
