//! How the rows of a connection are decoded: a writer schema, compiled for the
//! columns that the table has.

use std::sync::Arc;

use bytes::Bytes;

use super::arrow::ArrowPlan;
use super::change::RowKind;
use super::proto::ProtoPlan;
use super::rows::{Decoded, Undecoded};
use crate::schema::TableSchema;

/// Why rows of a writer schema cannot be written to a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// Fields that the table lacks.
    Extra(Vec<String>),
    /// Fields whose type no column of the name takes.
    Incompatible(Vec<String>),
    /// The schema says what it cannot.
    Invalid(String),
}

/// A writer schema as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WriterSchema {
    /// A `DescriptorProto`.
    Proto(Bytes),
    /// An encapsulated IPC schema message.
    Arrow(Bytes),
}

impl WriterSchema {
    /// Whether both describe rows of the same format.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Decodes rows of one writer schema for one table schema.
#[derive(Debug)]
pub(super) struct Plan {
    schema: Arc<TableSchema>,
    /// Names of the primary key's columns.
    key: Vec<String>,
    decoder: Decoder,
}

#[derive(Debug)]
enum Decoder {
    Proto(Box<ProtoPlan>),
    Arrow(ArrowPlan),
}

impl Plan {
    pub(super) fn compile(
        writer: &WriterSchema,
        schema: &Arc<TableSchema>,
        key: &[String],
    ) -> Result<Self, Mismatch> {
        let decoder = match writer {
            WriterSchema::Proto(descriptor) => {
                Decoder::Proto(Box::new(ProtoPlan::compile(descriptor, schema, key)?))
            }
            WriterSchema::Arrow(message) => Decoder::Arrow(ArrowPlan::compile(message, schema)?),
        };
        Ok(Self {
            schema: Arc::clone(schema),
            key: key.to_vec(),
            decoder,
        })
    }

    /// Whether it is for these columns and this key.
    pub(super) fn is_for(&self, schema: &Arc<TableSchema>, key: &[String]) -> bool {
        self.key == key && (Arc::ptr_eq(&self.schema, schema) || self.schema == *schema)
    }

    /// What its rows are.
    pub(super) fn kind(&self) -> RowKind {
        match &self.decoder {
            Decoder::Proto(plan) if plan.captures() => RowKind::Change,
            Decoder::Proto(_) | Decoder::Arrow(_) => RowKind::Insert,
        }
    }

    /// Decodes the rows of a request. A column of `defaulted` has a value where rows
    /// leave it out.
    pub(super) fn decode(&mut self, rows: &[u8], defaulted: &[bool]) -> Result<Decoded, Undecoded> {
        match &mut self.decoder {
            Decoder::Proto(plan) => plan.decode(rows, defaulted),
            Decoder::Arrow(plan) => plan.decode(rows, defaulted),
        }
    }
}
