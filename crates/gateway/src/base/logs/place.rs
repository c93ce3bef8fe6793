//! The destination of a log's lines: a file, the standard error stream, a syslog server, or files whose names depend on
//! the request. Names and addresses only: the log writer opens them. Made when a configuration is lowered.

use crate::base::logs::error::Level;
use conf::diagnostic::Diagnostic;
use conf::model::{LogFileCache, Syslog};
use conf::source::Span;
use conf::value::Host;
use reactor::PeerAddress;
use rules::time_format::Moment;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

/// A destination of log lines.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogPlace {
    /// A file, by its absolute path.
    File(PathBuf),
    /// The standard error stream.
    Stderr,
    /// A syslog server.
    Syslog(SyslogPlace),
    /// Files; each line names its own.
    Named(NamedFiles),
}

/// `open_log_file_cache`, for files whose names have variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NamedFiles {
    /// Most files kept open; 0 closes each file after writing.
    pub open_max: usize,
    /// A file that is unused for this long is closed.
    pub inactive: Duration,
    /// Lines within `inactive` that keep a file open.
    pub uses_min: u32,
    /// How often the writer checks that an open file still has its name.
    pub valid: Duration,
}

/// `syslog:server=…`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SyslogPlace {
    /// Where datagrams are sent.
    pub server: PeerAddress,
    /// 0 (`kern`) to 23 (`local7`).
    pub facility: u8,
    /// Severity of access-log lines; error-log lines have their own.
    pub severity: Level,
    /// The tag before the message.
    pub tag: String,
    /// The hostname in the message; `None` with `nohostname`.
    pub hostname: Option<String>,
}

impl LogPlace {
    /// A name by which another process finds the same destination.
    pub(crate) fn full_name(&self) -> Vec<u8> {
        match self {
            Self::File(path) => [b"file ", path.as_os_str().as_bytes()].concat(),
            Self::Stderr => b"stderr".to_vec(),
            Self::Syslog(SyslogPlace { server, facility, severity, tag, hostname }) => {
                let hostname = hostname.as_deref().unwrap_or_default();
                format!("syslog {server} {facility} {} {tag} {hostname}", severity.label()).into_bytes()
            }
            // Each line names its own file.
            Self::Named(_) => b"named".to_vec(),
        }
    }
}

/// The form for messages and metrics.
impl fmt::Display for LogPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(out, "{}", path.display()),
            Self::Stderr => out.write_str("stderr"),
            Self::Syslog(place) => write!(out, "syslog:server={}", place.server),
            Self::Named(_) => out.write_str("files named by variables"),
        }
    }
}

impl SyslogPlace {
    /// Appends the head of a message as nginx writes it (RFC 3164 section 4.1): `<190>Nov 21 20:30:00 host tag: `.
    pub fn encode_head(&self, level: Level, moment: &Moment, out: &mut Vec<u8>) {
        // Writing to a vector cannot fail.
        let _ = write!(out, "<{}>", u32::from(self.facility) * 8 + level.severity());
        out.extend_from_slice(&moment.syslog());
        if let Some(hostname) = &self.hostname {
            let _ = write!(out, " {hostname}");
        }
        let _ = write!(out, " {}: ", self.tag);
    }
}

/// Finds the syslog server. Names are resolved here, when a configuration is loaded; like nginx, it uses the first
/// address.
pub fn syslog_place(
    written: &Syslog,
    hostname: &str,
    resolve: Resolve<'_>,
    span: Span,
) -> Result<SyslogPlace, Diagnostic> {
    let server = match &written.server.host {
        Host::Ip(ip) => PeerAddress::Ip((*ip, written.server.port).into()),
        Host::Unix(path) => PeerAddress::Unix(PathBuf::from(path)),
        Host::Name(name) => {
            let found = resolve(name, written.server.port).ok().and_then(|found| found.into_iter().next());
            let message = || format!("host not found in syslog server \"{name}\"");
            PeerAddress::Ip(found.ok_or_else(|| Diagnostic::error(span, message()))?)
        }
    };
    Ok(SyslogPlace {
        server,
        facility: written.facility,
        severity: written.severity.into(),
        tag: written.tag.clone(),
        hostname: (!written.no_hostname).then(|| hostname.to_owned()),
    })
}

/// nginx's behaviour without `open_log_file_cache`: each file is opened for its lines and closed again.
impl From<Option<LogFileCache>> for NamedFiles {
    fn from(written: Option<LogFileCache>) -> Self {
        written.map_or(Self { open_max: 0, inactive: Duration::ZERO, uses_min: 1, valid: Duration::ZERO }, |cache| {
            Self {
                open_max: cache.files_max as usize,
                inactive: cache.inactive,
                uses_min: cache.uses_min,
                valid: cache.valid,
            }
        })
    }
}

/// Number of path segments of the parent.
pub(crate) fn parent_segments(path: &[u8]) -> usize {
    path.split(|&byte| byte == b'/').filter(|segment| *segment == b"..").count()
}

/// Turns a name into addresses; at start and reload only, where waiting for DNS is allowed.
pub type Resolve<'a> = &'a dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn head(hostname: Option<&str>, level: Level) -> String {
        let place = SyslogPlace {
            server: PeerAddress::Unix("/dev/log".into()),
            facility: 23,
            severity: Level::Info,
            tag: "nginx".to_owned(),
            hostname: hostname.map(str::to_owned),
        };
        let mut out = Vec::new();
        place.encode_head(level, &Moment::new(1_795_293_000, 0), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_message_begins_as_nginx_writes_it() {
        assert_eq!(head(Some("web1"), Level::Info), "<190>Nov 21 20:30:00 web1 nginx: ");
        assert_eq!(head(None, Level::Error), "<187>Nov 21 20:30:00 nginx: ");
        assert_eq!(head(None, Level::Emerg), "<184>Nov 21 20:30:00 nginx: ");
        assert_eq!(head(None, Level::Debug), "<191>Nov 21 20:30:00 nginx: ");
    }
}
