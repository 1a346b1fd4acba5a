//! Every value of the flights data, read through BigQuery and from the Parquet
//! files themselves.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::{SortColumn, cast};
use datafusion::arrow::compute::{concat_batches, lexsort_to_indices, take_record_batch};
use datafusion::arrow::datatypes::DataType;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

use crate::harness::{FLIGHTS_TABLES, Server, parquet_path, rows, text};

/// All rows in one batch, ordered by all columns.
fn sorted(batches: &[RecordBatch]) -> RecordBatch {
    let batch = concat_batches(&batches[0].schema(), batches).unwrap();
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| SortColumn {
            values: column.clone(),
            options: None,
        })
        .collect();
    let order = lexsort_to_indices(&columns, None).unwrap();
    take_record_batch(&batch, &order).unwrap()
}

async fn parquet() -> SessionContext {
    let config = SessionConfig::new().set_bool(
        "datafusion.execution.parquet.schema_force_view_types",
        false,
    );
    let context = SessionContext::new_with_config(config);
    for table in FLIGHTS_TABLES {
        let path = parquet_path(table);
        let options = ParquetReadOptions::default();
        context
            .register_parquet(table, path.to_str().unwrap(), options)
            .await
            .unwrap();
    }
    context
}

#[tokio::test(flavor = "multi_thread")]
async fn every_value_is_the_originals() {
    let server = Server::with_flights(1 << 20).await;
    let bigquery = server.session(4);
    let parquet = parquet().await;
    let mut compared = 0;
    for table in FLIGHTS_TABLES {
        let read = rows(&bigquery, &format!("SELECT * FROM bq.nycflights13.{table}")).await;
        let original = rows(&parquet, &format!("SELECT * FROM {table}")).await;
        let (read, original) = (sorted(&read), sorted(&original));
        assert_eq!(read.num_rows(), original.num_rows(), "{table}");
        assert_eq!(read.num_columns(), original.num_columns(), "{table}");
        for (field, column) in read.schema().fields().iter().zip(read.columns()) {
            let expected = original.column_by_name(field.name()).unwrap();
            // The file's INT32 is INT64 in BigQuery, and so on; the values are the same.
            let expected = cast(expected, column.data_type()).unwrap();
            assert_ne!(column.data_type(), &DataType::Null);
            assert_eq!(
                column.as_ref(),
                expected.as_ref(),
                "{table}.{}",
                field.name()
            );
        }
        compared += read.num_rows();
    }
    assert_eq!(compared, 367_687);
}

/// The same questions to both.
#[tokio::test(flavor = "multi_thread")]
async fn queries_give_the_originals_rows() {
    let server = Server::with_flights(1 << 20).await;
    let bigquery = server.session(4);
    let parquet = parquet().await;
    for query in [
        "SELECT carrier, count(*) n, round(avg(arr_delay), 2) d FROM {flights} \
         WHERE origin = 'JFK' AND month = 6 GROUP BY carrier ORDER BY n DESC, carrier",
        "SELECT count(*) n FROM {flights}",
        "SELECT count(dep_time) t, count(*) n, sum(distance) d FROM {flights} WHERE dep_time IS NULL",
        "SELECT origin, dest, count(*) n FROM {flights} WHERE dest IN ('LAX', 'SFO', 'SEA', 'BOS', \
         'MIA') AND NOT (origin = 'EWR') GROUP BY origin, dest ORDER BY 1, 2",
        "SELECT a.name, count(*) n FROM {flights} f JOIN {airlines} a ON f.carrier = a.carrier \
         WHERE f.distance > 2000 GROUP BY a.name ORDER BY n DESC, a.name",
        "SELECT p.manufacturer, count(*) n, max(f.distance) d FROM {flights} f JOIN {planes} p ON \
         f.tailnum = p.tailnum WHERE p.year BETWEEN 2000 AND 2005 AND f.tailnum LIKE 'N5%' GROUP \
         BY p.manufacturer ORDER BY n DESC, p.manufacturer",
        "SELECT origin, round(avg(temp), 3) t, max(wind_gust) g FROM {weather} WHERE temp > 80.5 AND \
         humid <= 60.0 GROUP BY origin ORDER BY origin",
        "SELECT count(*) n FROM {weather} WHERE wind_gust IS NOT NULL AND wind_gust <> 0",
        "SELECT faa, name, lat, lon, alt FROM {airports} WHERE lat > 60 AND name LIKE '%Intl%' \
         ORDER BY faa",
        "SELECT time_hour, count(*) n FROM {flights} WHERE time_hour >= '2013-07-04T00:00:00Z' AND \
         time_hour < '2013-07-05T00:00:00Z' GROUP BY time_hour ORDER BY time_hour",
        "SELECT count(*) n FROM {flights} l JOIN {flights} r ON l.flight = r.flight AND l.month = \
         r.month AND l.day = r.day WHERE l.month = 1 AND l.day = 1 AND l.origin = 'JFK'",
    ] {
        let spelled = |prefix: &str| {
            FLIGHTS_TABLES
                .iter()
                .fold(query.to_string(), |query, table| {
                    query.replace(&format!("{{{table}}}"), &format!("{prefix}{table}"))
                })
        };
        let read = text(&bigquery, &spelled("bq.nycflights13.")).await;
        let original = text(&parquet, &spelled("")).await;
        assert_eq!(read, original, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_file_joins() {
    let server = Server::with_flights(1 << 20).await;
    let bigquery = server.session(2);
    let options = ParquetReadOptions::default();
    bigquery
        .register_parquet(
            "airlines",
            parquet_path("airlines").to_str().unwrap(),
            options,
        )
        .await
        .unwrap();
    let query = |airlines: &str| {
        format!(
            "SELECT a.name, count(*) n FROM bq.nycflights13.flights f JOIN {airlines} a USING \
             (carrier) GROUP BY a.name ORDER BY n DESC"
        )
    };
    assert_eq!(
        text(&bigquery, &query("airlines")).await,
        text(&bigquery, &query("bq.nycflights13.airlines")).await
    );
}
