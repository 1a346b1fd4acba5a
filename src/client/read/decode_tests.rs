use super::*;
use crate::client::read::schema::tests::{encode, every_type};
use crate::error::ErrorKind;
use arrow::array::{
    BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, Float64Array,
    Int64Array, IntervalMonthDayNanoArray, ListArray, StringArray, StructArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, new_empty_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{IntervalMonthDayNano, Schema, i256};
use arrow::ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
};
use proptest::prelude::*;

/// Rows of every type, with NULLs, extremes and empty values.
pub(in crate::client::read) fn every_value() -> RecordBatch {
    let schema = every_type();
    let item = |index: usize| match schema.field(index).data_type() {
        DataType::List(item) => Arc::clone(item),
        other => panic!("a list, not {other}"),
    };
    let DataType::Struct(struct_fields) = schema.field(13).data_type().clone() else {
        panic!("a struct")
    };
    let DataType::Struct(element_fields) = item(14).data_type().clone() else {
        panic!("a struct")
    };
    let DataType::List(inner_item) = struct_fields[1].data_type().clone() else {
        panic!("a list")
    };
    let strings = ListArray::new(
        inner_item,
        OffsetBuffer::from_lengths([2, 0, 1]),
        Arc::new(StringArray::from(vec!["x", "", "ü"])),
        None,
    );
    let structs = StructArray::new(
        struct_fields,
        vec![Arc::new(Int64Array::from(vec![1, 0, 3])), Arc::new(strings)],
        Some(NullBuffer::from(vec![true, false, true])),
    );
    let elements = StructArray::new(
        element_fields,
        vec![Arc::new(Date32Array::from(vec![Some(0), None]))],
        None,
    );
    let lists = ListArray::new(
        item(14),
        OffsetBuffer::from_lengths([0, 2, 0]),
        Arc::new(elements),
        None,
    );
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![i64::MIN, 0, i64::MAX])),
        Arc::new(Float64Array::from(vec![
            Some(f64::NAN),
            None,
            Some(f64::NEG_INFINITY),
        ])),
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(StringArray::from(vec![Some("text"), None, Some("")])),
        Arc::new(BinaryArray::from(vec![
            Some(&b"\0\xff"[..]),
            None,
            Some(b""),
        ])),
        Arc::new(Date32Array::from(vec![
            Some(-719_162),
            None,
            Some(2_932_896),
        ])),
        Arc::new(Time64MicrosecondArray::from(vec![
            Some(0),
            None,
            Some(86_399_999_999),
        ])),
        Arc::new(TimestampMicrosecondArray::from(vec![
            Some(-62_135_596_800_000_000),
            None,
            Some(0),
        ])),
        Arc::new(
            TimestampMicrosecondArray::from(vec![Some(1), None, Some(253_402_300_799_999_999)])
                .with_timezone("UTC"),
        ),
        Arc::new(
            Decimal128Array::from(vec![Some(-1), None, Some(10_i128.pow(38) - 1)])
                .with_precision_and_scale(38, 9)
                .unwrap(),
        ),
        Arc::new(
            Decimal256Array::from(vec![Some(i256::from_i128(7)), None, Some(i256::ZERO)])
                .with_precision_and_scale(76, 38)
                .unwrap(),
        ),
        Arc::new(StringArray::from(vec![Some("null"), None, Some("{}")])),
        Arc::new(IntervalMonthDayNanoArray::from(vec![
            Some(IntervalMonthDayNano::new(-1, 2, -3)),
            None,
            Some(IntervalMonthDayNano::new(0, 0, 0)),
        ])),
        Arc::new(structs),
        Arc::new(lists),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

/// The batch as one bare encapsulated message, as the service sends it.
pub(in crate::client::read) fn encode_batch(
    batch: &RecordBatch,
    compression: Option<CompressionType>,
) -> Bytes {
    let options = IpcWriteOptions::default()
        .try_with_compression(compression)
        .unwrap();
    let (dictionaries, encoded) = IpcDataGenerator::default()
        .encode(
            batch,
            &mut DictionaryTracker::new(false),
            &options,
            &mut IpcWriteContext::default(),
        )
        .unwrap();
    assert!(dictionaries.is_empty());
    let mut bytes = Vec::new();
    write_message(&mut bytes, encoded, &options).unwrap();
    bytes.into()
}

fn decoder(schema: &Schema, payload: Payload) -> Decoder {
    Decoder::new(Arc::new(schema.clone()), payload)
}

fn plain(batch: &RecordBatch) -> Decoder {
    decoder(&batch.schema(), Payload::Plain)
}

const CODECS: [Option<CompressionType>; 3] = [
    None,
    Some(CompressionType::LZ4_FRAME),
    Some(CompressionType::ZSTD),
];

#[test]
fn every_value_comes_back_under_every_compression() {
    let batch = every_value();
    for codec in CODECS {
        let decoded = plain(&batch)
            .decode(encode_batch(&batch, codec), None)
            .unwrap();
        assert_eq!(decoded, std::slice::from_ref(&batch), "{codec:?}");
    }
}

#[test]
fn large_columns_are_compressed_and_come_back() {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let numbers: Int64Array = (0..100_000)
        .map(|n| (n % 3 > 0).then_some(n / 100))
        .collect();
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(numbers)]).unwrap();
    let sizes = CODECS.map(|codec| {
        let encoded = encode_batch(&batch, codec);
        let decoded = plain(&batch).decode(encoded.clone(), None).unwrap();
        assert_eq!(decoded, std::slice::from_ref(&batch), "{codec:?}");
        encoded.len()
    });
    assert!(sizes[1] < sizes[0] && sizes[2] < sizes[0], "{sizes:?}");
}

#[test]
fn empty_batches_come_back() {
    let schema = every_type();
    let columns = schema
        .fields()
        .iter()
        .map(|field| new_empty_array(field.data_type()))
        .collect();
    let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    for codec in CODECS {
        let decoded = plain(&batch)
            .decode(encode_batch(&batch, codec), None)
            .unwrap();
        assert_eq!(decoded, std::slice::from_ref(&batch), "{codec:?}");
    }
}

#[test]
fn whole_streams_are_read_too() {
    let batch = every_value();
    let mut stream = encode(&batch.schema()).to_vec();
    stream.extend(encode_batch(&batch.slice(0, 0), None));
    stream.extend(encode_batch(&batch, None));
    stream.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    let decoded = plain(&batch).decode(stream.into(), None).unwrap();
    let rows: Vec<usize> = decoded.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(rows, [0, 3]);
    assert_eq!(decoded[1], batch);
}

#[test]
fn a_stream_of_another_schema_is_refused() {
    let batch = every_value();
    let other = Schema::new(vec![Field::new("other", DataType::Int64, true)]);
    let error = plain(&batch).decode(encode(&other), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(error.message().contains("schema"), "{error}");
}

#[test]
fn whole_responses_are_decompressed_unless_they_say_otherwise() {
    let batch = every_value();
    let message = encode_batch(&batch, None);
    let block = Bytes::from(lz4_flex::block::compress(&message));
    let decoder = decoder(&batch.schema(), Payload::Lz4Block);
    let size = i64::try_from(message.len()).unwrap();
    assert_eq!(
        decoder.decode(block.clone(), Some(size)).unwrap(),
        std::slice::from_ref(&batch)
    );
    assert_eq!(
        decoder.decode(message.clone(), Some(-1)).unwrap(),
        std::slice::from_ref(&batch)
    );
    assert_eq!(decoder.decode(message, None).unwrap(), [batch]);
    for wrong in [0, 1, size - 1, size + 1, i64::MIN, i64::MAX] {
        let error = decoder.decode(block.clone(), Some(wrong)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data, "{wrong}");
    }
}

/// A small frame that decompresses to far more than it says must not be
/// decompressed to its end.
#[test]
fn decompression_is_bounded_by_what_a_buffer_says() {
    let bomb = vec![0_u8; 64 << 20];
    let mut frame = Vec::new();
    let mut encoder = lz4_flex::frame::FrameEncoder::new(&mut frame);
    std::io::Write::write_all(&mut encoder, &bomb).unwrap();
    encoder.finish().unwrap();
    let error = decompress(CompressionType::LZ4_FRAME, &frame, 1024).unwrap_err();
    assert!(error.contains("more or less"), "{error}");
    let packed = zstd::bulk::compress(&bomb, 1).unwrap();
    decompress(CompressionType::ZSTD, &packed, 1024).unwrap_err();
    assert_eq!(
        decompress(CompressionType::ZSTD, &packed, bomb.len())
            .unwrap()
            .len(),
        bomb.len()
    );
}

/// Sizes that the contents do not bear out are errors, and take no memory.
#[test]
fn sizes_out_of_proportion_are_errors() {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let numbers: Int64Array = (0..10_000).collect();
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(numbers)]).unwrap();
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let encoded = encode_batch(&batch, Some(codec)).to_vec();
        let size = 80_000_i64.to_le_bytes();
        let at = encoded.windows(8).position(|bytes| *bytes == size);
        let at = at.expect("the buffer says its size");
        for claimed in [
            0,
            79_999,
            80_001,
            1 << 30,
            (1 << 30) + 1,
            1 << 40,
            i64::MAX,
            i64::MIN,
            -2,
        ] {
            let mut damaged = encoded.clone();
            damaged[at..at + 8].copy_from_slice(&i64::to_le_bytes(claimed));
            let error = plain(&batch).decode(damaged.into(), None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Data, "{codec:?} {claimed}");
        }
    }
    let tiny = Bytes::from_static(&[0x10, b'x']);
    let block = decoder(&every_type(), Payload::Lz4Block);
    for claimed in [1 << 20, 1 << 30, i64::MAX] {
        let error = block.decode(tiny.clone(), Some(claimed)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data, "{claimed}");
    }
}

/// Highly compressible values are no attack: they may shrink beyond what is
/// believed at once.
#[test]
fn values_that_shrink_a_lot_come_back() {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, true)]);
    let zeros = Int64Array::from(vec![0; 1 << 20]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(zeros)]).unwrap();
    for codec in CODECS {
        let encoded = encode_batch(&batch, codec);
        assert!(codec.is_none() || encoded.len() * BELIEVED_RATIO < 8 << 20);
        let decoded = plain(&batch).decode(encoded, None).unwrap();
        assert_eq!(decoded, std::slice::from_ref(&batch), "{codec:?}");
    }
    let message = encode_batch(&batch, None);
    let block = Bytes::from(lz4_flex::block::compress(&message));
    let decoder = decoder(&batch.schema(), Payload::Lz4Block);
    let size = i64::try_from(message.len()).unwrap();
    assert_eq!(decoder.decode(block, Some(size)).unwrap(), [batch]);
}

/// Each buffer may be large, all of them together may not.
#[test]
fn one_response_has_one_budget() {
    let zeros = Int64Array::from(vec![0; 1 << 20]);
    let columns = 150;
    let fields: Vec<_> = (0..columns)
        .map(|n| Field::new(format!("c{n}"), DataType::Int64, true))
        .collect();
    let column: ArrayRef = Arc::new(zeros);
    let columns = vec![column; columns];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    let encoded = encode_batch(&batch, Some(CompressionType::ZSTD));
    assert!(encoded.len() < 1 << 20);
    let error = plain(&batch).decode(encoded, None).unwrap_err();
    assert!(error.message().contains("takes more than"), "{error}");
}

/// Rows of no column take no memory, and their number is bounded all the same.
#[test]
fn a_number_of_rows_beyond_all_bounds_is_an_error() {
    let none = Arc::new(Schema::empty());
    let rows = |count| {
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&none), vec![], &options);
        encode_batch(&batch.unwrap(), None)
    };
    let decoded = decoder(&none, Payload::Plain)
        .decode(rows(7), None)
        .unwrap();
    assert_eq!(decoded[0].num_rows(), 7);
    let error = decoder(&none, Payload::Plain).decode(rows(1 << 40), None);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Data);
}

#[test]
fn a_batch_of_another_schema_is_an_error() {
    let batch = every_value();
    let narrow = Schema::new(vec![Field::new("only", DataType::Utf8, true)]);
    for (schema, payload) in [
        (narrow, encode_batch(&batch, None)),
        (
            every_type(),
            encode_batch(&batch.project(&[0, 1]).unwrap(), None),
        ),
    ] {
        let error = decoder(&schema, Payload::Plain)
            .decode(payload, None)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Data);
    }
}

#[test]
fn text_that_is_not_text_is_an_error() {
    let binary = Schema::new(vec![Field::new("c", DataType::Binary, true)]);
    let column = BinaryArray::from(vec![&b"\xff\xfe"[..]]);
    let batch = RecordBatch::try_new(Arc::new(binary), vec![Arc::new(column)]).unwrap();
    let text = Schema::new(vec![Field::new("c", DataType::Utf8, true)]);
    let error = decoder(&text, Payload::Plain)
        .decode(encode_batch(&batch, None), None)
        .unwrap_err();
    assert!(error.message().contains("'c'"), "{error}");
}

#[test]
fn a_null_in_a_required_column_is_an_error() {
    let nullable = Schema::new(vec![Field::new("c", DataType::Int64, true)]);
    let column = Int64Array::from(vec![Some(1), None]);
    let batch = RecordBatch::try_new(Arc::new(nullable), vec![Arc::new(column)]).unwrap();
    let required = Schema::new(vec![Field::new("c", DataType::Int64, false)]);
    decoder(&required, Payload::Plain)
        .decode(encode_batch(&batch, None), None)
        .unwrap_err();
}

#[test]
fn no_cut_makes_it_panic() {
    let batch = every_value();
    for codec in CODECS {
        let encoded = encode_batch(&batch, codec);
        let decoder = plain(&batch);
        for at in 1..encoded.len() {
            // Cuts inside the padding at the end are harmless, all others not.
            let _ = decoder.decode(encoded.slice(..at), None);
        }
    }
}

#[test]
fn no_changed_byte_makes_it_panic() {
    let batch = every_value();
    for codec in CODECS {
        let encoded = encode_batch(&batch, codec).to_vec();
        let decoder = plain(&batch);
        for at in 0..encoded.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = encoded.clone();
                damaged[at] = value;
                let _ = decoder.decode(damaged.into(), None);
            }
        }
    }
}

/// What the fuzz targets call accepts what is right, so that damage is more than
/// a wrong beginning.
#[test]
fn fuzz_targets_reach_the_arrays() {
    use crate::client::read::fuzzing::{Verdict, columns, response, session_schema};
    let schema = columns();
    assert_eq!(session_schema(&encode(&schema)), Verdict::Accepted);
    assert_eq!(session_schema(b"no schema"), Verdict::Refused);
    let empty: Vec<ArrayRef> = schema
        .fields()
        .iter()
        .map(|field| new_empty_array(field.data_type()))
        .collect();
    let batch = RecordBatch::try_new(schema, empty).unwrap();
    for codec in CODECS {
        let mut input = (-1_i64).to_le_bytes().to_vec();
        input.extend(encode_batch(&batch, codec));
        assert_eq!(response(&input), Verdict::Accepted);
        input.truncate(40);
        assert_eq!(response(&input), Verdict::Refused);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        payload in proptest::collection::vec(any::<u8>(), 0..400),
        size in proptest::option::of(any::<i64>()),
    ) {
        let schema = every_type();
        let bytes = Bytes::from(payload);
        let _ = decoder(&schema, Payload::Plain).decode(bytes.clone(), size);
        let _ = decoder(&schema, Payload::Lz4Block).decode(bytes.clone(), size);
        let _ = crate::client::read::schema::read(&bytes);
    }

    #[test]
    fn no_changes_make_it_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        codec in 0_usize..3,
    ) {
        let batch = every_value();
        let mut damaged = encode_batch(&batch, CODECS[codec]).to_vec();
        for (at, value) in changes {
            let at = at.index(damaged.len());
            damaged[at] = value;
        }
        if let Ok(batches) = plain(&batch).decode(damaged.into(), None) {
            // What passes is at least a batch that can be looked at.
            for batch in batches {
                let _ = format!("{batch:?}");
            }
        }
    }
}
