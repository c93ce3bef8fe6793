//! `http` and `server`: listeners, names, and the settings of connections.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::acme::{AcmeCertificate, AcmeIssuer};
use super::auth_jwt::JwtVariable;
use super::cache::CacheZone;
use super::charset::CharsetMap;
use super::env::Env;
use super::files::{TryFiles, parse_buffers};
use super::geoip2::{Geoip2, Geoip2Proxies};
use super::http2::Http2Settings;
use super::limit::{ConnectionZone, RequestZone};
use super::listen::{Listen, Listener};
use super::location::{Content, Location, LocationSettings};
use super::log::LogFormat;
use super::map::{Geo, Map, SplitClients};
use super::memory::Frame;
use super::otel::OtelExporter;
use super::rewrite::Program;
use super::settings::{level, settings};
use super::tls::TlsSettings;
use super::upstream::Upstream;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Word;
use crate::value::plain::{parse_flag, parse_number, parse_u32};
use crate::value::size::{Buffers, parse_size};
use crate::value::time::parse_milliseconds;
use crate::value::{Parsed, Regex};

/// Index into `Http::servers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId(pub u32);

/// What the servers of a block refer to by name or index. `http` and `stream` have one each.
#[derive(Debug, Clone, Default)]
pub struct Declared {
    /// Groups: written ones first, then the implicit groups of `proxy_pass` to a host.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Log formats; in `http` the first is `combined`.
    pub log_formats: Vec<LogFormat>,
    /// Maps.
    pub maps: Vec<Map>,
    /// Geos.
    pub geos: Vec<Geo>,
    /// Databases of addresses.
    pub geoips: Vec<Geoip2>,
    /// Whose `X-Forwarded-For` counts for them, in `http`.
    pub geoip_proxies: Geoip2Proxies,
    /// Splits.
    pub splits: Vec<SplitClients>,
    /// Zones of `limit_req`.
    pub request_zones: Vec<RequestZone>,
    /// Zones of `limit_conn`.
    pub connection_zones: Vec<ConnectionZone>,
}

/// The body of `http`.
#[derive(Debug, Clone)]
pub struct Http {
    /// Servers in the order of the text.
    pub servers: Vec<Arc<Server>>,
    /// Sockets to listen on.
    pub listeners: Vec<Listener>,
    /// Groups, formats, tables and zones.
    pub declared: Declared,
    /// Tables between character sets.
    pub charset_maps: Vec<CharsetMap>,
    /// Zones of `proxy_cache_path` and its kin.
    pub cache_zones: Vec<CacheZone>,
    /// Variables of tokens.
    pub jwt_variables: Vec<JwtVariable>,
    /// Authorities of certificates.
    pub acme_issuers: Vec<AcmeIssuer>,
    /// The collector of spans.
    pub otel_exporter: Option<OtelExporter>,
    /// The settings before a server is selected.
    pub location: Arc<LocationSettings>,
    /// The same as that of another `http` if the two differ in nothing but servers and groups.
    pub frame: Arc<Frame>,
    /// Where it was written.
    pub span: Span,
}

impl Http {
    /// An `http` without servers, used if the configuration has none.
    pub fn empty(span: Span) -> Self {
        Self {
            servers: Vec::new(),
            listeners: Vec::new(),
            declared: Declared::default(),
            charset_maps: Vec::new(),
            cache_zones: Vec::new(),
            jwt_variables: Vec::new(),
            acme_issuers: Vec::new(),
            otel_exporter: None,
            location: Arc::default(),
            frame: Arc::default(),
            span,
        }
    }
}

impl Deref for Http {
    type Target = Declared;

    fn deref(&self) -> &Declared {
        &self.declared
    }
}

settings! {
    /// The settings before a location is selected.
    pub struct HeadSettings {
        /// Bytes for the first part of a request head.
        client_header_buffer_size: u64 = 1 << 10, "client_header_buffer_size" => value(parse_size);
        /// Buffers for a head that does not fit; each field must fit into one of them.
        large_client_header_buffers: Buffers = Buffers { count: 4, size: 8 << 10 }, "large_client_header_buffers" => whole(parse_buffers);
        /// Header fields of a request at most.
        max_headers: u32 = 1000, "max_headers" => value(parse_u32);
        /// Longest time of a whole head.
        client_header_timeout: Duration = Duration::from_mins(1), "client_header_timeout" => value(parse_milliseconds);
        /// Whether repeated slashes count as one.
        merge_slashes: bool = true, "merge_slashes" => value(parse_flag);
        /// Whether a header name may contain `_`.
        underscores_in_headers: bool = false, "underscores_in_headers" => value(parse_flag);
        /// Whether a field with an invalid name is dropped instead of refused.
        ignore_invalid_headers: bool = true, "ignore_invalid_headers" => value(parse_flag);
        /// Whether a line feed alone ends a line.
        bare_line_feeds: bool = true, "bare_line_feeds" => value(parse_flag);
        /// Checked; of no effect here.
        connection_pool_size: u64 = 512, "connection_pool_size" => value(parse_pool_size);
        /// Checked; of no effect here.
        request_pool_size: u64 = 4 << 10, "request_pool_size" => value(parse_pool_size);
        /// Checked; of no effect here.
        server_names_hash_max_size: u64 = 512, "server_names_hash_max_size" => value(parse_number);
        /// Checked; of no effect here.
        server_names_hash_bucket_size: u64 = 64, "server_names_hash_bucket_size" => value(parse_number);
    }
}

level! {
    /// Settings of a server, merged from `http`.
    pub struct ServerSettings {
        /// Heads and connections.
        head: HeadSettings,
        /// TLS towards clients.
        tls: TlsSettings,
        /// HTTP/2 towards clients.
        http2: Http2Settings,
    }
}

/// One `server`.
#[derive(Debug, Clone)]
pub struct Server {
    /// Where it listens; never empty.
    pub listens: Vec<Listen>,
    /// Its names in the order of the text; the first is `$server_name`. `""` where none was written.
    pub names: Vec<ServerName>,
    /// The settings before a location is selected.
    pub settings: Arc<ServerSettings>,
    /// The settings if no location matches; locations inherit them.
    pub location: Arc<LocationSettings>,
    /// `try_files` of the server itself.
    pub try_files: Option<Box<TryFiles>>,
    /// The handler if no location matches; `None` serves files.
    pub content: Option<Content>,
    /// The rewrite program that runs before the search for a location.
    pub program: Program,
    /// The certificate to order by ACME.
    pub acme: Option<AcmeCertificate>,
    /// Its locations in the order of the text.
    pub locations: Vec<Location>,
    /// Where it was written.
    pub span: Span,
}

/// One name of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerName {
    /// What it matches.
    pub form: NameForm,
    /// The name as written, in lower case unless it is an expression: the value of `$server_name`.
    pub text: Vec<u8>,
    /// Where it was written; `None` for the implied empty name.
    pub span: Option<Span>,
}

/// What a name matches. An exact name wins over `*.x`, that over `x.*`, that over expressions in their order.
#[derive(Debug, Clone, PartialEq)]
pub enum NameForm {
    /// The whole name, in lower case; empty for requests without Host.
    Exact(Vec<u8>),
    /// `*.example.com` (as `example.com`): at least one further part in front.
    Suffix(Vec<u8>),
    /// `.example.com` (as `example.com`): the name itself, or with parts in front.
    NameAndSuffix(Vec<u8>),
    /// `mail.*` (as `mail`): at least one further part behind.
    Prefix(Vec<u8>),
    /// An expression over the lower-case name, without regard to case.
    Regex(Regex),
    /// `$hostname`: the machine's own name.
    Hostname,
}

/// Where the `*` of a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wildcard {
    /// Nowhere.
    Exact,
    /// `*.x`
    Suffix,
    /// `.x`
    NameAndSuffix,
    /// `x.*`
    Prefix,
}

/// Bytes of nginx's smallest pool.
const POOL_BYTES_MIN: u64 = 112;
const POOL_ALIGNMENT: u64 = 16;

fn parse_pool_size(name: &str, word: &Word) -> Parsed<u64> {
    let size = parse_size(name, word)?;
    if size < POOL_BYTES_MIN {
        let message = format!("the pool size must be no less than {POOL_BYTES_MIN}");
        return Err(Diagnostic::error(word.span, message));
    }
    if size % POOL_ALIGNMENT != 0 {
        let message = format!("the pool size must be a multiple of {POOL_ALIGNMENT}");
        return Err(Diagnostic::error(word.span, message));
    }
    Ok(size)
}

/// Splits a name by its form; `None` if a `*` or a dot is in a wrong place.
pub(crate) fn parse_wildcard(name: &[u8]) -> Option<Wildcard> {
    let stars = name.iter().filter(|&&byte| byte == b'*').count();
    if name.windows(2).any(|pair| pair == b"..") || name.contains(&0) || stars > 1 {
        return None;
    }
    match (name, stars) {
        ([b'.', _, ..], 0) => Some(Wildcard::NameAndSuffix),
        ([b'*', b'.', _, ..], 1) => Some(Wildcard::Suffix),
        ([_, .., b'.', b'*'], 1) => Some(Wildcard::Prefix),
        (_, 0) => Some(Wildcard::Exact),
        _ => None,
    }
}

/// Reads one name of `server_name`.
pub(crate) fn parse_server_name(word: &Word, env: &Env, out: &mut Vec<Diagnostic>) -> Parsed<ServerName> {
    let span = Some(word.span);
    if word.value == b"$hostname" {
        return Ok(ServerName { form: NameForm::Hostname, text: word.value.to_vec(), span });
    }
    if word.value.first() == Some(&b'~') {
        if word.value.len() == 1 {
            return Err(Diagnostic::error(word.span, format!("empty regex in server name \"{}\"", word.text())));
        }
        let regex = env.regex(word, 1, true)?;
        return Ok(ServerName { form: NameForm::Regex(regex), text: word.value.to_vec(), span });
    }
    let invalid = || Diagnostic::error(word.span, format!("server name \"{}\" is invalid", word.text()));
    if matches!(word.value.as_slice(), [b'*' | b'.'] | [b'*', _])
        || (word.value.first() == Some(&b'*') && word.value.get(1) != Some(&b'.'))
    {
        return Err(
            invalid().with_hint("a `*` means whole parts only, at the start or the end: `*.example.com`, `mail.*`")
        );
    }
    if word.value.contains(&b'/') {
        let message = format!("server name \"{}\" has suspicious symbols", word.text());
        out.push(Diagnostic::warning(word.span, message).with_hint("a name has neither scheme nor path"));
    }
    let text = word.value.to_ascii_lowercase();
    let form = match parse_wildcard(&text) {
        Some(Wildcard::Exact) => NameForm::Exact(text.clone()),
        Some(Wildcard::Suffix) => NameForm::Suffix(text[2..].to_vec()),
        Some(Wildcard::NameAndSuffix) => NameForm::NameAndSuffix(text[1..].to_vec()),
        Some(Wildcard::Prefix) => NameForm::Prefix(text[..text.len() - 2].to_vec()),
        None => {
            let message = format!("invalid server name or wildcard \"{}\"", word.text());
            return Err(Diagnostic::error(word.span, message)
                .with_hint("a `*` means whole parts only, at the start or the end: `*.example.com`, `mail.*`"));
        }
    };
    Ok(ServerName { form, text, span })
}
