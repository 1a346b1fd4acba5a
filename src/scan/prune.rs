//! Projections above the scan as part of it: fewer columns, fewer fields of
//! columns, and the expressions over them.
//!
//! A projection that only takes fields out of a STRUCT column needs only those
//! fields read: they become dotted paths in `selected_fields`, and the struct
//! arrives with nothing else in it. Pure: from a spec and expressions to a
//! spec.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::spec::ReadSpec;
use crate::types::arrow::SQL_TYPE;

/// How much of a column is needed.
#[derive(Debug, Clone, PartialEq)]
enum Need {
    Whole,
    /// Some fields of a struct, by name.
    Fields(BTreeMap<String, Need>),
}

/// The scan that gives what `projection` makes of the rows of `spec`, unless it
/// is left to the plan.
pub(crate) fn absorb(spec: &ReadSpec, projection: &[ProjectionExpr]) -> Result<Option<ReadSpec>> {
    let Some(projection) = over_columns(spec, projection)? else {
        return Ok(None);
    };
    let mut needs = BTreeMap::new();
    for output in &projection {
        collect(&output.expr, &mut needs);
    }
    // Which column to count rows with is settled when the query is planned.
    if needs.is_empty() && !spec.columns.fields().is_empty() {
        return Ok(None);
    }
    for field in spec.columns.fields() {
        if let Some(need) = needs.get_mut(field.name()) {
            settle(field, need);
        }
    }
    if let Some(fields) = plain_columns(&projection, &spec.columns) {
        let unchanged = spec.projector.is_none() && fields.iter().eq(spec.columns.fields().iter());
        return Ok((!unchanged).then(|| with_fields(spec, fields, &needs)));
    }
    let fields = spec
        .columns
        .fields()
        .iter()
        .filter_map(|field| needs.get(field.name()).map(|need| pruned(field, need)))
        .collect();
    let mut narrowed = with_fields(spec, fields, &needs);
    let projection = projection
        .iter()
        .map(|output| {
            let expr = rebased(&output.expr, &narrowed.columns)?;
            Ok(ProjectionExpr::new(expr, output.alias.clone()))
        })
        .collect::<Result<Vec<_>>>()?;
    let projector = ProjectionExprs::new(projection).make_projector(&narrowed.columns)?;
    narrowed.schema = Arc::clone(projector.output_schema());
    narrowed.projector = Some(Arc::new(projector));
    Ok(Some(narrowed))
}

/// The projection over the columns that are read. None where something that
/// takes work would be computed more than once.
fn over_columns(
    spec: &ReadSpec,
    projection: &[ProjectionExpr],
) -> Result<Option<Vec<ProjectionExpr>>> {
    let Some(projector) = &spec.projector else {
        return Ok(Some(projection.to_vec()));
    };
    let inner = projector.projection().as_ref();
    let mut uses = vec![0_usize; inner.len()];
    for output in projection {
        output.expr.apply(|node| {
            if let Some(column) = node.downcast_ref::<Column>()
                && let Some(uses) = uses.get_mut(column.index())
            {
                *uses += 1;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    let repeats = |(output, uses): (&ProjectionExpr, &usize)| {
        *uses > 1 && path(&output.expr).is_none() && !output.expr.is::<Literal>()
    };
    if inner.iter().zip(&uses).any(repeats) {
        return Ok(None);
    }
    projection
        .iter()
        .map(|output| {
            let expr = spec.over_columns(&output.expr)?;
            Ok(ProjectionExpr::new(expr, output.alias.clone()))
        })
        .collect::<Result<Vec<_>>>()
        .map(Some)
}

/// The fields of a projection that only selects and orders columns.
fn plain_columns(projection: &[ProjectionExpr], schema: &Schema) -> Option<Vec<FieldRef>> {
    let mut fields: Vec<FieldRef> = Vec::with_capacity(projection.len());
    for output in projection {
        let column = output.expr.downcast_ref::<Column>()?;
        let again = fields.iter().any(|field| field.name() == column.name());
        if again || column.name() != output.alias {
            return None;
        }
        fields.push(Arc::clone(schema.fields().get(column.index())?));
    }
    Some(fields)
}

fn with_fields(spec: &ReadSpec, fields: Vec<FieldRef>, needs: &BTreeMap<String, Need>) -> ReadSpec {
    let mut selected_fields = Vec::new();
    for field in &fields {
        match needs.get(field.name()) {
            Some(need) => paths(field.name(), need, &mut selected_fields),
            None => selected_fields.push(field.name().clone()),
        }
    }
    // The one that rows are counted with.
    if fields.is_empty() {
        selected_fields.clone_from(&spec.selected_fields);
    }
    let metadata = spec.columns.metadata().clone();
    let columns = Arc::new(Schema::new_with_metadata(fields, metadata));
    ReadSpec {
        selected_fields,
        schema: Arc::clone(&columns),
        columns,
        projector: None,
        ..spec.clone()
    }
}

/// Adds what `expr` reads to `needs`.
fn collect(expr: &Arc<dyn PhysicalExpr>, needs: &mut BTreeMap<String, Need>) {
    if let Some(path) = path(expr) {
        let (column, fields) = path.split_first().expect("a path begins with a column");
        let need = needs
            .entry(column.clone())
            .or_insert_with(|| Need::Fields(BTreeMap::new()));
        add(need, fields);
        return;
    }
    for child in expr.children() {
        collect(child, needs);
    }
}

fn add(need: &mut Need, path: &[String]) {
    let Need::Fields(fields) = need else {
        return;
    };
    let Some((first, rest)) = path.split_first() else {
        *need = Need::Whole;
        return;
    };
    let inner = fields
        .entry(first.clone())
        .or_insert_with(|| Need::Fields(BTreeMap::new()));
    add(inner, rest);
}

/// Widens the need for what cannot be read in part to the whole of it.
fn settle(field: &Field, need: &mut Need) {
    let DataType::Struct(children) = field.data_type() else {
        *need = Need::Whole;
        return;
    };
    let Need::Fields(needs) = need else {
        return;
    };
    // A RANGE is a struct in Arrow only.
    let is_range = field.metadata().contains_key(SQL_TYPE);
    if is_range || needs.keys().any(|name| children.find(name).is_none()) {
        *need = Need::Whole;
        return;
    }
    for child in children {
        if let Some(need) = needs.get_mut(child.name()) {
            settle(child, need);
        }
    }
}

/// The column, and the fields inside it, that `expr` is.
fn path(expr: &Arc<dyn PhysicalExpr>) -> Option<Vec<String>> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return Some(vec![column.name().to_string()]);
    }
    let function = expr.downcast_ref::<ScalarFunctionExpr>()?;
    if !function.fun().inner().is::<GetFieldFunc>() {
        return None;
    }
    let (base, names) = function.args().split_first()?;
    let mut path = path(base)?;
    for name in names {
        let literal = name.downcast_ref::<Literal>()?;
        path.push(literal.value().try_as_str().flatten()?.to_string());
    }
    Some(path)
}

/// The field with only what is needed of it.
fn pruned(field: &FieldRef, need: &Need) -> FieldRef {
    match (field.data_type(), need) {
        (DataType::Struct(children), Need::Fields(needs)) => {
            let children: Fields = children
                .iter()
                .filter_map(|child| needs.get(child.name()).map(|need| pruned(child, need)))
                .collect();
            Arc::new(Field::clone(field).with_data_type(DataType::Struct(children)))
        }
        _ => Arc::clone(field),
    }
}

/// Adds the dotted paths of what is needed below `prefix`.
fn paths(prefix: &str, need: &Need, found: &mut Vec<String>) {
    match need {
        Need::Whole => found.push(prefix.to_string()),
        Need::Fields(fields) => {
            for (name, need) in fields {
                paths(&format!("{prefix}.{name}"), need, found);
            }
        }
    }
}

/// The expression over the columns of `schema`, found by name.
fn rebased(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    Arc::clone(expr)
        .transform_up(|node| match node.downcast_ref::<Column>() {
            Some(column) => {
                let rebased = Column::new_with_schema(column.name(), schema)?;
                Ok(Transformed::yes(Arc::new(rebased) as _))
            }
            None => Ok(Transformed::no(node)),
        })
        .data()
}

#[cfg(test)]
mod tests {
    use datafusion::common::DFSchema;
    use datafusion::functions::core::expr_fn::get_field;
    use datafusion::logical_expr::Expr;
    use datafusion::prelude::{SessionContext, col, lit};

    use super::*;
    use crate::filter::restriction::Restriction;

    /// `id`, `name`, and `s` STRUCT<a, t STRUCT<x, y>>.
    fn spec() -> ReadSpec {
        let leaf = |name: &str| Field::new(name, DataType::Int64, true);
        let inner = DataType::Struct(Fields::from(vec![leaf("x"), leaf("y")]));
        let outer = Fields::from(vec![leaf("a"), Field::new("t", inner, true)]);
        let schema = Schema::new(vec![
            leaf("id"),
            Field::new("name", DataType::Utf8, true),
            Field::new("s", DataType::Struct(outer), true),
        ]);
        ReadSpec {
            selected_fields: vec!["id".into(), "name".into(), "s".into()],
            restriction: Restriction::default(),
            promised: Arc::default(),
            table: Arc::new(schema.clone()),
            local_filters: Vec::new(),
            columns: Arc::new(schema.clone()),
            projector: None,
            schema: Arc::new(schema),
            limit: None,
        }
    }

    fn projection(spec: &ReadSpec, outputs: &[(Expr, &str)]) -> Vec<ProjectionExpr> {
        let schema = DFSchema::try_from(spec.schema.as_ref().clone()).unwrap();
        let output = |(expr, alias): &(Expr, &str)| {
            let context = SessionContext::new();
            let expr = context.create_physical_expr(expr.clone(), &schema).unwrap();
            ProjectionExpr::new(expr, alias.to_string())
        };
        outputs.iter().map(output).collect()
    }

    fn absorbed(outputs: &[(Expr, &str)]) -> Option<ReadSpec> {
        let spec = spec();
        absorb(&spec, &projection(&spec, outputs)).unwrap()
    }

    fn selected(outputs: &[(Expr, &str)]) -> Vec<String> {
        absorbed(outputs).unwrap().selected_fields
    }

    fn computed(spec: &ReadSpec) -> String {
        spec.projector.as_ref().unwrap().projection().to_string()
    }

    #[test]
    fn columns_alone_become_the_scan() {
        let found = absorbed(&[(col("name"), "name"), (col("id"), "id")]).unwrap();
        assert!(found.projector.is_none());
        assert_eq!(found.selected_fields, ["name", "id"]);
        assert_eq!(found.schema.field(0).name(), "name");
    }

    #[test]
    fn what_changes_nothing_is_left_alone() {
        let all = [(col("id"), "id"), (col("name"), "name"), (col("s"), "s")];
        assert!(absorbed(&all).is_none());
        assert!(absorbed(&[(lit(1_i64), "one")]).is_none());
    }

    #[test]
    fn expressions_are_the_scans() {
        let swapped = absorbed(&[(col("name"), "id"), (col("id"), "name")]).unwrap();
        assert_eq!(swapped.selected_fields, ["id", "name"]);
        assert_eq!(computed(&swapped), "Projection[name@1 AS id, id@0 AS name]");
        // What is over the plan's columns is told apart from the table's.
        let id: Arc<dyn PhysicalExpr> = Arc::new(Column::new("id", 0));
        assert_eq!(swapped.over_columns(&id).unwrap().to_string(), "name@1");

        // A projection over a projection is one.
        let again = projection(&swapped, &[(col("id"), "n")]);
        let again = absorb(&swapped, &again).unwrap().unwrap();
        assert_eq!(again.selected_fields, ["name"]);
        assert_eq!(computed(&again), "Projection[name@0 AS n]");
        let back = projection(&swapped, &[(col("name"), "id"), (col("id"), "name")]);
        let back = absorb(&swapped, &back).unwrap().unwrap();
        assert!(back.projector.is_none());

        // What takes work is not done twice.
        let sum = absorbed(&[(col("id") + lit(1_i64), "sum")]).unwrap();
        let twice = projection(&sum, &[(col("sum") * col("sum"), "square")]);
        assert!(absorb(&sum, &twice).unwrap().is_none());
    }

    #[test]
    fn literals_need_no_column() {
        let mut spec = spec();
        spec.columns = Arc::new(Schema::empty());
        spec.schema = Arc::clone(&spec.columns);
        spec.selected_fields = vec!["id".into()];
        let one = projection(&spec, &[(lit(1_i64), "one")]);
        let found = absorb(&spec, &one).unwrap().unwrap();
        assert_eq!(found.selected_fields, ["id"]);
        assert!(found.columns.fields().is_empty());
        assert_eq!(found.schema.field(0).name(), "one");
    }

    #[test]
    fn fields_of_structs_are_dotted() {
        let a = get_field(col("s"), "a");
        let x = get_field(get_field(col("s"), "t"), "x");
        assert_eq!(selected(&[(a.clone() + lit(1_i64), "b")]), ["s.a"]);
        assert_eq!(
            selected(&[(x.clone(), "x"), (col("id"), "id")]),
            ["id", "s.t.x"]
        );
        assert_eq!(selected(&[(x.clone(), "x"), (a, "a")]), ["s.a", "s.t.x"]);
        // The whole of a struct contains its fields.
        let inner = get_field(col("s"), "t");
        assert_eq!(selected(&[(x.clone(), "x"), (inner, "t")]), ["s.t"]);
        assert_eq!(selected(&[(x, "x"), (col("s"), "s")]), ["s"]);
    }

    #[test]
    fn a_range_is_read_whole() {
        let mut spec = spec();
        let range = Field::clone(spec.schema.field(2))
            .with_metadata([(SQL_TYPE.to_string(), "range".to_string())].into());
        spec.columns = Arc::new(Schema::new(vec![range]));
        spec.schema = Arc::clone(&spec.columns);
        let start = projection(&spec, &[(get_field(col("s"), "a"), "a")]);
        let found = absorb(&spec, &start).unwrap().unwrap();
        assert_eq!(found.selected_fields, ["s"]);
    }
}
