//! The names that a GoogleSQL text mentions, found without analysing it.
//!
//! Where a job runs and whether its result may be reused is decided before the
//! text is analysed, from the dotted names outside strings and comments. Names
//! that mean something else (columns, aliases) only cost a lookup.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::store::{DatasetRef, State, Table, TableKind, TableRef};

/// Dotted names of a text, each a list of its parts.
pub fn dotted_names(sql: &str) -> Vec<Vec<String>> {
    scan(sql).into_iter().map(|name| name.parts).collect()
}

/// Dotted names where a text expects a relation, a dataset or a routine.
pub fn relation_names(sql: &str) -> Vec<Vec<String>> {
    scan(sql)
        .into_iter()
        .filter(|name| name.relation)
        .map(|name| name.parts)
        .collect()
}

fn scan(sql: &str) -> Vec<Name> {
    let mut scan = Scan::new(sql);
    while scan.step() {}
    scan.found
}

/// Words that a relation, a dataset or a routine follows.
const BEFORE_RELATIONS: [&str; 17] = [
    "CALL",
    "CLONE",
    "COPY",
    "EXISTS",
    "FROM",
    "FUNCTION",
    "INTO",
    "JOIN",
    "LIKE",
    "MERGE",
    "PROCEDURE",
    "SCHEMA",
    "TABLE",
    "UPDATE",
    "USING",
    "VIEW",
    "DELETE",
];

#[derive(Debug)]
struct Name {
    parts: Vec<String>,
    relation: bool,
}

/// Whether a text holds more than one statement.
pub fn is_script(sql: &str) -> bool {
    let mut scan = Scan::new(sql);
    let mut ended = false;
    loop {
        let rest = scan.rest.trim_start();
        let comment = rest.starts_with('#') || rest.starts_with("--") || rest.starts_with("/*");
        if ended && !comment && !rest.is_empty() && !rest.starts_with(';') {
            return true;
        }
        ended = ended || rest.starts_with(';');
        scan.rest = rest;
        if !scan.step() {
            return false;
        }
    }
}

struct Scan<'a> {
    rest: &'a str,
    found: Vec<Name>,
    /// Whether the last word is one that a relation follows.
    before_relation: bool,
}

impl<'a> Scan<'a> {
    fn new(sql: &'a str) -> Self {
        Self {
            rest: sql,
            found: Vec::new(),
            before_relation: false,
        }
    }

    fn push(&mut self, parts: Vec<String>) {
        self.found.push(Name {
            parts,
            relation: self.before_relation,
        });
    }

    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else {
            return false;
        };
        match first {
            '-' if self.rest.starts_with("--") => self.skip_past("\n"),
            '#' => self.skip_past("\n"),
            '/' if self.rest.starts_with("/*") => self.skip_past("*/"),
            '\'' | '"' => self.string(),
            '`' => self.name(),
            c if is_start(c) => {
                let word = self.word();
                let prefix =
                    word.len() <= 2 && word.chars().all(|c| matches!(c, 'r' | 'R' | 'b' | 'B'));
                let after = &self.rest[word.len()..];
                if prefix && after.starts_with(['\'', '"']) {
                    self.rest = after;
                    self.string();
                } else {
                    self.name();
                }
            }
            c if c.is_ascii_digit() => {
                // Digits and the letters of an exponent or a suffix start no name.
                let end = self
                    .rest
                    .find(|c: char| !c.is_ascii_alphanumeric())
                    .unwrap_or(self.rest.len());
                self.rest = &self.rest[end..];
            }
            other => self.rest = &self.rest[other.len_utf8()..],
        }
        true
    }

    fn skip_past(&mut self, end: &str) {
        self.rest = match self.rest.find(end) {
            Some(at) => &self.rest[at + end.len()..],
            None => "",
        };
    }

    /// Skips a string; a backslash hides the next character, in raw strings too.
    fn string(&mut self) {
        let quote = &self.rest[..1];
        let triple = quote.repeat(3);
        let end: &str = if self.rest.starts_with(&triple) {
            &triple
        } else {
            quote
        };
        let mut at = end.len();
        while let Some(c) = self.rest[at..].chars().next() {
            if self.rest[at..].starts_with(end) {
                self.rest = &self.rest[at + end.len()..];
                return;
            }
            at += c.len_utf8();
            if c == '\\' {
                at += self.rest[at..].chars().next().map_or(0, char::len_utf8);
            }
        }
        self.rest = "";
    }

    fn word(&self) -> &str {
        let end = self
            .rest
            .find(|c: char| !is_part(c))
            .unwrap_or(self.rest.len());
        &self.rest[..end]
    }

    /// Reads `a.b.c`, where a part may be quoted and a quoted part may hold dots.
    fn name(&mut self) {
        let mut parts: Vec<String> = Vec::new();
        // `my-project.d.t` reads as one first part, `x-y.z` may also be a difference.
        let mut dashed = false;
        loop {
            if let Some(quoted) = self.rest.strip_prefix('`') {
                let end = quoted.find('`').unwrap_or(quoted.len());
                parts.extend(quoted[..end].split('.').map(str::to_string));
                self.rest = quoted.get(end + 1..).unwrap_or("");
            } else {
                let mut part = self.word().to_string();
                self.rest = &self.rest[part.len()..];
                while parts.is_empty()
                    && self.rest.starts_with('-')
                    && self.rest[1..].starts_with(|c: char| is_part(c))
                {
                    dashed = true;
                    self.rest = &self.rest[1..];
                    let more = self.word().to_string();
                    self.rest = &self.rest[more.len()..];
                    part = format!("{part}-{more}");
                }
                parts.push(part);
            }
            let spaces = self.rest.len() - self.rest.trim_start().len();
            let after = self.rest[spaces..].strip_prefix('.').map(str::trim_start);
            match after {
                Some(after) if after.starts_with(|c: char| is_part(c) || c == '`') => {
                    self.rest = after;
                }
                _ => break,
            }
        }
        if dashed {
            let mut other = parts.clone();
            let pieces: Vec<String> = other[0].split('-').map(str::to_string).collect();
            for piece in &pieces[..pieces.len() - 1] {
                self.push(vec![piece.clone()]);
            }
            other[0].clone_from(&pieces[pieces.len() - 1]);
            self.push(other);
        }
        let keyword = parts.len() == 1
            && BEFORE_RELATIONS
                .iter()
                .any(|word| parts[0].eq_ignore_ascii_case(word));
        self.push(parts);
        self.before_relation = keyword;
    }
}

fn is_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The datasets that relations of a text may be in, among those that exist, in order
/// of mention. `names` are its [`relation_names`]: elsewhere `a.b` is mostly a column.
pub fn datasets_named(state: &State, project: &str, names: &[Vec<String>]) -> Vec<DatasetRef> {
    let mut found = Vec::new();
    for name in names {
        let mut candidates = Vec::new();
        if name.len() >= 3 {
            candidates.push(DatasetRef::new(&name[0], &name[1]));
        }
        if name.len() >= 2 {
            candidates.push(DatasetRef::new(project, &name[0]));
        }
        for candidate in candidates {
            if state.dataset(&candidate).is_some() {
                if !found.contains(&candidate) {
                    found.push(candidate);
                }
                break;
            }
        }
    }
    found
}

/// The tables and views that names of `sql` may mean, among those that exist, and
/// those that the views read in turn.
pub fn tables_named(
    state: &State,
    project: &str,
    default_dataset: Option<&DatasetRef>,
    names: &[Vec<String>],
) -> Vec<Arc<Table>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut todo: Vec<(Vec<Vec<String>>, Option<DatasetRef>)> =
        vec![(names.to_vec(), default_dataset.cloned())];
    while let Some((names, dataset)) = todo.pop() {
        for name in &names {
            for reference in candidates(project, dataset.as_ref(), name) {
                let Some(table) = state.table(&reference) else {
                    continue;
                };
                if !seen.insert(reference) {
                    continue;
                }
                if let TableKind::View(view) | TableKind::MaterializedView(view) =
                    &table.meta().kind
                {
                    todo.push((dotted_names(&view.query), None));
                }
                found.push(Arc::clone(table));
            }
        }
    }
    found
}

fn candidates(project: &str, dataset: Option<&DatasetRef>, name: &[String]) -> Vec<TableRef> {
    let mut out = Vec::new();
    if let [p, d, t, ..] = name {
        out.push(TableRef::new(p, d, t));
    }
    if let [d, t, ..] = name {
        out.push(TableRef::new(project, d, t));
    }
    if let (Some(dataset), [t, ..]) = (dataset, name) {
        out.push(dataset.table(t));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sql: &str) -> Vec<String> {
        dotted_names(sql).iter().map(|n| n.join("|")).collect()
    }

    #[test]
    fn names_are_found_outside_strings_and_comments() {
        assert_eq!(
            names("SELECT a FROM `p.d.t` -- x.y\n JOIN d.u # z\n"),
            ["SELECT", "a", "FROM", "p|d|t", "JOIN", "d|u"]
        );
        assert_eq!(
            names("'a.b' \"c.d\" '''e'f.g''' r'\\'h.i' /* j.k */ l"),
            ["l"]
        );
        assert_eq!(names("`p`.`d`.t . c"), ["p|d|t|c"]);
        assert_eq!(names("b'x' rb\"y\" B"), ["B"]);
        assert_eq!(names("1e5 0x1F 1.5"), [] as [&str; 0]);
        assert_eq!(names("'unclosed a.b"), [] as [&str; 0]);
        assert_eq!(names("`unclosed"), ["unclosed"]);
        assert_eq!(names("é.a 'ü\\'ö' ß"), ["a"]);
    }

    #[test]
    fn relations_follow_certain_words() {
        let names = |sql| -> Vec<String> {
            let names = relation_names(sql);
            names.iter().map(|n| n.join("|")).collect()
        };
        assert_eq!(
            names("SELECT a.b FROM `d.t` a JOIN p-1.d.u USING (x) WHERE a.c = 1"),
            ["d|t", "p", "1|d|u", "p-1|d|u", "x"]
        );
        assert_eq!(
            names("CREATE TABLE IF NOT EXISTS d.t AS SELECT x.y"),
            ["IF", "d|t"]
        );
        assert_eq!(names("SELECT f(a.b), c.d"), [] as [&str; 0]);
    }

    #[test]
    fn scripts_have_more_than_one_statement() {
        for script in [
            "SELECT 1; SELECT 2",
            "BEGIN SELECT 1; END",
            "DECLARE x INT64;\nSELECT x",
        ] {
            assert!(is_script(script), "{script}");
        }
        for single in [
            "SELECT 1",
            "SELECT 1 ; -- a; b\n /* c; d */ ;",
            "SELECT ';' x",
            "",
        ] {
            assert!(!is_script(single), "{single}");
        }
    }

    #[test]
    fn a_dash_may_belong_to_a_project() {
        assert_eq!(
            names("my-project-1.d.t"),
            ["my", "project", "1|d|t", "my-project-1|d|t"]
        );
        assert_eq!(names("a-1"), ["a", "1", "a-1"]);
        assert_eq!(names("a - b"), ["a", "b"]);
    }
}
