//! A table's schema in the Storage API's own message.

use crate::grpc::proto::table_field_schema::{FieldElementType, Mode as ProtoMode, Type};
use crate::grpc::proto::{TableFieldSchema, TableSchema as ProtoSchema};
use crate::schema::{Field, FieldType, Mode, TableSchema};

/// `schema` as CreateWriteStream and GetWriteStream answer it.
pub(super) fn table_schema(schema: &TableSchema) -> ProtoSchema {
    ProtoSchema {
        fields: schema.fields.iter().map(field).collect(),
    }
}

fn field(field_: &Field) -> TableFieldSchema {
    TableFieldSchema {
        name: field_.name.clone(),
        r#type: proto_type(&field_.field_type).into(),
        mode: match field_.mode() {
            Mode::Nullable => ProtoMode::Nullable,
            Mode::Required => ProtoMode::Required,
            Mode::Repeated => ProtoMode::Repeated,
        }
        .into(),
        fields: field_.fields().iter().map(field).collect(),
        description: field_.description.clone().unwrap_or_default(),
        max_length: field_.max_length.unwrap_or_default(),
        precision: field_.precision.unwrap_or_default(),
        scale: field_.scale.unwrap_or_default(),
        default_value_expression: field_.default_value_expression.clone().unwrap_or_default(),
        timestamp_precision: field_.timestamp_precision,
        range_element_type: match &field_.field_type {
            FieldType::Range(element) => Some(FieldElementType {
                r#type: proto_type(&element.field_type()).into(),
            }),
            _ => None,
        },
    }
}

fn proto_type(field_type: &FieldType) -> Type {
    match field_type {
        FieldType::Int64 => Type::Int64,
        FieldType::Float64 => Type::Double,
        FieldType::Bool => Type::Bool,
        FieldType::String => Type::String,
        FieldType::Bytes => Type::Bytes,
        FieldType::Numeric => Type::Numeric,
        FieldType::Bignumeric => Type::Bignumeric,
        FieldType::Date => Type::Date,
        FieldType::Time => Type::Time,
        FieldType::Datetime => Type::Datetime,
        FieldType::Timestamp => Type::Timestamp,
        FieldType::Geography => Type::Geography,
        FieldType::Json => Type::Json,
        FieldType::Interval => Type::Interval,
        FieldType::Range(_) => Type::Range,
        FieldType::Struct(_) => Type::Struct,
    }
}
