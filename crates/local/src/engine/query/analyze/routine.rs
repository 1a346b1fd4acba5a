//! SQL functions and table functions that the user created.

use std::collections::HashMap;

use super::super::super::functions::{CastMode, SqlType, kind};
use super::super::ast::{Call, CreateFunction, ExprKind, FunctionBody, InSet, Path, TableArgument};
use super::Analyzer;
use super::aggregate::walk;
use super::expr::NOTHING;
use super::literal::constant;
use super::scope::{Col, Ctx, Rel, Typed};
use super::types::resolve_type;
use crate::error::{Result, ServiceError};

/// How deep functions may call each other.
const MAX_CALLS: usize = 16;

impl Analyzer<'_> {
    /// A call of a function that the user created, if `name` is one.
    pub(super) fn routine(
        &self,
        call: &Call,
        name: &str,
        errors: CastMode,
        at: usize,
        ctx: Ctx<'_>,
    ) -> Result<Option<Typed>> {
        let found = match self.env.function(name) {
            Some(function) => function,
            None if name.contains('.') && kind(name).is_none() => {
                // A dotted name that the library does not have is a routine's.
                return Err(self.error(
                    at,
                    format_args!("Function not found: {}", shown_path(&call.name)),
                ));
            }
            None => return Ok(None),
        };
        if errors == CastMode::Safe {
            return Err(ServiceError::unsupported(
                "SAFE. with a user-defined function",
            ));
        }
        if self.parameters.borrow().len() >= MAX_CALLS {
            return Err(self.error(at, "Functions call each other too deeply"));
        }
        let body = match &found.body {
            FunctionBody::Sql(body) => body,
            FunctionBody::Table(_) => {
                return Err(self.error(at, format_args!("{name} is a table function")));
            }
            FunctionBody::Other(what) => return Err(ServiceError::unsupported(what)),
        };
        if call.args.len() != found.parameters.len() {
            return Err(self.error(
                at,
                format_args!(
                    "No matching signature for function {name}: it takes {} arguments",
                    found.parameters.len()
                ),
            ));
        }
        let mut arguments = Vec::new();
        for (argument, (parameter, declared)) in call.args.iter().zip(&found.parameters) {
            let value = self.expr(&argument.value, ctx)?;
            let value = match declared {
                Some(ty) => {
                    let ty = resolve_type(ty, &found.text)?.0;
                    self.coerce(value, &ty)
                        .map_err(|e| self.locate(argument.value.at, e))?
                }
                None => self.settle(value)?,
            };
            arguments.push((parameter.name.clone(), value));
        }
        let value = if has_subquery(body) {
            let columns = arguments
                .into_iter()
                .map(|(name, value)| {
                    let col = Col {
                        name: Some(name),
                        id: self.env.id(),
                        ty: value.ty,
                        fold_case: value.fold_case,
                    };
                    (col, value.expr)
                })
                .collect();
            self.parameters.borrow_mut().push(HashMap::new());
            let value = self.applied(columns, &|ctx| self.expr(body, ctx));
            self.parameters.borrow_mut().pop();
            value?
        } else {
            let map = arguments
                .into_iter()
                .map(|(name, value)| {
                    // An argument is no literal inside the function.
                    (
                        name.to_ascii_lowercase(),
                        Typed {
                            literal: None,
                            ..value
                        },
                    )
                })
                .collect();
            self.parameters.borrow_mut().push(map);
            let value = self.expr(body, Ctx::new(&NOTHING, None, "function body"));
            self.parameters.borrow_mut().pop();
            value?
        };
        match &found.returns {
            Some(ty) => {
                let ty = resolve_type(ty, &found.text)?.0;
                self.coerce(value, &ty).map(Some)
            }
            None => self.settle(value).map(Some),
        }
    }

    /// Checks a function's body against its declared types, as creation does.
    pub(in crate::engine::query) fn check_function(
        &self,
        function: &CreateFunction,
    ) -> Result<Option<SqlType>> {
        let mut map = HashMap::new();
        for (parameter, declared) in &function.parameters {
            let Some(ty) = declared else {
                return Ok(None);
            };
            let ty = resolve_type(ty, &function.text)?.0;
            let null = super::literal::null_of(&ty)?;
            map.insert(parameter.name.to_ascii_lowercase(), Typed::new(null, ty));
        }
        let declared = match &function.returns {
            Some(ty) => Some(resolve_type(ty, &function.text)?.0),
            None => None,
        };
        self.parameters.borrow_mut().push(map);
        let result = match &function.body {
            FunctionBody::Sql(body) => self
                .expr(body, Ctx::new(&NOTHING, None, "function body"))
                .and_then(|value| self.settle(value))
                .and_then(|value| match &declared {
                    Some(ty) => self.coerce(value, ty).map(|v| Some(v.ty)),
                    None => Ok(Some(value.ty)),
                }),
            FunctionBody::Table(query) => self.query(query, None).map(|_| None),
            FunctionBody::Other(what) => Err(ServiceError::unsupported(what)),
        };
        self.parameters.borrow_mut().pop();
        result
    }

    /// The rows of a table function.
    pub(super) fn table_function(&self, name: &Path, args: &[TableArgument]) -> Result<Rel> {
        let shown: Vec<&str> = name.iter().map(|i| i.name.as_str()).collect();
        let shown = shown.join(".");
        let Some(function) = self.env.function(&shown.to_ascii_lowercase()) else {
            if name.len() == 1 {
                return match shown.to_ascii_lowercase().as_str() {
                    "external_query" | "appends" | "changes" | "range_sessionize" | "gap_fill"
                    | "vector_search" | "search" => Err(ServiceError::unsupported(format_args!(
                        "Table function {}",
                        shown.to_ascii_uppercase()
                    ))),
                    _ => Err(self.error(
                        name[0].at,
                        format_args!("Table-valued function not found: {shown}"),
                    )),
                };
            }
            if name[0].is("ML") || name[0].is("AI") {
                return Err(ServiceError::unsupported(format_args!(
                    "Table function {shown}"
                )));
            }
            return Err(self.error(
                name[0].at,
                format_args!("Table-valued function not found: {}", shown_path(name)),
            ));
        };
        let FunctionBody::Table(query) = &function.body else {
            return Err(self.error(name[0].at, format_args!("{shown} is no table function")));
        };
        if args.len() != function.parameters.len() {
            return Err(self.error(
                name[0].at,
                format_args!("{shown} takes {} arguments", function.parameters.len()),
            ));
        }
        if self.parameters.borrow().len() >= MAX_CALLS {
            return Err(self.error(name[0].at, "Functions call each other too deeply"));
        }
        let mut map = HashMap::new();
        for (argument, (parameter, declared)) in args.iter().zip(&function.parameters) {
            let TableArgument::Expr(argument) = argument else {
                return Err(ServiceError::unsupported("A table as an argument"));
            };
            if argument.name.is_some() {
                return Err(ServiceError::unsupported("A named argument"));
            }
            let value = self.expr(&argument.value, Ctx::new(&NOTHING, None, "argument"))?;
            let value = match declared {
                Some(ty) => {
                    let ty = resolve_type(ty, &function.text)?.0;
                    self.coerce(value, &ty)?
                }
                None => self.settle(value)?,
            };
            let value = self.evaluate_typed(&value)?;
            map.insert(
                parameter.name.to_ascii_lowercase(),
                Typed::new(constant(value.value, &value.ty), value.ty),
            );
        }
        self.in_function(map, &|analyzer| analyzer.query(query, None))
    }

    fn in_function<T>(
        &self,
        map: HashMap<String, Typed>,
        analyze: &dyn Fn(&Self) -> Result<T>,
    ) -> Result<T> {
        let hidden = std::mem::take(&mut *self.ctes.borrow_mut());
        self.parameters.borrow_mut().push(map);
        let result = analyze(self);
        self.parameters.borrow_mut().pop();
        *self.ctes.borrow_mut() = hidden;
        result
    }
}

/// A routine's name: its dataset in backquotes.
pub(in crate::engine::query) fn shown_path(path: &Path) -> String {
    match path.split_last() {
        Some((name, [])) => name.name.clone(),
        Some((name, before)) => {
            let before: Vec<&str> = before.iter().map(|i| i.name.as_str()).collect();
            format!("`{}`.{}", before.join("."), name.name)
        }
        None => String::new(),
    }
}

fn has_subquery(e: &super::super::ast::Expr) -> bool {
    let mut found = false;
    walk(e, &mut |e| {
        found |= matches!(
            &e.kind,
            ExprKind::ArrayQuery(_)
                | ExprKind::Exists(_)
                | ExprKind::Subquery(_)
                | ExprKind::In {
                    set: InSet::Query(_),
                    ..
                }
        );
    });
    found
}
