//! Names that this process answers itself: `holdfast ingress` knows the endpoints of a Service and gives them to the groups
//! that follow its name. Such a name is never looked up, has no expiry and takes no place of the cache.

use crate::registry::names::cache::Watcher;
use crate::registry::names::{Found, Question};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The directory of own names. It is filled by the operator's side (a controller), never by requests, so its size is that
/// of the configuration.
#[derive(Default)]
pub(crate) struct OwnNames {
    names: Mutex<FxHashMap<Box<str>, OwnName>>,
    /// Held while watchers are told, so that they hear of changes in their order.
    telling: Mutex<()>,
}

struct OwnName {
    addresses: Arc<[Found]>,
    followers: Vec<(Arc<Question>, Weak<dyn Watcher>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OwnNames {
    /// The addresses of a name; `None` if it is not one of these.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<[Found]>> {
        lock(&self.names).get(name).map(|own| Arc::clone(&own.addresses))
    }

    /// Sets the addresses of a name, and tells its followers. Returns whether they changed.
    pub(crate) fn set(&self, name: &str, addresses: Vec<Found>) -> bool {
        let _order = lock(&self.telling);
        let (addresses, followers) = {
            let mut names = lock(&self.names);
            let own =
                names.entry(name.into()).or_insert_with(|| OwnName { addresses: Arc::from([]), followers: Vec::new() });
            if *own.addresses == *addresses {
                return false;
            }
            own.addresses = addresses.into();
            own.followers.retain(|(_, watcher)| watcher.strong_count() > 0);
            (Arc::clone(&own.addresses), own.followers.clone())
        };
        for (question, watcher) in followers {
            if let Some(watcher) = watcher.upgrade() {
                watcher.changed(&question, &addresses);
            }
        }
        true
    }

    /// Follows a name and tells the watcher its addresses; `false` if the name is not one of these.
    pub(crate) fn follow(&self, question: &Arc<Question>, watcher: &Arc<dyn Watcher>) -> bool {
        let _order = lock(&self.telling);
        let addresses = {
            let mut names = lock(&self.names);
            let Some(own) = names.get_mut(&*question.name) else { return false };
            own.followers.retain(|(_, watcher)| watcher.strong_count() > 0);
            own.followers.push((Arc::clone(question), Arc::downgrade(watcher)));
            Arc::clone(&own.addresses)
        };
        watcher.changed(question, &addresses);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::names::ResolverPlan;
    use std::net::Ipv4Addr;

    #[derive(Default)]
    struct Seen(Mutex<Vec<Vec<u8>>>);

    impl Watcher for Seen {
        fn changed(&self, _: &Question, addresses: &[Found]) {
            let last = |found: &Found| match found.ip {
                std::net::IpAddr::V4(ip) => ip.octets()[3],
                std::net::IpAddr::V6(_) => 0,
            };
            self.0.lock().unwrap().push(addresses.iter().map(last).collect());
        }
    }

    fn question(name: &str) -> Arc<Question> {
        let resolver =
            ResolverPlan { servers: vec![], valid_ms: None, ipv4: true, ipv6: true, timeout_ms: 1000, zone: None };
        Arc::new(Question { resolver: Arc::new(resolver), name: name.into(), service: None })
    }

    fn found(last: u8) -> Found {
        Found { ip: Ipv4Addr::new(192, 0, 2, last).into(), port: Some(80), priority: 0, weight: 0 }
    }

    #[test]
    fn followers_get_present_and_later_addresses_in_order() {
        let (own, seen) = (OwnNames::default(), Arc::new(Seen::default()));
        let watcher: Arc<dyn Watcher> = Arc::clone(&seen) as _;
        assert!(!own.follow(&question("shop"), &watcher), "the name is not known");
        assert!(own.set("shop", vec![found(1)]));
        assert!(own.follow(&question("shop"), &watcher));
        assert!(own.set("shop", vec![found(1), found(2)]));
        assert!(!own.set("shop", vec![found(1), found(2)]), "nothing changed");
        assert!(own.set("shop", vec![]));
        assert_eq!(*seen.0.lock().unwrap(), [vec![1], vec![1, 2], vec![]]);
    }

    #[test]
    fn a_follower_that_is_gone_is_dropped() {
        let own = OwnNames::default();
        own.set("shop", vec![]);
        let watcher: Arc<dyn Watcher> = Arc::new(Seen::default());
        own.follow(&question("shop"), &watcher);
        drop(watcher);
        own.set("shop", vec![found(1)]);
        assert!(lock(&own.names)["shop"].followers.is_empty());
    }
}
