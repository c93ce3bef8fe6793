//! TLS towards upstreams: turns `proxy_ssl_…` into settings, reads files, and removes the ports from names that are the
//! same for all requests. Unsupported settings are reported here.

use crate::lower::Lowering;
use crate::lower::openssl::{Agreeable, OpensslWords};
use crate::lower::proxy::Pass;
use crate::plan::tls::{MadePairs, PairSource};
use crate::plan::upstream_tls::{NamePlan, UpstreamTlsPlan, without_port};
use conf::diagnostic::Diagnostic;
use conf::model::{SubjectName, UpstreamTlsSettings};
use conf::source::Span;
use conf::value::{Located, Template as Written};
use rules::template::Template;
use rules::variable::Variable;
use std::path::Path;
use std::sync::Arc;
use tls::{AlternativeName, ClientSide, Finding, Pair, Revocations, SetupError, Trust};

/// Settings that were lowered already: locations share inherited ones, and files are read once.
#[derive(Default)]
pub(super) struct Sides(Vec<KnownSide>);

/// The properties of a location that affect TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TlsKind {
    /// Prefix of its directives.
    pub(super) family: &'static str,
    pub(super) speaks_http2: bool,
}

struct KnownSide {
    words: Arc<UpstreamTlsSettings>,
    kind: TlsKind,
    built: Option<ClientSide>,
}

impl Lowering<'_> {
    /// TLS of a proxy, for HTTP/2 or HTTP/1.1. `host` is `$proxy_host`, if that is the same for all requests.
    pub(super) fn upstream_tls(&mut self, pass: Pass<'_>, host: Option<&[u8]>, span: Span) -> Option<UpstreamTlsPlan> {
        let words = pass.settings.upstream_tls_of(pass.scheme);
        let kind = TlsKind { family: pass.scheme.family(), speaks_http2: pass.speaks_http2() };
        self.tls_of(words, kind, host, span)
    }

    /// The same from its settings.
    pub(super) fn tls_of(
        &mut self,
        words: &Arc<UpstreamTlsSettings>,
        kind: TlsKind,
        host: Option<&[u8]>,
        span: Span,
    ) -> Option<UpstreamTlsPlan> {
        let is_known =
            |known: &&KnownSide| known.kind == kind && (Arc::ptr_eq(&known.words, words) || known.words == *words);
        let side = if let Some(known) = self.sides.0.iter().find(is_known) {
            known.built.clone()
        } else {
            let side = self.side(words, kind, span);
            self.sides.0.push(KnownSide { words: Arc::clone(words), kind, built: side.clone() });
            side
        };
        let certificate = if is_made(words) { Some(self.made_client_pair(words)?) } else { None };
        Some(UpstreamTlsPlan { side: side?, name: self.tls_name(words, kind.family, host, span)?, certificate })
    }

    fn tls_name(
        &mut self,
        words: &UpstreamTlsSettings,
        family: &str,
        host: Option<&[u8]>,
        span: Span,
    ) -> Option<NamePlan> {
        if !words.verify && !words.server_name {
            return Some(NamePlan::Nameless);
        }
        let (template, span) = match &words.name {
            Some(name) => (self.template(name), name.span),
            None => match host {
                Some(host) => (Template::constant(host), span),
                None => (Template::variable(Variable::ProxyHost), span),
            },
        };
        let Some(text) = template.as_constant() else { return Some(NamePlan::Made(template)) };
        let name = without_port(text).unwrap_or_default();
        if tls::is_server_name(&name) {
            return Some(NamePlan::Fixed(name.into()));
        }
        if name.is_empty() && !words.verify {
            return Some(NamePlan::Nameless);
        }
        let message = format!("\"{}\" is no name that TLS can ask for or verify", text.escape_ascii());
        let hint = format!("`{family}_ssl_name` takes a host name or an address");
        self.found.push(Diagnostic::error(span, message).with_hint(hint));
        None
    }

    fn side(&mut self, words: &UpstreamTlsSettings, kind: TlsKind, span: Span) -> Option<ClientSide> {
        let TlsKind { family, speaks_http2 } = kind;
        let failed = self.found.len();
        let trust = self.trust(words);
        let revocations = self.revocations(words);
        let pair = self.client_pair(words, family);
        let Agreeable { protocols, ciphers, curves } = self.agreeable(&openssl_words(words, family, span))?;
        let is_sound = |found: &Diagnostic| found.severity < conf::diagnostic::Severity::Error;
        if !self.found.iter().skip(failed).all(is_sound) {
            return None;
        }
        let built = ClientSide::new(trust?)
            .pair(pair)
            .protocols(protocols)
            .ciphers(ciphers)
            .curves(curves)
            .depth(words.verify_depth as usize)
            .alternatives(words.verify_san.iter().map(alternative).collect())
            .revocations(revocations.unwrap_or_default())
            .resume(words.session_reuse)
            .send_name(words.server_name)
            // As in nginx, HTTP/2 is the only offer, and HTTP/1.1 is used without ALPN.
            .alpn(words.alpn.iter().map(String::as_str).chain(speaks_http2.then_some("h2")))
            .build();
        let error = match built {
            Ok(side) => return Some(side),
            Err(error) => error,
        };
        let span = words.trusted_certificate.as_ref().map_or(span, |file| file.span);
        self.found.push(match error {
            SetupError::Finding(finding) => of_finding(span, "invalid certificate", &finding),
            error => Diagnostic::error(span, format!("TLS towards the upstream cannot be set up: {error}")),
        });
        None
    }

    /// The trusted authorities. As in nginx, their file is read even if nothing is verified.
    fn trust(&mut self, words: &UpstreamTlsSettings) -> Option<Trust> {
        let named = match &words.trusted_certificate {
            Some(file) => Some(self.read_word(file, "cannot load certificate")?),
            None => None,
        };
        Some(match named {
            _ if !words.verify => Trust::Anyone,
            Some(pem) => Trust::Authorities(pem),
            None => Trust::System,
        })
    }

    fn revocations(&mut self, words: &UpstreamTlsSettings) -> Option<Revocations> {
        let file = words.crl.as_ref()?;
        let pem = self.read_word(file, "cannot load CRL")?;
        match Revocations::from_pem(&pem) {
            Ok(lists) => Some(lists),
            Err(finding) => {
                self.found.push(of_finding(file.span, &format!("cannot load CRL \"{}\"", file.value), &finding));
                None
            }
        }
    }

    /// The certificate for upstreams that ask for one.
    fn client_pair(&mut self, words: &UpstreamTlsSettings, family: &str) -> Option<Pair> {
        let certificate = words.certificate.as_ref()?;
        if is_made(words) {
            return None;
        }
        let Some(key) = &words.certificate_key else {
            let text = certificate.as_text().unwrap_or_default().escape_ascii();
            let message = format!("no \"{family}_ssl_certificate_key\" is defined for certificate \"{text}\"");
            self.found.push(Diagnostic::error(certificate.span, message));
            return None;
        };
        let source = PairSource {
            certificate: self.material(certificate)?,
            key: self.material(key)?,
            passwords: words.password_file.as_ref().map(|file| self.options.conf_directory.join(&file.value)),
            stapled: None,
            stapling: None,
        };
        self.pair(source, certificate.span, key.span).map(|plan| plan.pair)
    }

    /// The same for names with variables.
    fn made_client_pair(&mut self, words: &UpstreamTlsSettings) -> Option<Arc<MadePairs>> {
        let (certificate, key) = (words.certificate.as_ref()?, words.certificate_key.as_ref()?);
        let passwords = match &words.password_file {
            Some(file) => {
                let path = self.options.conf_directory.join(&file.value);
                Some((path, self.read_word(file, "cannot load password file")?.into()))
            }
            None => None,
        };
        let pairs = vec![(self.template(certificate), self.template(key))];
        let directory = self.options.conf_directory.clone();
        Some(Arc::new(MadePairs { pairs, directory, passwords, cache: words.certificate_cache }))
    }

    fn read_word(&mut self, file: &Located<String>, failed: &str) -> Option<Vec<u8>> {
        self.read_named(Path::new(&file.value), |path, error| {
            Diagnostic::error(file.span, format!("{failed} \"{path}\": open() failed ({error})"))
        })
    }
}

/// Whether requests name the certificate. If the key is missing, the path without variables reports it.
fn is_made(words: &UpstreamTlsSettings) -> bool {
    let has_variables = |written: &Option<Written>| written.as_ref().is_some_and(|written| written.as_text().is_none());
    words.certificate.is_some()
        && words.certificate_key.is_some()
        && (has_variables(&words.certificate) || has_variables(&words.certificate_key))
}

fn alternative(written: &SubjectName) -> AlternativeName {
    match written {
        SubjectName::Dns(name) => AlternativeName::Dns(name.clone()),
        SubjectName::Uri(uri) => AlternativeName::Uri(uri.clone()),
    }
}

fn openssl_words<'a>(words: &'a UpstreamTlsSettings, family: &str, span: Span) -> OpensslWords<'a> {
    OpensslWords {
        family: match family {
            "grpc" => "grpc_ssl",
            "uwsgi" => "uwsgi_ssl",
            _ => "proxy_ssl",
        },
        span,
        protocols: words.protocols.iter().map(Located::as_str).collect(),
        ciphers: Some(words.ciphers.as_str()),
        curves: None,
        commands: words.conf_commands.iter().map(|(name, value)| [name.as_str(), value.as_str()]).collect(),
    }
}

fn of_finding(span: Span, what: &str, finding: &Finding) -> Diagnostic {
    Diagnostic::error(span, format!("{what}: {}", finding.text)).with_hint(finding.advice.clone())
}
