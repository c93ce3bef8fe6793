//! Models that share servers and groups with the model before are equal to models that are made from scratch.

use crate::support::Files;
use conf::model::{Http, Options, lower_reusing, lower_with};
use conf::reuse::{Memory, share};
use conf::tree::Block;
use conf::{Loaded, check, check_reusing, table};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Each server and each group has a file, so a change of one moves no other. Files are read in the order of their names.
type Parts = BTreeMap<u8, String>;

fn load(frame: &str, parts: &Parts) -> Loaded {
    let mut text = format!("events {{}} http {{ {frame}\n");
    let mut files = Files::default();
    for (name, part) in parts {
        let _ = writeln!(text, "include /{name}.conf;");
        files.0.insert(format!("/{name}.conf").into(), part.clone().into());
    }
    text.push('}');
    files.0.insert("/nginx.conf".into(), text.into());
    conf::load(Path::new("/nginx.conf"), Path::new("/"), None, &mut files)
}

/// Trees that are made one after another.
#[derive(Default)]
struct Row {
    memory: Memory,
    before: Option<(Block, Http)>,
}

impl Row {
    /// Makes the next model, and compares it with one from scratch. Returns how many servers it shares with the one before;
    /// `None` if the text is refused.
    fn next(&mut self, frame: &str, parts: &Parts) -> Option<usize> {
        let mut loaded = load(frame, parts);
        let fresh = check(&loaded, table::all());
        if let Some((before, _)) = &self.before {
            share(&mut loaded.tree, before, |_| true);
        }
        let mut found = check_reusing(&loaded, table::all(), &mut self.memory);
        let errors = |found: &[conf::diagnostic::Diagnostic]| {
            let is_error = |found: &&conf::diagnostic::Diagnostic| found.severity == conf::diagnostic::Severity::Error;
            found.iter().filter(is_error).map(|found| format!("{found:?}")).collect::<Vec<_>>()
        };
        assert_eq!(errors(&found), errors(&fresh));
        let (expected, expected_found) = lower_with(&loaded.tree, &loaded.sources, Options::default());
        let (model, more) = lower_reusing(&loaded.tree, &loaded.sources, Options::default(), &mut self.memory);
        assert_eq!(errors(&more), errors(&expected_found));
        found.extend(more);
        if !errors(&found).is_empty() {
            return None;
        }
        assert_eq!(format!("{model:#?}"), format!("{expected:#?}"));
        let http = model.http.expect("there is one");
        let before = self.before.replace((loaded.tree, http.clone()));
        let is_shared = |server: &&Arc<conf::model::Server>| {
            before.iter().any(|(_, before)| before.servers.iter().any(|known| Arc::ptr_eq(known, server)))
        };
        Some(http.servers.iter().filter(is_shared).count())
    }
}

fn parts<const N: usize>(parts: [(u8, &str); N]) -> Parts {
    parts.into_iter().map(|(name, text)| (name, text.to_owned())).collect()
}

const GROUP: &str = "upstream app { server 127.0.0.1:1; }";
const A: &str = "server { server_name a; location / { proxy_pass http://app; } }";
const B: &str = "server { server_name b; location /b { return 204; } }";
const C: &str = "server { server_name c; location /c { return 404; } }";

#[test]
fn servers_that_do_not_change_are_the_same() {
    let mut row = Row::default();
    assert_eq!(row.next("", &parts([(1, GROUP), (2, A), (3, B)])), Some(0));
    assert_eq!(row.next("", &parts([(1, GROUP), (2, A), (3, B)])), Some(2));
    assert_eq!(row.next("", &parts([(1, GROUP), (2, A), (3, B), (4, C)])), Some(2));
    assert_eq!(row.next("", &parts([(1, GROUP), (2, A), (3, &B.replace("204", "205")), (4, C)])), Some(2));
}

#[test]
fn server_follows_its_group_and_surroundings() {
    let mut row = Row::default();
    let all = parts([(1, GROUP), (2, A), (3, B)]);
    assert_eq!(row.next("", &all), Some(0));
    let other = parts([(1, &GROUP.replace(":1", ":2")), (2, A), (3, B)]);
    assert_eq!(row.next("", &other), Some(1), "its group is another one");
    assert_eq!(row.next("gzip on;", &other), Some(0), "the settings around it are others");
    assert_eq!(row.next("gzip on;", &other), Some(2));
    let implied = parts([(2, A), (3, B)]);
    assert_eq!(row.next("gzip on;", &implied), Some(0), "places have moved");
    assert_eq!(row.next("gzip on;", &implied), Some(1), "an implied group belongs to one model");
}

#[test]
fn error_reported_for_another_server_is_kept() {
    let mut row = Row::default();
    let wrong = |name: &str| format!("server {{ server_name {name}; location / {{ retrun 204; }} }}");
    assert_eq!(row.next("", &parts([(1, B), (2, C)])), Some(0));
    assert_eq!(row.next("", &parts([(1, &wrong("b")), (2, &wrong("c"))])), None);
    assert_eq!(row.next("", &parts([(1, B), (2, &wrong("c"))])), None);
    assert!(row.next("", &parts([(1, B), (2, C)])).is_some());
}

/// A server or a group, right or wrong.
fn part() -> impl Strategy<Value = String> {
    let server = (0..4_u8, 0..8_u8, 0..3_u8).prop_map(|(name, content, group)| {
        let content = match content {
            0 => "return 200 x;".to_owned(),
            1 => "proxy_set_header X $host; proxy_read_timeout 7s;".to_owned(),
            2 => "gzip on; access_log /x combined;".to_owned(),
            3 => "limit_req zone=z;".to_owned(),
            4 => "set $mine 1; if ($mine) { return 204; }".to_owned(),
            5 => "rewrite ^/(?<rest>.*)$ /x/$rest;".to_owned(),
            6 => "proxy_raed_timeout 7s;".to_owned(),
            _ => format!("proxy_pass http://elsewhere{group};"),
        };
        format!(
            "server {{ listen 127.0.0.1:80; server_name s{name}; location /a {{ {content} }} location /b {{ proxy_pass http://g{group}; }} }}"
        )
    });
    let group = (0..3_u8, 1..4_u8).prop_map(|(name, port)| format!("upstream g{name} {{ server 127.0.0.1:{port}; }}"));
    prop_oneof![3 => server, 1 => group]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_row_of_changes_gives_the_models_of_each_text(
        changes in proptest::collection::vec((0..12_u8, proptest::option::weighted(0.8, part()), 0..12_u8), 1..12)
    ) {
        let (mut row, mut parts) = (Row::default(), Parts::new());
        for (place, part, frame) in changes {
            match part {
                Some(part) => _ = parts.insert(place, part),
                None => _ = parts.remove(&place),
            }
            let frame = match frame {
                0 => "limit_req_zone $uri zone=z:1m rate=1r/s; gzip on;",
                1 => "limit_req_zone $uri zone=z:1m rate=1r/s; map $uri $m { default 1; }",
                _ => "limit_req_zone $uri zone=z:1m rate=1r/s;",
            };
            row.next(frame, &parts);
        }
    }
}
