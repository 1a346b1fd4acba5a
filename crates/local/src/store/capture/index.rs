//! Where the rows of each key are, and which change of it was the last.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Int64Type, SchemaRef};
use arrow::row::{RowConverter, SortField};

use super::{
    AT, ChangedRows, Changes, Earlier, Log, SEQUENCE, Sequence, TOMBSTONE_MICROS, log_schema,
    log_segment, unfit,
};
use crate::error::{Result, ServiceError};
use crate::schema::{TableSchema, adapt_batch, arrow_schema};
use crate::store::life::{Life, position};
use crate::store::segment::Segment;

/// A log is not written anew for fewer past entries than this.
const LOG_SLACK: usize = 8 << 10;

/// The rows and the newest change of every key.
#[derive(Debug)]
pub(in crate::store) struct KeyIndex {
    /// Names of the key's columns.
    key: Vec<String>,
    schema: SchemaRef,
    converter: RowConverter,
    /// Segments whose live rows are in the index.
    segments: HashSet<u64>,
    entries: HashMap<Box<[u8]>, Entry>,
    /// Rows of keys that have more than one, which plain appends bring.
    further: HashMap<Box<[u8]>, Vec<Place>>,
    /// Segments that were put together: in which they are, and from which row on.
    moved: HashMap<u64, (u64, u32)>,
    /// What the changes that were planned last mean, for when they are applied.
    planned: Vec<(Box<[u8]>, Planned)>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    segment: u64,
    row: u32,
}

/// A key. Without a row it was deleted.
#[derive(Debug, Default)]
struct Entry {
    sequence: Sequence,
    /// When the newest change came, in microseconds since the epoch.
    at: i64,
    place: Option<Place>,
}

#[derive(Debug)]
struct Planned {
    sequence: Sequence,
    at: i64,
    /// Number of the key's row among those that come.
    row: Option<usize>,
}

impl KeyIndex {
    /// The index of what is stored.
    pub(in crate::store) fn of(
        key: &[String],
        columns: &TableSchema,
        lives: &[Life],
        log: &Log,
    ) -> Result<Self> {
        let fields = key
            .iter()
            .map(|name| {
                let at = columns.index_of(name).ok_or_else(|| {
                    ServiceError::internal(format!("the key's column {name} does not exist"))
                })?;
                Ok(columns.fields[at].clone())
            })
            .collect::<Result<_>>()?;
        let schema = arrow_schema(&TableSchema { fields });
        let sorted = schema.fields().iter();
        let sorted = sorted.map(|field| SortField::new(field.data_type().clone()));
        let mut index = Self {
            key: key.to_vec(),
            converter: RowConverter::new(sorted.collect()).map_err(unfit)?,
            schema,
            segments: HashSet::new(),
            entries: HashMap::new(),
            further: HashMap::new(),
            moved: HashMap::new(),
            planned: Vec::new(),
        };
        for segment in log.segments() {
            index.read_log(segment)?;
        }
        index.follow(lives)?;
        Ok(index)
    }

    /// Whether [`Self::follow`] is enough to know what is stored: the key is the same,
    /// and no rows went by another way than a change.
    pub(in crate::store) fn can_follow(&self, key: &[String], lives: &[Life]) -> bool {
        let live = lives.iter().filter(|life| life.to.is_none());
        let known = live.filter(|life| self.segments.contains(&life.id)).count();
        self.key == key && known == self.segments.len()
    }

    /// Takes note of rows that came by another way than a change.
    pub(in crate::store) fn follow(&mut self, lives: &[Life]) -> Result<()> {
        for life in lives.iter().filter(|life| life.to.is_none()) {
            if self.segments.contains(&life.id) {
                continue;
            }
            let kept = life.kept(i64::MAX, life.segment.rows());
            let wanted = |name: &str| self.key.iter().any(|key| key.eq_ignore_ascii_case(name));
            let mut at = 0;
            for batch in life.segment.columns(&wanted)? {
                let batch = adapt_batch(&batch?, &self.schema)?;
                let keys = self
                    .converter
                    .convert_columns(batch.columns())
                    .map_err(unfit)?;
                for key in &keys {
                    let place = Place {
                        segment: life.id,
                        row: position(at),
                    };
                    if kept.value(at) {
                        put(&mut self.entries, &mut self.further, key.as_ref(), place);
                    }
                    at += 1;
                }
            }
            self.segments.insert(life.id);
        }
        Ok(())
    }

    fn read_log(&mut self, segment: &Segment) -> Result<()> {
        for batch in segment.reader()? {
            let batch = batch?;
            let own = batch.schema();
            let known = |name: &String| own.column_with_name(name).is_some();
            // The log of another key orders nothing under this one.
            if !self.schema.fields().iter().all(|field| known(field.name())) {
                continue;
            }
            let batch = adapt_batch(&batch, &log_schema(&self.schema))?;
            let count = self.schema.fields().len();
            let keys = self
                .converter
                .convert_columns(&batch.columns()[..count])
                .map_err(unfit)?;
            let sequences = batch[SEQUENCE].as_binary::<i32>();
            let at = batch[AT].as_primitive::<Int64Type>();
            for (i, key) in keys.iter().enumerate() {
                let entry = Entry {
                    sequence: sequences.value(i).into(),
                    at: at.value(i),
                    place: None,
                };
                self.entries.insert(key.as_ref().into(), entry);
            }
        }
        Ok(())
    }

    /// Decides which of the changes win and what they do. They are expected to be
    /// applied next; otherwise the next plan forgets these.
    pub(in crate::store) fn plan(
        &mut self,
        changes: &Changes,
        log: &Log,
        partition: Option<i64>,
        now: i64,
    ) -> Result<Option<ChangedRows>> {
        let columns = self.key_columns(changes)?;
        let keys = self.converter.convert_columns(&columns).map_err(unfit)?;
        let mut winners: HashMap<&[u8], usize> = HashMap::new();
        for (i, sequence) in changes.sequences.iter().enumerate() {
            let key = keys.row(i).data();
            let newest: &[u8] = match winners.get(key) {
                Some(winner) => &changes.sequences[*winner],
                None => match self.entries.get(key) {
                    Some(entry) if !entry.is_forgotten(now) => &entry.sequence,
                    _ => &[],
                },
            };
            if **sequence >= *newest {
                winners.insert(key, i);
            }
        }
        let mut winners: Vec<(&[u8], usize)> = winners.into_iter().collect();
        winners.sort_unstable_by_key(|(_, change)| *change);
        if winners.is_empty() {
            return Ok(None);
        }
        let mut removed: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        let (mut upserted, mut logged) = (Vec::new(), Vec::new());
        self.planned.clear();
        for (key, change) in winners {
            for place in self.places(key) {
                removed.entry(place.segment).or_default().push(place.row);
            }
            let row = (!changes.deleted[change]).then_some(upserted.len());
            if row.is_some() {
                upserted.push(position(change));
            }
            let sequence = changes.sequences[change].clone();
            if !sequence.is_empty() {
                logged.push(change);
            }
            self.planned.push((
                key.into(),
                Planned {
                    sequence,
                    at: now,
                    row,
                },
            ));
        }
        let rows = match upserted.is_empty() {
            true => Vec::new(),
            false => {
                let upserted = UInt32Array::from(upserted);
                let columns = picked(&changes.columns, &upserted)?;
                let batch = RecordBatch::try_new(changes.schema.clone(), columns);
                vec![Segment::in_memory(vec![batch.map_err(unfit)?], partition)]
            }
        };
        let past = log.entries().saturating_sub(self.entries.len());
        let (log, earlier) = if past > self.entries.len() + LOG_SLACK {
            (self.whole_log(now)?, Earlier::Replaced)
        } else if logged.is_empty() {
            (Vec::new(), Earlier::Kept)
        } else {
            let indices: Vec<u32> = logged.iter().map(|change| position(*change)).collect();
            let sequences: Vec<&[u8]> = logged.iter().map(|c| &*changes.sequences[*c]).collect();
            let deleted = logged.iter().map(|c| changes.deleted[*c]).collect();
            let keys = picked(&columns, &UInt32Array::from(indices))?;
            let at = vec![now; logged.len()];
            let segment = log_segment(&self.schema, keys, &sequences, deleted, at)?;
            (vec![segment], Earlier::Kept)
        };
        Ok(Some(ChangedRows {
            removed: removed.into_iter().collect(),
            rows,
            log,
            earlier,
        }))
    }

    /// The changes of the last plan are applied: their rows are in segments of these
    /// ids and numbers of rows.
    pub(in crate::store) fn settle(&mut self, segments: &[(u64, usize)], gone: &[u64]) {
        for (key, planned) in std::mem::take(&mut self.planned) {
            self.further.remove(&key);
            let place = planned.row.and_then(|row| place_of(segments, row));
            if place.is_none() && planned.sequence.is_empty() {
                self.entries.remove(&key);
                continue;
            }
            let entry = Entry {
                sequence: planned.sequence,
                at: planned.at,
                place,
            };
            self.entries.insert(key, entry);
        }
        self.segments.extend(segments.iter().map(|(id, _)| *id));
        for id in gone {
            self.segments.remove(id);
        }
    }

    /// Segments were put together: each with its number of rows.
    pub(in crate::store) fn merged(&mut self, parts: &[(u64, usize)], into: u64) {
        if !parts.iter().all(|(id, _)| self.segments.remove(id)) {
            // Some are not known here, so neither is what they became.
            return;
        }
        let mut first = 0;
        for (id, rows) in parts {
            self.moved.insert(*id, (into, first));
            first += position(*rows);
        }
        self.segments.insert(into);
    }

    fn places(&self, key: &[u8]) -> impl Iterator<Item = Place> {
        let first = self.entries.get(key).and_then(|entry| entry.place);
        let further = self.further.get(key).into_iter().flatten().copied();
        first.into_iter().chain(further).map(|mut place| {
            while let Some((into, first)) = self.moved.get(&place.segment) {
                place = Place {
                    segment: *into,
                    row: place.row + first,
                };
            }
            place
        })
    }

    fn key_columns(&self, changes: &Changes) -> Result<Vec<ArrayRef>> {
        let fields = self.schema.fields().iter();
        fields
            .map(|field| {
                let names = changes.schema.fields().iter();
                let mut at = names.map(|f| f.name().eq_ignore_ascii_case(field.name()));
                let at = at.position(|same| same).ok_or_else(|| {
                    ServiceError::internal(format!(
                        "changes lack the key's column {}",
                        field.name()
                    ))
                })?;
                Ok(changes.columns[at].clone())
            })
            .collect()
    }

    /// Every number that still decides, those of the plan included.
    fn whole_log(&self, now: i64) -> Result<Vec<Segment>> {
        let planned: HashMap<&[u8], &Planned> = self
            .planned
            .iter()
            .map(|(key, planned)| (&**key, planned))
            .collect();
        let mut keys: Vec<&[u8]> = Vec::new();
        let mut sequences: Vec<&[u8]> = Vec::new();
        let (mut deleted, mut at) = (Vec::new(), Vec::new());
        let mut add = |key, sequence, of, row: bool| {
            keys.push(key);
            sequences.push(sequence);
            at.push(of);
            deleted.push(!row);
        };
        for (key, entry) in &self.entries {
            let decides = !entry.sequence.is_empty() && !entry.is_forgotten(now);
            if decides && !planned.contains_key(&**key) {
                add(&**key, &*entry.sequence, entry.at, entry.place.is_some());
            }
        }
        for (key, planned) in &self.planned {
            if !planned.sequence.is_empty() {
                add(
                    &**key,
                    &*planned.sequence,
                    planned.at,
                    planned.row.is_some(),
                );
            }
        }
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let parser = self.converter.parser();
        let rows = keys.iter().map(|key| parser.parse(key));
        let columns = self.converter.convert_rows(rows).map_err(unfit)?;
        log_segment(&self.schema, columns, &sequences, deleted, at).map(|segment| vec![segment])
    }
}

impl Entry {
    /// Whether it is of a key whose deletion was long ago.
    fn is_forgotten(&self, now: i64) -> bool {
        self.place.is_none() && self.at < now.saturating_sub(TOMBSTONE_MICROS)
    }
}

fn put(
    entries: &mut HashMap<Box<[u8]>, Entry>,
    further: &mut HashMap<Box<[u8]>, Vec<Place>>,
    key: &[u8],
    place: Place,
) {
    match entries.get_mut(key) {
        Some(entry) if entry.place.is_some() => further.entry(key.into()).or_default().push(place),
        Some(entry) => entry.place = Some(place),
        None => {
            let entry = Entry {
                place: Some(place),
                ..Entry::default()
            };
            entries.insert(key.into(), entry);
        }
    }
}

fn place_of(segments: &[(u64, usize)], row: usize) -> Option<Place> {
    let mut left = row;
    for (segment, rows) in segments {
        if left < *rows {
            return Some(Place {
                segment: *segment,
                row: position(left),
            });
        }
        left -= rows;
    }
    None
}

fn picked(columns: &[ArrayRef], rows: &UInt32Array) -> Result<Vec<ArrayRef>> {
    let columns = columns.iter();
    columns
        .map(|column| take(column, rows, None).map_err(unfit))
        .collect()
}
