//! Entry points for bytes of any kind, as a server might send them. Not part of
//! the interface: fuzz targets and tests call them. They panic where reading does,
//! and where what was read is not sound.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;

use super::decode::{Decoder, Payload};
use super::schema;

/// What became of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was understood.
    Accepted,
    /// It is an error.
    Refused,
}

/// The schema of a session.
pub fn session_schema(bytes: &[u8]) -> Verdict {
    match schema::read(&Bytes::copy_from_slice(bytes)) {
        Ok(_) => Verdict::Accepted,
        Err(_) => Verdict::Refused,
    }
}

/// A response of a session with [`columns`]. The first eight bytes are what the
/// response says of its uncompressed size.
pub fn response(bytes: &[u8]) -> Verdict {
    let Some((size, payload)) = bytes.split_first_chunk::<8>() else {
        return Verdict::Refused;
    };
    let size = i64::from_le_bytes(*size);
    let payload = Bytes::copy_from_slice(payload);
    let mut verdict = Verdict::Refused;
    for wrapping in [Payload::Plain, Payload::Lz4Block] {
        let decoder = Decoder::new(columns(), wrapping);
        let Ok(batches) = decoder.decode(payload.clone(), Some(size)) else {
            continue;
        };
        verdict = Verdict::Accepted;
        for column in batches.iter().flat_map(|batch| batch.columns()) {
            let data = column.to_data();
            data.validate_full().expect("what is decoded is valid");
        }
    }
    verdict
}

/// A column of every layout that the decoder knows.
pub fn columns() -> SchemaRef {
    let number = |name: &str| Field::new(name, DataType::Int64, false);
    let inner = vec![
        number("a"),
        Field::new("b", DataType::Utf8, true),
        Field::new_list("c", Field::new("item", DataType::Binary, true), false),
    ];
    let pair = DataType::Struct(inner.into());
    let micros = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        number("n"),
        Field::new("flag", DataType::Boolean, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("bytes", DataType::Binary, true),
        Field::new("day", DataType::Date32, true),
        Field::new("at", micros, true),
        Field::new("decimal", DataType::Decimal128(38, 9), true),
        Field::new("large", DataType::Decimal256(76, 38), true),
        Field::new("span", DataType::Interval(IntervalUnit::MonthDayNano), true),
        Field::new("pair", pair.clone(), true),
        Field::new_list("pairs", Field::new("item", pair, true), false),
    ]))
}
