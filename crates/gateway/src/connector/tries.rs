//! What follows an attempt at a peer, for requests and sessions alike: whether another one is made, and what the balancer is told.

use crate::base::logs::error::Level;
use crate::connector::Caller;
use crate::registry::group::{BoundGroup, HeldPeers, PeerSet};
use upstream::balance::{Group, Outcome, PeerChange};
use upstream::retry::{self, Attempt, Blame, Conditions, Failure, Policy, Verdict};

/// After which failures, how often and for how long a caller tries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TriesPlan {
    pub(crate) conditions: Conditions,
    /// 0: as often as the group has peers.
    pub(crate) tries_max: u32,
    /// `tries_max` alone limits the tries, since peers are asked again.
    pub(crate) again: bool,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) retry_unsent: bool,
}

/// Decides what follows a failure. `made`: the attempts so far; `attempt`: everything else that is known, without the attempts
/// that are left.
pub(crate) fn judge_attempt(
    plan: TriesPlan,
    group: Option<&Group>,
    made: u32,
    failure: Failure,
    attempt: Attempt,
) -> Verdict {
    let attempts_left = plan.tries_max_in(group.map_or(0, Group::tries_max)).saturating_sub(made);
    let policy = Policy { conditions: plan.conditions, timeout_ms: plan.timeout_ms, retry_unsent: plan.retry_unsent };
    retry::decide(failure, &Attempt { attempts_left, ..attempt }, &policy)
}

impl TriesPlan {
    /// Most attempts in a group that itself allows this many.
    fn tries_max_in(&self, of_group: u32) -> u32 {
        match self.tries_max {
            0 => of_group,
            most if self.again => most,
            most => most.min(of_group),
        }
    }
}

/// What the balancer is told of a failed attempt.
pub(crate) fn outcome_of(verdict: Verdict) -> Outcome {
    if verdict.blame == Blame::Failed { Outcome::Failed } else { Outcome::Neutral }
}

/// Reports an attempt to the balancer. The log says if that disables the peer.
pub(crate) fn report(caller: &impl Caller, group: &BoundGroup, held: &HeldPeers, index: usize, outcome: Outcome) {
    let report = |set: &PeerSet| set.balance.report(index, outcome, caller.thread().pool_now());
    if group.members.of(held).map(report) == Some(PeerChange::Disabled) {
        caller.log_line(Level::Warn, "upstream server temporarily disabled");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connector::choose::Choice;
    use crate::connector::scripted::{ScriptedCaller, generation};
    use crate::registry::generation::Generation;
    use std::sync::Arc;
    use upstream::retry::Decision;

    fn plan(tries_max: u32) -> TriesPlan {
        TriesPlan { conditions: Conditions::DEFAULT, tries_max, again: false, timeout_ms: None, retry_unsent: false }
    }

    /// A group of two peers, in the first proxy of a configuration.
    fn two_peers(caller: &ScriptedCaller) -> Arc<Generation> {
        generation(
            caller,
            "upstream u { server 192.0.2.1; server 192.0.2.2; } server { location / { proxy_pass http://u; } }",
        )
    }

    #[test]
    fn a_group_and_the_configuration_limit_the_tries() {
        for (configured, of_group, most) in [(0, 3, 3), (2, 3, 2), (5, 3, 3), (5, 0, 0)] {
            assert_eq!(plan(configured).tries_max_in(of_group), most, "{configured} of {of_group}");
        }
        let again = |tries_max| TriesPlan { again: true, ..plan(tries_max) };
        for (configured, of_group, most) in [(0, 3, 3), (5, 3, 5), (5, 1, 5), (2, 3, 2)] {
            assert_eq!(again(configured).tries_max_in(of_group), most, "{configured} of {of_group}, again");
        }
    }

    #[test]
    fn tries_go_on_until_all_peers_have_failed() {
        let caller = ScriptedCaller::new([]);
        let generation = two_peers(&caller);
        let group = &generation.proxies.get(0).group;
        let held = Choice::default().held;
        let balance = &group.members.of(&held).expect("peers").balance;
        let judge = |made| judge_attempt(plan(0), Some(balance), made, Failure::ConnectFailed, Attempt::UNSENT);
        assert_eq!(judge(1).decision, Decision::NextPeer);
        assert!(matches!(judge(2).decision, Decision::Fail { .. }));
        assert_eq!(outcome_of(judge(1)), Outcome::Failed);
    }

    #[test]
    fn a_peer_that_fails_too_often_is_disabled_and_the_log_says_so() {
        let caller = ScriptedCaller::new([]);
        let generation = two_peers(&caller);
        let group = &generation.proxies.get(0).group;
        let held = Choice::default().held;
        report(&caller, group, &held, 0, Outcome::Neutral);
        assert!(caller.logged().is_empty());
        report(&caller, group, &held, 0, Outcome::Failed);
        assert_eq!(caller.logged(), ["upstream server temporarily disabled"]);
    }
}
