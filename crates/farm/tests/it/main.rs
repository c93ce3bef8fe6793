//! The farm over a real NATS server: the merged figures are those of all samples, however the connection breaks.

mod merge;
mod scene;
