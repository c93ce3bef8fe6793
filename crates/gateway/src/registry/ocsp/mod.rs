//! Answers of OCSP responders: those that are stapled to certificates, and those about clients' certificates. No responder is asked here: the
//! control plane, which this module does not know, sees what is wanted, asks, and brings the answers.

pub(crate) mod standings;
mod staples;

pub use crate::plan::ocsp::{Responder, StapleAsk};
pub use standings::{OpenQuestion, Standings};

use std::sync::OnceLock;

/// Tells the control plane that something is wanted.
#[derive(Default)]
pub(crate) struct ControlBell(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl ControlBell {
    /// The first call counts.
    pub(crate) fn attach(&self, notify: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(notify));
    }

    pub(crate) fn ring(&self) {
        if let Some(notify) = self.0.get() {
            notify();
        }
    }
}
