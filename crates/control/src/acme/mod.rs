//! Certificates by ACME: orders the certificates that the gateway's registry wants, renews them in time, stores them in
//! the state directory and installs them. One task per issuer, so that its orders run one after the other. A lock in
//! the state directory excludes other processes meanwhile. `account` has the account, `order` makes one order,
//! `renewal` has the time, `failure` the reaction to errors. `client` orders for a cluster, which decides and stores itself.

mod account;
mod client;
mod failure;
mod http;
mod order;
mod renewal;
mod store;

pub use client::{AcmeAnswer, AcmeCertificate, AcmeClient, AcmeFailure, AcmeSettings};

use crate::acme::failure::Failure;
use crate::acme::http::Http;
use crate::acme::renewal::{Window, date, moderate, validity};
use crate::acme::store::Store;
use crate::bell::ringer;
use crate::dial::AbortOnDrop;
use gateway::acme::{AcmeIssuerPlan, BoundOrder};
use gateway::{Level, Registry};
use instant_acme::{Account, CertificateIdentifier};
use rustls_pki_types::CertificateDer;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tls::Pair;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Time for a whole order.
const ORDER_TIMEOUT: Duration = Duration::from_mins(5);
/// Pause while another process orders. Its order takes a second or two.
const LOCK_PAUSE: Duration = Duration::from_secs(2);
/// The clock is read at least this often, because it may be set and a machine may sleep.
const LOOK_PERIOD: Duration = Duration::from_hours(1);

/// Connects to the registry. The bell signals that the wanted certificates have changed.
pub(crate) fn attach(registry: &'static Registry) -> Arc<Notify> {
    let bell = Arc::new(Notify::new());
    registry.acme().attach(ringer(&bell));
    bell
}

/// Runs as long as the control plane.
pub(crate) async fn run(registry: &'static Registry, bell: Arc<Notify>) {
    let mut running: Vec<Running> = Vec::new();
    loop {
        let wanted = by_issuer(&registry.acme().wanted().1);
        // An unchanged issuer keeps its task, and so an order in progress.
        running.retain(|one| wanted.iter().any(|orders| one.is_for(orders)));
        for orders in wanted {
            match running.iter().find(|one| one.is_for(&orders)) {
                Some(one) => one.reloaded.notify_one(),
                None => running.push(Running::start(registry, orders)),
            }
        }
        bell.notified().await;
    }
}

fn by_issuer(orders: &[BoundOrder]) -> Vec<Vec<BoundOrder>> {
    let mut groups: Vec<Vec<BoundOrder>> = Vec::new();
    for order in orders {
        match groups.iter_mut().find(|group| group[0].plan.issuer == order.plan.issuer) {
            Some(group) => group.push(order.clone()),
            None => groups.push(vec![order.clone()]),
        }
    }
    groups
}

/// The task of an issuer.
struct Running {
    orders: Vec<BoundOrder>,
    reloaded: Arc<Notify>,
    _task: AbortOnDrop,
}

impl Running {
    fn start(registry: &'static Registry, orders: Vec<BoundOrder>) -> Self {
        let reloaded = Arc::new(Notify::new());
        let issuer = Issuer::new(registry, &orders);
        let task = tokio::spawn(issuer.run(Arc::clone(&reloaded)));
        Self { orders, reloaded, _task: AbortOnDrop(task) }
    }

    fn is_for(&self, orders: &[BoundOrder]) -> bool {
        let same = |a: &BoundOrder, b: &BoundOrder| a.plan == b.plan && Arc::ptr_eq(&a.certificate, &b.certificate);
        self.orders.len() == orders.len() && self.orders.iter().zip(orders).all(|(a, b)| same(a, b))
    }
}

/// A wanted certificate, and its progress.
struct Wanted {
    order: BoundOrder,
    /// When to order next.
    due: SystemTime,
    /// Consecutive failures.
    failures: u32,
    /// The authority's renewal information.
    window: Window,
    /// When this process got the certificate.
    issued_at: SystemTime,
}

/// An issuer with its wanted certificates.
struct Issuer {
    registry: &'static Registry,
    plan: Arc<AcmeIssuerPlan>,
    store: Store,
    http: Option<Http>,
    account: Option<Account>,
    wanted: Vec<Wanted>,
}

impl Issuer {
    fn new(registry: &'static Registry, orders: &[BoundOrder]) -> Self {
        let plan = Arc::clone(&orders[0].plan.issuer);
        let store = Store::new(plan.state.as_deref());
        let wanted = orders.iter().map(|order| Wanted::new(order.clone())).collect();
        Self { registry, plan, store, http: None, account: None, wanted }
    }

    async fn run(mut self, reloaded: Arc<Notify>) {
        loop {
            for place in 0..self.wanted.len() {
                if self.wanted[place].due <= SystemTime::now() {
                    self.attempt(place).await;
                    self.registry.acme_staples_changed();
                } else if self.wanted[place].window.is_due() {
                    self.look_at_window(place).await;
                }
            }
            let next = self.wanted.iter().map(Wanted::next).min().unwrap_or_else(SystemTime::now);
            let pause = next.duration_since(SystemTime::now()).unwrap_or_default().min(LOOK_PERIOD);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // A reload may have fixed the cause of earlier failures.
                () = reloaded.notified() => self.wanted.iter_mut().for_each(Wanted::forgive),
            }
        }
    }

    /// Orders a certificate, or logs why that failed.
    async fn attempt(&mut self, place: usize) {
        let lock = match self.store.lock() {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => {
                self.wanted[place].due = SystemTime::now() + LOCK_PAUSE;
                return;
            }
            Err(error) => Err(Failure::of_state(&error)),
        };
        if lock.is_ok() && self.wanted[place].take_newer(&self.store) {
            return;
        }
        let outcome = match lock {
            Ok(_lock) => {
                let order = timeout(ORDER_TIMEOUT, self.order(place)).await;
                order.unwrap_or_else(|_| Err(Failure::ours("the order took too long")))
            }
            Err(failure) => Err(failure),
        };
        let id = format!("{}/{}", self.plan.name, self.wanted[place].order.plan.id());
        let log = self.registry.error_log();
        match outcome {
            Ok(pair) => {
                let wanted = &mut self.wanted[place];
                wanted.install(pair);
                let until = validity(&wanted.order).map_or(SystemTime::now(), |(_, end)| end);
                if wanted.due <= SystemTime::now() {
                    let failure = Failure::ours("the new certificate has to be renewed already");
                    let pause = wanted.postpone(&failure).as_secs();
                    let message = format!(
                        "acme: certificate \"{id}\" is valid until {} and so old already; check the clock of this machine; \
                         next attempt in {pause} s",
                        date(until)
                    );
                    log.log(Level::Error, &message);
                    return;
                }
                let message = format!(
                    "acme: certificate \"{id}\" is issued; it is valid until {}, and renewed from {} on",
                    date(until),
                    date(wanted.due)
                );
                log.log(Level::Notice, &message);
            }
            Err(failure) => {
                // Nonces and URLs of a failed attempt cannot be used again.
                self.account = None;
                if failure.account_unknown {
                    self.store.forget_account_url();
                }
                let wanted = &mut self.wanted[place];
                let pause = wanted.postpone(&failure);
                let (level, validity) = wanted.current_validity();
                let message = format!(
                    "acme: no new certificate \"{id}\": {}; {}; {validity}; next attempt in {} s",
                    failure.text,
                    failure.advice,
                    pause.as_secs()
                );
                log.log(level, &message);
            }
        }
    }

    async fn order(&mut self, place: usize) -> Result<Pair, Failure> {
        let account = self.account().await?;
        let wanted = &self.wanted[place];
        let replaces = wanted.window.is_known().then(|| wanted.identifier()).flatten();
        let challenges = self.registry.acme().challenges();
        let publish = |answers| std::future::ready(Ok(order::hold(challenges, answers)));
        let issued = order::issue(&account, &wanted.order.plan, replaces, publish).await?;
        let pair = Pair::from_pem(issued.chain.as_bytes(), issued.key.as_bytes(), b"");
        let pair = pair.map_err(|finding| Failure::ours(&finding.text))?;
        let name = format!("{}.pem", wanted.order.plan.id());
        if let Err(error) = self.store.write(&name, issued.to_file().as_bytes()) {
            self.log_not_kept(&name, &error);
        }
        Ok(pair)
    }

    /// The account, created if there is none.
    async fn account(&mut self) -> Result<Account, Failure> {
        if let Some(account) = &self.account {
            return Ok(account.clone());
        }
        let http = self.http()?;
        let (account, kept) = account::open(&self.plan, &self.store, &http).await?;
        if let Err(error) = kept {
            self.log_not_kept("account.key", &error);
        }
        Ok(self.account.insert(account).clone())
    }

    fn http(&mut self) -> Result<Http, Failure> {
        if self.http.is_none() {
            self.http = Some(Http::new(&self.plan).map_err(|error| Failure::ours(&error.to_string()))?);
        }
        self.http.clone().ok_or_else(|| Failure::ours("no client"))
    }

    fn log_not_kept(&self, name: &str, error: &std::io::Error) {
        let failure = Failure::of_state(error);
        let message = format!(
            "acme: \"{name}\" of issuer \"{}\" is not kept: {}; {}",
            self.plan.name, failure.text, failure.advice
        );
        self.registry.error_log().log(Level::Error, &message);
    }

    /// Asks the authority when to renew a certificate (RFC 9773). Without an answer the usual time applies.
    async fn look_at_window(&mut self, place: usize) {
        if self.account.is_none()
            && let Ok(http) = self.http()
            && let Some(Ok(account)) = account::restore(&self.plan, &self.store, &http).await
        {
            self.account = Some(account);
        }
        let wanted = &mut self.wanted[place];
        let (Some(account), Some(identifier)) = (&self.account, wanted.identifier()) else {
            wanted.window.put_off();
            return;
        };
        let answer = account.renewal_info(&identifier).await;
        if let Some(due) = wanted.window.take(answer, fastrand::f64()) {
            let end = validity(&wanted.order).map_or(due, |(_, end)| end);
            wanted.due = moderate(due, wanted.due, wanted.issued_at, end);
        }
    }
}

impl Wanted {
    fn new(order: BoundOrder) -> Self {
        let due = renewal::due(&order, fastrand::f64());
        Self { order, due, failures: 0, window: Window::default(), issued_at: UNIX_EPOCH }
    }

    /// The time of the next action.
    fn next(&self) -> SystemTime {
        self.due.min(self.window.next())
    }

    /// The identifier of the certificate in requests for renewal information.
    fn identifier(&self) -> Option<CertificateIdentifier<'static>> {
        let pair = self.order.certificate.current()?;
        let der = CertificateDer::from(pair.certificate_der()?);
        CertificateIdentifier::try_from(&der).ok().map(CertificateIdentifier::into_owned)
    }

    fn install(&mut self, pair: Pair) {
        self.order.install(pair);
        self.failures = 0;
        self.due = renewal::due(&self.order, fastrand::f64());
        self.window = Window::default();
        self.issued_at = SystemTime::now();
    }

    /// Takes a certificate that another process has got meanwhile. Returns whether it is sufficient for now.
    fn take_newer(&mut self, store: &Store) -> bool {
        let Some(text) = store.read(&format!("{}.pem", self.order.plan.id())) else { return false };
        let Ok(pair) = Pair::from_pem(&text, &text, b"") else { return false };
        let start = |pair: &Pair| pair.facts().map(|facts| facts.not_before);
        let current = self.order.certificate.current();
        if current.as_ref().and_then(start) >= start(&pair) {
            return false;
        }
        self.install(pair);
        self.due > SystemTime::now()
    }

    /// Counts a failure; returns the pause.
    fn postpone(&mut self, failure: &Failure) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let life = validity(&self.order).map(|(start, end)| end.duration_since(start).unwrap_or_default());
        let pause = failure.pause(self.failures, life, fastrand::u64(..));
        self.due = SystemTime::now() + pause;
        pause
    }

    /// A reload: failed orders are tried again at once.
    fn forgive(&mut self) {
        if self.failures > 0 {
            self.failures = 0;
            self.due = SystemTime::now();
        }
    }

    /// What handshakes use meanwhile, for the log.
    fn current_validity(&self) -> (Level, String) {
        match validity(&self.order) {
            None => (Level::Error, "there is none, so handshakes for it fail".to_owned()),
            Some((_, end)) if end <= SystemTime::now() => {
                (Level::Error, format!("the present one has expired at {}", date(end)))
            }
            Some((_, end)) => (Level::Warn, format!("the present one serves until {}", date(end))),
        }
    }
}
