//! Small experiments with real processes: nginx as the origin, wrk and ab as clients, in network namespaces and on
//! loopback; and everything that can fail. Each row has a change of the experiment and the expected error.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use lab::experiment::Experiment;
use lab::record::{Record, VERSION};
use lab::stage::{Event, Programs, Request, StageError, Stop, run};
use lab::{Loaded, schedule};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A client and an origin, each on its own host; `{extra}` and `{origin}` vary.
const SMALL: &str = r#"
name = "small"
title = "small"
about = "small"

[method]
rounds = 1
warm_up = 0.0
look = 0.05

[network]
kind = "hosts"

[hosts.client]
[hosts.origin]
sysctls = { "net.core.somaxconn" = "77" }

[files."nginx.conf"]
text = """
worker_processes 1;
events { worker_connections 512; }
http {
    access_log off;
    server {
        listen {{origin}}:8000 backlog=511;
        location / { return 200 "{{greeting}}"; }
        location = /status { stub_status; }
    }
}
"""

[[process]]
name = "origin"
host = "origin"
program = "nginx"
conf = "nginx.conf"
ready = { http = "http://{{origin}}:8000/" }

[[load]]
host = "client"
program = "ab"
url = "http://{{origin}}:8000/"
arguments = ["-c", "8"]
requests = 2000

[[probe]]
kind = "port"
name = "served"
host = "origin"
port = 8000

[[probe]]
kind = "queue"
name = "accepts"
host = "origin"
port = 8000

[[probe]]
kind = "told"
name = "nginx"
host = "client"
url = "http://{{origin}}:8000/status"

[[arm]]
name = "only"
values = { greeting = "hello" }
"#;

struct Ran {
    record: Record,
    error: Option<StageError>,
    /// The events of the run, in order.
    events: Vec<String>,
    /// The parent of the run's folder, and its file.
    home: tempfile::TempDir,
}

impl Ran {
    fn figure(&self, name: &str) -> f64 {
        let sample = self.record.samples.first().unwrap_or_else(|| panic!("no sample: {:?}", self.error));
        let found = sample.figures.get(name).copied();
        found.unwrap_or_else(|| panic!("no figure {name} among {:?}", sample.figures.keys().collect::<Vec<_>>()))
    }

    /// A figure that is a whole number.
    fn count(&self, name: &str) -> u64 {
        self.figure(name).round() as u64
    }

    /// The error, with its place.
    fn error(&self) -> String {
        self.error.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    fn file(&self) -> PathBuf {
        self.home.path().join("record.json")
    }

    /// Checks that the run left nothing but its file.
    fn assert_clean(&self) {
        let left: Vec<_> = fs::read_dir(self.home.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, ["record.json"], "the run's folder is gone");
        let home = self.home.path().display().to_string();
        let still = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(&home).then_some(line)
        });
        assert_eq!(still.collect::<Vec<_>>(), [""; 0], "every process has ended");
    }
}

/// Where `cargo xtask peers` has installed nginx and the clients, unless they are on the system or the environment names
/// another folder.
fn programs(cache: &Path) -> Programs {
    let holdfast = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/holdfast");
    Programs::new(holdfast, cache.to_owned())
}

fn perform(text: &str) -> Ran {
    perform_in(text, tempfile::tempdir().unwrap(), &Stop::default(), true, &mut |_| ())
}

fn perform_in(
    text: &str,
    home: tempfile::TempDir,
    stop: &Stop,
    namespaces: bool,
    told: &mut dyn FnMut(&Event<'_>),
) -> Ran {
    let Loaded { experiment, places } = Experiment::parse(text, "small.toml", &mut |path| Err(format!("no {path}")))
        .unwrap_or_else(|refused| panic!("{refused}"));
    let turns = schedule::turns(experiment.arms.len(), experiment.method.rounds, experiment.method.order, 1);
    let file = home.path().join("record.json");
    let mut record = Record {
        version: VERSION,
        experiment,
        command: "test".to_owned(),
        quick: false,
        control: false,
        seed: 1,
        began: "2026-11-22T00:00:00Z".to_owned(),
        fingerprint: Vec::new(),
        absent: Vec::new(),
        partial: None,
        samples: Vec::new(),
    };
    let programs = programs(&home.path().join("cache"));
    let request = Request {
        places: &places,
        turns: &turns,
        programs: &programs,
        home: home.path(),
        file: Some(&file),
        stop,
        namespaces,
    };
    let mut events = Vec::new();
    let error = run(&request, &mut record, &mut |event| {
        told(&event);
        events.push(format!("{event:?}"));
    })
    .err();
    Ran { record, error, events, home }
}

/// The place of a line in the text, as errors name it.
fn line_of(text: &str, part: &str) -> String {
    let before = text.split(part).next().unwrap();
    format!("small.toml:{}:", before.lines().count() + 1)
}

#[test]
fn a_load_between_two_hosts_is_measured_from_all_sides() {
    let ran = perform(&SMALL.replace("requests = 2000", "requests = 20000"));
    assert_eq!(ran.error(), "");
    assert_eq!((ran.record.partial.as_ref(), ran.record.samples.len()), (None, 1));
    assert_eq!((ran.count("requests"), ran.count("failed"), ran.count("client.requests")), (20_000, 0, 20_000));
    assert!(ran.figure("requests_per_second") > 0.0 && ran.figure("latency_ms.p99") >= 0.0);
    // Each host counts its own side: connections were opened on the client only, and accepted on the origin only.
    assert!(
        ran.figure("tcp.client.Tcp.ActiveOpens") >= 20_000.0 && ran.figure("tcp.origin.Tcp.PassiveOpens") >= 20_000.0
    );
    assert_eq!(ran.count("tcp.origin.Tcp.ActiveOpens"), 0);
    assert_eq!(ran.count("queue.accepts.backlog"), 77, "the kernel's cut of the 511 that were asked for");
    assert!(ran.figure("told.nginx.requests") >= 20_000.0);
    assert!(ran.figure("cores.origin") > 0.0 && ran.figure("cpu_us_per_request.client") > 0.0);
    // Each has one working thread, so the busiest thread has the whole CPU time of its process.
    for name in ["client", "origin"] {
        let (busiest, cores) = (ran.figure(&format!("busiest.{name}")), ran.figure(&format!("cores.{name}")));
        assert!(busiest >= cores * 0.7 && busiest <= 1.1, "{name}: busiest thread {busiest}, {cores} cores");
    }
    assert!(
        ran.figure("rss_mb.origin") > 0.1 && ran.figure("descriptors.origin") > 3.0 && ran.figure("died.origin") == 0.0
    );
    assert!(ran.figure("sockets.served") >= 1.0 && ran.count("sockets.served.LISTEN.idle") == 1);
    let sample = &ran.record.samples[0];
    assert!(sample.remarks.iter().any(|remark| remark.starts_with("bottleneck: ")), "{:?}", sample.remarks);
    assert!(
        sample.series["rss_mb.origin"].len() >= 2 && sample.series.values().flatten().all(|(at, _)| at.is_finite())
    );
    assert_eq!(Record::read(&ran.file()).unwrap().samples.len(), 1);
    assert!(ran.record.fingerprint.iter().any(|(name, value)| name == "nginx" && value.contains("nginx/")));
    ran.assert_clean();
}

#[test]
fn a_fill_runs_first_and_is_not_counted() {
    let fill = "[[fill]]\nname = \"fill\"\nhost = \"client\"\nprogram = \"ab\"\nurl = \"http://{{origin}}:8000/\"\nrequests = 300\n\n";
    let shares = "[[share]]\nname = \"opened\"\nof = \"told.nginx.accepts\"\nover = \"told.nginx.requests\"\n\n\
                  [[share]]\nname = \"left\"\nof = \"sockets.served.TIME_WAIT.end\"\nover = \"requests\"\n\n";
    let ran = perform(&SMALL.replace("[[arm]]", &format!("{fill}{shares}[[arm]]")));
    assert_eq!(ran.error(), "");
    assert!(ran.events.contains(&"Starting(\"fill\")".to_owned()), "{:?}", ran.events);
    assert_eq!((ran.count("requests"), ran.count("told.nginx.requests")), (2000, 2000));
    // ab without -k: each request has its own connection, which the origin closes first.
    assert!((ran.figure("share.opened") - 1.0).abs() < 0.01, "{}", ran.figure("share.opened"));
    let (left, closed_first) = (ran.figure("sockets.served.TIME_WAIT.end"), ran.figure("closed_first.served.end"));
    assert!(left >= 2000.0 && (closed_first - left).abs() < 0.5, "{left} left, of them {closed_first} the origin's");
    assert!((ran.figure("share.left") - left / 2000.0).abs() < 1e-9);
    assert!(ran.figure("sockets.served.TIME_WAIT.idle") < 10.0, "what was there before the fill");
    assert!(ran.figure("cpu_user_us_per_request.origin") <= ran.figure("cpu_us_per_request.origin"));
    ran.assert_clean();
}

#[test]
fn counts_system_calls_where_permitted() {
    let probe = "[[probe]]\nkind = \"calls\"\nname = \"of_origin\"\nprocess = \"origin\"\n\n[[arm]]";
    let ran = perform(&SMALL.replace("[[arm]]", probe).replace("requests = 2000", "requests = 200"));
    if let Some((_, why)) = ran.record.absent.first() {
        assert!(why.contains("strace"), "{why}");
    } else if ran.record.samples.is_empty() {
        assert!(ran.error().contains("probe of_origin: strace ended"), "{}", ran.error());
    } else {
        // At least accept, receive, send and close.
        let calls = ran.figure("calls_per_request.of_origin");
        assert!((4.0..100.0).contains(&calls), "{calls}");
    }
    ran.assert_clean();
}

#[test]
fn without_namespaces_only_arms_with_settings_are_absent() {
    let text = SMALL
        .replace("sysctls = { \"net.core.somaxconn\" = \"77\" }\n", "")
        .replace("program = \"nginx\"", "program = \"nginx\"\ndescriptors = 512")
        .replace("url =", "program = \"wrk\"\nurl =")
        .replace("program = \"ab\"\n", "")
        .replace("[\"-c\", \"8\"]", "[\"-t\", \"1\", \"-c\", \"8\"]")
        .replace("requests = 2000", "seconds = 1.0")
        .replace("program = \"wrk\"\nurl = \"http://{{origin}}:8000/status", "url = \"http://{{origin}}:8000/status")
        + "[[arm]]\nname = \"deep\"\nvalues = { greeting = \"x\" }\nsysctls.origin = { \"net.core.somaxconn\" = \"77\" }\n";
    let ran = perform_in(&text, tempfile::tempdir().unwrap(), &Stop::default(), false, &mut |_| ());
    assert_eq!(ran.error(), "");
    assert_eq!(ran.record.samples.len(), 1);
    assert!(ran.figure("requests") > 0.0 && ran.figure("sockets.served.ESTABLISHED") > 1.0);
    let absent = ran.record.absent.iter().map(|(arm, why)| (arm.as_str(), why.contains("net.core.somaxconn = 77")));
    assert_eq!(absent.collect::<Vec<_>>(), [("deep", true)]);
    assert!(ran.events.iter().any(|event| event.starts_with("Absent")), "{:?}", ran.events);
    let network = ran.record.fingerprint.iter().find(|(name, _)| name == "network").unwrap();
    assert!(network.1.contains("the machine's own loopback"), "{network:?}");
    ran.assert_clean();
}

#[test]
fn missing_program_leaves_other_arms_running() {
    let text = SMALL.replace("requests = 2000", "requests = 200")
        + "[[arm]]\nname = \"other\"\nvalues = { greeting = \"x\" }\nprograms = { origin = \"no-such-server\" }\n";
    let ran = perform(&text);
    assert_eq!((ran.error(), ran.record.samples.len()), (String::new(), 1));
    let (arm, why) = &ran.record.absent[0];
    assert_eq!((arm.as_str(), why.contains("`no-such-server`")), ("other", true), "{why}");
}

/// Two siege clients over a proxy, all in one namespace, and a process that is expected to die.
const CHAIN: &str = r#"
name = "chain"
title = "chain"
about = "chain"

[method]
rounds = 1
warm_up = 0.2
look = 0.1
idle = 0.2

[network]
kind = "namespace"

[files."origin.conf"]
text = """
events {}
http { server { listen {{here}}:8001; location / { return 200 "x"; } } }
"""

[files."haproxy.cfg"]
text = """
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
frontend f
    bind {{here}}:8000
    default_backend b
backend b
    server origin {{here}}:8001
"""

[[process]]
name = "origin"
program = "nginx"
conf = "origin.conf"
ready = { tcp = "{{here}}:8001" }
descriptors = 300

[[process]]
name = "proxy"
program = "haproxy"
conf = "haproxy.cfg"
ready = { http = "http://{{here}}:8000/" }
core = 7

[[process]]
name = "mortal"
program = "sh"
arguments = ["-c", "echo enough; sleep 0.5; kill -9 $$"]
may_die = true

[[load]]
name = "one"
program = "wrk"
url = "http://{{here}}:8000/"
arguments = ["-t", "1", "-c", "4"]
seconds = 2.0

[[load]]
name = "two"
program = "wrk"
url = "http://{{here}}:8000/"
arguments = ["-t", "1", "-c", "4"]
seconds = 2.0

[[arm]]
name = "only"
"#;

#[test]
fn two_clients_are_one_load_and_a_process_may_die() {
    let ran = perform(CHAIN);
    assert_eq!(ran.error(), "");
    let (one, two) = (ran.count("one.requests"), ran.count("two.requests"));
    assert!(one > 0 && two > 0 && ran.count("requests") == one + two, "{one} and {two}");
    assert!(ran.figure("latency_ms.max") >= ran.figure("one.latency_ms.max"));
    assert!(ran.figure("cpu_us_per_request.proxy") > 0.0 && ran.figure("cpu_us_per_request.two") > 0.0);
    assert_eq!((ran.count("died.mortal"), ran.count("died.proxy")), (1, 0));
    let sample = &ran.record.samples[0];
    let died = sample.remarks.iter().find(|remark| remark.starts_with("mortal died")).unwrap();
    assert!(died.contains("signal: 9") && died.contains("enough"), "{died}");
    // Both ends of each connection, of the clients and of the proxy, are on the one host.
    assert!(ran.figure("sockets.here") > 8.0, "{}", ran.figure("sockets.here"));
    assert!(
        sample.series["sockets.here.LISTEN"].iter().any(|(at, _)| *at < -0.2),
        "the idle time and the warm-up are there"
    );
    ran.assert_clean();
}

#[test]
fn errors_name_line_and_program_and_clean_up() {
    let command = |words: &str| {
        let start = SMALL.find("[[process]]").unwrap();
        let end = SMALL.find("[[load]]").unwrap();
        let process = format!("[[process]]\nname = \"origin\"\nhost = \"origin\"\n{words}\n\n");
        format!("{}{process}{}", &SMALL[..start], &SMALL[end..])
    };
    let shell =
        |script: &str, more: &str| command(&format!("program = \"sh\"\narguments = [\"-c\", \"{script}\"]\n{more}"));
    let rows = [
        (
            "ends at once",
            shell("echo the reason; exit 3", "ready = { tcp = \"{{origin}}:8000\" }"),
            "[[process]]",
            vec!["exit status: 3 instead of serving", "the reason"],
        ),
        (
            "a configuration that it refuses",
            SMALL.replace("access_log off;", "no_such_directive on;"),
            "[[process]]",
            vec!["unknown directive \"no_such_directive\"", "nginx.conf:4"],
        ),
        (
            "the port is taken by an earlier process",
            SMALL.replace("[[load]]", "[[process]]\nname = \"second\"\nhost = \"origin\"\nprogram = \"nginx\"\nconf = \"nginx.conf\"\nready = { http = \"http://{{origin}}:8000/\" }\n\n[[load]]"),
            "[[process]]\nname = \"second\"",
            vec!["10.77.1.1:8000", "nginx (pid "],
        ),
        (
            "ends under load",
            SMALL.replace("[[load]]", "[[process]]\nname = \"short\"\nhost = \"origin\"\nprogram = \"sh\"\narguments = [\"-c\", \"echo on its way; sleep 0.3; exit 9\"]\n\n[[load]]")
                .replace("requests = 2000", "seconds = 20.0"),
            "[[process]]\nname = \"short\"",
            vec!["exit status: 9", "on its way"],
        ),
        (
            "the load says nothing of use",
            SMALL.replace("[\"-c\", \"8\"]", "[\"--no-such-flag\"]"),
            "[[load]]",
            vec!["client ended without figures", "exit status"],
        ),
        (
            "a setting that is not to be had",
            SMALL.replace("\"net.core.somaxconn\" = \"77\"", "\"net.core.no_such\" = \"77\""),
            "[[arm]]",
            vec!["net.core.no_such = 77 on host origin"],
        ),
    ];
    for (what, text, part, said) in rows {
        let ran = perform(&text);
        let error = ran.error();
        assert!(error.starts_with(&line_of(&text, part)), "{what}: {error}");
        for words in said {
            assert!(error.contains(words), "{what}: {error}");
        }
        assert_eq!(ran.record.partial.as_deref(), Some(error.as_str()), "{what}");
        assert!(Record::read(&ran.file()).unwrap().partial.is_some(), "{what}");
        ran.assert_clean();
    }
}

#[test]
fn load_progress_excludes_warm_up() {
    let (mut loading, mut looks) = (false, Vec::new());
    let mut perform_for = |seconds: &str| {
        looks.clear();
        let text = SMALL.replace("warm_up = 0.0", "warm_up = 0.3").replace("requests = 2000", seconds);
        let ran = perform_in(&text, tempfile::tempdir().unwrap(), &Stop::default(), true, &mut |event| match event {
            Event::Loading => loading = true,
            Event::Looked(seconds, numbers) => {
                assert!(loading, "nothing counts yet");
                looks.push((*seconds, numbers["sockets.served"], numbers["rss_mb.origin"]));
            }
            Event::Taken(_) => loading = false,
            _ => {}
        });
        assert_eq!(ran.error(), "");
        ran.assert_clean();
        (ran, looks.clone())
    };
    // If a look takes a second, the next one comes five seconds later; then repeat with a longer load.
    let lengths = ["seconds = 1", "seconds = 5", "seconds = 25"].into_iter();
    let (ran, looks) = lengths.map(&mut perform_for).find(|(_, looks)| looks.len() > 1).expect("it is looked at twice");
    assert!(looks.is_sorted_by(|one, other| one.0 < other.0), "{looks:?}");
    // At most one look per `look` seconds begins, even if the machine is late for some.
    let (count, last) = (looks.len() as f64, looks[looks.len() - 1].0);
    assert!((count - 1.0) * 0.05 <= last, "{looks:?}");
    assert!(looks.iter().all(|(_, sockets, rss)| *sockets >= 1.0 && *rss > 0.0), "{looks:?}");
    let kept = &ran.record.samples[0].series["sockets.served"];
    let during = kept.iter().filter(|(at, _)| *at > 0.0).count();
    assert!(during >= looks.len(), "each of them is in the record: {kept:?}");
}

#[test]
fn interrupted_run_keeps_its_results() {
    let text = SMALL.replace("rounds = 1", "rounds = 9").replace("requests = 2000", "requests = 500");
    let stop = Stop::default();
    let begun = Instant::now();
    let mut loads = 0;
    let ran = perform_in(&text, tempfile::tempdir().unwrap(), &stop, true, &mut |event| {
        loads += usize::from(matches!(event, Event::Loading));
        if loads == 2 {
            stop.request_end();
        }
    });
    assert!(begun.elapsed() < Duration::from_mins(1));
    let said = format!("{}1: sample 2 of 9 (arm only, round 2): interrupted under load", line_of(&text, "[[arm]]"));
    assert_eq!((ran.record.partial.as_deref(), ran.error()), (Some(said.as_str()), said.clone()));
    let kept = Record::read(&ran.file()).unwrap();
    assert_eq!((kept.partial.as_deref(), kept.samples.len(), ran.record.samples.len()), (Some(said.as_str()), 1, 1));
    ran.assert_clean();
}

#[test]
fn interrupt_between_samples_starts_no_other() {
    let text = SMALL.replace("rounds = 1", "rounds = 9").replace("requests = 2000", "requests = 200");
    let stop = Stop::default();
    let ran = perform_in(&text, tempfile::tempdir().unwrap(), &stop, true, &mut |event| {
        if matches!(event, Event::Taken(_)) {
            stop.request_end();
        }
    });
    let said = format!("{}1: interrupted before sample 2 of 9 (arm only, round 2)", line_of(&text, "[[arm]]"));
    assert_eq!((ran.error(), ran.record.partial.as_deref()), (said.clone(), Some(said.as_str())));
    assert_eq!(Record::read(&ran.file()).unwrap().samples.len(), 1);
    ran.assert_clean();
}

#[test]
fn full_disk_ends_the_run_and_keeps_written_results() {
    let text = SMALL.replace("rounds = 1", "rounds = 3").replace("requests = 2000", "requests = 200");
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("record.json");
    let ran = perform_in(&text, home, &Stop::default(), true, &mut |event| {
        if matches!(event, Event::Taken(_)) {
            // The next record is written to this path before it replaces the last one; every write fails as on a full disk.
            std::os::unix::fs::symlink("/dev/full", file.with_extension("json.new")).unwrap();
        }
    });
    assert!(
        ran.error().contains("cannot write the record") && ran.error().contains("No space left"),
        "{}",
        ran.error()
    );
    let kept = Record::read(&ran.file()).unwrap();
    assert!(kept.partial.is_some() && !kept.samples.is_empty(), "{:?}", kept.partial);
    ran.assert_clean();
}
