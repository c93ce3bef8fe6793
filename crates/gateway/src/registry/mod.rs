//! What outlives generations: the pool, the health of peers, names, zones, ports, and what workers share.

pub mod checks;
pub(crate) mod group;
pub(crate) mod limit_zones;
pub mod names;
pub(crate) mod pool;
pub(crate) mod ports;
pub(crate) mod shared;
pub(crate) mod status_book;
