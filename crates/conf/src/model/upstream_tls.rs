//! The words of TLS towards upstreams (`proxy_ssl_…`), each with its place. The gateway, which has TLS, interprets
//! ciphers, files and commands; this module checks what it can without TLS.

use super::settings::{At, settings};
use super::tls::{CertificateCache, parse_certificate_cache, parse_protocol as parse_alpn};
use crate::diagnostic::Diagnostic;
use crate::source::{FileId, Span};
use crate::tree::Word;
use crate::value::plain::{parse_choice, parse_flag, parse_u32};
use crate::value::{Located, Parsed, Template};

settings! {
    /// TLS between a location's proxy and its upstream.
    pub struct UpstreamTlsSettings {
        /// Whether the name is sent in SNI.
        server_name: bool = false, "proxy_ssl_server_name" => value(parse_flag);
        /// Name for SNI and for the certificate; `None` is `$proxy_host`.
        name: Option<Template> = None, "proxy_ssl_name" => option(Template::parse);
        /// Whether the upstream's certificate is verified.
        verify: bool = false, "proxy_ssl_verify" => value(parse_flag);
        /// Names of which the certificate must list one, in place of the name for SNI; an empty list: that name.
        verify_san: Vec<SubjectName> = Vec::new(), "proxy_ssl_verify_san" => each(parse_subject_name);
        /// Certificates between the upstream's and the authority's, at most.
        verify_depth: u32 = 1, "proxy_ssl_verify_depth" => value(parse_u32);
        /// Authorities; `None`: those of the system.
        trusted_certificate: Option<Located<String>> = None, "proxy_ssl_trusted_certificate" => value(parse_file);
        /// Revocation lists.
        crl: Option<Located<String>> = None, "proxy_ssl_crl" => value(parse_file);
        /// The certificate to show if the upstream asks for one.
        certificate: Option<Template> = None, "proxy_ssl_certificate" => value(parse_file_template);
        /// Its key.
        certificate_key: Option<Template> = None, "proxy_ssl_certificate_key" => value(parse_file_template);
        /// Passphrases of the key.
        password_file: Option<Located<String>> = None, "proxy_ssl_password_file" => value(parse_file);
        /// Cache of certificates and keys with variables in their names; `None` is off.
        certificate_cache: Option<CertificateCache> = None, "proxy_ssl_certificate_cache" => whole(parse_certificate_cache);
        /// Protocol versions.
        protocols: Vec<Located<String>> = default_protocols(), "proxy_ssl_protocols" => each(parse_protocol);
        /// Ciphers of TLS 1.2, in OpenSSL's words.
        ciphers: Located<String> = unwritten("DEFAULT"), "proxy_ssl_ciphers" => value(|_, word| Ok(Located::of(word)));
        /// OpenSSL's configuration commands, name and value.
        conf_commands: Vec<(Located<String>, Located<String>)> = Vec::new(), "proxy_ssl_conf_command" => item(parse_command);
        /// Protocols offered by ALPN; an empty list leaves that to the protocol of the proxy.
        alpn: Vec<String> = Vec::new(), "proxy_ssl_alpn" => each(parse_alpn);
        /// Whether sessions are resumed.
        session_reuse: bool = true, "proxy_ssl_session_reuse" => value(parse_flag);
    }
}

/// A name of a certificate, written as in OpenSSL's configuration files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubjectName {
    /// `DNS:example.com`
    Dns(String),
    /// `URI:spiffe://example.com/app`
    Uri(String),
}

const PROTOCOLS: [&str; 6] = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

/// A default value, with an empty place.
fn unwritten(text: &str) -> Located<String> {
    Located { value: text.to_owned(), span: Span { file: FileId(0), start: 0, end: 0 } }
}

fn default_protocols() -> Vec<Located<String>> {
    vec![unwritten("TLSv1.2"), unwritten("TLSv1.3")]
}

fn parse_protocol(_name: &str, word: &Word) -> Parsed<Located<String>> {
    parse_choice(word, &PROTOCOLS.map(|known| (known, ())))?;
    Ok(Located::of(word))
}

fn parse_subject_name(name: &str, word: &Word) -> Parsed<SubjectName> {
    let text = word.text();
    match text.split_once(':') {
        Some(("DNS", host)) if !host.is_empty() => Ok(SubjectName::Dns(host.to_owned())),
        Some(("URI", uri)) if !uri.is_empty() => Ok(SubjectName::Uri(uri.to_owned())),
        _ => Err(Diagnostic::error(word.span, format!("invalid name \"{text}\" in \"{name}\""))
            .with_hint("write `DNS:` or `URI:` before a name, such as `DNS:example.com`")),
    }
}

/// A file; an empty name cancels an inherited one.
#[expect(clippy::unnecessary_wraps, reason = "a parser of the table")]
fn parse_file(_name: &str, word: &Word) -> Parsed<Option<Located<String>>> {
    Ok((!word.value.is_empty()).then(|| Located::of(word)))
}

fn parse_file_template(name: &str, word: &Word) -> Parsed<Option<Template>> {
    if word.value.is_empty() { Ok(None) } else { Template::parse(name, word).map(Some) }
}

fn parse_command(at: &mut At<'_>) -> Parsed<(Located<String>, Located<String>)> {
    Ok((Located::of(at.word(0)?), Located::of(at.word(1)?)))
}
