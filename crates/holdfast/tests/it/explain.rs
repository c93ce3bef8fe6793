//! `holdfast explain` from the command line: text, JSON, exit codes. The test of `gateway` compares what it says with
//! what the gateway does.

use nix::libc::{
    AF_INET, AF_INET6, O_CREAT, O_RDWR, O_WRONLY, SYS_bind, SYS_listen, SYS_mkdirat, SYS_openat, SYS_renameat2,
    SYS_socket, SYS_unlinkat,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const SITE: &str = "events {}
http {
    upstream app { hash $arg_id; server app.internal:8080; server 127.0.0.1:8081; }
    server {
        listen 192.0.2.7:8080;
        server_name shop.example;
        location / { return 200 \"home\"; }
        location ~ \\.php$ { return 403; }
        location /api/ { limit_req zone=api; proxy_set_header X-From $remote_addr; proxy_pass http://app/v1/; }
    }
    limit_req_zone $http_x_user zone=api:1m rate=5r/s;
}
";

fn explain(text: &str, words: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, text).expect("written");
    let output = run(&file, words);
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1, "a file was written: {left:?}");
    output
}

fn run(file: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.arg("explain").args(words).arg("-c").arg(file);
    command.arg("-p").arg(file.parent().expect("a folder")).output().expect("it starts")
}

#[test]
fn a_local_answer_ends_the_text() {
    let output = explain(SITE, &["http://shop.example:8080/a.php"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [
        "GET /a.php HTTP/1.1\n",
        "listener   The request reaches 192.0.2.7:8080.  ",
        "server     Server shop.example: \"shop.example\" is one of its names.  ",
        "location   location ~ \\.php$ takes /a.php: it is the first regular expression that matches.  ",
        "location /: the longest prefix  ",
        "nginx.conf:8\n",
        "\nThe gateway answers 403.\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(output.status.code(), Some(0), "{text}");
}

#[test]
fn an_upstream_gets_the_request() {
    let words = ["http://shop.example:8080/api/x?id=7", "-H", "X-User: me", "--from", "198.51.100.4", "--json"];
    let output = explain(SITE, &words);
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let upstream = &found["outcome"]["upstream"];
    assert_eq!(upstream["request_line"], "GET /v1/x?id=7 HTTP/1.1", "{found:#}");
    let headers = upstream["headers"].as_array().expect("headers");
    assert!(headers.contains(&serde_json::json!(["X-From", "198.51.100.4"])), "{found:#}");
    assert_eq!((&upstream["group"], &upstream["method"]), (&"app".into(), &"hash".into()), "{found:#}");
    assert_eq!(found["location"]["at"]["line"], 9, "{found:#}");
    // No name server is asked.
    let addresses: Vec<_> = upstream["peers"].as_array().expect("peers").iter().map(|peer| &peer["address"]).collect();
    assert_eq!(addresses, ["192.0.2.1:8080", "127.0.0.1:8081"], "{found:#}");
    let assumed = found["assumptions"].to_string();
    assert!(assumed.contains("The name app.internal is not looked up: 192.0.2.1 is used instead."), "{found:#}");
    let limits = found["steps"].to_string();
    assert!(limits.contains("zone api counts $http_x_user = \\\"me\\\": 5 requests/s"), "{found:#}");
}

#[test]
fn exit_codes_distinguish_failures() {
    let code = |text: &str, words: &[&str]| {
        let output = explain(text, words);
        (output.status.code().expect("a code"), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (none, said) = code(SITE, &["http://shop.example/"]);
    assert_eq!(none, 3, "{said}");
    assert!(said.contains("nothing listens on port 80; the listeners are 192.0.2.7:8080"), "{said}");
    let (plain, said) = code(SITE, &["https://shop.example:8080/"]);
    assert_eq!(plain, 3, "{said}");
    assert!(said.contains("192.0.2.7:8080 has no \"ssl\""), "{said}");
    let (url, said) = code(SITE, &["ftp://shop.example/"]);
    assert_eq!(url, 2, "{said}");
    let (invalid, said) =
        code("events {} http { server { listen 8080; location / { no_such_word; } } }", &["http://a:8080/"]);
    assert_eq!(invalid, 1, "{said}");
    assert!(said.contains("unknown directive \"no_such_word\""), "{said}");
}

/// The kernel ends the program at the first socket of a network, at a bound socket, and at a file that is opened for
/// writing.
#[test]
fn no_network_is_used_and_nothing_is_written() {
    let text = "error_log logs/error.log; pid run/holdfast.pid;
        events {}
        http {
            access_log logs/access.log;
            client_body_temp_path temp; client_body_in_file_only on; client_max_body_size 0;
            proxy_cache_path cache keys_zone=zone:1m;
            resolver 192.0.2.53;
            upstream app { zone app 64k; server app.internal:8080; server later.internal:8080 resolve; }
            server {
                listen 80;
                location / { auth_request /auth; mirror /mirror; proxy_cache zone; proxy_pass http://app; }
                location /purge { proxy_cache zone; proxy_cache_purge 1; proxy_pass http://app; }
                location /named { proxy_pass http://$arg_to; }
                location /auth { proxy_pass http://app; }
                location /mirror { proxy_pass http://app; }
                location /file { root /; }
            }
        }";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, text).expect("written");
    for (words, end) in [
        (&["http://a/x"][..], "GET /x HTTP/1."),
        (&["http://a/x", "-X", "POST", "--body-size", "100000000"], "Content-Length: 100000000"),
        (&["http://a/purge"], "removed"),
        (&["http://a/named?to=name.internal"], "looked up at run time"),
        (&["http://a/file"], "The gateway answers 404."),
    ] {
        let output = confined(|| run(&file, words));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        assert!(said.contains(end), "{end} in {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

/// Runs the work in a thread that the kernel confines, with its children.
fn confined<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worked = scope.spawn(|| {
            seccompiler::apply_filter(&confinement()).expect("a kernel with seccomp");
            work()
        });
        worked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn confinement() -> BpfProgram {
    let word = |number: i32| u64::from(number.unsigned_abs());
    let rule = |argument: u8, operator: SeccompCmpOp, value: i32| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, word(value));
        SeccompRule::new(vec![condition.expect("a condition")]).expect("a rule")
    };
    let masked = |mask: i32| SeccompCmpOp::MaskedEq(word(mask));
    let rules = [
        (SYS_socket, vec![rule(0, SeccompCmpOp::Eq, AF_INET), rule(0, SeccompCmpOp::Eq, AF_INET6)]),
        (
            SYS_openat,
            vec![
                rule(2, masked(O_WRONLY | O_RDWR), O_WRONLY),
                rule(2, masked(O_WRONLY | O_RDWR), O_RDWR),
                rule(2, masked(O_CREAT), O_CREAT),
            ],
        ),
        // Without a rule every call is meant.
        (SYS_bind, Vec::new()),
        (SYS_listen, Vec::new()),
        (SYS_mkdirat, Vec::new()),
        (SYS_renameat2, Vec::new()),
        (SYS_unlinkat, Vec::new()),
    ];
    let here = std::env::consts::ARCH.try_into().expect("an architecture that we build for");
    let filter = SeccompFilter::new(rules.into(), SeccompAction::Allow, SeccompAction::KillProcess, here);
    filter.expect("a filter").try_into().expect("a program")
}
