//! Certificates by ACME, by issuer, identifiers and state directory. Those that an earlier process has stored are used
//! at once.

use crate::plan::tls::TlsPlan;
use crate::registry::acme::{AcmeCertificate, BoundOrder};
use crate::registry::bind::Binding;
use crate::registry::process::Registry;
use std::sync::Arc;

impl Registry {
    /// The certificates of all configurations that are in use.
    pub(crate) fn acme_certificates(&self) -> Vec<Arc<AcmeCertificate>> {
        self.identities.lock().acme.values().cloned().collect()
    }
}

impl Binding<'_> {
    pub(super) fn acme_orders(&mut self) -> Arc<[BoundOrder]> {
        let mut may_staple = false;
        let orders = self.plan.acme_orders.iter().enumerate().map(|(place, plan)| {
            let certificate = Arc::clone(self.known.acme.entry(BoundOrder::key(plan)).or_default());
            // Servers share the certificate, and so its staple.
            let servers = self.plan.servers.iter().filter_map(|server| server.tls.as_deref());
            let is_its = |tls: &&TlsPlan| tls.acme.is_some_and(|id| id.0 as usize == place);
            let stapling = servers.filter(is_its).find_map(|tls| tls.acme_stapling.as_ref());
            may_staple |= certificate.staple_as(stapling, &plan.shown());
            certificate.load(plan);
            BoundOrder { plan: Arc::clone(plan), certificate }
        });
        let orders = orders.collect();
        if may_staple {
            self.registry.certificates.bell.ring();
        }
        orders
    }
}
