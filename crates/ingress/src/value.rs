//! Values of objects are data. What may be in them is checked here, before they are written: names, sizes, variables.

use std::fmt::Write as _;
use std::net::IpAddr;

/// Longest value of an annotation that is read. Real ones have a few hundred bytes; the API server allows 256 KB for all
/// annotations of an object together.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 10;

/// Longest path and longest regular expression. PCRE compiles it once for each location.
pub(crate) const PATH_BYTES_MAX: usize = 2048;

/// The variable that is a `$`: the language has no other way to write one.
pub(crate) const DOLLAR: &str = "${hf_dollar}";

/// Variables that an object may use: what the client sent and what it gets. None of them has a value of another object.
const VARIABLES: &[&str] = &[
    "args",
    "best_http_host",
    "binary_remote_addr",
    "content_length",
    "content_type",
    "document_uri",
    "escaped_request_uri",
    "host",
    "https",
    "is_args",
    "msec",
    "pass_access_scheme",
    "pass_port",
    "pass_server_port",
    "proxy_add_x_forwarded_for",
    "query_string",
    "remote_addr",
    "remote_port",
    "remote_user",
    "req_id",
    "request_id",
    "request_method",
    "request_time",
    "request_uri",
    "scheme",
    "server_name",
    "server_port",
    "server_protocol",
    "status",
    "time_iso8601",
    "time_local",
    "uri",
];

/// Beginnings of names of further ones.
const FAMILIES: &[&str] = &["arg_", "cookie_", "http_"];

/// Names that ingress-nginx sets in each location; they are replaced by their values.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place<'a> {
    /// `$namespace`
    pub(crate) namespace: &'a str,
    /// `$ingress_name`
    pub(crate) ingress: &'a str,
}

/// Whether an object may use a variable.
pub(crate) fn is_harmless(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    VARIABLES.contains(&name.as_str())
        || FAMILIES.iter().any(|family| name.strip_prefix(family).is_some_and(|rest| !rest.is_empty()))
}

/// A value in which variables of the request may be. `captures` allows `$1` to `$9`.
pub(crate) fn template(value: &str, place: Place<'_>, captures: bool) -> Result<String, String> {
    printable(value)?;
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(digit) = rest.chars().next().filter(|first| ('1'..='9').contains(first)) {
            if !captures {
                return Err(format!("\"${digit}\" has no meaning here"));
            }
            let _ = write!(out, "${digit}");
            rest = &rest[1..];
            continue;
        }
        let (inner, braces) = rest.strip_prefix('{').map_or((rest, false), |inner| (inner, true));
        let length = inner.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(inner.len());
        let (name, mut behind) = inner.split_at(length);
        if braces {
            behind = behind.strip_prefix('}').ok_or_else(|| format!("\"${{{name}\" has no closing bracket"))?;
        }
        match name {
            "namespace" => out.push_str(place.namespace),
            "ingress_name" => out.push_str(place.ingress),
            "" => return Err("a \"$\" without the name of a variable".into()),
            name if is_harmless(name) => _ = write!(out, "${{{name}}}"),
            name => return Err(format!("the variable \"${name}\" is not allowed in objects")),
        }
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// A value without variables: a `$` in it means itself.
pub(crate) fn literal(value: &str) -> Result<String, String> {
    printable(value)?;
    Ok(value.replace('$', DOLLAR))
}

/// No control characters, and not too long.
pub(crate) fn printable(value: &str) -> Result<(), String> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(format!("longer than {VALUE_BYTES_MAX} bytes"));
    }
    match value.chars().find(|letter| letter.is_control()) {
        Some(letter) => Err(format!("has the control character U+{:04X}", u32::from(letter))),
        None => Ok(()),
    }
}

/// The name of a header field.
pub(crate) fn is_header_name(name: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=128).contains(&name.len()) && name.bytes().all(is_name)
}

/// A host of a rule or a certificate: a DNS name in lower case, perhaps with `*.` before it.
pub(crate) fn is_host(host: &str) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    (1..=253).contains(&name.len()) && name.split('.').all(is_label)
}

/// The name of an object or a namespace, as the API server allows them.
pub(crate) fn is_object_name(name: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=253).contains(&name.len()) && name.bytes().all(is_name) && !name.contains("..")
}

/// Networks, separated by commas.
pub(crate) fn networks(value: &str) -> Result<Vec<String>, String> {
    let list: Vec<&str> = value.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
    // A list is checked one after another for each request.
    if list.len() > 1024 {
        return Err("more than 1,024 networks".into());
    }
    list.into_iter().map(network).collect()
}

fn network(item: &str) -> Result<String, String> {
    let wrong = || format!("\"{}\" is no address or network", item.escape_debug());
    let (address, bits) = item.split_once('/').map_or((item, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    match bits {
        None => Ok(address.to_string()),
        Some(bits) => {
            let bits: u8 = bits.parse().map_err(|_| wrong())?;
            if bits <= most { Ok(format!("{}/{bits}", masked(address, bits))) } else { Err(wrong()) }
        }
    }
}

/// The address with the bits behind the prefix cleared, so that the language does not warn about them.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

/// A size as nginx writes it: digits, and `k`, `m` or `g`.
pub(crate) fn size(value: &str) -> Result<String, String> {
    let value = value.trim().to_ascii_lowercase();
    let value = value.strip_suffix('b').unwrap_or(&value);
    let digits = value.strip_suffix(['k', 'm', 'g']).unwrap_or(value);
    // Nine digits of gigabytes still fit 64 bits.
    if (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(value.to_owned())
    } else {
        Err("not a size: digits, and \"k\", \"m\" or \"g\"".into())
    }
}

/// A regular expression, at most [`PATH_BYTES_MAX`] long, that PCRE compiles.
pub(crate) fn regex(pattern: &str) -> Result<(), String> {
    use conf::source::{FileId, Span};
    printable(pattern)?;
    if pattern.len() > PATH_BYTES_MAX {
        return Err(format!("longer than {PATH_BYTES_MAX} bytes"));
    }
    // `(*VERB)` at the start would change the limits of the matcher.
    if pattern.contains("(*") {
        return Err("\"(*\" is not allowed in regular expressions of objects".into());
    }
    let span = Span { file: FileId(0), start: 0, end: 0 };
    let word = conf::tree::Word { value: pattern.as_bytes().into(), span, quote: conf::tree::Quote::Double };
    let compiled = conf::value::Regex::parse(&word, 0, true).map_err(|error| error.message)?;
    // A named group becomes a variable for all.
    if compiled.names.iter().any(Option::is_some) {
        return Err("named groups are not allowed in regular expressions of objects".into());
    }
    Ok(())
}

/// A URL of an annotation, in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// A name or an address, without variables.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: u16,
    /// Path and query, checked as a template; begins with `/` or a variable, or is empty.
    pub(crate) rest: String,
}

/// Reads `http://host[:port][/path]`. The host has no variables: a client must not choose where a request goes.
pub(crate) fn url(value: &str, place: Place<'_>) -> Result<Url, String> {
    let (scheme, behind, default) = match (value.strip_prefix("http://"), value.strip_prefix("https://")) {
        (Some(behind), _) => ("http", behind, 80),
        (_, Some(behind)) => ("https", behind, 443),
        _ => return Err("the URL must begin with http:// or https://".into()),
    };
    let at = behind.find(['/', '?', '$']).unwrap_or(behind.len());
    let (authority, rest) = behind.split_at(at);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| "the port of the URL is no number".to_owned())?),
        None => (authority, default),
    };
    if !is_host(host) || host.starts_with('*') || port == 0 {
        return Err("the host of the URL must be a name or an IPv4 address, without variables".into());
    }
    if is_inner(host) {
        return Err("the host of the URL leads to the controller or its node".into());
    }
    // `http://name$request_uri` is the usual form: the variable must be one that begins with `/`.
    let is_path = rest.is_empty()
        || ["/", "?", "$request_uri", "${request_uri}", "$uri", "${uri}"].iter().any(|start| rest.starts_with(start));
    if !is_path {
        return Err("only \"/\", \"$uri\" or \"$request_uri\" may follow the host of the URL".into());
    }
    if let Some(after) = rest.strip_prefix("$request_uri").or_else(|| rest.strip_prefix("$uri"))
        && after.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_')
    {
        return Err("only \"/\", \"$uri\" or \"$request_uri\" may follow the host of the URL".into());
    }
    if rest.contains([' ', '"', '\'', ';', '{', '}', '\\', '#'])
        && template(rest, place, false).map_or(true, |text| text.contains([' ', '"', '\'', ';', '\\', '#']))
    {
        return Err("the URL has a character that must be percent-encoded".into());
    }
    Ok(Url { scheme, host: host.to_ascii_lowercase(), port, rest: template(rest, place, false)? })
}

/// Hosts that no object may name: the controller itself, its node's services, and names of endpoints.
pub(crate) fn is_inner(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let address = host.parse::<std::net::Ipv4Addr>();
    host == "localhost"
        || host.ends_with(".localhost")
        || host.rsplit('.').next() == Some("invalid")
        || address.is_ok_and(|address| address.is_loopback() || address.is_link_local() || address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Place<'static> = Place { namespace: "shop", ingress: "front" };

    #[test]
    fn only_variables_of_the_request_are_replaced() {
        assert_eq!(template("a$host/${arg_x}", NONE, false).unwrap(), "a${host}/${arg_x}");
        assert_eq!(template("/$1/$namespace", NONE, true).unwrap(), "/$1/shop");
        for wrong in ["$", "$1", "${host", "$document_root", "$hf_dollar", "$upstream_http_set_cookie", "a\nb"] {
            assert!(template(wrong, NONE, false).is_err(), "{wrong}");
        }
        assert_eq!(literal("5$").unwrap(), "5${hf_dollar}");
    }

    #[test]
    fn urls_have_fixed_hosts() {
        let it = url("https://auth.example.com/check?x=$host", NONE).unwrap();
        assert_eq!(
            (it.scheme, it.host.as_str(), it.port, it.rest.as_str()),
            ("https", "auth.example.com", 443, "/check?x=${host}")
        );
        assert_eq!(url("http://copy:8080$request_uri", NONE).unwrap().rest, "${request_uri}");
        for wrong in [
            "ftp://a/",
            "http://$host/",
            "http://a$arg_x",
            "http://a b/",
            "http://a/ b",
            "http://a/;",
            "http://a#;\n",
            "http://a$request_urix",
        ] {
            assert!(url(wrong, NONE).is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks_are_canonical() {
        assert_eq!(networks("10.1.2.3/8, ::1 ,1.2.3.4").unwrap(), ["10.0.0.0/8", "::1", "1.2.3.4"]);
        assert_eq!(networks("0.0.0.0/0,::/0").unwrap(), ["0.0.0.0/0", "::/0"]);
        assert!(networks("10.0.0.0/33").is_err() && networks("x; deny all").is_err());
    }

    #[test]
    fn regexes_have_no_verbs_and_no_names() {
        assert!(regex("/a(/|$)(.*)").is_ok());
        for wrong in ["(*LIMIT_MATCH=4000000000)a", "(?<host>a)", "(", "a\nb"] {
            assert!(regex(wrong).is_err(), "{wrong}");
        }
    }
}
