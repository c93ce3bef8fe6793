//! `acme_issuer` and `acme_certificate`: reads their files, and makes servers that ask for the same certificate share
//! one order.

use crate::lower::Lowering;
use crate::plan::acme::{AcmeIssuerPlan, AcmeOrderId, AcmeOrderPlan};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use conf::diagnostic::Diagnostic;
use conf::model::{
    AccountKey, AcmeCertificate, AcmeChallenge, AcmeIssuer, ExternalAccountKey, ExternalKeySource, StatePath,
};
use conf::source::Span;
use conf::value::Located;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Lowering<'_> {
    /// The issuers, in the order of the text: an order refers to its issuer by index.
    pub(super) fn acme_issuers(&mut self) -> Vec<Arc<AcmeIssuerPlan>> {
        let http = self.http;
        http.acme_issuers.iter().map(|issuer| Arc::new(self.acme_issuer(issuer))).collect()
    }

    fn acme_issuer(&mut self, issuer: &AcmeIssuer) -> AcmeIssuerPlan {
        let settings = &issuer.settings;
        if !settings.verify {
            let message = format!("acme_issuer \"{}\" does not check the certificate of its server", issuer.name);
            let hint = "name the server's authority by `ssl_trusted_certificate` instead of `ssl_verify off`";
            self.found.push(Diagnostic::warning(issuer.span, message).with_hint(hint));
        }
        let state = match &settings.state_path {
            StatePath::Off => None,
            StatePath::ByName => Some(self.options.prefix.join(format!("acme_{}", issuer.name))),
            StatePath::At(path) => Some(self.options.prefix.join(OsStr::from_bytes(path))),
        };
        let account_key = match &settings.account_key {
            AccountKey::Made => None,
            AccountKey::File(file) => self.account_key(file),
        };
        let client = &self.http.location.client;
        AcmeIssuerPlan {
            name: issuer.name.as_str().into(),
            uri: settings.uri.clone().unwrap_or_default(),
            account_key,
            challenge: settings.challenge,
            contacts: settings.contacts.clone(),
            external_key: settings.external_account_key.as_ref().and_then(|key| self.external_key(key)),
            profile: settings.profile.clone(),
            trusted: settings.trusted_certificate.as_ref().and_then(|file| self.named_file(&file.value, file.span)),
            verify: settings.verify,
            state,
            accepts_terms: settings.accepts_terms,
            resolver: client.resolver.as_ref().map(|written| self.resolver(written, client.resolver_timeout)),
        }
    }

    pub(super) fn named_file(&mut self, path: &Path, span: Span) -> Option<Vec<u8>> {
        self.read_named(path, |path, error| {
            let message = format!("cannot read \"{path}\" ({error})");
            Diagnostic::error(span, message).with_hint("check the path, and who may read the file")
        })
    }

    fn account_key(&mut self, file: &Located<PathBuf>) -> Option<Vec<u8>> {
        let pem = self.named_file(&file.value, file.span)?;
        let refused = |finding: tls::Finding| Diagnostic::error(file.span, finding.text).with_hint(finding.advice);
        tls::account_key(&pem).map_err(|finding| self.found.push(refused(finding))).ok()
    }

    fn external_key(&mut self, key: &ExternalAccountKey) -> Option<(String, Vec<u8>)> {
        let text = match &key.key {
            ExternalKeySource::Text(text) => text.clone(),
            ExternalKeySource::File(path) => self.named_file(Path::new(OsStr::from_bytes(path)), key.span)?,
        };
        let padding = |&byte: &u8| byte == b'=';
        let text = text.trim_ascii();
        let padded = text.iter().rev().take_while(|byte| padding(byte)).count();
        if let Ok(bytes) = URL_SAFE_NO_PAD.decode(&text[..text.len() - padded]) {
            return Some((key.id.clone(), bytes));
        }
        let message = "\"external_account_key\" is not encoded as base64url";
        self.found.push(Diagnostic::error(key.span, message).with_hint("take the MAC key as the authority shows it"));
        None
    }

    /// The order of a server; equal orders are shared.
    pub(super) fn acme_order(&mut self, written: &AcmeCertificate) -> Option<AcmeOrderId> {
        let issuer = Arc::clone(self.acme_issuers.get(written.issuer.0 as usize)?);
        let order = AcmeOrderPlan { issuer, identifiers: written.identifiers.clone(), key: written.key };
        let known = self.plan.acme_orders.iter().position(|known| **known == order);
        let place = known.unwrap_or_else(|| {
            self.note_challenge_port(&order, written.span);
            self.plan.acme_orders.push(Arc::new(order));
            self.plan.acme_orders.len() - 1
        });
        Some(AcmeOrderId(place as u32))
    }

    /// Notes the port that authorities ask for this order (RFC 8555 § 8.3, RFC 8737 § 3).
    fn note_challenge_port(&mut self, order: &AcmeOrderPlan, span: Span) {
        let (port, name) = match order.issuer.challenge {
            AcmeChallenge::Http01 => (80, "http-01"),
            AcmeChallenge::TlsAlpn01 => (443, "tls-alpn-01"),
        };
        if !self.http.listeners.iter().any(|listener| listener.address.port == port) {
            let message =
                format!("nothing listens on port {port}, where the authority asks for the challenge \"{name}\"");
            let hint = format!("add a server with `listen {port}`, unless another machine forwards this port to here");
            self.found.push(Diagnostic::note(span, message).with_hint(hint));
        }
    }
}
