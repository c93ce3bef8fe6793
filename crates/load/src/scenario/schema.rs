//! The JSON schema of scenario files, generated from the types. It ships for editors.

use super::file::File;
use serde_json::Value;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(File).to_value());

/// The schema of scenario files, draft 2020-12.
pub fn schema() -> &'static Value {
    &SCHEMA
}

/// The text of the schema as it ships.
pub fn schema_text() -> String {
    let mut text = serde_json::to_string_pretty(schema()).expect("a JSON value is always JSON");
    text.push('\n');
    text
}
