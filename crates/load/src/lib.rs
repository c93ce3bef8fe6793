//! The load generator behind `holdfast load`: requests at a rate or in a loop, over HTTP/1.1, HTTP/2, TCP and WebSockets, on
//! the same event loop and codecs as the gateway. In an open loop a latency counts from the time the request was due, and the
//! generator's own lag is measured separately. [`drive`] runs a load, and [`results`] writes the reports; the program has
//! the flags and exit codes.
//!
//! # A load from start to end
//!
//! ```
//! use load::{Options, Pace, Target};
//! use std::time::Duration;
//!
//! let origin = origin::Origin::bind(origin::Options::default())?.start()?;
//! let target = Target::new(format!("http://{}/", origin.address()).parse()?);
//! // Open loop: a request every 10 ms, even if the previous one is not answered.
//! let pace = Pace::constant(100.0, Duration::from_millis(300));
//! let summary = load::start(Options { pace, ..Options::new(target) })?.wait()?;
//! let whole = summary.record.whole();
//! assert_eq!((whole.responses, whole.failed()), (30, 0));
//! // Latencies are in nanoseconds and count from the time a request was due.
//! assert!(whole.latency.quantile_ns(0.99) > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # While it runs
//!
//! [`Running::watch`] returns each interval once all workers have finished it; a [`Series`] keeps the intervals in bounded
//! memory. [`Stopper`] ends a run from another thread.
//!
//! ```
//! use load::{Options, Series, Target};
//! use std::time::Duration;
//!
//! let origin = origin::Origin::bind(origin::Options::default())?.start()?;
//! let options = Options {
//!     connections: 2,
//!     duration: Some(Duration::from_millis(350)),
//!     interval: Duration::from_millis(100),
//!     ..Options::new(Target::new(format!("http://{}/", origin.address()).parse()?))
//! };
//! let mut series: Series = Series::new(options.interval);
//! let summary = load::start(options)?.watch(|interval| series.add(interval))?;
//! let responses: u64 = series.rows().iter().map(|row| row.responses).sum();
//! assert_eq!(responses, summary.record.whole().responses);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Before it runs, and after it
//!
//! [`prepare`] resolves names and makes the [`Plan`] without opening a socket. [`Summary::health`] says whether the
//! generator distorted the run, and an [`Expectation`] checks a figure of the target.
//!
//! ```
//! use load::{Expectation, Options, Target};
//!
//! let origin = origin::Origin::bind(origin::Options::default())?.start()?;
//! let target = Target::new(format!("http://{}/status/503", origin.address()).parse()?);
//! let options = Options { requests: Some(20), connections: 4, ..Options::new(target) };
//! let prepared = load::prepare(options)?;
//! let first = prepared.plan().scarcest().expect("there is always one");
//! assert!(first.is_met(), "{} {} of {}", first.what, first.needed, first.available);
//! let summary = prepared.start()?.wait()?;
//! let verdict = "errors<1%".parse::<Expectation>()?.judge(&summary, &summary.health());
//! assert_eq!((verdict.met, verdict.measured.as_str()), (false, "20 of 20 (100.000 %)"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What causes a lag
//!
//! [`GeneratorRecord::lag`] is how late the generator was, and [`GeneratorRecord::lag_own`] the part that its own work
//! caused. [`Machine`] has the kernel's figures for the rest. [`measure_floor`] waits at the same rate and does nothing
//! else.
//!
//! ```
//! use load::{Ask, measure_floor};
//! use std::sync::atomic::AtomicBool;
//! use std::time::Duration;
//!
//! let ask = Ask { rate: 1_000.0, duration: Duration::from_millis(50), work: Duration::ZERO };
//! let floor = measure_floor(&ask, &AtomicBool::new(false))?;
//! assert_eq!(floor.lag.count(), 50);
//! println!("late by p99.9 {} ns", floor.lag.quantile_ns(0.999));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # In several processes
//!
//! If one process has too few descriptors, [`Prepared::start_with`] starts as many processes as the plan says, with a
//! command that calls [`serve_part`]. Their figures are merged without loss. [`Options::new`] asks for one process; `None`
//! in [`Options::processes`] leaves the number to the plan. Loads of WebSockets are shared in the same way
//! ([`websocket::prepare`]).
//!
//! Parts of a load of any kind: `run` starts it and waits for its end. `crew` has the workers of this process, `processes`
//! those of others. `worker` is a thread, and `loan` returns its records for reuse. `collect` merges the records,
//! `generator` is the part of a record about the generator itself, and `floor` and `processors` tell its lag from the
//! machine's. Parts of a load over HTTP: `prepare` builds it from its options, `pace` says when requests are due, `http` is
//! the protocol (a driver of the worker), `record` has the counts, and `summary` the figures. A load over TCP is one of
//! messages in place of requests, which `tcp` makes and compares. [`websocket`] has the same parts for WebSockets, and for TCP
//! connections that are held open. `drive` and `results` are the user interface.

mod cause;
mod choice;
mod coding;
mod collect;
mod crew;
pub mod drive;
mod expect;
mod floor;
mod form;
mod generator;
mod health;
mod http;
mod loan;
mod options;
mod pace;
mod places;
mod plan;
mod prepare;
mod processes;
mod processors;
mod record;
pub mod remote;
mod request;
pub mod results;
mod run;
mod scenario;
mod script;
mod series;
mod setup;
mod streamed;
mod streams;
mod summary;
mod tally;
mod tcp;
mod template;
mod threshold;
mod tls;
mod upload;
mod url;
pub mod websocket;
mod worker;

pub use cause::{Blame, ByCause, Cause};
pub use coding::Coding;
pub use expect::{EXPECTATIONS, Expectation};
pub use floor::{Ask, Floor, measure_floor};
pub use form::{FormPart, form_body};
pub use generator::GeneratorRecord;
pub use health::Health;
pub use options::{
    CONNECTIONS_MAX, LATENCY_NS_MAX, Options, OptionsError, PIPELINE_MAX, PROCESSES_MAX, Pace, STREAMS_MAX,
    TARGETS_MAX, THREADS_MAX, Target, Version,
};
pub use pace::{Arrivals, Schedule, Spacing, Stage};
pub use places::{OtherAddress, Places};
pub use plan::{CONNECTION_BYTES, Limits, Need, Plan};
pub use prepare::{HttpLoad, Prepared, Running, prepare, prepare_within, start};
pub use processes::{Order, serve_part};
pub use processors::{Machine, Spent, Ticks};
pub use record::HttpRecord;
pub use run::{Interval, LoadKind, PreparedLoad, RunningLoad, Stopper};
pub use scenario::{
    COMBINED, CONVERTED_BYTES_MAX, Check, CheckTally, Condition, Converted, Data, DataOrder, DataPer, Escape, Extract,
    Flow, FlowTally, KeepCookies, LIST_BYTES_MAX, LISTED_MAX, LogFormat, Logged, Piece, Replay, Scenario,
    ScenarioError, ScenarioFile, Step, Subject, convert, schema, schema_text,
};
pub use script::{Finished, Script, ScriptError};
pub use series::{Row, Series, SeriesRow, Sparse};
pub use setup::StartError;
pub use streams::StreamsRecord;
pub use summary::Summary;
pub use tally::{LATENCY_DIGITS, Latencies, SocketErrors, Tally};
pub use tcp::{Exchange, MESSAGE_BYTES_MAX, Reply};
pub use template::{TEMPLATES, TemplateError};
pub use threshold::{ExpectationError, LoadFigure, Threshold, Verdict};
pub use tls::{Handshakes, TlsOptions};
pub use upload::{PIECE_BYTES_MAX, Upload};
pub use url::{Url, UrlError};
