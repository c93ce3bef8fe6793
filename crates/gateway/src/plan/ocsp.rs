//! OCSP responders: for the staples of servers' certificates, and for clients' certificates.

use crate::plan::name::ResolverPlan;
use std::sync::Arc;
use tls::{Pair, StatusQuestion, StatusTrust};

/// A responder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Responder {
    /// `http://…`
    pub url: Box<str>,
    /// The resolver for its host; `None`: the system's.
    pub resolver: Option<Arc<ResolverPlan>>,
}

/// `ssl_stapling` without a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct StaplingPlan {
    /// `ssl_stapling_responder`; otherwise the certificate names the responder.
    pub(crate) responder: Option<Box<str>>,
    pub(crate) resolver: Option<Arc<ResolverPlan>>,
    /// `ssl_stapling_verify`
    pub(crate) verify: bool,
    /// `ssl_trusted_certificate` and `ssl_client_certificate`, in PEM: they may contain the issuer.
    pub(crate) authorities: Box<[u8]>,
}

/// A certificate that needs a staple.
#[derive(Debug)]
pub struct StapleAsk {
    /// The certificate's name in messages.
    pub name: String,
    /// The question.
    pub question: StatusQuestion,
    /// The responder to ask.
    pub responder: Responder,
    /// Authorities that a responder's certificate must lead to.
    pub trusted: Option<StatusTrust>,
    plan: Arc<StaplingPlan>,
}

impl StapleAsk {
    /// The error is nginx's reason why stapling is impossible.
    pub(crate) fn new(name: String, pair: &Pair, plan: &Arc<StaplingPlan>) -> Result<Self, String> {
        let question = StatusQuestion::of_pair(pair, &plan.authorities).map_err(|finding| finding.text)?;
        let question = question.ok_or_else(|| format!("issuer certificate not found for certificate {name}"))?;
        let url = plan.responder.as_deref().or(question.responder());
        let url = url.ok_or_else(|| format!("no OCSP responder URL in the certificate {name}"))?;
        if !is_responder_url(url) {
            return Err(format!("invalid URL prefix in OCSP responder \"{url}\" in the certificate {name}"));
        }
        let trusted = if plan.verify { Some(StatusTrust::from_pem(&plan.authorities)) } else { None };
        let trusted = trusted.transpose().map_err(|finding| finding.text)?;
        let responder = Responder { url: url.into(), resolver: plan.resolver.clone() };
        Ok(Self { name, question, responder, trusted, plan: Arc::clone(plan) })
    }

    /// Whether an answer to one also answers the other.
    pub fn is_same(&self, other: &Self) -> bool {
        self.plan == other.plan && self.question == other.question
    }
}

/// `ssl_ocsp`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientStatusPlan {
    /// `ssl_ocsp_responder`; otherwise each certificate names it.
    pub(crate) responder: Option<Box<str>>,
    pub(crate) resolver: Option<Arc<ResolverPlan>>,
    /// `ssl_ocsp_cache`: name and bytes.
    pub(crate) cache: Option<(Box<str>, u64)>,
}

/// As in nginx, responders are asked without TLS: their answers are signed.
pub(crate) fn is_responder_url(url: &str) -> bool {
    url.len() > 7 && url.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"))
}
