//! Every kind of column from every kind of field.

use arrow::util::display::array_value_to_string;
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
};
use serde_json::{Value, json};

use super::super::plan::Mismatch;
use super::super::rows::{Decoded, Undecoded};
use super::ProtoPlan;
use crate::schema::TableSchema;

fn schema(fields: Value) -> TableSchema {
    serde_json::from_value(json!({"fields": fields})).unwrap()
}

fn field(number: i32, name: &str, kind: Type) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        ..FieldDescriptorProto::default()
    }
}

fn named(number: i32, name: &str, kind: Type, type_name: &str) -> FieldDescriptorProto {
    FieldDescriptorProto {
        type_name: Some(type_name.into()),
        ..field(number, name, kind)
    }
}

fn repeated(mut field: FieldDescriptorProto) -> FieldDescriptorProto {
    field.label = Some(Label::Repeated.into());
    field
}

fn message(name: &str, fields: Vec<FieldDescriptorProto>) -> DescriptorProto {
    DescriptorProto {
        name: Some(name.into()),
        field: fields,
        ..DescriptorProto::default()
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
    out
}

fn int(number: u64, value: i64) -> Vec<u8> {
    [varint(number << 3), varint(value.cast_unsigned())].concat()
}

fn bytes(number: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [
        varint(number << 3 | 2),
        varint(value.len() as u64),
        value.to_vec(),
    ]
    .concat()
}

fn double(number: u64, value: f64) -> Vec<u8> {
    [varint(number << 3 | 1), value.to_le_bytes().to_vec()].concat()
}

fn rows(rows: &[Vec<u8>]) -> Vec<u8> {
    rows.iter().flat_map(|row| bytes(1, row)).collect()
}

fn decode(
    columns: &TableSchema,
    message: &DescriptorProto,
    given: &[Vec<u8>],
) -> Result<Decoded, Undecoded> {
    let mut plan = ProtoPlan::compile(&message.encode_to_vec(), columns, &[]).unwrap();
    plan.decode(&rows(given), &[])
}

/// The values of the first column as Arrow prints them.
fn first(columns: Value, message: &DescriptorProto, given: &[Vec<u8>]) -> Vec<String> {
    let decoded = decode(&schema(columns), message, given).unwrap();
    let batch = decoded.batch().unwrap();
    (0..batch.num_rows())
        .map(|row| array_value_to_string(batch.column(0), row).unwrap())
        .collect()
}

fn faults(columns: Value, message: &DescriptorProto, given: &[Vec<u8>]) -> Vec<(usize, String)> {
    match decode(&schema(columns), message, given) {
        Err(Undecoded::Rows(faults)) => faults.into_iter().map(|f| (f.row, f.message)).collect(),
        other => panic!("{other:?}"),
    }
}

fn scalar(column: &str, kind: Type) -> (Value, DescriptorProto) {
    (
        json!([{"name": "v", "type": column}]),
        message("Row", vec![field(1, "v", kind)]),
    )
}

/// What one value becomes.
fn one(column: &str, kind: Type, value: Vec<u8>) -> String {
    let (columns, message) = scalar(column, kind);
    first(columns, &message, &[value]).remove(0)
}

/// Why one value is refused.
fn fault(column: &str, kind: Type, value: Vec<u8>) -> String {
    let (columns, message) = scalar(column, kind);
    faults(columns, &message, &[value]).remove(0).1
}

#[test]
fn scalars() {
    for (column, kind, value, want) in [
        (
            "INTEGER",
            Type::Int64,
            int(1, i64::MIN),
            "-9223372036854775808",
        ),
        ("INTEGER", Type::Int32, int(1, -7), "-7"),
        ("INTEGER", Type::Uint32, int(1, 4_000_000_000), "4000000000"),
        ("BOOLEAN", Type::Bool, int(1, 1), "true"),
        ("BOOLEAN", Type::Uint64, int(1, -1), "true"),
        ("BOOLEAN", Type::Int32, int(1, 0), "false"),
        ("FLOAT", Type::Double, double(1, 1.5), "1.5"),
        (
            "FLOAT",
            Type::Float,
            [vec![13], 2.5_f32.to_le_bytes().to_vec()].concat(),
            "2.5",
        ),
        ("STRING", Type::String, bytes(1, "héllo"), "héllo"),
        ("BYTES", Type::Bytes, bytes(1, [0, 255]), "00ff"),
        ("BYTES", Type::String, bytes(1, "AP8="), "4150383d"),
        ("NUMERIC", Type::String, bytes(1, "1.25"), "1.250000000"),
        ("NUMERIC", Type::Bytes, bytes(1, [0xff]), "-0.000000001"),
        ("NUMERIC", Type::Int64, int(1, -3), "-3.000000000"),
        (
            "NUMERIC",
            Type::Uint64,
            int(1, -1),
            "18446744073709551615.000000000",
        ),
        ("NUMERIC", Type::Double, double(1, 0.1), "0.100000000"),
        ("DATE", Type::Int32, int(1, -719_162), "0001-01-01"),
        ("DATE", Type::Int64, int(1, 19_723), "2024-01-01"),
        ("DATE", Type::String, bytes(1, "2024-02-29"), "2024-02-29"),
        ("TIME", Type::String, bytes(1, "01:02:03.5"), "01:02:03.500"),
        (
            "TIME",
            Type::Int64,
            int(1, 1 << 32 | 2 << 26 | 3 << 20 | 500_000),
            "01:02:03.500",
        ),
        (
            "DATETIME",
            Type::Int64,
            int(1, 2024 << 46 | 2 << 42 | 29 << 37 | 1 << 32),
            "2024-02-29T01:00:00",
        ),
        (
            "DATETIME",
            Type::String,
            bytes(1, "2024-02-29 01:00:00"),
            "2024-02-29T01:00:00",
        ),
        (
            "TIMESTAMP",
            Type::Int64,
            int(1, 1),
            "1970-01-01T00:00:00.000001Z",
        ),
        (
            "TIMESTAMP",
            Type::Uint32,
            int(1, 2),
            "1970-01-01T00:00:00.000002Z",
        ),
        (
            "TIMESTAMP",
            Type::String,
            bytes(1, "2024-02-29 12:00:00+01:00"),
            "2024-02-29T11:00:00Z",
        ),
        (
            "GEOGRAPHY",
            Type::String,
            bytes(1, "POINT( 1 2 )"),
            "POINT(1 2)",
        ),
        (
            "JSON",
            Type::String,
            bytes(1, "{\"b\": 1, \"a\": [1, null]}"),
            "{\"a\":[1,null],\"b\":1}",
        ),
        (
            "INTERVAL",
            Type::String,
            bytes(1, "1-2 3 4:5:6"),
            "14 mons 3 days 4 hours 5 mins 6.000000000 secs",
        ),
    ] {
        assert_eq!(one(column, kind, value), want, "{column} from {kind:?}");
    }
}

#[test]
fn values_beyond_their_type_are_faults() {
    for (column, kind, value) in [
        ("DATE", Type::Int32, int(1, 2_932_897)),
        ("DATE", Type::String, bytes(1, "2023-02-29")),
        ("TIME", Type::Int64, int(1, 24 << 32)),
        (
            "DATETIME",
            Type::Int64,
            int(1, 2023 << 46 | 2 << 42 | 29 << 37),
        ),
        ("TIMESTAMP", Type::Int64, int(1, i64::MAX)),
        ("NUMERIC", Type::Bytes, bytes(1, [0x7f; 16])),
        ("NUMERIC", Type::Bytes, bytes(1, [])),
        ("NUMERIC", Type::Double, double(1, f64::NAN)),
        ("NUMERIC", Type::Double, double(1, 1e30)),
        ("NUMERIC", Type::String, bytes(1, "one")),
        ("STRING", Type::String, bytes(1, [0xc3])),
        ("JSON", Type::String, bytes(1, "{")),
        ("GEOGRAPHY", Type::String, bytes(1, "POINT(1)")),
        ("INTERVAL", Type::String, bytes(1, "soon")),
    ] {
        let words = fault(column, kind, value);
        assert!(words.contains('v'), "{column}: {words}");
    }
}

#[test]
fn parameters_of_decimals() {
    let columns = json!([{"name": "v", "type": "NUMERIC", "precision": "5", "scale": "2"}]);
    let row = message("Row", vec![field(1, "v", Type::Bytes)]);
    let scaled = |v: i64| bytes(1, v.to_le_bytes());
    let got = first(
        columns.clone(),
        &row,
        &[scaled(1_255_000_000), scaled(-1_254_999_999)],
    );
    assert_eq!(got, ["1.26", "-1.25"]);
    let words = faults(columns, &row, &[scaled(1_000_000_000_000)]);
    assert!(words[0].1.contains("NUMERIC(5, 2)"), "{words:?}");
}

#[test]
fn structs_arrays_and_what_is_missing_in_them() {
    let columns = json!([{"name": "v", "type": "RECORD", "fields": [
        {"name": "a", "type": "INTEGER", "mode": "REPEATED"},
        {"name": "r", "type": "RECORD", "mode": "REPEATED", "fields": [
            {"name": "k", "type": "STRING", "mode": "REQUIRED"},
            {"name": "later", "type": "INTEGER"},
        ]},
        {"name": "new", "type": "STRING", "mode": "REPEATED"},
    ]}]);
    let mut inner = message(
        "V",
        vec![
            repeated(field(1, "a", Type::Int64)),
            repeated(named(2, "R", Type::Message, ".Row.V.Pair")),
        ],
    );
    inner
        .nested_type
        .push(message("Pair", vec![field(9, "k", Type::String)]));
    let mut row = message("Row", vec![named(1, "v", Type::Message, "V")]);
    row.nested_type.push(inner);
    let pair = |k: &str| bytes(2, bytes(9, k));
    // Packed and unpacked elements, a message in two pieces, an empty one, none.
    let packed = bytes(1, [1, 2]);
    let given = [
        bytes(1, [packed, int(1, 3), pair("x")].concat()),
        [
            bytes(1, int(1, 4)),
            bytes(1, [int(1, 5), pair("y")].concat()),
        ]
        .concat(),
        bytes(1, []),
        vec![],
    ];
    assert_eq!(
        first(columns.clone(), &row, &given),
        [
            "{a: [1, 2, 3], r: [{k: x, later: }], new: []}",
            "{a: [4, 5], r: [{k: y, later: }], new: []}",
            "{a: [], r: [], new: []}",
            "",
        ]
    );
    let words = faults(columns, &row, &[vec![], bytes(1, bytes(2, []))]);
    assert_eq!(
        words,
        [(1, "Field v.r.k is required but has no value.".to_string())]
    );
}

#[test]
fn ranges_are_messages_of_two_bounds() {
    let columns = json!([
        {"name": "v", "type": "RANGE", "rangeElementType": {"type": "DATE"}}
    ]);
    let mut row = message("Row", vec![named(1, "v", Type::Message, "Dates")]);
    let bounds = vec![
        field(1, "start", Type::Int32),
        field(2, "end", Type::String),
    ];
    row.nested_type.push(message("Dates", bounds));
    let given = [
        bytes(1, [int(1, 0), bytes(2, "1970-01-02")].concat()),
        bytes(1, int(1, 1)),
        bytes(1, []),
        vec![],
    ];
    assert_eq!(
        first(columns.clone(), &row, &given),
        [
            "{start: 1970-01-01, end: 1970-01-02}",
            "{start: 1970-01-02, end: }",
            "{start: , end: }",
            "",
        ]
    );
    let backwards = bytes(1, [int(1, 1), bytes(2, "1970-01-02")].concat());
    assert_eq!(faults(columns, &row, &[backwards]).len(), 1);
}

#[test]
fn enums_wrappers_instants_and_durations() {
    let mut row = message("Row", vec![named(1, "v", Type::Enum, "Color")]);
    row.enum_type.push(EnumDescriptorProto {
        name: Some("Color".into()),
        value: vec![EnumValueDescriptorProto {
            name: Some("RED".into()),
            number: Some(3),
            ..EnumValueDescriptorProto::default()
        }],
        ..EnumDescriptorProto::default()
    });
    let of = |column: &str| json!([{"name": "v", "type": column}]);
    // A number that the enum lacks is an unknown field.
    let given = [int(1, 3), int(1, 4)];
    assert_eq!(first(of("STRING"), &row, &given), ["RED", ""]);
    assert_eq!(first(of("INTEGER"), &row, &given), ["3", ""]);
    let well_known = |name: &str| {
        let name = format!(".google.protobuf.{name}");
        message("Row", vec![named(1, "v", Type::Message, &name)])
    };
    let zero = [bytes(1, []), vec![]];
    assert_eq!(
        first(of("INTEGER"), &well_known("Int64Value"), &zero),
        ["0", ""]
    );
    assert_eq!(
        first(
            of("STRING"),
            &well_known("StringValue"),
            &[bytes(1, bytes(1, "x"))]
        ),
        ["x"]
    );
    let parts = bytes(1, [int(1, 60), int(2, 5_000)].concat());
    assert_eq!(
        first(
            of("TIMESTAMP"),
            &well_known("Timestamp"),
            std::slice::from_ref(&parts)
        ),
        ["1970-01-01T00:01:00.000005Z"]
    );
    assert_eq!(
        first(of("INTERVAL"), &well_known("Duration"), &[parts]),
        ["1 mins 0.000005000 secs"]
    );
    let mut own = message(
        "Row",
        vec![named(1, "v", Type::Message, "google_protobuf_Int64Value")],
    );
    let value = vec![field(1, "value", Type::Int64)];
    own.nested_type
        .push(message("google_protobuf_Int64Value", value));
    assert_eq!(first(of("INTEGER"), &own, &[bytes(1, int(1, 8))]), ["8"]);
}

#[test]
fn the_last_of_several_values_counts_and_unknown_ones_do_not() {
    let (columns, row) = scalar("STRING", Type::String);
    let twice = [bytes(1, "first"), bytes(1, "2nd")].concat();
    // Field 7 is unknown; field 1 as a varint is, too.
    let unknown = [int(7, 1), vec![7 << 3 | 3, 7 << 3 | 4], int(1, 1)].concat();
    assert_eq!(first(columns, &row, &[twice, unknown]), ["2nd", ""]);
}

#[test]
fn annotations_name_columns_that_fields_cannot() {
    let columns = schema(json!([{"name": "prix €", "type": "INTEGER"}]));
    // FieldOptions with the extension 454943157, which generated messages drop.
    let options = bytes(8, bytes(454_943_157, "Prix €"));
    let mut proto_field = field(1, "col_1", Type::Int64).encode_to_vec();
    proto_field.extend(options);
    let descriptor = [bytes(1, "Row"), bytes(2, proto_field)].concat();
    let mut plan = ProtoPlan::compile(&descriptor, &columns, &[]).unwrap();
    let decoded = plan.decode(&rows(&[int(1, 5)]), &[]).unwrap();
    let batch = decoded.batch().unwrap();
    assert_eq!(array_value_to_string(batch.column(0), 0).unwrap(), "5");
}

#[test]
fn fields_that_are_too_many_or_of_a_wrong_type_are_all_named() {
    let columns = schema(json!([
        {"name": "a", "type": "INTEGER"},
        {"name": "s", "type": "RECORD", "fields": [{"name": "x", "type": "INTEGER"}]},
    ]));
    let mut row = message(
        "Row",
        vec![
            field(1, "a", Type::Int64),
            named(2, "s", Type::Message, "S"),
            field(3, "b", Type::Int64),
        ],
    );
    row.nested_type
        .push(message("S", vec![field(1, "y", Type::Int64)]));
    let refused = |row: &DescriptorProto| {
        ProtoPlan::compile(&row.encode_to_vec(), &columns, &[]).unwrap_err()
    };
    assert_eq!(
        refused(&row),
        Mismatch::Extra(vec!["s.y".into(), "b".into()])
    );
    let row = message(
        "Row",
        vec![field(1, "a", Type::Bool), field(2, "s", Type::Int64)],
    );
    assert_eq!(
        refused(&row),
        Mismatch::Incompatible(vec!["a".into(), "s".into()])
    );
    assert!(matches!(
        ProtoPlan::compile(&[0xff], &columns, &[]),
        Err(Mismatch::Invalid(_))
    ));
}

#[test]
fn a_plan_is_used_again() {
    let (columns, row) = scalar("STRING", Type::String);
    let columns = schema(columns);
    let mut plan = ProtoPlan::compile(&row.encode_to_vec(), &columns, &[]).unwrap();
    let bad = rows(&[bytes(1, [0xff]), vec![0x0a, 0x7f], bytes(1, "x")]);
    assert!(matches!(plan.decode(&bad, &[]), Err(Undecoded::Rows(f)) if f.len() == 2));
    let decoded = plan.decode(&rows(&[bytes(1, "y")]), &[]).unwrap();
    assert_eq!(decoded.batch().unwrap().num_rows(), 1);
}
