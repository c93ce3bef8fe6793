//! `holdfast record` and `holdfast incident` beside a real gateway: faults are injected while the recorder runs, and the report must name
//! each with its peer or listener and its onset. In quiet times it must claim nothing.

mod at_limits;
mod at_peers;
mod beside_nginx;
mod quiet;
mod scene;
