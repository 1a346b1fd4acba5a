//! Worked cases, byte by byte.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array,
    Float64Array, Int64Array, IntervalMonthDayNanoArray, ListArray, StringArray, StructArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field as ArrowField, Int64Type, IntervalMonthDayNano, i256};
use googleapis_storage::google::cloud::bigquery::storage::v1::ProtoRows;
use prost::Message as _;

use super::*;
use crate::types::{DecimalParameters, RangeElement, TimestampDigits};

fn numeric(value: i128) -> Vec<u8> {
    let array = Decimal128Array::from(vec![value])
        .with_precision_and_scale(38, 9)
        .unwrap();
    messages(Arc::new(array), nullable("c", FieldType::Numeric(None))).remove(0)
}

#[test]
fn numeric_is_a_little_endian_integer_as_short_as_its_sign_allows() {
    for (value, bytes) in [
        (0, vec![0x00]),
        (127, vec![0x7f]),
        (128, vec![0x80, 0x00]),
        (-1, vec![0xff]),
        (-128, vec![0x80]),
        (-129, vec![0x7f, 0xff]),
        // 1.5 and -1
        (1_500_000_000, vec![0x00, 0x2f, 0x68, 0x59]),
        (-1_000_000_000, vec![0x00, 0x36, 0x65, 0xc4]),
    ] {
        let mut expected = vec![0x0a, u8::try_from(bytes.len()).unwrap()];
        expected.extend(bytes);
        assert_eq!(numeric(value), expected, "{value}");
    }
    let greatest = 10_i128.pow(38) - 1;
    assert_eq!(numeric(greatest)[..2], [0x0a, 16]);
    assert_eq!(numeric(greatest)[2..], greatest.to_le_bytes());
    assert_eq!(numeric(-greatest)[2..], (-greatest).to_le_bytes());
}

#[test]
fn bignumeric_has_38_fractional_digits_and_up_to_32_bytes() {
    let one = i256::from_i128(10_i128.pow(38));
    let array = Decimal256Array::from(vec![one, i256::MINUS_ONE, i256::MIN, i256::MAX])
        .with_precision_and_scale(76, 38)
        .unwrap();
    let rows = messages(Arc::new(array), nullable("c", FieldType::BigNumeric(None)));
    assert_eq!(rows[0][..2], [0x0a, 16]);
    assert_eq!(rows[0][2..], 10_i128.pow(38).to_le_bytes());
    assert_eq!(rows[1], [0x0a, 1, 0xff]);
    for (row, value) in [(&rows[2], i256::MIN), (&rows[3], i256::MAX)] {
        assert_eq!(row[..2], [0x0a, 32]);
        assert_eq!(row[2..], value.to_le_bytes());
    }
    // The ends as text, which Arrow's own conversion cuts.
    let texts = StringArray::from(vec![
        "-578960446186580977117854925043439539266.34992332820282019728792003956564819968",
        "578960446186580977117854925043439539266.34992332820282019728792003956564819967",
    ]);
    let ends = messages(Arc::new(texts), nullable("c", FieldType::BigNumeric(None)));
    assert_eq!(ends, rows[2..]);
    // 2^127 needs a byte for its sign.
    let array = Decimal256Array::from(vec![i256::from_parts(1 << 127, 0)])
        .with_precision_and_scale(76, 38)
        .unwrap();
    let rows = messages(Arc::new(array), nullable("c", FieldType::BigNumeric(None)));
    let mut expected = vec![0x0a, 17];
    expected.extend([0; 15]);
    expected.extend([0x80, 0]);
    assert_eq!(rows[0], expected);
}

#[test]
fn parameters_change_what_a_column_takes_and_not_its_bytes() {
    let parameters = Some(DecimalParameters {
        precision: 5,
        scale: 2,
    });
    let array = Decimal128Array::from(vec![12345])
        .with_precision_and_scale(5, 2)
        .unwrap();
    let rows = messages(
        Arc::new(array.clone()),
        nullable("c", FieldType::Numeric(parameters)),
    );
    assert_eq!(rows[0], numeric(123_450_000_000));
    let sent = arrow_column(
        Arc::new(array),
        nullable("c", FieldType::Numeric(parameters)),
    );
    assert_eq!(sent.data_type(), &DataType::Decimal128(5, 2));
}

#[test]
fn scalars() {
    // The key of field 1 as a varint and as something with a length.
    for (array, field_type, bytes) in [
        (
            Arc::new(Int64Array::from(vec![0, 150, -1])) as ArrayRef,
            FieldType::Int64,
            vec![
                vec![0x08, 0],
                vec![0x08, 0x96, 0x01],
                [vec![0x08], vec![0xff; 9], vec![1]].concat(),
            ],
        ),
        (
            Arc::new(Float64Array::from(vec![-0.0, 1.0])),
            FieldType::Float64,
            vec![
                vec![0x09, 0, 0, 0, 0, 0, 0, 0, 0x80],
                vec![0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
            ],
        ),
        (
            Arc::new(BooleanArray::from(vec![false, true])),
            FieldType::Bool,
            vec![vec![0x08, 0], vec![0x08, 1]],
        ),
        (
            Arc::new(StringArray::from(vec!["", "é"])),
            FieldType::String,
            vec![vec![0x0a, 0], vec![0x0a, 2, 0xc3, 0xa9]],
        ),
        (
            Arc::new(BinaryArray::from(vec![&b"\xff\0"[..]])),
            FieldType::Bytes,
            vec![vec![0x0a, 2, 0xff, 0]],
        ),
        (
            Arc::new(Date32Array::from(vec![-1, 19_782])),
            FieldType::Date,
            vec![
                [vec![0x08], vec![0xff; 9], vec![1]].concat(),
                vec![0x08, 0xc6, 0x9a, 0x01],
            ],
        ),
        (
            // 01:02:03.000004 is 1 << 32 | 2 << 26 | 3 << 20 | 4
            Arc::new(Time64MicrosecondArray::from(vec![3_723_000_004])),
            FieldType::Time,
            vec![vec![0x08, 0x84, 0x80, 0xc0, 0xc1, 0x10]],
        ),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC")),
            FieldType::Timestamp(TimestampDigits::Six),
            vec![vec![0x08, 1]],
        ),
        (
            Arc::new(IntervalMonthDayNanoArray::from(vec![
                IntervalMonthDayNano::new(-14, 3, -1_500_000_000),
            ])),
            FieldType::Interval,
            vec![[vec![0x0a, 22], b"-1-2 3 -0:0:1.500000".to_vec()].concat()],
        ),
    ] {
        let mut bytes = bytes;
        if field_type == FieldType::Interval {
            bytes[0][1] = u8::try_from(bytes[0].len() - 2).unwrap();
        }
        assert_eq!(
            messages(array, nullable("c", field_type.clone())),
            bytes,
            "{field_type}"
        );
    }
}

#[test]
fn a_datetime_is_packed() {
    // 2024-02-29 01:02:03.000004
    let micros = 19_782 * 86_400_000_000 + 3_723_000_004;
    let array = TimestampMicrosecondArray::from(vec![micros]);
    let rows = messages(Arc::new(array), nullable("c", FieldType::DateTime));
    let packed: u64 = 2024 << 46 | 2 << 42 | 29 << 37 | 1 << 32 | 2 << 26 | 3 << 20 | 4;
    let mut expected = vec![0x08];
    prost::encoding::encode_varint(packed, &mut expected);
    assert_eq!(rows[0], expected);
}

#[test]
fn what_is_null_is_not_written_and_what_is_empty_is() {
    let ints = Int64Array::from(vec![Some(1), None, Some(0)]);
    assert_eq!(
        messages(Arc::new(ints), nullable("c", FieldType::Int64)),
        [vec![0x08, 1], vec![], vec![0x08, 0]]
    );
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(7), Some(8)]),
        None,
        Some(vec![]),
    ]);
    assert_eq!(
        messages(Arc::new(lists), repeated("c", FieldType::Int64)),
        [vec![0x08, 7, 0x08, 8], vec![], vec![]]
    );
    // A struct of NULLs is there, a NULL struct is not.
    let inside = Arc::new(Int64Array::from(vec![Some(5), None, None])) as ArrayRef;
    let fields = vec![ArrowField::new("x", DataType::Int64, true)].into();
    let structs = StructArray::new(fields, vec![inside], Some(vec![true, true, false].into()));
    assert_eq!(
        messages(
            Arc::new(structs),
            nullable(
                "c",
                FieldType::Struct(vec![nullable("x", FieldType::Int64)])
            )
        ),
        [vec![0x0a, 2, 0x08, 5], vec![0x0a, 0], vec![]]
    );
}

#[test]
fn a_range_leaves_out_the_bound_that_it_lacks() {
    let start = Arc::new(Date32Array::from(vec![Some(1), None, None])) as ArrayRef;
    let end = Arc::new(Date32Array::from(vec![Some(2), Some(3), None])) as ArrayRef;
    // In another order than BigQuery's.
    let fields = vec![
        ArrowField::new("end", DataType::Date32, true),
        ArrowField::new("start", DataType::Date32, true),
    ];
    let ranges = StructArray::new(fields.into(), vec![end, start], None);
    let range = nullable("c", FieldType::Range(RangeElement::Date));
    assert_eq!(
        messages(Arc::new(ranges), range),
        [
            vec![0x0a, 4, 0x08, 2, 0x10, 1],
            vec![0x0a, 2, 0x08, 3],
            vec![0x0a, 0]
        ]
    );
}

#[test]
fn arrays_of_structs_keep_their_order_and_depth() {
    // [{x: 1, y: [10]}, {x: null, y: []}], [], [{x: 3, y: [30, 31]}]
    let x = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])) as ArrayRef;
    let y = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(10)]),
        Some(vec![]),
        Some(vec![Some(30), Some(31)]),
    ]);
    let fields = vec![
        ArrowField::new("x", DataType::Int64, true),
        ArrowField::new("y", y.data_type().clone(), true),
    ];
    let structs = StructArray::new(fields.into(), vec![x, Arc::new(y)], None);
    let lists = ListArray::new(
        Arc::new(ArrowField::new("item", structs.data_type().clone(), true)),
        arrow::buffer::OffsetBuffer::from_lengths([2, 0, 1]),
        Arc::new(structs),
        None,
    );
    let inside = vec![
        nullable("X", FieldType::Int64),
        repeated("y", FieldType::Int64),
    ];
    assert_eq!(
        messages(Arc::new(lists), repeated("c", FieldType::Struct(inside))),
        [
            vec![0x0a, 4, 0x08, 1, 0x10, 10, 0x0a, 0],
            vec![],
            vec![0x0a, 6, 0x08, 3, 0x10, 30, 0x10, 31],
        ]
    );
}

#[test]
fn more_columns_than_a_key_of_one_byte_has_room_for() {
    let names: Vec<String> = (0..2_100).map(|at| format!("c{at}")).collect();
    let columns = names.iter().map(|name| {
        (
            name.as_str(),
            Arc::new(Int64Array::from(vec![1])) as ArrayRef,
        )
    });
    let fields = names.iter().map(|name| nullable(name, FieldType::Int64));
    let rows = encode(columns.collect(), fields.collect(), RowFormat::Protobuf).unwrap();
    let mut expected = Vec::new();
    for number in 1..=2_100_u64 {
        prost::encoding::encode_varint(number << 3, &mut expected);
        expected.push(1);
    }
    assert_eq!(rows.protobuf_row(0).unwrap(), expected);
}

#[test]
fn the_descriptor_is_self_contained() {
    let arrays = batch(vec![
        ("ID", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
        ("größe", Arc::new(Float64Array::from(vec![1.0]))),
        (
            "Type_3",
            Arc::new(StructArray::from(vec![(
                Arc::new(ArrowField::new("day", DataType::Date32, true)),
                Arc::new(Date32Array::from(vec![1])) as ArrayRef,
            )])),
        ),
    ]);
    let table = table(vec![
        nullable("col_2", FieldType::String),
        required("Id", FieldType::Int64),
        nullable("Größe", FieldType::Float64),
        nullable(
            "type_3",
            FieldType::Struct(vec![nullable("Day", FieldType::Date)]),
        ),
    ]);
    let marks = FieldMarks::default();
    let encoder = RowEncoder::plan(&arrays.schema(), &table, RowFormat::Protobuf, &marks).unwrap();
    assert_eq!(encoder.columns(), ["Id", "Größe", "type_3"]);
    let bytes = encoder.writer_schema();
    let read = prost_types::DescriptorProto::decode(bytes.as_ref()).unwrap();
    let fields: Vec<_> = read
        .field
        .iter()
        .map(|field| {
            (
                field.name(),
                field.number(),
                field.r#type(),
                field.type_name.as_deref(),
            )
        })
        .collect();
    use prost_types::field_descriptor_proto::Type;
    assert_eq!(
        fields,
        [
            ("Id", 1, Type::Int64, None),
            ("col_2", 2, Type::Double, None),
            ("type_3", 3, Type::Message, Some("Type_3_")),
        ]
    );
    assert_eq!(read.nested_type[0].name(), "Type_3_");
    assert_eq!(read.nested_type[0].field[0].name(), "Day");
    assert_eq!(read.nested_type[0].field[0].r#type(), Type::Int32);
    // Extension 454943157 of the options, which prost does not know: its key, the
    // length and the name.
    let mut option = Vec::new();
    prost::encoding::encode_varint(454_943_157 << 3 | 2, &mut option);
    option.push(7);
    option.extend("Größe".as_bytes());
    let found = bytes.windows(option.len()).any(|window| window == option);
    assert!(found, "{bytes:?}");
}

#[test]
fn pieces_hold_as_many_rows_as_fit() {
    for format in FORMATS {
        let texts: Vec<String> = (0..100).map(|at| "x".repeat(at * 3)).collect();
        let array = Arc::new(StringArray::from(texts)) as ArrayRef;
        let rows = encode(
            vec![("c", array)],
            vec![nullable("c", FieldType::String)],
            format,
        )
        .unwrap();
        for limit in [600, 1_000, 5_000, 100_000] {
            let pieces = rows.pieces(limit).unwrap();
            assert_eq!(pieces.oversize, []);
            let mut next = 0;
            for piece in &pieces.sendable {
                assert_eq!(piece.rows.start, next);
                assert!(piece.encoded_len() <= limit, "{format:?} {limit}");
                if let Payload::Protobuf(fields) = &piece.payload {
                    let message = ProtoRows::decode(fields.clone()).unwrap();
                    let each = piece.rows.clone().map(|at| rows.protobuf_row(at).unwrap());
                    assert_eq!(message.serialized_rows, each.collect::<Vec<_>>());
                }
                next = piece.rows.end;
            }
            assert_eq!(next, 100);
            assert_eq!(pieces.sendable.len() == 1, limit == 100_000, "{format:?}");
        }
        // Exactly at the limit, and one byte below it.
        let exact = rows.pieces_of(99..100, usize::MAX).unwrap().sendable[0].encoded_len();
        assert_eq!(rows.pieces_of(99..100, exact).unwrap().oversize, []);
        let below = rows.pieces_of(99..100, exact - 1).unwrap();
        assert!(below.sendable.is_empty());
        assert_eq!(below.oversize[0].row, 99);
        assert!(below.oversize[0].message.contains(&exact.to_string()));
    }
}

#[test]
fn a_row_that_no_request_holds_leaves_its_neighbours() {
    for format in FORMATS {
        let long = "y".repeat(10_000);
        let texts = vec!["a", long.as_str(), "b", "c", long.as_str()];
        let array = Arc::new(StringArray::from(texts)) as ArrayRef;
        let rows = encode(
            vec![("c", array)],
            vec![nullable("c", FieldType::String)],
            format,
        )
        .unwrap();
        let pieces = rows.pieces(2_000).unwrap();
        let refused: Vec<_> = pieces.oversize.iter().map(|error| error.row).collect();
        assert_eq!(refused, [1, 4], "{format:?}");
        let sent: Vec<_> = pieces
            .sendable
            .iter()
            .flat_map(|p| p.rows.clone())
            .collect();
        assert_eq!(sent, [0, 2, 3], "{format:?}");
    }
}
