//! The JSON schema of experiment files, generated from the types. It ships for editors, and a file is checked against it
//! first. So keys, kinds and bounds are defined once, on the types.

use crate::Experiment;
use serde_json::Value;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(Experiment).to_value());

/// The schema, draft 2020-12.
pub fn schema() -> &'static Value {
    &SCHEMA
}

/// The text of the schema as it ships.
pub fn text() -> String {
    let mut text = serde_json::to_string_pretty(schema()).expect("a JSON value is always JSON");
    text.push('\n');
    text
}
