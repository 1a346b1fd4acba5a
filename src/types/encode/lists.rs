//! Lists of every layout, and maps, as elements and offsets.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};

use super::convert::unwritable;
use crate::error::{Error, ErrorKind, Result};

/// The field of the elements of a list of any layout, or of a map's entries.
pub(super) fn element(data_type: &DataType) -> Option<&Field> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => Some(item),
        _ => None,
    }
}

/// The elements of all lists, one list after the other and nothing else, and
/// where each list begins. A NULL list is an empty one.
pub(super) fn elements(array: &ArrayRef) -> Result<(ArrayRef, OffsetBuffer<i32>)> {
    match array.data_type() {
        DataType::List(_) => offsets(array.as_list::<i32>()),
        DataType::LargeList(_) => offsets(array.as_list::<i64>()),
        DataType::ListView(_) => {
            let lists = array.as_list_view::<i32>();
            scattered(
                lists.values(),
                lists.nulls(),
                lists.offsets().iter().map(|o| place(*o)),
                lists.sizes().iter().map(|o| place(*o)),
            )
        }
        DataType::LargeListView(_) => {
            let lists = array.as_list_view::<i64>();
            scattered(
                lists.values(),
                lists.nulls(),
                lists.offsets().iter().map(|o| place(*o)),
                lists.sizes().iter().map(|o| place(*o)),
            )
        }
        DataType::FixedSizeList(_, size) => {
            let lists = array.as_fixed_size_list();
            let size = place(*size)?;
            scattered(
                lists.values(),
                lists.nulls(),
                (0..lists.len()).map(|at| Ok(at * size)),
                (0..lists.len()).map(|_| Ok(size)),
            )
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            let entries: ArrayRef = Arc::new(maps.entries().clone());
            joined(&entries, maps.offsets(), maps.nulls())
        }
        other => Err(Error::new(
            ErrorKind::Internal,
            format!("{other} is no list"),
        )),
    }
}

fn offsets<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
) -> Result<(ArrayRef, OffsetBuffer<i32>)> {
    joined(lists.values(), lists.offsets(), lists.nulls())
}

/// Lists whose elements follow each other already, unless a NULL list has some.
fn joined<O: OffsetSizeTrait>(
    values: &ArrayRef,
    offsets: &OffsetBuffer<O>,
    nulls: Option<&NullBuffer>,
) -> Result<(ArrayRef, OffsetBuffer<i32>)> {
    let hidden = nulls.is_some_and(|nulls| {
        nulls.null_count() > 0
            && offsets
                .lengths()
                .enumerate()
                .any(|(at, length)| length > 0 && nulls.is_null(at))
    });
    if hidden {
        return scattered(
            values,
            nulls,
            offsets.iter().map(|o| Ok(o.as_usize())),
            offsets.lengths().map(Ok),
        );
    }
    let first = offsets[0].as_usize();
    let last = offsets[offsets.len() - 1].as_usize();
    let from_zero = offsets
        .iter()
        .map(|offset| i32::try_from(offset.as_usize() - first).map_err(|_| too_many()))
        .collect::<Result<Vec<_>>>()?;
    Ok((
        values.slice(first, last - first),
        OffsetBuffer::new(from_zero.into()),
    ))
}

/// Lists whose elements may stand anywhere.
fn scattered(
    values: &ArrayRef,
    nulls: Option<&NullBuffer>,
    offsets: impl Iterator<Item = Result<usize>>,
    sizes: impl Iterator<Item = Result<usize>>,
) -> Result<(ArrayRef, OffsetBuffer<i32>)> {
    let mut places = Vec::new();
    let mut ends = vec![0_i32];
    for (at, (offset, size)) in offsets.zip(sizes).enumerate() {
        if nulls.is_none_or(|nulls| nulls.is_valid(at)) {
            let (offset, size) = (offset?, size?);
            for place in offset..offset + size {
                places.push(u32::try_from(place).map_err(|_| too_many())?);
            }
        }
        ends.push(i32::try_from(places.len()).map_err(|_| too_many())?);
    }
    let values = take(values, &UInt32Array::from(places), None).map_err(unwritable)?;
    Ok((values, OffsetBuffer::new(ends.into())))
}

fn too_many() -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        "a column has more than 2^31 array elements in one batch; give smaller batches",
    )
}

fn place(offset: impl TryInto<usize>) -> Result<usize> {
    offset
        .try_into()
        .map_err(|_| Error::data("a list has a negative offset or size"))
}
