//! TLS of servers: translates OpenSSL's words for rustls, and reads and checks files. What rustls does not support is
//! reported at its place.

use crate::lower::Lowering;
use crate::lower::openssl::{Agreeable, OpensslWords};
use crate::lower::pairs::{PairWord, load_pair};
use crate::plan::acme::AcmeOrderId;
use crate::plan::name::ResolverPlan;
use crate::plan::ocsp::{ClientStatusPlan, StaplingPlan, is_responder_url};
use crate::plan::tls::{
    CacheSize, ClientDemands, MadePairs, MaterialSource, Offers, PairPlan, PairSource, SessionCachePlan, TlsPlan,
    VerifyPlan, is_of_handshake,
};
use conf::diagnostic::Diagnostic;
use conf::model::{
    Listener, NameForm, Ocsp, PemSource, Resolver, Server, ServerId, ServerName, SessionCache, TlsSettings,
    VerifyClient,
};
use conf::source::Span;
use conf::value::{Located, Part};
use rules::template::Template;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tls::{ClientCheck, Finding, RECORD_BYTES_MAX, Revocations, Severity, StatusCheck};

/// The size of OpenSSL's own cache if the directive states none.
const BUILTIN_SESSIONS: u64 = 20_480;
/// A client may keep a ticket for seven days (RFC 8446, 4.6.1).
const TICKET_SECONDS_MAX: u64 = 7 * 24 * 3600;
/// Bytes of an `ssl_session_ticket_key` file.
const TICKET_KEY_BYTES: [usize; 2] = [48, 80];

/// Certificates that were read for one configuration: many servers inherit theirs from `http`.
#[derive(Debug, Default)]
pub(super) struct ReadPairs(HashMap<PairSource, Option<PairPlan>>);

/// The TLS settings of a server of `http` or of `stream`.
pub(super) struct TlsServer<'a> {
    pub(super) settings: &'a TlsSettings,
    pub(super) names: &'a [ServerName],
    pub(super) span: Span,
    /// Its name servers, for OCSP.
    pub(super) resolver: Option<(&'a Resolver, Duration)>,
    /// It has `acme_certificate`.
    pub(super) has_acme: bool,
}

/// Whether a server has an address with TLS.
pub(super) fn listens_with_tls(listeners: &[Listener], id: ServerId) -> bool {
    listeners.iter().any(|listener| listener.options.ssl && listener.servers.contains(&id))
}

impl Lowering<'_> {
    /// The TLS of a server of `http`; `None` if none of its addresses uses TLS.
    pub(super) fn tls_plan(&mut self, id: ServerId, server: &Server) -> Option<Box<TlsPlan>> {
        let order = server.acme.as_ref().and_then(|written| self.acme_order(written));
        if !listens_with_tls(&self.http.listeners, id) {
            return None;
        }
        let offers = self.offers(id);
        let plan = self.tls_of_server(&facts_of(server), order)?;
        Some(Box::new(TlsPlan { offers, ..plan }))
    }

    /// The requirements of a server that has no TLS plan.
    pub(super) fn bare_demands(&mut self, id: ServerId, server: &Server) -> Option<Box<ClientDemands>> {
        let settings = &server.settings.tls;
        let is_bare = is_without_handshake(settings) && listens_with_tls(&self.http.listeners, id);
        if is_bare { self.demands(settings, &facts_of(server)).map(Box::new) } else { None }
    }

    /// The TLS of a server, without what its protocol offers.
    pub(super) fn tls_of_server(&mut self, server: &TlsServer<'_>, order: Option<AcmeOrderId>) -> Option<TlsPlan> {
        let settings = server.settings;
        if is_without_handshake(settings) {
            // As in nginx, the default server handles handshakes for its names.
            return None;
        }
        let acme = self.acme_of(settings, server, order);
        let is_made = acme.is_none() && !server.has_acme && has_variables(settings);
        let made = if is_made { self.made_pairs(settings) } else { None };
        let pairs = if acme.is_some() || is_made { Vec::new() } else { self.pairs(settings, server) };
        let acme_stapling = acme.and_then(|id| self.acme_stapling(settings, server, id));
        if is_made && settings.stapling {
            let message = "\"ssl_stapling\" has no effect for certificates that variables name";
            let hint = "only certificates that are known before a handshake can have a response: name each in a server of its own";
            self.found.push(Diagnostic::note(server.span, message).with_hint(hint));
        }
        self.check_names(server, &pairs);
        let agreeable = self.agreeable(&openssl_words(settings, server.span));
        self.check_dhparam(settings);
        let ticket_keys = self.ticket_keys(settings);
        if settings.verify_client == VerifyClient::Off {
            self.check_idle_files(settings);
        }
        let demands = self.demands(settings, server);
        let name = server.names.first().map(|name| String::from_utf8_lossy(&name.text).into_owned());
        let Agreeable { protocols, ciphers, curves } = agreeable?;
        Some(TlsPlan {
            span: server.span,
            session_name: name.unwrap_or_default(),
            pairs,
            made,
            acme,
            acme_stapling,
            reject: settings.reject_handshake,
            protocols,
            ciphers,
            curves,
            prefer_server_ciphers: settings.prefer_server_ciphers,
            record_bytes_max: usize::try_from(settings.buffer_size).map_or(RECORD_BYTES_MAX, |size| size.max(1)),
            cache: cache_plan(&settings.session_cache),
            session_seconds: settings.session_timeout.as_secs().min(TICKET_SECONDS_MAX) as u32,
            tickets: settings.session_tickets,
            ticket_keys,
            early_data: self.early_data(settings, server.span),
            offers: Offers::default(),
            alpn: None,
            compress: settings.certificate_compression,
            keep_offers: false,
            demands,
        })
    }

    /// The protocols that handshakes with this server's certificates offer.
    pub(super) fn offers(&self, id: ServerId) -> Offers {
        let mut offers = Offers::default();
        for listener in self.http.listeners.iter().filter(|listener| listener.options.ssl) {
            let mut mark = |server: ServerId| {
                let is_on = |server: &Arc<Server>| server.settings.http2.enabled;
                let http2 = listener.options.http2 || self.http.servers.get(server.0 as usize).is_some_and(is_on);
                offers = Offers { http1: offers.http1 || !http2, http2: offers.http2 || http2 };
            };
            if listener.default_server == id {
                // A server without a certificate uses the default server's.
                listener.servers.iter().copied().for_each(&mut mark);
            } else if listener.servers.contains(&id) {
                mark(id);
            }
        }
        offers
    }

    fn pairs(&mut self, settings: &TlsSettings, server: &TlsServer<'_>) -> Vec<PairPlan> {
        let passwords = settings.password_file.as_ref().map(|file| self.path_of(file));
        let stapled = settings.stapling_file.as_ref().filter(|_| settings.stapling).map(|file| self.path_of(file));
        let stapling = (settings.stapling && stapled.is_none()).then(|| self.stapling(settings, server)).flatten();
        let mut pairs = Vec::new();
        for (certificate, key) in settings.certificates.iter().zip(&settings.certificate_keys) {
            let sources = (self.material(certificate), self.material(key));
            let (Some(certificate_source), Some(key_source)) = sources else { continue };
            let source = PairSource {
                certificate: certificate_source,
                key: key_source,
                passwords: passwords.clone(),
                stapled: stapled.clone(),
                stapling: stapling.clone(),
            };
            pairs.extend(self.pair(source, certificate.span, key.span));
        }
        pairs
    }

    /// How staples are fetched.
    fn stapling(&mut self, settings: &TlsSettings, server: &TlsServer<'_>) -> Option<Arc<StaplingPlan>> {
        let mut authorities = Vec::new();
        for file in [&settings.trusted_certificate, &settings.client_certificate].into_iter().flatten() {
            authorities.extend(self.read_located(file)?);
            authorities.push(b'\n');
        }
        Some(Arc::new(StaplingPlan {
            responder: settings.stapling_responder.as_ref().map(|url| url.value.as_str().into()),
            resolver: self.server_resolver(server),
            verify: settings.stapling_verify,
            authorities: authorities.into(),
        }))
    }

    /// Who is asked for what is stapled to a certificate by ACME.
    fn acme_stapling(
        &mut self,
        settings: &TlsSettings,
        server: &TlsServer<'_>,
        order: AcmeOrderId,
    ) -> Option<Arc<StaplingPlan>> {
        if !settings.stapling {
            return None;
        }
        if let Some(file) = &settings.stapling_file {
            let message = "\"ssl_stapling_file\" has no effect for a certificate by ACME";
            let hint = "the file's response is for one certificate, and ACME replaces it: without the file a response is fetched";
            self.found.push(Diagnostic::note(file.span, message).with_hint(hint));
        }
        let issuer = self.plan.acme_orders.get(order.0 as usize).map(|order| &order.issuer);
        let has_none = issuer.is_some_and(|issuer| is_of_lets_encrypt(&issuer.uri));
        if has_none && settings.stapling_responder.is_none() {
            let message = "\"ssl_stapling\" has no effect for certificates of Let's Encrypt";
            let hint = "they have named no OCSP responder since 2025: remove `ssl_stapling`";
            self.found.push(Diagnostic::note(server.span, message).with_hint(hint));
        }
        self.stapling(settings, server)
    }

    fn server_resolver(&mut self, server: &TlsServer<'_>) -> Option<Arc<ResolverPlan>> {
        server.resolver.map(|(written, timeout)| self.resolver(written, timeout))
    }

    /// How clients' certificates are checked by OCSP.
    fn client_status(&mut self, settings: &TlsSettings, server: &TlsServer<'_>) -> Option<Arc<ClientStatusPlan>> {
        if settings.ocsp == Ocsp::Off {
            return None;
        }
        if let Some(url) = settings.ocsp_responder.as_ref().filter(|url| !is_responder_url(&url.value)) {
            let message = format!("invalid URL prefix in OCSP responder \"{}\" in \"ssl_ocsp_responder\"", url.value);
            let hint = "responders are asked in clear: write `http://…`";
            self.found.push(Diagnostic::error(url.span, message).with_hint(hint));
        }
        Some(Arc::new(ClientStatusPlan {
            responder: settings.ocsp_responder.as_ref().map(|url| url.value.as_str().into()),
            resolver: self.server_resolver(server),
            cache: settings.ocsp_cache.as_ref().map(|zone| (zone.name.as_str().into(), zone.size)),
        }))
    }

    /// Certificates with variables in their names. As in nginx, one variable defers all of them to the handshake.
    fn made_pairs(&mut self, settings: &TlsSettings) -> Option<Arc<MadePairs>> {
        let passwords = match &settings.password_file {
            Some(file) => Some((self.path_of(file), self.read_located(file)?.into())),
            None => None,
        };
        let pairs = settings.certificates.iter().zip(&settings.certificate_keys);
        let pairs = pairs.map(|(certificate, key)| (self.made_name(certificate), self.made_name(key))).collect();
        let directory = self.options.conf_directory.clone();
        Some(Arc::new(MadePairs { pairs, directory, passwords, cache: settings.certificate_cache }))
    }

    fn made_name(&mut self, written: &conf::value::Template) -> Template {
        let template = self.template(written);
        if let Some(variable) = template.variables().find(|variable| !is_of_handshake(variable)) {
            let message = format!("\"{}\" is empty while a certificate is chosen", variable.shown());
            let hint = "there is no request yet: `$ssl_server_name` has the name that the client asks for";
            self.found.push(Diagnostic::warning(written.span, message).with_hint(hint));
        }
        template
    }

    /// The order of the certificate that is shown. `acme_certificate` may have an error that was reported already.
    fn acme_of(
        &mut self,
        settings: &TlsSettings,
        server: &TlsServer<'_>,
        order: Option<AcmeOrderId>,
    ) -> Option<AcmeOrderId> {
        let is = |written: &conf::value::Template, name: &str| matches!(written.parts.as_slice(), [Part::Variable(variable)] if variable == name);
        let pairs = || settings.certificates.iter().zip(&settings.certificate_keys);
        let (certificate, key) = pairs()
            .find(|(certificate, key)| is(certificate, "acme_certificate") || is(key, "acme_certificate_key"))?;
        let whole = is(certificate, "acme_certificate") && is(key, "acme_certificate_key");
        let fault = if !server.has_acme {
            Some((
                "\"$acme_certificate\" needs \"acme_certificate\" in the same server",
                "add `acme_certificate ISSUER;`",
            ))
        } else if !whole || pairs().count() > 1 {
            let hint =
                "write `ssl_certificate $acme_certificate;` and `ssl_certificate_key $acme_certificate_key;` alone";
            Some(("a certificate by ACME is beside another one, or beside another key", hint))
        } else {
            None
        };
        if let Some((message, hint)) = fault {
            self.found.push(Diagnostic::error(certificate.span, message).with_hint(hint));
        }
        order
    }

    /// Reads a pair once, and reports errors at its place.
    pub(super) fn pair(&mut self, source: PairSource, certificate: Span, key: Span) -> Option<PairPlan> {
        if let Some(known) = self.read_pairs.0.get(&source) {
            return known.clone();
        }
        let loaded = load_pair(&source, self.options.read, self.options.known_pairs.0.get(&source));
        let plan = match loaded {
            Ok(plan) => {
                let now = i64::try_from(self.options.now_s).unwrap_or(i64::MAX);
                // Expired certificates are served, as by nginx: refusing to start would also stop the other servers.
                self.found.extend(plan.pair.check(now).into_iter().map(|found| warning(certificate, found)));
                if let Some(Err(reason)) = &plan.staple {
                    let message = format!("\"ssl_stapling\" ignored, {reason}");
                    self.found.push(Diagnostic::warning(certificate, message));
                }
                Some(plan)
            }
            Err(fault) => {
                let place = match fault.word {
                    PairWord::Certificate => certificate,
                    PairWord::Key => key,
                };
                self.found.push(Diagnostic::error(place, fault.message).with_hint(fault.advice));
                None
            }
        };
        self.read_pairs.0.insert(source, plan.clone());
        plan
    }

    pub(super) fn material(&mut self, written: &conf::value::Template) -> Option<MaterialSource> {
        let Some(text) = written.as_text() else {
            let message = "a certificate or key that is named by a variable is known but not supported by holdfast";
            self.found.push(
                Diagnostic::error(written.span, message)
                    .with_hint("name each file in a server of its own: certificates are chosen by `server_name`; `$acme_certificate` is known"),
            );
            return None;
        };
        if text.starts_with(b"engine:") || text.starts_with(b"store:") {
            let message = "keys of OpenSSL's engines and stores are not supported by holdfast";
            self.found.push(Diagnostic::error(written.span, message).with_hint("name a file with the key in PEM"));
            return None;
        }
        Some(match PemSource::of(text, &self.options.conf_directory) {
            PemSource::Inline(text) => MaterialSource::Text(text.into()),
            PemSource::File(path) => MaterialSource::File(path),
        })
    }

    fn path_of(&self, file: &Located<PathBuf>) -> PathBuf {
        self.options.conf_directory.join(&file.value)
    }

    /// Warns about a name that no certificate of the server covers: clients will refuse it.
    fn check_names(&mut self, server: &TlsServer<'_>, pairs: &[PairPlan]) {
        let facts: Vec<_> = pairs.iter().filter_map(|plan| plan.pair.facts()).collect();
        if facts.is_empty() || facts.iter().all(|facts| facts.names.is_empty()) {
            return;
        }
        for name in server.names {
            let NameForm::Exact(exact) = &name.form else { continue };
            let Ok(wanted) = std::str::from_utf8(exact) else { continue };
            if wanted.contains('.') && !facts.iter().any(|facts| facts.is_for(wanted)) {
                let listed = facts.iter().flat_map(|facts| facts.names.iter().cloned()).collect::<Vec<_>>().join(", ");
                let message = format!("no certificate of this server is for \"{wanted}\"");
                let hint = format!("they are for {listed}; clients will refuse them");
                self.found.push(Diagnostic::warning(name.span.unwrap_or(server.span), message).with_hint(hint));
            }
        }
    }

    /// As in nginx, starting fails if the file cannot be read. The directive's row says that it has no effect.
    fn check_dhparam(&mut self, settings: &TlsSettings) {
        if let Some(file) = &settings.dhparam {
            self.read_located(file);
        }
    }

    fn ticket_keys(&mut self, settings: &TlsSettings) -> Vec<Box<[u8]>> {
        let mut keys = Vec::new();
        for file in &settings.session_ticket_keys {
            let Some(bytes) = self.read_located(file) else { continue };
            if TICKET_KEY_BYTES.contains(&bytes.len()) {
                keys.push(bytes.into());
            } else {
                let message = format!("\"{}\" must be 48 or 80 bytes", self.path_of(file).display());
                let hint = "make one with `openssl rand 80 > FILE`";
                self.found.push(Diagnostic::error(file.span, message).with_hint(hint));
            }
        }
        keys
    }

    /// rustls accepts early data only for sessions that the server keeps, since each can be used once.
    fn early_data(&mut self, settings: &TlsSettings, server: Span) -> bool {
        let keeps = !matches!(settings.session_cache, SessionCache::None | SessionCache::Off);
        if settings.early_data && settings.verify_client != VerifyClient::Off {
            let message = "\"ssl_early_data\" has no effect with \"ssl_verify_client\"";
            let hint = "a request waits until the client's certificate is checked, at the end of the handshake";
            self.found.push(Diagnostic::note(server, message).with_hint(hint));
        } else if settings.early_data && (settings.session_tickets || !keeps) {
            let message = "\"ssl_early_data\" has no effect: a ticket could be used twice";
            let hint = "`ssl_session_tickets off; ssl_session_cache shared:NAME:10m;` lets each session be used once";
            self.found.push(Diagnostic::note(server, message).with_hint(hint));
        }
        settings.early_data
    }

    fn demands(&mut self, settings: &TlsSettings, server: &TlsServer<'_>) -> Option<ClientDemands> {
        let verify = match settings.verify_client {
            VerifyClient::Off => return None,
            VerifyClient::On => VerifyPlan::Required,
            VerifyClient::Optional => VerifyPlan::Optional,
            VerifyClient::OptionalNoCa => VerifyPlan::OptionalNoAuthority,
        };
        let told = match &settings.client_certificate {
            Some(file) => self.read_located(file)?,
            None => Vec::new(),
        };
        let trusted = match &settings.trusted_certificate {
            Some(file) => self.read_located(file)?,
            None => Vec::new(),
        };
        let place = settings.client_certificate.as_ref().or(settings.trusted_certificate.as_ref());
        let place = place.map_or(server.span, |file| file.span);
        let check = match ClientCheck::new(&told, &trusted) {
            Ok(check) => check.depth(settings.verify_depth as usize),
            Err(error) => {
                self.found.push(Diagnostic::error(place, format!("client certificates cannot be checked: {error}")));
                return None;
            }
        };
        let check = match settings.ocsp {
            Ocsp::Off => check,
            Ocsp::On => check.status(StatusCheck::Chain),
            Ocsp::Leaf => check.status(StatusCheck::Leaf),
        };
        let status = self.client_status(settings, server);
        let Some(file) = &settings.crl else { return Some(ClientDemands { verify, check: Arc::new(check), status }) };
        let bytes = self.read_located(file)?;
        match Revocations::from_pem(&bytes) {
            Ok(lists) => Some(ClientDemands { verify, check: Arc::new(check.revocations(lists)), status }),
            Err(found) => {
                self.found.push(error(file.span, &self.path_of(file), found));
                None
            }
        }
    }

    /// As in nginx, starting fails if these files cannot be read, although no client is verified.
    fn check_idle_files(&mut self, settings: &TlsSettings) {
        // `ssl_stapling` reads the first itself.
        if let Some(file) = settings.trusted_certificate.as_ref().filter(|_| !settings.stapling)
            && let Some(bytes) = self.read_located(file)
            && let Err(found) = ClientCheck::new(b"", &bytes)
        {
            let message = format!("\"{}\": {found}", self.path_of(file).display());
            self.found.push(Diagnostic::error(file.span, message));
        }
        if let Some(file) = &settings.crl
            && let Some(bytes) = self.read_located(file)
            && let Err(found) = Revocations::from_pem(&bytes)
        {
            self.found.push(error(file.span, &self.path_of(file), found));
        }
    }

    /// The bytes of a file that a directive names, or an error at that place.
    fn read_located(&mut self, file: &Located<PathBuf>) -> Option<Vec<u8>> {
        self.read_named(&file.value, |path, error| {
            Diagnostic::error(file.span, format!("open() \"{path}\" failed ({error})"))
        })
    }
}

fn facts_of(server: &Server) -> TlsServer<'_> {
    let client = &server.location.client;
    TlsServer {
        settings: &server.settings.tls,
        names: &server.names,
        span: server.span,
        resolver: client.resolver.as_ref().map(|resolver| (resolver, client.resolver_timeout)),
        has_acme: server.acme.is_some(),
    }
}

/// Whether the default server handles handshakes for the names of a server with these settings.
fn is_without_handshake(settings: &TlsSettings) -> bool {
    settings.certificates.is_empty() && !settings.reject_handshake
}

/// Whether an issuer's directory is one of Let's Encrypt.
fn is_of_lets_encrypt(uri: &str) -> bool {
    let host = uri.strip_prefix("https://").and_then(|rest| rest.split(['/', ':']).next());
    host.is_some_and(|host| host.to_ascii_lowercase().ends_with(".letsencrypt.org"))
}

fn has_variables(settings: &TlsSettings) -> bool {
    settings.certificates.iter().chain(&settings.certificate_keys).any(|written| written.as_text().is_none())
}

fn openssl_words(settings: &TlsSettings, span: Span) -> OpensslWords<'_> {
    OpensslWords {
        family: "ssl",
        span,
        protocols: settings.protocols.iter().map(|word| Located { value: word.value, span: word.span }).collect(),
        ciphers: settings.ciphers.as_ref().map(Located::as_str),
        curves: settings.ecdh_curve.as_ref().map(Located::as_str),
        commands: settings
            .conf_commands
            .iter()
            .map(|command| [command.name.as_str(), command.value.as_str()])
            .collect(),
    }
}

fn cache_plan(cache: &SessionCache) -> Option<SessionCachePlan> {
    let builtin = |sessions_max: &Option<u64>| SessionCachePlan {
        name: None,
        size: CacheSize::Sessions(usize::try_from(sessions_max.unwrap_or(BUILTIN_SESSIONS)).unwrap_or(usize::MAX)),
    };
    match cache {
        SessionCache::Off | SessionCache::None => None,
        SessionCache::Builtin { sessions_max } => Some(builtin(sessions_max)),
        // One cache serves all workers here, so caches per worker would add nothing.
        SessionCache::Shared(zone) | SessionCache::Both { zone, .. } => Some(SessionCachePlan {
            name: Some(zone.name.clone()),
            size: CacheSize::Bytes(usize::try_from(zone.size).unwrap_or(usize::MAX)),
        }),
    }
}

fn warning(span: Span, found: Finding) -> Diagnostic {
    let message = match found.severity {
        Severity::Error => format!("{}: clients will refuse it", found.text),
        Severity::Warning => found.text,
    };
    Diagnostic::warning(span, message).with_hint(found.advice)
}

fn error(span: Span, path: &Path, found: Finding) -> Diagnostic {
    Diagnostic::error(span, format!("\"{}\": {}", path.display(), found.text)).with_hint(found.advice)
}
