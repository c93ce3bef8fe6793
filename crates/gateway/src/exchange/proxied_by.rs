//! `$proxy_protocol_…`: the fields of the PROXY protocol header.

use crate::base::values::proxy_protocol;
use crate::exchange::Exchange;
use rules::variable::Variable;

impl Exchange {
    /// Appends a value; `false` if there is none.
    pub(crate) fn proxy_protocol(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let Some(header) = self.down.proxy_header() else { return false };
        proxy_protocol(header, variable, out)
    }
}
