//! `set_real_ip_from`, `real_ip_header`, `real_ip_recursive`.

use crate::lower::Lowering;
use crate::plan::access::{RealIpPlan, RealIpSource};
use conf::diagnostic::Diagnostic;
use conf::model::{RealIpHeader, RealIpSettings};
use conf::source::Span;
use conf::value::{Cidr, CidrPattern};
use std::net::IpAddr;

impl Lowering<'_> {
    /// `None` if no address is trusted: no field is read then.
    pub(super) fn real_ip_plan(&mut self, settings: &RealIpSettings) -> Option<Box<RealIpPlan>> {
        if settings.from.is_empty() {
            return None;
        }
        let mut trusted = Vec::with_capacity(settings.from.len());
        for pattern in &settings.from {
            match pattern {
                CidrPattern::Name(name, span) => self.trust_name(name, *span, &mut trusted),
                known => trusted.push(known.clone()),
            }
        }
        let source = match &settings.header {
            RealIpHeader::Header(name) => RealIpSource::Field(name.as_bytes().into()),
            RealIpHeader::XForwardedFor => RealIpSource::ForwardedFor,
            RealIpHeader::ProxyProtocol => RealIpSource::ProxyProtocol,
        };
        Some(Box::new(RealIpPlan { trusted, source, recursive: settings.recursive }))
    }

    /// Trusts all addresses that a name has now.
    fn trust_name(&mut self, name: &str, span: Span, trusted: &mut Vec<CidrPattern>) {
        match (self.options.resolve)(name, 0) {
            Ok(addresses) if !addresses.is_empty() => trusted.extend(addresses.iter().map(|address| {
                let prefix = match address.ip() {
                    IpAddr::V4(_) => 32,
                    IpAddr::V6(_) => 128,
                };
                CidrPattern::Network(Cidr { network: address.ip(), prefix })
            })),
            outcome => {
                let reason = outcome.err().map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
                let message = format!("host not found in set_real_ip_from \"{name}\"");
                if !self.found.iter().any(|known| known.message == message) {
                    let hint = format!("looking up \"{name}\" failed: {reason}");
                    self.found.push(Diagnostic::error(span, message).with_hint(hint));
                }
            }
        }
    }
}
