//! What SQL says where it names a table, which DataFusion's own planner drops:
//! FOR SYSTEM_TIME AS OF and TABLESAMPLE. They are carried out or refused, for
//! every table of the session. And the table functions.

use std::sync::Arc;

use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Ident, ObjectName, TableFactor, TableSample, TableSampleKind,
    TableSampleMethod, TableSampleUnit, TableVersion,
};

use super::functions::Function;
use super::provider::BigQueryTable;
use super::shared::Shared;
use super::version::{Version, constant, instant};
use crate::error::{Error, ErrorKind};
use crate::options::BigQueryOptions;

/// A hint that no SQL can spell: the table factor has been here.
const SEEN: &str = "\u{0}seen";

/// Plans tables with what is said of them.
#[derive(Debug)]
pub(crate) struct BigQueryRelations {
    shared: Arc<Shared>,
}

impl BigQueryRelations {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn function(
        &self,
        function: Function,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table {
            args: Some(args),
            alias,
            version,
            sample,
            ..
        } = relation
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let provider = function.call(&self.shared, args, context)?;
        let name = TableReference::bare(format!("{}()", function.name()));
        let version = version_of(version, sample, context)?;
        let plan = LogicalPlanBuilder::scan(name, provider_as_source(provider), None)?.build()?;
        let plan = self.with_version(plan, version, function.name(), context)?;
        Ok(planned(plan, alias))
    }

    /// The plan of a table as its statement wants it.
    fn with_version(
        &self,
        plan: LogicalPlan,
        version: Version,
        name: &str,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let clause = match (&version.as_of, &version.sample) {
            (Some(_), _) => "FOR SYSTEM_TIME AS OF",
            (None, _) => "TABLESAMPLE",
        };
        let refuse = |plan: LogicalPlan| match version.is_plain() {
            true => Ok(plan),
            false => Err(Error::new(
                ErrorKind::Unsupported,
                format!("{clause} is for BigQuery tables, and {name} is none"),
            )
            .into()),
        };
        let LogicalPlan::TableScan(scan) = &plan else {
            return refuse(plan);
        };
        let Ok(provider) = source_as_provider(&scan.source) else {
            return refuse(plan);
        };
        let Some(table) = provider.downcast_ref::<BigQueryTable>() else {
            return refuse(plan);
        };
        let defaults = BigQueryOptions::of(context.context_provider().options());
        match table.named(version, &defaults)? {
            None => Ok(plan),
            Some(table) => {
                let source = provider_as_source(Arc::new(table));
                LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.build()
            }
        }
    }

    /// An error of a table that is not there, with the name that it may have.
    fn hint(&self, error: DataFusionError, name: &ObjectName) -> DataFusionError {
        let parts: Vec<&str> = name
            .0
            .iter()
            .filter_map(|part| part.as_ident().map(|ident| ident.value.as_str()))
            .collect();
        let [project, rest @ ..] = parts.as_slice() else {
            return error;
        };
        let is_plan = matches!(error.find_root(), DataFusionError::Plan(_));
        match self.shared.catalog_of(project) {
            Some(catalog) if is_plan && !rest.is_empty() => Error::new(
                ErrorKind::NotFound,
                format!(
                    "table {} not found: project {project} is the catalog {catalog}, so write \
                     {catalog}.{}",
                    parts.join("."),
                    rest.join(".")
                ),
            )
            .into(),
            _ => error,
        }
    }
}

impl RelationPlanner for BigQueryRelations {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let original = |relation| Ok(RelationPlanning::Original(Box::new(relation)));
        match &mut relation {
            TableFactor::Table {
                name,
                args: Some(_),
                ..
            } if function_of(name).is_some() => {
                let function = function_of(name).expect("just seen");
                self.function(function, relation, context)
            }
            TableFactor::Function { name, .. } if function_of(name).is_some() => Err(Error::new(
                ErrorKind::Unsupported,
                format!("{name} is planned once and cannot be LATERAL"),
            )
            .into()),
            TableFactor::Table {
                name,
                alias,
                version,
                sample,
                with_hints,
                ..
            } => {
                if with_hints.pop_if(|hint| is_mark(hint)).is_some() {
                    return original(relation);
                }
                let name = name.clone();
                let alias = alias.take();
                let version = version_of(version.take(), sample.take(), context)?;
                with_hints.push(mark());
                let plan = context
                    .plan(relation)
                    .map_err(|error| self.hint(error, &name))?;
                let plan = self.with_version(plan, version, &name.to_string(), context)?;
                Ok(planned(plan, alias))
            }
            TableFactor::Derived {
                sample: Some(_), ..
            } => Err(Error::new(
                ErrorKind::Unsupported,
                "TABLESAMPLE is for BigQuery tables, and a subquery is none",
            )
            .into()),
            _ => original(relation),
        }
    }
}

fn planned(
    plan: LogicalPlan,
    alias: Option<datafusion::sql::sqlparser::ast::TableAlias>,
) -> RelationPlanning {
    RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias)))
}

fn mark() -> SqlExpr {
    SqlExpr::Identifier(Ident::new(SEEN))
}

fn is_mark(hint: &SqlExpr) -> bool {
    matches!(hint, SqlExpr::Identifier(ident) if ident.value == SEEN)
}

fn function_of(name: &ObjectName) -> Option<Function> {
    match name.0.as_slice() {
        [only] => Function::named(&only.as_ident()?.value),
        _ => None,
    }
}

fn version_of(
    version: Option<TableVersion>,
    sample: Option<TableSampleKind>,
    context: &mut dyn RelationPlannerContext,
) -> Result<Version> {
    let as_of = match version {
        None => None,
        Some(TableVersion::ForSystemTimeAsOf(time) | TableVersion::TimestampAsOf(time)) => {
            let time = context.sql_to_expr(time, &DFSchema::empty())?;
            // Computed once more when the statement's beginning is known; what is
            // wrong is said now.
            instant(&time, None, context.context_provider().options())
                .map_err(|error| error.with_context("FOR SYSTEM_TIME AS OF"))?;
            Some(time)
        }
        Some(other) => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("{other} is not supported: write FOR SYSTEM_TIME AS OF and an instant"),
            )
            .into());
        }
    };
    let sample = match sample {
        None => None,
        Some(
            TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample),
        ) => Some(percentage(*sample, context)?),
    };
    Ok(Version { as_of, sample })
}

/// The share of blocks that TABLESAMPLE SYSTEM asks for, in percent. BigQuery
/// samples blocks and nothing else
/// (<https://cloud.google.com/bigquery/docs/table-sampling>).
fn percentage(sample: TableSample, context: &mut dyn RelationPlannerContext) -> Result<f64> {
    let refuse = |why: &str| -> DataFusionError {
        Error::new(
            ErrorKind::Unsupported,
            format!("TABLESAMPLE {why}: write TABLESAMPLE SYSTEM (10 PERCENT)"),
        )
        .into()
    };
    match sample.name {
        Some(TableSampleMethod::System | TableSampleMethod::Block) => {}
        Some(TableSampleMethod::Bernoulli | TableSampleMethod::Row) => {
            return Err(refuse(
                "of rows is not what BigQuery does, it samples blocks",
            ));
        }
        None => return Err(refuse("needs its method")),
    }
    if sample.seed.is_some() {
        return Err(refuse("cannot be repeated by a seed in BigQuery"));
    }
    if sample.bucket.is_some() || sample.offset.is_some() {
        return Err(refuse("takes a percentage in BigQuery"));
    }
    let quantity = sample
        .quantity
        .ok_or_else(|| refuse("needs a percentage"))?;
    if quantity.unit == Some(TableSampleUnit::Rows) {
        return Err(refuse(
            "takes a percentage in BigQuery, not a number of rows",
        ));
    }
    let value = context.sql_to_expr(quantity.value, &DFSchema::empty())?;
    let value = constant(&value, None, context.context_provider().options())?;
    let number = value.cast_to(&datafusion::arrow::datatypes::DataType::Float64)?;
    match number {
        ScalarValue::Float64(Some(number)) if (0.0..=100.0).contains(&number) => Ok(number),
        _ => Err(refuse("takes a percentage from 0 to 100")),
    }
}
