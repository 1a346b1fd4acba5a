//! Every kind of column from Arrow batches.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Int8Array, Int32Array,
    Int64Array, IntervalDayTimeArray, ListArray, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray, TimestampMillisecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field as ArrowField, Fields, Int32Type, IntervalDayTime};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
};
use arrow::util::display::array_value_to_string;
use serde_json::{Value, json};

use super::super::plan::Mismatch;
use super::super::rows::Undecoded;
use super::ArrowPlan;
use crate::schema::TableSchema;

fn columns(fields: Value) -> TableSchema {
    serde_json::from_value(json!({"fields": fields})).unwrap()
}

/// The two messages of a batch.
fn messages(batch: &RecordBatch, options: &IpcWriteOptions) -> (Vec<u8>, Vec<u8>) {
    let generator = IpcDataGenerator::default();
    let mut tracker = DictionaryTracker::new(false);
    let schema = generator.schema_to_bytes_with_dictionary_tracker(
        batch.schema_ref(),
        &mut tracker,
        options,
    );
    let (_, rows) = generator
        .encode(
            batch,
            &mut tracker,
            options,
            &mut IpcWriteContext::default(),
        )
        .unwrap();
    let written = |data| {
        let mut out = Vec::new();
        write_message(&mut out, data, options).unwrap();
        out
    };
    (written(schema), written(rows))
}

fn batch(array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("v", array, true)]).unwrap()
}

fn decoded(column: Value, array: ArrayRef) -> Result<Vec<String>, Undecoded> {
    let (schema, rows) = messages(&batch(array), &IpcWriteOptions::default());
    let plan = ArrowPlan::compile(&schema, &columns(json!([column]))).unwrap();
    let batch = plan.decode(&rows, &[])?.batch().unwrap();
    Ok((0..batch.num_rows())
        .map(|row| array_value_to_string(batch.column(0), row).unwrap())
        .collect())
}

fn refused(column: Value, array: ArrayRef) -> Mismatch {
    let (schema, _) = messages(&batch(array), &IpcWriteOptions::default());
    ArrowPlan::compile(&schema, &columns(json!([column]))).unwrap_err()
}

fn faulty(column: Value, array: ArrayRef) -> Vec<usize> {
    match decoded(column, array) {
        Err(Undecoded::Rows(faults)) => faults.into_iter().map(|f| f.row).collect(),
        other => panic!("{other:?}"),
    }
}

fn of(kind: &str) -> Value {
    json!({"name": "V", "type": kind})
}

#[test]
fn scalars() {
    let cases: Vec<(&str, ArrayRef, [&str; 2])> = vec![
        (
            "INTEGER",
            Arc::new(Int8Array::from(vec![Some(-1), None])),
            ["-1", ""],
        ),
        (
            "FLOAT",
            Arc::new(Float32Array::from(vec![Some(0.5), None])),
            ["0.5", ""],
        ),
        (
            "BOOLEAN",
            Arc::new(BooleanArray::from(vec![Some(true), None])),
            ["true", ""],
        ),
        (
            "DATE",
            Arc::new(Int32Array::from(vec![Some(1), None])),
            ["1970-01-02", ""],
        ),
        (
            "DATE",
            Arc::new(StringArray::from(vec![Some("1970-01-03"), None])),
            ["1970-01-03", ""],
        ),
        (
            "TIMESTAMP",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(0), None])),
            ["1970-01-01T00:00:00Z", ""],
        ),
        (
            "NUMERIC",
            Arc::new(
                Decimal128Array::from(vec![Some(125), None])
                    .with_precision_and_scale(5, 2)
                    .unwrap(),
            ),
            ["1.250000000", ""],
        ),
        (
            "INTERVAL",
            Arc::new(IntervalDayTimeArray::from(vec![
                Some(IntervalDayTime::new(2, 3)),
                None,
            ])),
            ["2 days 0.003000000 secs", ""],
        ),
        (
            "JSON",
            Arc::new(StringArray::from(vec![Some("[1,  2]"), None])),
            ["[1,2]", ""],
        ),
    ];
    for (kind, array, want) in cases {
        assert_eq!(decoded(of(kind), array).unwrap(), want, "{kind}");
    }
}

#[test]
fn types_that_are_not_listed_are_refused() {
    let dictionary: arrow::array::DictionaryArray<Int32Type> = ["a"].into_iter().collect();
    for array in [
        Arc::new(dictionary) as ArrayRef,
        Arc::new(arrow::array::LargeStringArray::from(vec!["a"])),
        Arc::new(arrow::array::StringViewArray::from(vec!["a"])),
        Arc::new(Int64Array::from(vec![1])),
    ] {
        assert!(matches!(refused(of("STRING"), array), Mismatch::Incompatible(f) if f == ["v"]));
    }
    let millis = Arc::new(TimestampMillisecondArray::from(vec![1]));
    assert!(matches!(
        refused(of("TIMESTAMP"), millis),
        Mismatch::Incompatible(_)
    ));
    let other = json!({"name": "w", "type": "INTEGER"});
    let array = Arc::new(Int64Array::from(vec![1]));
    assert_eq!(refused(other, array), Mismatch::Extra(vec!["v".into()]));
}

#[test]
fn what_does_not_fit_is_a_fault_of_its_row() {
    let array = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), None]));
    let required = json!({"name": "v", "type": "INTEGER", "mode": "REQUIRED"});
    assert_eq!(faulty(required, array), [1, 3]);
    let short = json!({"name": "v", "type": "STRING", "maxLength": "2"});
    let array = Arc::new(StringArray::from(vec![Some("ab"), Some("abc"), None]));
    assert_eq!(faulty(short, array), [1]);
    let dates = Arc::new(Date32Array::from(vec![0, i32::MAX]));
    assert_eq!(faulty(of("DATE"), dates), [1]);
    let micros = Arc::new(TimestampMicrosecondArray::from(vec![i64::MIN, 0]));
    assert_eq!(faulty(of("DATETIME"), micros), [0]);
    let decimals = Decimal128Array::from(vec![100, 1_000]).with_precision_and_scale(10, 1);
    let narrow = json!({"name": "v", "type": "NUMERIC", "precision": "2", "scale": "0"});
    assert_eq!(faulty(narrow, Arc::new(decimals.unwrap())), [1]);
}

#[test]
fn lists_and_structs() {
    let repeated = json!({"name": "v", "type": "INTEGER", "mode": "REPEATED"});
    let lists = |values: Vec<Option<Vec<Option<i32>>>>| -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(values))
    };
    let some = |v: Vec<i32>| Some(v.into_iter().map(Some).collect());
    let good = lists(vec![some(vec![1, 2]), some(vec![])]);
    assert_eq!(decoded(repeated.clone(), good).unwrap(), ["[1, 2]", "[]"]);
    let bad = lists(vec![some(vec![1]), None, Some(vec![Some(1), None])]);
    assert_eq!(faulty(repeated, bad), [1, 2]);

    let record = json!({"name": "v", "type": "RECORD", "fields": [
        {"name": "a", "type": "INTEGER", "mode": "REQUIRED"},
        {"name": "b", "type": "STRING"},
    ]});
    let fields = Fields::from(vec![ArrowField::new("A", DataType::Int64, true)]);
    let structs = |nulls: Vec<bool>| -> ArrayRef {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        Arc::new(StructArray::new(
            fields.clone(),
            vec![values],
            Some(NullBuffer::from(nulls)),
        ))
    };
    let good = decoded(record.clone(), structs(vec![true, false])).unwrap();
    assert_eq!(good, ["{a: 1, b: }", ""]);
    assert_eq!(faulty(record.clone(), structs(vec![true, true])), [1]);
    // A fault in an element is one of the row that the element is in.
    let item = Arc::new(ArrowField::new(
        "item",
        DataType::Struct(fields.clone()),
        true,
    ));
    let many = ListArray::new(
        item,
        OffsetBuffer::from_lengths([0, 0, 2]),
        structs(vec![true, true]),
        None,
    );
    let mut repeated = record;
    repeated["mode"] = json!("REPEATED");
    assert_eq!(faulty(repeated, Arc::new(many)), [2]);
}

#[test]
fn messages_that_are_not_one_bare_record_batch() {
    let array = Arc::new(Int64Array::from((0..1000).collect::<Vec<i64>>()));
    let batch = batch(array);
    let (schema, rows) = messages(&batch, &IpcWriteOptions::default());
    let plan = ArrowPlan::compile(&schema, &columns(json!([of("INTEGER")]))).unwrap();
    assert_eq!(plan.decode(&rows, &[]).unwrap().rows, 1000);
    let compressed = IpcWriteOptions::default()
        .try_with_compression(Some(CompressionType::LZ4_FRAME))
        .unwrap();
    let whole = [schema.clone(), rows.clone()].concat();
    for bad in [
        whole,
        messages(&batch, &compressed).1,
        rows[..100].to_vec(),
        vec![],
        schema,
    ] {
        assert!(matches!(plan.decode(&bad, &[]), Err(Undecoded::Request(_))));
    }
    assert!(ArrowPlan::compile(&rows, &columns(json!([of("INTEGER")]))).is_err());
}
