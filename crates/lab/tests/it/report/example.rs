//! A record as a run of report 0 would write it: four arms, one of them absent, a void sample, and a plateau at the number of
//! ports. It is computed from the round and the arm, so it is the same in each test.

use lab::{Experiment, Record, Sample};
use std::collections::BTreeMap;

/// The experiment file.
const EXPERIMENT: &str = r#"
name = "states"
title = "Keepalive off and on, counted in TCP states"
about = """
The first paragraph, of which a report keeps every word.

The second one."""

[method]
rounds = 7
idle = 2.0

[files."nginx.conf"]
text = "events {} http { upstream u { server 127.0.0.1:10000; {{pool}} } }"

[hosts.client]
[hosts.server]
sysctls = { "net.ipv4.ip_local_port_range" = "49152 65535" }

[[process]]
name = "origin"
host = "server"
program = "holdfast"
arguments = ["origin", "--listen", "127.0.0.1:10000"]

[[process]]
name = "proxy"
host = "server"
program = "nginx"
conf = "nginx.conf"

[[load]]
name = "client"
host = "client"
url = "http://{{server}}/"
arguments = ["-R", "{{rate}}"]
seconds = 120.0

[[probe]]
kind = "port"
name = "upstream"
host = "server"
port = 10000

[[arm]]
name = "off 1200"
values = { rate = "1200", pool = "" }
[[arm]]
name = "off 2400"
values = { rate = "2400", pool = "" }
[[arm]]
name = "on 2400"
values = { rate = "2400", pool = "keepalive 16;" }
[[arm]]
name = "haproxy"
values = { rate = "2400", pool = "" }
programs = { proxy = "haproxy" }

[[claim]]
says = "off has more than 100 times as many sockets"
figure = "sockets.upstream.net"
of = "off 2400"
against = "on 2400"
times_at_least = 100.0
"#;

/// The record; `samples_max` truncates it as an interruption would.
pub(crate) fn record(samples_max: usize) -> Record {
    let read = Experiment::parse(EXPERIMENT, "states.toml", &mut |_| Err("is not there".to_owned()));
    let experiment = read.unwrap_or_else(|refused| panic!("{refused}")).experiment;
    let arms = ["off 1200", "off 2400", "on 2400"];
    let mut samples: Vec<Sample> = Vec::new();
    for round in 0..7 {
        let order: Vec<&str> = if round % 2 == 0 { arms.to_vec() } else { arms.into_iter().rev().collect() };
        samples.extend(order.into_iter().map(|arm| sample(arm, round)));
    }
    let partial = (samples.len() > samples_max).then(|| "Ctrl-C after some samples".to_owned());
    samples.truncate(samples_max);
    Record {
        version: 1,
        experiment,
        command: "holdfast lab run states --seed 7".to_owned(),
        quick: false,
        control: false,
        seed: 7,
        began: "2026-11-22T07:00:00Z".to_owned(),
        fingerprint: vec![
            ("machine".to_owned(), "2 cores".to_owned()),
            ("nginx".to_owned(), "nginx version: nginx/1.22.1".to_owned()),
        ],
        absent: vec![("haproxy".to_owned(), "haproxy is not there".to_owned())],
        partial,
        samples,
    }
}

/// Without keepalive the sockets reach the 16,384 ports of the range within seconds and stay there; with keepalive there
/// are 34.
fn sample(arm: &str, round: u32) -> Sample {
    let (rate, off) = if arm == "off 1200" { (1200.0, true) } else { (2400.0, arm == "off 2400") };
    let noise = f64::from(round % 3);
    let looks = (-4..240).map(|look| f64::from(look) * 0.5);
    let time_wait = |at: f64| if off { (at.max(0.0) * rate).min(16_384.0) } else { 2.0 + noise };
    let series = BTreeMap::from([
        ("sockets.upstream.TIME_WAIT".to_owned(), looks.clone().map(|at| (at, time_wait(at))).collect()),
        (
            "sockets.upstream.ESTABLISHED".to_owned(),
            looks.clone().map(|at| (at, if off { 0.0 } else { 32.0 })).collect(),
        ),
        ("rss_mb.proxy".to_owned(), looks.clone().map(|at| (at, 6.0 + noise)).collect()),
        ("cores.proxy".to_owned(), looks.map(|at| (at, 0.2)).collect()),
    ]);
    let mean = if off { 16_000.0 } else { 34.0 } + noise;
    let figures = [
        ("requests", rate * 120.0),
        ("requests_per_second", rate - noise),
        ("failed", 0.0),
        ("latency_ms.p50", 0.4 + noise / 10.0),
        ("latency_ms.p99", 2.5 + noise),
        ("latency_ms.max", 12.0),
        ("cpu_us_per_request.proxy", if off { 126.0 } else { 72.0 } + noise),
        ("cpu_us_per_request.origin", 20.0),
        ("cpu_us_per_request.client", 15.0),
        ("busiest.proxy", if off { 0.91 } else { 0.3 }),
        ("rss_mb_max.proxy", 7.0 + noise),
        ("descriptors.proxy", 40.0),
        ("died.proxy", 0.0),
        ("sockets.upstream", mean),
        ("sockets.upstream.net", mean - 1.0),
        ("sockets.upstream.idle", 1.0),
        ("sockets.server.TIME_WAIT", mean),
        ("sockets.server.TIME_WAIT.idle", 1.0),
        ("sockets.server.TIME_WAIT.net", mean - 1.0),
        ("tcp.server.Tcp.ActiveOpens", if off { rate * 120.0 } else { 16.0 }),
        ("tcp.server.TcpExt.TCPAutoCorking", 99.0),
        ("told.origin.requests", rate * 120.0),
    ];
    Sample {
        arm: arm.to_owned(),
        round,
        void: (arm == "on 2400" && round == 3).then(|| "the load was late by 12 ms at p99".to_owned()),
        late: None,
        figures: figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        series,
        remarks: if off { vec!["the ports of host server are used up".to_owned()] } else { Vec::new() },
    }
}
