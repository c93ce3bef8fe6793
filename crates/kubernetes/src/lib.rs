//! The API server's side of `holdfast ingress`: follows the objects of a cluster, keeps them, knows the endpoints of
//! Services, and writes statuses and certificates, if this replica leads. It knows no gateway: [`Host`] is what serves. Its rules are pure
//! and in files of their own: `store`, `references`, `endpoints`, `coalesce`, `lease`, `status`, `events`, `publish`,
//! `selector`, `backoff`, and `acme::order_schedule`.

mod acme;
mod api;
mod backoff;
mod coalesce;
mod controller;
mod dates;
mod election;
mod endpoint_names;
mod endpoints;
mod events;
mod health;
mod kinds;
mod lease;
mod options;
mod publish;
mod references;
mod reporter;
mod saver;
mod selector;
mod snapshot;
mod status;
mod store;
mod watch;
mod webhook;

pub use acme::{AcmeOptions, Authority, Boxed, ChallengeAnswer, IssuedCertificate, OrderFailure, Publish};
pub use coalesce::Coalescer;
pub use controller::Controller;
pub use kinds::remove;
pub use options::{Host, Options, Severity, WebhookOptions};
pub use reporter::Report;
pub use selector::Selector;
