//! The description of protobuf rows.
//!
//! A descriptor of our own, because `prost_types::DescriptorProto` has no room
//! for the annotation that names columns which no protobuf field can be named
//! after.

use bytes::Bytes;
use prost::Message as _;

use super::plan::{Column, Value};

/// A `google.protobuf.DescriptorProto`, as far as it is used.
#[derive(Clone, PartialEq, prost::Message)]
struct MessageType {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<FieldType>,
    #[prost(message, repeated, tag = "3")]
    nested: Vec<MessageType>,
}

/// A `google.protobuf.FieldDescriptorProto`, as far as it is used.
#[derive(Clone, PartialEq, prost::Message)]
struct FieldType {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(int32, optional, tag = "3")]
    number: Option<i32>,
    #[prost(enumeration = "Label", optional, tag = "4")]
    label: Option<i32>,
    #[prost(enumeration = "Kind", optional, tag = "5")]
    kind: Option<i32>,
    #[prost(string, optional, tag = "6")]
    type_name: Option<String>,
    #[prost(message, optional, tag = "8")]
    options: Option<FieldOptions>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FieldOptions {
    /// The extension `google.cloud.bigquery.storage.v1.column_name`.
    #[prost(string, optional, tag = "454943157")]
    column_name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
enum Label {
    Unset = 0,
    Optional = 1,
    Repeated = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
enum Kind {
    Unset = 0,
    Double = 1,
    Int64 = 3,
    Int32 = 5,
    Bool = 8,
    String = 9,
    Message = 11,
    Bytes = 12,
}

/// The number of the field of the column at `position`. BigQuery's tables have
/// 10,000 columns at most, so that the numbers which protobuf keeps to itself,
/// from 19,000 on, are not reached.
pub(super) fn number(position: usize) -> u32 {
    u32::try_from(position + 1).expect("a table has at most 10,000 columns")
}

/// The serialized `DescriptorProto` of rows of these columns.
pub(super) fn descriptor(columns: &[Column]) -> Bytes {
    message("Row".to_string(), columns).encode_to_vec().into()
}

fn message(name: String, columns: &[Column]) -> MessageType {
    // Names of fields and of nested types share one space, in which BigQuery's
    // names differ by more than case already.
    let mut used: Vec<String> = columns.iter().map(|c| c.name.to_lowercase()).collect();
    let mut free = |wanted: String| {
        let mut name = wanted;
        while used.contains(&name.to_lowercase()) {
            name.push('_');
        }
        used.push(name.to_lowercase());
        name
    };
    let mut fields = Vec::with_capacity(columns.len());
    let mut nested = Vec::new();
    for (position, column) in columns.iter().enumerate() {
        let number = number(position);
        let (name, options) = if is_identifier(&column.name) {
            (column.name.clone(), None)
        } else {
            let column_name = Some(column.name.clone());
            (
                free(format!("col_{number}")),
                Some(FieldOptions { column_name }),
            )
        };
        let (kind, type_name) = match &column.value {
            Value::Struct(children) | Value::Range(children) => {
                let type_name = free(format!("Type_{number}"));
                nested.push(message(type_name.clone(), children));
                (Kind::Message, Some(type_name))
            }
            Value::Int64 | Value::Time | Value::DateTime | Value::Timestamp => (Kind::Int64, None),
            Value::Float64 => (Kind::Double, None),
            Value::Bool => (Kind::Bool, None),
            Value::Date => (Kind::Int32, None),
            Value::Bytes | Value::Decimal(_) => (Kind::Bytes, None),
            Value::Text | Value::JsonText | Value::JsonDocument | Value::Interval => {
                (Kind::String, None)
            }
        };
        let label = if column.repeated {
            Label::Repeated
        } else {
            Label::Optional
        };
        fields.push(FieldType {
            name: Some(name),
            number: i32::try_from(number).ok(),
            label: Some(label.into()),
            kind: Some(kind.into()),
            type_name,
            options,
        });
    }
    MessageType {
        name: Some(name),
        fields,
        nested,
    }
}

/// Whether protobuf takes the name for a field.
fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
