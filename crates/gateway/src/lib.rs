//! The data plane: listeners, exchanges, relay, tunnels, static files, logs. It runs worker threads over an immutable
//! [`Generation`] of the configuration. The binary handles processes, signals and reloads; the control plane handles
//! DNS and metrics.

mod base;
mod connector;
mod content;
mod downstream;
mod exchange;
pub mod explain;
mod filter;
mod lower;
mod multiplex;
mod phases;
mod plan;
mod registry;
mod session;
mod thread;
mod tunnel;
mod upstream;
mod worker;

pub use base::close::{CloseReason, CloseSide};
pub use base::fault::Fault;
pub use base::file_stamp::FileStamp;
pub use base::logs::access::{AccessOutput, Buffering, LogSink, Record, records};
pub use base::logs::bell::{LogBell, Urgency};
pub use base::logs::error::{ErrorLog, ErrorOutput, ErrorTarget, Level, errno};
pub use base::logs::place::{LogPlace, NamedFiles, Resolve, SyslogPlace, syslog_place};
pub use base::memory::MemoryUse;
pub use base::share::Share;
pub use content::status::snapshot::merge::{figures_of_ended, publish_figures};
pub use lower::{LowerMemory, LowerOptions, Lowered, ReadFile, lower, lower_reusing};
pub use plan::Plan;
pub use plan::tls::KnownPairs;
pub use registry::bind::{BoundPlan, ListenerSpec};
pub use registry::cache::purging as caches;
pub use registry::certificates::{CertificateInUse, Renewal};
pub use registry::generation::{Generation, ListenerId};
pub use registry::neighbours::{Neighbours, OtherFigures};
pub use registry::outline::differences;
pub use registry::process::{AcceptDrops, Message, Overload, Registry, Totals};
pub use registry::recent_errors::{RecentError, RecentErrors};
pub use registry::shared_zones::{ZoneKind, ZoneMemory, ZoneSpec};
pub use registry::{acme, checks, handover, inspect, names, ocsp, spans};
pub use worker::inspect::{metrics_text, status_json};
pub use worker::run;

/// The nginx version that Holdfast is compatible with: for `$nginx_version`, and for tools that read the output of
/// `-V`.
pub const NGINX_VERSION: &str = "1.31.4";
