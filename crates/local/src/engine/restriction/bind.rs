//! Names and types: from the parsed tree to the typed one.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, StringArray};

use super::PseudoColumns;
use super::ast::{Ast, InSource, Is, Node, Sense};
use super::coerce::{alike, coerce, comparable, fold, type_list};
use super::error::{SyntaxError, syntax};
use super::expr::{Expr, Kind, Pseudo, Written};
use super::like::Pattern;
use super::literal::{boolean, float, integer, literal, null, parsed, range};
use super::set::ValueSet;
use super::types::Type;
use crate::schema::{FieldType, TableSchema};

/// Result of typing.
pub(super) type Bound<T> = Result<T, SyntaxError>;

/// Resolves names over one table.
#[derive(Debug)]
pub(super) struct Binder<'a> {
    pub(super) schema: &'a TableSchema,
    pub(super) pseudo: PseudoColumns,
    /// Microseconds since the epoch, for CURRENT_TIMESTAMP and its kind.
    pub(super) now: i64,
}

impl Binder<'_> {
    /// The condition of a restriction: it must be a BOOL.
    pub(super) fn condition(&self, node: &Node) -> Bound<Expr> {
        let expr = self.bind(node)?;
        let ty = expr.ty.clone();
        coerce(expr, &Type::Bool).ok_or_else(|| {
            syntax(
                node.at,
                format!("WHERE clause should return type BOOL, but returns type {ty}"),
            )
        })?
    }

    /// Types an expression; a constant one is computed.
    pub(super) fn bind(&self, node: &Node) -> Bound<Expr> {
        self.typed(node).map(fold)
    }

    fn typed(&self, node: &Node) -> Bound<Expr> {
        let at = node.at;
        match &node.ast {
            Ast::Null => Ok(null(at)),
            Ast::Bool(value) => Ok(boolean(at, *value)),
            Ast::Integer(text) => integer(at, text),
            Ast::Float(text) => float(at, text),
            Ast::Text(text) => {
                let mut expr = literal(at, Type::Text, StringArray::from(vec![text.as_str()]));
                expr.written = Written::Text(text.clone());
                Ok(expr)
            }
            Ast::Bytes(bytes) => Ok(literal(
                at,
                Type::Bytes,
                BinaryArray::from(vec![bytes.as_slice()]),
            )),
            Ast::Typed(name, text) => {
                let ty = Type::named(name)
                    .ok_or_else(|| syntax(at, format!("Type not found: {name}")))?;
                parsed(at, &ty, text).map_err(|e| syntax(at, format!("Invalid {ty} literal: {e}")))
            }
            Ast::RangeLiteral(name, text) => range(at, name, text),
            Ast::IntervalLiteral(text, from, to) => {
                super::interval::literal(at, text, from, to.as_deref())
            }
            Ast::Interval(value, part) => super::interval::of_parts(self, at, value, part),
            Ast::Array(_) => Err(syntax(
                at,
                "Array constructors are only supported in IN UNNEST by bigquery-local in a row restriction",
            )),
            Ast::Path(segments) => self.path(at, segments),
            Ast::Not(inner) => {
                let inner = self.boolean_operand("NOT", inner)?;
                let fallible = inner.fallible;
                Ok(Expr::new(at, Type::Bool, Kind::Not(Box::new(inner))).failing(fallible))
            }
            Ast::And(all) => self.junction(at, "AND", all, Kind::And),
            Ast::Or(all) => self.junction(at, "OR", all, Kind::Or),
            Ast::Negate(inner) => super::arithmetic::negate(at, self.bind(inner)?),
            Ast::BitNot(inner) => {
                let inner = self.bind(inner)?;
                let ty = inner.ty.clone();
                let inner = coerce(inner, &Type::Int64).ok_or_else(|| {
                    syntax(
                        at,
                        format!(
                            "No matching signature for operator ~ for argument types: {ty}. Supported signature: ~(INT64)"
                        ),
                    )
                })??;
                let fallible = inner.fallible;
                Ok(Expr::new(at, Type::Int64, Kind::BitNot(Box::new(inner))).failing(fallible))
            }
            Ast::Compare(operator, left, right) => {
                let left = self.bind(left)?;
                let right = self.bind(right)?;
                let (left, right) = comparable(at, operator.symbol(), left, right)?;
                let fallible = left.fallible || right.fallible;
                Ok(Expr::new(
                    at,
                    Type::Bool,
                    Kind::Compare(*operator, Box::new(left), Box::new(right)),
                )
                .failing(fallible))
            }
            Ast::Arithmetic(operator, left, right) => {
                super::arithmetic::bind(at, *operator, self.bind(left)?, self.bind(right)?)
            }
            Ast::Concat(left, right) => {
                super::call::concat(at, "||", vec![self.bind(left)?, self.bind(right)?])
            }
            Ast::Like(value, pattern, sense) => self.like(at, value, pattern, *sense),
            Ast::Between(value, low, high, sense) => {
                let all = vec![self.bind(value)?, self.bind(low)?, self.bind(high)?];
                let types = type_list(&all);
                let [value, low, high]: [Expr; 3] = alike(all)?
                    .filter(|all| all[0].ty.has_order())
                    .and_then(|all| all.try_into().ok())
                    .ok_or_else(|| {
                        syntax(
                            at,
                            format!(
                                "No matching signature for operator BETWEEN for argument types: {types}. Supported signature: (ANY) BETWEEN (ANY) AND (ANY)"
                            ),
                        )
                    })?;
                let fallible = value.fallible || low.fallible || high.fallible;
                let kind = Kind::Between(Box::new(value), Box::new(low), Box::new(high), *sense);
                Ok(Expr::new(at, Type::Bool, kind).failing(fallible))
            }
            Ast::In(value, source, sense) => self.is_in(at, value, source, *sense),
            Ast::Is(value, what, sense) => self.is(at, value, what, *sense),
            Ast::Case {
                operand,
                whens,
                otherwise,
            } => self.case(at, operand.as_deref(), whens, otherwise.as_deref()),
            Ast::Cast {
                value,
                type_name,
                safe,
            } => {
                let to = Type::named(type_name)
                    .ok_or_else(|| syntax(at, format!("Type not found: {type_name}")))?;
                super::cast::bind(at, self.bind(value)?, &to, *safe)
            }
            Ast::Extract { part, from, zone } => {
                super::call_time::extract(self, at, part, from, zone.as_deref())
            }
            Ast::Call {
                name,
                arguments,
                safe,
            } => super::call::bind(self, at, name, arguments, *safe),
        }
    }

    fn path(&self, at: usize, segments: &[String]) -> Bound<Expr> {
        let (first, rest) = segments.split_first().expect("a path has a segment");
        let Some(index) = self.schema.index_of(first) else {
            if rest.is_empty()
                && let Some(pseudo) = self.pseudo_column(first)
            {
                let ty = match pseudo {
                    Pseudo::PartitionTime => Type::Timestamp,
                    Pseudo::PartitionDate => Type::Date,
                };
                return Ok(Expr::new(at, ty, Kind::Pseudo(pseudo)));
            }
            return Err(syntax(at, format!("Unrecognized name: {first}")));
        };
        let mut field = &self.schema.fields[index];
        let mut positions = vec![index];
        for segment in rest {
            let ty = Type::of(field);
            let Type::Struct(_) = ty else {
                return Err(syntax(
                    at,
                    format!("Cannot access field {segment} on a value with type {ty}"),
                ));
            };
            let position = field
                .fields()
                .iter()
                .position(|f| f.name.eq_ignore_ascii_case(segment))
                .ok_or_else(|| {
                    syntax(at, format!("Field name {segment} does not exist in {ty}"))
                })?;
            positions.push(position);
            field = &field.fields()[position];
        }
        let mut expr = Expr::new(at, Type::of(field), Kind::Column(positions));
        expr.ignores_case = field.field_type == FieldType::String
            && field
                .collation
                .as_deref()
                .is_some_and(|c| c.eq_ignore_ascii_case("und:ci"));
        Ok(expr)
    }

    fn pseudo_column(&self, name: &str) -> Option<Pseudo> {
        let time = name.eq_ignore_ascii_case("_PARTITIONTIME");
        let date = name.eq_ignore_ascii_case("_PARTITIONDATE");
        match self.pseudo {
            PseudoColumns::Time | PseudoColumns::TimeAndDate if time => Some(Pseudo::PartitionTime),
            PseudoColumns::TimeAndDate if date => Some(Pseudo::PartitionDate),
            _ => None,
        }
    }

    /// An operand of a logical operator.
    pub(super) fn boolean_operand(&self, operator: &str, node: &Node) -> Bound<Expr> {
        let expr = self.bind(node)?;
        let ty = expr.ty.clone();
        coerce(expr, &Type::Bool).ok_or_else(|| {
            syntax(
                node.at,
                format!(
                    "No matching signature for operator {operator} for argument types: {ty}. Supported signature: BOOL {operator} BOOL"
                ),
            )
        })?
    }

    fn junction(
        &self,
        at: usize,
        operator: &str,
        all: &[Node],
        kind: fn(Vec<Expr>) -> Kind,
    ) -> Bound<Expr> {
        let all = all
            .iter()
            .map(|n| self.boolean_operand(operator, n))
            .collect::<Bound<Vec<_>>>()?;
        let fallible = all.iter().any(|e| e.fallible);
        Ok(Expr::new(at, Type::Bool, kind(all)).failing(fallible))
    }

    fn like(&self, at: usize, value: &Node, pattern: &Node, sense: Sense) -> Bound<Expr> {
        let value = self.bind(value)?;
        let pattern = self.bind(pattern)?;
        let types = format!("{}, {}", value.ty, pattern.ty);
        let mismatch = || {
            syntax(
                at,
                format!(
                    "No matching signature for operator LIKE for argument types: {types}. Supported signatures: STRING LIKE STRING; BYTES LIKE BYTES"
                ),
            )
        };
        let both = alike(vec![value, pattern])?
            .filter(|all| matches!(all[0].ty, Type::Text | Type::Bytes))
            .ok_or_else(mismatch)?;
        let [value, pattern]: [Expr; 2] = both.try_into().map_err(|_| mismatch())?;
        let ignores_case = value.ignores_case || pattern.ignores_case;
        let fallible = value.fallible || pattern.fallible;
        let mut value = value;
        value.ignores_case = ignores_case;
        if let Some(constant) = pattern.as_literal()
            && constant.is_valid(0)
        {
            let compiled = Pattern::of_literal(constant, ignores_case)
                .map_err(|message| syntax(pattern.at, message))?;
            let kind = Kind::LikePattern(Box::new(value), Arc::new(compiled), sense);
            return Ok(Expr::new(at, Type::Bool, kind).failing(fallible));
        }
        // A pattern of a row can be malformed.
        let kind = Kind::Like(Box::new(value), Box::new(pattern), sense);
        Ok(Expr::new(at, Type::Bool, kind).failing(true))
    }

    fn is_in(&self, at: usize, value: &Node, source: &InSource, sense: Sense) -> Bound<Expr> {
        let value = self.bind(value)?;
        let nodes: &[Node] = match source {
            InSource::List(nodes) => nodes,
            InSource::Unnest(array) => match &array.ast {
                Ast::Array(nodes) if nodes.is_empty() => {
                    return Ok(boolean(at, sense == Sense::Negated));
                }
                Ast::Array(nodes) => nodes,
                _ => return self.in_array(at, value, array, sense),
            },
        };
        let mut all = Vec::with_capacity(nodes.len() + 1);
        all.push(value);
        for node in nodes {
            all.push(self.bind(node)?);
        }
        let (value_ty, first) = (all[0].ty.clone(), all[1].ty.clone());
        let mut all = alike(all)?
            .filter(|all| all[0].ty.has_equality())
            .ok_or_else(|| {
                syntax(
                    at,
                    format!(
                        "No matching signature for operator IN for argument types: {value_ty} and list elements such as {first}"
                    ),
                )
            })?;
        let list = all.split_off(1);
        let value = all.remove(0);
        let fallible = value.fallible || list.iter().any(|e| e.fallible);
        let ignores_case = value.ignores_case || list.iter().any(|e| e.ignores_case);
        let constants: Option<Vec<&ArrayRef>> = list.iter().map(Expr::as_literal).collect();
        let set = constants.and_then(|values| ValueSet::new(&value.ty, &values, ignores_case));
        let kind = match set {
            Some(set) => Kind::InSet(Box::new(value), Arc::new(set), sense),
            None => Kind::InList(Box::new(value), list, sense),
        };
        Ok(Expr::new(at, Type::Bool, kind).failing(fallible))
    }

    fn in_array(&self, at: usize, value: Expr, array: &Node, sense: Sense) -> Bound<Expr> {
        let array = self.bind(array)?;
        let Type::Array(element) = &array.ty else {
            return Err(syntax(
                array.at,
                format!(
                    "Values referenced in UNNEST must be arrays. UNNEST contains expression of type {}",
                    array.ty
                ),
            ));
        };
        let value_ty = value.ty.clone();
        let value = coerce(value, element)
            .filter(|_| element.has_equality())
            .ok_or_else(|| {
                syntax(
                    at,
                    format!(
                        "No matching signature for operator IN UNNEST for argument types: {value_ty}, {}",
                        array.ty
                    ),
                )
            })??;
        let fallible = value.fallible || array.fallible;
        let kind = Kind::InArray(Box::new(value), Box::new(array), sense);
        Ok(Expr::new(at, Type::Bool, kind).failing(fallible))
    }

    fn is(&self, at: usize, value: &Node, what: &Is, sense: Sense) -> Bound<Expr> {
        let (kind, fallible) = match what {
            Is::Null => {
                let value = self.bind(value)?;
                let fallible = value.fallible;
                (Kind::IsNull(Box::new(value), sense), fallible)
            }
            Is::True | Is::False => {
                let truth = *what == Is::True;
                let name = if truth { "IS TRUE" } else { "IS FALSE" };
                let value = self.boolean_operand(name, value)?;
                let fallible = value.fallible;
                (Kind::IsBool(Box::new(value), truth, sense), fallible)
            }
            Is::DistinctFrom(other) => {
                let (left, right) = (self.bind(value)?, self.bind(other)?);
                let (left, right) = comparable(at, "IS DISTINCT FROM", left, right)?;
                let fallible = left.fallible || right.fallible;
                let kind = Kind::DistinctFrom(Box::new(left), Box::new(right), sense);
                (kind, fallible)
            }
        };
        Ok(Expr::new(at, Type::Bool, kind).failing(fallible))
    }

    fn case(
        &self,
        at: usize,
        operand: Option<&Node>,
        whens: &[(Node, Node)],
        otherwise: Option<&Node>,
    ) -> Bound<Expr> {
        let operand = operand.map(|n| self.bind(n)).transpose()?;
        let mut conditions = Vec::with_capacity(whens.len());
        let mut values = Vec::with_capacity(whens.len() + 1);
        for (condition, value) in whens {
            conditions.push(match &operand {
                None => self.boolean_operand("CASE", condition)?,
                Some(operand) => {
                    let other = self.bind(condition)?;
                    let (left, right) = comparable(condition.at, "CASE", operand.clone(), other)?;
                    let fallible = left.fallible || right.fallible;
                    Expr::new(
                        condition.at,
                        Type::Bool,
                        Kind::Compare(super::ast::Comparison::Eq, Box::new(left), Box::new(right)),
                    )
                    .failing(fallible)
                }
            });
            values.push(self.bind(value)?);
        }
        values.push(match otherwise {
            Some(node) => self.bind(node)?,
            None => null(at),
        });
        choice(at, "CASE", conditions, values)
    }
}

/// CASE or IF over conditions and one value more than those.
pub(super) fn choice(
    at: usize,
    name: &str,
    conditions: Vec<Expr>,
    values: Vec<Expr>,
) -> Bound<Expr> {
    let types = type_list(&values);
    let mut values = alike(values)?.ok_or_else(|| {
        syntax(
            at,
            format!("No matching signature for {name} for argument types: {types}; all must be coercible to one type"),
        )
    })?;
    let otherwise = values.pop().expect("there is one value more");
    let ty = otherwise.ty.clone();
    let fallible = otherwise.fallible
        || conditions.iter().any(|e| e.fallible)
        || values.iter().any(|e| e.fallible);
    let ignores_case = otherwise.ignores_case || values.iter().any(|e| e.ignores_case);
    let whens = conditions.into_iter().zip(values).collect();
    let mut expr = Expr::new(at, ty, Kind::Case(whens, Box::new(otherwise))).failing(fallible);
    expr.ignores_case = ignores_case;
    Ok(expr)
}
