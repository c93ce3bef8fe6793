//! TLS settings towards upstreams for certificates that requests name: one for each certificate, with its sessions.

use crate::plan::tls::{MadePairs, PairSource};
use crate::registry::certificate_finder::CertificateFinder;
use lru::LruCache;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tls::{ClientSide, Pair};

/// Most certificates with cached settings: as many as one peer has keys for names.
const SIDES_MAX: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// The TLS settings of a proxy.
pub(crate) struct NamedSides {
    made: Arc<MadePairs>,
    finder: CertificateFinder,
    /// Without a certificate.
    base: ClientSide,
    /// By the certificate itself.
    known: Mutex<LruCache<Box<[u8]>, ClientSide>>,
}

impl NamedSides {
    pub(crate) fn new(made: Arc<MadePairs>, finder: CertificateFinder, base: ClientSide) -> Self {
        Self { made, finder, base, known: Mutex::new(LruCache::new(SIDES_MAX)) }
    }

    /// The settings with a cached certificate. Does not block.
    pub(crate) fn cached(&self, source: &PairSource) -> Option<ClientSide> {
        let pairs = self.finder.cached(std::slice::from_ref(source), Instant::now())?;
        pairs.first().map(|pair| self.side(pair))
    }

    /// The settings with the certificate, which is read. It may wait for a disk. The error is the log message.
    pub(crate) fn find(&self, source: &PairSource) -> Result<ClientSide, String> {
        let pairs = self.finder.find(std::slice::from_ref(source), &self.made.passwords)?;
        Ok(pairs.first().map_or_else(|| self.base.clone(), |pair| self.side(pair)))
    }

    fn side(&self, pair: &Pair) -> ClientSide {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let certificate = pair.certificate_der().unwrap_or_default().into();
        known.get_or_insert(certificate, || self.base.with_pair(pair)).clone()
    }
}
