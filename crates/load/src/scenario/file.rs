//! The TOML of a scenario as it is written. The JSON schema comes from these types. `read` checks it and gives it a meaning.

use super::{DataOrder, DataPer, KeepCookies};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A file of scenarios for `holdfast load --scenario`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// The name in reports; by default that of the file.
    pub(super) name: Option<String>,
    /// The start of URLs that begin with a slash: `http://127.0.0.1:8080`. A URL on the command line replaces it.
    pub(super) base: Option<String>,
    /// Header fields of all steps.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// Variables with the values that they have when an iteration starts.
    #[serde(default)]
    pub(super) variables: BTreeMap<String, String>,
    /// How long a user keeps its cookies.
    #[serde(default)]
    pub(super) cookies: KeepCookies,
    /// Pause after each step that has no other: `500ms`, or `100ms..2s` for a random one.
    pub(super) think: Option<String>,
    /// Files with rows of values.
    #[serde(default)]
    pub(super) data: Vec<DataFile>,
    /// The scenarios; each iteration of a user plays one of them.
    #[serde(rename = "scenario")]
    #[schemars(length(min = 1))]
    pub(super) scenarios: Vec<FlowTable>,
}

/// A file with rows of values, which are the variables `NAME.COLUMN`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataFile {
    /// The first part of the names of its variables.
    pub(super) name: String,
    /// The file, relative to the scenario: `.csv` with a line of names, or `.jsonl` with an object on each line.
    pub(super) file: String,
    /// Which row is used.
    #[serde(default)]
    pub(super) order: DataOrder,
    /// How long a user keeps a row.
    #[serde(default)]
    pub(super) per: DataPer,
}

/// A scenario: what a user does in one iteration.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowTable {
    /// The name in reports.
    pub(super) name: String,
    /// Share among the scenarios.
    #[serde(default = "one")]
    pub(super) weight: u32,
    /// The steps in order.
    #[serde(rename = "step")]
    #[schemars(length(min = 1))]
    pub(super) steps: Vec<StepTable>,
}

/// A request, and what is expected of its response. Texts may have templates: `{{name}}`, `{{data.column}}`, `{{uuid}}`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepTable {
    /// The name in reports and thresholds.
    pub(super) name: String,
    /// The method; by default GET, or POST with a body.
    pub(super) method: Option<String>,
    /// The URL, or its path if the file has a `base`. Its host has no templates.
    pub(super) url: String,
    /// Header fields, besides those of all steps.
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    /// Body: text.
    pub(super) body: Option<String>,
    /// Body: a JSON value. Texts in it may have templates.
    pub(super) json: Option<serde_json::Value>,
    /// Body: a file, relative to the scenario, sent as it is.
    pub(super) file: Option<String>,
    /// Body: fields of a form.
    pub(super) form: Option<BTreeMap<String, String>>,
    /// Body: the parts of `multipart/form-data`.
    pub(super) multipart: Option<Vec<PartTable>>,
    /// Pause after the response: `500ms`, or `100ms..2s` for a random one.
    pub(super) think: Option<String>,
    /// How often the step is done in a row.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub(super) repeat: u32,
    /// Checks of the response. A failed check is counted, and the iteration goes on.
    #[serde(default)]
    pub(super) check: Vec<CheckTable>,
    /// Values for later steps. If one is missing, the iteration ends.
    #[serde(default)]
    pub(super) extract: Vec<ExtractTable>,
}

/// A part of `multipart/form-data`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartTable {
    /// The name of the field.
    pub(super) name: String,
    /// Content: text.
    pub(super) text: Option<String>,
    /// Content: a file, relative to the scenario, sent as it is.
    pub(super) file: Option<String>,
    /// The name of the file for the server; by default that of `file`.
    pub(super) filename: Option<String>,
    /// The type of the content.
    pub(super) content_type: Option<String>,
}

/// A check: one part of the response (by default its body), and one condition (by default that the part exists).
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckTable {
    /// The name in reports; by default the condition in words.
    pub(super) name: Option<String>,
    /// The status: `200`, `"2xx"`, or a list of them.
    pub(super) status: Option<Statuses>,
    /// The name of a header field.
    pub(super) header: Option<String>,
    /// A JSON pointer into the body: `/items/0/id`.
    pub(super) pointer: Option<String>,
    /// The part equals this text.
    pub(super) equals: Option<Plain>,
    /// The part contains this text.
    pub(super) contains: Option<String>,
    /// The part matches this regular expression.
    pub(super) matches: Option<String>,
}

/// A value from the response: one part of it (by default the body), and a regular expression to take a piece of the part.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtractTable {
    /// The variable that gets the value.
    pub(super) name: String,
    /// The name of a header field.
    pub(super) header: Option<String>,
    /// A JSON pointer into the body: `/token`.
    pub(super) pointer: Option<String>,
    /// A regular expression: its first group, or the whole match, is the value.
    pub(super) matches: Option<String>,
}

/// Statuses that a check accepts: a number, a class such as `2xx`, or a list.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Statuses {
    One(Plain),
    Several(Vec<Plain>),
}

/// A text, a number or a truth value.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Plain {
    Text(String),
    Whole(i64),
    Number(f64),
    Truth(bool),
}

impl Plain {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Truth(truth) => truth.to_string(),
        }
    }
}

fn one() -> u32 {
    1
}
