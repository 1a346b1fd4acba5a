//! What BigQuery makes of a Parquet schema (section 5.5 of the service reference).

use arrow::datatypes::{DataType, Field as ArrowField};
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::schema::types::Type;

use super::convert::{FileField, Leaf, Shape};
use super::decimal::DecimalTargets;
use super::{FormatOptions, reading};
use crate::error::{Result, ServiceError};
use crate::schema::{Field, FieldType, Mode};

/// How Parquet's annotations are taken.
#[derive(Debug)]
pub(super) struct Rules {
    enum_as_string: bool,
    list_inference: bool,
    map_as_array: bool,
    decimals: DecimalTargets,
}

/// BigQuery's limit of nested records.
const MAX_DEPTH: usize = 15;

impl Rules {
    pub(super) fn read(options: &FormatOptions) -> Result<Self> {
        let parquet = options.parquet_options.clone().unwrap_or_default();
        let map_as_array = match parquet.map_target_type.as_deref() {
            None | Some("" | "MAP_TARGET_TYPE_UNSPECIFIED") => false,
            Some("ARRAY_OF_STRUCT") => true,
            Some(other) => {
                return Err(ServiceError::invalid(format!(
                    "Invalid value for parquetOptions.mapTargetType: {other} is not a valid value"
                )));
            }
        };
        Ok(Self {
            enum_as_string: parquet.enum_as_string == Some(true),
            list_inference: parquet.enable_list_inference == Some(true),
            map_as_array,
            decimals: DecimalTargets::read(options)?,
        })
    }

    /// The fields of a group, next to the Arrow fields that the reader gives.
    pub(super) fn fields<'a>(
        &self,
        group: &Type,
        arrow: impl IntoIterator<Item = &'a ArrowField>,
        depth: usize,
    ) -> Result<Vec<FileField>> {
        if depth > MAX_DEPTH {
            return Err(reading(format_args!(
                "Records are nested deeper than {MAX_DEPTH} levels"
            )));
        }
        group
            .get_fields()
            .iter()
            .zip(arrow)
            .map(|(parquet, arrow)| self.field(parquet, arrow, depth))
            .collect()
    }

    fn field(&self, parquet: &Type, arrow: &ArrowField, depth: usize) -> Result<FileField> {
        let repetition = repetition(parquet);
        if repetition == Repetition::REPEATED {
            // A repeated field outside a list is an ARRAY of itself.
            let DataType::List(item) = arrow.data_type() else {
                return Err(unreadable(parquet, arrow));
            };
            let element = self.single(parquet, item, depth)?;
            return Ok(array_of(parquet.name(), element));
        }
        let mut field = self.single(parquet, arrow, depth)?;
        if repetition == Repetition::REQUIRED && field.field.mode() == Mode::Nullable {
            field.field.mode = Some(Mode::Required);
        }
        Ok(field)
    }

    fn single(&self, parquet: &Type, arrow: &ArrowField, depth: usize) -> Result<FileField> {
        if parquet.is_primitive() {
            return self.primitive(parquet, arrow);
        }
        match arrow.data_type() {
            DataType::Struct(children) => {
                let children =
                    self.fields(parquet, children.iter().map(AsRef::as_ref), depth + 1)?;
                Ok(record_of(parquet.name(), children))
            }
            DataType::List(item) => self.list(parquet, item, depth),
            DataType::Map(entries, _) => self.map(parquet, entries, depth),
            _ => Err(unreadable(parquet, arrow)),
        }
    }

    /// A group that is annotated as a list: the Arrow reader has looked through its
    /// inner groups, which BigQuery shows unless lists are inferred.
    fn list(&self, parquet: &Type, item: &ArrowField, depth: usize) -> Result<FileField> {
        let [inner] = parquet.get_fields() else {
            return Err(reading(format_args!(
                "The list '{}' does not have exactly one child",
                parquet.name()
            )));
        };
        let three_levels = inner.is_group()
            && inner.get_fields().len() == 1
            && inner.get_fields()[0].name() == item.name();
        let element_type = if three_levels {
            inner.get_fields()[0].as_ref()
        } else {
            inner.as_ref()
        };
        let element = if three_levels || element_type.is_primitive() {
            self.single(element_type, item, depth + 1)?
        } else {
            let DataType::Struct(children) = item.data_type() else {
                return Err(unreadable(parquet, item));
            };
            let children = children.iter().map(AsRef::as_ref);
            record_of(
                inner.name(),
                self.fields(element_type, children, depth + 1)?,
            )
        };
        if self.list_inference {
            if matches!(element.shape, Shape::List(_) | Shape::Map(_)) {
                return Err(nested(parquet.name()));
            }
            return Ok(array_of(parquet.name(), element));
        }
        // Seen as it is stored: a record with a repeated field, whose elements are
        // records with one field when the list has three levels.
        let element = if three_levels {
            boxed(inner.name(), element)
        } else {
            element
        };
        let repeated = array_of(inner.name(), element);
        Ok(wrapped(parquet.name(), repeated))
    }

    fn map(&self, parquet: &Type, entries: &ArrowField, depth: usize) -> Result<FileField> {
        let DataType::Struct(children) = entries.data_type() else {
            return Err(unreadable(parquet, entries));
        };
        let [group] = parquet.get_fields() else {
            return Err(unreadable(parquet, entries));
        };
        let children = children.iter().map(AsRef::as_ref);
        let mut fields = self.fields(group, children, depth + 1)?.into_iter();
        let (Some(key), Some(value)) = (fields.next(), fields.next()) else {
            return Err(unreadable(parquet, entries));
        };
        let name = if self.map_as_array {
            parquet.name()
        } else {
            group.name()
        };
        let map = map_of(name, key, value);
        Ok(if self.map_as_array {
            map
        } else {
            wrapped(parquet.name(), map)
        })
    }

    fn primitive(&self, parquet: &Type, arrow: &ArrowField) -> Result<FileField> {
        let info = parquet.get_basic_info();
        let json = matches!(info.logical_type_ref(), Some(LogicalType::Json))
            || info.converted_type() == ConvertedType::JSON;
        let is_enum = matches!(info.logical_type_ref(), Some(LogicalType::Enum))
            || info.converted_type() == ConvertedType::ENUM;
        let field_type = match arrow.data_type() {
            DataType::Boolean => FieldType::Bool,
            integer if integer.is_integer() => FieldType::Int64,
            float if float.is_floating() => FieldType::Float64,
            DataType::Utf8 | DataType::LargeUtf8 if json => FieldType::Bytes,
            DataType::Utf8 | DataType::LargeUtf8 => FieldType::String,
            DataType::Binary | DataType::LargeBinary if is_enum && self.enum_as_string => {
                FieldType::String
            }
            DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => {
                FieldType::Bytes
            }
            DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => self
                .decimals
                .pick(usize::from(*p), usize::try_from(*s).unwrap_or(0)),
            DataType::Date32 => FieldType::Date,
            DataType::Time32(_) | DataType::Time64(_) => FieldType::Time,
            DataType::Timestamp(_, _) => FieldType::Timestamp,
            DataType::Null => FieldType::String,
            DataType::Interval(_) => {
                return Err(reading(format_args!(
                    "Parquet column '{}' has type INTERVAL, which cannot be loaded",
                    parquet.name()
                )));
            }
            _ => return Err(unreadable(parquet, arrow)),
        };
        let type_name = match parquet.get_physical_type() {
            Physical::BOOLEAN => "BOOLEAN",
            Physical::INT32 => "INT32",
            Physical::INT64 => "INT64",
            Physical::INT96 => "INT96",
            Physical::FLOAT => "FLOAT",
            Physical::DOUBLE => "DOUBLE",
            Physical::BYTE_ARRAY => "BYTE_ARRAY",
            Physical::FIXED_LEN_BYTE_ARRAY => "FIXED_LEN_BYTE_ARRAY",
        };
        Ok(FileField {
            name: parquet.name().to_string(),
            field: Field::new(parquet.name(), field_type).with_mode(Mode::Nullable),
            shape: Shape::Value(Leaf::Plain),
            type_name: type_name.to_string(),
        })
    }
}

fn repetition(parquet: &Type) -> Repetition {
    let info = parquet.get_basic_info();
    if info.has_repetition() {
        info.repetition()
    } else {
        Repetition::REQUIRED
    }
}

fn unreadable(parquet: &Type, arrow: &ArrowField) -> ServiceError {
    reading(format_args!(
        "Parquet column '{}' has a type that cannot be loaded ({})",
        parquet.name(),
        arrow.data_type()
    ))
}

fn nested(name: &str) -> ServiceError {
    reading(format_args!(
        "'{name}' is an array of arrays, which BigQuery does not have"
    ))
}

/// An ARRAY of `element`.
pub(super) fn array_of(name: &str, element: FileField) -> FileField {
    let mut field = element.field.clone();
    field.name = name.to_string();
    field.mode = Some(Mode::Repeated);
    FileField {
        name: name.to_string(),
        field,
        type_name: "LIST".to_string(),
        shape: Shape::List(Box::new(element)),
    }
}

/// A record of `children`.
pub(super) fn record_of(name: &str, children: Vec<FileField>) -> FileField {
    let fields = children.iter().map(|c| c.field.clone()).collect();
    FileField {
        name: name.to_string(),
        field: Field::new(name, FieldType::Struct(fields)).with_mode(Mode::Nullable),
        type_name: "GROUP".to_string(),
        shape: Shape::Record(children),
    }
}

/// A map as an ARRAY of records `key`, `value`.
pub(super) fn map_of(name: &str, mut key: FileField, mut value: FileField) -> FileField {
    key.field.name = "key".to_string();
    value.field.name = "value".to_string();
    let fields = vec![key.field.clone(), value.field.clone()];
    FileField {
        name: name.to_string(),
        field: Field::new(name, FieldType::Struct(fields)).with_mode(Mode::Repeated),
        type_name: "MAP".to_string(),
        shape: Shape::Map(Box::new((key, value))),
    }
}

/// A record `name` with the one REPEATED field `inner`.
fn wrapped(name: &str, inner: FileField) -> FileField {
    FileField {
        name: name.to_string(),
        field: Field::new(name, FieldType::Struct(vec![inner.field.clone()]))
            .with_mode(Mode::Nullable),
        type_name: "GROUP".to_string(),
        shape: Shape::Wrapped(inner.name.clone(), Box::new(inner)),
    }
}

/// A record `name` around the one field `inner`.
fn boxed(name: &str, inner: FileField) -> FileField {
    FileField {
        name: name.to_string(),
        field: Field::new(name, FieldType::Struct(vec![inner.field.clone()]))
            .with_mode(Mode::Nullable),
        type_name: "GROUP".to_string(),
        shape: Shape::Boxed(Box::new(inner)),
    }
}
