//! Clients and peers of UDP: a socket that waits with a deadline, and a thread that answers by a script.

use crate::DEADLINE;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A datagram over IPv4 has at most this many bytes.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// How long a socket that should stay silent is listened to.
const SILENCE: Duration = Duration::from_millis(150);

/// A client.
pub struct DatagramTalk {
    socket: UdpSocket,
}

impl DatagramTalk {
    /// A client that hears only from this address.
    pub fn connect(address: SocketAddr) -> Self {
        let own = if address.is_ipv4() { IpAddr::from(Ipv4Addr::LOCALHOST) } else { address.ip() };
        Self::connect_from(own, address)
    }

    /// The same with a source address.
    pub fn connect_from(own: IpAddr, address: SocketAddr) -> Self {
        let socket = UdpSocket::bind((own, 0)).unwrap();
        socket.connect(address).unwrap();
        Self { socket }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// Sends one datagram.
    pub fn send(&self, bytes: impl AsRef<[u8]>) {
        // A refusal that an earlier datagram met is reported now, and this one is not sent.
        if self.socket.send(bytes.as_ref()).is_err() {
            let _ = self.socket.send(bytes.as_ref());
        }
    }

    /// The next datagram.
    #[track_caller]
    pub fn receive(&self) -> Vec<u8> {
        self.within(DEADLINE).expect("a datagram comes")
    }

    /// Expects this datagram as the next.
    #[track_caller]
    pub fn expect(&self, bytes: impl AsRef<[u8]>) {
        let came = self.receive();
        assert!(came == bytes.as_ref(), "{} came", came.escape_ascii());
    }

    /// Expects that nothing comes for a while.
    #[track_caller]
    pub fn expect_silence(&self) {
        let came = self.within(SILENCE);
        assert!(came.is_none(), "{} came", came.unwrap_or_default().escape_ascii());
    }

    /// What comes until this much time passes; `None` if nothing does.
    pub fn within(&self, time: Duration) -> Option<Vec<u8>> {
        self.socket.set_read_timeout(Some(time)).unwrap();
        let mut bytes = vec![0; DATAGRAM_BYTES_MAX + 1];
        let length = self.socket.recv(&mut bytes).ok()?;
        bytes.truncate(length);
        Some(bytes)
    }
}

/// A peer that answers each datagram by a script; it ends when dropped.
pub struct DatagramPeer {
    address: SocketAddr,
    received: Arc<AtomicUsize>,
    clients: Arc<Mutex<Vec<SocketAddr>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DatagramPeer {
    /// Answers a datagram with those that the script returns.
    pub fn script(script: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let mut script = script;
        Self::with_socket(move |socket, bytes, from| {
            for answer in script(bytes) {
                let _ = socket.send_to(&answer, from);
            }
        })
    }

    /// The same with the socket itself and the sender of the datagram.
    pub fn with_socket(script: impl FnMut(&UdpSocket, &[u8], SocketAddr) + Send + 'static) -> Self {
        let mut script = script;
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let (received, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let clients: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let (counter, is_over, known) = (Arc::clone(&received), Arc::clone(&over), Arc::clone(&clients));
        let work = move || {
            let mut bytes = vec![0; DATAGRAM_BYTES_MAX + 1];
            while !is_over.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
                known.lock().unwrap_or_else(PoisonError::into_inner).push(from);
                // Before the answer: who has that may ask for the count.
                counter.fetch_add(1, Ordering::SeqCst);
                script(&socket, &bytes[..length], from);
            }
        };
        Self { address, received, clients, over, thread: Some(std::thread::spawn(work)) }
    }

    /// Answers each datagram with itself.
    pub fn echo() -> Self {
        Self::script(|bytes| vec![bytes.to_vec()])
    }

    /// Answers nothing.
    pub fn mute() -> Self {
        Self::script(|_| Vec::new())
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many datagrams it has received.
    pub fn received(&self) -> usize {
        self.received.load(Ordering::SeqCst)
    }

    /// The senders of these, in order.
    pub fn clients(&self) -> Vec<SocketAddr> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for DatagramPeer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
