//! The demo: the quick form of the experiment `pool-throughput`, with as many rounds as the time allows, on free ports, and
//! an explanation of its record. It runs and prints nothing itself; the command `demo` does that with the same code as `lab
//! run`.

mod pace;
mod ports;
mod story;

pub use pace::Pace;
pub use ports::give_free;
pub use story::{document, kept, worth_running};

/// The experiment that the demo runs.
pub const EXPERIMENT: &str = "pool-throughput";
