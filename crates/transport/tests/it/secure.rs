//! A transport of the reactor against a client that owns a blocking socket and a session of its own.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use reactor::{
    Interest, Leaving, ListenOptions, Listener, PeerAddress, Reactor, Read, Ready, SourceId, Stream, Waited as _,
};
use std::io::{IoSlice, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::{ClientSide, OneServer, Pair, RECORD_BYTES_MAX, ServerSide, ServerSideBuilder, Session, Trust};
use transport::{HandshakeProgress, Transport};

/// No conversation here takes longer, however loaded the machine is.
const DEADLINE: Duration = Duration::from_secs(20);
const RECORD_HEAD_BYTES: usize = 5;

/// Turns until the closure has what it wants.
fn until<T>(reactor: &Reactor, mut wanted: impl FnMut(Option<Ready>) -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = wanted(None) {
            return value;
        }
        reactor.turn(Some(20)).unwrap();
        while let Some(ready) = reactor.next_ready() {
            if let Some(value) = wanted(Some(ready)) {
                return value;
            }
        }
        assert!(begun.elapsed() < DEADLINE, "nothing happened in {DEADLINE:?}");
    }
}

/// A client socket and the reactor's end of the same connection.
fn connect(reactor: &Rc<Reactor>) -> (TcpStream, Stream) {
    let any = PeerAddress::Ip(SocketAddr::from(([127, 0, 0, 1], 0)));
    let listener = Listener::bind(&any, &ListenOptions::default()).unwrap();
    let Some(PeerAddress::Ip(address)) = listener.local_address().unwrap() else { panic!("bound to no IP address") };
    reactor.watch(listener.descriptor(), SourceId(7), false).unwrap();
    let client = TcpStream::connect(address).unwrap();
    client.set_nonblocking(true).unwrap();
    let accepted = until(reactor, |ready| match ready {
        Some(Ready::Source(SourceId(7))) => listener.accept().unwrap(),
        _ => None,
    });
    reactor.unwatch(listener.descriptor()).unwrap();
    (client, reactor.register(accepted.socket, reactor.create_task()).unwrap())
}

fn session(settings: ServerSideBuilder) -> Session {
    let pair = Pair::self_made(&["a.test".to_owned()]).unwrap();
    Session::server(Arc::new(OneServer(Arc::new(settings.pair(pair).build().unwrap()))))
}

/// The client's end: a socket that does not block.
struct Client {
    socket: TcpStream,
    session: Session,
    /// Lengths of the records with data that have come, with their heads.
    records: Vec<usize>,
    unread: Vec<u8>,
}

impl Client {
    fn new(socket: TcpStream) -> Self {
        let side = ClientSide::new(Trust::Anyone).build().unwrap();
        let session = Session::client(&side, "a.test").unwrap();
        Self { socket, session, records: Vec::new(), unread: Vec::new() }
    }

    fn hello(&mut self) -> Vec<u8> {
        let mut hello = Vec::new();
        self.session.take_output(&mut hello);
        hello
    }

    /// Reads what has come and answers it; gives the plaintext.
    fn turn(&mut self) -> Vec<u8> {
        let mut room = vec![0; 65_536];
        while let Ok(count @ 1..) = self.socket.read(&mut room) {
            self.unread.extend_from_slice(&room[..count]);
        }
        let mut plain = Vec::new();
        while let Some(length) = self.unread.get(3..RECORD_HEAD_BYTES).map(|length| [length[0], length[1]]) {
            let whole = RECORD_HEAD_BYTES + usize::from(u16::from_be_bytes(length));
            if self.unread.len() < whole {
                break;
            }
            let mut record: Vec<u8> = self.unread.drain(..whole).collect();
            let before = plain.len();
            self.session.receive(&mut record, &mut |part| plain.extend_from_slice(part)).unwrap();
            if plain.len() > before {
                self.records.push(whole);
            }
        }
        let mut answer = Vec::new();
        self.session.take_output(&mut answer);
        self.socket.write_all(&answer).unwrap();
        plain
    }

    fn send_text(&mut self, text: &[u8]) {
        let mut record = vec![0; text.len() + 200];
        let sealed = self.session.seal(text, RECORD_BYTES_MAX, &mut record).unwrap();
        self.socket.write_all(&record[..sealed.written]).unwrap();
    }
}

fn shake(reactor: &Reactor, client: &mut Client, transport: &Transport) {
    until(reactor, |_| {
        let done = transport.handshake().unwrap() == HandshakeProgress::Done;
        client.turn();
        (done && !client.session.is_handshaking()).then_some(())
    });
}

/// A client and the reactor's end, with the handshake behind them.
fn open(reactor: &Rc<Reactor>) -> (Client, Transport) {
    let (socket, stream) = connect(reactor);
    let mut client = Client::new(socket);
    let transport = Transport::secure(stream, session(ServerSide::new()));
    let hello = client.hello();
    client.socket.write_all(&hello).unwrap();
    shake(reactor, &mut client, &transport);
    (client, transport)
}

fn read_some(reactor: &Reactor, transport: &Transport) -> Vec<u8> {
    until(reactor, |_| match transport.read_with(1 << 16, <[u8]>::to_vec).unwrap() {
        Read::Data(bytes) => Some(bytes),
        Read::NotReady => None,
        Read::Closed => panic!("it is open"),
    })
}

#[test]
fn bytes_read_before_tls_began_belong_to_the_handshake() {
    for convert in [false, true] {
        for cut in [1, 100, usize::MAX] {
            let reactor = Reactor::new().unwrap();
            let (socket, stream) = connect(&reactor);
            let mut client = Client::new(socket);
            let hello = client.hello();
            let (before, behind) = hello.split_at(cut.min(hello.len()));
            let session = session(ServerSide::new());
            let transport = if convert {
                let plain = Transport::plain(stream);
                assert_eq!((plain.is_secure(), plain.held_bytes()), (false, 0));
                plain.into_secure(session, before.to_vec())
            } else {
                Transport::secure_after(stream, session, before.to_vec())
            };
            assert!(transport.is_secure() && transport.is_readable());
            client.socket.write_all(behind).unwrap();
            shake(&reactor, &mut client, &transport);
            client.send_text(b"request");
            assert_eq!(read_some(&reactor, &transport), b"request");
        }
    }
}

/// Plaintext of small records, and how much goes in them.
const SMALL: (usize, usize) = (1369, 13_690);

#[test]
fn records_start_small_and_grow_to_the_configured_size() {
    for (asked, size) in [(4096, 4096), (1, 512), (10_000, 10_000), (usize::MAX, RECORD_BYTES_MAX)] {
        let reactor = Reactor::new().unwrap();
        let (socket, stream) = connect(&reactor);
        let mut client = Client::new(socket);
        let transport =
            Transport::secure_after(stream, session(ServerSide::new().record_bytes_max(asked)), client.hello());
        shake(&reactor, &mut client, &transport);
        let (head, body) = (vec![b'h'; 700], vec![b'b'; 100_000]);
        let whole = [head.as_slice(), &body].concat();
        let (mut sent, mut heard) = (0, Vec::new());
        until(&reactor, |_| {
            let parts = [IoSlice::new(&whole[sent..700.max(sent)]), IoSlice::new(&whole[700.max(sent)..])];
            sent += transport.write(&parts, false).unwrap();
            heard.extend(client.turn());
            (heard.len() == whole.len()).then_some(())
        });
        assert!(heard == whole, "everything has come as it was");
        // Head, content type and tag.
        let overhead = RECORD_HEAD_BYTES + 1 + 16;
        let mut expected = Vec::new();
        let (small, most) = (SMALL.0.min(size), SMALL.1);
        for (record, count) in [(small, most), (size, whole.len() - most)] {
            expected.resize(expected.len() + count / record, record + overhead);
            expected.extend(Some(count % record + overhead).filter(|_| count % record > 0));
        }
        assert_eq!(client.records, expected, "{asked}");
    }
}

#[test]
fn tls_memory_is_reported() {
    let reactor = Reactor::new().unwrap();
    let (socket, stream) = connect(&reactor);
    let mut client = Client::new(socket);
    let mut hello = client.hello();
    let rest = hello.split_off(100);
    let transport = Transport::secure_after(stream, session(ServerSide::new()), hello);
    assert_eq!(transport.handshake().unwrap(), HandshakeProgress::Waiting);
    let waiting = transport.held_bytes();
    assert!((100..1024).contains(&waiting), "{waiting}");
    client.socket.write_all(&rest).unwrap();
    until(&reactor, |_| {
        assert_eq!(transport.handshake().unwrap(), HandshakeProgress::Waiting);
        (transport.held_bytes() > 3072).then_some(())
    });
    let during = transport.held_bytes();
    shake(&reactor, &mut client, &transport);
    let open = transport.held_bytes();
    assert!(open < during && (1024..=4096).contains(&open), "{during} {open}");
    client.send_text(&[b'x'; 10_000]);
    assert_eq!(read_some(&reactor, &transport).len(), 10_000);
    assert_eq!(transport.held_bytes(), open);
}

#[test]
fn read_returns_at_most_the_requested_bytes() {
    let reactor = Rc::new(Reactor::new().unwrap());
    let (mut client, transport) = open(&reactor);
    let words: Vec<u8> = (0..10_000_u32).map(|at| at as u8).collect();
    let mut record = vec![0; 20_000];
    let sealed = client.session.seal(&words, RECORD_BYTES_MAX, &mut record).unwrap();
    client.socket.write_all(&record[..sealed.written]).unwrap();
    let mut heard = Vec::new();
    until(&reactor, |_| {
        while let Read::Data(count) = transport
            .read_with(300, |bytes| {
                heard.extend_from_slice(bytes);
                bytes.len()
            })
            .unwrap()
        {
            assert!(count <= 300, "{count} bytes");
            assert_eq!(transport.is_ready(Interest::READ), transport.is_readable());
        }
        (heard.len() == words.len()).then_some(())
    });
    assert_eq!(heard, words);
    assert!(!transport.is_readable());
}

#[test]
fn client_has_left_if_only_its_end_is_unread() {
    for words in [&b""[..], b"unread"] {
        let reactor = Rc::new(Reactor::new().unwrap());
        let (mut client, transport) = open(&reactor);
        let mut record = vec![0; 200];
        let sealed = client.session.seal(words, RECORD_BYTES_MAX, &mut record).unwrap();
        client.socket.write_all(&record[..sealed.written]).unwrap();
        client.session.close();
        let goodbye = client.hello();
        client.socket.write_all(&goodbye).unwrap();
        assert!(!transport.has_left(Leaving::ResetOrFin), "nothing but words came");
        client.socket.shutdown(std::net::Shutdown::Write).unwrap();
        until(&reactor, |_| transport.is_peer_closed().then_some(()));
        assert_eq!(transport.has_left(Leaving::ResetOrFin), words.is_empty());
        if !words.is_empty() {
            assert_eq!(read_some(&reactor, &transport), words);
            assert!(transport.has_left(Leaving::ResetOrFin));
        }
        assert!(!transport.has_left(Leaving::Ignored) && !transport.has_left(Leaving::Reset));
    }
}
