//! After any change in the cluster, a draft with a memory equals one that is made from scratch.

use crate::world::{World, rule, text};
use conf::source::FileId;
use conf::tree::{Block, Directive};
use ingress::{Memory, Name, Translation, draft, draft_reusing};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything of a translation, with names in place of the numbers of sources.
fn shown(it: &Translation) -> String {
    let owners: Vec<_> = it.owners.values().collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    let mut places = Vec::new();
    let mut blocks = vec![&it.tree];
    while let Some(block) = blocks.pop() {
        for line in &block.directives {
            places.push(source(it, line.span.file));
            places.extend(line.args.iter().map(|word| source(it, word.span.file)));
            blocks.extend(line.block.as_deref());
        }
    }
    let Translation { endpoints, files, findings, statuses, certificates, .. } = it;
    format!(
        "{}\n{owners:?}\n{places:?}\n{endpoints:?}\n{files:?}\n{findings:#?}\n{statuses:?}\n{certificates:?}",
        text(&it.tree)
    )
}

fn source(it: &Translation, file: FileId) -> &str {
    assert!(it.owners.contains_key(&file), "a source without an owner");
    &it.sources.source(file).name
}

/// The blocks of locations by server.
fn locations(tree: &Block) -> BTreeMap<String, Vec<Arc<Block>>> {
    let http = tree.directives.iter().find(|line| line.name.text() == "http").unwrap();
    let servers = http.block.as_ref().unwrap().directives.iter().filter(|line| line.name.text() == "server");
    let inside = |line: &Directive| {
        let lines = &line.block.as_ref().unwrap().directives;
        let name = lines.iter().find(|line| line.name.text() == "server_name").unwrap().args[0].text().into_owned();
        let blocks = lines.iter().filter(|line| line.name.text() == "location");
        (name, blocks.map(|line| Arc::clone(line.block.as_ref().unwrap())).collect())
    };
    servers.map(inside).collect()
}

#[test]
fn one_changed_ingress_leaves_the_locations_of_other_hosts() {
    let (mut world, mut memory) = (World::new(), Memory::default());
    for name in ["a", "b", "c"] {
        world.ingress(name, json!({}), json!({"rules": [rule(&format!("{name}.test"), "/p", "a")]}));
    }
    let before = locations(&draft_reusing(&world.cluster, &world.settings, &mut memory).tree);
    world.ingress("b", json!({}), json!({"rules": [rule("b.test", "/other", "a")]}));
    let now = locations(&draft_reusing(&world.cluster, &world.settings, &mut memory).tree);
    let is_same = |host: &str| before[host].iter().zip(&now[host]).all(|(one, two)| Arc::ptr_eq(one, two));
    assert_eq!(["a.test", "b.test", "c.test"].map(is_same), [true, false, true]);
    // A Service of all of them.
    world.service("shop", "a", json!({"ports": [{"name": "web", "port": 80}, {"port": 81}]}));
    let last = locations(&draft_reusing(&world.cluster, &world.settings, &mut memory).tree);
    assert!(!Arc::ptr_eq(&last["a.test"][0], &now["a.test"][0]));
}

#[test]
fn objects_that_are_gone_leave_no_source() {
    let (mut world, mut memory) = (World::new(), Memory::default());
    let mut most = 0;
    for round in 0..600 {
        world.cluster.ingresses.clear();
        world.ingress(&format!("i{round}"), json!({}), json!({"rules": [rule("a.test", "/", "a")]}));
        let translation = draft_reusing(&world.cluster, &world.settings, &mut memory);
        assert_eq!(translation.owners.len(), 2);
        most = most.max(translation.sources.iter().count());
    }
    assert!(most < 300, "{most} sources");
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn annotations() -> impl Strategy<Value = Value> {
    let one = prop_oneof![
        Just(("proxy-body-size", "8m")),
        Just(("rewrite-target", "/x/$1")),
        Just(("limit-rps", "5")),
        Just(("limit-whitelist", "10.0.0.0/8")),
        Just(("whitelist-source-range", "10.0.0.0/8")),
        Just(("server-alias", "a.test, other.test")),
        Just(("from-to-www-redirect", "true")),
        Just(("backend-protocol", "HTTPS")),
        Just(("canary", "true")),
        Just(("canary-weight", "10")),
        Just(("auth-type", "basic")),
        Just(("auth-secret", "secret")),
        Just(("auth-tls-secret", "shop/secret")),
        Just(("auth-url", "http://auth.test/")),
        Just(("affinity", "cookie")),
        Just(("enable-cors", "true")),
        Just(("cors-allow-origin", "https://a.test, https://b.test")),
        Just(("custom-http-errors", "503")),
        Just(("default-backend", "b")),
        Just(("no-such-annotation", "x")),
        Just(("proxy-read-timeout", "seven")),
        Just(("ssl-passthrough", "true")),
    ];
    proptest::collection::btree_map(0..100_u8, one, 0..4)
        .prop_map(|all| all.into_values().map(|(name, text)| (name.to_owned(), json!(text))).collect())
}

/// One change of the cluster.
#[derive(Debug, Clone)]
enum Change {
    Ingress { name: usize, host: usize, path: usize, service: usize, secret: bool, annotations: Value },
    NoIngress(usize),
    Service(usize, u16),
    NoService(usize),
    Secret(Option<&'static str>),
    Keys(&'static str),
}

fn change() -> impl Strategy<Value = Change> {
    let ingress = (0..4_usize, 0..3_usize, 0..3_usize, 0..4_usize, any::<bool>(), annotations());
    prop_oneof![
        6 => ingress.prop_map(|(name, host, path, service, secret, annotations)| Change::Ingress {
            name, host, path, service, secret, annotations
        }),
        2 => (0..4_usize).prop_map(Change::NoIngress),
        2 => (0..4_usize, 80..82_u16).prop_map(|(name, port)| Change::Service(name, port)),
        1 => (0..4_usize).prop_map(Change::NoService),
        2 => proptest::option::of(prop_oneof![Just("-----BEGIN X-----"), Just("nothing")]).prop_map(Change::Secret),
        1 => prop_oneof![Just("7"), Just("8")].prop_map(Change::Keys),
    ]
}

fn apply(world: &mut World, change: Change) {
    let name = |index: usize| Name::new("shop", NAMES[index]);
    match change {
        Change::Ingress { name, host, path, service, secret, annotations } => {
            let host = format!("h{host}.test");
            let path = ["/", "/x", "/x/y"][path];
            let mut spec = json!({"rules": [rule(&host, path, NAMES[service])]});
            if secret {
                spec["tls"] = json!([{"hosts": [host], "secretName": "secret"}]);
            }
            world.ingress(NAMES[name], annotations, spec);
        }
        Change::NoIngress(index) => _ = world.cluster.ingresses.remove(&name(index)),
        Change::Service(index, port) => world.service("shop", NAMES[index], json!({"ports": [{"port": port}]})),
        Change::NoService(index) => _ = world.cluster.services.remove(&name(index)),
        Change::Secret(Some(text)) => {
            world.secret("shop", "secret", &["tls.crt", "tls.key", "ca.crt", "auth"].map(|key| (key, text)));
        }
        Change::Secret(None) => _ = world.cluster.secrets.remove(&Name::new("shop", "secret")),
        Change::Keys(text) => _ = world.keys(json!({"proxy-read-timeout": text, "hsts": "true"})),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_row_of_changes_gives_the_draft_of_each_cluster(changes in proptest::collection::vec(change(), 1..16)) {
        let (mut world, mut memory) = (World::new(), Memory::default());
        for change in changes {
            apply(&mut world, change);
            let now = draft_reusing(&world.cluster, &world.settings, &mut memory);
            let expected = draft(&world.cluster, &world.settings);
            prop_assert_eq!(shown(&now), shown(&expected));
        }
    }
}
