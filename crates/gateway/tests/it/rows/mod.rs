//! The catalogue of bad input and faults as conversations over real sockets, row by row: a scripted client, the real
//! gateway, a scripted upstream. Test names begin with the row. The program `under_tls` runs the same conversations
//! over TLS.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

pub(crate) mod caches;
mod client_leaves;
pub(crate) mod collapse;
mod early_hints;
mod fastcgi;
mod floor;
pub(crate) mod full_disk;
mod includes;
mod learn;
mod overload;
mod panics;
mod pool;
mod proxy_words;
mod queue;
mod request_timeout;
mod requests_body;
mod requests_fields;
mod requests_framing;
mod requests_line;
mod requests_sequence;
mod responses_body;
mod responses_head;
mod retry;
mod retry_again;
mod saved;
mod seeking;
mod sharing;
mod soak;
mod splits;
mod state_file;
mod subrequests;
mod tokens;
mod tunnel_pings;
mod tunnels;
mod undecided;
mod unsent;
mod upstream_heads;
