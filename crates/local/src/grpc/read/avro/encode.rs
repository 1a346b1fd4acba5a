//! Arrow columns to Avro datums.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array,
    Decimal256Array, Float64Array, Int64Array, IntervalMonthDayNanoArray, ListArray, RecordBatch,
    StringArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};

use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, RangeElement, TableSchema};
use crate::value::civil::write_date;

/// The rows of `batch`, which has the Arrow form of `table`.
pub(in crate::grpc::read) fn encode(table: &TableSchema, batch: &RecordBatch) -> Result<Vec<u8>> {
    let columns = table
        .fields
        .iter()
        .zip(batch.columns())
        .map(|(field, array)| Column::new(field, array))
        .collect::<Result<Vec<_>>>()?;
    let mut out = Vec::with_capacity(batch.num_rows() * columns.len() * 8);
    for row in 0..batch.num_rows() {
        for column in &columns {
            column.write(row, &mut out);
        }
    }
    Ok(out)
}

/// Values of one type.
enum Values<'a> {
    Int64(&'a Int64Array),
    Float64(&'a Float64Array),
    Bool(&'a BooleanArray),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    Numeric(&'a Decimal128Array),
    Bignumeric(&'a Decimal256Array),
    Date(&'a Date32Array),
    Time(&'a Time64MicrosecondArray),
    Datetime(&'a TimestampMicrosecondArray),
    Timestamp(&'a TimestampMicrosecondArray),
    Interval(&'a IntervalMonthDayNanoArray),
    /// Also the bounds of a RANGE.
    Record(Vec<Column<'a>>),
}

enum Shape<'a> {
    Required(Values<'a>),
    Nullable(Values<'a>),
    Repeated(&'a ListArray, Values<'a>),
}

/// One column, or one field of a record.
struct Column<'a> {
    array: &'a ArrayRef,
    shape: Shape<'a>,
}

impl<'a> Column<'a> {
    fn new(field: &Field, array: &'a ArrayRef) -> Result<Self> {
        let shape = match field.mode() {
            Mode::Required => Shape::Required(Values::new(&field.field_type, array)?),
            Mode::Nullable => Shape::Nullable(Values::new(&field.field_type, array)?),
            Mode::Repeated => {
                let list = array
                    .as_list_opt::<i32>()
                    .ok_or_else(|| misfit(&field.name, array))?;
                Shape::Repeated(list, Values::new(&field.field_type, list.values())?)
            }
        };
        Ok(Self { array, shape })
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) {
        match &self.shape {
            Shape::Required(values) => values.write(row, out),
            Shape::Nullable(values) => {
                // The union is of null and the type, in that order.
                if self.array.is_null(row) {
                    write_long(0, out);
                } else {
                    write_long(1, out);
                    values.write(row, out);
                }
            }
            Shape::Repeated(list, values) => {
                let offsets = list.value_offsets();
                let (start, end) = (offsets[row], offsets[row + 1]);
                if start < end && list.is_valid(row) {
                    write_long(i64::from(end - start), out);
                    for i in start..end {
                        let i = usize::try_from(i).expect("offsets are not negative");
                        values.write(i, out);
                    }
                }
                write_long(0, out);
            }
        }
    }
}

fn misfit(name: &str, array: &ArrayRef) -> ServiceError {
    ServiceError::internal(format!(
        "column {name} is stored as {}, which is not its type's form",
        array.data_type()
    ))
}

impl<'a> Values<'a> {
    fn new(field_type: &FieldType, array: &'a ArrayRef) -> Result<Self> {
        let found = match field_type {
            FieldType::Int64 => array.as_primitive_opt().map(Values::Int64),
            FieldType::Float64 => array.as_primitive_opt().map(Values::Float64),
            FieldType::Bool => array.as_boolean_opt().map(Values::Bool),
            FieldType::String | FieldType::Geography | FieldType::Json => {
                array.as_string_opt::<i32>().map(Values::Text)
            }
            FieldType::Bytes => array.as_binary_opt::<i32>().map(Values::Bytes),
            FieldType::Numeric => array.as_primitive_opt().map(Values::Numeric),
            FieldType::Bignumeric => array.as_primitive_opt().map(Values::Bignumeric),
            FieldType::Date => array.as_primitive_opt().map(Values::Date),
            FieldType::Time => array.as_primitive_opt().map(Values::Time),
            FieldType::Datetime => array.as_primitive_opt().map(Values::Datetime),
            FieldType::Timestamp => array.as_primitive_opt().map(Values::Timestamp),
            FieldType::Interval => array.as_primitive_opt().map(Values::Interval),
            FieldType::Range(element) => return Self::range(*element, array),
            FieldType::Struct(fields) => {
                let array = array
                    .as_struct_opt()
                    .ok_or_else(|| misfit("of a record", array))?;
                let columns = fields
                    .iter()
                    .zip(array.columns())
                    .map(|(field, array)| Column::new(field, array))
                    .collect::<Result<Vec<_>>>()?;
                return Ok(Values::Record(columns));
            }
        };
        found.ok_or_else(|| misfit(field_type.sql_name(), array))
    }

    fn range(element: RangeElement, array: &'a ArrayRef) -> Result<Self> {
        let array = array
            .as_struct_opt()
            .ok_or_else(|| misfit("of a range", array))?;
        let bound = Field::new("bound", element.field_type());
        let columns = array
            .columns()
            .iter()
            .map(|array| Column::new(&bound, array))
            .collect::<Result<Vec<_>>>()?;
        Ok(Values::Record(columns))
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Values::Int64(a) => write_long(a.value(row), out),
            Values::Float64(a) => out.extend_from_slice(&a.value(row).to_le_bytes()),
            Values::Bool(a) => out.push(u8::from(a.value(row))),
            Values::Text(a) => write_bytes(a.value(row).as_bytes(), out),
            Values::Bytes(a) => write_bytes(a.value(row), out),
            Values::Numeric(a) => write_integer(&a.value(row).to_be_bytes(), out),
            Values::Bignumeric(a) => write_integer(&a.value(row).to_be_bytes(), out),
            Values::Date(a) => write_long(i64::from(a.value(row)), out),
            Values::Time(a) => write_long(a.value(row), out),
            Values::Timestamp(a) => write_long(a.value(row), out),
            Values::Datetime(a) => {
                let text = datetime(a.value(row));
                write_bytes(text.as_bytes(), out);
            }
            Values::Interval(a) => {
                let value = a.value(row);
                write_long(i64::from(value.months), out);
                write_long(i64::from(value.days), out);
                write_long(value.nanoseconds / 1000, out);
            }
            Values::Record(columns) => {
                for column in columns {
                    column.write(row, out);
                }
            }
        }
    }
}

/// `YYYY-MM-DDTHH:MM:SS.ffffff`, always with all six digits.
fn datetime(micros: i64) -> String {
    const DAY: i64 = 86_400_000_000;
    let mut text = String::with_capacity(26);
    write_date(crate::value::civil::days_of(micros), &mut text);
    let time = micros.rem_euclid(DAY);
    let seconds = time / 1_000_000;
    text.push_str(&format!(
        "T{:02}:{:02}:{:02}.{:06}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        time % 1_000_000
    ));
    text
}

/// Zigzag and variable length, as Avro writes int and long.
fn write_long(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_long(i64::try_from(bytes.len()).unwrap_or(i64::MAX), out);
    out.extend_from_slice(bytes);
}

/// A big-endian two's complement integer in as few bytes as hold it.
fn write_integer(bytes: &[u8], out: &mut Vec<u8>) {
    let mut start = 0;
    while start + 1 < bytes.len() {
        let sign = bytes[start + 1] & 0x80 != 0;
        let redundant = matches!((bytes[start], sign), (0, false) | (0xff, true));
        if !redundant {
            break;
        }
        start += 1;
    }
    write_bytes(&bytes[start..], out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longs_and_integers() {
        for (value, want) in [
            (0, vec![0]),
            (-1, vec![1]),
            (1, vec![2]),
            (64, vec![0x80, 1]),
            (i64::MIN, [[0xff; 9].as_slice(), &[1]].concat()),
        ] {
            let mut out = Vec::new();
            write_long(value, &mut out);
            assert_eq!(out, want, "{value}");
        }
        for (value, want) in [
            (0_i128, vec![2, 0]),
            (-1, vec![2, 0xff]),
            (127, vec![2, 127]),
            (128, vec![4, 0, 128]),
            (-128, vec![2, 128]),
            (-129, vec![4, 0xff, 127]),
        ] {
            let mut out = Vec::new();
            write_integer(&value.to_be_bytes(), &mut out);
            assert_eq!(out, want, "{value}");
        }
    }

    #[test]
    fn datetimes_have_six_digits() {
        assert_eq!(datetime(0), "1970-01-01T00:00:00.000000");
        assert_eq!(datetime(-1), "1969-12-31T23:59:59.999999");
    }
}
