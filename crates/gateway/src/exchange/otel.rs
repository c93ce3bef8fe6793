//! The trace context of a request: read from its fields, made, passed on, and shown in `$otel_…`. As in nginx it begins
//! with the first location that a request comes to, or with the first variable that shows a part of it, and internal
//! redirects and subrequests keep it.

use crate::base::values::bytes;
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use http1::edit::{Names, SetHow};
use rules::trace_context::{SpanId, TraceParent, join_tracestate, write_hex};
use rules::variable::OtelVariable;
use std::cell::{Cell, OnceCell};
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use std::sync::Arc;

const TRACEPARENT: &[u8] = b"traceparent";
const TRACESTATE: &[u8] = b"tracestate";

/// The trace context of a request, once it is needed.
#[derive(Debug, Default)]
pub(crate) struct Otel(OnceCell<Rc<OtelTrace>>);

/// The trace of a request.
#[derive(Debug)]
pub(crate) struct OtelTrace {
    /// The client's span.
    pub(crate) parent: Option<TraceParent>,
    /// `tracestate`
    pub(crate) state: Arc<str>,
    /// The trace, and the span of this request.
    pub(crate) own: TraceParent,
    /// Whether it is recorded.
    pub(crate) recorded: Cell<bool>,
}

impl Otel {
    /// The trace, if it has begun.
    pub(crate) fn begun(&self) -> Option<&Rc<OtelTrace>> {
        self.0.get()
    }

    /// The trace that a subrequest has from its starter.
    pub(crate) fn inherit(&self, trace: Rc<OtelTrace>) {
        let _ = self.0.set(trace);
    }
}

/// The id of a new span. Unique, not secret: it comes from the standard library's hash keys, which are random per thread
/// and differ from one another.
pub(crate) fn new_span_id(salt: u64) -> SpanId {
    // The id must not be 0.
    RandomState::new().hash_one(salt).max(1).to_be_bytes()
}

impl Exchange {
    /// A location was found for the client's request: decides whether its trace is recorded, and what is passed on.
    pub(crate) fn begin_trace(&mut self) {
        let Some(plan) = &self.location().otel else { return };
        if self.routing.target.internal || self.is_subrequest() {
            return;
        }
        let mut value = Vec::new();
        if let Some(on) = &plan.on {
            on.write(&ExchangeView::of(self), &mut value);
        }
        let (recorded, injects) = (matches!(&*value, b"on" | b"1"), plan.injects);
        if !recorded && !injects && !plan.extracts {
            return;
        }
        let trace = Rc::clone(self.otel_trace());
        trace.recorded.set(recorded);
        if injects {
            let parent = TraceParent { sampled: recorded, ..trace.own }.text();
            let request = &mut *self.request;
            for (name, value) in [(TRACEPARENT, parent.as_bytes()), (TRACESTATE, trace.state.as_bytes())] {
                if value.is_empty() {
                    request.head.remove_fields(&request.bytes, Names::Exact(name));
                } else {
                    // Only a Host can be refused.
                    let _ = request.head.set_field(&mut request.bytes, name, value, SetHow::Always);
                }
            }
        }
    }

    fn otel_trace(&self) -> &Rc<OtelTrace> {
        self.routing.otel.0.get_or_init(|| {
            let extracts = self.location().otel.as_ref().is_some_and(|plan| plan.extracts);
            let parent = if extracts { self.sent_parent() } else { None };
            let state = if parent.is_some() { join_tracestate(self.sent_values(TRACESTATE)) } else { Vec::new() };
            let serial = self.down.serial();
            let trace_id = parent.map_or_else(
                || {
                    let halves = [new_span_id(serial), new_span_id(!serial)].concat();
                    halves.try_into().unwrap_or([1; 16])
                },
                |parent| parent.trace_id,
            );
            Rc::new(OtelTrace {
                parent,
                // The parser lets ASCII pass only.
                state: String::from_utf8(state).unwrap_or_default().into(),
                own: TraceParent { trace_id, span_id: new_span_id(serial), sampled: false },
                recorded: Cell::new(false),
            })
        })
    }

    /// The `traceparent` of the request; one that was sent twice is not valid.
    fn sent_parent(&self) -> Option<TraceParent> {
        let mut values = self.sent_values(TRACEPARENT);
        let first = values.next()?;
        if values.next().is_some() { None } else { TraceParent::parse(first) }
    }

    fn sent_values<'a>(&'a self, name: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
        let bytes = &self.request.bytes;
        let fields = self.request.head.fields.iter();
        fields.filter(move |field| field.name.of(bytes).eq_ignore_ascii_case(name)).map(|field| field.value.of(bytes))
    }

    /// `$otel_…`
    pub(crate) fn write_otel(&self, variable: OtelVariable, out: &mut Vec<u8>) -> bool {
        let trace = self.otel_trace();
        let mut text = String::new();
        match (variable, &trace.parent) {
            (OtelVariable::TraceId, _) => write_hex(&trace.own.trace_id, &mut text),
            (OtelVariable::SpanId, _) => write_hex(&trace.own.span_id, &mut text),
            (OtelVariable::ParentId, Some(parent)) => write_hex(&parent.span_id, &mut text),
            (OtelVariable::ParentId, None) => return false,
            (OtelVariable::ParentSampled, parent) => {
                text.push(if parent.is_some_and(|parent| parent.sampled) { '1' } else { '0' });
            }
        }
        bytes(text.as_bytes(), out)
    }
}
