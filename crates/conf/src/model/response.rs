//! Response settings that hold for every handler: error pages, redirects, added headers, access rules.

use super::gzip::{MediaTypes, edit_types};
use super::rewrite::parse_variable;
use super::settings::{At, Touched, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Word;
use crate::value::plain::{parse_bytes, parse_choice, parse_flag};
use crate::value::size::number;
use crate::value::time::milliseconds;
use crate::value::{Cidr, CidrPattern, Parsed, Template, directive_invalid, invalid_parameter, invalid_value};

/// One `error_page` for one status.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorPage {
    /// The status it is for, 300 to 599.
    pub status: u16,
    /// What the status becomes.
    pub replace: ErrorStatus,
    /// What is shown.
    pub target: ErrorTarget,
}

/// The status of an error page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorStatus {
    /// The original one (or 302 for a redirect).
    Keep,
    /// `=code`
    Code(u16),
    /// `=`: the status that the page's own processing gives.
    OfPage,
}

/// What an error page is.
#[derive(Debug, Clone, PartialEq)]
pub enum ErrorTarget {
    /// An internal redirect to a URI, which may carry arguments.
    Uri(Template),
    /// A named location, without its `@`.
    Named(String),
    /// A redirect of the client to this URL.
    Redirect(Template),
}

/// `server_tokens`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTokens {
    /// The name alone.
    Off,
    /// Name and version.
    On,
    /// Name, version and build.
    Build,
}

/// `satisfy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Satisfy {
    /// Every access check must agree.
    All,
    /// One is enough.
    Any,
}

/// One `allow` or `deny`; the first that matches decides.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessRule {
    /// `allow`
    pub allow: bool,
    /// The addresses it matches.
    pub who: CidrPattern,
}

/// `auth_request_set`.
#[derive(Debug, Clone, PartialEq)]
pub struct SetFromSubrequest {
    /// The variable's name, without `$`.
    pub variable: String,
    /// Its value, evaluated in the subrequest.
    pub value: Template,
    /// The directive.
    pub span: Span,
}

/// `expires`.
#[derive(Debug, Clone, PartialEq)]
pub enum Expires {
    /// The headers stay as they are.
    Off,
    /// `Expires: Thu, 01 Jan 1970 00:00:01 GMT` and `Cache-Control: no-cache`.
    Epoch,
    /// The last day that fits 32 bits, and ten years of `max-age`.
    Max,
    /// Seconds from now; negative means `no-cache`.
    Access(i64),
    /// Seconds from the file's modification.
    Modified(i64),
    /// A time of day in seconds since midnight (`@15h30m`).
    Daily(u32),
    /// Evaluated for each response; gives one of the variants above.
    Template {
        /// Whether `modified` was written before the value.
        modified: bool,
        /// The value.
        value: Template,
    },
}

/// One `add_header` or `add_trailer`.
#[derive(Debug, Clone, PartialEq)]
pub struct AddHeader {
    /// The field's name.
    pub name: Vec<u8>,
    /// Its value; an empty one adds nothing.
    pub value: Template,
    /// `always`: added to a response of any status.
    pub always: bool,
}

/// `add_header_inherit`, `add_trailer_inherit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderInherit {
    /// The outer list, unless this level has one of its own.
    On,
    /// Nothing is inherited.
    Off,
    /// This level's own list, then the outer one.
    Merge,
}

settings! {
    /// Responses of a location.
    pub struct ResponseSettings {
        /// Pages for errors; the last one written for a status wins.
        error_pages: Vec<ErrorPage> = Vec::new(), "error_page" => edit(edit_error_page);
        /// Whether an error page's own error may lead to another page.
        recursive_error_pages: bool = false, "recursive_error_pages" => value(parse_flag);
        /// Whether redirects name scheme and host.
        absolute_redirect: bool = true, "absolute_redirect" => value(parse_flag);
        /// Whether redirects name the port.
        port_in_redirect: bool = true, "port_in_redirect" => value(parse_flag);
        /// Whether redirects name the first `server_name` instead of the client's Host.
        server_name_in_redirect: bool = false, "server_name_in_redirect" => value(parse_flag);
        /// What `Server:` and error pages say.
        server_tokens: ServerTokens = ServerTokens::On, "server_tokens" => value(parse_server_tokens);
        /// Whether small error pages are padded for old browsers.
        msie_padding: bool = true, "msie_padding" => value(parse_flag);
        /// Whether old browsers get a refresh page instead of a redirect.
        msie_refresh: bool = false, "msie_refresh" => value(parse_flag);
        /// How access checks combine.
        satisfy: Satisfy = Satisfy::All, "satisfy" => choice(&[("all", Satisfy::All), ("any", Satisfy::Any)]);
        /// Addresses that have access.
        access: Vec<AccessRule> = Vec::new(), "allow" | "deny" => item(parse_access);
        /// A subrequest to this URI decides whether the request is allowed.
        auth_request: Option<Vec<u8>> = None, "auth_request" => unless_off(parse_bytes);
        /// Variables to set after the subrequest.
        auth_request_sets: Vec<SetFromSubrequest> = Vec::new(), "auth_request_set" => item(parse_set_from_subrequest);
        /// Copies of requests go to these URIs.
        mirrors: Vec<Vec<u8>> = Vec::new(), "mirror" => edit(edit_mirrors);
        /// Whether the copies have the request's body.
        mirror_request_body: bool = true, "mirror_request_body" => value(parse_flag);
        /// URI of a subrequest whose response comes before the body; empty for none.
        before_body: Vec<u8> = Vec::new(), "add_before_body" => value(parse_bytes);
        /// URI of a subrequest whose response comes after the body; empty for none.
        after_body: Vec<u8> = Vec::new(), "add_after_body" => value(parse_bytes);
        /// Media types of the bodies that get these additions.
        addition_types: MediaTypes = MediaTypes::Some(vec![b"text/html".to_vec()]), "addition_types" => edit(edit_types);
        /// Caching headers.
        expires: Expires = Expires::Off, "expires" => whole(parse_expires);
        /// Headers added.
        add_headers: Vec<AddHeader> = Vec::new(), "add_header" => item(parse_add_header);
        /// How that list is inherited.
        add_header_inherit: HeaderInherit = HeaderInherit::On, "add_header_inherit" => choice(INHERIT);
        /// Trailers added.
        add_trailers: Vec<AddHeader> = Vec::new(), "add_trailer" => item(parse_add_header);
        /// How that list is inherited.
        add_trailer_inherit: HeaderInherit = HeaderInherit::On, "add_trailer_inherit" => choice(INHERIT);
        /// The location is reached by internal redirects only.
        internal: bool = false, "internal" => edit(set_internal);
        /// The upstream's 103 responses are passed on if one of these is neither empty nor `0`.
        early_hints: Vec<Template> = Vec::new(), "early_hints" => each(Template::parse);
    }
}

const INHERIT: &[(&str, HeaderInherit)] =
    &[("on", HeaderInherit::On), ("off", HeaderInherit::Off), ("merge", HeaderInherit::Merge)];

#[expect(clippy::unnecessary_wraps, reason = "shares the shape of the other edits")]
fn set_internal(internal: &mut bool, _at: &mut At<'_>) -> Parsed<()> {
    *internal = true;
    Ok(())
}

fn parse_set_from_subrequest(at: &mut At<'_>) -> Parsed<SetFromSubrequest> {
    let (variable, value) = (parse_variable(at.word(0)?)?, Template::parse(at.name, at.word(1)?)?);
    Ok(SetFromSubrequest { variable, value, span: at.directive.span })
}

/// As in nginx, `mirror off` must be the only `mirror` of its level.
fn edit_mirrors(mirrors: &mut Vec<Vec<u8>>, at: &mut At<'_>) -> Parsed<()> {
    let word = at.word(0)?;
    let is_off = word.value == b"off";
    if at.fresh {
        mirrors.clear();
    } else if is_off || mirrors.is_empty() {
        return Err(Diagnostic::error(at.directive.span, "\"mirror\" directive is duplicate"));
    }
    if !is_off {
        mirrors.push(word.value.to_vec());
    }
    Ok(())
}

fn parse_server_tokens(_name: &str, word: &Word) -> Parsed<ServerTokens> {
    let known = [("off", 0), ("on", 1), ("build", 2)];
    Ok(match parse_choice(word, &known)? {
        0 => ServerTokens::Off,
        1 => ServerTokens::On,
        _ => ServerTokens::Build,
    })
}

pub(crate) fn parse_access(at: &mut At<'_>) -> Parsed<AccessRule> {
    let word = at.word(0)?;
    let allow = at.name == "allow";
    let who = match word.value.as_slice() {
        b"all" => CidrPattern::All,
        b"unix:" => CidrPattern::Unix,
        text => CidrPattern::Network(parse_cidr(text, word, at.out)?),
    };
    Ok(AccessRule { allow, who })
}

/// Reads a network, with nginx's warning about host bits.
pub(crate) fn parse_cidr(text: &[u8], word: &Word, out: &mut Vec<Diagnostic>) -> Parsed<Cidr> {
    let (cidr, loose) = Cidr::parse(text).ok_or_else(|| {
        invalid_parameter(word).with_hint("an address or a network: `192.0.2.1`, `10.0.0.0/8`, `2001:db8::/32`")
    })?;
    if loose {
        out.push(Diagnostic::warning(word.span, format!("low address bits of {} are meaningless", word.text())));
    }
    Ok(cidr)
}

/// Codes that an `error_page` may be for.
const ERROR_STATUS_MIN: u64 = 300;
const ERROR_STATUS_MAX: u64 = 599;

fn edit_error_page(pages: &mut Vec<ErrorPage>, at: &mut At<'_>) -> Parsed<()> {
    if at.fresh {
        pages.clear();
    }
    at.word(1)?;
    let Some((last, mut codes)) = at.words().split_last() else { return Ok(()) };
    let mut replace = ErrorStatus::Keep;
    if let Some((word, before)) = codes.split_last()
        && let Some(code) = word.value.strip_prefix(b"=")
    {
        replace = match code {
            b"" => ErrorStatus::OfPage,
            code => ErrorStatus::Code(
                number(code).and_then(|code| u16::try_from(code).ok()).ok_or_else(|| invalid_value(word))?,
            ),
        };
        if before.is_empty() {
            return Err(invalid_value(word));
        }
        codes = before;
    }
    let target = match last.value.as_slice() {
        [b'@', name @ ..] => ErrorTarget::Named(String::from_utf8_lossy(name).into_owned()),
        [b'/', ..] => ErrorTarget::Uri(Template::parse(at.name, last)?),
        _ => ErrorTarget::Redirect(Template::parse_line(at.name, last, at.out)?),
    };
    for word in codes {
        let status = number(&word.value).ok_or_else(|| invalid_value(word))?;
        if status == 499 {
            let message = format!("invalid value \"{}\"", word.text());
            return Err(Diagnostic::error(word.span, message)
                .with_hint("499 means that the client is gone: it would not get a page"));
        }
        if !(ERROR_STATUS_MIN..=ERROR_STATUS_MAX).contains(&status) {
            let message = format!("value \"{}\" must be between 300 and 599", word.text());
            return Err(Diagnostic::error(word.span, message));
        }
        pages.push(ErrorPage { status: status as u16, replace, target: target.clone() });
    }
    Ok(())
}

fn parse_add_header(at: &mut At<'_>) -> Parsed<AddHeader> {
    let name = parse_bytes(at.name, at.word(0)?)?;
    let value = at.word(1)?;
    let value = Template::parse_line(at.name, value, at.out)?;
    let always = match at.words().get(2) {
        None => false,
        Some(word) if word.value == b"always" => true,
        Some(word) => return Err(invalid_parameter(word)),
    };
    Ok(AddHeader { name, value, always })
}

/// Seconds of a day, exclusive bound of `expires @…`.
const DAY_SECONDS: i64 = 24 * 60 * 60;

fn parse_expires(at: &mut At<'_>) -> Parsed<Expires> {
    let (modified, word) = match at.words() {
        [first, second, ..] if first.value == b"modified" => (true, second),
        [first, _, ..] => return Err(directive_invalid(at.name, first, "value")),
        _ => (false, at.word(0)?),
    };
    if word.value.starts_with(b"$") {
        return Ok(Expires::Template { modified, value: Template::parse(at.name, word)? });
    }
    parse_expires_text(&word.value, modified).ok_or_else(|| {
        let late = word.value.strip_prefix(b"@").is_some_and(|time| milliseconds(time, true).is_some());
        if late && !modified {
            let message = "\"expires\" directive daily time value must be less than 24 hours";
            return Diagnostic::error(word.span, message);
        }
        directive_invalid(at.name, word, "value")
    })
}

/// Reads the arguments of `expires`, or the value of its variable. `None` if it is not valid.
#[must_use]
pub fn parse_expires_text(text: &[u8], modified: bool) -> Option<Expires> {
    if !modified {
        match text {
            b"epoch" => return Some(Expires::Epoch),
            b"max" => return Some(Expires::Max),
            b"off" => return Some(Expires::Off),
            _ => {}
        }
        if let Some(daily) = text.strip_prefix(b"@") {
            let seconds = (milliseconds(daily, true)? / 1000) as i64;
            return (seconds <= DAY_SECONDS).then_some(Expires::Daily(seconds as u32));
        }
    }
    let (sign, rest) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] | rest => (1, rest),
    };
    let seconds = sign * (milliseconds(rest, true)? / 1000) as i64;
    Some(if modified { Expires::Modified(seconds) } else { Expires::Access(seconds) })
}

/// Applies `add_header_inherit` and `add_trailer_inherit` to a level; `None` if nothing changes.
pub(crate) fn join_headers(
    outer: &ResponseSettings,
    level: &ResponseSettings,
    touched: &Touched,
) -> Option<ResponseSettings> {
    let join = |mode: HeaderInherit, own: bool, outer: &[AddHeader], list: &[AddHeader]| match (mode, own) {
        (HeaderInherit::On, _) | (HeaderInherit::Merge, false) | (HeaderInherit::Off, true) => None,
        (HeaderInherit::Off, false) => (!list.is_empty()).then(Vec::new),
        (HeaderInherit::Merge, true) => (!outer.is_empty()).then(|| [list, outer].concat()),
    };
    let own = |field| touched.has("response", field);
    let headers = join(level.add_header_inherit, own("add_headers"), &outer.add_headers, &level.add_headers);
    let trailers = join(level.add_trailer_inherit, own("add_trailers"), &outer.add_trailers, &level.add_trailers);
    if headers.is_none() && trailers.is_none() {
        return None;
    }
    let mut joined = level.clone();
    if let Some(headers) = headers {
        joined.add_headers = headers;
    }
    if let Some(trailers) = trailers {
        joined.add_trailers = trailers;
    }
    Some(joined)
}
