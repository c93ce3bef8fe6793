//! What moving from ingress-nginx to Holdfast changes: for each Ingress what works unchanged, what differs and what is
//! refused ([`analyse`]), and equivalent objects of the Gateway API ([`gateway_api`]). Pure: texts of manifests come in
//! ([`manifests`]); `holdfast migrate kubernetes` reads the files and prints.

mod analysis;
mod document;
pub mod gateway_api;
pub mod manifests;

pub use analysis::{Analysis, Report, Verdict, Wanted, analyse};
pub use document::{Written, document};
pub use manifests::Manifests;
