//! Certificates by ACME, by issuer, identifiers and state directory. Those that an earlier process has stored are used
//! at once.

use crate::registry::acme::BoundOrder;
use crate::registry::bind::Binding;
use std::sync::Arc;

impl Binding<'_> {
    pub(super) fn acme_orders(&mut self) -> Arc<[BoundOrder]> {
        let orders = self.plan.acme_orders.iter().map(|plan| {
            let certificate = Arc::clone(self.known.acme.entry(BoundOrder::key(plan)).or_default());
            certificate.load(plan);
            BoundOrder { plan: Arc::clone(plan), certificate }
        });
        orders.collect()
    }
}
