//! From a descriptor and a table's columns to what decodes rows.

use std::collections::HashSet;

use super::super::plan::Mismatch;
use super::column::{Body, Children, Column};
use super::convert::{Leaf, Source};
use super::descriptor::{self, FieldType as ProtoField, Kind, Label, MessageType, Named, Scope};
use crate::schema::{Field, FieldType, Mode, TableSchema};

/// What is wrong with a writer schema, as far as it was looked at.
#[derive(Debug, Default)]
struct Findings {
    extra: Vec<String>,
    incompatible: Vec<String>,
}

/// The columns of `schema`, filled from messages of the type `message`.
pub(super) fn compile(message: &MessageType, schema: &TableSchema) -> Result<Children, Mismatch> {
    let mut findings = Findings::default();
    let scope = Scope::root(message);
    let columns = children(&scope, &schema.fields, "", &mut findings)?;
    if !findings.extra.is_empty() {
        return Err(Mismatch::Extra(findings.extra));
    }
    if !findings.incompatible.is_empty() {
        return Err(Mismatch::Incompatible(findings.incompatible));
    }
    Ok(columns)
}

fn children(
    scope: &Scope<'_>,
    fields: &[Field],
    path: &str,
    findings: &mut Findings,
) -> Result<Children, Mismatch> {
    let mut columns: Vec<Option<Column>> = fields.iter().map(|_| None).collect();
    let mut numbers = Vec::new();
    let mut seen = HashSet::new();
    for proto in &scope.message().fields {
        let name = joined(path, proto.column());
        let number = u32::try_from(proto.number)
            .ok()
            .filter(|n| (1..1 << 29).contains(n) && seen.insert(*n))
            .ok_or_else(|| {
                Mismatch::Invalid(format!(
                    "the proto descriptor gives field {name} the number {}",
                    proto.number
                ))
            })?;
        let column = fields
            .iter()
            .position(|f| f.name.eq_ignore_ascii_case(proto.column()));
        let Some(at) = column else {
            findings.extra.push(name);
            continue;
        };
        let name = joined(path, &fields[at].name);
        if columns[at].is_some() {
            return Err(Mismatch::Invalid(format!(
                "the proto descriptor has several fields for the column {name}"
            )));
        }
        match column_of(scope, proto, &fields[at], &name, findings)? {
            Some(column) => {
                columns[at] = Some(column);
                numbers.push((number, at));
            }
            None => {
                columns[at] = Some(Column::absent(&fields[at], name.clone()));
                findings.incompatible.push(name);
            }
        }
    }
    let columns = fields
        .iter()
        .zip(columns)
        .map(|(field, column)| {
            column.unwrap_or_else(|| Column::absent(field, joined(path, &field.name)))
        })
        .collect();
    Ok(Children::new(columns, numbers))
}

/// What fills the column `field` from `proto`; `None` when nothing does.
fn column_of(
    scope: &Scope<'_>,
    proto: &ProtoField,
    field: &Field,
    path: &str,
    findings: &mut Findings,
) -> Result<Option<Column>, Mismatch> {
    let label = Label::try_from(proto.label).unwrap_or(Label::Unset);
    if (label == Label::Repeated) != (field.mode() == Mode::Repeated) {
        return Ok(None);
    }
    let element = field.element();
    let Some(body) = body_of(scope, proto, &element, path, findings)? else {
        return Ok(None);
    };
    let mut column = if field.mode() == Mode::Repeated {
        let inner = Column::new(&element, path.to_string(), body);
        Column::new(field, path.to_string(), Body::list(inner))
    } else {
        Column::new(field, path.to_string(), body)
    };
    if label == Label::Required {
        column.require();
    }
    Ok(Some(column))
}

fn body_of(
    scope: &Scope<'_>,
    proto: &ProtoField,
    field: &Field,
    path: &str,
    findings: &mut Findings,
) -> Result<Option<Body>, Mismatch> {
    let unresolved = || {
        Mismatch::Invalid(format!(
            "the proto descriptor does not define the type {} of field {path}",
            proto.type_name
        ))
    };
    let kind = proto
        .kind
        .and_then(|kind| Kind::try_from(kind).ok())
        .unwrap_or(Kind::Unset);
    let source = match kind {
        Kind::Double => Source::Double,
        Kind::Float => Source::Float,
        Kind::Int64 => Source::Int64,
        Kind::Uint64 => Source::Uint64,
        Kind::Int32 => Source::Int32,
        Kind::Uint32 => Source::Uint32,
        Kind::Bool => Source::Bool,
        Kind::String => Source::Text,
        Kind::Bytes => Source::Bytes,
        Kind::Group => {
            return Err(Mismatch::Invalid(format!(
                "field {path} is a group, which BigQuery does not take"
            )));
        }
        // No column takes these.
        Kind::Fixed64
        | Kind::Fixed32
        | Kind::Sfixed32
        | Kind::Sfixed64
        | Kind::Sint32
        | Kind::Sint64 => return Ok(None),
        Kind::Enum | Kind::Message | Kind::Unset => {
            match (scope.find(&proto.type_name).ok_or_else(unresolved)?, kind) {
                (Named::Enum(found), Kind::Enum | Kind::Unset) => {
                    Source::Enum(descriptor::names(found))
                }
                (Named::WellKnown(name), Kind::Message | Kind::Unset) => {
                    match Source::well_known(name) {
                        Some(source) => source,
                        None => return Err(unresolved()),
                    }
                }
                (Named::Message(inner), Kind::Message | Kind::Unset) => {
                    return message(&inner, field, path, findings);
                }
                _ => return Err(unresolved()),
            }
        }
    };
    Ok(source
        .fits(&field.field_type)
        .then(|| Body::Leaf(Box::new(Leaf::new(field, source)))))
}

/// A message in a column: a STRUCT, a RANGE, or a copy of a type of
/// `google.protobuf`, which a self-contained descriptor has under a name of its own.
fn message(
    inner: &Scope<'_>,
    field: &Field,
    path: &str,
    findings: &mut Findings,
) -> Result<Option<Body>, Mismatch> {
    match &field.field_type {
        FieldType::Struct(fields) => {
            children(inner, fields, path, findings).map(|children| Some(Body::record(children)))
        }
        FieldType::Range(element) => {
            let bounds = [
                Field::new("start", element.field_type()),
                Field::new("end", element.field_type()),
            ];
            children(inner, &bounds, path, findings).map(|children| Some(Body::range(children)))
        }
        other => {
            let name = &inner.message().name;
            let name = name.strip_prefix("google_protobuf_").unwrap_or(name);
            Ok(Source::well_known(name)
                .filter(|source| source.fits(other))
                .map(|source| Body::Leaf(Box::new(Leaf::new(field, source)))))
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_string()
    } else {
        format!("{path}.{name}")
    }
}
