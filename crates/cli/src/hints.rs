//! What to do about errors whose words come from DataFusion, which knows nothing of
//! BigQuery or of this program's flags.

/// Parts that a message has, in any case of letters, and what to do then.
const HINTS: [(&[&str], &str); 10] = [
    (
        &["cannot parse the sql", "found: system_time"],
        "FOR SYSTEM_TIME AS OF stands behind the table's name, before an alias, and needs the \
         BigQuery dialect (--dialect bigquery, or SET datafusion.sql_parser.dialect = \
         'bigquery'); in any dialect there is \
         bigquery_scan('project.dataset.table', snapshot_time => '…')",
    ),
    (
        &["table 'datafusion.public.bq.", "' not found"],
        "each part of a name is quoted by itself, as in \"bq\".\"dataset\".\"table\"; all of it \
         in one pair of backticks is of the BigQuery dialect (--dialect bigquery)",
    ),
    (
        &["access denied: table bq:"],
        "names inside bigquery_query are BigQuery's, dataset.table or project.dataset.table, \
         without bq",
    ),
    (
        &["cannot cast string '"],
        "compare a column with a value of its own type, which DESCRIBE shows",
    ),
    (
        &["error parsing timestamp from"],
        "a time is written as in TIMESTAMP '2024-06-01 12:30:00'",
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
        &["is not supported in csv"],
        "use --format json, or select the fields of the column",
    ),
    (
        &["field", "not found in struct"],
        "DESCRIBE shows what fields the columns of a table have; those of debezium_envelopes are \
         the ones that occur in its files, or that its last argument declares, such as 'id \
         BIGINT, name VARCHAR'",
    ),
    (
        &["unable to find factory for"],
        "after STORED AS there may be BIGQUERY, PARQUET, CSV, JSON, AVRO and ARROW",
    ),
];

/// Columns that tables have beside those of their schema.
const PSEUDO_COLUMNS: [&str; 3] = ["_PARTITIONTIME", "_PARTITIONDATE", "_TABLE_SUFFIX"];

/// `message` and what to do about it, if that is known.
pub(crate) fn with_hint(message: String) -> String {
    let lower = message.to_lowercase();
    if let Some((_, missing)) = lower.split_once("no column ") {
        for column in PSEUDO_COLUMNS {
            let name = column.to_lowercase();
            let quoted = format!("\"{name}\"");
            if missing.starts_with(&name) && missing.contains(&quoted) {
                return format!(
                    "{message}: write \"{column}\", in quotes, or `{column}` in the BigQuery dialect"
                );
            }
            if missing.starts_with(&name) || missing.starts_with(&quoted) {
                return format!(
                    "{message}: set option 'scan.partition_columns' to true and write \"{column}\", \
                     in quotes (`{column}` in the BigQuery dialect)"
                );
            }
        }
    }
    let matching = |(parts, _): &&(&[&str], &str)| parts.iter().all(|part| lower.contains(part));
    match HINTS.iter().find(matching) {
        Some((_, hint)) => format!("{message}: {hint}"),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bigquery_and_datafusion_say_is_told_what_to_do() {
        for (message, what_to_do) in [
            (
                "table 'datafusion.public.bq.d.t' not found",
                "quoted by itself",
            ),
            (
                "table 'datafusion.public.t' not found",
                "bq.<dataset>.<table>",
            ),
            (
                "Access Denied: Table bq:d.t: user does not have",
                "without bq",
            ),
            (
                "Cast error: Cannot cast string 'June' to value of Int64 type",
                "DESCRIBE",
            ),
            (
                "Parser error: Error parsing timestamp from '01/06/2013': error",
                "TIMESTAMP '2024-06-01",
            ),
        ] {
            let hinted = with_hint(message.to_string());
            assert!(hinted.contains(what_to_do), "{hinted}");
        }
    }

    #[test]
    fn pseudo_columns_are_quoted_and_asked_for() {
        let hint = |message: &str| with_hint(message.to_string());
        let quoted = ": write \"_PARTITIONTIME\", in quotes";
        let asked = "set option 'scan.partition_columns' to true and write \"_";
        let there = "no column _partitiontime; the columns of a.b.c are x, \"_PARTITIONTIME\"";
        assert!(hint(there).contains(quoted));
        assert!(hint(there).ends_with("`_PARTITIONTIME` in the BigQuery dialect"));
        for missing in [
            "no column _partitiontime; the columns of a.b.c are x",
            "no column \"_PARTITIONTIME\"; the columns of a.b.c are x",
            "no column _table_suffix; the columns of a.b.c are x",
            "no column \"_TABLE_SUFFIX\"; the columns of a.b.c are x",
        ] {
            assert!(hint(missing).contains(asked), "{missing}");
        }
        let other = "no column carier; the columns of a.b.c are carrier, \"_PARTITIONTIME\"";
        assert_eq!(hint(other), other);
    }
}
