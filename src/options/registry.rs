//! The table of options: one row each, feeding parsing, `SET`, the
//! documentation and the texts of errors. The rows stand in `rows`; here is what a
//! row is and how it is found.

use super::suggest;
use super::values;
use crate::error::{Error, Result};

pub use super::rows::*;

/// One option.
#[derive(Debug)]
pub struct OptionRow {
    /// The canonical name, dotted snake_case.
    pub name: &'static str,
    /// Other names that mean the same.
    pub spellings: &'static [&'static str],
    /// What applies when nothing is said, as text for people.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// How its value is written.
    pub form: ValueForm,
    /// Where it may be said.
    pub scope: Scope,
    /// Whether its value may be shown.
    pub display: Display,
}

/// How the value of an option is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// Any text but the empty one.
    Text,
    /// `true` or `false`.
    Switch,
    /// A whole number within bounds, both included.
    Count {
        /// The least number allowed.
        min: u64,
        /// The greatest number allowed.
        max: u64,
    },
    /// A whole number of 64 bits with its sign.
    Integer,
    /// A number between 0 and 100.
    Percentage,
    /// A duration above zero, as `10 s`.
    Duration,
    /// A duration, zero included.
    DurationOrZero,
    /// A number of bytes, as `16 MiB`.
    Size,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// An instant in ISO-8601.
    Instant,
    /// A list of `key=value`.
    Map,
    /// The address of a server, as `http://127.0.0.1:9050`.
    Address,
    /// UUIDs, each of them once.
    Uuids,
}

impl ValueForm {
    /// What may be written, for errors and the documentation.
    pub fn allowed(self) -> String {
        match self {
            ValueForm::Text => "a text that is not empty".into(),
            ValueForm::Switch => "true or false".into(),
            ValueForm::Count { min, max } => format!("a whole number from {min} to {max}"),
            ValueForm::Integer => "a whole number".into(),
            ValueForm::Percentage => "a number from 0 to 100".into(),
            ValueForm::Duration => {
                "a duration above zero such as '500 ms', '10 s', '2 min' or '1 h'".into()
            }
            ValueForm::DurationOrZero => {
                "a duration such as '0 s', '500 ms', '10 s', '2 min' or '1 h'".into()
            }
            ValueForm::Size => "a size such as '512 KiB', '16 MiB' or '10 GB'".into(),
            ValueForm::Choice(words) => match words {
                [] => "nothing".into(),
                [only] => format!("'{only}'"),
                [first @ .., last] => {
                    let first: Vec<String> = first.iter().map(|w| format!("'{w}'")).collect();
                    format!("{} or '{last}'", first.join(", "))
                }
            },
            ValueForm::Instant => "an ISO-8601 time such as '2024-05-01T12:00:00Z'".into(),
            ValueForm::Map => "a list of key=value such as 'team=data, stage=test'".into(),
            ValueForm::Address => "an address such as 'http://127.0.0.1:9050'".into(),
            ValueForm::Uuids => "a list of UUIDs, each of them once, such as \
                                 '24bc7850-2c16-11e6-a073-0242ac110002'"
                .into(),
        }
    }

    /// Whether `value` is written as this form wants it. Forms whose values
    /// have rules of their own (addresses) are judged where they are resolved.
    fn accepts(self, value: &str) -> bool {
        match self {
            ValueForm::Text | ValueForm::Address => !value.is_empty(),
            ValueForm::Switch => values::switch(value).is_some(),
            ValueForm::Count { min, max } => {
                values::count(value).is_some_and(|n| (min..=max).contains(&n))
            }
            ValueForm::Integer => values::integer(value).is_some(),
            ValueForm::Percentage => values::percentage(value).is_some(),
            ValueForm::Duration => values::duration(value).is_some_and(|d| !d.is_zero()),
            ValueForm::DurationOrZero => values::duration(value).is_some(),
            ValueForm::Size => values::size(value).is_some(),
            ValueForm::Choice(words) => words.iter().any(|word| word.eq_ignore_ascii_case(value)),
            ValueForm::Instant => values::instant(value).is_some(),
            ValueForm::Map => values::map(value).is_some(),
            ValueForm::Uuids => values::uuids(value).is_some(),
        }
    }
}

/// Where an option may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Of one table: in its `OPTIONS`, not as a session default.
    Table,
    /// Of a table, or as a session default with `SET`.
    Session,
}

/// Whether the value of an option may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Display {
    /// It may.
    Shown,
    /// Only that it is set: it says where credentials are.
    Hidden,
}

impl OptionRow {
    /// Checks how a value is written.
    ///
    /// # Errors
    /// Names the option, the value and what is allowed.
    pub fn check(&self, value: &str) -> Result<()> {
        if self.form.accepts(value) {
            return Ok(());
        }
        Err(self.refused(value, &self.form.allowed()))
    }

    /// The error for a value that the option cannot have.
    pub(super) fn refused(&self, value: &str, allowed: &str) -> Error {
        let name = self.name;
        if value.is_empty() {
            return Error::configuration(format!(
                "option '{name}' is said and has no value: leave it out, or give it {allowed}"
            ));
        }
        // Whoever says a key file's path here meant `credentials.key_file`.
        let about_keys = self.display == Display::Hidden || name == CREDENTIALS.name;
        Error::configuration(if about_keys {
            format!("the value of option '{name}' is refused: it must be {allowed}")
        } else {
            format!("option '{name}' cannot be '{value}': it must be {allowed}")
        })
    }
}

/// The row of a name in any of its spellings: case does not matter, `-` and
/// `_` are the same, and a prefix `format.` or `bigquery.` is skipped.
///
/// # Errors
/// An unknown name; the error suggests the nearest known one.
pub fn find(name: &str) -> Result<&'static OptionRow> {
    let canonical = canonical(name);
    let row = REGISTRY.iter().find(|row| {
        row.name == canonical || row.spellings.iter().any(|spelling| *spelling == canonical)
    });
    if let Some(row) = row {
        return Ok(row);
    }
    let names = REGISTRY
        .iter()
        .flat_map(|row| std::iter::once(row.name).chain(row.spellings.iter().copied()));
    Err(Error::configuration(
        match suggest::nearest(&canonical, names) {
            Some(nearest) => {
                format!("there is no option '{canonical}': did you mean '{nearest}'?")
            }
            None => format!("there is no option '{canonical}': docs/options.md lists the options"),
        },
    ))
}

fn canonical(name: &str) -> String {
    let name = name.trim().to_lowercase().replace('-', "_");
    let mut rest = name.as_str();
    while let Some(after) = rest
        .strip_prefix("format.")
        .or_else(|| rest.strip_prefix("bigquery."))
    {
        rest = after;
    }
    rest.to_string()
}

/// The documentation's table of options, in Markdown.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Options\n\n\
         The same names serve `CREATE EXTERNAL TABLE … OPTIONS (…)`, the Rust interface and, where \
         the last column says so, session defaults (`SET bigquery.<name> = …`). Case does not \
         matter, `-` and `_` are the same, and the prefixes `bigquery.` and `format.` may be \
         written. A name that does not exist, a value that is not allowed, or a pair that cannot \
         go together is an error at planning.\n\n\
         Durations read like `500 ms`, `10 s`, `2 min`, `1 h`; sizes like `512 KiB`, `16 MiB`; \
         lists are separated by `,` or `;`; maps are lists of `key=value`.\n\n\
         | option | default | meaning | allowed | SET |\n\
         |---|---|---|---|---|\n",
    );
    for row in REGISTRY.iter() {
        let names: Vec<String> = std::iter::once(row.name)
            .chain(row.spellings.iter().copied())
            .map(|name| format!("`{name}`"))
            .collect();
        let set = match row.scope {
            Scope::Session => "yes",
            Scope::Table => "no",
        };
        let allowed = row.form.allowed();
        text.push_str(&format!(
            "| {} | {} | {} | {allowed} | {set} |\n",
            names.join(", "),
            row.default,
            row.meaning,
        ));
    }
    text
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
