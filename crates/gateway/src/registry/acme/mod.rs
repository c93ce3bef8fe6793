//! Certificates by ACME and current challenges. They belong to the process and outlive generations. This module orders
//! nothing: the control plane, which it does not know, reads what is wanted, obtains it, and installs it.

pub(crate) mod challenges;

pub use crate::plan::acme::{AcmeIssuerPlan, AcmeOrderPlan};
pub use challenges::{Challenge, Challenges};
pub use conf::model::{AcmeChallenge, AcmeIdentifier, CertificateKey};

use crate::plan::ocsp::{StapleAsk, StaplingPlan};
use crate::registry::Notify;
use crate::registry::certificates::CertificateInUse;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tls::{Pair, Pairs};

/// A certificate by ACME: what handshakes show, now and after each renewal.
#[derive(Debug, Default)]
pub struct AcmeCertificate {
    pairs: Pairs,
    current: Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    pair: Option<Pair>,
    /// `ssl_stapling`
    stapling: Option<Arc<StaplingPlan>>,
    /// What is asked for the pair's staple.
    staple: Option<Arc<StapleAsk>>,
    /// Why nothing can be asked, until that is logged.
    unasked: Option<String>,
}

impl Current {
    /// Finds out who is asked for the pair's staple; the pair has none so far.
    fn find_responder(&mut self, name: &str) {
        (self.staple, self.unasked) = (None, None);
        let (Some(pair), Some(plan)) = (&self.pair, &self.stapling) else { return };
        match StapleAsk::new(name.to_owned(), pair, plan) {
            Ok(ask) => self.staple = Some(Arc::new(ask)),
            Err(reason) => self.unasked = Some(format!("\"ssl_stapling\" ignored, {reason}")),
        }
    }
}

impl AcmeCertificate {
    /// The certificate slot for a server's settings: empty until there is a first certificate.
    pub fn pairs(&self) -> &Pairs {
        &self.pairs
    }

    /// The certificate in use.
    pub fn current(&self) -> Option<Pair> {
        self.lock().pair.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, current: &mut Current, pair: Pair) {
        self.pairs.replace([pair.clone()]);
        current.pair = Some(pair);
    }

    /// Sets the responder to ask for staples; `None`: none is asked. Returns whether the control plane must look again.
    pub(crate) fn staple_as(&self, plan: Option<&Arc<StaplingPlan>>, name: &str) -> bool {
        let mut current = self.lock();
        if current.stapling.as_ref() == plan {
            return false;
        }
        current.stapling = plan.cloned();
        if let Some(pair) = current.pair.clone().filter(|pair| pair.ocsp().is_some()) {
            self.show(&mut current, pair.with_ocsp(b""));
        }
        current.find_responder(name);
        true
    }

    /// The question for the responder of its staple.
    pub(crate) fn staple_wanted(&self) -> Option<Arc<StapleAsk>> {
        self.lock().staple.clone()
    }

    /// Why nothing can be asked, once.
    pub(crate) fn take_unasked(&self) -> Option<String> {
        self.lock().unasked.take()
    }

    /// Sets the response that handshakes staple, or none, if it answers this certificate's question.
    pub(crate) fn staple(&self, ask: &StapleAsk, response: Option<&[u8]>) {
        let mut current = self.lock();
        if current.staple.as_ref().is_some_and(|own| own.is_same(ask))
            && let Some(pair) = current.pair.clone().filter(|pair| pair.ocsp() != response)
        {
            self.show(&mut current, pair.with_ocsp(response.unwrap_or_default()));
        }
    }

    /// Loads the certificate that an earlier process has stored, unless there is one in use. If the file is missing or
    /// invalid nothing happens, and the control plane orders a new one.
    pub(crate) fn load(&self, plan: &AcmeOrderPlan) {
        let mut current = self.lock();
        if current.pair.is_some() {
            return;
        }
        let Some(text) = plan.file().and_then(|path| read_own(&path).ok()) else { return };
        if let Ok(pair) = Pair::from_pem(&text, &text, b"") {
            self.show(&mut current, pair);
            current.find_responder(&plan.shown());
        }
    }
}

/// Reads a file, but no symbolic link. An unprivileged user owns the directory, and the reader may still be root: a
/// link could lead to a key that this user must not read.
fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let (opened, named) = (file.metadata()?, std::fs::symlink_metadata(path)?);
    if (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is a link"));
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(text)
}

/// Identifies a certificate, regardless of other settings of its issuer: name of the issuer, the order's id, and the
/// directory.
pub(crate) type AcmeKey = (Box<str>, String, Option<PathBuf>);

/// An order with its certificate.
#[derive(Debug, Clone)]
pub struct BoundOrder {
    /// The order.
    pub plan: Arc<AcmeOrderPlan>,
    /// Its certificate.
    pub certificate: Arc<AcmeCertificate>,
}

impl BoundOrder {
    /// Replaces the certificate in use.
    pub fn install(&self, pair: Pair) {
        let mut current = self.certificate.lock();
        self.certificate.show(&mut current, pair);
        current.find_responder(&self.plan.shown());
    }

    /// The certificate for the status page.
    pub(crate) fn in_use(&self) -> Option<CertificateInUse> {
        let facts = self.certificate.current()?.facts()?;
        let source = self.plan.shown();
        Some(CertificateInUse { source, subject: facts.subject, not_after: facts.not_after })
    }

    pub(crate) fn key(plan: &AcmeOrderPlan) -> AcmeKey {
        (plan.issuer.name.clone(), plan.id(), plan.issuer.state.clone())
    }
}

/// The ACME orders of the whole process.
#[derive(Default)]
pub struct Acme {
    wanted: Mutex<WantedOrders>,
    control: OnceLock<Notify>,
    stopped: AtomicBool,
    challenges: Challenges,
}

#[derive(Default)]
struct WantedOrders {
    /// Number of the generation that has these orders.
    generation: u64,
    orders: Arc<[BoundOrder]>,
}

impl Acme {
    /// Registers the control plane: `notify` is called, from any thread, when [`Self::wanted`] has changed. Only the
    /// first call counts.
    pub fn attach(&self, notify: impl Fn() + Send + Sync + 'static) {
        let _ = self.control.set(Box::new(notify));
    }

    /// Sets the wanted orders. Each worker calls it when it switches to a generation.
    pub(crate) fn apply(&self, generation: u64, orders: &Arc<[BoundOrder]>) {
        let mut wanted = self.lock();
        if generation <= wanted.generation {
            return;
        }
        wanted.generation = generation;
        if orders.is_empty() && wanted.orders.is_empty() {
            return;
        }
        wanted.orders = Arc::clone(orders);
        drop(wanted);
        self.notify();
    }

    /// Stops ordering: another process takes over, or this one ends. Existing certificates stay in use.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.notify();
    }

    /// The number of the generation, and its orders.
    pub fn wanted(&self) -> (u64, Arc<[BoundOrder]>) {
        let wanted = self.lock();
        if self.stopped.load(Ordering::Acquire) {
            return (wanted.generation, Arc::default());
        }
        (wanted.generation, Arc::clone(&wanted.orders))
    }

    /// The current challenges.
    pub fn challenges(&self) -> &Challenges {
        &self.challenges
    }

    fn notify(&self) {
        if let Some(notify) = self.control.get() {
            notify();
        }
    }

    fn lock(&self) -> MutexGuard<'_, WantedOrders> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read_own(&file).unwrap(), b"text");
        assert_eq!(read_own(&link).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
