//! Removes what a killed run left behind. The names of a run's folder and namespaces contain its pid, and a file in the
//! folder lists the processes it started. Called when a run begins and ends.
//!
//! Any user may create a folder with such a name, so only folders of the same user count. Otherwise another user could
//! choose which processes root kills.

use super::StageError;
use super::namespace::{names_with, remove};
use super::network::NAME_PREFIX;
use super::usage::Identity;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The file in a run's folder with the pid and the start time of each process that the run started.
const STARTED: &str = "started";

/// The folder of one run, and the list of processes it started. Dropping it removes the folder.
#[derive(Debug)]
pub(super) struct Traces {
    folder: PathBuf,
    started: Mutex<File>,
}

impl Traces {
    /// Creates the folder below `home`, after removing what killed runs left there.
    pub(super) fn begin(home: &Path) -> Result<Self, StageError> {
        sweep(home);
        let folder = home.join(format!("{NAME_PREFIX}{}", std::process::id()));
        let make = || {
            let _ = fs::remove_dir_all(&folder);
            // Fails if another user has created it meanwhile.
            fs::create_dir(&folder)?;
            OpenOptions::new().create(true).append(true).open(folder.join(STARTED))
        };
        let started = make().map_err(|error| StageError::new(format!("cannot make {}: {error}", folder.display())))?;
        Ok(Self { folder, started: Mutex::new(started) })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Records a process, so that it can be found if this one is killed. On a full disk only this record is lost.
    pub(super) fn add(&self, pid: u32) {
        if let Some(identity) = Identity::of(pid) {
            let mut file = self.started.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let _ = writeln!(file, "{} {}", identity.pid, identity.started_ticks);
        }
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Ends the processes of runs that are gone, and removes their namespaces and folders.
pub(super) fn sweep(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(pid_in);
        if pid.is_none_or(is_running) || !is_own(&entry.path()) {
            continue;
        }
        for line in fs::read_to_string(entry.path().join(STARTED)).unwrap_or_default().lines() {
            if let Some(leader) = parse_started(line) {
                // Its group may still be running without it.
                leader.group().iter().for_each(Identity::kill);
            }
        }
        // The process started last may not be recorded yet; but all of them work in folders of the run.
        Identity::working_in(&entry.path()).iter().for_each(Identity::kill);
        let _ = fs::remove_dir_all(entry.path());
    }
    let left: Vec<String> =
        names_with(NAME_PREFIX).into_iter().filter(|name| pid_in(name).is_some_and(|pid| !is_running(pid))).collect();
    remove(&left);
}

/// The pid of the run in a name such as `holdfast-lab-17` or `holdfast-lab-17-3.switch`.
fn pid_in(name: &str) -> Option<u32> {
    name.strip_prefix(NAME_PREFIX)?.split(['-', '.']).next()?.parse().ok()
}

/// Whether it is a folder of this user, and not a link to one.
fn is_own(folder: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir() && about.uid() == user)
}

fn is_running(pid: u32) -> bool {
    Identity::of(pid).is_some_and(|identity| identity.is_there())
}

fn parse_started(line: &str) -> Option<Identity> {
    let (pid, started_ticks) = line.split_once(' ')?;
    Some(Identity { pid: pid.parse().ok()?, started_ticks: started_ticks.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn removes_leftovers_of_killed_runs_only() {
        let home = tempfile::tempdir().unwrap();
        // A run that is over, whose pid is free now.
        let mut over = Command::new("true").spawn().unwrap();
        let pid = over.id();
        over.wait().unwrap();
        let dead = home.path().join(format!("{NAME_PREFIX}{pid}"));
        fs::create_dir(&dead).unwrap();
        let mut left = Command::new("sleep");
        let mut left = std::os::unix::process::CommandExt::process_group(&mut left, 0).arg("60").spawn().unwrap();
        let identity = Identity::of(left.id()).unwrap();
        fs::write(dead.join(STARTED), format!("{} {}\nbroken\n", identity.pid, identity.started_ticks)).unwrap();
        let mut unnoted = Command::new("sleep").arg("60").current_dir(&dead).spawn().unwrap();

        let own = Traces::begin(home.path()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while left.try_wait().unwrap().is_none() || unnoted.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the processes that were left still run");
            super::super::process::pause();
        }
        assert!(!dead.exists() && own.folder().exists());
        sweep(home.path());
        assert!(own.folder().exists(), "this run is not over");
        let folder = own.folder().to_owned();
        drop(own);
        assert!(!folder.exists());
    }

    #[test]
    fn ignores_the_leftovers_file_of_another_user() {
        let home = tempfile::tempdir().unwrap();
        let mut over = Command::new("true").spawn().unwrap();
        let pid = over.id();
        over.wait().unwrap();
        let mut bystander = Command::new("sleep");
        let mut bystander =
            std::os::unix::process::CommandExt::process_group(&mut bystander, 0).arg("60").spawn().unwrap();
        let identity = Identity::of(bystander.id()).unwrap();
        let made = home.path().join("made");
        fs::create_dir(&made).unwrap();
        fs::write(made.join(STARTED), format!("{} {}\n", identity.pid, identity.started_ticks)).unwrap();
        std::os::unix::fs::symlink(&made, home.path().join(format!("{NAME_PREFIX}{pid}"))).unwrap();
        sweep(home.path());
        assert!(made.exists() && identity.is_there(), "it was a link");
        if rustix::process::geteuid().is_root() {
            let theirs = home.path().join(format!("{NAME_PREFIX}{pid}"));
            fs::remove_file(&theirs).unwrap();
            fs::rename(&made, &theirs).unwrap();
            std::os::unix::fs::chown(&theirs, Some(65_534), Some(65_534)).unwrap();
            sweep(home.path());
            assert!(theirs.exists() && identity.is_there(), "it was somebody else's");
        }
        bystander.kill().unwrap();
        bystander.wait().unwrap();
    }

    #[test]
    fn names_contain_their_run() {
        assert_eq!((pid_in("holdfast-lab-17"), pid_in("holdfast-lab-17-3.switch")), (Some(17), Some(17)));
        assert_eq!((pid_in("holdfast-lab-x"), pid_in("other-17")), (None, None));
    }
}
