//! Elements of arrays and members of JSON values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, StringBuilder, UInt32Array, new_null_array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::error::{DataFusionError, Result as DfResult};
use serde_json::value::RawValue;

use super::super::ast::Subscript;
use super::super::session::external;
use crate::error::ServiceError;

/// `array[index]` for every row.
pub(super) fn element(
    array: &ArrayRef,
    index: &ArrayRef,
    kind: Subscript,
    ty: &DataType,
) -> DfResult<ArrayRef> {
    if matches!(array.data_type(), DataType::Null) || matches!(index.data_type(), DataType::Null) {
        return Ok(new_null_array(ty, array.len()));
    }
    let list = array.as_list::<i32>();
    let index = index.as_primitive::<Int64Type>();
    let base = match kind {
        Subscript::Ordinal | Subscript::SafeOrdinal => 1,
        Subscript::Plain | Subscript::Offset | Subscript::SafeOffset => 0,
    };
    let safe = matches!(kind, Subscript::SafeOffset | Subscript::SafeOrdinal);
    let mut indices = Vec::with_capacity(list.len());
    for row in 0..list.len() {
        if list.is_null(row) || index.is_null(row) {
            indices.push(None);
            continue;
        }
        let given = index.value(row);
        let length = i64::from(list.value_length(row));
        let place = given.saturating_sub(base);
        if place < 0 || place >= length {
            if safe {
                indices.push(None);
                continue;
            }
            let how = if place < 0 { "underflow" } else { "overflow" };
            return Err(external(ServiceError::invalid_query(format!(
                "Array index {given} is out of bounds ({how})"
            ))));
        }
        let start = u32::try_from(list.value_offsets()[row]).unwrap_or(0);
        indices.push(u32::try_from(place).ok().map(|p| start + p));
    }
    Ok(take(list.values(), &UInt32Array::from(indices), None)?)
}

/// `json.name`, `json['name']` and `json[0]`: the member's text as it stands.
pub(super) fn json_member(value: &ArrayRef, index: &ArrayRef) -> DfResult<ArrayRef> {
    if matches!(value.data_type(), DataType::Null) || matches!(index.data_type(), DataType::Null) {
        return Ok(new_null_array(&DataType::Utf8, value.len()));
    }
    let texts = value.as_string::<i32>();
    let mut out = StringBuilder::new();
    for row in 0..texts.len() {
        if texts.is_null(row) || index.is_null(row) {
            out.append_null();
            continue;
        }
        let text = texts.value(row);
        let found = match index.data_type() {
            DataType::Utf8 => serde_json::from_str::<HashMap<String, &RawValue>>(text)
                .ok()
                .and_then(|members| {
                    members
                        .get(index.as_string::<i32>().value(row))
                        .map(|v| v.get().to_string())
                }),
            _ => serde_json::from_str::<Vec<&RawValue>>(text)
                .ok()
                .and_then(|items| {
                    usize::try_from(index.as_primitive::<Int64Type>().value(row))
                        .ok()
                        .and_then(|i| items.get(i).map(|v| v.get().to_string()))
                }),
        };
        out.append_option(found);
    }
    Ok(Arc::new(out.finish()))
}

/// `value IN UNNEST(array)` for types whose equality is that of their bytes.
pub(super) fn member(value: &ArrayRef, array: &ArrayRef) -> DfResult<ArrayRef> {
    let rows = value.len();
    let DataType::List(item) = array.data_type() else {
        return Ok(Arc::new(BooleanArray::from(vec![false; rows])));
    };
    if value.data_type() != item.data_type() {
        return Err(DataFusionError::Internal(
            "IN UNNEST compares values of one type".into(),
        ));
    }
    let list = array.as_list::<i32>();
    let converter = RowConverter::new(vec![SortField::new(item.data_type().clone())])?;
    let needles = converter.convert_columns(std::slice::from_ref(value))?;
    let items = converter.convert_columns(std::slice::from_ref(list.values()))?;
    let answers: BooleanArray = (0..rows)
        .map(|row| {
            let range = list.value_offsets()[row]..list.value_offsets()[row + 1];
            if list.is_null(row) || range.is_empty() {
                return Some(false);
            }
            if value.is_null(row) {
                return None;
            }
            let mut unknown = false;
            for i in range {
                let i = usize::try_from(i).unwrap_or(0);
                if list.values().is_null(i) {
                    unknown = true;
                } else if items.row(i) == needles.row(row) {
                    return Some(true);
                }
            }
            if unknown { None } else { Some(false) }
        })
        .collect();
    Ok(Arc::new(answers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Int64Array, StringArray,
        builder::{Int64Builder, ListBuilder},
    };

    fn list(values: &[Option<i64>]) -> ArrayRef {
        let mut builder = ListBuilder::new(Int64Builder::new());
        builder.append_value(values.iter().copied());
        Arc::new(builder.finish())
    }

    #[test]
    fn positions_count_from_where_they_say() {
        let array = list(&[Some(7), Some(8)]);
        let at = |i: i64, kind| {
            let index: ArrayRef = Arc::new(Int64Array::from(vec![i]));
            element(&array, &index, kind, &DataType::Int64)
        };
        let value = |i, kind| at(i, kind).unwrap().as_primitive::<Int64Type>().value(0);
        assert_eq!(value(0, Subscript::Offset), 7);
        assert_eq!(value(2, Subscript::Ordinal), 8);
        assert!(at(2, Subscript::SafeOffset).unwrap().is_null(0));
        let error = at(2, Subscript::Offset).unwrap_err().to_string();
        assert!(
            error.contains("Array index 2 is out of bounds (overflow)"),
            "{error}"
        );
        let error = at(0, Subscript::Ordinal).unwrap_err().to_string();
        assert!(
            error.contains("Array index 0 is out of bounds (underflow)"),
            "{error}"
        );
    }

    #[test]
    fn membership_knows_null() {
        let one = |v: Option<i64>, items: &[Option<i64>]| {
            let value: ArrayRef = Arc::new(Int64Array::from(vec![v]));
            let answer = member(&value, &list(items)).unwrap();
            let answer = answer.as_boolean();
            answer.is_valid(0).then(|| answer.value(0))
        };
        assert_eq!(one(Some(1), &[Some(1), None]), Some(true));
        assert_eq!(one(Some(2), &[Some(1), None]), None);
        assert_eq!(one(Some(2), &[Some(1)]), Some(false));
        assert_eq!(one(None, &[Some(1)]), None);
        assert_eq!(one(None, &[]), Some(false));
    }

    #[test]
    fn json_members_keep_their_text() {
        let value: ArrayRef = Arc::new(StringArray::from(vec![r#"{"a":1.50,"b":[1,"x"]}"#]));
        let get = |v: &ArrayRef, k: ArrayRef| {
            let out = json_member(v, &k).unwrap();
            let out = out.as_string::<i32>().clone();
            out.is_valid(0).then(|| out.value(0).to_string())
        };
        let name = |s: &str| Arc::new(StringArray::from(vec![s])) as ArrayRef;
        assert_eq!(get(&value, name("a")).as_deref(), Some("1.50"));
        assert_eq!(get(&value, name("z")), None);
        let array = json_member(&value, &name("b")).unwrap();
        let index: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert_eq!(get(&array, index).as_deref(), Some("\"x\""));
    }
}
