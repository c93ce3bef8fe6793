//! Tests every fix that changes a configuration with a real nginx of each generation. nginx accepts the changed
//! configuration, and the application and the client see no change except the one that the fix is for.

use crate::applied::{Files, expected, found_on, host};
use doctor::{Dialect, rules};
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::{NameServer, Peer, Running, Talk, free_port, peer_or_skip};

/// The programs from `cargo xtask peers`, and their names in the doctor.
const GENERATIONS: [(&str, Dialect); 3] =
    [("nginx", Dialect::NGINX_1_22), ("nginx-stable", Dialect::NGINX_1_26), ("nginx-new", Dialect::NGINX_1_30)];

/// Adapts an example to run here: addresses of this test, and nginx in the foreground with its files in a folder.
fn decorated(text: &str, home: &Path, listen: SocketAddr) -> String {
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {}/temp-{kind}; ", home.display()))
        .concat();
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let user = if is_root { "user root;\n" } else { "" };
    let home = home.display();
    let mut text = text.replace(" ssl;", ";");
    for port in ["443", "444", "40000", "8080", "80"] {
        for end in [";", " "] {
            text = text.replace(&format!("listen {port}{end}"), &format!("listen {listen}{end}"));
        }
    }
    if !text.contains("listen ") {
        text = text.replace("server {", &format!("server {{ listen {listen};"));
    }
    format!(
        "{user}daemon off;\nmaster_process off;\npid {home}/nginx.pid;\nerror_log stderr;\n{}",
        text.replacen("http {", &format!("http {{\naccess_log off; {folders}"), 1)
    )
}

fn nginx(program: &Path, home: &Path, text: &str, listen: SocketAddr) -> Command {
    let file = home.join("nginx.conf");
    fs::write(&file, decorated(text, home, listen)).expect("written");
    let mut command = Command::new(program);
    command.arg("-p").arg(home).arg("-c").arg(file).stdin(Stdio::null());
    command
}

fn assert_accepted(program: &Path, home: &Path, text: &str, listen: SocketAddr, context: &str) {
    let said = nginx(program, home, text, listen).arg("-t").output().expect("nginx starts");
    let error = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{context}\n{text}\n{error}");
}

/// This machine's name, if it can be resolved: examples with names need one.
fn own_name() -> Option<String> {
    let name = fs::read_to_string("/etc/hostname").ok()?.trim().to_owned();
    (name.as_str(), 80).to_socket_addrs().ok()?.find(|address| address.ip().is_loopback())?;
    Some(name)
}

fn here(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

#[test]
fn nginx_takes_each_example_with_its_fix() {
    let home = tempfile::tempdir().expect("a folder");
    let listen = here(free_port());
    let name = own_name();
    for (name_of_program, dialect) in GENERATIONS {
        let Some(program) = peer_or_skip(&[name_of_program]) else { continue };
        for rule in rules::all() {
            if rule.example.is_empty() || (rule.example.contains("app.example") && name.is_none()) {
                continue;
            }
            let example = rule.example.replace("app.example", name.as_deref().unwrap_or_default());
            let files = Files::of_example(&example);
            let context = format!("{} with {name_of_program}", rule.name);
            assert_accepted(&program, home.path(), &files.conf, listen, &context);
            for finding in found_on(&files, dialect, expected(&example), host()) {
                let fixed = files.fixed(&finding.fix);
                let context = format!("{context}, fix of {}", finding.rule);
                assert_accepted(&program, home.path(), &fixed.conf, listen, &context);
            }
            if !rule.instead.is_empty() {
                let instead = Files::of_example(&rule.instead.replace("app.example", "127.0.0.1"));
                assert_accepted(&program, home.path(), &instead.conf, listen, &format!("instead of {context}"));
            }
        }
    }
}

/// A running nginx. If the test fails, it shows what it has printed.
fn run(program: &Path, home: &Path, text: &str, listen: SocketAddr) -> Running {
    Running::listening(&mut nginx(program, home, text, listen), listen)
}

/// A configuration, the rule with the fix to apply, the requested path, and the fields that the fix may change.
struct Case {
    rule: &'static str,
    http: &'static str,
    path: &'static str,
    changes: &'static [&'static str],
}

const HEADERS: &str = "proxy_set_header Host $host;\nproxy_set_header X-Real-IP $remote_addr;\nproxy_set_header X-Forwarded-For \
                       $proxy_add_x_forwarded_for;\n";

const CASES: [Case; 11] = [
    Case {
        rule: "upstream-without-keepalive",
        http: "{headers}upstream api {\n    server {app};\n}\nserver {\n    location / {\n        proxy_pass http://api;\n    }\n}",
        path: "/x?y=1",
        changes: &["connection"],
    },
    Case {
        rule: "upstream-without-keepalive",
        http: "server {\n    proxy_set_header X-Real-IP $remote_addr;\n    location /a/ {\n        proxy_pass http://{app}/b/;\n    }\n}",
        path: "/a/x%20y?z=1",
        changes: &["connection"],
    },
    Case {
        rule: "upstream-without-keepalive",
        http: "server {\n    location / {\n        proxy_set_header X-To $proxy_host;\n        proxy_pass http://{app};\n    }\n}",
        path: "/x%2Fy",
        changes: &["connection"],
    },
    Case {
        rule: "keepalive-not-used",
        http: "{headers}upstream api {\n    server {app};\n    keepalive 4;\n}\nserver {\n    location / {\n        proxy_set_header Connection close;\n        proxy_set_header Host $host;\n        proxy_pass http://api;\n    }\n}",
        path: "/",
        changes: &["connection"],
    },
    Case {
        rule: "connection-always-upgrade",
        http: "{headers}upstream api {\n    server {app};\n    keepalive 4;\n}\nserver {\n    proxy_set_header Upgrade $http_upgrade;\n    proxy_set_header Connection upgrade;\n    proxy_set_header X-Real-IP $remote_addr;\n    location / {\n        proxy_http_version 1.1;\n        proxy_pass http://api;\n    }\n}",
        path: "/",
        changes: &["connection"],
    },
    Case {
        rule: "tunnel-broken",
        http: "server {\n    proxy_set_header X-Real-IP $remote_addr;\n    proxy_set_header Upgrade $http_upgrade;\n    location / { proxy_pass http://{app}; }\n}",
        path: "/",
        changes: &["connection"],
    },
    Case {
        rule: "websocket-without-upgrade",
        http: "{headers}server {\n    location /ws {\n        proxy_pass http://{app};\n    }\n}",
        path: "/ws",
        changes: &["connection"],
    },
    Case {
        rule: "tunnel-timeout",
        http: "{headers}server {\n    location /ws {\n        proxy_http_version 1.1;\n        proxy_set_header Upgrade $http_upgrade;\n        proxy_set_header Connection upgrade;\n        proxy_pass http://{app};\n    }\n}",
        path: "/ws",
        changes: &[],
    },
    Case {
        rule: "name-resolved-once",
        http: "{headers}server {\n    location / {\n        rewrite ^/old/(.*)$ /new/$1 break;\n        proxy_pass http://{name};\n    }\n}",
        path: "/old/x?y=1",
        changes: &["connection"],
    },
    Case {
        rule: "name-resolved-once",
        http: "{headers}upstream api {\n    server {name};\n    keepalive 4;\n}\nserver {\n    location / {\n        proxy_pass http://api;\n    }\n}",
        path: "/",
        changes: &[],
    },
    Case {
        rule: "host-spoofing",
        http: "server {\n    location / {\n        proxy_set_header Host $http_host;\n        proxy_pass http://{app};\n    }\n}",
        path: "/",
        changes: &[],
    },
];

/// Waits until nginx answers; it was seen to reset the first connection after its start. It refuses this request without
/// the application.
fn wait_until_answered(listen: SocketAddr) {
    testkit::until("nginx answers", || {
        let mut client = Talk::connect(listen);
        client.send("?\r\n\r\n");
        client.head()
    });
}

/// The status of an answer; `None` if the connection ends without one.
fn status(listen: SocketAddr, path: &str) -> Option<u16> {
    let mut client = Talk::connect(listen);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\n\r\n"));
    client.head().map(|head| head.status())
}

/// The request that an application saw, without the fields that may change, and the response that the client got.
fn exchange(app: &Peer, listen: SocketAddr, path: &str, changes: &[&str]) -> (Vec<String>, Vec<String>) {
    let before = app.requests().len();
    let mut client = Talk::connect(listen);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\nX-Own: 1\r\n\r\n"));
    let response = client.response();
    let requests = app.requests();
    let (_, request) = requests.get(before).unwrap_or_else(|| panic!("no request came: {response:?}"));
    let fields = request.fields.iter().filter(|(name, _)| !changes.contains(&name.to_ascii_lowercase().as_str()));
    let mut seen: Vec<String> = fields.map(|(name, value)| format!("{name}: {value}")).collect();
    seen.sort();
    seen.insert(0, format!("{} {}", request.method(), request.target()));
    let got = vec![response.status().to_string(), response.value("Location").unwrap_or_default().to_owned()];
    (seen, got)
}

#[test]
fn applications_and_clients_see_the_same_with_each_fix() {
    let names = NameServer::script(|question| vec![question.addresses(60, &["127.0.0.1"])]);
    let own_name = own_name();
    for (name_of_program, dialect) in GENERATIONS {
        let Some(program) = peer_or_skip(&[name_of_program]) else { continue };
        for case in &CASES {
            // An application that builds absolute URLs from what it believes to be its own address.
            let app = Peer::answering(|request| {
                let host = request.value("Host").unwrap_or_default();
                let end = if request.announces_close() { "Connection: close\r\n" } else { "" };
                let head = format!("HTTP/1.1 302 Found\r\nLocation: http://{host}/b/next\r\n{end}");
                format!("{head}Content-Length: 0\r\n\r\n").into_bytes()
            });
            let address = app.address();
            let named = own_name.as_ref().map(|name| format!("{name}:{}", address.port()));
            if named.is_none() && case.http.contains("{name}") {
                continue;
            }
            let http = case.http.replace("{headers}", HEADERS).replace("{app}", &address.to_string());
            let http = http.replace("{name}", named.as_deref().unwrap_or_default());
            let files = Files::of_example(&http);
            let mut system = host();
            system.name_servers = vec![names.address().to_string()];
            let findings = found_on(&files, dialect, expected(""), system);
            let Some(finding) = findings.iter().find(|finding| finding.rule == case.rule) else {
                assert!(dialect == Dialect::NGINX_1_30, "{} does not fire as {}: {http}", case.rule, dialect.name());
                continue;
            };
            let fixed = files.fixed(&finding.fix);
            let home = tempfile::tempdir().expect("a folder");
            let listen = here(free_port());
            let seen = |conf: &str| {
                let _running = run(&program, home.path(), conf, listen);
                wait_until_answered(listen);
                if case.rule == "name-resolved-once" {
                    // Until the name server has answered, such a group has no peer in nginx.
                    testkit::until("the name is known", || status(listen, case.path).filter(|status| *status != 502));
                }
                let connections = app.connections();
                let first = exchange(&app, listen, case.path, case.changes);
                assert_eq!(exchange(&app, listen, case.path, case.changes), first);
                (first, app.connections() - connections)
            };
            let (before, opened_before) = seen(&files.conf);
            let (after, opened_after) = seen(&fixed.conf);
            assert_eq!(after, before, "{} with {name_of_program}:\n{}", case.rule, fixed.conf);
            if case.rule.contains("keepalive") {
                let context = format!("{} with {name_of_program}: {:?}\n{}", case.rule, app.requests(), fixed.conf);
                assert_eq!((opened_before, opened_after), (2, 1), "{context}");
            }
        }
    }
}
