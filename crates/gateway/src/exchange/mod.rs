//! One request and its response: from a complete head to settle. A future exists only for this; it returns what happens
//! to the connection.

pub(crate) mod admission;
pub(crate) mod attempts;
pub(crate) mod caching;
pub(crate) mod calling;
pub(crate) mod conversation;
pub(crate) mod ending;
pub(crate) mod error_lines;
pub(crate) mod file_parts;
pub(crate) mod including;
pub(crate) mod intake;
pub(crate) mod links;
pub(crate) mod offload;
pub(crate) mod one_line;
pub(crate) mod otel;
pub(crate) mod prefetched;
pub(crate) mod proxied_by;
pub(crate) mod reply;
pub(crate) mod request_trace;
pub(crate) mod response;
pub(crate) mod routing;
pub(crate) mod saving;
pub(crate) mod script;
pub(crate) mod socket_view;
pub(crate) mod spares;
pub(crate) mod step;
pub(crate) mod subrequest;
pub(crate) mod target;
pub(crate) mod tls_view;
pub(crate) mod token;
pub(crate) mod trace;
pub(crate) mod undecided;
pub(crate) mod user_id;
pub(crate) mod variable_inputs;
pub(crate) mod view;
pub(crate) mod waiting;

use crate::downstream::body::RequestBody;
use crate::downstream::request::Request;
use crate::downstream::{Asker, Downstream};
use crate::exchange::admission::Admission;
use crate::exchange::conversation::Conversation;
use crate::exchange::intake::Intake;
use crate::exchange::response::Response;
use crate::exchange::routing::Routing;
use crate::exchange::spares::Spares;
use crate::exchange::subrequest::Inherited;
use crate::plan::client::ClientPlan;
use crate::plan::location::LocationPlan;
use crate::registry::generation::Pinned;
use crate::thread::WorkerThread;
use http1::{BodyFraming, Method, RequestError};
use reactor::{Micros, TaskId};
use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;

/// The start values of an exchange.
pub(crate) struct Begin {
    pub(crate) thread: Rc<WorkerThread>,
    pub(crate) spares: Rc<Spares>,
    pub(crate) generation: Rc<Pinned>,
    pub(crate) asker: Asker,
    pub(crate) request: Box<Request>,
    pub(crate) beginning: Beginning,
}

/// Where an exchange starts.
pub(crate) enum Beginning {
    /// With a complete head.
    Head,
    /// With a head that was refused.
    Refused(Refusal),
    /// As a subrequest of another exchange.
    Subrequest(Box<Inherited>),
}

/// Why a request is refused before it is routed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Refusal {
    Malformed(RequestError),
    /// `client_header_timeout`.
    HeadTimeout,
    /// The client left in the middle of its head.
    ClientLeft,
    /// `memory_budget`; the worker has logged it.
    OutOfMemory,
}

/// One exchange.
pub(crate) struct Exchange {
    pub(crate) thread: Rc<WorkerThread>,
    pub(crate) spares: Rc<Spares>,
    pub(crate) generation: Rc<Pinned>,
    pub(crate) request: Box<Request>,
    pub(crate) routing: Routing,
    pub(crate) admission: Admission,
    pub(crate) intake: Intake,
    pub(crate) upstream: Conversation,
    pub(crate) response: Response,
    pub(crate) down: Downstream,
    pub(crate) began_at: Micros,
    /// `$request_id`, once it was needed.
    request_id: Cell<Option<u128>>,
}

impl Exchange {
    /// Makes the exchange in place: returning it together with something else, or taking it by value, copies about 800
    /// bytes.
    pub(crate) fn new(
        thread: Rc<WorkerThread>,
        spares: Rc<Spares>,
        generation: Rc<Pinned>,
        mut asker: Asker,
        request: Box<Request>,
        beginning: &Beginning,
    ) -> Self {
        asker.count_request();
        let head = &request.head;
        let intake = match beginning {
            Beginning::Head => Intake::new(asker.request_body(head.framing)),
            Beginning::Refused(_) => Intake::new(RequestBody::new(BodyFraming::None)),
            Beginning::Subrequest(inherited) => Intake::of_body(inherited.errand.body.clone()),
        };
        let keepalive = matches!(beginning, Beginning::Head) && head.keepalive;
        let began_at = thread.reactor.now_us();
        Self {
            routing: Routing::new(head.method),
            admission: Admission::default(),
            intake,
            upstream: Conversation::default(),
            response: Response::default(),
            down: Downstream::new(asker, head.method, head.version, keepalive, generation.keeps_sent),
            began_at,
            request_id: Cell::new(None),
            thread,
            spares,
            generation,
            request,
        }
    }

    /// `$request_id`: 16 random bytes, the same for the whole exchange. Unique, not secret: they come from the standard
    /// library's hash keys, which are random per thread and differ from one another.
    pub(crate) fn request_id(&self) -> u128 {
        if let Some(id) = self.request_id.get() {
            return id;
        }
        let half = || u128::from(RandomState::new().hash_one(self.down.serial()));
        let id = half() << 64 | half();
        self.request_id.set(Some(id));
        id
    }

    /// The same for a subrequest: it has the id of the client's request.
    pub(crate) fn set_request_id(&self, id: u128) {
        self.request_id.set(Some(id));
    }

    pub(crate) fn task(&self) -> TaskId {
        self.down.task()
    }

    /// The location's settings; the server's own if no location was matched yet.
    pub(crate) fn location(&self) -> &LocationPlan {
        let id = self.routing.target.location.unwrap_or_else(|| self.generation.server(self.routing.target.server).own);
        self.generation.location(id)
    }

    pub(crate) fn client_plan(&self) -> &ClientPlan {
        &self.location().client
    }

    /// The method that the location sees.
    pub(crate) fn method_name(&self) -> &[u8] {
        self.name_of(self.routing.method)
    }

    /// The name of a method: the client's own, or the one that replaced it.
    pub(crate) fn name_of(&self, method: Method) -> &[u8] {
        if method == Method::Other || method == self.request.head.method {
            return self.request.head.method_name.of(&self.request.bytes);
        }
        method.name().as_bytes()
    }
}
