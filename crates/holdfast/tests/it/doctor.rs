//! `holdfast doctor` from the command line: its findings, its exit codes, and its messages if it cannot read something.

use crate::support::load::Origin;
use crate::support::{threads_stopped, until};
use serde_json::Value;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use testkit::{Running, Talk, with_own_network};

fn doctor(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.current_dir(root).arg("doctor").args(arguments).output().expect("it starts")
}

fn written(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("written");
    path.to_str().expect("plain path").to_owned()
}

#[test]
fn group_without_keepalive_gets_a_pasteable_fix() {
    let found = doctor(&["-c", "examples/keepalive-states-off.conf", "--target", "nginx-1.22"]);
    let text = String::from_utf8_lossy(&found.stdout);
    for part in [
        "upstream-without-keepalive",
        "why it hurts:",
        "evidence:",
        "arithmetic:",
        "keepalive 32;",
        "side effect:",
        "to undo:",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.contains("\nexamples/keepalive-states-off.conf:29:5: warning: "), "{text}");
    assert_eq!(found.status.code(), Some(3));
    assert_eq!(doctor(&["-c", "examples/static-site.conf"]).status.code(), Some(0));
}

/// A line of an error log: no port was free.
const NO_PORT: &str = "2026/11/21 23:40:22 [error] 7#7: *4 connect() failed (99: Cannot assign requested address) while connecting to \
                       upstream, client: 10.0.0.9, request: \"GET / HTTP/1.1\", upstream: \"http://127.0.0.1:9001/\"\n";

#[test]
fn fail_on_chooses_the_severity_for_exit_code_3() {
    let code = |fail_on: &str| {
        let words = ["-c", "examples/keepalive-states-off.conf", "--target", "nginx-1.22", "--fail-on", fail_on];
        doctor(&words).status.code()
    };
    // The report has warnings and no errors.
    assert_eq!((code("note"), code("warning"), code("error")), (Some(3), Some(3), Some(0)));
}

#[test]
fn an_error_log_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = written(&folder, "error.log", &NO_PORT.repeat(3));
    let found = doctor(&["--log", &log]);
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(
        text.contains("no local port was left")
            && text.contains("-> 502, 3 times")
            && text.contains("http://127.0.0.1:9001 (3)"),
        "{text}"
    );
    assert_eq!(found.status.code(), Some(3));
}

#[test]
fn unreadable_files_are_reported_with_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = written(&folder, "broken.conf", "events {}\nhttp {\n    server {\n");
    let refused = doctor(&["-c", &broken]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("broken.conf:"), "{refused:?}");
    assert_eq!(doctor(&["--log", "/no/such/log"]).status.code(), Some(1));
    assert_eq!(doctor(&["-c", "examples/static-site.conf", "--pid", "4294967295"]).status.code(), Some(1));
    assert_eq!(doctor(&[]).status.code(), Some(2));
}

/// Starts the test origin with an accept queue of one, and returns its address.
fn start_origin() -> (Running, SocketAddr) {
    let Origin { running, address } = Origin::start(&["--backlog", "1"]);
    (running, address.parse().expect("an address"))
}

/// Stops the origin and fills its queue. Stopped, it accepts no connection, and a queue of one holds two.
fn fill_queue(origin: &Running, address: SocketAddr) -> [TcpStream; 2] {
    origin.signal(nix::sys::signal::Signal::SIGSTOP);
    until("all of it has stopped", || threads_stopped(origin.id()));
    [(); 2].map(|()| TcpStream::connect(address).expect("there is room"))
}

/// A server with two faults: it does not accept from a queue of one, and it does not close connections.
struct Careless {
    process: Running,
    address: SocketAddr,
    _waiting: [TcpStream; 2],
}

impl Careless {
    fn start() -> Self {
        let (process, address) = start_origin();
        let served = || {
            let mut client = Talk::connect(address);
            client.send("GET /bytes/1 HTTP/1.1\r\nHost: o\r\n\r\n");
            assert_eq!(client.response().status(), 200);
            client
        };
        let clients: Vec<Talk> = (0..80).map(|_| served()).collect();
        let waiting = fill_queue(&process, address);
        drop(clients);
        Self { process, address, _waiting: waiting }
    }

    fn pid(&self) -> String {
        self.process.id().to_string()
    }

    fn configuration(&self, folder: &tempfile::TempDir) -> String {
        let conf = format!("events {{}}\nhttp {{\n    server {{ listen {}; }}\n}}\n", self.address);
        written(folder, "nginx.conf", &conf)
    }
}

#[test]
fn the_sockets_of_a_running_process_are_evidence() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Careless::start();
    let (conf, address) = (server.configuration(&folder), server.address);
    let found = doctor(&["-c", &conf, "--pid", &server.pid()]);
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(text.contains("sock_diag over netlink, of process"), "{text}");
    assert!(text.contains(&format!("{conf}:3:14: error: the accept queue of {address} is full now")), "{text}");
    assert!(text.contains("80 connections were closed by the peer and not by the server"), "{text}");
    assert_eq!(found.status.code(), Some(3));
}

/// Checks the log against OASIS' schema, and for what a schema cannot express: each result's rule is listed, and each
/// rule once.
fn assert_is_sarif(log: &Value) {
    let schema = include_str!("../../../report/tests/fixtures/sarif-schema-2.1.0.json");
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    let schema = jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema");
    let objections: Vec<String> = schema.iter_errors(log).map(|error| error.to_string()).collect();
    assert_eq!(objections, [""; 0], "{log}");
    for run in log["runs"].as_array().expect("an array") {
        let rules: Vec<&Value> = run["tool"]["driver"]["rules"].as_array().expect("an array").iter().collect();
        for (at, rule) in rules.iter().enumerate() {
            assert!(rules[..at].iter().all(|other| other["id"] != rule["id"]), "rules are unique: {rule}");
        }
        for result in run["results"].as_array().expect("an array") {
            assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]), "{result}");
        }
    }
}

#[test]
fn live_sockets_and_log_causes_are_in_every_form_of_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Careless::start();
    let (conf, log) = (server.configuration(&folder), written(&folder, "error.log", &NO_PORT.repeat(3)));
    let page = folder.path().join("report.html");
    let page = page.to_str().expect("plain path");
    let pid = server.pid();
    let asked = ["-c", &conf, "--pid", &pid, "--log", &log, "--html", page];
    let expected = ["accept-queue-overflow", "close-wait-pile", "log-ports-exhausted"];

    let json = doctor(&[&asked[..], &["--json"]].concat());
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["schema"], "holdfast.report/1");
    let facts = json["facts"].to_string();
    assert!(facts.contains("sock_diag over netlink, of process"), "{facts}");
    let written = json["sections"].to_string();

    let sarif = doctor(&[&asked[..], &["--sarif"]].concat());
    assert_eq!(sarif.status.code(), Some(3));
    let sarif: Value = serde_json::from_slice(&sarif.stdout).expect("JSON");
    assert_is_sarif(&sarif);
    let results = sarif["runs"][0]["results"].as_array().expect("an array");
    let html = std::fs::read_to_string(page).expect("written");
    for rule in expected {
        let result =
            results.iter().find(|result| result["ruleId"] == rule).unwrap_or_else(|| panic!("{rule}: {sarif}"));
        let message = result["message"]["text"].as_str().expect("text");
        for part in ["why it hurts: ", "evidence: ", "fix: ", "side effect: ", "to undo: "] {
            assert!(message.contains(part), "{part} in {message}");
        }
        let what = message.lines().next().expect("a line");
        assert!(written.contains(&format!("\"rule\":\"{rule}\"")) && written.contains(what), "{rule}: {written}");
        assert!(html.contains(&what.replace('>', "&gt;")), "{what} is not on the page");
    }
    testkit::assert_page_holds(Path::new(page), 0);
    // Findings about a file have their place in it: the listener in the configuration, the cause at its first line in
    // the log.
    let places = |rule: &str| {
        let result = results.iter().find(|result| result["ruleId"] == rule).expect("found above");
        let place = &result["locations"][0]["physicalLocation"];
        (place["artifactLocation"]["uri"].as_str().unwrap_or_default().to_owned(), place["region"]["startLine"].clone())
    };
    assert_eq!(places("accept-queue-overflow"), (conf, Value::from(3)));
    assert_eq!(places("log-ports-exhausted"), (log, Value::from(1)));
}

#[test]
fn a_server_in_another_namespace_is_looked_at_there() {
    let mut there = None;
    with_own_network(|| {
        std::fs::write("/proc/sys/net/core/somaxconn", "77").expect("it is this namespace's own");
        let (origin, address) = start_origin();
        let waiting = fill_queue(&origin, address);
        there = Some((origin, address, waiting));
    });
    let Some((origin, address, _waiting)) = there else { return };
    let folder = tempfile::tempdir().expect("a folder");
    // In this namespace no process listens on the address.
    let conf = format!("events {{}}\nhttp {{\n    server {{ listen {address}; }}\n}}\n");
    let conf = written(&folder, "nginx.conf", &conf);
    let pid = origin.id().to_string();
    let mut text = String::new();
    until("its queue is seen to be full", || {
        let found = doctor(&["-c", &conf, "--pid", &pid]);
        text = String::from_utf8_lossy(&found.stdout).into_owned();
        text.contains(&format!("{conf}:3:14: error: the accept queue of {address} is full now"))
    });
    assert!(text.contains(&format!("sock_diag over netlink, of process {pid}")), "{text}");
    // The settings are read from that namespace, too.
    assert!(text.contains("[listen-backlog]") && text.contains("77"), "{text}");
    // Without permission to enter the namespace, the report states that, and its other parts stay valid.
    let powerless = Command::new("setpriv")
        .args(["--bounding-set=-all", "--inh-caps=-all", env!("CARGO_BIN_EXE_holdfast"), "doctor", "--pid", &pid])
        .output()
        .expect("util-linux is installed");
    let said = String::from_utf8_lossy(&powerless.stdout);
    assert!(
        said.contains(&format!("not looked at: only root and the user of process {pid} may see its sockets")),
        "{powerless:?}"
    );
    assert_eq!(powerless.status.code(), Some(0));
}

#[test]
fn a_pid_file_that_names_something_else_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid = written(&folder, "pid", &format!("{}\n", std::process::id()));
    let conf = written(&folder, "nginx.conf", &format!("pid {pid};\nevents {{}}\nhttp {{}}\n"));
    let found = doctor(&["-c", &conf]);
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(text.contains(&format!("not looked at: {pid} names process {}", std::process::id())), "{text}");
    assert_eq!(found.status.code(), Some(0));
}

#[test]
fn limits_of_a_go_transport_need_no_configuration() {
    let found = doctor(&["--go-transport", "MaxIdleConnsPerHost=200", "--concurrency", "1000"]);
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(text.contains("MaxIdleConns of 100 cuts MaxIdleConnsPerHost of 200"), "{text}");
    assert!(text.contains("900 of 1000 connections"), "{text}");
    assert_eq!(found.status.code(), Some(3));
    let slip = doctor(&["--go-transport", "MaxIdle=1"]);
    assert_eq!(slip.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&slip.stderr).contains("MaxIdleConnsPerHost"), "{slip:?}");
}

/// A program named nginx that prints this version.
fn fake_nginx(folder: &tempfile::TempDir, version: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = written(folder, "nginx", &format!("#!/bin/sh\necho 'nginx version: nginx/{version} (Debian)' >&2\n"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn without_a_target_the_nginx_on_the_path_is_meant() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (version, code) in [("1.22.1", 3), ("1.30.6", 0)] {
        let folder = tempfile::tempdir().expect("a folder");
        fake_nginx(&folder, version);
        let conf =
            "events {}\nhttp { upstream a { server 127.0.0.1:1; } server { location / { proxy_pass http://a; } } }\n";
        let conf = written(&folder, "a.conf", conf);
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        let command = command.current_dir(&root).env("PATH", folder.path()).args(["doctor", "-c", &conf]);
        let found = command.output().expect("it starts");
        let text = String::from_utf8_lossy(&found.stdout);
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with(&format!("Doctor: read as nginx {version}, the version of ")), "{text}");
        assert_eq!(text.contains("upstream-without-keepalive"), code == 3, "{text}");
        assert_eq!(found.status.code(), Some(code), "{text}");
    }
}

#[test]
fn holdfast_directives_select_its_own_dialect() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf = written(&folder, "a.conf", "events {}\nhttp { tunnel_timeout 1h; }\n");
    let text = String::from_utf8_lossy(&doctor(&["-c", &conf]).stdout).into_owned();
    assert!(text.starts_with("Doctor: read as holdfast, since only it has \"tunnel_timeout\"\n"), "{text}");
    let text = String::from_utf8_lossy(&doctor(&["-c", &conf, "--target", "nginx-1.26"]).stdout).into_owned();
    assert!(text.starts_with("Doctor: read as nginx 1.26\n"), "{text}");
    assert_eq!(doctor(&["-c", &conf, "--target", "apache"]).status.code(), Some(2));
}

#[test]
fn running_nginx_reports_its_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let pid_file = folder.path().join("nginx.pid");
    let listen = testkit::free_port();
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("    {kind}_temp_path {}/temp-{kind};\n", folder.path().display()))
        .concat();
    let conf = format!(
        "daemon off;\nmaster_process off;\npid {};\nerror_log {};\nevents {{}}\nhttp {{\n    access_log off;\n{folders}    server {{ listen 127.0.0.1:{listen}; }}\n}}\n",
        pid_file.display(),
        folder.path().join("error.log").display(),
    );
    let conf = written(&folder, "nginx.conf", &conf);
    let mut nginx = Command::new(testkit::peer_program("nginx"));
    nginx.args(["-p", folder.path().to_str().expect("plain"), "-c", &conf]);
    let nginx = Running::listening(&mut nginx, ([127, 0, 0, 1], listen));
    // nginx writes the pid file after it listens.
    until("it has a pid file", || std::fs::read_to_string(&pid_file).is_ok_and(|text| text.ends_with('\n')));
    let text = String::from_utf8_lossy(&doctor(&["-c", &conf]).stdout).into_owned();
    let first = text.lines().next().unwrap_or_default();
    assert!(first.starts_with("Doctor: read as nginx 1."), "{text}");
    assert!(first.ends_with(&format!("which runs as process {}", nginx.id())), "{text}");
}

#[test]
fn github_format_prints_workflow_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf = written(&folder, "a.conf", "events {}\nhttp {\n    server { location /a { alias /srv/a/; } }\n}\n");
    let asked = ["-c", &conf, "--target", "nginx-1.26", "--format"];
    let found = doctor(&[&asked[..], &["github"]].concat());
    let text = String::from_utf8_lossy(&found.stdout);
    let start = format!("::error file={conf},line=3,col=23,title=alias-traversal::/a../ leads out of /srv/a/%0A");
    assert!(text.starts_with(&start) && text.lines().count() == 1, "{text}");
    assert_eq!(found.status.code(), Some(3));
    let sarif = doctor(&[&asked[..], &["sarif"]].concat());
    assert_is_sarif(&serde_json::from_slice(&sarif.stdout).expect("JSON"));
}

#[test]
fn two_configurations_and_two_programs_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = |timeout: &str| {
        format!(
            "events {{}}\nhttp {{\n    {timeout}\n    upstream api {{ server 127.0.0.1:1; }}\n    \
             server {{ server_name a; location / {{ proxy_pass http://api; }} }}\n}}\n"
        )
    };
    let one = written(&folder, "one.conf", &text(""));
    let other = written(&folder, "other.conf", &text("proxy_read_timeout 5s;"));
    let found = doctor(&["diff", &one, &other, "--target", "nginx-1.26"]);
    let said = String::from_utf8_lossy(&found.stdout);
    assert!(said.starts_with("1 difference between ") && said.contains("proxy_read_timeout"), "{said}");
    assert_eq!(found.status.code(), Some(3));
    let found = doctor(&["diff", &one, "--target", "nginx-1.26", "--against", "nginx-1.30", "--json"]);
    let json: Value = serde_json::from_slice(&found.stdout).expect("JSON");
    let said = json.to_string();
    for part in ["3 differences", "32 local", "proxy_http_version", "http > server a > location /"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let same = doctor(&["diff", &one, &one, "--target", "nginx-1.26"]);
    assert_eq!(same.status.code(), Some(0), "{same:?}");
    assert_eq!(doctor(&["diff", &one]).status.code(), Some(2));
    assert_eq!(doctor(&["diff", &one, "/no/such.conf"]).status.code(), Some(1));
}

#[test]
fn notes_no_directive_that_depends_on_a_refused_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let conf = |listen: &str| {
        format!(
            "events {{}}\nhttp {{ server {{ listen {listen}; ssl_protocols TLSv1.3; ssl_session_cache shared:x:1m; }} }}\n"
        )
    };
    let check = |name: &str, listen: &str| {
        let conf = written(&folder, name, &conf(listen));
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        let said = command.args(["-t", "-c", &conf]).output().expect("it starts");
        (said.status.success(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    let (accepted, refused) = check("tls.conf", "127.0.0.1:4443 ssl");
    assert!(
        !accepted && refused.contains("no \"ssl_certificate\" is defined") && !refused.contains("note:"),
        "{refused}"
    );
    let (accepted, noted) = check("plain.conf", "127.0.0.1:4443");
    assert!(accepted && noted.matches("note:").count() == 2, "{noted}");
}
