//! How a tool speaks and listens: lines on the standard streams ([`say`], [`print`]), a terminal taken over for a live view
//! ([`Terminal`]), signals as something to wait for ([`signals`]). It does not know what is printed or drawn. Called by the tools
//! that have a live view (`watch`, `load`) and by the program's subcommands.

mod live;
pub mod signals;
mod streams;

pub use live::{TICK, Terminal};
pub use streams::{colours, errno, overwrite, print, print_on, say};
