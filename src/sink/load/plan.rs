//! Which jobs a commit takes. Nothing here asks the service.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::options::StagingFormat;

/// What the service allows of jobs
/// (<https://cloud.google.com/bigquery/quotas#load_jobs>,
/// <https://cloud.google.com/bigquery/quotas#copy_jobs>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadLimits {
    /// Addresses in a load job.
    pub uris: usize,
    /// Bytes that a load job reads.
    pub bytes: u64,
    /// Tables that a copy job reads.
    pub copy_sources: usize,
    /// Tables that a query names.
    pub query_sources: usize,
    /// Load jobs in a day, and copy jobs.
    pub jobs: usize,
    /// Jobs of a commit that run at a time.
    pub wave: usize,
}

impl Default for LoadLimits {
    fn default() -> Self {
        LoadLimits {
            uris: 10_000,
            bytes: 15_000_000_000_000,
            copy_sources: 1_200,
            query_sources: 1_000,
            jobs: 100_000,
            // The service lets 50,000 wait; so many keep it busy, and leave its
            // rate of requests to others.
            wave: 100,
        }
    }
}

/// A file that is staged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedFile {
    /// Its `gs://` address.
    pub uri: String,
    /// Its size.
    pub bytes: u64,
    /// The rows in it.
    pub rows: u64,
}

/// A file with its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sink) struct Staged {
    pub(in crate::sink) format: StagingFormat,
    pub(in crate::sink) file: StagedFile,
}

/// Files of one format that one job can load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) format: StagingFormat,
    pub(super) uris: Vec<String>,
    pub(super) rows: u64,
}

/// The jobs of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// One job loads into the table.
    Direct(Chunk),
    /// Each chunk is loaded into a temporary table of its own; then, level by level,
    /// temporary tables are put together, until one job can take them over.
    Tree {
        chunks: Vec<Chunk>,
        /// Of each level, how many tables of the one before go into each of its
        /// tables, in order.
        levels: Vec<Vec<usize>>,
        last: Last,
    },
}

/// The job that changes the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// Copies, which takes schema, layout and constraints over with the rows.
    Copy,
    /// Queries, which replaces rows and nothing else. Columns of its result are
    /// NULLABLE, which REQUIRED ones do not take.
    Query,
}

/// Plans the commit of `files`, of which there is at least one. Where one job cannot
/// load them, `last` is the job that takes their rows over.
pub(super) fn plan(files: &[Staged], last: Last, limits: &LoadLimits) -> Result<Plan> {
    let mut chunks = chunks(files, limits);
    if chunks.len() == 1 {
        return Ok(Plan::Direct(chunks.remove(0)));
    }
    let sources = match last {
        Last::Copy => limits.copy_sources,
        Last::Query => limits.query_sources,
    };
    let mut levels = Vec::new();
    let mut tables = chunks.len();
    while tables > sources {
        let mut level = Vec::new();
        let mut rest = tables;
        while rest > 0 {
            let group = rest.min(limits.copy_sources);
            level.push(group);
            rest -= group;
        }
        tables = level.len();
        levels.push(level);
    }
    let copies = levels.iter().map(Vec::len).sum::<usize>() + 1;
    if chunks.len() > limits.jobs || copies > limits.jobs {
        return Err(Error::new(
            ErrorKind::ResourceExhausted,
            format!(
                "a commit of {} files takes {} load jobs and {copies} copy jobs, and a project may \
                 run {} in a day: raise sink.file_loads.max_staging_file_bytes, or write in \
                 several statements",
                files.len(),
                chunks.len(),
                limits.jobs
            ),
        ));
    }
    Ok(Plan::Tree {
        chunks,
        levels,
        last,
    })
}

/// The files in as few chunks as possible when they keep their order.
fn chunks(files: &[Staged], limits: &LoadLimits) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for format in [StagingFormat::Avro, StagingFormat::Parquet] {
        let mut open: Option<(Chunk, u64)> = None;
        for staged in files.iter().filter(|staged| staged.format == format) {
            let StagedFile { uri, bytes, rows } = &staged.file;
            let fits = |(chunk, size): &(Chunk, u64)| {
                chunk.uris.len() < limits.uris && size.saturating_add(*bytes) <= limits.bytes
            };
            if open.as_ref().is_some_and(|open| !fits(open)) {
                chunks.extend(open.take().map(|(chunk, _)| chunk));
            }
            let (chunk, size) = open.get_or_insert_with(|| {
                let chunk = Chunk {
                    format,
                    uris: Vec::new(),
                    rows: 0,
                };
                (chunk, 0)
            });
            chunk.uris.push(uri.clone());
            chunk.rows += rows;
            *size = size.saturating_add(*bytes);
        }
        chunks.extend(open.map(|(chunk, _)| chunk));
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LoadLimits = LoadLimits {
        uris: 3,
        bytes: 100,
        copy_sources: 4,
        query_sources: 2,
        jobs: 40,
        wave: 2,
    };

    fn staged(count: usize, bytes: u64) -> Vec<Staged> {
        (0..count)
            .map(|n| Staged {
                format: StagingFormat::Avro,
                file: StagedFile {
                    uri: format!("gs://b/{n}"),
                    bytes,
                    rows: 10,
                },
            })
            .collect()
    }

    fn planned(files: &[Staged], last: Last) -> Plan {
        plan(files, last, &LIMITS).unwrap()
    }

    #[test]
    fn what_one_job_can_load_it_loads_directly() {
        for last in [Last::Copy, Last::Query] {
            let Plan::Direct(chunk) = planned(&staged(3, 33), last) else {
                panic!("three files of 33 bytes are one job");
            };
            assert_eq!(chunk.uris, ["gs://b/0", "gs://b/1", "gs://b/2"]);
            assert_eq!(chunk.rows, 30);
        }
    }

    #[test]
    fn every_file_is_in_one_chunk_within_the_limits() {
        for (count, bytes) in [(4, 1), (3, 34), (10, 50), (31, 1), (2, 1000)] {
            let files = staged(count, bytes);
            let Plan::Tree { chunks, .. } = planned(&files, Last::Copy) else {
                panic!("{count} files of {bytes} bytes are several jobs");
            };
            let all: Vec<_> = chunks.iter().flat_map(|chunk| &chunk.uris).collect();
            let expected: Vec<_> = files.iter().map(|staged| &staged.file.uri).collect();
            assert_eq!(all, expected);
            let within = |chunk: &Chunk| {
                let files = chunk.uris.len();
                files <= LIMITS.uris && (files == 1 || files as u64 * bytes <= LIMITS.bytes)
            };
            assert!(chunks.iter().all(within), "{chunks:?}");
            assert_eq!(
                chunks.iter().map(|c| c.rows).sum::<u64>(),
                count as u64 * 10
            );
        }
    }

    #[test]
    fn tables_are_put_together_until_the_last_job_takes_them() {
        for (chunks, last, expected) in [
            (4, Last::Copy, vec![]),
            (5, Last::Copy, vec![vec![4, 1]]),
            (20, Last::Copy, vec![vec![4, 4, 4, 4, 4], vec![4, 1]]),
            (2, Last::Query, vec![]),
            (3, Last::Query, vec![vec![3]]),
            (9, Last::Query, vec![vec![4, 4, 1], vec![3]]),
        ] {
            let plan = planned(&staged(chunks * 3, 1), last);
            let Plan::Tree {
                levels, last: by, ..
            } = plan
            else {
                panic!("{chunks} chunks are several jobs");
            };
            assert_eq!((levels, by), (expected, last), "{chunks}");
        }
    }

    #[test]
    fn formats_do_not_share_a_job() {
        let mut files = staged(2, 1);
        files[0].format = StagingFormat::Parquet;
        let Plan::Tree { chunks, .. } = planned(&files, Last::Copy) else {
            panic!("two formats are two jobs");
        };
        assert_eq!(chunks[0].uris, ["gs://b/1"]);
        assert_eq!(chunks[1].uris, ["gs://b/0"]);
    }

    #[test]
    fn more_jobs_than_a_day_has_are_refused_before_the_first() {
        let files = staged(123, 1);
        let error = plan(&files, Last::Copy, &LIMITS).unwrap_err();
        for part in ["123 files", "41 load jobs", "40 in a day"] {
            assert!(error.message().contains(part), "{error}");
        }
    }
}
