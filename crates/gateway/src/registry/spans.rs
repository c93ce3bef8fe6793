//! Finished spans on their way to the control plane, which sends them to a collector. Workers only append to a bounded
//! queue; a span that finds it full is dropped and counted. It belongs to the process and outlives generations.

pub use crate::plan::otel::ExporterPlan;
pub use rules::trace_context::{SpanId, TraceId};

use crate::base::alarm::{Alarm, and_more};
use crate::base::logs::error::{ErrorLog, Level};
use crate::registry::ocsp::ControlBell;
use reactor::{Millis, monotonic_millis};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most bytes of waiting spans, even if `batch_size` and `batch_count` permit more: a span has about 1 KB, so this
/// is 16,000 of them. They are not part of `memory_budget`, like log lines.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Longest text of a span, in bytes: names and values from requests are cut there.
pub(crate) const TEXT_BYTES_MAX: usize = 2048;

/// What a span without its texts takes, roughly.
const SPAN_BYTES: usize = size_of::<Span>() + 16 * size_of::<(Cow<'static, str>, SpanValue)>();

/// A finished span.
#[derive(Debug, Clone)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace_id: TraceId,
    /// Its id.
    pub id: SpanId,
    /// The span above it.
    pub parent: Option<SpanId>,
    /// `tracestate`
    pub state: Arc<str>,
    /// Its name.
    pub name: String,
    /// What it records.
    pub kind: SpanKind,
    /// Nanoseconds since the epoch; the precision is a millisecond.
    pub began_ns: u64,
    /// The same.
    pub ended_ns: u64,
    /// Its attributes.
    pub attributes: Vec<(Cow<'static, str>, SpanValue)>,
    /// Why it counts as failed; `None`: it does not.
    pub error: Option<Cow<'static, str>>,
}

/// What a span records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// The exchange with a client.
    Server,
    /// An attempt at a peer.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpanValue {
    /// A text.
    Text(String),
    /// A list of one text, as values of fields are written.
    Texts(String),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
}

impl Span {
    fn bytes(&self) -> usize {
        let value = |value: &SpanValue| match value {
            SpanValue::Text(text) | SpanValue::Texts(text) => text.len(),
            SpanValue::Number(_) | SpanValue::Flag(_) => 0,
        };
        let attributes: usize = self.attributes.iter().map(|(name, of)| name.len() + value(of)).sum();
        SPAN_BYTES + self.name.len() + self.state.len() + attributes
    }
}

/// Text for a span: valid UTF-8 of limited length.
pub(crate) fn span_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..TEXT_BYTES_MAX).unwrap_or(bytes)).into_owned()
}

/// Finished spans of the process.
#[derive(Default)]
pub struct Spans {
    queue: Mutex<Queue>,
    bell: ControlBell,
    exported: AtomicU64,
    failed: AtomicU64,
    dropped: Alarm,
}

#[derive(Default)]
struct Queue {
    /// Number of the generation that has this exporter.
    generation: u64,
    exporter: Option<Arc<ExporterPlan>>,
    waiting: VecDeque<Span>,
    bytes: usize,
    /// When the oldest of them was appended.
    oldest: Option<Millis>,
}

/// What became of the spans so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpanCounts {
    /// The collector has accepted them.
    pub exported: u64,
    /// They found the queue full.
    pub dropped: u64,
    /// The collector refused them, or could not be reached.
    pub failed: u64,
}

/// What waits to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingSpans {
    /// Their number.
    pub count: usize,
    /// When the oldest of them was appended.
    pub oldest: Millis,
}

impl Spans {
    /// Registers the control plane: `notify` is called, from any thread, when there is something to do. Only the first
    /// call counts.
    pub fn attach(&self, notify: impl Fn() + Send + Sync + 'static) {
        self.bell.attach(notify);
    }

    /// Sets the exporter. Each worker calls it when it switches to a generation.
    pub(crate) fn apply(&self, generation: u64, exporter: Option<&Arc<ExporterPlan>>) {
        let mut queue = self.lock();
        if generation <= queue.generation {
            return;
        }
        queue.generation = generation;
        if queue.exporter.as_ref() == exporter {
            return;
        }
        queue.exporter = exporter.cloned();
        if exporter.is_none() {
            *queue = Queue { generation, ..Queue::default() };
        }
        drop(queue);
        self.bell.ring();
    }

    /// The exporter; `None`: spans are not recorded.
    pub fn exporter(&self) -> Option<Arc<ExporterPlan>> {
        self.lock().exporter.clone()
    }

    /// Appends spans.
    pub(crate) fn push(&self, spans: impl IntoIterator<Item = Span>, log: &ErrorLog) {
        let now = monotonic_millis();
        let mut queue = self.lock();
        let Some((batch, most)) = queue.exporter.as_ref().map(|plan| (plan.batch_size, plan.waiting_max)) else {
            return;
        };
        let before = queue.waiting.len();
        let mut dropped = 0;
        for span in spans {
            let bytes = span.bytes();
            if queue.waiting.len() >= most || queue.bytes + bytes > WAITING_BYTES_MAX {
                dropped += 1;
                continue;
            }
            queue.bytes += bytes;
            queue.waiting.push_back(span);
        }
        let after = queue.waiting.len();
        if before == 0 && after > 0 {
            queue.oldest = Some(now);
        }
        drop(queue);
        if (before == 0 && after > 0) || (before < batch && after >= batch) {
            self.bell.ring();
        }
        for _ in 0..dropped {
            if let Some(kept_back) = self.dropped.ring(now) {
                let more = and_more(kept_back);
                log.log(Level::Warn, &format!("otel: a span was dropped, too many wait for the collector{more}"));
            }
        }
    }

    /// What waits; `None`: nothing.
    pub fn waiting(&self) -> Option<WaitingSpans> {
        let queue = self.lock();
        Some(WaitingSpans { count: queue.waiting.len(), oldest: queue.oldest? })
    }

    /// Takes the oldest spans, at most this many.
    pub fn take(&self, most: usize) -> Vec<Span> {
        let mut queue = self.lock();
        let count = most.min(queue.waiting.len());
        let taken: Vec<Span> = queue.waiting.drain(..count).collect();
        queue.bytes -= taken.iter().map(Span::bytes).sum::<usize>().min(queue.bytes);
        // Those that are left came later; waiting a little less than a whole interval is harmless.
        queue.oldest = queue.oldest.filter(|_| !queue.waiting.is_empty());
        taken
    }

    /// Counts spans that were sent, and those of them that the collector did not take.
    pub fn settle(&self, exported: u64, failed: u64) {
        self.exported.fetch_add(exported, Ordering::Relaxed);
        self.failed.fetch_add(failed, Ordering::Relaxed);
    }

    /// What became of the spans so far.
    pub fn counts(&self) -> SpanCounts {
        SpanCounts {
            exported: self.exported.load(Ordering::Relaxed),
            dropped: self.dropped.total(),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    fn plan(batch_size: usize, waiting_max: usize) -> Arc<ExporterPlan> {
        Arc::new(ExporterPlan {
            secure: false,
            host: "::1".to_owned(),
            port: 4317,
            path: None,
            trusted: None,
            headers: Vec::new(),
            interval: Duration::from_secs(5),
            batch_size,
            waiting_max,
            resource: Vec::new(),
        })
    }

    fn span(name: String) -> Span {
        Span {
            trace_id: [1; 16],
            id: [2; 8],
            parent: None,
            state: "".into(),
            name,
            kind: SpanKind::Server,
            began_ns: 0,
            ended_ns: 1,
            attributes: Vec::new(),
            error: None,
        }
    }

    fn push(spans: &Spans, count: usize) {
        spans.push((0..count).map(|number| span(number.to_string())), &ErrorLog::new(Level::Error, 0));
    }

    #[test]
    fn spans_queue_up_to_the_limit_and_drops_are_counted() {
        let spans = Spans::default();
        push(&spans, 1);
        assert_eq!(spans.waiting(), None, "without an exporter nothing is kept");
        spans.apply(1, Some(&plan(2, 3)));
        push(&spans, 5);
        assert_eq!((spans.waiting().unwrap().count, spans.counts().dropped), (3, 2));
        let names = |taken: Vec<Span>| taken.into_iter().map(|span| span.name).collect::<Vec<_>>();
        assert_eq!(names(spans.take(2)), ["0", "1"]);
        assert_eq!(names(spans.take(2)), ["2"]);
        assert_eq!(spans.waiting(), None);
        assert_eq!(spans.lock().bytes, 0);
        spans.settle(2, 1);
        assert_eq!(spans.counts(), SpanCounts { exported: 2, dropped: 2, failed: 1 });
    }

    #[test]
    fn bytes_are_limited_as_well() {
        let spans = Spans::default();
        spans.apply(1, Some(&plan(1, usize::MAX)));
        let large = (0..3).map(|_| span("x".repeat(WAITING_BYTES_MAX / 2 - SPAN_BYTES)));
        spans.push(large, &ErrorLog::new(Level::Error, 0));
        assert_eq!((spans.waiting().unwrap().count, spans.counts().dropped), (2, 1));
    }

    #[test]
    fn first_span_and_full_batch_wake_the_exporter() {
        let (spans, rung) = (Spans::default(), Arc::<AtomicUsize>::default());
        spans.attach({
            let rung = Arc::clone(&rung);
            move || {
                rung.fetch_add(1, Ordering::Relaxed);
            }
        });
        let rung = || rung.swap(0, Ordering::Relaxed);
        spans.apply(1, Some(&plan(3, 10)));
        assert_eq!(rung(), 1);
        spans.apply(2, Some(&plan(3, 10)));
        assert_eq!(rung(), 0, "it is the same");
        let counts = [1, 1, 1, 1].map(|count| {
            push(&spans, count);
            rung()
        });
        assert_eq!(counts, [1, 0, 1, 0]);
        spans.apply(3, None);
        assert_eq!((rung(), spans.waiting()), (1, None));
    }

    #[test]
    fn an_authority_has_brackets_where_they_are_needed() {
        assert_eq!(plan(1, 1).authority(), "[::1]:4317");
        let named = ExporterPlan { host: "collector".to_owned(), ..(*plan(1, 1)).clone() };
        assert_eq!(named.authority(), "collector:4317");
    }
}
