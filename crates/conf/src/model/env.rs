//! What directives refer to by name during lowering: log formats and shared zones, and the options of the run.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::log::LogFormatId;
use crate::source::Span;
use crate::value::Regex;

/// The kind of a zone. A name has one kind in the whole configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneKind {
    Requests,
    Connections,
    /// Responses of upstreams of one protocol.
    Cache(Family),
}

/// A protocol spoken to upstreams, identified by the prefix of its directives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Proxy,
    Fastcgi,
    Scgi,
    Uwsgi,
}

impl Family {
    /// The protocol of a directive.
    pub(crate) fn of(directive: &[u8]) -> Self {
        match directive.split(|&byte| byte == b'_').next() {
            Some(b"fastcgi") => Self::Fastcgi,
            Some(b"scgi") => Self::Scgi,
            Some(b"uwsgi") => Self::Uwsgi,
            _ => Self::Proxy,
        }
    }
}

/// Names defined so far, and the position of the lowering.
#[derive(Default)]
pub(crate) struct Env {
    /// `http` or `stream`, for messages.
    pub(crate) block: &'static str,
    /// Log formats by name, with the index of the defining directive in `http`: as in nginx, a format must be defined
    /// before its use.
    pub(crate) formats: FxHashMap<Vec<u8>, (LogFormatId, usize)>,
    /// Zones of `limit_req_zone`, `limit_conn_zone`, `proxy_cache_path` and its kin by name.
    pub(crate) zones: FxHashMap<Vec<u8>, (ZoneKind, super::limit::ZoneId, Span)>,
    /// Zones of the block lowered before (`http` or `stream`): a name means one zone in the whole configuration.
    pub(crate) foreign_zones: FxHashMap<Vec<u8>, Span>,
    /// Authorities of certificates by name, with the place of each.
    pub(crate) acme_issuers: FxHashMap<String, (super::acme::AcmeIssuerId, Span)>,
    /// Index of the directive in `http` that is being lowered.
    pub(crate) position: usize,
    /// `http` has a `resolver`.
    pub(crate) http_resolver: bool,
    /// Compiled expressions, so that a thousand servers with the same expression compile it once.
    pub(crate) regexes: RefCell<FxHashMap<(Vec<u8>, bool), Regex>>,
}

impl Env {
    /// Compiles an expression, or returns the code of an equal one.
    pub(crate) fn regex(&self, word: &crate::tree::Word, skip: usize, caseless: bool) -> crate::value::Parsed<Regex> {
        let key = (word.value.get(skip..).unwrap_or_default().to_vec(), caseless);
        if let Some(known) = self.regexes.borrow().get(&key) {
            return Ok(Regex { span: word.span, ..known.clone() });
        }
        let regex = Regex::parse(word, skip, caseless)?;
        self.regexes.borrow_mut().insert(key, regex.clone());
        Ok(regex)
    }
}
