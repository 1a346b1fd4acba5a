//! Functions by name: which there are, and what arguments they take.

use std::sync::Arc;

use arrow::array::{Date32Array, Time64MicrosecondArray, TimestampMicrosecondArray};

use super::ast::{Ast, Comparison, DatePart, Node};
use super::bind::{Binder, Bound, alike, choice, coerce, comparable, null, type_list};
use super::datum::{Datum, Rows, each_row};
use super::error::syntax;
use super::expr::{Expr, Kind};
use super::number::{self, NumberFunction};
use super::temporal::{self, Part, TemporalFunction};
use super::text::{self, TextFunction};
use super::types::Type;
use crate::error::Result;
use crate::value::civil::{DAY_MICROS, days_of};
use crate::value::timestamp::Zone;

pub(super) use super::text::concatenated;

/// A function over typed arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Text(TextFunction),
    Number(NumberFunction),
    Temporal(TemporalFunction),
    /// The number of elements; NULL for a NULL array.
    ArrayLength,
}

impl Function {
    /// Evaluates a call whose result has type `ty`.
    pub(super) fn call(
        self,
        ty: &Type,
        expressions: &[Expr],
        values: &[Datum],
        rows: &Rows,
    ) -> Result<Datum> {
        match self {
            Function::Text(function) => text::call(function, ty, expressions, values, rows),
            Function::Number(function) => number::call(function, ty, values, rows),
            Function::Temporal(function) => temporal::call(function, ty, expressions, values, rows),
            Function::ArrayLength => {
                use arrow::array::AsArray;
                let lists = values[0].array.as_list::<i32>();
                rows.primitive::<arrow::datatypes::Int64Type>(&[&values[0]], |i| {
                    Ok((!values[0].is_null(i)).then(|| i64::from(lists.value_length(i))))
                })
            }
        }
    }

    /// The same with NULL for rows on which it fails.
    pub(super) fn safe_call(
        self,
        ty: &Type,
        expressions: &[Expr],
        values: &[Datum],
        rows: &Rows,
    ) -> Result<Datum> {
        each_row(values, ty, rows, |values, rows| {
            self.call(ty, expressions, values, rows)
        })
    }
}

/// A call in the making.
struct Call<'a> {
    binder: &'a Binder<'a>,
    at: usize,
    name: &'a str,
    nodes: &'a [Node],
    safe: bool,
}

/// Types a call of the function called `name` (upper case).
pub(super) fn bind(
    binder: &Binder<'_>,
    at: usize,
    name: &str,
    nodes: &[Node],
    safe: bool,
) -> Bound<Expr> {
    Call {
        binder,
        at,
        name,
        nodes,
        safe,
    }
    .bind()
}

/// Types `EXTRACT(part FROM value [AT TIME ZONE zone])`.
pub(super) fn extract(
    binder: &Binder<'_>,
    at: usize,
    part: &DatePart,
    from: &Node,
    zone: Option<&Node>,
) -> Bound<Expr> {
    let mut arguments = vec![binder.bind(from)?];
    let ty = arguments[0].ty.clone();
    let invalid = || {
        syntax(
            at,
            format!(
                "EXTRACT from {ty} does not support the {} date part",
                part.name
            ),
        )
    };
    let part_named = Part::named(&part.name, part.weekday.as_deref()).ok_or_else(|| {
        syntax(
            at,
            format!("A valid date part name is required but found {}", part.name),
        )
    })?;
    let clock = part_named.micros().is_some();
    let whole = matches!(part_named, Part::Date | Part::Time | Part::Datetime);
    let supported = match &ty {
        Type::Date => !clock && !whole,
        Type::Datetime => part_named != Part::Datetime,
        Type::Timestamp => true,
        Type::Time => clock,
        Type::Interval => clock || matches!(part_named, Part::Year | Part::Month | Part::Day),
        _ => false,
    };
    if !supported {
        return Err(invalid());
    }
    if let Some(zone) = zone {
        if ty != Type::Timestamp {
            return Err(syntax(
                at,
                format!("EXTRACT from {ty} does not support AT TIME ZONE"),
            ));
        }
        arguments.push(text_argument(binder.bind(zone)?, at)?);
    }
    let result = match part_named {
        Part::Date => Type::Date,
        Part::Time => Type::Time,
        Part::Datetime => Type::Datetime,
        _ => Type::Int64,
    };
    let function = Function::Temporal(TemporalFunction::Extract(part_named));
    Ok(Expr::new(at, result, Kind::Call(function, arguments)).failing(true))
}

fn text_argument(expr: Expr, at: usize) -> Bound<Expr> {
    let ty = expr.ty.clone();
    coerce(expr, &Type::Text)
        .ok_or_else(|| syntax(at, format!("A STRING is required here but found {ty}")))?
}

/// Types `||` and CONCAT.
pub(super) fn concat(at: usize, name: &str, all: Vec<Expr>) -> Bound<Expr> {
    let types = type_list(&all);
    let ignores_case = all.iter().any(|e| e.ignores_case);
    let fallible = all.iter().any(|e| e.fallible);
    let all = alike(all)?
        .filter(|all| matches!(all[0].ty, Type::Text | Type::Bytes))
        .ok_or_else(|| {
            syntax(
                at,
                format!("No matching signature for {name} for argument types: {types}. Supported signatures: STRING, ...; BYTES, ..."),
            )
        })?;
    let ty = all[0].ty.clone();
    let mut expr = Expr::new(at, ty, Kind::Concat(all)).failing(fallible);
    expr.ignores_case = ignores_case;
    Ok(expr)
}

impl Call<'_> {
    fn mismatch(&self, types: &str) -> super::error::SyntaxError {
        syntax(
            self.at,
            format!(
                "No matching signature for function {} for argument types: {types}",
                self.name
            ),
        )
    }

    fn count(&self, allowed: std::ops::RangeInclusive<usize>) -> Bound<()> {
        if allowed.contains(&self.nodes.len()) {
            return Ok(());
        }
        Err(syntax(
            self.at,
            format!(
                "Number of arguments does not match for function {}: {} given",
                self.name,
                self.nodes.len()
            ),
        ))
    }

    fn all(&self) -> Bound<Vec<Expr>> {
        self.nodes.iter().map(|n| self.binder.bind(n)).collect()
    }

    /// The arguments as `types`, of which later ones may be absent.
    fn typed(&self, types: &[Type]) -> Bound<Vec<Expr>> {
        let all = self.all()?;
        let given = type_list(&all);
        all.into_iter()
            .zip(types)
            .map(|(e, ty)| coerce(e, ty).unwrap_or_else(|| Err(self.mismatch(&given))))
            .collect()
    }

    fn finish(&self, ty: Type, function: Function, arguments: Vec<Expr>, fails: bool) -> Expr {
        let fallible = arguments.iter().any(|e| e.fallible);
        // Case-insensitive text stays so through text functions.
        let ignores_case = ty == Type::Text && arguments.iter().any(|e| e.ignores_case);
        let (kind, fails) = if self.safe {
            (Kind::SafeCall(function, arguments), fallible)
        } else {
            (Kind::Call(function, arguments), fallible || fails)
        };
        let mut expr = Expr::new(self.at, ty, kind).failing(fails);
        expr.ignores_case = ignores_case;
        expr
    }

    fn bind(&self) -> Bound<Expr> {
        if let Some(expr) = self.conditional()? {
            return Ok(expr);
        }
        if let Some(expr) = self.over_text()? {
            return Ok(expr);
        }
        if let Some(expr) = self.over_numbers()? {
            return Ok(expr);
        }
        if let Some(expr) = self.over_time()? {
            return Ok(expr);
        }
        const AGGREGATES: [&str; 13] = [
            "COUNT",
            "COUNTIF",
            "SUM",
            "AVG",
            "MIN",
            "MAX",
            "ARRAY_AGG",
            "STRING_AGG",
            "ANY_VALUE",
            "LOGICAL_AND",
            "LOGICAL_OR",
            "BIT_AND",
            "BIT_OR",
        ];
        if AGGREGATES.contains(&self.name) {
            return Err(syntax(
                self.at,
                format!(
                    "Aggregate function {} not allowed in a row restriction",
                    self.name
                ),
            ));
        }
        Err(syntax(
            self.at,
            format!(
                "Function not found: {}; it is not supported by bigquery-local in a row restriction",
                self.name
            ),
        ))
    }

    /// IF, COALESCE, IFNULL, NULLIF and those that are operators in other words.
    fn conditional(&self) -> Bound<Option<Expr>> {
        Ok(Some(match self.name {
            "IF" => {
                self.count(3..=3)?;
                let condition = self.binder.boolean_operand("IF", &self.nodes[0])?;
                let values = vec![
                    self.binder.bind(&self.nodes[1])?,
                    self.binder.bind(&self.nodes[2])?,
                ];
                choice(self.at, "IF", vec![condition], values)?
            }
            "COALESCE" | "IFNULL" => {
                self.count(match self.name {
                    "IFNULL" => 2..=2,
                    _ => 1..=usize::MAX,
                })?;
                let all = self.all()?;
                let types = type_list(&all);
                let ignores_case = all.iter().any(|e| e.ignores_case);
                let fallible = all.iter().any(|e| e.fallible);
                let all = alike(all)?.ok_or_else(|| self.mismatch(&types))?;
                let ty = all[0].ty.clone();
                let mut expr = Expr::new(self.at, ty, Kind::Coalesce(all)).failing(fallible);
                expr.ignores_case = ignores_case;
                expr
            }
            "NULLIF" => {
                self.count(2..=2)?;
                let all = self.typed_alike()?;
                let [left, right]: [Expr; 2] =
                    all.try_into().map_err(|_| self.mismatch("two arguments"))?;
                let value = left.clone();
                let (left, right) = comparable(self.at, "NULLIF", left, right)?;
                let fallible = left.fallible || right.fallible;
                let kind = Kind::Compare(Comparison::Eq, Box::new(left), Box::new(right));
                let equal = Expr::new(self.at, Type::Bool, kind).failing(fallible);
                choice(self.at, "NULLIF", vec![equal], vec![null(self.at), value])?
            }
            "CONCAT" => {
                self.count(1..=usize::MAX)?;
                concat(self.at, "function CONCAT", self.all()?)?
            }
            "ARRAY_LENGTH" => {
                self.count(1..=1)?;
                let all = self.all()?;
                if !matches!(all[0].ty, Type::Array(_)) {
                    return Err(self.mismatch(&type_list(&all)));
                }
                self.finish(Type::Int64, Function::ArrayLength, all, false)
            }
            _ => return Ok(None),
        }))
    }

    fn typed_alike(&self) -> Bound<Vec<Expr>> {
        let all = self.all()?;
        let types = type_list(&all);
        alike(all)?.ok_or_else(|| self.mismatch(&types))
    }

    fn over_text(&self) -> Bound<Option<Expr>> {
        use Type::{Bool, Int64, Text};
        let (function, count, result) = match self.name {
            "LOWER" | "LCASE" => (TextFunction::Lower, 1..=1, Text),
            "UPPER" | "UCASE" => (TextFunction::Upper, 1..=1, Text),
            "LENGTH" | "CHAR_LENGTH" | "CHARACTER_LENGTH" => (TextFunction::Length, 1..=1, Int64),
            "BYTE_LENGTH" | "OCTET_LENGTH" => (TextFunction::ByteLength, 1..=1, Int64),
            "SUBSTR" | "SUBSTRING" => (TextFunction::Substr, 2..=3, Text),
            "LEFT" => (TextFunction::Left, 2..=2, Text),
            "RIGHT" => (TextFunction::Right, 2..=2, Text),
            "TRIM" => (TextFunction::Trim, 1..=2, Text),
            "LTRIM" => (TextFunction::LeftTrim, 1..=2, Text),
            "RTRIM" => (TextFunction::RightTrim, 1..=2, Text),
            "STARTS_WITH" => (TextFunction::StartsWith, 2..=2, Bool),
            "ENDS_WITH" => (TextFunction::EndsWith, 2..=2, Bool),
            "REGEXP_CONTAINS" => (TextFunction::RegexpContains, 2..=2, Bool),
            "REGEXP_EXTRACT" | "REGEXP_SUBSTR" => (TextFunction::RegexpExtract, 2..=2, Text),
            "REPLACE" => (TextFunction::Replace, 3..=3, Text),
            "STRPOS" => (TextFunction::Strpos, 2..=2, Int64),
            "REVERSE" => (TextFunction::Reverse, 1..=1, Text),
            "JSON_VALUE" | "JSON_EXTRACT_SCALAR" => (TextFunction::JsonValue, 1..=2, Text),
            _ => return Ok(None),
        };
        self.count(count)?;
        let all = self.all()?;
        let given = type_list(&all);
        let fails = matches!(
            function,
            TextFunction::Substr
                | TextFunction::Left
                | TextFunction::Right
                | TextFunction::RegexpContains
                | TextFunction::RegexpExtract
                | TextFunction::JsonValue
        );
        let on_bytes = all[0].ty == Type::Bytes
            && matches!(
                function,
                TextFunction::Length
                    | TextFunction::ByteLength
                    | TextFunction::StartsWith
                    | TextFunction::EndsWith
                    | TextFunction::Substr
                    | TextFunction::Reverse
            )
            && self.name != "CHAR_LENGTH"
            && self.name != "CHARACTER_LENGTH";
        let value = if on_bytes { Type::Bytes } else { Type::Text };
        let numbers = matches!(
            function,
            TextFunction::Substr | TextFunction::Left | TextFunction::Right
        );
        let wanted = |k: usize, expr: &Expr| match (k, function) {
            (0, TextFunction::JsonValue) if expr.ty == Type::Json => Type::Json,
            (0, _) => value.clone(),
            (_, _) if numbers => Type::Int64,
            _ => value.clone(),
        };
        let all = all
            .into_iter()
            .enumerate()
            .map(|(k, e)| {
                let ty = wanted(k, &e);
                coerce(e, &ty).unwrap_or_else(|| Err(self.mismatch(&given)))
            })
            .collect::<Bound<Vec<_>>>()?;
        let result = if result == Text { value } else { result };
        Ok(Some(self.finish(
            result,
            Function::Text(function),
            all,
            fails,
        )))
    }

    fn over_numbers(&self) -> Bound<Option<Expr>> {
        use NumberFunction as F;
        let (function, count) = match self.name {
            "ABS" => (F::Abs, 1..=1),
            "SIGN" => (F::Sign, 1..=1),
            "MOD" => (F::Mod, 2..=2),
            "DIV" => (F::Div, 2..=2),
            "FLOOR" => (F::Floor, 1..=1),
            "CEIL" | "CEILING" => (F::Ceil, 1..=1),
            "ROUND" => (F::Round, 1..=1),
            "TRUNC" => (F::Trunc, 1..=1),
            "SQRT" => (F::Sqrt, 1..=1),
            "GREATEST" => (F::Greatest, 1..=usize::MAX),
            "LEAST" => (F::Least, 1..=usize::MAX),
            "SAFE_DIVIDE" => (F::SafeDivide, 2..=2),
            "IS_NAN" => (F::IsNan, 1..=1),
            "IS_INF" => (F::IsInf, 1..=1),
            _ => return Ok(None),
        };
        self.count(count)?;
        let all = self.typed_alike()?;
        let given = type_list(&all);
        if !all[0].ty.is_number() {
            return Err(self.mismatch(&given));
        }
        let float = matches!(function, F::Sqrt | F::IsNan | F::IsInf)
            || (all[0].ty == Type::Int64
                && matches!(
                    function,
                    F::Floor | F::Ceil | F::Round | F::Trunc | F::SafeDivide
                ));
        let all = if float {
            all.into_iter()
                .map(|e| coerce(e, &Type::Float64).unwrap_or_else(|| Err(self.mismatch(&given))))
                .collect::<Bound<Vec<_>>>()?
        } else {
            all
        };
        if all[0].ty == Type::Float64 && matches!(function, F::Mod | F::Div) {
            return Err(self.mismatch(&given));
        }
        let ty = match function {
            F::IsNan | F::IsInf => Type::Bool,
            _ => all[0].ty.clone(),
        };
        let fails = !matches!(
            function,
            F::IsNan | F::IsInf | F::Greatest | F::Least | F::Sign
        );
        Ok(Some(self.finish(
            ty,
            Function::Number(function),
            all,
            fails,
        )))
    }

    fn over_time(&self) -> Bound<Option<Expr>> {
        use TemporalFunction as F;
        let unix = |function, from, to| -> Bound<Option<Expr>> {
            self.count(1..=1)?;
            let all = self.typed(&[from])?;
            Ok(Some(self.finish(
                to,
                Function::Temporal(function),
                all,
                true,
            )))
        };
        match self.name {
            "CURRENT_DATE" | "CURRENT_DATETIME" | "CURRENT_TIME" | "CURRENT_TIMESTAMP" => {
                self.current().map(Some)
            }
            "DATE" | "DATETIME" | "TIME" | "TIMESTAMP" => self.constructor().map(Some),
            "DATE_TRUNC" | "DATETIME_TRUNC" | "TIMESTAMP_TRUNC" | "TIME_TRUNC" => {
                self.truncation().map(Some)
            }
            "DATE_ADD" | "DATETIME_ADD" | "TIMESTAMP_ADD" | "TIME_ADD" => {
                self.shift(F::Add).map(Some)
            }
            "DATE_SUB" | "DATETIME_SUB" | "TIMESTAMP_SUB" | "TIME_SUB" => {
                self.shift(F::Subtract).map(Some)
            }
            "DATE_DIFF" | "DATETIME_DIFF" | "TIMESTAMP_DIFF" | "TIME_DIFF" => {
                self.difference().map(Some)
            }
            "LAST_DAY" => self.last_day().map(Some),
            "UNIX_DATE" => unix(F::UnixDate, Type::Date, Type::Int64),
            "DATE_FROM_UNIX_DATE" => unix(F::DateFromUnix, Type::Int64, Type::Date),
            "UNIX_SECONDS" => unix(F::ToUnix(1_000_000), Type::Timestamp, Type::Int64),
            "UNIX_MILLIS" => unix(F::ToUnix(1_000), Type::Timestamp, Type::Int64),
            "UNIX_MICROS" => unix(F::ToUnix(1), Type::Timestamp, Type::Int64),
            "TIMESTAMP_SECONDS" => unix(F::FromUnix(1_000_000), Type::Int64, Type::Timestamp),
            "TIMESTAMP_MILLIS" => unix(F::FromUnix(1_000), Type::Int64, Type::Timestamp),
            "TIMESTAMP_MICROS" => unix(F::FromUnix(1), Type::Int64, Type::Timestamp),
            _ => Ok(None),
        }
    }

    /// The instant of the session, the same for every row.
    fn current(&self) -> Bound<Expr> {
        self.count(0..=1)?;
        let zone = match self.nodes.first() {
            None => Zone::UTC,
            Some(node) => match &node.ast {
                Ast::Text(name) if self.name != "CURRENT_TIMESTAMP" => {
                    Zone::parse(name).map_err(|e| syntax(node.at, e.to_string()))?
                }
                _ => {
                    return Err(syntax(
                        node.at,
                        format!("{} takes a time zone's name at most", self.name),
                    ));
                }
            },
        };
        let now = self.binder.now;
        let local = zone
            .to_local(now)
            .ok_or_else(|| syntax(self.at, "the present time is out of range"))?;
        let micros = |v| Arc::new(TimestampMicrosecondArray::from(vec![v]));
        Ok(match self.name {
            "CURRENT_DATE" => Expr::literal(
                self.at,
                Type::Date,
                Arc::new(Date32Array::from(vec![days_of(local)])),
            ),
            "CURRENT_DATETIME" => Expr::literal(self.at, Type::Datetime, micros(local)),
            "CURRENT_TIME" => Expr::literal(
                self.at,
                Type::Time,
                Arc::new(Time64MicrosecondArray::from(vec![
                    local.rem_euclid(DAY_MICROS),
                ])),
            ),
            _ => Expr::literal(self.at, Type::Timestamp, micros(now)),
        })
    }

    /// DATE(…), DATETIME(…), TIME(…) and TIMESTAMP(…).
    fn constructor(&self) -> Bound<Expr> {
        use TemporalFunction as F;
        let to = match self.name {
            "DATE" => Type::Date,
            "DATETIME" => Type::Datetime,
            "TIME" => Type::Time,
            _ => Type::Timestamp,
        };
        self.count(1..=6)?;
        let all = self.all()?;
        let given = type_list(&all);
        let parts = match (&to, all.len()) {
            (Type::Date, 3) => Some(F::MakeDate),
            (Type::Time, 3) => Some(F::MakeTime),
            (Type::Datetime, 6) => Some(F::MakeDatetime),
            _ => None,
        };
        if let Some(function) = parts {
            let types = vec![Type::Int64; all.len()];
            let all = self.typed(&types)?;
            return Ok(self.finish(to, Function::Temporal(function), all, true));
        }
        if to == Type::Datetime && all.len() == 2 && all[0].ty == Type::Date {
            let all = self.typed(&[Type::Date, Type::Time])?;
            return Ok(self.finish(to, Function::Temporal(F::DatetimeOf), all, false));
        }
        let from = all[0].ty.clone();
        let zoned = match (&to, &from) {
            (Type::Timestamp, Type::Text | Type::Date | Type::Datetime)
            | (Type::Date | Type::Datetime | Type::Time, Type::Timestamp) => true,
            (Type::Timestamp, Type::Timestamp)
            | (Type::Date, Type::Date | Type::Datetime | Type::Text)
            | (Type::Datetime, Type::Datetime | Type::Date | Type::Text)
            | (Type::Time, Type::Time | Type::Datetime | Type::Text) => false,
            _ => return Err(self.mismatch(&given)),
        };
        let mut all = all.into_iter();
        let value = all.next().expect("there is one argument at least");
        match (all.next(), all.next()) {
            (None, None) => super::cast::bind(self.at, value, &to, self.safe),
            (Some(zone), None) if zoned => {
                let zone = text_argument(zone, self.at)?;
                let function = Function::Temporal(F::Zoned);
                Ok(self.finish(to, function, vec![value, zone], true))
            }
            _ => Err(self.mismatch(&given)),
        }
    }

    /// The type that a function's name begins with.
    fn subject(&self) -> Type {
        match self.name.split('_').next() {
            Some("DATE") => Type::Date,
            Some("DATETIME") => Type::Datetime,
            Some("TIME") => Type::Time,
            _ => Type::Timestamp,
        }
    }

    /// An argument that is a date part: a bare name, or `WEEK(MONDAY)`.
    fn part(&self, node: &Node) -> Bound<Part> {
        let part = match &node.ast {
            Ast::Path(segments) => match &segments[..] {
                [name] => Part::named(name, None),
                _ => None,
            },
            Ast::Call {
                name, arguments, ..
            } => match &arguments[..] {
                [
                    Node {
                        ast: Ast::Path(day),
                        ..
                    },
                ] => day.first().and_then(|day| Part::named(name, Some(day))),
                _ => None,
            },
            _ => None,
        };
        part.ok_or_else(|| syntax(node.at, "A valid date part name is required"))
    }

    fn unsupported_part(&self, at: usize, part: Part) -> super::error::SyntaxError {
        syntax(
            at,
            format!("{} does not support the {part} date part", self.name),
        )
    }

    /// The first argument: the function's own type, or for the functions over
    /// dates any of the three kinds of date.
    fn civil_argument(&self, node: &Node) -> Bound<Expr> {
        let value = self.binder.bind(node)?;
        let subject = self.subject();
        let any = matches!(
            self.name,
            "DATE_TRUNC" | "DATETIME_TRUNC" | "TIMESTAMP_TRUNC"
        );
        if any && matches!(value.ty, Type::Date | Type::Datetime | Type::Timestamp) {
            return Ok(value);
        }
        let ty = value.ty.clone();
        coerce(value, &subject).unwrap_or_else(|| Err(self.mismatch(&ty.to_string())))
    }

    fn truncation(&self) -> Bound<Expr> {
        self.count(2..=3)?;
        let value = self.civil_argument(&self.nodes[0])?;
        let part = self.part(&self.nodes[1])?;
        if !part.divides(&value.ty) {
            return Err(self.unsupported_part(self.nodes[1].at, part));
        }
        let ty = value.ty.clone();
        let mut all = vec![value];
        if let Some(zone) = self.nodes.get(2) {
            if ty != Type::Timestamp {
                return Err(self.mismatch(&format!("{ty}, DATE_TIME_PART, STRING")));
            }
            all.push(text_argument(self.binder.bind(zone)?, zone.at)?);
        }
        let function = Function::Temporal(TemporalFunction::Truncate(part));
        Ok(self.finish(ty, function, all, true))
    }

    fn shift(&self, make: fn(Part) -> TemporalFunction) -> Bound<Expr> {
        self.count(2..=2)?;
        let value = self.civil_argument(&self.nodes[0])?;
        let Ast::Interval(number, part) = &self.nodes[1].ast else {
            return Err(syntax(
                self.nodes[1].at,
                format!("{} needs INTERVAL n part", self.name),
            ));
        };
        let at = self.nodes[1].at;
        let part = Part::named(part, None)
            .filter(|p| p.is_duration())
            .ok_or_else(|| syntax(at, "A valid date part name is required"))?;
        let supported = match value.ty {
            Type::Date => part.micros().is_none(),
            Type::Time => part.micros().is_some(),
            Type::Timestamp => part.micros().is_some() || part == Part::Day,
            _ => true,
        };
        if !supported {
            return Err(self.unsupported_part(at, part));
        }
        let number = self.binder.bind(number)?;
        let ty = number.ty.clone();
        let number = coerce(number, &Type::Int64)
            .unwrap_or_else(|| Err(self.mismatch(&format!("INTERVAL {ty}"))))?;
        let function = Function::Temporal(make(part));
        Ok(self.finish(value.ty.clone(), function, vec![value, number], true))
    }

    fn difference(&self) -> Bound<Expr> {
        self.count(3..=3)?;
        let (a, b) = (
            self.binder.bind(&self.nodes[0])?,
            self.binder.bind(&self.nodes[1])?,
        );
        let part = self.part(&self.nodes[2])?;
        let given = format!("{}, {}", a.ty, b.ty);
        let subject = self.subject();
        let both = match (coerce(a, &subject), coerce(b, &subject)) {
            (Some(a), Some(b)) => vec![a?, b?],
            _ => return Err(self.mismatch(&given)),
        };
        let day_at_most =
            subject != Type::Timestamp || part.micros().is_some() || part == Part::Day;
        if !part.divides(&subject) || !day_at_most {
            return Err(self.unsupported_part(self.nodes[2].at, part));
        }
        let function = Function::Temporal(TemporalFunction::Difference(part));
        Ok(self.finish(Type::Int64, function, both, true))
    }

    fn last_day(&self) -> Bound<Expr> {
        self.count(1..=2)?;
        let value = self.binder.bind(&self.nodes[0])?;
        let ty = value.ty.clone();
        let value = if ty == Type::Datetime {
            value
        } else {
            coerce(value, &Type::Date).unwrap_or_else(|| Err(self.mismatch(&ty.to_string())))?
        };
        let part = match self.nodes.get(1) {
            None => Part::Month,
            Some(node) => self.part(node)?,
        };
        if !part.divides(&Type::Date) || part == Part::Day {
            return Err(self.unsupported_part(self.at, part));
        }
        let function = Function::Temporal(TemporalFunction::LastDay(part));
        Ok(self.finish(Type::Date, function, vec![value], true))
    }
}
