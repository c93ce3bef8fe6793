//! TLS towards clients: handshakes, certificates, names, and the features of plain connections over TLS.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

mod beside_nginx;
mod clients;
mod early_data;
mod handshakes;
mod hostile;
mod named_certificates;
mod record_sizes;
pub(crate) mod scene;
mod sessions;
mod variables;
