//! Terminal output and input of the tools: lines on the standard streams ([`say`], [`print`]), a terminal for a live
//! view ([`Terminal`]), signals to wait for ([`signals`]). It does not know the content. Called by the tools with a
//! live view (`watch`, `load`) and by the program's subcommands.

mod live;
pub mod signals;
mod streams;

pub use live::{TICK, Terminal};
pub use streams::{colours, errno, overwrite, print, print_on, say};
