//! How many orders may begin: of all namespaces together, and of each. Pure: the time comes in. What was spent is kept with the
//! account, so that a new leader, or one that restarts again and again, does not begin anew.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Orders before the pace, and the seconds for each one after them. Let's Encrypt allows an account 300 orders in three hours:
/// these are 30 + 10,800 / 45 = 270.
const ALL: Pace = Pace { burst: 30.0, refill_s: 45.0 };
/// The same for one namespace: about a quarter of the pace of all, so that a tenant with many Ingresses leaves the rest to
/// others.
const OF_NAMESPACE: Pace = Pace { burst: 10.0, refill_s: 180.0 };

struct Pace {
    burst: f64,
    refill_s: f64,
}

/// What was spent, and when that was computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Spent {
    orders: f64,
    at: u64,
}

impl Spent {
    fn at(self, now: u64, pace: &Pace) -> Self {
        // A clock that was set back does not stop the refill for long.
        let elapsed = now.saturating_sub(self.at) as f64;
        Self { orders: (self.orders - elapsed / pace.refill_s).clamp(0.0, pace.burst), at: now }
    }

    fn rest(self, now: u64, pace: &Pace) -> f64 {
        pace.burst - self.at(now, pace).orders
    }
}

/// The orders that were begun.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Budget {
    all: Spent,
    namespaces: BTreeMap<String, Spent>,
}

impl Budget {
    /// How many orders a namespace may begin at this time, in seconds since 1970.
    pub(super) fn rest(&self, namespace: &str, now: u64) -> f64 {
        self.namespaces.get(namespace).copied().unwrap_or_default().rest(now, &OF_NAMESPACE)
    }

    /// Whether one of this namespace may begin.
    pub(super) fn has(&self, namespace: &str, now: u64) -> bool {
        self.all.rest(now, &ALL) >= 1.0 && self.rest(namespace, now) >= 1.0
    }

    /// One begins.
    pub(super) fn spend(&mut self, namespace: &str, now: u64) {
        self.change(namespace, now, 1.0);
    }

    /// It turned out that there is nothing to order.
    pub(super) fn give_back(&mut self, namespace: &str, now: u64) {
        self.change(namespace, now, -1.0);
    }

    fn change(&mut self, namespace: &str, now: u64, orders: f64) {
        self.all = self.all.at(now, &ALL);
        self.all.orders = (self.all.orders + orders).max(0.0);
        self.namespaces.values_mut().for_each(|spent| *spent = spent.at(now, &OF_NAMESPACE));
        let own = self.namespaces.entry(namespace.to_owned()).or_insert(Spent { orders: 0.0, at: now });
        own.orders = (own.orders + orders).max(0.0);
        // As many are kept as have ordered within the last half hour.
        self.namespaces.retain(|_, spent| spent.orders > 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the wanted orders begin, one in a second.
    fn begun(budget: &mut Budget, namespace: &str, from: u64, seconds: u64) -> usize {
        let mut count = 0;
        for now in from..from + seconds {
            if budget.has(namespace, now) {
                budget.spend(namespace, now);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn one_namespace_gets_its_share_and_leaves_the_rest() {
        let mut budget = Budget::default();
        assert_eq!(begun(&mut budget, "many", 1000, 3600), 10 + 3600 / 180 - 1);
        assert_eq!(begun(&mut budget, "other", 4600, 1), 1);
        assert!(budget.rest("other", 4600) > budget.rest("many", 4600));
    }

    #[test]
    fn all_together_stay_below_the_authority_s_limit() {
        let mut budget = Budget::default();
        let mut count = 0;
        for now in 0..10_800 {
            for number in 0..50 {
                let namespace = format!("n{number}");
                if budget.has(&namespace, now) {
                    budget.spend(&namespace, now);
                    count += 1;
                }
            }
        }
        assert!((260..=270).contains(&count), "{count}");
        assert!(budget.namespaces.len() <= 50);
    }

    #[test]
    fn returned_budget_is_spendable_and_idle_ones_expire() {
        let mut budget = Budget::default();
        assert_eq!(begun(&mut budget, "a", 0, 30), 10);
        budget.give_back("a", 30);
        assert!(budget.has("a", 30));
        budget.spend("b", 100_000);
        assert_eq!(budget.namespaces.keys().collect::<Vec<_>>(), ["b"]);
        let text = serde_json::to_string(&budget).unwrap();
        assert_eq!(serde_json::from_str::<Budget>(&text).unwrap(), budget);
    }
}
