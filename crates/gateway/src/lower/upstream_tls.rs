//! TLS towards upstreams: the words of `proxy_ssl_…` become settings, files are read, and names that are the same for all requests
//! are cut from their ports. What TLS has not is named here.

use crate::base::logs::error::errno;
use crate::lower::Lowering;
use crate::lower::openssl::{Agreeable, OpensslWords};
use crate::lower::pairs::read_file;
use crate::plan::tls::PairSource;
use crate::plan::upstream_tls::{NamePlan, UpstreamTlsPlan, without_port};
use conf::diagnostic::Diagnostic;
use conf::model::{LocationSettings, UpstreamTlsSettings};
use conf::source::Span;
use conf::value::Located;
use rules::template::Template;
use rules::variable::Variable;
use std::sync::Arc;
use tls::{ClientSide, Finding, Pair, Revocations, SetupError, Trust};

/// Settings that were lowered already: locations share those that they inherit, and files are read once.
#[derive(Default)]
pub(super) struct Sides(Vec<(Arc<UpstreamTlsSettings>, Option<ClientSide>)>);

impl Lowering<'_> {
    /// TLS of a proxy. `host` is `$proxy_host`, where that is the same for all requests.
    pub(super) fn upstream_tls(
        &mut self,
        settings: &LocationSettings,
        host: Option<&[u8]>,
        span: Span,
    ) -> Option<UpstreamTlsPlan> {
        let words = &settings.upstream_tls;
        let known = self.sides.0.iter().find(|(known, _)| Arc::ptr_eq(known, words) || known == words);
        let side = if let Some((_, side)) = known {
            side.clone()
        } else {
            let side = self.side(words, span);
            self.sides.0.push((Arc::clone(words), side.clone()));
            side
        };
        Some(UpstreamTlsPlan { side: side?, name: self.tls_name(words, host, span)? })
    }

    fn tls_name(&mut self, words: &UpstreamTlsSettings, host: Option<&[u8]>, span: Span) -> Option<NamePlan> {
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
        self.found.push(Diagnostic::error(span, message).with_hint("`proxy_ssl_name` takes a host name or an address"));
        None
    }

    fn side(&mut self, words: &UpstreamTlsSettings, span: Span) -> Option<ClientSide> {
        let failed = self.found.len();
        let trust = self.trust(words);
        let revocations = self.revocations(words);
        let pair = self.client_pair(words);
        let Agreeable { protocols, ciphers, curves } = self.agreeable(&openssl_words(words, span))?;
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
            .revocations(revocations.unwrap_or_default())
            .resume(words.session_reuse)
            .send_name(words.server_name)
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

    /// The authorities. As in nginx their file is read also where nothing is verified.
    fn trust(&mut self, words: &UpstreamTlsSettings) -> Option<Trust> {
        let named = match &words.trusted_certificate {
            Some(file) => Some(self.read_named(&file.value, file.span, "cannot load certificate")?),
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
        let pem = self.read_named(&file.value, file.span, "cannot load CRL")?;
        match Revocations::from_pem(&pem) {
            Ok(lists) => Some(lists),
            Err(finding) => {
                self.found.push(of_finding(file.span, &format!("cannot load CRL \"{}\"", file.value), &finding));
                None
            }
        }
    }

    /// The certificate that is shown to upstreams that ask for one.
    fn client_pair(&mut self, words: &UpstreamTlsSettings) -> Option<Pair> {
        let certificate = words.certificate.as_ref()?;
        let Some(key) = &words.certificate_key else {
            let text = certificate.as_text().unwrap_or_default().escape_ascii();
            let message = format!("no \"proxy_ssl_certificate_key\" is defined for certificate \"{text}\"");
            self.found.push(Diagnostic::error(certificate.span, message));
            return None;
        };
        let source = PairSource {
            certificate: self.material(certificate)?,
            key: self.material(key)?,
            passwords: words.password_file.as_ref().map(|file| self.options.conf_directory.join(&file.value)),
            stapled: None,
        };
        self.pair(source, certificate.span, key.span).map(|plan| plan.pair)
    }

    fn read_named(&mut self, path: &str, span: Span, failed: &str) -> Option<Vec<u8>> {
        let path = self.options.conf_directory.join(path);
        match read_file(&path, self.options.read) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let message = format!("{failed} \"{}\": open() failed ({})", path.display(), errno(&error));
                self.found.push(Diagnostic::error(span, message));
                None
            }
        }
    }
}

fn openssl_words(words: &UpstreamTlsSettings, span: Span) -> OpensslWords<'_> {
    OpensslWords {
        family: "proxy_ssl",
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
