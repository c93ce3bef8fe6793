//! What the proxy sends to upstreams and passes back: headers, redirects, cookies. `transport` has connections, buffers
//! and retries.

use std::borrow::Cow;
use std::sync::Arc;

use super::settings::{At, settings};
use super::upstream::Upstream;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Block, Directive, Word};
use crate::value::plain::{parse_bytes, parse_choice, parse_flag};
use crate::value::template::has_variables;
use crate::value::words::{IgnoredHeaders, any_header_name};
use crate::value::{Parsed, Regex, Template, invalid_parameter};

use super::gzip::HttpVersion;

/// One `proxy_set_header`.
#[derive(Debug, Clone, PartialEq)]
pub struct SetHeader {
    /// The field's name.
    pub name: Vec<u8>,
    /// Its value; an empty one removes the field.
    pub value: Template,
}

/// One `proxy_redirect`.
#[derive(Debug, Clone, PartialEq)]
pub enum Redirect {
    /// `default`: the URL of `proxy_pass` becomes what the location matches.
    Default,
    /// A prefix of `Location` and what replaces it.
    Prefix {
        /// The prefix.
        from: Template,
        /// Its replacement.
        to: Template,
    },
    /// An expression over `Location`, and what replaces the whole.
    Regex {
        /// The expression.
        from: Regex,
        /// The replacement.
        to: Template,
    },
}

/// One `proxy_cookie_domain` or `proxy_cookie_path`.
#[derive(Debug, Clone, PartialEq)]
pub struct CookieRewrite {
    /// The pattern for the attribute.
    pub from: CookiePattern,
    /// What replaces it.
    pub to: Template,
}

/// Pattern for a cookie's name or attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum CookiePattern {
    /// A string with variables.
    Text(Template),
    /// An expression.
    Regex(Regex),
}

/// One `proxy_cookie_flags`.
#[derive(Debug, Clone, PartialEq)]
pub struct CookieFlags {
    /// Names of cookies.
    pub cookie: CookiePattern,
    /// Flags as written: `secure`, `nosecure`, `httponly`, `samesite=strict` …; a variable's value must be one of
    /// these.
    pub flags: Vec<Template>,
}

settings! {
    /// The words of a location's proxy.
    pub struct ProxySettings {
        /// Version of requests to the upstream.
        http_version: HttpVersion = HttpVersion::Http11, "proxy_http_version" => value(parse_http_version);
        /// Headers to set; empty means `Host $proxy_host` alone. The effective list always has `Host`.
        set_headers: Vec<SetHeader> = Vec::new(), "proxy_set_header" => item(parse_set_header);
        /// Response headers passed on although they are hidden by default.
        pass_headers: Vec<String> = Vec::new(), "proxy_pass_header" => item(parse_any_header);
        /// Response headers hidden, besides those hidden by default.
        hide_headers: Vec<String> = Vec::new(), "proxy_hide_header" => item(parse_any_header);
        /// Upstream headers that holdfast does not act on.
        ignore_headers: IgnoredHeaders = IgnoredHeaders(0), "proxy_ignore_headers" => set(IgnoredHeaders::parse_set);
        /// Whether the client's headers are sent on.
        pass_request_headers: bool = true, "proxy_pass_request_headers" => value(parse_flag);
        /// Whether the client's body is sent on.
        pass_request_body: bool = true, "proxy_pass_request_body" => value(parse_flag);
        /// A body instead of the client's.
        set_body: Option<Template> = None, "proxy_set_body" => option(Template::parse);
        /// A method instead of the client's.
        method: Option<Template> = None, "proxy_method" => option(Template::parse);
        /// Rewrites of `Location` and `Refresh`; empty means off.
        redirects: Vec<Redirect> = vec![Redirect::Default], "proxy_redirect" => edit(edit_redirect);
        /// Rewrites of a cookie's domain; empty means off.
        cookie_domains: Vec<CookieRewrite> = Vec::new(), "proxy_cookie_domain" => edit(edit_cookie_rewrite);
        /// Rewrites of a cookie's path; empty means off.
        cookie_paths: Vec<CookieRewrite> = Vec::new(), "proxy_cookie_path" => edit(edit_cookie_rewrite);
        /// Flags of cookies; empty means off.
        cookie_flags: Vec<CookieFlags> = Vec::new(), "proxy_cookie_flags" => edit(edit_cookie_flags);
        /// Whether responses of 300 and above go to `error_page`.
        intercept_errors: bool = false, "proxy_intercept_errors" => value(parse_flag);
        /// Whether the upstream's trailers are passed on.
        pass_trailers: bool = false, "proxy_pass_trailers" => value(parse_flag);
        /// Whether ranges are served although the upstream does not offer them.
        force_ranges: bool = false, "proxy_force_ranges" => value(parse_flag);
        /// Size of the table of headers; checked, and of no effect here.
        headers_hash_max_size: u64 = 512, "proxy_headers_hash_max_size" => value(crate::value::plain::parse_number);
        /// Bucket size of that table; checked, and of no effect here.
        headers_hash_bucket_size: u64 = 64, "proxy_headers_hash_bucket_size" => value(crate::value::plain::parse_number);
    }
}

fn parse_http_version(_name: &str, word: &Word) -> Parsed<HttpVersion> {
    let versions = [("1.0", HttpVersion::Http10), ("1.1", HttpVersion::Http11), ("2", HttpVersion::Http2)];
    parse_choice(word, &versions)
}

fn parse_any_header(at: &mut At<'_>) -> Parsed<String> {
    let word = at.word(0)?;
    Ok(any_header_name(word, at.out))
}

fn parse_set_header(at: &mut At<'_>) -> Parsed<SetHeader> {
    let (name, value) = (parse_bytes(at.name, at.word(0)?)?, at.word(1)?);
    Ok(SetHeader { name, value: Template::parse_line(at.name, value, at.out)? })
}

/// `off` and `default` must be the only entry of their list.
fn check_alone<T>(list: &[T], at: &At<'_>, word: &Word) -> Parsed<()> {
    if at.words().len() > 1 || (!at.fresh && !list.is_empty()) {
        return Err(invalid_parameter(word));
    }
    Ok(())
}

fn edit_redirect(list: &mut Vec<Redirect>, at: &mut At<'_>) -> Parsed<()> {
    let first = at.word(0)?;
    let off = at.words().len() == 1 && first.value == b"off";
    if at.fresh {
        list.clear();
    } else if off || list.is_empty() {
        return Err(Diagnostic::error(at.directive.name.span, "\"proxy_redirect\" directive is duplicate")
            .with_hint("`proxy_redirect off` is alone in its block"));
    }
    if at.words().len() == 1 {
        return match first.value.as_slice() {
            b"off" => Ok(()),
            b"default" => {
                list.push(Redirect::Default);
                Ok(())
            }
            _ => Err(invalid_parameter(first).with_hint("`off`, `default`, or what is replaced and by what")),
        };
    }
    let to = at.word(1)?;
    let to = Template::parse_line(at.name, to, at.out)?;
    list.push(match regex_of(first, at)? {
        Some(from) => Redirect::Regex { from, to },
        None => Redirect::Prefix { from: Template::parse(at.name, first)?, to },
    });
    Ok(())
}

/// An expression, if the word begins with `~` or `~*`.
fn regex_of(word: &Word, at: &At<'_>) -> Parsed<Option<Regex>> {
    if !word.value.starts_with(b"~") {
        return Ok(None);
    }
    let caseless = word.value.starts_with(b"~*");
    let skip = if caseless { 2 } else { 1 };
    at.env.regex(word, skip, caseless).map(Some)
}

fn pattern_of(word: &Word, at: &At<'_>, caseless: bool) -> Parsed<CookiePattern> {
    if word.value.starts_with(b"~") && !word.value.starts_with(b"~*") && caseless && word.value.len() > 1 {
        return at.env.regex(word, 1, true).map(CookiePattern::Regex);
    }
    Ok(match regex_of(word, at)? {
        Some(regex) => CookiePattern::Regex(regex),
        None => CookiePattern::Text(Template::parse(at.name, word)?),
    })
}

fn edit_cookie_rewrite(list: &mut Vec<CookieRewrite>, at: &mut At<'_>) -> Parsed<()> {
    if at.fresh {
        list.clear();
    }
    let first = at.word(0)?;
    if at.words().len() == 1 {
        if first.value == b"off" {
            return check_alone(list, at, first);
        }
        return Err(invalid_parameter(first));
    }
    // Domains are compared without case even with `~`, and a leading dot is ignored.
    let is_domain = at.name == "proxy_cookie_domain";
    let (first, second) = (without_dot(first, is_domain), at.word(1)?);
    let from = pattern_of(&first, at, is_domain)?;
    let is_text = matches!(from, CookiePattern::Text(_));
    let to = Template::parse_line(at.name, &without_dot(second, is_domain && is_text), at.out)?;
    list.push(CookieRewrite { from, to });
    Ok(())
}

fn without_dot(word: &Word, is_domain: bool) -> Cow<'_, Word> {
    match word.value.strip_prefix(b".").filter(|_| is_domain) {
        Some(rest) => Cow::Owned(Word { value: rest.into(), ..word.clone() }),
        None => Cow::Borrowed(word),
    }
}

const COOKIE_FLAGS: [&str; 8] =
    ["secure", "nosecure", "httponly", "nohttponly", "samesite=strict", "samesite=lax", "samesite=none", "nosamesite"];

fn edit_cookie_flags(list: &mut Vec<CookieFlags>, at: &mut At<'_>) -> Parsed<()> {
    if at.fresh {
        list.clear();
    }
    let first = at.word(0)?;
    if at.words().len() == 1 {
        if first.value == b"off" {
            return check_alone(list, at, first);
        }
        return Err(invalid_parameter(first));
    }
    // As in nginx, names of cookies are compared without case even with `~`.
    let cookie = pattern_of(first, at, true)?;
    let mut flags = Vec::new();
    for word in &at.words()[1..] {
        let template = Template::parse(at.name, word)?;
        if let Some(text) = template.as_text()
            && !COOKIE_FLAGS.iter().any(|flag| text.eq_ignore_ascii_case(flag.as_bytes()))
        {
            // nginx accepts any word, but only these have an effect.
            let message = format!("\"{}\" is no flag of a cookie, and has no effect", word.text());
            at.out
                .push(Diagnostic::warning(word.span, message).with_hint(format!("one of {}", COOKIE_FLAGS.join(", "))));
            continue;
        }
        flags.push(template);
    }
    list.push(CookieFlags { cookie, flags });
    Ok(())
}

/// The protocol spoken to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP without TLS.
    Http,
    /// HTTP over TLS.
    Https,
    /// `fastcgi_pass`
    Fastcgi,
    /// `scgi_pass`
    Scgi,
    /// `uwsgi_pass`
    Uwsgi,
    /// `uwsgi_pass` to `suwsgi://`: uwsgi over TLS.
    Suwsgi,
    /// `memcached_pass`
    Memcached,
    /// `grpc_pass` without TLS.
    Grpc,
    /// `grpc_pass` to `grpcs://`.
    Grpcs,
}

impl Scheme {
    /// The default port; only HTTP has one.
    pub fn default_port(self) -> Option<u16> {
        match self {
            Self::Http => Some(80),
            Self::Https => Some(443),
            Self::Fastcgi | Self::Scgi | Self::Uwsgi | Self::Suwsgi | Self::Memcached | Self::Grpc | Self::Grpcs => {
                None
            }
        }
    }

    /// The name that the error log puts before a peer's address.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Fastcgi => "fastcgi",
            Self::Scgi => "scgi",
            Self::Uwsgi => "uwsgi",
            Self::Suwsgi => "suwsgi",
            Self::Memcached => "memcached",
            Self::Grpc => "grpc",
            Self::Grpcs => "grpcs",
        }
    }

    /// Whether the connection uses TLS.
    pub fn is_secure(self) -> bool {
        matches!(self, Self::Https | Self::Suwsgi | Self::Grpcs)
    }

    /// Whether the protocol is gRPC, with or without TLS.
    pub fn is_grpc(self) -> bool {
        matches!(self, Self::Grpc | Self::Grpcs)
    }

    /// The prefix of its directives, without the underscore.
    pub fn family(self) -> &'static str {
        match self {
            Self::Http | Self::Https => "proxy",
            Self::Fastcgi => "fastcgi",
            Self::Scgi => "scgi",
            Self::Uwsgi | Self::Suwsgi => "uwsgi",
            Self::Memcached => "memcached",
            Self::Grpc | Self::Grpcs => "grpc",
        }
    }
}

/// One `proxy_pass`, `fastcgi_pass`, `scgi_pass`, `uwsgi_pass`, `memcached_pass` or `grpc_pass`.
#[derive(Debug, Clone, PartialEq)]
pub enum ProxyPass {
    /// Without variables: the upstream is known when the configuration is read.
    Fixed(FixedPass),
    /// With variables: the URL is evaluated for each request. It names an upstream group, or a host that needs the
    /// resolver.
    Template {
        /// The URL; for an application, the scheme is prepended.
        url: Template,
        /// Where it was written.
        span: Span,
    },
}

/// A `proxy_pass` without variables.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedPass {
    /// The protocol.
    pub scheme: Scheme,
    /// The group, one of `Http::upstreams`; an implicit one if no `upstream` block has the name.
    pub upstream: Arc<Upstream>,
    /// The value of `$proxy_host` and the default `Host`: host and port as written, or `localhost` for a Unix socket.
    pub host_header: Vec<u8>,
    /// The port of `$proxy_port`; `None` for a Unix socket.
    pub port: Option<u16>,
    /// The URI part, which replaces the part that the location matched; `None` passes the client's URI on. A URI that
    /// begins with `?` has `/` prepended.
    pub uri: Option<Vec<u8>>,
    /// How many bytes of the client's normalized URI the URI part replaces: the length of the location's prefix.
    pub matched_length: usize,
    /// Where it was written.
    pub span: Span,
}

/// `proxy_redirect default` refers to the `proxy_pass` of its own block, which must be written before it.
pub(crate) fn check_redirects(block: &Block, out: &mut Vec<Diagnostic>) {
    let mut pass: Option<&Directive> = None;
    for directive in &block.directives {
        if directive.name.value == b"proxy_pass" {
            pass = Some(directive);
        }
        let [word] = directive.args.as_slice() else { continue };
        if directive.name.value != b"proxy_redirect" || word.value != b"default" {
            continue;
        }
        let message = match pass {
            None => "\"proxy_redirect default\" should be placed after the \"proxy_pass\" directive",
            Some(pass) if pass.args.first().is_some_and(|url| has_variables(&url.value)) => {
                "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with variables"
            }
            Some(_) => continue,
        };
        out.push(Diagnostic::error(directive.span, message));
    }
}
