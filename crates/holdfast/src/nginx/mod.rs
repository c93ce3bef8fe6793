//! nginx's command line with its flags, messages and exit codes, for existing scripts and habits. Called by `main`.

mod flags;
mod signal;

use crate::instance::{Instance, Wanted};
use crate::{exit, report, verdict, version};
use std::ffi::OsString;

/// Runs what the flags ask for; `words` are the arguments without the program's name.
pub(crate) fn run(words: &[OsString]) -> u8 {
    let flags = match flags::parse(words) {
        Ok(flags) => flags,
        Err(message) => {
            report::complain(&message);
            return exit::FAILED;
        }
    };
    if flags.version {
        version::print(flags.help, flags.configure);
        if !flags.test {
            return exit::OK;
        }
    }
    let instance = Instance::find(&Wanted {
        conf_path: flags.conf_path.clone(),
        prefix: flags.prefix.clone(),
        globals: flags.globals.clone(),
        error_log: flags.error_log.clone(),
    });
    if flags.test {
        let output = verdict::TestOutput { json: flags.json, quiet: flags.quiet, dump: flags.dump };
        return verdict::test(&instance, output);
    }
    if let Some(signal) = flags.signal {
        return signal::send(&instance, signal);
    }
    crate::serve::start(&instance)
}
