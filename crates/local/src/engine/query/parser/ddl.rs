//! CREATE, DROP and ALTER.

use super::super::ast::{
    ColumnDef, ColumnType, CreateFunction, CreateMode, CreateProcedure, CreateSchema, CreateTable,
    CreateView, ForeignKey, FunctionBody, Ident, Options, ProcedureMode, StatementKind,
    TableSource,
};
use super::Parser;
use crate::error::{Result, ServiceError};

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Result<StatementKind> {
        let start = self.offset();
        self.expect_word("CREATE")?;
        let replace = self.take_words(&["OR", "REPLACE"]);
        let temporary = self.take_word("TEMP") || self.take_word("TEMPORARY");
        if self.is_words(&["TABLE", "FUNCTION"]) {
            self.advance();
            self.advance();
            return self.create_function(start, replace, temporary, true);
        }
        if self.take_word("TABLE") {
            return self.create_table(replace, temporary, false);
        }
        if self.take_words(&["SNAPSHOT", "TABLE"]) {
            return self.create_table(replace, temporary, true);
        }
        if self.take_word("VIEW") {
            return self.create_view(replace, false);
        }
        if self.take_words(&["MATERIALIZED", "VIEW"]) {
            return self.create_view(replace, true);
        }
        if self.take_word("SCHEMA") {
            return self.create_schema(replace);
        }
        if self.take_word("FUNCTION") {
            return self.create_function(start, replace, temporary, false);
        }
        if self.take_words(&["AGGREGATE", "FUNCTION"]) {
            return Err(ServiceError::unsupported("CREATE AGGREGATE FUNCTION"));
        }
        if self.take_word("PROCEDURE") {
            return self.create_procedure(start, replace);
        }
        for kind in [
            &["EXTERNAL", "TABLE"][..],
            &["ROW", "ACCESS"],
            &["SEARCH", "INDEX"],
            &["VECTOR", "INDEX"],
            &["MODEL"],
            &["CAPACITY"],
            &["RESERVATION"],
            &["ASSIGNMENT"],
            &["CONNECTION"],
        ] {
            if self.is_words(kind) {
                return Err(ServiceError::unsupported(format_args!(
                    "CREATE {}",
                    kind.join(" ")
                )));
            }
        }
        Err(self.unexpected(""))
    }

    fn create_mode(&mut self, replace: bool) -> Result<CreateMode> {
        let at = self.offset();
        let absent = self.take_words(&["IF", "NOT", "EXISTS"]);
        match (replace, absent) {
            (true, true) => Err(self.error(
                at,
                "CREATE OR REPLACE and IF NOT EXISTS cannot be used together",
            )),
            (true, false) => Ok(CreateMode::OrReplace),
            (false, true) => Ok(CreateMode::IfNotExists),
            (false, false) => Ok(CreateMode::Plain),
        }
    }

    fn create_table(
        &mut self,
        replace: bool,
        temporary: bool,
        snapshot: bool,
    ) -> Result<StatementKind> {
        let mode = self.create_mode(replace)?;
        let path = self.path()?;
        let mut table = CreateTable {
            mode,
            temporary,
            snapshot,
            path,
            columns: None,
            primary_key: None,
            foreign_keys: Vec::new(),
            source: TableSource::Definition,
            collate: None,
            partition_by: None,
            cluster_by: Vec::new(),
            options: Vec::new(),
            query: None,
        };
        if self.is_symbol("(") {
            self.table_elements(&mut table)?;
        }
        if self.take_word("LIKE") {
            table.source = TableSource::Like(self.path()?);
        } else if self.take_word("COPY") {
            table.source = TableSource::Copy(self.path()?);
        } else if self.take_word("CLONE") {
            let source = self.path()?;
            let time = if self.take_words(&["FOR", "SYSTEM_TIME", "AS", "OF"]) {
                Some(self.expr()?)
            } else {
                None
            };
            table.source = TableSource::Clone(source, time);
        }
        if self.take_words(&["DEFAULT", "COLLATE"]) {
            table.collate = Some(self.string_literal()?);
        }
        table.partition_by = self.partition_by()?;
        table.cluster_by = self.cluster_by()?;
        if self.is_words(&["WITH", "CONNECTION"]) {
            return Err(ServiceError::unsupported("WITH CONNECTION"));
        }
        table.options = self.options_clause()?;
        if self.take_word("AS") {
            table.query = Some(self.query()?);
        }
        Ok(StatementKind::CreateTable(Box::new(table)))
    }

    fn partition_by(&mut self) -> Result<Option<super::super::ast::Expr>> {
        if self.take_words(&["PARTITION", "BY"]) {
            return self.expr().map(Some);
        }
        Ok(None)
    }

    fn cluster_by(&mut self) -> Result<Vec<Ident>> {
        if self.take_words(&["CLUSTER", "BY"]) {
            return self.comma_separated(|p| p.ident());
        }
        Ok(Vec::new())
    }

    fn table_elements(&mut self, table: &mut CreateTable) -> Result<()> {
        self.expect_symbol("(")?;
        let mut columns = Vec::new();
        while !self.is_symbol(")") {
            let name = if self.take_word("CONSTRAINT") {
                Some(self.ident()?)
            } else {
                None
            };
            if self.is_words(&["PRIMARY", "KEY"]) {
                self.advance();
                self.advance();
                table.primary_key = Some(self.parenthesized(|p| p.ident())?);
                self.not_enforced()?;
            } else if self.is_words(&["FOREIGN", "KEY"]) {
                let key = self.foreign_key(name)?;
                table.foreign_keys.push(key);
            } else {
                let column = self.column_def()?;
                if column.primary_key {
                    table.primary_key = Some(vec![column.name.clone()]);
                }
                if let Some(key) = &column.references {
                    table.foreign_keys.push(key.clone());
                }
                columns.push(column);
            }
            if !self.take_symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        table.columns = Some(columns);
        Ok(())
    }

    pub(super) fn not_enforced(&mut self) -> Result<()> {
        if self.take_words(&["NOT", "ENFORCED"]) {
            return Ok(());
        }
        Err(ServiceError::invalid_query(
            "Enforced primary keys and foreign keys are not supported; use NOT ENFORCED",
        ))
    }

    /// `FOREIGN KEY (a) REFERENCES t (b) NOT ENFORCED`
    pub(super) fn foreign_key(&mut self, name: Option<Ident>) -> Result<ForeignKey> {
        self.expect_words(&["FOREIGN", "KEY"])?;
        let columns = self.parenthesized(|p| p.ident())?;
        self.references(name, columns)
    }

    fn references(&mut self, name: Option<Ident>, columns: Vec<Ident>) -> Result<ForeignKey> {
        self.expect_word("REFERENCES")?;
        let table = self.path()?;
        let referenced = self.parenthesized(|p| p.ident())?;
        self.not_enforced()?;
        Ok(ForeignKey {
            name,
            columns,
            table,
            referenced,
        })
    }

    pub(super) fn column_def(&mut self) -> Result<ColumnDef> {
        let name = self.any_ident()?;
        self.column_def_named(name)
    }

    pub(super) fn column_def_named(&mut self, name: Ident) -> Result<ColumnDef> {
        let column_type = self.nested(|p| p.column_type())?;
        let mut column = ColumnDef {
            name,
            column_type,
            not_null: false,
            default: None,
            options: Vec::new(),
            primary_key: false,
            references: None,
            collate: None,
        };
        loop {
            if self.take_words(&["NOT", "NULL"]) {
                column.not_null = true;
            } else if self.take_word("COLLATE") {
                column.collate = Some(self.string_literal()?);
            } else if self.take_word("DEFAULT") {
                let start = self.offset();
                self.expr()?;
                column.default = Some(self.text(start));
            } else if self.take_words(&["PRIMARY", "KEY"]) {
                self.not_enforced()?;
                column.primary_key = true;
            } else if self.is_word("REFERENCES") {
                column.references = Some(self.references(None, vec![column.name.clone()])?);
            } else if self.is_word("OPTIONS") {
                column.options = self.options_clause()?;
            } else if self.is_word("GENERATED") {
                return Err(ServiceError::unsupported("A generated column"));
            } else {
                return Ok(column);
            }
        }
    }

    fn column_type(&mut self) -> Result<ColumnType> {
        if self.is_word("STRUCT") && self.symbol_at(1, "<") {
            self.advance();
            self.expect_symbol("<")?;
            let fields = self.comma_separated(|p| p.column_def())?;
            self.expect_symbol(">")?;
            return Ok(ColumnType::Struct(fields));
        }
        if self.is_word("ARRAY") && self.symbol_at(1, "<") {
            self.advance();
            self.expect_symbol("<")?;
            let at = self.offset();
            let element = self.column_def_named(Ident {
                name: String::new(),
                at,
            })?;
            self.expect_symbol(">")?;
            return Ok(ColumnType::Array(Box::new(element)));
        }
        Ok(ColumnType::Scalar(self.type_name()?))
    }

    /// `OPTIONS (name = value, …)`, or nothing.
    pub(super) fn options_clause(&mut self) -> Result<Options> {
        if !self.take_word("OPTIONS") {
            return Ok(Vec::new());
        }
        self.expect_symbol("(")?;
        let mut options = Vec::new();
        while !self.is_symbol(")") {
            let name = self.any_ident()?;
            self.expect_symbol("=")?;
            options.push((name, self.expr()?));
            if !self.take_symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        Ok(options)
    }

    fn create_view(&mut self, replace: bool, materialized: bool) -> Result<StatementKind> {
        let mode = self.create_mode(replace)?;
        let path = self.path()?;
        let columns = if self.is_symbol("(") {
            Some(self.parenthesized(|p| {
                let name = p.ident()?;
                Ok((name, p.options_clause()?))
            })?)
        } else {
            None
        };
        let partition_by = self.partition_by()?;
        let cluster_by = self.cluster_by()?;
        let options = self.options_clause()?;
        self.expect_word("AS")?;
        let start = self.offset();
        let query = self.query()?;
        Ok(StatementKind::CreateView(Box::new(CreateView {
            mode,
            materialized,
            path,
            columns,
            partition_by,
            cluster_by,
            options,
            query,
            text: self.text(start),
        })))
    }

    fn create_schema(&mut self, replace: bool) -> Result<StatementKind> {
        let mode = self.create_mode(replace)?;
        let path = self.path()?;
        let collate = if self.take_words(&["DEFAULT", "COLLATE"]) {
            Some(self.string_literal()?)
        } else {
            None
        };
        Ok(StatementKind::CreateSchema(Box::new(CreateSchema {
            mode,
            path,
            collate,
            options: self.options_clause()?,
        })))
    }

    fn create_function(
        &mut self,
        start: usize,
        replace: bool,
        temporary: bool,
        table: bool,
    ) -> Result<StatementKind> {
        let mode = self.create_mode(replace)?;
        let path = self.path()?;
        self.expect_symbol("(")?;
        let mut parameters = Vec::new();
        while !self.is_symbol(")") {
            let name = self.ident()?;
            let declared = if self.take_words(&["ANY", "TYPE"]) {
                None
            } else if self.is_words(&["ANY", "TABLE"]) || self.is_words(&["TABLE"]) {
                return Err(ServiceError::unsupported("A TABLE parameter"));
            } else {
                Some(self.type_name()?)
            };
            parameters.push((name, declared));
            if !self.take_symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        let returns = if self.take_word("RETURNS") {
            if table {
                return Err(ServiceError::unsupported("RETURNS TABLE"));
            }
            Some(self.type_name()?)
        } else {
            None
        };
        let mut body = None;
        self.take_words(&["NOT", "DETERMINISTIC"]);
        self.take_word("DETERMINISTIC");
        if self.take_word("LANGUAGE") {
            let language = self.ident()?.name;
            self.options_clause()?;
            body = Some(FunctionBody::Other(format!(
                "A function in {}",
                language.to_ascii_uppercase()
            )));
            if self.take_word("AS") {
                self.string_literal()?;
            }
            self.options_clause()?;
        } else if self.take_word("REMOTE") {
            return Err(ServiceError::unsupported("A remote function"));
        }
        let body = match body {
            Some(body) => body,
            None if table => {
                self.options_clause()?;
                self.expect_word("AS")?;
                FunctionBody::Table(Box::new(self.query()?))
            }
            None => {
                self.options_clause()?;
                self.expect_word("AS")?;
                self.expect_symbol("(")?;
                let expr = self.expr()?;
                self.expect_symbol(")")?;
                FunctionBody::Sql(Box::new(expr))
            }
        };
        self.options_clause()?;
        Ok(StatementKind::CreateFunction(Box::new(CreateFunction {
            mode,
            temporary,
            aggregate: false,
            path,
            parameters,
            returns,
            body,
            text: self.text(start),
        })))
    }

    fn create_procedure(&mut self, start: usize, replace: bool) -> Result<StatementKind> {
        let mode = self.create_mode(replace)?;
        let path = self.path()?;
        self.expect_symbol("(")?;
        let mut parameters = Vec::new();
        while !self.is_symbol(")") {
            let direction = if self.take_word("INOUT") {
                ProcedureMode::InOut
            } else if self.take_word("OUT") {
                ProcedureMode::Out
            } else {
                self.take_word("IN");
                ProcedureMode::In
            };
            let name = self.ident()?;
            parameters.push((direction, name, self.type_name()?));
            if !self.take_symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        self.options_clause()?;
        if self.is_word("WITH") || self.is_word("LANGUAGE") {
            return Err(ServiceError::unsupported("A procedure in another language"));
        }
        self.expect_word("BEGIN")?;
        let body = self.statements(&["END"])?;
        self.expect_word("END")?;
        Ok(StatementKind::CreateProcedure(Box::new(CreateProcedure {
            mode,
            path,
            parameters,
            body,
            text: self.text(start),
            script: self.sql.to_string(),
        })))
    }
}
