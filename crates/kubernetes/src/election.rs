//! Leader election: reads and writes the Lease. The rules are in `lease`.

use crate::api::{Api, ApiError, JSON};
use crate::controller::Inner;
use crate::dates;
use crate::lease::{Elector, LeaseSpec, RETRY_PERIOD, Step};
use crate::options::Severity;
use http::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The part of one replica.
pub(crate) struct Election {
    inner: Arc<Inner>,
    api: Api,
    elector: Elector,
    /// The path of all Leases of the namespace.
    leases: String,
    /// The Lease as it was read or written last.
    lease: Value,
    told: Option<String>,
}

impl Election {
    pub(crate) fn new(inner: Arc<Inner>, api: Api) -> Self {
        let namespace = inner.options.namespace.clone().unwrap_or_else(|| api.namespace().to_owned());
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let elector = Elector::new(&inner.options.identity);
        Self { inner, api, elector, leases, lease: Value::Null, told: None }
    }

    /// Tries to lead, forever.
    pub(crate) async fn run(&mut self) {
        if !self.inner.options.update_status {
            return std::future::pending().await;
        }
        loop {
            let outcome = self.turn().await;
            self.report(outcome);
            let leads = self.elector.leads(Instant::now());
            if self.inner.figures.leader.swap(leads, Ordering::SeqCst) != leads {
                let message =
                    if leads { "this replica leads: it writes statuses" } else { "another replica leads, or none" };
                self.inner.log(Severity::Notice, message);
                self.inner.to_report.notify_one();
                self.inner.to_order.notify_one();
            }
            // A fifth is random, so that replicas do not try at the same time.
            tokio::time::sleep(RETRY_PERIOD.mul_f64(1.0 + fastrand::f64() / 5.0)).await;
        }
    }

    async fn turn(&mut self) -> Result<(), ApiError> {
        let path = format!("{}/{}", self.leases, self.inner.options.election_id);
        let present = match self.api.get(&path).await {
            Ok(lease) => Some(lease),
            Err(error) if error.code() == 404 => None,
            Err(error) => return Err(error),
        };
        let spec = present.as_ref().map(|lease| serde_json::from_value(lease["spec"].clone()).unwrap_or_default());
        // The time from before the request: the lease must not seem to be younger than it is.
        let now = Instant::now();
        match self.elector.step(spec, now, &dates::micros()) {
            Step::Wait => Ok(()),
            Step::Create(spec) => {
                let name = &self.inner.options.election_id;
                let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec});
                self.write(Method::POST, &self.leases.clone(), body, spec, now).await
            }
            Step::Write(spec) => {
                // Its resourceVersion lets the write fail if another one wrote meanwhile.
                let mut body = present.unwrap_or_default();
                body["spec"] = json!(spec);
                self.write(Method::PUT, &path, body, spec, now).await
            }
        }
    }

    async fn write(
        &mut self,
        method: Method,
        path: &str,
        body: Value,
        spec: LeaseSpec,
        now: Instant,
    ) -> Result<(), ApiError> {
        match self.api.send(method, path, JSON, &body).await {
            Ok(lease) => {
                let written = serde_json::from_value(lease["spec"].clone()).unwrap_or(spec);
                self.elector.wrote(written, now);
                self.lease = lease;
                Ok(())
            }
            // Another one was faster.
            Err(error) if error.code() == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn report(&mut self, outcome: Result<(), ApiError>) {
        let message = outcome.err().map(|error| format!("the Lease {}: {error}", self.inner.options.election_id));
        if let Some(message) = message.as_ref().filter(|message| self.told.as_ref() != Some(*message)) {
            self.inner.log(Severity::Warning, message);
        }
        self.told = message;
    }

    /// Gives the Lease up at the end, so that another one leads at once.
    pub(crate) async fn release(&mut self) {
        let Some(spec) = self.elector.release(Instant::now(), &dates::micros()) else { return };
        let mut body = std::mem::take(&mut self.lease);
        body["spec"] = json!(spec);
        let path = format!("{}/{}", self.leases, self.inner.options.election_id);
        // Without an answer, the lease ends by itself.
        let outcome = self.api.send(Method::PUT, &path, JSON, &body).await;
        if outcome.is_err_and(|error| error.code() == 409) {
            // A renewal was on its way, so the Lease is newer than the one known here.
            let Ok(mut present) = self.api.get(&path).await else { return };
            if present["spec"]["holderIdentity"] == json!(self.inner.options.identity) {
                present["spec"] = json!(spec);
                let _ = self.api.send(Method::PUT, &path, JSON, &present).await;
            }
        }
    }
}
