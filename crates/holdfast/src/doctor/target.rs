//! Decides which program's defaults apply if `--target` is not given: the running server's, Holdfast's if a directive
//! is only its own, those of the nginx on the PATH, or of the most common stable nginx. The report's first line says
//! which, and why.

use ::doctor::{Configuration, Dialect, configuration as words};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that the configuration is read as, and the reason for it.
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
    /// For the first line: `read as nginx 1.22.1, the version of /usr/sbin/nginx`.
    pub(crate) fn sentence(&self) -> String {
        let name = self.dialect.name();
        match &self.from {
            From::Asked => format!("read as {name}"),
            From::Process(pid) => format!("read as {name}, which runs as process {pid}"),
            From::Directive(directive) => format!("read as {name}, since only it has \"{directive}\""),
            From::Program(path) => format!("read as {name}, the version of {}", path.display()),
            From::Nothing => {
                format!("read as {name}, since no nginx was found here (--target NAME reads it as another one)")
            }
        }
    }
}

/// The program that `--target` names; otherwise the one that can be detected.
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

/// The first directive that Holdfast has and nginx would refuse.
fn own_directive(configuration: &Configuration) -> Option<String> {
    let ours = |name: &[u8]| {
        let mut rows = conf::table::all().iter().filter(|row| row.name.as_bytes() == name).peekable();
        rows.peek().is_some() && rows.all(|row| row.since == "holdfast")
    };
    // Entries of a map are not directives, even if they have the name of one.
    let tables = ["map", "geo", "split_clients", "types", "charset_map"];
    let found = configuration.everything().into_iter().find(|found| {
        !found.within.last().is_some_and(|block| tables.iter().any(|table| words::is(block, table)))
            && ours(&found.directive.name.value)
    });
    found.map(|found| found.directive.name.text().into_owned())
}

/// Reads the version from the program's file, so that an unknown program is not executed.
fn of_process(pid: u32) -> Option<Dialect> {
    let program = format!("/proc/{pid}/exe");
    let name = fs::read_link(&program).ok()?;
    if name.file_name().is_some_and(|name| name.to_string_lossy().starts_with("holdfast")) {
        return Some(Dialect::Holdfast);
    }
    // Debian's nginx has 1.2 MB, one with every module built in 15 MB.
    const PROGRAM_BYTES_MAX: u64 = 64 << 20;
    let mut bytes = Vec::new();
    File::open(&program).ok()?.take(PROGRAM_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let phrase = b"nginx version: ";
    let at = bytes.windows(phrase.len()).position(|window| window == phrase)?;
    let rest = bytes.get(at + phrase.len()..)?;
    version(&String::from_utf8_lossy(rest.get(..64).unwrap_or(rest)))
}

/// `nginx/1.22.1 (Debian)`; the version of openresty has a fourth number.
fn version(text: &str) -> Option<Dialect> {
    let (_, rest) = text.split_once('/')?;
    let numbers: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let three: Vec<&str> = numbers.split('.').take(3).collect();
    format!("nginx-{}", three.join(".")).parse().ok()
}

/// Folders of nginx on many systems that are not in an ordinary user's PATH.
const FOLDERS_OF_ROOT: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The program on the PATH and the version that `nginx -v` prints.
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
