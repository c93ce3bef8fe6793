//! Objects that outlive generations: the pool, the health of peers, names, zones, logs, ports, and the workers' shared
//! state. It binds a plan to these objects (`bind`); the result is the generation that workers hold.

pub mod acme;
pub(crate) mod bind;
pub(crate) mod cache;
pub(crate) mod certificate_finder;
pub(crate) mod certificates;
pub mod checks;
pub(crate) mod drain_pace;
pub(crate) mod generation;
pub(crate) mod geo_files;
pub(crate) mod group;
pub(crate) mod guests;
pub mod handover;
pub mod inspect;
pub(crate) mod key_sets;
pub(crate) mod limit_zones;
pub(crate) mod meter;
pub(crate) mod named_sides;
pub mod names;
pub(crate) mod neighbours;
pub mod ocsp;
pub(crate) mod outline;
pub(crate) mod peer_states;
pub(crate) mod pool;
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod recent_errors;
pub(crate) mod recipe;
pub(crate) mod shared_zones;
pub mod spans;
pub(crate) mod status_list;
pub(crate) mod tls_choice;
pub(crate) mod user_files;

/// Called, from any thread, when the control plane has work.
type Notify = Box<dyn Fn() + Send + Sync>;
