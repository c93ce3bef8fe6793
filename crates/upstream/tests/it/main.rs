//! The integration tests of `upstream`, one module per subject. Under `--cfg loom` the program has the models alone.

#[cfg(loom)]
mod loom;
#[cfg(loom)]
mod loom_line;
#[cfg(not(loom))]
mod model;
#[cfg(not(loom))]
mod model_line;
#[cfg(not(loom))]
mod model_peers;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod scene;
#[cfg(not(loom))]
mod seek;
