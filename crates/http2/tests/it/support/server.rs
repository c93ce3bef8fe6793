//! A small server over the engine: one thread, the reactor, plain TCP or TLS. Tests let clients of others speak to it, and the example
//! `serve` lets a person measure it. It is no part of the product.

use http2::{Config, Connection, ErrorCode, Event, Head, Role, StreamId};
use reactor::{ListenOptions, Listener, Mailbox, PeerAddress, Reactor, Read, Ready, SourceId, TaskId};
use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use tls::{OneServer, Pair, ServerSide, Session};
use transport::{HandshakeProgress, Transport};

const LISTENER: SourceId = SourceId(0);
const MAILBOX: SourceId = SourceId(1);
/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// Bytes of output that wait at most before more is read or sent.
const OUT_BYTES_MAX: usize = 64 * 1024;
/// How often idle connections give up memory, and deadlines are looked at.
const CHORES_MS: u64 = 500;

/// What the server does.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) address: SocketAddr,
    pub(crate) tls: bool,
    /// Bytes of the page.
    pub(crate) page_bytes: usize,
    pub(crate) config: Config,
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: Arc<Mailbox<()>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Server {
    pub(crate) fn start(options: Options) -> io::Result<Self> {
        let listener = Listener::bind(&PeerAddress::Ip(options.address), &ListenOptions::default())?;
        let Some(PeerAddress::Ip(address)) = listener.local_address()? else { unreachable!("bound to an IP address") };
        let stop = Arc::new(Mailbox::new()?);
        let stopped = Arc::clone(&stop);
        let thread =
            std::thread::Builder::new().name("h2".to_owned()).spawn(move || run(&listener, &options, &stopped))?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Waits for its end, which comes only by an error.
    pub(crate) fn wait(mut self) -> io::Result<()> {
        self.thread.take().map_or(Ok(()), |thread| thread.join().expect("the server's thread does not panic"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("the server's thread does not panic").expect("the server's loop has no error");
            }
        }
    }
}

/// A response under way.
#[derive(Debug, Clone, Copy)]
struct Body {
    left: usize,
    /// Bytes of the request that have come: the answer says how many.
    received: usize,
}

struct Peer {
    transport: Transport,
    engine: Connection,
    is_secured: bool,
    /// What the socket did not take.
    unsent: Vec<u8>,
    bodies: HashMap<u32, Body>,
    touched_ms: u64,
    /// All has been said: what still comes is read until the client closes, for unread bytes would reset the connection.
    is_over: bool,
}

struct Site {
    reactor: Rc<Reactor>,
    peers: Vec<Option<Peer>>,
    head: Head,
    out: Vec<u8>,
    page: Vec<u8>,
    page_bytes: usize,
}

fn run(listener: &Listener, options: &Options, stop: &Mailbox<()>) -> io::Result<()> {
    let reactor = Reactor::new()?;
    reactor.watch(listener.descriptor(), LISTENER, false)?;
    reactor.watch(stop.descriptor(), MAILBOX, false)?;
    let side = options.tls.then(|| {
        let pair = Pair::self_made(&["localhost".to_owned()]).expect("a pair for tests is made");
        Arc::new(OneServer(Arc::new(ServerSide::new().pair(pair).alpn(["h2"]).build().expect("settings for tests"))))
    });
    let page = vec![b'x'; 1 << 20];
    let (head, out, peers) = (Head::default(), Vec::new(), Vec::new());
    let mut site = Site { reactor, peers, head, out, page, page_bytes: options.page_bytes };
    let mut chores_at_ms = 0;
    loop {
        site.reactor.turn(Some(CHORES_MS))?;
        while let Some(ready) = site.reactor.next_ready() {
            match ready {
                Ready::Source(MAILBOX) => return Ok(()),
                Ready::Source(_) => accept(listener, side.as_ref(), options, &mut site)?,
                Ready::Task(task) => site.drive(task),
                Ready::Parked(_) => {}
            }
        }
        if site.reactor.now().0 >= chores_at_ms {
            chores_at_ms = site.reactor.now().0 + CHORES_MS;
            site.do_chores();
        }
    }
}

fn accept(listener: &Listener, side: Option<&Arc<OneServer>>, options: &Options, site: &mut Site) -> io::Result<()> {
    while let Some(accepted) = listener.accept()? {
        let task = site.reactor.create_task();
        let stream = site.reactor.register(accepted.socket, task)?;
        let transport = match side {
            Some(side) => Transport::secure(stream, Session::server(side.clone())),
            None => Transport::plain(stream),
        };
        let (mut unsent, now_ms) = (Vec::new(), site.reactor.now().0);
        let engine = Connection::new(Role::Server, options.config, now_ms, &mut unsent);
        let peer = Peer {
            transport,
            engine,
            is_secured: false,
            unsent,
            bodies: HashMap::new(),
            touched_ms: now_ms,
            is_over: false,
        };
        let index = task.index as usize;
        if site.peers.len() <= index {
            site.peers.resize_with(index + 1, || None);
        }
        site.peers[index] = Some(peer);
        site.reactor.wake(task);
    }
    Ok(())
}

impl Site {
    fn drive(&mut self, task: TaskId) {
        let index = task.index as usize;
        let Some(mut peer) = self.peers.get_mut(index).and_then(Option::take) else { return };
        let is_alive = self.serve(&mut peer).unwrap_or(false);
        if is_alive {
            self.peers[index] = Some(peer);
        } else {
            self.reactor.end_task(task);
        }
    }

    /// Reads, answers and writes until there is nothing to do; `false`: the connection is over.
    fn serve(&mut self, peer: &mut Peer) -> io::Result<bool> {
        if !peer.is_secured {
            peer.is_secured = peer.transport.handshake()? == HandshakeProgress::Done;
            if !peer.is_secured {
                return Ok(true);
            }
        }
        let now_ms = self.reactor.now().0;
        peer.touched_ms = now_ms;
        loop {
            if !flush(&peer.transport, &mut peer.unsent)? {
                return Ok(true);
            }
            if peer.is_over {
                match peer.transport.read_with(READ_BYTES, |_| ())? {
                    Read::Data(()) => continue,
                    Read::NotReady => return Ok(true),
                    Read::Closed => return Ok(false),
                }
            }
            let Self { head, out, page, page_bytes, .. } = self;
            out.clear();
            let Peer { transport, engine, bodies, .. } = peer;
            let read =
                transport.read_with(READ_BYTES, |bytes| take(bytes, now_ms, engine, bodies, head, out, *page_bytes))?;
            let is_closed = match read {
                Read::Data(is_over) => is_over,
                Read::Closed => return Ok(false),
                Read::NotReady => {
                    send_bodies(engine, bodies, page, out);
                    if out.is_empty() && !engine.is_finished() {
                        return Ok(true);
                    }
                    engine.is_finished()
                }
            };
            send_bodies(engine, bodies, page, out);
            let written = peer.transport.write(&[IoSlice::new(out)], false)?;
            peer.unsent.extend_from_slice(&out[written..]);
            if is_closed {
                flush(&peer.transport, &mut peer.unsent)?;
                peer.transport.shutdown_write()?;
                peer.is_over = true;
            }
        }
    }

    fn do_chores(&mut self) {
        let now_ms = self.reactor.now().0;
        for peer in self.peers.iter_mut().flatten() {
            if peer.touched_ms + CHORES_MS < now_ms {
                peer.engine.trim();
                if peer.bodies.is_empty() && peer.bodies.capacity() > 0 {
                    peer.bodies = HashMap::new();
                }
            }
            if peer.engine.tick(now_ms, &mut peer.unsent).is_err() {
                let _ = flush(&peer.transport, &mut peer.unsent);
                let _ = peer.transport.shutdown_write();
            }
        }
    }
}

/// Writes what is left; `false` where the socket does not take all of it.
fn flush(transport: &Transport, unsent: &mut Vec<u8>) -> io::Result<bool> {
    while !unsent.is_empty() {
        let written = transport.write(&[IoSlice::new(unsent)], false)?;
        if written == 0 {
            return Ok(false);
        }
        unsent.drain(..written);
    }
    if unsent.capacity() > 0 {
        *unsent = Vec::new();
    }
    Ok(true)
}

/// Takes what was read; `true`: the engine has closed the connection.
fn take(
    mut bytes: &[u8],
    now_ms: u64,
    engine: &mut Connection,
    bodies: &mut HashMap<u32, Body>,
    head: &mut Head,
    out: &mut Vec<u8>,
    page_bytes: usize,
) -> bool {
    loop {
        let event = match engine.receive(now_ms, &mut bytes, head, out) {
            Ok(Some(event)) => event,
            Ok(None) => return false,
            Err(_) => return true,
        };
        match event {
            Event::Head { stream, .. } if head.is_too_large => {
                let _ = engine.respond(stream, 431, true, out, |_| ());
                engine.reset(stream, ErrorCode::NO_ERROR, out);
            }
            Event::Head { stream, end } => {
                bodies.insert(stream.0, Body { left: body_bytes(head, page_bytes), received: 0 });
                if end {
                    respond(engine, stream, bodies, out);
                }
            }
            Event::Data { stream, bytes, end } => {
                if let Some(body) = bodies.get_mut(&stream.0) {
                    body.received += bytes.len();
                }
                engine.consume(stream, bytes.len(), out);
                if end {
                    respond(engine, stream, bodies, out);
                }
            }
            Event::Trailers { stream } => respond(engine, stream, bodies, out),
            Event::Reset { stream, .. } => {
                bodies.remove(&stream.0);
            }
            _ => {}
        }
    }
}

/// `/bytes/NUMBER` asks for that many bytes, anything else for the page.
fn body_bytes(head: &Head, page_bytes: usize) -> usize {
    let path = head.path.of(&head.bytes);
    let number = path.strip_prefix(b"/bytes/").and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
    number.unwrap_or(page_bytes)
}

fn respond(engine: &mut Connection, stream: StreamId, bodies: &mut HashMap<u32, Body>, out: &mut Vec<u8>) {
    let Some(&Body { left, received }) = bodies.get(&stream.0) else { return };
    let answered = engine.respond(stream, 200, left == 0, out, |fields| {
        let length = left.to_string();
        let known: [(&[u8], &[u8]); 5] = [
            (b"server", b"holdfast"),
            (b"date", b"Mon, 23 Nov 2026 07:00:00 GMT"),
            (b"content-type", b"text/html"),
            (b"content-length", length.as_bytes()),
            (b"last-modified", b"Sun, 22 Nov 2026 10:00:00 GMT"),
        ];
        for (name, value) in known {
            fields.add(name, value).expect("a field that can be sent");
        }
        if received > 0 {
            fields.add(b"x-received-bytes", received.to_string().as_bytes()).expect("a number can be sent");
        }
    });
    if answered.is_err() || left == 0 {
        bodies.remove(&stream.0);
        return;
    }
    send_body(engine, stream, bodies, &[b'x'; 16 * 1024], out);
}

fn send_bodies(engine: &mut Connection, bodies: &mut HashMap<u32, Body>, page: &[u8], out: &mut Vec<u8>) {
    while let Some(stream) = engine.next_turn(OUT_BYTES_MAX.saturating_sub(out.len())) {
        send_body(engine, stream, bodies, page, out);
    }
}

fn send_body(
    engine: &mut Connection,
    stream: StreamId,
    bodies: &mut HashMap<u32, Body>,
    page: &[u8],
    out: &mut Vec<u8>,
) {
    let Some(body) = bodies.get_mut(&stream.0) else { return };
    let piece = &page[..body.left.min(page.len())];
    let end = piece.len() == body.left;
    let sent = engine.send_data(stream, piece, end, out, OUT_BYTES_MAX);
    body.left -= sent.unwrap_or(body.left);
    if body.left == 0 {
        bodies.remove(&stream.0);
    } else if sent == Ok(piece.len()) {
        // All of this piece, and not of the body: the stream does not wait by itself.
        send_body(engine, stream, bodies, page, out);
    }
}
