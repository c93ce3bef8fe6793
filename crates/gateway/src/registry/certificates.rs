//! The certificates in use, by their files. Handshakes look them up, and when the files change newer certificates
//! replace them without a reload.

use crate::lower::ReadFile;
use crate::lower::pairs::{load_pair, shown};
use crate::plan::tls::{KnownPairs, PairPlan, PairSource};
use crate::registry::acme::BoundOrder;
use crate::registry::ocsp::ControlBell;
use crate::registry::process::Registry;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tls::{Pair, Pairs};

/// The certificates of a server, or of several that name the same files.
#[derive(Debug)]
pub(crate) struct CertificateSlot {
    /// The pairs that handshakes use.
    pub(crate) pairs: Pairs,
    loaded: Mutex<Vec<PairPlan>>,
}

impl CertificateSlot {
    fn loaded(&self) -> MutexGuard<'_, Vec<PairPlan>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, mut pairs: Vec<PairPlan>) {
        let mut loaded = self.loaded();
        for (new, old) in pairs.iter_mut().zip(loaded.iter()) {
            // An unchanged certificate keeps its staple.
            if new.staple.is_some() && new.fingerprint == old.fingerprint {
                new.pair = old.pair.clone();
            }
        }
        self.pairs.replace(pairs.iter().map(|plan| plan.pair.clone()));
        *loaded = pairs;
    }

    /// Replaces each pair for which the closure returns another one.
    fn change(&self, mut change: impl FnMut(&PairPlan) -> Option<Pair>) {
        let mut loaded = self.loaded();
        let mut is_changed = false;
        for plan in loaded.iter_mut() {
            if let Some(pair) = change(plan) {
                plan.pair = pair;
                is_changed = true;
            }
        }
        if is_changed {
            self.pairs.replace(loaded.iter().map(|plan| plan.pair.clone()));
        }
    }
}

/// All certificates, by source. A slot is dropped with the last configuration that uses it.
#[derive(Default)]
pub(crate) struct Certificates {
    slots: Mutex<HashMap<Vec<PairSource>, Arc<CertificateSlot>>>,
    /// Rings when other certificates may need staples.
    pub(crate) bell: ControlBell,
}

/// A certificate that is shown to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInUse {
    /// Its file, or `data:…`.
    pub source: String,
    /// Its subject, as RFC 2253 writes it.
    pub subject: String,
    /// When it expires, in seconds since 1970.
    pub not_after: i64,
}

/// The result of reading changed files.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Renewal {
    /// The files of certificates that replaced others.
    pub renewed: Vec<String>,
    /// Errors of new certificates, with advice: the old ones stay in use.
    pub broken: Vec<String>,
    /// The files of all valid pairs, as they were read.
    pub sound_files: Vec<PathBuf>,
}

impl Renewal {
    fn load(&mut self, source: &PairSource, read: ReadFile<'_>) -> Option<PairPlan> {
        match load_pair(source, read, None) {
            Ok(pair) => {
                self.sound_files.extend(source.files().map(Path::to_path_buf));
                Some(pair)
            }
            Err(fault) => {
                self.broken.push(format!("{}; {}", fault.message, fault.advice));
                None
            }
        }
    }
}

impl Certificates {
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<PairSource>, Arc<CertificateSlot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot for these pairs; newly read ones replace the previous ones.
    pub(crate) fn slot(&self, plans: &[PairPlan]) -> Arc<CertificateSlot> {
        let sources = plans.iter().map(|plan| plan.source.clone()).collect();
        let mut slots = self.lock();
        let slot = slots.entry(sources);
        let slot =
            slot.or_insert_with(|| Arc::new(CertificateSlot { pairs: Pairs::default(), loaded: Mutex::default() }));
        slot.replace(plans.to_vec());
        if plans.iter().any(|plan| plan.staple.is_some()) {
            self.bell.ring();
        }
        Arc::clone(slot)
    }

    /// Everything that was read.
    fn known(&self) -> KnownPairs {
        let mut known = KnownPairs::default();
        for slot in self.lock().values() {
            known.0.extend(slot.loaded().iter().map(|plan| (plan.source.clone(), plan.clone())));
        }
        known
    }

    /// Passes each pair to a closure, which may return a replacement.
    pub(crate) fn each_plan(&self, mut change: impl FnMut(&PairPlan) -> Option<Pair>) {
        for slot in self.lock().values() {
            slot.change(&mut change);
        }
    }

    /// Drops slots that no configuration uses.
    pub(crate) fn forget_unused(&self) {
        self.lock().retain(|_, slot| Arc::strong_count(slot) > 1);
    }
}

impl Registry {
    /// The certificates that were read, so that the next configuration need not parse them again.
    pub fn known_pairs(&self) -> KnownPairs {
        self.certificates.known()
    }

    /// The files of certificates in use, grouped by pair.
    pub fn certificate_files(&self) -> Vec<Vec<PathBuf>> {
        let slots = self.certificates.lock();
        let mut groups: Vec<Vec<PathBuf>> =
            slots.keys().flatten().map(|source| source.files().map(Path::to_path_buf).collect()).collect();
        groups.sort();
        groups.dedup();
        groups
    }

    /// Reads the pairs again that use one of these files. Changed pairs apply to new handshakes; if a file is invalid,
    /// the old pair stays in use.
    pub fn renew_certificates(&self, changed: &[PathBuf], read: ReadFile<'_>) -> Renewal {
        let slots: Vec<_> =
            self.certificates.lock().iter().map(|(key, slot)| (key.clone(), Arc::clone(slot))).collect();
        let mut renewal = Renewal::default();
        // Many servers may have the same pair.
        let mut loaded = HashMap::new();
        for (sources, slot) in slots {
            let mut pairs = slot.loaded().clone();
            let mut has_new = false;
            for (source, pair) in sources.iter().zip(&mut pairs) {
                if !source.files().any(|file| changed.iter().any(|changed| changed == file)) {
                    continue;
                }
                let new = loaded.entry(source.clone()).or_insert_with(|| renewal.load(source, read));
                if let Some(new) = new.as_ref().filter(|new| new.fingerprint != pair.fingerprint) {
                    renewal.renewed.push(shown(&source.certificate));
                    *pair = new.clone();
                    has_new = true;
                }
            }
            if has_new {
                slot.replace(pairs);
            }
        }
        self.certificates.bell.ring();
        for list in [&mut renewal.renewed, &mut renewal.broken] {
            list.sort();
            list.dedup();
        }
        renewal
    }

    /// Warnings about certificates that expire soon or have expired, each once.
    pub fn ending_certificates(&self, now_s: i64) -> Vec<String> {
        let slots = self.certificates.lock();
        let mut warnings = BTreeMap::new();
        for plan in slots.values().flat_map(|slot| slot.loaded().clone()) {
            let found = plan.pair.check(now_s);
            if let Some(finding) = found.into_iter().find(|finding| ["expired", "expires_soon"].contains(&finding.key))
            {
                let name = shown(&plan.source.certificate);
                warnings.insert(name.clone(), format!("{name}: {}; {}", finding.text, finding.advice));
            }
        }
        warnings.into_values().collect()
    }

    /// The certificates shown to clients, each once.
    pub fn certificates_in_use(&self) -> Vec<CertificateInUse> {
        let slots = self.certificates.lock();
        let mut all: Vec<CertificateInUse> = Vec::new();
        for slot in slots.values() {
            for plan in slot.loaded().iter() {
                let source = plan.source.certificate.to_string();
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
