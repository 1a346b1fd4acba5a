//! Columns that are filled from messages, row by row, without a row ever being an
//! object of its own.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, NullBufferBuilder, StructArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field as ArrowField};

use super::convert::{Leaf, Taken};
use super::values::Place;
use super::wire::{Malformed, Reader, Wire};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, Mode, absent, arrow_field};

/// What is wrong with rows: the first thing of each.
#[derive(Debug, Default)]
pub(super) struct Errors {
    /// The row that is read.
    pub(super) row: usize,
    pub(super) found: Vec<(usize, String)>,
}

impl Errors {
    pub(super) fn add(&mut self, message: impl FnOnce() -> String) {
        if self.found.last().is_none_or(|(row, _)| *row != self.row) {
            self.found.push((self.row, message()));
        }
    }
}

/// Whether what a column is in is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parent {
    Present,
    /// It is NULL, so that what is missing in it is not missed.
    Null,
}

/// A column, or a field of a struct, or the elements of an array.
#[derive(Debug)]
pub(super) struct Column {
    path: String,
    arrow: ArrowField,
    required: bool,
    /// Whether the row that is read has a value.
    seen: bool,
    nulls: NullBufferBuilder,
    body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Leaf(Box<Leaf>),
    Record(Children),
    /// A record of `start` and `end`.
    Range(Children),
    List(Box<Column>, Vec<i32>),
    /// Not in the writer schema; so many positions.
    Absent(usize),
}

impl Body {
    pub(super) fn record(children: Children) -> Self {
        Self::Record(children)
    }

    pub(super) fn range(children: Children) -> Self {
        Self::Range(children)
    }

    pub(super) fn list(element: Column) -> Self {
        Self::List(Box::new(element), vec![0])
    }
}

impl Column {
    pub(super) fn new(field: &Field, path: String, body: Body) -> Self {
        Self {
            path,
            arrow: arrow_field(field),
            required: field.mode() == Mode::Required,
            seen: false,
            nulls: NullBufferBuilder::new(0),
            body,
        }
    }

    pub(super) fn absent(field: &Field, path: String) -> Self {
        Self::new(field, path, Body::Absent(0))
    }

    /// Says that every message has the field (`required` of proto2).
    pub(super) fn require(&mut self) {
        self.required = true;
    }

    /// Whether the row that is read has no value here.
    pub(super) fn is_missing(&self) -> bool {
        !self.seen
    }

    /// Takes a field of the message.
    #[inline]
    fn take(
        &mut self,
        number: u32,
        wire: Wire,
        reader: &mut Reader<'_>,
        errors: &mut Errors,
    ) -> std::result::Result<(), Malformed> {
        match &mut self.body {
            Body::Leaf(leaf) => {
                let place = if self.seen { Place::Last } else { Place::Next };
                match leaf.read(number, wire, reader, place)? {
                    Taken::Value => self.seen = true,
                    Taken::Unknown => {}
                    Taken::Unfit(message) => {
                        self.seen = true;
                        errors.add(|| message);
                    }
                }
                Ok(())
            }
            Body::Record(children) | Body::Range(children) => {
                if wire != Wire::Length {
                    return reader.skip(number, wire);
                }
                let bytes = reader.slice()?;
                self.seen = true;
                children.decode(bytes, errors)
            }
            Body::List(element, _) => {
                self.seen = true;
                element.take_element(number, wire, reader, errors)
            }
            Body::Absent(_) => reader.skip(number, wire),
        }
    }

    /// Takes one element of a repeated field, or several packed ones.
    fn take_element(
        &mut self,
        number: u32,
        wire: Wire,
        reader: &mut Reader<'_>,
        errors: &mut Errors,
    ) -> std::result::Result<(), Malformed> {
        let mut packed = match &self.body {
            Body::Leaf(leaf) if leaf.is_packed(wire) => Reader::new(reader.slice()?),
            Body::Leaf(_) | Body::Record(_) | Body::Range(_) => {
                let taken = self.take(number, wire, reader, errors);
                if self.seen {
                    self.finish_row(Parent::Present, errors);
                }
                return taken;
            }
            Body::List(..) | Body::Absent(_) => return reader.skip(number, wire),
        };
        while !packed.is_empty() {
            let Body::Leaf(leaf) = &mut self.body else {
                return Ok(());
            };
            match leaf.read_packed(&mut packed)? {
                Taken::Value => self.nulls.append_non_null(),
                Taken::Unknown => {}
                Taken::Unfit(message) => {
                    self.nulls.append_non_null();
                    errors.add(|| message);
                }
            }
        }
        Ok(())
    }

    /// Ends a row: what was not there is NULL, or an empty array.
    pub(super) fn finish_row(&mut self, parent: Parent, errors: &mut Errors) {
        let seen = std::mem::take(&mut self.seen);
        if !seen && self.required && parent == Parent::Present {
            errors.add(|| format!("Field {} is required but has no value.", self.path));
        }
        match &mut self.body {
            Body::Leaf(leaf) => {
                if seen {
                    self.nulls.append_non_null();
                } else {
                    leaf.values.put_zero();
                    self.nulls.append_null();
                }
            }
            Body::Record(children) => {
                self.nulls.append(seen);
                children.finish_row(if seen { Parent::Present } else { Parent::Null }, errors);
            }
            Body::Range(children) => {
                self.nulls.append(seen);
                if let [start, end] = children.columns.as_slice()
                    && start.seen
                    && end.seen
                    && start.last_int() >= end.last_int()
                {
                    errors.add(|| {
                        format!(
                            "Field {}: Range start element must be less than range end element",
                            self.path
                        )
                    });
                }
                children.finish_row(Parent::Null, errors);
            }
            Body::List(element, offsets) => {
                let end = i32::try_from(element.len()).unwrap_or(i32::MAX);
                offsets.push(end);
            }
            Body::Absent(rows) => *rows += 1,
        }
    }

    /// The value that the row which is read has here, if it is text.
    pub(super) fn text(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Leaf(leaf) if self.seen => leaf.values.last_bytes(),
            _ => None,
        }
    }

    fn last_int(&self) -> Option<i64> {
        match &self.body {
            Body::Leaf(leaf) => leaf.values.last_int(),
            _ => None,
        }
    }

    fn len(&self) -> usize {
        match &self.body {
            Body::List(_, offsets) => offsets.len() - 1,
            Body::Absent(rows) => *rows,
            Body::Leaf(_) | Body::Record(_) | Body::Range(_) => self.nulls.len(),
        }
    }

    /// The values of all rows; none are left.
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        let rows = self.len();
        let data_type = self.arrow.data_type();
        match &mut self.body {
            Body::Leaf(leaf) => leaf.values.finish(data_type, self.nulls.finish()),
            Body::Record(children) | Body::Range(children) => {
                let DataType::Struct(fields) = data_type else {
                    return Err(ServiceError::internal("a record that is no Arrow struct"));
                };
                StructArray::try_new_with_length(
                    fields.clone(),
                    children.finish()?,
                    self.nulls.finish(),
                    rows,
                )
                .map(|array| Arc::new(array) as ArrayRef)
                .map_err(wrong)
            }
            Body::List(element, offsets) => {
                let DataType::List(item) = data_type else {
                    return Err(ServiceError::internal("an array that is no Arrow list"));
                };
                let offsets = std::mem::replace(offsets, vec![0]);
                ListArray::try_new(
                    Arc::clone(item),
                    OffsetBuffer::new(ScalarBuffer::from(offsets)),
                    element.finish()?,
                    None,
                )
                .map(|array| Arc::new(array) as ArrayRef)
                .map_err(wrong)
            }
            Body::Absent(rows) => Ok(absent(&self.arrow, std::mem::take(rows))),
        }
    }
}

fn wrong(error: arrow::error::ArrowError) -> ServiceError {
    ServiceError::internal(format!("appended rows: {error}"))
}

/// Field numbers up to this are looked up by position.
const DENSE: u32 = 512;

/// The columns of a message.
#[derive(Debug)]
pub(super) struct Children {
    pub(super) columns: Vec<Column>,
    /// One more than the column of each small field number; 0 for none.
    dense: Vec<u16>,
    sparse: HashMap<u32, usize>,
}

impl Children {
    /// `numbers` gives the columns that messages fill.
    pub(super) fn new(columns: Vec<Column>, numbers: Vec<(u32, usize)>) -> Self {
        let mut dense = Vec::new();
        let mut sparse = HashMap::new();
        for (number, column) in numbers {
            match u16::try_from(column + 1) {
                Ok(place) if number < DENSE => {
                    let at = usize::try_from(number).unwrap_or(0);
                    if dense.len() <= at {
                        dense.resize(at + 1, 0);
                    }
                    dense[at] = place;
                }
                _ => {
                    sparse.insert(number, column);
                }
            }
        }
        Self {
            columns,
            dense,
            sparse,
        }
    }

    #[inline]
    fn column(&mut self, number: u32) -> Option<&mut Column> {
        let near = usize::try_from(number).ok().and_then(|n| self.dense.get(n));
        let at = match near {
            Some(&place) if place > 0 => usize::from(place) - 1,
            _ => *self.sparse.get(&number)?,
        };
        self.columns.get_mut(at)
    }

    /// Takes the fields of a message.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        errors: &mut Errors,
    ) -> std::result::Result<(), Malformed> {
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.tag()? {
            match self.column(number) {
                Some(column) => column.take(number, wire, &mut reader, errors)?,
                None => reader.skip(number, wire)?,
            }
        }
        Ok(())
    }

    pub(super) fn finish_row(&mut self, parent: Parent, errors: &mut Errors) {
        for column in &mut self.columns {
            column.finish_row(parent, errors);
        }
    }

    pub(super) fn finish(&mut self) -> Result<Vec<ArrayRef>> {
        self.columns.iter_mut().map(Column::finish).collect()
    }
}
