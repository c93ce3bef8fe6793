//! The demo: the experiment `pool-throughput` in its quick form, as long as there is time for another round, on ports that are free, and
//! what its record means in words. It performs nothing and shows nothing: the program's `demo` does, with the same code as `lab run`.

mod pace;
mod ports;
mod story;

pub use pace::Pace;
pub use ports::give_free;
pub use story::{document, kept};

/// What is performed.
pub const EXPERIMENT: &str = "pool-throughput";
