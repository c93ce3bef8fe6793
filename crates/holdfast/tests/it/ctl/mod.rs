//! `holdfast ctl` with the real program: its output, its changes, who may connect, and the changes that a reload would
//! make. As root, the worker process runs as another user.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

mod changes;

use crate::support;
use crate::support::{DEADLINE, Instance, children, until};
use nix::unistd::{Group, User};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use testkit::{Running, Talk, free_port};

/// User of the workers if the tests run as root.
const WORKERS: &str = "www-data";

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The test origin in a process of its own.
struct Origin {
    _running: Running,
    address: SocketAddr,
}

impl Origin {
    fn start() -> Self {
        Self::with(&[])
    }

    fn with(flags: &[&str]) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut command = support::holdfast();
        command.args(["origin", "--listen", &address.to_string()]).args(flags);
        Self { _running: Running::listening(&mut command, address), address }
    }
}

/// An instance and the calls of `ctl` to it. Its workers run as another user if the tests run as root.
struct Scene {
    instance: Instance,
    origins: Vec<Origin>,
}

impl Scene {
    fn new(top: &str) -> Self {
        let scene = Self { instance: Instance::new("", ""), origins: vec![Origin::start(), Origin::start()] };
        scene.configure(top, "");
        scene
    }

    /// `top` is at the top level, `more` in `http`.
    fn configure(&self, top: &str, more: &str) {
        let user = if is_root() { format!("user {WORKERS};") } else { String::new() };
        let servers: Vec<_> = self.origins.iter().map(|origin| format!("server {};", origin.address)).collect();
        let servers = servers.join("\n");
        let text = format!(
            "{user}\nerror_log logs/error.log notice;\n{top}\nevents {{ worker_connections 256; }}\nhttp {{\n\
             access_log off;\nupstream app {{ {servers} keepalive 8; }}\n\
             server {{ listen 127.0.0.1:{};\nproxy_http_version 1.1;\n\
             location / {{ proxy_pass http://app; proxy_set_header Connection \"\"; }}\n\
             location /websocket/ {{ proxy_pass http://app; proxy_set_header Connection upgrade;\n\
             proxy_set_header Upgrade $http_upgrade; }} }}\n{more}\n}}\n",
            self.instance.port
        );
        fs::write(self.instance.path("nginx.conf"), text).unwrap();
    }

    fn socket(&self) -> std::path::PathBuf {
        self.instance.path("logs/holdfast.ctl")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = support::holdfast();
        command.arg("ctl").arg("--socket").arg(self.socket()).args(words);
        command
    }

    /// The text output of a call that must succeed.
    fn text(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        let (text, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "ctl {words:?}: {errors}");
        text
    }

    fn json(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.text(&words)).unwrap()
    }

    /// The error of a call that must fail.
    fn refused(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "ctl {words:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn fetch(&self, path: &str) -> String {
        self.instance.fetch(path).unwrap()
    }

    /// The peer of the group at this index.
    fn peer(&self, at: usize) -> Value {
        let peers = self.json(&["peers"]);
        let name = self.origins[at].address.to_string();
        peers["peers"].as_array().unwrap().iter().find(|peer| peer["peer"] == name.as_str()).unwrap().clone()
    }

    fn attempts(&self, at: usize) -> u64 {
        self.peer(at)["attempts"].as_u64().unwrap()
    }

    /// Opens a tunnel to one of the origins.
    fn tunnel(&self) -> TcpStream {
        support::echo_tunnel(self.instance.port, "/")
    }
}

#[test]
fn status_names_processes_and_groups() {
    let mut scene = Scene::new("");
    scene.instance.start();
    scene.fetch("/");
    let status = scene.json(&["status"]);
    let child = children(scene.instance.pid())[0];
    assert_eq!(status["master"]["pid"], scene.instance.pid());
    assert_eq!(status["master"]["worker_pid"], child);
    assert_eq!((&status["serving"]["generation"], &status["serving"]["requests"]["total"]), (&1.into(), &1.into()));
    let text = scene.text(&["status"]);
    assert!(text.contains(&format!("worker        pid {child}")), "{text}");
    assert!(text.contains("group         app: 2 peers"), "{text}");
    // The socket's path comes from the configuration.
    let output = support::holdfast()
        .arg("ctl")
        .args(["-p".as_ref(), scene.instance.path("").as_os_str(), "-c".as_ref()])
        .arg(scene.instance.path("nginx.conf"))
        .arg("status")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn peers_go_down_drain_and_come_up_and_stay_so_over_a_reload() {
    let mut scene = Scene::new("");
    scene.instance.start();
    let name = scene.origins[0].address.to_string();
    scene.text(&["peers", "down", "app", &name]);
    (0..6).for_each(|_| assert!(scene.fetch("/").starts_with("HTTP/1.1 200")));
    assert_eq!((scene.attempts(0), scene.attempts(1)), (0, 6));
    scene.text(&["reload"]);
    (0..4).for_each(|_| assert!(scene.fetch("/").starts_with("HTTP/1.1 200")));
    assert_eq!((scene.peer(0)["mode"].as_str(), scene.attempts(0)), (Some("down"), 0));
    scene.text(&["peers", "drain", "app", &name]);
    scene.fetch("/");
    assert_eq!((scene.peer(0)["mode"].as_str(), scene.attempts(0)), (Some("drain"), 0));
    // The other origin is gone, and no peer is available.
    let other = scene.origins[1].address.to_string();
    scene.text(&["peers", "down", "app", &other]);
    assert!(scene.fetch("/").starts_with("HTTP/1.1 502"));
    scene.text(&["peers", "up", "app", &name]);
    assert!(scene.fetch("/").starts_with("HTTP/1.1 200"));
    assert_eq!(scene.attempts(0), 1);
    assert!(
        scene.refused(&["peers", "down", "app", "127.0.0.1:1"]).contains("no peer \"127.0.0.1:1\" in group \"app\"")
    );
    let uid = nix::unistd::getuid();
    scene.instance.wait_for_line(&format!("ctl: peers down app {name}, asked by uid {uid}, pid "));
}

#[test]
fn pools_are_flushed_by_group() {
    let mut scene = Scene::new("");
    scene.instance.start();
    (0..4).for_each(|_| _ = scene.fetch("/"));
    let idle = |scene: &Scene| scene.json(&["pools"])["pools"][0]["idle"].as_u64();
    until("connections are idle", || idle(&scene) == Some(2));
    assert!(scene.refused(&["pools", "flush", "other"]).contains("no group \"other\""));
    assert_eq!(scene.text(&["pools", "flush", "app"]), "2 idle connections closed\n");
    assert_eq!(idle(&scene), Some(0));
    assert!(scene.fetch("/").starts_with("HTTP/1.1 200"));
    let discarded = scene.json(&["status"]);
    assert_eq!(discarded["serving"]["groups"][0]["discarded"]["flushed"], 2);
}

#[test]
fn connections_are_listed_filtered_and_closed() {
    let mut scene = Scene::new("worker_processes 2;");
    scene.instance.start();
    let (mut idle, mut asking) = (scene.instance.client(), scene.instance.client());
    asking.send_get("/delay/60000", "");
    let list = |words: &[&str]| scene.json(&[&["connections"], words].concat());
    until("both are there", || list(&[])["matching"] == 2 && list(&["--state", "exchange"])["matching"] == 1);
    let all = list(&["--sort", "idle"]);
    assert_eq!((all["complete"].as_bool(), all["rows"].as_array().map(Vec::len)), (Some(true), Some(2)));
    assert_eq!(list(&["--client", "10.0.0.0/8"])["matching"], 0);
    assert_eq!(list(&["--client", "127.0.0.0/8", "--limit", "1"])["rows"].as_array().map(Vec::len), Some(1));
    let exchange = list(&["--state", "exchange"])["rows"][0].clone();
    assert_eq!(exchange["client"], asking.address().to_string());
    // Closing the client connection ends the exchange and its upstream request.
    let number = exchange["connection"].to_string();
    assert_eq!(scene.text(&["connections", "close", &number]), format!("connection *{number} closed\n"));
    asking.end();
    assert!(scene.refused(&["connections", "close", &number]).contains(&format!("no connection *{number}")));
    let number = list(&["--state", "idle"])["rows"][0]["connection"].to_string();
    scene.text(&["connections", "close", &number]);
    idle.end();
    until("none is left", || list(&[])["matching"] == 0);
    let status = scene.json(&["status"]);
    assert_eq!(status["serving"]["connections"]["closed"]["operator"], 2);
    assert_eq!(status["serving"]["requests"]["under_way"], 0);
    assert_eq!(status["serving"]["groups"][0]["leased"], 0);
}

#[test]
fn tunnels_are_listed_and_closed() {
    let mut scene = Scene::new("");
    scene.instance.start();
    let tunnels: Vec<TcpStream> = (0..3).map(|_| scene.tunnel()).collect();
    let list = scene.json(&["tunnels"]);
    assert_eq!((&list["matching"], list["rows"].as_array().map(Vec::len)), (&3.into(), Some(3)));
    assert_eq!(scene.json(&["connections"])["matching"], 0, "a tunnel is no connection of this list");
    let upstream = scene.origins[0].address.to_string();
    let there = scene.json(&["tunnels", "--upstream", &upstream]);
    assert!(there["rows"].as_array().unwrap().iter().all(|row| row["upstream"] == upstream.as_str()));
    let first = tunnels[0].local_addr().unwrap().to_string();
    let row = list["rows"].as_array().unwrap().iter().find(|row| row["client"] == first.as_str()).unwrap();
    scene.text(&["tunnels", "close", &row["connection"].to_string()]);
    let mut closed = &tunnels[0];
    assert_eq!(closed.read(&mut [0; 100]).unwrap_or_default(), 0);
    until("two are left", || scene.json(&["tunnels"])["matching"] == 2);
    assert!(scene.text(&["tunnels"]).ends_with("2 of 2 shown\n"));
}

#[test]
fn sessions_of_stream_and_fastcgi_peers_are_listed() {
    let (port, php) = (free_port(), free_port());
    let mut scene = Scene::new("");
    let (echo, fastcgi) = (Origin::with(&["--tcp", "echo"]), Origin::with(&["--fastcgi"]));
    scene.configure(
        &format!(
            "stream {{ upstream lines {{ server {} max_conns=100; }} server {{ listen 127.0.0.1:{port}; proxy_pass lines; }}\n\
             server {{ listen 127.0.0.1:{port} udp; proxy_pass lines; }} }}",
            echo.address
        ),
        &format!(
            "upstream php {{ server {}; keepalive 2; }} server {{ listen 127.0.0.1:{php}; location / {{ fastcgi_pass php;\n\
             fastcgi_keep_conn on; fastcgi_param REQUEST_URI $request_uri; }} }}",
            fastcgi.address
        ),
    );
    scene.instance.start();
    assert!(support::fetch(php, "/page").unwrap().starts_with("HTTP/1.1 200"));
    let connect = || Talk::connect(([127, 0, 0, 1], port).into());
    let mut session = connect();
    session.send("hello");
    session.expect("hello");

    let peers = scene.json(&["peers"]);
    let row =
        |group: &str| peers["peers"].as_array().unwrap().iter().find(|peer| peer["group"] == group).unwrap().clone();
    let (lines, app) = (row("stream:lines"), row("php"));
    assert_eq!((&lines["peer"], &lines["active"]), (&echo.address.to_string().into(), &1.into()), "{lines}");
    assert_eq!(
        (&app["peer"], &app["idle"], &app["attempts"]),
        (&fastcgi.address.to_string().into(), &1.into(), &1.into())
    );
    let tunnels = scene.json(&["tunnels"]);
    let row = &tunnels["rows"][0];
    assert_eq!((&row["state"], &row["upstream"]), (&"session".into(), &echo.address.to_string().into()), "{tunnels}");
    assert_eq!((&row["received_bytes"], &row["sent_bytes"]), (&5.into(), &5.into()));
    let status = scene.text(&["status"]);
    for part in
        [format!("127.0.0.1:{port} "), format!("127.0.0.1:{port} udp"), "stream:lines".to_owned(), "php".to_owned()]
    {
        assert!(status.contains(&part), "{part:?} is missing in {status}");
    }
    // Another session finds no peer while it is down; the one that is open stays.
    scene.text(&["peers", "down", "stream:lines", &echo.address.to_string()]);
    connect().end();
    session.send("again");
    session.expect("again");
    let number = row["connection"].to_string();
    scene.text(&["tunnels", "close", &number]);
    session.end();
}

#[test]
fn caches_are_listed_and_purged() {
    let mut scene = Scene::new("");
    let origin = scene.origins[0].address;
    let port = free_port();
    scene.configure(
        "",
        &format!(
            "proxy_cache_path cache levels=1:2 keys_zone=one:1m;\n\
             server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{origin};\n\
             proxy_cache one; proxy_cache_key $uri; proxy_cache_valid any 1h;\n\
             add_header X-Cache $upstream_cache_status always; }} }}"
        ),
    );
    scene.instance.start();
    let status = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        testkit::fetch(("127.0.0.1", port), request).unwrap().value("X-Cache").unwrap().to_owned()
    };
    for path in ["/img/a", "/img/b", "/c"] {
        assert_eq!(status(path), "MISS");
        until("it is stored", || status(path) == "HIT");
    }
    let zone = scene.json(&["cache"])["caches"][0].clone();
    assert_eq!((zone["zone"].as_str(), zone["keys"].as_u64()), (Some("one"), Some(3)));
    // A request before the file is whole is another miss.
    assert!(
        zone["misses"].as_u64() >= Some(3) && zone["hits"].as_u64() >= Some(3) && zone["bytes"].as_u64() > Some(0),
        "{zone}"
    );
    let keys = |answer: Value| {
        let rows = answer["rows"].as_array().unwrap().iter();
        let mut keys: Vec<_> = rows.map(|row| row["key"].as_str().unwrap().to_owned()).collect();
        keys.sort();
        (keys, answer["matching"].as_u64().unwrap())
    };
    assert_eq!(keys(scene.json(&["cache", "list", "one", "*"])).1, 3);
    assert_eq!(keys(scene.json(&["cache", "list", "one", "/img/a"])), (vec!["/img/a".to_owned()], 1));
    assert!(scene.text(&["cache", "list", "one", "/img/*", "--limit", "1"]).contains("1 of 2 shown"));
    assert_eq!(status("/img/a"), "HIT", "a list changes nothing");
    assert!(scene.text(&["cache", "purge", "one", "/img/*"]).contains("2 responses removed"));
    assert_eq!([status("/img/a"), status("/img/b"), status("/c")], ["MISS", "MISS", "HIT"]);
    assert_eq!(keys(scene.json(&["cache", "purge", "one", "/c"])), (vec!["/c".to_owned()], 1));
    assert_eq!(status("/c"), "MISS");
    assert_eq!(keys(scene.json(&["cache", "purge", "one", "/none"])).1, 0);
    assert!(scene.refused(&["cache", "purge", "two", "*"]).contains("no cache \"two\""));
    let log = scene.instance.text("logs/error.log");
    assert!(log.contains("ctl: cache purge one /img/*, asked by uid "), "{log}");
    assert!(!log.contains("ctl: cache list"), "{log}");
}

#[test]
fn dry_run_lists_the_changes_and_applies_none() {
    let mut scene = Scene::new("");
    scene.instance.start();
    let nothing = scene.text(&["reload", "--dry-run"]);
    assert!(nothing.starts_with("nothing would change\n"), "{nothing}");
    let tunnel = scene.tunnel();
    let port = free_port();
    let server = format!("upstream other {{ server 127.0.0.1:1; }}\nserver {{ listen 127.0.0.1:{port}; }}");
    scene.configure("", &server);
    let plan = scene.json(&["reload", "--dry-run"]);
    assert_eq!(plan["listeners"], Value::from(vec![format!("127.0.0.1:{port} opened")]));
    assert_eq!((&plan["groups"][0], &plan["drained_tunnels"]), (&"other added".into(), &0.into()));
    assert!(plan["files"][0].as_str().unwrap().ends_with("nginx.conf changed"));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "nothing is opened");
    assert_eq!(scene.json(&["status"])["serving"]["generation"], 1);
    // A worker process that must be replaced finishes its open requests.
    scene.configure("worker_processes 2;", &server);
    let plan = scene.json(&["reload", "--dry-run"]);
    assert_eq!((&plan["process"][0], &plan["drained_tunnels"]), (&"worker_processes changed".into(), &1.into()));
    assert!(scene.text(&["reload", "--dry-run"]).contains("with those of the 1 tunnels that are not under TLS"));
    // A refused configuration gives the reason.
    scene.configure("nonsense;", &server);
    let plan = scene.json(&["reload", "--dry-run"]);
    assert_eq!(plan["accepted"], false);
    assert!(plan["errors"][0].as_str().unwrap().contains("unknown directive \"nonsense\""), "{plan}");
    assert!(!scene.instance.text("logs/error.log").contains("nonsense"), "a plan is no event");
    drop(tunnel);
}

#[test]
fn a_reload_answers_with_its_outcome() {
    let mut scene = Scene::new("");
    scene.instance.start();
    let port = free_port();
    scene.configure("", &format!("server {{ listen 127.0.0.1:{port}; }}"));
    assert_eq!(scene.text(&["reload"]), "the new configuration holds\n");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    scene.configure("nonsense;", "");
    assert!(scene.refused(&["reload"]).contains("the configuration is refused, the old one stays"));
    // Another worker process replaces the first one, and answers from then on.
    let before = scene.json(&["status"])["master"]["worker_pid"].clone();
    scene.configure("worker_processes 2;", "");
    scene.text(&["reload"]);
    assert_ne!(scene.json(&["status"])["master"]["worker_pid"], before);
    scene.instance.wait_for_line("ctl: reload, asked by uid ");
}

#[test]
fn the_log_level_changes_at_run_time() {
    let mut scene = Scene::new("");
    scene.instance.start();
    let refused = || {
        // A malformed request is logged at `info`.
        let mut client = scene.instance.client();
        client.send("NONSENSE\r\n\r\n");
        client.rest();
    };
    let lines = || scene.instance.text("logs/error.log").matches("[info]").count();
    refused();
    assert_eq!(scene.text(&["log-level"]), "error logs have the levels of the configuration\n");
    assert_eq!(scene.text(&["log-level", "info"]), "all error logs: info\n");
    refused();
    until("the line is written", || lines() > 0);
    scene.text(&["log-level", "default"]);
    let before = lines();
    refused();
    // Another entry after it in the same log.
    scene.text(&["reload"]);
    scene.instance.wait_for_line("the new configuration holds");
    assert_eq!(lines(), before);
    assert!(scene.refused(&["log-level", "loud"]).contains("`loud` is not a level"));
}

#[test]
fn only_the_owner_and_the_group_may_ask() {
    if !is_root() {
        return testkit::skip("it takes root to be another user");
    }
    let mut scene = Scene::new("");
    // Other users may reach the socket's folder.
    for folder in [scene.instance.path(""), scene.instance.path("logs")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    scene.instance.start();
    let workers = User::from_name(WORKERS).unwrap().unwrap();
    let mode = |scene: &Scene| fs::metadata(scene.socket()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&scene), 0o600);
    // The program is in a folder that only root may read, so the test connects to the socket directly.
    let ask = |scene: &Scene| {
        let script = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); \
                      s.sendall(b'\"status\"\\n'); print(s.makefile().read())";
        let mut command = Command::new("python3");
        command.args(["-c", script]).arg(scene.socket()).uid(workers.uid.as_raw()).gid(workers.gid.as_raw());
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let (allowed, said) = ask(&scene);
    assert!(!allowed && said.contains("Permission denied"), "{said}");
    scene.configure("ctl_socket logs/holdfast.ctl group=www-data;", "");
    scene.text(&["reload"]);
    until("the socket has its group", || mode(&scene) == 0o660);
    let group = Group::from_name(WORKERS).unwrap().unwrap();
    assert_eq!(fs::metadata(scene.socket()).unwrap().gid(), group.gid.as_raw());
    let (allowed, said) = ask(&scene);
    assert!(allowed && said.contains("\"worker_pid\""), "{said}");
}

#[test]
fn off_removes_the_socket_and_an_end_does_so_too() {
    let mut scene = Scene::new("");
    scene.instance.start();
    assert!(scene.socket().exists());
    scene.configure("ctl_socket off;", "");
    scene.text(&["reload"]);
    until("it is gone", || !scene.socket().exists());
    assert!(scene.refused(&["status"]).contains("no instance listens there"));
    scene.configure("", "");
    scene.instance.signal("reload");
    until("it is back", || scene.socket().exists());
    scene.instance.signal("quit");
    scene.instance.wait();
    assert!(!scene.socket().exists());
}

#[test]
fn stalled_clients_do_not_block_other_clients() {
    let mut scene = Scene::new("");
    scene.instance.start();
    let say = |said: &[u8]| {
        let mut stream = UnixStream::connect(scene.socket()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        // If other clients wait, this one may have been dropped already.
        let _ = stream.write_all(said);
        stream
    };
    let mut answer = String::new();
    say(b"\x00\xff\x16\x03\x01\n").read_to_string(&mut answer).unwrap();
    assert!(answer.contains("the request is not understood"), "{answer}");
    // Some clients send nothing, some half a request.
    let stalled: Vec<UnixStream> = (0..20).map(|at| say(if at % 2 == 0 { b"" } else { b"\"stat" })).collect();
    assert_eq!(scene.json(&["status"])["master"]["pid"], scene.instance.pid());
    assert!(scene.fetch("/").starts_with("HTTP/1.1 200"));
    drop(stalled);
}

#[test]
fn a_new_child_answers_where_the_old_one_has_died() {
    let mut scene = Scene::new("");
    scene.instance.start();
    let child = children(scene.instance.pid())[0];
    nix::sys::signal::kill(support::pid(child), nix::sys::signal::Signal::SIGKILL).unwrap();
    let answered = || {
        let output = scene.command(&["status", "--json"]).output().unwrap();
        let answer: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        answer.is_some_and(|status| status["master"]["worker_pid"] != child)
    };
    until("the next child answers", answered);
}

#[test]
fn request_to_a_dying_child_is_answered_at_once() {
    let mut scene = Scene::new("");
    scene.instance.start();
    let child = support::pid(children(scene.instance.pid())[0]);
    nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let mut stream = UnixStream::connect(scene.socket()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(b"\"status\"\n").unwrap();
    // The master answers this request itself, after it has passed on the other.
    scene.text(&["reload", "--dry-run"]);
    nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("replaced before it answered"), "{answer}");
}
