//! Paths: columns, range variables and fields.

use super::super::super::functions::SqlType;
use super::super::ast::{Expr, ExprKind, Ident};
use super::Analyzer;
use super::literal::text;
use super::nested;
use super::scope::{Col, Ctx, Found, Range, Typed};
use crate::error::Result;

impl Analyzer<'_> {
    pub(super) fn path(&self, e: &Expr, ctx: Ctx<'_>) -> Result<Typed> {
        // `expr.a.b` where expr is no name: field accesses of a value.
        let mut fields = Vec::new();
        let mut root = e;
        while let ExprKind::Dot(inner, name) = &root.kind {
            fields.push(name);
            root = inner;
        }
        fields.reverse();
        let ExprKind::Ident(first) = &root.kind else {
            let value = self.expr(root, ctx)?;
            return self.fields(value, &fields);
        };
        if let Some(aliases) = ctx.aliases
            && let Some((_, value)) = aliases
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(&first.name))
        {
            return self.fields(value.clone(), &fields);
        }
        let mut names = vec![first];
        names.extend(fields);
        let Some((value, used)) = self.lookup(&names, ctx)? else {
            return self.no_column(&names);
        };
        self.fields(value, &names[used..])
    }

    /// A name that no column has: a function's argument, a variable, or one of the
    /// functions that need no parentheses.
    fn no_column(&self, names: &[&Ident]) -> Result<Typed> {
        let first = names[0];
        if let Some(arguments) = self.parameters.borrow().last()
            && let Some(value) = arguments.get(&first.name.to_ascii_lowercase())
        {
            return self.fields(value.clone(), &names[1..]);
        }
        if let Some(value) = self.env.variable(&first.name) {
            return self.fields(self.constant_expr(&value), &names[1..]);
        }
        if names.len() == 1
            && let Some(value) = self.current(&first.name, &[])?
        {
            return Ok(value);
        }
        Err(self.unrecognized(first))
    }

    /// The column that a path begins with and how many of its parts name it.
    pub(super) fn lookup(&self, names: &[&Ident], ctx: Ctx<'_>) -> Result<Option<(Typed, usize)>> {
        let first = names[0];
        match ctx.scope.find(&first.name, names.len() > 1) {
            Found::Column(col) => Ok(Some((self.grouped(col, first, ctx)?, 1))),
            Found::Ambiguous => Err(self.error(
                first.at,
                format_args!("Column name {} is ambiguous", first.name),
            )),
            Found::Range(range) => {
                if let Some(second) = names.get(1) {
                    let hits = range.find(&second.name);
                    match hits.as_slice() {
                        [col] => return Ok(Some((self.grouped(col, second, ctx)?, 2))),
                        [] if range.whole.is_none() => {
                            return Err(self.error(
                                second.at,
                                format_args!(
                                    "Name {} not found inside {}",
                                    second.name, first.name
                                ),
                            ));
                        }
                        [] => {}
                        _ => {
                            return Err(self.error(
                                second.at,
                                format_args!("Column name {} is ambiguous", second.name),
                            ));
                        }
                    }
                }
                Ok(Some((self.whole(range, first, ctx)?, 1)))
            }
            Found::Nothing => {
                let Some(frame) = ctx.frame else {
                    return Ok(None);
                };
                let Some((value, used)) = self.lookup(names, frame.outer)? else {
                    return Ok(None);
                };
                self.capture(value, frame).map(|v| Some((v, used)))
            }
        }
    }

    /// A range variable as a value.
    fn whole(&self, range: &Range, name: &Ident, ctx: Ctx<'_>) -> Result<Typed> {
        if let Some(col) = &range.whole {
            return self.grouped(col, name, ctx);
        }
        let fields = range
            .columns
            .iter()
            .map(|col| {
                Ok((
                    col.name.clone().unwrap_or_default(),
                    self.grouped(col, name, ctx)?,
                ))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(self.make_struct(fields))
    }

    /// A column as the rows of this place hold it.
    fn grouped(&self, col: &Col, name: &Ident, ctx: Ctx<'_>) -> Result<Typed> {
        let typed = col.typed();
        let Some(grouping) = ctx.grouping else {
            return Ok(typed);
        };
        match grouping.keys.iter().find(|k| k.expr == typed.expr) {
            Some(key) => Ok(key.col.typed()),
            None => Err(self.error(
                name.at,
                format_args!(
                    "{} expression references column {} which is neither grouped nor aggregated",
                    ctx.clause, name.name
                ),
            )),
        }
    }

    pub(super) fn fields(&self, mut value: Typed, names: &[&Ident]) -> Result<Typed> {
        for name in names {
            value = self.field(value, name)?;
        }
        Ok(value)
    }

    pub(super) fn field(&self, value: Typed, name: &Ident) -> Result<Typed> {
        match &value.ty {
            SqlType::Struct(fields) => {
                let hits: Vec<usize> = fields
                    .iter()
                    .enumerate()
                    .filter(|(_, (n, _))| n.eq_ignore_ascii_case(&name.name))
                    .map(|(i, _)| i)
                    .collect();
                match hits.as_slice() {
                    [i] => {
                        let ty = fields[*i].1.clone();
                        Ok(Typed::new(nested::get_field(value.expr, *i, &ty), ty))
                    }
                    [] => Err(self.error(
                        name.at,
                        format_args!("Field name {} does not exist in {}", name.name, value.ty),
                    )),
                    _ => Err(self.error(
                        name.at,
                        format_args!("Struct field name {} is ambiguous", name.name),
                    )),
                }
            }
            SqlType::Json => Ok(Typed::new(
                nested::json_member(value.expr, text(&name.name).expr),
                SqlType::Json,
            )),
            SqlType::Array(_) => Err(self.error(
                name.at,
                format_args!(
                    "Cannot access field {} on a value with type {}",
                    name.name, value.ty
                ),
            )),
            other => Err(self.error(
                name.at,
                format_args!(
                    "Cannot access field {} on a value with type {other}",
                    name.name
                ),
            )),
        }
    }
}
