//! What outlives generations: the pool, the health of peers, names, zones, logs, ports, and what workers share. It binds a
//! plan to these objects (`bind`), and the result is the generation that workers hold.

pub mod acme;
pub(crate) mod bind;
pub(crate) mod certificates;
pub mod checks;
pub(crate) mod generation;
pub(crate) mod group;
pub(crate) mod guests;
pub(crate) mod limit_zones;
pub mod names;
pub(crate) mod pool;
pub(crate) mod ports;
pub(crate) mod recipe;
pub(crate) mod shared;
pub(crate) mod status_list;
pub(crate) mod tls_choice;
