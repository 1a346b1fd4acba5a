//! A streaming engine, as small as one can be: it reads numbered rows, writes them by
//! several writers, and stores at each checkpoint from where to go on.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion_bigquery::client::Client;
use datafusion_bigquery::options::Options;
use datafusion_bigquery::sink::{BigQuerySink, Committable, SinkWriter, WriterState};
use datafusion_bigquery::{Error, RawOptions, TableRef};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::method::{LIMITS, METHODS, Method};
use crate::harness::PROJECT;

/// Numbers of different writers are so far apart.
const APART: i64 = 1_000_000;

/// What is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) endpoints: Vec<(String, String)>,
    pub(super) method: String,
    pub(super) table: String,
    pub(super) writers: usize,
    /// Of each writer.
    pub(super) rows: i64,
}

/// What the engine stores.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Saved {
    /// How many checkpoints there were.
    pub(super) checkpoints: u64,
    /// How many rows of each writer are in them.
    pub(super) next: Vec<i64>,
    pub(super) states: Vec<Option<WriterState>>,
    /// What the last checkpoint has to commit.
    pub(super) committables: Vec<Committable>,
    /// How many rows of each writer are committed.
    pub(super) committed: Vec<i64>,
}

/// Where the engine stores it.
#[derive(Debug, Clone)]
pub(super) enum Storage {
    Memory(Arc<Mutex<Saved>>),
    File(PathBuf),
}

impl Storage {
    pub(super) fn load(&self) -> Saved {
        match self {
            Storage::Memory(saved) => saved.lock().clone(),
            Storage::File(path) => match std::fs::read(path) {
                Ok(text) => serde_json::from_slice(&text).unwrap(),
                Err(_) => Saved::default(),
            },
        }
    }

    fn save(&self, new: &Saved) {
        match self {
            Storage::Memory(saved) => *saved.lock() = new.clone(),
            Storage::File(path) => {
                let beside = path.with_extension("new");
                std::fs::write(&beside, serde_json::to_vec(new).unwrap()).unwrap();
                std::fs::rename(&beside, path).unwrap();
            }
        }
    }
}

impl Job {
    pub(super) fn method(&self) -> &'static Method {
        let mut methods = METHODS.iter();
        methods.find(|method| method.name == self.method).unwrap()
    }

    /// The numbers of the first rows of a writer that have to arrive.
    pub(super) fn good(&self, writer: usize, rows: i64) -> impl Iterator<Item = i64> + '_ {
        let refuses = self.method().refused_rows;
        let numbers = (0..rows).map(move |row| number(writer, row));
        numbers.filter(move |number| !(refuses && is_refused(*number)))
    }

    fn batch(&self, writer: usize, rows: std::ops::Range<i64>) -> RecordBatch {
        let numbers: Vec<i64> = rows.map(|row| number(writer, row)).collect();
        let refuses = self.method().refused_rows;
        let documents = numbers.iter().map(|number| match is_refused(*number) {
            true if refuses => "{no JSON".to_string(),
            _ => format!("[{number}, \"{}\"]", "x".repeat(40)),
        });
        let documents = StringArray::from_iter_values(documents);
        let columns = vec![
            Arc::new(Int64Array::from(numbers)) as _,
            Arc::new(documents) as _,
        ];
        RecordBatch::try_new(schema(), columns).unwrap()
    }

    async fn sink(&self, random: &mut StdRng) -> Result<BigQuerySink, Error> {
        let method = self.method();
        let format = match (method.name, random.random()) {
            // Files have formats of their own.
            ("file_loads", _) => None,
            (_, true) => Some(("sink.format", "arrow")),
            (_, false) => Some(("sink.format", "proto")),
        };
        let said = self
            .endpoints
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain(method.options.iter().copied())
            .chain([
                ("sink.write_method", method.name),
                ("sink.failure.policy", "drop"),
            ])
            .chain(format);
        let options = Options::resolve(&RawOptions::from_pairs(said)?)?;
        let client = Client::new(&options.connection)?;
        let table = TableRef::new(PROJECT, "d", &self.table)?;
        BigQuerySink::builder(client, table)
            .with_options(options.sink)
            .with_load_limits(LIMITS)
            .build(schema())
            .await
    }

    /// Goes on from what is stored until all rows are committed.
    pub(super) async fn run(&self, storage: &Storage, seed: u64) -> Result<(), Error> {
        let mut random = StdRng::seed_from_u64(seed);
        let sink = self.sink(&mut random).await?;
        let committer = sink.committer();
        let mut saved = storage.load();
        saved.next.resize(self.writers, 0);
        saved.committed.resize(self.writers, 0);
        saved.states.resize(self.writers, None);
        if saved.committed != saved.next {
            committer.commit(saved.committables.clone()).await?;
            saved.committed.clone_from(&saved.next);
            storage.save(&saved);
        }
        let mut writers = saved
            .states
            .iter()
            .enumerate()
            .map(|(subtask, state)| sink.writer(subtask, state.clone()))
            .collect::<Result<Vec<_>, _>>()?;
        while saved.next.iter().any(|next| *next < self.rows) {
            let seeds: Vec<u64> = writers.iter().map(|_| random.random()).collect();
            let tasks = writers
                .iter_mut()
                .enumerate()
                .map(|(writer, sink)| self.some(writer, saved.next[writer], sink, seeds[writer]));
            let outcomes = futures::future::try_join_all(tasks).await?;
            saved.checkpoints += 1;
            saved.committables.clear();
            for (writer, (next, committables)) in outcomes.into_iter().enumerate() {
                saved.next[writer] = next;
                saved.committables.extend(committables);
                saved.states[writer] = Some(writers[writer].snapshot()?);
            }
            storage.save(&saved);
            committer.commit(saved.committables.clone()).await?;
            saved.committed.clone_from(&saved.next);
            // That it is committed may be forgotten: it is committed again then.
            if random.random_ratio(3, 4) {
                storage.save(&saved);
            }
        }
        storage.save(&saved);
        for writer in writers {
            writer.close().await?;
        }
        Ok(())
    }

    /// Writes some rows from row `next` on, and prepares them.
    async fn some(
        &self,
        writer: usize,
        mut next: i64,
        sink: &mut SinkWriter,
        seed: u64,
    ) -> Result<(i64, Vec<Committable>), Error> {
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..random.random_range(0..5) {
            let end = (next + random.random_range(1..90)).min(self.rows);
            sink.write(self.batch(writer, next..end)).await?;
            next = end;
            if random.random_ratio(1, 8) {
                sink.flush().await?;
            }
        }
        Ok((next, sink.prepare_commit().await?))
    }
}

fn number(writer: usize, row: i64) -> i64 {
    i64::try_from(writer).unwrap() * APART + row
}

/// About every fiftieth.
fn is_refused(number: i64) -> bool {
    number.wrapping_mul(0x5DEE_CE66D).rotate_right(17) % 53 == 0
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("j", DataType::Utf8, true),
    ]))
}
