//! `holdfast demo` as a process. A short demo shows the effect of a pool on any machine; an interrupted one reports
//! that and leaves nothing behind. No test here asserts a speed.

use crate::support::load::text;
use crate::support::{holdfast, until};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::signal::Signal;
use report::{Block, Document};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use testkit::Running;

/// Runs one demo at a time: without namespaces, all demos share one loopback.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shortest demo, with its own folder for temporary files.
fn demo(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = holdfast();
    command.arg("demo").args(arguments).current_dir(folder).env("TMPDIR", folder).stdin(Stdio::null());
    command
}

/// A machine with nothing but the program: neither nginx nor the tools that make namespaces.
struct Bare {
    folder: tempfile::TempDir,
}

impl Bare {
    fn new() -> Self {
        // On the file system of the program, so that a hard link to it is possible.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        fs::create_dir_all(folder.path().join("there/below")).expect("made");
        fs::create_dir(folder.path().join("bin")).expect("made");
        // The program looks for its peers beside its own folder.
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
            .args(["demo", "--rounds", "1", "--requests", "500", "--full"])
            .current_dir(folder)
            .env("TMPDIR", folder)
            .stdin(Stdio::null());
        command.env("PATH", folder.join("bin")).env_remove("HOLDFAST_PEERS");
        command
    }

    /// Whether this machine has no nginx in the system's folders.
    fn lacks_nginx() -> bool {
        !["/usr/local/sbin", "/usr/sbin", "/sbin"].iter().any(|folder| Path::new(folder).join("nginx").exists())
    }
}

/// The output with line breaks as spaces.
fn flat(output: &Output) -> String {
    text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Files of a run that did not clean up, except the folders of this test.
fn left_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("it is there").flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with("holdfast-lab-")).collect()
}

/// Processes with the folder in their command line: all files of a run are there.
fn started_in(folder: &Path) -> Vec<u32> {
    let folder = folder.to_string_lossy().into_owned();
    let all = fs::read_dir("/proc").expect("it is mounted").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| text(&words).contains(&folder)))
        .collect()
}

#[test]
fn demo_runs_without_nginx_or_namespaces_and_says_so() {
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

/// The user `nobody`, by number.
const NOBODY: u32 = 65_534;

/// The command as a plain user on a machine that allows no namespaces: inside a user namespace that maps only the user
/// `nobody`, as in a container without rights.
fn as_plain_user(command: &Command) -> Command {
    let plain = |program: &OsStr| {
        let mut command = Command::new(program);
        if nix::unistd::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    };
    let may = plain(OsStr::new("unshare")).args(["--user", "true"]).current_dir("/").stderr(Stdio::null()).status();
    // Where users may make no namespace at all, the test needs no restriction.
    let mut denied = if may.is_ok_and(|status| status.success()) {
        let mut denied = plain(OsStr::new("unshare"));
        denied.arg("--user").arg(command.get_program());
        denied
    } else {
        plain(command.get_program())
    };
    denied.args(command.get_args()).stdin(Stdio::null());
    denied.current_dir(command.get_current_dir().expect("it has a folder of its own"));
    command.get_envs().for_each(|(name, value)| _ = value.map(|value| denied.env(name, value)));
    denied
}

#[test]
fn plain_user_gets_the_loopback_demo_with_its_limits() {
    let _alone = alone();
    let bare = Bare::new();
    if nix::unistd::geteuid().is_root() {
        chown(bare.folder.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    let mut command = as_plain_user(&bare.demo());
    // ip and unshare are installed, but they fail.
    let output = command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).output().expect("it starts");
    let (said, told) = (text(&output.stderr), flat(&output));
    assert_eq!(output.status.code(), Some(0), "{said}{told}");
    assert!(said.contains("network: Loopback, since no network namespace can be made: ip: "), "{said}");
    for words in [
        "network the machine's own loopback: both ends of a connection and the machine's other sockets are counted on every host, what \
         a sample leaves in TIME_WAIT is there for the next one, sysctls are the machine's, and tcp_tw_reuse = 2 takes ports out of \
         TIME_WAIT after a second",
        "network instead of what was asked for, since no network namespace can be made: ip: ",
        "(be root, or let users have namespaces: kernel.unprivileged_userns_clone = 1",
        "Without a pool holdfast opened",
    ] {
        assert!(told.contains(words), "{words:?} is not in\n{}", text(&output.stdout));
    }
    assert_eq!(left_in(bare.folder.path()), [""; 0]);
}

#[test]
fn on_one_core_it_says_that_all_share_it() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let demo = demo(folder.path(), &["--rounds", "1", "--requests", "500", "--full"]);
    // The first processor that this test may use.
    let cores = sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("the kernel tells");
    let core = (0..CpuSet::count()).find(|core| cores.is_set(*core).is_ok_and(|is| is)).expect("it runs on one");
    let mut on_one = Command::new("taskset");
    on_one.args(["--cpu-list", &core.to_string()]).arg(demo.get_program()).args(demo.get_args());
    on_one.current_dir(folder.path()).stdin(Stdio::null());
    demo.get_envs().for_each(|(name, value)| _ = value.map(|value| on_one.env(name, value)));
    let output = on_one.output().expect("util-linux is installed");
    let told = flat(&output);
    assert_eq!(output.status.code(), Some(0), "{}{told}", text(&output.stderr));
    for words in [
        "processor 1 × ",
        "client, proxy and origin have one core together, on which each waits for the others",
        "Without a pool holdfast opened",
    ] {
        assert!(told.contains(words), "{words:?} is not in\n{}", text(&output.stdout));
    }
    assert_eq!(left_in(folder.path()), [""; 0]);
}

#[test]
fn output_into_a_pipe_is_plain_text() {
    let _alone = alone();
    let bare = Bare::new();
    let output = bare.demo().output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for (name, bytes) in [("standard output", &output.stdout), ("standard error", &output.stderr)] {
        let steers = |letter: char| letter.is_control() && letter != '\n';
        assert!(!text(bytes).contains(steers), "{name} steers a terminal: {:?}", text(bytes));
    }
    // One line per sample, so that a log is readable; the summary is no wider than a mail.
    let lines: Vec<String> = text(&output.stderr).lines().map(str::to_owned).collect();
    let taken = |line: &&String| line.starts_with('[') && line.contains("requests/s");
    assert!(lines.iter().filter(taken).count() >= 3, "{lines:?}");
    let wide: Vec<String> =
        text(&output.stdout).lines().filter(|line| line.chars().count() > 120).map(str::to_owned).collect();
    assert_eq!(wide, [""; 0]);
}

#[test]
fn every_demo_arm_answers_and_pooling_saves_connections() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    // Several rounds: on a busy machine the sample of one may be void.
    let output = demo(folder.path(), &["--rounds", "4", "--requests", "500", "--json"]).output().expect("it starts");
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
        // The row says behind the name how many samples are void.
        let is_of_arm = |name: &str| name == arm || name.strip_prefix(arm).is_some_and(|rest| rest.starts_with(" ("));
        let row = table.rows.iter().find(|row| is_of_arm(&row[0].to_string()));
        let row = row.unwrap_or_else(|| panic!("no row {arm} in {:?}: {}", table.rows, text(&output.stderr)));
        match &row[at] {
            report::Cell::Figure(figure) => figure.value(),
            report::Cell::Text(text) => panic!("{text} in row {arm}, column {column}"),
        }
    };
    let requests = |arm| value("Throughput of all loads together", arm, "requests");
    for arm in ["direct", "holdfast unpooled", "holdfast pooled"] {
        assert!(requests(arm) > 0.0);
        assert_eq!(value("Throughput of all loads together", arm, "failed").to_bits(), 0.0_f64.to_bits(), "{arm}");
    }
    // In every arm the client opens a connection for each request. The proxy, or another process on the same loopback,
    // opened the others.
    let counters = "The kernel's counters, growth over the load, by host";
    let opened = |arm| value(counters, "tcp.here.Tcp.ActiveOpens", arm) - requests(arm);
    assert!(opened("holdfast unpooled") >= requests("holdfast unpooled"));
    assert!(opened("holdfast pooled") < requests("holdfast pooled") / 2.0);
    assert_eq!(left_in(folder.path()), [""; 0]);
}

#[test]
fn interrupt_ends_all_processes_and_prints_results() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = demo(folder.path(), &["--rounds", "50", "--requests", "500", "--seconds", "600"]);
    let running = Running::start(&mut command);
    // A sample is printed after it was taken, before the servers of the next one start.
    while !running.wait_for_error("[1/").starts_with("[1/") {}
    until("the servers of the next sample run", || !started_in(folder.path()).is_empty());
    running.signal(Signal::SIGINT);
    let ended = running.end();
    ended.assert_code(1);
    ended.assert_reports(&["interrupted"]);
    let told = ended.stdout;
    assert!(
        told.contains("This is partial: pool-throughput/experiment.toml:") && told.contains("requests/s"),
        "{told}"
    );
    assert_eq!(started_in(folder.path()), [0; 0], "processes are left");
    assert_eq!(left_in(folder.path()), [""; 0]);
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let own = format!("holdfast-lab-{}-", ended.id);
    let names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    assert!(!names.iter().any(|name| name.starts_with(&own)), "{names:?}");
}

#[test]
fn a_closed_output_does_not_stop_it() {
    let _alone = alone();
    let bare = Bare::new();
    let command = bare.demo();
    // This shell is found without $PATH; it closes the program's standard output.
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
