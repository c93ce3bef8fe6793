//! Debian's packages without installing them: apt resolves and downloads, dpkg unpacks into a folder.
//!
//! apt only simulates here, so the system's state is read and never written. Where its package lists are missing (a
//! fresh container) or too old to download from, lists of our own are fetched into `target/peers/apt`.

use crate::workspace::{output_of, run};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The C library must match the system's loader, so a newer one that apt would like to bring along is left out.
const NEVER_UNPACKED: [&str; 2] = ["libc6", "libc-bin"];

/// Unpacks the packages, and those they need that the system lacks, into `home/root`. Returns `name=version` of each.
pub(super) fn unpack(home: &Path, packages: &[&str]) -> Result<Vec<String>> {
    let apt = Apt::prepare(home)?;
    let archives = apt.home.join("archives");
    let mut fetched = apt.fetch(false, packages, &archives);
    if fetched.is_err() {
        // Whatever it was, the second try says it again, with lists that are surely fresh.
        println!("apt's package lists are missing here, or too old; fetching lists of our own");
        apt.update();
        fetched = apt.fetch(true, packages, &archives);
    }
    let wanted = fetched?;
    let partial = home.join("root.partial");
    super::remove_if_there(&partial)?;
    fs::create_dir_all(&partial)?;
    for archive in fs::read_dir(&archives)? {
        run(Command::new("dpkg").arg("--extract").arg(archive?.path()).arg(&partial))?;
    }
    let root = home.join("root");
    super::remove_if_there(&root)?;
    fs::rename(&partial, &root).context("cannot move the unpacked files into place")?;
    super::remove_if_there(&apt.home)?;
    Ok(wanted)
}

/// apt with a folder of its own for whatever it writes.
struct Apt {
    home: PathBuf,
}

impl Apt {
    fn prepare(home: &Path) -> Result<Apt> {
        let home = home.join("apt");
        super::remove_if_there(&home)?;
        for folder in ["lists/partial", "cache/archives/partial", "archives"] {
            fs::create_dir_all(home.join(folder))?;
        }
        Ok(Apt { home })
    }

    fn command(&self, own_lists: bool) -> Command {
        let mut command = Command::new("apt-get");
        command.env("LC_ALL", "C").stdin(Stdio::null());
        // Root's apt downloads as a user who cannot write into our folder; the signatures are checked all the same.
        command.args(["-q", "-o", "APT::Sandbox::User=root"]);
        command.arg("-o").arg(format!("Dir::Cache={}", self.home.join("cache").display()));
        if own_lists {
            command.arg("-o").arg(format!("Dir::State::lists={}", self.home.join("lists").display()));
        }
        command
    }

    /// A source that cannot be reached (a third party's, say) makes apt fail although Debian's own lists came: whether
    /// they are enough shows when the packages are resolved.
    fn update(&self) {
        if let Err(error) = output_of(self.command(true).arg("update")) {
            println!("{error:#}");
        }
    }

    fn fetch(&self, own_lists: bool, packages: &[&str], into: &Path) -> Result<Vec<String>> {
        let mut simulate = self.command(own_lists);
        simulate.args(["--simulate", "--no-install-recommends", "install"]).args(packages);
        let wanted = wanted_packages(&output_of(&mut simulate)?);
        if wanted.is_empty() {
            bail!("apt says that {} are installed, yet they are not on $PATH", packages.join(", "));
        }
        println!("downloading {} packages: {}", wanted.len(), wanted.join(" "));
        output_of(self.command(own_lists).current_dir(into).arg("download").args(&wanted))?;
        Ok(wanted)
    }
}

/// Reads `name=version` from the lines in which a simulation says what it would install.
fn wanted_packages(simulation: &str) -> Vec<String> {
    let mut wanted = Vec::new();
    for line in simulation.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("Inst") {
            continue;
        }
        let Some(name) = words.next() else { continue };
        // An upgrade shows the installed version in brackets before the new one.
        let Some(version) = words.find_map(|word| word.strip_prefix('(')) else { continue };
        if !NEVER_UNPACKED.contains(&name) {
            wanted.push(format!("{name}={version}"));
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_tells_new_packages_and_upgrades_and_the_c_library_is_left_alone() {
        let simulation = "Reading package lists...\n\
             Inst wrk (4.1.0-3+b2 Debian:12.11/oldstable [amd64])\n\
             Inst libssl3 [3.0.15-1] (3.0.19-1 Debian:12.11/oldstable [amd64]) []\n\
             Inst libc6 [2.36-9] (2.36-10 Debian:12.11/oldstable [amd64])\n\
             Conf wrk (4.1.0-3+b2 Debian:12.11/oldstable [amd64])\n";
        assert_eq!(wanted_packages(simulation), ["wrk=4.1.0-3+b2", "libssl3=3.0.19-1"]);
    }
}
