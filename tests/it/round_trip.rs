//! Every type, at any depth, comes back as it was written: random tables through
//! real sockets.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Field, Float64Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::harness::{Server, error, rows};
use crate::random_tables::{Cell, Column, Kind, Mode, Precision, columns};

/// Structs inside structs.
const DEPTH: usize = 5;

/// A value that arrived, as text.
pub(crate) fn shown(array: &ArrayRef, index: usize) -> String {
    if array.is_null(index) {
        return "NULL".to_string();
    }
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(index).to_string(),
        DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(index)),
        DataType::Boolean => array.as_boolean().value(index).to_string(),
        DataType::Utf8 => format!("{:?}", array.as_string::<i32>().value(index)),
        DataType::Binary => format!("{:?}", array.as_binary::<i32>().value(index)),
        DataType::Date32 => array.as_primitive::<Date32Type>().value(index).to_string(),
        DataType::Time64(_) => array
            .as_primitive::<Time64MicrosecondType>()
            .value(index)
            .to_string(),
        DataType::Timestamp(TimeUnit::Microsecond, _) => array
            .as_primitive::<TimestampMicrosecondType>()
            .value(index)
            .to_string(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => array
            .as_primitive::<TimestampNanosecondType>()
            .value(index)
            .to_string(),
        DataType::Decimal128(..) => array
            .as_primitive::<Decimal128Type>()
            .value(index)
            .to_string(),
        DataType::Decimal256(..) => array
            .as_primitive::<Decimal256Type>()
            .value(index)
            .to_string(),
        DataType::Interval(_) => {
            let value = array
                .as_primitive::<IntervalMonthDayNanoType>()
                .value(index);
            format!("{} {} {}", value.months, value.days, value.nanoseconds)
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            let values: Vec<_> = columns.map(|column| shown(column, index)).collect();
            format!("{{{}}}", values.join(", "))
        }
        DataType::List(_) => {
            let values = array.as_list::<i32>().value(index);
            let values: Vec<_> = (0..values.len()).map(|at| shown(&values, at)).collect();
            format!("[{}]", values.join(", "))
        }
        other => panic!("BigQuery delivers no {other}"),
    }
}

/// Rows as text, by the id in the first column.
pub(crate) fn by_id(batches: &[RecordBatch]) -> Vec<(i64, Vec<String>)> {
    let mut found = Vec::new();
    for batch in batches {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        for index in 0..batch.num_rows() {
            let values = batch.columns()[1..].iter();
            let values = values.map(|column| shown(column, index)).collect();
            found.push((ids.value(index), values));
        }
    }
    found.sort();
    found
}

pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A random table and its rows.
pub(crate) struct Case {
    /// What makes it again.
    pub(crate) name: String,
    pub(crate) random: StdRng,
    precision: Precision,
    columns: Vec<Column>,
    cells: Vec<Vec<Cell>>,
}

impl Case {
    fn new(seed: u64, number: u64) -> Self {
        Self::of_precision(seed, number, None)
    }

    /// With TIMESTAMP(12) of `precision`, or of any.
    pub(crate) fn of_precision(seed: u64, number: u64, precision: Option<Precision>) -> Self {
        let mut random = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let drawn = *[Precision::Micros, Precision::Nanos, Precision::Picos]
            .choose(&mut random)
            .unwrap();
        let precision = precision.unwrap_or(drawn);
        let depth = random
            .random_range(0..=DEPTH)
            .max(usize::from(number == 0) * DEPTH);
        let mut columns = columns(&mut random, depth);
        // One name per level, whatever its case.
        for (position, column) in columns.iter_mut().enumerate() {
            column.name = format!("{}_{position}", column.name);
        }
        let count = random.random_range(1..25);
        let cells = (0..count)
            .map(|_| {
                let cells = columns
                    .iter()
                    .map(|column| column.cell(&mut random, precision));
                cells.collect()
            })
            .collect();
        Self {
            name: format!("DATAFUSION_BIGQUERY_SEED={seed} DATAFUSION_BIGQUERY_CASE={number}"),
            random,
            precision,
            columns,
            cells,
        }
    }

    /// As `schema.fields` of a table has them.
    pub(crate) fn fields(&self) -> Vec<Value> {
        let id = json!({"name": "id", "type": "INTEGER", "mode": "REQUIRED"});
        let fields = self.columns.iter().map(Column::rest);
        std::iter::once(id).chain(fields).collect()
    }

    /// Creates the table with its rows.
    pub(crate) async fn create(&self, server: &Server, table: &str) {
        let rows = self.cells.iter().enumerate().map(|(id, cells)| {
            let mut row = json!({"id": id});
            for (column, cell) in self.columns.iter().zip(cells) {
                row[&column.name] = cell.sent(column);
            }
            row
        });
        server
            .create_table("d", table, Value::from(self.fields()), rows.collect())
            .await;
    }

    pub(crate) fn expected(&self) -> Vec<(i64, Vec<String>)> {
        let shown = |cells: &Vec<Cell>| cells.iter().map(Cell::shown).collect();
        (0..).zip(self.cells.iter().map(shown)).collect()
    }

    fn session(&self, server: &Server) -> SessionContext {
        let precision = match self.precision {
            Precision::Micros => "micros",
            Precision::Nanos => "nanos",
            Precision::Picos => "picos",
        };
        server.session_saying([("scan.timestamp_precision", precision)])
    }

    /// A random path through structs that are no arrays: its names, and where
    /// it leads in a row.
    fn path(&mut self) -> (Vec<String>, Vec<usize>) {
        let (mut names, mut positions) = (Vec::new(), Vec::new());
        let mut columns = &self.columns;
        loop {
            let position = self.random.random_range(0..columns.len());
            let column = &columns[position];
            names.push(column.name.clone());
            positions.push(position);
            match (&column.kind, column.mode) {
                (Kind::Struct(inside), Mode::Nullable | Mode::Required)
                    if self.random.random_ratio(5, 6) =>
                {
                    columns = inside;
                }
                _ => return (names, positions),
            }
        }
    }
}

/// What a path leads to; NULL inside NULL.
fn at(cells: &[Cell], path: &[usize]) -> String {
    let (first, rest) = path.split_first().unwrap();
    match (&cells[*first], rest) {
        (cell, []) => cell.shown(),
        (Cell::Struct(inside), rest) => at(inside, rest),
        (Cell::Null, _) => "NULL".to_string(),
        (cell, _) => panic!("a path into {cell:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_tables_come_back_as_written() {
    let seed = setting("DATAFUSION_BIGQUERY_SEED").unwrap_or(7_919);
    let full = std::env::var_os("DATAFUSION_BIGQUERY_FULL").is_some();
    let cases = match setting("DATAFUSION_BIGQUERY_CASE") {
        Some(case) => case..case + 1,
        None => 0..if full { 1_000 } else { 50 },
    };
    let server = Server::start(1 << 12).await;
    server.create_dataset("d").await;
    for number in cases {
        let mut case = Case::new(seed, number);
        let table = format!("t{number}");
        case.create(&server, &table).await;
        let context = case.session(&server);

        let batches = rows(&context, &format!("SELECT * FROM bq.d.{table}")).await;
        assert_eq!(by_id(&batches), case.expected(), "{}", case.name);
        let arrived = batches[0].schema();
        for (field, column) in arrived.fields()[1..].iter().zip(&case.columns) {
            let expected: Field = column.arrow(case.precision);
            assert_eq!(field.as_ref(), &expected, "{}", case.name);
        }

        // Some fields alone, and then nothing else is asked for.
        let paths: Vec<_> = (0..3).map(|_| case.path()).collect();
        let outputs: Vec<_> = paths
            .iter()
            .enumerate()
            .map(|(output, (names, _))| {
                let (column, inside) = names.split_first().unwrap();
                let inside: String = inside.iter().map(|name| format!("['{name}']")).collect();
                format!("\"{column}\"{inside} AS o{output}")
            })
            .collect();
        let query = format!("SELECT id, {} FROM bq.d.{table}", outputs.join(", "));
        let found = by_id(&rows(&context, &query).await);
        let expected: Vec<_> = (0..)
            .zip(&case.cells)
            .map(|(id, cells)| (id, paths.iter().map(|(_, path)| at(cells, path)).collect()))
            .collect();
        assert_eq!(found, expected, "{}\n{query}", case.name);
        let asked = server.sessions().pop().unwrap().selected_fields;
        let mut wanted: Vec<String> = paths.iter().map(|(names, _)| names.join(".")).collect();
        wanted.push("id".to_string());
        for column in &case.columns {
            let name = column.name.clone();
            if asked.contains(&name) {
                let all = all_wanted(column, &name, &wanted);
                assert!(all, "{}\n{query}\n{asked:?}", case.name);
            }
        }
        let dotted = asked.iter().filter(|field| field.contains('.'));
        for field in dotted {
            assert!(wanted.contains(field), "{}\n{query}\n{asked:?}", case.name);
        }
    }
}

/// Whether a column is wanted whole, or every part of it is.
fn all_wanted(column: &Column, path: &str, wanted: &[String]) -> bool {
    if wanted.iter().any(|field| field == path) {
        return true;
    }
    match (&column.kind, column.mode) {
        (Kind::Struct(inside), Mode::Nullable | Mode::Required) => inside
            .iter()
            .all(|column| all_wanted(column, &format!("{path}.{}", column.name), wanted)),
        _ => false,
    }
}

/// TIMESTAMP(12) beyond the years that nanoseconds reach is an error, not
/// another time.
#[tokio::test(flavor = "multi_thread")]
async fn nanoseconds_that_do_not_reach_are_refused() {
    let server = Server::start(1 << 20).await;
    server.create_dataset("d").await;
    let fields = json!([{"name": "fine", "type": "TIMESTAMP", "timestampPrecision": "12"}]);
    let last = json!({"fine": "9999-12-31T23:59:59.999999Z"});
    server.create_table("d", "t", fields, vec![last]).await;
    let read =
        |precision: &'static str| server.session_saying([("scan.timestamp_precision", precision)]);
    let query = "SELECT fine FROM bq.d.t";
    let refused = error(&read("nanos"), query).await.to_string();
    assert!(refused.contains("fine"), "{refused}");
    let picos = rows(&read("picos"), query).await;
    assert_eq!(
        shown(picos[0].column(0), 0),
        "\"9999-12-31T23:59:59.999999000000Z\""
    );
}
