//! What is told of a load when it is over: text, tables of intervals, figures as data, pages with charts; and what two runs say beside
//! each other. Pure but for [`Files`], which writes. What a run shows while it goes on is `drive`'s.

mod compare;
pub(crate) mod figures;
mod files;
mod floor;
pub mod http;
mod sections;
mod table;
pub(crate) mod tls;
pub(crate) mod units;
pub mod websocket;
pub(crate) mod words;

pub use compare::compare;
pub use files::{Files, Reports, read_at_most};
pub use floor::floor;
