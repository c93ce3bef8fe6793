//! A machine of its own for programs as packages install them: a mount namespace in which `/etc`, `/var/lib`,
//! `/var/log` and `/run` are folders of the test. Programs start as root there and give up rights by `user`.

use super::{lives, pid, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::User;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Folders that are private to the namespace.
const FOLDERS: [&str; 4] = ["etc", "var/lib", "var/log", "run"];
/// Files of `/etc` that programs read.
const FILES_OF_ETC: [&str; 5] = ["passwd", "group", "nsswitch.conf", "hosts", "resolv.conf"];
/// Masters that may run when the test ends.
const PID_FILES: [&str; 3] = ["/run/holdfast.pid.oldbin", "/run/holdfast.pid", "/run/nginx.pid"];

/// The machine. Dropping it ends the masters with a pid file in `/run`.
pub(crate) struct Machine {
    root: tempfile::TempDir,
    /// Holds the namespace while its standard input is open.
    holder: Child,
    /// An unprivileged user.
    pub(crate) user: User,
}

impl Machine {
    /// `None`, with the reason printed, where no mount namespace can be made.
    pub(crate) fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            return skip("it takes root");
        }
        let user = ["www-data", "nobody"].into_iter().find_map(|name| User::from_name(name).ok().flatten());
        let Some(user) = user else { return skip("there is no user www-data or `nobody`") };
        let root = tempfile::tempdir().expect("a temporary directory");
        for folder in FOLDERS {
            fs::create_dir_all(root.path().join(folder)).expect("made");
        }
        for name in FILES_OF_ETC {
            // A file that the machine does not have is not needed.
            let _ = fs::copy(Path::new("/etc").join(name), root.path().join("etc").join(name));
        }
        let mounts: Vec<String> =
            FOLDERS.iter().map(|name| format!("mount --bind {}/{name} /{name}", root.path().display())).collect();
        let script = format!("{} && echo ready && read line", mounts.join(" && "));
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("util-linux is there");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut line).expect("read");
        if line != "ready\n" {
            let _ = holder.wait();
            return skip("mount namespaces are not permitted here");
        }
        Some(Self { root, holder, user })
    }

    /// The path of a file of the machine, outside of the namespace.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// The content of a file; empty if there is none.
    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    /// Writes a file with these permissions. Missing folders are made, for everybody to enter.
    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>, mode: u32) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("made");
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    }

    /// Makes a folder that belongs to the unprivileged user.
    pub(crate) fn give_folder(&self, path: &str) {
        let path = self.path(path);
        fs::create_dir_all(&path).expect("made");
        nix::unistd::chown(&path, Some(self.user.uid), Some(self.user.gid)).expect("root may");
    }

    /// Runs a program to its end, or until it serves in the background.
    pub(crate) fn run(&self, program: impl AsRef<Path>, flags: &[&str]) -> Output {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.holder.id().to_string(), "--"]);
        command.arg(program.as_ref()).args(flags).stdin(Stdio::null());
        command.output().expect("util-linux is there")
    }

    /// As [`Self::run`]; it must succeed.
    pub(crate) fn must(&self, program: impl AsRef<Path>, flags: &[&str]) {
        let output = self.run(program, flags);
        assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The pid in a pid file.
    pub(crate) fn pid_in(&self, path: &str) -> Option<u32> {
        self.text(path).trim_end().parse().ok()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for name in PID_FILES {
            let Some(master) = self.pid_in(name).filter(|master| lives(*master)) else { continue };
            let _ = kill(pid(master), Signal::SIGTERM);
            until("the master has ended", || !lives(master));
        }
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

#[allow(clippy::unnecessary_wraps)] // the value of its caller
fn skip(why: &str) -> Option<Machine> {
    testkit::skip(why);
    None
}
