//! TLS towards upstreams: the words of `proxy_ssl_…` become settings, files are read, and names that are the same for all requests
//! are cut from their ports. What TLS has not is named here.

use crate::lower::Lowering;
use crate::plan::upstream_tls::{NamePlan, UpstreamTlsPlan, without_port};
use conf::diagnostic::Diagnostic;
use conf::model::{LocationSettings, UpstreamTlsSettings, Written};
use conf::source::Span;
use rules::template::Template;
use rules::variable::Variable;
use std::sync::Arc;
use tls::{Ciphers, ClientSide, Curves, Finding, Pair, Protocols, Revocations, SetupError, Trust};

/// Settings that were lowered already: locations share those that they inherit, and files are read once.
#[derive(Default)]
pub(super) struct Sides(Vec<(Arc<UpstreamTlsSettings>, Option<ClientSide>)>);

/// What OpenSSL's configuration commands have changed.
struct Commands {
    ciphers: Ciphers,
    curves: Curves,
    protocols: Vec<String>,
}

/// Protocols in their order, as the commands name them.
const PROTOCOLS: [&str; 5] = ["SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

/// Commands of OpenSSL that need nothing here: what they switch is not there, or is always so.
const IDLE_COMMANDS: [&str; 10] = [
    "Options",
    "SignatureAlgorithms",
    "ClientSignatureAlgorithms",
    "ECDHParameters",
    "NumTickets",
    "RecordPadding",
    "VerifyMode",
    "TxCertificateCompression",
    "RxCertificateCompression",
    "DHParameters",
];

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
        let Commands { ciphers, curves, protocols } = self.commands(words)?;
        let protocols = self.protocols(words, &protocols)?;
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
            Some(file) => Some(self.read_named(&file.text, file.span, "cannot load certificate")?),
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
        let pem = self.read_named(&file.text, file.span, "cannot load CRL")?;
        match Revocations::from_pem(&pem) {
            Ok(lists) => Some(lists),
            Err(finding) => {
                self.found.push(of_finding(file.span, &format!("cannot load CRL \"{}\"", file.text), &finding));
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
        let chain = self.read_constant("proxy_ssl_certificate", certificate, "cannot load certificate");
        let secret = self.read_constant("proxy_ssl_certificate_key", key, "cannot load certificate key");
        let passwords = match &words.password_file {
            Some(file) => self.read_named(&file.text, file.span, "cannot open the password file"),
            None => Some(Vec::new()),
        };
        match Pair::from_pem(&chain?, &secret?, &passwords?) {
            Ok(pair) => Some(pair),
            Err(finding) => {
                let is_of_key = finding.key.starts_with("key");
                let (span, what) =
                    if is_of_key { (key.span, "certificate key") } else { (certificate.span, "certificate") };
                self.found.push(of_finding(span, &format!("cannot load {what}"), &finding));
                None
            }
        }
    }

    /// The file that a word names, or what it is itself (`data:`).
    fn read_constant(&mut self, directive: &str, name: &conf::value::Template, failed: &str) -> Option<Vec<u8>> {
        let Some(text) = name.as_text() else {
            let message = format!("variables in \"{directive}\" are known but not supported by holdfast");
            let hint = "name a file; locations may have different ones";
            self.found.push(Diagnostic::error(name.span, message).with_hint(hint));
            return None;
        };
        if let Some(data) = text.strip_prefix(b"data:") {
            return Some(data.to_vec());
        }
        if text.starts_with(b"engine:") || text.starts_with(b"store:") {
            let message =
                format!("keys of OpenSSL's engines and stores (\"{directive}\") are not supported by holdfast");
            self.found.push(Diagnostic::error(name.span, message).with_hint("name a file with the key in PEM"));
            return None;
        }
        self.read_named(&String::from_utf8_lossy(text), name.span, failed)
    }

    fn read_named(&mut self, path: &str, span: Span, failed: &str) -> Option<Vec<u8>> {
        let path = self.options.conf_directory.join(path);
        match (self.options.read)(&path) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let message = format!("{failed} \"{}\": {error}", path.display());
                self.found.push(Diagnostic::error(span, message));
                None
            }
        }
    }

    /// Ciphers, curves and protocols as the words and OpenSSL's commands leave them.
    fn commands(&mut self, words: &UpstreamTlsSettings) -> Option<Commands> {
        let mut commands = Commands {
            ciphers: Ciphers::parse(&words.ciphers.text),
            curves: Curves::default(),
            protocols: words.protocols.iter().map(|word| word.text.clone()).collect(),
        };
        self.note_all(words.ciphers.span, &mut commands.ciphers.notes);
        for (name, value) in &words.conf_commands {
            self.command(&mut commands, name, value)?;
        }
        Some(commands)
    }

    fn command(&mut self, commands: &mut Commands, name: &Written, value: &Written) -> Option<()> {
        let is = |known: &str| name.text.eq_ignore_ascii_case(known);
        if is("Ciphersuites") {
            commands.ciphers = commands.ciphers.clone().suites_13(&value.text);
            self.note_all(value.span, &mut commands.ciphers.notes);
        } else if is("CipherString") {
            commands.ciphers = commands.ciphers.clone().string_12(&value.text);
            self.note_all(value.span, &mut commands.ciphers.notes);
        } else if is("Curves") || is("Groups") {
            commands.curves = Curves::parse(&value.text).ok().filter(|curves| !curves.is_empty()).or_else(|| {
                self.refuse_command(name, value);
                None
            })?;
            self.note_all(value.span, &mut commands.curves.notes);
        } else if is("MinProtocol") || is("MaxProtocol") {
            let place = PROTOCOLS.iter().position(|known| *known == value.text);
            let place = match place {
                Some(place) => place,
                None if is("MinProtocol") && value.text == "None" => 0,
                None if value.text == "None" => PROTOCOLS.len(),
                None => return self.refuse_command(name, value),
            };
            let rank = |word: &str| PROTOCOLS.iter().position(|known| *known == word).unwrap_or_default();
            let is_min = is("MinProtocol");
            commands.protocols.retain(|word| if is_min { rank(word) >= place } else { rank(word) <= place });
        } else if IDLE_COMMANDS.iter().any(|known| is(known)) {
            let message = format!("\"proxy_ssl_conf_command {}\" has no effect here", name.text);
            self.found.push(Diagnostic::note(name.span, message));
        } else {
            return self.refuse_command(name, value);
        }
        Some(())
    }

    fn refuse_command(&mut self, name: &Written, value: &Written) -> Option<()> {
        let message = format!("SSL_CONF_cmd(\"{}\", \"{}\") failed", name.text, value.text);
        let hint = "`Ciphersuites`, `CipherString`, `Curves`, `Groups`, `MinProtocol` and `MaxProtocol` have an effect";
        self.found.push(Diagnostic::error(name.span, message).with_hint(hint));
        None
    }

    fn protocols(&mut self, words: &UpstreamTlsSettings, left: &[String]) -> Option<Protocols> {
        let span = words.protocols.first().map_or(words.ciphers.span, |word| word.span);
        // The model has refused unknown words.
        let mut protocols = Protocols::parse(left.iter().map(String::as_str)).unwrap_or_default();
        self.note_all(span, &mut protocols.notes);
        if protocols.is_empty() {
            let message = "no protocol is left for \"proxy_ssl_protocols\": only TLSv1.2 and TLSv1.3 are spoken";
            self.found.push(Diagnostic::error(span, message).with_hint("proxy_ssl_protocols TLSv1.2 TLSv1.3;"));
            return None;
        }
        Some(protocols)
    }

    fn note_all(&mut self, span: Span, notes: &mut Vec<String>) {
        for note in notes.drain(..) {
            self.found.push(Diagnostic::note(span, note));
        }
    }
}

fn of_finding(span: Span, what: &str, finding: &Finding) -> Diagnostic {
    Diagnostic::error(span, format!("{what}: {}", finding.text)).with_hint(finding.advice.clone())
}
