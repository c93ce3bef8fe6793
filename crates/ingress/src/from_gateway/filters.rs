//! Filters of HTTP and gRPC rules, as lines of a location.

use super::matches::quoted;
use super::status::Fault;
use super::words::{field_name, field_value, hostname, replacement_path};
use crate::assembly::Assembly;
use crate::objects::routes::{HeaderFilter, HttpFilter, PathModifier, RedirectFilter, UrlRewriteFilter};
use crate::tree::Origin;
use conf::tree::Directive;

/// The fields of a request that the proxy itself sets; filters can change them. In the order in which they are written.
#[derive(Debug, Clone)]
pub(crate) struct RequestFields {
    /// Names and values with variables.
    own: Vec<(String, String)>,
    /// Lines for other fields.
    lines: Vec<Directive>,
}

impl RequestFields {
    pub(crate) fn new(own: &[(&str, &str)]) -> Self {
        let own = own.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { own, lines: Vec::new() }
    }

    /// Sets a field that the proxy itself sets.
    pub(crate) fn set_own(&mut self, name: &str, value: String) -> bool {
        let own = self.own.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name));
        own.map(|own| own.1 = value).is_some()
    }

    fn own_value(&self, name: &str) -> Option<&str> {
        self.own.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// `set`, `add`, `remove` of a filter.
    pub(crate) fn change(
        &mut self,
        assembly: &mut Assembly<'_>,
        origin: Origin,
        filter: &HeaderFilter,
    ) -> Result<(), Fault> {
        check(filter)?;
        let mut values: Vec<(String, String, bool)> = Vec::new();
        for field in &filter.set {
            values.push((field.name.clone(), assembly.data(&field.value), true));
        }
        for field in &filter.add {
            let value = assembly.data(&field.value);
            match values.iter_mut().find(|(name, ..)| name.eq_ignore_ascii_case(&field.name)) {
                Some(known) => known.1 = format!("{},{value}", known.1),
                None => values.push((field.name.clone(), value, false)),
            }
        }
        for (name, value, replaces) in values {
            let before = if replaces { String::new() } else { self.present(assembly, origin, &name) };
            if !self.set_own(&name, format!("{before}{value}")) {
                self.lines.push(origin.line("more_set_input_headers", [format!("{name}: {before}{value}")]));
            }
        }
        for name in &filter.remove {
            if !self.set_own(name, String::new()) {
                self.lines.push(origin.line("more_clear_input_headers", [name]));
            }
        }
        Ok(())
    }

    /// The present value of a field and a comma; a text with variables.
    fn present(&self, assembly: &mut Assembly<'_>, origin: Origin, name: &str) -> String {
        if let Some(own) = self.own_value(name) {
            return format!("{own},");
        }
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            // No variable has such a name, so a value that the client sent is replaced.
            return String::new();
        }
        let field = format!("$http_{}", name.to_ascii_lowercase().replace('-', "_"));
        let (variable, is_new) = assembly.variable(&format!("{field} and a comma"));
        if is_new {
            let entries = vec![origin.line("", [""]), origin.line("default", [format!("{field},")])];
            assembly.http.push(origin.block("map", [field.as_str(), variable.as_str()], entries));
        }
        format!("${{{}}}", variable.trim_start_matches('$'))
    }

    /// The lines, with `proxy_set_header` or its kin.
    pub(crate) fn into_lines(self, origin: Origin, word: &str) -> Vec<Directive> {
        let own = self.own.into_iter().map(|(name, value)| origin.line(word, [name, value]));
        self.lines.into_iter().chain(own).collect()
    }
}

fn check(filter: &HeaderFilter) -> Result<(), Fault> {
    for field in filter.set.iter().chain(&filter.add) {
        field_name(&field.name)?;
        field_value(&field.value)?;
    }
    filter.remove.iter().try_for_each(|name| field_name(name))
}

/// The lines that change fields of responses.
pub(crate) fn response_lines(
    assembly: &mut Assembly<'_>,
    origin: Origin,
    filter: &HeaderFilter,
) -> Result<Vec<Directive>, Fault> {
    check(filter)?;
    let mut lines = Vec::new();
    for field in &filter.set {
        lines.push(origin.line("more_set_headers", [format!("{}: {}", field.name, assembly.data(&field.value))]));
    }
    for field in &filter.add {
        let text = format!("{}: {}", field.name, assembly.data(&field.value));
        let mut line = origin.line("more_set_headers", [text]);
        line.args.insert(0, origin.bare("-a"));
        lines.push(line);
    }
    for name in &filter.remove {
        lines.push(origin.line("more_clear_headers", [name]));
    }
    Ok(lines)
}

/// The filter of this kind among those of a rule.
pub(crate) fn configured<'f, T>(filter: &HttpFilter, part: Option<&'f T>) -> Result<&'f T, Fault> {
    part.ok_or_else(|| Fault::new("UnsupportedValue", format!("the filter {} has no settings", filter.kind)))
}

/// A redirect that takes the place of the backends.
pub(crate) fn redirect_lines(
    assembly: &mut Assembly<'_>,
    origin: Origin,
    filter: &RedirectFilter,
    prefix: Option<&str>,
    port: u16,
) -> Result<Vec<Directive>, Fault> {
    let status = filter.status_code.unwrap_or(302);
    if ![301, 302, 303, 307, 308].contains(&status) {
        return Err(Fault::new("UnsupportedValue", format!("redirects with status {status} are not supported")));
    }
    let scheme = match filter.scheme.as_deref() {
        None => "$scheme",
        Some("http") => "http",
        Some("https") => "https",
        Some(other) => return Err(Fault::new("UnsupportedValue", format!("the scheme {other} is not supported"))),
    };
    let host = match &filter.hostname {
        None => "$host".to_owned(),
        Some(name) => {
            hostname(name)?;
            name.clone()
        }
    };
    let shown_port = match (filter.port, filter.scheme.as_deref()) {
        (Some(port), _) => Some(port),
        (None, Some(_)) => None,
        (None, None) => Some(port),
    };
    let base = redirect_base(scheme, &host, shown_port, assembly, origin);
    let status = status.to_string();
    let answer = |path: &str| origin.line("return", [status.clone(), format!("{base}{path}")]);
    let Some(modifier) = &filter.path else { return Ok(vec![answer("$request_uri")]) };
    let new = assembly.data(&replacement(modifier)?);
    if modifier.kind == "ReplaceFullPath" {
        let new = if new.is_empty() { "/" } else { new.as_str() };
        return Ok(vec![answer(&format!("{new}$is_args$args"))]);
    }
    let prefix = prefix.unwrap_or_default();
    let below = format!("^{}/([^?]*)", quoted(prefix));
    let trimmed = new.trim_end_matches('/');
    let rest = answer(&format!("{trimmed}/$1$is_args$args"));
    // The path as it was sent keeps its escapes. A prefix that was itself escaped is found in the decoded path.
    let by_sent = condition(origin, "$request_uri", &below, rest.clone());
    let by_decoded = condition(origin, "$uri", &below, rest);
    let alone = if new.is_empty() { "/" } else { new.as_str() };
    Ok(vec![by_sent, by_decoded, answer(&format!("{alone}$is_args$args"))])
}

fn condition(origin: Origin, variable: &str, pattern: &str, line: Directive) -> Directive {
    let mut block = origin.block::<&str>("if", [], vec![line]);
    block.args = vec![origin.bare(format!("({variable}")), origin.bare("~"), origin.word(pattern), origin.bare(")")];
    block
}

/// Scheme, host, and the port unless it is that of the scheme.
fn redirect_base(scheme: &str, host: &str, port: Option<u16>, assembly: &mut Assembly<'_>, origin: Origin) -> String {
    let Some(port) = port else { return format!("{scheme}://{host}") };
    match (scheme, port) {
        ("http", 80) | ("https", 443) => format!("{scheme}://{host}"),
        ("$scheme", 80 | 443) => {
            let usual = if port == 80 { "http" } else { "https" };
            let (variable, is_new) = assembly.variable(&format!("port {port} unless {usual}"));
            if is_new {
                let entries = vec![origin.line("default", [format!(":{port}")]), origin.line(usual, [""])];
                assembly.http.push(origin.block("map", ["$scheme", variable.as_str()], entries));
            }
            format!("{scheme}://{host}${{{}}}", variable.trim_start_matches('$'))
        }
        _ => format!("{scheme}://{host}:{port}"),
    }
}

/// The new path or prefix of a modifier.
fn replacement(modifier: &PathModifier) -> Result<String, Fault> {
    let written = match modifier.kind.as_str() {
        "ReplaceFullPath" => &modifier.replace_full_path,
        "ReplacePrefixMatch" => &modifier.replace_prefix_match,
        other => return Err(Fault::new("UnsupportedValue", format!("the path modifier {other} is not supported"))),
    };
    let written = written.clone().unwrap_or_default();
    replacement_path(&written)?;
    Ok(written)
}

/// The lines that change the path for the backend; the host goes to `fields`.
pub(crate) fn rewrite_lines(
    assembly: &mut Assembly<'_>,
    origin: Origin,
    filter: &UrlRewriteFilter,
    prefix: Option<&str>,
    fields: &mut RequestFields,
) -> Result<Vec<Directive>, Fault> {
    if let Some(name) = &filter.hostname {
        hostname(name)?;
        fields.set_own("Host", name.clone());
    }
    let Some(modifier) = &filter.path else { return Ok(Vec::new()) };
    let new = assembly.data(&replacement(modifier)?);
    let whole = if new.is_empty() { "/" } else { new.as_str() };
    let rewrite = |pattern: String, to: String| origin.line("rewrite", [pattern, to, "break".to_owned()]);
    if modifier.kind == "ReplaceFullPath" {
        return Ok(vec![rewrite("^".to_owned(), whole.to_owned())]);
    }
    let prefix = quoted(prefix.unwrap_or_default());
    let below = rewrite(format!("(?s)^{prefix}/(.*)$"), format!("{}/$1", new.trim_end_matches('/')));
    Ok(vec![below, rewrite(format!("^{prefix}$"), whole.to_owned())])
}

/// Whether a filter replaces the prefix that matched.
pub(crate) fn replaces_prefix(filter: &HttpFilter) -> bool {
    let redirect = filter.request_redirect.as_ref().and_then(|filter| filter.path.as_ref());
    let rewrite = filter.url_rewrite.as_ref().and_then(|filter| filter.path.as_ref());
    redirect.into_iter().chain(rewrite).any(|modifier| modifier.kind == "ReplacePrefixMatch")
}
