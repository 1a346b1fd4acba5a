//! DROP and ALTER.

use super::super::ast::{Alter, AlterAction, ColumnChange, Drop, Ident, ObjectKind, StatementKind};
use super::Parser;
use super::lexer::TokenKind;
use crate::error::{Result, ServiceError};

impl Parser<'_> {
    fn object_kind(&mut self) -> Result<ObjectKind> {
        let kinds: &[(&[&str], ObjectKind)] = &[
            (&["TABLE", "FUNCTION"], ObjectKind::TableFunction),
            (&["SNAPSHOT", "TABLE"], ObjectKind::SnapshotTable),
            (&["EXTERNAL", "TABLE"], ObjectKind::ExternalTable),
            (&["TABLE"], ObjectKind::Table),
            (&["MATERIALIZED", "VIEW"], ObjectKind::MaterializedView),
            (&["VIEW"], ObjectKind::View),
            (&["SCHEMA"], ObjectKind::Schema),
            (&["FUNCTION"], ObjectKind::Function),
            (&["PROCEDURE"], ObjectKind::Procedure),
        ];
        for (words, kind) in kinds {
            if self.take_words(words) {
                return Ok(*kind);
            }
        }
        match self.peek() {
            TokenKind::Word(w) => {
                let w = w.to_ascii_uppercase();
                if matches!(
                    w.as_str(),
                    "ROW"
                        | "ALL"
                        | "SEARCH"
                        | "VECTOR"
                        | "MODEL"
                        | "CAPACITY"
                        | "RESERVATION"
                        | "ASSIGNMENT"
                        | "CONNECTION"
                        | "PROJECT"
                        | "ORGANIZATION"
                        | "BI_CAPACITY"
                ) {
                    return Err(ServiceError::unsupported(format_args!(
                        "This statement about {w}"
                    )));
                }
                Err(self.unexpected(""))
            }
            _ => Err(self.unexpected("")),
        }
    }

    pub(super) fn drop(&mut self) -> Result<StatementKind> {
        self.expect_word("DROP")?;
        let kind = self.object_kind()?;
        let if_exists = self.take_words(&["IF", "EXISTS"]);
        let path = self.path()?;
        let cascade = if kind == ObjectKind::Schema {
            let cascade = self.take_word("CASCADE");
            if !cascade {
                self.take_word("RESTRICT");
            }
            cascade
        } else {
            false
        };
        Ok(StatementKind::Drop(Drop {
            kind,
            if_exists,
            path,
            cascade,
        }))
    }

    pub(super) fn alter(&mut self) -> Result<StatementKind> {
        self.expect_word("ALTER")?;
        let kind = self.object_kind()?;
        let if_exists = self.take_words(&["IF", "EXISTS"]);
        let path = self.path()?;
        let actions = self.comma_separated(|p| p.alter_action())?;
        Ok(StatementKind::Alter(Box::new(Alter {
            kind,
            if_exists,
            path,
            actions,
        })))
    }

    fn alter_action(&mut self) -> Result<AlterAction> {
        if self.take_words(&["SET", "OPTIONS"]) {
            self.at -= 1;
            return Ok(AlterAction::SetOptions(self.options_clause()?));
        }
        if self.take_words(&["SET", "DEFAULT", "COLLATE"]) {
            return Ok(AlterAction::SetDefaultCollate(self.string_literal()?));
        }
        if self.take_word("ADD") {
            return self.alter_add();
        }
        if self.take_word("DROP") {
            if self.take_words(&["PRIMARY", "KEY"]) {
                return Ok(AlterAction::DropPrimaryKey {
                    if_exists: self.take_words(&["IF", "EXISTS"]),
                });
            }
            if self.take_word("CONSTRAINT") {
                let if_exists = self.take_words(&["IF", "EXISTS"]);
                return Ok(AlterAction::DropConstraint {
                    name: self.ident()?,
                    if_exists,
                });
            }
            self.expect_word("COLUMN")?;
            let if_exists = self.take_words(&["IF", "EXISTS"]);
            return Ok(AlterAction::DropColumn {
                if_exists,
                name: self.any_ident()?,
            });
        }
        if self.take_word("RENAME") {
            if self.take_word("TO") {
                return Ok(AlterAction::RenameTo(self.path()?));
            }
            self.expect_word("COLUMN")?;
            let if_exists = self.take_words(&["IF", "EXISTS"]);
            let from = self.any_ident()?;
            self.expect_word("TO")?;
            return Ok(AlterAction::RenameColumn {
                if_exists,
                from,
                to: self.any_ident()?,
            });
        }
        self.expect_word("ALTER")?;
        self.expect_word("COLUMN")?;
        let if_exists = self.take_words(&["IF", "EXISTS"]);
        let name = self.any_ident()?;
        let change = self.column_change(&name)?;
        Ok(AlterAction::AlterColumn {
            if_exists,
            name,
            change,
        })
    }

    fn alter_add(&mut self) -> Result<AlterAction> {
        if self.take_words(&["PRIMARY", "KEY"]) {
            let if_not_exists = self.take_words(&["IF", "NOT", "EXISTS"]);
            let columns = self.parenthesized(|p| p.ident())?;
            self.not_enforced()?;
            return Ok(AlterAction::AddPrimaryKey {
                columns,
                if_not_exists,
            });
        }
        if self.is_words(&["FOREIGN", "KEY"]) {
            return Ok(AlterAction::AddForeignKey(self.foreign_key(None)?));
        }
        if self.take_word("CONSTRAINT") {
            self.take_words(&["IF", "NOT", "EXISTS"]);
            let name = self.ident()?;
            return Ok(AlterAction::AddForeignKey(self.foreign_key(Some(name))?));
        }
        self.expect_word("COLUMN")?;
        let if_not_exists = self.take_words(&["IF", "NOT", "EXISTS"]);
        Ok(AlterAction::AddColumn {
            if_not_exists,
            column: Box::new(self.column_def()?),
        })
    }

    fn column_change(&mut self, name: &Ident) -> Result<ColumnChange> {
        if self.take_words(&["DROP", "NOT", "NULL"]) {
            return Ok(ColumnChange::DropNotNull);
        }
        if self.take_words(&["SET", "NOT", "NULL"]) {
            return Ok(ColumnChange::SetNotNull);
        }
        if self.take_words(&["DROP", "DEFAULT"]) {
            return Ok(ColumnChange::DropDefault);
        }
        if self.take_words(&["SET", "DEFAULT"]) {
            let start = self.offset();
            self.expr()?;
            return Ok(ColumnChange::SetDefault(self.text(start)));
        }
        if self.take_words(&["SET", "DATA", "TYPE"]) {
            return Ok(ColumnChange::SetType(Box::new(
                self.column_def_named(name.clone())?,
            )));
        }
        self.expect_words(&["SET"])?;
        if !self.is_word("OPTIONS") {
            return Err(self.unexpected("Expected keyword OPTIONS"));
        }
        Ok(ColumnChange::SetOptions(self.options_clause()?))
    }
}
