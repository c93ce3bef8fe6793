//! Eight agents in network namespaces of their own, as on eight machines: one is killed, one is paused, and the link of one is cut. All
//! three are named, and the figures of the others are whole.

use crate::support::farm::FarmAgent;
use crate::support::load::{load, start, text};
use crate::support::{holdfast, until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;
use testkit::{Nats, output_for, with_own_network};

const AGENTS: usize = 8;

/// Runs lines of commands with `ip`, in the network namespace of this thread unless `more` says another.
fn ip(more: &[&str], lines: &str) {
    let output = output_for(Command::new("ip").args(more).args(["-batch", "-"]), lines);
    assert!(output.status.success(), "{lines}{}", text(&output.stderr));
}

/// A bridge in the namespace of this thread, and namespaces that are connected to it.
struct Network {
    names: Vec<String>,
}

impl Network {
    fn new() -> Self {
        let names: Vec<String> = (0..AGENTS).map(|at| format!("holdfast-farm-{}-{at}", std::process::id())).collect();
        let mut lines =
            "link add bridge0 type bridge\naddr add 10.99.0.1/24 dev bridge0\nlink set bridge0 up\n".to_owned();
        for (at, name) in names.iter().enumerate() {
            let _ = write!(
                lines,
                "netns add {name}\nlink add cable{at} type veth peer name eth0 netns {name}\nlink set cable{at} master bridge0 up\n"
            );
        }
        ip(&[], &lines);
        let network = Self { names };
        for (at, name) in network.names.iter().enumerate() {
            let lines = format!("addr add 10.99.0.{}/24 dev eth0\nlink set eth0 up\nlink set lo up\n", 10 + at);
            ip(&["-netns", name], &lines);
        }
        network
    }

    /// The command in the namespace of an agent.
    fn inside(&self, agent: usize, command: &Command) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.names[agent]]).arg(command.get_program()).args(command.get_args());
        inside
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

/// The seconds for which an agent sent nothing, in the line of the report about it.
fn silence(said: &str, agent: &str) -> f64 {
    let lead = format!("agent `{agent}` sent nothing for ");
    let (_, rest) = said.split_once(&lead).unwrap_or_else(|| panic!("{agent} is not named: {said}"));
    rest.split_once(" s").and_then(|(seconds, _)| seconds.parse().ok()).expect("a number of seconds")
}

/// Runs a load, and does something once it has answers. Returns the exit code and the report.
fn during(words: &[&str], what: impl FnOnce()) -> (Option<i32>, String) {
    let load = start(words);
    load.wait_for_error("responses/s");
    what();
    let ended = load.end();
    (ended.status.code(), ended.stdout)
}

#[test]
fn lost_agents_are_named_and_others_keep_their_figures() {
    with_own_network(|| {
        let network = Network::new();
        let nats = Nats::start("authorization { users = [ { user: farm, password: \"sesame\" } ] }");
        let folder = tempfile::tempdir().expect("a temporary directory");
        let password = folder.path().join("password").to_string_lossy().into_owned();
        fs::write(&password, "sesame\n").expect("written");
        let listen = vec![std::net::SocketAddr::from(([10, 99, 0, 1], 0)).into()];
        let origin = origin::Origin::bind(origin::Options { listen, ..origin::Options::default() });
        let origin = origin.and_then(origin::Origin::start).expect("it starts");
        let server = format!("nats://10.99.0.1:{}", nats.port());
        let access = ["--allow", "10.99.0.0/24", "--user", "farm", "--password-file", &password];
        let start = |at: usize| {
            let around = |command: Command| network.inside(at, &command);
            FarmAgent::start_as(around, &server, &format!("machine-{at}"), &access)
        };
        let agents: Vec<FarmAgent> = (0..AGENTS).map(start).collect();
        let (farm, url) = (nats.url(), format!("http://{}/", origin.address()));
        let credentials = ["--farm", &farm, "--farm-user", "farm", "--farm-password-file", &password, "--agents", "8"];

        // All of them, whole.
        let json = folder.path().join("whole.json").to_string_lossy().into_owned();
        let words = ["-q", "-R", "400/s", "-d", "2s", "-c", "16", "--allow-lag", "--json", &json, &url];
        let output = load(&[credentials.as_slice(), &words].concat());
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
        assert!(said.contains("8 agents began within "), "{said}");
        let results: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("it is JSON");
        assert_eq!(results["requests"].as_u64(), Some(800), "each arrival once: {said}");
        for agent in results["agents"].as_array().expect("a list") {
            // The namespaces have one clock.
            let (offset, error) = (agent["clock_offset_ns"].as_i64(), agent["clock_error_ns"].as_u64());
            assert!(offset.zip(error).is_some_and(|(offset, error)| offset.unsigned_abs() <= error + 1), "{agent}");
        }

        // Three of them fail.
        let words = ["-R", "80/s", "-d", "6s", "-c", "16", "--interval", "500ms", &url];
        let (code, said) = during(&[credentials.as_slice(), &words].concat(), || {
            assert_eq!(agents[1].parts().len(), 1);
            agents[1].signal(Signal::SIGKILL);
            agents[2].signal(Signal::SIGSTOP);
            ip(&[], "link set cable3 down\n");
        });
        assert_eq!(code, Some(4), "{said}");
        for (agent, figures) in agents.iter().enumerate() {
            let is_void = said.contains(&format!("VOID        agent `{}`", figures.name));
            assert_eq!(is_void, (1..=3).contains(&agent), "{}: {said}", figures.name);
        }
        for agent in &agents[1..=3] {
            let seconds = silence(&said, &agent.name);
            assert!((1.9..2.5).contains(&seconds), "{seconds}");
        }

        // The paused one and the one that was cut off take orders again.
        agents[2].signal(Signal::SIGCONT);
        ip(&[], "link set cable3 up\n");
        until("both are free", || {
            let mut status = holdfast();
            status.args(["load", "farm-status", &farm, "--user", "farm", "--password-file", &password]);
            let listed = text(&status.output().expect("it starts").stdout);
            [2, 3].iter().all(|agent| listed.contains(&format!("{:<24} idle", agents[*agent].name)))
        });
        let words = ["-q", "--agents", "7", "-n", "70", "-c", "14", "--allow-lag", &url];
        let without_agents = &credentials[..credentials.len() - 2];
        let output = load(&[without_agents, &words].concat());
        assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    });
}
