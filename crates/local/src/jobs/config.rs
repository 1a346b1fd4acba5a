//! `configuration` of the Job resource as typed values.
//!
//! Unknown fields are kept in the resource that is answered and otherwise
//! ignored, as the service does; a known field of a wrong shape is HTTP 400.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::job::JobKind;
use crate::engine::extract::{Compression, FileFormat};
use crate::engine::load::{FormatOptions, SourceFormat, int64, optional_int64};
use crate::error::{Result, ServiceError};
use crate::schema::TableSchema;
use crate::store::{ClusteringSpec, DatasetRef, TableRef, TimePartitioning};

/// Whether a missing destination is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum CreateDisposition {
    /// Yes.
    #[default]
    #[serde(rename = "CREATE_IF_NEEDED")]
    IfNeeded,
    /// No: the job fails with `notFound`.
    #[serde(rename = "CREATE_NEVER")]
    Never,
}

/// What happens to the rows that a destination has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum WriteDisposition {
    /// The job fails with `duplicate` when there are any.
    #[serde(rename = "WRITE_EMPTY")]
    Empty,
    /// They stay.
    #[serde(rename = "WRITE_APPEND")]
    Append,
    /// They go, and so do the schema and the constraints.
    #[serde(rename = "WRITE_TRUNCATE")]
    Truncate,
    /// They go; schema and constraints stay.
    #[serde(rename = "WRITE_TRUNCATE_DATA")]
    TruncateData,
}

/// A change that an append may make to the destination's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum SchemaUpdateOption {
    /// New NULLABLE or REPEATED fields.
    #[serde(rename = "ALLOW_FIELD_ADDITION")]
    FieldAddition,
    /// REQUIRED fields become NULLABLE.
    #[serde(rename = "ALLOW_FIELD_RELAXATION")]
    FieldRelaxation,
}

/// `rangePartitioning` as REST writes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RangePartitioningConfig {
    /// Column.
    pub field: String,
    /// Bounds.
    pub range: RangeConfig,
}

/// `rangePartitioning.range`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RangeConfig {
    /// First value.
    #[serde(deserialize_with = "int64")]
    pub start: i64,
    /// First value after the last.
    #[serde(deserialize_with = "int64")]
    pub end: i64,
    /// Width of one partition.
    #[serde(deserialize_with = "int64")]
    pub interval: i64,
}

/// How a destination that the job makes is laid out.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LayoutConfig {
    /// Partitioning by time.
    pub time_partitioning: Option<TimePartitioning>,
    /// Partitioning by integer range.
    pub range_partitioning: Option<RangePartitioningConfig>,
    /// Clustering.
    pub clustering: Option<ClusteringSpec>,
}

/// `configuration.query`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryConfig {
    /// Text.
    pub query: String,
    /// Where the result goes.
    pub destination_table: Option<TableRef>,
    /// Default CREATE_IF_NEEDED.
    #[serde(default)]
    pub create_disposition: CreateDisposition,
    /// Default WRITE_EMPTY for a named destination.
    pub write_disposition: Option<WriteDisposition>,
    /// Where unqualified table names are looked up.
    pub default_dataset: Option<DefaultDataset>,
    /// The API's default is true.
    pub use_legacy_sql: Option<bool>,
    /// Default true.
    pub use_query_cache: Option<bool>,
    /// Refuse a query that would be billed for more.
    #[serde(default, deserialize_with = "optional_int64")]
    pub maximum_bytes_billed: Option<i64>,
    /// `POSITIONAL` or `NAMED`.
    pub parameter_mode: Option<String>,
    /// Parameters as REST writes them.
    #[serde(default)]
    pub query_parameters: Vec<Value>,
    /// What an append may change.
    #[serde(default)]
    pub schema_update_options: Vec<SchemaUpdateOption>,
    /// Whether the query begins a session.
    pub create_session: Option<bool>,
    /// Session and time zone settings.
    #[serde(default)]
    pub connection_properties: Vec<ConnectionProperty>,
    /// Layout of a destination that is made.
    #[serde(flatten)]
    pub layout: LayoutConfig,
}

/// `defaultDataset`; the project defaults to the job's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DefaultDataset {
    /// Project.
    pub project_id: Option<String>,
    /// Dataset.
    pub dataset_id: String,
}

impl DefaultDataset {
    /// The dataset, in `project` unless it says another.
    pub fn resolve(&self, project: &str) -> DatasetRef {
        DatasetRef::new(
            self.project_id.as_deref().unwrap_or(project),
            &self.dataset_id,
        )
    }
}

/// One of `connectionProperties`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ConnectionProperty {
    /// `time_zone`, `session_id`, ….
    pub key: String,
    /// Value.
    #[serde(default)]
    pub value: String,
}

/// `configuration.load`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadConfig {
    /// `gs://` addresses; empty for an upload.
    #[serde(default)]
    pub source_uris: Vec<String>,
    /// Default CSV.
    #[serde(default)]
    pub source_format: SourceFormat,
    /// Where the rows go; the table id may carry a `$partition`.
    pub destination_table: TableRef,
    /// Default CREATE_IF_NEEDED.
    #[serde(default)]
    pub create_disposition: CreateDisposition,
    /// Default WRITE_APPEND.
    pub write_disposition: Option<WriteDisposition>,
    /// Columns.
    pub schema: Option<TableSchema>,
    /// Find the columns out from the rows (CSV, JSON).
    pub autodetect: Option<bool>,
    /// What an append may change.
    #[serde(default)]
    pub schema_update_options: Vec<SchemaUpdateOption>,
    /// Layout of a destination that is made.
    #[serde(flatten)]
    pub layout: LayoutConfig,
    /// Description and labels of a destination that is made.
    pub destination_table_properties: Option<DestinationProperties>,
    /// How to read the files.
    #[serde(flatten)]
    pub format: FormatOptions,
}

/// `destinationTableProperties`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DestinationProperties {
    /// Kept in the table's resource.
    pub friendly_name: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Labels.
    pub labels: std::collections::BTreeMap<String, String>,
}

/// `configuration.copy`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyConfig {
    /// One source (older clients).
    pub source_table: Option<TableRef>,
    /// Sources.
    #[serde(default)]
    pub source_tables: Vec<TableRef>,
    /// Destination.
    pub destination_table: TableRef,
    /// Default CREATE_IF_NEEDED.
    #[serde(default)]
    pub create_disposition: CreateDisposition,
    /// Default WRITE_EMPTY.
    pub write_disposition: Option<WriteDisposition>,
    /// Default COPY.
    pub operation_type: Option<String>,
}

/// `configuration.extract`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtractConfig {
    /// Table, with a `$partition` or without.
    pub source_table: Option<TableRef>,
    /// Model.
    pub source_model: Option<Value>,
    /// One address (older clients).
    pub destination_uri: Option<String>,
    /// Addresses.
    #[serde(default)]
    pub destination_uris: Vec<String>,
    /// Default CSV.
    pub destination_format: Option<FileFormat>,
    /// Default NONE.
    pub compression: Option<Compression>,
    /// Default a comma.
    pub field_delimiter: Option<String>,
    /// Default true.
    pub print_header: Option<bool>,
    /// Default false.
    pub use_avro_logical_types: Option<bool>,
}

/// A job's configuration, read.
#[derive(Debug, Clone, PartialEq)]
pub enum JobConfig {
    /// `query`.
    Query(Box<QueryConfig>),
    /// `load`.
    Load(Box<LoadConfig>),
    /// `copy`.
    Copy(CopyConfig),
    /// `extract`.
    Extract(ExtractConfig),
}

impl JobConfig {
    /// What the job does.
    pub fn kind(&self) -> JobKind {
        match self {
            JobConfig::Query(_) => JobKind::Query,
            JobConfig::Load(_) => JobKind::Load,
            JobConfig::Copy(_) => JobKind::Copy,
            JobConfig::Extract(_) => JobKind::Extract,
        }
    }

    /// Reads `configuration` and completes it with what the service fills in
    /// (`jobType`, `priority`, legacy type names), so that it can be answered.
    pub fn read(configuration: &mut Map<String, Value>) -> Result<Self> {
        let kinds = [
            JobKind::Query,
            JobKind::Load,
            JobKind::Copy,
            JobKind::Extract,
        ];
        let given: Vec<JobKind> = kinds
            .into_iter()
            .filter(|kind| {
                configuration
                    .get(kind.field())
                    .is_some_and(|v| !v.is_null())
            })
            .collect();
        let &[kind] = given.as_slice() else {
            let names: Vec<&str> = given.iter().map(|kind| kind.field()).collect();
            return Err(ServiceError::invalid(format!(
                "Job configuration must contain exactly one job-specific configuration object \
                 (e.g., query, load, extract, spreadsheetExtract), but there were {}: {}",
                names.len(),
                names.join(", ")
            )));
        };
        check_labels(configuration)?;
        configuration.insert("jobType".into(), kind.as_str().into());
        let own = configuration
            .get_mut(kind.field())
            .expect("the kind was chosen because its field is there");
        let config = match kind {
            JobKind::Query => JobConfig::Query(Box::new(read_part(own, kind)?)),
            JobKind::Load => JobConfig::Load(Box::new(read_part(own, kind)?)),
            JobKind::Copy => JobConfig::Copy(read_part(own, kind)?),
            JobKind::Extract => JobConfig::Extract(read_part(own, kind)?),
        };
        let own = own
            .as_object_mut()
            .expect("a configuration that was read is an object");
        normalize(own, &config)?;
        Ok(config)
    }
}

fn read_part<T: for<'de> Deserialize<'de>>(value: &Value, kind: JobKind) -> Result<T> {
    T::deserialize(value).map_err(|e| {
        ServiceError::invalid(format!(
            "Invalid value in configuration.{}: {e}",
            kind.field()
        ))
        .at(format!("configuration.{}", kind.field()))
    })
}

/// Rewrites what the service answers in another form than it was sent.
fn normalize(own: &mut Map<String, Value>, config: &JobConfig) -> Result<()> {
    if let JobConfig::Load(load) = config
        && let Some(schema) = &load.schema
    {
        let schema = serde_json::to_value(schema)
            .map_err(|e| ServiceError::internal(format!("a schema has a JSON form: {e}")))?;
        own.insert("schema".into(), schema);
    }
    if matches!(config, JobConfig::Query(_)) {
        own.entry("priority").or_insert("INTERACTIVE".into());
        own.entry("useLegacySql").or_insert(true.into());
    }
    for field in ["skipLeadingRows", "maxBadRecords"] {
        if let Some(number) = own.get(field).and_then(Value::as_str) {
            let number = number.parse::<i64>().unwrap_or_default();
            own.insert(field.into(), number.into());
        }
    }
    if let Some(Value::Number(limit)) = own.get("maximumBytesBilled") {
        let text = limit.to_string();
        own.insert("maximumBytesBilled".into(), text.into());
    }
    Ok(())
}

/// Labels: at most 64, keys and values at most 63 characters of letters, digits,
/// underscores and dashes, no upper case (section 6.2 of the service reference).
fn check_labels(configuration: &Map<String, Value>) -> Result<()> {
    let Some(labels) = configuration.get("labels").filter(|v| !v.is_null()) else {
        return Ok(());
    };
    let invalid = |message: String| Err(ServiceError::invalid(message));
    let Some(labels) = labels.as_object() else {
        return invalid("configuration.labels must be an object of strings.".into());
    };
    if labels.len() > 64 {
        return invalid(format!(
            "A job has at most 64 labels, not {}.",
            labels.len()
        ));
    }
    let legal = |text: &str| {
        text.chars().count() <= 63
            && text
                .chars()
                .all(|c| c == '_' || c == '-' || (c.is_alphanumeric() && !c.is_uppercase()))
    };
    for (key, value) in labels {
        if key.is_empty() || !legal(key) {
            return invalid(format!("Label key \"{key}\" has invalid characters."));
        }
        match value.as_str() {
            Some(value) if legal(value) => {}
            _ => return invalid(format!("Label value {value} has invalid characters.")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Reason;
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> (Result<JobConfig>, Map<String, Value>) {
        let Value::Object(mut map) = value else {
            panic!("an object")
        };
        (JobConfig::read(&mut map), map)
    }

    #[test]
    fn exactly_one_kind_is_asked_for() {
        let (none, _) = read(json!({}));
        assert!(none.unwrap_err().message.contains("there were 0: "));
        let (two, _) = read(json!({"query": {"query": "q"}, "load": {}}));
        assert!(
            two.unwrap_err()
                .message
                .contains("there were 2: query, load")
        );
    }

    #[test]
    fn a_query_is_read_and_completed() {
        let (config, map) = read(json!({"query": {
            "query": "SELECT 1", "maximumBytesBilled": 7,
            "defaultDataset": {"datasetId": "d"},
            "timePartitioning": {"type": "DAY", "field": "x"}
        }}));
        let JobConfig::Query(query) = config.unwrap() else {
            panic!("a query")
        };
        assert_eq!(query.maximum_bytes_billed, Some(7));
        assert_eq!(
            query.default_dataset.unwrap().resolve("p"),
            DatasetRef::new("p", "d")
        );
        assert_eq!(query.layout.time_partitioning.unwrap().granularity, "DAY");
        assert_eq!(map["jobType"], "QUERY");
        assert_eq!(map["query"]["priority"], "INTERACTIVE");
        assert_eq!(map["query"]["useLegacySql"], true);
        assert_eq!(map["query"]["maximumBytesBilled"], "7");
    }

    #[test]
    fn a_load_is_read_and_answered_with_legacy_type_names() {
        let (config, map) = read(json!({"load": {
            "destinationTable": {"projectId": "p", "datasetId": "d", "tableId": "t"},
            "schema": {"fields": [{"name": "a", "type": "INT64"}]},
            "skipLeadingRows": "1", "sourceFormat": "NEWLINE_DELIMITED_JSON",
            "writeDisposition": "WRITE_TRUNCATE_DATA"
        }}));
        let JobConfig::Load(load) = config.unwrap() else {
            panic!("a load")
        };
        assert_eq!(load.source_format, SourceFormat::NewlineDelimitedJson);
        assert_eq!(load.write_disposition, Some(WriteDisposition::TruncateData));
        assert_eq!(load.format.skip_leading_rows, Some(1));
        assert_eq!(map["load"]["schema"]["fields"][0]["type"], "INTEGER");
        assert_eq!(map["load"]["skipLeadingRows"], 1);
    }

    #[test]
    fn wrong_shapes_name_the_place() {
        let (config, _) = read(json!({"load": {
            "destinationTable": {"projectId": "p", "datasetId": "d", "tableId": "t"},
            "sourceFormat": "BOGUS"
        }}));
        let error = config.unwrap_err();
        assert_eq!(error.reason, Reason::Invalid);
        assert!(error.message.contains("BOGUS"), "{error}");
        let (config, _) = read(json!({"query": {"query": "q"}, "labels": {"Big": "x"}}));
        assert!(config.unwrap_err().message.contains("Label key"));
    }
}
