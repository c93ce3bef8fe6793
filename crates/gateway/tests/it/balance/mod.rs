//! Which peer a request goes to, over real sockets: beside nginx where that is deterministic, and as documented where
//! nginx's own generation lacks the method.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end
#![allow(clippy::print_stdout)] // prints what was skipped

mod beside_nginx;
mod methods;
mod sticky;
