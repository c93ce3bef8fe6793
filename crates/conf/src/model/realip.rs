//! The client's real address behind another proxy.

use super::response::parse_cidr;
use super::settings::{At, settings};
use crate::value::plain::parse_flag;
use crate::value::words::any_header_name;
use crate::value::{Cidr, CidrPattern, Parsed};

/// Where the address is taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RealIpHeader {
    /// A header of one address.
    Header(String),
    /// `X-Forwarded-For`: a list, read from its end.
    XForwardedFor,
    /// The PROXY protocol's header.
    ProxyProtocol,
}

settings! {
    /// Real addresses of a location.
    pub struct RealIpSettings {
        /// Proxies that may name the client.
        from: Vec<CidrPattern> = Vec::new(), "set_real_ip_from" => item(parse_from);
        /// The source of the address.
        header: RealIpHeader = RealIpHeader::Header("X-Real-IP".to_owned()), "real_ip_header" => whole(parse_header);
        /// Whether trusted addresses inside the list are skipped.
        recursive: bool = false, "real_ip_recursive" => value(parse_flag);
    }
}

/// An address, a network, a name or `unix:`.
pub(super) fn parse_from(at: &mut At<'_>) -> Parsed<CidrPattern> {
    let word = at.word(0)?;
    if word.value == b"unix:" {
        return Ok(CidrPattern::Unix);
    }
    // Like nginx, holdfast leaves short forms of an address (`10.1`, `5`) to the system's resolver, as names.
    let is_name = !word.value.is_empty()
        && Cidr::parse(&word.value).is_none()
        && word.value.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    if is_name {
        return Ok(CidrPattern::Name(word.text().to_ascii_lowercase(), word.span));
    }
    parse_cidr(&word.value, word, at.out).map(CidrPattern::Network)
}

fn parse_header(at: &mut At<'_>) -> Parsed<RealIpHeader> {
    let word = at.word(0)?;
    Ok(if word.value == b"proxy_protocol" {
        RealIpHeader::ProxyProtocol
    } else if word.value.eq_ignore_ascii_case(b"X-Forwarded-For") {
        RealIpHeader::XForwardedFor
    } else {
        RealIpHeader::Header(any_header_name(word, at.out))
    })
}
