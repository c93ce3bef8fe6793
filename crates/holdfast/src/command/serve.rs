//! `holdfast serve`: starts the gateway, from a file or, in quick mode, from nothing but an address.

use crate::instance::{Instance, Wanted};
use crate::{exit, quick, report, serve};
use std::ffi::OsString;
use std::path::PathBuf;

/// Start the gateway
///
/// From a file as nginx does, daemon and all; or in quick mode (`--to`) without any file, in the foreground and in one
/// process.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Read this configuration [default: /etc/holdfast/nginx.conf, else /etc/nginx/nginx.conf]
    #[arg(short = 'c', long, value_name = "FILE")]
    conf_path: Option<PathBuf>,
    /// Take relative paths from here [default: /var/lib/holdfast]
    #[arg(short = 'p', long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Read these global directives before the file
    #[arg(short = 'g', long, value_name = "DIRECTIVES")]
    globals: Option<OsString>,
    /// Log errors here where the configuration names no file; `stderr` for the terminal
    #[arg(short = 'e', long, value_name = "FILE")]
    error_log: Option<PathBuf>,
    /// Quick mode: no file; pass requests on to this address, for example `127.0.0.1:3000` or `unix:/run/app.sock`
    #[arg(long, value_name = "ADDRESS", conflicts_with = "conf_path")]
    to: Option<String>,
    /// Quick mode: listen here, a port or an address with a port
    #[arg(long, value_name = "ADDRESS", default_value = "8080", requires = "to")]
    listen: String,
    /// Quick mode: print the nginx.conf that it stands for, and exit
    #[arg(long, requires = "to")]
    print_config: bool,
}

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> u8 {
    let mut instance = Instance::find(&Wanted {
        conf_path: args.conf_path.clone().or(args.to.is_some().then(|| quick::NAME.into())),
        prefix: args.prefix.clone(),
        globals: args.globals.clone(),
        error_log: args.error_log.clone(),
    });
    if let Some(to) = &args.to {
        let text = match quick::configuration(to, &args.listen, nix::unistd::geteuid().as_raw()) {
            Ok(text) => text,
            Err(message) => {
                report::say(&format!("holdfast: {message}"));
                return exit::USAGE;
            }
        };
        if args.print_config {
            report::print(text.as_bytes());
            return exit::OK;
        }
        instance.text = Some(text);
    }
    serve::start(&instance)
}
