//! The peers of the soak: blocking threads, one per connection, that answer and then end the connection in their own
//! way. Each POST has a number in its target, and each peer counts the numbers that it executes.

use super::plan::{Group, Habit};
use anyhow::Result;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
/// Our requests are shorter than this.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// How often a peer without an idle limit checks whether the soak is over.
const PATIENT: Duration = Duration::from_secs(2);

struct Seen {
    /// Executions by number of the POST; the count stops at 255.
    executed: Vec<AtomicU8>,
    /// Connections accepted, by group.
    opened: Vec<AtomicU64>,
    over: AtomicBool,
}

/// Each group has two peers of one habit: the proxy may use the second when the first has closed a connection.
const PEERS_PER_GROUP: usize = 2;

/// All peers of one arm.
pub(super) struct Peers {
    /// Ports by group.
    ports: Vec<Vec<u16>>,
    seen: Arc<Seen>,
}

impl Peers {
    /// Starts the peers of each group.
    pub(super) fn start(groups: &[Group]) -> Result<Self> {
        let requests = groups.last().map_or(0, |group| group.ids.end);
        let executed = (0..requests).map(|_| AtomicU8::new(0)).collect();
        let opened = groups.iter().map(|_| AtomicU64::new(0)).collect();
        let seen = Arc::new(Seen { executed, opened, over: AtomicBool::new(false) });
        let mut ports = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            let mut of_group = Vec::new();
            for _ in 0..PEERS_PER_GROUP {
                let listener = TcpListener::bind(("127.0.0.1", 0))?;
                of_group.push(listener.local_addr()?.port());
                let (seen, habit) = (Arc::clone(&seen), group.habit);
                std::thread::spawn(move || accept(&listener, index, habit, &seen));
            }
            ports.push(of_group);
        }
        Ok(Self { ports, seen })
    }

    /// Ports by group.
    pub(super) fn ports(&self) -> &[Vec<u16>] {
        &self.ports
    }

    /// Connections accepted, by group.
    pub(super) fn opened(&self) -> Vec<u64> {
        self.seen.opened.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Ends the peers; returns the executions of each POST.
    pub(super) fn stop(&self) -> Vec<u8> {
        self.seen.over.store(true, Ordering::Release);
        for port in self.ports.iter().flatten() {
            // A connection from here ends the wait for the next one.
            let _ = TcpStream::connect(("127.0.0.1", *port));
        }
        self.seen.executed.iter().map(|times| times.load(Ordering::Acquire)).collect()
    }
}

fn accept(listener: &TcpListener, group: usize, habit: Habit, seen: &Arc<Seen>) {
    while let Ok((stream, _)) = listener.accept() {
        if seen.over.load(Ordering::Acquire) {
            return;
        }
        if let Some(opened) = seen.opened.get(group) {
            opened.fetch_add(1, Ordering::Relaxed);
        }
        let seen = Arc::clone(seen);
        // The thread ends together with its connection, cleanly or not; the soak is about both.
        std::thread::spawn(move || _ = serve(stream, habit, &seen));
    }
}

fn serve(mut stream: TcpStream, habit: Habit, seen: &Seen) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(habit.idle().unwrap_or(PATIENT)))?;
    let mut pending = Vec::new();
    for served in 1_u32.. {
        while !next_request(&mut stream, &mut pending, seen)? {
            match habit {
                Habit::ClosesIdle(_) => return Ok(()),
                Habit::HalfCloses(_) => {
                    stream.shutdown(Shutdown::Write)?;
                    stream.set_read_timeout(Some(PATIENT))?;
                    next_request(&mut stream, &mut pending, seen)?;
                    return Ok(());
                }
                _ if seen.over.load(Ordering::Acquire) => return Ok(()),
                _ => {}
            }
        }
        std::thread::park_timeout(habit.answers_after());
        match habit {
            Habit::ExecutesAndResets(every) if served % every == 0 => return reset(stream),
            _ => stream.write_all(ANSWER)?,
        }
        if matches!(habit, Habit::ClosesAfter(count) if served == count) {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads and executes the next request; `false` if none arrived in time.
fn next_request(stream: &mut TcpStream, pending: &mut Vec<u8>, seen: &Seen) -> std::io::Result<bool> {
    loop {
        if let Some(length) = whole(pending) {
            execute(&pending[..length], seen);
            pending.drain(..length);
            return Ok(true);
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) if pending.len() > REQUEST_BYTES_MAX => return Err(ErrorKind::InvalidData.into()),
            Ok(count) => pending.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Length of the first request, once it is complete. Only POSTs have a body, of five bytes.
fn whole(pending: &[u8]) -> Option<usize> {
    let head = pending.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let length = head + if pending.starts_with(b"POST ") { 5 } else { 0 };
    (pending.len() >= length).then_some(length)
}

fn execute(request: &[u8], seen: &Seen) {
    let Some(rest) = request.strip_prefix(b"POST /") else { return };
    // `GROUP/NUMBER`
    let digits = rest.iter().copied().skip_while(|byte| *byte != b'/').skip(1).take_while(u8::is_ascii_digit);
    let id = String::from_utf8(digits.collect()).ok().and_then(|digits| digits.parse::<usize>().ok());
    if let Some(times) = id.and_then(|id| seen.executed.get(id)) {
        // This cannot fail: the closure always returns a value.
        let _ = times.fetch_update(Ordering::AcqRel, Ordering::Acquire, |times| Some(times.saturating_add(1)));
    }
}

/// Closes with RST instead of FIN.
fn reset(stream: TcpStream) -> std::io::Result<()> {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    drop(stream);
    Ok(())
}
