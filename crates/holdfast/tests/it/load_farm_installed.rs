//! The load farm as its packages start it: the Indexed Job for Kubernetes, and the template for systemd.

use crate::support::load::text;
use crate::support::nats_accounts::Accounts;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use testkit::kubernetes::{ControlPlane, FakeNode, Image, Network};
use testkit::{Authority, Nats};

const JOB: &str = include_str!("../../../../packaging/kubernetes/load-agents.yaml");
const UNIT: &str = include_str!("../../../../packaging/systemd/holdfast-load-agent@.service");

/// A part of the text that must be there is replaced.
fn replaced(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "no `{from}` in {text}");
        text.replace(from, to)
    })
}

#[test]
fn an_indexed_job_of_agents_serves_one_run_and_completes() {
    let Some(network) = Network::new_or_skip() else { return };
    let (plane, network) = (ControlPlane::shared(), Arc::new(network));
    let namespace = plane.create_namespace("farm");
    let (authority, accounts) = (Authority::new("farm"), Accounts::new());
    let folder = tempfile::tempdir().expect("a temporary directory");
    let node = network.address();
    let (certificate, key) = authority.issue(&[&node.to_string()]).write(folder.path(), "server");
    let tls = format!("tls {{ cert_file: {certificate:?}, key_file: {key:?} }}");
    let nats = network.run(|| Nats::start(&format!("{}{tls}", accounts.configuration())));
    let listen = vec![reactor::PeerAddress::Ip((node, 0).into())];
    let origin = network.run(|| {
        let options = origin::Options { listen, ..origin::Options::default() };
        origin::Origin::bind(options).and_then(origin::Origin::start).expect("it starts")
    });
    let url = format!("tls://{node}:{}", nats.port());

    let secret = json!({"nats.creds": accounts.credentials(), "ca.pem": authority.pem()});
    plane.create("v1/secrets", &namespace, &json!({"metadata": {"name": "holdfast-farm"}, "stringData": secret}));
    let job = replaced(
        JOB,
        &[
            ("  name: holdfast-load-agents\n", &format!("  name: holdfast-load-agents\n  namespace: {namespace}\n")),
            ("completions: 20", "completions: 2"),
            ("parallelism: 20", "parallelism: 2"),
            (
                "tls://nats.example:4222\n            -",
                &format!("{url}\n            - --ca=/etc/farm/ca.pem\n            -"),
            ),
            ("--allow=10.20.0.0/16,shop.example:443", &format!("--allow={node}")),
        ],
    );
    plane.apply(&job);
    let program = Path::new(env!("CARGO_BIN_EXE_holdfast"));
    let _node = FakeNode::start(plane, &network, &[&namespace], &[Image::new("holdfast", program, &[])]);
    plane.wait_for("batch/v1/jobs", &namespace, "holdfast-load-agents", "both agents run", |job| {
        job["status"]["active"] == 2 && job["status"]["ready"] != Value::Null
    });

    let (creds, ca) = (folder.path().join("nats.creds"), folder.path().join("ca.pem"));
    fs::write(&creds, accounts.credentials()).expect("written");
    fs::write(&ca, authority.pem()).expect("written");
    let target = format!("http://{}/?id={{{{counter}}}}", origin.address());
    let mut load = network.command(program);
    load.args(["load", "--farm", &url, "--farm-name", "lab", "--agents", "2", "--farm-creds"]).arg(&creds);
    load.arg("--farm-ca").arg(&ca).args(["-q", "-n", "100", "-c", "4", "--allow-lag", &target]);
    let output = load.output().expect("it starts");
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{complained}");
    assert!(complained.contains("2 agents of farm `lab`: agent-0, agent-1"), "{complained}");
    assert_eq!((origin.executed("0"), origin.executed("99")), (1, 1), "{said}");
    plane.wait_for("batch/v1/jobs", &namespace, "holdfast-load-agents", "both agents have ended well", |job| {
        job["status"]["succeeded"] == 2 && job["status"]["completedIndexes"] == "0,1"
    });
}

/// The words of `ExecStart` as systemd makes them: `${NAME}` is one word, `$NAME` as many as it has.
fn exec_start(values: &BTreeMap<&str, String>) -> Vec<String> {
    let line = UNIT.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("the unit starts a program");
    let mut words = Vec::new();
    for word in line.split(' ') {
        let braced = values
            .iter()
            .fold(word.replace("%i", "lab"), |word, (name, value)| word.replace(&format!("${{{name}}}"), value));
        match braced.strip_prefix('$').map(|name| values.get(name).expect("the environment has it")) {
            Some(value) => words.extend(value.split_whitespace().map(str::to_owned)),
            None => words.push(braced),
        }
    }
    words
}

#[test]
fn service_of_an_agent_starts_with_the_files_it_names() {
    let (authority, accounts) = (Authority::new("farm"), Accounts::new());
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (certificate, key) = authority.issue(&["127.0.0.1"]).write(folder.path(), "server");
    let tls = format!("tls {{ cert_file: {certificate:?}, key_file: {key:?} }}");
    let nats = Nats::start(&format!("{}{tls}", accounts.configuration()));
    let ca = folder.path().join("ca.pem");
    fs::write(&ca, authority.pem()).expect("written");
    fs::write(folder.path().join("nats.creds"), accounts.credentials()).expect("written");
    // The settings that the unit's head shows.
    for setting in ["NATS=tls://", "ALLOW=", "OPTIONS=--ca "] {
        assert!(UNIT.lines().any(|line| line.trim_start_matches('#').trim().starts_with(setting)), "{setting}");
    }
    assert!(UNIT.contains("\nLoadCredential=nats.creds:"), "{UNIT}");
    let words = exec_start(&BTreeMap::from([
        ("NATS", format!("tls://127.0.0.1:{}", nats.port())),
        ("ALLOW", "10.20.0.0/16,shop.example:443".to_owned()),
        ("OPTIONS", format!("--ca {} --once", ca.display())),
        ("CREDENTIALS_DIRECTORY", folder.path().display().to_string()),
    ]));
    assert_eq!(words[0], "/usr/bin/holdfast");
    let mut agent = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    agent.args(&words[1..]);
    let _agent = crate::support::farm::FarmAgent::spawned(agent, "lab");
    let mut status = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    status.args(["load", "farm-status", &format!("tls://127.0.0.1:{}", nats.port()), "--farm-name", "lab", "--ca"]);
    status.arg(&ca).arg("--creds").arg(folder.path().join("nats.creds"));
    let listed = text(&status.output().expect("it starts").stdout);
    assert!(listed.contains("1 agents") && listed.contains("10.20.0.0/16"), "{listed}");
}
