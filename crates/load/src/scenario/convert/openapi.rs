//! OpenAPI 3 in JSON: each operation becomes a scenario of one step, with the examples and defaults of its parameters and body.

use super::{Draft, DraftBody, DraftFlow, DraftStep, sound_url};
use serde_json::{Map, Value, json};

/// How deep schemas are followed: a schema may name itself.
const DEPTH_MAX: usize = 8;

/// The methods of operations, as the document writes them.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

pub(super) fn read(document: &Value) -> Result<Draft, String> {
    let paths = document.get("paths").and_then(Value::as_object).ok_or("the document has no paths")?;
    let server = document.pointer("/servers/0").map(server_url).unwrap_or_default();
    let mut draft = Draft::default();
    let base = if server.contains("://") {
        server.trim_end_matches('/').to_owned()
    } else {
        draft.notes.push(
            "The document names no server with a host: write the base, or give a URL on the command line.".to_owned(),
        );
        format!("http://127.0.0.1:8080{}", server.trim_end_matches('/'))
    };
    sound_url(&base)?;
    for (path, item) in paths {
        let shared = parameters(document, item);
        for method in METHODS {
            let Some(operation) = item.get(method).and_then(Value::as_object) else { continue };
            let mut all = shared.clone();
            for own in parameters(document, &Value::Object(operation.clone())) {
                all.retain(|known| (&known["name"], &known["in"]) != (&own["name"], &own["in"]));
                all.push(own);
            }
            let flow = flow(document, (method, path, &base), operation, &all, &mut draft);
            draft.flows.push(flow);
        }
    }
    if document.get("security").is_some() || document.pointer("/components/securitySchemes").is_some() {
        draft.notes.push("The document asks for credentials: add them under [headers].".to_owned());
    }
    if draft.flows.iter().any(|flow| flow.steps.iter().any(|step| !["GET", "HEAD"].contains(&step.method.as_str()))) {
        draft.notes.push("Some operations change data: delete those that a load should not do.".to_owned());
    }
    Ok(draft)
}

fn flow(
    document: &Value,
    (method, path, base): (&str, &str, &str),
    operation: &Map<String, Value>,
    parameters: &[Value],
    draft: &mut Draft,
) -> DraftFlow {
    let method = method.to_ascii_uppercase();
    let name = operation.get("operationId").and_then(Value::as_str);
    let name = name.map_or_else(|| format!("{method} {path}"), str::to_owned);
    let (mut url, mut query, mut fields) = (path.to_owned(), Vec::new(), Vec::new());
    for parameter in parameters {
        let text = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default();
        let (place, parameter_name) = (text("in"), text("name"));
        let is_required = parameter.get("required").and_then(Value::as_bool).unwrap_or(place == "path");
        if !is_required {
            continue;
        }
        let value = plain(&example_of(document, parameter));
        match place {
            "path" => {
                // A variable: a person sees which values to fill in.
                let variable = variable_name(parameter_name);
                url = url.replace(&format!("{{{parameter_name}}}"), &format!("{{{{{variable}}}}}"));
                draft.variables.entry(variable).or_insert(value);
            }
            "query" => {
                let variable = variable_name(parameter_name);
                query.push(format!("{parameter_name}={{{{{variable}}}}}"));
                draft.variables.entry(variable).or_insert(value);
            }
            "header" => fields.push((parameter_name.to_owned(), value)),
            _ => {}
        }
    }
    if !query.is_empty() {
        url = format!("{url}?{}", query.join("&"));
    }
    let body = operation.get("requestBody").map(|body| resolved(document, body)).map(|body| body_of(document, body));
    let body = match body {
        Some(Ok(body)) => body,
        Some(Err(kind)) => {
            draft.notes.push(format!("{name}: a body of {kind} is not made up; write it."));
            DraftBody::None
        }
        None => DraftBody::None,
    };
    let status = expected_status(operation);
    let step = DraftStep {
        name: name.clone(),
        method,
        url: format!("{base}{url}"),
        fields,
        body,
        status,
        ..DraftStep::default()
    };
    DraftFlow { name, steps: vec![step] }
}

/// The first status of success that the operation names.
fn expected_status(operation: &Map<String, Value>) -> Option<String> {
    let responses = operation.get("responses")?.as_object()?;
    let status = responses.keys().find(|status| status.starts_with(['2', '3']))?;
    Some(if status.bytes().all(|byte| byte.is_ascii_digit()) { status.clone() } else { "\"2xx\"".to_owned() })
}

fn server_url(server: &Value) -> String {
    let mut url = server.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
    for (name, variable) in server.get("variables").and_then(Value::as_object).into_iter().flatten() {
        let default = variable.get("default").and_then(Value::as_str).unwrap_or_default();
        url = url.replace(&format!("{{{name}}}"), default);
    }
    url
}

fn parameters(document: &Value, of: &Value) -> Vec<Value> {
    let list = of.get("parameters").and_then(Value::as_array).into_iter().flatten();
    list.map(|parameter| resolved(document, parameter).clone()).collect()
}

/// Follows references within the document.
fn resolved<'a>(document: &'a Value, mut value: &'a Value) -> &'a Value {
    for _ in 0..DEPTH_MAX {
        let target = value.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
        match target.and_then(|pointer| document.pointer(pointer)) {
            Some(found) => value = found,
            None => break,
        }
    }
    value
}

/// A body of JSON or of a form; the error is another media type.
fn body_of(document: &Value, body: &Value) -> Result<DraftBody, String> {
    let Some(content) = body.get("content").and_then(Value::as_object) else { return Ok(DraftBody::None) };
    for (kind, media) in content {
        let value = example_of(document, media);
        if kind.starts_with("application/json") || kind.ends_with("+json") {
            return Ok(match value {
                Value::Object(_) | Value::Array(_) => DraftBody::Json(value),
                other => DraftBody::Text(other.to_string()),
            });
        }
        if kind == "application/x-www-form-urlencoded" {
            let fields = value.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), plain(value)));
            return Ok(DraftBody::Form(fields.collect()));
        }
    }
    content.keys().next().map_or(Ok(DraftBody::None), |kind| Err(kind.clone()))
}

/// The example of a parameter or a media type: its own, the first of several, or one made of its schema.
fn example_of(document: &Value, of: &Value) -> Value {
    if let Some(example) = of.get("example") {
        return example.clone();
    }
    let first = of.get("examples").and_then(Value::as_object).and_then(|examples| examples.values().next());
    if let Some(value) = first.and_then(|example| resolved(document, example).get("value")) {
        return value.clone();
    }
    of.get("schema").map_or(Value::Null, |schema| made_of(document, schema, 0))
}

/// A value that a schema allows.
fn made_of(document: &Value, schema: &Value, depth: usize) -> Value {
    let schema = resolved(document, schema);
    for known in ["example", "default", "const"] {
        if let Some(value) = schema.get(known) {
            return value.clone();
        }
    }
    for list in ["enum", "examples"] {
        if let Some(value) = schema.get(list).and_then(Value::as_array).and_then(|values| values.first()) {
            return value.clone();
        }
    }
    if depth >= DEPTH_MAX {
        return Value::Null;
    }
    if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        let mut whole = Map::new();
        for part in parts {
            if let Value::Object(fields) = made_of(document, part, depth + 1) {
                whole.extend(fields);
            }
        }
        return Value::Object(whole);
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(first) = schema.get(choice).and_then(Value::as_array).and_then(|choices| choices.first()) {
            return made_of(document, first, depth + 1);
        }
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or(""),
        _ if schema.get("properties").is_some() => "object",
        _ => "",
    };
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    match (kind, format) {
        ("object", _) => {
            let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            let made = properties.map(|(name, property)| (name.clone(), made_of(document, property, depth + 1)));
            Value::Object(made.filter(|(_, value)| !value.is_null()).collect())
        }
        ("array", _) => {
            let item = schema.get("items").map(|items| made_of(document, items, depth + 1));
            Value::Array(item.into_iter().filter(|item| !item.is_null()).collect())
        }
        ("integer", _) => schema.get("minimum").filter(|least| least.is_i64()).cloned().unwrap_or_else(|| json!(1)),
        ("number", _) => schema.get("minimum").cloned().unwrap_or_else(|| json!(1.5)),
        ("boolean", _) => json!(true),
        (_, "date") => json!("2026-01-31"),
        (_, "date-time") => json!("2026-01-31T12:00:00Z"),
        (_, "email") => json!("user@example.com"),
        (_, "uuid") => json!("{{uuid}}"),
        (_, "uri") => json!("https://example.com/"),
        ("string", _) => json!("text"),
        _ => Value::Null,
    }
}

/// A value as a text in a URL, a field or a form.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "1".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A name that a variable can have.
fn variable_name(name: &str) -> String {
    name.chars().map(|symbol| if symbol.is_ascii_alphanumeric() || symbol == '_' { symbol } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::convert;
    use super::*;

    #[test]
    fn each_operation_becomes_a_scenario_with_its_examples() {
        let document = json!({
            "openapi": "3.1.0",
            "servers": [{"url": "https://{host}/v1/", "variables": {"host": {"default": "api.test"}}}],
            "components": {
                "schemas": {"Pet": {"type": "object", "properties": {
                    "name": {"type": "string", "example": "Rex"}, "age": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}},
                    "parent": {"$ref": "#/components/schemas/Pet"}, "kind": {"enum": ["dog", "cat"]},
                }}},
                "parameters": {"Id": {"name": "pet-id", "in": "path", "required": true, "schema": {"type": "integer", "example": 7}}},
                "securitySchemes": {"key": {}},
            },
            "paths": {
                "/pets": {
                    "get": {"operationId": "listPets", "responses": {"200": {}}, "parameters": [
                        {"name": "limit", "in": "query", "required": true, "schema": {"type": "integer", "default": 20}},
                        {"name": "page", "in": "query", "schema": {"type": "integer"}},
                        {"name": "X-Trace", "in": "header", "required": true, "schema": {"type": "string", "format": "uuid"}},
                    ]},
                    "post": {"responses": {"default": {}, "2XX": {}},
                        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
                },
                "/pets/{pet-id}": {
                    "parameters": [{"$ref": "#/components/parameters/Id"}],
                    "delete": {"responses": {"204": {}}},
                },
            },
        });
        let converted = convert("pets", &document.to_string()).unwrap();
        let file: toml::Table = converted.toml.parse().unwrap_or_else(|error| panic!("{error}: {}", converted.toml));
        assert_eq!(file["base"].as_str(), Some("https://api.test"));
        assert_eq!(
            (file["variables"]["limit"].as_str(), file["variables"]["pet_id"].as_str()),
            (Some("20"), Some("7"))
        );
        let steps: Vec<&toml::Value> =
            file["scenario"].as_array().unwrap().iter().map(|flow| &flow["step"][0]).collect();
        let shown: Vec<_> =
            steps.iter().map(|step| (step["name"].as_str().unwrap(), step["url"].as_str().unwrap())).collect();
        assert_eq!(
            shown,
            [
                ("listPets", "/v1/pets?limit={{limit}}"),
                ("POST /pets", "/v1/pets"),
                ("DELETE /pets/{pet-id}", "/v1/pets/{{pet_id}}"),
            ]
        );
        assert_eq!(steps[0]["headers"]["X-Trace"].as_str(), Some("{{uuid}}"));
        assert_eq!(steps[1]["json"]["name"].as_str(), Some("Rex"));
        assert_eq!(steps[1]["json"]["kind"].as_str(), Some("dog"));
        assert_eq!(steps[1]["check"][0]["status"].as_str(), Some("2xx"));
        assert_eq!(steps[2]["check"][0]["status"].as_integer(), Some(204));
        assert_eq!(converted.notes.len(), 2, "{:?}", converted.notes);
    }

    #[test]
    fn a_document_that_names_itself_ends() {
        let document = json!({"openapi": "3.0.0", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}});
        assert_eq!(made_of(&document, &json!({"$ref": "#/a"}), 0), Value::Null);
        assert!(convert("x", "{\"openapi\": \"3.0.0\"}").is_err());
    }
}
