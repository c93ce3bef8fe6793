//! `holdfast lab run` with faults: interruptions and kills at every stage, experiments that cannot run, processes that
//! die or never serve, full disks, missing programs and permissions. Real processes in network namespaces. After each
//! fault the tests check the exit code, the messages, the record, and that nothing else is left.

mod bad_input;
mod control;
mod interrupted;
mod plain_user;

use lab::Record;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use testkit::{Ended, Running};

/// nginx behind Holdfast, each on its own host. `WARM_UP`, `IDLE` and `SECONDS` vary, and `MORE` is a place for more
/// text.
const CHAIN: &str = r#"
name = "chain"
title = "Two servers"
about = "One behind the other."

[method]
rounds = 2
warm_up = WARM_UP
idle = IDLE
look = 0.1

[hosts.client]
[hosts.proxy]
[hosts.origin]

[files."nginx.conf"]
text = """
worker_processes 1;
events { worker_connections 64; }
http { access_log off; server { listen {{origin}}:8081; location / { return 200 "x"; } } }
"""

[files."proxy.conf"]
text = """
worker_processes 1;
events { worker_connections 64; }
http { access_log off; server { listen {{proxy}}:8080; location / { proxy_pass http://{{origin}}:8081; } } }
"""

[[process]]
name = "origin"
host = "origin"
program = "nginx"
conf = "nginx.conf"
ready = { tcp = "{{origin}}:8081" }

[[process]]
name = "proxy"
host = "proxy"
program = "holdfast"
conf = "proxy.conf"
ready = { http = "http://{{proxy}}:8080/" }

MORE

[[load]]
url = "http://{{proxy}}:8080/"
arguments = ["-c", "2"]
seconds = SECONDS

[[arm]]
name = "only"
"#;

/// The chain with these times, in seconds.
fn chain(idle: &str, warm_up: &str, seconds: &str, more: &str) -> String {
    CHAIN.replace("WARM_UP", warm_up).replace("IDLE", idle).replace("SECONDS", seconds).replace("MORE", more)
}

/// A folder with an experiment, with one folder for temporary files of runs and one for results.
struct Bench {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Bench {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("tmp")).expect("there is room");
        let bench = Self { folder, program: PathBuf::from(env!("CARGO_BIN_EXE_holdfast")) };
        bench.write(text);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, text: &str) {
        fs::write(self.path("x.toml"), text).expect("there is room");
    }

    /// `holdfast lab run x.toml` with these flags.
    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["lab", "run", "x.toml", "--out", "results", "--full"])
            .args(flags)
            .current_dir(self.folder.path());
        let nginx = testkit::peer_program("nginx");
        command.env("HOLDFAST_PEERS", nginx.parent().expect("a folder"));
        command.env("TMPDIR", self.path("tmp")).env("XDG_CACHE_HOME", self.path("cache")).env("NO_COLOR", "1");
        command.stdin(Stdio::null());
        command
    }

    fn start(&self, flags: &[&str]) -> Running {
        Running::start(&mut self.command(flags))
    }

    /// Runs it to the end.
    fn run(&self, flags: &[&str]) -> Ended {
        self.start(flags).end()
    }

    /// Waits until a run's sample has this file.
    fn wait_for(&self, run: &mut Running, file: &str) {
        let path = self.path("tmp").join(format!("holdfast-lab-{}", run.id())).join("sample").join(file);
        run.until(&format!("{} is there", path.display()), || path.exists().then_some(()));
    }

    /// The only record.
    fn record(&self) -> Record {
        let entries = fs::read_dir(self.path("results")).expect("results");
        let files = entries.map(|entry| entry.expect("an entry").path());
        let mut records = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let record = records.next().expect("a record");
        assert_eq!(records.next(), None, "one record");
        Record::read(&record).expect("whole")
    }

    /// Processes with this folder as working directory or in their command lines.
    fn processes(&self) -> Vec<String> {
        let folder = self.path("tmp").display().to_string();
        let all = fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path());
        let ours = all.filter_map(|process| {
            let line = fs::read(process.join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let at = fs::read_link(process.join("cwd")).unwrap_or_default().display().to_string();
            (line.contains(&folder) || at.contains(&folder)).then_some(line)
        });
        ours.collect()
    }

    /// Asserts that nothing is left of the run with this process id: no process, no folder, no namespace.
    fn assert_clean(&self, run: u32) {
        assert_eq!(self.processes(), [""; 0], "every process has ended");
        let left: Vec<_> =
            fs::read_dir(self.path("tmp")).expect("a folder").flatten().map(|it| it.file_name()).collect();
        assert_eq!(left, [""; 0], "the run's folder is gone");
        assert_eq!(namespaces(run), [""; 0], "every namespace is gone");
    }
}

/// The names of namespaces that a run has made.
fn namespaces(run: u32) -> Vec<String> {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&format!("holdfast-lab-{run}-"))).collect()
}

/// The position of a part of the text, as in messages.
fn place_of(text: &str, part: &str) -> String {
    let before = text.split(part).next().expect("text");
    format!("x.toml:{}:", before.matches('\n').count() + 1)
}
