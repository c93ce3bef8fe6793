//! Groups whose peers come out of names: when a name stands for other addresses, the peers are made anew. Connections of
//! peers that stay are not touched, since their keys are the same; those of peers that leave are drained (see `keys`).

use crate::base::cells::PeerCells;
use crate::base::logs::error::Level;
use crate::plan::sticky::sid;
use crate::registry::checks::book::CheckedPeer;
use crate::registry::group::{GroupPlan, PeerPlan, PeerSet};
use crate::registry::names::book::Watcher;
use crate::registry::names::keys::KeyHold;
use crate::registry::names::{Found, Question};
use crate::registry::shared::Shared;
use reactor::PeerAddress;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use upstream::balance::{Checked, Group, HealthRegistry, Member, Method, Ordinals, PeerHealth, PeerSpec, SeatLine};
use upstream::shared::{GroupId, PoolKey, TableFull};

/// What the peers of a group are made of.
pub(crate) struct Recipe {
    pub(crate) shared: &'static Shared,
    pub(crate) health: Arc<HealthRegistry>,
    /// The group's name, by which its health and counters are known.
    pub(crate) name: Box<str>,
    pub(crate) id: GroupId,
    pub(crate) method: Method,
    /// Sessions stick to its peers.
    pub(crate) sticky: bool,
    /// Where requests wait for which no peer can be chosen (`queue`).
    pub(crate) line: Option<Arc<SeatLine>>,
    /// Its peers are checked, and a new one begins like this.
    pub(crate) checked: Option<Checked>,
    pub(crate) servers: Vec<ServerRecipe>,
}

/// One `server` of a group.
pub(crate) struct ServerRecipe {
    pub(crate) spec: PeerSpec,
    /// As written.
    pub(crate) text: Arc<str>,
    /// Its name for sessions.
    pub(crate) route: Option<String>,
    pub(crate) source: AddressSource,
}

/// Where a server's addresses come from.
pub(crate) enum AddressSource {
    /// They are written, or were looked up when the configuration was loaded.
    Fixed(Vec<PeerAddress>),
    /// From a name, with a port for those that bring none.
    Name(Arc<Question>, u16),
}

/// Whose connections a set of peers uses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Use {
    /// `proxy_bind`.
    pub(crate) source: Option<IpAddr>,
    /// Identity of the location, where the pool is `local`.
    pub(crate) location: Option<Box<str>>,
}

/// A peer to be.
struct Candidate {
    address: PeerAddress,
    member: Member,
}

/// A group that follows names.
pub(crate) struct MovingGroup {
    recipe: Recipe,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By server; `None` for a name that was not resolved yet.
    found: Vec<Option<Arc<[Found]>>>,
    balance: Option<Arc<Group>>,
    users: Vec<User>,
}

/// A plan that uses the group.
struct User {
    plan: Weak<GroupPlan>,
    of: Use,
}

impl Recipe {
    fn candidates(&self, found: &[Option<Arc<[Found]>>]) -> Vec<Candidate> {
        let (mut candidates, mut ordinals) = (Vec::new(), Ordinals::default());
        let mut add = |server: &ServerRecipe, address: PeerAddress, spec: PeerSpec| {
            let newcomer = self.checked.unwrap_or_default();
            let pooled = pool_address(&address);
            let health = self.health.health(&self.name, &pooled, ordinals.next(&pooled), newcomer);
            let sid = if self.sticky { sid(server.route.as_deref(), &address) } else { Vec::new() };
            let member = Member { spec, server: Arc::clone(&server.text), sid: sid.into(), health };
            candidates.push(Candidate { address, member });
        };
        for (place, server) in self.servers.iter().enumerate() {
            match &server.source {
                AddressSource::Fixed(addresses) => {
                    for address in addresses {
                        add(server, address.clone(), server.spec);
                    }
                }
                AddressSource::Name(_, port) => {
                    let Some(Some(found)) = found.get(place) else { continue };
                    let first = found.iter().map(|one| one.priority).min().unwrap_or(0);
                    for one in found.iter() {
                        let spec = PeerSpec {
                            weight: server.spec.weight.saturating_mul(u32::from(one.weight.max(1))),
                            backup: server.spec.backup || one.priority > first,
                            ..server.spec
                        };
                        add(server, PeerAddress::Ip(SocketAddr::new(one.ip, one.port.unwrap_or(*port))), spec);
                    }
                }
            }
        }
        candidates
    }

    /// The peers as one use has them. One that the pool has no room for is left out, and said.
    fn set(&self, candidates: &[Candidate], of: &Use, balance: Arc<Group>) -> PeerSet {
        let (mut peers, mut holds) = (Vec::new(), Vec::new());
        for Candidate { address, member } in candidates {
            let name = address.to_string();
            match KeyHold::take(self.shared, &pool_key(self.id, address, of)) {
                Ok(hold) => {
                    let cells = self.shared.status.peer(&self.name, &name, member.health.ordinal(), hold.peer);
                    peers.push(PeerPlan {
                        address: address.clone(),
                        name: name.into_bytes().into(),
                        key: hold.key,
                        is_pooled: true,
                        cells,
                    });
                    holds.push(hold);
                }
                Err(error) => {
                    self.shared.error_log.log(Level::Crit, &format!("upstream peer {name} is left out: {error}"));
                }
            }
        }
        PeerSet { peers, balance, _holds: holds }
    }

    /// Who is chosen among them, going on from where the group stood before.
    fn group(&self, candidates: &[Candidate], before: Option<&Group>) -> Arc<Group> {
        let members = candidates.iter().map(|candidate| candidate.member.clone()).collect();
        Arc::new(match (before, &self.line) {
            (Some(before), _) => before.succeed(members),
            (None, Some(line)) => Group::new(self.method, members).with_line(line),
            (None, None) => Group::new(self.method, members),
        })
    }
}

impl MovingGroup {
    /// A group before anything was looked up: the peers that are written are there.
    pub(crate) fn new(recipe: Recipe) -> Arc<Self> {
        let found = recipe.servers.iter().map(|_| None).collect();
        let state = Mutex::new(State { found, balance: None, users: Vec::new() });
        Arc::new(Self { recipe, state })
    }

    /// Begins to follow the names. What is known already is taken over at once.
    pub(crate) fn follow(self: &Arc<Self>) {
        let watcher: Arc<dyn Watcher> = Arc::clone(self) as _;
        let mut followed: Vec<&Arc<Question>> = Vec::new();
        for question in self.questions() {
            if !followed.contains(&question) {
                followed.push(question);
                self.recipe.shared.names.follow(question, &watcher, reactor::monotonic_millis().0);
            }
        }
    }

    fn questions(&self) -> impl Iterator<Item = &Arc<Question>> {
        self.recipe.servers.iter().filter_map(|server| match &server.source {
            AddressSource::Name(question, _) => Some(question),
            AddressSource::Fixed(_) => None,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names that were never looked up, where there is no peer yet: whoever comes so early had better wait.
    pub(crate) fn unresolved(&self) -> Vec<Arc<Question>> {
        let state = self.lock();
        let names = self.recipe.servers.iter().zip(&state.found).filter_map(|(server, found)| match &server.source {
            AddressSource::Name(question, _) if found.is_none() => Some(Arc::clone(question)),
            _ => None,
        });
        names.collect()
    }

    /// The present peers for a plan that is about to be made; it is to [`Self::join`] then.
    pub(crate) fn made_for(&self, of: &Use) -> PeerSet {
        let mut state = self.lock();
        let candidates = self.recipe.candidates(&state.found);
        let balance = state.balance.get_or_insert_with(|| self.recipe.group(&candidates, None));
        self.recipe.set(&candidates, of, Arc::clone(balance))
    }

    /// The present peers that a health check asks.
    pub(crate) fn checked_peers(&self) -> Vec<CheckedPeer> {
        let state = self.lock();
        let candidates = self.recipe.candidates(&state.found).into_iter();
        let asked = candidates.filter(|candidate| !candidate.member.spec.down);
        asked.map(|Candidate { address, member }| CheckedPeer { address, health: member.health }).collect()
    }

    /// Keeps a plan's peers up to date from now on. A name that has moved since [`Self::made_for`] told nobody of this plan.
    pub(crate) fn join(&self, plan: &Arc<GroupPlan>, of: Use) {
        let mut state = self.lock();
        let user = User { plan: Arc::downgrade(plan), of };
        if let (Some(held), Some(balance)) = (plan.members.hold(), &state.balance)
            && !Arc::ptr_eq(&held.balance, balance)
        {
            let balance = Arc::clone(balance);
            self.renew_one(plan, &user, &self.recipe.candidates(&state.found), balance);
        }
        state.users.push(user);
    }

    /// Makes the peers of all plans anew.
    fn renew(&self, state: &mut State) {
        let candidates = self.recipe.candidates(&state.found);
        let balance = self.recipe.group(&candidates, state.balance.as_deref());
        state.balance = Some(Arc::clone(&balance));
        state.users.retain(|user| {
            let Some(plan) = user.plan.upgrade() else { return false };
            self.renew_one(&plan, user, &candidates, Arc::clone(&balance));
            true
        });
        if self.recipe.checked.is_some() {
            self.recipe.shared.checks.changed();
        }
    }

    fn renew_one(&self, plan: &GroupPlan, user: &User, candidates: &[Candidate], balance: Arc<Group>) {
        // Peers that left are retired when the last exchange that began with them is over.
        plan.members.replace(Arc::new(self.recipe.set(candidates, &user.of, balance)));
    }
}

impl Watcher for MovingGroup {
    fn changed(&self, question: &Question, addresses: &[Found]) {
        // Servers rotate their answers; the order of peers is ours.
        let mut sorted = addresses.to_vec();
        sorted.sort_by_key(|found| (found.priority, found.ip, found.port, found.weight));
        let mut state = self.lock();
        let mut before = BTreeSet::new();
        let mut is_new = false;
        for (server, found) in self.recipe.servers.iter().zip(&mut state.found) {
            let AddressSource::Name(asked, _) = &server.source else { continue };
            if **asked != *question || found.as_deref() == Some(&sorted[..]) {
                continue;
            }
            before.extend(found.iter().flat_map(|found| found.iter().map(place)));
            *found = Some(sorted.clone().into());
            is_new = true;
        }
        if is_new {
            self.renew(&mut state);
            drop(state);
            self.tell(question, &before, &sorted.iter().map(place).collect());
        }
    }
}

impl MovingGroup {
    fn tell(&self, question: &Question, before: &BTreeSet<Place>, now: &BTreeSet<Place>) {
        let mut line = format!("upstream \"{}\": {} now has {} addresses", self.recipe.name, question.name, now.len());
        for (sign, changed) in [('+', now.difference(before)), ('-', before.difference(now))] {
            // Writing to a string cannot fail; a line is for reading, so it is not longer than some addresses.
            for (ip, port) in changed.take(ADDRESSES_TOLD_MAX) {
                let _ = match port {
                    Some(port) => write!(line, ", {sign}{}", SocketAddr::new(*ip, *port)),
                    None => write!(line, ", {sign}{ip}"),
                };
            }
        }
        self.recipe.shared.error_log.log(Level::Notice, &line);
    }
}

/// An address as a line of the error log has it: with its port where a service gave one.
type Place = (IpAddr, Option<u16>);

fn place(found: &Found) -> Place {
    (found.ip, found.port)
}

/// Addresses that came or went in one line of the error log.
const ADDRESSES_TOLD_MAX: usize = 8;

/// What peers are made of that only requests have named.
pub(crate) struct Passing {
    pub(crate) shared: &'static Shared,
    pub(crate) id: GroupId,
    /// Whose connections they use.
    pub(crate) of: Use,
    /// Their counters are not shown one by one, since requests must not decide how many labels the metrics have.
    pub(crate) cells: Arc<PeerCells>,
    /// The key of those for which the pool has no number left.
    pub(crate) spare: KeyHold,
}

impl Passing {
    /// The key that peers share for which the pool has no number left.
    pub(crate) fn spare(shared: &'static Shared, id: GroupId, of: &Use) -> Result<KeyHold, TableFull> {
        // No peer has this address.
        let nowhere = PeerAddress::Ip(SocketAddr::from(([0, 0, 0, 0], 0)));
        KeyHold::take(shared, &pool_key(id, &nowhere, of))
    }

    /// A set of peers for addresses that a request named. As in nginx nothing is remembered of them from request to
    /// request but their connections: a name that an attacker, or a mistake, has pointed at somebody else's address must
    /// not eject that address for others.
    pub(crate) fn set(&self, addresses: impl Iterator<Item = PeerAddress>) -> PeerSet {
        let (mut peers, mut holds, mut members) = (Vec::new(), Vec::new(), Vec::new());
        for address in addresses {
            let hold = KeyHold::take_guest(self.shared, &pool_key(self.id, &address, &self.of));
            let name = address.to_string();
            members.push(Member {
                spec: PeerSpec { max_fails: 0, ..PeerSpec::default() },
                server: name.as_str().into(),
                sid: Arc::default(),
                health: Arc::<PeerHealth>::default(),
            });
            peers.push(PeerPlan {
                address,
                name: name.into_bytes().into(),
                key: hold.as_ref().map_or(self.spare.key, |hold| hold.key),
                is_pooled: hold.is_some(),
                cells: Arc::clone(&self.cells),
            });
            holds.extend(hold);
        }
        PeerSet { peers, balance: Arc::new(Group::new(Method::RoundRobin, members)), _holds: holds }
    }
}

fn pool_key(group: GroupId, address: &PeerAddress, of: &Use) -> PoolKey {
    PoolKey {
        group,
        peer: pool_address(address),
        tls: None,
        source: of.source,
        proxy_protocol: false,
        location: of.location.clone(),
    }
}

/// An address as the pool has it.
pub(crate) fn pool_address(address: &PeerAddress) -> upstream::shared::PeerAddress {
    match address {
        PeerAddress::Ip(address) => upstream::shared::PeerAddress::Ip(*address),
        PeerAddress::Unix(path) => upstream::shared::PeerAddress::Unix(path.as_path().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::logs::error::ErrorLog;
    use crate::registry::group::Members;
    use crate::registry::names::ResolverPlan;
    use std::time::Duration;
    use upstream::shared::GroupLimits;

    struct Scene {
        question: Arc<Question>,
        moving: Arc<MovingGroup>,
    }

    fn scene() -> Scene {
        let shared = Shared::leak(1, ErrorLog::new(Level::Notice, 0)).unwrap();
        let id = shared.pool.intern_group("app", &GroupLimits::keepalive(4, false, 1)).unwrap();
        let resolver =
            ResolverPlan { servers: vec![], valid_ms: None, ipv4: true, ipv6: false, timeout_ms: 1000, zone: None };
        let question = Question { resolver: Arc::new(resolver), name: "app.test".into(), service: None };
        let question = Arc::new(question);
        let server = ServerRecipe {
            spec: PeerSpec::default(),
            text: "app.test:80".into(),
            route: None,
            source: AddressSource::Name(Arc::clone(&question), 80),
        };
        let moving = MovingGroup::new(Recipe {
            shared,
            health: Arc::default(),
            name: "app".into(),
            id,
            method: Method::RoundRobin,
            sticky: false,
            line: None,
            checked: None,
            servers: vec![server],
        });
        Scene { question, moving }
    }

    impl Scene {
        fn moves_to(&self, last: &[u8]) {
            let found = |last: &u8| Found { ip: [192, 0, 2, *last].into(), port: None, priority: 0, weight: 0 };
            self.moving.changed(&self.question, &last.iter().map(found).collect::<Vec<_>>());
        }

        fn plan_of(&self, set: PeerSet) -> Arc<GroupPlan> {
            let shared = self.moving.recipe.shared;
            Arc::new(GroupPlan {
                host: b"app".as_slice().into(),
                members: Members::Moving(Mutex::new(Arc::new(set))),
                hash_key: None,
                sticky: None,
                queue_timeout: Duration::ZERO,
                cells: shared.status.group("app", self.moving.recipe.id),
                moving: None,
            })
        }
    }

    fn names(plan: &GroupPlan) -> Vec<String> {
        let held = plan.members.hold().unwrap();
        assert_eq!(held.peers.len(), held.balance.len(), "one set, one balance");
        held.peers.iter().map(|peer| String::from_utf8_lossy(&peer.name).into_owned()).collect()
    }

    #[test]
    fn a_name_that_moves_while_a_generation_is_made_has_moved_for_it_too() {
        let scene = scene();
        scene.moves_to(&[1]);
        let plan = scene.plan_of(scene.moving.made_for(&Use::default()));
        scene.moves_to(&[2, 3]);
        assert_eq!(names(&plan), ["192.0.2.1:80"]);
        scene.moving.join(&plan, Use::default());
        assert_eq!(names(&plan), ["192.0.2.2:80", "192.0.2.3:80"]);
        scene.moves_to(&[3]);
        assert_eq!(names(&plan), ["192.0.2.3:80"]);
    }

    #[test]
    fn plans_that_join_while_the_name_moves_all_end_where_it_does() {
        const MOVES: u8 = 200;
        let scene = scene();
        let plans = std::thread::scope(|threads| {
            threads.spawn(|| (1..=MOVES).for_each(|last| scene.moves_to(&[last])));
            let joining = || {
                let make = |_| {
                    let plan = scene.plan_of(scene.moving.made_for(&Use::default()));
                    scene.moving.join(&plan, Use::default());
                    plan
                };
                (0..100).map(make).collect::<Vec<_>>()
            };
            let joining: Vec<_> = (0..2).map(|_| threads.spawn(joining)).collect();
            joining.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        for plan in &plans {
            assert_eq!(names(plan), [format!("192.0.2.{MOVES}:80")]);
        }
        // What nobody uses any more is retired; what is used is not.
        let pool = &scene.moving.recipe.shared.pool;
        let held = plans[0].members.hold().unwrap();
        assert!(pool.open_spare(upstream::WorkerId(0), held.peers[0].key).is_some());
        let before = held.peers[0].key;
        drop((held, plans));
        scene.moves_to(&[1]);
        assert!(pool.open_spare(upstream::WorkerId(0), before).is_none());
    }

    #[test]
    fn addresses_that_requests_name_never_run_out_and_leave_numbers_to_written_groups() {
        let scene = scene();
        let shared = scene.moving.recipe.shared;
        let id = shared.pool.intern_group("guests", &GroupLimits::keepalive(4, false, 1)).unwrap();
        let of = Use::default();
        let spare = Passing::spare(shared, id, &of).unwrap();
        let passing = Passing { shared, id, of, cells: shared.status.unlisted_peer(), spare };
        let address = |number: u32| SocketAddr::from((std::net::Ipv4Addr::from(0x0a00_0000 + number), 80));
        // Exchanges use all of them at the same time.
        let sets: Vec<PeerSet> = (0..40_000).map(|number| passing.set([address(number).into()].into_iter())).collect();
        let pooled = sets.iter().filter(|set| set.peers[0].is_pooled).count();
        assert_eq!(pooled, 32_767, "all but the one that the others share");
        assert!(sets.iter().all(|set| shared.pool.open_spare(upstream::WorkerId(0), set.peers[0].key).is_some()));
        // A written group may have as many addresses again.
        for number in 0..30_000 {
            let key = pool_key(scene.moving.recipe.id, &PeerAddress::Ip(address(number)), &Use::default());
            assert!(KeyHold::take(shared, &key).is_ok());
        }
        drop(sets);
        assert!(passing.set([address(50_000).into()].into_iter()).peers[0].is_pooled);
    }
}
