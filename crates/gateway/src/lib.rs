//! The data plane: listeners, exchange, relay, tunnel, static files, logs. It runs worker threads over an immutable
//! [`Generation`] of the configuration; processes, signals and reloads are the binary's, DNS and metrics the control
//! plane's.

mod access_log;
mod added;
mod alarm;
mod body_file;
mod buffer;
pub mod checks;
mod close;
mod compress;
mod computed;
mod connection;
mod error_log;
mod exchange;
mod fault;
mod files;
mod generation;
mod group;
mod heartbeat;
mod limit_zones;
mod log_bell;
mod log_place;
mod lower;
mod memory;
pub mod names;
mod pool;
mod ports;
mod proxy_header;
mod request;
mod shared;
mod status;
mod tunnel;
mod worker;

pub use access_log::{AccessOutput, Buffering, LogSink, Record, records};
pub use close::{CloseReason, CloseSide};
pub use error_log::{ErrorLog, ErrorTarget, Level, errno};
pub use fault::Fault;
pub use generation::{Generation, ListenerId};
pub use log_bell::{Haste, LogBell};
pub use log_place::{LogPlace, NamedFiles, SyslogPlace, syslog_place};
pub use lower::{ErrorOutput, ListenerSpec, LowerOptions, Lowered, Registry, Resolve, lower};
pub use memory::MemoryUse;
pub use shared::{AcceptDrops, Message, Overload, Shared, Totals};
pub use worker::run;

/// The nginx whose dialect we speak: `$nginx_version`, and what `-V` tells tools that look for it.
pub const NGINX_VERSION: &str = "1.31.4";
