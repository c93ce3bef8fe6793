//! A session of `stream`: from an accepted connection, or a first datagram, to a tunnel, or to its end without one. A future exists only
//! until then: it reads what precedes the data, decides, and connects. It knows no HTTP; the connector makes
//! connections to peers, and the tunnel moves the bytes in both directions
//! ([ADR 59](../../../docs/adr/0059-a-session-is-a-tunnel-from-the-start.md)).

pub(crate) mod calling;
pub(crate) mod client;
pub(crate) mod datagrams;
pub(crate) mod log;
pub(crate) mod pass;
pub(crate) mod preread;
pub(crate) mod proxy;
pub(crate) mod securing;
pub(crate) mod view;

use crate::base::buffer::Spill;
use crate::base::close::CloseReason;
use crate::base::logs::error::Level;
use crate::connector::Caller as _;
use crate::connector::h2::hub::Hub;
use crate::plan::access::permits;
use crate::plan::listener::Serves;
use crate::plan::stream::{StreamContentPlan, StreamServerPlan};
use crate::registry::generation::{ListenerId, Pinned};
use crate::registry::limit_zones::{LimitStatus, Limited, admit};
use crate::session::client::SessionClient;
use crate::session::pass::PassedConnection;
use crate::session::proxy::SessionAttempt;
use crate::thread::WorkerThread;
use crate::thread::executor::{self, Mailbox};
use crate::tunnel::datagrams::{DatagramEnd, DatagramSession, DatagramStart};
use crate::tunnel::end::ClientEnd;
use crate::tunnel::{Tunnel, TunnelStart};
use proxyproto::Header;
use reactor::{Interest, Millis, PeerAddress, TaskId, Woken};
use rules::captures::Captures;
use rules::slots::VarSlots;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io::IoSlice;
use std::rc::Rc;
use std::time::Duration;

/// Longest time in which a client accepts no byte of the text of `return`: one minute, as in nginx, which has no
/// directive for it.
const RETURN_STALL: Duration = Duration::from_mins(1);

/// The start values of a session.
pub(crate) struct SessionBegin {
    pub(crate) thread: Rc<WorkerThread>,
    pub(crate) hub: Rc<Hub>,
    pub(crate) generation: Rc<Pinned>,
    pub(crate) client: SessionClient,
    pub(crate) task: TaskId,
    /// The address that the client connected to.
    pub(crate) listener: ListenerId,
    pub(crate) peer: PeerAddress,
    pub(crate) serial: u64,
    /// The first datagram, or bytes that another listener has read from the connection.
    pub(crate) pending: Vec<u8>,
    /// How often `pass` has handed it over.
    pub(crate) passes: u8,
}

/// What happens to the connection.
pub(crate) enum SessionEnd {
    /// It is now one side of a tunnel.
    Tunnel(Box<Tunnel>),
    /// Its datagrams have a peer; the session may be over already.
    Datagrams(Box<DatagramSession>, Option<DatagramEnd>),
    /// Another listener gets it.
    Passed(Box<PassedConnection>),
    /// It was closed.
    Closed(TaskId, CloseReason),
}

/// A session without a tunnel yet.
pub(crate) struct StreamSession {
    pub(crate) thread: Rc<WorkerThread>,
    pub(crate) hub: Rc<Hub>,
    pub(crate) generation: Rc<Pinned>,
    pub(crate) connection: SessionClient,
    pub(crate) task: TaskId,
    pub(crate) listener: ListenerId,
    /// The index of its server.
    pub(crate) server: u32,
    /// The address of the connection.
    pub(crate) peer: PeerAddress,
    /// The client's address as reported by a trusted proxy.
    pub(crate) real_client: Option<PeerAddress>,
    pub(crate) header: Option<Box<Header>>,
    /// The TLS message that `ssl_preread` has read.
    pub(crate) hello: Option<Box<tls::Preread>>,
    pub(crate) serial: u64,
    pub(crate) accepted_at: Millis,
    /// Received bytes that were not passed on.
    pub(crate) pending: Vec<u8>,
    /// How often `pass` has handed the connection over.
    pub(crate) passes: u8,
    /// Bytes sent to the client without a tunnel.
    pub(crate) sent_bytes: u64,
    pub(crate) slots: VarSlots,
    pub(crate) captures: RefCell<Captures>,
    pub(crate) limited: Option<Box<Limited>>,
    pub(crate) attempts: Vec<SessionAttempt>,
    /// A variable depends on an expression whose match could not be decided: no decision may use it.
    pub(crate) is_undecided: Cell<bool>,
    /// `$status`; 0 until it is known.
    pub(crate) status: u16,
}

/// The end of a session: `$status`, and why the connection is closed.
pub(crate) struct RefusedSession {
    pub(crate) status: u16,
    pub(crate) reason: CloseReason,
}

impl RefusedSession {
    /// An internal error.
    pub(crate) const INTERNAL: Self = Self { status: 500, reason: CloseReason::SessionRefused };
}

/// The result of a session's content.
pub(crate) enum SessionContent {
    Start(Box<TunnelStart>),
    /// A peer for datagrams, and the header of the PROXY protocol for it.
    Datagrams(Box<DatagramStart>, Vec<u8>),
    /// Another listener serves it.
    Pass(ListenerId, Serves),
    /// It was served without a tunnel.
    Done(CloseReason),
}

/// Runs sessions one after the other, as they are put into the mailbox. See `phases::run`.
pub(crate) async fn run(mailbox: Rc<Mailbox<SessionBegin, SessionEnd>>) -> Infallible {
    loop {
        if let Some(begin) = mailbox.take_arguments() {
            let session = StreamSession::new(begin);
            mailbox.put_result(session.serve().await);
        }
        executor::suspend().await;
    }
}

impl StreamSession {
    fn new(begin: SessionBegin) -> Self {
        let SessionBegin { thread, hub, generation, client, task, pending, listener, peer, serial, passes } = begin;
        let server = generation.listener(listener).map_or(0, |listener| listener.names.default_server());
        Self {
            accepted_at: thread.reactor.now(),
            thread,
            hub,
            generation,
            connection: client,
            task,
            listener,
            server,
            peer,
            real_client: None,
            header: None,
            hello: None,
            serial,
            pending,
            passes,
            sent_bytes: 0,
            slots: VarSlots::default(),
            captures: RefCell::default(),
            limited: None,
            attempts: Vec::new(),
            is_undecided: Cell::new(false),
            status: 0,
        }
    }

    async fn serve(mut self) -> SessionEnd {
        let end = match self.admit().await {
            Ok(()) => self.content().await,
            Err(refused) => Err(refused),
        };
        let reason = match end {
            Ok(SessionContent::Start(start)) => return self.join(*start),
            Ok(SessionContent::Datagrams(start, ahead)) => {
                let now = self.thread.reactor.now_us();
                let (session, end) = DatagramSession::begin(self.task, *start, &ahead, &self.pending, now);
                return SessionEnd::Datagrams(session, end);
            }
            // As in nginx, the next listener logs it.
            Ok(SessionContent::Pass(listener, serves)) => {
                return SessionEnd::Passed(Box::new(self.into_passed(listener, serves)));
            }
            Ok(SessionContent::Done(reason)) => {
                self.status = 200;
                reason
            }
            Err(RefusedSession { status, reason }) => {
                self.status = status;
                reason
            }
        };
        self.log_access();
        SessionEnd::Closed(self.task, reason)
    }

    /// Turns the session into a tunnel.
    fn join(self, start: TunnelStart) -> SessionEnd {
        let Self { thread, connection, task, pending, .. } = self;
        let SessionClient::Stream(stream) = connection else {
            return SessionEnd::Closed(task, CloseReason::SessionRefused);
        };
        match Tunnel::start(ClientEnd::Socket(stream), task, start, Spill::default(), &pending, thread.reactor.now()) {
            Ok(tunnel) => SessionEnd::Tunnel(Box::new(tunnel)),
            // The peer reset the connection that it had just accepted.
            Err((task, _)) => SessionEnd::Closed(task, CloseReason::TunnelEnded),
        }
    }

    /// The server's settings.
    pub(crate) fn plan(&self) -> &StreamServerPlan {
        &self.generation.plan.stream.servers[self.server as usize]
    }

    /// The client's address: of the connection, or as reported by a trusted proxy.
    pub(crate) fn client(&self) -> &PeerAddress {
        self.real_client.as_ref().unwrap_or(&self.peer)
    }

    /// The steps before the content, in nginx's order: the PROXY protocol header, the client's address, `set`,
    /// `limit_conn`, `allow` and `deny`, the TLS handshake, the first TLS message inside.
    async fn admit(&mut self) -> Result<(), RefusedSession> {
        self.log_connected();
        let generation = Rc::clone(&self.generation);
        let Some(listener) = generation.listener(self.listener) else {
            return Err(RefusedSession { status: 500, reason: CloseReason::Unlistened });
        };
        if listener.proxy_protocol {
            self.read_proxy_header().await?;
        }
        let plan = &generation.plan.stream.servers[self.server as usize];
        self.find_client(plan);
        for (slot, template) in &plan.sets {
            let value = self.value(template);
            self.slots.set(*slot, &value);
        }
        self.limit(plan)?;
        if permits(&plan.access, self.client()) == Some(false) {
            self.log(Level::Error, "access forbidden by rule while initializing session");
            return Err(RefusedSession { status: 403, reason: CloseReason::SessionRefused });
        }
        self.secure(listener).await?;
        // The handshake may have chosen another server. As in nginx, datagrams are not searched for a message of TLS.
        if let Some(preread) = self.plan().preread.filter(|_| !self.connection.is_datagrams()) {
            self.read_hello(preread).await?;
        }
        self.refuse_undecided()
    }

    /// `set_real_ip_from`: as in nginx, the header of a trusted proxy gives the client's address.
    fn find_client(&mut self, plan: &StreamServerPlan) {
        let trusted = plan.real_ip.as_ref().is_some_and(|real_ip| real_ip.trusts(self.peer.ip()));
        let source = self.header.as_ref().and_then(|header| header.addresses).map(|addresses| addresses.source);
        self.real_client = source.filter(|_| trusted).map(PeerAddress::Ip);
    }

    fn limit(&mut self, plan: &StreamServerPlan) -> Result<(), RefusedSession> {
        let Some(limits) = &plan.limits else { return Ok(()) };
        let say = |level, message: &str| self.log(level, &format!("{message} while initializing session"));
        let Some((status, permits)) = admit(limits, &self.generation.connection_zones, &self.view(), say) else {
            return Ok(());
        };
        let limited = self.limited.get_or_insert_default();
        limited.connections = Some(status);
        limited.permits = permits;
        if status == LimitStatus::Rejected {
            return Err(RefusedSession { status: 503, reason: CloseReason::SessionRefused });
        }
        Ok(())
    }

    fn refuse_undecided(&self) -> Result<(), RefusedSession> {
        if self.is_undecided.get() { Err(RefusedSession::INTERNAL) } else { Ok(()) }
    }

    async fn content(&mut self) -> Result<SessionContent, RefusedSession> {
        let generation = Rc::clone(&self.generation);
        let plan = &generation.plan.stream.servers[self.server as usize];
        if !plan.nodelay && !matches!(plan.content, StreamContentPlan::Pass(_)) {
            self.delay_small_packets();
        }
        match &plan.content {
            StreamContentPlan::Proxy(proxy) => self.proxy(generation.stream_proxy(*proxy)).await,
            StreamContentPlan::Variable(variable) => self.proxy_variable(variable).await,
            StreamContentPlan::Pass(pass) => self.pass(pass),
            StreamContentPlan::Return(text) => {
                let text = self.value(text);
                self.refuse_undecided()?;
                self.send_text(&text).await
            }
        }
    }

    /// `tcp_nodelay off`. A connection begins with the option, and the next listener of a passed one expects it.
    fn delay_small_packets(&self) {
        if let SessionClient::Stream(stream) = &self.connection {
            // A Unix socket has no such option, and no small packets either.
            let _ = stream.stream().as_socket().set_tcp_nodelay(false);
        }
    }

    /// `return`: sends the text. The close behind it sends the FIN.
    async fn send_text(&mut self, text: &[u8]) -> Result<SessionContent, RefusedSession> {
        if self.connection.is_datagrams() {
            return Ok(SessionContent::Done(self.answer_text(text)));
        }
        let mut sent = 0;
        while sent < text.len() {
            let SessionClient::Stream(stream) = &self.connection else { break };
            match stream.write(&[IoSlice::new(&text[sent..])], false) {
                Ok(0) => {}
                Ok(count) => {
                    sent += count;
                    self.sent_bytes = sent as u64;
                    continue;
                }
                Err(_) => return Ok(SessionContent::Done(CloseReason::ClientAborted)),
            }
            match self.wait_for(Some((stream, Interest::WRITE)), RETURN_STALL).await {
                Woken::Ready => {}
                Woken::PeerGone => return Ok(SessionContent::Done(CloseReason::ClientAborted)),
                Woken::Deadline => return Ok(SessionContent::Done(CloseReason::SendTimeout)),
            }
        }
        Ok(SessionContent::Done(CloseReason::SessionServed))
    }
}
