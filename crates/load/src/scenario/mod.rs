//! A scenario: what a virtual user does, as named steps with checks, extracted values, cookies and rows of data. `file` is
//! the TOML as it is written, `read` turns it into targets and a [`Scenario`], and `compiled` prepares that for a process.
//! `http::users` plays it on the connections of the HTTP driver. Nothing here has a socket or a clock.

mod body;
pub(crate) mod compiled;
mod convert;
mod cookies;
mod data;
mod examine;
mod file;
mod list;
mod log;
mod read;
mod request;
mod schema;
mod tally;

pub(crate) use body::{FormContent, multipart_bytes};
pub(crate) use compiled::Compiled;
pub use convert::{CONVERTED_BYTES_MAX, Converted, convert};
pub(crate) use cookies::{Jar, Origin};
pub(crate) use data::Feed;
pub(crate) use examine::Response;
pub use list::{LIST_BYTES_MAX, LISTED_MAX, Replay};
pub use log::{COMBINED, LogFormat, Logged};
pub use read::{ScenarioError, ScenarioFile};
pub use schema::{schema, schema_text};
pub use tally::{CheckTally, FlowTally};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Most bytes of a response body that checks and extractions see. A longer body is counted as usual, but conditions on it
/// fail, because a part of it could decide them wrongly.
pub(crate) const BODY_CHECKED_MAX: usize = 4 << 20;

/// Everything that the users of a load do. Its steps are the targets of the load, in the same order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// The name in reports.
    pub name: String,
    /// What a user does in one iteration; each iteration chooses one of them by weight.
    pub flows: Vec<Flow>,
    /// Files with rows of values.
    pub data: Vec<Data>,
    /// Names of all variables, with their values at the start of an iteration.
    pub variables: Vec<(String, String)>,
    /// How long a user keeps its cookies.
    pub cookies: KeepCookies,
    /// The flow of each iteration of the run, from the start again after the last one; empty where weights decide.
    #[serde(default)]
    pub order: Vec<u16>,
}

/// The steps of one iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// The name in reports.
    pub name: String,
    /// Share among the flows.
    pub weight: u32,
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// One request of a flow, and what is expected of its response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The name in reports, unique in the load.
    pub name: String,
    /// The body.
    pub body: Vec<Piece>,
    /// Pause after the response, uniformly distributed between these two.
    pub think: (Duration, Duration),
    /// How often the step is done in a row.
    pub repeat: u32,
    /// Checks of the response.
    pub checks: Vec<Check>,
    /// Values taken from the response.
    pub extract: Vec<Extract>,
}

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Piece {
    /// Text with templates. Values of variables are escaped as this kind of body requires.
    Text(String, Escape),
    /// Bytes that are sent as they are.
    Bytes(Vec<u8>),
}

/// How the value of a variable is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Escape {
    /// As it is.
    None,
    /// Percent-encoded where a request target does not allow the byte.
    Path,
    /// Without line ends, which would begin another field.
    Field,
    /// As a value of `application/x-www-form-urlencoded`.
    Form,
    /// As a part of a JSON string.
    Json,
}

/// A condition on a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The name in reports, unique in its step.
    pub name: String,
    /// The part of the response.
    pub subject: Subject,
    /// What it must be.
    pub condition: Condition,
}

/// A value that a step takes from its response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extract {
    /// The variable that gets it.
    pub variable: usize,
    /// The part of the response.
    pub subject: Subject,
    /// A regular expression: its first group, or the whole match, is the value.
    pub pattern: Option<String>,
}

/// A part of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// The status.
    Status,
    /// A header field. If it appears several times, one that fits suffices.
    Header(String),
    /// The body as text.
    Body,
    /// A value in a JSON body (RFC 6901).
    Pointer(String),
}

/// What a part of a response must be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Condition {
    /// It exists.
    Exists,
    /// The status lies in one of these ranges, ends included.
    Statuses(Vec<(u16, u16)>),
    /// It equals this text, which may have templates.
    Equals(String),
    /// It contains this text, which may have templates.
    Contains(String),
    /// It matches this regular expression.
    Matches(String),
}

/// A file with rows of values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// The first part of the names of its variables.
    pub name: String,
    /// Which row an iteration gets.
    pub order: DataOrder,
    /// How long a user keeps a row.
    pub per: DataPer,
    /// The variable of each column.
    pub columns: Vec<usize>,
    /// The rows, each with a value for each column.
    pub rows: Vec<Vec<String>>,
}

/// Which row of a data file is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DataOrder {
    /// One after the other over all threads and processes, and from the start again.
    #[default]
    Sequential,
    /// Any row.
    Random,
    /// Each row at most once in a run. When a thread has used its share of the rows, it begins no more iterations.
    Unique,
}

/// How long a user keeps a row of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DataPer {
    /// Each iteration takes a row.
    #[default]
    Iteration,
    /// Each user takes a row and keeps it. In an open loop each iteration is another user.
    User,
}

/// How long a user keeps its cookies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeepCookies {
    /// Over all its iterations. In an open loop each iteration is another user.
    #[default]
    User,
    /// For one iteration.
    Iteration,
    /// Cookies are ignored.
    None,
}

impl Scenario {
    /// All steps in the order of the targets, each with its flow.
    pub fn steps(&self) -> impl Iterator<Item = (&Flow, &Step)> {
        self.flows.iter().flat_map(|flow| flow.steps.iter().map(move |step| (flow, step)))
    }

    /// The position of a step by its name.
    pub fn step(&self, name: &str) -> Option<usize> {
        self.steps().position(|(_, step)| step.name == name)
    }
}

/// Serializes a shared scenario as its content: a part of the load in another process gets its own copy.
pub(crate) mod shared {
    use super::Scenario;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use std::sync::Arc;

    #[allow(clippy::ref_option)] // serde passes the field as it is
    pub(crate) fn serialize<S: Serializer>(scenario: &Option<Arc<Scenario>>, out: S) -> Result<S::Ok, S::Error> {
        scenario.as_deref().serialize(out)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<Scenario>>, D::Error> {
        Ok(Option::<Scenario>::deserialize(from)?.map(Arc::new))
    }
}
