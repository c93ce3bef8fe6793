//! Binds groups: their numbers in the pool, their peers with keys and health, sessions, waiting lines and counters.

use crate::plan::group::{GroupIndex, GroupPlan, GroupUse, GroupUseId, WarmingPlan};
use crate::plan::slots::Slots;
use crate::plan::sticky::{StickyPlan, zone_of_another};
use crate::registry::bind::Binding;
use crate::registry::checks::schedule::{CheckedPeers, GroupChecks};
use crate::registry::generation::{Floor, MovingFloor};
use crate::registry::group::{BoundGroup, Members};
use crate::registry::guests::Guests;
use crate::registry::names::moving::MovingGroup;
use crate::registry::peer_states::{PeerStates, PeerStatesBuilder};
use crate::registry::recipe::{Candidate, Recipe};
use conf::diagnostic::Diagnostic;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use upstream::balance::{Group, SeatLine, Sessions};
use upstream::shared::GroupId;

/// The bound groups of a plan.
#[derive(Default)]
pub(super) struct BoundGroups {
    /// By `GroupUseId`.
    pub(super) uses: Slots<BoundGroup>,
    pub(super) guests: Vec<Guests>,
    pub(super) floors: Vec<Floor>,
    pub(super) moving_floors: Vec<MovingFloor>,
    pub(super) checks: Vec<GroupChecks>,
    pub(super) peer_states: PeerStates,
}

/// A group without its uses.
struct InternedGroup {
    id: GroupId,
    sessions: Option<Arc<Sessions>>,
    peers: Peers,
}

/// The source of the peers of a group's uses.
enum Peers {
    /// Fixed peers. Candidates and balance do not depend on the use, so all uses share them.
    Fixed { recipe: Recipe, candidates: Vec<Candidate>, balance: Arc<Group> },
    /// Peers from names.
    Moving(Arc<MovingGroup>),
}

impl Binding<'_> {
    /// Binds all groups; `None` if one could not be bound.
    pub(super) fn groups(&mut self) -> Option<BoundGroups> {
        let mut bound = BoundGroups::default();
        let plan = self.plan;
        let mut groups = InternedGroups::default();
        let moving = self.shared_groups();
        for (index, group) in plan.groups.numbered() {
            groups.insert(GroupIndex(index), self.intern(group, moving.get(&index))?);
        }
        bound.checks = checks(&plan.groups, &groups);
        let mut uses = Vec::new();
        for (id, used) in plan.group_uses.numbered() {
            let known = self.before.as_ref().and_then(|before| before.group_again(plan, id));
            uses.push((id, known.unwrap_or_else(|| self.group_use(used, interned_of(&groups, used.group)))));
        }
        bound.uses = Slots::with(uses);
        let mut states = PeerStatesBuilder::new(&self.known.drained, self.known.generations);
        for (id, used) in plan.group_uses.numbered() {
            states.add(interned_of(&groups, used.group).id, bound.uses.get(id));
        }
        (bound.peer_states, self.known.drained) = states.finish();
        for guests in &self.plan.guests {
            let used = self.plan.group_uses.get(guests.group.0);
            match Guests::new(self.registry, interned_of(&groups, used.group).id, used.sharing.clone()) {
                Ok(made) => bound.guests.push(made),
                Err(error) => self.found.push(Diagnostic::error(guests.span, error.to_string())),
            }
        }
        for floor in &self.plan.floors {
            let tls = floor.warming.tls.as_ref().map(|tls| self.known.side(tls));
            bound.add_floor(floor.group, WarmingPlan { tls, ..floor.warming.clone() });
        }
        Some(bound)
    }

    /// The groups of the generation before that this one has, too, by their number.
    fn shared_groups(&self) -> HashMap<u32, Arc<MovingGroup>> {
        let Some(before) = &self.before else { return HashMap::new() };
        let shared = before.groups.numbered().filter_map(|(id, group)| {
            let index = before.plan.group_uses.get(id).group.0;
            let is_same = self.plan.groups.find(index).is_some_and(|plan| Arc::ptr_eq(plan, &group.plan));
            Some((index, Arc::clone(group.moving.as_ref().filter(|_| is_same)?)))
        });
        shared.collect()
    }

    fn intern(&mut self, plan: &Arc<GroupPlan>, known: Option<&Arc<MovingGroup>>) -> Option<InternedGroup> {
        let sessions = match &plan.sticky {
            Some(StickyPlan::Learn(_)) => Some(self.sessions(plan)?),
            _ => None,
        };
        let id = match self.registry.pool.intern_group(&plan.name, &plan.limits) {
            Ok(id) => id,
            Err(error) => {
                self.found.push(Diagnostic::error(plan.span, error.to_string()));
                return None;
            }
        };
        if let Some(moving) = known {
            return Some(InternedGroup { id, sessions, peers: Peers::Moving(Arc::clone(moving)) });
        }
        let (health, line) = (Arc::clone(&self.known.health), self.line(plan));
        let recipe = Recipe { registry: self.registry, health, plan: Arc::clone(plan), id, line };
        let peers = if plan.follows_names() {
            let moving = MovingGroup::new(recipe);
            moving.follow();
            Peers::Moving(moving)
        } else {
            let candidates = recipe.candidates(&[]);
            let balance = recipe.group(&candidates, None);
            Peers::Fixed { recipe, candidates, balance }
        };
        Some(InternedGroup { id, sessions, peers })
    }

    fn group_use(&mut self, used: &GroupUse, interned: &InternedGroup) -> Arc<BoundGroup> {
        let plan = Arc::clone(self.plan.groups.get(used.group.0));
        let cells = self.registry.status.group(&plan.name, interned.id);
        let sessions = interned.sessions.clone();
        match &interned.peers {
            Peers::Fixed { recipe, candidates, balance } => {
                if let Some(line) = &recipe.line {
                    cells.show_line(line);
                }
                let set = recipe.set(candidates, &used.sharing, Arc::clone(balance), |candidate, error| {
                    let span = plan.servers[candidate.server].span;
                    self.found.push(Diagnostic::error(span, error.to_string()));
                });
                Arc::new(BoundGroup { plan, members: Members::Fixed(set), sessions, cells, moving: None })
            }
            Peers::Moving(moving) => {
                if let Some(line) = moving.line() {
                    cells.show_line(line);
                }
                let members = Members::Moving(Mutex::new(Arc::new(moving.made_for(&used.sharing))));
                let bound = Arc::new(BoundGroup { plan, members, sessions, cells, moving: Some(Arc::clone(moving)) });
                moving.join(&bound, used.sharing.clone());
                bound
            }
        }
    }

    /// The line for requests without an available peer. A group name has the same line in all generations.
    fn line(&mut self, plan: &GroupPlan) -> Option<Arc<SeatLine>> {
        let length = plan.queue_length?;
        let registry = self.registry;
        let line = self.known.lines.entry(plan.name.clone());
        let line = line.or_insert_with(|| Arc::new(SeatLine::new(Box::new(move |token| registry.wake(token)))));
        line.set_waiting_max(length);
        Some(Arc::clone(line))
    }

    /// The sessions of a zone: those of the previous generation, if it had the zone for the same group.
    fn sessions(&mut self, plan: &GroupPlan) -> Option<Arc<Sessions>> {
        let Some(StickyPlan::Learn(learn)) = &plan.sticky else { return None };
        let (bytes, timeout_ms) = (learn.zone_bytes, learn.timeout.as_millis() as u64);
        let (owner, sessions) = self
            .known
            .sessions
            .entry(learn.zone.clone())
            .or_insert_with(|| (plan.name.clone(), Arc::new(Sessions::new(bytes, timeout_ms))));
        if *owner != plan.name {
            self.found.push(zone_of_another(&learn.zone, plan.span));
            return None;
        }
        sessions.reconfigure(bytes, timeout_ms);
        Some(Arc::clone(sessions))
    }
}

impl BoundGroups {
    fn add_floor(&mut self, group: GroupUseId, warming: WarmingPlan) {
        let group = self.uses.get(group.0);
        match &group.members {
            Members::Fixed(set) => self.floors.extend(set.distinct().map(|peer| Floor {
                key: peer.key,
                address: peer.address.clone(),
                warming: warming.clone(),
            })),
            Members::Moving(_) => {
                self.moving_floors.push(MovingFloor { group: Arc::clone(group), warming });
            }
        }
    }
}

type InternedGroups = HashMap<GroupIndex, InternedGroup>;

fn interned_of(groups: &InternedGroups, index: GroupIndex) -> &InternedGroup {
    groups.get(&index).expect("all groups of a plan are bound")
}

/// The groups with checked peers; all uses have the same peers.
fn checks(plans: &Slots<GroupPlan>, groups: &InternedGroups) -> Vec<GroupChecks> {
    let checked = plans.numbered().filter_map(|(index, plan)| {
        let peers = match &interned_of(groups, GroupIndex(index)).peers {
            Peers::Fixed { candidates, .. } => {
                CheckedPeers::Fixed(candidates.iter().filter_map(Candidate::checked).collect())
            }
            Peers::Moving(moving) => CheckedPeers::Moving(Arc::clone(moving)),
        };
        Some(GroupChecks { plan: Arc::clone(plan.check.as_ref()?), peers })
    });
    checked.collect()
}
