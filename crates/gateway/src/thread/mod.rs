//! What a worker has for everybody who runs on its thread: a clock, and the executor of exchanges.

pub(crate) mod clock;
pub(crate) mod executor;
