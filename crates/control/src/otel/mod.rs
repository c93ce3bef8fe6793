//! Sends finished spans to a collector: waits for a batch, sends it, and tries again with growing pauses. Workers never
//! wait for it: what does not fit their queue is dropped there. `client` makes calls, `messages` has what they carry.

mod client;
mod grpc;
mod messages;

use crate::bell::ringer;
use crate::otel::client::{Client, Fault};
use crate::otel::messages::{Acceptance, encode_request};
use gateway::spans::{ExporterPlan, Span};
use gateway::{Level, Registry};
use reactor::monotonic_millis;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// Most attempts to send a batch.
const ATTEMPTS_MAX: u32 = 5;
/// The pause after the first failure; it doubles. With the five attempts a batch is given up after about 15 s and the
/// time of its calls.
const PAUSE: Duration = Duration::from_secs(1);
/// Time for what waits when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// At most one line about failures is written in this time.
const LINE_PAUSE: Duration = Duration::from_mins(1);

/// Connects to the registry. The bell signals that spans wait, or another exporter.
pub(crate) fn attach(registry: &'static Registry) -> Arc<Notify> {
    let bell = Arc::new(Notify::new());
    registry.spans().attach(ringer(&bell));
    bell
}

/// Sends spans.
pub(crate) struct Sender {
    registry: &'static Registry,
    bell: Arc<Notify>,
    client: Option<Client>,
    /// The batch that is being sent, and how often that has failed.
    batch: Vec<Span>,
    failures: u32,
    lines: Lines,
}

/// Lines about failures.
#[derive(Default)]
struct Lines {
    last: Option<Instant>,
    spans: u64,
}

impl Sender {
    pub(crate) fn new(registry: &'static Registry, bell: Arc<Notify>) -> Self {
        Self { registry, bell, client: None, batch: Vec::new(), failures: 0, lines: Lines::default() }
    }

    /// Runs as long as the control plane.
    pub(crate) async fn run(&mut self) {
        loop {
            self.adopt_exporter();
            if let Some(pause) = self.pause() {
                tokio::select! {
                    () = self.bell.notified() => {}
                    () = sleep(pause) => {}
                }
            } else {
                self.send().await;
                if self.failures > 0 {
                    // Up to a quarter more, so that many gateways do not come back at once.
                    let pause = PAUSE * (1 << (self.failures - 1).min(ATTEMPTS_MAX));
                    sleep(pause + pause.mul_f64(fastrand::f64() / 4.0)).await;
                }
            }
        }
    }

    /// Sends what waits, each batch once, when the process ends.
    pub(crate) async fn flush(&mut self) {
        self.adopt_exporter();
        if let Some(client) = &mut self.client {
            client.forget_connection();
        }
        let sent = timeout(FLUSH_TIMEOUT, async {
            self.failures = 0;
            while self.failures == 0 && (!self.batch.is_empty() || self.registry.spans().waiting().is_some()) {
                self.send().await;
            }
        });
        let _ = sent.await;
        let left = self.batch.len() + self.registry.spans().waiting().map_or(0, |waiting| waiting.count);
        if left > 0 {
            let message = format!("otel: {left} spans were not sent before the end");
            self.registry.error_log().log(Level::Warn, &message);
        }
    }

    /// Takes over the exporter of the configuration in force.
    fn adopt_exporter(&mut self) {
        let plan = self.registry.spans().exporter();
        if self.client.as_ref().map(|client| &client.plan) == plan.as_ref() {
            return;
        }
        self.client = plan.and_then(|plan| {
            let client = Client::new(plan);
            client.map_err(|error| self.registry.error_log().log(Level::Error, &format!("otel: {error}"))).ok()
        });
        if self.client.is_none() {
            self.batch.clear();
        }
        self.failures = 0;
    }

    /// How long to wait until there is something to send; `None`: there is.
    fn pause(&self) -> Option<Duration> {
        /// How long to wait for the bell if nothing waits.
        const LONG: Duration = Duration::from_hours(1);
        let Some(plan) = self.client.as_ref().map(|client| &client.plan) else { return Some(LONG) };
        if !self.batch.is_empty() {
            return None;
        }
        let Some(waiting) = self.registry.spans().waiting() else { return Some(LONG) };
        let waited = Duration::from_millis(monotonic_millis().since(waiting.oldest));
        let is_due = waiting.count >= plan.batch_size || waited >= plan.interval;
        // A pause of 0 ms would spin.
        (!is_due).then(|| plan.interval.saturating_sub(waited).max(Duration::from_millis(1)))
    }

    /// Sends the batch in hand, or the next one, once.
    async fn send(&mut self) {
        let Some(client) = &mut self.client else { return };
        if self.batch.is_empty() {
            self.batch = self.registry.spans().take(client.plan.batch_size);
        }
        let message = encode_request(&client.plan.resource, &self.batch);
        let plan = Arc::clone(&client.plan);
        let result = client.send(&message).await;
        let count = self.batch.len() as u64;
        match result {
            Ok(Acceptance { rejected, reason }) => {
                let rejected = rejected.min(count);
                self.registry.spans().settle(count - rejected, rejected);
                self.batch.clear();
                self.failures = 0;
                if rejected > 0 {
                    let shown = reason.escape_debug().take(200).collect::<String>();
                    self.report(&plan, rejected, &format!("the collector has rejected them: {shown}"));
                }
            }
            Err(fault) => self.fail(&plan, &fault),
        }
    }

    fn fail(&mut self, plan: &ExporterPlan, fault: &Fault) {
        self.failures += 1;
        if fault.is_passing && self.failures < ATTEMPTS_MAX {
            return;
        }
        let count = self.batch.len() as u64;
        self.registry.spans().settle(0, count);
        self.batch.clear();
        // The next batch waits before its second attempt already: the collector is in trouble.
        self.failures = 1;
        self.report(plan, count, &fault.text);
    }

    /// Logs lost spans, at most once a minute.
    fn report(&mut self, plan: &ExporterPlan, spans: u64, reason: &str) {
        self.lines.spans += spans;
        let now = Instant::now();
        if self.lines.last.is_some_and(|last| now.duration_since(last) < LINE_PAUSE) {
            return;
        }
        self.lines.last = Some(now);
        let spans = std::mem::take(&mut self.lines.spans);
        let message = format!("otel: {spans} spans are lost, {reason}, collector: {}", plan.authority());
        self.registry.error_log().log(Level::Error, &message);
    }
}
