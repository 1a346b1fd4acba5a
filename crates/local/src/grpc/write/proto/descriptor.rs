//! The parts of a `DescriptorProto` that say how rows are read, with the annotation
//! that names columns which no protobuf field can be named after.

use std::collections::HashMap;
use std::sync::Arc;

use prost::{Enumeration, Message as _};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MessageType {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) fields: Vec<FieldType>,
    #[prost(message, repeated, tag = "3")]
    pub(super) nested: Vec<MessageType>,
    #[prost(message, repeated, tag = "4")]
    pub(super) enums: Vec<EnumType>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FieldType {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "3")]
    pub(super) number: i32,
    #[prost(enumeration = "Label", tag = "4")]
    pub(super) label: i32,
    #[prost(enumeration = "Kind", optional, tag = "5")]
    pub(super) kind: Option<i32>,
    #[prost(string, tag = "6")]
    pub(super) type_name: String,
    #[prost(message, optional, tag = "8")]
    pub(super) options: Option<FieldOptions>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FieldOptions {
    /// The extension `google.cloud.bigquery.storage.v1.column_name`.
    #[prost(string, optional, tag = "454943157")]
    pub(super) column_name: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EnumType {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) values: Vec<EnumValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EnumValue {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "2")]
    pub(super) number: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
pub(super) enum Label {
    Unset = 0,
    Optional = 1,
    Required = 2,
    Repeated = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
pub(super) enum Kind {
    Unset = 0,
    Double = 1,
    Float = 2,
    Int64 = 3,
    Uint64 = 4,
    Int32 = 5,
    Fixed64 = 6,
    Fixed32 = 7,
    Bool = 8,
    String = 9,
    Group = 10,
    Message = 11,
    Bytes = 12,
    Uint32 = 13,
    Enum = 14,
    Sfixed32 = 15,
    Sfixed64 = 16,
    Sint32 = 17,
    Sint64 = 18,
}

impl MessageType {
    /// Reads a serialized descriptor.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        Self::decode(bytes).map_err(|e| format!("the proto descriptor cannot be parsed: {e}"))
    }
}

impl FieldType {
    /// The column that the field is for.
    pub(super) fn column(&self) -> &str {
        self.options
            .as_ref()
            .and_then(|options| options.column_name.as_deref())
            .filter(|name| !name.is_empty())
            .unwrap_or(&self.name)
    }
}

/// The values of an enum by number.
pub(super) fn names(of: &EnumType) -> Arc<HashMap<i32, String>> {
    let mut names = HashMap::new();
    for value in &of.values {
        // Of aliases the first one is the name.
        names.entry(value.number).or_insert(value.name.clone());
    }
    Arc::new(names)
}

/// A message type and the types that it is nested in, outermost first.
#[derive(Debug, Clone)]
pub(super) struct Scope<'a>(Vec<&'a MessageType>);

/// What a type name is.
pub(super) enum Named<'a> {
    Message(Scope<'a>),
    Enum(&'a EnumType),
    /// A type of `google.protobuf`, by its name there.
    WellKnown(&'a str),
}

impl<'a> Scope<'a> {
    pub(super) fn root(message: &'a MessageType) -> Self {
        Self(vec![message])
    }

    pub(super) fn message(&self) -> &'a MessageType {
        self.0[self.0.len() - 1]
    }

    /// Finds the type that a field of this message names. A descriptor is
    /// self-contained, so the name's package, if it has one, leads nowhere and is
    /// passed over.
    pub(super) fn find(&self, type_name: &'a str) -> Option<Named<'a>> {
        let path: Vec<&str> = type_name.trim_start_matches('.').split('.').collect();
        for skipped in 0..path.len() {
            let path = &path[skipped..];
            for depth in (0..self.0.len()).rev() {
                let scope = Self(self.0[..=depth].to_vec());
                if let Some(found) = scope.below(path) {
                    return Some(found);
                }
            }
            if let Some((first, rest)) = path.split_first()
                && *first == self.0[0].name
            {
                let root = Self(vec![self.0[0]]);
                let found = if rest.is_empty() {
                    Some(Named::Message(root))
                } else {
                    root.below(rest)
                };
                if found.is_some() {
                    return found;
                }
            }
        }
        type_name
            .trim_start_matches('.')
            .strip_prefix("google.protobuf.")
            .map(Named::WellKnown)
    }

    fn below(&self, path: &[&str]) -> Option<Named<'a>> {
        let (last, parents) = path.split_last()?;
        let mut scope = self.clone();
        for parent in parents {
            let next = scope.message().nested.iter().find(|m| m.name == *parent)?;
            scope.0.push(next);
        }
        let message = scope.message();
        if let Some(found) = message.nested.iter().find(|m| m.name == *last) {
            scope.0.push(found);
            return Some(Named::Message(scope));
        }
        let found = message.enums.iter().find(|e| e.name == *last)?;
        Some(Named::Enum(found))
    }
}
