//! Lines and results on the standard streams, and the text of failed system calls.

use std::io::{self, Write as _};

/// Prints a line on standard error.
pub fn say(message: &str) {
    // A closed stream is not an error: no one reads it.
    let _ = writeln!(io::stderr(), "{message}");
}

/// Prints the current activity on a terminal: each message overwrites the previous one, and an empty message only
/// removes it.
pub fn overwrite(message: &str) {
    let _ = write!(io::stderr(), "\r\x1b[K{message}").and_then(|()| io::stderr().flush());
}

/// Prints a result on standard output.
pub fn print(bytes: &[u8]) {
    let _ = print_on(bytes);
}

/// The same for a caller that continues: `false` once the reader is gone.
pub fn print_on(bytes: &[u8]) -> bool {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).is_ok()
}

/// Whether to write colours: only to a terminal, unless `NO_COLOR` is set and not empty (<https://no-color.org>) or
/// `TERM` is `dumb`.
pub fn colours(is_terminal: bool) -> bool {
    is_terminal
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

/// `(2: No such file or directory)`: a failed system call in nginx's form.
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
