//! A cast that fails where a value would change, or says so beside the values.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, StringArray, StructArray, make_comparator,
    new_null_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{
    CastOptions, SortOptions, can_cast_types, cast_with_options, nullif,
};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::{Error, ErrorKind};
use crate::sink::{checked_metadata, checked_type, checked_values};
use crate::types::TableRef;
use crate::types::create::{NewModes, table_schema_for};
use crate::types::encode::FieldMarks;

/// What becomes of a value that a cast would change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Misfit {
    /// The query fails.
    Fails,
    /// The cast gives a struct that a sink understands, and the row is for its failure
    /// policy.
    IsTold,
}

/// The column that a value goes to, as errors name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Goal {
    pub(super) table: TableRef,
    pub(super) column: String,
    /// Its type, as BigQuery calls it.
    pub(super) type_name: String,
}

/// Casts to a type, and fails for a value that the type cannot hold as it is.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ExactCast {
    to: DataType,
    /// None for values that something computes with before they go anywhere.
    goal: Option<Goal>,
    /// And its row, where one value is one row.
    row: Option<usize>,
    misfit: Misfit,
    signature: Signature,
}

impl ExactCast {
    pub(super) fn new(
        to: DataType,
        goal: Option<Goal>,
        row: Option<usize>,
        misfit: Misfit,
    ) -> Self {
        let volatility = match misfit {
            Misfit::Fails => Volatility::Immutable,
            // Not evaluated before the sink can see it.
            Misfit::IsTold => Volatility::Volatile,
        };
        Self {
            to: nullable(&to),
            goal,
            row,
            misfit,
            signature: Signature::any(1, volatility),
        }
    }
}

impl ScalarUDFImpl for ExactCast {
    fn name(&self) -> &str {
        "exact_cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.misfit {
            Misfit::Fails => self.to.clone(),
            Misfit::IsTold => checked_type(&self.to),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if let [from] = args.arg_fields
            && let Some(field) = unknown_field(from.data_type(), &self.to)
        {
            return Err(self.unknown(&field));
        }
        let field = Field::new(self.name(), self.return_type(&[])?, true);
        Ok(Arc::new(match self.misfit {
            Misfit::Fails => field,
            Misfit::IsTold => field.with_metadata(checked_metadata()),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(args.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let mut arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let array = arrays.swap_remove(0);
        let cast = match self.misfit {
            Misfit::Fails => {
                cast_exactly(&array, &self.to).map_err(|(at, why)| self.error(&array, at, why))?
            }
            Misfit::IsTold => self.told(&array)?,
        };
        if scalar {
            let value = datafusion::common::ScalarValue::try_from_array(&cast, 0)?;
            return Ok(ColumnarValue::Scalar(value));
        }
        Ok(ColumnarValue::Array(cast))
    }
}

impl ExactCast {
    /// The cast with what could not be cast beside it.
    fn told(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let rows = array.len();
        if let Ok(cast) = cast_exactly(array, &self.to) {
            let none = || StringArray::new_null(rows);
            return Ok(checked_values(cast, none(), none()));
        }
        let reasons: Vec<Option<String>> = (0..rows)
            .map(|at| {
                let (_, why) = cast_exactly(&array.slice(at, 1), &self.to).err()?;
                Some(self.reason(array, at, why))
            })
            .collect();
        let given: StringArray = (0..rows)
            .map(|at| {
                reasons[at].as_ref()?;
                array_value_to_string(array, at).ok()
            })
            .collect();
        let wrong: BooleanArray = reasons
            .iter()
            .map(|reason| Some(reason.is_some()))
            .collect();
        let right = nullif(array, &wrong)?;
        let cast =
            cast_exactly(&right, &self.to).unwrap_or_else(|_| new_null_array(&self.to, rows));
        Ok(checked_values(cast, reasons.into_iter().collect(), given))
    }

    fn reason(&self, array: &ArrayRef, at: usize, why: &str) -> String {
        let value = match array.data_type().is_null() {
            true => String::new(),
            false => {
                let value = array_value_to_string(array, at).unwrap_or_default();
                format!("the value {value} ")
            }
        };
        let to = self.type_name();
        format!("{value}{why} {to} (cast it to what it shall become)")
    }

    fn type_name(&self) -> String {
        match &self.goal {
            Some(goal) => goal.type_name.clone(),
            None => {
                let schema = Schema::new(vec![Field::new("value", self.to.clone(), true)]);
                let made = table_schema_for(&schema, &FieldMarks::default(), NewModes::Nullable);
                let column = made.ok().and_then(|made| made.fields.into_iter().next());
                column.map_or_else(|| self.to.to_string(), |column| column.type_name())
            }
        }
    }

    /// The error of a field that the column does not have.
    fn unknown(&self, field: &str) -> DataFusionError {
        let path = match &self.goal {
            Some(goal) => format!("{}.{field}", goal.column),
            None => field.to_string(),
        };
        Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the values have a field '{path}', and the column has none of that name: its type is {}",
                self.type_name()
            ),
        )
        .into()
    }

    fn error(&self, array: &ArrayRef, at: usize, why: &str) -> DataFusionError {
        let row = self.row.map(|row| format!("row {row}"));
        let column = self.goal.as_ref();
        let column = column.map(|goal| format!("column '{}'", goal.column));
        let place: Vec<_> = row.into_iter().chain(column).collect();
        let place = match place.is_empty() {
            true => "a row".to_string(),
            false => place.join(", "),
        };
        let error = Error::new(
            ErrorKind::InvalidArgument,
            format!("{place} cannot be written: {}", self.reason(array, at, why)),
        );
        match &self.goal {
            Some(goal) => error.with_context(format!("writing table {}", goal.table)),
            None => error,
        }
        .into()
    }
}

const NOT: &str = "cannot be read as";
const CHANGED: &str = "has more digits than fit into";

/// The cast, or the first value that it fails for or would change.
fn cast_exactly(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, (usize, &'static str)> {
    let from = array.data_type();
    if from == to {
        return Ok(Arc::clone(array));
    }
    if let (DataType::Struct(_), DataType::Struct(fields)) = (from, to) {
        return cast_struct(array.as_struct(), fields);
    }
    if let DataType::List(element) = to
        && let Some(list) = as_list(array)
    {
        return cast_list(&list, element);
    }
    // Arrow makes a list of one value, and text of a list.
    let nests = from.is_nested() != to.is_nested() && !from.is_null();
    if nests || !can_cast_types(from, to) {
        return Err((0, NOT));
    }
    let options = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    let cast = cast_with_options(array, to, &options).map_err(|_| (0, NOT))?;
    let null = |array: &ArrayRef, at| array.logical_nulls().is_some_and(|nulls| nulls.is_null(at));
    if array.logical_null_count() != cast.logical_null_count() {
        let lost = (0..array.len()).find(|at| !null(array, *at) && null(&cast, *at));
        return Err((lost.unwrap_or(0), NOT));
    }
    if to.is_string() || !is_comparable(from) {
        return Ok(cast);
    }
    if from.is_string() {
        let Some(most) = fraction_digits(to) else {
            return Ok(cast);
        };
        let text = cast_with_options(array, &DataType::Utf8, &options).map_err(|_| (0, NOT))?;
        let text = text.as_string::<i32>();
        let long = (0..text.len()).find(|at| text.is_valid(*at) && digits(text.value(*at)) > most);
        return long.map_or(Ok(cast), |at| Err((at, CHANGED)));
    }
    let back = cast_with_options(&cast, from, &options).map_err(|_| (0, CHANGED))?;
    let compare =
        make_comparator(array, &back, SortOptions::default()).map_err(|_| (0, CHANGED))?;
    match (0..array.len()).find(|at| compare(*at, *at).is_ne()) {
        Some(at) => Err((at, CHANGED)),
        None => Ok(cast),
    }
}

/// The values of a struct field by field: those of the same name, or, where they have no
/// names of their own, of the same place. Fields that are not there are NULL.
fn cast_struct(array: &StructArray, to: &Fields) -> Result<ArrayRef, (usize, &'static str)> {
    let by_place = are_unnamed(array.fields()) && array.num_columns() == to.len();
    let columns = to.iter().enumerate().map(|(place, field)| {
        let named = array
            .fields()
            .iter()
            .position(|from| from.name().eq_ignore_ascii_case(field.name()));
        let found = named.or_else(|| by_place.then_some(place));
        match found.map(|at| array.column(at)) {
            None => Ok(new_null_array(field.data_type(), array.len())),
            Some(values) => {
                // What stands behind a NULL is no value.
                let values = match array.nulls() {
                    Some(nulls) => {
                        let hidden = BooleanArray::new(!nulls.inner(), None);
                        nullif(values, &hidden).map_err(|_| (0, NOT))?
                    }
                    None => Arc::clone(values),
                };
                cast_exactly(&values, field.data_type())
            }
        }
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let nulls = array.nulls().cloned();
    let cast = StructArray::try_new_with_length(to.clone(), columns, nulls, array.len())
        .map_err(|_| (0, NOT))?;
    Ok(Arc::new(cast))
}

/// The type with fields that may be NULL: whether they are is for the sink to find, which
/// names their row.
fn nullable(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| {
        let data_type = nullable(field.data_type());
        Arc::new(
            field
                .as_ref()
                .clone()
                .with_data_type(data_type)
                .with_nullable(true),
        )
    };
    match data_type {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::List(element) => DataType::List(field(element)),
        other => other.clone(),
    }
}

/// Lists of any layout in the plain one.
fn as_list(array: &ArrayRef) -> Option<ListArray> {
    let element = match array.data_type() {
        DataType::List(_) => return Some(array.as_list().clone()),
        DataType::LargeList(element)
        | DataType::FixedSizeList(element, _)
        | DataType::ListView(element)
        | DataType::LargeListView(element) => element,
        _ => return None,
    };
    let list = cast_with_options(
        array,
        &DataType::List(Arc::clone(element)),
        &CastOptions::default(),
    );
    list.ok().map(|list| list.as_list().clone())
}

fn cast_list(list: &ListArray, to: &FieldRef) -> Result<ArrayRef, (usize, &'static str)> {
    let start = list.value_offsets()[0];
    let end = list.value_offsets()[list.len()];
    let length = |from: i32, to: i32| usize::try_from(to - from).unwrap_or(0);
    let values = list.values().slice(length(0, start), length(start, end));
    let offsets = OffsetBuffer::from_lengths(list.offsets().lengths());
    let values = cast_exactly(&values, to.data_type()).map_err(|(at, why)| {
        let after = offsets.partition_point(|offset| length(0, *offset) <= at);
        (after.saturating_sub(1), why)
    })?;
    let cast = ListArray::try_new(Arc::clone(to), offsets, values, list.nulls().cloned())
        .map_err(|_| (0, NOT))?;
    Ok(Arc::new(cast))
}

/// Whether the fields are called as `struct(1, 'a')` calls them.
fn are_unnamed(fields: &Fields) -> bool {
    let mut fields = fields.iter().enumerate();
    fields.all(|(at, field)| *field.name() == format!("c{at}"))
}

/// The first field of structs that the type they are cast to does not have.
fn unknown_field(from: &DataType, to: &DataType) -> Option<String> {
    match (from, to) {
        (DataType::Struct(from), DataType::Struct(to)) => {
            if are_unnamed(from) && from.len() == to.len() {
                let mut pairs = from.iter().zip(to);
                return pairs.find_map(|(from, to)| below(to.name(), from, to));
            }
            from.iter().find_map(|from| {
                let mut same = to.iter();
                match same.find(|to| to.name().eq_ignore_ascii_case(from.name())) {
                    None => Some(from.name().clone()),
                    Some(to) => below(to.name(), from, to),
                }
            })
        }
        (
            DataType::List(from)
            | DataType::LargeList(from)
            | DataType::FixedSizeList(from, _)
            | DataType::ListView(from)
            | DataType::LargeListView(from),
            DataType::List(to),
        ) => unknown_field(from.data_type(), to.data_type()),
        _ => None,
    }
}

fn below(name: &str, from: &Field, to: &Field) -> Option<String> {
    let field = unknown_field(from.data_type(), to.data_type())?;
    Some(format!("{name}.{field}"))
}

/// Whether casting back and comparing tells something. Bytes and text hold what
/// they hold.
fn is_comparable(from: &DataType) -> bool {
    !matches!(
        from,
        DataType::Null
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    )
}

/// Digits after the point that values of the type keep of a text; None where
/// reading text loses nothing.
fn fraction_digits(to: &DataType) -> Option<usize> {
    use datafusion::arrow::datatypes::TimeUnit;
    let of_unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    match to {
        DataType::Timestamp(unit, _) | DataType::Time64(unit) | DataType::Time32(unit) => {
            Some(of_unit(unit))
        }
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
            Some(usize::try_from(*scale).unwrap_or(0))
        }
        _ => None,
    }
}

/// Digits after the point of a text, without zeros at their end.
fn digits(text: &str) -> usize {
    let Some((_, fraction)) = text.split_once('.') else {
        return 0;
    };
    let end = fraction
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(fraction.len());
    // An exponent moves the point, which is not followed here.
    if fraction[end..].starts_with(['e', 'E']) {
        return usize::MAX;
    }
    fraction[..end].trim_end_matches('0').len()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        Float64Array, Int64Array, StringArray, TimestampNanosecondArray,
    };
    use datafusion::arrow::datatypes::{Int64Type, TimeUnit};

    use super::*;

    fn micros() -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    }

    #[test]
    fn what_cannot_be_cast_is_told_beside_the_rest() {
        let goal = Goal {
            table: "p.d.t".parse().unwrap(),
            column: "n".into(),
            type_name: "INT64".into(),
        };
        let cast = ExactCast::new(DataType::Int64, Some(goal), None, Misfit::IsTold);
        let array = Arc::new(StringArray::from(vec![
            Some("7"),
            Some("x"),
            None,
            Some("1.5"),
        ]));
        let told = cast.told(&(array as ArrayRef)).unwrap();
        let told = told.as_struct();
        assert_eq!(
            told.column(0).as_ref(),
            &Int64Array::from(vec![Some(7), None, None, None])
        );
        let errors = told.column(1).as_string::<i32>();
        assert!(
            errors
                .value(1)
                .contains("the value x cannot be read as INT64")
        );
        assert!(errors.is_null(0) && errors.is_null(2) && errors.is_valid(3));
        let given = told.column(2).as_string::<i32>();
        assert_eq!((given.value(1), given.is_null(0)), ("x", true));
        // What no cast exists for fails in every row that has a value.
        let array = Arc::new(BooleanArray::from(vec![Some(true), None]));
        let cast = ExactCast::new(DataType::Date32, None, None, Misfit::IsTold);
        let told = cast.told(&(array as ArrayRef)).unwrap();
        assert!(told.as_struct().column(1).is_valid(0));
    }

    #[test]
    fn fields_of_structs_are_found_by_their_names() {
        let fields = |fields: &[(&str, DataType)]| -> Fields {
            let fields = fields.iter();
            fields
                .map(|(name, data_type)| Field::new(*name, data_type.clone(), true))
                .collect()
        };
        let text = |value: &str| Arc::new(StringArray::from(vec![Some(value), None])) as ArrayRef;
        let of = |names: [&str; 2], values: [&str; 2]| {
            let fields = fields(&names.map(|name| (name, DataType::Utf8)));
            Arc::new(StructArray::new(fields, values.map(text).to_vec(), None)) as ArrayRef
        };
        let to = [("x", DataType::Int64), ("y", DataType::Int64)];
        let to = DataType::Struct(fields(&to));
        let numbers = |cast: &ArrayRef, at: usize| -> Vec<Option<i64>> {
            let column = cast.as_struct().column(at);
            column.as_primitive::<Int64Type>().iter().collect()
        };
        for (names, values) in [
            (["x", "y"], ["7", "8"]),
            (["Y", "X"], ["8", "7"]),
            (["c0", "c1"], ["7", "8"]),
        ] {
            let cast = cast_exactly(&of(names, values), &to).unwrap();
            assert_eq!(numbers(&cast, 0), [Some(7), None], "{names:?}");
            assert_eq!(numbers(&cast, 1), [Some(8), None], "{names:?}");
            assert_eq!(unknown_field(of(names, values).data_type(), &to), None);
        }
        let wrong = of(["x", "z"], ["7", "8"]);
        assert_eq!(unknown_field(wrong.data_type(), &to).as_deref(), Some("z"));
        let list = |data_type: &DataType| DataType::new_list(data_type.clone(), true);
        let outer = |name: &str, inner: DataType| DataType::Struct(fields(&[(name, inner)]));
        assert_eq!(
            unknown_field(&outer("a", list(wrong.data_type())), &outer("A", list(&to))).as_deref(),
            Some("A.z")
        );
        // A value that cannot be read is found in its row, also in a list.
        assert_eq!(
            cast_exactly(&of(["x", "y"], ["7", "eight"]), &to),
            Err((0, NOT))
        );
        let element = Arc::new(Field::new("item", DataType::Utf8, true));
        let values = Arc::new(StringArray::from(vec!["1", "2", "3", "x"]));
        let offsets = OffsetBuffer::from_lengths([1, 0, 2, 1]);
        let lists = ListArray::new(element, offsets, values, None);
        let lists = Arc::new(lists) as ArrayRef;
        assert_eq!(cast_exactly(&lists, &list(&DataType::Int64)), Err((3, NOT)));
        let cast = cast_exactly(&lists.slice(1, 2), &list(&DataType::Int64)).unwrap();
        let cast = cast.as_list::<i32>();
        assert_eq!((cast.value_length(0), cast.value_length(1)), (0, 2));
    }

    #[test]
    fn what_would_change_is_refused() {
        let ok = |array: ArrayRef, to: &DataType| {
            cast_exactly(&array, to).unwrap_or_else(|(at, why)| panic!("{at}: {why} {to}"));
        };
        let refused = |array: ArrayRef, to: &DataType, row: usize| {
            let (at, _) = cast_exactly(&array, to).expect_err("the value changes");
            assert_eq!(at, row, "{to}");
        };
        let nanos = |values: Vec<i64>| Arc::new(TimestampNanosecondArray::from(values)) as ArrayRef;
        ok(nanos(vec![1_000, -2_000]), &micros());
        refused(nanos(vec![1_000, 1_001]), &micros(), 1);
        let floats = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
        ok(floats(vec![2.0, -3.0]), &DataType::Int64);
        refused(floats(vec![2.0, 2.5]), &DataType::Int64, 1);
        refused(floats(vec![1e300]), &DataType::Int64, 0);
        let whole =
            Arc::new(Int64Array::from(vec![Some(1), None, Some((1 << 53) + 1)])) as ArrayRef;
        refused(whole, &DataType::Float64, 2);
        let text = |values: Vec<&str>| Arc::new(StringArray::from(values)) as ArrayRef;
        ok(text(vec!["2024-05-01 12:00:00.1234560"]), &micros());
        refused(text(vec!["2024-05-01 12:00:00.1234567"]), &micros(), 0);
        ok(text(vec!["7", "-8"]), &DataType::Int64);
        refused(text(vec!["7", "x"]), &DataType::Int64, 1);
        let list = DataType::new_list(DataType::Int64, true);
        refused(Arc::new(Int64Array::from(vec![5])), &list, 0);
        let five = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(5)])]);
        refused(Arc::new(five), &DataType::Utf8, 0);
        let decimal = DataType::Decimal128(38, 2);
        ok(text(vec!["1.50", "2.500"]), &decimal);
        refused(text(vec!["1.255"]), &decimal, 0);
    }
}
