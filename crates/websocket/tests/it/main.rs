//! The integration tests of `websocket`, one module per subject.

mod frames;
mod handshake;
mod properties;
mod support;
mod tungstenite;
