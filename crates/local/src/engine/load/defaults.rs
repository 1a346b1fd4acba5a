//! Values of columns that files lack.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field as ArrowField, Schema};

use super::Loaded;
use crate::engine::column_default;
use crate::error::{Result, ServiceError};
use crate::schema::{Field, TableSchema};
use crate::server::Service;
use crate::value::build::{Cell, ColumnBuilder};

/// Defaults by lower-case name, evaluated once per job.
#[derive(Debug, Default)]
pub struct Defaults(HashMap<String, Cell>);

impl Defaults {
    /// Evaluates the defaults of those columns that have one.
    pub async fn of<'a>(
        service: &Arc<Service>,
        fields: impl Iterator<Item = &'a Field> + Send,
    ) -> Result<Self> {
        let mut cells = HashMap::new();
        for field in fields {
            if field.default_value_expression.is_some() {
                let cell = column_default(service, field).await?;
                cells.insert(field.name.to_ascii_lowercase(), cell);
            }
        }
        Ok(Self(cells))
    }

    /// The default of each column of `schema`.
    pub(super) fn in_order(&self, schema: &TableSchema) -> Vec<Option<Cell>> {
        schema
            .fields
            .iter()
            .map(|field| self.get(&field.name).cloned())
            .collect()
    }

    fn get(&self, name: &str) -> Option<&Cell> {
        self.0.get(&name.to_ascii_lowercase())
    }
}

impl Loaded {
    /// Whether the rows have no column of this name.
    pub fn lacks(&self, name: &str) -> bool {
        !self.batches.iter().any(|batch| {
            batch
                .schema_ref()
                .fields()
                .iter()
                .any(|f| f.name().eq_ignore_ascii_case(name))
        })
    }

    /// Adds the columns of `fields` that have a default and that the rows lack.
    pub fn fill(&mut self, fields: &[Field], defaults: &Defaults) -> Result<()> {
        for field in fields {
            let Some(cell) = defaults.get(&field.name) else {
                continue;
            };
            if self.schema.field(&field.name).is_none() {
                self.schema.fields.push(field.clone());
            }
            for batch in &mut self.batches {
                *batch = with_constant(batch, field, cell)?;
            }
        }
        Ok(())
    }
}

fn with_constant(batch: &RecordBatch, field: &Field, cell: &Cell) -> Result<RecordBatch> {
    let rows = batch.num_rows();
    let mut builder = ColumnBuilder::new(field);
    for _ in 0..rows {
        builder.push(cell.clone())?;
    }
    let column: ArrayRef = builder.finish()?;
    let mut arrow: Vec<Arc<ArrowField>> = batch.schema_ref().fields().iter().cloned().collect();
    arrow.push(Arc::new(ArrowField::new(
        &field.name,
        column.data_type().clone(),
        true,
    )));
    let mut columns = batch.columns().to_vec();
    columns.push(column);
    RecordBatch::try_new_with_options(
        Arc::new(Schema::new(arrow)),
        columns,
        &RecordBatchOptions::new().with_row_count(Some(rows)),
    )
    .map_err(|e| ServiceError::internal(format!("a default does not fit: {e}")))
}
