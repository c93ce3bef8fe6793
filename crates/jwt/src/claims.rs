//! Values inside the JSON of a token, as text for variables.

use serde_json::Value;

/// The value below these names, as text: strings as they are, numbers and booleans as JSON writes them, arrays as their
/// elements with commas between them, objects as JSON. `None`: there is none, or it is `null`.
pub fn text_at<'a>(root: &Value, path: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut value = root;
    for name in path {
        value = value.as_object()?.get(name)?;
    }
    match value {
        Value::Null => None,
        Value::Array(elements) => Some(elements.iter().map(text).collect::<Vec<_>>().join(",")),
        other => Some(text(other)),
    }
}

/// The value of a name at the top, first of exactly this name, then without regard to case.
pub fn text_of(root: &Value, name: &str) -> Option<String> {
    let object = root.as_object()?;
    let exact = object.get_key_value(name).map(|(known, _)| known);
    let known = exact.or_else(|| object.keys().find(|known| known.eq_ignore_ascii_case(name)))?;
    text_at(root, [known.as_str()])
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_become_text() {
        let root = json!({
            "sub": "me", "n": 7, "yes": true, "no": null, "list": ["a", 1, {"b": 2}], "in": {"side": "x", "a.b": "dot"}
        });
        let at = |path: &[&str]| text_at(&root, path.iter().copied());
        assert_eq!(at(&["sub"]).as_deref(), Some("me"));
        assert_eq!(at(&["n"]).as_deref(), Some("7"));
        assert_eq!(at(&["yes"]).as_deref(), Some("true"));
        assert_eq!(at(&["no"]), None);
        assert_eq!(at(&["list"]).as_deref(), Some("a,1,{\"b\":2}"));
        assert_eq!(at(&["in", "side"]).as_deref(), Some("x"));
        assert_eq!(at(&["in", "a.b"]).as_deref(), Some("dot"));
        assert_eq!(at(&["in"]).as_deref(), Some("{\"a.b\":\"dot\",\"side\":\"x\"}"));
        assert_eq!((at(&["sub", "x"]), at(&["none"])), (None, None));
        let cased = json!({ "userId": "a", "userid": "b", "ID": 3 });
        assert_eq!(text_of(&cased, "userid").as_deref(), Some("b"));
        assert_eq!(
            (text_of(&cased, "id").as_deref(), text_of(&cased, "i"), text_of(&json!([]), "i")),
            (Some("3"), None, None)
        );
    }
}
