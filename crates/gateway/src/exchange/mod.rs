//! One request and its response: from a complete head to settle. A future exists only for this; it returns what becomes of
//! the connection.

pub(crate) mod attempts;
pub(crate) mod calling;
pub(crate) mod defined;
pub(crate) mod file_parts;
pub(crate) mod offload;
pub(crate) mod one_line;
pub(crate) mod prefetched;
pub(crate) mod proxied_by;
pub(crate) mod reply;
pub(crate) mod spares;
pub(crate) mod step;
pub(crate) mod target;
pub(crate) mod undecided;
pub(crate) mod view;
pub(crate) mod waiting;

use crate::downstream::body::RequestBody;
use crate::downstream::connection::Connection;
use crate::downstream::h1::Downstream;
use crate::downstream::replay_body::ReplayBody;
use crate::downstream::reply_head::Fields;
use crate::downstream::request::{Answer, Request};
use crate::exchange::attempts::Attempts;
use crate::exchange::prefetched::Prefetched;
use crate::exchange::spares::Spares;
use crate::exchange::target::Target;
use crate::exchange::undecided::Undecided;
use crate::filter::chain::Chain;
use crate::plan::client::ClientPlan;
use crate::plan::location::LocationPlan;
use crate::plan::variable_pass::PassUrl;
use crate::registry::generation::Pinned;
use crate::registry::limit_zones::Limited;
use crate::thread::WorkerThread;
use http1::{BodyFraming, Method, RequestError};
use reactor::{Millis, PeerAddress, TaskId};
use rules::captures::Captures;
use rules::slots::VarSlots;
use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use upstream::balance::Seat;

/// What an exchange begins with.
pub(crate) struct Begin {
    pub(crate) thread: Rc<WorkerThread>,
    pub(crate) spares: Rc<Spares>,
    pub(crate) generation: Rc<Pinned>,
    pub(crate) connection: Box<Connection>,
    pub(crate) request: Box<Request>,
    /// The head was not acceptable.
    pub(crate) refusal: Option<Refusal>,
}

/// Why a request is refused before it is routed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Refusal {
    Malformed(RequestError),
    /// `client_header_timeout`.
    HeadTimeout,
    /// The client has left in the middle of its head.
    ClientLeft,
    /// `memory_budget`; the worker has said so.
    OutOfMemory,
}

/// One exchange.
pub(crate) struct Exchange {
    pub(crate) thread: Rc<WorkerThread>,
    pub(crate) spares: Rc<Spares>,
    pub(crate) generation: Rc<Pinned>,
    pub(crate) request: Box<Request>,
    /// The response head of the upstream that was tried last, once something of it is there.
    pub(crate) answer: Option<Box<Answer>>,
    /// What the response's body goes through on its way to the client's side.
    pub(crate) filters: Chain,
    pub(crate) down: Downstream,
    pub(crate) body: RequestBody,
    pub(crate) target: Target,
    pub(crate) captures: RefCell<Captures>,
    /// `$request_id`, once somebody has asked for it.
    request_id: Cell<Option<u128>>,
    /// Values of user-defined variables.
    pub(crate) slots: VarSlots,
    pub(crate) attempts: Attempts,
    /// Which of the location's proxies the exchange uses.
    pub(crate) proxy_place: u16,
    /// What the URL of a `proxy_pass` with variables came to.
    pub(crate) computed: Option<Box<PassUrl>>,
    /// The client's method; an error page is fetched by GET.
    pub(crate) method: Method,
    /// The status under which an error page is sent, whatever its own.
    pub(crate) shown_status: Option<u16>,
    /// Fields of an upstream's response that go with the response that the client gets instead of it.
    pub(crate) carried: Option<Box<Fields>>,
    /// The type that the upstream gave what `X-Accel-Redirect` leads to.
    pub(crate) carried_type: Option<Box<[u8]>>,
    /// `error_page` has no more say.
    pub(crate) error_pages_done: bool,
    /// `proxy_ignore_client_abort` of the proxy that it uses: a client that leaves ends no wait.
    pub(crate) abort_ignored: bool,
    /// The request's body was refused: it is neither measured again nor passed on.
    pub(crate) body_refused: bool,
    /// The request's body, for further attempts and proxies.
    pub(crate) replay: ReplayBody,
    /// A file that was opened while an index was looked for.
    pub(crate) prefetched: Option<Prefetched>,
    /// The status that was, or will be, sent; 0 until it is known.
    pub(crate) status: u16,
    pub(crate) began_at: Millis,
    /// The request as the upstream gets it asks for an upgrade.
    pub(crate) upgrade_sent: bool,
    /// The client whom a trusted proxy has named.
    pub(crate) real_client: Option<Box<PeerAddress>>,
    /// What `limit_req` and `limit_conn` said; `None` until they are asked.
    pub(crate) limited: Option<Box<Limited>>,
    /// `$limit_rate`: bytes per second of the response, once it is known; 0 for no limit.
    pub(crate) limit_rate: Option<u64>,
    /// Its place at the peer that it is with.
    pub(crate) seat: Option<Seat>,
    /// Whether an expression of a variable could not be decided.
    undecided: Cell<Undecided>,
}

impl Exchange {
    pub(crate) fn new(begin: Begin) -> Self {
        let Begin { thread, spares, generation, mut connection, request, refusal } = begin;
        connection.requests = connection.requests.saturating_add(1);
        let head = &request.head;
        let framing = if refusal.is_some() { BodyFraming::None } else { head.framing };
        let keepalive = refusal.is_none() && head.keepalive;
        let began_at = thread.reactor.now();
        Self {
            filters: Chain::default(),
            down: Downstream::new(connection, head.method, head.version, keepalive, generation.keeps_sent),
            body: RequestBody::new(framing),
            answer: None,
            target: Target::default(),
            captures: RefCell::default(),
            request_id: Cell::new(None),
            slots: VarSlots::default(),
            attempts: Attempts::default(),
            proxy_place: 0,
            computed: None,
            method: head.method,
            shown_status: None,
            carried: None,
            carried_type: None,
            error_pages_done: false,
            abort_ignored: false,
            body_refused: false,
            replay: ReplayBody::None,
            prefetched: None,
            status: 0,
            began_at,
            upgrade_sent: false,
            real_client: None,
            limited: None,
            limit_rate: None,
            seat: None,
            undecided: Cell::default(),
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
        let half = || u128::from(RandomState::new().hash_one(self.down.connection.serial));
        let id = half() << 64 | half();
        self.request_id.set(Some(id));
        id
    }

    pub(crate) fn task(&self) -> TaskId {
        self.down.connection.task
    }

    /// The location's settings; the server's own where none matched yet.
    pub(crate) fn location(&self) -> &LocationPlan {
        let id = self.target.location.unwrap_or_else(|| self.generation.server(self.target.server).own);
        self.generation.location(id)
    }

    pub(crate) fn client_plan(&self) -> &ClientPlan {
        &self.location().client
    }

    /// The method that the location sees.
    pub(crate) fn method_name(&self) -> &[u8] {
        if self.method == Method::Other || self.method == self.request.head.method {
            return self.request.head.method_name.of(&self.request.bytes);
        }
        self.method.name().as_bytes()
    }
}
