//! Applies every fix and every undo to the text it was printed for. The finding disappears, no new one appears, and the
//! undo restores the same text. `fixes_nginx` tests that nginx accepts the result and serves as before.

use crate::applied::{Files, expected, found};
use doctor::Dialect;
use doctor::rules::{self, Rule};
use report::Finding;

const DIALECTS: [Dialect; 4] = [Dialect::NGINX_1_22, Dialect::NGINX_1_26, Dialect::NGINX_1_30, Dialect::Holdfast];

/// Rules with a fix that is a check of the machine or a change of another program, so there is nothing to apply here.
const ELSEWHERE: [&str; 3] = ["close-wait-pile", "bytes-pile-up", "go-transport-limits"];

/// Forms of findings that the rules' own examples do not cover: rule, and a text in the form of examples.
const VARIANTS: &[(&str, &str)] = &[
    (
        "upstream-without-keepalive",
        "server {\n    proxy_set_header X-Real-IP $remote_addr;\n    location /a/ { proxy_pass http://127.0.0.1:3000/b/; }\n    location /c { proxy_set_header Host $proxy_host; proxy_pass http://127.0.0.1:3000; }\n}",
    ),
    ("upstream-without-keepalive", "server { location / { proxy_pass https://app.example; } }"),
    (
        "upstream-without-keepalive",
        "upstream api { server 127.0.0.1:3000; least_conn; }\nserver {\n    location / { if ($arg_a) { proxy_pass http://api; } proxy_pass http://api; }\n}",
    ),
    (
        "keepalive-not-used",
        "proxy_set_header Host $host;\nproxy_set_header X-Real-IP $remote_addr;\nupstream api { server 127.0.0.1:3000; keepalive 4; }\nserver { location / { proxy_pass http://api; } }",
    ),
    (
        "pool-beyond-peer",
        "# holdfast doctor --peer-connections 2\nworker_processes 4;\nevents {}\nhttp {\n    upstream api { server 127.0.0.1:3000; keepalive 320; }\n    server { location / { proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_pass http://api; } }\n}",
    ),
    (
        "worker-connections-too-few",
        "# holdfast doctor --connections 5000\nevents {}\nhttp {\n    server { location / { return 204; } }\n}",
    ),
    ("descriptors-too-few", "worker_rlimit_nofile 1100;\nevents { worker_connections 1000; }\nhttp {\n}"),
    ("descriptors-too-few", "worker_rlimit_nofile 2000000;\nevents { worker_connections 1000; }\nhttp {\n}"),
    ("listen-backlog", "server { listen 80 default_server backlog=8192; }"),
    ("one-peer-max-fails", "upstream api { server 127.0.0.1:3000 max_fails=2 fail_timeout=5s; }"),
    ("one-peer-max-fails", "upstream api { server 127.0.0.1:3000 max_fails=2; server 127.0.0.1:3001 down; }"),
    (
        "buffers-beyond-memory",
        "worker_processes 4;\nworker_rlimit_nofile 1048576;\nevents { worker_connections 500000; }\nhttp {\n    proxy_buffer_size 16k;\n    proxy_buffers 8 32k;\n    proxy_busy_buffers_size 64k;\n    server { location / { proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_read_timeout 900s; proxy_pass http://127.0.0.1:3000; } }\n}",
    ),
    (
        "tunnel-timeout",
        "# holdfast doctor --heartbeat 60\nserver {\n    proxy_read_timeout 30s;\n    location /ws {\n        proxy_http_version 1.1;\n        proxy_set_header Upgrade $http_upgrade;\n        proxy_set_header Connection \"upgrade\";\n        proxy_pass http://127.0.0.1:3000;\n    }\n}",
    ),
    (
        "websocket-without-upgrade",
        "map $http_upgrade $connection_upgrade { default upgrade; '' close; }\nproxy_set_header X-Real-IP $remote_addr;\nupstream app { server 127.0.0.1:3000; keepalive 8; }\nserver { location /ws { proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $host; proxy_pass http://app; } }",
    ),
    ("repeated-posts", "proxy_next_upstream non_idempotent;"),
    (
        "name-resolved-once",
        "upstream api { server app.example:8080; keepalive 2; }\nserver { location / { proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_pass http://api; } }",
    ),
    ("folklore-sysctl", "net.ipv4.tcp_tw_recycle = 1"),
    ("upstream-not-verified", "server { location / { grpc_pass grpcs://app.example; } }"),
    (
        "upstream-not-verified",
        "server { location / { uwsgi_pass suwsgi://app.example:3031; uwsgi_ssl_server_name on; } }",
    ),
    (
        "upstream-not-verified",
        "events {}\nhttp {\n}\nstream {\n    server {\n        listen 9000;\n        proxy_ssl on;\n        proxy_pass app.example:9001;\n    }\n}",
    ),
];

/// Applies each fix of that rule separately and undoes it. Returns the number of findings.
fn apply(rule: &str, example: &str, dialect: Dialect) -> usize {
    let (files, expected) = (Files::of_example(example), expected(example));
    let before = found(&files, dialect, expected);
    let of = |findings: &[Finding]| findings.iter().filter(|finding| finding.rule == rule).count();
    for finding in before.iter().filter(|finding| finding.rule == rule && !ELSEWHERE.contains(&rule)) {
        let context = format!("{rule} as {}:\n{example}\n{}", dialect.name(), finding.fix);
        let fixed = files.fixed(&finding.fix);
        let only_words = finding.fix.lines().all(|line| line.starts_with('#') && !line.starts_with("# delete"));
        assert_eq!(fixed == files, only_words, "{context}");
        if !only_words {
            let after = found(&fixed, dialect, expected);
            assert!(of(&after) < of(&before), "the finding stays: {context}\n{}\n{after:?}", fixed.conf);
            let new = after.iter().find(|finding| before.iter().all(|known| known.rule != finding.rule));
            assert!(new.is_none(), "another finding comes: {context}\n{}\n{new:?}", fixed.conf);
            let mut back = fixed.undone(&finding.undo, &finding.fix);
            // A setting that no file has is restored to its current value.
            back.sysctls.retain(|name, _| files.sysctls.contains_key(name));
            assert_eq!(back, files, "undone: {context}\n{}", finding.undo);
        }
    }
    of(&before)
}

fn with_examples() -> impl Iterator<Item = &'static &'static Rule> {
    rules::all().iter().filter(|rule| !rule.example.is_empty())
}

#[test]
fn each_fix_mends_its_finding_and_each_undo_leads_back() {
    for rule in with_examples() {
        for dialect in DIALECTS {
            let times = apply(rule.name, rule.example, dialect);
            assert!(times > 0 || dialect != Dialect::NGINX_1_26, "{} does not fire on its example", rule.name);
        }
    }
    for (rule, example) in VARIANTS {
        assert!(rules::all().iter().any(|known| known.name == *rule), "{rule} is no rule");
        let times: usize = DIALECTS.map(|dialect| apply(rule, example, dialect)).iter().sum();
        assert!(times > 0, "{rule} does not fire on {example}");
    }
}

#[test]
fn each_rule_is_silent_on_the_fix_of_its_page() {
    for rule in with_examples().filter(|rule| !rule.instead.is_empty()) {
        let files = Files::of_example(rule.instead);
        let findings = found(&files, Dialect::NGINX_1_26, expected(rule.instead));
        assert!(findings.iter().all(|finding| finding.rule != rule.name), "{}: {findings:?}", rule.name);
    }
}

/// Runs `patch` on a file.
fn patch(file: &std::path::Path, diff: &str, more: &[&str]) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut patch = std::process::Command::new("patch");
    let patch = patch.args(["--silent", "--fuzz=0"]).args(more).arg(file).stdin(std::process::Stdio::piped());
    let mut patch = patch.stdout(std::process::Stdio::piped()).spawn()?;
    patch.stdin.take().expect("piped").write_all(diff.as_bytes())?;
    let said = patch.wait_with_output()?;
    assert!(said.status.success(), "{}\n{diff}", String::from_utf8_lossy(&said.stdout));
    Ok(())
}

#[allow(clippy::print_stdout)] // a test that did not run must say so
#[test]
fn patch_takes_the_printed_changes_and_takes_them_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    let variants = VARIANTS.iter().map(|(_, example)| *example);
    for example in with_examples().map(|rule| rule.example).chain(variants) {
        let files = Files::of_example(example);
        for finding in found(&files, Dialect::NGINX_1_26, expected(example)) {
            if !finding.fix.contains("\n@@ ") {
                continue;
            }
            std::fs::write(&file, &files.conf).expect("written");
            if let Err(error) = patch(&file, &format!("{}\n", finding.fix), &[]) {
                return testkit::skip(&format!("patch(1) does not run: {error}"));
            }
            let patched = std::fs::read_to_string(&file).expect("read");
            assert_eq!(patched, files.fixed(&finding.fix).conf, "{}", finding.fix);
            patch(&file, &format!("{}\n", finding.fix), &["-R"]).expect("it ran before");
            assert_eq!(std::fs::read_to_string(&file).expect("read"), files.conf, "{}", finding.fix);
        }
    }
}
