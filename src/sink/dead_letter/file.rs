//! Dead letters in a file of this machine, a line of JSON each.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use async_trait::async_trait;

use super::{DeadLetter, Outlet};
use crate::error::{Error, ErrorKind, Result};

/// Appends to a file, which others may append to at the same time.
#[derive(Debug)]
pub(super) struct FileOutlet {
    path: PathBuf,
}

impl FileOutlet {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Appends `text` and waits until it is on the disk.
    async fn append(&self, text: String) -> Result<()> {
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || {
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            if !text.is_empty() {
                // In one piece, so that lines of several writers do not mix.
                file.write_all(text.as_bytes())?;
                file.sync_data()?;
            }
            Ok::<_, std::io::Error>(())
        });
        let written = written
            .await
            .map_err(|error| Error::new(ErrorKind::Cancelled, error.to_string()))?;
        written.map_err(|error| {
            Error::new(
                ErrorKind::FailedPrecondition,
                format!(
                    "the file cannot be written ({error}): name a file in a directory that exists"
                ),
            )
            .with_source(error)
        })
    }
}

#[async_trait]
impl Outlet for FileOutlet {
    async fn check(&mut self) -> Result<()> {
        self.append(String::new()).await
    }

    async fn deliver(&mut self, letters: &[DeadLetter]) -> Result<()> {
        self.append(letters.iter().map(DeadLetter::line).collect())
            .await
    }
}
