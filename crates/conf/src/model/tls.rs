//! TLS towards clients: the words of `ssl_*` as written. This module does not know OpenSSL's ciphers, curves and
//! commands; each keeps its place, so that messages can point there.
//!
//! Relative paths of certificates, keys, password files, tickets and lists are below the main file's directory, not
//! below `-p`: [`crate::Loaded::conf_prefix`]. [`PemSource::of`] applies it to a certificate or a key.

use super::listen::{Listener, Listening};
use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Block, Directive, Word};
use crate::value::plain::{parse_choice, parse_flag, parse_located, parse_path, parse_u32};
use crate::value::size::{bytes, number, parse_size};
use crate::value::time::{milliseconds, parse_seconds};
use crate::value::{Located, Parsed, Template, invalid_parameter, parameter};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// nginx's least size of a shared zone: eight pages.
const ZONE_BYTES_MIN: u64 = 8 * 4096;

settings! {
    /// TLS of a server.
    pub struct TlsSettings {
        /// Certificates with their chains. Each belongs to the key at the same index of `certificate_keys`. See
        /// [`PemSource`].
        certificates: Vec<Template> = Vec::new(), "ssl_certificate" => item(parse_pem);
        /// Keys: at least as many as certificates.
        certificate_keys: Vec<Template> = Vec::new(), "ssl_certificate_key" => item(parse_pem);
        /// Cache of certificates and keys with variables in their names; `None` is off.
        certificate_cache: Option<CertificateCache> = None, "ssl_certificate_cache" => whole(parse_certificate_cache);
        /// Whether certificates are compressed (RFC 8879).
        certificate_compression: bool = false, "ssl_certificate_compression" => value(parse_flag);
        /// Passphrases of keys, one per line.
        password_file: Option<Located<PathBuf>> = None, "ssl_password_file" => value(parse_file);
        /// Parameters of DHE.
        dhparam: Option<Located<PathBuf>> = None, "ssl_dhparam" => value(parse_file);
        /// Curves in OpenSSL's words; `None` is `auto`.
        ecdh_curve: Option<Located<String>> = None, "ssl_ecdh_curve" => option(parse_located);
        /// Versions in nginx's words, such as `TLSv1.2`; an empty list is TLSv1.2 and TLSv1.3.
        protocols: Vec<Located<&'static str>> = Vec::new(), "ssl_protocols" => edit(edit_protocols);
        /// Ciphers in OpenSSL's words; `None` is `HIGH:!aNULL:!MD5`.
        ciphers: Option<Located<String>> = None, "ssl_ciphers" => option(parse_located);
        /// Whether the server's order of ciphers takes precedence.
        prefer_server_ciphers: bool = false, "ssl_prefer_server_ciphers" => value(parse_flag);
        /// OpenSSL's configuration commands.
        conf_commands: Vec<ConfCommand> = Vec::new(), "ssl_conf_command" => item(parse_command);
        /// Bytes of a record at most.
        buffer_size: u64 = 16 << 10, "ssl_buffer_size" => value(parse_size);
        /// Cache of sessions.
        session_cache: SessionCache = SessionCache::None, "ssl_session_cache" => edit(edit_session_cache);
        /// Whether clients get tickets.
        session_tickets: bool = true, "ssl_session_tickets" => value(parse_flag);
        /// Keys of tickets; the first one encrypts. If empty, the process makes its own.
        session_ticket_keys: Vec<Located<PathBuf>> = Vec::new(), "ssl_session_ticket_key" => each(parse_path);
        /// How long a session can be resumed.
        session_timeout: Duration = Duration::from_mins(5), "ssl_session_timeout" => value(parse_seconds);
        /// Whether early data of TLS 1.3 is accepted.
        early_data: bool = false, "ssl_early_data" => value(parse_flag);
        /// Whether clients must show a certificate.
        verify_client: VerifyClient = VerifyClient::Off, "ssl_verify_client" => choice(VERIFY_CLIENT);
        /// Most certificates between a client's and an authority's.
        verify_depth: u32 = 1, "ssl_verify_depth" => value(parse_u32);
        /// Authorities for clients' certificates; their names are sent to clients.
        client_certificate: Option<Located<PathBuf>> = None, "ssl_client_certificate" => value(parse_file);
        /// Authorities for clients' certificates; their names are not sent.
        trusted_certificate: Option<Located<PathBuf>> = None, "ssl_trusted_certificate" => value(parse_file);
        /// Revoked certificates.
        crl: Option<Located<PathBuf>> = None, "ssl_crl" => value(parse_file);
        /// Whether clients' certificates are checked by OCSP.
        ocsp: Ocsp = Ocsp::Off, "ssl_ocsp" => choice(OCSP);
        /// Responder to ask about clients' certificates.
        ocsp_responder: Option<Located<String>> = None, "ssl_ocsp_responder" => option(parse_located);
        /// Cache of answers about clients' certificates.
        ocsp_cache: Option<SharedZone> = None, "ssl_ocsp_cache" => value(parse_ocsp_cache);
        /// Whether an OCSP answer is stapled.
        stapling: bool = false, "ssl_stapling" => value(parse_flag);
        /// The answer that is stapled, in DER.
        stapling_file: Option<Located<PathBuf>> = None, "ssl_stapling_file" => value(parse_file);
        /// Responder to ask about the server's certificate.
        stapling_responder: Option<Located<String>> = None, "ssl_stapling_responder" => option(parse_located);
        /// Whether the answer is verified.
        stapling_verify: bool = false, "ssl_stapling_verify" => value(parse_flag);
        /// Whether every handshake is refused.
        reject_handshake: bool = false, "ssl_reject_handshake" => value(parse_flag);
        /// Keys of Encrypted Client Hello.
        ech_files: Vec<Located<PathBuf>> = Vec::new(), "ssl_ech_file" => each(parse_path);
    }
}

/// `ssl_verify_client`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyClient {
    /// The client is not asked for a certificate.
    Off,
    /// A request without a valid certificate is refused.
    On,
    /// An invalid certificate is refused; a request without one is accepted.
    Optional,
    /// As `Optional`, but a certificate from any authority is accepted.
    OptionalNoCa,
}

const VERIFY_CLIENT: &[(&str, VerifyClient)] = &[
    ("off", VerifyClient::Off),
    ("on", VerifyClient::On),
    ("optional", VerifyClient::Optional),
    ("optional_no_ca", VerifyClient::OptionalNoCa),
];

/// `ssl_ocsp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ocsp {
    /// No certificate is checked.
    Off,
    /// The whole chain is checked.
    On,
    /// The client's own certificate is checked.
    Leaf,
}

const OCSP: &[(&str, Ocsp)] = &[("off", Ocsp::Off), ("on", Ocsp::On), ("leaf", Ocsp::Leaf)];

/// One `ssl_conf_command`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfCommand {
    /// The command, such as `Ciphersuites`.
    pub name: Located<String>,
    /// Its value.
    pub value: Located<String>,
}

/// `ssl_certificate_cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CertificateCache {
    /// Entries at most.
    pub entries_max: u32,
    /// An unused entry is forgotten after this time.
    pub inactive: Duration,
    /// How long an entry is valid before its file is checked again.
    pub valid: Duration,
}

/// A zone of shared memory: `shared:name:size`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedZone {
    /// Its name: one name is one zone in the whole configuration.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Where it was written.
    pub span: Span,
}

/// `ssl_session_cache`: sessions that the server keeps. Tickets are independent of it and need no memory of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionCache {
    /// Keeps no session, and tells clients so.
    Off,
    /// Keeps no session, but tells clients that it might.
    None,
    /// A cache in each worker process.
    Builtin {
        /// Sessions at most; `None` is OpenSSL's 20,480.
        sessions_max: Option<u64>,
    },
    /// A cache of all workers.
    Shared(SharedZone),
    /// Both: first the worker's own cache, then the shared one.
    Both {
        /// Most sessions in the worker's own; `None` is OpenSSL's number.
        sessions_max: Option<u64>,
        /// The shared one.
        zone: SharedZone,
    },
}

/// The source that `ssl_certificate` or `ssl_certificate_key` names, after variables are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PemSource<'a> {
    /// `data:…`: the text itself.
    Inline(&'a [u8]),
    /// A file.
    File(PathBuf),
}

impl<'a> PemSource<'a> {
    /// The source for a value. A relative path is below `conf_prefix`, the main file's directory.
    pub fn of(value: &'a [u8], conf_prefix: &Path) -> Self {
        match value.strip_prefix(b"data:") {
            Some(text) => Self::Inline(text),
            None => Self::File(conf_prefix.join(OsStr::from_bytes(value))),
        }
    }
}

fn parse_pem(at: &mut At<'_>) -> Parsed<Template> {
    Template::parse(at.name, at.word(0)?)
}

/// A file; `""` names none, which cancels an inherited file.
fn parse_file(name: &str, word: &Word) -> Parsed<Option<Located<PathBuf>>> {
    if word.value.is_empty() { Ok(None) } else { parse_path(name, word).map(Some) }
}

/// A protocol's name in ALPN, which has a length of one byte (RFC 7301, 3.1).
pub(super) fn parse_protocol(name: &str, word: &Word) -> Parsed<String> {
    if word.value.is_empty() || word.value.len() > 255 {
        let message = format!("invalid protocol \"{}\" in \"{name}\"", word.text());
        return Err(Diagnostic::error(word.span, message).with_hint("a name has 1 to 255 bytes, such as `mqtt`"));
    }
    Ok(word.text().into_owned())
}

fn parse_command(at: &mut At<'_>) -> Parsed<ConfCommand> {
    let (name, value) = (parse_located(at.name, at.word(0)?)?, parse_located(at.name, at.word(1)?)?);
    Ok(ConfCommand { name, value })
}

fn edit_protocols(protocols: &mut Vec<Located<&'static str>>, at: &mut At<'_>) -> Parsed<()> {
    const KNOWN: [(&str, &str); 6] = [
        ("SSLv2", "SSLv2"),
        ("SSLv3", "SSLv3"),
        ("TLSv1", "TLSv1"),
        ("TLSv1.1", "TLSv1.1"),
        ("TLSv1.2", "TLSv1.2"),
        ("TLSv1.3", "TLSv1.3"),
    ];
    if at.fresh {
        protocols.clear();
    }
    for word in at.words() {
        let value = parse_choice(word, &KNOWN)?;
        if protocols.iter().any(|known| known.value == value) {
            at.out.push(Diagnostic::warning(word.span, format!("duplicate value \"{}\"", word.text())));
        } else {
            protocols.push(Located { value, span: word.span });
        }
    }
    Ok(())
}

pub(super) fn parse_certificate_cache(at: &mut At<'_>) -> Parsed<Option<CertificateCache>> {
    let mut cache =
        CertificateCache { entries_max: 0, inactive: Duration::from_secs(10), valid: Duration::from_mins(1) };
    let mut off = false;
    for word in at.words() {
        let time = |text: &[u8]| milliseconds(text, true).map(Duration::from_millis);
        let read = if let Some(value) = parameter(word, "max") {
            let count = number(&value.value).filter(|&count| count > 0);
            count.map(|count| cache.entries_max = u32::try_from(count).unwrap_or(u32::MAX))
        } else if let Some(value) = parameter(word, "inactive") {
            time(&value.value).map(|time| cache.inactive = time)
        } else if let Some(value) = parameter(word, "valid") {
            time(&value.value).map(|time| cache.valid = time)
        } else {
            (word.value == b"off").then(|| off = true)
        };
        read.ok_or_else(|| invalid_parameter(word).with_hint("`off`, or `max=1000 inactive=20s valid=1m`"))?;
    }
    if off {
        return Ok(None);
    }
    if cache.entries_max == 0 {
        let message = format!("\"{}\" must have the \"max\" parameter", at.name);
        return Err(Diagnostic::error(at.directive.span, message));
    }
    Ok(Some(cache))
}

/// `shared:name:size`; `None` for any other form.
fn shared_zone(word: &Word) -> Option<SharedZone> {
    let rest = word.value.strip_prefix(b"shared:")?;
    let colon = rest.iter().position(|&byte| byte == b':').filter(|&at| at > 0)?;
    let name = String::from_utf8_lossy(&rest[..colon]).into_owned();
    Some(SharedZone { name, size: bytes(&rest[colon + 1..], false)?, span: word.span })
}

/// A zone as the messages about `what` have it.
fn parse_zone(what: &str, word: &Word) -> Parsed<SharedZone> {
    let error = |message: String| Diagnostic::error(word.span, message);
    let zone = shared_zone(word).ok_or_else(|| error(format!("invalid {what} \"{}\"", word.text())))?;
    if zone.size < ZONE_BYTES_MIN {
        return Err(error(format!("{what} \"{}\" is too small", word.text())).with_hint("at least 32k"));
    }
    Ok(zone)
}

fn parse_ocsp_cache(_name: &str, word: &Word) -> Parsed<Option<SharedZone>> {
    if word.value == b"off" { Ok(None) } else { parse_zone("OCSP cache", word).map(Some) }
}

fn edit_session_cache(cache: &mut SessionCache, at: &mut At<'_>) -> Parsed<()> {
    // A server that sets one kind inherits the other from `http`; `shared` alone drops the inherited workers' caches.
    let mut fresh = at.fresh;
    for word in at.words() {
        let builtin = |sessions_max, cache: &SessionCache| match cache {
            SessionCache::Shared(zone) | SessionCache::Both { zone, .. } => {
                SessionCache::Both { sessions_max, zone: zone.clone() }
            }
            _ => SessionCache::Builtin { sessions_max },
        };
        *cache = match word.value.as_slice() {
            b"off" => SessionCache::Off,
            b"none" => SessionCache::None,
            b"builtin" => builtin(None, cache),
            text if text.starts_with(b"builtin:") => {
                let count = number(&text[b"builtin:".len()..]).ok_or_else(|| invalid_session_cache(word))?;
                builtin(Some(count), cache)
            }
            text if text.starts_with(b"shared:") => {
                let zone = parse_zone("session cache", word)?;
                match &*cache {
                    SessionCache::Builtin { sessions_max } | SessionCache::Both { sessions_max, .. } if !fresh => {
                        SessionCache::Both { sessions_max: *sessions_max, zone }
                    }
                    // `off` or `none` in the same block takes precedence.
                    off @ (SessionCache::Off | SessionCache::None) if !fresh => off.clone(),
                    _ => SessionCache::Shared(zone),
                }
            }
            _ => return Err(invalid_session_cache(word)),
        };
        fresh = false;
    }
    Ok(())
}

fn invalid_session_cache(word: &Word) -> Diagnostic {
    Diagnostic::error(word.span, format!("invalid session cache \"{}\"", word.text()))
        .with_hint("`off`, `none`, `builtin`, `builtin:1000` or `shared:name:10m`")
}

/// Checks between the words of a server, and between servers of one address. `block` is the body of `http` or `stream`.
pub(crate) fn check_tls<S: Listening>(
    block: &Block,
    servers: &[S],
    listeners: &[Listener],
    taken: &dyn Fn(&str) -> bool,
    out: &mut Vec<Diagnostic>,
) {
    let is_server = |directive: &&Directive| directive.name.value == b"server" && directive.block.is_some();
    let blocks = block.directives.iter().filter(is_server).filter_map(|directive| directive.block.as_deref());
    let mut known = FxHashSet::default();
    for (inner, server) in blocks.zip(servers) {
        let place = |name: &str| {
            let find = |block: &Block| {
                let mut found = block.directives.iter().rev();
                found.find(|directive| directive.name.value == name.as_bytes()).map(|directive| directive.span)
            };
            find(inner).or_else(|| find(block)).unwrap_or(server.span())
        };
        for found in server_findings(server, &place) {
            // Servers that inherit the same directives report the same mistake once.
            if known.insert((found.span, found.message.clone())) {
                out.push(found);
            }
        }
    }
    check_zones(servers, taken, out);
    check_listeners(servers, listeners, out);
}

fn server_findings<S: Listening>(server: &S, place: &dyn Fn(&str) -> Span) -> Vec<Diagnostic> {
    let tls = server.tls();
    let mut found = Vec::new();
    if let Some(last) = tls.certificates.last() {
        if tls.certificate_keys.len() < tls.certificates.len() {
            let name = shown(last);
            let message = format!("no \"ssl_certificate_key\" is defined for certificate \"{name}\"");
            let hint = "each `ssl_certificate` has an `ssl_certificate_key` of its own, in the same order";
            found.push(Diagnostic::error(last.span, message).with_hint(hint));
            return found;
        }
    } else if !tls.reject_handshake {
        return found;
    }
    let has_authorities = tls.client_certificate.is_some() || tls.trusted_certificate.is_some();
    if matches!(tls.verify_client, VerifyClient::On | VerifyClient::Optional) && !has_authorities {
        let message = "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client";
        let hint = "name a file with the authorities that issue clients' certificates: `ssl_client_certificate FILE;`";
        found.push(Diagnostic::error(place("ssl_verify_client"), message).with_hint(hint));
    }
    if tls.ocsp != Ocsp::Off && tls.verify_client == VerifyClient::OptionalNoCa {
        let message = "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"";
        found.push(Diagnostic::error(place("ssl_ocsp"), message));
    }
    if server.listens().iter().any(|listen| listen.options.ssl) {
        found.extend(tls.certificate_keys.iter().filter_map(key_elsewhere));
    }
    found
}

/// Reports a key that is in a device rather than a file.
fn key_elsewhere(key: &Template) -> Option<Diagnostic> {
    let text = key.as_text()?;
    let kind = ["engine:", "store:"].into_iter().find(|kind| text.starts_with(kind.as_bytes()))?;
    let message = format!("a key by \"{kind}\" is known but not supported by holdfast");
    Some(Diagnostic::error(key.span, message).with_hint("holdfast reads keys in PEM, from a file or from `data:…`"))
}

/// A template approximately as written, for a message.
fn shown(template: &Template) -> String {
    use crate::value::Part;
    let part = |part: &Part| match part {
        Part::Text(text) => String::from_utf8_lossy(text).into_owned(),
        Part::Variable(name) => format!("${name}"),
        Part::Capture(number) => format!("${number}"),
    };
    template.parts.iter().map(part).collect()
}

/// Reports a name used for two zones or two sizes: a name is one zone in the whole configuration.
fn check_zones<S: Listening>(servers: &[S], taken: &dyn Fn(&str) -> bool, out: &mut Vec<Diagnostic>) {
    let mut zones: Vec<(&SharedZone, bool)> = servers.iter().flat_map(zones_of).collect();
    zones.sort_by_key(|(zone, _)| (zone.span.file, zone.span.start));
    zones.dedup_by_key(|(zone, _)| zone.span);
    let mut known: FxHashMap<&str, (&SharedZone, bool)> = FxHashMap::default();
    for (zone, kind) in zones {
        let SharedZone { name, size, span } = zone;
        if taken(name) {
            let message = format!("the shared memory zone \"{name}\" is already declared for a different use");
            out.push(Diagnostic::error(*span, message));
            continue;
        }
        let &mut (first, first_kind) = known.entry(name).or_insert((zone, kind));
        let message = if first_kind != kind {
            format!("the shared memory zone \"{name}\" is already declared for a different use")
        } else if first.size != *size {
            let first = first.size;
            format!("the size {size} of shared memory zone \"{name}\" conflicts with already declared size {first}")
        } else {
            continue;
        };
        out.push(Diagnostic::error(*span, message).with_related(first.span, "first declared here"));
    }
}

/// The zones that a server names, and whether each is for sessions.
pub(crate) fn zones_of<S: Listening>(server: &S) -> impl Iterator<Item = (&SharedZone, bool)> {
    let tls = server.tls();
    let sessions = match &tls.session_cache {
        SessionCache::Shared(zone) | SessionCache::Both { zone, .. } => Some((zone, true)),
        _ => None,
    };
    sessions.into_iter().chain(tls.ocsp_cache.as_ref().map(|zone| (zone, false)))
}

/// A TLS listener needs a certificate: if the default server has one, the others may have none.
fn check_listeners<S: Listening>(all: &[S], listeners: &[Listener], out: &mut Vec<Diagnostic>) {
    let mut known = FxHashSet::default();
    for listener in listeners.iter().filter(|listener| listener.options.ssl) {
        let servers = || listener.servers.iter().filter_map(|id| Some((*id, all.get(id.0 as usize)?)));
        let Some((_, default)) = servers().find(|(id, _)| *id == listener.default_server) else { continue };
        if !default.tls().certificates.is_empty() {
            continue;
        }
        let is_default_alone = !default.tls().reject_handshake;
        for (id, server) in servers() {
            let tls = server.tls();
            let is_bare = tls.certificates.is_empty() && !tls.reject_handshake;
            if !is_bare || (is_default_alone && id != listener.default_server) || !known.insert(id) {
                continue;
            }
            let of_address = server.listens().iter().find(|listen| listen.address == listener.address);
            let message = "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive";
            let mut found = Diagnostic::error(server.span(), message).with_hint(
                "give the server `ssl_certificate FILE;` and `ssl_certificate_key FILE;`, or `ssl_reject_handshake on;`",
            );
            if let Some(span) = of_address.and_then(|listen| listen.span) {
                found = found.with_related(span, "it listens here");
            }
            out.push(found);
        }
    }
}
