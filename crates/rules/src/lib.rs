//! The rules of a configuration: which server and location an exchange belongs to, what its URI means, and what texts with
//! variables come to. Bytes come in as arguments, decisions go out; no socket, no clock, no thread.
//!
//! This crate does not know the configuration model. The code that lowers a configuration (`gateway`) hands plain arguments to
//! the builders here (`ServerNames::build`, `Locations::build`, `Template::compile`, …) and keeps the results in the
//! generation; the request path then only calls `lookup`, `find`, `parse_target` and `write`.

pub mod basic_auth;
pub mod captures;
pub mod charset;
pub mod forwarded;
pub mod geo;
pub mod geoip;
pub mod grpc;
pub mod gzip;
pub mod host;
pub mod limit;
pub mod listing;
pub mod location;
pub mod log_format;
pub mod map;
pub mod mime;
pub mod mmdb;
mod name_table;
pub mod pace;
pub mod pattern;
pub mod precondition;
pub mod program;
pub mod range;
pub mod redirect;
pub mod referer;
pub mod reply;
pub mod request_trace;
pub mod route_to;
pub mod secure_link;
pub mod server_name;
pub mod set_cookie;
pub mod slice;
pub mod slots;
pub mod split;
pub mod ssi;
pub mod substitute;
pub mod template;
pub mod time_format;
pub mod trace_context;
pub mod uri;
pub mod user_id;
pub mod user_variables;
pub mod variable;
