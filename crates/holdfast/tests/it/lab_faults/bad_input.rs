//! Experiments that cannot run, processes that die or never serve, ports in use, full disks.

use super::{Bench, Ended, Running, place_of};
use std::fs;
use std::net::TcpListener;
use std::process::Command;

/// An origin under load in arm `good`, and in arm `bad` the process under test beside it, at `SIDE`.
const BESIDE: &str = r#"
name = "beside"
title = "A process beside"
about = "What it does to the run."

[method]
rounds = 1
warm_up = 0.0
look = 0.1

[network]
kind = "namespace"

[files."page"]
bytes = 2000000

[[process]]
name = "origin"
program = "holdfast"
arguments = ["origin", "--listen", "{{here}}:8081"]
ready = { tcp = "{{here}}:8081" }

[[process]]
name = "side"
SIDE

[[load]]
url = "http://{{here}}:8081/"
arguments = ["-c", "2"]
seconds = 0.2

[[arm]]
name = "good"
without = ["side"]

[[arm]]
name = "bad"
"#;

fn beside(side: &str) -> String {
    BESIDE.replace("SIDE", side)
}

/// The run ends with this message about the process, and keeps the sample before it.
fn row(side: &str, words: &[&str]) {
    let text = beside(side);
    let bench = Bench::new(&text);
    let ended = bench.run(&[]);
    ended.assert_code(1);
    let place =
        format!("{}1: sample 2 of 2 (arm bad, round 1): side ", place_of(&text, "[[process]]\nname = \"side\""));
    ended.assert_reports(&[&place]);
    ended.assert_reports(words);
    ended.assert_reports(&["partial record (1 sample)"]);
    let record = bench.record();
    let partial = record.partial.unwrap_or_default();
    assert!(partial.starts_with(&place) && words.iter().all(|word| partial.contains(word)), "{partial}");
    assert_eq!((record.samples.len(), record.samples[0].arm.as_str()), (1, "good"));
    assert!(ended.stdout.contains("This record is partial"), "{}", ended.stdout);
    bench.assert_clean(ended.id);
}

fn shell(script: &str, more: &str) -> String {
    format!("program = \"sh\"\narguments = [\"-c\", \"{script}\"]\n{more}")
}

const READY: &str = "ready = { tcp = \"{{here}}:8999\" }";

#[test]
fn a_process_that_dies_before_it_serves() {
    row(&shell("echo the reason; exit 3", READY), &["side ended with exit status: 3 instead of serving", "the reason"]);
}

#[test]
fn a_process_that_never_serves() {
    row(
        &shell("echo busy with itself; exec sleep 600", READY),
        &["side did not serve within 10 s", "busy with itself"],
    );
}

#[test]
fn a_process_that_dies_under_load() {
    let words = ["side ended with exit status: 9 before the sample was taken", "on its way"];
    row(&shell("echo on its way; sleep 0.1; exit 9", ""), &words);
}

#[test]
fn process_with_endless_output_is_ended_by_the_kernel() {
    // A sparse file of that size with one byte at the end: the length counts, not the space used.
    let words =
        ["side ended with signal: 25", "it wrote more than 512 MiB into one file, which no program of the lab may"];
    row(&shell("exec dd if=/dev/zero bs=1 count=1 seek=600000000 conv=notrunc", ""), &words);
}

#[test]
fn a_port_that_an_earlier_process_of_the_arm_has() {
    let second = "program = \"holdfast\"\narguments = [\"origin\", \"--listen\", \"{{here}}:8081\"]\nready = { tcp = \"{{here}}:8081\" }";
    row(second, &["side cannot have 127.0.0.1:8081: ", "(pid ", " listens there"]);
}

#[test]
fn a_port_of_another_process_on_the_machine() {
    let taken = TcpListener::bind("127.77.0.1:0").expect("bound");
    let port = taken.local_addr().expect("bound").port().to_string();
    let text = beside("program = \"true\"").replace("8081", &port).replace("\"namespace\"", "\"loopback\"");
    let bench = Bench::new(&text);
    let ended = bench.run(&[]);
    ended.assert_code(1);
    let place = place_of(&text, "[[process]]");
    let own = format!("{place}1: sample 1 of 2 (arm good, round 1): origin cannot have 127.77.0.1:{port}: ");
    ended.assert_reports(&[&own, &format!("(pid {}) listens there", std::process::id()), "nothing was measured"]);
    assert!(bench.record().partial.is_some());
    bench.assert_clean(ended.id);
}

#[test]
fn missing_program_makes_its_arm_absent() {
    let text = beside("program = \"no-such-server\"");
    let bench = Bench::new(&text);
    let ended = bench.run(&[]);
    // There is no claim, so none is undecided; the arm is reported all the same.
    ended.assert_code(0);
    let place = place_of(&text, "[[process]]\nname = \"side\"");
    let why = format!("{place}1: process side: there is no program `no-such-server`, as a path or on $PATH");
    ended.assert_reports(&[&format!("arm bad is absent: {why}")]);
    assert!(ended.stdout.contains("Arm \"bad\" is absent"), "{}", ended.stdout);
    let record = bench.record();
    assert_eq!((record.absent, record.partial), (vec![("bad".to_owned(), why.clone())], None));
    bench.assert_clean(ended.id);

    let alone = bench.run(&["--arm", "bad"]);
    alone.assert_code(1);
    alone.assert_reports(&[&format!("no arm can be run here: bad: {why}")]);
    bench.assert_clean(alone.id);
}

#[test]
fn refuses_impossible_loads_before_the_start() {
    let bench = Bench::new("");
    fs::write(bench.path("latin1.conf"), b"# \xe9\n").expect("there is room");
    let base = beside("program = \"true\"");
    let refused = |text: &str, words: &[&str]| {
        bench.write(text);
        let ended = bench.run(&[]);
        ended.assert_code(1);
        ended.assert_reports(words);
        assert!(!bench.path("results").exists(), "nothing was begun");
        bench.assert_clean(ended.id);
    };
    let with_file = |path: &str| format!("{base}\n[files.\"more.conf\"]\npath = \"{path}\"\n");
    let at = |text: &str, part: &str| place_of(text, part);
    let text = with_file("none.conf");
    refused(&text, &[&at(&text, "path ="), "\"none.conf\" cannot be read: No such file", "hint: "]);
    let text = with_file("latin1.conf");
    refused(&text, &[&at(&text, "path ="), "\"latin1.conf\" cannot be read: ", "UTF-8", "hint: "]);
    let text = base.replace("name = \"origin\"\n", "name = \"origin\"\nhost = \"nowhere\"\n");
    refused(&text, &[&at(&text, "host ="), "there is no host \"nowhere\"", "hint: "]);
    let text = base.replace("seconds = 0.2", "seconds = 0.2\nspeed = 3");
    refused(&text, &[&at(&text, "speed"), "unknown key \"speed\" in [[load]]"]);
    fs::write(bench.path("x.toml"), b"name = \"\xff\"\n").expect("there is room");
    let ended = bench.run(&[]);
    ended.assert_code(1);
    ended.assert_reports(&["x.toml", "cannot be read: ", "UTF-8"]);
}

/// Runs with a file system of this size at `folder`, and copies its files to `kept` afterwards; `None` if mounting is
/// not possible.
fn on_a_small_disk(bench: &Bench, size: &str, folder: &str, flags: &[&str]) -> Option<Ended> {
    fs::create_dir_all(bench.path(folder)).expect("there is room");
    fs::create_dir(bench.path("kept")).expect("there is room");
    let script = "mount -t tmpfs -o \"size=$1\" tmpfs \"$2\" || exit 99; folder=$2; shift 2; \"$@\"; code=$?; \
                  cp -r \"$folder\"/. kept; exit $code";
    let mut command = Command::new("unshare");
    if !nix::unistd::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--mount", "sh", "-c", script, "sh", size, folder]);
    let run = bench.command(flags);
    command.arg(run.get_program()).args(run.get_args()).current_dir(bench.folder.path());
    command.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = Running::start(&mut command).end();
    if ended.status.code() == Some(99) || ended.stderr.starts_with("unshare:") {
        testkit::skip(&format!("no file system can be mounted here: {}", ended.stderr));
        return None;
    }
    Some(ended)
}

#[test]
fn a_disk_that_fills_with_records_keeps_the_last_that_was_whole() {
    let bench =
        Bench::new(&beside("program = \"sleep\"\narguments = [\"600\"]").replace("seconds = 0.2", "seconds = 0.1"));
    let Some(ended) = on_a_small_disk(&bench, "64k", "results", &["--rounds", "20"]) else { return };
    ended.assert_code(1);
    ended.assert_reports(&[
        "x.toml:",
        " of 40 (arm ",
        "cannot write the record: ",
        ".json: No space left on device",
        ".html: No space",
    ]);
    assert!(ended.stdout.contains("This record is partial"), "the report is there to be read: {}", ended.stdout);
    fs::remove_dir(bench.path("results")).expect("nothing was written beneath");
    fs::rename(bench.path("kept"), bench.path("results")).expect("a folder");
    let kept: Vec<_> =
        fs::read_dir(bench.path("results")).expect("a folder").flatten().map(|it| it.file_name()).collect();
    assert!(!kept.iter().any(|name| name.to_string_lossy().ends_with(".new")), "no halves: {kept:?}");
    let record = bench.record();
    assert!(
        record.partial.is_some() && !record.samples.is_empty() && record.samples.len() < 40,
        "{:?}",
        record.partial
    );
    bench.assert_clean(ended.id);
}

#[test]
fn full_disk_is_reported_with_the_process() {
    let side = "program = \"sleep\"\narguments = [\"600\", \"{{file:page}}\"]";
    let text = beside(side);
    let bench = Bench::new(&text);
    let Some(ended) = on_a_small_disk(&bench, "1m", "tmp", &[]) else { return };
    ended.assert_code(1);
    let place = place_of(&text, "[[process]]\nname = \"side\"");
    ended.assert_reports(&[&place, "sample 2 of 2 (arm bad, round 1): cannot prepare ", "No space left on device"]);
    assert_eq!(bench.record().samples.len(), 1);
    assert_eq!(fs::read_dir(bench.path("kept")).expect("a folder").count(), 0, "nothing is left there");
    bench.assert_clean(ended.id);
}
