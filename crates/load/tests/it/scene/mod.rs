//! Shared by the tests of this crate: an origin on a free port, targets on it, and servers that misbehave in ways that the
//! origin does not offer.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

pub(crate) mod recorder;

use load::{Options, Summary, Target};
use origin::{Origin, Running};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use testkit::Peer;

pub(crate) fn origin(options: origin::Options) -> Running {
    Origin::bind(options).unwrap().start().unwrap()
}

pub(crate) fn target(address: SocketAddr, path: &str) -> Target {
    Target::new(format!("http://{address}{path}").parse().unwrap())
}

/// This many requests over this many connections.
pub(crate) fn requests(target: Target, requests: u64, connections: usize) -> Options {
    Options { requests: Some(requests), duration: Some(Duration::from_secs(20)), connections, ..Options::new(target) }
}

pub(crate) fn run(options: Options) -> Summary {
    load::start(options).unwrap().wait().unwrap()
}

/// A server that handles each connection with the given function in a thread, until the test ends.
pub(crate) fn server(treat: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let treat = Arc::new(treat);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let treat = Arc::clone(&treat);
            std::thread::spawn(move || treat(stream));
        }
    });
    address
}

/// A server that answers at once, except during a freeze. It answers requests of that time after the freeze.
pub(crate) struct Freezing {
    pub(crate) address: SocketAddr,
    answered: Arc<Mutex<Vec<Instant>>>,
    _peer: Peer,
}

/// Longer than any freeze.
const FREEZE_MAX: Duration = Duration::from_mins(1);

impl Freezing {
    /// Freezes the server this long after the first request, for this long.
    pub(crate) fn start(after: Duration, frozen: Duration) -> Self {
        let first: Arc<Mutex<Option<Instant>>> = Arc::default();
        let never = Arc::new((Mutex::new(()), Condvar::new()));
        let answered: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let noted = Arc::clone(&answered);
        let peer = Peer::script(move |mut talk| {
            while talk.request().is_some() {
                let begun = *first.lock().unwrap().get_or_insert_with(Instant::now);
                let thaw = begun + after + frozen;
                let now = Instant::now();
                if now >= begun + after && now < thaw {
                    // Nothing notifies the condition; the wait ends by its timeout.
                    let (lock, condition) = &*never;
                    let guard = lock.lock().unwrap();
                    let wait = (thaw - now).min(FREEZE_MAX);
                    drop(condition.wait_timeout_while(guard, wait, |()| true).unwrap());
                }
                noted.lock().unwrap().push(Instant::now());
                talk.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        });
        Self { address: peer.address(), answered, _peer: peer }
    }

    /// When it answered each request, in order.
    pub(crate) fn answered(&self) -> Vec<Instant> {
        let mut answered = self.answered.lock().unwrap().clone();
        answered.sort_unstable();
        answered
    }
}
