//! `$proxy_protocol_…`: what the header of the PROXY protocol said.

use crate::base::values::proxy_protocol;
use crate::exchange::Exchange;
use rules::variable::Variable;

impl Exchange {
    /// Appends a value; `false` where there was none.
    pub(crate) fn proxy_protocol(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let Some(header) = self.down.proxy_header() else { return false };
        proxy_protocol(header, variable, out)
    }
}
