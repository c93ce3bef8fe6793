//! The JSON schema of experiment files, made from the types. It is shipped for editors, and it is what a file is checked
//! against before its values are: keys, kinds and bounds appear once, on the types.

use crate::Experiment;
use serde_json::Value;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(Experiment).to_value());

/// The schema, draft 2020-12.
pub fn schema() -> &'static Value {
    &SCHEMA
}

/// The schema as it is shipped.
pub fn text() -> String {
    let mut text = serde_json::to_string_pretty(schema()).expect("a JSON value is always JSON");
    text.push('\n');
    text
}
