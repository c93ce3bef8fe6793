//! One request and its response: from a complete head to settle. A future exists only for this; it returns what becomes of
//! the connection.

mod attempt;
mod body;
mod downstream;
mod proxied_head;
mod proxy;
mod relay;
mod reply;
mod request_body;
mod settle;
mod view;

pub(crate) use settle::log_tunnel;
pub(crate) use view::{ExchangeView, is_served};

use crate::close::CloseReason;
use crate::connection::Connection;
use crate::generation::{ClientPlan, Content, LocationId, LocationPlan, Pinned};
use crate::request::Request;
use crate::tunnel::{Tunnel, TunnelStart};
use crate::worker::{LingerPlan, Worker, executor};
use body::RequestBody;
use downstream::Downstream;
use http1::{BodyFraming, RequestError, TargetForm};
use proxy::Attempts;
use reactor::{Millis, TaskId};
use reply::Reply;
use rules::captures::Captures;
use rules::location::Found;
use rules::pattern::Pattern;
use rules::uri::{ParsedTarget, parse_target};
use std::rc::Rc;
use std::time::Duration;

/// Internal redirects of one exchange, as in nginx: more is a loop in the configuration.
const REDIRECTS_MAX: u32 = 10;

/// What an exchange begins with.
pub(crate) struct Begin {
    pub(crate) worker: Rc<Worker>,
    pub(crate) generation: Rc<Pinned>,
    pub(crate) connection: Connection,
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
}

/// What becomes of the connection.
pub(crate) enum Next {
    /// It waits for the next request, at most for this long.
    KeepAlive(Connection, Duration),
    /// It is one side of a tunnel from now on.
    Tunnel(Box<Tunnel>),
    /// It is closed, but what the client still sends is read for a while.
    Linger { connection: Connection, reason: CloseReason, plan: LingerPlan },
    /// It was closed already.
    Gone(TaskId, CloseReason),
    /// It is closed.
    Close(Connection, CloseReason),
}

/// Where the request is going: changed by rewrites and internal redirects.
#[derive(Debug, Default)]
pub(crate) struct Target {
    pub(crate) parsed: Option<ParsedTarget>,
    pub(crate) server: u32,
    pub(crate) location: Option<LocationId>,
    /// `$uri` is in `Request::uri`, not in the bytes of the target.
    pub(crate) uri_is_owned: bool,
}

/// One exchange.
pub(crate) struct Exchange {
    pub(crate) worker: Rc<Worker>,
    pub(crate) generation: Rc<Pinned>,
    pub(crate) request: Box<Request>,
    pub(crate) down: Downstream,
    pub(crate) body: RequestBody,
    pub(crate) target: Target,
    pub(crate) captures: Captures,
    /// Values of user-defined variables; empty until there is one.
    pub(crate) slots: Vec<Option<Box<[u8]>>>,
    pub(crate) attempts: Attempts,
    /// The status that was, or will be, sent; 0 until it is known.
    pub(crate) status: u16,
    pub(crate) began_at: Millis,
    /// The connection cannot go on, for this reason.
    pub(crate) close: Option<CloseReason>,
    /// The request as the upstream gets it asks for an upgrade.
    pub(crate) upgrade_sent: bool,
}

/// What a phase of an exchange came to.
pub(crate) enum Step {
    /// A location was found: its content is next.
    Content,
    /// This is the answer.
    Reply(Reply),
    /// The answer was given.
    Served(Served),
}

/// How serving a request ended.
pub(crate) enum Served {
    /// A response was given to the client, as far as that was possible.
    Responded,
    /// The connections became a tunnel's; the line is logged when it ends.
    Tunnel(Box<TunnelStart>),
}

/// Runs one exchange.
pub(crate) async fn run(begin: Begin) -> Next {
    let refusal = begin.refusal;
    let mut exchange = Exchange::new(begin);
    let served = match refusal {
        None => exchange.serve().await,
        Some(refusal) => exchange.refuse(refusal),
    };
    match served {
        Served::Responded => exchange.settle().await,
        Served::Tunnel(start) => exchange.hand_to_tunnel(*start),
    }
}

impl Exchange {
    fn new(begin: Begin) -> Self {
        let Begin { worker, generation, mut connection, request, refusal } = begin;
        connection.requests = connection.requests.saturating_add(1);
        let head = &request.head;
        let framing = if refusal.is_some() { BodyFraming::None } else { head.framing };
        let keepalive = refusal.is_none() && head.keepalive;
        let began_at = worker.reactor.now();
        Self {
            down: Downstream::new(connection, head.method, head.version, keepalive),
            body: RequestBody::new(framing),
            target: Target::default(),
            captures: Captures::default(),
            slots: Vec::new(),
            attempts: Attempts::default(),
            status: 0,
            began_at,
            close: None,
            upgrade_sent: false,
            worker,
            generation,
            request,
        }
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

    /// Waits for anything that happens to this exchange: an event on one of its sockets, a wake-up, or the deadline, which
    /// is answered by `true`.
    pub(crate) async fn wait(&self, at_most: Duration) -> bool {
        let reactor = &self.worker.reactor;
        let task = self.task();
        // A deadline that fired for an earlier wait is not this one's.
        reactor.take_deadline_fired(task);
        reactor.set_deadline(task, Some(reactor.now().after(at_most)));
        executor::suspend().await;
        reactor.take_deadline_fired(task)
    }

    /// Lets other tasks run before this one goes on.
    pub(crate) async fn yield_now(&self) {
        self.worker.reactor.wake(self.task());
        executor::suspend().await;
    }

    /// Routes, and runs what the location says, until there is a response.
    async fn serve(&mut self) -> Served {
        let mut step = self.route();
        for _ in 0..REDIRECTS_MAX {
            match step {
                Step::Served(served) => return served,
                Step::Reply(reply) => return self.respond(&reply),
                Step::Content => step = self.content().await,
            }
        }
        self.error_log("rewrite or internal redirection cycle");
        self.respond(&Reply::error(500))
    }

    /// From the head to a location.
    fn route(&mut self) -> Step {
        if let Err(reply) = self.choose_server().and_then(|()| self.parse_uri()) {
            return Step::Reply(reply);
        }
        let generation = Rc::clone(&self.generation);
        if let Some(plan) = &generation.server(self.target.server).answer {
            return Step::Reply(self.return_reply(plan));
        }
        self.route_uri()
    }

    /// From the present URI to a location.
    fn route_uri(&mut self) -> Step {
        match self.find_location() {
            Err(reply) => Step::Reply(reply),
            Ok(()) => self.check_body_size().map_or(Step::Content, Step::Reply),
        }
    }

    /// Runs the location's content.
    async fn content(&mut self) -> Step {
        let generation = Rc::clone(&self.generation);
        let Some(location) = self.target.location else { return Step::Reply(Reply::error(404)) };
        match &generation.location(location).content {
            Content::Proxy(plan) => self.proxy(plan).await,
            Content::Return(plan) => Step::Reply(self.return_reply(plan)),
            Content::StubStatus => Step::Reply(self.stub_status()),
            Content::Nothing => Step::Reply(Reply::error(404)),
        }
    }

    /// A head that is not acceptable is answered by the default server of the address, and logged there.
    fn refuse(&mut self, refusal: Refusal) -> Served {
        let _ = self.choose_default_server();
        let (status, reason) = match refusal {
            Refusal::Malformed(error) => {
                self.error_log(&format!("{}: {error}", error.phrase()));
                (error.status(), CloseReason::BadRequest)
            }
            Refusal::HeadTimeout => {
                self.error_log("client timed out (110: Connection timed out) while reading client request headers");
                (408, CloseReason::HeadTimeout)
            }
        };
        self.close = Some(reason);
        self.down.keepalive = false;
        self.respond(&Reply::error(status))
    }

    fn choose_default_server(&mut self) -> Result<(), Reply> {
        let generation = Rc::clone(&self.generation);
        let listener = generation.listener(self.down.connection.listener).ok_or_else(|| Reply::error(500))?;
        self.target.server = listener.names.default_server();
        Ok(())
    }

    fn choose_server(&mut self) -> Result<(), Reply> {
        let generation = Rc::clone(&self.generation);
        let listener = generation.listener(self.down.connection.listener).ok_or_else(|| Reply::error(500))?;
        let head = &self.request.head;
        let name = head.host.map_or(&b""[..], |host| host.name.of(&self.request.bytes));
        match listener.names.lookup(name, &mut self.captures) {
            Ok(found) => {
                self.target.server = found.server;
                if let Some(pattern) = found.pattern {
                    store_named(pattern, &self.captures, &mut self.slots);
                }
                Ok(())
            }
            Err(error) => {
                self.target.server = listener.names.default_server();
                self.error_log(&error.message);
                Err(Reply::error(500))
            }
        }
    }

    fn parse_uri(&mut self) -> Result<(), Reply> {
        let generation = Rc::clone(&self.generation);
        let Request { bytes, head, uri, .. } = &mut *self.request;
        if head.target.form == TargetForm::Asterisk {
            // `OPTIONS *` asks about the server as a whole.
            return Err(Reply::empty(204));
        }
        let start = head.target.path.start as usize;
        let raw = bytes.get(start..head.target.raw.end()).unwrap_or_default();
        let merge_slashes = generation.server(self.target.server).merge_slashes;
        match parse_target(raw, merge_slashes, uri) {
            Ok(parsed) => {
                self.target.uri_is_owned = parsed.changed;
                self.target.parsed = Some(parsed);
                Ok(())
            }
            Err(error) => {
                self.error_log(&format!("client sent invalid request: {}", error.explain()));
                self.close = Some(CloseReason::BadRequest);
                self.down.keepalive = false;
                Err(Reply::error(400))
            }
        }
    }

    /// `$uri`: the normalised path.
    pub(crate) fn uri(&self) -> &[u8] {
        let Some(parsed) = &self.target.parsed else { return b"" };
        parsed.path(self.raw_target(), &self.request.uri)
    }

    /// The target from its path on, as the client sent it.
    pub(crate) fn raw_target(&self) -> &[u8] {
        let target = &self.request.head.target;
        self.request.bytes.get(target.path.start as usize..target.raw.end()).unwrap_or_default()
    }

    /// `$args`.
    pub(crate) fn args(&self) -> Option<&[u8]> {
        self.target.parsed.as_ref()?.args(self.raw_target())
    }

    fn find_location(&mut self) -> Result<(), Reply> {
        let generation = Rc::clone(&self.generation);
        let server = generation.server(self.target.server);
        let mut captures = std::mem::take(&mut self.captures);
        let found = server.locations.find(self.uri(), &mut captures);
        self.captures = captures;
        match found {
            Ok(Found::Location { id, pattern }) => {
                self.target.location = Some(LocationId(id));
                if let Some(pattern) = pattern {
                    store_named(pattern, &self.captures, &mut self.slots);
                }
            }
            Ok(Found::Redirect { id }) => {
                self.target.location = Some(LocationId(id));
                return Err(self.slash_redirect());
            }
            Ok(Found::Server) => self.target.location = Some(server.own),
            Err(error) => {
                self.error_log(&error.message);
                return Err(Reply::error(500));
            }
        }
        Ok(())
    }

    /// L8: a body that is announced as too large is refused before it is sent.
    fn check_body_size(&mut self) -> Option<Reply> {
        let limit = self.client_plan().body_size_max;
        let BodyFraming::Length(length) = self.request.head.framing else { return None };
        if limit == 0 || length <= limit {
            return None;
        }
        self.error_log(&format!("client intended to send too large body: {length} bytes"));
        Some(Reply::error(413))
    }
}

/// Stores the named groups of an expression that matched in their variables.
fn store_named(pattern: &Pattern, captures: &Captures, slots: &mut Vec<Option<Box<[u8]>>>) {
    for (group, slot) in pattern.named() {
        let index = usize::from(slot.0);
        if index >= slots.len() {
            slots.resize(index + 1, None);
        }
        slots[index] = captures.group(usize::from(*group)).map(Into::into);
    }
}
