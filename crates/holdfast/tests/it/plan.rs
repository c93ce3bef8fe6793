//! `holdfast plan` from the command line: its output and exit codes.

use std::path::Path;
use std::process::{Command, Output};

fn plan(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.current_dir(root).arg("plan").args(arguments).output().expect("it starts")
}

#[test]
fn plan_reproduces_the_million_tunnel_report() {
    let narrow = plan(&["examples/plan/million-tunnels.toml"]);
    let text = String::from_utf8_lossy(&narrow.stdout);
    assert!(text.contains("800,020 tuples") && text.contains("Cheapest lever"), "{text}");
    assert_eq!(narrow.status.code(), Some(3));
    let wide = plan(&["examples/plan/million-tunnels-wide.toml", "--json"]);
    let text = String::from_utf8_lossy(&wide.stdout);
    assert!(text.contains("1,290,140 tuples"), "{text}");
    assert!(text.contains("nginx -> ingress: beyond 645,070 connections half of the ports are used up"), "{text}");
    assert_eq!(wide.status.code(), Some(0));
}

#[test]
fn one_hop_needs_no_file_and_a_page_is_written_beside_the_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("plan.html");
    let arguments = ["--connections", "28232", "--html", page.to_str().expect("plain path")];
    assert_eq!(plan(&arguments).status.code(), Some(0));
    assert!(std::fs::read_to_string(page).expect("written").starts_with("<!doctype html>"));
    assert_eq!(plan(&["--connections", "28233"]).status.code(), Some(3));
}

#[test]
fn refuses_what_cannot_be_planned() {
    let missing = plan(&["no-such-file.toml"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("holdfast plan: no-such-file.toml: No such file"));
    assert_eq!(plan(&[]).status.code(), Some(2), "neither a file nor a number");
    assert_eq!(plan(&["--connections", "1", "--ports", "9-1"]).status.code(), Some(2));
}

#[test]
fn built_chain_uses_the_planned_resources() {
    let verified = plan(&["examples/plan/million-tunnels-wide.toml", "--verify=400"]);
    let text = String::from_utf8_lossy(&verified.stdout);
    let errors = String::from_utf8_lossy(&verified.stderr);
    assert!(text.contains("[holds] descriptors and ports are as computed"), "{text}{errors}");
    for line in ["nginx -> ingress", "ingress -> message service", "kernel memory of sockets"] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(verified.status.code(), Some(0), "nothing contradicts: {text}");
    // Only root can read the sizes of kernel objects. With other work on the machine, the comparison of memory may be
    // undecided.
    let is_exact = std::fs::read("/proc/slabinfo").is_ok();
    assert!(text.contains("[holds] memory is within 10 %") || !is_exact, "{text}");
}
