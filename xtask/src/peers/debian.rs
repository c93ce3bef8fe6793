//! Unpacks Debian packages without installing them: apt resolves and downloads, dpkg unpacks into a folder.
//!
//! apt only simulates here, so it reads the system's state and never writes it. If the package lists are missing (a new
//! container) or too old to download from, our own lists are fetched into `target/peers/apt`.
//!
//! Programs of a newer suite need a newer C library than the system's. They are resolved as if nothing were installed,
//! so that all their libraries are included, even the dynamic loader; `wrapper` starts them with that loader.

use crate::workspace::{output_of, run};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The Debian suite of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Suite {
    /// The suite of this system.
    System,
    /// Debian 13, the stable one.
    Stable,
    /// The newest suite (unstable).
    Newest,
}

impl Suite {
    /// Its name in Debian's archive; `None` uses the system's sources.
    fn codename(self) -> Option<&'static str> {
        match self {
            Self::System => None,
            Self::Stable => Some("trixie"),
            Self::Newest => Some("sid"),
        }
    }

    /// The folder below `target/peers` for its packages.
    pub(super) fn root(self) -> String {
        self.codename().map_or_else(|| "root".to_owned(), |name| format!("root-{name}"))
    }

    /// The prefix of a package's name in the stamp.
    pub(super) fn stamp(self) -> String {
        self.codename().map_or_else(String::new, |name| format!("{name}/"))
    }

    /// apt's sources for it.
    fn sources(self) -> Option<String> {
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let signed = if Path::new(keys).exists() { format!("[signed-by={keys}] ") } else { String::new() };
        self.codename().map(|name| format!("deb {signed}http://deb.debian.org/debian {name} main\n"))
    }
}

/// The C library must match the system's loader, so a newer one from apt is left out.
const NEVER_UNPACKED: [&str; 2] = ["libc6", "libc-bin"];

/// Unpacks the packages, and their dependencies that the system lacks, into the suite's folder below `home`. Returns
/// `name=version` of each, after the suite's prefix.
pub(super) fn unpack(home: &Path, suite: Suite, packages: &[&str]) -> Result<Vec<String>> {
    let apt = Apt::prepare(home, suite)?;
    let archives = apt.home.join("archives");
    let mut fetched = if suite == Suite::System {
        apt.fetch(false, packages, &archives)
    } else {
        apt.update();
        apt.fetch(true, packages, &archives)
    };
    if fetched.is_err() && suite == Suite::System {
        // If the cause was not the lists, the second attempt fails in the same way.
        println!("apt's package lists are missing here, or too old; fetching lists of our own");
        apt.update();
        fetched = apt.fetch(true, packages, &archives);
    }
    let wanted = fetched?;
    let partial = home.join(format!("{}.partial", suite.root()));
    super::remove_if_there(&partial)?;
    fs::create_dir_all(&partial)?;
    for archive in fs::read_dir(&archives)? {
        run(Command::new("dpkg").arg("--extract").arg(archive?.path()).arg(&partial))?;
    }
    let root = home.join(suite.root());
    super::remove_if_there(&root)?;
    fs::rename(&partial, &root).context("cannot move the unpacked files into place")?;
    super::remove_if_there(&apt.home)?;
    Ok(wanted.iter().map(|package| format!("{}{package}", suite.stamp())).collect())
}

/// apt with its own folder for all files that it writes.
struct Apt {
    home: PathBuf,
    suite: Suite,
}

impl Apt {
    fn prepare(home: &Path, suite: Suite) -> Result<Apt> {
        let home = home.join("apt");
        super::remove_if_there(&home)?;
        for folder in ["lists/partial", "cache/archives/partial", "archives"] {
            fs::create_dir_all(home.join(folder))?;
        }
        if let Some(sources) = suite.sources() {
            fs::write(home.join("sources.list"), sources)?;
            fs::write(home.join("nothing-installed"), "")?;
        }
        Ok(Apt { home, suite })
    }

    fn command(&self, own_lists: bool) -> Command {
        let mut command = Command::new("apt-get");
        command.env("LC_ALL", "C").stdin(Stdio::null());
        // As root, apt would download as a user who cannot write into our folder; signatures are still checked.
        command.args(["-q", "-o", "APT::Sandbox::User=root"]);
        command.arg("-o").arg(format!("Dir::Cache={}", self.home.join("cache").display()));
        if self.suite != Suite::System {
            for (option, file) in
                [("Dir::Etc::sourcelist", "sources.list"), ("Dir::State::status", "nothing-installed")]
            {
                command.arg("-o").arg(format!("{option}={}", self.home.join(file).display()));
            }
            command.args(["-o", "Dir::Etc::sourceparts=/dev/null"]);
        }
        if own_lists {
            command.arg("-o").arg(format!("Dir::State::lists={}", self.home.join("lists").display()));
        }
        command
    }

    /// A source that cannot be reached, such as a third party's, makes apt fail even if Debian's lists arrived.
    /// Resolving the packages shows whether the lists suffice.
    fn update(&self) {
        if let Err(error) = output_of(self.command(true).arg("update")) {
            println!("{error:#}");
        }
    }

    fn fetch(&self, own_lists: bool, packages: &[&str], into: &Path) -> Result<Vec<String>> {
        let mut simulate = self.command(own_lists);
        simulate.args(["--simulate", "--no-install-recommends", "install"]).args(packages);
        let wanted = wanted_packages(&output_of(&mut simulate)?, self.suite);
        if wanted.is_empty() {
            bail!("apt says that {} are installed, yet they are not on $PATH", packages.join(", "));
        }
        println!("downloading {} packages: {}", wanted.len(), wanted.join(" "));
        output_of(self.command(own_lists).current_dir(into).arg("download").args(&wanted))?;
        Ok(wanted)
    }
}

/// Reads `name=version` from the lines in which a simulation announces an installation.
fn wanted_packages(simulation: &str, suite: Suite) -> Vec<String> {
    let mut wanted = Vec::new();
    for line in simulation.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("Inst") {
            continue;
        }
        let Some(name) = words.next() else { continue };
        // For an upgrade, the installed version is in brackets before the new one.
        let Some(version) = words.find_map(|word| word.strip_prefix('(')) else { continue };
        if suite != Suite::System || !NEVER_UNPACKED.contains(&name) {
            wanted.push(format!("{name}={version}"));
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_simulation_lists_packages_without_the_c_library() {
        let simulation = "Reading package lists...\n\
             Inst wrk (4.1.0-3+b2 Debian:12.11/oldstable [amd64])\n\
             Inst libssl3 [3.0.15-1] (3.0.19-1 Debian:12.11/oldstable [amd64]) []\n\
             Inst libc6 [2.36-9] (2.36-10 Debian:12.11/oldstable [amd64])\n\
             Conf wrk (4.1.0-3+b2 Debian:12.11/oldstable [amd64])\n";
        assert_eq!(wanted_packages(simulation, Suite::System), ["wrk=4.1.0-3+b2", "libssl3=3.0.19-1"]);
    }

    #[test]
    fn newer_suite_brings_its_c_library() {
        let simulation = "Inst libc6 (2.43-1 Debian:unstable [amd64])\nInst nginx (1.30.6-2 Debian:unstable [amd64])\n";
        assert_eq!(wanted_packages(simulation, Suite::Newest), ["libc6=2.43-1", "nginx=1.30.6-2"]);
    }
}
