//! How files are read: the format options of `configuration.load`.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Value;

/// Formats of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SourceFormat {
    /// Separated values.
    #[default]
    Csv,
    /// A JSON object per line.
    NewlineDelimitedJson,
    /// Avro object container files.
    Avro,
    /// Parquet.
    Parquet,
    /// ORC, which this server does not read.
    Orc,
    /// Datastore exports, which this server does not read.
    DatastoreBackup,
}

/// Options of `configuration.load` about the files' format.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FormatOptions {
    /// Records that may be skipped (CSV, JSON).
    #[serde(deserialize_with = "optional_int64")]
    pub max_bad_records: Option<i64>,
    /// Ignore values that no column is for (CSV, JSON).
    pub ignore_unknown_values: Option<bool>,
    /// Separator, default a comma (CSV).
    pub field_delimiter: Option<String>,
    /// Lines to skip (CSV); unset and 0 differ when columns are autodetected.
    #[serde(deserialize_with = "optional_int64")]
    pub skip_leading_rows: Option<i64>,
    /// Quote, default `"`, empty for none (CSV).
    pub quote: Option<String>,
    /// Allow line breaks inside quotes (CSV).
    pub allow_quoted_newlines: Option<bool>,
    /// Allow rows that end early (CSV).
    pub allow_jagged_rows: Option<bool>,
    /// Text of NULL (CSV).
    pub null_marker: Option<String>,
    /// Texts of NULL (CSV).
    pub null_markers: Option<Vec<String>>,
    /// `UTF-8`, `ISO-8859-1`, `UTF-16LE`, … (CSV, JSON).
    pub encoding: Option<String>,
    /// Keep ASCII control characters (CSV).
    pub preserve_ascii_control_characters: Option<bool>,
    /// `POSITION` or `NAME` (CSV).
    pub source_column_match: Option<String>,
    /// Logical types become DATE, TIMESTAMP and so on (Avro).
    pub use_avro_logical_types: Option<bool>,
    /// Types that a decimal may become, in any order (Avro, Parquet).
    pub decimal_target_types: Option<Vec<String>>,
    /// Parquet.
    pub parquet_options: Option<ParquetOptions>,
    /// Zone of timestamps that say none (CSV, JSON).
    pub time_zone: Option<String>,
    /// Format elements of DATE values.
    pub date_format: Option<String>,
    /// Format elements of DATETIME values.
    pub datetime_format: Option<String>,
    /// Format elements of TIME values.
    pub time_format: Option<String>,
    /// Format elements of TIMESTAMP values.
    pub timestamp_format: Option<String>,
    /// `STRICT`, `V1` or `V2`.
    pub column_name_character_map: Option<String>,
    /// `GEOJSON` for newline-delimited GeoJSON.
    pub json_extension: Option<String>,
}

/// `parquetOptions`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParquetOptions {
    /// ENUM becomes STRING instead of BYTES.
    pub enum_as_string: Option<bool>,
    /// Lists become ARRAYs instead of nested records.
    pub enable_list_inference: Option<bool>,
    /// `ARRAY_OF_STRUCT`: maps become ARRAY<STRUCT<key, value>>.
    pub map_target_type: Option<String>,
}

impl FormatOptions {
    /// See the field; negative numbers count as 0.
    pub fn bad_records_allowed(&self) -> u64 {
        self.max_bad_records
            .and_then(|n| u64::try_from(n).ok())
            .unwrap_or(0)
    }
}

/// Reads a 64-bit integer, which travels as a string; a number is accepted too.
pub fn int64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    optional_int64(deserializer)?.ok_or_else(|| D::Error::custom("an integer is missing"))
}

/// Like [`int64`], where nothing and null are `None`.
pub fn optional_int64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    let bad = |v: &Value| D::Error::custom(format!("{v} is not a 64-bit integer"));
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(n)) => n.as_i64().map(Some).ok_or_else(|| bad(&Value::Number(n))),
        Some(Value::String(s)) => s.parse().map(Some).map_err(|_| bad(&Value::String(s))),
        Some(other) => Err(bad(&other)),
    }
}
