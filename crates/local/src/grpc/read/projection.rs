//! `selected_fields`: which columns and nested fields a session answers.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, ListArray, RecordBatch, RecordBatchOptions, StructArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field as ArrowField, SchemaRef};

use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, TableSchema, arrow_schema};
use crate::store::{TableKind, TableMeta};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// The pseudo columns of an ingestion-time partitioned table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PseudoColumn {
    /// `_PARTITIONTIME`, TIMESTAMP.
    PartitionTime,
    /// `_PARTITIONDATE`, DATE; daily tables only.
    PartitionDate,
}

impl PseudoColumn {
    /// The pseudo column called `name` that a table with `meta` has.
    fn named(name: &str, meta: &TableMeta) -> Option<Self> {
        let partitioning = meta.time_partitioning.as_ref()?;
        if partitioning.field.is_some() || meta.kind != TableKind::Table {
            return None;
        }
        if name.eq_ignore_ascii_case("_PARTITIONTIME") {
            Some(PseudoColumn::PartitionTime)
        } else if name.eq_ignore_ascii_case("_PARTITIONDATE")
            && partitioning.granularity.eq_ignore_ascii_case("DAY")
        {
            Some(PseudoColumn::PartitionDate)
        } else {
            None
        }
    }

    fn field(self) -> Field {
        match self {
            PseudoColumn::PartitionTime => Field::new("_PARTITIONTIME", FieldType::Timestamp),
            PseudoColumn::PartitionDate => Field::new("_PARTITIONDATE", FieldType::Date),
        }
    }

    /// `rows` times the value in the partition that starts at `partition`.
    fn array(self, partition: Option<i64>, rows: usize) -> ArrayRef {
        match self {
            PseudoColumn::PartitionTime => Arc::new(
                TimestampMicrosecondArray::from(vec![partition; rows]).with_timezone("UTC"),
            ),
            PseudoColumn::PartitionDate => {
                let day = partition.and_then(|p| i32::try_from(p.div_euclid(MICROS_PER_DAY)).ok());
                Arc::new(Date32Array::from(vec![day; rows]))
            }
        }
    }
}

/// Which of a struct's fields are taken, by position, and of which of those only
/// a part is.
type Parts = Vec<(usize, Pick)>;

/// How much of a value is taken.
#[derive(Debug, Clone, PartialEq)]
enum Pick {
    /// All of it.
    Whole,
    /// Some fields of a struct, or of every struct in an array.
    Fields(Parts),
}

#[derive(Debug, Clone, PartialEq)]
enum Source {
    Column(usize, Pick),
    Pseudo(PseudoColumn),
}

/// What a session answers, of a table with a given schema.
#[derive(Debug, Clone)]
pub(super) struct Projection {
    /// BigQuery schema of the answer.
    pub(super) schema: Arc<TableSchema>,
    /// Its Arrow form.
    pub(super) arrow: SchemaRef,
    sources: Vec<Source>,
}

impl Projection {
    /// Resolves `selected`; the result is in table order, and an empty list is
    /// every column. A pseudo column that is named comes last.
    pub(super) fn resolve(
        table: &TableSchema,
        meta: &TableMeta,
        selected: &[String],
    ) -> Result<Self> {
        let mut pseudo = Vec::new();
        let mut wanted = Wanted::default();
        for path in selected {
            let segments: Vec<&str> = path.split('.').map(unquote).collect();
            if let [name] = segments[..]
                && table.field(name).is_none()
                && let Some(column) = PseudoColumn::named(name, meta)
            {
                if !pseudo.contains(&column) {
                    pseudo.push(column);
                }
                continue;
            }
            wanted.add(&table.fields, &segments, path)?;
        }
        let mut fields = Vec::new();
        let mut sources = Vec::new();
        for (i, field) in table.fields.iter().enumerate() {
            if selected.is_empty() {
                fields.push(field.clone());
                sources.push(Source::Column(i, Pick::Whole));
            } else if let Some(child) = wanted.child(i) {
                let (field, pick) = child.apply(field);
                fields.push(field);
                sources.push(Source::Column(i, pick));
            }
        }
        for column in pseudo {
            fields.push(column.field());
            sources.push(Source::Pseudo(column));
        }
        let schema = TableSchema::new(fields);
        Ok(Self {
            arrow: arrow_schema(&schema),
            schema: Arc::new(schema),
            sources,
        })
    }

    /// Takes this projection of rows in the table's Arrow form. `partition` is
    /// the start of the ingestion-time partition that holds them.
    pub(super) fn apply(&self, batch: &RecordBatch, partition: Option<i64>) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns = self
            .sources
            .iter()
            .zip(self.arrow.fields())
            .map(|(source, field)| match source {
                Source::Column(i, pick) => project(batch.column(*i), pick, field),
                Source::Pseudo(column) => Ok(column.array(partition, rows)),
            })
            .collect::<Result<Vec<_>>>()?;
        RecordBatch::try_new_with_options(
            Arc::clone(&self.arrow),
            columns,
            &RecordBatchOptions::new().with_row_count(Some(rows)),
        )
        .map_err(misfit)
    }
}

fn misfit(e: arrow::error::ArrowError) -> ServiceError {
    ServiceError::internal(format!("stored rows do not fit their schema: {e}"))
}

fn unquote(segment: &str) -> &str {
    segment
        .strip_prefix('`')
        .and_then(|s| s.strip_suffix('`'))
        .unwrap_or(segment)
}

/// The selected part of one level of the schema.
#[derive(Debug, Default)]
struct Wanted {
    /// All fields below, whatever `children` say.
    whole: bool,
    children: Vec<(usize, Wanted)>,
}

impl Wanted {
    fn child(&self, index: usize) -> Option<&Wanted> {
        self.children
            .iter()
            .find(|(i, _)| *i == index)
            .map(|(_, w)| w)
    }

    fn add(&mut self, fields: &[Field], segments: &[&str], path: &str) -> Result<()> {
        let unknown = || {
            ServiceError::invalid(format!(
                "request failed: The following selected fields do not exist in the table schema: {path}"
            ))
        };
        let Some((name, rest)) = segments.split_first() else {
            self.whole = true;
            return Ok(());
        };
        let index = fields
            .iter()
            .position(|f| f.name.eq_ignore_ascii_case(name))
            .ok_or_else(unknown)?;
        let position = match self.children.iter().position(|(i, _)| *i == index) {
            Some(p) => p,
            None => {
                self.children.push((index, Wanted::default()));
                self.children.len() - 1
            }
        };
        self.children[position]
            .1
            .add(fields[index].fields(), rest, path)
    }

    /// The field reduced to the wanted part, and how to take that part.
    fn apply(&self, field: &Field) -> (Field, Pick) {
        let FieldType::Struct(fields) = &field.field_type else {
            return (field.clone(), Pick::Whole);
        };
        if self.whole {
            return (field.clone(), Pick::Whole);
        }
        let mut kept = Vec::new();
        let mut parts = Vec::new();
        for (i, child) in fields.iter().enumerate() {
            if let Some(wanted) = self.child(i) {
                let (field, pick) = wanted.apply(child);
                kept.push(field);
                parts.push((i, pick));
            }
        }
        let mut reduced = field.clone();
        reduced.field_type = FieldType::Struct(kept);
        (reduced, Pick::Fields(parts))
    }
}

fn project(array: &ArrayRef, pick: &Pick, field: &ArrowField) -> Result<ArrayRef> {
    let Pick::Fields(parts) = pick else {
        return Ok(Arc::clone(array));
    };
    match field.data_type() {
        DataType::Struct(targets) => {
            let array = array.as_struct();
            let columns = parts
                .iter()
                .zip(targets)
                .map(|((i, pick), target)| project(array.column(*i), pick, target))
                .collect::<Result<Vec<_>>>()?;
            StructArray::try_new_with_length(
                targets.clone(),
                columns,
                array.nulls().cloned(),
                array.len(),
            )
            .map(|a| Arc::new(a) as ArrayRef)
            .map_err(misfit)
        }
        DataType::List(item) => {
            let array = array.as_list::<i32>();
            let values = project(array.values(), pick, item)?;
            ListArray::try_new(
                Arc::clone(item),
                array.offsets().clone(),
                values,
                array.nulls().cloned(),
            )
            .map(|a| Arc::new(a) as ArrayRef)
            .map_err(misfit)
        }
        other => Err(ServiceError::internal(format!(
            "no part can be taken of a column of type {other}"
        ))),
    }
}
