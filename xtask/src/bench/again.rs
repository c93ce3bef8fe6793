//! This program, started again: built with optimisation, or in a network namespace of its own.

use crate::workspace::{Workspace, run};
use anyhow::{Result, bail};
use std::process::Command;

/// How the optimised build is linked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Linked {
    /// As a release is: minutes, for what is measured across crates.
    AsReleased,
    /// Each crate by itself, which takes longer than no experiment.
    Quickly,
}

/// Runs the same command line in an optimised build: `cargo xtask` is not one, and a load or a census that costs several
/// times what it should would be in the way of what is measured.
pub(super) fn run_optimised(workspace: &Workspace, linked: Linked) -> Result<()> {
    let mut again = workspace.cargo();
    if linked == Linked::Quickly {
        again.args(["--config", "profile.release.lto=false", "--config", "profile.release.codegen-units=16"]);
    }
    again.args(["run", "--quiet", "--release", "--package", "xtask", "--"]).args(std::env::args_os().skip(1));
    run(&mut again)
}

/// This program in a network namespace that ends with it, and with it every socket: what an experiment leaves in TIME_WAIT
/// is not there for the next one.
pub(super) fn in_namespace() -> Result<Command> {
    let mut inside = namespace();
    inside.args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]).arg(std::env::current_exe()?);
    Ok(inside)
}

/// An error in words where no namespace is to be had.
pub(super) fn check_namespaces() -> Result<()> {
    let output = namespace().args(["ip", "link", "set", "lo", "up"]).output()?;
    if !output.status.success() {
        bail!(
            "no network namespace can be made, in which each arm has its own sockets: be root, or let users have \
             namespaces (kernel.unprivileged_userns_clone), and install util-linux and iproute2\n{}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(())
}

/// What begins a command line in a new namespace. A plain user is root in it.
fn namespace() -> Command {
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.arg("--net");
    unshare
}
