//! EXECUTE IMMEDIATE and CALL.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use datafusion::scalar::ScalarValue;

use super::super::functions::SqlType;
use super::super::request::StatementOutcome;
use super::analyze::{resolve_type, shown_path};
use super::ast::{CreateProcedure, Expr, ExprKind, Ident, ProcedureMode};
use super::env::Constant;
use super::parser::parse_script;
use super::run::Runner;
use super::script::{MAX_DEPTH, null, retyped};
use crate::error::{Result, ServiceError};

impl Runner {
    pub(super) fn execute_immediate(
        &mut self,
        sql: &Expr,
        into: &[Ident],
        using: &[(Expr, Option<Ident>)],
    ) -> Result<()> {
        let text = self.value_of(sql, &SqlType::String, "EXECUTE IMMEDIATE")?;
        let ScalarValue::Utf8(Some(sql)) = text.value else {
            return Err(ServiceError::invalid_query(
                "EXECUTE IMMEDIATE of a NULL string",
            ));
        };
        let mut named = HashMap::new();
        let mut positional = Vec::new();
        for (e, name) in using {
            let value = self.value(e)?;
            match name {
                Some(name) => {
                    named.insert(name.name.to_ascii_lowercase(), value);
                }
                None => positional.push(value),
            }
        }
        let statements = parse_script(&sql)?;
        if statements.len() != 1 {
            return Err(ServiceError::invalid_query(
                "EXECUTE IMMEDIATE takes exactly one statement",
            ));
        }
        let named = std::mem::replace(&mut self.env.named, named);
        let positional = std::mem::replace(&mut self.env.positional, positional);
        let outer = std::mem::replace(&mut self.sql, sql);
        let before = self.outcomes.len();
        let result = self.deeper(|runner| runner.block(&statements));
        self.sql = outer;
        self.env.named = named;
        self.env.positional = positional;
        result?;
        if into.is_empty() {
            return Ok(());
        }
        let produced = self.outcomes.split_off(before);
        let Some(StatementOutcome {
            schema: Some(schema),
            batches,
            ..
        }) = produced.into_iter().next_back()
        else {
            return Err(ServiceError::invalid_query(
                "EXECUTE IMMEDIATE INTO needs a query",
            ));
        };
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows > 1 {
            return Err(ServiceError::invalid_query(
                "EXECUTE IMMEDIATE INTO produced more than one row",
            ));
        }
        if schema.fields.len() != into.len() {
            return Err(ServiceError::invalid_query(format!(
                "EXECUTE IMMEDIATE INTO has {} variables but the query has {} columns",
                into.len(),
                schema.fields.len()
            )));
        }
        for (i, (name, field)) in into.iter().zip(&schema.fields).enumerate() {
            let ty = SqlType::of_column(field);
            let value = match batches.iter().find(|b| b.num_rows() > 0) {
                Some(batch) => Constant {
                    value: retyped(&batch.column(i).slice(0, 1), &ty)?,
                    ty,
                },
                None => null(&ty)?,
            };
            self.assign(name, value)?;
        }
        Ok(())
    }

    fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return Err(ServiceError::invalid_query(format!(
                "Procedures and EXECUTE IMMEDIATE are nested more than {MAX_DEPTH} levels"
            )));
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    pub(super) fn call(&mut self, name: &[Ident], args: &[Expr]) -> Result<()> {
        let shown: Vec<&str> = name.iter().map(|i| i.name.as_str()).collect();
        let key = shown.join(".").to_ascii_lowercase();
        if key.starts_with("bq.") {
            return Err(ServiceError::unsupported(format_args!("CALL {key}")));
        }
        let Some(procedure) = self.env.procedure(&key) else {
            return Err(self.analyzer().error(
                name[0].at,
                format_args!("Procedure is not found: {}", shown_path(&name.to_vec())),
            ));
        };
        if args.len() != procedure.parameters.len() {
            return Err(ServiceError::invalid_query(format!(
                "Procedure {key} takes {} arguments, not {}",
                procedure.parameters.len(),
                args.len()
            )));
        }
        self.call_procedure(&procedure, args)
    }

    fn call_procedure(&mut self, procedure: &Arc<CreateProcedure>, args: &[Expr]) -> Result<()> {
        let mut locals = HashMap::new();
        let mut outputs = Vec::new();
        for (argument, (mode, name, declared)) in args.iter().zip(&procedure.parameters) {
            let (ty, _) = resolve_type(declared, &procedure.text)?;
            let value = match mode {
                ProcedureMode::Out => null(&ty)?,
                ProcedureMode::In | ProcedureMode::InOut => {
                    self.value_of(argument, &ty, &name.name)?
                }
            };
            if *mode != ProcedureMode::In {
                let ExprKind::Ident(variable) = &argument.kind else {
                    return Err(ServiceError::invalid_query(format!(
                        "The argument {} of the procedure must be a variable",
                        name.name
                    )));
                };
                outputs.push((name.name.to_ascii_lowercase(), variable.clone()));
            }
            locals.insert(name.name.to_ascii_lowercase(), value);
        }
        // The body sees its parameters and no variable of the caller.
        let outer = std::mem::replace(
            &mut *self.env.variables.borrow_mut(),
            vec![HashMap::new(), locals],
        );
        let sql = std::mem::replace(&mut self.sql, procedure.script.clone());
        let result = self.deeper(|runner| runner.block(&procedure.body));
        self.sql = sql;
        let inner = std::mem::replace(&mut *self.env.variables.borrow_mut(), outer);
        result?;
        for (parameter, variable) in outputs {
            let value = inner
                .get(1)
                .and_then(|block| block.get(&parameter))
                .cloned();
            if let Some(value) = value {
                self.assign(&variable, value)?;
            }
        }
        Ok(())
    }
}
