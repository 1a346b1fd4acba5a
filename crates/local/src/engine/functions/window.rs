//! Analytic functions.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result as DFResult, ScalarValue};
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    LimitEffect, PartitionEvaluator, Signature as DFSignature, Volatility, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

use super::array::{Reader, build};
use super::decimal;
use super::operators::decimal_kind;
use super::scalar::external;
use super::signature::{Argument, Resolved, Signature, resolve};
use super::value::{Answer, Value, compare, fail};
use crate::error::{Result, ServiceError};

/// The function's value for every row of a partition.
type Column = Result<Vec<Value<'static>>>;

/// How a function is computed over a partition.
#[derive(Clone, Copy)]
enum Kind {
    /// From the number of rows and their ranks alone: peers share a range.
    Ranks(fn(usize, &[Range<usize>]) -> Column),
    /// From all rows of the partition.
    Partition(fn(&[Vec<Value<'_>>], SkipNulls) -> Column),
    /// From the rows of each row's frame.
    Frame(fn(&[Reader], Range<usize>, SkipNulls) -> Answer),
}

/// IGNORE NULLS or RESPECT NULLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SkipNulls {
    Yes,
    No,
}

/// An analytic function of the library.
pub(crate) struct WindowDefinition {
    /// Lower-case name.
    pub(crate) name: &'static str,
    signatures: Vec<Signature>,
    kind: Kind,
}

impl std::fmt::Debug for WindowDefinition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowDefinition")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl WindowDefinition {
    fn new(name: &'static str, signatures: &[&'static str], kind: Kind) -> Self {
        Self {
            name,
            signatures: signatures.iter().map(|s| Signature::parse(s)).collect(),
            kind,
        }
    }

    /// The types of a call.
    pub(crate) fn resolve(&self, args: &[Argument]) -> Result<Resolved> {
        resolve(self.name, &self.signatures, args)
    }
}

/// The function of `definition` for one call.
pub(crate) fn bind(definition: &Arc<WindowDefinition>, bound: Resolved) -> Arc<WindowUDF> {
    Arc::new(WindowUDF::new_from_impl(WindowFunction {
        definition: Arc::clone(definition),
        bound,
        signature: DFSignature::user_defined(Volatility::Immutable),
    }))
}

#[derive(Debug, Clone)]
struct WindowFunction {
    definition: Arc<WindowDefinition>,
    bound: Resolved,
    signature: DFSignature,
}

impl PartialEq for WindowFunction {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name && self.bound == other.bound
    }
}

impl Eq for WindowFunction {}

impl Hash for WindowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.definition.name, &self.bound).hash(state);
    }
}

impl WindowUDFImpl for WindowFunction {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &DFSignature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> DFResult<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs,
    ) -> DFResult<Box<dyn PartitionEvaluator>> {
        if args.is_reversed() {
            return Err(DataFusionError::Internal(format!(
                "{} cannot run in reverse",
                self.definition.name
            )));
        }
        Ok(Box::new(Evaluator {
            kind: self.definition.kind,
            bound: self.bound.clone(),
            skip_nulls: if args.ignore_nulls() {
                SkipNulls::Yes
            } else {
                SkipNulls::No
            },
        }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> DFResult<FieldRef> {
        Ok(Arc::new(self.bound.ret.to_field(args.name())))
    }

    fn limit_effect(&self, _args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

struct Evaluator {
    kind: Kind,
    bound: Resolved,
    skip_nulls: SkipNulls,
}

impl std::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluator")
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

impl Evaluator {
    fn readers(&self, values: &[ArrayRef]) -> Result<Vec<Reader>> {
        values
            .iter()
            .zip(&self.bound.args)
            .map(|(a, t)| Reader::new(a, t))
            .collect()
    }

    fn whole(&self, values: &[ArrayRef], rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        let readers = self.readers(values)?;
        let table = rows_of(&readers, 0..rows);
        let out = match self.kind {
            Kind::Ranks(f) => f(rows, ranks)?,
            Kind::Partition(f) => f(&table, self.skip_nulls)?,
            Kind::Frame(_) => {
                return Err(ServiceError::internal("a framed function has frames"));
            }
        };
        build(&out, &self.bound.ret)
    }
}

fn rows_of(readers: &[Reader], range: Range<usize>) -> Vec<Vec<Value<'_>>> {
    range
        .map(|i| readers.iter().map(|r| r.get(i)).collect())
        .collect()
}

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], num_rows: usize) -> DFResult<ArrayRef> {
        self.whole(values, num_rows, &[]).map_err(external)
    }

    fn evaluate_all_with_rank(
        &self,
        num_rows: usize,
        ranks_in_partition: &[Range<usize>],
    ) -> DFResult<ArrayRef> {
        self.whole(&[], num_rows, ranks_in_partition)
            .map_err(external)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> DFResult<ScalarValue> {
        let Kind::Frame(f) = self.kind else {
            return Err(DataFusionError::Internal(
                "a function without frames".into(),
            ));
        };
        let answer = self
            .readers(values)
            .and_then(|readers| f(&readers, range.clone(), self.skip_nulls))
            .and_then(|v| build(&[v], &self.bound.ret));
        ScalarValue::try_from_array(&answer.map_err(external)?, 0)
    }

    fn supports_bounded_execution(&self) -> bool {
        false
    }

    fn uses_window_frame(&self) -> bool {
        matches!(self.kind, Kind::Frame(_))
    }

    fn include_rank(&self) -> bool {
        matches!(self.kind, Kind::Ranks(_))
    }
}

fn int(v: usize) -> Value<'static> {
    Value::Int64(v as i64)
}

fn percentile(rows: &[Vec<Value<'_>>], skip: SkipNulls, continuous: bool) -> Answer {
    let Some(first) = rows.first() else {
        return Ok(Value::Null);
    };
    let name = if continuous {
        "PERCENTILE_CONT"
    } else {
        "PERCENTILE_DISC"
    };
    let p = match &first[1] {
        Value::Float64(p) if (0.0..=1.0).contains(p) => *p,
        other => {
            return fail(format!(
                "The percentile argument of {name} must be in the range [0, 1]: {other:?}"
            ));
        }
    };
    let mut values: Vec<&Value<'_>> = rows
        .iter()
        .map(|r| &r[0])
        .filter(|v| skip == SkipNulls::No || !v.is_null())
        .collect();
    if values.is_empty() {
        return Ok(Value::Null);
    }
    values.sort_by(|a, b| compare(a, b));
    let n = values.len();
    if !continuous {
        // The first value whose cumulative distribution reaches p.
        let at = ((p * n as f64).ceil() as usize).clamp(1, n) - 1;
        return Ok(values[at].to_owned_value());
    }
    let place = p * (n - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    let weight = place - low as f64;
    match (values[low], values[high]) {
        (Value::Null, Value::Null) => Ok(Value::Null),
        (v, Value::Null) | (Value::Null, v) => Ok(v.to_owned_value()),
        (Value::Float64(x), Value::Float64(y)) => Ok(Value::Float64(if low == high {
            *x
        } else {
            x * (1.0 - weight) + y * weight
        })),
        (x, y) => {
            let kind = decimal_kind(x);
            let scale = kind.scale();
            let share = decimal::from_float(weight, scale);
            let (x, y) = (kind.units(x)?, kind.units(y)?);
            let step = decimal::rescale(&((y - &x) * share), 2 * scale, scale);
            kind.checked(&(x + step), || name.into())
        }
    }
}

/// The same value for every row of the partition.
fn everywhere(rows: usize, value: Value<'static>) -> Vec<Value<'static>> {
    vec![value; rows]
}

/// LAG and LEAD: `direction` is −1 or 1.
fn neighbour(rows: &[Vec<Value<'_>>], direction: i64, name: &str) -> Result<Vec<Value<'static>>> {
    let mut out = Vec::with_capacity(rows.len());
    for (i, row) in rows.iter().enumerate() {
        let offset = match row.get(1) {
            None => 1,
            Some(Value::Null) => return fail(format!("The offset of {name} cannot be NULL")),
            Some(v) => v.int()?,
        };
        if offset < 0 {
            return fail(format!("The offset of {name} cannot be negative: {offset}"));
        }
        let at = (i as i64)
            .checked_add(direction.saturating_mul(offset))
            .and_then(|at| usize::try_from(at).ok())
            .and_then(|at| rows.get(at));
        out.push(match at {
            Some(other) => other[0].to_owned_value(),
            None => row.get(2).map_or(Value::Null, Value::to_owned_value),
        });
    }
    Ok(out)
}

/// The first of the rows `range` that counts.
fn first_of(readers: &[Reader], mut range: impl Iterator<Item = usize>, skip: SkipNulls) -> Answer {
    let reader = &readers[0];
    Ok(range
        .find(|i| skip == SkipNulls::No || !reader.get(*i).is_null())
        .map_or(Value::Null, |i| reader.get(i).into_owned()))
}

fn nth(readers: &[Reader], range: Range<usize>, skip: SkipNulls) -> Answer {
    if range.is_empty() {
        return Ok(Value::Null);
    }
    let n = match readers[1].get(range.start) {
        Value::Null => return fail("The N argument of NTH_VALUE cannot be NULL"),
        v => v.int()?,
    };
    if n < 1 {
        return fail(format!("The N argument of NTH_VALUE must be positive: {n}"));
    }
    let reader = &readers[0];
    Ok(range
        .filter(|i| skip == SkipNulls::No || !reader.get(*i).is_null())
        .nth((n - 1) as usize)
        .map_or(Value::Null, |i| reader.get(i).into_owned()))
}

fn ntile(rows: &[Vec<Value<'_>>]) -> Result<Vec<Value<'static>>> {
    let Some(first) = rows.first() else {
        return Ok(Vec::new());
    };
    let tiles = match &first[0] {
        Value::Null => return fail("The N value of NTILE cannot be NULL"),
        v => v.int()?,
    };
    if tiles < 1 {
        return fail("The N value (number of buckets) for the NTILE function must be positive");
    }
    let (n, tiles) = (rows.len() as i64, tiles);
    let (size, larger) = (n / tiles, n % tiles);
    Ok((0..n)
        .map(|i| {
            let in_larger = larger * (size + 1);
            Value::Int64(if i < in_larger {
                i / (size + 1) + 1
            } else {
                (i - in_larger) / size.max(1) + larger + 1
            })
        })
        .collect())
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<WindowDefinition> {
    let of = WindowDefinition::new;
    vec![
        of(
            "row_number",
            &["-> INT64"],
            Kind::Ranks(|n, _| Ok((1..=n).map(int).collect())),
        ),
        of(
            "rank",
            &["-> INT64"],
            Kind::Ranks(|_, ranks| {
                Ok(ranks
                    .iter()
                    .flat_map(|r| r.clone().map(|_| int(r.start + 1)))
                    .collect())
            }),
        ),
        of(
            "dense_rank",
            &["-> INT64"],
            Kind::Ranks(|_, ranks| {
                Ok(ranks
                    .iter()
                    .enumerate()
                    .flat_map(|(i, r)| r.clone().map(move |_| int(i + 1)))
                    .collect())
            }),
        ),
        of(
            "percent_rank",
            &["-> FLOAT64"],
            Kind::Ranks(|n, ranks| {
                Ok(ranks
                    .iter()
                    .flat_map(|r| {
                        let v = if n > 1 {
                            r.start as f64 / (n - 1) as f64
                        } else {
                            0.0
                        };
                        r.clone().map(move |_| Value::Float64(v))
                    })
                    .collect())
            }),
        ),
        of(
            "cume_dist",
            &["-> FLOAT64"],
            Kind::Ranks(|n, ranks| {
                Ok(ranks
                    .iter()
                    .flat_map(|r| {
                        let v = r.end as f64 / n as f64;
                        r.clone().map(move |_| Value::Float64(v))
                    })
                    .collect())
            }),
        ),
        of(
            "ntile",
            &["INT64 -> INT64"],
            Kind::Partition(|rows, _| ntile(rows)),
        ),
        of(
            "lag",
            &["T, INT64? -> T", "T, INT64, T -> T"],
            Kind::Partition(|rows, _| neighbour(rows, -1, "LAG")),
        ),
        of(
            "lead",
            &["T, INT64? -> T", "T, INT64, T -> T"],
            Kind::Partition(|rows, _| neighbour(rows, 1, "LEAD")),
        ),
        of("first_value", &["T -> T"], Kind::Frame(first_of)),
        of(
            "last_value",
            &["T -> T"],
            Kind::Frame(|readers, range, skip| first_of(readers, range.rev(), skip)),
        ),
        of("nth_value", &["T, INT64 -> T"], Kind::Frame(nth)),
        // NULLs are left out unless RESPECT NULLS is said, which the analyzer
        // does not pass on: it is what IGNORE NULLS makes explicit.
        of(
            "percentile_cont",
            &[
                "FLOAT64, FLOAT64 -> FLOAT64",
                "NUMERIC, NUMERIC -> NUMERIC",
                "BIGNUMERIC, BIGNUMERIC -> BIGNUMERIC",
            ],
            Kind::Partition(|rows, _| {
                Ok(everywhere(
                    rows.len(),
                    percentile(rows, SkipNulls::Yes, true)?,
                ))
            }),
        ),
        of(
            "percentile_disc",
            &["T, FLOAT64 -> T"],
            Kind::Partition(|rows, _| {
                Ok(everywhere(
                    rows.len(),
                    percentile(rows, SkipNulls::Yes, false)?,
                ))
            }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(v: &[i64]) -> Vec<Vec<Value<'static>>> {
        v.iter().map(|v| vec![Value::Int64(*v)]).collect()
    }

    fn ints(v: &[Value<'_>]) -> Vec<i64> {
        v.iter().map(|v| v.int().unwrap()).collect()
    }

    #[test]
    fn tiles_and_neighbours() {
        let rows: Vec<_> = (0..7).map(|_| vec![Value::Int64(3)]).collect();
        assert_eq!(ints(&ntile(&rows).unwrap()), [1, 1, 1, 2, 2, 3, 3]);
        let rows: Vec<_> = (0..2).map(|_| vec![Value::Int64(5)]).collect();
        assert_eq!(ints(&ntile(&rows).unwrap()), [1, 2]);
        let lag = neighbour(&column(&[10, 20]), -1, "LAG").unwrap();
        assert_eq!(lag, [Value::Null, Value::Int64(10)]);
        let with_default: Vec<_> = (0..2)
            .map(|i| vec![Value::Int64(i), Value::Int64(1), Value::Int64(-1)])
            .collect();
        assert_eq!(
            neighbour(&with_default, 1, "LEAD").unwrap(),
            [Value::Int64(1), Value::Int64(-1)]
        );
    }

    #[test]
    fn percentiles() {
        let rows = |p: f64| -> Vec<Vec<Value<'static>>> {
            (1..=10)
                .map(|i| vec![Value::Float64(f64::from(i)), Value::Float64(p)])
                .collect()
        };
        let Value::Float64(v) = percentile(&rows(0.95), SkipNulls::Yes, true).unwrap() else {
            panic!("a FLOAT64")
        };
        assert!((v - 9.55).abs() < 1e-9);
        assert_eq!(
            percentile(&rows(0.5), SkipNulls::Yes, false).unwrap(),
            Value::Float64(5.0)
        );
        assert_eq!(
            percentile(&rows(0.0), SkipNulls::Yes, false).unwrap(),
            Value::Float64(1.0)
        );
        assert!(percentile(&rows(1.5), SkipNulls::Yes, true).is_err());
    }
}
