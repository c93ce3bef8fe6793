//! Network namespaces: whether they are to be had, one for a command line that ends with it, and those with names that the
//! network of an experiment is made of. Made with util-linux and iproute2, so that a person can look into them with the same
//! programs. Called by `network`, and by `cargo xtask bench` for its samples.

use super::StageError;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `ip netns` keeps the names of namespaces.
pub(super) const NAMES: &str = "/run/netns";

/// This program in a network namespace that ends with it, and with it every socket: what an experiment leaves in TIME_WAIT
/// is not there for the next one.
pub fn in_namespace() -> Result<Command, StageError> {
    let mut inside = unshared();
    inside.args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]).arg(std::env::current_exe()?);
    Ok(inside)
}

/// What begins a command line in a new namespace. A plain user is root in it.
fn unshared() -> Command {
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.arg("--net");
    unshare
}

/// Says that this process was started by [`again_as_root`].
const INSIDE: &str = "HOLDFAST_LAB_INSIDE";

/// Whether this process is root of a user namespace that [`again_as_root`] has made, and has no rights over the machine.
pub(super) fn is_users_own() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// For a plain user: the same command line again, as root of a user namespace, where namespaces can have names. `None`: this
/// is root already, or has tried.
pub fn again_as_root() -> Option<Command> {
    if rustix::process::geteuid().is_root() || std::env::var_os(INSIDE).is_some() {
        return None;
    }
    // The names of namespaces are below /run, which is root's: here it is ours.
    let prepared = "mount -t tmpfs tmpfs /run && ip link set lo up";
    let mut may = Command::new("unshare");
    may.args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", prepared]);
    let may = may.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut again = Command::new("unshare");
    again.args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c"]);
    again.args([&format!("{prepared} && exec \"$@\""), "sh"]);
    again.arg(std::env::current_exe().ok()?).args(std::env::args_os().skip(1)).env(INSIDE, "1");
    Some(again)
}

/// Has `ip` work through lines of its own language; the first that fails is the error.
pub(super) fn ip(lines: &str) -> Result<(), StageError> {
    ip_with(&[], lines)
}

fn ip_with(options: &[&str], lines: &str) -> Result<(), StageError> {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new("ip");
    command.args(options).args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    // A ctrl-C on the terminal is not for it: half a network would be left, or one that stays.
    command.process_group(0);
    let mut child =
        command.spawn().map_err(|error| StageError::new(format!("cannot start ip (install iproute2): {error}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that has ended at a mistake does not read the rest, and says why below.
        let _ = stdin.write_all(lines.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(StageError::new(format!("ip: {}", String::from_utf8_lossy(&output.stderr).trim_end())))
}

/// The file of a namespace that has a name.
pub(super) fn file_of(name: &str) -> PathBuf {
    Path::new(NAMES).join(name)
}

/// All names that begin so.
pub(super) fn names_with(prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(NAMES).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.starts_with(prefix)).collect()
}

/// Removes namespaces; what still runs in them goes on without a name.
pub(super) fn remove(names: &[String]) {
    if names.is_empty() {
        return;
    }
    let lines: Vec<String> = names.iter().map(|name| format!("netns delete {name}\n")).collect();
    // By force: one that has gone does not keep the others.
    let _ = ip_with(&["-force"], &lines.concat());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_told_in_the_words_of_ip() {
        let error = ip("link set no-such-interface up\n").unwrap_err().to_string();
        assert!(error.contains("no-such-interface"), "{error}");
        ip("link show lo\n").unwrap();
    }
}
