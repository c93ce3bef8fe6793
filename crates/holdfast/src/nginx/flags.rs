//! nginx's flags, read letter by letter like nginx does: flags may be joined (`-tq`), and a value may be attached to
//! its flag (`-cFILE`) or follow it. Text in, values out. `--json` is ours.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The requested actions and values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// `-h`, `-?`
    pub(crate) help: bool,
    /// `-v`, and the flags that imply it.
    pub(crate) version: bool,
    /// `-V`
    pub(crate) configure: bool,
    /// `-t`, `-T`
    pub(crate) test: bool,
    /// `-T`
    pub(crate) dump: bool,
    /// `-q`
    pub(crate) quiet: bool,
    /// `--json`
    pub(crate) json: bool,
    /// `-p`
    pub(crate) prefix: Option<PathBuf>,
    /// `-e`
    pub(crate) error_log: Option<PathBuf>,
    /// `-c`
    pub(crate) conf_path: Option<PathBuf>,
    /// `-g`
    pub(crate) globals: Option<OsString>,
    /// `-s`
    pub(crate) signal: Option<Signal>,
}

/// The commands of `-s` to a running instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// End now.
    Stop,
    /// Finish open requests, and end.
    Quit,
    /// Read the configuration again.
    Reload,
    /// Open the logs again.
    Reopen,
}

/// Reads the arguments. An error is nginx's message without `nginx: ` in front.
pub(crate) fn parse(words: &[OsString]) -> Result<Flags, String> {
    let mut flags = Flags::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--json" {
            flags.json = true;
            continue;
        }
        let bytes = word.as_bytes();
        let Some(mut letters) = bytes.strip_prefix(b"-") else {
            return Err(format!("invalid option: \"{}\"", word.to_string_lossy()));
        };
        while let Some((&letter, rest)) = letters.split_first() {
            letters = rest;
            if switch(&mut flags, letter) {
                continue;
            }
            let name = match letter {
                b'p' => "directory name",
                b'e' | b'c' => "file name",
                b'g' | b's' => "parameter",
                _ => return Err(format!("invalid option: \"{}\"", char::from(letter))),
            };
            // The value is the rest of this word or, if that is empty, the next word.
            let value = if rest.is_empty() { words.next().cloned() } else { Some(OsStr::from_bytes(rest).to_owned()) };
            let value = value.ok_or_else(|| format!("option \"-{}\" requires {name}", char::from(letter)))?;
            set(&mut flags, letter, value)?;
            break;
        }
    }
    Ok(flags)
}

/// Sets a flag without a value; `false` if the letter is not such a flag.
fn switch(flags: &mut Flags, letter: u8) -> bool {
    match letter {
        b'?' | b'h' => (flags.version, flags.help) = (true, true),
        b'v' => flags.version = true,
        b'V' => (flags.version, flags.configure) = (true, true),
        b't' => flags.test = true,
        b'T' => (flags.test, flags.dump) = (true, true),
        b'q' => flags.quiet = true,
        _ => return false,
    }
    true
}

fn set(flags: &mut Flags, letter: u8, value: OsString) -> Result<(), String> {
    match letter {
        b'p' => flags.prefix = Some(value.into()),
        b'e' => flags.error_log = Some(value.into()),
        b'c' => flags.conf_path = Some(value.into()),
        b'g' => flags.globals = Some(value),
        _ => {
            flags.signal = Some(match value.into_vec().as_slice() {
                b"stop" => Signal::Stop,
                b"quit" => Signal::Quit,
                b"reload" => Signal::Reload,
                b"reopen" => Signal::Reopen,
                other => return Err(format!("invalid option: \"-s {}\"", String::from_utf8_lossy(other))),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(line: &[&str]) -> Result<Flags, String> {
        parse(&line.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn reads_flags_alone_together_and_glued() {
        let path = |text: &str| Some(PathBuf::from(text));
        let expected = Flags { test: true, quiet: true, conf_path: path("/x"), ..Flags::default() };
        for line in [&["-tq", "-c", "/x"][..], &["-t", "-q", "-c/x"], &["-tqc", "/x"], &["-tqc/x"], &["-qtc/x"]] {
            assert_eq!(flags(line).as_ref(), Ok(&expected), "{line:?}");
        }
        let parsed = flags(&["-V", "-s", "reload", "-gdaemon off;", "-e", "stderr", "-p", "/a/"]).expect("valid");
        assert_eq!((parsed.version, parsed.configure, parsed.signal), (true, true, Some(Signal::Reload)));
        assert_eq!((parsed.globals.as_deref(), parsed.prefix), (Some(OsStr::new("daemon off;")), path("/a/")));
        assert_eq!(parsed.error_log, path("stderr"));
        assert!(flags(&["-h"]).is_ok_and(|flags| flags.help && flags.version));
        assert!(flags(&["-T", "--json"]).is_ok_and(|flags| flags.dump && flags.test && flags.json));
    }

    #[test]
    fn mistakes_are_named_as_nginx_names_them() {
        for (line, message) in [
            (&["-x"][..], "invalid option: \"x\""),
            (&["-tx"], "invalid option: \"x\""),
            (&["-t", "x"], "invalid option: \"x\""),
            (&["-c"], "option \"-c\" requires file name"),
            (&["-e"], "option \"-e\" requires file name"),
            (&["-p"], "option \"-p\" requires directory name"),
            (&["-g"], "option \"-g\" requires parameter"),
            (&["-s"], "option \"-s\" requires parameter"),
            (&["-s", "restart"], "invalid option: \"-s restart\""),
            (&["--verbose"], "invalid option: \"-\""),
        ] {
            assert_eq!(flags(line).map_err(|error| error == message), Err(true), "{line:?}");
        }
    }
}
