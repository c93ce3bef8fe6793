//! `acme_issuer` and `acme_certificate`: authorities that issue certificates by ACME, and the certificates to order.
//! The words are those of nginx's `ngx_http_acme_module`.

use super::env::Env;
use super::server::{NameForm, ServerName};
use super::settings::{At, Touched, level, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::plain::{parse_choice, parse_flag, parse_text};
use crate::value::{Located, Parsed, invalid_value, parameter};
use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Index into `Http::acme_issuers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AcmeIssuerId(pub u32);

/// An `acme_issuer`.
#[derive(Debug, Clone, PartialEq)]
pub struct AcmeIssuer {
    /// Its name. It has no slash, because the default state directory is named after it.
    pub name: String,
    /// What its block says.
    pub settings: AcmeIssuerSettings,
    /// Where it was written.
    pub span: Span,
}

/// `account_key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountKey {
    /// Holdfast makes one, ECDSA on P-256.
    Made,
    /// The key is in a file: relative to the directory of the main file unless absolute.
    File(Located<PathBuf>),
}

/// How holdfast proves to the authority that a name is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AcmeChallenge {
    /// A file on port 80 (RFC 8555 § 8.3).
    Http01,
    /// A handshake on port 443 (RFC 8737).
    TlsAlpn01,
}

/// `external_account_key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalAccountKey {
    /// The authority's name for the key.
    pub id: String,
    /// The key in base64url, or the file that has it.
    pub key: ExternalKeySource,
    /// Where the key was written.
    pub span: Span,
}

/// Where a MAC key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternalKeySource {
    /// The configuration itself.
    Text(Vec<u8>),
    /// A file.
    File(Vec<u8>),
}

/// `profile`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeProfile {
    /// Its name.
    pub name: String,
    /// Whether to do without a certificate rather than take one of another profile.
    pub require: bool,
}

/// `state_path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatePath {
    /// `acme_NAME` below the prefix.
    ByName,
    /// Keeps nothing.
    Off,
    /// This directory, relative to the prefix unless absolute.
    At(Vec<u8>),
}

settings! {
    /// Directives of an `acme_issuer`.
    pub struct AcmeIssuerSettings {
        /// The directory URL.
        uri: Option<String> = None, "uri" => option(parse_uri);
        /// The account's key.
        account_key: AccountKey = AccountKey::Made, "account_key" => value(parse_account_key);
        /// The challenge that holdfast answers.
        challenge: AcmeChallenge = AcmeChallenge::Http01, "challenge" => value(parse_challenge);
        /// URLs of contacts.
        contacts: Vec<String> = Vec::new(), "contact" => item(parse_contact);
        /// What binds the account to another one.
        external_account_key: Option<ExternalAccountKey> = None, "external_account_key" => whole(parse_external);
        /// The profile of certificates.
        profile: Option<AcmeProfile> = None, "profile" => whole(parse_profile);
        /// Authorities that must have signed the ACME server's own certificate; `None` means the system's.
        trusted_certificate: Option<Located<PathBuf>> = None, "ssl_trusted_certificate" => option(parse_file);
        /// Whether that certificate is checked.
        verify: bool = true, "ssl_verify" => value(parse_flag);
        /// Where keys and certificates are kept.
        state_path: StatePath = StatePath::ByName, "state_path" => value(parse_state_path);
        /// Whether the terms of service are agreed to.
        accepts_terms: bool = false, "accept_terms_of_service" => whole(accept);
    }
}

level! {
    /// The level of an issuer.
    pub(crate) struct AcmeIssuerLevel {
        /// Its directives.
        settings: AcmeIssuerSettings,
    }
}

/// An `acme_certificate`.
#[derive(Debug, Clone, PartialEq)]
pub struct AcmeCertificate {
    /// Who issues it.
    pub issuer: AcmeIssuerId,
    /// The names and addresses of the certificate: in lower case, at least one, without repetition.
    pub identifiers: Vec<AcmeIdentifier>,
    /// Its private key.
    pub key: CertificateKey,
    /// Where it was written.
    pub span: Span,
}

/// What a certificate is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AcmeIdentifier {
    /// A host name, in lower case.
    Name(String),
    /// An IP address (RFC 8738).
    Address(IpAddr),
}

impl std::fmt::Display for AcmeIdentifier {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => out.write_str(name),
            Self::Address(address) => write!(out, "{address}"),
        }
    }
}

/// Algorithm and size of a certificate's private key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // they are the words of `key=`
pub enum CertificateKey {
    Ecdsa256,
    Ecdsa384,
    Ecdsa521,
    Rsa2048,
    Rsa3072,
    Rsa4096,
}

/// Most names in one certificate: Let's Encrypt's limit.
const IDENTIFIERS_MAX: usize = 100;

/// Longest host name (RFC 1035 § 2.3.4), without the root's dot.
const NAME_BYTES_MAX: usize = 253;

const KEYS: [(&str, CertificateKey); 8] = [
    ("ecdsa", CertificateKey::Ecdsa256),
    ("ecdsa:256", CertificateKey::Ecdsa256),
    ("ecdsa:384", CertificateKey::Ecdsa384),
    ("ecdsa:521", CertificateKey::Ecdsa521),
    ("rsa", CertificateKey::Rsa2048),
    ("rsa:2048", CertificateKey::Rsa2048),
    ("rsa:3072", CertificateKey::Rsa3072),
    ("rsa:4096", CertificateKey::Rsa4096),
];

/// Reads an `acme_issuer` block.
pub(crate) fn lower_issuer(directive: &Directive, env: &Env, out: &mut Vec<Diagnostic>) -> Option<AcmeIssuer> {
    let (word, block) = (directive.args.first()?, directive.block.as_ref()?);
    let name = parse_text("acme_issuer", word).map_err(|error| out.push(error)).ok()?;
    if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
        out.push(invalid_value(word).with_hint("the state directory is called after the issuer: letters and digits"));
        return None;
    }
    let mut level = std::sync::Arc::new(AcmeIssuerLevel::default());
    let mut touched = Touched::default();
    for inner in &block.directives {
        AcmeIssuerLevel::apply(&mut level, &mut touched, inner, env, out);
    }
    let settings = AcmeIssuerSettings::clone(&level.settings);
    if !touched.has("settings", "uri") {
        let error = Diagnostic::error(directive.name.span, format!("\"uri\" is missing in acme_issuer \"{name}\""));
        out.push(error.with_hint("the directory URL, such as `uri https://acme-v02.api.letsencrypt.org/directory;`"));
    }
    if let (AccountKey::File(file), Some(_)) = (&settings.account_key, &settings.external_account_key) {
        let message = "an account with \"external_account_key\" cannot have a key of its own in a file here";
        out.push(Diagnostic::error(file.span, message).with_hint("remove `account_key`: a key is made, and kept"));
    }
    Some(AcmeIssuer { name, settings, span: directive.name.span })
}

/// Reads an `acme_certificate`. `find` looks up an issuer by name; `names` are the server's own names.
pub(crate) fn lower_certificate(
    directive: &Directive,
    find: impl FnOnce(&str) -> Option<AcmeIssuerId>,
    names: &[ServerName],
    out: &mut Vec<Diagnostic>,
) -> Option<AcmeCertificate> {
    let (first, rest) = directive.args.split_first()?;
    let issuer = find(&first.text());
    if issuer.is_none() {
        let message = format!("acme_issuer \"{}\" is not defined", first.text());
        out.push(
            Diagnostic::error(first.span, message)
                .with_hint("add `acme_issuer NAME { uri …; }` to `http`, before it is used or after"),
        );
    }
    let mut key = CertificateKey::Ecdsa256;
    let mut identifiers = Vec::new();
    let mut is_sound = true;
    for word in rest {
        let parsed = match parameter(word, "key") {
            Some(value) => parse_choice(&value, &KEYS).map(|written| key = written),
            None => add_identifier(word, &word.value, &mut identifiers),
        };
        is_sound &= parsed.map_err(|error| out.push(error)).is_ok();
    }
    if is_sound && identifiers.is_empty() {
        is_sound = add_server_names(first, names, &mut identifiers, out);
    }
    if is_sound && identifiers.is_empty() {
        let message = "\"acme_certificate\" has no identifiers";
        out.push(
            Diagnostic::error(directive.span, message).with_hint("name hosts behind the issuer, or by `server_name`"),
        );
        return None;
    }
    if identifiers.len() > IDENTIFIERS_MAX {
        let message =
            format!("\"acme_certificate\" has {} identifiers, more than {IDENTIFIERS_MAX}", identifiers.len());
        out.push(Diagnostic::error(directive.span, message).with_hint("give some of the names to another server"));
        return None;
    }
    Some(AcmeCertificate { issuer: issuer.filter(|_| is_sound)?, identifiers, key, span: directive.span })
}

fn add_server_names(
    place: &Word,
    names: &[ServerName],
    identifiers: &mut Vec<AcmeIdentifier>,
    out: &mut Vec<Diagnostic>,
) -> bool {
    let mut is_sound = true;
    for name in names {
        let Some(span) = name.span else { continue };
        if name.text.is_empty() {
            continue;
        }
        if matches!(name.form, NameForm::Regex(_) | NameForm::Hostname) {
            let message = format!(
                "\"acme_certificate\" leaves out server name \"{}\": it is no host name",
                String::from_utf8_lossy(&name.text)
            );
            out.push(Diagnostic::warning(span, message).with_related(place.span, "`acme_certificate` is here"));
            continue;
        }
        let word = Word { value: name.text.as_slice().into(), span, quote: place.quote };
        is_sound &= add_identifier(&word, &name.text, identifiers).map_err(|error| out.push(error)).is_ok();
    }
    is_sound
}

fn add_identifier(word: &Word, text: &[u8], identifiers: &mut Vec<AcmeIdentifier>) -> Parsed<()> {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    let mut add = |identifier| {
        if !identifiers.contains(&identifier) {
            identifiers.push(identifier);
        }
    };
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(&text);
    if let Ok(address) = bare.parse() {
        add(AcmeIdentifier::Address(address));
        return Ok(());
    }
    let (host, with_www) = text.strip_prefix('.').map_or((text.as_str(), false), |host| (host, true));
    let invalid = |hint: &str| {
        Err(Diagnostic::error(word.span, format!("invalid identifier \"{}\" in \"acme_certificate\"", word.text()))
            .with_hint(hint.to_owned()))
    };
    if host.contains('*') {
        return invalid(
            "a certificate with a wildcard takes a challenge by DNS, which is not supported: name the hosts",
        );
    }
    if !is_host_name(host) {
        return invalid("an identifier is a host name in ASCII, or an IP address");
    }
    if with_www {
        add(AcmeIdentifier::Name(format!("www.{host}")));
    }
    add(AcmeIdentifier::Name(host.to_owned()));
    Ok(())
}

fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label)
}

fn parse_uri(name: &str, word: &Word) -> Parsed<String> {
    let text = parse_text(name, word)?;
    let rest = text.strip_prefix("https://");
    if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/') || text.bytes().any(|byte| byte <= b' ')) {
        let message = format!("invalid \"uri\" value \"{text}\"");
        return Err(Diagnostic::error(word.span, message).with_hint("a URL that begins with `https://` and a host"));
    }
    Ok(text)
}

fn parse_account_key(name: &str, word: &Word) -> Parsed<AccountKey> {
    let text = word.text();
    if let Some((_, key)) = KEYS.iter().find(|(known, _)| *known == text) {
        if *key == CertificateKey::Ecdsa256 {
            return Ok(AccountKey::Made);
        }
        let message = format!("\"{name}\" value \"{text}\" is known but not supported by holdfast");
        return Err(Diagnostic::error(word.span, message).with_hint("`ecdsa:256`, which every authority takes"));
    }
    parse_file(name, word).map(AccountKey::File)
}

fn parse_file(_name: &str, word: &Word) -> Parsed<Located<PathBuf>> {
    if word.value.is_empty() {
        return Err(invalid_value(word));
    }
    Ok(Located { value: PathBuf::from(OsStr::from_bytes(&word.value)), span: word.span })
}

fn parse_challenge(_name: &str, word: &Word) -> Parsed<AcmeChallenge> {
    match word.value.as_slice() {
        b"http" | b"http-01" => Ok(AcmeChallenge::Http01),
        b"tls-alpn" | b"tls-alpn-01" => Ok(AcmeChallenge::TlsAlpn01),
        _ => Err(Diagnostic::error(word.span, format!("unsupported challenge: {}", word.text()))
            .with_hint("`http-01` or `tls-alpn-01`")),
    }
}

fn parse_contact(at: &mut At<'_>) -> Parsed<String> {
    let word = at.word(0)?;
    let text = parse_text(at.name, word)?;
    if text.is_empty() {
        return Err(invalid_value(word));
    }
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    Ok(if is_scheme { text } else { format!("mailto:{text}") })
}

fn parse_external(at: &mut At<'_>) -> Parsed<Option<ExternalAccountKey>> {
    let (id, key) = (at.word(0)?, at.word(1)?);
    for word in [id, key] {
        if word.value.is_empty() {
            return Err(invalid_value(word));
        }
    }
    let source = match key.value.strip_prefix(b"data:") {
        Some(text) => ExternalKeySource::Text(text.to_vec()),
        None => ExternalKeySource::File(key.value.to_vec()),
    };
    Ok(Some(ExternalAccountKey { id: parse_text(at.name, id)?, key: source, span: key.span }))
}

fn parse_profile(at: &mut At<'_>) -> Parsed<Option<AcmeProfile>> {
    let require = match at.words().get(1) {
        None => false,
        Some(word) if word.value == b"require" => true,
        Some(word) => return Err(invalid_value(word).with_hint("`require`, or nothing")),
    };
    Ok(Some(AcmeProfile { name: parse_text(at.name, at.word(0)?)?, require }))
}

fn parse_state_path(_name: &str, word: &Word) -> Parsed<StatePath> {
    match word.value.as_slice() {
        b"" => Err(invalid_value(word)),
        b"off" => Ok(StatePath::Off),
        path => Ok(StatePath::At(path.to_vec())),
    }
}

#[allow(clippy::unnecessary_wraps)] // the shape of a row's parser
fn accept(_at: &mut At<'_>) -> Parsed<bool> {
    Ok(true)
}
