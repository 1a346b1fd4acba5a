//! Signatures of functions, how they are written and how a call chooses one.
//!
//! A signature reads `STRING, INT64, INT64? -> STRING`: `?` marks an argument
//! that may be left out, `...` one that may be repeated (once or more), `T` and
//! `U` stand for any type (the same one wherever they stand) and `RANGE<T>` for
//! any range.

use super::coercion::{Literalness, distance, supertype};
use super::types::SqlType;
use super::value::fail;
use crate::error::Result;
use crate::schema::Field;
use datafusion::common::ScalarValue;

/// One argument of a call, by GoogleSQL type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument {
    /// Its type.
    pub(crate) sql_type: SqlType,
    /// Its value when it is a literal.
    pub(crate) literal: Option<ScalarValue>,
    /// Whether it coerces like a literal.
    pub(crate) literalness: Literalness,
}

impl From<&super::Argument> for Argument {
    fn from(argument: &super::Argument) -> Self {
        let literal = argument.literal.clone();
        Self {
            sql_type: match &literal {
                Some(ScalarValue::Null) => SqlType::Null,
                _ => SqlType::of_column(&argument.field),
            },
            literalness: if literal.is_some() || argument.parameter {
                Literalness::Literal
            } else {
                Literalness::Expression
            },
            literal,
        }
    }
}

impl Argument {
    /// An argument that is not a literal.
    #[cfg(test)]
    pub(crate) fn expression(sql_type: SqlType) -> Self {
        Self {
            sql_type,
            literal: None,
            literalness: Literalness::Expression,
        }
    }

    /// Whether the argument coerces like a literal.
    pub(crate) fn literalness(&self) -> Literalness {
        self.literalness
    }

    /// The text of a string literal.
    pub(crate) fn literal_text(&self) -> Option<&str> {
        match &self.literal {
            Some(
                ScalarValue::Utf8(Some(s))
                | ScalarValue::LargeUtf8(Some(s))
                | ScalarValue::Utf8View(Some(s)),
            ) => Some(s),
            _ => None,
        }
    }
}

/// What a call was resolved to: the types that its arguments are coerced to and
/// the type of its result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Resolved {
    /// Argument types after coercion.
    pub(crate) args: Vec<SqlType>,
    /// Result type.
    pub(crate) ret: SqlType,
}

impl Resolved {
    /// The types as the analyzer knows them.
    pub(crate) fn columns(&self) -> (Vec<Field>, Field) {
        (
            self.args.iter().map(|t| t.to_column("")).collect(),
            self.ret.to_column(""),
        )
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Pattern {
    Exact(SqlType),
    Any(char),
    Array(Box<Pattern>),
    Range(Box<Pattern>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Occurs {
    Once,
    Optional,
    Repeated,
}

/// A parsed signature.
#[derive(Debug, Clone)]
pub(crate) struct Signature {
    args: Vec<(Pattern, Occurs)>,
    ret: Pattern,
    text: &'static str,
}

impl Signature {
    /// Parses the notation that the module describes. Signatures are constants
    /// of this crate; a test parses every one of them.
    pub(crate) fn parse(text: &'static str) -> Signature {
        let (args, ret) = text.split_once("->").unwrap_or(("", text));
        let args = args
            .split(',')
            .map(str::trim)
            .filter(|a| !a.is_empty())
            .map(|a| {
                if let Some(a) = a.strip_suffix("...") {
                    (Pattern::parse(a), Occurs::Repeated)
                } else if let Some(a) = a.strip_suffix('?') {
                    (Pattern::parse(a), Occurs::Optional)
                } else {
                    (Pattern::parse(a), Occurs::Once)
                }
            })
            .collect();
        Signature {
            args,
            ret: Pattern::parse(ret.trim()),
            text,
        }
    }

    /// The signature as it was written.
    pub(crate) fn text(&self) -> &'static str {
        self.text
    }

    /// The patterns of a call of `count` arguments, if it can have that many.
    fn patterns(&self, count: usize) -> Option<Vec<&Pattern>> {
        let required = self
            .args
            .iter()
            .filter(|(_, o)| *o != Occurs::Optional)
            .count();
        let repeated = self.args.iter().any(|(_, o)| *o == Occurs::Repeated);
        if count < required || (count > self.args.len() && !repeated) {
            return None;
        }
        let extra = count.saturating_sub(self.args.len());
        let mut optional = count.min(self.args.len()) - required;
        let mut out = Vec::with_capacity(count);
        for (pattern, occurs) in &self.args {
            match occurs {
                Occurs::Once => out.push(pattern),
                Occurs::Repeated => out.extend(std::iter::repeat_n(pattern, 1 + extra)),
                Occurs::Optional if optional > 0 => {
                    optional -= 1;
                    out.push(pattern);
                }
                Occurs::Optional => {}
            }
        }
        (out.len() == count).then_some(out)
    }

    /// The coerced types and the cost of coercing to them: literals cost less
    /// than any other expression.
    fn matches(&self, args: &[Argument]) -> Option<(Resolved, [u32; 4])> {
        let patterns = self.patterns(args.len())?;
        let mut bindings: Vec<(char, Vec<(SqlType, Literalness)>)> = Vec::new();
        for (pattern, arg) in patterns.iter().zip(args) {
            pattern.collect(&arg.sql_type, arg.literalness(), &mut bindings)?;
        }
        let bound = bindings
            .into_iter()
            .map(|(name, types)| Some((name, supertype(&types)?)))
            .collect::<Option<Vec<_>>>()?;
        let mut cost = [0u32; 4];
        let mut types = Vec::with_capacity(args.len());
        for (pattern, arg) in patterns.iter().zip(args) {
            let target = pattern.resolve(&bound);
            let d = distance(&arg.sql_type, &target, arg.literalness())?;
            if d > 0 {
                let at = match arg.literalness() {
                    Literalness::Expression => 0,
                    Literalness::Literal => 2,
                };
                cost[at] += 1;
                cost[at + 1] += d;
            }
            types.push(target);
        }
        let ret = self.ret.resolve(&bound);
        Some((Resolved { args: types, ret }, cost))
    }
}

impl Pattern {
    fn parse(text: &str) -> Pattern {
        let text = text.trim();
        if let Some(inner) = text
            .strip_prefix("ARRAY<")
            .and_then(|t| t.strip_suffix('>'))
        {
            return Pattern::Array(Box::new(Pattern::parse(inner)));
        }
        if let Some(inner) = text
            .strip_prefix("RANGE<")
            .and_then(|t| t.strip_suffix('>'))
        {
            return Pattern::Range(Box::new(Pattern::parse(inner)));
        }
        Pattern::Exact(match text {
            "BOOL" => SqlType::Bool,
            "INT64" => SqlType::Int64,
            "FLOAT64" => SqlType::Float64,
            "NUMERIC" => SqlType::Numeric,
            "BIGNUMERIC" => SqlType::BigNumeric,
            "STRING" => SqlType::String,
            "BYTES" => SqlType::Bytes,
            "DATE" => SqlType::Date,
            "TIME" => SqlType::Time,
            "DATETIME" => SqlType::Datetime,
            "TIMESTAMP" => SqlType::Timestamp,
            "JSON" => SqlType::Json,
            "GEOGRAPHY" => SqlType::Geography,
            "INTERVAL" => SqlType::Interval,
            _ => return Pattern::Any(text.chars().next().unwrap_or('?')),
        })
    }

    fn collect(
        &self,
        given: &SqlType,
        literalness: Literalness,
        bindings: &mut Vec<(char, Vec<(SqlType, Literalness)>)>,
    ) -> Option<()> {
        match (self, given) {
            (Pattern::Any(name), t) => {
                match bindings.iter_mut().find(|(n, _)| n == name) {
                    Some((_, types)) => types.push((t.clone(), literalness)),
                    None => bindings.push((*name, vec![(t.clone(), literalness)])),
                }
                Some(())
            }
            (Pattern::Array(inner), SqlType::Array(t))
            | (Pattern::Range(inner), SqlType::Range(t)) => inner.collect(t, literalness, bindings),
            (Pattern::Array(inner) | Pattern::Range(inner), SqlType::Null) => {
                inner.collect(&SqlType::Null, literalness, bindings)
            }
            (Pattern::Array(_) | Pattern::Range(_), _) => None,
            (Pattern::Exact(_), _) => Some(()),
        }
    }

    fn resolve(&self, bound: &[(char, SqlType)]) -> SqlType {
        match self {
            Pattern::Exact(t) => t.clone(),
            Pattern::Any(name) => bound
                .iter()
                .find(|(n, _)| n == name)
                .map_or(SqlType::Null, |(_, t)| t.clone()),
            Pattern::Array(inner) => SqlType::Array(Box::new(match inner.resolve(bound) {
                SqlType::Null => SqlType::Int64,
                other => other,
            })),
            Pattern::Range(inner) => SqlType::Range(Box::new(match inner.resolve(bound) {
                SqlType::Null => SqlType::Date,
                other => other,
            })),
        }
    }
}

/// Chooses the signature nearest to the arguments; of equally near ones the
/// first.
pub(crate) fn resolve(name: &str, signatures: &[Signature], args: &[Argument]) -> Result<Resolved> {
    let best = signatures
        .iter()
        .filter_map(|s| s.matches(args))
        .min_by_key(|(_, cost)| *cost);
    match best {
        Some((mut resolved, _)) => {
            if resolved.ret == SqlType::Null {
                resolved.ret = SqlType::Int64;
                for t in &mut resolved.args {
                    if *t == SqlType::Null {
                        *t = SqlType::Int64;
                    }
                }
            }
            Ok(resolved)
        }
        None => no_signature(name, args, signatures),
    }
}

/// The service's complaint about arguments that fit no signature.
pub(crate) fn no_signature<T>(
    name: &str,
    args: &[Argument],
    signatures: &[Signature],
) -> Result<T> {
    let given: Vec<String> = args.iter().map(|a| a.sql_type.to_string()).collect();
    let (kind, name) = match operator_symbol(name) {
        Some(symbol) => ("operator", symbol.to_string()),
        None => ("function", name.trim_start_matches('$').to_uppercase()),
    };
    let mut message = format!("No matching signature for {kind} {name}");
    if given.is_empty() {
        message.push_str(" with no arguments");
    } else {
        message.push_str(&format!(" for argument types: {}.", given.join(", ")));
    }
    if !signatures.is_empty() {
        let supported: Vec<String> = signatures
            .iter()
            .map(|s| {
                let (args, _) = s.text().split_once("->").unwrap_or(("", s.text()));
                format!("{name}({})", args.trim())
            })
            .collect();
        message.push_str(&format!(" Supported signatures: {}", supported.join("; ")));
    }
    fail(message)
}

/// How an operator that the planner calls by an internal name is written.
pub(crate) fn operator_symbol(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "$add" => "+",
        "$subtract" => "-",
        "$multiply" => "*",
        "$divide" => "/",
        "$negate" => "-",
        "$concat" => "||",
        "$equal" => "=",
        "$not_equal" => "!=",
        "$less" => "<",
        "$less_or_equal" => "<=",
        "$greater" => ">",
        "$greater_or_equal" => ">=",
        "$is_distinct_from" => "IS DISTINCT FROM",
        "$is_not_distinct_from" => "IS NOT DISTINCT FROM",
        "$like" => "LIKE",
        "$between" => "BETWEEN",
        "$in" | "$in_array" => "IN",
        "$bitwise_and" => "&",
        "$bitwise_or" => "|",
        "$bitwise_xor" => "^",
        "$bitwise_not" => "~",
        "$left_shift" => "<<",
        "$right_shift" => ">>",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arg(t: SqlType) -> Argument {
        Argument::expression(t)
    }

    #[test]
    fn the_nearest_signature_wins() {
        let sigs: Vec<_> = [
            "FLOAT64, FLOAT64 -> FLOAT64",
            "NUMERIC, NUMERIC -> NUMERIC",
            "BIGNUMERIC, BIGNUMERIC -> BIGNUMERIC",
        ]
        .into_iter()
        .map(Signature::parse)
        .collect();
        let ret = |a, b| resolve("pow", &sigs, &[arg(a), arg(b)]).unwrap().ret;
        assert_eq!(ret(SqlType::Int64, SqlType::Int64), SqlType::Float64);
        assert_eq!(ret(SqlType::Int64, SqlType::Numeric), SqlType::Numeric);
        assert_eq!(
            ret(SqlType::BigNumeric, SqlType::Numeric),
            SqlType::BigNumeric
        );
        assert_eq!(ret(SqlType::Float64, SqlType::Numeric), SqlType::Float64);
        let error =
            resolve("pow", &sigs, &[arg(SqlType::String), arg(SqlType::Int64)]).unwrap_err();
        assert!(
            error.message.starts_with(
                "No matching signature for function POW for argument types: STRING, INT64."
            ),
            "{error}"
        );
    }

    #[test]
    fn optional_and_repeated_arguments() {
        let sigs = vec![Signature::parse("STRING, INT64, INT64? -> STRING")];
        let call = |n: usize| {
            let mut args = vec![arg(SqlType::String)];
            args.extend(std::iter::repeat_n(arg(SqlType::Int64), n));
            resolve("substr", &sigs, &args).is_ok()
        };
        assert_eq!(
            [call(0), call(1), call(2), call(3)],
            [false, true, true, false]
        );
        let sigs = vec![Signature::parse("ARRAY<T>... -> ARRAY<T>")];
        let of = |t: SqlType| arg(SqlType::Array(Box::new(t)));
        let r = resolve(
            "array_concat",
            &sigs,
            &[of(SqlType::Null), of(SqlType::String)],
        )
        .unwrap();
        assert_eq!(r.ret, SqlType::Array(Box::new(SqlType::String)));
        assert_eq!(r.args[0], r.ret);
    }
}
