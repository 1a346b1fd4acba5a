//! What to do about errors whose words come from DataFusion, which knows nothing of
//! BigQuery or of this program's flags.

/// Parts that a message has, in any case of letters, and what to do then.
const HINTS: [(&[&str], &str); 9] = [
    (
        &["cannot parse the sql", "found: system_time"],
        "FOR SYSTEM_TIME AS OF needs the BigQuery dialect (--dialect bigquery, or SET \
         datafusion.sql_parser.dialect = 'bigquery'); in any dialect there is \
         bigquery_scan('project.dataset.table', snapshot_time => '…')",
    ),
    (
        &["table 'datafusion.", "' not found"],
        "a table of BigQuery is bq.<dataset>.<table>",
    ),
    (
        &["unsupported compound identifier", "information_schema"],
        "ask BigQuery: SELECT * FROM bigquery_query('SELECT … FROM \
         <dataset>.INFORMATION_SCHEMA.…')",
    ),
    (
        &["no column _partitiontime"],
        "set option 'scan.partition_columns' to true and write \"_PARTITIONTIME\"",
    ),
    (
        &["no column _partitiondate"],
        "set option 'scan.partition_columns' to true and write \"_PARTITIONDATE\"",
    ),
    (
        &["no column _table_suffix"],
        "write \"_TABLE_SUFFIX\", in quotes",
    ),
    (
        &["is not supported in csv"],
        "use --format json, or select the fields of the column",
    ),
    (
        &["field", "not found in struct"],
        "rows of debezium_envelopes have the columns that occur in its files, or those that its \
         last argument declares, such as 'id BIGINT, name VARCHAR'",
    ),
    (
        &["unable to find factory for"],
        "after STORED AS there may be BIGQUERY, PARQUET, CSV, JSON, AVRO and ARROW",
    ),
];

/// `message` and what to do about it, if that is known.
pub(crate) fn with_hint(message: String) -> String {
    let lower = message.to_lowercase();
    let matching = |(parts, _): &&(&[&str], &str)| parts.iter().all(|part| lower.contains(part));
    match HINTS.iter().find(matching) {
        Some((_, hint)) => format!("{message}: {hint}"),
        None => message,
    }
}
