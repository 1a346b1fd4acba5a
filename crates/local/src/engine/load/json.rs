//! A JSON object per line.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::detect::{Names, SAMPLE_ROWS, Sample};
use super::encoding::{contents, text};
use super::{Columns, Defaults, FormatOptions, LoadError, LoadFile, Loaded, reading};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode, TableSchema};
use crate::value::build::{JsonRowsBuilder, JsonText, UnknownFields};
use crate::value::civil::{parse_date, parse_time};
use crate::value::json_text::parse_json;
use crate::value::timestamp::parse_timestamp_for_import;

/// Reads files of newline-delimited JSON.
pub(super) fn read(
    files: &[LoadFile],
    options: &FormatOptions,
    columns: Columns<'_>,
    defaults: &Defaults,
) -> Result<Loaded, LoadError> {
    if options
        .json_extension
        .as_deref()
        .is_some_and(|e| !e.is_empty() && e != "JSON_EXTENSION_UNSPECIFIED")
    {
        return Err(
            ServiceError::invalid("jsonExtension is not supported by bigquery-local").into(),
        );
    }
    super::check_time_zone(options)?;
    let mut texts = Vec::with_capacity(files.len());
    for file in files {
        let bytes = contents(file)?;
        texts.push(text(&bytes, options.encoding.as_deref())?.into_owned());
    }
    let schema = match columns {
        Columns::Given(schema) => schema.clone(),
        Columns::FromFiles(wanted) => autodetect(&texts, wanted)?,
    };
    let unknown = if options.ignore_unknown_values == Some(true) {
        UnknownFields::Ignore
    } else {
        UnknownFields::Refuse
    };
    let mut builder = JsonRowsBuilder::new(&schema, unknown, JsonText::Literal)
        .with_defaults(defaults.in_order(&schema));
    let mut loaded = Loaded {
        schema: schema.clone(),
        batches: Vec::new(),
        bad_records: 0,
        errors: Vec::new(),
    };
    let mut rows: u64 = 0;
    for text in &texts {
        for (offset, line) in lines(text) {
            rows += 1;
            let taken =
                parse(line).and_then(|row| builder.push(&row).map_err(|e| capitalized(&e.message)));
            if let Err(why) = taken {
                loaded.bad_records += 1;
                loaded.errors.push(reading(format_args!(
                    "JSON parsing error in row starting at position {offset}: {why}"
                )));
                if loaded.bad_records > options.bad_records_allowed() {
                    return Err(LoadError {
                        error: reading(format_args!(
                            "JSON table encountered too many errors, giving up. Rows: {rows}; \
                             errors: {}. Please look into the errors[] collection for more details.",
                            loaded.bad_records
                        )),
                        details: loaded.errors,
                    });
                }
            }
            if builder.is_full() {
                loaded.batches.push(builder.finish()?);
            }
        }
    }
    loaded.batches.push(builder.finish()?);
    Ok(loaded)
}

/// Lines that hold something, with their positions in bytes.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut offset = 0;
    text.split('\n').filter_map(move |line| {
        let start = offset;
        offset += line.len() + 1;
        (!line.trim().is_empty()).then_some((start, line))
    })
}

fn parse(line: &str) -> Result<Value, String> {
    parse_json(line).map_err(|e| format!("Parser terminated: {e}"))
}

fn capitalized(message: &str) -> String {
    let mut characters = message.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}

/// What the rows say about one field.
#[derive(Debug, Default)]
struct Seen {
    sample: Sample,
    repeated: bool,
    single: bool,
    record: Option<IndexMap<String, Seen>>,
}

fn autodetect(texts: &[String], wanted: Option<&TableSchema>) -> Result<TableSchema> {
    let mut seen = IndexMap::new();
    let mut rows = 0;
    for (_, line) in texts.iter().flat_map(|text| lines(text)).take(SAMPLE_ROWS) {
        // A line that is no JSON is a bad record of the load itself.
        if let Ok(Value::Object(object)) = parse_json(line) {
            look(&mut seen, &object, "")?;
            rows += 1;
        }
    }
    if rows == 0 {
        return Err(reading(
            "Failed to detect schema: the input has no rows. Provide a schema.",
        ));
    }
    fields(&seen, wanted.map(|s| s.fields.as_slice()), "").map(TableSchema::new)
}

fn look(seen: &mut IndexMap<String, Seen>, object: &Map<String, Value>, path: &str) -> Result<()> {
    for (name, value) in object {
        let path = format!("{path}{name}");
        let field = seen.entry(name.clone()).or_default();
        match value {
            Value::Array(items) => {
                field.repeated = true;
                for item in items {
                    look_at(field, item, &path)?;
                }
            }
            Value::Null => {}
            other => {
                field.single = true;
                look_at(field, other, &path)?;
            }
        }
    }
    Ok(())
}

fn look_at(field: &mut Seen, value: &Value, path: &str) -> Result<()> {
    match value {
        Value::Null => {}
        Value::Object(object) => {
            let record = field.record.get_or_insert_default();
            look(record, object, &format!("{path}."))?;
        }
        Value::Array(_) => {
            return Err(reading(format_args!(
                "Nested arrays are not allowed. Field: {path}"
            )));
        }
        Value::Bool(_) => field.sample.value(&[FieldType::Bool]),
        Value::Number(n) if n.is_i64() => {
            field.sample.value(&[FieldType::Int64, FieldType::Float64]);
        }
        Value::Number(_) => field.sample.value(&[FieldType::Float64]),
        Value::String(text) => {
            let mut types = Vec::new();
            if parse_date(text).is_ok() {
                types.push(FieldType::Date);
            }
            if text.contains(':') && parse_time(text).is_ok() {
                types.push(FieldType::Time);
            }
            if text.contains(':') && parse_timestamp_for_import(text).is_ok() {
                types.push(FieldType::Timestamp);
            }
            field.sample.value(&types);
        }
    }
    Ok(())
}

fn fields(
    seen: &IndexMap<String, Seen>,
    wanted: Option<&[Field]>,
    path: &str,
) -> Result<Vec<Field>> {
    let mut names = Names::default();
    seen.iter()
        .enumerate()
        .map(|(position, (name, seen))| {
            let at = format!("{path}{name}");
            if names.like_header(name, position) != *name {
                return Err(reading(format_args!(
                    "Invalid field name \"{at}\". Fields must contain only letters, numbers, and \
                     underscores, start with a letter or underscore, be at most 300 characters \
                     long, and be unique without regard to case."
                )));
            }
            if seen.repeated && seen.single {
                return Err(reading(format_args!(
                    "Field {at} is an array in some rows and not in others"
                )));
            }
            let want = wanted.and_then(|w| w.iter().find(|f| f.name.eq_ignore_ascii_case(name)));
            let field_type = match &seen.record {
                Some(_) if !seen.sample.is_empty() => {
                    return Err(reading(format_args!(
                        "Field {at} is a record in some rows and not in others"
                    )));
                }
                Some(record) => {
                    FieldType::Struct(fields(record, want.map(Field::fields), &format!("{at}."))?)
                }
                None => seen.sample.field_type(),
            };
            let mode = if seen.repeated {
                Mode::Repeated
            } else {
                Mode::Nullable
            };
            let mut field = Field::new(name, field_type).with_mode(mode);
            // Any text is a STRING, and a column that exists keeps its mode.
            if let Some(want) = want {
                let text = want.field_type == FieldType::String && seen.record.is_none();
                if text || seen.sample.is_empty() && seen.record.is_none() {
                    field.field_type = want.field_type.clone();
                }
                if mode == Mode::Nullable && want.mode() == Mode::Required {
                    field.mode = want.mode;
                }
            }
            Ok(field)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::value::TextOptions;
    use crate::value::rows::page;

    fn file(text: &str) -> Vec<LoadFile> {
        vec![LoadFile {
            name: String::new(),
            data: text.as_bytes().to_vec().into(),
        }]
    }

    fn rows(loaded: &Loaded) -> Value {
        let all = usize::MAX;
        let options = TextOptions::default();
        let page = page(&loaded.schema, &loaded.batches, 0, all, all, options).unwrap();
        serde_json::from_str(page.rows.get()).unwrap()
    }

    fn given(text: &str, schema: Value, options: Value) -> Result<Loaded, LoadError> {
        let schema: TableSchema = serde_json::from_value(json!({"fields": schema})).unwrap();
        let options: FormatOptions = serde_json::from_value(options).unwrap();
        read(
            &file(text),
            &options,
            Columns::Given(&schema),
            &Defaults::default(),
        )
    }

    #[test]
    fn rows_are_objects_of_lines() {
        let schema = json!([
            {"name": "a", "type": "INTEGER"},
            {"name": "s", "type": "RECORD", "fields": [
                {"name": "x", "type": "INTEGER", "mode": "REPEATED"}]},
            {"name": "j", "type": "JSON"}
        ]);
        let text = "{\"a\":1,\"s\":{\"x\":[1,2]},\"j\":\"t\"}\r\n\n{\"A\":\"2\"}";
        let loaded = given(text, schema, json!({})).unwrap();
        assert_eq!(
            rows(&loaded),
            json!([
                {"f": [{"v": "1"}, {"v": {"f": [{"v": [{"v": "1"}, {"v": "2"}]}]}}, {"v": "\"t\""}]},
                {"f": [{"v": "2"}, {"v": null}, {"v": null}]}
            ])
        );
    }

    #[test]
    fn bad_rows_are_told_with_their_position() {
        let schema = json!([{"name": "a", "type": "INTEGER"}]);
        let text = "{\"a\":1}\n{\"b\":2}\nnot json\n{\"a\":3}\n";
        let error = given(text, schema.clone(), json!({})).unwrap_err();
        assert!(
            error.error.message.contains("Rows: 2; errors: 1."),
            "{error:?}"
        );
        assert_eq!(
            error.details[0].message,
            "Error while reading data, error message: JSON parsing error in row starting at position 8: No such field: b."
        );
        let loaded = given(text, schema.clone(), json!({"maxBadRecords": 2})).unwrap();
        assert_eq!((loaded.bad_records, loaded.errors.len()), (2, 2));
        assert_eq!(rows(&loaded).as_array().unwrap().len(), 2);
        let ignored = given("{\"b\":2}", schema, json!({"ignoreUnknownValues": true})).unwrap();
        assert_eq!(rows(&ignored), json!([{"f": [{"v": null}]}]));
    }

    fn detected(text: &str) -> Result<Vec<String>, LoadError> {
        let loaded = read(
            &file(text),
            &FormatOptions::default(),
            Columns::FromFiles(None),
            &Defaults::default(),
        )?;
        let fields = loaded.schema.fields.iter();
        Ok(fields
            .map(|f| format!("{} {}", f.name, f.sql_type()))
            .collect())
    }

    #[test]
    fn columns_are_detected() {
        let text = "{\"i\":1,\"f\":1,\"s\":\"x\",\"d\":\"2024-01-02\",\"n\":null}\n\
                    {\"f\":2.5,\"b\":true,\"l\":[{\"k\":1}],\"t\":\"2024-01-02 03:04:05\"}";
        assert_eq!(
            detected(text).unwrap(),
            [
                "d DATE",
                "f FLOAT64",
                "i INT64",
                "n STRING",
                "s STRING",
                "b BOOL",
                "l ARRAY<STRUCT<k INT64>>",
                "t TIMESTAMP"
            ]
        );
        assert_eq!(detected("{\"z\":\"12\"}").unwrap(), ["z STRING"]);
        for bad in [
            "",
            "{\"a\":[[1]]}",
            "{\"a b\":1}",
            "{\"a\":1}\n{\"a\":[1]}",
            "{\"a\":{}}\n{\"a\":1}",
        ] {
            assert!(detected(bad).is_err(), "{bad}");
        }
    }
}
