//! Variables computed from others: `map`, `geo`, `split_clients`.

use std::net::IpAddr;

use rustc_hash::{FxHashMap, FxHashSet};

use super::env::Env;
use super::rewrite::parse_variable;
use super::server::{Wildcard, parse_wildcard};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::size::number;
use crate::value::{Cidr, Parsed, Regex, Template};

/// One `map`.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// The value to look up.
    pub source: Template,
    /// The variable that it defines, without `$`.
    pub variable: String,
    /// The entries in order, without `default`. Exact strings win over `*.x`, that over `x.*`, that over expressions in
    /// their order.
    pub entries: Vec<(MapKey, Template)>,
    /// The value if no entry matches; an empty string if not written.
    pub default: Template,
    /// Keys are host names: case does not count, and a mask may match parts.
    pub hostnames: bool,
    /// Whether the value is evaluated anew at each use.
    pub volatile: bool,
    /// Where it was written.
    pub span: Span,
}

/// A key of a [`Map`].
#[derive(Debug, Clone, PartialEq)]
pub enum MapKey {
    /// The whole string, in lower case: nginx compares without case.
    Exact(Vec<u8>),
    /// `*.example.com` (as `example.com`): at least one further part in front.
    Suffix(Vec<u8>),
    /// `.example.com` (as `example.com`): the name itself, or with parts in front.
    NameAndSuffix(Vec<u8>),
    /// `mail.*` (as `mail`): at least one further part behind.
    Prefix(Vec<u8>),
    /// An expression; its captures are usable in the value.
    Regex(Regex),
}

/// One `geo`.
#[derive(Debug, Clone, PartialEq)]
pub struct Geo {
    /// The variable that holds the address, without `$`; `None` is the client's address.
    pub source: Option<String>,
    /// The variable that it defines, without `$`.
    pub variable: String,
    /// Values by address. The longest prefix wins; with `ranges` there is no overlap.
    pub entries: Vec<GeoEntry>,
    /// The value if no entry matches.
    pub default: Vec<u8>,
    /// Proxies with a trusted `X-Forwarded-For`.
    pub proxies: Vec<Cidr>,
    /// Whether trusted addresses inside that list are skipped.
    pub proxy_recursive: bool,
    /// Whether the value is evaluated anew at each use.
    pub volatile: bool,
    /// Where it was written.
    pub span: Span,
}

/// One line of a [`Geo`].
#[derive(Debug, Clone, PartialEq)]
pub struct GeoEntry {
    /// The addresses.
    pub range: GeoRange,
    /// Their value; `None` for a deleted range.
    pub value: Option<Vec<u8>>,
}

/// Addresses of one line of `geo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeoRange {
    /// A network.
    Network(Cidr),
    /// From the first to the last, both included.
    Range(IpAddr, IpAddr),
}

/// One `split_clients`.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitClients {
    /// The key to hash (by `MurmurHash2`).
    pub key: Template,
    /// The variable that it defines, without `$`.
    pub variable: String,
    /// The parts in order.
    pub parts: Vec<SplitPart>,
    /// Where it was written.
    pub span: Span,
}

/// One part of a [`SplitClients`].
#[derive(Debug, Clone, PartialEq)]
pub struct SplitPart {
    /// A hash below this, and not below the previous part's bound, belongs to this part; `None` is the rest (`*`).
    pub below: Option<u32>,
    /// Its value; a `$` is literal.
    pub value: Vec<u8>,
}

fn few_arguments(directive: &Directive) -> Diagnostic {
    let message = format!("invalid number of arguments in \"{}\" directive", directive.name.text());
    Diagnostic::error(directive.name.span, message)
}

/// Reads a `map`. Reports a faulty entry and leaves it out.
pub(crate) fn lower_map(directive: &Directive, env: &Env, out: &mut Vec<Diagnostic>) -> Parsed<Map> {
    let [source, variable, ..] = directive.args.as_slice() else { return Err(few_arguments(directive)) };
    let mut map = Map {
        source: Template::parse("map", source)?,
        variable: parse_variable(variable)?,
        entries: Vec::new(),
        default: Template::text(b"", directive.span),
        hostnames: false,
        volatile: false,
        span: directive.span,
    };
    let entries = directive.block.as_ref().map_or(&[][..], |block| block.directives.as_slice());
    let (mut default, mut known) = (None, FxHashMap::default());
    for entry in entries {
        let added = lower_map_entry(&mut map, &mut default, &mut known, entry, env);
        out.extend(added.err());
    }
    if let Some((value, _)) = default {
        map.default = value;
    }
    Ok(map)
}

fn lower_map_entry(
    map: &mut Map,
    default: &mut Option<(Template, Span)>,
    known: &mut FxHashMap<(u8, Vec<u8>), Span>,
    entry: &Directive,
    env: &Env,
) -> Parsed<()> {
    let name = &entry.name;
    match (name.value.as_slice(), entry.args.as_slice()) {
        (b"hostnames", []) => map.hostnames = true,
        (b"volatile", []) => map.volatile = true,
        (b"default", [value]) => {
            if let Some((_, first)) = default {
                return Err(Diagnostic::error(name.span, "duplicate default map parameter")
                    .with_related(*first, "first one here"));
            }
            *default = Some((Template::parse("map", value)?, name.span));
        }
        (key, [value]) => {
            let value = Template::parse("map", value)?;
            let key = if let Some(rest) = key.strip_prefix(b"~") {
                let caseless = rest.starts_with(b"*");
                MapKey::Regex(env.regex(name, 1 + usize::from(caseless), caseless)?)
            } else {
                let key = key.strip_prefix(b"\\").unwrap_or(key);
                let key = parse_key(key, map.hostnames, name)?;
                let itself = match &key {
                    MapKey::NameAndSuffix(name) => known.insert((0, name.clone()), entry.name.span),
                    _ => None,
                };
                if let Some(first) = known.insert(rank(&key), name.span).or(itself) {
                    return Err(Diagnostic::error(
                        name.span,
                        format!("conflicting parameter \"{}\"", name.text().to_ascii_lowercase()),
                    )
                    .with_related(first, "first one here"));
                }
                key
            };
            map.entries.push((key, value));
        }
        _ => {
            return Err(
                Diagnostic::error(entry.span, "invalid number of the map parameters").with_hint("a key and a value")
            );
        }
    }
    Ok(())
}

fn parse_key(key: &[u8], hostnames: bool, word: &Word) -> Parsed<MapKey> {
    let lower = key.to_ascii_lowercase();
    if !hostnames {
        return Ok(MapKey::Exact(lower));
    }
    match parse_wildcard(&lower) {
        Some(Wildcard::Exact) => Ok(MapKey::Exact(lower)),
        Some(Wildcard::Suffix) => Ok(MapKey::Suffix(lower[2..].to_vec())),
        Some(Wildcard::NameAndSuffix) => Ok(MapKey::NameAndSuffix(lower[1..].to_vec())),
        Some(Wildcard::Prefix) => Ok(MapKey::Prefix(lower[..lower.len() - 2].to_vec())),
        None => Err(Diagnostic::error(word.span, format!("invalid hostname or wildcard \"{}\"", word.text()))),
    }
}

/// Two keys of equal rank conflict.
fn rank(key: &MapKey) -> (u8, Vec<u8>) {
    match key {
        MapKey::Exact(text) => (0, text.clone()),
        MapKey::Suffix(text) | MapKey::NameAndSuffix(text) => (1, text.clone()),
        MapKey::Prefix(text) => (2, text.clone()),
        MapKey::Regex(regex) => (3, regex.pattern.to_vec()),
    }
}

/// Reads a `geo`. Reports a faulty entry and leaves it out.
pub(crate) fn lower_geo(directive: &Directive, out: &mut Vec<Diagnostic>) -> Parsed<Geo> {
    let (source, variable) = match directive.args.as_slice() {
        [variable] => (None, variable),
        [source, variable, ..] => (Some(parse_variable(source)?), variable),
        [] => return Err(few_arguments(directive)),
    };
    let mut geo = Geo {
        source,
        variable: parse_variable(variable)?,
        entries: Vec::new(),
        default: Vec::new(),
        proxies: Vec::new(),
        proxy_recursive: false,
        volatile: false,
        span: directive.span,
    };
    let entries = directive.block.as_ref().map_or(&[][..], |block| block.directives.as_slice());
    let (mut ranges, mut known) = (false, KnownRanges::default());
    for entry in entries {
        if entry.name.value == b"ranges" && entry.args.is_empty() {
            if !geo.entries.is_empty() {
                let message = "the \"ranges\" directive must be the first directive inside \"geo\" block";
                out.push(Diagnostic::error(entry.name.span, message));
            }
            ranges = true;
        } else {
            let added = lower_geo_entry(&mut geo, ranges, &mut known, entry, out);
            out.extend(added.err());
        }
    }
    let mut index = 0;
    geo.entries.retain(|_| {
        index += 1;
        !known.deleted.contains(&(index - 1))
    });
    Ok(geo)
}

/// Entries by their range, and the indices of deleted ones.
#[derive(Default)]
struct KnownRanges {
    indices: FxHashMap<RangeKey, usize>,
    deleted: FxHashSet<usize>,
}

/// The ends of a range, as a key. A network is its first address twice and its prefix length.
type RangeKey = (IpAddr, IpAddr, u8);

fn key_of(range: GeoRange) -> RangeKey {
    match range {
        GeoRange::Network(cidr) => (cidr.network, cidr.network, cidr.prefix),
        GeoRange::Range(first, last) => (first, last, u8::MAX),
    }
}

fn lower_geo_entry(
    geo: &mut Geo,
    ranges: bool,
    known: &mut KnownRanges,
    entry: &Directive,
    out: &mut Vec<Diagnostic>,
) -> Parsed<()> {
    let name = &entry.name;
    match (name.value.as_slice(), entry.args.as_slice()) {
        (b"proxy_recursive", []) => geo.proxy_recursive = true,
        (b"volatile", []) => geo.volatile = true,
        (b"default", [value]) => geo.default = value.value.to_vec(),
        (b"proxy", [network]) => geo.proxies.push(parse_network(network, out)?),
        (b"delete", [range]) => {
            let range = parse_range(range, ranges, out)?;
            if ranges {
                // A deleted range is a hole, even inside of another range; for a network, the surrounding network's
                // value applies. The hole may cut a part of other ranges, so it need not equal a written one.
                geo.entries.push(GeoEntry { range, value: None });
            }
            match known.indices.remove(&key_of(range)) {
                Some(_) if ranges => {}
                Some(index) => _ = known.deleted.insert(index),
                None => out.push(Diagnostic::warning(
                    entry.span,
                    format!("no network \"{}\" to delete", entry.args[0].text()),
                )),
            }
        }
        (_, [value]) => {
            let range = parse_range(name, ranges, out)?;
            let key = key_of(range);
            if let Some(&index) = known.indices.get(&key) {
                let old = geo.entries[index].value.get_or_insert_default();
                let message = format!(
                    "duplicate network \"{}\", value: \"{}\", old value: \"{}\"",
                    name.text(),
                    value.text(),
                    String::from_utf8_lossy(old)
                );
                out.push(Diagnostic::warning(name.span, message));
                *old = value.value.to_vec();
            } else {
                known.indices.insert(key, geo.entries.len());
                geo.entries.push(GeoEntry { range, value: Some(value.value.to_vec()) });
            }
        }
        _ => {
            return Err(Diagnostic::error(entry.span, "invalid number of the geo parameters")
                .with_hint("a network and a value"));
        }
    }
    Ok(())
}

pub(super) fn parse_network(word: &Word, out: &mut Vec<Diagnostic>) -> Parsed<Cidr> {
    // nginx also accepts the address 255.255.255.255 as all of IPv4, an obsolete spelling.
    let (cidr, loose) = Cidr::parse(&word.value)
        .ok_or_else(|| Diagnostic::error(word.span, format!("invalid network \"{}\"", word.text())))?;
    if loose {
        out.push(Diagnostic::warning(word.span, format!("low address bits of {} are meaningless", word.text())));
    }
    Ok(cidr)
}

fn parse_range(word: &Word, ranges: bool, out: &mut Vec<Diagnostic>) -> Parsed<GeoRange> {
    if !ranges {
        return parse_network(word, out).map(GeoRange::Network);
    }
    let text = word.text();
    let ends = text
        .split_once('-')
        .and_then(|(first, last)| Some((first.parse::<IpAddr>().ok()?, last.parse::<IpAddr>().ok()?)));
    match ends {
        Some((first, last)) if first.is_ipv4() == last.is_ipv4() && first <= last => Ok(GeoRange::Range(first, last)),
        _ => Err(Diagnostic::error(word.span, format!("invalid range \"{text}\""))
            .with_hint("two addresses: `10.0.0.1-10.0.0.9`")),
    }
}

/// Reads a `split_clients`.
pub(crate) fn lower_split(directive: &Directive, out: &mut Vec<Diagnostic>) -> Parsed<SplitClients> {
    let [key, variable, ..] = directive.args.as_slice() else { return Err(few_arguments(directive)) };
    let mut split = SplitClients {
        key: Template::parse("split_clients", key)?,
        variable: parse_variable(variable)?,
        parts: Vec::new(),
        span: directive.span,
    };
    let (mut sum, mut below) = (0_u64, 0_u64);
    for entry in directive.block.as_ref().map_or(&[][..], |block| block.directives.as_slice()) {
        let [value] = entry.args.as_slice() else {
            out.push(
                Diagnostic::error(entry.span, "invalid number of the split_clients parameters")
                    .with_hint("a share and a value"),
            );
            continue;
        };
        let value = value.value.to_vec();
        if entry.name.value == b"*" {
            split.parts.push(SplitPart { below: None, value });
            sum = PERCENT_ALL;
            continue;
        }
        let Some(hundredths) = parse_percent(&entry.name.value).filter(|&hundredths| hundredths > 0) else {
            out.push(Diagnostic::error(entry.name.span, format!("invalid percent value \"{}\"", entry.name.text())));
            continue;
        };
        sum += hundredths;
        if sum > PERCENT_ALL {
            out.push(Diagnostic::error(entry.name.span, "percent total is greater than 100%"));
            break;
        }
        below += hundredths * u64::from(u32::MAX) / PERCENT_ALL;
        split.parts.push(SplitPart { below: Some(below as u32), value });
    }
    Ok(split)
}

/// 100 %, in hundredths of a per cent.
const PERCENT_ALL: u64 = 10_000;

/// `12.5%` in hundredths of a per cent.
fn parse_percent(text: &[u8]) -> Option<u64> {
    let text = text.strip_suffix(b"%")?;
    let (whole, fraction) = match text.iter().position(|&byte| byte == b'.') {
        None => (number(text)?, 0),
        Some(dot) => {
            let fraction = match &text[dot + 1..] {
                digits @ [_] => number(digits)? * 10,
                digits @ [_, _] => number(digits)?,
                _ => return None,
            };
            (number(&text[..dot])?, fraction)
        }
    };
    whole.checked_mul(100)?.checked_add(fraction).filter(|&hundredths| hundredths <= PERCENT_ALL)
}
