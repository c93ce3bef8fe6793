//! A name server that plays a script: it answers, is silent, is slow, truncates, or lies, over UDP and over TCP on one port.
//! It reads and writes DNS messages (RFC 1035) with means of its own, so that a mistake of the product's codec shows.

use crate::DEADLINE;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A blocked receive looks this often whether the test is over.
const SLICE: Duration = Duration::from_millis(20);
/// Bytes of the largest question that a test sends.
const QUESTION_BYTES_MAX: usize = 1024;
/// TCP and UDP want the same port; a free one is found soon.
const PORTS_TRIED_MAX: usize = 100;

/// Record type of IPv4 addresses.
pub const A: u16 = 1;
/// Record type of IPv6 addresses.
pub const AAAA: u16 = 28;
/// Record type of aliases.
const CNAME: u16 = 5;
/// Record type of services.
pub const SRV: u16 = 33;

/// A question as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsQuestion {
    /// In lower case, without the root's dot.
    pub name: String,
    /// [`A`], [`AAAA`], [`SRV`].
    pub kind: u16,
    /// It came over TCP.
    pub tcp: bool,
    id: [u8; 2],
    /// The question section, to be sent back letter by letter.
    section: Vec<u8>,
}

/// Response codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // RFC 1035's names
pub enum DnsCode {
    NoError = 0,
    ServerFailure = 2,
    NameError = 3,
    Refused = 5,
}

impl DnsQuestion {
    fn parse(message: &[u8], tcp: bool) -> Option<Self> {
        let id = [*message.first()?, *message.get(1)?];
        let mut at = 12;
        let mut labels = Vec::new();
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            labels.push(String::from_utf8_lossy(message.get(at..at + length)?).to_ascii_lowercase());
            at += length;
        }
        let kind = u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]);
        let section = message.get(12..at + 4)?.to_vec();
        Some(Self { name: labels.join("."), kind, tcp, id, section })
    }

    fn message(&self, code: DnsCode, truncated: bool, answers: &[Vec<u8>], authority: &[Vec<u8>]) -> Vec<u8> {
        let flags: u16 = 0x8180 | if truncated { 0x0200 } else { 0 } | code as u16;
        let mut message = self.id.to_vec();
        message.extend_from_slice(&flags.to_be_bytes());
        for count in [1, answers.len(), authority.len(), 0] {
            message.extend_from_slice(&(count as u16).to_be_bytes());
        }
        message.extend_from_slice(&self.section);
        for record in answers.iter().chain(authority) {
            message.extend_from_slice(record);
        }
        message
    }

    /// The addresses of the kind that was asked for, each with this time to live in seconds.
    pub fn addresses(&self, ttl: u32, addresses: &[&str]) -> Vec<u8> {
        let records = addresses.iter().filter_map(|address| {
            let data = match address.parse().unwrap() {
                IpAddr::V4(ip) if self.kind == A => ip.octets().to_vec(),
                IpAddr::V6(ip) if self.kind == AAAA => ip.octets().to_vec(),
                _ => return None,
            };
            Some(record(self.kind, ttl, &data))
        });
        self.message(DnsCode::NoError, false, &records.collect::<Vec<_>>(), &[])
    }

    /// The targets of a service: priority, weight, port, name.
    pub fn services(&self, ttl: u32, targets: &[(u16, u16, u16, &str)]) -> Vec<u8> {
        let records: Vec<_> = targets.iter().map(|target| service(&ASKED, ttl, target)).collect();
        self.message(DnsCode::NoError, false, &records, &[])
    }

    /// The name is an alias, and the answer says no more than that.
    pub fn alias(&self, ttl: u32, of: &str) -> Vec<u8> {
        self.message(DnsCode::NoError, false, &[record(CNAME, ttl, &encode_name(of))], &[])
    }

    /// The name is an alias, and the targets of the service that it means are in the same answer.
    pub fn alias_of_services(&self, ttl: u32, of: &str, targets: &[(u16, u16, u16, &str)]) -> Vec<u8> {
        let owner = encode_name(of);
        let mut records = vec![record(CNAME, ttl, &owner)];
        records.extend(targets.iter().map(|target| service(&owner, ttl, target)));
        self.message(DnsCode::NoError, false, &records, &[])
    }

    /// Nothing but a code.
    pub fn code(&self, code: DnsCode) -> Vec<u8> {
        self.message(code, false, &[], &[])
    }

    /// There is no such name, for this many seconds (RFC 2308).
    pub fn absent(&self, seconds: u32) -> Vec<u8> {
        let mut data = [encode_name("ns.test"), encode_name("host.test")].concat();
        for number in [1, 3600, 600, 86_400, seconds] {
            data.extend_from_slice(&u32::to_be_bytes(number));
        }
        self.message(DnsCode::NameError, false, &[], &[record(6, seconds, &data)])
    }

    /// The answer does not fit: ask again over TCP.
    pub fn truncated(&self) -> Vec<u8> {
        self.message(DnsCode::NoError, true, &[], &[])
    }

    /// An answer of a sender that has not seen the question: the number is wrong.
    pub fn forged(&self, addresses: &[&str]) -> Vec<u8> {
        let mut message = self.addresses(86_400, addresses);
        message[0] ^= 0xff;
        message
    }
}

/// Points at the question's name.
const ASKED: [u8; 2] = [0xc0, 0x0c];

/// A target of a service: priority, weight, port, name.
fn service(owner: &[u8], ttl: u32, (priority, weight, port, target): &(u16, u16, u16, &str)) -> Vec<u8> {
    let mut data = Vec::new();
    for number in [priority, weight, port] {
        data.extend_from_slice(&number.to_be_bytes());
    }
    data.extend_from_slice(&encode_name(target));
    record_of(owner, SRV, ttl, &data)
}

/// A record about the name that was asked for.
fn record(kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    record_of(&ASKED, kind, ttl, data)
}

fn record_of(owner: &[u8], kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let mut record = owner.to_vec();
    record.extend_from_slice(&kind.to_be_bytes());
    record.extend_from_slice(&1u16.to_be_bytes());
    record.extend_from_slice(&ttl.to_be_bytes());
    record.extend_from_slice(&(data.len() as u16).to_be_bytes());
    record.extend_from_slice(data);
    record
}

fn encode_name(name: &str) -> Vec<u8> {
    let mut encoded = Vec::new();
    for label in name.split('.') {
        encoded.push(label.len() as u8);
        encoded.extend_from_slice(label.as_bytes());
    }
    encoded.push(0);
    encoded
}

/// What a script answers with: messages, one after the other; none at all is silence.
type Script = dyn Fn(&DnsQuestion) -> Vec<Vec<u8>> + Send + Sync;

struct Play {
    script: Box<Script>,
    questions: Mutex<Vec<DnsQuestion>>,
    over: AtomicBool,
}

impl Play {
    fn answers(&self, message: &[u8], tcp: bool) -> Vec<Vec<u8>> {
        let Some(question) = DnsQuestion::parse(message, tcp) else { return Vec::new() };
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).push(question.clone());
        (self.script)(&question)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// A running name server; dropping it stops it.
pub struct NameServer {
    address: SocketAddr,
    play: Arc<Play>,
    threads: Vec<JoinHandle<()>>,
}

impl NameServer {
    /// Plays the script for every question. Each question has a thread of its own, so a script may wait.
    pub fn script(script: impl Fn(&DnsQuestion) -> Vec<Vec<u8>> + Send + Sync + 'static) -> Self {
        let (udp, tcp) = bound();
        let address = udp.local_addr().unwrap();
        let play =
            Arc::new(Play { script: Box::new(script), questions: Mutex::default(), over: AtomicBool::new(false) });
        let threads = vec![
            std::thread::spawn({
                let play = Arc::clone(&play);
                move || serve_udp(&Arc::new(udp), &play)
            }),
            std::thread::spawn({
                let play = Arc::clone(&play);
                move || serve_tcp(&tcp, &play)
            }),
        ];
        Self { address, play, threads }
    }

    /// Where it listens, over UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything that was asked so far.
    pub fn questions(&self) -> Vec<DnsQuestion> {
        self.play.questions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.play.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the name server has failed");
        }
    }
}

/// Two sockets on one port of the kernel's choice.
fn bound() -> (UdpSocket, TcpListener) {
    for _ in 0..PORTS_TRIED_MAX {
        let udp = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
            udp.set_read_timeout(Some(SLICE)).unwrap();
            tcp.set_nonblocking(true).unwrap();
            return (udp, tcp);
        }
    }
    panic!("no port is free for both UDP and TCP");
}

fn serve_udp(socket: &Arc<UdpSocket>, play: &Arc<Play>) {
    let mut buffer = [0; QUESTION_BYTES_MAX];
    while !play.is_over() {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let (message, socket, play) = (buffer[..length].to_vec(), Arc::clone(socket), Arc::clone(play));
        std::thread::spawn(move || {
            for answer in play.answers(&message, false) {
                let _ = socket.send_to(&answer, from);
            }
        });
    }
}

fn serve_tcp(listener: &TcpListener, play: &Arc<Play>) {
    while !play.is_over() {
        match listener.accept() {
            Ok((stream, _)) => {
                let play = Arc::clone(play);
                std::thread::spawn(move || drop(talk(stream, &play)));
            }
            Err(_) => std::thread::park_timeout(SLICE),
        }
    }
}

/// Messages over TCP have their length before them.
fn talk(mut stream: TcpStream, play: &Play) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length)).min(QUESTION_BYTES_MAX)];
        stream.read_exact(&mut message)?;
        for answer in play.answers(&message, true) {
            stream.write_all(&(answer.len() as u16).to_be_bytes())?;
            stream.write_all(&answer)?;
        }
    }
}
