//! Work grows with the number of objects, not faster.

use crate::world::{World, rule};
use serde_json::json;

fn world(ingresses: usize) -> World {
    let mut world = World::new();
    for index in 0..ingresses {
        let host = format!("h{index}.test");
        let rules: Vec<_> = (0..5).map(|path| rule(&host, &format!("/p{path}"), "a")).collect();
        let annotations = json!({"proxy-read-timeout": "30", "proxy-body-size": "8m", "backend-protocol": "HTTPS"});
        world.ingress(&format!("i{index}"), annotations, json!({"rules": rules}));
    }
    world
}

/// Counts words, which is what the translation allocates and the language reads.
fn words(world: &World) -> usize {
    world.translate().text.split_whitespace().count()
}

#[test]
fn five_thousand_routes_cost_five_times_a_thousand() {
    let (empty, small, large) = (words(&world(0)), words(&world(200)), words(&world(1000)));
    let (small, large) = (small - empty, large - empty);
    assert!(large <= small * 5 + 100, "{small} {large}");
    // One route is two locations: the prefix, and its exact form.
    assert!(large / 5000 < 120, "{} words a route", large / 5000);
}

#[test]
fn equal_wishes_share_an_upstream() {
    let it = world(100).translate();
    assert_eq!(it.text.matches("    upstream ").count(), 1);
    assert_eq!(it.translation.endpoints.len(), 1);
}
