//! The output of every tool: one [`Document`] of sections with tables, charts, verdicts, findings and notes, rendered
//! as terminal text, JSON, Markdown, one self-contained HTML page, or SARIF for CI. Pure: a document goes in, a string
//! comes out.
//!
//! It does not measure, judge or write files. Tools (`load`, `watch`, `doctor`, `plan`, `lab`) build documents and decide
//! where the text goes.
//!
//! ```
//! use report::{Document, Figure, Section, Table, Unit};
//!
//! let table = Table::new("CPU per request", &["arm", "CPU"])
//!     .row(vec!["pooled".into(), Figure::sampled(&[20e3, 21e3, 20.5e3], Unit::Nanoseconds).into()]);
//! let document = Document::new("Pool throughput", "holdfast lab 0.1.0").section(Section::new("Result").table(table));
//! assert!(report::text::render(&document, 80).contains("20.5 µs [20 µs–21 µs], n = 3"));
//! assert!(report::html::render(&document).starts_with("<!doctype html>"));
//! ```

// Tests compare fixtures that are written and read back without arithmetic.
#![cfg_attr(test, allow(clippy::float_cmp))]

pub mod chart;
pub mod document;
pub mod figure;
pub mod github;
pub mod html;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod metrics;
mod palette;
pub mod prometheus;
pub mod protobuf;
pub mod sarif;
mod scale;
pub mod text;
pub mod typed;

pub use chart::{Axis, Chart, Kind, Series};
pub use document::{Block, Card, Cell, Document, Finding, Note, Outcome, Section, Severity, Table, Verdict};
pub use figure::{Figure, Unit};
