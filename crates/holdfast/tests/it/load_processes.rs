//! `holdfast load` in several processes: the results are those of one load, an interrupt reaches all processes, and the
//! death of one is reported.

use crate::support::load::{load, origin, start, text};
use crate::support::{children, lives, pid, until};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::fs;
use std::process::Output;
use testkit::Running;

/// A load that runs until a signal, with its progress lines.
fn endless(origin: &origin::Running) -> Running {
    let url = format!("http://{}/delay/20", origin.address());
    start(&["-d", "1h", "-c", "6", "--processes", "3", "--interval", "100ms", &url])
}

#[test]
fn processes_share_requests_connections_and_arrivals_exactly() {
    let origin = origin();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let json = folder.path().join("a.json").to_string_lossy().into_owned();
    let url = format!("http://{}/?id={{{{counter}}}}", origin.address());
    let words = ["-q", "-n", "301", "-c", "7", "-t", "3", "--processes", "3", "--json", &json, "--allow-lag"];
    for pace in [["--think", "0"], ["--rate", "1500/s"]] {
        let output = load(&[words.as_slice(), &pace, &[&url]].concat());
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
        assert!(said.contains("3 threads in 3 processes") && said.contains("plan        3 processes; "), "{said}");
        let results: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("it is JSON");
        assert_eq!((results["responses"].as_u64(), results["processes"].as_u64()), (Some(301), Some(3)));
        assert_eq!(results["latency"]["count"].as_u64(), Some(301));
        if pace[0] == "--think" {
            assert_eq!(results["connections_opened"].as_u64(), Some(7));
        } else {
            assert_eq!(results["lag"]["count"].as_u64(), Some(301), "each arrival once");
        }
    }
    // Each number appears once in each run: the counter is one sequence over all processes.
    for id in ["0", "1", "150", "299", "300"] {
        assert_eq!(origin.executed(id), 2, "{id}");
    }
    assert_eq!(origin.executed("301"), 0);
}

#[test]
fn an_interrupt_reaches_all_and_the_summary_is_whole() {
    let origin = origin();
    let load = endless(&origin);
    load.wait_for_error("responses/s");
    let parts = children(load.id());
    assert_eq!(parts.len(), 3, "{parts:?}");
    load.signal(Signal::SIGINT);
    let ended = load.end();
    ended.assert_code(0);
    let said = ended.stdout;
    assert!(said.contains("stopped by hand") && said.contains("cut off") && !said.contains("VOID"), "{said}");
    assert!(parts.iter().all(|part| !lives(*part)), "{parts:?}");
}

#[test]
fn a_process_that_dies_is_reported_and_voids_the_run() {
    let origin = origin();
    let load = endless(&origin);
    load.wait_for_error("responses/s");
    let parts = children(load.id());
    kill(pid(parts[1]), Signal::SIGKILL).expect("it can be killed");
    until("it is gone", || !lives(parts[1]));
    // The other processes continue.
    load.wait_for_error("responses/s");
    load.signal(Signal::SIGINT);
    let ended = load.end();
    ended.assert_code(4);
    let said = ended.stdout;
    assert!(
        said.contains(&format!("VOID        a process of the load (pid {}) was killed by signal 9", parts[1])),
        "{said}"
    );
}

#[test]
fn without_their_parent_the_processes_end() {
    let origin = origin();
    let load = endless(&origin);
    load.wait_for_error("responses/s");
    let parts = children(load.id());
    load.signal(Signal::SIGKILL);
    until("its processes have ended", || parts.iter().all(|part| !lives(*part)));
}

/// The load of a script in two processes with two threads each.
fn scripted(origin: &origin::Running, source: &str, requests: &str) -> Output {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = folder.path().join("a.lua");
    fs::write(&script, source).expect("written");
    let url = format!("http://{}/", origin.address());
    let script = script.to_string_lossy();
    load(&["-q", "-s", &script, "-n", requests, "-c", "4", "-t", "4", "--processes", "2", "--allow-lag", &url])
}

#[test]
fn a_script_has_one_setup_and_one_done_over_all_processes() {
    let origin = origin();
    let source = r#"
        local threads = {}
        function setup(thread)
            thread:set("id", #threads + 1)
            table.insert(threads, thread)
        end
        function init(args) sent, seen = 0, {} print("a word from " .. id) end
        function request() sent = sent + 1; return wrk.format(nil, "/?id=" .. id) end
        function response(status, headers, body) table.insert(seen, status) end
        function done(summary, latency, requests)
            local statuses, ids = 0, {}
            for at, thread in ipairs(threads) do
                statuses = statuses + #thread:get("seen")
                ids[at] = thread:get("id")
            end
            local whole = latency.max > 0 and latency:percentile(50) <= latency.max
            io.write(string.format("done %d %d %s %s\n", summary.requests, statuses, table.concat(ids, ","), whole))
        end
    "#;
    let output = scripted(&origin, source, "40");
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{complained}");
    assert!(said.contains("4 threads in 2 processes") && said.ends_with("done 40 40 1,2,3,4 true\n"), "{said}");
    assert!((1..=4).all(|id| origin.executed(&id.to_string()) == 10), "{:?}", origin.counts());
    // Output of script threads must not mix with the messages between the processes.
    assert!((1..=4).all(|id| complained.contains(&format!("a word from {id}"))), "{complained}");
}

#[test]
fn a_script_ends_the_whole_run_from_one_process() {
    let origin = origin();
    let until_ten = "local n = 0\nfunction response() n = n + 1; if n == 10 then wrk.thread:stop() end end";
    let output = scripted(&origin, until_ten, "1000000000");
    let said = text(&output.stdout);
    assert!(said.contains("stopped by hand") && output.status.code() == Some(0), "{said}{}", text(&output.stderr));
    let mistaken =
        "local n = 0\nfunction request() n = n + 1; if n > 9 then error('later') end; return wrk.format() end";
    let output = scripted(&origin, mistaken, "1000000000");
    assert!(text(&output.stderr).contains("later") && output.status.code() == Some(1), "{}", text(&output.stderr));
    let unready = scripted(&origin, "function setup(thread) error('not yet') end", "5");
    assert!(text(&unready.stderr).contains("not yet"), "{}", text(&unready.stderr));
}

#[test]
fn refuses_options_that_processes_cannot_share() {
    let refused = |words: &[&str], code: i32, expected: &str| {
        let output = load(words);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(expected), "{:?} {said}", output.status);
    };
    let url = "http://127.0.0.1:9/";
    refused(&["-c", "2", "--processes", "3", url], 1, "3 processes need at least as many connections to each address");
    refused(&["--processes", "0", url], 2, "auto, or a number from 1 to 256");
    // The process that orders a part of a load is this program, and uses its protocol.
    let part = start(&["part-of-a-load"]).end();
    assert!(part.status.success() && part.stdout.is_empty(), "{}", part.stdout);
}
