//! The new values of SET in UPDATE and MERGE.

use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};

use super::super::super::functions::SqlType;
use super::super::ast::{Assignment, Ident, InsertValue};
use super::super::default::default_value;
use super::dml::{Assigned, Target};
use super::literal::constant;
use super::query::built;
use super::scope::{Ctx, Scope, Typed, column};
use super::{Analyzer, nested};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, Mode};

impl Analyzer<'_> {
    /// The rows of `plan`, which `row` numbers, with the values that `set` gives to the
    /// target's columns. Names of the target's columns are looked up in `own`.
    pub(super) fn assigned(
        &self,
        plan: LogicalPlan,
        row: &str,
        set: &[Assignment],
        target: &Target<'_>,
        own: &Scope,
        ctx: Ctx<'_>,
    ) -> Result<Assigned> {
        let mut values: Vec<(usize, Typed)> = Vec::new();
        let mut paths: Vec<Vec<String>> = Vec::new();
        for assignment in set {
            let mut names: &[Ident] = &assignment.path;
            if names.len() > 1
                && names[0].is(&target.name())
                && target.snapshot.schema.index_of(&names[0].name).is_none()
            {
                names = &names[1..];
            }
            let Some(position) = target.snapshot.schema.index_of(&names[0].name) else {
                return Err(self.unrecognized(&names[0]));
            };
            let path: Vec<String> = names.iter().map(|n| n.name.to_ascii_lowercase()).collect();
            if paths
                .iter()
                .any(|p| p.starts_with(&path) || path.starts_with(p))
            {
                return Err(self.error(
                    names[0].at,
                    format_args!("Update item {} assigned more than once", path.join(".")),
                ));
            }
            paths.push(path);
            let field = &target.snapshot.schema.fields[position];
            let leaf = self.nested_field(field, &names[1..])?;
            let value = match &assignment.value {
                InsertValue::Default if names.len() > 1 => {
                    return Err(
                        self.error(names[0].at, "DEFAULT cannot be assigned to a nested field")
                    );
                }
                InsertValue::Default => {
                    let default = default_value(self.env, field)?;
                    Typed::new(constant(default.value, &default.ty), default.ty)
                }
                InsertValue::Expr(e) => {
                    let typed = self.expr_for_column(e, leaf, ctx)?;
                    self.for_column(typed, leaf)
                        .map_err(|error| self.locate(e.at, error))?
                }
            };
            let known = values.iter().position(|(p, _)| *p == position);
            let base = match known {
                Some(i) => values[i].1.clone(),
                None => own.ranges[0].columns[position].typed(),
            };
            let whole = self.replaced(base, &names[1..], value)?;
            match known {
                Some(i) => values[i].1 = whole,
                None => values.push((position, whole)),
            }
        }
        let mut exprs = vec![column(row)];
        let mut out = Vec::new();
        for (position, value) in values {
            let id = self.env.id();
            exprs.push(value.expr.alias(&id));
            out.push((position, id));
        }
        Ok(Assigned {
            plan: built(LogicalPlanBuilder::from(plan).project(exprs))?,
            row: row.to_string(),
            values: out,
        })
    }

    fn nested_field<'f>(&self, field: &'f Field, names: &[Ident]) -> Result<&'f Field> {
        let Some((first, rest)) = names.split_first() else {
            return Ok(field);
        };
        if field.mode() == Mode::Repeated {
            return Err(self.error(
                first.at,
                format_args!("Cannot access field {} on an ARRAY", first.name),
            ));
        }
        match field
            .fields()
            .iter()
            .find(|f| f.name.eq_ignore_ascii_case(&first.name))
        {
            Some(inner) => self.nested_field(inner, rest),
            None => Err(self.error(
                first.at,
                format_args!(
                    "Field name {} does not exist in {}",
                    first.name,
                    field.sql_type()
                ),
            )),
        }
    }

    /// `base` with the field at `names` replaced.
    fn replaced(&self, base: Typed, names: &[Ident], value: Typed) -> Result<Typed> {
        let Some((first, rest)) = names.split_first() else {
            return Ok(value);
        };
        let SqlType::Struct(fields) = base.ty.clone() else {
            return Err(ServiceError::internal("a nested column is a struct"));
        };
        let mut parts = Vec::new();
        for (i, (name, ty)) in fields.iter().enumerate() {
            let part = Typed::new(nested::get_field(base.expr.clone(), i, ty), ty.clone());
            parts.push((
                name.clone(),
                if first.is(name) {
                    self.replaced(part, rest, value.clone())?
                } else {
                    part
                },
            ));
        }
        Ok(self.make_struct(parts))
    }
}
