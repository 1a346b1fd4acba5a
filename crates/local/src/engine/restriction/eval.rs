//! Evaluation of typed expressions over a batch, a column at a time.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, RecordBatch, TimestampMicrosecondArray,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{and_kleene, interleave, is_null, not, or_kleene};
use arrow::datatypes::{Int64Type, Schema};

use super::ast::{Comparison, Sense};
use super::datum::{Datum, Rows, from_stored};
use super::error::failed;
use super::expr::{Expr, Kind, Pseudo};
use super::like::Pattern;
use super::types::Type;
use super::{arithmetic, call, cast, compare};
use crate::error::{Result, ServiceError};
use crate::value::civil::days_of;
use crate::value::nested;

/// The rows that expressions are evaluated over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    /// Rows in the table's Arrow form.
    pub(super) batch: &'a RecordBatch,
    /// Start of their ingestion-time partition.
    pub(super) partition: Option<i64>,
}

/// Whether an expression has the same value for every row.
pub(super) fn is_constant(expr: &Expr) -> bool {
    let mut constant = !matches!(expr.kind, Kind::Column(_) | Kind::Pseudo(_));
    expr.for_each_child(|child| constant &= child.as_literal().is_some());
    constant
}

/// The value of a constant expression, as an array of length one.
pub(super) fn constant(expr: &Expr) -> Result<ArrayRef> {
    let empty = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let scope = Scope {
        batch: &empty,
        partition: None,
    };
    let value = scope.eval(expr, &Rows::all(1))?;
    Ok(value.array.slice(0, 1))
}

fn internal(e: arrow::error::ArrowError) -> ServiceError {
    failed(format_args!("internal: {e}"))
}

impl Scope<'_> {
    /// TRUE, FALSE or NULL for each row.
    pub(super) fn condition(&self, expr: &Expr) -> Result<BooleanArray> {
        let rows = Rows::all(self.batch.num_rows());
        Ok(self.eval(expr, &rows)?.into_booleans(rows.count))
    }

    /// The values of `expr` on `rows`.
    pub(super) fn eval(&self, expr: &Expr, rows: &Rows) -> Result<Datum> {
        match &expr.kind {
            Kind::Literal(value) => Ok(Datum::constant(Arc::clone(value))),
            Kind::Column(path) => self.column(path, &expr.ty),
            Kind::Pseudo(pseudo) => Ok(self.pseudo(*pseudo)),
            Kind::And(all) => self.and(all, rows),
            Kind::Or(all) => self.or(all, rows),
            Kind::Not(inner) => {
                let inner = self.eval(inner, rows)?;
                let negated = not(inner.array.as_boolean()).map_err(internal)?;
                Ok(Datum::like(negated, inner.constant))
            }
            Kind::Compare(operator, left, right) => {
                let ignores_case = left.ignores_case || right.ignores_case;
                let ty = &left.ty;
                let (left, right) = (self.eval(left, rows)?, self.eval(right, rows)?);
                compare::compare(*operator, ty, ignores_case, &left, &right, rows)
            }
            Kind::DistinctFrom(left, right, sense) => {
                let ignores_case = left.ignores_case || right.ignores_case;
                let ty = &left.ty;
                let (left, right) = (self.eval(left, rows)?, self.eval(right, rows)?);
                let same = compare::same(ty, ignores_case, &left, &right, rows)?;
                // IS NOT DISTINCT FROM is the plain form of this answer.
                signed(same, flipped(*sense))
            }
            Kind::IsNull(inner, sense) => {
                let inner = self.eval(inner, rows)?;
                let answer = is_null(inner.array.as_ref()).map_err(internal)?;
                signed(Datum::like(answer, inner.constant), *sense)
            }
            Kind::IsBool(inner, truth, sense) => {
                let inner = self.eval(inner, rows)?;
                let view = inner.booleans();
                let answer = rows.booleans(&[&inner], |i| Ok(Some(view.get(i) == Some(*truth))))?;
                signed(answer, *sense)
            }
            Kind::Between(value, low, high, sense) => {
                let ignores_case = value.ignores_case || low.ignores_case || high.ignores_case;
                let ty = &value.ty;
                let value = self.eval(value, rows)?;
                let (low, high) = (self.eval(low, rows)?, self.eval(high, rows)?);
                let above = compare::compare(Comparison::Ge, ty, ignores_case, &value, &low, rows)?;
                let below =
                    compare::compare(Comparison::Le, ty, ignores_case, &value, &high, rows)?;
                let constant = above.constant && below.constant;
                let count = if constant { 1 } else { rows.count };
                let within = and_kleene(&above.into_booleans(count), &below.into_booleans(count))
                    .map_err(internal)?;
                signed(Datum::like(within, constant), *sense)
            }
            Kind::InSet(value, set, sense) => {
                let ty = &value.ty;
                let value = self.eval(value, rows)?;
                signed(set.contains(ty, &value, rows)?, *sense)
            }
            Kind::InList(value, list, sense) => {
                let ignores_case = value.ignores_case || list.iter().any(|e| e.ignores_case);
                let ty = &value.ty;
                let value = self.eval(value, rows)?;
                let mut found = BooleanArray::from(vec![false; rows.count]);
                for item in list {
                    let item = self.eval(item, rows)?;
                    let hit =
                        compare::compare(Comparison::Eq, ty, ignores_case, &value, &item, rows)?;
                    found = or_kleene(&found, &hit.into_booleans(rows.count)).map_err(internal)?;
                }
                signed(Datum::rows(found), *sense)
            }
            Kind::InArray(value, array, sense) => {
                let element = value.ty.clone();
                let ignores_case = value.ignores_case || array.ignores_case;
                let (value, array) = (self.eval(value, rows)?, self.eval(array, rows)?);
                let found = compare::in_array(&element, ignores_case, &value, &array, rows)?;
                signed(found, *sense)
            }
            Kind::LikePattern(value, pattern, sense) => {
                let ty = &value.ty;
                let value = self.eval(value, rows)?;
                let found = match ty {
                    Type::Bytes => {
                        let view = value.bytes();
                        rows.booleans(&[&value], |i| {
                            Ok(view.get(i).map(|v| pattern.matches_bytes(v)))
                        })?
                    }
                    _ => {
                        let view = value.text();
                        rows.booleans(&[&value], |i| {
                            Ok(view.get(i).map(|v| pattern.matches_text(v)))
                        })?
                    }
                };
                signed(found, *sense)
            }
            Kind::Like(value, pattern, sense) => self.like(value, pattern, *sense, rows),
            Kind::Case(whens, otherwise) => self.case(whens, otherwise, rows),
            Kind::Coalesce(all) => self.coalesce(all, rows),
            Kind::Cast(inner) => {
                let value = self.eval(inner, rows)?;
                cast::cast(&value, &inner.ty, &expr.ty, rows)
            }
            Kind::SafeCast(inner) => {
                let value = self.eval(inner, rows)?;
                cast::safe_cast(&value, &inner.ty, &expr.ty, rows)
            }
            Kind::Negate(inner) => {
                let value = self.eval(inner, rows)?;
                arithmetic::negated(&expr.ty, &value, rows)
            }
            Kind::BitNot(inner) => {
                let value = self.eval(inner, rows)?;
                let view = value.primitive::<Int64Type>();
                rows.primitive::<Int64Type>(&[&value], |i| Ok(view.get(i).map(|v| !v)))
            }
            Kind::Arithmetic(operator, left, right) => {
                let types = (&left.ty, &right.ty);
                let (left, right) = (self.eval(left, rows)?, self.eval(right, rows)?);
                arithmetic::compute(*operator, &expr.ty, types, &left, &right, rows)
            }
            Kind::Concat(all) => {
                let values = self.all(all, rows)?;
                call::concatenated(&expr.ty, &values, rows)
            }
            Kind::Call(function, arguments) => {
                let values = self.all(arguments, rows)?;
                function.call(&expr.ty, arguments, &values, rows)
            }
            Kind::SafeCall(function, arguments) => {
                let values = self.all(arguments, rows)?;
                function.safe_call(&expr.ty, arguments, &values, rows)
            }
        }
    }

    fn all(&self, all: &[Expr], rows: &Rows) -> Result<Vec<Datum>> {
        all.iter().map(|e| self.eval(e, rows)).collect()
    }

    fn column(&self, path: &[usize], ty: &Type) -> Result<Datum> {
        let (first, rest) = path.split_first().expect("a column has a position");
        let mut array = Arc::clone(
            self.batch
                .columns()
                .get(*first)
                .ok_or_else(|| failed("internal: the rows lack a column of the table"))?,
        );
        for position in rest {
            array = nested::field(array.as_struct(), *position).map_err(internal)?;
        }
        Ok(Datum {
            array: from_stored(&array, ty)?,
            constant: false,
        })
    }

    fn pseudo(&self, pseudo: Pseudo) -> Datum {
        let array: ArrayRef = match pseudo {
            Pseudo::PartitionTime => {
                Arc::new(TimestampMicrosecondArray::from(vec![self.partition]))
            }
            Pseudo::PartitionDate => Arc::new(Date32Array::from(vec![self.partition.map(days_of)])),
        };
        Datum::constant(array)
    }

    /// Children after a FALSE are not evaluated, so they cannot fail.
    fn and(&self, all: &[Expr], rows: &Rows) -> Result<Datum> {
        let mut so_far = BooleanArray::from(vec![true; rows.count]);
        for child in all {
            let value = if child.fallible {
                let open = rows.within(&!&known(&so_far, false));
                self.eval(child, &open)?
            } else {
                self.eval(child, rows)?
            };
            so_far = and_kleene(&so_far, &value.into_booleans(rows.count)).map_err(internal)?;
            if so_far.null_count() == 0 && so_far.true_count() == 0 {
                break;
            }
        }
        Ok(Datum::rows(so_far))
    }

    /// Children after a TRUE are not evaluated, so they cannot fail.
    fn or(&self, all: &[Expr], rows: &Rows) -> Result<Datum> {
        let mut so_far = BooleanArray::from(vec![false; rows.count]);
        for child in all {
            let value = if child.fallible {
                let open = rows.within(&!&known(&so_far, true));
                self.eval(child, &open)?
            } else {
                self.eval(child, rows)?
            };
            so_far = or_kleene(&so_far, &value.into_booleans(rows.count)).map_err(internal)?;
            if so_far.null_count() == 0 && so_far.false_count() == 0 {
                break;
            }
        }
        Ok(Datum::rows(so_far))
    }

    fn like(&self, value: &Expr, pattern: &Expr, sense: Sense, rows: &Rows) -> Result<Datum> {
        let ignores_case = value.ignores_case || pattern.ignores_case;
        let is_bytes = value.ty == Type::Bytes;
        let (value, pattern) = (self.eval(value, rows)?, self.eval(pattern, rows)?);
        let both = [&value, &pattern];
        let found = if is_bytes {
            let (v, p) = (value.bytes(), pattern.bytes());
            rows.booleans(&both, |i| {
                let (Some(v), Some(p)) = (v.get(i), p.get(i)) else {
                    return Ok(None);
                };
                let pattern = Pattern::bytes(p).map_err(failed)?;
                Ok(Some(pattern.matches_bytes(v)))
            })?
        } else {
            let (v, p) = (value.text(), pattern.text());
            rows.booleans(&both, |i| {
                let (Some(v), Some(p)) = (v.get(i), p.get(i)) else {
                    return Ok(None);
                };
                let pattern = Pattern::text(p, ignores_case).map_err(failed)?;
                Ok(Some(pattern.matches_text(v)))
            })?
        };
        signed(found, sense)
    }

    fn case(&self, whens: &[(Expr, Expr)], otherwise: &Expr, rows: &Rows) -> Result<Datum> {
        let mut open = rows.clone();
        // For each row the branch that it takes.
        let mut taken = vec![whens.len(); rows.count];
        let mut values = Vec::with_capacity(whens.len() + 1);
        for (branch, (condition, value)) in whens.iter().enumerate() {
            let holds = self.eval(condition, &open)?.into_booleans(rows.count);
            let holds = known(&holds, true);
            let here = open.within(&holds);
            let active = here.active.as_ref().expect("narrowed rows have a mask");
            for row in active.set_indices() {
                taken[row] = branch;
            }
            values.push(self.eval(value, &here)?);
            open = open.within(&!&holds);
        }
        values.push(self.eval(otherwise, &open)?);
        chosen(&values, &taken)
    }

    fn coalesce(&self, all: &[Expr], rows: &Rows) -> Result<Datum> {
        let mut open = rows.clone();
        let last = all.len() - 1;
        let mut taken = vec![last; rows.count];
        let mut values = Vec::with_capacity(all.len());
        for (branch, expr) in all.iter().enumerate() {
            let value = self.eval(expr, &open)?;
            let present: BooleanBuffer = (0..rows.count).map(|i| !value.is_null(i)).collect();
            let here = open.within(&present);
            let active = here.active.as_ref().expect("narrowed rows have a mask");
            for row in active.set_indices() {
                taken[row] = branch;
            }
            values.push(value);
            open = open.within(&!&present);
        }
        chosen(&values, &taken)
    }
}

/// Takes each row's value from the branch that it took.
fn chosen(values: &[Datum], taken: &[usize]) -> Result<Datum> {
    let arrays: Vec<&dyn Array> = values.iter().map(|v| v.array.as_ref()).collect();
    let indices: Vec<(usize, usize)> = taken
        .iter()
        .enumerate()
        .map(|(row, branch)| (*branch, if values[*branch].constant { 0 } else { row }))
        .collect();
    Ok(Datum {
        array: interleave(&arrays, &indices).map_err(internal)?,
        constant: false,
    })
}

/// The rows whose value is `truth`.
fn known(values: &BooleanArray, truth: bool) -> BooleanBuffer {
    let matching = if truth {
        values.values().clone()
    } else {
        !values.values()
    };
    match values.nulls() {
        Some(nulls) => &matching & nulls.inner(),
        None => matching,
    }
}

fn flipped(sense: Sense) -> Sense {
    match sense {
        Sense::Plain => Sense::Negated,
        Sense::Negated => Sense::Plain,
    }
}

fn signed(value: Datum, sense: Sense) -> Result<Datum> {
    match sense {
        Sense::Plain => Ok(value),
        Sense::Negated => Ok(Datum::like(
            not(value.array.as_boolean()).map_err(internal)?,
            value.constant,
        )),
    }
}
