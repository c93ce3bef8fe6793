//! Whatever an annotation says: no panic, no new kind of directive, and the Ingress beside it works.

use crate::world::{World, one, rule};
use ingress::annotations::table::ROWS;
use proptest::prelude::*;
use serde_json::json;

/// Values that look like something, and any text.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ -~]{0,40}",
        "(true|on|off|basic|cookie|any|HTTPS|GRPC|FCGI|[0-9]{1,6}|[0-9]k)",
        "(http|https)://[a-z.:0-9]{1,12}[/?$a-z{};#\"]{0,12}",
        "/[a-z$0-9(){}|.*+;\"\\\\]{0,20}",
        "(return|set|if|rewrite|add_header|include|more_set_headers) [ -~]{0,30};",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn annotation_changes_only_its_own_ingress(
        annotations in proptest::collection::vec((0..ROWS.len(), value()), 1..12),
        path in "/[ -~]{0,20}",
    ) {
        let mut world = World::new();
        world.settings.allow_snippets = true;
        world.certificate("other", "cert");
        world.ingress("shop/victim", json!({}), one("victim.test", "/", "a"));
        let before = world.translate().server("victim.test");
        let chosen: serde_json::Map<_, _> =
            annotations.into_iter().map(|(row, value)| (ROWS[row].name.to_owned(), json!(value))).collect();
        let rules = json!({"rules": [rule("evil.test", "/x", "a"), rule("evil.test", &path, "b")]});
        world.ingress("other/attacker", chosen.into(), rules);
        // An alias is the attacker's to choose, but never a host that has an Ingress.
        let it = world.translate();
        prop_assert_eq!(before, it.server("victim.test"));
        for file in it.translation.files.values() {
            let text = format!("{file:?}");
            prop_assert!(text.contains("\"other\""), "{}", text);
        }
        for line in it.text.lines() {
            let name = line.trim().split([' ', ';']).next().unwrap_or_default();
            prop_assert!(!["include", "root", "alias", "load_module"].contains(&name), "{}", line);
        }
    }
}
