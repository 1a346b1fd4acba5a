//! Merge semantics of PATCH.

use serde_json::{Map, Value};

/// Lays `patch` over `target`: objects merge member by member, `null` removes,
/// everything else replaces.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(object) = target else {
        return;
    };
    for (key, change) in changes {
        if change.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn merges() {
        let mut target = json!({"a": 1, "labels": {"x": "1", "y": "2"}, "list": [1, 2]});
        merge(
            &mut target,
            &json!({"labels": {"x": null, "z": "3"}, "list": [3], "b": {"c": null, "d": 1}}),
        );
        assert_eq!(
            target,
            json!({"a": 1, "labels": {"y": "2", "z": "3"}, "list": [3], "b": {"d": 1}})
        );
    }
}
