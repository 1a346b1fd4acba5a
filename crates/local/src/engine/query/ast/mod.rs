//! The syntax tree of GoogleSQL, as far as it is understood here.

mod statement;

pub(super) use statement::*;

/// A name and the byte offset at which it stands.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct Ident {
    pub(in crate::engine::query) name: String,
    pub(in crate::engine::query) at: usize,
}

impl Ident {
    pub(in crate::engine::query) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// A dotted name.
pub(in crate::engine::query) type Path = Vec<Ident>;

/// An expression and the byte offset at which it stands.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct Expr {
    pub(in crate::engine::query) kind: ExprKind,
    pub(in crate::engine::query) at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::query) enum UnaryOp {
    Minus,
    Plus,
    BitNot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::query) enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Concat,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::query) enum Truth {
    Null,
    True,
    False,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::engine::query) enum Subscript {
    /// `[x]`: a JSON member or, for arrays, the same as OFFSET.
    Plain,
    Offset,
    Ordinal,
    SafeOffset,
    SafeOrdinal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::query) enum Quantifier {
    Any,
    All,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum InSet {
    List(Vec<Expr>),
    Unnest(Box<Expr>),
    Query(Box<Query>),
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum ExprKind {
    Null,
    Bool(bool),
    Integer(String),
    Float(String),
    String(String),
    Bytes(Vec<u8>),
    /// `DATE '2020-01-01'`, `RANGE<DATE> '[…)'`.
    Typed(TypeName, String),
    Ident(Ident),
    Parameter(String),
    /// Index of a `?`.
    Positional(usize),
    SystemVariable(String),
    Dot(Box<Expr>, Ident),
    Subscript(Box<Expr>, Subscript, Box<Expr>),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Is {
        expr: Box<Expr>,
        what: Truth,
        not: bool,
    },
    IsDistinct {
        left: Box<Expr>,
        right: Box<Expr>,
        not: bool,
    },
    Between {
        expr: Box<Expr>,
        low: Box<Expr>,
        high: Box<Expr>,
        not: bool,
    },
    In {
        expr: Box<Expr>,
        set: InSet,
        not: bool,
    },
    Like {
        expr: Box<Expr>,
        pattern: Box<Expr>,
        not: bool,
    },
    LikeSome {
        expr: Box<Expr>,
        quantifier: Quantifier,
        patterns: InSet,
        not: bool,
    },
    Case {
        operand: Option<Box<Expr>>,
        whens: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Cast {
        expr: Box<Expr>,
        to: TypeName,
        safe: bool,
        format: Option<Box<Expr>>,
        zone: Option<Box<Expr>>,
    },
    Extract {
        part: String,
        expr: Box<Expr>,
        zone: Option<Box<Expr>>,
    },
    Interval {
        value: Box<Expr>,
        from: String,
        to: Option<String>,
    },
    Call(Box<Call>),
    Array {
        element: Option<TypeName>,
        items: Vec<Expr>,
    },
    Struct {
        fields: Option<Vec<(Option<Ident>, TypeName)>>,
        items: Vec<(Expr, Option<Ident>)>,
    },
    ArrayQuery(Box<Query>),
    Exists(Box<Query>),
    Subquery(Box<Query>),
    /// Only as an argument of COUNT.
    Star,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum Having {
    Max,
    Min,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct Argument {
    /// `name =>`.
    pub(in crate::engine::query) name: Option<Ident>,
    pub(in crate::engine::query) value: Expr,
    /// `AS alias` inside a call, as in `STRUCT` or table functions.
    pub(in crate::engine::query) alias: Option<Ident>,
}

/// A function call with everything that may stand inside and behind it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct Call {
    pub(in crate::engine::query) name: Path,
    pub(in crate::engine::query) args: Vec<Argument>,
    pub(in crate::engine::query) distinct: bool,
    /// `Some(true)` for IGNORE NULLS, `Some(false)` for RESPECT NULLS.
    pub(in crate::engine::query) ignore_nulls: Option<bool>,
    pub(in crate::engine::query) having: Option<(Having, Expr)>,
    pub(in crate::engine::query) order_by: Vec<OrderItem>,
    pub(in crate::engine::query) limit: Option<Expr>,
    pub(in crate::engine::query) over: Option<Window>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum Window {
    Named(Ident),
    Spec(Box<WindowSpec>),
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct WindowSpec {
    pub(in crate::engine::query) base: Option<Ident>,
    pub(in crate::engine::query) partition_by: Vec<Expr>,
    pub(in crate::engine::query) order_by: Vec<OrderItem>,
    pub(in crate::engine::query) frame: Option<Frame>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct Frame {
    pub(in crate::engine::query) rows: bool,
    pub(in crate::engine::query) start: Bound,
    pub(in crate::engine::query) end: Bound,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum Bound {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct OrderItem {
    pub(in crate::engine::query) expr: Expr,
    pub(in crate::engine::query) descending: bool,
    pub(in crate::engine::query) nulls_first: Option<bool>,
    pub(in crate::engine::query) collate: Option<String>,
}

/// A type as written.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct TypeName {
    pub(in crate::engine::query) kind: TypeKind,
    pub(in crate::engine::query) at: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum TypeKind {
    /// Upper-case name and its parameters.
    Simple(String, Vec<i64>),
    Array(Box<TypeName>),
    Struct(Vec<(Option<Ident>, TypeName)>),
    Range(Box<TypeName>),
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct Query {
    pub(in crate::engine::query) recursive: bool,
    pub(in crate::engine::query) with: Vec<Cte>,
    pub(in crate::engine::query) body: SetExpr,
    pub(in crate::engine::query) order_by: Vec<OrderItem>,
    pub(in crate::engine::query) limit: Option<Expr>,
    pub(in crate::engine::query) offset: Option<Expr>,
    pub(in crate::engine::query) at: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct Cte {
    pub(in crate::engine::query) name: Ident,
    pub(in crate::engine::query) query: Query,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::query) enum SetOp {
    Union,
    Intersect,
    Except,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum SetExpr {
    Select(Box<Select>),
    Query(Box<Query>),
    Op {
        op: SetOp,
        all: bool,
        left: Box<SetExpr>,
        right: Box<SetExpr>,
        at: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::query) enum SelectAs {
    Columns,
    Struct,
    Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct Select {
    pub(in crate::engine::query) distinct: bool,
    pub(in crate::engine::query) select_as: SelectAs,
    pub(in crate::engine::query) items: Vec<SelectItem>,
    pub(in crate::engine::query) from: Option<TableExpr>,
    pub(in crate::engine::query) filter: Option<Expr>,
    pub(in crate::engine::query) group_by: Option<GroupBy>,
    pub(in crate::engine::query) having: Option<Expr>,
    pub(in crate::engine::query) qualify: Option<Expr>,
    pub(in crate::engine::query) windows: Vec<(Ident, WindowSpec)>,
    pub(in crate::engine::query) at: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum SelectItem {
    Expr {
        expr: Expr,
        alias: Option<Ident>,
    },
    Star {
        /// `expr.*`.
        of: Option<Expr>,
        except: Vec<Ident>,
        replace: Vec<(Expr, Ident)>,
        at: usize,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum GroupBy {
    All,
    Items(Vec<GroupItem>),
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum GroupItem {
    Expr(Expr),
    Rollup(Vec<Vec<Expr>>),
    Cube(Vec<Vec<Expr>>),
    Sets(Vec<GroupItem>),
    /// `(a, b)` or `()` inside GROUPING SETS, or at the top level `()`.
    Tuple(Vec<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::query) enum JoinKind {
    Comma,
    Cross,
    Inner,
    Left,
    Right,
    Full,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum JoinOn {
    None,
    On(Expr),
    Using(Vec<Ident>),
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum TableExpr {
    Table {
        path: Path,
        alias: Option<Ident>,
        /// `WITH OFFSET`, for a correlated array path.
        offset: Option<Option<Ident>>,
        system_time: Option<Expr>,
        sample: Option<Expr>,
    },
    Unnest {
        exprs: Vec<Expr>,
        alias: Option<Ident>,
        offset: Option<Option<Ident>>,
        at: usize,
    },
    Subquery {
        query: Box<Query>,
        alias: Option<Ident>,
    },
    Function {
        name: Path,
        args: Vec<TableArgument>,
        alias: Option<Ident>,
    },
    Join {
        left: Box<TableExpr>,
        right: Box<TableExpr>,
        kind: JoinKind,
        on: JoinOn,
        at: usize,
    },
    Pivot {
        input: Box<TableExpr>,
        aggregates: Vec<(Expr, Option<Ident>)>,
        column: Box<Expr>,
        values: Vec<(Expr, Option<Ident>)>,
        alias: Option<Ident>,
        at: usize,
    },
    Unpivot {
        input: Box<TableExpr>,
        include_nulls: bool,
        /// One name, or several for a multi-column unpivot.
        values: Vec<Ident>,
        name: Ident,
        columns: Vec<UnpivotColumns>,
        alias: Option<Ident>,
        at: usize,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct UnpivotColumns {
    pub(in crate::engine::query) columns: Vec<Ident>,
    pub(in crate::engine::query) label: Option<Expr>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum TableArgument {
    Expr(Argument),
    Table(Path),
    Query(Box<Query>),
}

/// Calls `visit` with every table path in the FROM clauses of a query.
pub(in crate::engine::query) fn tables_of(query: &Query, visit: &mut dyn FnMut(&Path)) {
    for cte in &query.with {
        tables_of(&cte.query, visit);
    }
    tables_of_set(&query.body, visit);
}

fn tables_of_set(set: &SetExpr, visit: &mut dyn FnMut(&Path)) {
    match set {
        SetExpr::Select(select) => {
            if let Some(from) = &select.from {
                tables_of_from(from, visit);
            }
        }
        SetExpr::Query(query) => tables_of(query, visit),
        SetExpr::Op { left, right, .. } => {
            tables_of_set(left, visit);
            tables_of_set(right, visit);
        }
    }
}

fn tables_of_from(from: &TableExpr, visit: &mut dyn FnMut(&Path)) {
    match from {
        TableExpr::Table { path, .. } => visit(path),
        TableExpr::Subquery { query, .. } => tables_of(query, visit),
        TableExpr::Join { left, right, .. } => {
            tables_of_from(left, visit);
            tables_of_from(right, visit);
        }
        TableExpr::Pivot { input, .. } | TableExpr::Unpivot { input, .. } => {
            tables_of_from(input, visit);
        }
        TableExpr::Function { args, .. } => {
            for arg in args {
                match arg {
                    TableArgument::Table(path) => visit(path),
                    TableArgument::Query(query) => tables_of(query, visit),
                    TableArgument::Expr(_) => {}
                }
            }
        }
        TableExpr::Unnest { .. } => {}
    }
}
