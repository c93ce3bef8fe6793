//! Answers of OCSP responders: staples for certificates, and the status of clients' certificates. This module asks no
//! responder: the control plane, which it does not know, reads the questions, asks, and delivers the answers.

pub(crate) mod client_statuses;
mod staples;

pub use crate::plan::ocsp::{Responder, StapleAsk};
pub use client_statuses::{ClientStatuses, OpenQuestion};

use std::sync::OnceLock;

/// Tells the control plane that it has work.
#[derive(Default)]
pub(crate) struct ControlBell(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl ControlBell {
    /// Only the first call counts.
    pub(crate) fn attach(&self, notify: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(notify));
    }

    pub(crate) fn ring(&self) {
        if let Some(notify) = self.0.get() {
            notify();
        }
    }
}
