//! The ring of `hash … consistent`: each server has the same points as in nginx, so that a key gets the same peer with
//! both. 160 points per unit of weight; when a server is added or removed only the keys next to its points move.

use std::sync::Arc;

use super::Peer;

/// Points per unit of weight; nginx's number (and ketama's).
const POINTS_PER_WEIGHT: u32 = 160;

/// Most points of all peers, 24 MiB: weights in the thousands give no more than hundreds. Beyond it every peer's points
/// are reduced in proportion.
const POINTS_MAX: u64 = 1 << 20;

/// Points in the order of their hashes.
#[derive(Debug, Default)]
pub(super) struct Ring(Vec<Point>);

#[derive(Debug)]
struct Point {
    hash: u32,
    server: Arc<str>,
}

impl Ring {
    pub(super) fn new(peers: &[Peer]) -> Self {
        let wanted: u64 = peers.iter().map(|peer| u64::from(peer.spec.weight) * u64::from(POINTS_PER_WEIGHT)).sum();
        let mut points = Vec::new();
        for peer in peers {
            let own = u64::from(peer.spec.weight) * u64::from(POINTS_PER_WEIGHT);
            let count = if wanted > POINTS_MAX { (own * POINTS_MAX / wanted).max(1) } else { own };
            let base = hash_of_server(&peer.server);
            // Each point's hash is an input of the next one's, starting with 0.
            let mut hash = 0_u32;
            for _ in 0..count {
                let mut next = base.clone();
                next.update(&hash.to_le_bytes());
                hash = next.finalize();
                points.push(Point { hash, server: Arc::clone(&peer.server) });
            }
        }
        // If two points have the same hash, the first server gets it. (Addresses of one name share all their points.)
        points.sort_by_key(|point| point.hash);
        points.dedup_by_key(|point| point.hash);
        Self(points)
    }

    /// The position of a key: the first point at or after its hash. It may be after the last one.
    pub(super) fn place(&self, key: &[u8]) -> u32 {
        let hash = crc32fast::hash(key);
        self.0.partition_point(|point| point.hash < hash) as u32
    }

    /// The server at a place, counted around.
    pub(super) fn server(&self, place: u32) -> Option<&str> {
        let place = (place as usize).checked_rem(self.0.len())?;
        self.0.get(place).map(|point| &*point.server)
    }
}

/// What the hashes of a server's points begin with: its host, a zero byte, and its port where one was written.
fn hash_of_server(server: &str) -> crc32fast::Hasher {
    let (host, port) = split(server);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(host.as_bytes());
    hasher.update(&[0]);
    hasher.update(port.as_bytes());
    hasher
}

fn split(server: &str) -> (&str, &str) {
    if let Some((scheme, path)) = server.split_at_checked(5)
        && scheme.eq_ignore_ascii_case("unix:")
    {
        return (path, "");
    }
    match server.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (server, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_split_as_it_was_written() {
        for (server, parts) in [
            ("127.0.0.1:80", ("127.0.0.1", "80")),
            ("a.example", ("a.example", "")),
            ("[::1]:8080", ("[::1]", "8080")),
            ("[::1]", ("[::1]", "")),
            ("unix:/run/a:1", ("/run/a:1", "")),
            ("UNIX:/a", ("/a", "")),
            ("a:", ("a", "")),
            ("", ("", "")),
        ] {
            assert_eq!(split(server), parts, "{server}");
        }
    }
}
