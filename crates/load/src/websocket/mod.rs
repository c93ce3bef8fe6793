//! The load of WebSocket servers: many connections that are opened at a rate, held, kept alive, spoken over, cut and opened again.
//! Beside the HTTP load it is a run of its own, since it counts other things; it shares the clock, the plan, the processes and the words
//! for failures. It prints nothing.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! let url = load::websocket::parse_url("ws://127.0.0.1:8080/websocket/echo")?;
//! let options = load::websocket::Options { connections: 10_000, ..load::websocket::Options::new(url) };
//! let summary = load::websocket::start(options)?.wait()?;
//! println!("{} open, {:?} bytes each", summary.memory.connections, summary.memory.bytes_per_connection());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Parts: `options`; `setup` is what the threads share; `worker` what each thread does; `opening` how a connection comes to be, `talking` what
//! happens on an open one, `soon` when a ping is due; `message` what is broadcast; `record` what was seen, `row` the same over time; `run` all threads and
//! processes; `health` and `expect` judge.

mod connection;
mod ending;
mod expect;
mod health;
mod message;
mod opening;
mod options;
mod record;
mod row;
mod run;
mod setup;
mod soon;
mod talking;
mod worker;

pub use ending::Ending;
pub use expect::{EXPECTATIONS, Expectation};
pub use message::MESSAGE_BYTES_MIN;
pub use options::{MESSAGE_BYTES_MAX, Options, OptionsError, ROOMS_MAX, Storm, parse_url};
pub use record::WebSocketRecord;
pub use row::Row;
pub(crate) use run::crew_of_part;
pub use run::{Memory, Prepared, Running, Summary, WebSocketLoad, prepare, start};
