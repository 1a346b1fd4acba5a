//! Which types GoogleSQL turns into which without being told to.

use super::types::SqlType;

/// Whether an expression is a literal (or a parameter), which coerces further
/// than other expressions do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Literalness {
    /// Written out in the query.
    Literal,
    /// Anything else.
    Expression,
}

/// How far `to` is from `from` when GoogleSQL coerces implicitly, 0 for the same
/// type, `None` when it does not.
///
/// INT64 is nearer to FLOAT64 than to NUMERIC, so `SQRT(2)` is a FLOAT64, while
/// an INT64 beside a NUMERIC becomes NUMERIC because a NUMERIC is further from
/// FLOAT64 still.
pub(crate) fn distance(from: &SqlType, to: &SqlType, literal: Literalness) -> Option<u32> {
    use SqlType as T;
    if from == to {
        return Some(0);
    }
    let literal = literal == Literalness::Literal;
    match (from, to) {
        (T::Null, _) => Some(0),
        (T::Int64, T::Float64) => Some(1),
        (T::Int64, T::Numeric) => Some(2),
        (T::Int64, T::BigNumeric) => Some(3),
        (T::Numeric, T::BigNumeric) => Some(1),
        (T::Numeric, T::Float64) => Some(2),
        (T::BigNumeric, T::Float64) => Some(1),
        (T::Float64, T::Numeric) if literal => Some(1),
        (T::Float64, T::BigNumeric) if literal => Some(2),
        (T::Date, T::Datetime) => Some(1),
        (T::String, T::Date) if literal => Some(2),
        (T::String, T::Timestamp) if literal => Some(3),
        (T::String, T::Datetime) if literal => Some(4),
        (T::String, T::Time) if literal => Some(5),
        (T::String, T::Interval) if literal => Some(6),
        (T::String, T::Range(_)) if literal => Some(7),
        (T::Array(a), T::Array(b)) => match a.as_ref() {
            T::Null => Some(0),
            // A literal array takes the element type that its place asks for.
            _ if literal => distance(a, b, Literalness::Literal),
            _ => match (a.as_ref(), b.as_ref()) {
                (T::Struct(_), T::Struct(_)) => distance(a, b, Literalness::Expression),
                _ => None,
            },
        },
        (T::Struct(a), T::Struct(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .map(|((_, x), (_, y))| {
                distance(
                    x,
                    y,
                    if literal {
                        Literalness::Literal
                    } else {
                        Literalness::Expression
                    },
                )
            })
            .sum(),
        _ => None,
    }
}

/// The one type that all of `types` coerce to, as for the results of a CASE, the
/// elements of an array or the columns of a UNION.
pub(crate) fn supertype(types: &[(SqlType, Literalness)]) -> Option<SqlType> {
    let mut candidates: Vec<SqlType> = Vec::new();
    for (t, _) in types {
        if *t != SqlType::Null && !candidates.contains(t) {
            candidates.push(t.clone());
        }
    }
    match candidates.len() {
        0 => return Some(SqlType::Null),
        1 => return candidates.pop(),
        _ => {}
    }
    if let Some(structs) = struct_supertype(types) {
        return Some(structs);
    }
    // INT64 or FLOAT64 beside decimals may need a type that none of them has.
    for extra in [SqlType::Float64, SqlType::Numeric, SqlType::BigNumeric] {
        if !candidates.contains(&extra) {
            candidates.push(extra);
        }
    }
    let given = types
        .iter()
        .map(|(t, _)| t)
        .filter(|t| **t != SqlType::Null)
        .collect::<Vec<_>>();
    candidates
        .into_iter()
        .filter_map(|c| {
            let mut cost = (0u32, 0u32, u32::from(!given.contains(&&c)));
            for (t, l) in types {
                let d = distance(t, &c, *l)?;
                match l {
                    Literalness::Expression => cost.0 += d,
                    Literalness::Literal => cost.1 += d,
                }
            }
            Some((cost, c))
        })
        .min_by(|a, b| a.0.cmp(&b.0))
        .map(|(_, c)| c)
}

fn struct_supertype(types: &[(SqlType, Literalness)]) -> Option<SqlType> {
    let mut shapes = Vec::new();
    for (t, l) in types {
        match t {
            SqlType::Null => {}
            SqlType::Struct(fields) => shapes.push((fields, *l)),
            _ => return None,
        }
    }
    let first = shapes.first()?.0;
    if shapes.iter().any(|(s, _)| s.len() != first.len()) {
        return None;
    }
    (0..first.len())
        .map(|i| {
            let column: Vec<_> = shapes.iter().map(|(s, l)| (s[i].1.clone(), *l)).collect();
            let name = shapes
                .iter()
                .map(|(s, _)| s[i].0.clone())
                .find(|n| !n.is_empty())
                .unwrap_or_default();
            Some((name, supertype(&column)?))
        })
        .collect::<Option<Vec<_>>>()
        .map(SqlType::Struct)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Literalness::{Expression, Literal};

    #[test]
    fn numbers_widen_to_what_holds_them_all() {
        let t = |types: &[SqlType]| {
            supertype(
                &types
                    .iter()
                    .map(|t| (t.clone(), Expression))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            t(&[SqlType::Int64, SqlType::Float64]),
            Some(SqlType::Float64)
        );
        assert_eq!(
            t(&[SqlType::Int64, SqlType::Numeric]),
            Some(SqlType::Numeric)
        );
        assert_eq!(
            t(&[SqlType::Numeric, SqlType::BigNumeric, SqlType::Int64]),
            Some(SqlType::BigNumeric)
        );
        assert_eq!(
            t(&[SqlType::Numeric, SqlType::Float64]),
            Some(SqlType::Float64)
        );
        assert_eq!(t(&[SqlType::Null, SqlType::String]), Some(SqlType::String));
        assert_eq!(t(&[SqlType::Int64, SqlType::String]), None);
        assert_eq!(
            t(&[SqlType::Date, SqlType::Datetime]),
            Some(SqlType::Datetime)
        );
    }

    #[test]
    fn only_literals_become_dates_and_decimals() {
        let of = |l| supertype(&[(SqlType::Date, Expression), (SqlType::String, l)]);
        assert_eq!(of(Literal), Some(SqlType::Date));
        assert_eq!(of(Expression), None);
        let of = |l| supertype(&[(SqlType::Numeric, Expression), (SqlType::Float64, l)]);
        assert_eq!(of(Literal), Some(SqlType::Numeric));
        assert_eq!(of(Expression), Some(SqlType::Float64));
    }
}
