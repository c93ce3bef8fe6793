//! Whose configuration it is, if it is not given: that of the running server, of the nginx on the PATH, or of the most common
//! stable nginx. The report's first line says which, and how it is known.

use ::doctor::{Configuration, Dialect, configuration as words};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whose it is, and how that is known.
pub(crate) struct Target {
    pub(crate) dialect: Dialect,
    from: From,
}

enum From {
    Asked,
    Process(u32),
    /// A directive that only Holdfast has.
    Directive(String),
    Program(PathBuf),
    Nothing,
}

impl Target {
    /// For the first line: `read as nginx 1.22.1, which is the nginx on the PATH (/usr/sbin/nginx)`.
    pub(crate) fn sentence(&self) -> String {
        let name = self.dialect.name();
        match &self.from {
            From::Asked => format!("read as {name}"),
            From::Process(pid) => format!("read as {name}, which runs as process {pid}"),
            From::Directive(directive) => format!("read as {name}, since only it has \"{directive}\""),
            From::Program(path) => format!("read as {name}, the version of {}", path.display()),
            From::Nothing => format!("read as {name}, since no nginx was found here (--target says otherwise)"),
        }
    }
}

/// What was asked for, otherwise what can be found out.
pub(crate) fn find(asked: Option<Dialect>, configuration: Option<&Configuration>, pid: Option<u32>) -> Target {
    if let Some(dialect) = asked {
        return Target { dialect, from: From::Asked };
    }
    if let Some((pid, dialect)) = pid.and_then(|pid| Some((pid, of_process(pid)?))) {
        return Target { dialect, from: From::Process(pid) };
    }
    if let Some(directive) = configuration.and_then(own_directive) {
        return Target { dialect: Dialect::Holdfast, from: From::Directive(directive) };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    match on_path(&path) {
        Some((program, dialect)) => Target { dialect, from: From::Program(program) },
        None => Target { dialect: Dialect::NGINX_1_26, from: From::Nothing },
    }
}

/// The first directive that nginx would refuse and Holdfast has.
fn own_directive(configuration: &Configuration) -> Option<String> {
    let ours = |name: &[u8]| {
        let mut rows = conf::table::all().iter().filter(|row| row.name.as_bytes() == name).peekable();
        rows.peek().is_some() && rows.all(|row| row.since == "holdfast")
    };
    // Entries of a map are no directives, whatever they are called.
    let tables = ["map", "geo", "split_clients", "types", "charset_map"];
    let found = configuration.everything().into_iter().find(|found| {
        !found.within.last().is_some_and(|block| tables.iter().any(|table| words::is(block, table)))
            && ours(&found.directive.name.value)
    });
    found.map(|found| found.directive.name.text().into_owned())
}

/// The version is read out of the program's file: a stranger's program is not run for it.
fn of_process(pid: u32) -> Option<Dialect> {
    let program = format!("/proc/{pid}/exe");
    let name = fs::read_link(&program).ok()?;
    if name.file_name().is_some_and(|name| name.to_string_lossy().starts_with("holdfast")) {
        return Some(Dialect::Holdfast);
    }
    // Debian's is 1.2 MB, one with everything built in 15 MB.
    const PROGRAM_BYTES_MAX: u64 = 64 << 20;
    let mut bytes = Vec::new();
    File::open(&program).ok()?.take(PROGRAM_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let phrase = b"nginx version: ";
    let at = bytes.windows(phrase.len()).position(|window| window == phrase)?;
    let rest = bytes.get(at + phrase.len()..)?;
    version(&String::from_utf8_lossy(rest.get(..64).unwrap_or(rest)))
}

/// `nginx/1.22.1 (Debian)`; openresty's has a fourth number of its own.
fn version(text: &str) -> Option<Dialect> {
    let (_, rest) = text.split_once('/')?;
    let numbers: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let three: Vec<&str> = numbers.split('.').take(3).collect();
    format!("nginx-{}", three.join(".")).parse().ok()
}

/// Where nginx is on many systems, although the PATH of a user lacks it.
const FOLDERS_OF_ROOT: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// What `nginx -v` says.
fn on_path(path: &OsStr) -> Option<(PathBuf, Dialect)> {
    let folders: Vec<PathBuf> = std::env::split_paths(path).collect();
    let folders = folders.into_iter().chain(FOLDERS_OF_ROOT.iter().map(PathBuf::from));
    let program = folders.map(|folder| folder.join("nginx")).find(|program| is_program(program))?;
    let said = Command::new(&program).arg("-v").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let (_, said) = said.split_once("nginx version: ")?;
    Some((program, version(said)?))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_programs_print_them() {
        assert_eq!(version("nginx/1.22.1\n").map(Dialect::name), Some("nginx 1.22.1".to_owned()));
        assert_eq!(version("nginx/1.26.3 (Debian)\n").map(Dialect::name), Some("nginx 1.26.3".to_owned()));
        assert_eq!(version("openresty/1.21.4.1").map(Dialect::name), Some("nginx 1.21.4".to_owned()));
        assert_eq!(version("something else"), None);
    }
}
