//! Which peer a request goes to, over real sockets: beside nginx where that is deterministic, and as documented where
//! nginx's own generation lacks the method. One program, so that it is linked once.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end
#![allow(clippy::print_stdout)] // what was skipped is said

mod beside_nginx;
mod field;
mod methods;
#[path = "../differential/sides.rs"]
#[allow(dead_code)] // the differential tests use the rest
mod sides;
mod sticky;
