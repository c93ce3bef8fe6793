//! The response cache: its zones, and what locations store in them. `fastcgi_cache` and its kin have the same words
//! under another prefix.

use super::env::{Env, Family, ZoneKind};
use super::limit::{ZONE_SIZE_MIN, ZoneId};
use super::location::LocationSettings;
use super::proxy::Scheme;
use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::plain::{parse_flag, parse_u32};
use crate::value::size::{bytes, number, parse_offset};
use crate::value::template::has_variables;
use crate::value::time::{milliseconds, parse_milliseconds};
use crate::value::words::{MethodSet, NextUpstream};
use crate::value::{Parsed, Template, invalid_parameter, invalid_value, parameter};
use std::time::Duration;

/// One `proxy_cache_path` or its kin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheZone {
    /// Its name.
    pub name: String,
    /// Bytes for keys, as nginx counts them.
    pub keys_bytes: u64,
    /// The directory, relative to the prefix unless absolute.
    pub path: Vec<u8>,
    /// Digits of each level of directories below it; 0 where there is no level.
    pub levels: [u8; 3],
    /// A response that was not used for this long is removed.
    pub inactive: Duration,
    /// Bytes of all files; `None` for no limit.
    pub size_max: Option<u64>,
    /// Bytes that are left free on the file system.
    pub free_min: u64,
    /// How files are removed.
    pub manager: CachePace,
    /// How the directory is read at the start.
    pub loader: CachePace,
    /// Where it was written.
    pub span: Span,
}

/// How much work the cache does at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachePace {
    /// Files at most.
    pub files: u32,
    /// Time at most.
    pub threshold: Duration,
    /// The pause after it.
    pub sleep: Duration,
}

/// `proxy_cache`.
#[derive(Debug, Clone, PartialEq)]
pub enum CacheChoice {
    /// A zone, by its index.
    Zone(ZoneId),
    /// Variables name the zone.
    Named(Template),
}

/// One `proxy_cache_valid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheValid {
    /// The statuses; 0 means all others.
    pub statuses: Vec<u16>,
    /// How long their responses stay fresh.
    pub time: Duration,
}

/// `proxy_store`.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreChoice {
    /// `on`: under the path of the request's file.
    RequestFile,
    /// Under this path.
    Path(Template),
}

settings! {
    /// Which upstream responses a location stores.
    pub struct CacheSettings {
        /// The zone; `None` keeps nothing.
        zone: Option<CacheChoice> = None, "proxy_cache" => whole(parse_cache);
        /// The key; `None` is the upstream's URL.
        key: Option<Template> = None, "proxy_cache_key" => option(Template::parse);
        /// Freshness of responses that name none themselves.
        valid: Vec<CacheValid> = Vec::new(), "proxy_cache_valid" => item(parse_valid);
        /// Requests for a key before its response is stored.
        min_uses: u32 = 1, "proxy_cache_min_uses" => value(parse_u32);
        /// Methods with stored responses. GET and HEAD are always among them.
        methods: MethodSet = MethodSet::GET.with(MethodSet::HEAD), "proxy_cache_methods" => set(parse_methods);
        /// Conditions under which the cache is not consulted.
        bypass: Vec<Template> = Vec::new(), "proxy_cache_bypass" => each(Template::parse);
        /// Conditions under which a response is not stored.
        no_cache: Vec<Template> = Vec::new(), "proxy_no_cache" => each(Template::parse);
        /// Conditions under which the request removes the entry of its key and gets no other response.
        purge: Vec<Template> = Vec::new(), "proxy_cache_purge" => each(Template::parse);
        /// When a stale response may be used.
        use_stale: NextUpstream = NextUpstream(0), "proxy_cache_use_stale" => set(parse_use_stale);
        /// Whether a stale response is renewed while it is used.
        background_update: bool = false, "proxy_cache_background_update" => value(parse_flag);
        /// Whether a stale response is renewed by a conditional request.
        revalidate: bool = false, "proxy_cache_revalidate" => value(parse_flag);
        /// Whether one request at a time fills a key.
        lock: bool = false, "proxy_cache_lock" => value(parse_flag);
        /// Time after which another request may fill the key.
        lock_age: Duration = Duration::from_secs(5), "proxy_cache_lock_age" => value(parse_milliseconds);
        /// How long the other requests wait.
        lock_timeout: Duration = Duration::from_secs(5), "proxy_cache_lock_timeout" => value(parse_milliseconds);
        /// Whether HEAD is turned into GET.
        convert_head: bool = true, "proxy_cache_convert_head" => value(parse_flag);
        /// Highest first byte of a range whose request still fills the cache; `None` for any.
        max_range_offset: Option<u64> = None, "proxy_cache_max_range_offset" => option(parse_offset);
        /// Whether responses to requests with `Authorization` are stored even if they do not allow it.
        authorization: bool = false, "proxy_cache_authorization" => value(parse_flag);
        /// Whether the key is replaced by its digest.
        key_digest: bool = false, "proxy_cache_key_digest" => value(parse_flag);
        /// Where responses are saved as plain files; `None` saves nothing.
        store: Option<StoreChoice> = None, "proxy_store" => value(parse_store);
        /// Permission bits of those files.
        store_access: u32 = STORE_ACCESS, "proxy_store_access" => whole(parse_access);
    }
}

/// Unless `user:` says otherwise, the owner may read and write a saved file.
const STORE_ACCESS: u32 = 0o600;

fn parse_store(name: &str, word: &Word) -> Parsed<Option<StoreChoice>> {
    match word.value.as_slice() {
        b"off" => Ok(None),
        b"on" => Ok(Some(StoreChoice::RequestFile)),
        b"" => Err(Diagnostic::error(word.span, "empty path".to_owned())),
        _ => Template::parse(name, word).map(|path| Some(StoreChoice::Path(path))),
    }
}

/// `user:rw group:r all:r`
fn parse_access(at: &mut At<'_>) -> Parsed<u32> {
    const WHO: [(&str, u32); 3] = [("user", 6), ("group", 3), ("all", 0)];
    let mut access = if at.words().iter().any(|word| word.value.starts_with(b"user:")) { 0 } else { STORE_ACCESS };
    for word in at.words() {
        let text = word.text();
        let (who, rights) = text.split_once(':').ok_or_else(|| invalid_value(word))?;
        let shift = WHO.iter().find(|(name, _)| *name == who).map(|(_, shift)| *shift);
        let bits = match rights {
            "rw" => Some(6),
            "r" => Some(4),
            _ => None,
        };
        let (Some(shift), Some(bits)) = (shift, bits) else {
            return Err(invalid_value(word).with_hint("`user`, `group` or `all`, a colon, and `r` or `rw`"));
        };
        access |= bits << shift;
    }
    Ok(access)
}

/// A level that sets one of store and cache switches the inherited other one off. Both in one level are an error.
pub(crate) fn settle_store(
    family: &str,
    settings: &mut CacheSettings,
    [sets_zone, sets_store]: [bool; 2],
    span_of: impl Fn(&str) -> Span,
    out: &mut Vec<Diagnostic>,
) {
    if settings.zone.is_none() || settings.store.is_none() {
        return;
    }
    match (sets_zone, sets_store) {
        (true, true) => {
            let (store, cache) = (span_of(&format!("{family}store")), span_of(&format!("{family}cache")));
            let message = format!("\"{family}store\" directive is incompatible with \"{family}cache\"");
            out.push(Diagnostic::error(store, message).with_related(cache, "the cache is here"));
        }
        (false, true) => settings.zone = None,
        _ => settings.store = None,
    }
}

fn parse_cache(at: &mut At<'_>) -> Parsed<Option<CacheChoice>> {
    let word = at.word(0)?;
    if word.value == b"off" {
        return Ok(None);
    }
    if has_variables(&word.value) {
        return Template::parse(at.name, word).map(|name| Some(CacheChoice::Named(name)));
    }
    match at.env.zones.get(&*word.value) {
        Some(&(ZoneKind::Cache(family), id, _)) if family == Family::of(at.name.as_bytes()) => {
            Ok(Some(CacheChoice::Zone(id)))
        }
        Some(&(_, _, span)) => {
            let message = format!("the shared memory zone \"{}\" is already declared for a different use", word.text());
            Err(Diagnostic::error(word.span, message).with_related(span, "defined here"))
        }
        None => {
            let message = format!("\"{}\" zone \"{}\" is unknown", at.name, word.text());
            Err(Diagnostic::error(word.span, message).with_hint(format!("define it in `http` with `{}_path`", at.name)))
        }
    }
}

/// The statuses of a line that names none.
const STATUSES: [u16; 3] = [200, 301, 302];

fn parse_valid(at: &mut At<'_>) -> Parsed<CacheValid> {
    let count = at.words().len().saturating_sub(1);
    let (last, codes) = (at.word(count)?, &at.words()[..count]);
    let time = milliseconds(&last.value, true);
    let time = time.ok_or_else(|| Diagnostic::error(last.span, format!("invalid time value \"{}\"", last.text())))?;
    let mut statuses = Vec::new();
    for word in codes {
        statuses.push(match number(&word.value) {
            _ if word.value == b"any" => 0,
            Some(status @ 100..=599) => status as u16,
            _ => return Err(Diagnostic::error(word.span, format!("invalid status \"{}\"", word.text()))),
        });
    }
    if statuses.is_empty() {
        statuses = STATUSES.to_vec();
    }
    Ok(CacheValid { statuses, time: Duration::from_millis(time) })
}

fn parse_methods(words: &[Word], warnings: &mut Vec<Diagnostic>) -> Parsed<MethodSet> {
    if let Some(word) = words.iter().find(|word| ![&b"GET"[..], b"HEAD", b"POST"].contains(&word.value.as_slice())) {
        return Err(invalid_value(word).with_hint("responses to `GET`, `HEAD` and `POST` can be kept"));
    }
    Ok(MethodSet::parse_set(words, warnings)?.with(MethodSet::GET).with(MethodSet::HEAD))
}

/// As in nginx, `off` cancels all other words.
fn parse_use_stale(words: &[Word], warnings: &mut Vec<Diagnostic>) -> Parsed<NextUpstream> {
    let set = NextUpstream::parse_set(words, warnings)?;
    if let Some(word) = words.iter().find(|word| word.value == b"non_idempotent") {
        return Err(invalid_value(word));
    }
    Ok(if set.contains(NextUpstream::OFF) { NextUpstream(0) } else { set })
}

/// Reads a `proxy_cache_path` or one of its kin.
pub(crate) fn parse_cache_path(directive: &Directive) -> Parsed<CacheZone> {
    let Some((path, parameters)) = directive.args.split_first() else {
        let message = format!("invalid number of arguments in \"{}\" directive", directive.name.text());
        return Err(Diagnostic::error(directive.name.span, message));
    };
    let mut written = path.value.to_vec();
    while written.len() > 1 && written.ends_with(b"/") {
        written.pop();
    }
    let pace = CachePace { files: 100, threshold: Duration::from_millis(200), sleep: Duration::from_millis(50) };
    let mut zone = CacheZone {
        name: String::new(),
        keys_bytes: 0,
        path: written,
        levels: [0; 3],
        inactive: Duration::from_mins(10),
        size_max: None,
        free_min: 0,
        manager: pace,
        loader: pace,
        span: directive.span,
    };
    for word in parameters {
        let invalid = |what: &str| Diagnostic::error(word.span, format!("invalid {what} value \"{}\"", word.text()));
        let count = |value: &Word, what: &str| {
            let files = number(&value.value).and_then(|files| u32::try_from(files).ok());
            files.ok_or_else(|| invalid(what))
        };
        let time = |value: &Word, what: &str| {
            milliseconds(&value.value, false).map(Duration::from_millis).ok_or_else(|| invalid(what))
        };
        if let Some(value) = parameter(word, "levels") {
            zone.levels = parse_levels(&value.value)
                .ok_or_else(|| Diagnostic::error(word.span, format!("invalid \"levels\" \"{}\"", word.text())))?;
        } else if let Some(value) = parameter(word, "use_temp_path") {
            if ![&b"on"[..], b"off"].contains(&value.value.as_slice()) {
                let message = format!("invalid use_temp_path value \"{}\", it must be \"on\" or \"off\"", value.text());
                return Err(Diagnostic::error(word.span, message));
            }
        } else if let Some(value) = parameter(word, "keys_zone") {
            (zone.name, zone.keys_bytes) = parse_keys_zone(word, &value)?;
        } else if let Some(value) = parameter(word, "inactive") {
            zone.inactive =
                milliseconds(&value.value, true).map(Duration::from_millis).ok_or_else(|| invalid("inactive"))?;
        } else if let Some(value) = parameter(word, "max_size") {
            zone.size_max = Some(bytes(&value.value, true).ok_or_else(|| invalid("max_size"))?);
        } else if let Some(value) = parameter(word, "min_free") {
            zone.free_min = bytes(&value.value, true).ok_or_else(|| invalid("min_free"))?;
        } else if let Some(value) = parameter(word, "manager_files") {
            zone.manager.files = count(&value, "manager_files")?;
        } else if let Some(value) = parameter(word, "manager_sleep") {
            zone.manager.sleep = time(&value, "manager_sleep")?;
        } else if let Some(value) = parameter(word, "manager_threshold") {
            zone.manager.threshold = time(&value, "manager_threshold")?;
        } else if let Some(value) = parameter(word, "loader_files") {
            zone.loader.files = count(&value, "loader_files")?;
        } else if let Some(value) = parameter(word, "loader_sleep") {
            zone.loader.sleep = time(&value, "loader_sleep")?;
        } else if let Some(value) = parameter(word, "loader_threshold") {
            zone.loader.threshold = time(&value, "loader_threshold")?;
        } else {
            return Err(unknown_parameter(word));
        }
    }
    if zone.name.is_empty() {
        let message = format!("\"{}\" must have \"keys_zone\" parameter", directive.name.text());
        return Err(Diagnostic::error(directive.span, message).with_hint("`keys_zone=name:10m`"));
    }
    Ok(zone)
}

fn unknown_parameter(word: &Word) -> Diagnostic {
    let unknown = invalid_parameter(word);
    if word.value.starts_with(b"purger") {
        // A word of the commercial nginx.
        return unknown.with_hint("`proxy_cache_purge` and `holdfast ctl cache purge` remove responses at once");
    }
    unknown
}

/// Up to three numbers, each 1 or 2, with colons between them.
fn parse_levels(text: &[u8]) -> Option<[u8; 3]> {
    let mut levels = [0; 3];
    let mut digits = text.split(|&byte| byte == b':');
    for level in &mut levels {
        *level = match digits.next() {
            Some(b"1") => 1,
            Some(b"2") => 2,
            Some(_) => return None,
            None => break,
        };
    }
    (levels[0] > 0 && digits.next().is_none()).then_some(levels)
}

fn parse_keys_zone(word: &Word, value: &Word) -> Parsed<(String, u64)> {
    let invalid = || Diagnostic::error(word.span, format!("invalid keys zone size \"{}\"", word.text()));
    let colon = value.value.iter().position(|&byte| byte == b':').filter(|&at| at > 0).ok_or_else(invalid)?;
    let size = bytes(&value.value[colon + 1..], false).ok_or_else(invalid)?;
    if size < ZONE_SIZE_MIN {
        let message = format!("keys zone \"{}\" is too small", word.text());
        return Err(Diagnostic::error(word.span, message).with_hint("at least 32k"));
    }
    Ok((String::from_utf8_lossy(&value.value[..colon]).into_owned(), size))
}

/// Two zones cannot have one directory: each would remove the other's files.
pub(crate) fn check_paths(zones: &[CacheZone], out: &mut Vec<Diagnostic>) {
    for (at, zone) in zones.iter().enumerate() {
        if let Some(first) = zones[..at].iter().find(|first| first.path == zone.path) {
            let path = String::from_utf8_lossy(&zone.path);
            let message = format!("the path \"{path}\" is used by the caches \"{}\" and \"{}\"", first.name, zone.name);
            out.push(Diagnostic::error(zone.span, message).with_related(first.span, "first used here"));
        }
    }
}

/// The zone of a name, for `proxy_cache` with variables.
pub(crate) fn define_cache(
    env: &mut Env,
    zones: &mut Vec<CacheZone>,
    (zone, family): (CacheZone, Family),
    out: &mut Vec<Diagnostic>,
) {
    let id = ZoneId(zones.len() as u32);
    if let Some((_, _, first)) = env.zones.get(zone.name.as_bytes()) {
        let message = format!("duplicate zone \"{}\"", zone.name);
        out.push(Diagnostic::error(zone.span, message).with_related(*first, "first defined here"));
        return;
    }
    env.zones.insert(zone.name.as_bytes().to_vec(), (ZoneKind::Cache(family), id, zone.span));
    zones.push(zone);
}

impl LocationSettings {
    /// The cache settings for upstreams of a scheme.
    pub fn cache_of(&self, scheme: Scheme) -> &CacheSettings {
        match scheme {
            // Values of memcached and gRPC responses are not cached: the cache words do not exist for them.
            Scheme::Http | Scheme::Https | Scheme::Memcached | Scheme::Grpc | Scheme::Grpcs => &self.cache,
            Scheme::Fastcgi => &self.fastcgi_cache,
            Scheme::Scgi => &self.scgi_cache,
            Scheme::Uwsgi | Scheme::Suwsgi => &self.uwsgi_cache,
        }
    }
}
