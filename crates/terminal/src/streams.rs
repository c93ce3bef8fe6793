//! Lines and results on the standard streams, and how a failed system call reads in them.

use std::io::{self, Write as _};

/// A line on the standard error stream.
pub fn say(message: &str) {
    // A closed stream is no reason to fail: there is no reader.
    let _ = writeln!(io::stderr(), "{message}");
}

/// What goes on at the moment, on a terminal: each word takes the place of the one before, the empty one only removes it.
pub fn overwrite(message: &str) {
    let _ = write!(io::stderr(), "\r\x1b[K{message}").and_then(|()| io::stderr().flush());
}

/// A result on the standard output stream.
pub fn print(bytes: &[u8]) {
    let _ = print_on(bytes);
}

/// The same for a caller that goes on: `false` once the reader is gone.
pub fn print_on(bytes: &[u8]) -> bool {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).is_ok()
}

/// Whether to write colours: only to a terminal, and not where `NO_COLOR` is set to anything (<https://no-color.org>).
pub fn colours(is_terminal: bool) -> bool {
    is_terminal
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

/// `(2: No such file or directory)`, as nginx writes a failed system call.
pub fn errno(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(number) => {
            let text = text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text);
            format!("({number}: {text})")
        }
        None => format!("({text})"),
    }
}
