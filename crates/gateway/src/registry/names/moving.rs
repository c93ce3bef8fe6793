//! Groups with peers from names: when the addresses of a name change, the peers are rebuilt. Connections of peers that
//! stay are not affected, since their keys are the same; those of peers that leave are drained (see `keys`).

use crate::base::logs::error::Level;
use crate::plan::group::{AddressSource, Sharing};
use crate::plan::name::Question;
use crate::registry::checks::schedule::CheckedPeer;
use crate::registry::group::{BoundGroup, PeerSet};
use crate::registry::names::Found;
use crate::registry::names::cache::Watcher;
use crate::registry::recipe::{Candidate, Recipe};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use upstream::balance::{Group, SeatLine};

/// A group that follows names.
pub(crate) struct MovingGroup {
    recipe: Recipe,
    state: Mutex<GroupNames>,
}

#[derive(Default)]
struct GroupNames {
    /// Addresses by server; `None` for a name that was not resolved yet.
    found: Vec<Option<Arc<[Found]>>>,
    balance: Option<Arc<Group>>,
    users: Vec<User>,
}

/// A use of the group.
struct User {
    group: Weak<BoundGroup>,
    sharing: Sharing,
}

impl MovingGroup {
    /// A group before any lookup: it has only the written peers.
    pub(crate) fn new(recipe: Recipe) -> Arc<Self> {
        let found = recipe.plan.servers.iter().map(|_| None).collect();
        let state = Mutex::new(GroupNames { found, balance: None, users: Vec::new() });
        Arc::new(Self { recipe, state })
    }

    /// Starts to follow the names. Known addresses are used at once.
    pub(crate) fn follow(self: &Arc<Self>) {
        let watcher: Arc<dyn Watcher> = Arc::clone(self) as _;
        let mut followed: Vec<&Arc<Question>> = Vec::new();
        for question in self.recipe.plan.questions() {
            if !followed.contains(&question) {
                followed.push(question);
                self.recipe.registry.names.follow(question, &watcher, reactor::monotonic_millis().0);
            }
        }
    }

    /// The peers for one use. A peer that the pool has no room for is left out and logged.
    fn set(&self, candidates: &[Candidate], sharing: &Sharing, balance: Arc<Group>) -> PeerSet {
        self.recipe.set(candidates, sharing, balance, |candidate, error| {
            let message = format!("upstream peer {} is left out: {error}", candidate.address);
            self.recipe.registry.error_log.log(Level::Crit, &message);
        })
    }

    /// Whether the controller gives the addresses, so that none means: the Service has no endpoints.
    pub(crate) fn is_of_own_names(&self) -> bool {
        self.recipe.plan.questions().any(|question| self.recipe.registry.names.is_own(&question.name))
    }

    fn lock(&self) -> MutexGuard<'_, GroupNames> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names that were never looked up, if there is no peer yet: early requests should wait for them.
    pub(crate) fn unresolved(&self) -> Vec<Arc<Question>> {
        let state = self.lock();
        let names =
            self.recipe.plan.servers.iter().zip(&state.found).filter_map(|(server, found)| match &server.source {
                AddressSource::Name(question, _) if found.is_none() => Some(Arc::clone(question)),
                _ => None,
            });
        names.collect()
    }

    pub(crate) fn line(&self) -> Option<&Arc<SeatLine>> {
        self.recipe.line.as_ref()
    }

    /// The present peers for a use that is being bound; call [`Self::join`] for it afterwards.
    pub(crate) fn made_for(&self, sharing: &Sharing) -> PeerSet {
        let mut state = self.lock();
        let candidates = self.recipe.candidates(&state.found);
        let balance = state.balance.get_or_insert_with(|| self.recipe.group(&candidates, None));
        self.set(&candidates, sharing, Arc::clone(balance))
    }

    /// The present peers for health checks.
    pub(crate) fn checked_peers(&self) -> Vec<CheckedPeer> {
        let state = self.lock();
        self.recipe.candidates(&state.found).iter().filter_map(Candidate::checked).collect()
    }

    /// Keeps the peers of a use up to date from now on. Also applies changes since [`Self::made_for`].
    pub(crate) fn join(&self, group: &Arc<BoundGroup>, sharing: Sharing) {
        let mut state = self.lock();
        let user = User { group: Arc::downgrade(group), sharing };
        if let (Some(held), Some(balance)) = (group.members.hold(), &state.balance)
            && !Arc::ptr_eq(&held.balance, balance)
        {
            let balance = Arc::clone(balance);
            self.renew_one(group, &user, &self.recipe.candidates(&state.found), balance);
        }
        state.users.push(user);
    }

    /// Rebuilds the peers of all uses.
    fn renew(&self, state: &mut GroupNames) {
        let candidates = self.recipe.candidates(&state.found);
        let balance = self.recipe.group(&candidates, state.balance.as_deref());
        state.balance = Some(Arc::clone(&balance));
        state.users.retain(|user| {
            let Some(group) = user.group.upgrade() else { return false };
            self.renew_one(&group, user, &candidates, Arc::clone(&balance));
            true
        });
        if self.recipe.plan.check.is_some() {
            self.recipe.registry.checks.changed();
        }
    }

    fn renew_one(&self, group: &BoundGroup, user: &User, candidates: &[Candidate], balance: Arc<Group>) {
        // Peers that left are retired when the last exchange that began with them has ended.
        group.members.replace(Arc::new(self.set(candidates, &user.sharing, balance)));
    }
}

impl Watcher for MovingGroup {
    fn changed(&self, question: &Question, addresses: &[Found]) {
        // Servers rotate their answers, so the order of peers is fixed here.
        let mut sorted = addresses.to_vec();
        sorted.sort_by_key(|found| (found.priority, found.ip, found.port, found.weight));
        let mut state = self.lock();
        let mut before = BTreeSet::new();
        let mut is_new = false;
        for (server, found) in self.recipe.plan.servers.iter().zip(&mut state.found) {
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
            self.notify_followers(question, &before, &sorted.iter().map(place).collect());
        }
    }
}

impl MovingGroup {
    fn notify_followers(&self, question: &Question, before: &BTreeSet<Place>, now: &BTreeSet<Place>) {
        let mut line =
            format!("upstream \"{}\": {} now has {} addresses", self.recipe.plan.name, question.name, now.len());
        for (sign, changed) in [('+', now.difference(before)), ('-', before.difference(now))] {
            // Writing to a string cannot fail. The line is for people, so it lists only some addresses.
            for (ip, port) in changed.take(ADDRESSES_TOLD_MAX) {
                let _ = match port {
                    Some(port) => write!(line, ", {sign}{}", SocketAddr::new(*ip, *port)),
                    None => write!(line, ", {sign}{ip}"),
                };
            }
        }
        self.recipe.registry.error_log.log(Level::Notice, &line);
    }
}

/// An address in a line of the error log: with its port if a service gave one.
type Place = (IpAddr, Option<u16>);

fn place(found: &Found) -> Place {
    (found.ip, found.port)
}

/// Most changed addresses in one line of the error log.
const ADDRESSES_TOLD_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::logs::error::ErrorLog;
    use crate::plan::name::ResolverPlan;
    use crate::registry::group::Members;
    use crate::registry::process::Registry;
    use crate::registry::recipe;

    struct Scene {
        question: Arc<Question>,
        moving: Arc<MovingGroup>,
    }

    fn scene() -> Scene {
        let registry = Registry::leak(1, ErrorLog::new(Level::Notice, 0)).unwrap();
        let resolver =
            ResolverPlan { servers: vec![], valid_ms: None, ipv4: true, ipv6: false, timeout_ms: 1000, zone: None };
        let question = Question { resolver: Arc::new(resolver), name: "app.test".into(), service: None };
        let question = Arc::new(question);
        let recipe = recipe::tests::recipe(registry, "app", AddressSource::Name(Arc::clone(&question), 80));
        Scene { question, moving: MovingGroup::new(recipe) }
    }

    impl Scene {
        fn moves_to(&self, last: &[u8]) {
            let found = |last: &u8| Found { ip: [192, 0, 2, *last].into(), port: None, priority: 0, weight: 0 };
            self.moving.changed(&self.question, &last.iter().map(found).collect::<Vec<_>>());
        }

        fn bound(&self, set: PeerSet) -> Arc<BoundGroup> {
            let recipe = &self.moving.recipe;
            Arc::new(BoundGroup {
                plan: Arc::clone(&recipe.plan),
                members: Members::Moving(Mutex::new(Arc::new(set))),
                sessions: None,
                cells: recipe.registry.status.group("app", recipe.id),
                moving: None,
            })
        }
    }

    fn names(group: &BoundGroup) -> Vec<String> {
        let held = group.members.hold().unwrap();
        assert_eq!(held.peers.len(), held.balance.len(), "one set, one balance");
        held.peers.iter().map(|peer| String::from_utf8_lossy(&peer.name).into_owned()).collect()
    }

    #[test]
    fn name_change_during_a_reload_reaches_the_new_generation() {
        let scene = scene();
        scene.moves_to(&[1]);
        let plan = scene.bound(scene.moving.made_for(&Sharing::default()));
        scene.moves_to(&[2, 3]);
        assert_eq!(names(&plan), ["192.0.2.1:80"]);
        scene.moving.join(&plan, Sharing::default());
        assert_eq!(names(&plan), ["192.0.2.2:80", "192.0.2.3:80"]);
        scene.moves_to(&[3]);
        assert_eq!(names(&plan), ["192.0.2.3:80"]);
    }

    #[test]
    fn plans_joining_during_a_move_end_at_the_new_address() {
        const MOVES: u8 = 200;
        let scene = scene();
        let plans = std::thread::scope(|threads| {
            threads.spawn(|| (1..=MOVES).for_each(|last| scene.moves_to(&[last])));
            let joining = || {
                let make = |_| {
                    let plan = scene.bound(scene.moving.made_for(&Sharing::default()));
                    scene.moving.join(&plan, Sharing::default());
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
        // Unused keys are retired; used keys are not.
        let pool = &scene.moving.recipe.registry.pool;
        let held = plans[0].members.hold().unwrap();
        assert!(pool.open_spare(upstream::WorkerId(0), held.peers[0].key).is_some());
        let before = held.peers[0].key;
        drop((held, plans));
        scene.moves_to(&[1]);
        assert!(pool.open_spare(upstream::WorkerId(0), before).is_none());
    }
}
