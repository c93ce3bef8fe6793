//! Peers that only requests name, through a `proxy_pass` with variables: kept for later requests to the same names,
//! within limits.

use crate::base::cells::PeerCells;
use crate::plan::group::Sharing;
use crate::registry::group::{BoundPeer, PeerSet};
use crate::registry::names::Found;
use crate::registry::names::keys::{KeyHold, NamedKeys};
use crate::registry::process::Registry;
use crate::registry::recipe::pool_key;
use reactor::PeerAddress;
use rustc_hash::FxHashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use upstream::balance::{Group, Member, Method, PeerHealth, PeerSpec};
use upstream::shared::{GroupId, TableFull};

/// Most sets of peers that one `proxy_pass` keeps. Beyond it, and if the pool has no number for another peer, the least
/// recently used set is dropped with its idle connections.
const SETS_MAX: usize = 1024;
/// Most sets dropped to get one number of the pool. Dropping a set that exchanges still use frees none. Without a
/// number the request works too, but its connections are not kept.
const LOOKS_MAX: usize = 4;

/// The peers of one `proxy_pass` with variables that only requests have named.
pub(crate) struct Guests {
    registry: &'static Registry,
    id: GroupId,
    sharing: Sharing,
    /// One set of counters for all, since requests must not decide how many labels the metrics have.
    cells: Arc<PeerCells>,
    /// The key for peers that get no number of the pool.
    spare: KeyHold,
    sets: Mutex<GuestSets>,
}

impl Guests {
    /// Starts empty. The error: the pool has no number left for the key of [`Self::spare`].
    pub(crate) fn new(registry: &'static Registry, id: GroupId, sharing: Sharing) -> Result<Self, TableFull> {
        // No peer has this address.
        let nowhere = PeerAddress::Ip(SocketAddr::from(([0, 0, 0, 0], 0)));
        let spare = KeyHold::take(registry, &pool_key(id, &nowhere, &sharing))?;
        let cells = registry.status.unlisted_peer();
        Ok(Self { registry, id, sharing, cells, spare, sets: Mutex::default() })
    }

    /// The peers of a name with these addresses.
    pub(crate) fn peers(&self, host: &str, port: u16, found: &Arc<[Found]>, now_ms: u64) -> Arc<PeerSet> {
        let addresses = found.iter().map(|one| SocketAddr::new(one.ip, one.port.unwrap_or(port)).into());
        self.kept_or_made((Box::from(host), port), found, &addresses, now_ms)
    }

    /// The peer that is a Unix socket.
    pub(crate) fn unix_peer(&self, path: &str, now_ms: u64) -> Arc<PeerSet> {
        let key = (format!("unix:{path}").into(), 0);
        self.kept_or_made(key, &Arc::default(), &std::iter::once(PeerAddress::Unix(path.into())), now_ms)
    }

    fn kept_or_made(
        &self,
        key: (Box<str>, u16),
        found: &Arc<[Found]>,
        addresses: &(impl Iterator<Item = PeerAddress> + Clone),
        now_ms: u64,
    ) -> Arc<PeerSet> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = sets.0.get_mut(&key).filter(|kept| is_same(&kept.found, found)) {
            kept.used_at_ms = now_ms;
            return Arc::clone(&kept.set);
        }
        if sets.0.len() >= SETS_MAX {
            sets.forget_oldest();
        }
        let mut set = self.set(addresses.clone());
        let mut looks = 0;
        while looks < LOOKS_MAX && set.peers.iter().any(|peer| !peer.is_pooled) && sets.forget_oldest() {
            set = self.set(addresses.clone());
            looks += 1;
        }
        let set = Arc::new(set);
        sets.0.insert(key, GuestSet { found: Arc::clone(found), set: Arc::clone(&set), used_at_ms: now_ms });
        set
    }

    /// A set of peers for addresses that a request named. As in nginx, only their connections are remembered from
    /// request to request: a name that an attacker, or a mistake, has pointed at a foreign address must not eject that
    /// address for others.
    fn set(&self, addresses: impl Iterator<Item = PeerAddress>) -> PeerSet {
        let (mut peers, mut holds, mut members) = (Vec::new(), Vec::new(), Vec::new());
        for address in addresses {
            let hold = KeyHold::take_guest(self.registry, &pool_key(self.id, &address, &self.sharing));
            let named = hold.as_ref().and_then(|_| NamedKeys::of(self.registry, self.id, &address, &self.sharing));
            let name = address.to_string();
            members.push(Member {
                spec: PeerSpec { max_fails: 0, ..PeerSpec::default() },
                server: name.as_str().into(),
                sid: Arc::default(),
                health: Arc::<PeerHealth>::default(),
            });
            peers.push(BoundPeer {
                address,
                name: name.into_bytes().into(),
                key: hold.as_ref().map_or(self.spare.key, |hold| hold.key),
                is_pooled: hold.is_some(),
                named,
                cells: Arc::clone(&self.cells),
            });
            holds.extend(hold);
        }
        PeerSet { peers, balance: Arc::new(Group::new(Method::RoundRobin, members)), holds }
    }
}

/// Whether two answers are equal: servers rotate them, so the order does not matter.
fn is_same(one: &Arc<[Found]>, other: &Arc<[Found]>) -> bool {
    Arc::ptr_eq(one, other) || (one.len() == other.len() && one.iter().all(|found| other.contains(found)))
}

/// Sets of peers by host and port.
#[derive(Default)]
struct GuestSets(FxHashMap<(Box<str>, u16), GuestSet>);

impl GuestSets {
    /// Drops the least recently used set; `false`: there is none.
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.0.iter().min_by_key(|(_, kept)| kept.used_at_ms).map(|(key, _)| key.clone());
        oldest.is_some_and(|oldest| self.0.remove(&oldest).is_some())
    }
}

struct GuestSet {
    found: Arc<[Found]>,
    set: Arc<PeerSet>,
    used_at_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::logs::error::{ErrorLog, Level};
    use upstream::shared::GroupLimits;

    #[test]
    fn request_addresses_leave_numbers_for_written_groups() {
        let registry = Registry::leak(1, ErrorLog::new(Level::Notice, 0)).unwrap();
        let limits = GroupLimits::keepalive(4, false, 1);
        let id = registry.pool.intern_group("guests", &limits).unwrap();
        let written = registry.pool.intern_group("app", &limits).unwrap();
        let guests = Guests::new(registry, id, Sharing::default()).unwrap();
        let address = |number: u32| SocketAddr::from((std::net::Ipv4Addr::from(0x0a00_0000 + number), 80));
        // Exchanges use all of them at the same time.
        let sets: Vec<PeerSet> = (0..40_000).map(|number| guests.set([address(number).into()].into_iter())).collect();
        let pooled = sets.iter().filter(|set| set.peers[0].is_pooled).count();
        assert_eq!(pooled, 32_767, "all but the one that the others share");
        assert!(sets.iter().all(|set| registry.pool.open_spare(upstream::WorkerId(0), set.peers[0].key).is_some()));
        // A written group can still get as many addresses.
        for number in 0..30_000 {
            let key = pool_key(written, &PeerAddress::Ip(address(number)), &Sharing::default());
            assert!(KeyHold::take(registry, &key).is_ok());
        }
        drop(sets);
        assert!(guests.set([address(50_000).into()].into_iter()).peers[0].is_pooled);
    }
}
