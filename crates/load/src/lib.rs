//! The load generator behind `holdfast load`: requests at a rate or in a loop, over HTTP/1.1, on the same event loop and
//! codecs as the gateway. It tells the truth about time: in open loop latency counts from when a request was due, and what
//! the generator itself was late by is measured apart. It prints nothing; the binary does.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! let target = load::Target::new("http://127.0.0.1:8080/".parse()?);
//! let options = load::Options {
//!     pace: load::Pace::constant(200.0, Duration::from_secs(10)),
//!     ..load::Options::new(target)
//! };
//! let summary = load::start(options)?.wait()?;
//! let whole = summary.record.whole();
//! println!("{} responses, p99 {} ns", whole.responses, whole.latency.quantile_ns(0.99));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Parts: `pace` says when, `http` is the protocol (a driver of the worker; others can stand beside it), `record` what was seen,
//! `worker` the thread that brings them together, `run` all threads.

mod cause;
mod choice;
mod expect;
mod health;
mod http;
mod options;
mod pace;
mod plan;
mod record;
mod request;
mod run;
mod script;
mod series;
mod setup;
mod tally;
mod template;
mod url;
pub mod websocket;
mod worker;

pub use cause::{Blame, Cause};
pub use expect::{EXPECTATIONS, Expectation, ExpectationError, Verdict};
pub use health::Health;
pub use options::{
    CONNECTIONS_MAX, LATENCY_NS_MAX, Options, OptionsError, PIPELINE_MAX, Pace, TARGETS_MAX, THREADS_MAX, Target,
    Version,
};
pub use pace::{Arrivals, Schedule, Spacing, Stage};
pub use plan::{CONNECTION_BYTES, Limits, Need, Plan};
pub use record::Record;
pub use run::{Interval, Running, Stopper, Summary, start};
pub use script::{Finished, Script, ScriptError};
pub use series::{Row, Series, Sparse};
pub use setup::StartError;
pub use tally::{LATENCY_DIGITS, Latencies, Tally};
pub use template::{TEMPLATES, TemplateError};
pub use url::{Url, UrlError};
