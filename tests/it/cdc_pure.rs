//! Histories without a server: whatever order changes come in and however often, the
//! places that the profiles give them end in the table that the history ends in.

use std::collections::BTreeMap;

use datafusion_bigquery::cdc::ChangeSequence;
use datafusion_bigquery::cdc::profile::{
    DebeziumMySql, DebeziumPostgres, DebeziumSpanner, SourceBlock, TiCdc,
};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

const HISTORIES: usize = 10_000;
const UUIDS: [&str; 2] = [
    "24bc7850-2c16-11e6-a073-0242ac110002",
    "3e11fa47-71ca-11e1-9e33-c80aa9429562",
];

/// Sources of a history of each connector, oldest first.
struct Log {
    kind: u8,
    at: [u64; 4],
}

impl Log {
    fn new(random: &mut StdRng) -> Self {
        Self {
            kind: random.random_range(0..4),
            at: [0, random.random_range(1..1 << 60), 0, 0],
        }
    }

    /// The next source: a step in one of its coordinates, behind which the others may
    /// begin anew.
    fn next(&mut self, random: &mut StdRng) -> String {
        let step = random.random_range(1..1_000);
        match (self.kind, random.random_range(0..4)) {
            (1, 0) if self.at[0] == 0 && random.random_ratio(1, 10) => {
                self.at = [1, random.random_range(1..100), 4, 0];
            }
            (1 | 3, 1) => self.at = [self.at[0], self.at[1] + step, 0, 0],
            (1 | 3, 2) => self.at = [self.at[0], self.at[1], self.at[2] + step, 0],
            (1 | 3, _) => self.at[3] += step,
            _ => self.at[1] += step,
        }
        let [server, main, second, third] = self.at;
        match self.kind {
            0 => format!(
                r#"{{"connector":"postgresql","sequence":"[\"{}\",\"{main}\"]","lsn":{main}}}"#,
                main / 10
            ),
            1 => format!(
                r#"{{"connector":"mysql","gtid":"{}:{main}","pos":{second},"row":{third}}}"#,
                UUIDS[usize::try_from(server).unwrap()]
            ),
            2 => format!(r#"{{"connector":"TiCDC","commit_ts":{main},"cluster_id":"main"}}"#),
            _ => format!(
                r#"{{"connector":"spanner","ts_ns":{main},"sequence":"{second}","mod_number":"{third}"}}"#
            ),
        }
    }
}

fn sequence(kind: u8, source: &str) -> String {
    let source = SourceBlock::read(source).unwrap();
    let found = match kind {
        0 => DebeziumPostgres.sequence(&source),
        1 => DebeziumMySql::new(&UUIDS).unwrap().sequence(&source),
        2 => TiCdc::new(Some("main".to_string())).sequence(&source),
        _ => DebeziumSpanner.sequence(&source),
    };
    found.unwrap().to_string()
}

#[test]
fn any_order_of_arrival_ends_in_the_same_table() {
    let seed = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    for number in 0..HISTORIES {
        let mut log = Log::new(&mut random);
        let mut expected: BTreeMap<u8, Option<usize>> = BTreeMap::new();
        let mut changes = Vec::new();
        for n in 0..random.random_range(1..40) {
            let (key, row) = (
                random.random_range(0..5),
                random.random_ratio(3, 4).then_some(n),
            );
            let source = log.next(&mut random);
            expected.insert(key, row);
            changes.push((key, row, sequence(log.kind, &source)));
        }
        changes.extend_from_within(..changes.len() / 3);
        changes.shuffle(&mut random);
        let mut table: BTreeMap<u8, (ChangeSequence, Option<usize>)> = BTreeMap::new();
        for (key, row, place) in changes {
            let place: ChangeSequence = place.parse().unwrap();
            match table.get(&key) {
                Some((newest, _)) if place < *newest => {}
                _ => {
                    table.insert(key, (place, row));
                }
            }
        }
        let table: BTreeMap<u8, Option<usize>> =
            table.into_iter().map(|(k, (_, row))| (k, row)).collect();
        assert_eq!(table, expected, "seed {seed}, history {number}");
    }
}
