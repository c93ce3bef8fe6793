//! What a reload keeps, and why it is refused.

use super::*;
use crate::base::logs::error::Level;
use crate::lower::tests::plan;
use crate::registry::group::Members;
use upstream::shared::KeyId;

fn registry() -> &'static Registry {
    Registry::leak(1, ErrorLog::new(Level::Notice, 0)).unwrap()
}

#[track_caller]
fn bound(registry: &'static Registry, http: &str) -> BoundPlan {
    match registry.bind(plan(http)) {
        Ok(bound) => bound,
        Err(found) => panic!("{found:?}"),
    }
}

fn refused(registry: &'static Registry, http: &str) -> Vec<String> {
    let found = registry.bind(plan(http)).err().unwrap_or_default();
    found.into_iter().map(|found| found.message).collect()
}

fn keys(bound: &BoundPlan) -> Vec<KeyId> {
    let groups = bound.generation.proxies.iter().map(|proxy| &proxy.group.members);
    let keys = groups.map(|members| match members {
        Members::Fixed(set) => set.peers[0].key,
        Members::Moving(_) => panic!("no name is in here"),
    });
    keys.collect()
}

#[test]
fn a_plan_that_is_dropped_leaves_nothing_behind() {
    let registry = registry();
    drop(plan("upstream app { server 127.0.0.1:81; } server { location / { proxy_pass http://app; } }"));
    assert!(registry.status.listed_groups().is_empty());
    assert!(registry.identities.lock().listeners.is_empty());
}

#[test]
fn unchanged_objects_survive_a_reload() {
    let registry = registry();
    let http = "limit_req_zone $uri zone=z:1m rate=1r/s; upstream app { server 127.0.0.1:81; keepalive 8; }
                server { listen 80; access_log /l; error_log /e; limit_req zone=z; location / { proxy_pass http://app; } }";
    let first = bound(registry, http);
    // Another listener and log come before them.
    let second = bound(registry, &format!("server {{ listen 90; access_log /other; }} {http}"));
    assert_eq!((first.generation.number, second.generation.number), (1, 2));
    let listener = |bound: &BoundPlan| {
        bound.listeners.iter().find(|spec| spec.address.to_string() == "0.0.0.0:80").map(|spec| spec.id)
    };
    assert_eq!(listener(&first), listener(&second));
    assert!(second.generation.listener(listener(&first).unwrap()).is_some());
    assert!(second.logs.iter().any(|log| Arc::ptr_eq(&log.sink, &first.logs[0].sink)));
    assert!(Arc::ptr_eq(&first.error_logs[0].log, &second.error_logs[0].log));
    assert!(Arc::ptr_eq(&first.generation.request_zones[0], &second.generation.request_zones[0]));
    assert_eq!(keys(&first), keys(&second));
}

#[test]
fn forgets_listeners_of_no_configuration() {
    let registry = registry();
    drop(bound(registry, "server { access_log /l; error_log /e; }"));
    let other = bound(registry, "server { return 204; access_log off; }");
    let known = registry.identities.lock();
    assert!(known.sinks.is_empty() && known.error_logs.is_empty());
    drop(other);
}

#[test]
fn zone_with_another_key_is_refused_at_its_line() {
    let registry = registry();
    let zone = |key: &str| {
        format!("limit_req_zone {key} zone=z:1m rate=1r/s; server {{ limit_req zone=z; location / {{ return 204; }} }}")
    };
    let before = bound(registry, &zone("$uri"));
    let message = "limit_req \"z\" uses the \"$host\" key while previously it used the \"$uri\" key";
    assert_eq!(refused(registry, &zone("$host")), [message]);
    // An earlier configuration's zone does not matter once it is dropped.
    drop(before);
    bound(registry, &zone("$host"));
}

#[test]
fn sessions_are_not_taken_over_by_another_group() {
    let registry = registry();
    let http = |name: &str| {
        format!(
            "upstream {name} {{ server 127.0.0.1:81; sticky learn create=$upstream_cookie_s lookup=$cookie_s \
             zone=sessions:1m; }} server {{ location / {{ proxy_pass http://{name}; }} }}"
        )
    };
    bound(registry, &http("a"));
    assert_eq!(
        refused(registry, &http("b")),
        ["the zone \"sessions\" of \"sticky learn\" belongs to another upstream"]
    );
}

#[test]
fn source_address_changes_the_pool_key_but_not_the_balance() {
    let bound = bound(
        registry(),
        "upstream app { server 127.0.0.1:81; keepalive 8; }
         server { location /a { proxy_pass http://app; } location /b { proxy_pass http://app; proxy_bind 127.0.0.2; } }",
    );
    let keys = keys(&bound);
    assert_ne!(keys[0], keys[1]);
    let balance = |index: u32| match &bound.generation.proxies.get(index).group.members {
        Members::Fixed(set) => Arc::clone(&set.balance),
        Members::Moving(_) => panic!("no name is in here"),
    };
    assert!(Arc::ptr_eq(&balance(0), &balance(1)));
}
