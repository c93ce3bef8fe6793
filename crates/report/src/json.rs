//! The document as JSON, beginning with the version of its schema.

use crate::document::Document;
use serde::{Deserialize, Serialize};

/// Incremented when a reader of the old schema would misread the new one; additions do not change it.
pub const SCHEMA: &str = "holdfast.report/1";

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    #[serde(flatten)]
    document: &'a Document,
}

#[derive(Deserialize)]
struct Envelope {
    schema: String,
}

/// Why a text is not a report.
#[derive(Debug)]
pub enum ParseError {
    /// It is not JSON, or does not have this schema.
    Json(serde_json::Error),
    /// It has another schema, with this name.
    Schema(String),
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(error) => write!(f, "not a report: {error}"),
            Self::Schema(schema) => write!(f, "the report has the schema {schema:?}; this program reads {SCHEMA:?}"),
        }
    }
}

impl std::error::Error for ParseError {}

/// Indented JSON with a final newline. Numbers that are not finite are written as null.
pub fn render(document: &Document) -> String {
    let written = Written { schema: SCHEMA, document };
    // All keys are strings and all values plain data, so this cannot fail.
    let mut text = serde_json::to_string_pretty(&written).expect("plain data is always JSON");
    text.push('\n');
    text
}

/// Reads the output of [`render`].
pub fn parse(text: &str) -> Result<Document, ParseError> {
    let envelope: Envelope = serde_json::from_str(text).map_err(ParseError::Json)?;
    if envelope.schema != SCHEMA {
        return Err(ParseError::Schema(envelope.schema));
    }
    serde_json::from_str(text).map_err(ParseError::Json)
}
