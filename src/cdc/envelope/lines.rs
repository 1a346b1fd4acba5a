//! The envelopes on the lines of files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde_json::value::RawValue;

use super::wrong;
use crate::error::{Error, ErrorKind, Result};

/// An envelope without what is around it, and where it is. Its values are the text of the
/// line, so that numbers are those that were written.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) op: String,
    /// Objects.
    pub(super) before: Option<Box<RawValue>>,
    pub(super) after: Option<Box<RawValue>>,
    /// As JSON text.
    pub(super) source: Option<String>,
    pub(super) ts_ms: Option<i64>,
    /// The file and the line, as errors name them.
    pub(super) place: String,
}

/// The envelopes of the files, one file after the other. Those whose names end in `.gz`
/// are unpacked.
pub(super) fn envelopes(files: Vec<PathBuf>) -> impl Iterator<Item = Result<Envelope>> {
    files.into_iter().flat_map(|file| {
        let name = file.display().to_string();
        let unreadable = {
            let name = name.clone();
            move |error: std::io::Error| {
                let kind = match error.kind() {
                    std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                    _ => ErrorKind::InvalidArgument,
                };
                Error::new(kind, format!("{name} cannot be read: {error}"))
            }
        };
        let (first, lines) = match open(&file) {
            Ok(file) => (None, Some(BufReader::new(file).lines())),
            Err(error) => (Some(Err(unreadable(error))), None),
        };
        let lines = lines.into_iter().flatten().enumerate();
        let read = lines.filter_map(move |(number, line)| {
            let place = format!("{name}, line {}", number + 1);
            match line {
                Ok(line) => envelope(&line, place).transpose(),
                Err(error) => Some(Err(unreadable(error))),
            }
        });
        first.into_iter().chain(read)
    })
}

fn open(file: &Path) -> std::io::Result<Box<dyn Read>> {
    let read = File::open(file)?;
    let packed = file
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("gz"));
    Ok(match packed {
        true => Box::new(MultiGzDecoder::new(read)),
        false => Box::new(read),
    })
}

type Fields = BTreeMap<String, Box<RawValue>>;

fn envelope(line: &str, place: String) -> Result<Option<Envelope>> {
    let none = |why: &str| Err(wrong(format!("{place} is no envelope of Debezium: {why}")));
    if line.trim().is_empty() {
        return Ok(None);
    }
    let value: &RawValue = match serde_json::from_str(line) {
        Ok(value) => value,
        Err(error) => return none(&format!("it is no JSON ({error})")),
    };
    let mut fields = match object(value) {
        Some(fields) => fields,
        None if is_null(value) => return Ok(None),
        None => return none("it is no object"),
    };
    if !fields.contains_key("op") {
        let payload = fields.remove("payload");
        fields = match payload.as_deref().map(|payload| (object(payload), payload)) {
            Some((Some(payload), _)) => payload,
            Some((None, payload)) if is_null(payload) => return Ok(None),
            _ => return none("it has neither 'op' nor 'payload'"),
        };
    }
    let mut said = |name: &str| fields.remove(name).filter(|value| !is_null(value));
    let mut images = [None, None];
    for (image, name) in images.iter_mut().zip(["before", "after"]) {
        *image = said(name);
        if image.as_ref().is_some_and(|image| !is_object(image)) {
            return none(&format!("its '{name}' is not an object"));
        }
    }
    let [before, after] = images;
    let Some(op) = said("op").and_then(|op| serde_json::from_str(op.get()).ok()) else {
        return none("its 'op' is not text");
    };
    // Text, or an object whose text it is.
    let source = said("source").map(
        |source| match serde_json::from_str::<String>(source.get()) {
            Ok(text) => text,
            Err(_) => source.get().to_string(),
        },
    );
    let ts_ms = said("ts_ms").and_then(|time| time.get().parse().ok());
    Ok(Some(Envelope {
        op,
        before,
        after,
        source,
        ts_ms,
        place,
    }))
}

fn object(value: &RawValue) -> Option<Fields> {
    match is_object(value) {
        true => serde_json::from_str(value.get()).ok(),
        false => None,
    }
}

fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Option<Envelope>> {
        envelope(line, "changes.jsonl, line 7".to_string())
    }

    #[test]
    fn envelopes_are_unwrapped() {
        let bare =
            r#"{"op":"u","before":{"id":1},"after":{"id":1,"n":2},"source":{"lsn":5},"ts_ms":3}"#;
        for line in [
            bare.to_string(),
            format!(r#" {{"schema":{{"type":"struct"}},"payload": {bare}}} "#),
        ] {
            let found = of(&line).unwrap().unwrap();
            assert_eq!(found.op, "u");
            assert_eq!(found.after.unwrap().get(), r#"{"id":1,"n":2}"#);
            assert_eq!(found.source.as_deref(), Some(r#"{"lsn":5}"#));
            assert_eq!(found.ts_ms, Some(3));
        }
        for nothing in ["", "  ", "null", r#"{"schema":null,"payload":null}"#] {
            assert!(of(nothing).unwrap().is_none(), "{nothing}");
        }
    }

    #[test]
    fn what_is_no_envelope_is_refused_by_its_line() {
        for (line, why) in [
            ("{", "no JSON"),
            ("[1]", "no object"),
            (r#"{"id":1}"#, "neither 'op' nor 'payload'"),
            (r#"{"payload":[1]}"#, "neither 'op' nor 'payload'"),
            (r#"{"op":null,"after":{}}"#, "'op' is not text"),
            (r#"{"op":"c","after":[1]}"#, "'after' is not an object"),
        ] {
            let error = of(line).err().unwrap().to_string();
            assert!(
                error.contains("changes.jsonl, line 7") && error.contains(why),
                "{error}"
            );
        }
    }
}
