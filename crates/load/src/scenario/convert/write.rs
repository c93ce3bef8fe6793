//! The TOML of a scenario. Texts are written as JSON writes them, which TOML reads.

use super::{Draft, DraftBody, DraftPart, DraftStep};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The whole file. Templates would be read where recorded texts have `{{`: a note says so.
pub(super) fn toml(name: &str, draft: &mut Draft) -> String {
    let mut text = format!("name = {}\n", quoted(name));
    // Writing to a string cannot fail, here and below.
    if let Some(base) = &draft.base {
        let _ = writeln!(text, "base = {}", quoted(base));
    }
    let common = take_common_fields(draft);
    table(&mut text, "headers", common.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    table(&mut text, "variables", draft.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    for flow in &draft.flows {
        let _ = write!(text, "\n[[scenario]]\nname = {}\n", quoted(&flow.name));
        flow.steps.iter().for_each(|step| put_step(&mut text, step));
    }
    text
}

/// Takes out the fields that all steps have with the same value.
fn take_common_fields(draft: &mut Draft) -> BTreeMap<String, String> {
    let count = draft.flows.iter().map(|flow| flow.steps.len()).sum::<usize>();
    let steps = || draft.flows.iter().flat_map(|flow| &flow.steps);
    let Some(first) = steps().next().filter(|_| count > 1) else { return BTreeMap::new() };
    let is_common = |(name, value): &&(String, String)| {
        let has = |step: &DraftStep| {
            let mut of_name = step.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
            of_name.next().is_some_and(|(_, other)| other == value) && of_name.next().is_none()
        };
        steps().all(has)
    };
    let common: BTreeMap<String, String> = first.fields.iter().filter(is_common).cloned().collect();
    for step in draft.flows.iter_mut().flat_map(|flow| &mut flow.steps) {
        step.fields.retain(|(name, _)| !common.keys().any(|known| known.eq_ignore_ascii_case(name)));
    }
    common
}

fn put_step(text: &mut String, step: &DraftStep) {
    let _ = write!(text, "\n[[scenario.step]]\nname = {}\n", quoted(&step.name));
    let default = if step.body == DraftBody::None { "GET" } else { "POST" };
    if step.method != default {
        let _ = writeln!(text, "method = {}", quoted(&step.method));
    }
    let _ = writeln!(text, "url = {}", quoted(&step.url));
    let fields: BTreeMap<&str, &str> =
        step.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    if !fields.is_empty() {
        let pairs: Vec<String> =
            fields.iter().map(|(name, value)| format!("{} = {}", key(name), quoted(value))).collect();
        let _ = writeln!(text, "headers = {{ {} }}", pairs.join(", "));
    }
    match &step.body {
        DraftBody::None => {}
        DraftBody::Text(body) => {
            let _ = writeln!(text, "body = {}", quoted(body));
        }
        DraftBody::Json(value) => {
            let _ = writeln!(text, "json = {}", value_of(value));
        }
        DraftBody::Form(fields) => {
            let pairs: Vec<String> =
                fields.iter().map(|(name, value)| format!("{} = {}", key(name), quoted(value))).collect();
            let _ = writeln!(text, "form = {{ {} }}", pairs.join(", "));
        }
        DraftBody::File(path) => {
            let _ = writeln!(text, "file = {}", quoted(path));
        }
        DraftBody::Multipart(parts) => {
            let parts: Vec<String> = parts.iter().map(part).collect();
            let _ = writeln!(text, "multipart = [{}]", parts.join(", "));
        }
    }
    if step.think_ms > 0 {
        let _ = writeln!(text, "think = \"{}ms\"", step.think_ms);
    }
    if let Some(status) = &step.status {
        let _ = writeln!(text, "check = [{{ status = {status} }}]");
    }
}

fn part(part: &DraftPart) -> String {
    let DraftPart { name, text, file, filename, content_type } = part;
    let keys = [("text", text), ("file", file), ("filename", filename), ("content_type", content_type)];
    let mut pairs = vec![format!("name = {}", quoted(name))];
    pairs.extend(keys.iter().filter_map(|(key, value)| Some(format!("{key} = {}", quoted(value.as_ref()?)))));
    format!("{{ {} }}", pairs.join(", "))
}

fn table<'a>(text: &mut String, name: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
    let lines: String = pairs.fold(String::new(), |mut lines, (name, value)| {
        let _ = writeln!(lines, "{} = {}", key(name), quoted(value));
        lines
    });
    if !lines.is_empty() {
        let _ = write!(text, "\n[{name}]\n{lines}");
    }
}

/// A value of JSON as an inline value of TOML. TOML has no null: it is left out of objects, and an empty text in arrays.
fn value_of(value: &Value) -> String {
    match value {
        Value::Null => "\"\"".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) if number.is_u64() && number.as_i64().is_none() => {
            format!("{:.1}", number.as_f64().unwrap_or(0.0))
        }
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(value_of).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let pairs: Vec<String> = fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| format!("{} = {}", key(name), value_of(value)))
                .collect();
            if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
        }
    }
}

fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_bare { name.to_owned() } else { quoted(name) }
}

/// A basic string. JSON escapes the same characters but one.
fn quoted(text: &str) -> String {
    let text = serde_json::to_string(text).expect("a text is always JSON");
    text.replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn written_scenario_survives_a_round_trip() {
        for text in ["", "a\"b\\c", "line\nend\r\t", "\u{1}\u{7f}\u{2028}ü\u{1f600}"] {
            let read: toml::Table = format!("{} = {}", key(text), quoted(text)).parse().unwrap();
            assert_eq!(read[text].as_str(), Some(text));
        }
        let value = json!({"a": [1, -2.5, true, "x", {"b c": {}}], "gone": null});
        let read: toml::Table = format!("v = {}", value_of(&value)).parse().unwrap();
        assert_eq!(serde_json::to_value(&read["v"]).unwrap(), json!({"a": [1, -2.5, true, "x", {"b c": {}}]}));
    }
}
