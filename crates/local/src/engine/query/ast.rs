//! The syntax tree of GoogleSQL, as far as it is understood here.

/// A name and the byte offset at which it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ident {
    pub(super) name: String,
    pub(super) at: usize,
}

impl Ident {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// A dotted name.
pub(super) type Path = Vec<Ident>;

/// An expression and the byte offset at which it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expr {
    pub(super) kind: ExprKind,
    pub(super) at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnaryOp {
    Minus,
    Plus,
    BitNot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BinaryOp {
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
pub(super) enum Truth {
    Null,
    True,
    False,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Subscript {
    /// `[x]`: a JSON member or, for arrays, the same as OFFSET.
    Plain,
    Offset,
    Ordinal,
    SafeOffset,
    SafeOrdinal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantifier {
    Any,
    All,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum InSet {
    List(Vec<Expr>),
    Unnest(Box<Expr>),
    Query(Box<Query>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ExprKind {
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
pub(super) enum Having {
    Max,
    Min,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Argument {
    /// `name =>`.
    pub(super) name: Option<Ident>,
    pub(super) value: Expr,
    /// `AS alias` inside a call, as in `STRUCT` or table functions.
    pub(super) alias: Option<Ident>,
}

/// A function call with everything that may stand inside and behind it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) name: Path,
    pub(super) args: Vec<Argument>,
    pub(super) distinct: bool,
    /// `Some(true)` for IGNORE NULLS, `Some(false)` for RESPECT NULLS.
    pub(super) ignore_nulls: Option<bool>,
    pub(super) having: Option<(Having, Expr)>,
    pub(super) order_by: Vec<OrderItem>,
    pub(super) limit: Option<Expr>,
    pub(super) over: Option<Window>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Window {
    Named(Ident),
    Spec(Box<WindowSpec>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct WindowSpec {
    pub(super) base: Option<Ident>,
    pub(super) partition_by: Vec<Expr>,
    pub(super) order_by: Vec<OrderItem>,
    pub(super) frame: Option<Frame>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Frame {
    pub(super) rows: bool,
    pub(super) start: Bound,
    pub(super) end: Bound,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Bound {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct OrderItem {
    pub(super) expr: Expr,
    pub(super) descending: bool,
    pub(super) nulls_first: Option<bool>,
    pub(super) collate: Option<String>,
}

/// A type as written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TypeName {
    pub(super) kind: TypeKind,
    pub(super) at: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TypeKind {
    /// Upper-case name and its parameters.
    Simple(String, Vec<i64>),
    Array(Box<TypeName>),
    Struct(Vec<(Option<Ident>, TypeName)>),
    Range(Box<TypeName>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Query {
    pub(super) recursive: bool,
    pub(super) with: Vec<Cte>,
    pub(super) body: SetExpr,
    pub(super) order_by: Vec<OrderItem>,
    pub(super) limit: Option<Expr>,
    pub(super) offset: Option<Expr>,
    pub(super) at: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cte {
    pub(super) name: Ident,
    pub(super) query: Query,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetOp {
    Union,
    Intersect,
    Except,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum SetExpr {
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
pub(super) enum SelectAs {
    Columns,
    Struct,
    Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Select {
    pub(super) distinct: bool,
    pub(super) select_as: SelectAs,
    pub(super) items: Vec<SelectItem>,
    pub(super) from: Option<TableExpr>,
    pub(super) filter: Option<Expr>,
    pub(super) group_by: Option<GroupBy>,
    pub(super) having: Option<Expr>,
    pub(super) qualify: Option<Expr>,
    pub(super) windows: Vec<(Ident, WindowSpec)>,
    pub(super) at: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum SelectItem {
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
pub(super) enum GroupBy {
    All,
    Items(Vec<GroupItem>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum GroupItem {
    Expr(Expr),
    Rollup(Vec<Vec<Expr>>),
    Cube(Vec<Vec<Expr>>),
    Sets(Vec<GroupItem>),
    /// `(a, b)` or `()` inside GROUPING SETS, or at the top level `()`.
    Tuple(Vec<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JoinKind {
    Comma,
    Cross,
    Inner,
    Left,
    Right,
    Full,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum JoinOn {
    None,
    On(Expr),
    Using(Vec<Ident>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TableExpr {
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
pub(super) struct UnpivotColumns {
    pub(super) columns: Vec<Ident>,
    pub(super) label: Option<Expr>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TableArgument {
    Expr(Argument),
    Table(Path),
    Query(Box<Query>),
}

/// `OPTIONS (name = value, …)`.
pub(super) type Options = Vec<(Ident, Expr)>;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ColumnDef {
    pub(super) name: Ident,
    pub(super) column_type: ColumnType,
    pub(super) not_null: bool,
    /// Text of the default.
    pub(super) default: Option<String>,
    pub(super) options: Options,
    pub(super) primary_key: bool,
    pub(super) references: Option<ForeignKey>,
    pub(super) collate: Option<String>,
}

/// A column's type, in which nested fields may have constraints and options too.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ColumnType {
    Scalar(TypeName),
    Array(Box<ColumnDef>),
    Struct(Vec<ColumnDef>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ForeignKey {
    pub(super) name: Option<Ident>,
    pub(super) columns: Vec<Ident>,
    pub(super) table: Path,
    pub(super) referenced: Vec<Ident>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CreateMode {
    Plain,
    OrReplace,
    IfNotExists,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TableSource {
    /// Columns or a query say what the table is.
    Definition,
    Like(Path),
    Copy(Path),
    Clone(Path, Option<Expr>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CreateTable {
    pub(super) mode: CreateMode,
    pub(super) temporary: bool,
    pub(super) snapshot: bool,
    pub(super) path: Path,
    pub(super) columns: Option<Vec<ColumnDef>>,
    pub(super) primary_key: Option<Vec<Ident>>,
    pub(super) foreign_keys: Vec<ForeignKey>,
    pub(super) source: TableSource,
    pub(super) collate: Option<String>,
    pub(super) partition_by: Option<Expr>,
    pub(super) cluster_by: Vec<Ident>,
    pub(super) options: Options,
    pub(super) query: Option<Query>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CreateView {
    pub(super) mode: CreateMode,
    pub(super) materialized: bool,
    pub(super) path: Path,
    pub(super) columns: Option<Vec<(Ident, Options)>>,
    pub(super) partition_by: Option<Expr>,
    pub(super) cluster_by: Vec<Ident>,
    pub(super) options: Options,
    pub(super) query: Query,
    pub(super) text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CreateSchema {
    pub(super) mode: CreateMode,
    pub(super) path: Path,
    pub(super) collate: Option<String>,
    pub(super) options: Options,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum FunctionBody {
    Sql(Box<Expr>),
    Table(Box<Query>),
    Other(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CreateFunction {
    pub(super) mode: CreateMode,
    pub(super) temporary: bool,
    pub(super) aggregate: bool,
    pub(super) path: Path,
    /// Name and type, `None` for ANY TYPE.
    pub(super) parameters: Vec<(Ident, Option<TypeName>)>,
    pub(super) returns: Option<TypeName>,
    pub(super) body: FunctionBody,
    /// The statement's text, in which the body's offsets count.
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcedureMode {
    In,
    Out,
    InOut,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CreateProcedure {
    pub(super) mode: CreateMode,
    pub(super) path: Path,
    pub(super) parameters: Vec<(ProcedureMode, Ident, TypeName)>,
    pub(super) body: Vec<Statement>,
    pub(super) text: String,
    /// The script in which the body's offsets count.
    pub(super) script: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Table,
    View,
    MaterializedView,
    Schema,
    Function,
    TableFunction,
    Procedure,
    SnapshotTable,
    ExternalTable,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Drop {
    pub(super) kind: ObjectKind,
    pub(super) if_exists: bool,
    pub(super) path: Path,
    pub(super) cascade: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum AlterAction {
    AddColumn {
        if_not_exists: bool,
        column: Box<ColumnDef>,
    },
    DropColumn {
        if_exists: bool,
        name: Ident,
    },
    RenameColumn {
        if_exists: bool,
        from: Ident,
        to: Ident,
    },
    RenameTo(Path),
    SetOptions(Options),
    SetDefaultCollate(String),
    AddPrimaryKey {
        columns: Vec<Ident>,
        if_not_exists: bool,
    },
    DropPrimaryKey {
        if_exists: bool,
    },
    AddForeignKey(ForeignKey),
    DropConstraint {
        name: Ident,
        if_exists: bool,
    },
    AlterColumn {
        if_exists: bool,
        name: Ident,
        change: ColumnChange,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ColumnChange {
    DropNotNull,
    SetNotNull,
    SetDefault(String),
    DropDefault,
    SetOptions(Options),
    SetType(Box<ColumnDef>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Alter {
    pub(super) kind: ObjectKind,
    pub(super) if_exists: bool,
    pub(super) path: Path,
    pub(super) actions: Vec<AlterAction>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum InsertSource {
    Values(Vec<Vec<InsertValue>>),
    Query(Box<Query>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum InsertValue {
    Default,
    Expr(Expr),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Assignment {
    pub(super) path: Path,
    pub(super) value: InsertValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum MergeMatch {
    Matched,
    NotMatchedByTarget,
    NotMatchedBySource,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum MergeAction {
    Update(Vec<Assignment>),
    Delete,
    InsertRow,
    Insert {
        columns: Vec<Ident>,
        values: Vec<InsertValue>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct MergeClause {
    pub(super) when: MergeMatch,
    pub(super) condition: Option<Expr>,
    pub(super) action: MergeAction,
}

/// A statement and its byte range in the script.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Statement {
    pub(super) kind: StatementKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum StatementKind {
    Query(Box<Query>),
    Insert {
        path: Path,
        columns: Vec<Ident>,
        source: InsertSource,
    },
    Update {
        path: Path,
        alias: Option<Ident>,
        set: Vec<Assignment>,
        from: Option<TableExpr>,
        filter: Expr,
    },
    Delete {
        path: Path,
        alias: Option<Ident>,
        filter: Expr,
    },
    Merge {
        target: Path,
        alias: Option<Ident>,
        source: TableExpr,
        on: Expr,
        clauses: Vec<MergeClause>,
    },
    Truncate(Path),
    CreateTable(Box<CreateTable>),
    CreateView(Box<CreateView>),
    CreateSchema(Box<CreateSchema>),
    CreateFunction(Box<CreateFunction>),
    CreateProcedure(Box<CreateProcedure>),
    Drop(Drop),
    Alter(Box<Alter>),
    Call {
        name: Path,
        args: Vec<Expr>,
    },
    ExecuteImmediate {
        sql: Expr,
        into: Vec<Ident>,
        using: Vec<(Expr, Option<Ident>)>,
    },
    Declare {
        names: Vec<Ident>,
        declared: Option<TypeName>,
        default: Option<Expr>,
    },
    Set {
        targets: Vec<SetTarget>,
        value: Expr,
    },
    If {
        branches: Vec<(Expr, Vec<Statement>)>,
        otherwise: Vec<Statement>,
    },
    Case {
        operand: Option<Expr>,
        branches: Vec<(Expr, Vec<Statement>)>,
        otherwise: Option<Vec<Statement>>,
    },
    Loop {
        label: Option<String>,
        body: Vec<Statement>,
    },
    While {
        label: Option<String>,
        condition: Expr,
        body: Vec<Statement>,
    },
    Repeat {
        label: Option<String>,
        body: Vec<Statement>,
        until: Expr,
    },
    For {
        label: Option<String>,
        variable: Ident,
        query: Box<Query>,
        body: Vec<Statement>,
    },
    Block {
        label: Option<String>,
        body: Vec<Statement>,
        handler: Option<Vec<Statement>>,
    },
    Break(Option<String>),
    Continue(Option<String>),
    Return,
    Raise(Option<Expr>),
    BeginTransaction,
    CommitTransaction,
    RollbackTransaction,
    Assert {
        condition: Expr,
        message: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum SetTarget {
    Variable(Ident),
    System(String, usize),
}

/// Calls `visit` with every table path in the FROM clauses of a query.
pub(super) fn tables_of(query: &Query, visit: &mut dyn FnMut(&Path)) {
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
