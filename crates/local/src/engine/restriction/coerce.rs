//! What becomes what without a cast, and common types.

use arrow::array::new_null_array;

use super::bind::Bound;
use super::datum::data_type;
use super::error::syntax;
use super::eval;
use super::expr::{Expr, Kind, Written};
use super::literal::parsed;
use super::types::Type;

/// `STRING, INT64`, for errors.
pub(super) fn type_list(all: &[Expr]) -> String {
    let names: Vec<String> = all.iter().map(|e| e.ty.to_string()).collect();
    names.join(", ")
}

/// Both sides of a comparison in their common type.
pub(super) fn comparable(
    at: usize,
    operator: &str,
    left: Expr,
    right: Expr,
) -> Bound<(Expr, Expr)> {
    let types = format!("{}, {}", left.ty, right.ty);
    let equality = matches!(
        operator,
        "=" | "!=" | "CASE" | "IS DISTINCT FROM" | "NULLIF"
    );
    let undefined = [&left.ty, &right.ty]
        .into_iter()
        .find(|t| {
            !(if equality {
                t.has_equality()
            } else {
                t.has_order()
            })
        })
        .cloned();
    if let Some(ty) = undefined {
        return Err(syntax(
            at,
            if equality {
                format!("Equality is not defined for arguments of type {ty}")
            } else {
                format!("Less than is not defined for arguments of type {ty}")
            },
        ));
    }
    let mismatch = || {
        syntax(
            at,
            format!(
                "No matching signature for operator {operator} for argument types: {types}. Supported signature: ANY {operator} ANY"
            ),
        )
    };
    let both = alike(vec![left, right])?.ok_or_else(mismatch)?;
    let [left, right]: [Expr; 2] = both.try_into().map_err(|_| mismatch())?;
    Ok((left, right))
}

/// Gives all expressions their common type; `None` when there is none.
pub(super) fn alike(all: Vec<Expr>) -> Bound<Option<Vec<Expr>>> {
    let Some(ty) = common_type(&all) else {
        return Ok(None);
    };
    let mut out = Vec::with_capacity(all.len());
    for expr in all {
        match coerce(expr, &ty) {
            Some(coerced) => out.push(coerced?),
            None => return Ok(None),
        }
    }
    Ok(Some(out))
}

/// The type to which all coerce. Literals give way to other expressions.
fn common_type(all: &[Expr]) -> Option<Type> {
    let mut fixed: Option<Type> = None;
    let (mut text, mut integer, mut float) = (false, false, false);
    for expr in all {
        match expr.written {
            Written::Null => {}
            Written::Text(_) => text = true,
            Written::Integer => integer = true,
            Written::Float(_) => float = true,
            Written::Plain => {
                fixed = Some(match fixed {
                    None => expr.ty.clone(),
                    Some(ty) => ty.common(&expr.ty)?,
                });
            }
        }
    }
    let number = if float { Type::Float64 } else { Type::Int64 };
    match fixed {
        None => match (text, integer || float) {
            (true, true) => None,
            (true, false) => Some(Type::Text),
            (false, true) => Some(number),
            (false, false) => Some(all.first()?.ty.clone()),
        },
        Some(Type::Int64) if float => Some(Type::Float64),
        Some(ty) if (integer || float) && !ty.is_number() => None,
        Some(ty @ (Type::Numeric | Type::Bignumeric)) => {
            // A literal beyond the decimal type leaves FLOAT64.
            let fits = all.iter().all(|e| match &e.written {
                Written::Float(text) => parsed(e.at, &ty, text).is_ok(),
                _ => true,
            });
            Some(if fits { ty } else { Type::Float64 })
        }
        Some(ty) => Some(ty),
    }
}

/// `expr` as `to` where GoogleSQL converts without a cast: `None` when it does
/// not, an error when a literal's text is no value of the type.
pub(super) fn coerce(expr: Expr, to: &Type) -> Option<Bound<Expr>> {
    if expr.ty == *to {
        return Some(Ok(expr));
    }
    let at = expr.at;
    match &expr.written {
        Written::Null => {
            let value = new_null_array(&data_type(to), 1);
            let mut typed = Expr::literal(at, to.clone(), value);
            typed.written = Written::Null;
            return Some(Ok(typed));
        }
        Written::Text(text)
            if matches!(
                to,
                Type::Date | Type::Datetime | Type::Time | Type::Timestamp
            ) =>
        {
            return Some(parsed(at, to, text).map_err(|_| {
                syntax(
                    at,
                    format!("Could not cast literal \"{text}\" to type {to}"),
                )
            }));
        }
        Written::Float(text) if matches!(to, Type::Numeric | Type::Bignumeric) => {
            return Some(parsed(at, to, text).map_err(|e| syntax(at, e.to_string())));
        }
        _ => {}
    }
    if !expr.ty.coerces_to(to) {
        return None;
    }
    let ignores_case = expr.ignores_case;
    let fallible = expr.fallible;
    let mut cast = Expr::new(at, to.clone(), Kind::Cast(Box::new(expr))).failing(fallible);
    cast.ignores_case = ignores_case;
    Some(Ok(fold(cast)))
}

/// Replaces an expression over literals by its value. One that fails stays, and
/// fails when it is evaluated for some row.
pub(super) fn fold(expr: Expr) -> Expr {
    if expr.as_literal().is_some() || !eval::is_constant(&expr) {
        return expr;
    }
    match eval::constant(&expr) {
        Ok(value) => {
            let mut folded = Expr::literal(expr.at, expr.ty, value);
            folded.ignores_case = expr.ignores_case;
            folded
        }
        Err(_) => expr.failing(true),
    }
}
