//! `holdfast load ws://…` as a process: against the origin, through our gateway, and through nginx. Tests its output,
//! its files, its exit code, and the memory of a connection. No test here asserts a speed.

use crate::support;
use crate::support::load::{Origin, start, text};
use crate::support::{Instance, holdfast, until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use testkit::{Refusing, Running, free_port};

pub(crate) fn load(words: &[&str]) -> Output {
    holdfast().arg("load").args(words).args(["-q", "--allow-lag"]).stdin(Stdio::null()).output().expect("it starts")
}

/// The results of a successful run.
pub(crate) fn figures(words: &[&str]) -> Value {
    let output = load(&[words, &["--json", "-"]].concat());
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// Rooms with heartbeats, with intervals long enough that a busy machine does not look like a dead target. Every
/// message arrives.
fn converse(address: &str) {
    let url = format!("ws://{address}/websocket/room/{{{{room}}}}");
    let words = ["-c", "40", "--rooms", "4", "-R", "100", "--hold", "1s", "--heartbeat", "2s", "--drain", "20s", &url];
    let figures = figures(&words);
    assert_eq!((&figures["established"], &figures["lost"], &figures["losses"]), (&40.into(), &0.into(), &0.into()));
    assert_eq!(figures["endings"]["done"], 40, "{figures}");
    // Messages that were due before any connection was open are counted separately.
    assert_eq!(figures["sent"].as_u64().zip(figures["unsent"].as_u64()).map(|(sent, unsent)| sent + unsent), Some(100));
    assert!(figures["delivered"].as_u64() > Some(0) && figures["pongs"].as_u64() > Some(0), "{figures}");
}

const PROXY: &str =
    "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";

/// A server block of our gateway in front of an origin.
fn server_of(address: &str) -> String {
    format!("server {{ listen 127.0.0.1:PORT; location / {{ {PROXY} proxy_pass http://{address}; }} }}")
}

#[test]
fn it_speaks_through_a_gateway_of_ours() {
    let Origin { address, running: _running } = Origin::start(&[]);
    let mut gateway = Instance::new("", &server_of(&address));
    gateway.start();
    converse(&format!("127.0.0.1:{}", gateway.port));
}

#[test]
fn w8_tunnels_survive_a_reload_of_the_gateway() {
    let Origin { address, running: _running } = Origin::start(&[]);
    let mut gateway = Instance::new("", &server_of(&address));
    gateway.start();
    let url = format!("ws://127.0.0.1:{}/websocket/echo", gateway.port);
    let words = ["-q", "--allow-lag", "-c", "10", "--hold", "3s", "-R", "20", "--drain", "20s", "--json", "-", &url];
    let running = start(&words);
    until("tunnels are open", || {
        let counters = support::fetch(gateway.port, "/counters").unwrap_or_default();
        let messages = counters.split_once("\"websocket_messages\":").map(|(_, count)| count.to_owned());
        messages.is_some_and(|count| count.starts_with(|first: char| ('1'..='9').contains(&first)))
    });
    gateway.signal("reload");
    let figures: Value = serde_json::from_str(&running.end().stdout).expect("it is JSON");
    assert_eq!((&figures["losses"], &figures["lost"], &figures["endings"]["done"]), (&0.into(), &0.into(), &10.into()));
}

/// nginx with one location, and its port.
pub(crate) fn nginx(folder: &Path, location: &str) -> (Running, u16) {
    let port = free_port();
    let file = folder.join("nginx.conf");
    let at = folder.display();
    let configuration = format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;\nevents {{ worker_connections 512; }}\n\
         http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f;\n\
         uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
         server {{ listen 127.0.0.1:{port}; location / {{ {location} }} }} }}\n"
    );
    fs::write(&file, configuration).expect("written");
    let mut command = Command::new(testkit::peer_program("nginx"));
    command.arg("-p").arg(folder).arg("-c").arg(&file);
    (Running::listening(&mut command, ([127, 0, 0, 1], port)), port)
}

#[test]
fn it_speaks_through_nginx() {
    let Origin { address, running: _running } = Origin::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (_nginx, port) = nginx(folder.path(), &format!("{PROXY} proxy_pass http://{address};"));
    converse(&format!("127.0.0.1:{port}"));
}

/// The project's limit. The structs of a debug build have the same size as those of a release.
const CONNECTION_BYTES_MAX: f64 = 1024.0;

#[test]
fn an_idle_connection_costs_less_than_a_kilobyte() {
    let Origin { address, running: _running } = Origin::start(&[]);
    let url = format!("ws://{address}/websocket/echo");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let json = folder.path().join("a.json");
    // Few enough for any limit of descriptors, many enough that histograms and code do not dominate. The buffer for the
    // kernel's answers about sockets does not grow with their number. Each interval has a row with histograms, so a slow
    // machine, which needs more time, must not have many.
    let words = ["-c", "8000", "-t", "1", "--ramp", "4000", "--hold", "1h", "--interval", "1s", "--no-sockets"];
    let files = ["--allow-lag", "--plain", "--json", &json.to_string_lossy(), &url];
    let load = start(&[words.as_slice(), &files].concat());
    // A busy machine may need fifteen seconds for that.
    load.wait_for_error(" 8,000 open");
    load.signal(Signal::SIGINT);
    load.end().assert_code(0);
    let figures: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("it is JSON");
    assert_eq!((&figures["memory"]["connections"], &figures["losses"]), (&8000.into(), &0.into()), "{figures}");
    let each = figures["memory"]["bytes_per_connection"].as_f64().expect("there are enough to divide");
    assert!(each > 200.0, "{each} bytes are less than the struct: that measured nothing");
    assert!(each < CONNECTION_BYTES_MAX, "{each} bytes");
}

#[test]
fn the_report_and_the_exit_code_say_what_happened() {
    let Origin { address, running: _running } = Origin::start(&[]);
    let url = format!("ws://{address}/websocket/echo");
    let output = load(&["-c", "5", "--hold", "300ms", "--heartbeat", "50ms", "--expect", "established=5", &url]);
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{report}{}", text(&output.stderr));
    for part in [
        "target      ws://",
        "at most 5 open",
        "heartbeats",
        "handshake",
        "pong",
        "tcp         at most ",
        "met     established=5",
    ] {
        assert!(report.contains(part), "{part:?} is missing in {report}");
    }
    let closing = load(&["-c", "3", "--hold", "200ms", "--expect", "losses=0", &format!("{url}?close=4000")]);
    assert_eq!(closing.status.code(), Some(3));
    assert!(
        text(&closing.stdout).contains("close codes 4000 (private to the application): 3"),
        "{}",
        text(&closing.stdout)
    );
    let refusing = Refusing::new();
    let none = load(&["-c", "1", "--hold", "50ms", &format!("ws://{}/", refusing.address())]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stdout).contains("connection refused"), "{}", text(&none.stdout));
    for (words, why) in [
        (&["ws://127.0.0.1/", "-n", "5"][..], "-n is not for ws:// URLs"),
        (&["ws://127.0.0.1/", "--no-templates"], "--no-templates is not for ws:// URLs"),
        (&["ws://127.0.0.1/", "--style", "wrk"], "--style is not for ws:// URLs"),
        (&["http://127.0.0.1/", "--ramp", "5"], "--ramp is for ws:// URLs"),
        (&["ws://127.0.0.1/", "--expect", "speed>9"], "`speed` is no figure"),
        (&["ws://127.0.0.1/", "--stall", "200%"], "a share from 0% to 100%"),
    ] {
        let refused = load(words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(text(&refused.stderr).contains(why), "{why:?} is missing in {}", text(&refused.stderr));
    }
}
