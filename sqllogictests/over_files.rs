//! An answer to the chapters' queries that owes nothing to BigQuery: DataFusion
//! over the Parquet files that the demo's tables are loaded from.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::{
    CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider, SchemaProvider,
};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use sqllogictest::{
    QueryExpect, Record, Runner, StatementExpect, parse_file, strict_column_validator,
};

use crate::cells::Letter;
use crate::chapters;
use crate::database::{Database, StatementError};

/// `bq.nycflights13`, made of files.
async fn open(data: &Path) -> Result<SessionContext, StatementError> {
    let config = SessionConfig::new().with_information_schema(true).set_bool(
        "datafusion.execution.parquet.schema_force_view_types",
        false,
    );
    let context = SessionContext::new_with_config(config);
    let dataset = Arc::new(MemorySchemaProvider::new());
    for table in dfbq::demo::TABLES {
        let path = data.join(format!("{}.parquet", table.name));
        let options = ParquetReadOptions::default();
        context
            .register_parquet(table.name, path.to_string_lossy(), options)
            .await?;
        let provider = context
            .deregister_table(table.name)?
            .expect("just registered");
        dataset.register_table(table.name.to_string(), provider)?;
    }
    let project = Arc::new(MemoryCatalogProvider::new());
    project.register_schema(dfbq::demo::DATASET, dataset)?;
    context.register_catalog("bq", project);
    Ok(context)
}

fn words(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
}

/// Whether a statement makes sense over files. Plans do not, nor do BigQuery's
/// options, functions, wildcards, samples and versions of tables, nor does what
/// uses a table declared `STORED AS BIGQUERY`, whose names are kept in `declared`.
fn is_about_rows(sql: &str, declared: &mut HashSet<String>) -> bool {
    let upper = sql.to_uppercase();
    if upper.contains("STORED AS BIGQUERY") {
        let name = words(sql)
            .skip_while(|word| !word.eq_ignore_ascii_case("TABLE"))
            .nth(1);
        declared.extend(name.map(str::to_string));
        return false;
    }
    !upper.starts_with("EXPLAIN")
        && ![
            "BIGQUERY.",
            "BIGQUERY_",
            "*\"",
            " TABLESAMPLE ",
            " FOR SYSTEM_TIME ",
        ]
        .iter()
        .any(|own| upper.contains(own))
        && !words(sql).any(|word| declared.contains(word))
}

#[tokio::test]
async fn chapters_say_what_the_files_hold() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data");
    let mut compared = 0;
    for chapter in chapters::all().expect("the chapters are readable") {
        // Its tables are made for it, and no files have their rows.
        if chapter.setup().exists() {
            continue;
        }
        let mut runner = Runner::new(|| async { Ok(Database::new(open(&data).await?)) });
        runner.with_column_validator(strict_column_validator);
        runner.set_var("DATA".to_string(), data.to_string_lossy().into_owned());
        let mut declared = HashSet::new();
        for record in parse_file::<Letter>(&chapter.path).expect("a chapter") {
            let run = match &record {
                Record::Query {
                    sql,
                    expected: QueryExpect::Results { .. },
                    ..
                } => {
                    let run = is_about_rows(sql, &mut declared);
                    compared += usize::from(run);
                    run
                }
                Record::Statement {
                    sql,
                    expected: StatementExpect::Ok,
                    ..
                } => is_about_rows(sql, &mut declared),
                Record::Query { .. } | Record::Statement { .. } => false,
                _ => true,
            };
            if run && let Err(error) = runner.run_async(record).await {
                panic!("{}: {error}", chapter.name);
            }
        }
    }
    assert!(compared > 40, "only {compared} queries were compared");
}
