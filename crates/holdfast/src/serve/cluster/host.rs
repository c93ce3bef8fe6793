//! The gateway as the crate `kubernetes` sees it: a registry that learns endpoints, a log, metrics, and a bell for the
//! control loop.

use gateway::acme::Challenge;
use gateway::names::Found;
use gateway::{Generation, Level, Registry};
use kubernetes::Severity;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Shared by the control loop and the thread of the API server.
pub(super) struct ClusterHost {
    registry: OnceLock<&'static Registry>,
    /// The log writer runs.
    has_log: AtomicBool,
    generation: Mutex<Option<Arc<Generation>>>,
    bell: OwnedFd,
    challenges: Mutex<Challenges>,
}

/// The answers to authorities.
#[derive(Default)]
struct Challenges {
    /// By token: those that the cluster has.
    wanted: BTreeMap<String, String>,
    /// By token: those that the workers give.
    held: BTreeMap<String, Challenge>,
}

impl ClusterHost {
    pub(super) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            registry: OnceLock::new(),
            has_log: AtomicBool::new(false),
            generation: Mutex::default(),
            bell,
            challenges: Mutex::default(),
        })
    }

    /// Readable if objects changed since [`Self::take`].
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Whether objects changed since the last call.
    pub(super) fn take(&self) -> bool {
        read(&self.bell, &mut [0; 8]).is_ok()
    }

    /// The registry, before the first configuration is bound.
    pub(super) fn set_registry(&self, registry: &'static Registry) {
        let _ = self.registry.set(registry);
        self.hold_challenges(|_| {});
    }

    /// The generation that serves.
    pub(super) fn set_generation(&self, generation: &Arc<Generation>) {
        *self.generation.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(generation));
        self.has_log.store(true, Ordering::SeqCst);
    }

    /// Changes the answers to authorities. Before there is a registry, they wait for it.
    fn hold_challenges(&self, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        let mut challenges = self.challenges.lock().unwrap_or_else(PoisonError::into_inner);
        let Challenges { wanted, held } = &mut *challenges;
        let before = wanted.clone();
        change(wanted);
        let Some(registry) = self.registry.get() else { return };
        held.retain(|token, _| wanted.get(token).is_some_and(|now| before.get(token) == Some(now)));
        for (token, authorization) in &*wanted {
            let answer = || registry.acme().challenges().answer_http(token.clone(), authorization);
            held.entry(token.clone()).or_insert_with(answer);
        }
    }
}

impl kubernetes::Host for ClusterHost {
    fn objects_changed(&self) {
        // The counter cannot be full.
        let _ = write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn endpoints(&self, name: &str, addresses: &[SocketAddr]) {
        let Some(registry) = self.registry.get() else { return };
        let found =
            |address: &SocketAddr| Found { ip: address.ip(), port: Some(address.port()), priority: 0, weight: 0 };
        registry.names().answer(name, addresses.iter().map(found).collect());
    }

    fn challenges(&self, answers: &BTreeMap<String, String>) {
        self.hold_challenges(|wanted| wanted.clone_from(answers));
    }

    fn metrics(&self) -> Vec<u8> {
        let generation = self.generation.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (self.registry.get(), generation) {
            (Some(registry), Some(generation)) => gateway::metrics_text(registry, &generation),
            _ => Vec::new(),
        }
    }

    fn log(&self, severity: Severity, message: &str) {
        let (level, word) = match severity {
            Severity::Notice => (Level::Notice, "notice"),
            Severity::Warning => (Level::Warn, "warn"),
            Severity::Error => (Level::Error, "error"),
        };
        match self.registry.get() {
            Some(registry) if self.has_log.load(Ordering::SeqCst) => registry.error_log().log(level, message),
            _ => crate::report::complain(&format!("[{word}] {message}")),
        }
    }
}
