//! Functions by name: which there are, and what arguments they take.

use super::ast::{Comparison, Node};
use super::bind::{Binder, Bound, choice};
use super::coerce::{alike, coerce, comparable, type_list};
use super::datum::{Datum, Rows, each_row};
use super::error::syntax;
use super::expr::{Expr, Kind};
use super::literal::null;
use super::number::{self, NumberFunction};
use super::temporal::{self, TemporalFunction};
use super::text::{self, TextFunction};
use super::types::Type;
use crate::error::Result;

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
pub(super) struct Call<'a> {
    pub(super) binder: &'a Binder<'a>,
    pub(super) at: usize,
    pub(super) name: &'a str,
    pub(super) nodes: &'a [Node],
    pub(super) safe: bool,
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

/// A STRING argument.
pub(super) fn text_argument(expr: Expr, at: usize) -> Bound<Expr> {
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
    pub(super) fn mismatch(&self, types: &str) -> super::error::SyntaxError {
        syntax(
            self.at,
            format!(
                "No matching signature for function {} for argument types: {types}",
                self.name
            ),
        )
    }

    pub(super) fn count(&self, allowed: std::ops::RangeInclusive<usize>) -> Bound<()> {
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

    pub(super) fn all(&self) -> Bound<Vec<Expr>> {
        self.nodes.iter().map(|n| self.binder.bind(n)).collect()
    }

    /// The arguments as `types`, of which later ones may be absent.
    pub(super) fn typed(&self, types: &[Type]) -> Bound<Vec<Expr>> {
        let all = self.all()?;
        let given = type_list(&all);
        all.into_iter()
            .zip(types)
            .map(|(e, ty)| coerce(e, ty).unwrap_or_else(|| Err(self.mismatch(&given))))
            .collect()
    }

    pub(super) fn finish(
        &self,
        ty: Type,
        function: Function,
        arguments: Vec<Expr>,
        fails: bool,
    ) -> Expr {
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
}
