//! Making prepared rows count.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};

use super::load;
use super::metrics::CommitCounters;
use super::overwrite::{Replaced, Replacement};
use super::protocol::{BigQuerySink, Committable, FileLoads};
use super::writer::explain;
use crate::client::write::streams::MAX_COMMITTED_STREAMS;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::types::TableRef;

/// Flushes at the same time.
const FLUSHES: usize = 16;

/// Committables, sorted by what there is to do.
#[derive(Debug, Default)]
struct Work {
    /// Streams to be flushed, with their tables and the offsets up to which.
    flush: BTreeMap<String, (TableRef, i64)>,
    /// Tables with the streams to be committed.
    commit: BTreeMap<TableRef, BTreeSet<String>>,
    /// Files to be loaded.
    loads: Vec<FileLoads>,
    /// Rows that take the place of others.
    replacements: Vec<Replacement>,
    rows: u64,
}

impl Work {
    fn of(committables: Vec<Committable>) -> Result<Self> {
        let mut work = Work::default();
        work.add(committables)?;
        for (table, streams) in &work.commit {
            if streams.len() > MAX_COMMITTED_STREAMS {
                return Err(Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "writing table {table}: BigQuery commits at most {MAX_COMMITTED_STREAMS} \
                         streams at once, and these are {}: write with fewer partitions",
                        streams.len()
                    ),
                ));
            }
        }
        Ok(work)
    }

    fn add(&mut self, committables: Vec<Committable>) -> Result<()> {
        for committable in committables {
            match committable {
                Committable::StorageApiAtLeastOnceV1 { rows } => self.count(rows),
                Committable::FileLoadsV1(loads) => {
                    self.count(loads.files.iter().map(|file| file.rows).sum());
                    self.loads.push(loads);
                }
                Committable::ReplacementV1(replacement) => {
                    self.count(replacement.rows());
                    self.replacements.push(replacement);
                }
                Committable::StorageApiExactlyOnceV1 {
                    table,
                    stream,
                    flush_offset,
                    rows,
                } => {
                    self.count(rows);
                    let flush = self.flush.entry(stream).or_insert((table.parse()?, 0));
                    flush.1 = flush.1.max(flush_offset);
                }
                Committable::StorageApiAtomicV1 {
                    table,
                    stream,
                    rows,
                } => {
                    self.count(rows);
                    let streams = self.commit.entry(table.parse()?).or_default();
                    streams.insert(stream);
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, rows: u64) {
        self.rows = self.rows.saturating_add(rows);
    }
}

/// Commits, and answers how many rows the committables stand for.
pub(super) async fn commit(
    sink: &BigQuerySink,
    committables: Vec<Committable>,
    counters: &CommitCounters,
) -> Result<u64> {
    let work = Work::of(committables)?;
    flush(sink, work.flush).await?;
    for (table, streams) in work.commit {
        let streams: Vec<String> = streams.into_iter().collect();
        let client = &sink.shared.client;
        if let Err(error) = client.batch_commit_write_streams(&table, &streams).await {
            let may = error.may_have_applied();
            let error = explain(client, &table, error).await;
            return Err(match may {
                true => error.with_effect(Effect::Unknown).with_context(
                    "all rows of the table are visible or none, it is not known which",
                ),
                false => error,
            });
        }
    }
    load::commit(&sink.shared, work.loads, counters).await?;
    let replaced = Replaced::new(&sink.shared, &work.replacements, counters)?;
    if let Some(replaced) = replaced
        && !replaced.is_done().await?
    {
        // The rows have to count before they can take others' place.
        let prepared = work.replacements.iter().flat_map(|r| r.prepared.clone());
        Box::pin(commit(sink, prepared.collect(), counters)).await?;
        replaced.replace().await?;
    }
    Ok(work.rows)
}

/// Flushes every stream. All of them are tried whatever becomes of one.
async fn flush(sink: &BigQuerySink, streams: BTreeMap<String, (TableRef, i64)>) -> Result<()> {
    let client = &sink.shared.client;
    let outcomes: Vec<(TableRef, Result<_>)> = stream::iter(streams)
        .map(|(stream, (table, offset))| async move {
            let denied = sink.shared.destinations.denied(&table);
            let flushed = client.flush_rows(&stream, offset, denied).await;
            (table, flushed)
        })
        .buffer_unordered(FLUSHES)
        .collect()
        .await;
    let all = outcomes.len();
    let flushed = outcomes.iter().filter(|(_, o)| o.is_ok()).count();
    for (table, outcome) in outcomes {
        let Err(error) = outcome else {
            continue;
        };
        let lost = error.may_have_applied();
        let error = explain(client, &table, error).await;
        let error = error.with_context(match lost {
            true => format!(
                "rows of at least {flushed} of {all} streams are visible, of others it is not \
                 known, and all will be when the commit is repeated"
            ),
            false => format!(
                "rows of {flushed} of {all} streams are visible, and the others will be when the \
                 commit is repeated"
            ),
        });
        return Err(match lost || flushed > 0 {
            true => error.with_effect(Effect::Unknown),
            false => error,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffered(stream: &str, flush_offset: i64) -> Committable {
        Committable::StorageApiExactlyOnceV1 {
            table: "p.d.t".into(),
            stream: stream.into(),
            flush_offset,
            rows: 3,
        }
    }

    fn pending(table: &str, stream: String) -> Committable {
        Committable::StorageApiAtomicV1 {
            table: table.into(),
            stream,
            rows: 1,
        }
    }

    #[test]
    fn a_stream_is_flushed_once_up_to_its_last_row() {
        let work = Work::of(vec![buffered("a", 2), buffered("b", 7), buffered("a", 5)]).unwrap();
        assert_eq!(work.rows, 9);
        let offsets: Vec<_> = work.flush.values().map(|(_, offset)| *offset).collect();
        assert_eq!(offsets, [5, 7]);
    }

    #[test]
    fn the_streams_of_a_table_are_committed_together() {
        let streams = ["t", "u", "t", "t"].iter().zip(["1", "2", "3", "1"]);
        let committables = streams
            .map(|(table, stream)| pending(&format!("p.d.{table}"), stream.to_string()))
            .collect();
        let work = Work::of(committables).unwrap();
        let counts: Vec<_> = work.commit.values().map(BTreeSet::len).collect();
        assert_eq!(counts, [2, 1]);
    }

    #[test]
    fn more_streams_than_one_commit_takes_are_refused_before_anything_is_sent() {
        let some = |count: usize| {
            (0..count)
                .map(|n| pending("p.d.t", n.to_string()))
                .collect()
        };
        Work::of(some(10_000)).unwrap();
        let error = Work::of(some(10_001)).unwrap_err().to_string();
        for part in ["p.d.t", "10000", "10001", "fewer partitions"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_table_that_is_none_is_refused() {
        Work::of(vec![pending("nonsense", "s".into())]).unwrap_err();
    }
}
