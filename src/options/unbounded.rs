//! How plans are written that never end.

use std::time::Duration;

use super::file_loads::LoadDisposition;
use super::registry;
use super::sink::{SinkOptions, WriteEffect, WriteMethod};
use crate::error::{Error, Result};

impl SinkOptions {
    /// How often the rows of a plan are committed that never ends.
    ///
    /// # Errors
    /// [`Configuration`](crate::ErrorKind::Configuration) when that is not said, or the
    /// options ask for something that has to know the last row.
    pub fn interval_of_unbounded(&self) -> Result<Duration> {
        let row = &registry::SINK_CHECKPOINT_INTERVAL;
        let Some(interval) = self.checkpoint_interval else {
            return Err(Error::configuration(format!(
                "the input never ends: say by option '{}' how often its rows are committed",
                row.name
            )));
        };
        let refuse = |with: &str, why: &str| {
            Err(Error::configuration(format!(
                "{with} cannot go together with option '{}': {why}",
                row.name
            )))
        };
        if self.write_method == WriteMethod::StorageApiAtomic {
            return refuse(
                &format!(
                    "option '{}' '{}'",
                    registry::SINK_WRITE_METHOD.name,
                    self.write_method.name()
                ),
                "all rows of a statement become visible at once, and one whose input never ends \
                 has no last row: select storage_api_exactly_once",
            );
        }
        if self.effect == WriteEffect::Replace {
            let why = "each commit would replace the rows of the one before: use INSERT INTO";
            return refuse("INSERT OVERWRITE", why);
        }
        let disposition = self.file_loads.write_disposition;
        if self.write_method == WriteMethod::FileLoads && disposition != LoadDisposition::Append {
            return refuse(
                &format!(
                    "option '{}' '{}'",
                    registry::SINK_WRITE_DISPOSITION.name,
                    disposition.name()
                ),
                "rows are committed many times, and only write_append adds those of one commit to \
                 those of the others",
            );
        }
        if self.run.is_some() {
            return refuse(
                &format!("option '{}'", registry::SINK_RUN_ID.name),
                "an input that never ends begins somewhere else when it is read again, so that \
                 nothing says which of its rows were committed before",
            );
        }
        if self.write_method == WriteMethod::FileLoads {
            self.file_loads.check_interval(interval)?;
        }
        Ok(interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Options, RawOptions};

    #[test]
    fn a_plan_that_never_ends_needs_an_interval_and_nothing_that_needs_an_end() {
        let of = |said: &[(&str, &str)]| {
            let said = RawOptions::from_pairs(said.iter().copied()).unwrap();
            Options::resolve(&said).unwrap().sink
        };
        let minute = ("sink.checkpoint_interval", "1 min");
        for method in ["storage_api_at_least_once", "storage_api_exactly_once"] {
            let method = ("sink.write_method", method);
            let interval = of(&[minute, method]).interval_of_unbounded().unwrap();
            assert_eq!(interval, Duration::from_secs(60));
            let error = of(&[method]).interval_of_unbounded().unwrap_err();
            assert!(error.message().contains("'sink.checkpoint_interval'"));
        }
        let loads = ("sink.write_method", "file_loads");
        let staging = ("sink.file_loads.staging_path", "gs://bucket/prefix");
        let lower = ("sink.file_loads.min_checkpoint_interval", "30 s");
        of(&[minute, loads, staging, lower])
            .interval_of_unbounded()
            .unwrap();
        let truncate = ("sink.file_loads.write_disposition", "write_truncate");
        let empty = ("sink.file_loads.write_disposition", "write_empty");
        let exactly = ("sink.write_method", "storage_api_exactly_once");
        let run = [("sink.run_id", "r"), ("sink.checkpoint_path", "/notes")];
        for (said, parts) in [
            (
                vec![("sink.write_method", "storage_api_atomic")],
                &["'sink.write_method'", "'storage_api_atomic'"][..],
            ),
            (vec![exactly, run[0], run[1]], &["'sink.run_id'"]),
            (
                vec![loads, staging],
                &["'sink.file_loads.min_checkpoint_interval'"],
            ),
            (
                vec![loads, staging, lower, truncate],
                &["'sink.file_loads.write_disposition'", "'write_truncate'"],
            ),
            (
                vec![loads, staging, lower, empty],
                &["'sink.file_loads.write_disposition'", "'write_empty'"],
            ),
        ] {
            let mut all = vec![minute];
            all.extend(said);
            let error = of(&all).interval_of_unbounded().unwrap_err();
            for part in parts.iter().chain(&["'sink.checkpoint_interval'"]) {
                assert!(error.message().contains(part), "{part}: {error}");
            }
        }
        let replace = SinkOptions {
            effect: WriteEffect::Replace,
            ..of(&[minute, exactly])
        };
        let error = replace.interval_of_unbounded().unwrap_err();
        assert!(error.message().contains("INSERT OVERWRITE"), "{error}");
    }
}
