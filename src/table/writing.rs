//! What an INSERT writes to.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema};
use datafusion::catalog::Session;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::metadata::{LiveTable, SchemaTerms};
use super::provider::{BigQueryTable, State};
use crate::error::{Error, ErrorKind, Result};
use crate::options::BigQueryOptions;
use crate::sink::BigQuerySink;
use crate::types::TableSchema;
use crate::types::encode::{FieldMarks, RowEncoder, RowFormat};

impl BigQueryTable {
    /// Whether the sink takes values of this type for a column.
    pub(super) fn takes(&self, column: &str, data_type: &DataType) -> bool {
        let State::Live { found, .. } = &self.state else {
            return false;
        };
        let Some(column) = found.schema.field(column) else {
            return false;
        };
        let given = Schema::new(vec![ArrowField::new(&column.name, data_type.clone(), true)]);
        let column = TableSchema {
            fields: vec![column.clone()],
        };
        let marks = FieldMarks::default();
        RowEncoder::plan(&given, &column, RowFormat::Protobuf, &marks).is_ok()
    }

    /// What an INSERT of `input` writes to.
    pub(super) async fn sink(
        &self,
        session: &dyn Session,
        input: &Arc<dyn ExecutionPlan>,
        operation: InsertOp,
    ) -> Result<BigQuerySink> {
        let refuse = |why: &str| {
            Err(Error::new(
                ErrorKind::Unsupported,
                format!("inserting into {}: {why}", self.table),
            ))
        };
        match operation {
            InsertOp::Append => {}
            InsertOp::Overwrite => {
                return refuse(
                    "this version appends rows and does not replace any: delete them in BigQuery and \
                     use INSERT INTO",
                );
            }
            InsertOp::Replace => {
                return refuse(
                    "this version appends rows and does not replace any: use INSERT INTO",
                );
            }
        }
        let extensions = &session.config_options().extensions;
        if extensions.get::<BigQueryOptions>().is_none() {
            return refuse(
                "the session does not know BigQuery's INSERT, and would cast values to the \
                 table's types at any cost: make it by with_bigquery",
            );
        }
        if input.boundedness().is_unbounded() {
            return refuse("the input never ends, and this version commits at its end");
        }
        let options = self.options(session)?;
        let builder = BigQuerySink::builder(self.client.clone(), self.table.clone())
            .with_options(options.sink.clone());
        match &self.state {
            State::Live { found, .. } => {
                builder.build_for(&found.kind, &found.schema, input.schema())
            }
            State::Declared(declared) => {
                let found = match self.client.get_table(&self.table).await {
                    Ok(found) => found,
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        return Err(Error::new(
                            ErrorKind::NotFound,
                            format!(
                                "table {} does not exist, and this version does not create \
                                 tables: create it in BigQuery, then insert",
                                self.table
                            ),
                        )
                        .with_source(error));
                    }
                    Err(error) => return Err(error),
                };
                let terms = SchemaTerms::from(&options);
                let live = LiveTable::new(self.table.clone(), found.clone(), terms);
                live.check_declared(declared)?;
                builder.build_for(&found.kind, &found.schema, input.schema())
            }
        }
    }
}
