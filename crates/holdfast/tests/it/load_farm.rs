//! `holdfast load --farm`: a load on several agents is the same load, agents load only what they may, and the death of one is
//! reported or its share taken over.

use crate::support::farm::FarmAgent;
use crate::support::load::{load, origin, start, text};
use crate::support::{holdfast, lives, until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use testkit::Nats;

fn agents(nats: &Nats, count: usize) -> Vec<FarmAgent> {
    (0..count).map(|agent| FarmAgent::start(&nats.url(), &format!("agent-{agent}"), &[])).collect()
}

#[test]
fn agents_share_requests_connections_and_arrivals_exactly() {
    let (nats, origin) = (Nats::start(""), origin());
    let _agents = agents(&nats, 2);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let json = folder.path().join("a.json").to_string_lossy().into_owned();
    let url = format!("http://{}/?id={{{{counter}}}}", origin.address());
    let farm = nats.url();
    let words = ["--farm", &farm, "--agents", "2", "-q", "-n", "301", "-c", "7", "-t", "4", "--json", &json];
    for pace in [["--think", "0"], ["--rate", "1500/s"]] {
        let output = load(&[words.as_slice(), &pace, &["--allow-lag", &url]].concat());
        let (said, complained) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{said}{complained}");
        assert!(complained.contains("2 agents of farm `default`: agent-0, agent-1"), "{complained}");
        assert!(said.contains("4 threads on 2 agents") && said.contains("2 agents began within "), "{said}");
        let results: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("it is JSON");
        assert_eq!((results["responses"].as_u64(), results["latency"]["count"].as_u64()), (Some(301), Some(301)));
        let of_agents: u64 = (0..2).map(|at| results["agents"][at]["responses"].as_u64().expect("a number")).sum();
        assert_eq!(of_agents, 301, "{}", results["agents"]);
        // All of them are on this machine, so their clocks are one.
        for agent in results["agents"].as_array().expect("a list") {
            let (offset, error) = (agent["clock_offset_ns"].as_i64(), agent["clock_error_ns"].as_u64());
            assert!(offset.zip(error).is_some_and(|(offset, error)| offset.unsigned_abs() <= error + 1), "{agent}");
        }
        if pace[0] == "--think" {
            assert_eq!(results["connections_opened"].as_u64(), Some(7));
        } else {
            assert_eq!(results["lag"]["count"].as_u64(), Some(301), "each arrival once");
        }
    }
    // Each number appears once in each run: the counter is one sequence over all agents.
    for id in ["0", "1", "150", "299", "300"] {
        assert_eq!(origin.executed(id), 2, "{id}");
    }
    let listed = holdfast().args(["load", "farm-status", &farm]).output().expect("it starts");
    let listed = text(&listed.stdout);
    assert!(listed.contains("2 agents") && listed.contains("agent-1") && listed.contains("127.0.0.0/8"), "{listed}");
}

#[test]
fn a_scenario_with_data_and_stages_runs_on_agents() {
    let (nats, origin) = (Nats::start(""), origin());
    let _agents = agents(&nats, 2);
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(folder.path().join("rows.csv"), "who\nann\nbob\n").expect("written");
    let scenario = folder.path().join("a.toml");
    let toml = format!(
        "base = \"http://{}\"\n[[data]]\nname = \"people\"\nfile = \"rows.csv\"\n[[scenario]]\nname = \"a\"\n\
         [[scenario.step]]\nname = \"one\"\nurl = \"/?id={{{{people.who}}}}\"\ncheck = [{{ status = 200 }}]\n",
        origin.address()
    );
    fs::write(&scenario, toml).expect("written");
    let (farm, scenario) = (nats.url(), scenario.to_string_lossy());
    let stages = ["--stages", "0s:50/s,2s:50/s", "-c", "4", "--expect", "errors=0", "--allow-lag"];
    let output =
        load(&[&["--farm", &farm, "--agents", "2", "-q", "--scenario", &scenario], stages.as_slice()].concat());
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{complained}");
    assert_eq!(origin.executed("ann") + origin.executed("bob"), 100, "{said}");
}

#[test]
fn agents_refuse_targets_that_they_may_not_load() {
    let (nats, origin) = (Nats::start(""), origin());
    let _wide = FarmAgent::start(&nats.url(), "wide", &[]);
    let narrow = FarmAgent::start(&nats.url(), "narrow", &["--allow", "127.0.0.1:1,192.0.2.0/24"]);
    let (farm, url) = (nats.url(), format!("http://{}/", origin.address()));
    let refused = |words: &[&str], expected: &str| {
        let output = load(&[&["--farm", &farm, "-q", "-n", "9"], words].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(expected), "{:?} {said}", output.status);
    };
    let may_not =
        format!("agent `narrow` may not load {}: its --allow has 127.0.0.1:1, 192.0.2.0/24", origin.address());
    refused(&["--agents", "2", &url], &may_not);
    // A name in the URL does not get around the list: the address of the connection counts.
    let port = origin.address().port();
    let resolve = format!("allowed.example:{port}:127.0.0.1");
    refused(&["--agents", "2", "--resolve", &resolve, &format!("http://allowed.example:{port}/")], &may_not);
    assert_eq!(origin.counts().requests, 0, "nothing was sent");
    refused(&["--agents", "2", "-c", "1", &url], "1 connections are too few for 2 agents");
    drop(narrow);
}

#[test]
fn an_agent_takes_no_orders_but_loads() {
    // A part that is given a script by hand still refuses: the check is the agent's own.
    let (nats, origin) = (Nats::start(""), origin());
    let _agents = agents(&nats, 1);
    let (farm, url) = (nats.url(), format!("http://{}/", origin.address()));
    let refused = |words: &[&str], expected: &str| {
        let output = load(&[&["--farm", &farm], words].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{:?} {said}", output.status);
    };
    refused(&["-s", "a.lua", &url], "cannot be used with '--script");
    refused(&["--unix", "/run/a.sock", &url], "cannot be used with '--unix");
    refused(&["--source", "127.0.0.2", &url], "cannot be used with '--source");
    refused(&["--processes", "2", &url], "cannot be used with '--processes");
    refused(&["--take-over", "-n", "5", &url], "cannot be used with '--requests");
    refused(&["ws://127.0.0.1:9/"], "WebSockets and held connections cannot be shared between machines");
    refused(&["tcp://127.0.0.1:9", "--hold", "1s"], "WebSockets and held connections cannot be shared");
}

#[test]
fn an_interrupt_reaches_all_agents_and_the_summary_is_whole() {
    let (nats, origin) = (Nats::start(""), origin());
    let agents = agents(&nats, 2);
    let (farm, url) = (nats.url(), format!("http://{}/delay/20", origin.address()));
    let words = ["--farm", &farm, "--agents", "2", "-d", "1h", "-c", "6", "--interval", "100ms", &url];
    let running = start(&words);
    running.wait_for_error("responses/s");
    running.signal(Signal::SIGINT);
    let ended = running.end();
    ended.assert_code(0);
    let said = ended.stdout;
    assert!(said.contains("stopped by hand") && !said.contains("VOID"), "{said}");
    until("no part is left", || agents.iter().all(|agent| agent.parts().is_empty()));
    assert!(agents.iter().all(|agent| lives(agent.pid())), "agents wait for the next order");
}

#[test]
fn an_agent_that_dies_voids_the_run() {
    let (nats, origin) = (Nats::start(""), origin());
    let agents = agents(&nats, 2);
    let (farm, url) = (nats.url(), format!("http://{}/delay/20", origin.address()));
    let words = ["--farm", &farm, "--agents", "2", "-d", "1h", "-c", "6", "--interval", "100ms", &url];
    let running = start(&words);
    running.wait_for_error("responses/s");
    let parts = agents[1].parts();
    assert_eq!(parts.len(), 1, "{parts:?}");
    agents[1].signal(Signal::SIGKILL);
    until("its part has ended with it", || parts.iter().all(|part| !lives(*part)));
    // Progress lines go on when the agent is given up.
    std::thread::park_timeout(std::time::Duration::from_millis(2_500));
    running.wait_for_error("responses/s");
    running.signal(Signal::SIGINT);
    let ended = running.end();
    ended.assert_code(4);
    let said = ended.stdout;
    assert!(
        said.contains("VOID        agent `agent-1` sent nothing for ") && said.contains("figures are missing"),
        "{said}"
    );
}

#[test]
fn another_agent_takes_the_share_of_a_dead_one_over() {
    let (nats, origin) = (Nats::start(""), origin());
    let agents = agents(&nats, 2);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let json = folder.path().join("a.json").to_string_lossy().into_owned();
    let (farm, url) = (nats.url(), format!("http://{}/", origin.address()));
    let words = ["--farm", &farm, "--agents", "2", "--take-over", "-R", "100/s", "-d", "10s", "-c", "8"];
    let more = ["--interval", "500ms", "--allow-lag", "--json", &json, &url];
    let running = start(&[words.as_slice(), &more].concat());
    running.wait_for_error("responses/s");
    agents[0].signal(Signal::SIGKILL);
    until("the other agent has both parts", || agents[1].parts().len() == 2);
    let ended = running.end();
    ended.assert_code(0);
    let said = ended.stdout;
    assert!(said.contains("agent `agent-1` takes its share over") && !said.contains("VOID"), "{said}");
    let results: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("it is JSON");
    // Each arrival of the schedule is one request or none: those of the dead agent's last seconds are missing.
    let (requests, intervals) = (results["requests"].as_u64().expect("a number"), results["intervals"].as_array());
    assert!((500..1_000).contains(&requests), "{requests}\n{said}");
    let intervals = intervals.expect("a list");
    // A response that comes after the end of the run has an interval of its own.
    assert!((20..=21).contains(&intervals.len()), "each interval once: {said}");
    // Half of the rate would be 25. On a busy machine a few responses come in the interval before or after.
    let late = intervals[18]["requests"].as_u64().expect("a number");
    assert!((38..=62).contains(&late), "at the end the rate is whole: {late}\n{said}");
}

#[test]
fn stopped_agent_says_goodbye_and_single_run_agent_exits() {
    let (nats, origin) = (Nats::start(""), origin());
    let once = FarmAgent::start(&nats.url(), "once", &["--once"]);
    let (farm, url) = (nats.url(), format!("http://{}/", origin.address()));
    let output = load(&["--farm", &farm, "-q", "-n", "20", "--allow-lag", &url]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    once.end();
    let told = FarmAgent::start(&nats.url(), "told", &[]);
    told.signal(Signal::SIGTERM);
    told.end();
    let mut command = holdfast();
    command.args(["load", "farm-status", &farm]).stdin(Stdio::null());
    let listed = command.output().expect("it starts");
    assert_eq!(text(&listed.stdout), "farm `default`: 0 agents\n");
}
