//! Filters that the plan leaves to the scan, where the restriction does not keep them.
//!
//! A filter with an equivalent condition is evaluated by nobody above the scan: the
//! service chooses its rows, and its columns need not travel. The scan has promised the
//! filter all the same. Where a session opens without the condition, because the service
//! refused the restriction, because it grew too long or because filters are not pushed
//! down, the scan reads the filter's columns too and evaluates it itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};

use super::align::Alignment;

/// A filter that the plan relies on the scan for.
#[derive(Debug, Clone)]
pub(crate) struct Promised {
    pub(crate) filter: Expr,
    /// Whether the restriction, as it was planned, keeps its rows and no others.
    pub(crate) restricted: bool,
}

/// How much of a planned restriction a session opens with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Whole,
    /// Without what was generated from filters.
    WithoutGenerated,
}

/// The promised filters that a session's restriction does not keep.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    filter: Arc<dyn PhysicalExpr>,
    /// What the filter is over.
    columns: SchemaRef,
}

impl Guard {
    /// The filters of `promised` that are left to evaluate, over columns of `table`;
    /// None where there are none.
    ///
    /// # Errors
    /// DataFusion's, for a filter that is not over the table's columns.
    pub(crate) fn new(
        promised: &[Promised],
        sent: Sent,
        table: &SchemaRef,
        config: &Arc<ConfigOptions>,
    ) -> Result<Option<Self>> {
        let left = promised
            .iter()
            .filter(|promised| sent == Sent::WithoutGenerated || !promised.restricted)
            .map(|promised| promised.filter.clone());
        let Some(filter) = conjunction(left) else {
            return Ok(None);
        };
        let names = filter.column_refs();
        let named = |name: &String| names.iter().any(|column| column.name == *name);
        let fields = table.fields().iter().filter(|field| named(field.name()));
        let columns = Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()));
        let schema = Arc::new(DFSchema::try_from(Arc::clone(&columns))?);
        let info = SimplifyContext::builder()
            .with_schema(Arc::clone(&schema))
            .with_config_options(Arc::clone(config))
            .build();
        // A caller other than DataFusion's planner may leave types to be settled.
        let filter = ExprSimplifier::new(info).coerce(filter, &schema)?;
        let mut props = ExecutionProps::new();
        props.config_options = Some(Arc::clone(config));
        let planning = PhysicalPlanningContext::default();
        let filter = create_physical_expr(&filter, &schema, &props, &planning)?;
        Ok(Some(Self { filter, columns }))
    }

    /// These selected fields, and the columns that the filters are over.
    pub(crate) fn selected_fields(&self, selected: &[String]) -> Vec<String> {
        let names = self.columns.fields().iter().map(|field| field.name());
        with_columns(selected, names.cloned().collect())
    }

    /// The guard over the columns of a session.
    ///
    /// # Errors
    /// As [`Alignment::new`].
    pub(crate) fn over(self, session: &Schema) -> crate::error::Result<SessionGuard> {
        let alignment = Alignment::new(&self.columns, session)?;
        Ok(SessionGuard {
            filter: self.filter,
            alignment,
        })
    }
}

/// These selected fields, and the columns that the filters are over which a restriction
/// does not keep that is sent whole.
pub(crate) fn planned_fields(selected: &[String], promised: &[Promised]) -> Vec<String> {
    let left = promised.iter().filter(|promised| !promised.restricted);
    let columns = left.flat_map(|promised| promised.filter.column_refs());
    with_columns(
        selected,
        columns.map(|column| column.name.clone()).collect(),
    )
}

/// These selected fields, and these columns. The whole of a column stands for its fields.
fn with_columns(selected: &[String], columns: BTreeSet<String>) -> Vec<String> {
    let is_apart = |path: &&String| {
        let column = path.split('.').next().unwrap_or(path);
        !columns.contains(column)
    };
    let apart: Vec<_> = selected.iter().filter(is_apart).cloned().collect();
    apart.into_iter().chain(columns).collect()
}

/// A guard that knows where the filters' columns are in the batches of a session.
#[derive(Debug)]
pub(crate) struct SessionGuard {
    filter: Arc<dyn PhysicalExpr>,
    alignment: Alignment,
}

impl SessionGuard {
    /// The rows of `aligned` that pass, which was made of `received`.
    ///
    /// # Errors
    /// Where a batch is not what the session said, or a filter fails.
    pub(crate) fn keep(&self, received: &RecordBatch, aligned: RecordBatch) -> Result<RecordBatch> {
        let columns = self.alignment.apply(received)?;
        let passed = self.filter.evaluate(&columns)?;
        let passed = passed.into_array(columns.num_rows())?;
        let Some(passed) = passed.as_boolean_opt() else {
            return internal_err!("the filter {} is no condition", self.filter);
        };
        Ok(filter_record_batch(&aligned, passed)?)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StructArray};
    use datafusion::arrow::datatypes::{DataType, Field, Fields, Int64Type};
    use datafusion::functions::core::expr_fn::get_field;
    use datafusion::prelude::{col, lit};

    use super::*;

    /// `n`, and `s` STRUCT<a, b>.
    fn table() -> SchemaRef {
        let leaf = |name: &str| Field::new(name, DataType::Int64, true);
        let inner = DataType::Struct(Fields::from(vec![leaf("a"), leaf("b")]));
        Arc::new(Schema::new(vec![leaf("n"), Field::new("s", inner, true)]))
    }

    fn guard(promised: &[Promised], sent: Sent) -> Option<Guard> {
        Guard::new(promised, sent, &table(), &Arc::default()).unwrap()
    }

    fn promised(filter: Expr, restricted: bool) -> Promised {
        Promised { filter, restricted }
    }

    #[test]
    fn what_the_restriction_keeps_is_not_evaluated() {
        let said = [promised(col("n").gt(lit(1_i64)), true)];
        assert!(guard(&said, Sent::Whole).is_none());
        assert!(guard(&said, Sent::WithoutGenerated).is_some());
        assert!(guard(&[], Sent::WithoutGenerated).is_none());
        let both = [
            promised(col("n").gt(lit(1_i64)), true),
            promised(get_field(col("s"), "a").eq(lit(2_i64)), false),
        ];
        let left = guard(&both, Sent::Whole).unwrap();
        assert_eq!(left.columns.fields().len(), 1);
        let all = guard(&both, Sent::WithoutGenerated).unwrap();
        assert_eq!(all.columns.fields().len(), 2);
    }

    #[test]
    fn columns_of_filters_are_read_whole() {
        let said = [promised(get_field(col("s"), "a").eq(lit(2_i64)), false)];
        let guard = guard(&said, Sent::Whole).unwrap();
        let fields = |selected: &[&str]| {
            let selected: Vec<String> = selected.iter().map(ToString::to_string).collect();
            guard.selected_fields(&selected)
        };
        assert_eq!(fields(&["n"]), ["n", "s"]);
        assert_eq!(fields(&["s.b", "n"]), ["n", "s"]);
        assert_eq!(fields(&["s"]), ["s"]);
        let selected = ["s.b".to_string(), "n".to_string()];
        assert_eq!(planned_fields(&selected, &said), ["n", "s"]);
        let said = [promised(col("s").is_null(), true)];
        assert_eq!(planned_fields(&selected, &said), selected);
    }

    #[test]
    fn rows_that_fail_are_dropped_from_other_columns() {
        // An Int32 literal: no planner settled the types.
        let said = [promised(get_field(col("s"), "a").eq(lit(2_i32)), false)];
        let table = table();
        let DataType::Struct(inner) = table.field(1).data_type().clone() else {
            unreachable!("made above");
        };
        let values = |values: [Option<i64>; 3]| Arc::new(Int64Array::from(values.to_vec())) as _;
        let s = StructArray::new(
            inner,
            vec![values([Some(2), None, Some(2)]), values([Some(1); 3])],
            None,
        );
        let n = values([Some(10), Some(20), Some(30)]);
        let received = RecordBatch::try_new(table, vec![n, Arc::new(s)]).unwrap();
        let guard = guard(&said, Sent::Whole).unwrap();
        let guard = guard.over(&received.schema()).unwrap();
        let kept = guard
            .keep(&received, received.project(&[0]).unwrap())
            .unwrap();
        let kept = kept.column(0).as_primitive::<Int64Type>();
        assert_eq!(kept.values().as_ref(), [10, 30]);
        // Rows alone.
        let none = received.project(&[]).unwrap();
        assert_eq!(guard.keep(&received, none).unwrap().num_rows(), 2);
    }
}
