//! The running side: one thread with one runtime, which follows the API server and keeps the objects.

use crate::api::Api;
use crate::endpoint_names::EndpointBook;
use crate::options::{Host, Options, Severity};
use crate::references::References;
use crate::reporter::Report;
use crate::store::{Effect, Store};
use crate::webhook::{Counts, Webhook};
use crate::{acme, election, health, reporter, saver, snapshot, watch};
use ingress::objects::core::Node;
use ingress::{CertificateWish, Cluster, EndpointSource, Finding, Kind, Name};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long the release of the Lease may take at the end.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// The label with the zone of a node.
const ZONE: &str = "topology.kubernetes.io/zone";

/// What the threads share.
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) host: Arc<dyn Host>,
    store: Mutex<Store>,
    /// Locked before `store`, and while the host is told, so that it hears of changes in their order.
    book: Mutex<EndpointBook>,
    pub(crate) report: Mutex<Arc<Report>>,
    /// Certificates that objects ask for; `None`: no configuration was made yet.
    pub(crate) wishes: Mutex<Option<Arc<Vec<CertificateWish>>>>,
    /// What became of them.
    pub(crate) order_findings: Mutex<Arc<Vec<Finding>>>,
    /// The served version of each kind.
    pub(crate) served: Mutex<BTreeMap<Kind, &'static str>>,
    /// A kind was listed.
    pub(crate) listed: Notify,
    /// A Secret or `ConfigMap` is named that is not here.
    pub(crate) missing: Notify,
    /// A report, a status or the leader changed.
    pub(crate) to_report: Notify,
    /// The wishes, a Secret or the leader changed.
    pub(crate) to_order: Notify,
    /// Something changed that is saved.
    pub(crate) to_save: Notify,
    pub(crate) end: Notify,
    pub(crate) figures: Figures,
    /// When the program showed its last sign of life.
    pub(crate) alive: Mutex<Instant>,
}

/// States and counts, for probes and metrics.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) restored: AtomicBool,
    pub(crate) complete: AtomicBool,
    pub(crate) ready: AtomicBool,
    pub(crate) leader: AtomicBool,
    pub(crate) generations: AtomicU64,
    pub(crate) refused_generations: AtomicU64,
    pub(crate) refused_objects: AtomicU64,
    pub(crate) renewals: AtomicU64,
    pub(crate) issued: AtomicU64,
    pub(crate) failed_orders: AtomicU64,
    pub(crate) endpoint_changes: AtomicU64,
    pub(crate) relists: AtomicU64,
    pub(crate) watch_failures: AtomicU64,
    pub(crate) webhook: Arc<Counts>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    pub(crate) fn log(&self, severity: Severity, message: &str) {
        self.host.log(severity, message);
    }

    /// Acts on a change of the store.
    pub(crate) fn act(&self, effect: &Effect) {
        if effect.zone {
            self.find_zone();
        }
        if !effect.services.is_empty() {
            self.send_endpoints(Some(&effect.services));
        }
        if (effect.configuration || !effect.services.is_empty()) && self.is_complete() {
            self.to_save.notify_one();
        }
        if effect.configuration {
            if self.is_complete() {
                self.host.objects_changed();
            }
            self.missing.notify_one();
            self.to_order.notify_one();
        }
        if effect.status {
            self.to_report.notify_one();
        }
    }

    /// All kinds were listed: from now on, every change makes a configuration.
    pub(crate) fn note_listed(&self, kind: Kind) {
        let is_first = self.store().unlisted().is_empty() && !self.figures.complete.swap(true, Ordering::SeqCst);
        self.listed.notify_waiters();
        if is_first {
            self.log(Severity::Notice, "all objects of the cluster are known");
            self.host.objects_changed();
            self.to_save.notify_one();
            self.to_order.notify_one();
        }
        if crate::kinds::is_kept_if_named(kind) {
            self.missing.notify_one();
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.figures.complete.load(Ordering::SeqCst)
    }

    fn find_zone(&self) {
        let zone = {
            let store = self.store();
            let node =
                self.options.node.as_deref().and_then(|node| store.cluster.nodes.get(&Name::new("", node)).cloned());
            node.and_then(|node: Arc<Node>| node.metadata.labels.get(ZONE).cloned())
        };
        if lock(&self.book).set_zone(zone) {
            self.send_endpoints(None);
        }
    }

    fn send_endpoints(&self, services: Option<&std::collections::BTreeSet<Name>>) {
        let book = lock(&self.book);
        let found = book.addresses(&self.store(), services);
        for (name, addresses) in found {
            self.figures.endpoint_changes.fetch_add(1, Ordering::Relaxed);
            self.host.endpoints(&name, &addresses);
        }
    }

    /// The objects of the namespaces that are served, without endpoints.
    fn cluster(&self) -> Cluster {
        let store = self.store();
        let mut cluster = Cluster { endpoint_slices: BTreeMap::new(), ..store.cluster.clone() };
        drop(store);
        if self.options.namespace_selector != crate::Selector::default() {
            for kind in Kind::ALL.into_iter().filter(|kind| crate::kinds::has_status(*kind)) {
                for name in crate::kinds::names(&cluster, kind) {
                    if !name.namespace.is_empty() && !self.watches(&cluster, &name.namespace) {
                        crate::kinds::remove(&mut cluster, kind, &name);
                    }
                }
            }
        }
        cluster
    }

    /// Whether objects of a namespace are served.
    pub(crate) fn watches(&self, cluster: &Cluster, namespace: &str) -> bool {
        let selector = &self.options.namespace_selector;
        let is_selected = || {
            let known = cluster.namespaces.get(&Name::new("", namespace));
            known.is_some_and(|it| selector.matches(&it.metadata.labels))
        };
        self.options.watch_namespace.as_deref().is_none_or(|only| only == namespace)
            && (*selector == crate::Selector::default() || is_selected())
    }

    /// The present objects; `None` before all of them are known, from the API server or from the last known state.
    pub(crate) fn known(&self) -> Option<Cluster> {
        let is_known = self.is_complete() || self.figures.restored.load(Ordering::SeqCst);
        is_known.then(|| self.cluster())
    }

    /// Reads the last known state, if there is one.
    fn restore(&self) {
        let Some(directory) = &self.options.state_directory else { return };
        match snapshot::load(directory) {
            Ok(None) => {}
            Ok(Some(objects)) => {
                let mut store = self.store();
                for (kind, object) in objects {
                    // What cannot be read is listed again anyway.
                    let _ = store.put(kind, object);
                }
                drop(store);
                self.find_zone();
                self.figures.restored.store(true, Ordering::SeqCst);
                self.log(Severity::Notice, "the last known state is served until the API server has answered");
                self.host.objects_changed();
            }
            Err(error) => {
                self.log(
                    Severity::Warning,
                    &format!("the last known state in {} cannot be read: {error}", directory.display()),
                );
            }
        }
    }
}

/// The running side. Dropping it ends it.
pub struct Controller {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
    /// Ends when it is dropped.
    _webhook: Option<Webhook>,
}

impl Controller {
    /// Reads the last known state, and starts to follow the API server. An error: no client could be made, or the address
    /// of the probes or of the webhook is taken.
    pub fn start(options: Options, host: Arc<dyn Host>) -> Result<Self, String> {
        let always = options.config_maps.iter().map(|name| (Kind::ConfigMap, name.clone()));
        let always: References =
            always.chain(options.secrets.iter().map(|name| (Kind::Secret, name.clone()))).collect();
        let store = Store::new(&options.annotations_prefix, always);
        let inner = Arc::new(Inner {
            store: Mutex::new(store),
            book: Mutex::default(),
            report: Mutex::default(),
            wishes: Mutex::default(),
            order_findings: Mutex::default(),
            served: Mutex::default(),
            listed: Notify::new(),
            missing: Notify::new(),
            to_report: Notify::new(),
            to_order: Notify::new(),
            to_save: Notify::new(),
            end: Notify::new(),
            figures: Figures::default(),
            alive: Mutex::new(Instant::now()),
            options,
            host,
        });
        let probes = inner.options.health_address.map(|it| health::listen(it, "probes and metrics")).transpose()?;
        let webhook = inner.options.webhook.as_ref().map(|it| Webhook::start(&inner, it)).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| format!("no runtime could be started: {error}"))?;
        let (started, outcome) = mpsc::channel();
        let work = Arc::clone(&inner);
        let run = move || {
            runtime.block_on(run(work, probes, started));
            // A file that is being written is written to its end; nothing else is waited for.
            runtime.shutdown_timeout(RELEASE_MAX);
        };
        let thread = std::thread::Builder::new().name("kubernetes".into()).spawn(run);
        let thread = thread.map_err(|error| format!("a thread could not be started: {error}"))?;
        let controller = Self { inner, thread: Some(thread), _webhook: webhook };
        outcome.recv().map_err(|_| "the thread has ended".to_owned())??;
        Ok(controller)
    }

    /// The present objects; `None` before all of them are known, from the API server or from the last known state.
    pub fn cluster(&self) -> Option<Cluster> {
        self.inner.known()
    }

    /// Follows the endpoints of these names, beside those that it follows already. The host knows the present ones when
    /// this returns.
    pub fn follow(&self, endpoints: &BTreeMap<String, EndpointSource>) {
        // The others are told when they change.
        let services = lock(&self.inner.book).add(endpoints);
        if !services.is_empty() {
            self.inner.send_endpoints(Some(&services));
        }
    }

    /// Follows only these names from now on.
    pub fn keep(&self, endpoints: &BTreeMap<String, EndpointSource>) {
        lock(&self.inner.book).retain(endpoints);
    }

    /// What a generation says about objects, and the certificates that they ask for: the leader writes and orders.
    pub fn report(&self, report: Report, certificates: Vec<CertificateWish>) {
        *lock(&self.inner.wishes) = Some(Arc::new(certificates));
        self.inner.to_order.notify_one();
        self.inner.figures.refused_objects.store(report.refused() as u64, Ordering::Relaxed);
        *lock(&self.inner.report) = Arc::new(report);
        self.inner.to_report.notify_one();
    }

    /// Counts a generation that serves.
    pub fn count_generation(&self) {
        self.inner.figures.generations.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a generation that was refused as a whole.
    pub fn count_refusal(&self) {
        self.inner.figures.refused_generations.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts certificates that were replaced without a generation.
    pub fn count_renewals(&self, count: usize) {
        self.inner.figures.renewals.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Whether the replica takes traffic.
    pub fn set_ready(&self, ready: bool) {
        self.inner.figures.ready.store(ready, Ordering::SeqCst);
    }

    /// A sign of life: without one for a minute, `/healthz` fails.
    pub fn is_alive(&self) {
        *lock(&self.inner.alive) = Instant::now();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.inner.end.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic has printed its message.
            let _ = thread.join();
        }
    }
}

async fn run(inner: Arc<Inner>, probes: Option<std::net::TcpListener>, started: mpsc::Sender<Result<(), String>>) {
    let api = match Api::new(&inner.options).await {
        Ok(api) => api,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    inner.restore();
    let _ = started.send(Ok(()));
    if let Some(probes) = probes {
        tokio::spawn(health::serve(Arc::clone(&inner), probes));
    }
    for kind in Kind::ALL {
        tokio::spawn(watch::follow(Arc::clone(&inner), api.clone(), kind));
    }
    tokio::spawn(watch::fetch_missing(Arc::clone(&inner), api.clone()));
    tokio::spawn(saver::run(Arc::clone(&inner)));
    tokio::spawn(reporter::run(Arc::clone(&inner), api.clone()));
    acme::start(&inner, &api);
    let mut election = election::Election::new(Arc::clone(&inner), api);
    tokio::select! {
        () = election.run() => {}
        () = inner.end.notified() => {}
    }
    let _ = tokio::time::timeout(RELEASE_MAX, election.release()).await;
}
