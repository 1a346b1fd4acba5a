//! `gs://` addresses of jobs.

use crate::engine::load::LoadFile;
use crate::error::{Reason, Result, ServiceError};
use crate::gcs::{GcsError, Kind, Objects};

/// Bytes of the files of one job at most.
const MAX_BYTES: u64 = 4 << 30;

/// Files of one job at most.
const MAX_FILES: usize = 10_000_000;

/// An address: exact, or with one `*` for any characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) uri: String,
    pub(super) bucket: String,
    /// What stands before the `*`, or the whole name.
    pub(super) before: String,
    /// What stands behind it; `None` without one.
    pub(super) after: Option<String>,
}

impl Address {
    /// Reads `gs://bucket/name`. Slashes that follow each other count as one.
    pub(super) fn parse(uri: &str) -> Result<Self> {
        let wrong = |why: &str| Err(ServiceError::invalid(format!("Invalid URI {uri}: {why}")));
        let Some(rest) = uri.strip_prefix("gs://") else {
            return wrong("it must begin with gs://");
        };
        let Some((bucket, name)) = rest.split_once('/') else {
            return wrong("it names no object");
        };
        if bucket.is_empty() || bucket.contains('*') {
            return wrong("the bucket must be named, without *");
        }
        let mut collapsed = String::with_capacity(name.len());
        for c in name.trim_start_matches('/').chars() {
            if c != '/' || !collapsed.ends_with('/') {
                collapsed.push(c);
            }
        }
        if collapsed.is_empty() {
            return wrong("it names no object");
        }
        let (before, after) = match collapsed.split_once('*') {
            Some((_, after)) if after.contains('*') => {
                return wrong("only one * is allowed");
            }
            Some((before, after)) => (before.to_string(), Some(after.to_string())),
            None => (collapsed, None),
        };
        Ok(Self {
            uri: uri.to_string(),
            bucket: bucket.to_string(),
            before,
            after,
        })
    }

    /// The name with something in the place of the `*`.
    pub(super) fn filled(&self, with: &str) -> String {
        match &self.after {
            Some(after) => format!("{}{with}{after}", self.before),
            None => self.before.clone(),
        }
    }
}

/// The error of the storage as one of a job.
pub(super) fn storage_error(error: &GcsError, uri: &str) -> ServiceError {
    match error.kind {
        Kind::NoSuchBucket | Kind::NoSuchObject => {
            ServiceError::not_found(format_args!("URI {uri}"))
        }
        Kind::Internal => ServiceError::new(Reason::BackendError, error.message.clone()),
        _ => ServiceError::invalid(format!("{}: {uri}", error.message)),
    }
}

/// The files at addresses, each address's in order of name.
pub(super) fn find(objects: &Objects, addresses: &[Address]) -> Result<Vec<LoadFile>> {
    let mut files = Vec::new();
    let mut bytes = 0_u64;
    for address in addresses {
        let missing = |e: &GcsError| storage_error(e, &address.uri);
        let found = match &address.after {
            None => vec![
                objects
                    .object(&address.bucket, &address.before, None)
                    .map_err(|e| missing(&e))?,
            ],
            Some(after) => objects
                .objects(&address.bucket, &address.before)
                .map_err(|e| missing(&e))?
                .into_iter()
                .filter(|object| object.meta.name[address.before.len()..].ends_with(after.as_str()))
                .collect(),
        };
        if found.is_empty() {
            return Err(ServiceError::not_found(format_args!("URI {}", address.uri)));
        }
        for object in found {
            bytes = bytes.saturating_add(object.meta.size);
            if bytes > MAX_BYTES || files.len() >= MAX_FILES {
                return Err(ServiceError::invalid(format!(
                    "Files of more than {MAX_BYTES} bytes, or more than {MAX_FILES} files, in one job are not supported by bigquery-local"
                )));
            }
            files.push(LoadFile {
                name: format!("gs://{}/{}", address.bucket, object.meta.name),
                data: object.content.read().map_err(|e| missing(&e))?,
            });
        }
    }
    Ok(files)
}

/// Refuses a bucket that is not where the job's dataset is. A dataset in the US may
/// work with buckets anywhere.
pub(super) fn check_place(objects: &Objects, addresses: &[Address], location: &str) -> Result<()> {
    for address in addresses {
        let Ok(bucket) = objects.bucket(&address.bucket) else {
            // It is reported as a missing file.
            continue;
        };
        if !location.eq_ignore_ascii_case("US") && !location.eq_ignore_ascii_case(&bucket.location)
        {
            return Err(ServiceError::invalid(format!(
                "Cannot read and write in different locations: bucket {}: {}, dataset: {location}",
                bucket.name, bucket.location
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let read = |uri: &str| Address::parse(uri).map(|a| (a.bucket, a.before, a.after));
        let some = |text: &str| Some(text.to_string());
        assert_eq!(read("gs://b/a/c"), Ok(("b".into(), "a/c".into(), None)));
        assert_eq!(
            read("gs://b/a-*.csv"),
            Ok(("b".into(), "a-".into(), some(".csv")))
        );
        assert_eq!(read("gs://b//a///c"), Ok(("b".into(), "a/c".into(), None)));
        assert_eq!(read("gs://b/*"), Ok(("b".into(), String::new(), some(""))));
        for bad in [
            "s3://b/a",
            "gs://b",
            "gs://b/",
            "gs:///a",
            "gs://b*/a",
            "gs://b/*/*",
            "",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let pattern = Address::parse("gs://b/o-*.x").unwrap();
        assert_eq!(pattern.filled("000"), "o-000.x");
    }
}
