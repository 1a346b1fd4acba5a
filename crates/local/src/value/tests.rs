//! Whatever text comes in, a conversion answers a value or an error; and what it
//! answers reads back.

use proptest::prelude::*;

use super::build::{CellReader, JsonText};
use super::civil::{DAY_MICROS, MAX_DATE, MAX_MICROS, MIN_DATE, MIN_MICROS};
use super::decimal::Excess;
use super::timestamp::Zone;
use super::*;
use crate::schema::{Field, FieldType, RangeElement, TableSchema};

fn written(write: impl FnOnce(&mut String)) -> String {
    let mut out = String::new();
    write(&mut out);
    out
}

/// Text that looks like values more often than arbitrary text does.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-+0-9.eE:/TZ ]{0,40}",
        "[-+]?[0-9]{1,90}(\\.[0-9]{0,90})?([eE][-+]?[0-9]{1,12})?",
        "[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}[ Tt]?[0-9:.]{0,18}( ?[-+A-Za-z/0-9:_]{0,20})?",
        "[-+]?P?[-+0-9YMWDTHSym:. ]{0,30}",
        "\\[[^,]{0,20}, ?[^,]{0,20}\\)",
        "(POINT|LINESTRING|POLYGON|MULTIPOINT|GEOMETRYCOLLECTION)[ (),0-9.e-]{0,40}",
        "[\\[\\]{}\":,0-9a-ntu\\\\ .e-]{0,40}",
    ]
}

fn fields() -> Vec<Field> {
    let mut fields = vec![
        Field::new("i", FieldType::Int64),
        Field::new("f", FieldType::Float64),
        Field::new("b", FieldType::Bool),
        Field::new("s", FieldType::String),
        Field::new("y", FieldType::Bytes),
        Field::new("n", FieldType::Numeric),
        Field::new("bn", FieldType::Bignumeric),
        Field::new("d", FieldType::Date),
        Field::new("t", FieldType::Time),
        Field::new("dt", FieldType::Datetime),
        Field::new("ts", FieldType::Timestamp),
        Field::new("g", FieldType::Geography),
        Field::new("j", FieldType::Json),
        Field::new("iv", FieldType::Interval),
        Field::new("r", FieldType::Range(RangeElement::Timestamp)),
    ];
    let mut narrow = Field::new("p", FieldType::Bignumeric);
    (narrow.precision, narrow.scale) = (Some(40), Some(3));
    fields.push(narrow);
    fields
}

/// Any JSON, mostly of the names and shapes that rows have.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        text().prop_map(serde_json::Value::from),
    ];
    let name = prop_oneof![
        "(i|f|b|s|y|n|bn|d|t|dt|ts|g|j|iv|r|p|st|start|end|x)",
        "[a-z]{1,3}"
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::vec((name.clone(), inner), 0..6)
                .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_panics(text in text()) {
        for reader in [CellReader::for_sql(), CellReader::for_import(JsonText::Encoded)] {
            for field in fields() {
                let _ = reader.text(&field, &text);
            }
        }
        let _ = Zone::parse(&text);
    }

    #[test]
    fn no_row_panics_and_taken_rows_print(rows in prop::collection::vec(json(), 1..6)) {
        let mut columns = fields();
        columns.push(Field::new("st", FieldType::Struct(fields())));
        let repeated: Vec<Field> = fields()
            .into_iter()
            .map(|f| Field { name: format!("{}s", f.name), ..f }.with_mode(crate::schema::Mode::Repeated))
            .collect();
        columns.push(Field::new("x", FieldType::Struct(repeated)));
        let schema = TableSchema::new(columns);
        for unknown in [UnknownFields::Ignore, UnknownFields::Refuse] {
            let mut builder = JsonRowsBuilder::new(&schema, unknown, JsonText::Literal);
            let taken = rows.iter().filter(|row| builder.push(row).is_ok()).count();
            let batch = builder.finish().unwrap();
            prop_assert_eq!(batch.num_rows(), taken);
            let page = rows::page(&schema, &[batch], 0, 10, usize::MAX, TextOptions::default()).unwrap();
            let printed: Vec<serde_json::Value> = serde_json::from_str(page.rows.get()).unwrap();
            prop_assert_eq!(printed.len(), taken);
        }
    }

    #[test]
    fn dates_and_times_read_back(days in MIN_DATE..=MAX_DATE, time in 0..DAY_MICROS, micros in MIN_MICROS..=MAX_MICROS) {
        prop_assert_eq!(civil::parse_date(&written(|s| civil::write_date(days, s))), Ok(days));
        prop_assert_eq!(civil::parse_time(&written(|s| civil::write_time(time, s))), Ok(time));
        for separator in [' ', 'T'] {
            let text = written(|s| civil::write_datetime(micros, separator, s));
            prop_assert_eq!(civil::parse_datetime(&text), Ok(micros));
        }
        let text = written(|s| timestamp::write_timestamp(micros, s));
        prop_assert_eq!(timestamp::parse_timestamp(&text, Zone::UTC), Ok(micros));
        // Every form that rows carry is exact.
        for form in [TimestampText::Scientific, TimestampText::Plain] {
            let text = written(|s| form.write(micros, s));
            prop_assert_eq!(timestamp::parse_timestamp_for_import(&text), Ok(micros), "{}", text);
        }
    }

    #[test]
    fn decimals_read_back(high in any::<i128>(), low in any::<u128>(), scale in 0i8..=38) {
        let value = arrow::datatypes::i256::from_parts(low, high);
        let text = written(|s| decimal::write_decimal256(value, 38, s));
        prop_assert_eq!(decimal::parse_bignumeric(&text, Excess::Refuse), Ok(value), "{}", text);
        let small = high / 10;
        let text = written(|s| decimal::write_decimal128(small, scale, s));
        let read = decimal::parse_decimal(&text, 77, u8::try_from(scale).unwrap(), Excess::Refuse);
        prop_assert_eq!(read.ok().and_then(|v| v.to_i128()), Some(small), "{}", text);
    }

    #[test]
    fn floats_intervals_and_json_read_back(bits in any::<u64>(), months in -120_000i64..=120_000, days in -3_660_000i64..=3_660_000, micros in -9_000_000_000_000_000i64..=9_000_000_000_000_000, json in json()) {
        let float = f64::from_bits(bits);
        let read = scalar::parse_float64(&written(|s| scalar::write_float64(float, s))).unwrap();
        prop_assert!(read == float || (read.is_nan() && float.is_nan()));
        let interval = interval::interval(months, days, micros).unwrap();
        prop_assert_eq!(interval::parse_interval(&written(|s| interval::write_interval(interval, s))), Ok(interval));
        let normal = super::json::normal_form(&json);
        prop_assert_eq!(super::json::normalize_json(&normal), Ok(normal.clone()));
        prop_assert_eq!(json_text::parse_json(&normal).unwrap(), json);
    }
}
