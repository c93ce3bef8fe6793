//! `geoip2` and the words around it: variables from a database of addresses.

use super::map::parse_network;
use super::rewrite::parse_variable;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::plain::parse_choice;
use crate::value::time::parse_seconds;
use crate::value::{Cidr, Parsed, parameter};
use std::time::Duration;

/// One `geoip2`.
#[derive(Debug, Clone, PartialEq)]
pub struct Geoip2 {
    /// The database.
    pub file: Vec<u8>,
    /// Where the file was written.
    pub file_span: Span,
    /// `auto_reload`: how often the file is looked at.
    pub reload: Option<Duration>,
    /// What it defines.
    pub variables: Vec<Geoip2Variable>,
}

/// One variable of a [`Geoip2`].
#[derive(Debug, Clone, PartialEq)]
pub struct Geoip2Variable {
    /// Its name, without `$`.
    pub name: String,
    /// What it tells.
    pub value: Geoip2Value,
    /// Where it was written.
    pub span: Span,
}

/// What a variable tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Geoip2Value {
    /// `metadata …`
    Metadata(Geoip2Metadata),
    /// A value of the record of an address.
    Data {
        /// `source=$name`: the variable with the address, without `$`; `None` is the client's address.
        source: Option<String>,
        /// `default=…`
        default: Option<Vec<u8>>,
        /// The names that lead to the value.
        path: Vec<Vec<u8>>,
    },
}

/// A time, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Geoip2Metadata {
    /// `build_epoch`: when the database was made.
    BuildEpoch,
    /// `last_check`: when its file was looked at.
    LastCheck,
    /// `last_change`: when its content changed.
    LastChange,
}

/// `geoip2_proxy`, `geoip2_proxy_recursive`
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Geoip2Proxies {
    /// Proxies with a trusted `X-Forwarded-For`.
    pub networks: Vec<Cidr>,
    /// Whether trusted addresses inside that list are skipped.
    pub recursive: bool,
}

/// Reads a `geoip2`. Reports a faulty entry and leaves it out.
pub(crate) fn lower_geoip2(directive: &Directive, out: &mut Vec<Diagnostic>) -> Parsed<Geoip2> {
    let [file] = directive.args.as_slice() else {
        let message = format!("invalid number of arguments in \"{}\" directive", directive.name.text());
        return Err(Diagnostic::error(directive.name.span, message));
    };
    let mut geoip = Geoip2 { file: file.value.to_vec(), file_span: file.span, reload: None, variables: Vec::new() };
    for entry in directive.block.as_ref().map_or(&[][..], |block| block.directives.as_slice()) {
        let added = lower_entry(&mut geoip, entry);
        out.extend(added.err());
    }
    Ok(geoip)
}

fn lower_entry(geoip: &mut Geoip2, entry: &Directive) -> Parsed<()> {
    if entry.name.value == b"auto_reload" {
        let [time] = entry.args.as_slice() else {
            return Err(Diagnostic::error(entry.span, "invalid number of arguments in \"auto_reload\""));
        };
        geoip.reload = Some(parse_seconds("auto_reload", time)?).filter(|time| !time.is_zero());
        return Ok(());
    }
    let name = parse_variable(&entry.name)?;
    let value = match entry.args.as_slice() {
        [first, word] if first.value == b"metadata" => {
            let known = [
                ("build_epoch", Geoip2Metadata::BuildEpoch),
                ("last_check", Geoip2Metadata::LastCheck),
                ("last_change", Geoip2Metadata::LastChange),
            ];
            Geoip2Value::Metadata(parse_choice(word, &known)?)
        }
        words => parse_data(words, entry.span)?,
    };
    geoip.variables.push(Geoip2Variable { name, value, span: entry.span });
    Ok(())
}

fn parse_data(words: &[Word], span: Span) -> Parsed<Geoip2Value> {
    let (mut source, mut default) = (None, None);
    let mut path = words;
    while let [word, rest @ ..] = path {
        if let Some(value) = parameter(word, "default") {
            default = Some(value.value.to_vec());
        } else if let Some(value) = parameter(word, "source") {
            source = Some(parse_variable(&value)?);
        } else {
            break;
        }
        path = rest;
    }
    if path.is_empty() {
        return Err(Diagnostic::error(span, "a variable of \"geoip2\" has no path to its value").with_hint(
            "`mmdblookup --file FILE --ip ADDRESS` shows the names in a record, such as `country iso_code`",
        ));
    }
    Ok(Geoip2Value::Data { source, default, path: path.iter().map(|word| word.value.to_vec()).collect() })
}

/// Reads a `geoip2_proxy` or a `geoip2_proxy_recursive`.
pub(crate) fn lower_proxies(
    proxies: &mut Geoip2Proxies,
    directive: &Directive,
    out: &mut Vec<Diagnostic>,
) -> Parsed<()> {
    let Some(word) = directive.args.first() else { return Ok(()) };
    if directive.name.value == b"geoip2_proxy" {
        proxies.networks.push(parse_network(word, out)?);
    } else {
        proxies.recursive = word.value.eq_ignore_ascii_case(b"on");
    }
    Ok(())
}
