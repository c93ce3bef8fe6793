//! The load of WebSocket servers: many connections that are opened at a rate, held, pinged, used for messages, cut and
//! reopened. Without a handshake the same is done with TCP connections, which carry nothing (`tcp://`), and with responses of server-sent events. It counts other things than the HTTP load, so it has its own run, but shares the clock, the plan, the
//! processes and the causes of failures. It prints nothing.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! let url = load::websocket::parse_url("ws://127.0.0.1:8080/websocket/echo")?;
//! let options = load::websocket::WebSocketOptions { connections: 10_000, ..load::websocket::WebSocketOptions::new(url) };
//! let summary = load::websocket::start(options)?.wait()?;
//! println!("{} open, {:?} bytes each", summary.memory.connections, summary.memory.bytes_per_connection());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Parts: `options`; `setup` has what the threads share; `worker` is one thread; `opening` opens a connection, `open_connection`
//! handles an open one, `received_events` what it receives as events (which `events` parses), and `due_queue` orders what is due in the next milliseconds; `message` is the broadcast text; `record`
//! has the counts, `row` the same over time; `run` starts and ends a load; `health` and `expect` judge it.

mod connection;
mod due_queue;
mod ending;
mod events;
mod expect;
mod health;
mod message;
mod one_stream;
mod open_connection;
mod opening;
mod options;
mod received_events;
mod record;
mod row;
mod run;
mod setup;
mod worker;

pub use ending::Ending;
pub use events::{EventOptions, EventTime};
pub use expect::{EXPECTATIONS, WebSocketExpectation};
pub use message::MESSAGE_BYTES_MIN;
pub use options::{Held, MESSAGE_BYTES_MAX, ROOMS_MAX, Storm, WebSocketOptions, WebSocketOptionsError, parse_url};
pub use record::WebSocketRecord;
pub use row::WebSocketRow;
pub(crate) use run::crew_of_part;
pub use run::{Memory, PreparedWebSockets, RunningWebSockets, WebSocketLoad, WebSocketSummary, prepare, start};
