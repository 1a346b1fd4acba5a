//! Options as they were said.

use std::collections::BTreeMap;
use std::fmt;

use super::registry::{self, Display, OptionRow};
use crate::error::{Error, Result};

/// Options as they were said: known names in their canonical spelling, values
/// written as their option wants them, not yet checked against each other.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RawOptions {
    values: BTreeMap<&'static str, String>,
}

impl RawOptions {
    /// No options.
    pub fn new() -> Self {
        RawOptions::default()
    }

    /// Options from pairs of name and value, as in `OPTIONS (…)`.
    ///
    /// # Errors
    /// An unknown name, a value its option cannot have, or one option said
    /// twice (in two spellings).
    pub fn from_pairs<N: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self> {
        let mut options = RawOptions::new();
        for (name, value) in pairs {
            let row = registry::find(name.as_ref())?;
            if options.values.contains_key(row.name) {
                return Err(Error::configuration(format!(
                    "option '{}' is said twice: keep one of the two",
                    row.name
                )));
            }
            options.set(name.as_ref(), value.as_ref())?;
        }
        Ok(options)
    }

    /// Says an option, in place of what was said of it before.
    ///
    /// # Errors
    /// An unknown name, or a value its option cannot have.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let row = registry::find(name)?;
        let value = value.trim();
        row.check(value)?;
        self.values.insert(row.name, value.to_string());
        Ok(())
    }

    /// Forgets what was said of an option.
    ///
    /// # Errors
    /// An unknown name.
    pub fn unset(&mut self, name: &str) -> Result<()> {
        self.values.remove(registry::find(name)?.name);
        Ok(())
    }

    /// These options where something was said, and `defaults` where not.
    #[must_use]
    pub fn or_defaults(&self, defaults: &RawOptions) -> RawOptions {
        let mut values = defaults.values.clone();
        values.extend(self.values.clone());
        RawOptions { values }
    }

    /// What was said of an option.
    pub fn get(&self, row: &OptionRow) -> Option<&str> {
        self.values.get(row.name).map(String::as_str)
    }

    /// What was said, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
    }
}

/// Values that say where credentials are do not show.
impl fmt::Debug for RawOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (name, value) in self.iter() {
            match registry::find(name).map(|row| row.display) {
                Ok(Display::Shown) => map.entry(&name, &value),
                Ok(Display::Hidden) | Err(_) => map.entry(&name, &"(set)"),
            };
        }
        map.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::registry::{CREDENTIALS_KEY_FILE, PROJECT, SCAN_IDLE_TIMEOUT};
    use super::*;

    #[test]
    fn later_words_replace_earlier_ones() {
        let mut options = RawOptions::new();
        options.set("scan.idle-timeout", "1 s").unwrap();
        options.set("SCAN.IDLE_TIMEOUT", " 2 s ").unwrap();
        assert_eq!(options.get(&SCAN_IDLE_TIMEOUT), Some("2 s"));
        options.unset("format.scan.idle_timeout").unwrap();
        assert_eq!(options, RawOptions::new());
    }

    #[test]
    fn saying_an_option_twice_in_one_statement_is_an_error() {
        let error =
            RawOptions::from_pairs([("project", "a"), ("format.project_id", "b")]).unwrap_err();
        assert!(error.message().contains("'project'"), "{error}");
        assert!(error.message().contains("twice"), "{error}");
    }

    #[test]
    fn a_table_speaks_louder_than_the_session() {
        let session = RawOptions::from_pairs([("project", "a"), ("location", "EU")]).unwrap();
        let table = RawOptions::from_pairs([("project", "b")]).unwrap();
        let both = table.or_defaults(&session);
        assert_eq!(both.get(&PROJECT), Some("b"));
        assert_eq!(both.iter().count(), 2);
    }

    #[test]
    fn a_path_said_of_the_wrong_option_does_not_show() {
        let error = RawOptions::from_pairs([("credentials", "/home/me/secret.json")]).unwrap_err();
        assert!(error.message().contains("'credentials'"), "{error}");
        assert!(error.message().contains("key_file"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn paths_of_key_files_do_not_show() {
        let options =
            RawOptions::from_pairs([("key_file", "/home/me/secret.json"), ("project", "p")])
                .unwrap();
        assert_eq!(
            options.get(&CREDENTIALS_KEY_FILE),
            Some("/home/me/secret.json")
        );
        let shown = format!("{options:?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(
            shown.contains("credentials.key_file") && shown.contains("\"p\""),
            "{shown}"
        );
    }
}
