//! Session defaults: `SET bigquery.<name> = …`.

use std::any::Any;

use datafusion::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::Result as DataFusionResult;

use super::raw::RawOptions;
use super::registry::{self, Display, OptionRow, Scope};
use crate::error::{Error, Result};

/// The defaults of a session, as DataFusion's configuration holds them. An
/// empty value takes a default back.
#[derive(Debug, Clone, Default)]
pub struct BigQueryOptions {
    raw: RawOptions,
}

impl BigQueryOptions {
    /// A session whose defaults are these.
    ///
    /// # Errors
    /// An option that is about one table, or of a feature to come.
    pub fn new(raw: RawOptions) -> Result<Self> {
        for (name, _) in raw.iter() {
            of_sessions(registry::find(name)?)?;
        }
        Ok(BigQueryOptions { raw })
    }

    /// The defaults of a session; none where it has none for BigQuery.
    pub(crate) fn of(config: &ConfigOptions) -> RawOptions {
        let said = config.extensions.get::<BigQueryOptions>();
        said.map(|said| said.raw.clone()).unwrap_or_default()
    }

    /// The defaults as they were said.
    pub fn raw(&self) -> &RawOptions {
        &self.raw
    }
}

impl ConfigExtension for BigQueryOptions {
    const PREFIX: &'static str = "bigquery";
}

impl ExtensionOptions for BigQueryOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> DataFusionResult<()> {
        let row = registry::find(key)?;
        of_sessions(row)?;
        if value.trim().is_empty() {
            self.raw.unset(row.name)?;
        } else {
            self.raw.set(row.name, value)?;
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        registry::REGISTRY
            .iter()
            .filter(|row| row.scope == Scope::Session)
            .map(|row| ConfigEntry {
                key: format!("{}.{}", Self::PREFIX, row.name),
                value: self.raw.get(row).map(|value| match row.display {
                    Display::Shown => value.to_string(),
                    Display::Hidden => "(set)".to_string(),
                }),
                description: row.meaning,
            })
            .collect()
    }
}

/// Refuses an option that a session cannot have.
fn of_sessions(row: &OptionRow) -> Result<()> {
    if row.scope == Scope::Table {
        return Err(Error::configuration(format!(
            "option '{}' is about one table: say it in the OPTIONS of CREATE EXTERNAL TABLE",
            row.name
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::config::Extensions;

    fn session() -> ConfigOptions {
        let mut extensions = Extensions::new();
        extensions.insert(BigQueryOptions::default());
        ConfigOptions::new().with_extensions(extensions)
    }

    fn raw(config: &ConfigOptions) -> &RawOptions {
        config
            .extensions
            .get::<BigQueryOptions>()
            .expect("just inserted")
            .raw()
    }

    #[test]
    fn set_reaches_the_option() {
        let mut config = session();
        config.set("bigquery.billing_project", "b").unwrap();
        config.set("bigquery.scan.Idle-Timeout", "1 s").unwrap();
        assert_eq!(raw(&config).get(&registry::BILLING_PROJECT), Some("b"));
        assert_eq!(raw(&config).get(&registry::SCAN_IDLE_TIMEOUT), Some("1 s"));
        config.set("bigquery.billing_project", "").unwrap();
        assert_eq!(raw(&config).get(&registry::BILLING_PROJECT), None);
    }

    #[test]
    fn set_refuses_what_a_session_cannot_have() {
        let mut config = session();
        for (key, value, named) in [
            ("bigquery.scan.idle_time", "1 s", "scan.idle_timeout"),
            ("bigquery.scan.idle_timeout", "soon", "'soon'"),
            ("bigquery.table", "t", "OPTIONS"),
        ] {
            let error = config.set(key, value).unwrap_err();
            assert!(error.to_string().contains(named), "{key}: {error}");
        }
    }

    #[test]
    fn what_set_refuses_is_no_default_either() {
        for (name, value) in [
            ("scan.row_restriction", "month = 1"),
            ("scan.sample_percentage", "1"),
            ("dataset", "d"),
            ("table", "t"),
        ] {
            let raw = RawOptions::from_pairs([(name, value)]).unwrap();
            let error = BigQueryOptions::new(raw).unwrap_err();
            assert!(error.message().contains(&format!("'{name}'")), "{error}");
            assert!(error.message().contains("OPTIONS"), "{error}");
        }
    }

    #[test]
    fn showing_the_options_hides_where_keys_are() {
        let mut config = session();
        config
            .set("bigquery.credentials.key_file", "/home/me/secret.json")
            .unwrap();
        config.set("bigquery.location", "EU").unwrap();
        let entries = config.entries();
        let value = |key: &str| {
            entries
                .iter()
                .find(|entry| entry.key == key)
                .and_then(|entry| entry.value.clone())
        };
        assert_eq!(value("bigquery.location").as_deref(), Some("EU"));
        assert_eq!(
            value("bigquery.credentials.key_file").as_deref(),
            Some("(set)")
        );
        assert!(!format!("{config:?}").contains("secret"));
    }
}
