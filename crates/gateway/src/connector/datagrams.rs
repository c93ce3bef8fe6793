//! A socket for datagrams to a peer. Nothing is established: `connect()` only fixes the addresses, and makes the kernel
//! report ICMP errors and drop what others send. The pool knows no such sockets.

use crate::base::logs::error::{Level, errno};
use crate::connector::Caller;
use crate::connector::connect::{log_no_port, log_refused_at_once};
use crate::connector::lease::Wanted;
use reactor::{ConnectOptions, Stream};
use std::io;
use upstream::retry::Failure;

impl Wanted<'_> {
    /// Opens a socket from the first source that has a port left.
    pub(crate) fn open_datagrams(&self, caller: &impl Caller) -> Result<Stream, Failure> {
        let (thread, address) = (caller.thread(), &self.peer.address);
        for source in self.sources(caller) {
            let options = ConnectOptions {
                source: source.map(|(ip, _)| ip),
                source_port: source.and_then(|(_, port)| port),
                so_keepalive: false,
                ..self.connect.clone()
            };
            match thread.reactor.connect_datagrams(address, &options, caller.task()) {
                Ok(socket) => return Ok(socket),
                // A socket without a free port gets EAGAIN from connect().
                Err(error) if matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::WouldBlock) => {
                    log_no_port(caller, &error, source, self.connect.transparent, address);
                }
                Err(error) if reactor::is_shortage(&error) => {
                    thread.short_of_descriptors.set(true);
                    let message = format!("socket() failed ({}) while connecting to upstream", errno(&error));
                    caller.log_line(Level::Error, &message);
                    return Err(Failure::NoSocket);
                }
                Err(error) => {
                    log_refused_at_once(caller, &error, address);
                    return Err(Failure::ConnectFailed);
                }
            }
        }
        Err(Failure::NoLocalPort)
    }
}
