//! Network namespaces: whether they are available, one for a single command line, and the named ones of an experiment's
//! network. They are created with util-linux and iproute2, so that a user can inspect them with the same programs. Called
//! by `network`, and by `cargo xtask bench` for its samples.

use super::StageError;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of `ip netns` with the names of namespaces.
pub(super) const NAMES: &str = "/run/netns";

/// A command that runs this program in its own network namespace. All its sockets end with the namespace, so the next run
/// does not see TIME_WAIT of this one.
pub fn in_namespace() -> Result<Command, StageError> {
    let mut inside = unshared();
    inside.args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]).arg(std::env::current_exe()?);
    Ok(inside)
}

/// The start of a command line in a new namespace. An unprivileged user is root in it.
fn unshared() -> Command {
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.arg("--net");
    unshare
}

/// Set in a process that [`again_as_root`] has started.
const INSIDE: &str = "HOLDFAST_LAB_INSIDE";

/// Whether this process is root only in a user namespace that [`again_as_root`] created, without rights over the machine.
pub(super) fn is_users_own() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// For an unprivileged user: the same command line again, as root of a user namespace, where namespaces can have names.
/// `None` if this process is root already or has tried.
pub fn again_as_root() -> Option<Command> {
    if rustix::process::geteuid().is_root() || std::env::var_os(INSIDE).is_some() {
        return None;
    }
    // The names of namespaces are below /run, which belongs to root; mount our own /run here.
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

/// Runs lines of commands with `ip -batch`; the first one that fails is the error.
pub(super) fn ip(lines: &str) -> Result<(), StageError> {
    ip_with(&[], lines)
}

fn ip_with(options: &[&str], lines: &str) -> Result<(), StageError> {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new("ip");
    command.args(options).args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Keeps Ctrl-C on a terminal away from it: interrupting it would leave half a network behind.
    command.process_group(0);
    let mut child =
        command.spawn().map_err(|error| StageError::new(format!("cannot start ip (install iproute2): {error}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it ended at an error, it does not read the rest, and reports the error below.
        let _ = stdin.write_all(lines.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(StageError::new(format!("ip: {}", String::from_utf8_lossy(&output.stderr).trim_end())))
}

/// The file of a named namespace.
pub(super) fn file_of(name: &str) -> PathBuf {
    Path::new(NAMES).join(name)
}

/// All names with this prefix.
pub(super) fn names_with(prefix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(NAMES).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.starts_with(prefix)).collect()
}

/// Removes namespaces; programs that still run in them continue without the name.
pub(super) fn remove(names: &[String]) {
    if names.is_empty() {
        return;
    }
    let lines: Vec<String> = names.iter().map(|name| format!("netns delete {name}\n")).collect();
    // With -force, a namespace that is already gone does not stop the removal of the others.
    let _ = ip_with(&["-force"], &lines.concat());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_errors_quote_ip() {
        let error = ip("link set no-such-interface up\n").unwrap_err().to_string();
        assert!(error.contains("no-such-interface"), "{error}");
        ip("link show lo\n").unwrap();
    }
}
