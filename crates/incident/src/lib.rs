//! The flight recorder behind `holdfast record`, and `holdfast incident`, which says in words what happened. It works beside any server.
//! `record` takes samples, `store` keeps them in files of bounded size, and `judge` finds the limit or the peer that began it. `judge` is
//! pure: samples go in, claims come out. The program has the flags and exit codes.

mod moment;

pub mod judge;
pub mod record;
pub mod sample;
pub mod store;

pub use moment::Zone;
