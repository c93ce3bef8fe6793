//! Which peer a request goes to, over real sockets: compared with nginx if that is deterministic, and as documented if
//! nginx's open-source version lacks the method.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end
#![allow(clippy::print_stdout)] // prints what was skipped

mod beside_nginx;
mod methods;
mod sticky;
