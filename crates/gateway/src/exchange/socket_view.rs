//! Variables and other facts about the client's socket.

use crate::base::values::{bytes, number, write_ip};
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use std::os::unix::ffi::OsStrExt as _;

impl Exchange {
    /// `$server_port`; `None` on a Unix socket.
    pub(crate) fn server_port(&self) -> Option<u16> {
        self.down.local_address().map(|address| address.port())
    }
}

impl ExchangeView<'_> {
    /// `$server_addr`
    pub(super) fn server_addr(&self, out: &mut Vec<u8>) -> bool {
        let down = &self.exchange.down;
        if let Some(address) = down.local_address() {
            return write_ip(address.ip(), out);
        }
        bytes(b"unix:", out);
        if let Some(path) = down.local_path() {
            out.extend_from_slice(path.as_os_str().as_bytes());
        }
        true
    }

    /// `$tcpinfo_…`
    pub(super) fn tcp_info(&self, index: usize, out: &mut Vec<u8>) -> bool {
        let info = self.exchange.down.tcp_info();
        info.is_some_and(|info| number(u64::from(info[index]), out))
    }
}
