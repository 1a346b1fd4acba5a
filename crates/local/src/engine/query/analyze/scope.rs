//! Names: which columns and range variables an expression sees.
//!
//! Every column of every plan has an id that nothing else has (`c17`), so that
//! plans can be joined and moved without qualifiers; names exist only here.

use std::cell::{Cell, RefCell};

use datafusion::common::Column as DfColumn;
use datafusion::logical_expr::Expr as DfExpr;
use datafusion::scalar::ScalarValue;

use super::super::super::functions::{Argument, SqlType};
use super::super::ast::WindowSpec;

/// An expression and its type.
#[derive(Debug, Clone)]
pub(in crate::engine::query) struct Typed {
    pub(in crate::engine::query) expr: DfExpr,
    pub(in crate::engine::query) ty: SqlType,
    /// The value of a literal or of a query parameter, which coerce further.
    pub(in crate::engine::query) literal: Option<ScalarValue>,
    /// Collation `und:ci`: comparisons ignore case.
    pub(in crate::engine::query) fold_case: bool,
}

impl Typed {
    pub(super) fn new(expr: DfExpr, ty: SqlType) -> Self {
        Self {
            expr,
            ty,
            literal: None,
            fold_case: false,
        }
    }

    pub(super) fn column(id: &str, ty: &SqlType) -> Self {
        Self::new(column(id), ty.clone())
    }

    pub(super) fn argument(&self) -> Argument {
        Argument {
            field: self.ty.to_column(""),
            literal: match self.ty {
                SqlType::Null => Some(ScalarValue::Null),
                _ => self.literal.clone(),
            },
            parameter: false,
        }
    }

    pub(super) fn is_null_literal(&self) -> bool {
        self.ty == SqlType::Null
    }
}

/// A reference to the column with this id.
pub(in crate::engine::query) fn column(id: &str) -> DfExpr {
    DfExpr::Column(DfColumn::new_unqualified(id))
}

/// A column that a relation shows.
#[derive(Debug, Clone)]
pub(in crate::engine::query) struct Col {
    /// What it is called, if it is.
    pub(in crate::engine::query) name: Option<String>,
    pub(in crate::engine::query) id: String,
    pub(in crate::engine::query) ty: SqlType,
    pub(in crate::engine::query) fold_case: bool,
}

impl Col {
    pub(in crate::engine::query) fn is(&self, name: &str) -> bool {
        self.name
            .as_ref()
            .is_some_and(|n| n.eq_ignore_ascii_case(name))
    }

    pub(super) fn typed(&self) -> Typed {
        let mut typed = Typed::column(&self.id, &self.ty);
        typed.fold_case = self.fold_case;
        typed
    }
}

/// One item of a FROM clause.
#[derive(Debug, Clone, Default)]
pub(in crate::engine::query) struct Range {
    pub(super) alias: Option<String>,
    pub(super) columns: Vec<Col>,
    /// `_PARTITIONTIME`, `_TABLE_SUFFIX`: seen when named, not by `*`.
    pub(super) pseudo: Vec<Col>,
    /// The value itself, of an UNNEST or a value table.
    pub(super) whole: Option<Col>,
}

impl Range {
    pub(super) fn is(&self, name: &str) -> bool {
        self.alias
            .as_ref()
            .is_some_and(|a| a.eq_ignore_ascii_case(name))
    }

    pub(super) fn find(&self, name: &str) -> Vec<&Col> {
        self.columns
            .iter()
            .chain(&self.pseudo)
            .filter(|c| c.is(name))
            .collect()
    }
}

/// What a FROM clause brings into scope.
#[derive(Debug, Clone, Default)]
pub(in crate::engine::query) struct Scope {
    pub(super) ranges: Vec<Range>,
    /// Columns that USING merged: seen unqualified, first in `*`.
    pub(super) merged: Vec<Col>,
    /// Ids of columns that a merged one stands for.
    pub(super) absorbed: Vec<String>,
}

/// What a name in a scope is.
pub(super) enum Found<'a> {
    Nothing,
    Ambiguous,
    Column(&'a Col),
    Range(&'a Range),
}

impl Scope {
    /// What the first part of a path names; `more` says that the path goes on, in
    /// which case range variables come first.
    pub(super) fn find(&self, name: &str, more: bool) -> Found<'_> {
        if more && let Some(range) = self.ranges.iter().rev().find(|r| r.is(name)) {
            return Found::Range(range);
        }
        if let Some(col) = self.merged.iter().find(|c| c.is(name)) {
            return Found::Column(col);
        }
        // The alias of a scalar array's elements beats columns of the same name.
        if let Some(whole) = self
            .ranges
            .iter()
            .filter(|r| r.is(name))
            .find_map(|r| r.whole.as_ref())
        {
            return Found::Column(whole);
        }
        let hits: Vec<&Col> = self.ranges.iter().flat_map(|r| r.find(name)).collect();
        match hits.as_slice() {
            [] => match self.ranges.iter().find(|r| r.is(name)) {
                Some(range) => Found::Range(range),
                None => Found::Nothing,
            },
            [one] => Found::Column(one),
            [first, rest @ ..] if rest.iter().all(|c| c.id == first.id) => Found::Column(first),
            _ => Found::Ambiguous,
        }
    }

    /// Every column, for what a subquery may refer to.
    pub(super) fn all(&self) -> impl Iterator<Item = &Col> {
        self.merged.iter().chain(
            self.ranges
                .iter()
                .flat_map(|r| r.columns.iter().chain(&r.pseudo).chain(r.whole.iter())),
        )
    }
}

/// A key of GROUP BY: the expression over the ungrouped rows and its column.
#[derive(Debug, Clone)]
pub(in crate::engine::query) struct Key {
    pub(super) expr: DfExpr,
    pub(super) col: Col,
}

/// Grouping, while expressions over the grouped rows are analyzed.
#[derive(Debug)]
pub(in crate::engine::query) struct Grouping {
    pub(super) keys: Vec<Key>,
    /// Whether some key is not a plain column.
    pub(super) computed_keys: bool,
    /// Aggregates found so far.
    pub(super) aggregates: RefCell<Vec<(DfExpr, Col)>>,
    /// Keys whose GROUPING() was asked for, by index, and the column with the answer.
    pub(super) asked: RefCell<Vec<(usize, String)>>,
}

/// Window functions found while expressions are analyzed.
#[derive(Debug, Default)]
pub(in crate::engine::query) struct Windows {
    pub(super) found: RefCell<Vec<DfExpr>>,
    pub(super) named: Vec<(String, WindowSpec)>,
}

/// How a subquery's analysis treats columns of the query around it.
#[derive(Debug)]
pub(in crate::engine::query) enum Mode {
    /// Only finds out whether there are any.
    Probe,
    /// Every plan starts from the rows of the outer query, numbered by this column.
    Apply {
        row: String,
        slot: std::sync::Arc<super::super::scan::Slot>,
    },
}

/// The border between a subquery and the query around it.
#[derive(Debug)]
pub(in crate::engine::query) struct Frame<'p> {
    pub(super) outer: Ctx<'p>,
    pub(super) mode: Mode,
    /// Set when a column of the outer query was named.
    pub(super) correlated: Cell<bool>,
    /// Outer columns in use.
    pub(super) captured: RefCell<Vec<Col>>,
}

/// Where an expression stands.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine::query) struct Ctx<'p> {
    pub(super) scope: &'p Scope,
    pub(super) frame: Option<&'p Frame<'p>>,
    pub(super) grouping: Option<&'p Grouping>,
    pub(super) windows: Option<&'p Windows>,
    /// Names of select-list items that this clause may use, before columns.
    pub(super) aliases: Option<&'p [(String, Typed)]>,
    /// A column beside the scope's that only subqueries here may name.
    pub(super) extra: Option<&'p Col>,
    /// What the clause is called in errors.
    pub(super) clause: &'static str,
}

impl<'p> Ctx<'p> {
    pub(super) fn new(
        scope: &'p Scope,
        frame: Option<&'p Frame<'p>>,
        clause: &'static str,
    ) -> Self {
        Self {
            scope,
            frame,
            grouping: None,
            windows: None,
            aliases: None,
            extra: None,
            clause,
        }
    }

    /// The same place, over the rows before grouping.
    pub(super) fn ungrouped(self) -> Self {
        Self {
            grouping: None,
            windows: None,
            aliases: None,
            ..self
        }
    }
}

/// A relation: its plan and its columns.
#[derive(Debug, Clone)]
pub(in crate::engine::query) struct Rel {
    pub(in crate::engine::query) plan: datafusion::logical_expr::LogicalPlan,
    pub(in crate::engine::query) columns: Vec<Col>,
    /// In a correlated subquery: the column that numbers the outer rows.
    pub(in crate::engine::query) row: Option<String>,
    /// `SELECT AS STRUCT` or `AS VALUE`: rows are values.
    pub(in crate::engine::query) value_table: bool,
}
