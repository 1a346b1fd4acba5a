//! What to read: projection, filters and limit as a read session's terms.
//!
//! Pure: from the table's schema and the planner's wishes to a [`ReadSpec`].

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{internal_err, plan_err};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::projection::{ProjectionExpr, Projector, update_expr};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};

use super::guard::{Promised, planned_fields};
use crate::error::Error;
use crate::filter::condition::Condition;
use crate::filter::restriction::{Admission, MAX_RESTRICTION_BYTES, Restriction};
use crate::filter::translate::{Evaluator, evaluator};
use crate::filter::user::UserRestriction;
use crate::types::{Field, FieldType, Mode, TableSchema};

/// The terms of a read session, and what they leave to do.
#[derive(Debug, Clone)]
pub(crate) struct ReadSpec {
    /// Columns to ask for for the plan. Never empty: to the service that would mean all.
    pub(crate) selected_fields: Vec<String>,
    /// Rows to ask for.
    pub(crate) restriction: Restriction,
    /// Filters that nobody evaluates again if the plan was told that they are exact.
    pub(crate) promised: Arc<[Promised]>,
    /// The columns of the whole table, for these.
    pub(crate) table: SchemaRef,
    /// Filters of which the restriction says nothing or not all, as text.
    pub(crate) local_filters: Vec<String>,
    /// Columns that are made of what arrives; a subset of the selected ones.
    pub(crate) columns: SchemaRef,
    /// What is computed from the columns; None for the columns themselves.
    pub(crate) projector: Option<Arc<Projector>>,
    /// What the plan gets.
    pub(crate) schema: SchemaRef,
    /// Rows after which nobody needs more.
    pub(crate) limit: Option<usize>,
}

/// Whether filters become part of the restriction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushdown {
    Filters,
    Nothing,
}

impl ReadSpec {
    /// The terms for the columns at `projection` (all of them for None) of rows
    /// that pass `filters`.
    pub(crate) fn new(
        table: &TableSchema,
        schema: &SchemaRef,
        projection: Option<&[usize]>,
        filters: &[Expr],
        pushdown: Pushdown,
        user_restriction: Option<&str>,
        limit: Option<usize>,
    ) -> datafusion::error::Result<Self> {
        let whole = Arc::clone(schema);
        let schema = match projection {
            Some(projection) => Arc::new(schema.project(projection)?),
            None => whole.clone(),
        };
        let mut selected_fields: Vec<String> = schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect();
        if selected_fields.is_empty() {
            selected_fields.extend(cheapest(table).map(|field| field.name.clone()));
        }
        let user = match user_restriction.map(UserRestriction::parse) {
            Some(Ok(user)) => user,
            Some(Err(what)) => {
                return Err(Error::configuration(format!(
                    "scan.row_restriction is no expression by itself: {what}"
                ))
                .into());
            }
            None => None,
        };
        let mut restriction = Restriction::of_user(user);
        let mut local_filters = Vec::new();
        let judged: Vec<_> = filters
            .iter()
            .map(|filter| (filter, evaluator(table, filter)))
            .collect();
        // First, so that they find room.
        for (filter, by) in &judged {
            let Evaluator::Service(condition) = by else {
                continue;
            };
            if restriction.require(condition) == Admission::Part {
                return plan_err!(
                    "the filter {} has to be evaluated by BigQuery and makes the row \
                     restriction longer than {MAX_RESTRICTION_BYTES} bytes: compare with fewer \
                     values, or with DATE literals",
                    described(filter)
                );
            }
        }
        let mut promised = Vec::new();
        for (filter, by) in judged {
            let is_exact = is_exact(filter, &by);
            let condition = match by {
                Evaluator::Service(_) => continue,
                Evaluator::Either(condition) => Some(condition),
                Evaluator::Engine(condition) => condition,
            };
            let admission = match (pushdown, &condition) {
                (Pushdown::Filters, Some(condition)) => restriction.admit(condition),
                (Pushdown::Nothing, _) | (_, None) => Admission::Part,
            };
            let restricted = admission == Admission::Whole
                && matches!(condition, Some(Condition::Equivalent(_)));
            if !restricted {
                local_filters.push(described(filter));
            }
            if is_exact {
                let filter = filter.clone();
                promised.push(Promised { filter, restricted });
            }
        }
        Ok(Self {
            selected_fields,
            restriction,
            promised: promised.into(),
            table: whole,
            local_filters,
            columns: Arc::clone(&schema),
            projector: None,
            schema,
            limit,
        })
    }

    /// The columns that a session is asked for: the selected ones, and those of filters
    /// that are evaluated here.
    pub(crate) fn planned_fields(&self) -> Vec<String> {
        planned_fields(&self.selected_fields, &self.promised)
    }

    /// The filters that the restriction keeps the rows of, as text.
    pub(crate) fn restricted_filters(&self) -> impl Iterator<Item = String> {
        let restricted = self.promised.iter().filter(|promised| promised.restricted);
        restricted.map(|promised| described(&promised.filter))
    }

    /// The rows of the plan from rows of the columns.
    pub(crate) fn project(&self, batch: RecordBatch) -> datafusion::error::Result<RecordBatch> {
        match &self.projector {
            Some(projector) => projector.project_batch(&batch),
            None => Ok(batch),
        }
    }

    /// What is known of the plan's columns without reading: which are constant, and which
    /// are alike. Sorts above were made with that in mind while the projection stood.
    pub(crate) fn equivalences(&self) -> EquivalenceProperties {
        let mapping = self.projector.as_ref().map(|projector| {
            let projection = projector.projection();
            projection.projection_mapping(&self.columns)
        });
        match mapping {
            Some(Ok(mapping)) => EquivalenceProperties::new(Arc::clone(&self.columns))
                .project(&mapping, Arc::clone(&self.schema)),
            Some(Err(_)) | None => EquivalenceProperties::new(Arc::clone(&self.schema)),
        }
    }

    /// What is computed from the columns; nothing where they are the plan's.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &ProjectionExpr> {
        let projector = self.projector.iter();
        projector.flat_map(|projector| projector.projection().iter())
    }

    /// An expression over what the plan gets as one over the columns.
    pub(crate) fn over_columns(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
    ) -> datafusion::error::Result<Arc<dyn PhysicalExpr>> {
        let Some(projector) = &self.projector else {
            return Ok(Arc::clone(expr));
        };
        match update_expr(expr, projector.projection().as_ref(), true)? {
            Some(expr) => Ok(expr),
            None => internal_err!("{expr} is not over the columns of the scan"),
        }
    }
}

/// Filters nested deeper than this are neither printed nor kept: DataFusion prints and
/// copies an operand inside its operator, which takes stack for each level.
const MAX_KEPT_DEPTH: usize = 256;

/// What reads the rows that a filter is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadBy {
    /// A scan, which evaluates itself what the service would not listen to.
    Scan,
    /// A query job, whose result may lack the filter's columns.
    Query,
}

/// What a table answers, asked for the rows that pass a filter.
pub(crate) fn support(
    table: &TableSchema,
    filter: &Expr,
    read_by: ReadBy,
) -> TableProviderFilterPushDown {
    let by = evaluator(table, filter);
    let is_exact = match read_by {
        ReadBy::Scan => is_exact(filter, &by),
        ReadBy::Query => matches!(by, Evaluator::Service(_)),
    };
    match is_exact {
        true => TableProviderFilterPushDown::Exact,
        false => TableProviderFilterPushDown::Inexact,
    }
}

/// Whether a plan over a scan need not evaluate a filter.
fn is_exact(filter: &Expr, by: &Evaluator) -> bool {
    match by {
        Evaluator::Service(_) => true,
        Evaluator::Either(_) => size(filter).1 <= MAX_KEPT_DEPTH,
        Evaluator::Engine(_) => false,
    }
}

/// The filter as text, or its size where the text could not be made.
fn described(filter: &Expr) -> String {
    match size(filter) {
        (_, depth) if depth <= MAX_KEPT_DEPTH => filter.to_string(),
        (nodes, depth) => format!("<a filter of {nodes} terms, {depth} levels deep>"),
    }
}

/// How many nodes a filter has, and how many levels of them.
fn size(filter: &Expr) -> (usize, usize) {
    let mut nodes = 0_usize;
    let mut deepest = 0_usize;
    let mut stack = vec![(filter, 1)];
    while let Some((expr, depth)) = stack.pop() {
        nodes += 1;
        deepest = deepest.max(depth);
        let _ = expr.apply_children(|child| {
            stack.push((child, depth + 1));
            Ok(TreeNodeRecursion::Continue)
        });
    }
    (nodes, deepest)
}

/// The column that costs least to read when only rows count. Sizes per value:
/// BigQuery pricing, "Data size calculation".
fn cheapest(table: &TableSchema) -> Option<&Field> {
    fn size(field: &Field) -> usize {
        let value = match &field.field_type {
            FieldType::Bool => 1,
            FieldType::Int64
            | FieldType::Float64
            | FieldType::Date
            | FieldType::Time
            | FieldType::DateTime
            | FieldType::Timestamp(_) => 8,
            FieldType::Numeric(_) | FieldType::Interval => 16,
            FieldType::Range(_) => 17,
            FieldType::BigNumeric(_) => 32,
            FieldType::String | FieldType::Bytes => 64,
            FieldType::Json | FieldType::Geography => 256,
            FieldType::Struct(fields) => fields.iter().map(size).fold(0, usize::saturating_add),
            FieldType::Unsupported(_) => usize::MAX,
        };
        match field.mode {
            Mode::Nullable | Mode::Required => value,
            Mode::Repeated => value.saturating_mul(16),
        }
    }
    table
        .fields
        .iter()
        .filter(|field| field.field_type.unsupported().is_none())
        .min_by_key(|field| size(field))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field as ArrowField, Schema, TimeUnit};
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::cast;
    use datafusion::prelude::{col, lit};

    use super::*;

    fn table() -> (TableSchema, SchemaRef) {
        let field = |name, field_type| Field::new(name, field_type, Mode::Nullable);
        let table = TableSchema {
            fields: vec![
                field("name", FieldType::String),
                field("n", FieldType::Int64),
                field("flag", FieldType::Bool),
            ],
        };
        let arrow = Schema::new(vec![
            ArrowField::new("name", DataType::Utf8, true),
            ArrowField::new("n", DataType::Int64, true),
            ArrowField::new("flag", DataType::Boolean, true),
        ]);
        (table, Arc::new(arrow))
    }

    fn spec(projection: Option<&[usize]>, filters: &[Expr], pushdown: Pushdown) -> ReadSpec {
        let (table, arrow) = table();
        ReadSpec::new(&table, &arrow, projection, filters, pushdown, None, None).unwrap()
    }

    #[test]
    fn c03_counting_reads_the_cheapest_column() {
        let spec = spec(Some(&[]), &[], Pushdown::Filters);
        assert_eq!(spec.selected_fields, ["flag"]);
        assert!(spec.schema.fields().is_empty());
    }

    #[test]
    fn the_projection_is_what_is_selected() {
        assert_eq!(
            spec(Some(&[1]), &[], Pushdown::Filters).selected_fields,
            ["n"]
        );
        assert_eq!(
            spec(None, &[], Pushdown::Filters).selected_fields,
            ["name", "n", "flag"]
        );
    }

    #[test]
    fn f04_what_the_engine_cannot_evaluate_is_always_said() {
        let (mut table, _) = table();
        table
            .fields
            .push(Field::new("d", FieldType::Date, Mode::Nullable));
        let arrow = Arc::new(Schema::new(vec![ArrowField::new(
            "d",
            DataType::Date32,
            true,
        )]));
        let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
        let noon = ScalarValue::TimestampNanosecond(Some(43_200_000_000_000), None);
        let filter = cast(col("d"), nanos).gt(lit(noon));
        let user = Some("flag");
        let filters = [filter];
        let spec = ReadSpec::new(
            &table,
            &arrow,
            None,
            &filters,
            Pushdown::Nothing,
            user,
            None,
        )
        .unwrap();
        assert_eq!(
            spec.restriction.text(),
            "(flag) AND (`d` >= DATE '1970-01-02')"
        );
        assert_eq!(spec.restriction.text_without_generated(), None);
        assert!(spec.local_filters.is_empty());
    }

    #[test]
    fn a17_what_the_user_wrote_stays_by_itself() {
        let (table, arrow) = table();
        let with = |user: &str| {
            let filters = [col("n").gt(lit(5_i64))];
            let pushdown = Pushdown::Filters;
            ReadSpec::new(&table, &arrow, None, &filters, pushdown, Some(user), None)
        };
        assert_eq!(
            with("flag OR n = 1 -- why").unwrap().restriction.text(),
            "(flag OR n = 1 -- why\n) AND (`n` > 5)"
        );
        let error = with("flag) OR (n = 1").unwrap_err().to_string();
        assert!(error.contains("scan.row_restriction"), "{error}");
    }

    #[test]
    fn depth_is_not_printed() {
        let mut deep = col("n").eq(lit(0_i64));
        for n in 1..50_000_i64 {
            deep = Expr::or(deep, col("n").eq(lit(n)));
        }
        let filters = [deep];
        let said = spec(None, &filters, Pushdown::Filters);
        assert!(said.restriction.text().ends_with("OR (`n` = 49999))"));
        let kept = spec(None, &filters, Pushdown::Nothing);
        let shown = &kept.local_filters[0];
        assert_eq!(shown, "<a filter of 199999 terms, 50001 levels deep>");
        // Dropping it takes a stack of its own.
        std::mem::forget(filters);
    }

    #[test]
    fn filters_are_said_or_stay() {
        let filters = [
            col("n").gt(lit(5_i64)),
            (col("n") + lit(1_i64)).gt(lit(5_i64)),
        ];
        let pushed = spec(None, &filters, Pushdown::Filters);
        assert_eq!(pushed.restriction.text(), "(`n` > 5)");
        assert_eq!(pushed.local_filters, ["n + Int64(1) > Int64(5)"]);
        let kept = spec(None, &filters, Pushdown::Nothing);
        assert_eq!(kept.restriction.text(), "");
        assert_eq!(kept.local_filters.len(), 2);
    }
}
