//! The procedural language.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use datafusion::scalar::ScalarValue;

use super::super::functions::SqlType;
use super::super::request::StatementOutcome;
use super::analyze::{Analyzer, resolve_type};
use super::ast::{Expr, ExprKind, Ident, SetTarget, Statement, StatementKind, TypeName};
use super::env::{Constant, Env};
use super::run::Runner;
use super::select;
use super::session::{cancellation, run, service_error, stopped};
use crate::error::{Result, ServiceError};

/// How deep EXECUTE IMMEDIATE, CALL and blocks may nest.
pub(super) const MAX_DEPTH: usize = 50;
/// Most statements that a script may run.
const MAX_STEPS: u64 = 1_000_000;

/// What a block ends with.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Flow {
    Next,
    Break(Option<String>),
    Continue(Option<String>),
    Return,
}

impl Env {
    /// Sets a variable that exists.
    fn set_variable(&self, name: &str, value: Constant) -> bool {
        let name = name.to_ascii_lowercase();
        for block in self.variables.borrow_mut().iter_mut().rev() {
            if let Some(variable) = block.get_mut(&name) {
                *variable = value;
                return true;
            }
        }
        false
    }

    /// Makes a variable in the innermost block.
    fn declare(&self, name: &str, value: Constant) -> bool {
        let mut variables = self.variables.borrow_mut();
        match variables.last_mut() {
            Some(block) => block.insert(name.to_ascii_lowercase(), value).is_none(),
            None => false,
        }
    }

    /// `@@row_count` after a statement.
    pub(super) fn set_row_count(&self, outcome: &StatementOutcome) {
        let count = match &outcome.dml {
            Some(dml) => dml.inserted + dml.updated + dml.deleted,
            None => return,
        };
        self.set_system(
            "row_count",
            Constant {
                ty: SqlType::Int64,
                value: ScalarValue::Int64(i64::try_from(count).ok()),
            },
        );
    }

    fn set_system(&self, name: &str, value: Constant) {
        if let Some(first) = self.variables.borrow_mut().first_mut() {
            first.insert(format!("@@{name}"), value);
        }
    }

    /// Drops the temporary tables of the script.
    pub(super) fn drop_temporary(&self) {
        let temporary = std::mem::take(&mut *self.temporary.borrow_mut());
        if temporary.is_empty() {
            return;
        }
        // They share a dataset that holds nothing else.
        let mutations = temporary
            .into_values()
            .next()
            .map(|t| crate::store::Mutation::DropDataset(t.dataset_ref()))
            .into_iter()
            .collect();
        // Also when the job was cancelled.
        let dropped = self.service.store.commit(|_| Ok((mutations, ())));
        if let Err(error) = dropped {
            tracing::warn!("temporary tables remain: {error}");
        }
    }
}

fn text(value: &str) -> Constant {
    Constant {
        ty: SqlType::String,
        value: ScalarValue::Utf8(Some(value.to_string())),
    }
}

pub(super) fn null(ty: &SqlType) -> Result<Constant> {
    Ok(Constant {
        ty: ty.clone(),
        value: ScalarValue::try_new_null(&ty.to_arrow()).map_err(service_error)?,
    })
}

impl Runner {
    pub(super) fn analyzer(&self) -> Analyzer<'_> {
        Analyzer::new(&self.env, &self.sql)
    }

    /// Counts a statement, and refuses it when the script has to end.
    fn step(&mut self) -> Result<()> {
        if cancellation(&self.env.context).is_cancelled() {
            return Err(stopped());
        }
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(ServiceError::invalid_query(format!(
                "The script ran more than {MAX_STEPS} statements"
            )));
        }
        Ok(())
    }

    /// Runs statements in order, in the block that is open.
    pub(super) fn block(&mut self, statements: &[Statement]) -> Result<Flow> {
        for statement in statements {
            self.step()?;
            match self.statement(statement)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    /// Runs statements in a block of their own.
    fn scoped(&mut self, statements: &[Statement]) -> Result<Flow> {
        if self.env.variables.borrow().len() > MAX_DEPTH * 4 {
            return Err(ServiceError::invalid_query("Blocks are nested too deeply"));
        }
        self.env.variables.borrow_mut().push(HashMap::new());
        let flow = self.block(statements);
        self.env.variables.borrow_mut().pop();
        flow
    }

    fn statement(&mut self, statement: &Statement) -> Result<Flow> {
        match &statement.kind {
            StatementKind::Declare {
                names,
                declared,
                default,
            } => self.declare(names, declared.as_ref(), default.as_ref())?,
            StatementKind::Set { targets, value } => self.set(targets, value)?,
            StatementKind::If {
                branches,
                otherwise,
            } => {
                for (condition, body) in branches {
                    if self.is_true(condition)? {
                        return self.block(body);
                    }
                }
                return self.block(otherwise);
            }
            StatementKind::Case {
                operand,
                branches,
                otherwise,
            } => return self.case(operand.as_ref(), branches, otherwise.as_deref()),
            StatementKind::Loop { label, body } => {
                return self.repeat(label, body, &mut |_| Ok(true), &mut |_| Ok(false));
            }
            StatementKind::While {
                label,
                condition,
                body,
            } => {
                return self.repeat(
                    label,
                    body,
                    &mut |runner| runner.is_true(condition),
                    &mut |_| Ok(false),
                );
            }
            StatementKind::Repeat { label, body, until } => {
                return self.repeat(label, body, &mut |_| Ok(true), &mut |runner| {
                    runner.is_true(until)
                });
            }
            StatementKind::For {
                label,
                variable,
                query,
                body,
            } => return self.for_each(label, variable, query, body),
            StatementKind::Block {
                label,
                body,
                handler,
            } => {
                let flow = match (self.scoped(body), handler) {
                    (Err(error), Some(handler)) => self.handle(error, handler)?,
                    (result, _) => result?,
                };
                return Ok(match flow {
                    Flow::Break(Some(l)) if Some(&l) == label.as_ref() => Flow::Next,
                    other => other,
                });
            }
            StatementKind::Break(label) => return Ok(Flow::Break(label.clone())),
            StatementKind::Continue(label) => return Ok(Flow::Continue(label.clone())),
            StatementKind::Return => return Ok(Flow::Return),
            StatementKind::Raise(message) => return self.raise(message.as_ref()),
            StatementKind::Assert { condition, message } => {
                if !self.is_true(condition)? {
                    return Err(ServiceError::invalid_query(
                        message.clone().unwrap_or_else(|| "Assertion failed".into()),
                    ));
                }
            }
            StatementKind::BeginTransaction => self.env.begin_transaction()?,
            StatementKind::CommitTransaction => self.env.commit_transaction()?,
            StatementKind::RollbackTransaction => {
                if !self.env.rollback_transaction() {
                    return Err(ServiceError::invalid_query(
                        "There is no transaction to roll back",
                    ));
                }
            }
            StatementKind::ExecuteImmediate { sql, into, using } => {
                self.execute_immediate(sql, into, using)?;
            }
            StatementKind::Call { name, args } => self.call(name, args)?,
            _ => self.plain(statement)?,
        }
        Ok(Flow::Next)
    }

    pub(super) fn value(&self, e: &Expr) -> Result<Constant> {
        self.env.begin_statement();
        let analyzer = self.analyzer();
        let typed = analyzer.free_expr(e, "script expression")?;
        analyzer.evaluate_typed(&typed)
    }

    /// The value of an expression as a variable of type `ty` holds it.
    pub(super) fn value_of(&self, e: &Expr, ty: &SqlType, what: &str) -> Result<Constant> {
        self.env.begin_statement();
        let analyzer = self.analyzer();
        let typed = analyzer.raw_expr(e, "script expression")?;
        let typed = analyzer.assign(typed, ty, what)?;
        analyzer.evaluate_typed(&typed)
    }

    fn is_true(&self, e: &Expr) -> Result<bool> {
        let value = self.value_of(e, &SqlType::Bool, "a condition")?;
        Ok(value.value == ScalarValue::Boolean(Some(true)))
    }

    fn declare(
        &mut self,
        names: &[Ident],
        declared: Option<&TypeName>,
        default: Option<&Expr>,
    ) -> Result<()> {
        let value = match (declared, default) {
            (Some(ty), default) => {
                let (ty, parameters) = resolve_type(ty, &self.sql)?;
                if parameters.is_some() {
                    return Err(ServiceError::unsupported(
                        "A variable of a parameterized type",
                    ));
                }
                match default {
                    Some(e) => self.value_of(e, &ty, "the variable")?,
                    None => null(&ty)?,
                }
            }
            (None, Some(e)) => self.value(e)?,
            (None, None) => {
                return Err(ServiceError::invalid_query(
                    "DECLARE needs a type or a default value",
                ));
            }
        };
        for name in names {
            if !self.env.declare(&name.name, value.clone()) {
                return Err(self.analyzer().error(
                    name.at,
                    format_args!("Variable '{}' redeclaration", name.name),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn assign(&mut self, name: &Ident, value: Constant) -> Result<()> {
        let Some(variable) = self.env.variable(&name.name) else {
            return Err(self
                .analyzer()
                .error(name.at, format_args!("Undeclared variable: {}", name.name)));
        };
        let value = self.converted(value, &variable.ty, &name.name)?;
        self.env.set_variable(&name.name, value);
        Ok(())
    }

    fn converted(&self, value: Constant, ty: &SqlType, what: &str) -> Result<Constant> {
        let analyzer = self.analyzer();
        let typed = analyzer.constant_expr(&value);
        let typed = analyzer.assign(typed, ty, what)?;
        analyzer.evaluate_typed(&typed)
    }

    fn set(&mut self, targets: &[SetTarget], value: &Expr) -> Result<()> {
        if let [target] = targets {
            return match target {
                SetTarget::Variable(name) => {
                    let Some(variable) = self.env.variable(&name.name) else {
                        return Err(self
                            .analyzer()
                            .error(name.at, format_args!("Undeclared variable: {}", name.name)));
                    };
                    let value = self.value_of(value, &variable.ty, &name.name)?;
                    self.env.set_variable(&name.name, value);
                    Ok(())
                }
                SetTarget::System(name, at) => self.set_system(name, *at, value),
            };
        }
        let value = self.value(value)?;
        let SqlType::Struct(fields) = &value.ty else {
            return Err(ServiceError::invalid_query(
                "SET of several variables needs a STRUCT",
            ));
        };
        if fields.len() != targets.len() {
            return Err(ServiceError::invalid_query(format!(
                "SET has {} variables but {} values",
                targets.len(),
                fields.len()
            )));
        }
        let array = value.value.to_array().map_err(service_error)?;
        for (i, (target, (_, ty))) in targets.iter().zip(fields).enumerate() {
            let SetTarget::Variable(name) = target else {
                return Err(ServiceError::unsupported("SET of several system variables"));
            };
            let part = struct_field(&array, i, ty)?;
            self.assign(name, part)?;
        }
        Ok(())
    }

    fn set_system(&mut self, name: &str, at: usize, value: &Expr) -> Result<()> {
        match name.to_ascii_lowercase().as_str() {
            "dataset_id" => {
                let value = self.value_of(value, &SqlType::String, "@@dataset_id")?;
                let ScalarValue::Utf8(Some(dataset)) = value.value else {
                    return Err(ServiceError::invalid_query("@@dataset_id cannot be NULL"));
                };
                let (project, dataset) = match dataset.split_once('.') {
                    Some((p, d)) => (p.to_string(), d.to_string()),
                    None => (self.env.project.clone(), dataset),
                };
                *self.env.default_dataset.borrow_mut() =
                    Some(crate::store::DatasetRef::new(project, dataset));
                Ok(())
            }
            "query_label" => {
                self.value_of(value, &SqlType::String, "@@query_label")?;
                Ok(())
            }
            "time_zone" => Err(ServiceError::unsupported("SET @@time_zone")),
            _ => Err(self
                .analyzer()
                .error(at, format_args!("System variable @@{name} cannot be set"))),
        }
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        branches: &[(Expr, Vec<Statement>)],
        otherwise: Option<&[Statement]>,
    ) -> Result<Flow> {
        for (when, body) in branches {
            let hit = match operand {
                None => self.is_true(when)?,
                Some(operand) => {
                    let equal = Expr {
                        at: when.at,
                        kind: ExprKind::Binary(
                            super::ast::BinaryOp::Equal,
                            Box::new(operand.clone()),
                            Box::new(when.clone()),
                        ),
                    };
                    self.is_true(&equal)?
                }
            };
            if hit {
                return self.block(body);
            }
        }
        match otherwise {
            Some(body) => self.block(body),
            None => Ok(Flow::Next),
        }
    }

    /// A loop: what its body's flow means, and when it goes on and stops.
    fn repeat(
        &mut self,
        label: &Option<String>,
        body: &[Statement],
        before: &mut dyn FnMut(&mut Self) -> Result<bool>,
        stop: &mut dyn FnMut(&mut Self) -> Result<bool>,
    ) -> Result<Flow> {
        loop {
            self.step()?;
            if !before(self)? {
                return Ok(Flow::Next);
            }
            match loop_flow(self.scoped(body)?, label) {
                Turn::Again => {}
                Turn::Done => return Ok(Flow::Next),
                Turn::Leave(flow) => return Ok(flow),
            }
            if stop(self)? {
                return Ok(Flow::Next);
            }
        }
    }

    fn for_each(
        &mut self,
        label: &Option<String>,
        variable: &Ident,
        query: &super::ast::Query,
        body: &[Statement],
    ) -> Result<Flow> {
        self.env.begin_statement();
        let (ty, rows) = {
            let analyzer = self.analyzer();
            let rel = select::result_columns(&analyzer, query)?;
            let schema = select::schema_of(&rel.columns)?;
            let fields = schema
                .fields
                .iter()
                .zip(&rel.columns)
                .map(|(f, c)| (f.name.clone(), c.ty.clone()))
                .collect();
            let batches = run(&self.env.context, &rel.plan)?;
            (
                SqlType::Struct(fields),
                structs(
                    &batches,
                    &rel.columns.iter().map(|c| c.id.clone()).collect::<Vec<_>>(),
                )?,
            )
        };
        for array in rows {
            let value = retyped(&array, &ty)?;
            self.env.variables.borrow_mut().push(HashMap::from([(
                variable.name.to_ascii_lowercase(),
                Constant {
                    ty: ty.clone(),
                    value,
                },
            )]));
            let flow = self.block(body);
            self.env.variables.borrow_mut().pop();
            match loop_flow(flow?, label) {
                Turn::Again => {}
                Turn::Done => return Ok(Flow::Next),
                Turn::Leave(flow) => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn handle(&mut self, error: ServiceError, handler: &[Statement]) -> Result<Flow> {
        let message = error.message.clone();
        self.handled.push(error);
        self.env.variables.borrow_mut().push(HashMap::from([
            ("@@error.message".to_string(), text(&message)),
            ("@@error.statement_text".to_string(), text("")),
            ("@@error.formatted_stack_trace".to_string(), text("")),
        ]));
        let flow = self.block(handler);
        self.env.variables.borrow_mut().pop();
        self.handled.pop();
        flow
    }

    fn raise(&mut self, message: Option<&Expr>) -> Result<Flow> {
        match message {
            Some(e) => {
                let value = self.value_of(e, &SqlType::String, "the message")?;
                match value.value {
                    ScalarValue::Utf8(Some(message)) => Err(ServiceError::invalid_query(message)),
                    _ => Err(ServiceError::invalid_query("RAISE with a NULL message")),
                }
            }
            None => match self.handled.last() {
                Some(error) => Err(error.clone()),
                None => Err(ServiceError::invalid_query(
                    "RAISE without USING MESSAGE stands outside of an exception handler",
                )),
            },
        }
    }
}

enum Turn {
    Again,
    Done,
    Leave(Flow),
}

/// What the flow of a body means to the loop called `label`.
fn loop_flow(flow: Flow, label: &Option<String>) -> Turn {
    let mine = |named: &Option<String>| match (named, label) {
        (None, _) => true,
        (Some(n), Some(l)) => n.eq_ignore_ascii_case(l),
        (Some(_), None) => false,
    };
    match flow {
        Flow::Next => Turn::Again,
        Flow::Continue(named) if mine(&named) => Turn::Again,
        Flow::Break(named) if mine(&named) => Turn::Done,
        other => Turn::Leave(other),
    }
}

/// Every row as a struct array of one element.
fn structs(batches: &[RecordBatch], ids: &[String]) -> Result<Vec<arrow::array::ArrayRef>> {
    let mut out = Vec::new();
    for batch in batches.iter().filter(|b| b.num_rows() > 0) {
        let positions = ids
            .iter()
            .map(|id| {
                batch
                    .schema()
                    .index_of(id)
                    .map_err(|e| ServiceError::internal(e.to_string()))
            })
            .collect::<Result<Vec<_>>>()?;
        let batch = batch
            .project(&positions)
            .map_err(|e| ServiceError::internal(e.to_string()))?;
        let rows: arrow::array::StructArray = batch.into();
        for i in 0..rows.len() {
            out.push(Arc::new(rows.slice(i, 1)) as arrow::array::ArrayRef);
        }
    }
    Ok(out)
}

/// The first value of an array under the form of `ty`.
pub(super) fn retyped(array: &arrow::array::ArrayRef, ty: &SqlType) -> Result<ScalarValue> {
    let array = super::scan::canonical(array, &ty.to_arrow())?;
    ScalarValue::try_from_array(&array, 0).map_err(service_error)
}

fn struct_field(array: &arrow::array::ArrayRef, i: usize, ty: &SqlType) -> Result<Constant> {
    use arrow::array::AsArray;
    if array.is_null(0) {
        return null(ty);
    }
    let column = array.as_struct().column(i);
    Ok(Constant {
        ty: ty.clone(),
        value: retyped(column, ty)?,
    })
}
