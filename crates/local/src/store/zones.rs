//! Zone maps: the least and the greatest value of a column in each stored batch. A
//! batch whose zone lies outside of what a reader wants need not be looked at.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use arrow::compute::{max, min};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Int64Type, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use parking_lot::Mutex;

/// What is known of a column in one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// Nothing.
    Unknown,
    /// Every value is NULL.
    Nulls,
    /// The least and the greatest value, in units of the column's type.
    Values(i128, i128),
}

impl Zone {
    /// The zone of an array's values.
    fn of(array: &dyn Array) -> Self {
        match array.data_type() {
            DataType::Int64 => ends(array.as_primitive::<Int64Type>()),
            DataType::Date32 => ends(array.as_primitive::<Date32Type>()),
            DataType::Time64(TimeUnit::Microsecond) => {
                ends(array.as_primitive::<Time64MicrosecondType>())
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                ends(array.as_primitive::<TimestampMicrosecondType>())
            }
            DataType::Decimal128(_, _) => ends(array.as_primitive::<Decimal128Type>()),
            _ => Zone::Unknown,
        }
    }

    /// Whether there can be a value from `least` to `greatest`.
    pub fn may_hold(self, least: i128, greatest: i128) -> bool {
        match self {
            Zone::Unknown => true,
            Zone::Nulls => false,
            Zone::Values(from, to) => from <= greatest && least <= to,
        }
    }
}

fn ends<T: ArrowPrimitiveType<Native: Into<i128>>>(values: &PrimitiveArray<T>) -> Zone {
    match (min(values), max(values)) {
        (Some(least), Some(greatest)) => Zone::Values(least.into(), greatest.into()),
        _ => Zone::Nulls,
    }
}

/// The value of `array` at `row` as a whole number of units of its type; `None` for NULL
/// and for types that have no such unit.
pub fn ordinal(array: &dyn Array, row: usize) -> Option<i128> {
    match Zone::of(array.slice(row, 1).as_ref()) {
        Zone::Values(value, _) => Some(value),
        Zone::Unknown | Zone::Nulls => None,
    }
}

/// The zones of columns that were asked for, by name and type, of each batch.
#[derive(Debug, Default)]
pub(super) struct Zones(Mutex<HashMap<String, Arc<[Zone]>>>);

impl Zones {
    /// The zones of the column called `name` in `batches`, always the same ones. They are
    /// found out when they are first asked for: most columns are never restricted.
    /// Values of another type than `data_type` are compared after a cast: unknown.
    pub(super) fn of(
        &self,
        batches: &[RecordBatch],
        name: &str,
        data_type: &DataType,
    ) -> Arc<[Zone]> {
        let known = self.0.lock().get(name).cloned();
        let zones = known.unwrap_or_else(|| {
            let found: Arc<[Zone]> = batches.iter().map(|batch| zone(batch, name)).collect();
            self.0.lock().insert(name.to_owned(), Arc::clone(&found));
            found
        });
        if batches.iter().all(|b| typed(b, name, data_type)) {
            zones
        } else {
            vec![Zone::Unknown; zones.len()].into()
        }
    }
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a dyn Array> {
    let schema = batch.schema_ref();
    let position = schema
        .fields()
        .iter()
        .position(|field| field.name().eq_ignore_ascii_case(name))?;
    Some(batch.column(position).as_ref())
}

fn zone(batch: &RecordBatch, name: &str) -> Zone {
    // Rows that were written without the column have NULL there, or a default later on.
    column(batch, name).map_or(Zone::Unknown, Zone::of)
}

fn typed(batch: &RecordBatch, name: &str, data_type: &DataType) -> bool {
    column(batch, name).is_none_or(|column| match (column.data_type(), data_type) {
        // The zone is for show.
        (DataType::Timestamp(own, _), DataType::Timestamp(other, _)) => own == other,
        (own, other) => own == other,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array};

    use super::*;

    #[test]
    fn a_zone_has_the_ends_of_the_values_that_are_there() {
        let zone = |array: &dyn Array| Zone::of(array);
        assert_eq!(
            zone(&Int64Array::from(vec![Some(i64::MAX), None, Some(-3)])),
            Zone::Values(-3, i64::MAX.into())
        );
        assert_eq!(zone(&Date32Array::from(vec![7])), Zone::Values(7, 7));
        assert_eq!(zone(&Int64Array::from(vec![None, None])), Zone::Nulls);
        assert_eq!(zone(&Int64Array::from(Vec::<i64>::new())), Zone::Nulls);
        assert_eq!(zone(&Float64Array::from(vec![1.0])), Zone::Unknown);
        let decimals = Decimal128Array::from(vec![i128::MIN, i128::MAX]);
        assert_eq!(zone(&decimals), Zone::Values(i128::MIN, i128::MAX));
    }

    #[test]
    fn only_what_lies_outside_is_ruled_out() {
        let zone = Zone::Values(10, 20);
        for (least, greatest, may) in [
            (0, 9, false),
            (0, 10, true),
            (20, 20, true),
            (21, 30, false),
            (i128::MIN, i128::MAX, true),
            (15, 14, true),
        ] {
            assert_eq!(zone.may_hold(least, greatest), may, "{least} to {greatest}");
        }
        assert!(!Zone::Nulls.may_hold(i128::MIN, i128::MAX));
        assert!(Zone::Unknown.may_hold(1, 0));
    }

    #[test]
    fn values_of_another_type_and_absent_columns_are_unknown() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let batches = [RecordBatch::try_from_iter([("N", column)]).unwrap()];
        let zones = Zones::default();
        let of = |name: &str, ty: &DataType| zones.of(&batches, name, ty).to_vec();
        assert_eq!(of("n", &DataType::Int64), [Zone::Values(1, 2)]);
        assert_eq!(of("n", &DataType::Decimal128(38, 9)), [Zone::Unknown]);
        assert_eq!(of("n", &DataType::Int64), [Zone::Values(1, 2)]);
        assert_eq!(of("m", &DataType::Int64), [Zone::Unknown]);
    }
}
