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
            if let Some(Ok(ask)) = &plan.staple {
                add(&mut wanted, ask);
            }
            None
        });
        for certificate in self.acme_certificates() {
            if let Some(ask) = certificate.staple_wanted() {
                add(&mut wanted, &ask);
            }
        }
        wanted
    }

    /// Why nothing can be asked about certificates by ACME, each once: `-t` could not say it before they were issued.
    pub fn staples_refused(&self) -> Vec<String> {
        self.acme_certificates().iter().filter_map(|certificate| certificate.take_unasked()).collect()
    }

    /// A certificate by ACME is another one: the control plane looks who is to be asked about it.
    pub fn acme_staples_changed(&self) {
        self.certificates.bell.ring();
    }

    /// Sets the response that handshakes staple, or none.
    pub fn staple(&self, ask: &StapleAsk, response: Option<&[u8]>) {
        self.certificates.each_plan(|plan| {
            let is_asked = plan.staple.as_ref().is_some_and(|one| one.as_ref().is_ok_and(|one| one.is_same(ask)));
            (is_asked && plan.pair.ocsp() != response).then(|| plan.pair.with_ocsp(response.unwrap_or_default()))
        });
        for certificate in self.acme_certificates() {
            certificate.staple(ask, response);
        }
    }
}

fn add(wanted: &mut Vec<Arc<StapleAsk>>, ask: &Arc<StapleAsk>) {
    if !wanted.iter().any(|known| known.is_same(ask)) {
        wanted.push(Arc::clone(ask));
    }
}
