//! Certificates that need staples.

use crate::plan::ocsp::StapleAsk;
use crate::registry::process::Registry;
use std::sync::Arc;

impl Registry {
    /// Registers the control plane: `notify` is called, from any thread, when [`Self::staples_wanted`] may have
    /// changed.
    pub fn attach_staples(&self, notify: impl Fn() + Send + Sync + 'static) {
        self.certificates.bell.attach(notify);
    }

    /// The certificates that need staples, each once.
    pub fn staples_wanted(&self) -> Vec<Arc<StapleAsk>> {
        let mut wanted: Vec<Arc<StapleAsk>> = Vec::new();
        self.certificates.each_plan(|plan| {
            if let Some(Ok(ask)) = &plan.staple
                && !wanted.iter().any(|known| known.is_same(ask))
            {
                wanted.push(Arc::clone(ask));
            }
            None
        });
        wanted
    }

    /// Sets the response that handshakes staple, or none.
    pub fn staple(&self, ask: &StapleAsk, response: Option<&[u8]>) {
        self.certificates.each_plan(|plan| {
            let is_asked = plan.staple.as_ref().is_some_and(|one| one.as_ref().is_ok_and(|one| one.is_same(ask)));
            (is_asked && plan.pair.ocsp() != response).then(|| plan.pair.with_ocsp(response.unwrap_or_default()))
        });
    }
}
