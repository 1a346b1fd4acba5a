//! Statements one after the other.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::request::{QueryOutcome, QueryRequest, StatementOutcome};
use super::analyze::Analyzer;
use super::ast::{Statement, StatementKind};
use super::change;
use super::ddl;
use super::env::Env;
use super::insert;
use super::merge::{Merge, merge};
use super::parameters;
use super::parser::parse_script;
use super::select;
use super::session;
use crate::error::{Result, ServiceError};
use crate::server::Service;

/// How often a change that lost against another one is computed again.
const ATTEMPTS: usize = 50;

/// A script while it runs.
pub(super) struct Runner {
    pub(super) env: Env,
    pub(super) sql: String,
    pub(super) outcomes: Vec<StatementOutcome>,
    /// Errors being handled, innermost last.
    pub(super) handled: Vec<ServiceError>,
    /// Nesting of EXECUTE IMMEDIATE and CALL.
    pub(super) depth: usize,
    /// Statements run so far, against loops without end.
    pub(super) steps: u64,
}

/// See [`super::execute`].
pub(super) fn run(service: Arc<Service>, request: QueryRequest) -> Result<QueryOutcome> {
    let statements = parse_script(&request.sql)?;
    if statements.is_empty() {
        return Err(ServiceError::invalid_query(
            "Syntax error: Unexpected end of statement at [1:1]",
        ));
    }
    let mut env = Env::new(
        service,
        session::cancellable(request.cancel),
        request.project,
        request.location,
        request.default_dataset,
    );
    env.dry_run = request.dry_run;
    let mut named = HashMap::new();
    for parameter in &request.parameters {
        let value = parameters::constant(parameter)?;
        match &parameter.name {
            Some(name) => {
                named.insert(name.to_ascii_lowercase(), value);
            }
            None => env.positional.push(value),
        }
    }
    env.named = named;
    let script = is_script(&statements);
    if !script {
        env.applying = request.applying;
    }
    let mut runner = Runner {
        env,
        sql: request.sql,
        outcomes: Vec::new(),
        handled: Vec::new(),
        depth: 0,
        steps: 0,
    };
    if script && request.dry_run {
        // Only what no earlier statement changes can be planned ahead.
        return runner.plan_script(&statements);
    }
    let result = runner.block(&statements);
    runner.env.drop_temporary();
    let failure = match result {
        Ok(_) => None,
        Err(error) if script => Some(error),
        Err(error) => return Err(error),
    };
    let mut statements = std::mem::take(&mut runner.outcomes);
    if statements.is_empty() && failure.is_none() {
        statements.push(runner.nothing());
    }
    Ok(QueryOutcome {
        statements,
        script,
        failure,
    })
}

/// As `statementType` prints it, of statements that have one of their own kind.
fn statement_type(kind: &StatementKind) -> Option<&'static str> {
    Some(match kind {
        StatementKind::Query(_) => "SELECT",
        StatementKind::Insert { .. } => "INSERT",
        StatementKind::Update { .. } => "UPDATE",
        StatementKind::Delete { .. } => "DELETE",
        StatementKind::Merge { .. } => "MERGE",
        StatementKind::Truncate(_) => "TRUNCATE_TABLE",
        _ => return None,
    })
}

/// Whether a request is a script: several statements, or procedural ones. Leading
/// temporary functions belong to the query that follows them.
fn is_script(statements: &[Statement]) -> bool {
    let rest: Vec<&Statement> = statements
        .iter()
        .skip_while(|s| matches!(&s.kind, StatementKind::CreateFunction(f) if f.temporary))
        .collect();
    let procedural = |s: &Statement| {
        matches!(
            s.kind,
            StatementKind::Declare { .. }
                | StatementKind::Set { .. }
                | StatementKind::If { .. }
                | StatementKind::Case { .. }
                | StatementKind::Loop { .. }
                | StatementKind::While { .. }
                | StatementKind::Repeat { .. }
                | StatementKind::For { .. }
                | StatementKind::Block { .. }
                | StatementKind::ExecuteImmediate { .. }
                | StatementKind::Call { .. }
                | StatementKind::Raise(_)
                | StatementKind::BeginTransaction
                | StatementKind::CommitTransaction
                | StatementKind::RollbackTransaction
                | StatementKind::Assert { .. }
                | StatementKind::Break(_)
                | StatementKind::Continue(_)
                | StatementKind::Return
        )
    };
    match rest.as_slice() {
        [] => statements.len() > 1,
        [one] => procedural(one),
        _ => true,
    }
}

impl Runner {
    /// The outcome of a script without statements that have one.
    fn nothing(&self) -> StatementOutcome {
        self.env.begin_statement();
        StatementOutcome {
            sql: self.sql.clone(),
            ..self.env.outcome()
        }
    }

    fn plan_script(&mut self, statements: &[Statement]) -> Result<QueryOutcome> {
        let mut outcome = self.nothing();
        for statement in statements {
            if let StatementKind::Query(query) = &statement.kind
                && statements.len() == 1
            {
                let analyzer = Analyzer::new(&self.env, &self.sql);
                let rel = select::result_columns(&analyzer, query)?;
                outcome.schema = Some(select::result_schema(&rel.columns)?);
            }
        }
        Ok(QueryOutcome {
            statements: vec![outcome],
            script: true,
            failure: None,
        })
    }

    pub(super) fn text(&self, statement: &Statement) -> String {
        self.sql
            .get(statement.start..statement.end)
            .unwrap_or("")
            .to_string()
    }

    /// Runs a statement that is not procedural.
    pub(super) fn plain(&mut self, statement: &Statement) -> Result<()> {
        for attempt in 1.. {
            self.env.begin_statement();
            self.env.conflict.set(false);
            match self.once(statement) {
                Err(_) if self.env.conflict.get() && attempt < ATTEMPTS => {}
                Err(error) => {
                    let failed = StatementOutcome {
                        statement_type: statement_type(&statement.kind).unwrap_or_default(),
                        error: Some(error.clone()),
                        ..self.outcome(statement)
                    };
                    self.outcomes.push(failed);
                    return Err(error);
                }
                Ok(()) => return Ok(()),
            }
        }
        Ok(())
    }

    fn once(&mut self, statement: &Statement) -> Result<()> {
        let analyzer = Analyzer::new(&self.env, &self.sql);
        let env = &self.env;
        let outcome = match &statement.kind {
            StatementKind::Query(query) => {
                let rel = select::result_columns(&analyzer, query)?;
                let schema = select::result_schema(&rel.columns)?;
                let batches = if env.dry_run {
                    session::planned(&env.context, &rel.plan)?;
                    Vec::new()
                } else {
                    select::rows(env, &rel, &schema)?
                };
                StatementOutcome {
                    statement_type: "SELECT",
                    schema: Some(schema),
                    batches,
                    ..self.outcome(statement)
                }
            }
            StatementKind::Insert {
                path,
                columns,
                source,
            } => {
                let changed = insert::insert(env, &analyzer, path, columns, source)?;
                self.named(statement, changed.outcome(env))
            }
            StatementKind::Update {
                path,
                alias,
                set,
                from,
                filter,
            } => {
                let changed = change::update(
                    env,
                    &analyzer,
                    path,
                    alias.as_ref(),
                    set,
                    from.as_ref(),
                    filter,
                )?;
                self.named(statement, changed.outcome(env))
            }
            StatementKind::Delete {
                path,
                alias,
                filter,
            } => {
                let changed = change::delete(env, &analyzer, path, alias.as_ref(), filter)?;
                self.named(statement, changed.outcome(env))
            }
            StatementKind::Merge {
                target,
                alias,
                source,
                on,
                clauses,
            } => {
                let parts = Merge {
                    target,
                    alias: alias.as_ref(),
                    source,
                    on,
                    clauses,
                };
                let changed = merge(env, &analyzer, &parts)?;
                self.named(statement, changed.outcome(env))
            }
            StatementKind::Truncate(path) => {
                let changed = change::truncate(env, path)?;
                self.named(statement, changed.outcome(env))
            }
            _ => {
                let done = ddl::run(env, &analyzer, statement, &self.text(statement))?;
                self.named(statement, done.outcome(env))
            }
        };
        self.env.set_row_count(&outcome);
        self.outcomes.push(outcome);
        Ok(())
    }

    fn outcome(&self, statement: &Statement) -> StatementOutcome {
        self.named(statement, self.env.outcome())
    }

    /// An outcome with the statement's text.
    fn named(&self, statement: &Statement, outcome: StatementOutcome) -> StatementOutcome {
        StatementOutcome {
            sql: self.text(statement),
            ..outcome
        }
    }
}
