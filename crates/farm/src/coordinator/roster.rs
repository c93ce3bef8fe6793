//! The agents that are there. Pure.

use crate::SILENCE_MAX;
use crate::message::{AgentState, Beat, Name, version};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Most agents that are remembered: far more than a load has parts.
const AGENTS_MAX: usize = 1024;

/// The agents that are there, by name, with each session of a name.
#[derive(Debug, Clone, Default)]
pub(super) struct Roster(BTreeMap<(Name, u64), (Beat, u64)>);

impl Roster {
    /// An agent lives.
    pub(super) fn take(&mut self, beat: Beat, now_ns: u64) {
        self.prune(now_ns);
        let key = (beat.name.clone(), beat.session);
        if beat.state == AgentState::Leaving {
            self.0.remove(&key);
        } else if self.0.len() < AGENTS_MAX || self.0.contains_key(&key) {
            self.0.insert(key, (beat, now_ns));
        }
    }

    /// The connection was opened or lost: no agent could send in between.
    pub(super) fn connection(&mut self, now_ns: u64) {
        self.0.values_mut().for_each(|(_, heard_ns)| *heard_ns = now_ns);
    }

    fn prune(&mut self, now_ns: u64) {
        self.0.retain(|_, (_, heard_ns)| now_ns.saturating_sub(*heard_ns) < SILENCE_MAX.as_nanos() as u64);
    }

    /// The agents that sent something lately.
    pub(super) fn living(&mut self, now_ns: u64) -> Self {
        self.prune(now_ns);
        self.clone()
    }

    pub(super) fn into_beats(self) -> Vec<Beat> {
        self.0.into_values().map(|(beat, _)| beat).collect()
    }

    fn beats(&self) -> impl Iterator<Item = &Beat> {
        self.0.values().map(|(beat, _)| beat)
    }

    /// Those that take orders.
    pub(super) fn idle(&self) -> Vec<Beat> {
        let fits = |beat: &&Beat| beat.state == AgentState::Idle && beat.version == version();
        self.beats().filter(fits).cloned().collect()
    }

    /// Two agents with one name.
    pub(super) fn conflict(&self) -> Option<String> {
        let names: Vec<&Name> = self.0.keys().map(|(name, _)| name).collect();
        let twice = names.windows(2).find(|pair| pair.first() == pair.last())?;
        let name = twice.first()?;
        Some(format!("two agents are named `{name}`: give one of them another --name"))
    }

    /// Why there are fewer agents than wanted.
    pub(super) fn missing(&self, farm: &Name, wanted: usize) -> String {
        let mut text = format!("farm `{farm}` has {} of {wanted} agents that take orders", self.idle().len());
        for beat in self.beats() {
            let Beat { name, state, version: other, .. } = beat;
            if *other != version() {
                let _ = write!(text, "; `{name}` has version {other}, this is {}", version());
            } else if *state != AgentState::Idle {
                let _ = write!(text, "; `{name}` is {state}");
            }
        }
        if self.0.is_empty() {
            text.push_str("; `holdfast load agent` starts one");
        }
        text
    }
}

#[cfg(test)]
pub(super) fn beat(name: &str, session: u64) -> Beat {
    Beat {
        version: version(),
        name: name.parse().unwrap(),
        session,
        cores: 2,
        addresses: Vec::new(),
        limits: load::Limits::read(),
        allow: String::new(),
        state: AgentState::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_agents_that_cannot_be_taken() {
        let mut roster = Roster::default();
        let missing = roster.missing(&"a".parse().unwrap(), 2);
        assert_eq!(missing, "farm `a` has 0 of 2 agents that take orders; `holdfast load agent` starts one");
        roster.take(beat("idle", 1), 0);
        roster.take(Beat { state: AgentState::Busy, ..beat("busy", 2) }, 0);
        roster.take(Beat { version: "9.0.0/1".to_owned(), ..beat("newer", 3) }, 0);
        let missing = roster.missing(&"a".parse().unwrap(), 2);
        assert!(missing.contains("1 of 2") && missing.contains("`busy` is busy"), "{missing}");
        assert!(missing.contains("`newer` has version 9.0.0/1"), "{missing}");
        assert_eq!(roster.idle().len(), 1);
    }

    #[test]
    fn forgets_silent_agents_and_reports_duplicate_names() {
        let mut roster = Roster::default();
        roster.take(beat("a", 1), 0);
        roster.take(beat("a", 2), 1_000_000_000);
        assert!(roster.conflict().unwrap().contains("`a`"));
        // The first one was restarted: its old session is soon silent.
        assert_eq!(roster.living(2_000_000_000).conflict(), None);
        roster.take(Beat { state: AgentState::Leaving, ..beat("a", 2) }, 2_000_000_000);
        assert!(roster.living(2_000_000_000).into_beats().is_empty());
    }
}
