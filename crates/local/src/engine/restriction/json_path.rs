//! `$.a.b[0]`: the paths that JSON_VALUE takes.

use serde_json::Value;

#[derive(Debug, PartialEq)]
enum Step {
    Member(String),
    Element(usize),
}

/// A parsed path.
#[derive(Debug)]
pub(super) struct JsonPath(Vec<Step>);

impl JsonPath {
    /// Reads `$`, `.name`, `."quoted"`, `['quoted']` and `[0]`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("Invalid JSONPath: {text}");
        let mut rest = text.strip_prefix('$').ok_or_else(invalid)?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(quoted) = rest.strip_prefix(".\"") {
                let (name, after) = quoted.split_once('"').ok_or_else(invalid)?;
                steps.push(Step::Member(name.to_string()));
                rest = after;
            } else if let Some(name) = rest.strip_prefix('.') {
                let end = name.find(['.', '[']).unwrap_or(name.len());
                if end == 0 {
                    return Err(invalid());
                }
                steps.push(Step::Member(name[..end].to_string()));
                rest = &name[end..];
            } else if let Some(inner) = rest.strip_prefix('[') {
                let quote = inner.chars().next().filter(|c| matches!(c, '\'' | '"'));
                if let Some(quote) = quote {
                    let (name, after) = inner[1..].split_once(quote).ok_or_else(invalid)?;
                    steps.push(Step::Member(name.to_string()));
                    rest = after.strip_prefix(']').ok_or_else(invalid)?;
                } else {
                    let (index, after) = inner.split_once(']').ok_or_else(invalid)?;
                    steps.push(Step::Element(index.parse().map_err(|_| invalid())?));
                    rest = after;
                }
            } else {
                return Err(invalid());
            }
        }
        Ok(Self(steps))
    }

    /// The scalar at this path as text: NULL for JSON null, objects and arrays,
    /// and for text that is no JSON.
    pub(super) fn scalar(&self, json: &str) -> Option<String> {
        let root: Value = serde_json::from_str(json).ok()?;
        let mut at = &root;
        for step in &self.0 {
            at = match step {
                Step::Member(name) => at.as_object()?.get(name)?,
                Step::Element(index) => at.as_array()?.get(*index)?,
            };
        }
        match at {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars() {
        let json = r#"{"a": {"b": [1, "x", null, {"c.d": true}]}}"#;
        let at = |path: &str| JsonPath::parse(path).unwrap().scalar(json);
        assert_eq!(at("$.a.b[0]").as_deref(), Some("1"));
        assert_eq!(at("$.a['b'][1]").as_deref(), Some("x"));
        assert_eq!(at("$.a.b[2]"), None);
        assert_eq!(at("$.a.b[3].\"c.d\"").as_deref(), Some("true"));
        assert_eq!(at("$.a"), None);
        assert_eq!(at("$.z"), None);
        for path in ["a", "$a", "$.", "$[", "$[x]", "$['a'"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
