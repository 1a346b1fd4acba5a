//! Projections above the scan as fewer columns and fewer fields of columns.
//!
//! A projection that only takes fields out of a STRUCT column needs only those
//! fields read: they become dotted paths in `selected_fields`, and the struct
//! arrives with nothing else in it. Pure: from a spec and expressions to a
//! narrower spec and expressions over it.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::spec::ReadSpec;
use crate::types::arrow::SQL_TYPE;

/// A narrower scan, and what is left to compute above it.
pub(crate) struct Narrowed {
    pub(crate) spec: ReadSpec,
    /// None when the narrower scan gives the projection's columns by itself.
    pub(crate) projection: Option<Vec<ProjectionExpr>>,
}

/// How much of a column is needed.
#[derive(Debug, Clone, PartialEq)]
enum Need {
    Whole,
    /// Some fields of a struct, by name.
    Fields(BTreeMap<String, Need>),
}

/// The scan that `projection` needs, if it is narrower than `spec`.
pub(crate) fn narrow(spec: &ReadSpec, projection: &[ProjectionExpr]) -> Result<Option<Narrowed>> {
    let mut needs = BTreeMap::new();
    for output in projection {
        collect(&output.expr, &mut needs);
    }
    // The scan of no column at all is settled when the query is planned.
    if needs.is_empty() {
        return Ok(None);
    }
    for field in spec.schema.fields() {
        if let Some(need) = needs.get_mut(field.name()) {
            settle(field, need);
        }
    }
    if let Some(fields) = plain_columns(projection, &spec.schema) {
        let unchanged = fields.iter().eq(spec.schema.fields().iter());
        return Ok((!unchanged).then(|| Narrowed {
            spec: with_fields(spec, fields, &needs),
            projection: None,
        }));
    }
    let fields: Vec<FieldRef> = spec
        .schema
        .fields()
        .iter()
        .filter_map(|field| needs.get(field.name()).map(|need| pruned(field, need)))
        .collect();
    if fields.iter().eq(spec.schema.fields().iter()) {
        return Ok(None);
    }
    let spec = with_fields(spec, fields, &needs);
    let projection = projection
        .iter()
        .map(|output| {
            let expr = rebased(&output.expr, &spec.schema)?;
            Ok(ProjectionExpr::new(expr, output.alias.clone()))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Some(Narrowed {
        spec,
        projection: Some(projection),
    }))
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
    let metadata = spec.schema.metadata().clone();
    ReadSpec {
        selected_fields,
        schema: Arc::new(Schema::new_with_metadata(fields, metadata)),
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
    use datafusion::prelude::{SessionContext, cast, col, lit};

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
            local_filters: Vec::new(),
            schema: Arc::new(schema),
            limit: None,
        }
    }

    fn narrowed(outputs: &[(Expr, &str)]) -> Option<Narrowed> {
        let spec = spec();
        let schema = DFSchema::try_from(spec.schema.as_ref().clone()).unwrap();
        let projection: Vec<_> = outputs
            .iter()
            .map(|(expr, alias)| {
                let expr = SessionContext::new()
                    .create_physical_expr(expr.clone(), &schema)
                    .unwrap();
                ProjectionExpr::new(expr, alias.to_string())
            })
            .collect();
        narrow(&spec, &projection).unwrap()
    }

    fn selected(outputs: &[(Expr, &str)]) -> Vec<String> {
        narrowed(outputs).unwrap().spec.selected_fields
    }

    #[test]
    fn columns_alone_become_the_scan() {
        let found = narrowed(&[(col("name"), "name"), (col("id"), "id")]).unwrap();
        assert!(found.projection.is_none());
        assert_eq!(found.spec.selected_fields, ["name", "id"]);
        assert_eq!(found.spec.schema.field(0).name(), "name");
    }

    #[test]
    fn what_is_not_narrower_is_left_alone() {
        let all = [(col("id"), "id"), (col("name"), "name"), (col("s"), "s")];
        assert!(narrowed(&all).is_none());
        assert!(narrowed(&[(lit(1_i64), "one")]).is_none());
        let renamed = [(col("id"), "i"), (col("name"), "n"), (col("s"), "t")];
        assert!(narrowed(&renamed).is_none());
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
    fn expressions_follow_the_columns() {
        let found = narrowed(&[(cast(col("name"), DataType::LargeUtf8), "n")]).unwrap();
        assert_eq!(found.spec.selected_fields, ["name"]);
        let projection = found.projection.unwrap();
        assert_eq!(projection[0].expr.to_string(), "CAST(name@0 AS LargeUtf8)");
    }

    #[test]
    fn a_range_is_read_whole() {
        let mut spec = spec();
        let range = Field::clone(spec.schema.field(2))
            .with_metadata([(SQL_TYPE.to_string(), "range".to_string())].into());
        spec.schema = Arc::new(Schema::new(vec![range]));
        let schema = DFSchema::try_from(spec.schema.as_ref().clone()).unwrap();
        let expr = get_field(col("s"), "a");
        let expr = SessionContext::new()
            .create_physical_expr(expr, &schema)
            .unwrap();
        let projection = [ProjectionExpr::new(expr, "a".to_string())];
        assert!(narrow(&spec, &projection).unwrap().is_none());
    }
}
