//! The integration tests of `load`, one module per subject.

mod bad_targets;
mod bodies;
mod closed_loop;
mod course;
mod events;
mod http2;
mod rate;
mod scenario;
mod scenario_data;
mod scenario_schema;
mod scene;
mod script;
mod tcp;
mod tls;
mod websocket;
