//! Addresses of peers as system calls take them.

use terms::PeerAddress;

/// The form that system calls take.
pub(crate) fn to_sockaddr(address: &PeerAddress) -> std::io::Result<socket2::SockAddr> {
    match address {
        PeerAddress::Ip(address) => Ok((*address).into()),
        PeerAddress::Unix(path) => socket2::SockAddr::unix(path),
    }
}
