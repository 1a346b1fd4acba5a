//! Aggregates that keep their rows: arrays, joined text, approximate counts and
//! quantiles (which are exact here).

use std::collections::{HashMap, HashSet};

use datafusion::common::ScalarValue;

use super::aggregate::{AggregateDefinition, Fold};
use super::signature::{Argument, Resolved, Signature, no_signature, resolve};
use super::types::SqlType;
use super::value::{Answer, Value, compare, fail, group_key};
use crate::error::Result;

/// ARRAY_AGG and ARRAY_CONCAT_AGG.
#[derive(Debug)]
struct Gather {
    items: Option<Vec<Value<'static>>>,
    flatten: bool,
}

impl Gather {
    fn extend(&mut self, values: &[Value<'_>]) {
        self.items
            .get_or_insert_default()
            .extend(values.iter().map(Value::to_owned_value));
    }
}

impl Fold for Gather {
    fn add(&mut self, row: &[Value<'_>]) -> Result<()> {
        if self.flatten {
            self.extend(row[0].array()?);
        } else {
            self.extend(&row[..1]);
        }
        Ok(())
    }

    fn result(&self) -> Answer {
        Ok(self.items.clone().map_or(Value::Null, Value::Array))
    }

    fn state(&self) -> Result<Vec<Value<'static>>> {
        Ok(vec![self.result()?])
    }

    fn merge(&mut self, state: &[Value<'_>]) -> Result<()> {
        if !state[0].is_null() {
            self.extend(state[0].array()?);
        }
        Ok(())
    }

    fn held(&self) -> usize {
        self.items.as_ref().map_or(0, |i| i.len() * 48)
    }
}

/// STRING_AGG.
#[derive(Debug)]
struct Join {
    joined: Option<Value<'static>>,
    /// What goes before this fold's first value once another one comes first.
    first_delimiter: Value<'static>,
}

fn concat(a: &Value<'_>, b: &Value<'_>, c: &Value<'_>) -> Answer {
    Ok(match a {
        Value::Bytes(a) => Value::binary([&a[..], b.bytes()?, c.bytes()?].concat()),
        a => Value::text([a.str()?, b.str()?, c.str()?].concat()),
    })
}

impl Join {
    fn append(&mut self, delimiter: &Value<'_>, value: &Value<'_>) -> Result<()> {
        self.joined = Some(match &self.joined {
            None => {
                self.first_delimiter = delimiter.to_owned_value();
                value.to_owned_value()
            }
            Some(so_far) => concat(so_far, delimiter, value)?,
        });
        Ok(())
    }
}

impl Fold for Join {
    fn add(&mut self, row: &[Value<'_>]) -> Result<()> {
        let comma = match row[0] {
            Value::Bytes(_) => Value::binary(","),
            _ => Value::text(","),
        };
        match row.get(1) {
            Some(Value::Null) => fail("The delimiter of STRING_AGG cannot be NULL"),
            Some(delimiter) => self.append(delimiter, &row[0]),
            None => self.append(&comma, &row[0]),
        }
    }

    fn result(&self) -> Answer {
        Ok(self.joined.clone().unwrap_or(Value::Null))
    }

    fn state(&self) -> Result<Vec<Value<'static>>> {
        Ok(vec![self.result()?, self.first_delimiter.clone()])
    }

    fn merge(&mut self, state: &[Value<'_>]) -> Result<()> {
        if state[0].is_null() {
            return Ok(());
        }
        self.append(&state[1], &state[0])
    }

    fn held(&self) -> usize {
        match &self.joined {
            Some(Value::String(s)) => s.len(),
            Some(Value::Bytes(b)) => b.len(),
            _ => 0,
        }
    }
}

fn key_of(value: &Value<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    group_key(value, &mut key);
    key
}

/// APPROX_COUNT_DISTINCT.
#[derive(Debug, Default)]
struct Distinct {
    keys: HashSet<Vec<u8>>,
}

impl Fold for Distinct {
    fn add(&mut self, row: &[Value<'_>]) -> Result<()> {
        self.keys.insert(key_of(&row[0]));
        Ok(())
    }

    fn result(&self) -> Answer {
        Ok(Value::Int64(self.keys.len() as i64))
    }

    fn state(&self) -> Result<Vec<Value<'static>>> {
        Ok(vec![Value::Array(
            self.keys.iter().map(|k| Value::binary(k.clone())).collect(),
        )])
    }

    fn merge(&mut self, state: &[Value<'_>]) -> Result<()> {
        for key in state[0].array()? {
            self.keys.insert(key.bytes()?.to_vec());
        }
        Ok(())
    }

    fn held(&self) -> usize {
        self.keys.len() * 64
    }
}

/// Every row, for aggregates that need them all.
#[derive(Debug)]
struct Rows {
    rows: Vec<Vec<Value<'static>>>,
    finish: fn(&[Vec<Value<'static>>]) -> Answer,
}

impl Fold for Rows {
    fn add(&mut self, row: &[Value<'_>]) -> Result<()> {
        self.rows
            .push(row.iter().map(Value::to_owned_value).collect());
        Ok(())
    }

    fn result(&self) -> Answer {
        (self.finish)(&self.rows)
    }

    fn state(&self) -> Result<Vec<Value<'static>>> {
        Ok(vec![Value::Array(
            self.rows.iter().map(|r| Value::Struct(r.clone())).collect(),
        )])
    }

    fn merge(&mut self, state: &[Value<'_>]) -> Result<()> {
        for row in state[0].array()? {
            self.add(row.fields()?)?;
        }
        Ok(())
    }

    fn held(&self) -> usize {
        self.rows.len() * 96
    }
}

fn rows_state(r: &Resolved) -> Vec<SqlType> {
    let fields = r
        .args
        .iter()
        .enumerate()
        .map(|(i, t)| (format!("f{i}"), t.clone()))
        .collect();
    vec![SqlType::Array(Box::new(SqlType::Struct(fields)))]
}

fn positive(value: &Value<'_>, name: &str) -> Result<usize> {
    let n = value.int()?;
    match usize::try_from(n) {
        Ok(n) if n > 0 && n <= 1_000_000 => Ok(n),
        _ => fail(format!(
            "The number argument of {name} must be positive: {n}"
        )),
    }
}

/// `number + 1` values that cut the sorted rows into `number` parts.
fn quantiles(rows: &[Vec<Value<'static>>]) -> Answer {
    let Some(first) = rows.first() else {
        return Ok(Value::Null);
    };
    let number = positive(&first[1], "APPROX_QUANTILES")?;
    let mut values: Vec<&Value<'static>> = rows.iter().map(|r| &r[0]).collect();
    values.sort_by(|a, b| compare(a, b));
    let last = values.len() - 1;
    Ok(Value::Array(
        (0..=number)
            .map(|i| values[(i * last + number / 2) / number].clone())
            .collect(),
    ))
}

/// The values with the greatest weights, greatest first.
fn top(rows: &[Vec<Value<'static>>], weighted: bool) -> Answer {
    let name = if weighted {
        "APPROX_TOP_SUM"
    } else {
        "APPROX_TOP_COUNT"
    };
    let Some(first) = rows.first() else {
        return Ok(Value::Null);
    };
    let number = positive(&first[first.len() - 1], name)?;
    let mut order: Vec<Value<'static>> = Vec::new();
    let mut totals: Vec<Value<'static>> = Vec::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    for row in rows {
        let weight = if weighted { &row[1] } else { &Value::Int64(1) };
        let key = key_of(&row[0]);
        let place = *places.entry(key).or_insert_with(|| {
            order.push(row[0].clone());
            totals.push(Value::Null);
            order.len() - 1
        });
        if weight.is_null() {
            continue;
        }
        let total = &mut totals[place];
        *total = if total.is_null() {
            weight.clone()
        } else {
            super::operators::arithmetic(super::operators::Arithmetic::Add, total, weight)?
        };
    }
    let mut ranked: Vec<usize> = (0..order.len()).collect();
    ranked.sort_by(|a, b| compare(&totals[*b], &totals[*a]));
    Ok(Value::Array(
        ranked
            .into_iter()
            .take(number)
            .map(|i| Value::Struct(vec![order[i].clone(), totals[i].clone()]))
            .collect(),
    ))
}

fn ranked_call(name: &str, args: &[Argument]) -> Result<Resolved> {
    let weighted = name == "approx_top_sum";
    let patterns: &[&'static str] = if weighted {
        &[
            "T, INT64, INT64 -> T",
            "T, FLOAT64, INT64 -> T",
            "T, NUMERIC, INT64 -> T",
            "T, BIGNUMERIC, INT64 -> T",
        ]
    } else {
        &["T, INT64 -> T"]
    };
    let signatures: Vec<Signature> = patterns.iter().map(|s| Signature::parse(s)).collect();
    let mut resolved = resolve(name, &signatures, args)?;
    let weight = if weighted {
        ("sum".to_string(), resolved.args[1].clone())
    } else {
        ("count".to_string(), SqlType::Int64)
    };
    resolved.ret = SqlType::Array(Box::new(SqlType::Struct(vec![
        ("value".into(), resolved.args[0].clone()),
        weight,
    ])));
    Ok(resolved)
}

fn array_agg_call(name: &str, args: &[Argument]) -> Result<Resolved> {
    match args {
        [
            Argument {
                sql_type: SqlType::Array(_),
                ..
            },
        ] => fail("The argument to ARRAY_AGG must not be an array type but was an array"),
        [arg] => {
            let t = match &arg.sql_type {
                SqlType::Null => SqlType::Int64,
                t => t.clone(),
            };
            Ok(Resolved {
                args: vec![t.clone()],
                ret: SqlType::Array(Box::new(t)),
            })
        }
        _ => no_signature(name, args, &[]),
    }
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<AggregateDefinition> {
    let array = |r: &Resolved| vec![r.ret.clone()];
    vec![
        AggregateDefinition::new(
            "array_agg",
            &[],
            |_| {
                Box::new(Gather {
                    items: None,
                    flatten: false,
                })
            },
            array,
        )
        .resolved_by(array_agg_call)
        .seeing_nulls(),
        AggregateDefinition::new(
            "array_concat_agg",
            &["ARRAY<T> -> ARRAY<T>"],
            |_| {
                Box::new(Gather {
                    items: None,
                    flatten: true,
                })
            },
            array,
        ),
        AggregateDefinition::new(
            "string_agg",
            &["STRING, STRING? -> STRING", "BYTES, BYTES? -> BYTES"],
            |_| {
                Box::new(Join {
                    joined: None,
                    first_delimiter: Value::Null,
                })
            },
            |r| vec![r.ret.clone(), r.ret.clone()],
        ),
        AggregateDefinition::new(
            "approx_count_distinct",
            &["T -> INT64"],
            |_| Box::new(Distinct::default()),
            |_| vec![SqlType::Array(Box::new(SqlType::Bytes))],
        )
        .empty(ScalarValue::Int64(Some(0))),
        AggregateDefinition::new(
            "approx_quantiles",
            &["T, INT64 -> ARRAY<T>"],
            |_| {
                Box::new(Rows {
                    rows: Vec::new(),
                    finish: quantiles,
                })
            },
            rows_state,
        ),
        AggregateDefinition::new(
            "approx_top_count",
            &[],
            |_| {
                Box::new(Rows {
                    rows: Vec::new(),
                    finish: |rows| top(rows, false),
                })
            },
            rows_state,
        )
        .resolved_by(ranked_call)
        .seeing_nulls(),
        AggregateDefinition::new(
            "approx_top_sum",
            &[],
            |_| {
                Box::new(Rows {
                    rows: Vec::new(),
                    finish: |rows| top(rows, true),
                })
            },
            rows_state,
        )
        .resolved_by(ranked_call)
        .seeing_nulls(),
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

    fn texts(v: &[&str]) -> Vec<Vec<Value<'static>>> {
        v.iter().map(|s| vec![Value::text(*s)]).collect()
    }

    #[test]
    fn text_and_arrays() {
        assert_eq!(
            run("string_agg", &[SqlType::String], &texts(&["a", "b", "c"])).unwrap(),
            Value::text("a,b,c")
        );
        assert_eq!(
            run("string_agg", &[SqlType::String], &[]).unwrap(),
            Value::Null
        );
        let rows = vec![
            vec![Value::Int64(1)],
            vec![Value::Null],
            vec![Value::Int64(3)],
        ];
        assert_eq!(
            run("array_agg", &[SqlType::Int64], &rows).unwrap(),
            Value::Array(vec![Value::Int64(1), Value::Null, Value::Int64(3)])
        );
        assert_eq!(
            run(
                "approx_count_distinct",
                &[SqlType::String],
                &texts(&["a", "b", "a"])
            )
            .unwrap(),
            Value::Int64(2)
        );
    }

    #[test]
    fn ranks_and_quantiles() {
        let rows: Vec<_> = ["a", "b", "a"]
            .iter()
            .map(|s| vec![Value::text(*s), Value::Int64(1)])
            .collect();
        assert_eq!(
            run(
                "approx_top_count",
                &[SqlType::String, SqlType::Int64],
                &rows
            )
            .unwrap(),
            Value::Array(vec![Value::Struct(vec![Value::text("a"), Value::Int64(2)])])
        );
        let rows: Vec<_> = (1..=5)
            .map(|i| vec![Value::Int64(i), Value::Int64(2)])
            .collect();
        assert_eq!(
            run("approx_quantiles", &[SqlType::Int64, SqlType::Int64], &rows).unwrap(),
            Value::Array([1, 3, 5].map(Value::Int64).to_vec())
        );
    }
}
