//! Which type a file's decimal becomes.

use super::FormatOptions;
use crate::error::{Result, ServiceError};
use crate::schema::FieldType;

/// Types that decimals may become, narrowest first.
#[derive(Debug, Clone)]
pub(super) struct DecimalTargets(Vec<FieldType>);

impl DecimalTargets {
    /// Reads `decimalTargetTypes`; NUMERIC when nothing is said.
    pub(super) fn read(options: &FormatOptions) -> Result<Self> {
        let given = options.decimal_target_types.as_deref().unwrap_or_default();
        let mut types = Vec::new();
        for (name, field_type) in [
            ("NUMERIC", FieldType::Numeric),
            ("BIGNUMERIC", FieldType::Bignumeric),
            ("STRING", FieldType::String),
        ] {
            if given.iter().any(|g| g.eq_ignore_ascii_case(name)) {
                types.push(field_type);
            }
        }
        let unknown = given.iter().find(|g| {
            ![
                "NUMERIC",
                "BIGNUMERIC",
                "STRING",
                "DECIMAL_TARGET_TYPE_UNSPECIFIED",
            ]
            .contains(&g.to_ascii_uppercase().as_str())
        });
        if let Some(unknown) = unknown {
            return Err(ServiceError::invalid(format!(
                "Invalid value for decimalTargetTypes: {unknown} is not a valid value"
            )));
        }
        if types.is_empty() {
            types.push(FieldType::Numeric);
        }
        Ok(Self(types))
    }

    /// The first type that holds every decimal of this precision and scale, or the
    /// widest that is allowed: then a value that does not fit is an error.
    pub(super) fn pick(&self, precision: usize, scale: usize) -> FieldType {
        let integer = precision.saturating_sub(scale);
        let fits = |t: &FieldType| match t {
            FieldType::Numeric => scale <= 9 && integer <= 29,
            FieldType::Bignumeric => scale <= 38 && integer <= 38,
            _ => true,
        };
        self.0
            .iter()
            .find(|t| fits(t))
            .or(self.0.last())
            .cloned()
            .unwrap_or(FieldType::Numeric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(names: &[&str]) -> DecimalTargets {
        let options = FormatOptions {
            decimal_target_types: Some(names.iter().map(ToString::to_string).collect()),
            ..FormatOptions::default()
        };
        DecimalTargets::read(&options).unwrap()
    }

    #[test]
    fn the_narrowest_type_that_fits_is_picked() {
        let all = targets(&["STRING", "NUMERIC", "BIGNUMERIC"]);
        assert_eq!(all.pick(38, 9), FieldType::Numeric);
        assert_eq!(all.pick(38, 10), FieldType::Bignumeric);
        assert_eq!(all.pick(39, 9), FieldType::Bignumeric);
        assert_eq!(all.pick(76, 38), FieldType::Bignumeric);
        assert_eq!(all.pick(77, 39), FieldType::String);
        assert_eq!(targets(&[]).pick(76, 38), FieldType::Numeric);
        assert_eq!(targets(&["BIGNUMERIC"]).pick(5, 2), FieldType::Bignumeric);
        let unknown = FormatOptions {
            decimal_target_types: Some(vec!["FLOAT".into()]),
            ..FormatOptions::default()
        };
        assert!(DecimalTargets::read(&unknown).is_err());
    }
}
