//! `holdfast demo` as a process: a short one tells what a pool is for wherever it runs, one that is ended early says so and leaves
//! nothing behind. Nothing here says anything about speed.

#[allow(dead_code, reason = "each test file uses its part of the support")]
mod support;

use nix::sys::signal::{Signal, kill};
use report::{Block, Document};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{holdfast, pid, until};

/// One demo at a time: where there are no namespaces, all stand on the same loopback.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shortest demo, with a folder of its own for what it writes.
fn demo(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = holdfast();
    command.arg("demo").args(arguments).current_dir(folder).env("TMPDIR", folder).stdin(Stdio::null());
    command
}

/// A machine that has nothing but the program: neither nginx nor what namespaces are made with.
struct Bare {
    folder: tempfile::TempDir,
}

impl Bare {
    fn new() -> Self {
        // On the disk of the program, so that it can have a second name there.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        fs::create_dir_all(folder.path().join("there/below")).expect("made");
        fs::create_dir(folder.path().join("bin")).expect("made");
        // Its peers are looked for beside the folder that the program stands in.
        fs::hard_link(env!("CARGO_BIN_EXE_holdfast"), Self::program(folder.path())).expect("linked");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let limits = std::env::split_paths(&path).map(|folder| folder.join("prlimit")).find(|file| file.exists());
        symlink(limits.expect("util-linux is installed"), folder.path().join("bin/prlimit")).expect("linked");
        Self { folder }
    }

    fn program(folder: &Path) -> PathBuf {
        folder.join("there/below/holdfast")
    }

    fn demo(&self) -> Command {
        let folder = self.folder.path();
        let mut command = Command::new(Self::program(folder));
        command
            .args(["demo", "--rounds", "1", "--requests", "500"])
            .current_dir(folder)
            .env("TMPDIR", folder)
            .stdin(Stdio::null());
        command.env("PATH", folder.join("bin")).env_remove("HOLDFAST_PEERS");
        command
    }

    /// Whether nginx is absent there: it is not where programs of the system stand.
    fn lacks_nginx() -> bool {
        !["/usr/local/sbin", "/usr/sbin", "/sbin"].iter().any(|folder| Path::new(folder).join("nginx").exists())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Words as a reader sees them, wherever lines end.
fn flat(output: &Output) -> String {
    text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a run leaves if it does not clean up, but for the folders of this test.
fn left_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("it is there").flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with("holdfast-lab-")).collect()
}

/// Processes whose command line names the folder: what a run starts has its files there.
fn started_in(folder: &Path) -> Vec<u32> {
    let folder = folder.to_string_lossy().into_owned();
    let all = fs::read_dir("/proc").expect("it is mounted").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| text(&words).contains(&folder)))
        .collect()
}

#[test]
fn a_demo_needs_neither_nginx_nor_namespaces_and_names_what_is_absent() {
    let _alone = alone();
    let bare = Bare::new();
    let output = bare.demo().output().expect("it starts");
    let (said, told) = (text(&output.stderr), flat(&output));
    assert_eq!(output.status.code(), Some(0), "{said}{told}");
    assert!(said.contains("network: Loopback, since") && said.contains("[1/"), "{said}");
    for words in [
        "direct: client -> origin",
        "holdfast pooled: client -> holdfast -> origin, with `keepalive 100;",
        "requests/s",
        "of direct, %",
        "bottleneck",
        "p99, ms",
        "µs per request",
        "Opened per request",
        "ESTABLISHED",
        "TIME_WAIT",
        "Without a pool holdfast opened",
        "Too few for verdicts: 1 round, where 6 are needed.",
    ] {
        assert!(told.contains(words), "{words:?} is not in\n{}", text(&output.stdout));
    }
    if Bare::lacks_nginx() {
        for arm in ["nginx unpooled", "nginx pooled"] {
            let absent = format!("arm \"{arm}\" is absent: pool-throughput/experiment.toml:");
            assert!(told.contains(&absent), "{absent:?} is not in\n{}", text(&output.stdout));
            assert!(told.contains("process proxy: nginx is not there: "), "{}", text(&output.stdout));
        }
    }
    assert_eq!(left_in(bare.folder.path()), [""; 0]);
}

#[test]
fn every_request_of_every_arm_is_answered_and_a_pool_saves_connections() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let output = demo(folder.path(), &["--rounds", "1", "--requests", "500", "--json"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Document = serde_json::from_slice(&output.stdout).expect("it is the report");
    let tables = document.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
        Block::Table(table) => Some(table),
        _ => None,
    });
    let tables: Vec<_> = tables.collect();
    let value = |table: &str, arm: &str, column: &str| -> f64 {
        let table = tables.iter().find(|known| known.title == table).unwrap_or_else(|| panic!("no table {table}"));
        let at = table.columns.iter().position(|name| name == column).unwrap_or_else(|| panic!("no column {column}"));
        let row = table.rows.iter().find(|row| row[0].to_string() == arm).unwrap_or_else(|| panic!("no row {arm}"));
        match &row[at] {
            report::Cell::Figure(figure) => figure.value(),
            report::Cell::Text(text) => panic!("{text} in row {arm}, column {column}"),
        }
    };
    let requests = |arm| value("Of all loads together", arm, "requests");
    for arm in ["direct", "holdfast unpooled", "holdfast pooled"] {
        assert!(requests(arm) > 0.0);
        assert_eq!(value("Of all loads together", arm, "failed").to_bits(), 0.0_f64.to_bits(), "{arm}");
    }
    // The client opens one for each request in any arm; what is more was opened by the proxy, or by others on the same loopback.
    let counters = "The kernel's counters, growth over the load, by host";
    let opened = |arm| value(counters, "tcp.here.Tcp.ActiveOpens", arm) - requests(arm);
    assert!(opened("holdfast unpooled") >= requests("holdfast unpooled"));
    assert!(opened("holdfast pooled") < requests("holdfast pooled") / 2.0);
    assert_eq!(left_in(folder.path()), [""; 0]);
}

#[test]
fn an_interrupt_ends_all_processes_and_tells_what_there_is() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = demo(folder.path(), &["--rounds", "50", "--requests", "500", "--seconds", "600"]);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(running.stderr.take().expect("piped")).lines();
    // The first sample is told when it is taken; then the servers of the second are started.
    assert!(lines.any(|line| line.expect("text").starts_with("[1/")), "no sample was taken");
    until("the servers of the next sample run", || !started_in(folder.path()).is_empty());
    kill(pid(running.id()), Signal::SIGINT).expect("it runs");
    let said: Vec<String> = lines.map(|line| line.expect("text")).collect();
    let mut told = String::new();
    running.stdout.take().expect("piped").read_to_string(&mut told).expect("text");
    assert_eq!(running.wait().expect("it ends").code(), Some(1), "{said:?}");
    assert!(said.iter().any(|line| line.contains("interrupted")), "{said:?}");
    assert!(
        told.contains("This is partial: pool-throughput/experiment.toml:") && told.contains("requests/s"),
        "{told}"
    );
    assert_eq!(started_in(folder.path()), [0; 0], "processes are left");
    assert_eq!(left_in(folder.path()), [""; 0]);
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let own = format!("holdfast-lab-{}-", running.id());
    let names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    assert!(!names.iter().any(|name| name.starts_with(&own)), "{names:?}");
}

#[test]
fn nobody_has_to_read_what_it_tells() {
    let _alone = alone();
    let bare = Bare::new();
    let command = bare.demo();
    // A shell that is found without $PATH closes what the program would write on.
    let mut closed = Command::new("/bin/sh");
    closed.args(["-c", "exec \"$@\" >&- 2>&-", "sh"]).arg(command.get_program()).args(command.get_args());
    closed.current_dir(bare.folder.path()).env_remove("HOLDFAST_PEERS");
    for (name, value) in command.get_envs() {
        value.map(|value| closed.env(name, value));
    }
    let status = closed.stdin(Stdio::null()).status().expect("it starts");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn nonsense_is_refused() {
    for flags in [["--seconds", "0"], ["--seconds", "3601"], ["--rounds", "x"], ["--requests", "0"]] {
        let output = holdfast().arg("demo").args(flags).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
    }
    let output = holdfast().args(["demo", "--rounds", "0"]).output().expect("it starts");
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(1), "holdfast demo: 0 rounds: from 1 to 100\n".to_owned())
    );
}
