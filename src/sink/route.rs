//! To which table each row goes.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::Schema;
use arrow::row::{RowConverter, SortField};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::failure::{Content, FailedRow};
use super::numbered::Numbered;
use crate::error::{Error, ErrorKind, Result};
use crate::types::TableRef;

/// Says for each row which table it goes to.
///
/// A sink calls it with every batch, from several tasks at once, with the rows as
/// they are given to the sink, columns that are not written included. The same row
/// has to get the same answer after a restart, or exactly once does not hold.
pub trait DestinationResolver: fmt::Debug + Send + Sync {
    /// One answer for each row of the batch, in its order.
    ///
    /// # Errors
    /// Any error, and another number of answers, ends the write: what concerns one
    /// row is [`Resolution::Unroutable`].
    fn resolve(&self, batch: &RecordBatch) -> Result<Vec<Resolution>>;
}

/// Where a row goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// To this table.
    Destination(TableRef),
    /// To none: the failure policy decides over it.
    Unroutable {
        /// The row, for those who look at dead letters.
        payload: String,
        /// Why it goes to none.
        reason: String,
    },
}

/// To which table each row goes.
#[derive(Debug, Clone)]
pub(super) enum Route {
    /// All to one.
    Fixed(TableRef),
    /// To the table whose name is made of the row's values.
    Pattern(Pattern),
    /// Code decides.
    Resolver(Arc<dyn DestinationResolver>),
}

/// As EXPLAIN and errors name it.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::Fixed(table) => table.fmt(f),
            Route::Pattern(pattern) => f.write_str(&pattern.text),
            Route::Resolver(resolver) => resolver.fmt(f),
        }
    }
}

/// A batch, taken apart.
#[derive(Debug, Default)]
pub(super) struct Routed {
    pub(super) tables: Vec<(TableRef, Numbered)>,
    /// Rows that go to no table.
    pub(super) unroutable: Vec<FailedRow>,
}

impl Route {
    /// The one table of all rows.
    pub(super) fn table(&self) -> Option<&TableRef> {
        match self {
            Route::Fixed(table) => Some(table),
            Route::Pattern(_) | Route::Resolver(_) => None,
        }
    }

    /// Takes a batch apart by the tables of its rows.
    pub(super) fn split(&self, given: Numbered) -> Result<Routed> {
        let batch = &given.rows;
        let (groups, of_row) = match self {
            Route::Fixed(table) => {
                return Ok(Routed {
                    tables: vec![(table.clone(), given)],
                    unroutable: Vec::new(),
                });
            }
            Route::Pattern(pattern) => pattern.groups(batch)?,
            Route::Resolver(resolver) => resolved(resolver.resolve(batch)?, batch)?,
        };
        let mut routed = Routed::default();
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); groups.len()];
        for (row, group) in of_row.into_iter().enumerate() {
            let row = u32::try_from(row).map_err(|_| {
                Error::new(
                    ErrorKind::InvalidArgument,
                    "a batch has more than 2^32 rows",
                )
            })?;
            rows[group].push(row);
        }
        // Patterns can give one table for several keys, such as 1 and '1'.
        let mut by_table: HashMap<TableRef, usize> = HashMap::new();
        let mut taken: Vec<(TableRef, Vec<u32>)> = Vec::new();
        for (group, rows) in groups.into_iter().zip(rows) {
            match group {
                Resolution::Destination(table) => match by_table.get(&table) {
                    Some(at) => taken[*at].1.extend(rows),
                    None => {
                        by_table.insert(table.clone(), taken.len());
                        taken.push((table, rows));
                    }
                },
                Resolution::Unroutable { payload, reason } => {
                    for row in rows {
                        let row = usize::try_from(row).unwrap_or(usize::MAX);
                        let content = match self {
                            Route::Resolver(_) => Content::Text(payload.clone()),
                            Route::Fixed(_) | Route::Pattern(_) => Content::of(batch, row),
                        };
                        let failed = FailedRow {
                            row: given.numbers.of(row),
                            column: None,
                            message: reason.clone(),
                            content: Some(content),
                        };
                        routed.unroutable.push(failed);
                    }
                }
            }
        }
        routed.unroutable.sort_by_key(|failed| failed.row);
        for (table, mut rows) in taken {
            if rows.len() == batch.num_rows() {
                routed.tables.push((table, given.clone()));
                continue;
            }
            // Rows of one table keep their order.
            rows.sort_unstable();
            let positions = rows.iter().filter_map(|row| usize::try_from(*row).ok());
            let numbers = given.numbers.select(positions);
            let rows = take_record_batch(batch, &UInt32Array::from(rows)).map_err(split_failed)?;
            routed.tables.push((table, Numbered { rows, numbers }));
        }
        Ok(routed)
    }
}

fn split_failed(error: arrow::error::ArrowError) -> Error {
    Error::new(
        ErrorKind::Internal,
        "a batch cannot be taken apart by the tables of its rows",
    )
    .with_source(error)
}

/// Distinct answers, and which one each row has.
type Groups = (Vec<Resolution>, Vec<usize>);

fn resolved(answers: Vec<Resolution>, batch: &RecordBatch) -> Result<Groups> {
    if answers.len() != batch.num_rows() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the resolver of destinations gave {} answers for {} rows: it has to give one for \
                 each",
                answers.len(),
                batch.num_rows()
            ),
        ));
    }
    let mut groups: Vec<Resolution> = Vec::new();
    let mut known: HashMap<Resolution, usize> = HashMap::new();
    let mut of_row = Vec::with_capacity(answers.len());
    for answer in answers {
        if let Resolution::Destination(table) = &answer
            && table.is_wildcard()
        {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("the resolver of destinations gave {table}, which means several tables"),
            ));
        }
        let group = *known.entry(answer).or_insert_with_key(|answer| {
            groups.push(answer.clone());
            groups.len() - 1
        });
        of_row.push(group);
    }
    Ok((groups, of_row))
}

/// A table's name with places for values, as `project.dataset.orders_{tenant}`.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    text: String,
    /// Project, dataset and table.
    segments: [Vec<Piece>; 3],
    /// Where the columns stand that are named, each once.
    columns: Vec<usize>,
    names: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    /// A value of the column that is at this position of `columns`.
    Value(usize),
}

impl Pattern {
    /// Reads a pattern over columns of `schema`.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] naming what is wrong with the pattern.
    pub(super) fn parse(text: &str, schema: &Schema) -> Result<Self> {
        let wrong = |why: &str| {
            Error::configuration(format!(
                "option 'sink.destination' cannot be '{text}': {why}; it is a table's name with \
                 columns in braces, such as 'project.dataset.orders_{{tenant}}'"
            ))
        };
        let mut pattern = Pattern {
            text: text.to_string(),
            segments: [const { Vec::new() }; 3],
            columns: Vec::new(),
            names: Vec::new(),
        };
        let mut segments: Vec<Vec<Piece>> = vec![Vec::new()];
        let mut rest = text;
        while let Some(end) = rest.find(['{', '}', '.']) {
            let (before, after) = rest.split_at(end);
            if !before.is_empty() {
                push(&mut segments, Piece::Text(before.to_string()));
            }
            if let Some(after) = after.strip_prefix('.') {
                segments.push(Vec::new());
                rest = after;
                continue;
            }
            let inner = after
                .strip_prefix('{')
                .ok_or_else(|| wrong("a brace is not opened"))?;
            let (name, after) = inner
                .split_once('}')
                .ok_or_else(|| wrong("a brace is not closed"))?;
            let column = pattern
                .column(name, schema)
                .ok_or_else(|| wrong(&format!("'{name}' is no column of the rows")))?;
            push(&mut segments, Piece::Value(column));
            rest = after;
        }
        if !rest.is_empty() {
            push(&mut segments, Piece::Text(rest.to_string()));
        }
        // A project may have a dot in it, which is written before a colon.
        while segments.len() > 3 {
            let second = segments.remove(1);
            segments[0].push(Piece::Text(".".to_string()));
            segments[0].extend(second);
        }
        pattern.segments = segments
            .try_into()
            .map_err(|_| wrong("it has not the parts project.dataset.table"))?;
        if pattern.columns.is_empty() {
            return Err(wrong("it names no column"));
        }
        let sample = vec!["0".to_string(); pattern.columns.len()];
        pattern
            .table(&sample)
            .map_err(|error| wrong(error.message()))?;
        Ok(pattern)
    }

    /// Columns are found without regard to case.
    fn column(&mut self, name: &str, schema: &Schema) -> Option<usize> {
        let lower = name.to_lowercase();
        let fields = schema.fields();
        let at = fields
            .iter()
            .position(|field| field.name() == name)
            .or_else(|| {
                fields
                    .iter()
                    .position(|field| field.name().to_lowercase() == lower)
            })?;
        if let Some(known) = self.columns.iter().position(|column| *column == at) {
            return Some(known);
        }
        self.columns.push(at);
        self.names.push(fields[at].name().clone());
        Some(self.columns.len() - 1)
    }

    fn table(&self, values: &[String]) -> Result<TableRef> {
        let [project, dataset, table] = &self.segments;
        let text = |pieces: &[Piece]| -> String {
            pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Text(text) => text.as_str(),
                    Piece::Value(at) => values[*at].as_str(),
                })
                .collect()
        };
        let table = TableRef::new(text(project), text(dataset), text(table))?;
        match table.is_wildcard() {
            false => Ok(table),
            true => Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("'{}' means several tables", table.table),
            )),
        }
    }

    /// The tables of a batch: names are made once for each set of values in it.
    fn groups(&self, batch: &RecordBatch) -> Result<Groups> {
        let keys: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|column| Arc::clone(batch.column(*column)))
            .collect();
        let fields = keys
            .iter()
            .map(|key| SortField::new(key.data_type().clone()))
            .collect();
        let converter = RowConverter::new(fields).map_err(|error| self.unusable(&error))?;
        let rows = converter
            .convert_columns(&keys)
            .map_err(|error| self.unusable(&error))?;
        let options = FormatOptions::default();
        let formatters = keys
            .iter()
            .map(|key| ArrayFormatter::try_new(key.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| self.unusable(&error))?;
        let nulls: Vec<_> = keys.iter().map(|key| key.logical_nulls()).collect();
        let mut known: HashMap<&[u8], usize> = HashMap::new();
        let mut groups = Vec::new();
        let mut of_row = Vec::with_capacity(batch.num_rows());
        let keys: Vec<_> = rows.iter().collect();
        for (at, key) in keys.iter().enumerate() {
            let group = *known.entry(key.data()).or_insert_with(|| {
                let null = nulls
                    .iter()
                    .position(|nulls| nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)));
                groups.push(match null {
                    Some(column) => Resolution::Unroutable {
                        payload: String::new(),
                        reason: format!(
                            "its column '{}' is NULL, and names no table of '{}'",
                            self.names[column], self.text
                        ),
                    },
                    None => {
                        let values: Vec<_> = formatters
                            .iter()
                            .map(|formatter| formatter.value(at).to_string())
                            .collect();
                        match self.table(&values) {
                            Ok(table) => Resolution::Destination(table),
                            Err(error) => Resolution::Unroutable {
                                payload: String::new(),
                                reason: format!(
                                    "its values make no name of '{}': {}",
                                    self.text,
                                    error.message()
                                ),
                            },
                        }
                    }
                });
                groups.len() - 1
            });
            of_row.push(group);
        }
        Ok((groups, of_row))
    }

    fn unusable(&self, error: &arrow::error::ArrowError) -> Error {
        Error::configuration(format!(
            "option 'sink.destination' '{}' names a column whose values make no names: {error}",
            self.text
        ))
    }
}

fn push(segments: &mut [Vec<Piece>], piece: Piece) {
    if let Some(last) = segments.last_mut() {
        last.push(piece);
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Int64Type};

    use super::super::numbered::RowNumbers;
    use super::*;

    fn batch() -> RecordBatch {
        let tenants = StringArray::from(vec![
            Some("a"),
            Some("b"),
            None,
            Some("a"),
            Some("x.y"),
            Some("c*"),
            Some("b"),
        ]);
        let ids = Int64Array::from_iter_values(0..7);
        let schema = Schema::new(vec![
            Field::new("Tenant", DataType::Utf8, true),
            Field::new("id", DataType::Int64, false),
        ]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(tenants), Arc::new(ids)]).unwrap()
    }

    fn ids(batch: &RecordBatch) -> Vec<i64> {
        batch
            .column(1)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    }

    fn shown(routed: &Routed) -> Vec<(String, Vec<i64>)> {
        let tables = routed.tables.iter();
        tables
            .map(|(table, rows)| (table.to_string(), ids(&rows.rows)))
            .collect()
    }

    /// The rows as the first of a task.
    fn first(rows: RecordBatch) -> Numbered {
        let numbers = RowNumbers::from(1);
        Numbered { rows, numbers }
    }

    #[test]
    fn a_pattern_gives_each_row_to_its_table_in_order() {
        let batch = batch();
        let pattern = Pattern::parse("p.d.orders_{tenant}", &batch.schema()).unwrap();
        let routed = Route::Pattern(pattern).split(first(batch)).unwrap();
        let numbers = &routed.tables[1].1.numbers;
        assert_eq!((numbers.of(0), numbers.of(1)), (2, 7));
        assert_eq!(
            shown(&routed),
            [
                ("p.d.orders_a".to_string(), vec![0, 3]),
                ("p.d.orders_b".to_string(), vec![1, 6]),
            ]
        );
        let reasons: Vec<(u64, &str)> = routed
            .unroutable
            .iter()
            .map(|failed| (failed.row, failed.message.as_str()))
            .collect();
        assert_eq!(reasons.len(), 3);
        for ((row, reason), (wanted, part)) in
            reasons
                .iter()
                .zip([(3, "'Tenant' is NULL"), (5, "x.y"), (6, "several tables")])
        {
            assert_eq!(*row, wanted);
            assert!(reason.contains(part), "{part}: {reason}");
        }
    }

    #[test]
    fn one_table_for_all_copies_nothing() {
        let batch = batch().slice(0, 1);
        let pattern = Pattern::parse("p.d_{TENANT}.t_{tenant}_{id}", &batch.schema()).unwrap();
        let routed = Route::Pattern(pattern).split(first(batch.clone())).unwrap();
        assert_eq!(shown(&routed), [("p.d_a.t_a_0".to_string(), vec![0])]);
        let before = batch.column(1).to_data().buffers()[0].as_ptr();
        let after = routed.tables[0].1.rows.column(1).to_data().buffers()[0].as_ptr();
        assert_eq!(before, after);
    }

    #[test]
    fn patterns_that_name_no_table_are_refused() {
        let schema = batch().schema();
        for (text, part) in [
            ("p.d.t", "names no column"),
            ("d.t_{tenant}", "project.dataset.table"),
            ("p.d.t_{nope}", "'nope' is no column"),
            ("p.d.t_{tenant", "not closed"),
            ("p.d.t_tenant}", "not opened"),
            ("p.d-x.t_{tenant}", "dataset id"),
        ] {
            let error = Pattern::parse(text, &schema).unwrap_err();
            assert!(error.message().contains(part), "{part}: {error}");
            assert!(error.message().contains("sink.destination"), "{error}");
        }
    }

    #[derive(Debug)]
    struct EvenAndOdd;

    impl DestinationResolver for EvenAndOdd {
        fn resolve(&self, batch: &RecordBatch) -> Result<Vec<Resolution>> {
            ids(batch)
                .into_iter()
                .map(|id| {
                    Ok(match id % 3 {
                        2 => Resolution::Unroutable {
                            payload: format!("row {id}"),
                            reason: "a third".into(),
                        },
                        rest => {
                            Resolution::Destination(TableRef::new("p", "d", format!("t{rest}"))?)
                        }
                    })
                })
                .collect()
        }
    }

    #[test]
    fn a_resolver_decides() {
        let routed = Route::Resolver(Arc::new(EvenAndOdd))
            .split(first(batch()))
            .unwrap();
        assert_eq!(
            shown(&routed),
            [
                ("p.d.t0".to_string(), vec![0, 3, 6]),
                ("p.d.t1".to_string(), vec![1, 4]),
            ]
        );
        let failed = &routed.unroutable[1];
        assert_eq!(failed.row, 6);
        assert_eq!(failed.content, Some(Content::Text("row 5".into())));
    }

    #[derive(Debug)]
    struct TooFew;

    impl DestinationResolver for TooFew {
        fn resolve(&self, _: &RecordBatch) -> Result<Vec<Resolution>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_resolver_that_forgets_rows_ends_the_write() {
        let error = Route::Resolver(Arc::new(TooFew))
            .split(first(batch()))
            .unwrap_err();
        assert!(error.message().contains("0 answers for 7 rows"), "{error}");
    }
}
