//! Selects the instance: its configuration, the prefix of relative paths, its pid file. The defaults and their reasons
//! are in docs/adr/0016-paths-and-defaults.md. Called by both command lines.

use crate::files::Files;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The default configuration.
pub(crate) const CONF_PATH: &str = "/etc/holdfast/nginx.conf";
/// Read if [`CONF_PATH`] does not exist: nginx's configuration, which may already be on the machine.
const NGINX_CONF_PATH: &str = "/etc/nginx/nginx.conf";
/// Both, in order of preference.
pub(crate) const CONF_PATHS: [&str; 2] = [CONF_PATH, NGINX_CONF_PATH];
/// Base of relative paths of logs and content.
pub(crate) const PREFIX: &str = "/var/lib/holdfast";
/// The same for [`NGINX_CONF_PATH`], as Debian builds nginx.
const NGINX_PREFIX: &str = "/usr/share/nginx";
/// The pid file of root's instance without a prefix of its own.
pub(crate) const PID_PATH: &str = "/run/holdfast.pid";
/// The pid file below the prefix, in every other case.
const PID_BELOW_PREFIX: &str = "logs/holdfast.pid";
/// The error log until the configuration is read, and if it names none.
pub(crate) const ERROR_LOG: &str = "logs/error.log";

/// The flags on the command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// `-c`
    pub(crate) conf_path: Option<PathBuf>,
    /// `-p`
    pub(crate) prefix: Option<PathBuf>,
    /// `-g`
    pub(crate) globals: Option<OsString>,
    /// `-e`
    pub(crate) error_log: Option<PathBuf>,
}

/// One instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    /// The main file; absolute, or relative to `prefix`.
    pub(crate) conf_path: PathBuf,
    /// Base of relative paths.
    pub(crate) prefix: PathBuf,
    /// Directives of `-g`.
    pub(crate) globals: Option<String>,
    /// The error log if the configuration names none.
    pub(crate) error_log: PathBuf,
    /// The pid file if the configuration names none.
    pub(crate) pid_path: PathBuf,
    /// The text of the main file if it exists only in memory (quick mode).
    pub(crate) text: Option<String>,
}

impl Instance {
    /// Reads the files of this instance.
    pub(crate) fn loader(&self) -> Files {
        Files { main: self.text.as_ref().map(|text| (self.conf_path.clone(), text.clone())) }
    }

    /// Fills in what the command line left open. Checks which files exist, but opens none.
    pub(crate) fn find(wanted: &Wanted) -> Self {
        Self::find_with(wanted, nix::unistd::geteuid().is_root(), Path::exists)
    }

    fn find_with(wanted: &Wanted, is_root: bool, exists: impl Fn(&Path) -> bool) -> Self {
        let falls_back =
            wanted.conf_path.is_none() && !exists(Path::new(CONF_PATH)) && exists(Path::new(NGINX_CONF_PATH));
        let default_prefix = if falls_back { NGINX_PREFIX } else { PREFIX };
        let prefix = wanted.prefix.clone().unwrap_or_else(|| default_prefix.into());
        let conf_path = match &wanted.conf_path {
            // nginx resolves the path against the prefix. If nothing exists there, the path is resolved against the
            // working directory, as a shell would.
            Some(path) if path.is_relative() && !exists(&prefix.join(path)) && exists(path) => {
                std::path::absolute(path).unwrap_or_else(|_| path.clone())
            }
            Some(path) => path.clone(),
            None if falls_back => NGINX_CONF_PATH.into(),
            None => CONF_PATH.into(),
        };
        let pid_path = if is_root && wanted.prefix.is_none() { PID_PATH.into() } else { prefix.join(PID_BELOW_PREFIX) };
        Self {
            conf_path,
            globals: wanted.globals.as_ref().map(|globals| globals.to_string_lossy().into_owned()),
            error_log: wanted.error_log.clone().unwrap_or_else(|| ERROR_LOG.into()),
            pid_path,
            prefix,
            text: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(conf_path: Option<&str>, prefix: Option<&str>) -> Wanted {
        Wanted { conf_path: conf_path.map(Into::into), prefix: prefix.map(Into::into), ..Wanted::default() }
    }

    #[test]
    fn ours_comes_first_then_the_one_that_is_there() {
        let ours = Instance::find_with(&wanted(None, None), true, |_| true);
        assert_eq!((ours.conf_path, ours.prefix), (CONF_PATH.into(), PREFIX.into()));
        let theirs = Instance::find_with(&wanted(None, None), true, |path| path == Path::new(NGINX_CONF_PATH));
        assert_eq!((theirs.conf_path, theirs.prefix), (NGINX_CONF_PATH.into(), NGINX_PREFIX.into()));
        let nothing = Instance::find_with(&wanted(None, None), true, |_| false);
        assert_eq!((nothing.conf_path, nothing.prefix), (CONF_PATH.into(), PREFIX.into()));
    }

    #[test]
    fn a_relative_file_is_below_the_prefix_or_where_the_shell_is() {
        let below = Instance::find_with(&wanted(Some("x.conf"), Some("/p")), true, |_| true);
        assert_eq!(below.conf_path, Path::new("x.conf"));
        let here = Instance::find_with(&wanted(Some("x.conf"), Some("/p")), true, |path| path == Path::new("x.conf"));
        assert!(here.conf_path.is_absolute() && here.conf_path.ends_with("x.conf"));
    }

    #[test]
    fn instances_with_a_prefix_do_not_share_a_pid_file() {
        let pid = |prefix, is_root| Instance::find_with(&wanted(None, prefix), is_root, |_| true).pid_path;
        assert_eq!(pid(None, true), Path::new(PID_PATH));
        assert_eq!(pid(None, false), Path::new("/var/lib/holdfast/logs/holdfast.pid"));
        assert_eq!(pid(Some("/p"), true), Path::new("/p/logs/holdfast.pid"));
    }
}
