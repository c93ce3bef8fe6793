//! Published incidents as fixtures (`incidents.toml` beside this file), and the share that the doctor finds. An
//! incident that is not found stays in the corpus, so that the share is honest.

use crate::disk;
use doctor::live::Listener;
use doctor::log::Log;
use doctor::{Dialect, Expected, Facts, Live, System, facts, rules};
use serde::Deserialize;
use sockdiag::State;
use std::collections::BTreeSet;

/// Least share of found incidents, in percent.
const FOUND_PERCENT_MIN: usize = 95;
const INCIDENTS_MIN: usize = 55;

#[derive(Deserialize)]
struct Corpus {
    incident: Vec<Incident>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Incident {
    what: String,
    link: String,
    rule: String,
    #[serde(default)]
    target: String,
    /// Top level, with `events`.
    #[serde(default)]
    main: String,
    /// Inside `http`.
    #[serde(default)]
    conf: String,
    #[serde(default)]
    sysctl: String,
    #[serde(default)]
    log: String,
    peer_idle: Option<u64>,
    connections: Option<u64>,
    concurrency: Option<u64>,
    rate: Option<f64>,
    go_transport: Option<String>,
    /// The limit of the server's process, if it differs from a shell's.
    descriptors: Option<u64>,
    /// The server's listener in `ss`: queue, granted backlog and drops.
    listener: Option<(u64, u64, u64)>,
    /// The server's connections that the peers had closed.
    close_wait: Option<u64>,
}

impl Incident {
    fn live(&self) -> Option<Live> {
        let listener = self.listener.map(|(queue, granted, drops)| Listener {
            address: ([0, 0, 0, 0], 80).into(),
            queue,
            granted: Some(granted),
            drops,
        });
        let states = self.close_wait.map(|count| (State::CloseWait, count));
        let seen = listener.is_some() || states.is_some();
        seen.then(|| Live {
            listeners: listener.into_iter().collect(),
            states: states.into_iter().collect(),
            ..Live::default()
        })
    }
}

/// A host with default settings: four processors, 8 GB.
fn host() -> System {
    let sysctls = [
        ("net.core.somaxconn", "4096"),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
        ("net.ipv4.ip_local_port_range", "32768 60999"),
        ("net.ipv4.tcp_tw_reuse", "2"),
        ("fs.nr_open", "1048576"),
    ];
    let sysctls = sysctls.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    System { sysctls, memory_bytes: Some(8 << 30), cpus: Some(4), descriptors: Some(1024), ..System::default() }
}

fn found(incident: &Incident) -> Vec<String> {
    let main = if incident.main.is_empty() { "events {}" } else { &incident.main };
    let configuration = disk::parsed(&format!("{main}\nhttp {{\n{}\n}}\n", incident.conf));
    let facts = Facts {
        dialect: if incident.target == "nginx-1.22" { Dialect::NGINX_1_22 } else { Dialect::NGINX_1_30 },
        configuration: Some(configuration),
        system: System { descriptors: incident.descriptors.or(Some(1024)), ..host() },
        settings: facts::parse_settings("/etc/sysctl.conf", &incident.sysctl),
        expected: Expected {
            requests_per_second: incident.rate,
            concurrency: incident.concurrency,
            connections: incident.connections,
            peer_idle_seconds: incident.peer_idle,
            go_transport: incident.go_transport.as_ref().map(|text| text.parse().expect("understood")),
            ..Expected::default()
        },
        live: incident.live(),
        ..Facts::default()
    };
    let mut log = Log::default();
    for line in incident.log.lines() {
        log.read_line(line.as_bytes());
    }
    let findings = rules::examine(&facts).into_iter().chain(log.findings("error.log", &facts));
    findings.map(|finding| finding.rule).collect()
}

#[allow(clippy::print_stdout)] // the share is what this test is for
#[test]
fn nearly_all_published_incidents_are_found() {
    let corpus: Corpus = toml::from_str(include_str!("incidents.toml")).expect("the corpus is TOML");
    let incidents = corpus.incident;
    let links: BTreeSet<&str> =
        incidents.iter().map(|incident| incident.link.split('#').next().unwrap_or_default()).collect();
    assert!(links.len() >= INCIDENTS_MIN && links.iter().all(|link| link.starts_with("http")), "{} links", links.len());
    let missed: Vec<&Incident> =
        incidents.iter().filter(|incident| !found(incident).contains(&incident.rule)).collect();
    let right = incidents.len() - missed.len();
    println!(
        "{right} of {} published incidents are found: {:.1} %",
        incidents.len(),
        right as f64 * 100.0 / incidents.len() as f64
    );
    for incident in &missed {
        println!(
            "not found: {} ({}): {} instead of {}",
            incident.what,
            incident.link,
            found(incident).join(", "),
            incident.rule
        );
    }
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/doctor.md");
    let guide = std::fs::read_to_string(guide).expect("the guide is there");
    let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = [format!("Of {} published incidents", incidents.len()), format!("the rules find {right}.")];
    assert!(said.iter().all(|said| guide.contains(said)), "the guide says: {said:?}");
    assert!(right * 100 >= incidents.len() * FOUND_PERCENT_MIN, "{} of {} are missed", missed.len(), incidents.len());
}
