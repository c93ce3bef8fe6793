//! SIGINT, SIGTERM and SIGKILL, one stage after the other.

use super::{Bench, Running, chain, namespaces, place_of};
use nix::sys::signal::Signal;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// A process that starts last and runs on without serving anything.
const LAST: &str = "[[process]]\nname = \"last\"\nhost = \"proxy\"\nprogram = \"sleep\"\narguments = [\"600\"]\n";

/// Runs the experiment until the file of its sample exists, interrupts it, and checks what is left.
fn interrupt(text: &str, file: &str, signal: Signal, part: &str, words: &str) {
    let bench = Bench::new(text);
    let mut run = bench.start(&[]);
    bench.wait_for(&mut run, file);
    assert!(!bench.processes().is_empty());
    run.signal(signal);
    let ended = run.end();
    ended.assert_code(1);
    let said = format!("{}1: sample 1 of 2 (arm only, round 1): interrupted {words}", place_of(text, part));
    ended.assert_reports(&[&said, "nothing was measured"]);
    let record = bench.record();
    assert_eq!((record.partial.as_deref(), record.samples.len()), (Some(said.as_str()), 0));
    bench.assert_clean(ended.id);
}

#[test]
fn while_a_process_is_started() {
    let more = format!("{LAST}ready = {{ tcp = \"{{{{proxy}}}}:9\" }}\n");
    let text = chain("0.0", "0.0", "60.0", &more);
    let part = "[[process]]\nname = \"last\"";
    interrupt(&text, "last/output", Signal::SIGINT, part, "while last was being started");
}

#[test]
fn before_anything_is_loaded() {
    // It serves half a second after its start; then the idle time begins.
    let late = "program = \"sh\"\narguments = [\"-c\", \"sleep 0.5; touch served; exec sleep 600\"]\n";
    let text = chain("60.0", "0.0", "60.0", &LAST.replace("program = \"sleep\"\narguments = [\"600\"]\n", late));
    interrupt(&text, "last/served", Signal::SIGTERM, "[[arm]]", "before anything was loaded");
}

#[test]
fn in_the_warm_up() {
    interrupt(&chain("0.0", "60.0", "1.0", ""), "client/output", Signal::SIGINT, "[[arm]]", "in the warm-up");
}

#[test]
fn under_load() {
    interrupt(&chain("0.0", "0.0", "60.0", ""), "client/output", Signal::SIGTERM, "[[arm]]", "under load");
}

#[test]
fn in_the_second_sample_with_the_first_kept() {
    let more = format!("{LAST}ready = {{ tcp = \"{{{{proxy}}}}:9\" }}\n");
    let text = chain("0.0", "0.0", "0.2", &more) + "without = [\"last\"]\n[[arm]]\nname = \"more\"\n";
    let bench = Bench::new(&text);
    let mut run = bench.start(&[]);
    bench.wait_for(&mut run, "last/output");
    run.signal(Signal::SIGINT);
    let ended = run.end();
    ended.assert_code(1);
    let place = place_of(&text, "[[process]]\nname = \"last\"");
    let said = format!("{place}1: sample 2 of 4 (arm more, round 1): interrupted while last was being started");
    ended.assert_reports(&[&said, "partial record (1 sample), page and Markdown"]);
    assert!(ended.stdout.contains("This record is partial"), "{}", ended.stdout);
    let record = bench.record();
    assert_eq!((record.partial.as_deref(), record.samples.len()), (Some(said.as_str()), 1));
    assert_eq!(record.samples[0].arm, "only");
    bench.assert_clean(ended.id);
}

#[test]
fn while_the_report_is_printed_to_a_reader_that_stalls() {
    let bench = Bench::new(&chain("0.0", "0.0", "0.2", ""));
    let (unread, write) = std::io::pipe().expect("a pipe");
    nix::fcntl::fcntl(&write, nix::fcntl::FcntlArg::F_SETPIPE_SZ(4096)).expect("smaller");
    let mut command = bench.command(&["--json", "--rounds", "1"]);
    let run = Running::of(command.stdout(write).stderr(Stdio::piped()).spawn().expect("it starts"));
    drop(command);
    // The Markdown is the last file; only printing remains.
    let is_markdown = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
    let files = || fs::read_dir(bench.path("results")).into_iter().flatten().flatten().map(|entry| entry.path());
    run.until("the Markdown is there", || files().find(|path| is_markdown(path)));
    bench.assert_clean(run.id());
    run.signal(Signal::SIGINT);
    let ended = run.end();
    ended.assert_code(1);
    ended.assert_reports(&["interrupted while the report was made: the record is whole, and `holdfast lab report "]);
    let record = bench.record();
    assert_eq!((record.partial, record.samples.len()), (None, 1));
    drop(unread);
}

#[test]
fn the_next_run_removes_the_rest_of_a_killed_one() {
    let bench = Bench::new(&chain("0.0", "0.0", "60.0", ""));
    let mut run = bench.start(&[]);
    bench.wait_for(&mut run, "client/output");
    let killed = run.id();
    assert!(!namespaces(killed).is_empty());
    run.signal(Signal::SIGKILL);
    run.wait();
    let left = bench.processes();
    assert!(left.iter().any(|line| line.contains("nginx")) && left.len() >= 3, "they still run: {left:?}");
    // Its namespaces may be gone: namespaces belong to the machine, and any run of a test beside this one removes those of killed
    // runs. The processes are known by the folder, which this bench has alone.

    bench.write(&chain("0.0", "0.0", "0.2", ""));
    let next = bench.run(&["--rounds", "1"]);
    next.assert_code(0);
    bench.assert_clean(killed);
    bench.assert_clean(next.id);
}
