//! A user without privileges: root of a user namespace if that is allowed, on loopback otherwise; and missing programs.

use super::{Bench, Ended, Running, chain, place_of};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user `nobody`, by number.
const NOBODY: u32 = 65_534;

/// Runs the command as a plain user if the test runs as root.
fn as_plain_user(command: &mut Command) {
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
}

impl Bench {
    /// Gives the plain user everything in the folder, and puts the program where that user can start it.
    fn of_plain_user(mut self) -> Self {
        self.program = self.program_apart(self.folder.path());
        if nix::unistd::geteuid().is_root() {
            // The permissions do not depend on the umask of the user that runs the tests.
            for path in [".", "x.toml", "tmp", "a", "a/b"] {
                chown(self.path(path), Some(NOBODY), Some(NOBODY)).expect("root may");
            }
        }
        self
    }

    /// A copy of the program in another folder, with no peers beside it.
    fn program_apart(&self, folder: &Path) -> PathBuf {
        let apart = folder.join("a/b/holdfast");
        fs::create_dir_all(folder.join("a/b")).expect("there is room");
        let linked = fs::hard_link(&self.program, &apart);
        linked.or_else(|_| fs::copy(&self.program, &apart).map(|_| ())).expect("there is room");
        apart
    }
}

fn run_as_plain_user(command: &mut Command) -> Ended {
    as_plain_user(command);
    Running::start(command).end()
}

/// Why a plain user has no namespaces here; `None` if they work.
fn why_no_user_namespaces() -> Option<String> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--net", "--mount", "true"]).current_dir("/");
    as_plain_user(&mut unshare);
    let output = unshare.output().expect("unshare is there");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn plain_user_gets_namespaces_and_privileged_arms_are_absent() {
    if let Some(why) = why_no_user_namespaces() {
        return testkit::skip(&format!("a plain user may not have namespaces here: {why}"));
    }
    let arms = "sysctls = { proxy = { \"net.ipv4.ip_local_port_range\" = \"40000 40999\" } }\n\
                [[arm]]\nname = \"deep\"\nsysctls = { proxy = { \"net.core.somaxconn\" = \"77\" } }\n";
    let bench = Bench::new(&(chain("0.0", "0.0", "0.2", "") + arms)).of_plain_user();
    let ended = run_as_plain_user(&mut bench.command(&["--rounds", "1"]));
    if ended.stderr.contains("nginx is not there") {
        return testkit::skip("a plain user cannot enter the folder of nginx");
    }
    ended.assert_code(0);
    ended.assert_reports(&["network: Hosts: a network namespace for each host"]);
    let record = bench.record();
    let of = |name: &str| record.fingerprint.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    assert_eq!(of("run by"), Some("root of a user namespace, with no rights over the machine"));
    let sample = record.samples.iter().find(|sample| sample.arm == "only").expect("taken");
    assert!(sample.figures["requests"] > 0.0 && sample.figures["failed"] == 0.0, "{sample:?}");
    // Kernels differ in whether a user may set it; either way the record reports it.
    match record.absent.as_slice() {
        [] => assert!(record.samples.iter().any(|sample| sample.arm == "deep"), "{record:?}"),
        [(arm, why)] => {
            assert_eq!(arm, "deep");
            let said = why.contains("as root of a user namespace cannot set net.core.somaxconn = 77 on host proxy");
            assert!(said && why.ends_with("run it as root of the machine"), "{why}");
        }
        more => panic!("{more:?}"),
    }
    bench.assert_clean(ended.id);
}

/// A folder of links to these programs only, used as the whole `$PATH`.
fn path_of(bench: &Bench, programs: &[&str]) -> PathBuf {
    let bin = bench.path("bin");
    fs::create_dir(&bin).expect("there is room");
    fs::set_permissions(&bin, fs::Permissions::from_mode(0o755)).expect("ours");
    for name in programs {
        let folders = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|file| file.exists());
        symlink(found.unwrap_or_else(|| panic!("no {name}")), bin.join(name)).expect("there is room");
    }
    bin
}

/// One of our origins, on any kind of network; `MORE` is a place for arms.
const ORIGIN: &str = r#"
name = "origin"
title = "An origin"
about = "By itself."

[method]
rounds = 1
warm_up = 0.0
look = 0.1

[hosts.client]
[hosts.origin]

[[process]]
name = "origin"
host = "origin"
program = "holdfast"
arguments = ["origin", "--listen", "{{origin}}:PORT"]
ready = { tcp = "{{origin}}:PORT" }

[[load]]
url = "http://{{origin}}:PORT/"
arguments = ["-c", "2"]
seconds = 0.2

[[arm]]
name = "ours"
"#;

#[test]
fn runs_on_loopback_without_namespaces_and_reports_why() {
    let port = std::net::TcpListener::bind("127.77.1.1:0").expect("bound").local_addr().expect("bound").port();
    let bench = Bench::new(&ORIGIN.replace("PORT", &port.to_string())).of_plain_user();
    let path = path_of(&bench, &["sh", "prlimit"]);
    let mut command = bench.command(&[]);
    let ended = run_as_plain_user(command.env("PATH", path));
    ended.assert_code(0);
    ended.assert_reports(&[
        "network: Loopback, since no network namespace can be made: cannot start ip (install iproute2)",
    ]);
    let record = bench.record();
    let why = record.fingerprint.iter().find(|(name, _)| name == "network instead of what was asked for, since");
    assert!(why.is_some_and(|(_, why)| why.contains("let users have namespaces")), "{:?}", record.fingerprint);
    assert!(record.samples[0].figures["requests"] > 0.0);
    bench.assert_clean(ended.id);
}

#[test]
fn missing_programs_are_named_with_their_packages() {
    let text = ORIGIN.replace("PORT", "8081") + "[[arm]]\nname = \"in Go\"\nprograms = { origin = \"go\" }\n";
    let wrk = text.replace("[[load]]\n", "[[load]]\nprogram = \"wrk\"\n");
    for (text, part, who, program, package) in
        [(&text, "[[process]]", "process origin", "go", "golang-go"), (&wrk, "[[load]]", "load client", "wrk", "wrk")]
    {
        let mut bench = Bench::new(text);
        bench.program = bench.program_apart(bench.folder.path());
        let path = path_of(&bench, &["sh", "prlimit", "ip", "unshare", "mount"]);
        let mut command = bench.command(&[]);
        command.env("PATH", path).env_remove("HOLDFAST_PEERS");
        let ended = Running::start(&mut command).end();
        let place = place_of(text, part);
        let said = format!(
            "{place}1: {who}: {program} is not there: in a checkout of Holdfast `cargo xtask peers` puts it under"
        );
        ended.assert_reports(&[&said, &format!("elsewhere install the Debian package {package}, or have it on $PATH")]);
        let absent: Vec<String> = bench.record().absent.into_iter().map(|(arm, _)| arm).collect();
        let all = if program == "go" { vec!["in Go"] } else { vec!["ours", "in Go"] };
        assert_eq!(absent, all);
        ended.assert_code(i32::from(program == "wrk"));
        bench.assert_clean(ended.id);
    }
}
