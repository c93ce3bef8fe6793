//! `$proxy_protocol_…`: what the header of the PROXY protocol said.

use crate::exchange::Exchange;
use proxyproto::{Addresses, TlvName, write_tlv};
use rules::variable::Variable;
use std::io::Write as _;

impl Exchange {
    /// Appends a value; `false` where nothing was said.
    pub(crate) fn proxy_protocol(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let Some(header) = self.down.proxy_header() else { return false };
        if let Variable::ProxyProtocolTlv(name) = variable {
            return TlvName::parse(name).is_some_and(|name| write_tlv(&header.tlvs, name, out));
        }
        let Some(Addresses { source, destination }) = header.addresses else { return false };
        // Writing to a vector cannot fail.
        match variable {
            Variable::ProxyProtocolAddr => write!(out, "{}", source.ip()).is_ok(),
            Variable::ProxyProtocolPort => write!(out, "{}", source.port()).is_ok(),
            Variable::ProxyProtocolServerAddr => write!(out, "{}", destination.ip()).is_ok(),
            Variable::ProxyProtocolServerPort => write!(out, "{}", destination.port()).is_ok(),
            _ => false,
        }
    }
}
