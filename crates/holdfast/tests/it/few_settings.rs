//! doctor, watch and plan on kernels that show few settings: in a network namespace, which lacks the machine-wide ones,
//! and with an empty /proc/sys, as in some sandboxes. They report nothing that depends on an unknown setting.
//! Namespaces need root; without it these tests are reported as skipped, and under CI they fail.

use crate::support;
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use testkit::with_own_network;

/// All settings that the doctor reads.
const SETTINGS: [&str; 16] = [
    "fs.file-max",
    "fs.nr_open",
    "net.core.netdev_max_backlog",
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_count",
    "net.netfilter.nf_conntrack_max",
];

/// A configuration that opens a connection per request, with an expected load that exceeds any port range.
const DOCTOR: [&str; 8] =
    ["doctor", "--json", "-c", "examples/keepalive-states-off.conf", "--target", "nginx-1.22", "--rate", "100000"];

fn run(mut command: Command) -> Output {
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).output().expect("it starts")
}

fn holdfast(arguments: &[&str]) -> Output {
    let mut command = support::holdfast();
    command.args(arguments);
    run(command)
}

/// Runs it with an empty /proc/sys.
fn without_settings(arguments: &[&str]) -> Output {
    let hidden = "mount -t tmpfs none /proc/sys && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", hidden, env!("CARGO_BIN_EXE_holdfast")]).args(arguments);
    run(command)
}

fn text(output: &Output) -> String {
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The report's text about the fact, and the rules with findings, each with its arithmetic.
fn said(output: &Output) -> (String, Vec<(String, String)>) {
    let report: Value = serde_json::from_str(&text(output)).expect("JSON");
    let facts = report["facts"].as_array().expect("facts");
    let unknown = facts.iter().map(Value::to_string).find(|fact| fact.contains("not known here")).unwrap_or_default();
    let mut found = Vec::new();
    let mut look_into = vec![&report["sections"]];
    while let Some(value) = look_into.pop() {
        if let Some(rule) = value.get("rule").and_then(Value::as_str) {
            let arithmetic = value.get("arithmetic").and_then(Value::as_str).unwrap_or_default();
            found.push((rule.to_owned(), arithmetic.to_owned()));
        }
        look_into.extend(value.as_array().into_iter().flatten());
        look_into.extend(value.as_object().into_iter().flat_map(serde_json::Map::values));
    }
    (unknown, found)
}

#[test]
fn doctor_in_a_namespace_names_missing_privileges() {
    with_own_network(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "50000 50999").expect("it is this namespace's own");
        let (unknown, found) = said(&holdfast(&DOCTOR));
        for name in SETTINGS {
            let is_there = Path::new("/proc/sys").join(name.replace('.', "/")).exists();
            assert_eq!(unknown.contains(name), !is_there, "{name}: {unknown}");
        }
        // TCP memory is machine-wide, in every namespace.
        assert!(unknown.contains("net.ipv4.tcp_mem"), "{unknown}");
        let arithmetic = |rule: &str| found.iter().find(|(found, _)| found == rule).map(|(_, sum)| sum.as_str());
        assert!(arithmetic("tuples-too-few").is_some_and(|sum| sum.contains("> 1000 ports x")), "{found:?}");
        assert!(
            arithmetic("upstream-without-keepalive").is_some_and(|sum| sum.starts_with("1000 ports / 60 s")),
            "{found:?}"
        );
    });
}

#[test]
fn without_any_setting_nothing_is_made_up() {
    with_own_network(|| {
        let output = without_settings(&DOCTOR);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let (unknown, found) = said(&output);
        assert!(SETTINGS.iter().all(|name| unknown.contains(name)), "{unknown}");
        // The fault is reported; without the port range the doctor does not compute whether the ports suffice.
        assert_eq!(found, [("upstream-without-keepalive".to_owned(), String::new())]);

        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let kept: Vec<_> = (0..3).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        let shown = text(&without_settings(&["watch", "--plain", "--count", "1"]));
        let squeezed: Vec<String> =
            shown.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for expected in [
            "ESTABLISHED 6".to_owned(),
            // Three ports are used; the number of free ports is unknown.
            format!("{address} 127.0.0.1 3 0 - 0 -"),
            "note: unknown on this system, with all values computed from them: net.core.somaxconn, net.ipv4.ip_local_port_range, \
             net.ipv4.tcp_tw_reuse, net.ipv4.tcp_max_tw_buckets, net.ipv4.tcp_fin_timeout"
                .to_owned(),
        ] {
            assert!(squeezed.contains(&expected), "{expected:?} is not in\n{shown}");
        }
        let log = text(&without_settings(&["watch", "--count", "1", "--log", "-", "state established"]));
        assert!(log.contains("\"ports_usable\":null") && log.lines().any(|line| line == "ESTABLISHED 6"), "{log}");
        drop(kept);

        // The planner computes the described chain on any machine, and lists its assumptions.
        let plan = without_settings(&["plan", "--connections", "30000"]);
        let plan = String::from_utf8_lossy(&plan.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(plan.contains("28,232") && plan.contains("the default range of the kernel"), "{plan}");
    });
}
