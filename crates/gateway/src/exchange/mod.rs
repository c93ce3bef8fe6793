//! One request and its response: from a complete head to settle. A future exists only for this; it returns what becomes of
//! the connection.

pub(crate) mod defined;

pub(crate) mod offload;

pub(crate) mod one_line;

pub(crate) mod patience;
pub(crate) mod spares;

pub(crate) mod proxied_by;

pub(crate) mod target;

pub(crate) mod undecided;

pub(crate) mod view;

pub(crate) mod waiting;

use crate::base::close::CloseReason;
use crate::base::logs::error::quoted;
use crate::content::files::Prefetched;
use crate::content::proxy::Attempts;
use crate::content::proxy::computed::ClientLeft;
use crate::content::proxy::request_body::ReplayBody;
use crate::content::reply::{Reply, ReplyBody};
use crate::downstream::body::RequestBody;
use crate::downstream::connection::Connection;
use crate::downstream::h1::Downstream;
use crate::downstream::linger::LingerPlan;
use crate::downstream::request::{Answer, Request};
use crate::exchange::spares::Spares;
use crate::exchange::target::Target;
use crate::exchange::undecided::Undecided;
use crate::phases::limits::Limited;
use crate::phases::redirect::Redirect;
use crate::plan::computed::ComputedTarget;
use crate::plan::generation::{ClientPlan, Content, LocationId, LocationPlan, Pinned};
use crate::thread::executor::Desk;
use crate::thread::{WorkerThread, executor};
use crate::tunnel::{Tunnel, TunnelStart};
use http1::{BodyFraming, Method, RequestError};
use reactor::{Millis, PeerAddress, TaskId};
use rules::captures::Captures;
use rules::location::Found;
use rules::reply::STATUS_HEAD_TOO_LARGE;
use rules::slots::VarSlots;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};
use std::rc::Rc;
use std::time::Duration;
use upstream::balance::Seat;

/// Internal redirects of one exchange, as in nginx: more is a loop in the configuration.
const REDIRECTS_MAX: u32 = 10;

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

/// What becomes of the connection.
pub(crate) enum Next {
    /// It waits for the next request, at most for this long.
    KeepAlive(Box<Connection>, Duration),
    /// It is one side of a tunnel from now on.
    Tunnel(Box<Tunnel>),
    /// It is closed, but what the client still sends is read for a while.
    Linger { connection: Box<Connection>, reason: CloseReason, plan: LingerPlan },
    /// It was closed already.
    Gone(TaskId, CloseReason),
    /// It is closed.
    Close(Box<Connection>, CloseReason),
}

/// One exchange.
pub(crate) struct Exchange {
    pub(crate) thread: Rc<WorkerThread>,
    pub(crate) spares: Rc<Spares>,
    pub(crate) generation: Rc<Pinned>,
    pub(crate) request: Box<Request>,
    /// The response head of the upstream that was tried last, once something of it is there.
    pub(crate) answer: Option<Box<Answer>>,
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
    pub(crate) computed: Option<Box<ComputedTarget>>,
    /// The client's method; an error page is fetched by GET.
    pub(crate) method: Method,
    /// The status under which an error page is sent, whatever its own.
    pub(crate) shown_status: Option<u16>,
    /// Encoded fields of an upstream's response that go with the response that the client gets instead of it.
    pub(crate) carried: Vec<u8>,
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
    /// The connection cannot go on, for this reason.
    pub(crate) close: Option<CloseReason>,
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

/// What a phase of an exchange came to.
pub(crate) enum Step {
    /// The server's program is next.
    Rules,
    /// A location was found: its program and its content are next.
    Content,
    /// A program has rewritten the URI: a location is sought for it.
    Moved,
    /// This is the answer.
    Reply(Reply),
    /// The request goes on elsewhere.
    Redirect(Redirect),
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

/// Runs one exchange after the other: those that are put on the desk. A loop, not a function of one exchange, so that its
/// memory is set up once: making a future anew copies all of it.
pub(crate) async fn run(desk: Rc<Desk<Begin, Next>>) -> Infallible {
    loop {
        if let Some(begin) = desk.take_arguments() {
            let refusal = begin.refusal;
            let mut exchange = Exchange::new(begin);
            let step = match refusal {
                None => exchange.route(),
                Some(refusal) => exchange.refuse(refusal),
            };
            let next = match exchange.serve(step).await {
                Served::Responded => {
                    let sent = exchange.settle().await;
                    exchange.end(sent)
                }
                Served::Tunnel(start) => exchange.hand_to_tunnel(*start),
            };
            desk.put_result(next);
        }
        executor::suspend().await;
    }
}

impl Exchange {
    fn new(begin: Begin) -> Self {
        let Begin { thread, spares, generation, mut connection, request, refusal } = begin;
        connection.requests = connection.requests.saturating_add(1);
        let head = &request.head;
        let framing = if refusal.is_some() { BodyFraming::None } else { head.framing };
        let keepalive = refusal.is_none() && head.keepalive;
        let began_at = thread.reactor.now();
        Self {
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
            carried: Vec::new(),
            carried_type: None,
            error_pages_done: false,
            abort_ignored: false,
            body_refused: false,
            replay: ReplayBody::None,
            prefetched: None,
            status: 0,
            began_at,
            close: None,
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

    /// Runs what the locations say, until there is a response.
    async fn serve(&mut self, mut step: Step) -> Served {
        let mut redirects = 0;
        loop {
            if !matches!(step, Step::Served(_))
                && let Some(refusal) = self.refuse_undecided()
            {
                step = Step::Reply(refusal);
            }
            step = match step {
                Step::Served(served) => return served,
                Step::Rules => self.server_rules().await,
                Step::Content => self.content().await,
                Step::Redirect(_) | Step::Moved if redirects == REDIRECTS_MAX => {
                    let uri = quoted(self.uri());
                    self.error_log(&format!("rewrite or internal redirection cycle while processing \"{uri}\""));
                    self.error_pages_done = true;
                    Step::Reply(Reply::error(500))
                }
                Step::Redirect(redirect) => {
                    redirects += 1;
                    self.redirect(redirect)
                }
                Step::Moved => {
                    redirects += 1;
                    self.target.location = None;
                    self.route_location()
                }
                Step::Reply(Reply { status, body: ReplyBody::ToNobody, .. }) => return self.leave_unanswered(status),
                Step::Reply(reply) => match self.error_page(&reply) {
                    Some(page) => page,
                    None => return self.deliver(reply).await,
                },
            }
        }
    }

    /// U13: nobody is there to be answered.
    fn leave_unanswered(&mut self, status: u16) -> Served {
        self.status = status;
        self.close = Some(CloseReason::ClientAborted);
        self.down.keepalive = false;
        Served::Responded
    }

    /// From the head to a location.
    fn route(&mut self) -> Step {
        if let Err(reply) = self.choose_server() {
            return Step::Reply(reply);
        }
        if let Err(error) = self.narrow_head() {
            return self.refuse(Refusal::Malformed(error));
        }
        if self.location().real_ip.is_some() {
            self.find_client_of_server();
        }
        if let Err(reply) = self.parse_uri() {
            return Step::Reply(reply);
        }
        self.route_uri()
    }

    /// From the present URI to a location.
    pub(crate) fn route_uri(&mut self) -> Step {
        let generation = Rc::clone(&self.generation);
        let server = generation.server(self.target.server);
        if let Some(plan) = &server.answer {
            return self.return_step(plan);
        }
        if server.program.is_some() {
            return Step::Rules;
        }
        self.route_location()
    }

    /// From the present URI to a location, where the server has no more to say.
    pub(crate) fn route_location(&mut self) -> Step {
        if let Err(reply) = self.find_location() {
            return Step::Reply(reply);
        }
        if self.location().internal && !self.target.internal {
            return Step::Reply(Reply::error(404));
        }
        self.check_body_size().map_or(Step::Content, Step::Reply)
    }

    /// Runs the location's content.
    async fn content(&mut self) -> Step {
        let generation = Rc::clone(&self.generation);
        let Some(location) = self.target.location else { return Step::Reply(Reply::error(404)) };
        let mut location = generation.location(location);
        if let Some(program) = &location.program {
            if let Some(step) = self.location_rules(program).await {
                return step;
            }
            // An `if` may have led to other settings.
            location = generation.location(self.target.location.unwrap_or(generation.server(self.target.server).own));
        }
        if !matches!(location.content, Content::Return(_)) {
            if let Some(plan) = &location.real_ip {
                self.find_client(plan);
            }
            if let Some(plan) = &location.limits
                && let Some(refusal) = self.limit(plan).await
            {
                return Step::Reply(refusal);
            }
            if let Some(refusal) = self.access() {
                return Step::Reply(refusal);
            }
        }
        if let Some(plan) = &location.try_files
            && let Some(step) = self.try_files(plan).await
        {
            return step;
        }
        if !matches!(location.content, Content::Files(_)) {
            // An index was found for somebody who does not read it.
            self.prefetched = None;
        }
        if let Some(refusal) = self.refuse_undecided() {
            return Step::Reply(refusal);
        }
        match &location.content {
            Content::Proxy(plan) => {
                self.proxy_place = 0;
                match self.hold_members(plan).await {
                    Ok(held) => self.proxy(plan, held).await,
                    Err(ClientLeft) => self.client_left(),
                }
            }
            Content::Computed(plan) => self.proxy_computed(plan).await,
            Content::Return(plan) => self.return_step(plan),
            Content::Files(plan) => self.files(plan).await,
            Content::StubStatus => Step::Reply(self.stub_status()),
            Content::StatusPage => Step::Reply(self.status_page().await),
            Content::Nothing => Step::Reply(Reply::error(404)),
        }
    }

    /// A head that is not acceptable is answered, and logged, by the server that it is for as far as that was known before
    /// the fault, otherwise by the default server of the address.
    fn refuse(&mut self, refusal: Refusal) -> Step {
        let is_read = matches!(refusal, Refusal::OutOfMemory) || self.request.head.host.is_some();
        let _ = if is_read { self.choose_server() } else { self.choose_default_server() };
        self.parse_refused_uri();
        let (status, reason) = match refusal {
            Refusal::Malformed(error) => {
                self.client_log(&format!("{}: {error}", error.phrase()));
                let status = if error.is_too_large() { STATUS_HEAD_TOO_LARGE } else { error.status() };
                (status, CloseReason::BadRequest)
            }
            Refusal::HeadTimeout => {
                self.client_log("client timed out (110: Connection timed out) while reading client request headers");
                (408, CloseReason::HeadTimeout)
            }
            Refusal::ClientLeft => {
                self.client_log("client prematurely closed connection while reading client request headers");
                return Step::Reply(Reply::to_nobody(400));
            }
            Refusal::OutOfMemory => {
                // The built-in page: another one could need an upstream, and the memory for it.
                self.error_pages_done = true;
                (503, CloseReason::MemoryBudget)
            }
        };
        self.close = Some(reason);
        self.down.keepalive = false;
        Step::Reply(Reply::error(status))
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
        // Names compare without case and without the root's dot, as in nginx; few clients send either.
        let name = name.strip_suffix(b".").unwrap_or(name);
        let name = if name.iter().any(u8::is_ascii_uppercase) {
            Cow::Owned(name.to_ascii_lowercase())
        } else {
            Cow::Borrowed(name)
        };
        match listener.names.lookup(&name, self.captures.get_mut()) {
            Ok(found) => {
                self.target.server = found.server;
                if let Some(pattern) = found.pattern {
                    self.slots.store_groups(pattern, self.captures.get_mut());
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

    /// Holds the head against what the request's own server takes, where the servers of the address differ in that.
    fn narrow_head(&mut self) -> Result<(), RequestError> {
        let listener = self.generation.listener(self.down.connection.listener);
        if !listener.is_some_and(|listener| listener.limits_differ) {
            return Ok(());
        }
        let Request { head, bytes, .. } = &mut *self.request;
        head.narrow(bytes, &self.generation.server(self.target.server).limits)
    }

    /// The method that the location sees.
    pub(crate) fn method_name(&self) -> &[u8] {
        if self.method == Method::Other || self.method == self.request.head.method {
            return self.request.head.method_name.of(&self.request.bytes);
        }
        self.method.name().as_bytes()
    }

    /// Takes a location on: its own settings, or those of its `limit_except` for this method.
    pub(crate) fn enter_location(&mut self, id: LocationId) {
        let except = &self.generation.location(id).limit_except;
        let limited = except.as_ref().filter(|except| !except.methods.contains(&self.method));
        self.target.location = Some(limited.map_or(id, |except| except.others));
    }

    fn find_location(&mut self) -> Result<(), Reply> {
        let generation = Rc::clone(&self.generation);
        let server = generation.server(self.target.server);
        let found = server.locations.find(self.uri(), &mut self.captures.borrow_mut());
        match found {
            Ok(Found::Location { id, pattern }) => {
                self.enter_location(LocationId(id));
                if let Some(pattern) = pattern {
                    self.slots.store_groups(pattern, self.captures.get_mut());
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
        let BodyFraming::Length(length) = self.body.framing() else { return None };
        if limit == 0 || length <= limit || self.body_refused {
            return None;
        }
        self.body_refused = true;
        self.close.get_or_insert(CloseReason::BodyUnread);
        self.error_log(&format!("client intended to send too large body: {length} bytes"));
        Some(Reply::error(413))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the future that a function returns.
    fn size_of_future<F: Future>(_: impl Fn(Rc<Desk<Begin, Next>>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_exchange_is_no_larger_than_was_decided() {
        assert!(size_of_future(run) <= 4096, "{} bytes", size_of_future(run));
    }
}
