//! `holdfast serve`: starts the gateway, from a file or, in quick mode, from an upstream address.

use crate::instance::{CONF_PATHS, Instance, Wanted};
use crate::quick::{self, Here, Quick};
use crate::{exit, report, serve};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Start the gateway
///
/// With a configuration file it runs in the background, unless the file has `daemon off`. In quick mode (`--to`) it needs no file
/// and runs in the foreground.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Read this configuration
    #[arg(short = 'c', long, value_name = "FILE")]
    conf_path: Option<PathBuf>,
    /// Take relative paths from here [default: /var/lib/holdfast]
    #[arg(short = 'p', long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Read these global directives before the file
    #[arg(short = 'g', long, value_name = "DIRECTIVES")]
    globals: Option<OsString>,
    /// Log errors here if the configuration names no file; `stderr`: the terminal
    #[arg(short = 'e', long, value_name = "FILE")]
    error_log: Option<PathBuf>,
    /// Quick mode: proxy all requests to this address, for example `127.0.0.1:3000` or `unix:/run/app.sock`
    #[arg(long, value_name = "ADDRESS", conflicts_with = "conf_path")]
    to: Option<String>,
    /// Quick mode: listen on this port of 127.0.0.1, or this address and port; `*:8080`: all addresses
    #[arg(long, value_name = "ADDRESS", default_value = "8080", requires = "to")]
    listen: String,
    /// Quick mode: print the equivalent nginx.conf, and exit
    #[arg(long, requires = "to")]
    print_config: bool,
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> u8 {
    if args.conf_path.is_none() && args.to.is_none() {
        report::say(&hint_without_configuration(Path::exists));
        return exit::USAGE;
    }
    let mut instance = Instance::find(&Wanted {
        conf_path: args.conf_path.clone().or(args.to.is_some().then(|| quick::NAME.into())),
        prefix: args.prefix.clone(),
        globals: args.globals.clone(),
        error_log: args.error_log.clone(),
    });
    if let Some(to) = &args.to {
        let quick = match Quick::new(to, &args.listen, &here()) {
            Ok(quick) => quick,
            Err(message) => {
                report::say(&format!("holdfast: {message}"));
                return exit::USAGE;
            }
        };
        if args.print_config {
            report::print(quick.text.as_bytes());
            return exit::OK;
        }
        instance.text = Some(quick.text);
        return serve::start_and(&instance, |_| report::say(&quick.welcome));
    }
    let file = instance.conf_path.clone();
    serve::start_and(&instance, |daemon| {
        if let Some(pid) = daemon {
            let file = file.display();
            report::say(&format!(
                "holdfast: serves in the background as process {pid}; `holdfast -s quit -c {file}` ends it"
            ));
        }
    })
}

/// The facts about this machine that quick mode needs.
fn here() -> Here {
    // Used if the limit cannot be read; every Linux grants this much.
    const DESCRIPTORS_LEAST: u64 = 1024;
    Here {
        user: nix::unistd::geteuid().as_raw(),
        workers: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        descriptors: reactor::descriptor_limit().map_or(DESCRIPTORS_LEAST, |(_, hard)| hard),
    }
}

/// A command of two words must not start a daemon on port 80, so a configuration is required.
fn hint_without_configuration(exists: impl Fn(&Path) -> bool) -> String {
    let found = CONF_PATHS.iter().find(|path| exists(Path::new(path)));
    let mut text = "holdfast: serve needs a configuration, or an address to pass requests on to:\n".to_owned();
    let file = found.copied().unwrap_or("FILE");
    let there = if found.is_some() {
        "this file is here; in the background unless it says `daemon off`"
    } else {
        "an nginx.conf"
    };
    for (command, what) in [
        (format!("holdfast serve -c {file}"), there),
        ("holdfast serve --to 127.0.0.1:3000".to_owned(), "no file: http://127.0.0.1:8080/ passes on to that address"),
        (format!("holdfast -t -c {file}"), "check a file, and start nothing"),
    ] {
        let _ = writeln!(text, "  {command:<44} {what}");
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_configuration_it_prints_usage() {
        let said = hint_without_configuration(|path| path == Path::new("/etc/nginx/nginx.conf"));
        assert!(said.contains("holdfast serve -c /etc/nginx/nginx.conf"), "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 120) && !said.ends_with('\n'), "{said}");
        assert!(hint_without_configuration(|_| false).contains("holdfast serve -c FILE"));
    }
}
