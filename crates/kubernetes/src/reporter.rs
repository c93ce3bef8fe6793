//! Writes statuses and Events, if this replica leads. What is written follows from the last report and the statuses that
//! the watches brought, so a write that fails is made again.

use crate::api::{Api, ApiError, JSON, MERGE_PATCH};
use crate::controller::{Inner, lock};
use crate::events::{Emit, EventBook, event_action, event_type};
use crate::options::Severity;
use crate::{dates, kinds, publish, status};
use http::Method;
use ingress::{Finding, Kind, Level, ObjectName, StatusWish};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The time between two writes: at most a hundred a second, as more would take the API server from others.
const PACE: Duration = Duration::from_millis(10);
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
        refused.map(|finding| &finding.object).collect::<std::collections::BTreeSet<_>>().len()
    }
}

struct Reporter {
    inner: Arc<Inner>,
    api: Api,
    events: EventBook,
    /// The report and the findings about orders that were told.
    told: Option<(Arc<Report>, Arc<Vec<Finding>>)>,
    trouble: Option<String>,
}

/// Runs as long as the controller.
pub(crate) async fn run(inner: Arc<Inner>, api: Api) {
    let mut reporter = Reporter { inner, api, events: EventBook::default(), told: None, trouble: None };
    loop {
        let _ = tokio::time::timeout(AGAIN, reporter.inner.to_report.notified()).await;
        if !reporter.leads() {
            // The next leader tells them; this one begins anew if it leads later.
            reporter.told = None;
            continue;
        }
        let report = Arc::clone(&lock(&reporter.inner.report));
        let outcome = reporter.write_statuses(&report).await;
        reporter.note(outcome);
        let orders = Arc::clone(&lock(&reporter.inner.order_findings));
        let is_told = |(told, about): &(Arc<Report>, Arc<Vec<Finding>>)| {
            Arc::ptr_eq(told, &report) && Arc::ptr_eq(about, &orders)
        };
        if !reporter.told.as_ref().is_some_and(is_told) {
            let findings: Vec<Finding> = report.findings.iter().chain(&*orders).cloned().collect();
            let outcome = reporter.write_events(&findings).await;
            reporter.note(outcome);
            reporter.told = Some((report, orders));
        }
        tokio::time::sleep(REST).await;
    }
}

impl Reporter {
    fn leads(&self) -> bool {
        self.inner.figures.leader.load(Ordering::SeqCst)
    }

    fn note(&mut self, outcome: Result<(), ApiError>) {
        let message = outcome.err().map(|error| format!("a status or an Event could not be written: {error}"));
        if let Some(message) = message.as_ref().filter(|message| self.trouble.as_ref() != Some(*message)) {
            self.inner.log(Severity::Warning, message);
        }
        self.trouble = message;
    }

    async fn write_statuses(&self, report: &Report) -> Result<(), ApiError> {
        let (ingress, gateway) = self.published();
        let of_ingresses =
            report.ingresses.iter().map(|object| (object, json!({"loadBalancer": {"ingress": ingress}})));
        let wishes = report.statuses.iter().filter(|wish| wish.object.kind != Kind::Ingress);
        let wishes = wishes.map(|wish| (&wish.object, with_addresses(wish, &gateway)));
        let mut outcome = Ok(());
        for (object, wish) in of_ingresses.chain(wishes) {
            let Some((path, body)) = self.patch(object, &wish) else { continue };
            if !self.leads() {
                return outcome;
            }
            match self.api.send(Method::PATCH, &path, MERGE_PATCH, &body).await {
                // It changed meanwhile: its event comes, and with it the next try. Or it is gone.
                Err(error) if matches!(error.code(), 404 | 409) => {}
                Err(error) => outcome = Err(error),
                Ok(_) => {}
            }
            tokio::time::sleep(PACE).await;
        }
        outcome
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

    async fn write_events(&mut self, findings: &[Finding]) -> Result<(), ApiError> {
        let mut outcome = Ok(());
        for emit in self.events.sort(findings, Instant::now()) {
            let written = match emit {
                Emit::New(finding) => self.write_event(&finding).await,
                Emit::Again { event, object, count } => self.count_event(&event, &object, count).await,
            };
            outcome = outcome.and(written);
            tokio::time::sleep(PACE).await;
        }
        outcome
    }

    async fn write_event(&mut self, finding: &Finding) -> Result<(), ApiError> {
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
            Ok(_) => self.events.wrote(finding, name, Instant::now()),
            // The namespace is being deleted.
            Err(error) if matches!(error.code(), 403 | 404) => {}
            Err(error) => return Err(error),
        }
        Ok(())
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
