//! Subrequests: an exchange starts another one in its worker and waits for its result. `auth_request`, `mirror`,
//! additions, `ssi`, `slice` and background cache updates use them.

use crate::downstream::Asker;
use crate::downstream::internal::{Ended, Internal, Start, Subrequest, WantedParts, connect};
use crate::downstream::reply_head::Fields;
use crate::exchange::admission::Admission;
use crate::exchange::attempts::Attempts;
use crate::exchange::including::Inclusion;
use crate::exchange::otel::OtelTrace;
use crate::exchange::step::Redirect;
use crate::exchange::target::Target;
use crate::exchange::user_id::UserIds;
use crate::exchange::view::ExchangeView;
use crate::exchange::waiting::{ClientLeft, Wants};
use crate::exchange::{Begin, Beginning, Exchange};
use crate::plan::access::SlotValue;
use crate::plan::slice::SlicePlan;
use crate::upstream::replay_body::ReplayBody;
use http1::{FieldId, Method};
use jwt::Token;
use reactor::Woken;
use rules::captures::Captures;
use rules::slice::Slice;
use rules::slots::VarSlots;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How often a starter checks a silent subrequest. The subrequest's own timeouts end it earlier.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_hours(1);

/// A subrequest to start.
pub(crate) struct Errand {
    /// Its URI, as configured.
    pub(crate) uri: Vec<u8>,
    pub(crate) method: Method,
    pub(crate) wanted: WantedParts,
    pub(crate) body: ReplayBody,
    /// Variables that are set when it has ended.
    pub(crate) sets: Option<Arc<[SlotValue]>>,
    /// The character set of the response that its body becomes a part of; empty if that names none.
    pub(crate) charset: Option<Box<[u8]>>,
    /// It runs the content of its starter's own location; `uri` is not used.
    pub(crate) resumes: Option<Resumes>,
    pub(crate) args: Option<Vec<u8>>,
    /// A page includes it (`ssi`).
    pub(crate) inclusion: Option<Box<Inclusion>>,
}

/// Why a subrequest runs the content of its starter.
#[derive(Clone)]
pub(crate) enum Resumes {
    /// To renew a cached response.
    Update,
    /// To get a slice of the response; the starter receives the attempts' records.
    Slice(Slice, Rc<RefCell<Attempts>>),
}

impl Errand {
    /// GET for a body that becomes a part of the starter's.
    pub(crate) fn for_body(uri: Vec<u8>, charset: Box<[u8]>) -> Self {
        let (wanted, body) = (WantedParts::Body, ReplayBody::None);
        let charset = Some(charset);
        Self { uri, method: Method::Get, wanted, body, sets: None, charset, resumes: None, args: None, inclusion: None }
    }

    /// GET for a body that the starter reads itself.
    pub(crate) fn for_reading(uri: Vec<u8>) -> Self {
        Self { charset: None, ..Self::for_body(uri, Box::default()) }
    }

    /// GET or HEAD for a slice of the starter's own response.
    pub(crate) fn for_slice(slice: Slice, method: Method, attempts: &Rc<RefCell<Attempts>>) -> Self {
        Self {
            uri: Vec::new(),
            method,
            wanted: WantedParts::Response,
            body: ReplayBody::None,
            sets: None,
            charset: None,
            resumes: Some(Resumes::Slice(slice, Rc::clone(attempts))),
            args: None,
            inclusion: None,
        }
    }
}

/// What a subrequest inherits from the exchange that started it.
pub(crate) struct Inherited {
    pub(crate) errand: Errand,
    pub(crate) server: u32,
    pub(crate) slots: VarSlots,
    pub(crate) admission: Admission,
    pub(crate) request_id: u128,
    pub(crate) user_ids: UserIds,
    /// The token of `auth_jwt`.
    pub(crate) token: Option<Rc<Token>>,
    /// The trace context.
    pub(crate) trace: Option<Rc<OtelTrace>>,
    /// The starter's target, for an update.
    pub(crate) resumed: Option<(Target, Captures)>,
}

impl Exchange {
    /// Starts a subrequest; the worker runs it while this exchange waits.
    pub(crate) fn start(&mut self, errand: Errand) -> Subrequest {
        // A starter that waits gets its variables back.
        let slots = match errand.wanted {
            WantedParts::Nothing | WantedParts::Body | WantedParts::Response => self.routing.slots.clone(),
            WantedParts::Status => std::mem::take(&mut self.routing.slots),
        };
        self.start_with(errand, slots)
    }

    /// The same with these variables.
    pub(crate) fn start_with(&self, errand: Errand, slots: VarSlots) -> Subrequest {
        let start = Start {
            client: self.down.copy_client(),
            starter: self.task(),
            wanted: errand.wanted,
            method: self.asked_method(),
            sets: errand.sets.clone(),
        };
        let (internal, subrequest) = connect(&self.thread, start);
        let mut request = self.spares.request(&self.thread.memory);
        request.copy_head(&self.request);
        let resumed = errand.resumes.as_ref().map(|_| {
            request.uri.clone_from(&self.request.uri);
            request.args.clone_from(&self.request.args);
            (self.routing.target.clone(), self.routing.captures.borrow().clone())
        });
        let admission = self.admission.inherited();
        let inherited = Inherited {
            errand,
            server: self.routing.target.server,
            slots,
            admission,
            request_id: self.request_id(),
            user_ids: self.response.user_ids.inherited(),
            token: self.routing.token.clone(),
            trace: self.routing.otel.begun().cloned(),
            resumed,
        };
        self.spares.start(Begin {
            thread: Rc::clone(&self.thread),
            spares: Rc::clone(&self.spares),
            generation: Rc::clone(&self.generation),
            asker: Asker::Exchange(internal),
            request,
            beginning: Beginning::Subrequest(Box::new(inherited)),
        });
        subrequest
    }

    /// Waits for the end of a subrequest, and takes the variables back.
    pub(crate) async fn end_of(&mut self, subrequest: Subrequest) -> Result<Ended, ClientLeft> {
        loop {
            if let Some(mut ended) = subrequest.ended() {
                self.routing.slots = std::mem::take(&mut ended.slots);
                return Ok(ended);
            }
            if self.wait(Wants::NOTHING, LOOK_AGAIN).await == Woken::PeerGone {
                return Err(ClientLeft);
            }
        }
    }

    /// The target at which a subrequest starts; `None`: the starter's own.
    pub(crate) fn take_on(&mut self, inherited: Inherited) -> Option<Redirect> {
        let Inherited { errand, server, slots, admission, request_id, user_ids, token, trace, resumed } = inherited;
        self.routing.token = token;
        if let Some(trace) = trace {
            self.routing.otel.inherit(trace);
        }
        self.response.user_ids = user_ids;
        self.routing.target.server = server;
        self.routing.slots = slots;
        self.routing.method = errand.method;
        self.response.become_part(errand.charset);
        self.response.inclusion = errand.inclusion;
        self.admission = admission;
        self.set_request_id(request_id);
        if let Some((target, captures)) = resumed {
            self.routing.target = target;
            self.routing.captures = captures.into();
            match errand.resumes {
                Some(Resumes::Slice(slice, attempts)) => {
                    self.routing.slice = Some(slice);
                    self.upstream.report_attempts_to(attempts);
                }
                Some(Resumes::Update) | None => self.routing.is_update = true,
            }
            return None;
        }
        Some(Redirect::Uri { uri: errand.uri, args: errand.args })
    }

    /// Sets the variables of `auth_request_set`.
    pub(crate) fn set_variables(&self) {
        let Some(sets) = self.down.internal().and_then(|internal| internal.sets()) else { return };
        for set in sets {
            let mut value = Vec::new();
            set.value.write(&ExchangeView::of(self), &mut value);
            self.routing.slots.set(set.slot, &value);
        }
    }

    /// The result for the exchange that started this one.
    pub(crate) fn ended(&mut self) -> Ended {
        let mut challenges = Fields::default();
        if self.response.status() == 401
            && let Some(answer) = self.answer()
        {
            for field in answer.head.fields.iter().filter(|field| field.id == FieldId::WwwAuthenticate) {
                challenges.push_named(field.name.of(&answer.bytes), field.value.of(&answer.bytes));
            }
        }
        self.upstream.report_attempts();
        let had_content = self.response.filters.had_content();
        Ended {
            status: self.response.status(),
            challenges,
            had_content,
            slots: std::mem::take(&mut self.routing.slots),
        }
    }

    /// The `slice` plan, if the location's content is requested in slices.
    pub(crate) fn is_sliced(&self) -> Option<SlicePlan> {
        let is_asked = matches!(self.routing.method, Method::Get | Method::Head) && !self.is_subrequest();
        self.location().slice.filter(|_| is_asked)
    }

    /// The first slice that the request needs.
    pub(crate) fn first_slice(&self, plan: SlicePlan) -> Slice {
        let asked = |id| self.request.head.value(id, &self.request.bytes);
        Slice::first(plan.size, asked(FieldId::Range), asked(FieldId::IfRange).is_some())
    }

    /// `$slice_range`
    pub(crate) fn slice_range(&self) -> Option<Slice> {
        let own = || self.is_sliced().filter(|_| self.response.status() == 0);
        self.routing.slice.or_else(|| own().map(|plan| self.first_slice(plan)))
    }

    /// The method of the client's request: `$request_method`.
    pub(crate) fn asked_method(&self) -> Method {
        self.down.internal().map_or(self.routing.method, Internal::method)
    }

    /// Whether another exchange has started this one.
    pub(crate) fn is_subrequest(&self) -> bool {
        self.down.internal().is_some()
    }
}
