//! Writes statuses and Events, if this replica leads. What is written follows from the last report and the statuses that
//! the watches brought, so a write that fails is made again.

use crate::api::{Api, ApiError, JSON, MERGE_PATCH};
use crate::backoff::Backoff;
use crate::controller::{Inner, lock};
use crate::events::{Emit, EventBook, event_action, event_type};
use crate::options::Severity;
use crate::{dates, kinds, publish, status};
use http::Method;
use ingress::{Finding, Kind, Level, ObjectName, StatusWish};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The time between two writes: at most 500 a second. etcd takes some ten thousand, and each write is also an event for all
/// watchers of the kind.
const PACE: Duration = Duration::from_millis(2);
/// Most writes at a time: of the 200 changes that an API server works on at a time, others need the rest.
const WRITES_MAX: usize = 4;
/// The time after which everything is compared again, if nothing changed.
const AGAIN: Duration = Duration::from_secs(30);
/// The shortest time between two comparisons of all objects.
const REST: Duration = Duration::from_millis(100);
/// Longest text of an Event that the API server accepts.
const NOTE_BYTES_MAX: usize = 1024;

/// What a generation says about objects.
#[derive(Debug, Default)]
pub struct Report {
    /// What was found.
    pub findings: Vec<Finding>,
    /// Statuses that objects should have.
    pub statuses: Vec<StatusWish>,
    /// The Ingresses that are served: they get the published addresses.
    pub ingresses: Vec<ObjectName>,
}

impl Report {
    /// How many objects are refused, or a part of them.
    pub(crate) fn refused(&self) -> usize {
        let refused = self.findings.iter().filter(|finding| finding.level == Level::Refused);
        refused.map(|finding| &finding.object).collect::<BTreeSet<_>>().len()
    }
}

/// Decides when something is written.
struct Reporter {
    writer: Writer,
    events: EventBook,
    /// The report and the findings about orders that were told.
    told: Option<(Arc<Report>, Arc<Vec<Finding>>)>,
    trouble: Option<String>,
    /// Pauses while the API server does not take writes.
    backoff: Backoff,
}

/// Writes single objects.
#[derive(Clone)]
struct Writer {
    inner: Arc<Inner>,
    api: Api,
}

/// The writes that follow from one report. An API server that is overloaded or away gets no more of them; what it says about a
/// single object does not keep the others from theirs.
#[derive(Clone, Default)]
struct Pass {
    failure: Arc<Mutex<Option<ApiError>>>,
    is_over: Arc<AtomicBool>,
}

impl Pass {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Notes a failed write.
    fn note(&self, error: ApiError) {
        if matches!(error.code(), 0 | 429 | 500..) {
            self.is_over.store(true, Ordering::SeqCst);
        }
        *lock(&self.failure) = Some(error);
    }
}

/// Findings that were written, with the names of their Events; without one, the namespace is being deleted.
type Written = Vec<(Finding, Option<String>)>;

/// Writes that are under way: several at a time, at a limited rate.
#[derive(Default)]
struct Writes(JoinSet<()>);

impl Writes {
    async fn begin(&mut self, write: impl Future<Output = ()> + Send + 'static) {
        while self.0.len() >= WRITES_MAX {
            self.0.join_next().await;
        }
        tokio::time::sleep(PACE).await;
        self.0.spawn(write);
    }

    async fn end(mut self) {
        while self.0.join_next().await.is_some() {}
    }
}

/// Runs as long as the controller.
pub(crate) async fn run(inner: Arc<Inner>, api: Api) {
    let writer = Writer { inner, api };
    let (events, backoff) = (EventBook::default(), Backoff::default());
    let mut reporter = Reporter { writer, events, told: None, trouble: None, backoff };
    let mut pause = None;
    loop {
        match pause.take() {
            Some(pause) => tokio::time::sleep(pause).await,
            None => {
                let _ = tokio::time::timeout(AGAIN, reporter.writer.inner.to_report.notified()).await;
            }
        }
        if !reporter.writer.leads() {
            // The next leader tells them; this one begins anew if it leads later.
            reporter.told = None;
            continue;
        }
        let pass = reporter.write().await;
        if pass.is_over() {
            pause = Some(reporter.backoff.next(fastrand::f64()));
        } else {
            reporter.backoff.reset();
        }
        reporter.note(&pass);
        tokio::time::sleep(REST).await;
    }
}

impl Reporter {
    fn note(&mut self, pass: &Pass) {
        let failure = lock(&pass.failure).take();
        let message = failure.map(|error| format!("a status or an Event could not be written: {error}"));
        if let Some(message) = message.as_ref().filter(|message| self.trouble.as_ref() != Some(*message)) {
            self.writer.inner.log(Severity::Warning, message);
        }
        self.trouble = message;
    }

    /// Writes what is missing: statuses, then Events.
    async fn write(&mut self) -> Pass {
        let pass = Pass::default();
        let inner = &self.writer.inner;
        let (report, orders) = (Arc::clone(&lock(&inner.report)), Arc::clone(&lock(&inner.order_findings)));
        self.writer.write_statuses(&report, &pass).await;
        let is_told = |(told, about): &(Arc<Report>, Arc<Vec<Finding>>)| {
            Arc::ptr_eq(told, &report) && Arc::ptr_eq(about, &orders)
        };
        if !pass.is_over() && !self.told.as_ref().is_some_and(is_told) {
            let findings: Vec<Finding> = report.findings.iter().chain(&*orders).cloned().collect();
            self.write_events(&findings, &pass).await;
            self.told = (!pass.is_over()).then_some((report, orders));
        }
        pass
    }

    async fn write_events(&mut self, findings: &[Finding], pass: &Pass) {
        let emits = self.events.sort(findings, Instant::now());
        let written: Arc<Mutex<Written>> = Arc::default();
        let mut writes = Writes::default();
        for emit in emits.clone() {
            if pass.is_over() {
                break;
            }
            let (writer, pass, into) = (self.writer.clone(), pass.clone(), Arc::clone(&written));
            let write = async move {
                let result = match emit {
                    Emit::New(finding) => writer.write_event(&finding).await.map(|name| Some((finding, name))),
                    Emit::Again { event, object, count } => {
                        writer.count_event(&event, &object, count).await.map(|()| None)
                    }
                };
                match result {
                    Ok(event) => lock(&into).extend(event),
                    Err(error) => pass.note(error),
                }
            };
            writes.begin(write).await;
        }
        writes.end().await;
        let written = std::mem::take(&mut *lock(&written));
        if pass.is_over() {
            let told: BTreeSet<&Finding> = written.iter().map(|(finding, _)| finding).collect();
            let missing = emits.iter().filter_map(|emit| match emit {
                Emit::New(finding) if !told.contains(finding) => Some(finding),
                _ => None,
            });
            missing.for_each(|finding| self.events.forget(finding));
        }
        for (finding, name) in written.into_iter().filter_map(|(finding, name)| Some((finding, name?))) {
            self.events.wrote(&finding, name, Instant::now());
        }
    }
}

impl Writer {
    fn leads(&self) -> bool {
        self.inner.figures.leader.load(Ordering::SeqCst)
    }

    async fn write_statuses(&self, report: &Report, pass: &Pass) {
        let (ingress, gateway) = self.published();
        let of_ingresses =
            report.ingresses.iter().map(|object| (object, json!({"loadBalancer": {"ingress": ingress}})));
        let wishes = report.statuses.iter().filter(|wish| wish.object.kind != Kind::Ingress);
        let wishes = wishes.map(|wish| (&wish.object, with_addresses(wish, &gateway)));
        let mut writes = Writes::default();
        for (object, wish) in of_ingresses.chain(wishes) {
            let Some((path, body)) = self.patch(object, &wish) else { continue };
            if pass.is_over() || !self.leads() {
                break;
            }
            let (api, pass) = (self.api.clone(), pass.clone());
            let write = async move {
                match api.send(Method::PATCH, &path, MERGE_PATCH, &body).await {
                    // It changed meanwhile: its event comes, and with it the next try. Or it is gone.
                    Err(error) if matches!(error.code(), 404 | 409) => {}
                    Err(error) => pass.note(error),
                    Ok(_) => {}
                }
            };
            writes.begin(write).await;
        }
        writes.end().await;
    }

    /// The entries for Ingresses, and those for Gateways.
    fn published(&self) -> (Vec<Value>, Value) {
        let options = &self.inner.options;
        let store = self.inner.store();
        let service = options.publish_service.as_ref().and_then(|name| store.cluster.services.get(name));
        let ingress = publish::addresses(&options.publish_addresses, service.map(|service| &**service));
        let gateway = if options.gateway_addresses.is_empty() {
            ingress.clone()
        } else {
            publish::addresses(&options.gateway_addresses, None)
        };
        (ingress, publish::gateway_addresses(&gateway))
    }

    /// The request that gives an object its status; `None`: it has it, or is gone.
    fn patch(&self, object: &ObjectName, wish: &Value) -> Option<(String, Value)> {
        let store = self.inner.store();
        let written = store.written(object)?;
        let controller = &self.inner.options.gateway_controller;
        let status = status::merged(object.kind, &written.status, wish, controller, &dates::seconds())?;
        let path = format!("{}/status", kinds::place(object.kind).one(self.version(object.kind), &object.name));
        Some((path, json!({"metadata": {"resourceVersion": written.resource_version}, "status": status})))
    }

    fn version(&self, kind: Kind) -> &'static str {
        let served = lock(&self.inner.served).get(&kind).copied();
        served.or_else(|| kinds::place(kind).versions.first().copied()).unwrap_or("v1")
    }

    /// Returns the name of the Event; `None`: the namespace is being deleted.
    async fn write_event(&self, finding: &Finding) -> Result<Option<String>, ApiError> {
        let object = &finding.object;
        let uid = self.inner.store().written(object).map(|written| written.uid.clone());
        let name = format!("{}.{:016x}", object.name.name.chars().take(200).collect::<String>(), fastrand::u64(..));
        let body = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace_of(object)},
            "eventTime": dates::micros(),
            "reportingController": self.inner.options.reporting_controller,
            "reportingInstance": self.inner.options.identity.chars().take(128).collect::<String>(),
            "action": event_action(finding.reason),
            "reason": finding.reason,
            "type": event_type(finding.level),
            "note": shortened(&finding.message),
            "regarding": {
                "apiVersion": kinds::place(object.kind).api_version(self.version(object.kind)),
                "kind": object.kind.word(),
                "namespace": &*object.name.namespace,
                "name": &*object.name.name,
                "uid": uid,
            },
        });
        match self.api.send(Method::POST, &events(object), JSON, &body).await {
            Ok(_) => Ok(Some(name)),
            Err(error) if matches!(error.code(), 403 | 404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn count_event(&self, event: &str, object: &ObjectName, count: u32) -> Result<(), ApiError> {
        let body = json!({"series": {"count": count, "lastObservedTime": dates::micros()}});
        match self.api.send(Method::PATCH, &format!("{}/{event}", events(object)), MERGE_PATCH, &body).await {
            // Events are deleted after an hour.
            Err(error) if error.code() != 404 => Err(error),
            _ => Ok(()),
        }
    }
}

/// A Gateway without addresses of its own gets those that are published.
fn with_addresses(wish: &StatusWish, addresses: &Value) -> Value {
    let mut status = wish.status.clone();
    if wish.object.kind == Kind::Gateway
        && status.get("addresses").is_none_or(|own| own.as_array().is_none_or(Vec::is_empty))
    {
        status["addresses"] = addresses.clone();
    }
    status
}

/// Events of cluster-wide objects are in this namespace.
fn namespace_of(object: &ObjectName) -> &str {
    if object.name.namespace.is_empty() { "default" } else { &object.name.namespace }
}

fn events(object: &ObjectName) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{}/events", namespace_of(object))
}

fn shortened(text: &str) -> &str {
    let end = (0..=NOTE_BYTES_MAX.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_shortened_between_letters() {
        assert_eq!(shortened("short"), "short");
        let long = "ä".repeat(NOTE_BYTES_MAX);
        assert_eq!(shortened(&long).len(), NOTE_BYTES_MAX);
        assert_eq!(shortened(&format!("a{long}")).len(), NOTE_BYTES_MAX - 1);
    }
}
