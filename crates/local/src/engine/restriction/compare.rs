//! Comparisons with GoogleSQL's meaning: NaN equals nothing, −0 equals +0.

use std::cmp::Ordering;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Datum as ArrowDatum, Scalar, UInt32Array,
};
use arrow::compute::kernels::cmp;
use arrow::datatypes::{
    Date32Type, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    TimestampMicrosecondType,
};

use super::ast::Comparison;
use super::collation;
use super::datum::{Datum, Rows};
use super::error::failed;
use super::types::Type;
use crate::error::Result;
use crate::schema::RangeElement;

fn internal(e: arrow::error::ArrowError) -> crate::error::ServiceError {
    failed(format_args!("internal: {e}"))
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Eq => order == Ordering::Equal,
            Comparison::Ne => order != Ordering::Equal,
            Comparison::Lt => order == Ordering::Less,
            Comparison::Le => order != Ordering::Greater,
            Comparison::Gt => order == Ordering::Greater,
            Comparison::Ge => order != Ordering::Less,
        }
    }
}

/// `left operator right` for values of `ty`.
pub(super) fn compare(
    operator: Comparison,
    ty: &Type,
    ignores_case: bool,
    left: &Datum,
    right: &Datum,
    rows: &Rows,
) -> Result<Datum> {
    let both = [left, right];
    match ty {
        Type::Float64 => {
            let (a, b) = (
                left.primitive::<Float64Type>(),
                right.primitive::<Float64Type>(),
            );
            rows.booleans(&both, |i| {
                Ok(a.get(i).zip(b.get(i)).map(|(a, b)| {
                    match a.partial_cmp(&b) {
                        Some(order) => operator.holds(order),
                        // With NaN only != is true.
                        None => operator == Comparison::Ne,
                    }
                }))
            })
        }
        Type::Text if ignores_case => {
            let (a, b) = (left.text(), right.text());
            rows.booleans(&both, |i| {
                Ok(a.get(i)
                    .zip(b.get(i))
                    .map(|(a, b)| operator.holds(collation::compare(a, b))))
            })
        }
        Type::Interval => {
            let (a, b) = (
                left.primitive::<IntervalMonthDayNanoType>(),
                right.primitive::<IntervalMonthDayNanoType>(),
            );
            rows.booleans(&both, |i| {
                Ok(a.get(i)
                    .zip(b.get(i))
                    .map(|(a, b)| operator.holds(length(a).cmp(&length(b)))))
            })
        }
        Type::Range(element) => rows.booleans(&both, |i| {
            Ok(bounds(left, *element, i)
                .zip(bounds(right, *element, i))
                .map(|(a, b)| operator.holds(a.cmp(&b))))
        }),
        _ => {
            let kernel = match operator {
                Comparison::Eq => cmp::eq,
                Comparison::Ne => cmp::neq,
                Comparison::Lt => cmp::lt,
                Comparison::Le => cmp::lt_eq,
                Comparison::Gt => cmp::gt,
                Comparison::Ge => cmp::gt_eq,
            };
            let constant = left.constant && right.constant;
            let result = if constant {
                kernel(&left.array, &right.array)
            } else {
                kernel(as_arrow(left).as_ref(), as_arrow(right).as_ref())
            }
            .map_err(internal)?;
            Ok(Datum::like(result, constant))
        }
    }
}

fn as_arrow(datum: &Datum) -> Box<dyn ArrowDatum> {
    if datum.constant {
        Box::new(Scalar::new(datum.array.clone()))
    } else {
        Box::new(datum.array.clone())
    }
}

/// The length by which intervals compare: a month is 30 days, a day 24 hours.
fn length(value: IntervalMonthDayNano) -> i128 {
    const DAY: i128 = 86_400_000_000_000;
    (i128::from(value.months) * 30 + i128::from(value.days)) * DAY + i128::from(value.nanoseconds)
}

/// The bounds of a range, ordered so that an open start is first and an open end
/// last.
fn bounds(datum: &Datum, element: RangeElement, row: usize) -> Option<(i64, i64)> {
    let i = if datum.constant { 0 } else { row };
    let array = datum.array.as_struct();
    if array.is_null(i) {
        return None;
    }
    let bound = |child: &ArrayRef, open: i64| {
        if child.is_null(i) {
            return open;
        }
        match element {
            RangeElement::Date => i64::from(child.as_primitive::<Date32Type>().value(i)),
            RangeElement::Datetime | RangeElement::Timestamp => {
                child.as_primitive::<TimestampMicrosecondType>().value(i)
            }
        }
    };
    Some((
        bound(array.column(0), i64::MIN),
        bound(array.column(1), i64::MAX),
    ))
}

/// `left IS NOT DISTINCT FROM right`: NULL is the same as NULL, and NaN as NaN.
pub(super) fn same(
    ty: &Type,
    ignores_case: bool,
    left: &Datum,
    right: &Datum,
    rows: &Rows,
) -> Result<Datum> {
    let equal = compare(Comparison::Eq, ty, ignores_case, left, right, rows)?;
    let equal = equal.booleans();
    let both = [left, right];
    let nan = |datum: &Datum, row: usize| {
        *ty == Type::Float64
            && datum
                .primitive::<Float64Type>()
                .get(row)
                .is_some_and(f64::is_nan)
    };
    rows.booleans(&both, |i| {
        Ok(Some(match (left.is_null(i), right.is_null(i)) {
            (true, true) => true,
            (false, false) => equal.get(i) == Some(true) || (nan(left, i) && nan(right, i)),
            _ => false,
        }))
    })
}

/// `value IN UNNEST(array)`, where `array` has a list for each row.
pub(super) fn in_array(
    element: &Type,
    ignores_case: bool,
    value: &Datum,
    array: &Datum,
    rows: &Rows,
) -> Result<Datum> {
    let lists = array.array.as_list::<i32>();
    let offsets = lists.value_offsets();
    // For each element the row that it belongs to.
    let mut owners = Vec::with_capacity(lists.values().len());
    for row in 0..lists.len() {
        let n = usize::try_from(offsets[row + 1] - offsets[row]).unwrap_or(0);
        let owner = u32::try_from(row).map_err(|_| failed("internal: too many rows"))?;
        owners.extend(std::iter::repeat_n(owner, n));
    }
    let start = usize::try_from(offsets[0]).unwrap_or(0);
    let elements = super::datum::from_stored(&lists.values().slice(start, owners.len()), element)?;
    let elements = Datum {
        array: elements,
        constant: false,
    };
    let repeated = if value.constant {
        value.clone()
    } else {
        Datum {
            array: arrow::compute::take(
                value.array.as_ref(),
                &UInt32Array::from(owners.clone()),
                None,
            )
            .map_err(internal)?,
            constant: false,
        }
    };
    let hits: BooleanArray = compare(
        Comparison::Eq,
        element,
        ignores_case,
        &repeated,
        &elements,
        &Rows::all(owners.len()),
    )?
    .into_booleans(owners.len());
    let first = |row: usize| usize::try_from(offsets[row] - offsets[0]).unwrap_or(0);
    rows.booleans(&[value, array], |row| {
        if lists.is_null(row) {
            return Ok(Some(false));
        }
        let (mut found, mut unknown) = (false, false);
        for i in first(row)..first(row + 1) {
            match hits.is_valid(i).then(|| hits.value(i)) {
                Some(hit) => found |= hit,
                None => unknown = true,
            }
        }
        Ok(if found {
            Some(true)
        } else if unknown {
            None
        } else {
            Some(false)
        })
    })
}
