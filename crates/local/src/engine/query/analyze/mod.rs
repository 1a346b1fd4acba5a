//! From syntax to DataFusion plans, under GoogleSQL's rules for names and types.

mod access;
mod aggregate;
mod assign;
mod call;
mod construct;
mod dml;
mod expr;
mod from;
mod join_on;
mod literal;
mod membership;
mod modified;
mod names;
mod nested;
mod pivot;
mod query;
mod routine;
mod safe;
mod scope;
mod select;
mod set_operation;
mod subquery;
mod subquery_function;
mod table;
mod types;
mod window;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::ast::{Cte, Ident};
use super::env::Env;
use super::parser::position;
use crate::error::{Reason, ServiceError};

pub(super) use dml::{Joined, Target};
pub(super) use routine::shown_path;
pub(super) use scope::{Col, Rel, Typed, column};
use scope::{Frame, Scope};
pub(super) use types::resolve_type;

/// A name of a WITH clause and what its definition sees.
#[derive(Debug, Clone)]
struct CteEntry {
    cte: Rc<Cte>,
    /// How many entries the definition sees.
    visible: usize,
    /// The subquery in which the WITH clause stands, by address.
    frame: Option<usize>,
    /// A recursive definition under analysis: its work table.
    work: Option<Rel>,
    recursive: bool,
}

/// Analyzes one text against one environment.
pub(super) struct Analyzer<'e> {
    pub(super) env: &'e Env,
    sql: String,
    ctes: RefCell<Vec<CteEntry>>,
    /// Arguments of the SQL function whose body is being analyzed.
    parameters: RefCell<Vec<HashMap<String, Typed>>>,
}

impl<'e> Analyzer<'e> {
    pub(super) fn new(env: &'e Env, sql: &str) -> Self {
        Self {
            env,
            sql: sql.to_string(),
            ctes: RefCell::default(),
            parameters: RefCell::default(),
        }
    }

    /// The text that positions count in.
    pub(super) fn sql(&self) -> &str {
        &self.sql
    }

    /// `message at [l:c]`.
    pub(super) fn error(&self, at: usize, message: impl std::fmt::Display) -> ServiceError {
        ServiceError::invalid_query(format!("{message} at {}", position(&self.sql, at)))
    }

    /// Says where an error is, unless it does or is about no place in the text.
    fn locate(&self, at: usize, mut error: ServiceError) -> ServiceError {
        if error.reason == Reason::InvalidQuery
            && !error.message.contains(" at [")
            && !error.message.starts_with("Cannot query over table ")
            && !error
                .message
                .ends_with("is not supported by bigquery-local")
        {
            error.message = format!("{} at {}", error.message, position(&self.sql, at));
        }
        error
    }

    fn unrecognized(&self, name: &Ident) -> ServiceError {
        self.error(name.at, format_args!("Unrecognized name: {}", name.name))
    }
}

fn frame_address(frame: Option<&Frame<'_>>) -> Option<usize> {
    frame.map(|f| std::ptr::from_ref(f) as usize)
}
