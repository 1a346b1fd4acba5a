//! Statements.

use super::{Expr, Ident, Path, Query, TableExpr, TypeName};

/// `OPTIONS (name = value, …)`.
pub(in crate::engine::query) type Options = Vec<(Ident, Expr)>;

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct ColumnDef {
    pub(in crate::engine::query) name: Ident,
    pub(in crate::engine::query) column_type: ColumnType,
    pub(in crate::engine::query) not_null: bool,
    /// Text of the default.
    pub(in crate::engine::query) default: Option<String>,
    pub(in crate::engine::query) options: Options,
    pub(in crate::engine::query) primary_key: bool,
    pub(in crate::engine::query) references: Option<ForeignKey>,
    pub(in crate::engine::query) collate: Option<String>,
}

/// A column's type, in which nested fields may have constraints and options too.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum ColumnType {
    Scalar(TypeName),
    Array(Box<ColumnDef>),
    Struct(Vec<ColumnDef>),
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct ForeignKey {
    pub(in crate::engine::query) name: Option<Ident>,
    pub(in crate::engine::query) columns: Vec<Ident>,
    pub(in crate::engine::query) table: Path,
    pub(in crate::engine::query) referenced: Vec<Ident>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::query) enum CreateMode {
    Plain,
    OrReplace,
    IfNotExists,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum TableSource {
    /// Columns or a query say what the table is.
    Definition,
    Like(Path),
    Copy(Path),
    Clone(Path, Option<Expr>),
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct CreateTable {
    pub(in crate::engine::query) mode: CreateMode,
    pub(in crate::engine::query) temporary: bool,
    pub(in crate::engine::query) snapshot: bool,
    pub(in crate::engine::query) path: Path,
    pub(in crate::engine::query) columns: Option<Vec<ColumnDef>>,
    pub(in crate::engine::query) primary_key: Option<Vec<Ident>>,
    pub(in crate::engine::query) foreign_keys: Vec<ForeignKey>,
    pub(in crate::engine::query) source: TableSource,
    pub(in crate::engine::query) collate: Option<String>,
    pub(in crate::engine::query) partition_by: Option<Expr>,
    pub(in crate::engine::query) cluster_by: Vec<Ident>,
    pub(in crate::engine::query) options: Options,
    pub(in crate::engine::query) query: Option<Query>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct CreateView {
    pub(in crate::engine::query) mode: CreateMode,
    pub(in crate::engine::query) materialized: bool,
    pub(in crate::engine::query) path: Path,
    pub(in crate::engine::query) columns: Option<Vec<(Ident, Options)>>,
    pub(in crate::engine::query) partition_by: Option<Expr>,
    pub(in crate::engine::query) cluster_by: Vec<Ident>,
    pub(in crate::engine::query) options: Options,
    pub(in crate::engine::query) query: Query,
    pub(in crate::engine::query) text: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct CreateSchema {
    pub(in crate::engine::query) mode: CreateMode,
    pub(in crate::engine::query) path: Path,
    pub(in crate::engine::query) collate: Option<String>,
    pub(in crate::engine::query) options: Options,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum FunctionBody {
    Sql(Box<Expr>),
    Table(Box<Query>),
    Other(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct CreateFunction {
    pub(in crate::engine::query) mode: CreateMode,
    pub(in crate::engine::query) temporary: bool,
    pub(in crate::engine::query) aggregate: bool,
    pub(in crate::engine::query) path: Path,
    /// Name and type, `None` for ANY TYPE.
    pub(in crate::engine::query) parameters: Vec<(Ident, Option<TypeName>)>,
    pub(in crate::engine::query) returns: Option<TypeName>,
    pub(in crate::engine::query) body: FunctionBody,
    /// The statement's text, in which the body's offsets count.
    pub(in crate::engine::query) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::query) enum ProcedureMode {
    In,
    Out,
    InOut,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct CreateProcedure {
    pub(in crate::engine::query) mode: CreateMode,
    pub(in crate::engine::query) path: Path,
    pub(in crate::engine::query) parameters: Vec<(ProcedureMode, Ident, TypeName)>,
    pub(in crate::engine::query) body: Vec<Statement>,
    pub(in crate::engine::query) text: String,
    /// The script in which the body's offsets count.
    pub(in crate::engine::query) script: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::query) enum ObjectKind {
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
pub(in crate::engine::query) struct Drop {
    pub(in crate::engine::query) kind: ObjectKind,
    pub(in crate::engine::query) if_exists: bool,
    pub(in crate::engine::query) path: Path,
    pub(in crate::engine::query) cascade: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum AlterAction {
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
pub(in crate::engine::query) enum ColumnChange {
    DropNotNull,
    SetNotNull,
    SetDefault(String),
    DropDefault,
    SetOptions(Options),
    SetType(Box<ColumnDef>),
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct Alter {
    pub(in crate::engine::query) kind: ObjectKind,
    pub(in crate::engine::query) if_exists: bool,
    pub(in crate::engine::query) path: Path,
    pub(in crate::engine::query) actions: Vec<AlterAction>,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum InsertSource {
    Values(Vec<Vec<InsertValue>>),
    Query(Box<Query>),
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum InsertValue {
    Default,
    Expr(Expr),
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct Assignment {
    pub(in crate::engine::query) path: Path,
    pub(in crate::engine::query) value: InsertValue,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum MergeMatch {
    Matched,
    NotMatchedByTarget,
    NotMatchedBySource,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum MergeAction {
    Update(Vec<Assignment>),
    Delete,
    InsertRow,
    Insert {
        columns: Vec<Ident>,
        values: Vec<InsertValue>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct MergeClause {
    pub(in crate::engine::query) when: MergeMatch,
    pub(in crate::engine::query) condition: Option<Expr>,
    pub(in crate::engine::query) action: MergeAction,
}

/// A statement and its byte range in the script.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) struct Statement {
    pub(in crate::engine::query) kind: StatementKind,
    pub(in crate::engine::query) start: usize,
    pub(in crate::engine::query) end: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::engine::query) enum StatementKind {
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
pub(in crate::engine::query) enum SetTarget {
    Variable(Ident),
    System(String, usize),
}
