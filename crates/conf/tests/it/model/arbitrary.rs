//! For arbitrary text, lowering does not panic and every finding lies inside the text.

use conf::model::lower;
use conf::table;
use proptest::prelude::*;

use crate::support::Files;

const WORDS: &[&str] = &[
    "on",
    "off",
    "0",
    "1",
    "80",
    "4k",
    "1m",
    "10s",
    "500ms",
    "/",
    "/a",
    "/a/b",
    "~",
    "~*",
    "^~",
    "=",
    "@n",
    "~(",
    "$",
    "$a",
    "${b}",
    "$1",
    "${",
    "http://u",
    "http://u/x",
    "http://127.0.0.1:81",
    "https://x",
    "unix:/s",
    "[::1]:80",
    "[",
    "*",
    "*.a",
    ".a",
    "a.*",
    "u",
    "zone=z:1m",
    "zone=z",
    "rate=1r/s",
    "burst=5",
    "weight=1",
    "backup",
    "resolve",
    "default",
    "default_server",
    "($a",
    "b)",
    "($a)",
    "(-f",
    "(",
    ")",
    "!=",
    "404",
    "=200",
    "500",
    "200",
    "max",
    "epoch",
    "modified",
    "main",
    "combined",
    "buffer=4k",
    "syslog:server=x",
    "stderr",
    "50%",
    "-1",
    "''",
    "99999999999999999999",
    "é",
    "a.b",
    "consistent",
    "two",
    "cookie",
    "max=1",
    "GET",
    "server=",
    "10.0.0.0/8",
    "1.1.1.1-1.1.1.2",
    "delete",
    "auto",
];

fn directive(names: &'static [table::Directive]) -> impl Strategy<Value = String> {
    let word = prop::sample::select(WORDS);
    let leaf = (prop::sample::select(names), prop::collection::vec(word.clone(), 0..5), prop::bool::ANY).prop_map(
        |(row, words, block)| format!("{} {} {}", row.name, words.join(" "), if block { "{ }" } else { ";" }),
    );
    let block = prop::sample::select(
        &["http", "server", "location", "if", "upstream", "map", "geo", "split_clients", "types", "limit_except"][..],
    );
    leaf.prop_recursive(6, 60, 8, move |inner| {
        (block.clone(), prop::collection::vec(word.clone(), 0..4), prop::collection::vec(inner, 0..8))
            .prop_map(|(name, words, body)| format!("{name} {} {{ {} }}", words.join(" "), body.join("\n")))
    })
}

#[test]
fn a_second_http_block_does_not_refer_to_the_first() {
    let body = "http { log_format a b; upstream u { server a; } server { location / { proxy_pass http://u; } } }";
    let loaded = Files::new([("/etc/nginx/nginx.conf", &format!("events {{ }} {body} {body}"))]).load();
    let (model, found) = lower(&loaded.tree, &loaded.sources);
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(model.http.map(|http| http.upstreams.len()), Some(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn lowering_never_panics_and_marks_inside_the_text(
        body in prop::collection::vec(directive(table::all()), 1..12),
        in_server in prop::bool::ANY,
    ) {
        let body = body.join("\n");
        let text = if in_server { format!("events {{ }} http {{ server {{ {body} }} }}") } else { format!("events {{ }} http {{ {body} }} {body}") };
        let loaded = Files::new([("/etc/nginx/nginx.conf", &text)]).load();
        let (_, found) = lower(&loaded.tree, &loaded.sources);
        for found in found {
            for span in found.related.iter().map(|related| related.span).chain([found.span]) {
                let length = loaded.sources.source(span.file).text.len();
                prop_assert!(span.start <= span.end && span.end as usize <= length, "{found:?} in {text}");
            }
        }
    }
}
