//! Agents in threads of the test, and parts that say lines which the test has written.

use farm::{Access, AgentOptions, AllowList, Beat, Farm, Hire, run_agent};
use load::{HttpRecord, Options, Prepared, Summary, Tally, Target, prepare_within};
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use testkit::{DEADLINE, Nats};

/// The name of all farms of the tests: each has its own server.
pub(crate) const FARM: &str = "test";

/// An agent in a thread.
pub(crate) struct Agent {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// An agent with parts that print a file: the second half once the file `go` is there.
    pub(crate) fn start(nats: &Nats, name: &str, folder: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, folder) = (Arc::clone(&stop), folder.to_owned());
        let options = AgentOptions {
            access: Access::new(&nats.url(), None, "--").expect("loopback"),
            farm: FARM.parse().expect("a name"),
            name: name.parse().expect("a name"),
            allow: AllowList::default(),
            command: Arc::new(move || part(&folder)),
            once: false,
            say: |_| (),
        };
        let thread = std::thread::spawn(move || run_agent(&options, &told).expect("the agent serves"));
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A part that takes its order and the start, and prints the lines of its number.
fn part(folder: &Path) -> Command {
    let script = r#"
        read -r order
        index=${order#*'"index":'}; index=${index%%[!0-9]*}
        echo '"ready"'
        read -r begin
        cat "$index.first"
        while [ -e hold ]; do sleep 0.05; done
        cat "$index.second"
    "#;
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder);
    command
}

/// Latencies of one worker: of each interval.
pub(crate) type Samples = Vec<Vec<u64>>;

/// Writes what a part with one worker says: the first interval, and after it the others.
pub(crate) fn write_part(folder: &Path, index: usize, samples: &Samples) {
    let mut halves = [format!("{}\n", json!({"began": {"late_ns": 1_000 * index}})), String::new()];
    let last = samples.len() - 1;
    for (interval, latencies) in samples.iter().enumerate() {
        let mut tally = Tally::default();
        for latency_ns in latencies {
            tally.begun += 1;
            tally.responses += 1;
            tally.latency.record(*latency_ns);
        }
        let record = HttpRecord { targets: vec![tally], ..HttpRecord::default() };
        let said =
            json!({"interval": {"worker": index, "interval": interval, "record": record, "last": interval == last}});
        let _ = writeln!(halves[usize::from(interval > 0)], "{said}");
    }
    let ended_ns = samples.len() as u64 * 1_000_000_000;
    let done = json!({"done": {"worker": index, "ended_ns": ended_ns, "completed_ns": ended_ns}});
    let _ = writeln!(halves[1], "{done}\n\"end\"");
    let [first, second] = halves;
    fs::write(folder.join(format!("{index}.first")), first).expect("written");
    fs::write(folder.join(format!("{index}.second")), second).expect("written");
}

/// The file that holds the second half of all parts back.
pub(crate) fn hold(folder: &Path) -> PathBuf {
    folder.join("hold")
}

/// The coordinator of these agents.
pub(crate) fn coordinator(nats: &Nats, agents: usize) -> (Farm, Vec<Beat>) {
    let access = Access::new(&nats.url(), None, "--").expect("loopback");
    let farm = Farm::connect(&access, FARM.parse().expect("a name")).expect("connected");
    let agents = farm.gather(Some(agents), DEADLINE).expect("they are there");
    (farm, agents)
}

/// A load of one thread for each agent, which no part sends.
pub(crate) fn load(agents: &[Beat]) -> Prepared {
    let target = Target::new("http://127.0.0.1:9/".parse().expect("a URL"));
    let count = agents.len();
    let duration = Some(Duration::from_secs(4));
    let options =
        Options { connections: count, threads: count, processes: Some(count), duration, ..Options::new(target) };
    prepare_within(options, &Farm::limits(agents).expect("there are agents")).expect("prepared")
}

/// Runs the load on these agents; `during` is called after each interval that all have finished.
pub(crate) fn run(farm: &Farm, agents: Vec<Beat>, how: Hire, during: impl FnMut(u64)) -> Summary {
    let prepared = load(&agents);
    let running = prepared.start_on(farm.hire(agents, how).expect("hired")).expect("started");
    let mut during = during;
    running.watch(|interval| during(interval.number)).expect("it ends")
}
