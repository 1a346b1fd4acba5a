//! Function calls.

use std::sync::Arc;

use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{AggregateUDF, Expr as DfExpr};
use datafusion::scalar::ScalarValue;

use super::super::super::functions::{
    CastMode, Function, FunctionKind, SqlType, kind, resolve, takes_named,
};
use super::super::ast::{Argument, BinaryOp, Call, Expr, ExprKind, Having};
use super::aggregate::function_name;
use super::literal::{constant, null_of, text};
use super::modified::{Modifiers, Pick, modified};
use super::scope::{Ctx, Typed};
use super::{Analyzer, nested};
use crate::error::{Result, ServiceError};

/// An aggregate function ready to be called.
pub(super) struct BoundAggregate {
    pub(super) udf: Arc<AggregateUDF>,
    pub(super) args: Vec<DfExpr>,
    pub(super) ty: SqlType,
    /// Of a STRING_AGG whose values are gathered as an array first.
    separator: Option<Typed>,
}

/// Position of the argument that is a date part or another bare word.
fn word_argument(name: &str) -> Option<usize> {
    Some(match name {
        "date_trunc"
        | "datetime_trunc"
        | "timestamp_trunc"
        | "time_trunc"
        | "last_day"
        | "normalize"
        | "normalize_and_casefold" => 1,
        "date_diff" | "datetime_diff" | "timestamp_diff" | "time_diff" => 2,
        _ => return None,
    })
}

/// Whether `INTERVAL n PART` as an argument becomes two arguments.
fn splits_intervals(name: &str) -> bool {
    matches!(
        name,
        "date_add"
            | "date_sub"
            | "datetime_add"
            | "datetime_sub"
            | "timestamp_add"
            | "timestamp_sub"
            | "time_add"
            | "time_sub"
            | "generate_date_array"
            | "generate_timestamp_array"
    )
}

impl Analyzer<'_> {
    pub(super) fn call(&self, call: &Call, at: usize, ctx: Ctx<'_>) -> Result<Typed> {
        let written = function_name(call);
        let full = written.to_ascii_lowercase();
        let (name, errors) = match full.strip_prefix("safe.") {
            Some(rest) => (rest.to_string(), CastMode::Safe),
            None => (full, CastMode::Strict),
        };
        let spelled = &written[written.len() - name.len()..];
        if let Some(argument) = call.args.iter().find(|a| a.alias.is_some()) {
            return Err(self.error(argument.value.at, "An argument cannot have an alias here"));
        }
        if call.over.is_some() {
            return self.window_call(call, &name, at, ctx);
        }
        if name == "grouping" {
            return self.grouping_call(call, at, ctx);
        }
        if let Some(value) = self.routine(call, &name, errors, at, ctx)? {
            return Ok(value);
        }
        match kind(&name) {
            Some(FunctionKind::Aggregate) => {
                if errors == CastMode::Safe {
                    return Err(ServiceError::unsupported(
                        "SAFE. with an aggregate function",
                    ));
                }
                self.aggregate_call(call, &name, at, ctx)
            }
            Some(FunctionKind::Window) => Err(self.error(
                at,
                format_args!(
                    "Analytic function {} cannot be called without an OVER clause",
                    name.to_ascii_uppercase()
                ),
            )),
            _ => {
                self.no_modifiers(call, at)?;
                self.plain_call(call, &name, errors, at, ctx).map_err(|e| {
                    // Errors of arguments have their own place already.
                    if e.message == format!("Function not found: {name}") {
                        return self.error(at, format_args!("Function not found: {spelled}"));
                    }
                    e
                })
            }
        }
    }

    fn no_modifiers(&self, call: &Call, at: usize) -> Result<()> {
        let word = if call.distinct {
            "DISTINCT"
        } else if call.ignore_nulls.is_some() {
            "IGNORE NULLS or RESPECT NULLS"
        } else if call.having.is_some() {
            "HAVING"
        } else if !call.order_by.is_empty() {
            "ORDER BY"
        } else if call.limit.is_some() {
            "LIMIT"
        } else {
            return Ok(());
        };
        Err(self.error(
            at,
            format_args!("{word} is not allowed in a call of {}", function_name(call)),
        ))
    }

    /// The arguments as they stand, with bare words and intervals made plain.
    fn arguments(&self, call: &Call, name: &str, ctx: Ctx<'_>) -> Result<Vec<Typed>> {
        let mut args = Vec::new();
        for (i, argument) in call.args.iter().enumerate() {
            if let Some(named) = &argument.name
                && !takes_named(name, &named.name, i)
            {
                return Err(ServiceError::unsupported(format_args!(
                    "The named argument {} of {}",
                    named.name,
                    name.to_ascii_uppercase()
                )));
            }
            if word_argument(name) == Some(i)
                && let Some(word) = bare_word(&argument.value)
            {
                args.push(text(&word));
                continue;
            }
            if splits_intervals(name)
                && i > 0
                && let ExprKind::Interval {
                    value,
                    from,
                    to: None,
                } = &argument.value.kind
            {
                args.push(self.expr(value, ctx)?);
                args.push(text(from));
                continue;
            }
            args.push(self.expr(&argument.value, ctx)?);
        }
        Ok(args)
    }

    fn plain_call(
        &self,
        call: &Call,
        name: &str,
        errors: CastMode,
        at: usize,
        ctx: Ctx<'_>,
    ) -> Result<Typed> {
        let count = call.args.len();
        let wrong = |takes: &str| {
            self.error(
                at,
                format_args!(
                    "Function {} takes {takes} arguments",
                    name.to_ascii_uppercase()
                ),
            )
        };
        match name {
            "if" => {
                if count != 3 {
                    return Err(wrong("three"));
                }
                let condition = self.condition_argument(&call.args[0].value, ctx)?;
                let values = vec![
                    self.expr(&call.args[1].value, ctx)?,
                    self.expr(&call.args[2].value, ctx)?,
                ];
                self.choose(vec![condition], values, "function IF")
            }
            "ifnull" | "coalesce" => {
                if count == 0 || (name == "ifnull" && count != 2) {
                    return Err(wrong("two"));
                }
                let values = self.arguments(call, name, ctx)?;
                let ty =
                    self.common_type(&values, &format!("function {}", name.to_ascii_uppercase()))?;
                self.first_present(values, &ty)
            }
            "nullif" => {
                if count != 2 {
                    return Err(wrong("two"));
                }
                let values = self.arguments(call, name, ctx)?;
                let ty = self.common_type(&values, "function NULLIF")?;
                let first = self.cast_to(values[0].clone(), &ty)?;
                let second = self.cast_to(values[1].clone(), &ty)?;
                let equal = self.binary(BinaryOp::Equal, first.clone(), second)?;
                let null = Typed::new(null_of(&ty)?, ty);
                self.choose(vec![equal.expr], vec![null, first], "function NULLIF")
            }
            "collate" => self.collate(call, at, ctx),
            "offset" | "ordinal" | "safe_offset" | "safe_ordinal" | "unnest" | "struct"
            | "exists" | "grouping" => Err(self.error(
                at,
                format_args!("{} cannot be called here", name.to_ascii_uppercase()),
            )),
            _ => {
                let values = self.arguments(call, name, ctx)?;
                if let Some(value) = self.current(name, &values)? {
                    return Ok(value);
                }
                if call
                    .args
                    .iter()
                    .any(|a| matches!(a.value.kind, ExprKind::Star))
                {
                    return Err(self.error(at, "Argument * can only be used in COUNT(*)"));
                }
                self.scalar(name, values, errors)
            }
        }
    }

    /// The first of the values that is not NULL; later ones are not evaluated.
    pub(super) fn first_present(&self, values: Vec<Typed>, ty: &SqlType) -> Result<Typed> {
        let values = values
            .into_iter()
            .map(|v| self.cast_to(v, ty))
            .collect::<Result<Vec<_>>>()?;
        let conditions = values[..values.len() - 1]
            .iter()
            .map(|v| DfExpr::IsNotNull(Box::new(v.expr.clone())))
            .collect::<Vec<_>>();
        if conditions.is_empty() {
            return values
                .into_iter()
                .next()
                .ok_or_else(|| ServiceError::internal("there is a value"));
        }
        self.choose(conditions, values, "function COALESCE")
    }

    fn condition_argument(&self, e: &Expr, ctx: Ctx<'_>) -> Result<DfExpr> {
        let value = self.expr(e, ctx)?;
        match value.ty {
            SqlType::Bool => Ok(value.expr),
            SqlType::Null => Ok(constant(ScalarValue::Boolean(None), &SqlType::Bool)),
            other => Err(self.error(
                e.at,
                format_args!("No matching signature for function IF for argument types: {other}"),
            )),
        }
    }

    /// COLLATE(value, 'und:ci').
    fn collate(&self, call: &Call, at: usize, ctx: Ctx<'_>) -> Result<Typed> {
        let [value, collation] = call.args.as_slice() else {
            return Err(self.error(at, "Function COLLATE takes two arguments"));
        };
        let value = self.expr(&value.value, ctx)?;
        let value = self.coerce(value, &SqlType::String)?;
        let fold_case = match &collation.value.kind {
            ExprKind::String(s) if s == "und:ci" => true,
            ExprKind::String(s) if s.is_empty() => false,
            ExprKind::String(s) => {
                return Err(self.error(
                    at,
                    format_args!("Collation '{s}' in collate function is not supported."),
                ));
            }
            _ => return Err(self.error(at, "COLLATE needs a string literal")),
        };
        Ok(Typed {
            fold_case,
            literal: None,
            ..value
        })
    }

    /// The functions of the statement's own time: one instant for all calls.
    pub(super) fn current(&self, name: &str, args: &[Typed]) -> Result<Option<Typed>> {
        let to = match name.to_ascii_lowercase().as_str() {
            "current_timestamp" => SqlType::Timestamp,
            "current_date" => SqlType::Date,
            "current_datetime" => SqlType::Datetime,
            "current_time" => SqlType::Time,
            _ => return Ok(None),
        };
        let now = Typed::new(
            constant(
                ScalarValue::TimestampMicrosecond(Some(self.env.now.get()), Some("UTC".into())),
                &SqlType::Timestamp,
            ),
            SqlType::Timestamp,
        );
        match (args, &to) {
            ([], SqlType::Timestamp) => Ok(Some(now)),
            ([], _) => self.cast_to(now, &to).map(Some),
            ([zone], SqlType::Date | SqlType::Datetime | SqlType::Time) => {
                let function = match to {
                    SqlType::Date => "date",
                    SqlType::Datetime => "datetime",
                    _ => "time",
                };
                self.operator(function, vec![now, zone.clone()]).map(Some)
            }
            _ => Err(ServiceError::invalid_query(format!(
                "No matching signature for function {}",
                name.to_ascii_uppercase()
            ))),
        }
    }

    fn aggregate_call(&self, call: &Call, name: &str, at: usize, ctx: Ctx<'_>) -> Result<Typed> {
        if ctx.grouping.is_none() {
            return Err(self.error(
                at,
                format_args!(
                    "Aggregate function {} not allowed in {}",
                    name.to_ascii_uppercase(),
                    ctx.clause
                ),
            ));
        }
        let inner = Ctx {
            clause: "an argument of an aggregate function",
            ..ctx.ungrouped()
        };
        let BoundAggregate {
            udf,
            args,
            ty,
            separator,
        } = self.bind_aggregate(call, name, at, inner)?;
        let function = AggregateFunction::new_udf(udf, args, false, None, Vec::new(), None);
        let typed = self.aggregate_column(function, ty.clone(), ctx)?;
        match separator {
            None => Ok(typed),
            Some(separator) => self.join_strings(typed, separator, &ty),
        }
    }

    /// ARRAY_TO_STRING over what a cut STRING_AGG gathered.
    fn join_strings(&self, array: Typed, separator: Typed, ty: &SqlType) -> Result<Typed> {
        let element = match ty {
            SqlType::Array(element) => (**element).clone(),
            other => other.clone(),
        };
        let list = SqlType::Array(Box::new(element));
        self.operator(
            "array_to_string",
            vec![Typed::new(array.expr, list), separator],
        )
    }

    /// An aggregate function with its modifiers around it, and its arguments.
    pub(super) fn bind_aggregate(
        &self,
        call: &Call,
        name: &str,
        at: usize,
        ctx: Ctx<'_>,
    ) -> Result<BoundAggregate> {
        let star = matches!(
            call.args.as_slice(),
            [Argument {
                value: Expr {
                    kind: ExprKind::Star,
                    ..
                },
                ..
            }]
        );
        if star && (name != "count" || call.distinct) {
            return Err(self.error(at, "Argument * can only be used in COUNT(*)"));
        }
        let mut values = if star {
            Vec::new()
        } else {
            self.arguments(call, name, ctx)?
        };
        let mut name = name;
        let mut separator = None;
        let limit = match &call.limit {
            None => None,
            Some(e) => Some(self.count_literal(e)?),
        };
        if limit.is_some() && name == "string_agg" {
            // LIMIT counts values, so they are gathered first and joined afterwards.
            separator = Some(if values.len() > 1 {
                values.remove(1)
            } else {
                text(",")
            });
            name = "array_agg";
        }
        if limit.is_some() && !matches!(name, "array_agg" | "array_concat_agg") {
            return Err(self.error(at, format_args!("LIMIT is not allowed in a call of {name}")));
        }
        let arguments: Vec<_> = values.iter().map(Typed::argument).collect();
        let bound = resolve(name, &arguments)?;
        let Function::Aggregate(udf) = bound.function else {
            return Err(ServiceError::internal(format!(
                "{name} is no aggregate function"
            )));
        };
        let ty = SqlType::of_column(&bound.returns);
        if values.iter().any(|v| v.fold_case)
            && (call.distinct || matches!(name, "min" | "max" | "min_by" | "max_by"))
        {
            return Err(ServiceError::unsupported("Aggregation with a collation"));
        }
        let values = values
            .into_iter()
            .zip(&bound.arguments)
            .map(|(v, to)| self.cast_to(v, &SqlType::of_column(to)))
            .collect::<Result<Vec<_>>>()?;
        if call.distinct {
            for value in &values {
                self.require_groupable(&value.ty, "DISTINCT", at)?;
            }
        }
        let mut args: Vec<DfExpr> = values
            .iter()
            .map(|v| match v.ty {
                SqlType::Float64 if call.distinct => nested::group_key(v.expr.clone()),
                _ => v.expr.clone(),
            })
            .collect();
        if args.is_empty() {
            // An aggregate is fed by columns: this one counts rows.
            args.push(super::literal::int(1).expr);
        }
        let arity = args.len();
        let ignore_nulls = call.ignore_nulls == Some(true) || (separator.is_some());
        let mut order = Vec::new();
        for item in &call.order_by {
            let key = self.expr(&item.expr, ctx)?;
            if call.distinct && !values.iter().any(|v| v.expr == key.expr) {
                return Err(self.error(
                    item.expr.at,
                    "An aggregate function that has both DISTINCT and ORDER BY arguments can only ORDER BY expressions that are arguments to the function",
                ));
            }
            for sort in self.sort_keys(key, item)? {
                order.push((sort.asc, sort.nulls_first));
                args.push(sort.expr);
            }
        }
        let having = match &call.having {
            None => None,
            Some((which, e)) => {
                let key = self.expr(e, ctx)?;
                if !key.ty.supports_ordering() || key.ty == SqlType::Float64 {
                    return Err(ServiceError::unsupported(format_args!(
                        "HAVING MAX or MIN over values of type {}",
                        key.ty
                    )));
                }
                args.push(key.expr);
                Some(match which {
                    Having::Max => Pick::Max,
                    Having::Min => Pick::Min,
                })
            }
        };
        let modifiers = Modifiers {
            distinct: call.distinct,
            ignore_nulls,
            order,
            limit,
            having,
            arity,
        };
        let udf = if modifiers.is_plain() {
            udf
        } else {
            modified(udf, modifiers, &ty)
        };
        Ok(BoundAggregate {
            udf,
            args,
            ty,
            separator,
        })
    }

    fn count_literal(&self, e: &Expr) -> Result<usize> {
        let value = self.expr(e, Ctx::new(&super::expr::NOTHING, None, "LIMIT"))?;
        match self.evaluate_typed(&value)?.value {
            ScalarValue::Int64(Some(n)) if n >= 0 => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
            _ => Err(self.error(e.at, "LIMIT needs a non-negative integer literal")),
        }
    }
}

/// A word that stands for itself: `MONTH`, `WEEK(MONDAY)`, `NFD`.
fn bare_word(e: &Expr) -> Option<String> {
    match &e.kind {
        ExprKind::Ident(name) => Some(name.name.to_ascii_uppercase()),
        ExprKind::Call(call) => match (call.name.as_slice(), call.args.as_slice()) {
            ([name], [argument]) if name.is("WEEK") => match &argument.value.kind {
                ExprKind::Ident(day) => Some(format!("WEEK({})", day.name.to_ascii_uppercase())),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}
