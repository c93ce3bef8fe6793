//! The certificates that are in use, by the files that they come from. Handshakes look them up, and when files have changed newer
//! ones take their place, without a reload.

use crate::lower::ReadFile;
use crate::lower::pairs::{load_pair, shown};
use crate::plan::tls::{MaterialSource, PairPlan, PairSource};
use crate::registry::acme::BoundOrder;
use crate::registry::shared::Shared;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tls::Pairs;

/// The certificates of a server, or of several that name the same files.
#[derive(Debug)]
pub(crate) struct CertificateSlot {
    /// Handshakes have this.
    pub(crate) pairs: Pairs,
    loaded: Mutex<Vec<PairPlan>>,
}

impl CertificateSlot {
    fn loaded(&self) -> MutexGuard<'_, Vec<PairPlan>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, pairs: Vec<PairPlan>) {
        self.pairs.replace(pairs.iter().map(|plan| plan.pair.clone()));
        *self.loaded() = pairs;
    }
}

/// All of them, by where they come from. A slot goes with the last configuration that uses it.
#[derive(Debug, Default)]
pub(crate) struct Certificates(Mutex<HashMap<Vec<PairSource>, Arc<CertificateSlot>>>);

/// A certificate that is shown to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInUse {
    /// Its file, or `data:…`.
    pub source: String,
    /// Its subject, as RFC 2253 writes it.
    pub subject: String,
    /// When it ends, in seconds since 1970.
    pub not_after: i64,
}

/// What a look at changed files came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// The files of certificates that took the place of others.
    pub renewed: Vec<String>,
    /// What is wrong with new ones, with what to do: the old ones stay.
    pub broken: Vec<String>,
}

impl Certificates {
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<PairSource>, Arc<CertificateSlot>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot for these; what a configuration has read takes the place of what was there.
    pub(crate) fn slot(&self, plans: &[PairPlan]) -> Arc<CertificateSlot> {
        let sources = plans.iter().map(|plan| plan.source.clone()).collect();
        let mut slots = self.lock();
        let slot = slots.entry(sources);
        let slot =
            slot.or_insert_with(|| Arc::new(CertificateSlot { pairs: Pairs::default(), loaded: Mutex::default() }));
        slot.replace(plans.to_vec());
        Arc::clone(slot)
    }

    /// Lets go of what no configuration uses.
    pub(crate) fn forget_unused(&self) {
        self.lock().retain(|_, slot| Arc::strong_count(slot) > 1);
    }
}

impl Shared {
    /// The files that certificates and keys in use were read from.
    pub fn certificate_files(&self) -> Vec<PathBuf> {
        let slots = self.certificates.lock();
        let materials = slots.keys().flatten().flat_map(|source| [&source.certificate, &source.key]);
        let mut files: Vec<PathBuf> = materials
            .filter_map(|material| match material {
                MaterialSource::File(path) => Some(path.clone()),
                MaterialSource::Text(_) => None,
            })
            .chain(slots.keys().flatten().flat_map(|source| source.passwords.iter().chain(&source.stapled).cloned()))
            .collect();
        files.sort();
        files.dedup();
        files
    }

    /// Reads the certificates in use again. Those that changed count for the handshakes that begin afterwards; where one of a
    /// server's is broken, all of that server stay as they are.
    pub fn renew_certificates(&self, read: ReadFile<'_>) -> Renewal {
        let slots: Vec<_> =
            self.certificates.lock().iter().map(|(key, slot)| (key.clone(), Arc::clone(slot))).collect();
        let mut renewal = Renewal::default();
        for (sources, slot) in slots {
            let loaded: Result<Vec<PairPlan>, _> = sources.iter().map(|source| load_pair(source, read)).collect();
            match loaded {
                Ok(new) => {
                    let changed: Vec<String> = {
                        let old = slot.loaded();
                        let changed =
                            new.iter().zip(old.iter()).filter(|(new, old)| new.fingerprint != old.fingerprint);
                        changed.map(|(new, _)| shown(&new.source.certificate)).collect()
                    };
                    if !changed.is_empty() {
                        slot.replace(new);
                    }
                    renewal.renewed.extend(changed);
                }
                Err(fault) => renewal.broken.push(format!("{}; {}", fault.message, fault.advice)),
            }
        }
        for list in [&mut renewal.renewed, &mut renewal.broken] {
            list.sort();
            list.dedup();
        }
        renewal
    }

    /// The certificates that clients are shown, each once.
    pub fn certificates_in_use(&self) -> Vec<CertificateInUse> {
        let slots = self.certificates.lock();
        let mut all: Vec<CertificateInUse> = Vec::new();
        for slot in slots.values() {
            for plan in slot.loaded().iter() {
                let source = match &plan.source.certificate {
                    MaterialSource::File(path) => path.display().to_string(),
                    MaterialSource::Text(_) => "data:…".to_owned(),
                };
                if let Some(facts) = plan.pair.facts() {
                    all.push(CertificateInUse { source, subject: facts.subject, not_after: facts.not_after });
                }
            }
        }
        all.extend(self.acme.wanted().1.iter().filter_map(BoundOrder::in_use));
        all.sort_by(|one, other| (&one.source, one.not_after).cmp(&(&other.source, other.not_after)));
        all.dedup();
        all
    }
}
