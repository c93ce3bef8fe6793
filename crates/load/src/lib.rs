//! The load generator behind `holdfast load`: requests at a rate or in a loop, over HTTP/1.1, on the same event loop and
//! codecs as the gateway. It tells the truth about time: in open loop latency counts from when a request was due, and what
//! the generator itself was late by is measured apart. [`drive`] runs it for a person, and
//! [`results`] tell of it; flags and exit codes are the program's.
//!
//! # A load from start to end
//!
//! ```
//! use load::{Options, Pace, Target};
//! use std::time::Duration;
//!
//! let origin = origin::Origin::bind(origin::Options::default())?.start()?;
//! let target = Target::new(format!("http://{}/", origin.address()).parse()?);
//! // Open loop: a request every 10 ms, whether or not the last one is answered.
//! let pace = Pace::constant(100.0, Duration::from_millis(300));
//! let summary = load::start(Options { pace, ..Options::new(target) })?.wait()?;
//! let whole = summary.record.whole();
//! assert_eq!((whole.responses, whole.failed()), (30, 0));
//! // Latencies are nanoseconds, and count from when a request was due.
//! assert!(whole.latency.quantile_ns(0.99) > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # While it runs
//!
//! [`Running::watch`] hands out each interval when all workers have finished it; a [`Series`] keeps them in bounded memory.
//! [`Stopper`] ends a run from another thread.
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
//! [`prepare`] resolves names and makes the [`Plan`] without a socket. [`Summary::health`] says whether the generator was in the
//! way, and an [`Expectation`] whether the target did what was wanted.
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
//! # Whose a lag is
//!
//! [`GeneratorRecord::lag`] is how late the generator was, [`GeneratorRecord::lag_own`] the part of it that its own work was the cause of, and
//! [`Machine`] what the kernel says of the rest. [`measure_floor`] waits at the same rate and does nothing else.
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
//! Where one process may have too few descriptors, [`Prepared::start_with`] starts as many as the plan says, by a command that
//! calls [`serve_part`]; what they count is merged without loss. [`Options::new`] asks for one process; `None` in
//! [`Options::processes`] leaves it to the plan. Loads of WebSockets are shared in the same way
//! ([`websocket::prepare`]).
//!
//! Parts of a load of any kind: `run` starts it and leads it to its end, `crew` has the workers of a process and `processes` those of
//! others, `worker` is a thread (`loan` brings its records back), `collect` brings together what they record, `generator` is what a
//! record says of the generator itself, `floor` and `processors` tell its lag from the machine's. Parts of a load over HTTP: `prepare`
//! makes it of its options, `pace` says when, `http` is the protocol (a driver of the worker), `record` what was seen, `summary` what it
//! comes to. [`websocket`] has those of the other kind. `drive` and `results` are what a person sees of all that.

mod cause;
mod choice;
mod collect;
mod crew;
pub mod drive;
mod expect;
mod floor;
mod generator;
mod health;
mod http;
mod loan;
mod options;
mod pace;
mod plan;
mod prepare;
mod processes;
mod processors;
mod record;
mod request;
pub mod results;
mod run;
mod script;
mod series;
mod setup;
mod streamed;
mod streams;
mod summary;
mod tally;
mod template;
mod threshold;
mod tls;
mod url;
pub mod websocket;
mod worker;

pub use cause::{Blame, ByCause, Cause};
pub use expect::{EXPECTATIONS, Expectation};
pub use floor::{Ask, Floor, measure_floor};
pub use generator::GeneratorRecord;
pub use health::Health;
pub use options::{
    CONNECTIONS_MAX, LATENCY_NS_MAX, Options, OptionsError, PIPELINE_MAX, PROCESSES_MAX, Pace, STREAMS_MAX,
    TARGETS_MAX, THREADS_MAX, Target, Version,
};
pub use pace::{Arrivals, Schedule, Spacing, Stage};
pub use plan::{CONNECTION_BYTES, Limits, Need, Plan};
pub use prepare::{HttpLoad, Prepared, Running, prepare, start};
pub use processes::serve_part;
pub use processors::{Machine, Spent, Ticks};
pub use record::HttpRecord;
pub use run::{Interval, LoadKind, PreparedLoad, RunningLoad, Stopper};
pub use script::{Finished, Script, ScriptError};
pub use series::{Row, Series, SeriesRow, Sparse};
pub use setup::StartError;
pub use streams::StreamsRecord;
pub use summary::Summary;
pub use tally::{LATENCY_DIGITS, Latencies, SocketErrors, Tally};
pub use template::{TEMPLATES, TemplateError};
pub use threshold::{ExpectationError, LoadFigure, Threshold, Verdict};
pub use tls::{Handshakes, TlsOptions};
pub use url::{Url, UrlError};
