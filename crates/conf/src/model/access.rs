//! Access to a location by name and password, by protected link, or by referrer.

use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::value::plain::parse_bytes;
use crate::value::time::parse_milliseconds;
use crate::value::{Parsed, Regex, Template};
use std::time::Duration;

settings! {
    /// Credentials and links of a location.
    pub struct AccessSettings {
        /// The realm that passwords are for; the text `off` asks for no password.
        realm: Option<Template> = None, "auth_basic" => unless_off(Template::parse);
        /// The file of names and hashes, relative to the folder of the configuration.
        user_file: Option<Template> = None, "auth_basic_user_file" => option(Template::parse);
        /// How long a client without access waits for its 401.
        delay: Duration = Duration::ZERO, "auth_delay" => value(parse_milliseconds);
        /// How links are protected.
        link: SecureLink = SecureLink::default(), "secure_link" | "secure_link_md5" | "secure_link_secret" => edit(edit_link);
        /// The pages that requests may come from.
        referers: ValidReferers = ValidReferers::default(), "valid_referers" => edit(edit_referers);
    }
}

/// Protected links, of one of two forms.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SecureLink {
    /// Checksum and end of a link.
    pub value: Option<Template>,
    /// The text that the checksum is of.
    pub text: Option<Template>,
    /// The word that protects links of the older form.
    pub secret: Option<Vec<u8>>,
}

/// `valid_referers`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ValidReferers {
    /// Allows requests without a Referer.
    pub none: bool,
    /// Allows requests with a Referer that names no page.
    pub blocked: bool,
    /// Hosts.
    pub names: Vec<RefererName>,
    /// Expressions over what follows the scheme.
    pub patterns: Vec<Regex>,
    /// This level has its own expressions: otherwise it has those of the level around it.
    own_patterns: bool,
    /// Where it was written.
    pub span: Option<Span>,
}

/// A host in `valid_referers`.
#[derive(Debug, Clone, PartialEq)]
pub enum RefererName {
    /// `server_names`: those of the server.
    ServerNames,
    /// A name or wildcard, and what the path begins with.
    Host {
        /// The name.
        name: Vec<u8>,
        /// The path; empty for any.
        path: Vec<u8>,
        /// Where it was written.
        span: Span,
    },
}

/// `secure_link_secret` hides the newer directives of an outer level, and they hide it; one level has only one of the
/// forms.
fn edit_link(link: &mut SecureLink, at: &mut At<'_>) -> Parsed<()> {
    let word = at.word(0)?;
    let is_secret = at.name == "secure_link_secret";
    if at.fresh {
        if is_secret {
            *link = SecureLink::default();
        }
        link.secret = None;
    } else if is_secret || link.secret.is_some() {
        let message = "\"secure_link_secret\" cannot be mixed with \"secure_link\" and \"secure_link_md5\"";
        return Err(Diagnostic::error(at.directive.span, message));
    }
    match at.name {
        "secure_link" => link.value = Some(Template::parse(at.name, word)?),
        "secure_link_md5" => link.text = Some(Template::parse(at.name, word)?),
        _ => link.secret = Some(parse_bytes(at.name, word)?),
    }
    Ok(())
}

fn edit_referers(referers: &mut ValidReferers, at: &mut At<'_>) -> Parsed<()> {
    if at.fresh {
        let patterns = std::mem::take(&mut referers.patterns);
        *referers = ValidReferers { patterns, ..ValidReferers::default() };
    }
    referers.span = Some(at.directive.span);
    for word in at.words() {
        match word.value.as_slice() {
            b"" => return Err(Diagnostic::error(word.span, "invalid referer \"\"")),
            b"none" => referers.none = true,
            b"blocked" => referers.blocked = true,
            b"server_names" => referers.names.push(RefererName::ServerNames),
            b"~" => return Err(Diagnostic::error(word.span, "empty regex in \"~\"")),
            [b'~', ..] => {
                if !std::mem::replace(&mut referers.own_patterns, true) {
                    referers.patterns.clear();
                }
                referers.patterns.push(at.env.regex(word, 1, true)?);
            }
            text => {
                let slash = text.iter().position(|&byte| byte == b'/').unwrap_or(text.len());
                let (name, path) = (text[..slash].to_vec(), text[slash..].to_vec());
                referers.names.push(RefererName::Host { name, path, span: word.span });
            }
        }
    }
    Ok(())
}
