//! Sums, extremes, logic and statistics over rows.

use arrow::datatypes::i256;
use datafusion::common::ScalarValue;
use num_bigint::BigInt;

use super::aggregate::{AggregateDefinition, Fold};
use super::decimal::{self, DecimalKind};
use super::interval;
use super::scalar::Resolver;
use super::signature::{Argument, Resolved, no_signature};
use super::types::SqlType;
use super::value::{Answer, Interval, Value, compare, fail};
use crate::error::{Result, ServiceError};

/// A running total of any numeric type.
#[derive(Debug, Clone)]
enum Total {
    Int(i128),
    Float(f64),
    Numeric(i256),
    BigNumeric(BigInt),
    Interval(Interval),
}

impl Total {
    fn zero(t: &SqlType) -> Total {
        match t {
            SqlType::Float64 => Total::Float(0.0),
            SqlType::Numeric => Total::Numeric(i256::ZERO),
            SqlType::BigNumeric => Total::BigNumeric(BigInt::ZERO),
            SqlType::Interval => Total::Interval(Interval::default()),
            _ => Total::Int(0),
        }
    }

    fn add(&mut self, value: &Value<'_>) -> Result<()> {
        match (self, value) {
            (Total::Int(t), Value::Int64(v)) => *t += i128::from(*v),
            (Total::Float(t), Value::Float64(v)) => *t += v,
            (Total::Numeric(t), Value::Numeric(v)) => *t = t.wrapping_add(i256::from_i128(*v)),
            (Total::BigNumeric(t), Value::BigNumeric(v)) => *t += decimal::to_big(*v),
            (Total::Interval(t), Value::Interval(v)) => {
                t.months += v.months;
                t.days += v.days;
                t.nanos += v.nanos;
            }
            (_, other) => {
                return Err(ServiceError::internal(format!("no sum of {other:?}")));
            }
        }
        Ok(())
    }

    /// The total as a value that survives a state: text, which holds all of them.
    fn to_state(&self) -> Value<'static> {
        Value::text(match self {
            Total::Int(v) => v.to_string(),
            Total::Float(v) => format!("{:016x}", v.to_bits()),
            Total::Numeric(v) => v.to_string(),
            Total::BigNumeric(v) => v.to_string(),
            Total::Interval(v) => format!("{} {} {}", v.months, v.days, v.nanos),
        })
    }

    fn merge(&mut self, state: &str) -> Result<()> {
        let bad = || ServiceError::internal(format!("no total in '{state}'"));
        match self {
            Total::Int(t) => *t += state.parse::<i128>().map_err(|_| bad())?,
            Total::Float(t) => {
                *t += f64::from_bits(u64::from_str_radix(state, 16).map_err(|_| bad())?);
            }
            Total::Numeric(t) => *t = t.wrapping_add(i256::from_string(state).ok_or_else(bad)?),
            Total::BigNumeric(t) => *t += state.parse::<BigInt>().map_err(|_| bad())?,
            Total::Interval(t) => {
                let parts: Vec<i128> = state.split(' ').filter_map(|p| p.parse().ok()).collect();
                let [months, days, nanos] = parts.as_slice() else {
                    return Err(bad());
                };
                t.months += i64::try_from(*months).map_err(|_| bad())?;
                t.days += i64::try_from(*days).map_err(|_| bad())?;
                t.nanos += nanos;
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Sum {
    total: Total,
    count: i64,
    mean: bool,
}

impl Fold for Sum {
    fn add(&mut self, row: &[Value<'_>]) -> Result<()> {
        self.count += 1;
        self.total.add(&row[0])
    }

    fn result(&self) -> Answer {
        if self.count == 0 {
            return Ok(Value::Null);
        }
        let n = self.count;
        if self.mean {
            return match &self.total {
                Total::Int(t) => Ok(Value::Float64(*t as f64 / n as f64)),
                Total::Float(t) => Ok(Value::Float64(t / n as f64)),
                Total::Numeric(t) => {
                    let mean = decimal::divide_rounded(&decimal::to_big(*t), &BigInt::from(n));
                    DecimalKind::Numeric.checked(&mean, || "AVG".into())
                }
                Total::BigNumeric(t) => DecimalKind::BigNumeric
                    .checked(&decimal::divide_rounded(t, &BigInt::from(n)), || {
                        "AVG".into()
                    }),
                Total::Interval(t) => {
                    let day = 86_400_000_000_000i128;
                    let n = i128::from(n);
                    let months = i128::from(t.months);
                    let days = i128::from(t.days) + months % n * 30;
                    let nanos = (t.nanos + days % n * day) / n;
                    let narrow = |v: i128| i64::try_from(v).unwrap_or(i64::MAX);
                    interval::checked(Interval {
                        months: narrow(months / n),
                        days: narrow(days / n),
                        nanos: nanos / 1000 * 1000,
                    })
                    .map(Value::Interval)
                }
            };
        }
        match &self.total {
            Total::Int(t) => match i64::try_from(*t) {
                Ok(v) => Ok(Value::Int64(v)),
                Err(_) => fail(format!("int64 overflow: SUM is {t}")),
            },
            Total::Float(t) => Ok(Value::Float64(*t)),
            Total::Numeric(t) => {
                DecimalKind::Numeric.checked(&decimal::to_big(*t), || "SUM".into())
            }
            Total::BigNumeric(t) => DecimalKind::BigNumeric.checked(t, || "SUM".into()),
            Total::Interval(t) => interval::checked(*t).map(Value::Interval),
        }
    }

    fn state(&self) -> Result<Vec<Value<'static>>> {
        Ok(vec![self.total.to_state(), Value::Int64(self.count)])
    }

    fn merge(&mut self, state: &[Value<'_>]) -> Result<()> {
        self.count += state[1].int()?;
        self.total.merge(state[0].str()?)
    }
}

/// MIN, MAX, ANY_VALUE, MIN_BY and MAX_BY: one chosen row.
#[derive(Debug)]
struct Chosen {
    rule: Rule,
    best: Option<(Value<'static>, Value<'static>)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    First,
    Least,
    Greatest,
}

impl Chosen {
    fn offer(&mut self, value: &Value<'_>, key: &Value<'_>) {
        if key.is_null() {
            return;
        }
        let nan = |v: &Value<'_>| matches!(v, Value::Float64(x) if x.is_nan());
        let better = match (&self.best, self.rule) {
            (None, _) => true,
            (Some(_), Rule::First) => false,
            (Some((_, best)), _) if nan(best) => false,
            (Some(_), _) if nan(key) => true,
            (Some((_, best)), Rule::Least) => compare(key, best).is_lt(),
            (Some((_, best)), Rule::Greatest) => compare(key, best).is_gt(),
        };
        if better {
            self.best = Some((value.to_owned_value(), key.to_owned_value()));
        }
    }
}

impl Fold for Chosen {
    fn add(&mut self, row: &[Value<'_>]) -> Result<()> {
        self.offer(&row[0], row.last().unwrap_or(&Value::Null));
        Ok(())
    }

    fn result(&self) -> Answer {
        Ok(self.best.as_ref().map_or(Value::Null, |(v, _)| v.clone()))
    }

    fn state(&self) -> Result<Vec<Value<'static>>> {
        Ok(match &self.best {
            Some((v, k)) => vec![v.clone(), k.clone()],
            None => vec![Value::Null, Value::Null],
        })
    }

    fn merge(&mut self, state: &[Value<'_>]) -> Result<()> {
        self.offer(&state[0], &state[1]);
        Ok(())
    }

    fn held(&self) -> usize {
        64
    }
}

/// COUNTIF, LOGICAL_AND, LOGICAL_OR and the bit aggregates: one integer.
#[derive(Debug)]
struct Bits {
    rule: fn(i64, i64) -> i64,
    value: Option<i64>,
    answer: fn(Option<i64>) -> Value<'static>,
}

fn as_int(value: &Value<'_>) -> Result<i64> {
    match value {
        Value::Bool(b) => Ok(i64::from(*b)),
        other => other.int(),
    }
}

impl Fold for Bits {
    fn add(&mut self, row: &[Value<'_>]) -> Result<()> {
        let v = as_int(&row[0])?;
        self.value = Some(self.value.map_or(v, |x| (self.rule)(x, v)));
        Ok(())
    }

    fn result(&self) -> Answer {
        Ok((self.answer)(self.value))
    }

    fn state(&self) -> Result<Vec<Value<'static>>> {
        Ok(vec![self.value.map_or(Value::Null, Value::Int64)])
    }

    fn merge(&mut self, state: &[Value<'_>]) -> Result<()> {
        if state[0].is_null() {
            Ok(())
        } else {
            self.add(state)
        }
    }
}

/// Means and second moments of one or two variables, by Welford's updates.
#[derive(Debug, Default)]
struct Moments {
    n: f64,
    mean: [f64; 2],
    m2: [f64; 2],
    co: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Statistic {
    VarPop,
    VarSamp,
    StdDevPop,
    StdDevSamp,
    CovarPop,
    CovarSamp,
    Corr,
}

#[derive(Debug)]
struct Statistics {
    which: Statistic,
    moments: Moments,
}

impl Fold for Statistics {
    fn add(&mut self, row: &[Value<'_>]) -> Result<()> {
        if row.iter().any(Value::is_null) {
            return Ok(());
        }
        let x = row[0].float()?;
        let y = row.get(1).map_or(Ok(x), Value::float)?;
        let m = &mut self.moments;
        m.n += 1.0;
        let dx = x - m.mean[0];
        m.mean[0] += dx / m.n;
        m.m2[0] += dx * (x - m.mean[0]);
        let dy = y - m.mean[1];
        m.mean[1] += dy / m.n;
        m.m2[1] += dy * (y - m.mean[1]);
        m.co += dx * (y - m.mean[1]);
        Ok(())
    }

    fn result(&self) -> Answer {
        let m = &self.moments;
        let over = |numerator: f64, by: f64| {
            if m.n == 0.0 || by <= 0.0 {
                None
            } else {
                Some(numerator / by)
            }
        };
        let result = match self.which {
            Statistic::VarPop => over(m.m2[0], m.n),
            Statistic::VarSamp => over(m.m2[0], m.n - 1.0),
            Statistic::StdDevPop => over(m.m2[0], m.n).map(f64::sqrt),
            Statistic::StdDevSamp => over(m.m2[0], m.n - 1.0).map(f64::sqrt),
            Statistic::CovarPop => over(m.co, m.n),
            Statistic::CovarSamp => over(m.co, m.n - 1.0),
            Statistic::Corr if m.n < 2.0 => None,
            Statistic::Corr => Some(m.co / (m.m2[0].sqrt() * m.m2[1].sqrt())),
        };
        Ok(result.map_or(Value::Null, Value::Float64))
    }

    fn state(&self) -> Result<Vec<Value<'static>>> {
        let m = &self.moments;
        Ok([m.n, m.mean[0], m.mean[1], m.m2[0], m.m2[1], m.co]
            .map(Value::Float64)
            .to_vec())
    }

    fn merge(&mut self, state: &[Value<'_>]) -> Result<()> {
        let s = state.iter().map(Value::float).collect::<Result<Vec<_>>>()?;
        let m = &mut self.moments;
        let n = m.n + s[0];
        if n == 0.0 {
            return Ok(());
        }
        let (dx, dy) = (s[1] - m.mean[0], s[2] - m.mean[1]);
        let weight = m.n * s[0] / n;
        m.m2[0] += s[3] + dx * dx * weight;
        m.m2[1] += s[4] + dy * dy * weight;
        m.co += s[5] + dx * dy * weight;
        m.mean[0] += dx * s[0] / n;
        m.mean[1] += dy * s[0] / n;
        m.n = n;
        Ok(())
    }
}

fn orderable(name: &str, args: &[Argument]) -> Result<Resolved> {
    let keys = if name.ends_with("_by") { 2 } else { 1 };
    if args.len() != keys {
        return no_signature(name, args, &[]);
    }
    let types: Vec<SqlType> = args
        .iter()
        .map(|a| match &a.sql_type {
            SqlType::Null => SqlType::Int64,
            t => t.clone(),
        })
        .collect();
    let key = &types[keys - 1];
    if name != "any_value" && !key.supports_ordering() {
        return fail(format!(
            "{} is not defined for arguments of type {key}",
            name.to_ascii_uppercase()
        ));
    }
    Ok(Resolved {
        ret: types[0].clone(),
        args: types,
    })
}

const BY: Resolver = orderable;

macro_rules! statistic {
    ($name:literal, $args:literal, $which:ident) => {
        AggregateDefinition::new(
            $name,
            &[$args],
            |_| {
                Box::new(Statistics {
                    which: Statistic::$which,
                    moments: Moments::default(),
                })
            },
            |_| vec![SqlType::Float64; 6],
        )
    };
}

macro_rules! bits {
    ($name:literal, $sig:literal, $rule:expr, $answer:expr) => {
        AggregateDefinition::new(
            $name,
            &[$sig],
            |_| {
                Box::new(Bits {
                    rule: $rule,
                    value: None,
                    answer: $answer,
                })
            },
            |_| vec![SqlType::Int64],
        )
    };
}

macro_rules! chosen {
    ($name:literal, $rule:ident) => {
        AggregateDefinition::new(
            $name,
            &[],
            |_| {
                Box::new(Chosen {
                    rule: Rule::$rule,
                    best: None,
                })
            },
            |r| vec![r.ret.clone(), r.args[r.args.len() - 1].clone()],
        )
        .resolved_by(BY)
    };
}

fn int(v: Option<i64>) -> Value<'static> {
    v.map_or(Value::Null, Value::Int64)
}

fn bool(v: Option<i64>) -> Value<'static> {
    v.map_or(Value::Null, |v| Value::Bool(v != 0))
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<AggregateDefinition> {
    let numbers = |mean: &'static [&'static str]| mean;
    vec![
        AggregateDefinition::new(
            "sum",
            numbers(&[
                "INT64 -> INT64",
                "FLOAT64 -> FLOAT64",
                "NUMERIC -> NUMERIC",
                "BIGNUMERIC -> BIGNUMERIC",
                "INTERVAL -> INTERVAL",
            ]),
            |r| {
                Box::new(Sum {
                    total: Total::zero(&r.args[0]),
                    count: 0,
                    mean: false,
                })
            },
            |_| vec![SqlType::String, SqlType::Int64],
        ),
        AggregateDefinition::new(
            "avg",
            numbers(&[
                "INT64 -> FLOAT64",
                "FLOAT64 -> FLOAT64",
                "NUMERIC -> NUMERIC",
                "BIGNUMERIC -> BIGNUMERIC",
                "INTERVAL -> INTERVAL",
            ]),
            |r| {
                Box::new(Sum {
                    total: Total::zero(&r.args[0]),
                    count: 0,
                    mean: true,
                })
            },
            |_| vec![SqlType::String, SqlType::Int64],
        ),
        chosen!("min", Least),
        chosen!("max", Greatest),
        chosen!("any_value", First),
        chosen!("min_by", Least).seeing_nulls(),
        chosen!("max_by", Greatest).seeing_nulls(),
        bits!("countif", "BOOL -> INT64", |x, y| x + y, |v| Value::Int64(
            v.unwrap_or(0)
        ))
        .empty(ScalarValue::Int64(Some(0))),
        bits!("logical_and", "BOOL -> BOOL", |x, y| x & y, bool),
        bits!("logical_or", "BOOL -> BOOL", |x, y| x | y, bool),
        bits!("bit_and", "INT64 -> INT64", |x, y| x & y, int),
        bits!("bit_or", "INT64 -> INT64", |x, y| x | y, int),
        bits!("bit_xor", "INT64 -> INT64", |x, y| x ^ y, int),
        statistic!("var_pop", "FLOAT64 -> FLOAT64", VarPop),
        statistic!("var_samp", "FLOAT64 -> FLOAT64", VarSamp),
        statistic!("variance", "FLOAT64 -> FLOAT64", VarSamp),
        statistic!("stddev_pop", "FLOAT64 -> FLOAT64", StdDevPop),
        statistic!("stddev_samp", "FLOAT64 -> FLOAT64", StdDevSamp),
        statistic!("stddev", "FLOAT64 -> FLOAT64", StdDevSamp),
        statistic!("covar_pop", "FLOAT64, FLOAT64 -> FLOAT64", CovarPop),
        statistic!("covar_samp", "FLOAT64, FLOAT64 -> FLOAT64", CovarSamp),
        statistic!("corr", "FLOAT64, FLOAT64 -> FLOAT64", Corr),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, types: &[SqlType], rows: &[Vec<Value<'static>>]) -> Answer {
        let definition = definitions().into_iter().find(|d| d.name == name).unwrap();
        let args: Vec<_> = types
            .iter()
            .map(|t| Argument::expression(t.clone()))
            .collect();
        let bound = definition.resolve(&args).unwrap();
        definition.run(&bound, rows)
    }

    fn one(name: &str, t: SqlType, values: Vec<Value<'static>>) -> Answer {
        run(
            name,
            &[t],
            &values.into_iter().map(|v| vec![v]).collect::<Vec<_>>(),
        )
    }

    #[test]
    fn sums_and_means() {
        let ints = |v: &[i64]| v.iter().map(|v| Value::Int64(*v)).collect::<Vec<_>>();
        assert_eq!(
            one("sum", SqlType::Int64, ints(&[1, 2, 3])).unwrap(),
            Value::Int64(6)
        );
        assert_eq!(
            one("sum", SqlType::Int64, vec![Value::Null]).unwrap(),
            Value::Null
        );
        assert_eq!(
            one("sum", SqlType::Int64, ints(&[i64::MAX, 1, -1])).unwrap(),
            Value::Int64(i64::MAX)
        );
        assert!(one("sum", SqlType::Int64, ints(&[i64::MAX, 1])).is_err());
        assert_eq!(
            one("avg", SqlType::Int64, ints(&[1, 2])).unwrap(),
            Value::Float64(1.5)
        );
        assert_eq!(
            one(
                "avg",
                SqlType::Numeric,
                vec![Value::Numeric(1), Value::Numeric(2)]
            )
            .unwrap(),
            Value::Numeric(2)
        );
        assert_eq!(
            one("countif", SqlType::Bool, vec![]).unwrap(),
            Value::Int64(0)
        );
    }

    #[test]
    fn extremes_and_statistics() {
        let floats = |v: &[f64]| v.iter().map(|v| Value::Float64(*v)).collect::<Vec<_>>();
        let max = one("max", SqlType::Float64, floats(&[1.0, f64::NAN, 2.0])).unwrap();
        assert!(matches!(max, Value::Float64(x) if x.is_nan()));
        assert_eq!(
            one("min", SqlType::Float64, floats(&[2.0, 1.0])).unwrap(),
            Value::Float64(1.0)
        );
        assert_eq!(
            one("var_samp", SqlType::Float64, floats(&[2.0, 4.0, 6.0])).unwrap(),
            Value::Float64(4.0)
        );
        assert_eq!(
            one("variance", SqlType::Float64, floats(&[2.0])).unwrap(),
            Value::Null
        );
        let rows: Vec<_> = [("a", 1), ("b", 3), ("c", 2)]
            .map(|(s, n)| vec![Value::text(s), Value::Int64(n)])
            .to_vec();
        let types = [SqlType::String, SqlType::Int64];
        assert_eq!(run("max_by", &types, &rows).unwrap(), Value::text("b"));
        assert_eq!(run("min_by", &types, &rows).unwrap(), Value::text("a"));
    }
}
