//! Expressions.

use datafusion::logical_expr::{BinaryExpr, Case, Expr as DfExpr, Operator, expr::ScalarFunction};
use datafusion::scalar::ScalarValue;

use super::super::super::functions::{CastMode, Function, SqlType, cast, resolve};
use super::super::ast::{BinaryOp, Expr, ExprKind, Truth, TypeName, UnaryOp};
use super::literal::{boolean, constant, evaluate, literal, null_of, text};
use super::nested;
use super::scope::{Ctx, Typed};
use super::types::resolve_type;
use super::{Analyzer, Scope};
use crate::error::{Result, ServiceError};

/// Types that Arrow compares as GoogleSQL does.
pub(super) fn compares_natively(ty: &SqlType) -> bool {
    matches!(
        ty,
        SqlType::Bool
            | SqlType::Int64
            | SqlType::Numeric
            | SqlType::BigNumeric
            | SqlType::String
            | SqlType::Bytes
            | SqlType::Date
            | SqlType::Time
            | SqlType::Datetime
            | SqlType::Timestamp
    )
}

pub(super) fn binary(left: DfExpr, op: Operator, right: DfExpr) -> DfExpr {
    DfExpr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

impl Analyzer<'_> {
    /// Analyzes an expression.
    pub(in crate::engine::query) fn expr(&self, e: &Expr, ctx: Ctx<'_>) -> Result<Typed> {
        if let Some(grouping) = ctx.grouping
            && grouping.computed_keys
            && !matches!(e.kind, ExprKind::Ident(_))
            && let Ok(whole) = self.expr(e, ctx.ungrouped())
            && let Some(key) = grouping.keys.iter().find(|k| k.expr == whole.expr)
            && !matches!(whole.expr, DfExpr::Literal(..))
        {
            return Ok(key.col.typed());
        }
        self.expr_inner(e, ctx)
            .map_err(|error| self.locate(e.at, error))
    }

    /// An expression that must be BOOL.
    pub(super) fn condition(&self, e: &Expr, ctx: Ctx<'_>) -> Result<DfExpr> {
        let typed = self.expr(e, ctx)?;
        match typed.ty {
            SqlType::Bool => Ok(typed.expr),
            SqlType::Null => Ok(constant(ScalarValue::Boolean(None), &SqlType::Bool)),
            other => Err(self.error(
                e.at,
                format_args!(
                    "{} should return type BOOL, but returns {other}",
                    ctx.clause
                ),
            )),
        }
    }

    pub(super) fn exprs(&self, items: &[Expr], ctx: Ctx<'_>) -> Result<Vec<Typed>> {
        items.iter().map(|e| self.expr(e, ctx)).collect()
    }

    /// Calls a scalar function or an operator of the library.
    pub(super) fn scalar(&self, name: &str, args: Vec<Typed>, errors: CastMode) -> Result<Typed> {
        let arguments: Vec<_> = args.iter().map(Typed::argument).collect();
        let call = resolve(&name.to_ascii_lowercase(), &arguments)?;
        let Function::Scalar(udf) = call.function else {
            return Err(ServiceError::internal(format!(
                "{name} is no scalar function"
            )));
        };
        let ty = SqlType::of_column(&call.returns);
        let fold_case = matches!(ty, SqlType::String) && args.iter().any(|a| a.fold_case);
        let exprs = args
            .into_iter()
            .zip(&call.arguments)
            .map(|(arg, to)| Ok(self.cast_to(arg, &SqlType::of_column(to))?.expr))
            .collect::<Result<Vec<_>>>()?;
        let udf = match errors {
            CastMode::Strict => udf,
            CastMode::Safe => nested::safe(udf, &ty),
        };
        let mut typed = Typed::new(
            DfExpr::ScalarFunction(ScalarFunction::new_udf(udf, exprs)),
            ty,
        );
        typed.fold_case = fold_case;
        Ok(typed)
    }

    pub(super) fn operator(&self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        self.scalar(name, args, CastMode::Strict)
    }

    fn expr_inner(&self, e: &Expr, ctx: Ctx<'_>) -> Result<Typed> {
        match &e.kind {
            ExprKind::Null => Ok(literal(ScalarValue::Null, SqlType::Null)),
            ExprKind::Bool(b) => Ok(boolean(*b)),
            ExprKind::Integer(n) => self.integer(n, e.at),
            ExprKind::Float(n) => {
                let value: f64 =
                    n.parse()
                        .ok()
                        .filter(|v: &f64| v.is_finite())
                        .ok_or_else(|| {
                            self.error(e.at, format_args!("Invalid floating point literal: {n}"))
                        })?;
                Ok(literal(ScalarValue::Float64(Some(value)), SqlType::Float64))
            }
            ExprKind::String(s) => Ok(text(s)),
            ExprKind::Bytes(b) => Ok(literal(
                ScalarValue::Binary(Some(b.clone())),
                SqlType::Bytes,
            )),
            ExprKind::Typed(ty, value) => self.typed_literal(ty, value, e.at),
            ExprKind::Ident(_) | ExprKind::Dot(..) => self.path(e, ctx),
            ExprKind::Parameter(name) => match self.env.named.get(&name.to_ascii_lowercase()) {
                Some(value) => Ok(self.parameter(value)),
                None => Err(self.error(e.at, format_args!("Query parameter '{name}' not found"))),
            },
            ExprKind::Positional(index) => match self.env.positional.get(*index) {
                Some(value) => Ok(self.parameter(value)),
                None => Err(self.error(
                    e.at,
                    format_args!("Query parameter number {} is not defined", index + 1),
                )),
            },
            ExprKind::SystemVariable(name) => self.system_variable(name, e.at),
            ExprKind::Subscript(inner, kind, index) => self.subscript(inner, *kind, index, ctx),
            ExprKind::Unary(op, inner) => {
                let inner = self.expr(inner, ctx)?;
                match op {
                    UnaryOp::Minus => self.operator("$unary_minus", vec![inner]),
                    UnaryOp::BitNot => self.operator("$bitwise_not", vec![inner]),
                    UnaryOp::Plus => match inner.ty {
                        SqlType::Int64
                        | SqlType::Float64
                        | SqlType::Numeric
                        | SqlType::BigNumeric
                        | SqlType::Null => Ok(inner),
                        other => Err(ServiceError::invalid_query(format!(
                            "No matching signature for operator + for argument types: {other}"
                        ))),
                    },
                }
            }
            ExprKind::Binary(op, left, right) => {
                let left = self.expr(left, ctx)?;
                let right = self.expr(right, ctx)?;
                self.binary(*op, left, right)
            }
            ExprKind::Not(inner) => {
                let inner = self.bool_operand(inner, "NOT", ctx)?;
                Ok(Typed::new(DfExpr::Not(Box::new(inner)), SqlType::Bool))
            }
            ExprKind::And(items) => self.connective(items, "AND", Operator::And, ctx),
            ExprKind::Or(items) => self.connective(items, "OR", Operator::Or, ctx),
            ExprKind::Is { expr, what, not } => self.is(expr, *what, *not, ctx),
            ExprKind::IsDistinct { left, right, not } => {
                let args = vec![self.expr(left, ctx)?, self.expr(right, ctx)?];
                let ty = self.common_type(&args, "operator IS DISTINCT FROM")?;
                let args = args
                    .into_iter()
                    .map(|a| self.cast_to(a, &ty))
                    .collect::<Result<Vec<_>>>()?;
                Ok(negate_if(self.operator("$is_distinct", args)?, *not))
            }
            ExprKind::Between {
                expr,
                low,
                high,
                not,
            } => {
                let value = self.expr(expr, ctx)?;
                let low = self.expr(low, ctx)?;
                let high = self.expr(high, ctx)?;
                let low = self.binary(BinaryOp::GreaterOrEqual, value.clone(), low)?;
                let high = self.binary(BinaryOp::LessOrEqual, value, high)?;
                let both = binary(low.expr, Operator::And, high.expr);
                Ok(negate_if(Typed::new(both, SqlType::Bool), *not))
            }
            ExprKind::In { expr, set, not } => Ok(negate_if(self.in_set(expr, set, ctx)?, *not)),
            ExprKind::Like { expr, pattern, not } => {
                let args = vec![self.expr(expr, ctx)?, self.expr(pattern, ctx)?];
                if args.iter().any(|a| a.fold_case) {
                    return Err(ServiceError::unsupported("LIKE with a collation"));
                }
                Ok(negate_if(self.operator("$like", args)?, *not))
            }
            ExprKind::LikeSome {
                expr,
                quantifier,
                patterns,
                not,
            } => self.like_some(expr, *quantifier, patterns, *not, ctx),
            ExprKind::Case {
                operand,
                whens,
                otherwise,
            } => self.case(operand.as_deref(), whens, otherwise.as_deref(), ctx),
            ExprKind::Cast {
                expr,
                to,
                safe,
                format,
                zone,
            } => self.cast(expr, to, *safe, format.as_deref(), zone.as_deref(), ctx),
            ExprKind::Extract { part, expr, zone } => {
                let mut args = vec![text(part), self.expr(expr, ctx)?];
                if let Some(zone) = zone {
                    args.push(self.expr(zone, ctx)?);
                }
                self.operator("$extract", args)
            }
            ExprKind::Interval { value, from, to } => {
                let value = self.expr(value, ctx)?;
                let part = match to {
                    Some(to) => format!("{from} TO {to}"),
                    None => from.clone(),
                };
                self.operator("$interval", vec![value, text(&part)])
            }
            ExprKind::Call(call) => self.call(call, e.at, ctx),
            ExprKind::Array { element, items } => self.array(element.as_ref(), items, ctx),
            ExprKind::Struct { fields, items } => {
                let values = items
                    .iter()
                    .map(|(value, _)| self.expr(value, ctx))
                    .collect::<Result<Vec<_>>>()?;
                self.struct_value(fields.as_deref(), items, values, e.at)
            }
            ExprKind::ArrayQuery(query) => self.array_subquery(query, ctx),
            ExprKind::Exists(query) => self.exists_subquery(query, ctx),
            ExprKind::Subquery(query) => self.scalar_subquery(query, ctx),
            ExprKind::Star => Err(self.error(e.at, "Unexpected \"*\"")),
        }
    }

    fn parameter(&self, value: &super::super::env::Constant) -> Typed {
        let mut typed = self.constant_expr(value);
        typed.literal = Some(value.value.clone());
        typed
    }

    fn system_variable(&self, name: &str, at: usize) -> Result<Typed> {
        if let Some(value) = self.env.variable(&format!("@@{name}")) {
            return Ok(self.constant_expr(&value));
        }
        match name.to_ascii_lowercase().as_str() {
            "project_id" => Ok(text(&self.env.project)),
            "time_zone" => Ok(text("UTC")),
            "location" => Ok(text(&self.env.location)),
            _ => Err(self.error(at, format_args!("Unrecognized system variable: @@{name}"))),
        }
    }

    fn integer(&self, n: &str, at: usize) -> Result<Typed> {
        let (sign, digits) = match n.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", n),
        };
        let value = match digits.get(..2) {
            Some("0x" | "0X") => {
                i128::from_str_radix(&digits[2..], 16).map(|v| if sign.is_empty() { v } else { -v })
            }
            _ => n.parse::<i128>(),
        };
        match value.ok().and_then(|v| i64::try_from(v).ok()) {
            Some(value) => Ok(super::literal::int(value)),
            None => Err(self.error(at, format_args!("Invalid integer literal: {n}"))),
        }
    }

    fn typed_literal(&self, ty: &TypeName, value: &str, at: usize) -> Result<Typed> {
        let (ty, _) = resolve_type(ty, &self.sql)?;
        let bad =
            |e: ServiceError| self.error(at, format_args!("Invalid {ty} literal: {}", e.message));
        if ty == SqlType::Json {
            let parsed = self.operator("parse_json", vec![text(value)])?;
            let value = evaluate(&parsed.expr).map_err(bad)?;
            return Ok(literal(value, ty));
        }
        let value = self.cast_to(text(value), &ty).map_err(bad)?;
        Ok(value)
    }

    /// Arithmetic, comparison and the like.
    pub(super) fn binary(&self, op: BinaryOp, left: Typed, right: Typed) -> Result<Typed> {
        let (name, native) = match op {
            BinaryOp::Add => ("$add", None),
            BinaryOp::Subtract => ("$subtract", None),
            BinaryOp::Multiply => ("$multiply", None),
            BinaryOp::Divide => ("$divide", None),
            BinaryOp::Concat => ("$concat", None),
            BinaryOp::BitAnd => ("$bitwise_and", None),
            BinaryOp::BitOr => ("$bitwise_or", None),
            BinaryOp::BitXor => ("$bitwise_xor", None),
            BinaryOp::ShiftLeft => ("$shift_left", None),
            BinaryOp::ShiftRight => ("$shift_right", None),
            BinaryOp::Equal => ("$equal", Some(Operator::Eq)),
            BinaryOp::NotEqual => ("$not_equal", Some(Operator::NotEq)),
            BinaryOp::Less => ("$less", Some(Operator::Lt)),
            BinaryOp::LessOrEqual => ("$less_or_equal", Some(Operator::LtEq)),
            BinaryOp::Greater => ("$greater", Some(Operator::Gt)),
            BinaryOp::GreaterOrEqual => ("$greater_or_equal", Some(Operator::GtEq)),
        };
        let Some(operator) = native else {
            return self.operator(name, vec![left, right]);
        };
        if left.is_null_literal() && right.is_null_literal() {
            return Ok(Typed::new(null_of(&SqlType::Bool)?, SqlType::Bool));
        }
        let (left, right) = self.fold_operands(left, right)?;
        let native = self
            .common_type(&[left.clone(), right.clone()], "operator")
            .ok()
            .filter(|ty| {
                compares_natively(ty) && !left.is_null_literal() && !right.is_null_literal()
            });
        match native {
            Some(ty) => {
                let left = self.cast_to(left, &ty)?;
                let right = self.cast_to(right, &ty)?;
                Ok(Typed::new(
                    binary(left.expr, operator, right.expr),
                    SqlType::Bool,
                ))
            }
            None => self.operator(name, vec![left, right]),
        }
    }

    /// Collated operands compare as their lower-case forms do.
    fn fold_operands(&self, left: Typed, right: Typed) -> Result<(Typed, Typed)> {
        if !(left.fold_case || right.fold_case)
            || left.ty != SqlType::String
            || right.ty != SqlType::String
        {
            return Ok((left, right));
        }
        Ok((self.folded(left)?, self.folded(right)?))
    }

    /// The form of a collated string that equal strings share.
    pub(super) fn folded(&self, value: Typed) -> Result<Typed> {
        let mut lower = self.operator("lower", vec![value])?;
        lower.fold_case = false;
        Ok(lower)
    }

    fn bool_operand(&self, e: &Expr, what: &str, ctx: Ctx<'_>) -> Result<DfExpr> {
        let typed = self.expr(e, ctx)?;
        match typed.ty {
            SqlType::Bool => Ok(typed.expr),
            SqlType::Null => null_of(&SqlType::Bool),
            other => Err(self.error(
                e.at,
                format_args!(
                    "No matching signature for operator {what} for argument types: {other}"
                ),
            )),
        }
    }

    fn connective(&self, items: &[Expr], what: &str, op: Operator, ctx: Ctx<'_>) -> Result<Typed> {
        let mut operands = items
            .iter()
            .map(|e| self.bool_operand(e, what, ctx))
            .collect::<Result<Vec<_>>>()?;
        // A balanced tree, so that long chains stay shallow.
        while operands.len() > 1 {
            let mut next = Vec::with_capacity(operands.len().div_ceil(2));
            let mut rest = operands.into_iter();
            while let Some(left) = rest.next() {
                next.push(match rest.next() {
                    Some(right) => binary(left, op, right),
                    None => left,
                });
            }
            operands = next;
        }
        let expr = operands
            .pop()
            .ok_or_else(|| ServiceError::internal("a connective has operands"))?;
        Ok(Typed::new(expr, SqlType::Bool))
    }

    fn is(&self, e: &Expr, what: Truth, not: bool, ctx: Ctx<'_>) -> Result<Typed> {
        let expr = match what {
            Truth::Null => {
                let inner = Box::new(self.expr(e, ctx)?.expr);
                return Ok(Typed::new(
                    if not {
                        DfExpr::IsNotNull(inner)
                    } else {
                        DfExpr::IsNull(inner)
                    },
                    SqlType::Bool,
                ));
            }
            Truth::True => {
                let inner = Box::new(self.bool_operand(e, "IS TRUE", ctx)?);
                if not {
                    DfExpr::IsNotTrue(inner)
                } else {
                    DfExpr::IsTrue(inner)
                }
            }
            Truth::False => {
                let inner = Box::new(self.bool_operand(e, "IS FALSE", ctx)?);
                if not {
                    DfExpr::IsNotFalse(inner)
                } else {
                    DfExpr::IsFalse(inner)
                }
            }
        };
        Ok(Typed::new(expr, SqlType::Bool))
    }

    fn case(
        &self,
        operand: Option<&Expr>,
        whens: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
        ctx: Ctx<'_>,
    ) -> Result<Typed> {
        let operand = operand.map(|e| self.expr(e, ctx)).transpose()?;
        let mut conditions = Vec::new();
        let mut values = Vec::new();
        for (when, then) in whens {
            conditions.push(match &operand {
                None => self.bool_operand(when, "CASE", ctx)?,
                Some(operand) => {
                    let when = self.expr(when, ctx)?;
                    self.binary(BinaryOp::Equal, operand.clone(), when)?.expr
                }
            });
            values.push(self.expr(then, ctx)?);
        }
        values.push(match otherwise {
            Some(e) => self.expr(e, ctx)?,
            None => literal(ScalarValue::Null, SqlType::Null),
        });
        self.choose(conditions, values, "operator CASE")
    }

    /// CASE over conditions; the last value stands for none of them.
    pub(super) fn choose(
        &self,
        conditions: Vec<DfExpr>,
        values: Vec<Typed>,
        what: &str,
    ) -> Result<Typed> {
        let ty = self.common_type(&values, what)?;
        let fold_case = values.iter().any(|v| v.fold_case);
        let mut exprs = values
            .into_iter()
            .map(|v| Ok(self.cast_to(v, &ty)?.expr))
            .collect::<Result<Vec<_>>>()?;
        let otherwise = exprs
            .pop()
            .ok_or_else(|| ServiceError::internal("CASE has values"))?;
        let pairs = conditions
            .into_iter()
            .zip(exprs)
            .map(|(c, v)| (Box::new(c), Box::new(v)))
            .collect();
        let case = DfExpr::Case(Case::new(None, pairs, Some(Box::new(otherwise))));
        let mut typed = Typed::new(nested::marked(case, &ty), ty);
        typed.fold_case = fold_case;
        Ok(typed)
    }

    fn cast(
        &self,
        e: &Expr,
        to: &TypeName,
        safe: bool,
        format: Option<&Expr>,
        zone: Option<&Expr>,
        ctx: Ctx<'_>,
    ) -> Result<Typed> {
        let (ty, parameters) = resolve_type(to, &self.sql)?;
        let value = self.expr(e, ctx)?;
        if value.is_null_literal() {
            let mut null = Typed::new(null_of(&ty)?, ty);
            null.literal = None;
            return Ok(null);
        }
        if let (SqlType::Array(from), SqlType::Array(to)) = (&value.ty, &ty)
            && **from == SqlType::Null
        {
            // An empty literal takes the type that it is cast to.
            return Ok(Typed::new(nested::make_array(to, Vec::new()), ty));
        }
        if value.ty == ty && parameters.is_none() && format.is_none() {
            // A cast of a literal is no literal.
            return Ok(Typed {
                literal: None,
                ..value
            });
        }
        let mode = if safe {
            CastMode::Safe
        } else {
            CastMode::Strict
        };
        let mut to = ty.to_column("");
        if let Some(parameters) = parameters {
            parameters.apply(&mut to);
        }
        let udf = cast(&value.ty.to_column(""), &to, mode)?;
        let mut args = vec![value.expr];
        for extra in [format, zone].into_iter().flatten() {
            let extra_typed = self.expr(extra, ctx)?;
            args.push(self.coerce(extra_typed, &SqlType::String)?.expr);
        }
        Ok(Typed::new(
            DfExpr::ScalarFunction(ScalarFunction::new_udf(udf, args)),
            ty,
        ))
    }
}

fn negate_if(typed: Typed, not: bool) -> Typed {
    if not {
        Typed::new(DfExpr::Not(Box::new(typed.expr)), SqlType::Bool)
    } else {
        typed
    }
}

/// The name that an expression gives its column: the last part of a path.
pub(super) fn implied_name(e: &Expr) -> Option<String> {
    match &e.kind {
        ExprKind::Ident(name) => Some(name.name.clone()),
        ExprKind::Dot(_, name) => Some(name.name.clone()),
        _ => None,
    }
}

/// A scope without names.
pub(super) static NOTHING: std::sync::LazyLock<Scope> = std::sync::LazyLock::new(Scope::default);
