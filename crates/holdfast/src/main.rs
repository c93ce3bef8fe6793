//! The program `holdfast`: selects one of its two command lines and calls it. Subcommands are in `command` (one file
//! each), nginx's flags in `nginx`.

mod command;
mod ctl;
mod demo;
mod doctor;
mod explain;
mod files;
mod instance;
mod lab;
mod load;
mod migrate;
mod nginx;
mod output;
mod plan;
mod process;
mod quick;
mod report;
mod serve;
mod typed;
mod verdict;
mod version;
mod worker_groups;

use ::terminal::signals;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Exit codes. The long help and the man page list the same.
mod exit {
    /// Success.
    pub(crate) const OK: u8 = 0;
    /// Failure; the reason is on standard error.
    pub(crate) const FAILED: u8 = 1;
    /// The command line is invalid.
    pub(crate) const USAGE: u8 = 2;
    /// It ran, and the answer is no: a missed threshold, a failed claim, a configuration with warnings or errors, two
    /// different configurations, or a chain that does not carry the wanted load.
    pub(crate) const NO: u8 = 3;
    /// It ran, but there is no reliable answer: void, undecided, or contradicted by a measurement.
    pub(crate) const UNKNOWN: u8 = 4;
}

fn main() -> ExitCode {
    if serve::Role::of_this_process() == Some(serve::Role::Child) {
        return ExitCode::from(serve::work_as_child());
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    if speaks_nginx(&words) {
        return ExitCode::from(nginx::run(words.get(1..).unwrap_or_default()));
    }
    ExitCode::from(command::run(words))
}

/// Whether the command line is nginx's: the program was called `nginx`, or its first argument is a flag other than the
/// two that every program has.
fn speaks_nginx(words: &[OsString]) -> bool {
    let name = words.first().and_then(|word| Path::new(word).file_name());
    if name.is_some_and(|name| name == "nginx") {
        return true;
    }
    let Some(first) = words.get(1) else { return false };
    first.as_encoded_bytes().starts_with(b"-") && first != "--help" && first != "--version"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaks(words: &[&str]) -> bool {
        speaks_nginx(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_dash_or_the_name_makes_it_nginx() {
        assert!(speaks(&["/usr/sbin/nginx"]));
        assert!(speaks(&["nginx", "serve"]));
        assert!(speaks(&["holdfast", "-t"]));
        assert!(speaks(&["holdfast", "--json", "-t"]));
        assert!(!speaks(&["holdfast"]));
        assert!(!speaks(&["holdfast", "serve", "-c", "x"]));
        assert!(!speaks(&["holdfast", "--help"]));
        assert!(!speaks(&["nginx-holdfast", "--version"]));
    }
}
