//! An idle connection to an upstream.

use crate::coded::{coded_struct, decode, encode};
use terms::PeerAddress;

/// An idle connection to an upstream, without TLS, over HTTP/1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idle {
    /// The name of its group.
    pub group: String,
    /// The peer.
    pub address: PeerAddress,
    /// The bound source address (`proxy_bind`), as text.
    pub source: Option<String>,
    /// Whether it began with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// Its location, if it is not shared between locations.
    pub location: Option<String>,
    /// When it was established.
    pub created_at_ms: u64,
    /// Exchanges begun on it.
    pub requests: u64,
    /// When the last one ended.
    pub idle_since_ms: u64,
    /// Whether its local port is in the ledger.
    pub has_port: bool,
}

coded_struct!(Idle {
    group,
    address,
    source,
    proxy_protocol,
    location,
    created_at_ms,
    requests,
    idle_since_ms,
    has_port,
});

impl Idle {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// From bytes; `None` if they are no such connection.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        decode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_comes_back_and_a_cut_one_does_not() {
        let idle = Idle {
            group: "g".to_owned(),
            address: PeerAddress::Ip("[::1]:80".parse().unwrap()),
            source: Some("::2".to_owned()),
            proxy_protocol: true,
            location: Some("/a".to_owned()),
            created_at_ms: 1,
            requests: 70_000,
            idle_since_ms: 2,
            has_port: true,
        };
        for idle in [Idle { source: None, location: None, has_port: false, ..idle.clone() }, idle] {
            let mut bytes = idle.encode();
            assert_eq!(Idle::decode(&bytes), Some(idle));
            for cut in 0..bytes.len() {
                assert_eq!(Idle::decode(&bytes[..cut]), None, "cut at {cut}");
            }
            bytes.push(0);
            assert_eq!(Idle::decode(&bytes), None, "something is behind it");
        }
    }
}
