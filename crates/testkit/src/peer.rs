//! Upstreams that play a script: each accepted connection is a [`Talk`] in a thread of its own. Also addresses where
//! nothing answers.

use crate::message::{Message, Request};
use crate::talk::{Record, Talk};
use crate::{DEADLINE, Signal};
use socket2::{Domain, Socket, Type};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What the connections of a peer have in common.
#[derive(Debug, Default)]
struct Seen {
    /// The bytes of each connection, in the order of acceptance.
    connections: Mutex<Vec<Arc<Mutex<Vec<u8>>>>>,
    requests: Arc<Mutex<Vec<(usize, Request)>>>,
    over: Arc<AtomicBool>,
    /// A script panicked.
    failed: AtomicBool,
}

/// A listening upstream.
#[derive(Debug)]
pub struct Peer {
    address: SocketAddr,
    seen: Arc<Seen>,
    acceptor: Option<JoinHandle<Vec<JoinHandle<()>>>>,
}

impl Peer {
    /// Plays the script on every connection; the connection ends with it. A script that panics fails the test.
    pub fn script(script: impl Fn(Talk) + Send + Sync + 'static) -> Self {
        Self::script_at(([127, 0, 0, 1], 0).into(), script)
    }

    /// As [`Self::script`], at an address of the test's choice.
    pub fn script_at(address: SocketAddr, script: impl Fn(Talk) + Send + Sync + 'static) -> Self {
        Self::listening(TcpListener::bind(address).unwrap(), None, script)
    }

    /// As [`Self::script`], but it takes one connection only until the signal is raised. Its accept queue has room for one
    /// more: see [`Self::fill_queue`].
    pub fn pausing(go_on: &Signal, then: Then, script: impl Fn(Talk) + Send + Sync + 'static) -> Self {
        let socket = bound();
        socket.listen(0).unwrap();
        Self::listening(socket.into(), Some((go_on.clone(), then)), script)
    }

    fn listening(
        listener: TcpListener,
        pause: Option<(Signal, Then)>,
        script: impl Fn(Talk) + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Seen>::default();
        let acceptor = std::thread::spawn({
            let seen = Arc::clone(&seen);
            let script = Arc::new(script);
            move || accept(&listener, pause.as_ref(), &seen, &script)
        });
        Self { address, seen, acceptor: Some(acceptor) }
    }

    /// Answers every request, on as many connections as come, with what the closure makes of it.
    pub fn answering(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::script(move |mut talk| {
            while let Some(request) = talk.request() {
                talk.send(answer(&request));
            }
        })
    }

    /// Answers every request with the same bytes.
    pub fn saying(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::answering(move |_| response.clone())
    }

    /// Answers every request with the same bytes and ends each connection after that.
    pub fn saying_once(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::script(move |mut talk| {
            if talk.request().is_some() {
                talk.send(&response);
            }
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connects until the accept queue of a peer that pauses is full, so that connecting hangs.
    pub fn fill_queue(&self) -> Queued {
        Queued::fill(self.address)
    }

    /// How many connections it has accepted.
    pub fn connections(&self) -> usize {
        self.seen.connections.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Everything that came on a connection so far.
    pub fn received(&self, serial: usize) -> Vec<u8> {
        let connections = self.seen.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.get(serial).map_or_else(Vec::new, |bytes| bytes.lock().unwrap().clone())
    }

    /// The requests that its scripts read whole, each with the number of its connection.
    pub fn requests(&self) -> Vec<(usize, Request)> {
        self.seen.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The only request so far.
    ///
    /// # Panics
    /// When there were none or several.
    #[track_caller]
    pub fn only_request(&self) -> Message {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests[0].1.clone()
    }
}

fn accept<S: Fn(Talk) + Send + Sync + 'static>(
    listener: &TcpListener,
    pause: Option<&(Signal, Then)>,
    seen: &Arc<Seen>,
    script: &Arc<S>,
) -> Vec<JoinHandle<()>> {
    let mut scripts = Vec::new();
    loop {
        let Ok((stream, _)) = listener.accept() else { return scripts };
        if seen.over.load(Ordering::Acquire) {
            return scripts;
        }
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let serial = {
            let mut connections = seen.connections.lock().unwrap();
            connections.push(Arc::clone(&bytes));
            connections.len() - 1
        };
        let record = Record { bytes, requests: Arc::clone(&seen.requests), over: Arc::clone(&seen.over) };
        let talk = Talk::new(stream, serial, record);
        let (seen, script) = (Arc::clone(seen), Arc::clone(script));
        scripts.push(std::thread::spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| script(talk))).is_err() {
                seen.failed.store(true, Ordering::Release);
            }
        }));
        if let Some((go_on, then)) = pause
            && scripts.len() == 1
        {
            go_on.wait();
            if *then == Then::Refuses {
                return scripts;
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.seen.over.store(true, Ordering::Release);
        // A connection of our own ends the wait for the next one.
        let _ = TcpStream::connect_timeout(&self.address, DEADLINE);
        if std::thread::panicking() {
            return;
        }
        let scripts = self.acceptor.take().and_then(|acceptor| acceptor.join().ok()).unwrap_or_default();
        for script in scripts {
            let _ = script.join();
        }
        assert!(!self.seen.failed.load(Ordering::Acquire), "a peer's script failed; its panic is above");
    }
}

/// What a peer does after its pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It takes every connection.
    Accepts,
    /// It listens no more.
    Refuses,
}

/// Connections that wait in an accept queue and fill it.
#[derive(Debug)]
pub struct Queued(#[expect(dead_code, reason = "held open")] Vec<Socket>);

impl Queued {
    fn fill(address: SocketAddr) -> Self {
        let mut queued = Vec::new();
        loop {
            let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            if client.connect_timeout(&address.into(), Duration::from_millis(200)).is_err() {
                return Self(queued);
            }
            queued.push(client);
            assert!(queued.len() < 64, "a queue of length 0 takes connection after connection");
        }
    }
}

/// An address where connections are refused, as long as it is held.
#[derive(Debug)]
pub struct Refusing(Socket);

impl Refusing {
    /// A bound socket that does not listen: no other socket can get its port, and the kernel answers SYN with RST.
    pub fn new() -> Self {
        Self(bound())
    }

    /// An address without a listener.
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }
}

impl Default for Refusing {
    fn default() -> Self {
        Self::new()
    }
}

/// An address where connecting hangs: the accept queue is full and no process accepts.
#[derive(Debug)]
pub struct Deaf {
    socket: Socket,
    _queued: Queued,
}

impl Deaf {
    /// Fills the queue until a connection is not established any more.
    pub fn new() -> Self {
        let socket = bound();
        socket.listen(0).unwrap();
        let queued = Queued::fill(socket.local_addr().unwrap().as_socket().unwrap());
        Self { socket, _queued: queued }
    }

    /// An address with a listener that does not accept.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap().as_socket().unwrap()
    }
}

impl Default for Deaf {
    fn default() -> Self {
        Self::new()
    }
}

fn bound() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket
}
