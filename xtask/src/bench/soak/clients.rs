//! The clients of the soak: threads with one connection each, closed loop, with common pauses now and then that let the
//! proxy's connections grow idle. A connection that the proxy ends is opened again, as a browser would.

use anyhow::Result;
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Clients that pause together begin again within this.
const JITTER_MS: u64 = 20;
/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the clients were told.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) gets: u64,
    pub(super) gets_failed: u64,
    pub(super) posts: u64,
    pub(super) posts_failed: u64,
}

/// Whether something answers at the port.
pub(super) fn answers(port: u16) -> bool {
    Client { port, stream: None }.ask("GET", u64::MAX).is_ok_and(|status| status == 200)
}

/// Sends all requests; also the status of each POST by its number (0: none was sent, or it got no answer at all: 1).
pub(super) fn run(port: u16, requests: u64, clients: u64, pauses: u64, idle_ms: u64) -> Result<(Tally, Vec<u16>)> {
    let parts: Vec<Vec<(u64, bool, u16)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|client| {
                let pause = move |id: u64| pause_ms(id / clients, pauses, idle_ms).map(|ms| ms + mixed(id) % JITTER_MS);
                scope.spawn(move || part(port, (client..requests).step_by(clients as usize), pause))
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut tally = Tally::default();
    let mut statuses = vec![0; usize::try_from(requests)?];
    for (id, is_post, status) in parts.into_iter().flatten() {
        let failed = u64::from(status != 200);
        if is_post {
            tally.posts += 1;
            tally.posts_failed += failed;
            statuses[usize::try_from(id)?] = status;
        } else {
            tally.gets += 1;
            tally.gets_failed += failed;
        }
    }
    Ok((tally, statuses))
}

/// Before which rounds all clients pause, and for how long: nothing, or a time about as long as one of the two shorter idle
/// limits, so that the peers close while the clients begin again.
fn pause_ms(round: u64, pauses: u64, idle_ms: u64) -> Option<u64> {
    let chance = mixed(round);
    (chance % 1000 < pauses).then(|| (idle_ms * (1 + (chance >> 20) % 2)).saturating_sub(JITTER_MS / 2))
}

fn part(port: u16, ids: impl Iterator<Item = u64>, pause: impl Fn(u64) -> Option<u64>) -> Vec<(u64, bool, u16)> {
    let mut client = Client { port, stream: None };
    ids.map(|id| {
        if let Some(ms) = pause(id) {
            std::thread::park_timeout(Duration::from_millis(ms));
        }
        let is_post = (mixed(id) >> 40).is_multiple_of(2);
        let status = client.ask(if is_post { "POST" } else { "GET" }, id).unwrap_or(1);
        (id, is_post, status)
    })
    .collect()
}

/// A number that looks random (splitmix64), the same in every arm.
fn mixed(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

struct Client {
    port: u16,
    stream: Option<TcpStream>,
}

impl Client {
    /// One request, and the status of its answer.
    fn ask(&mut self, method: &str, id: u64) -> std::io::Result<u16> {
        let mut stream = if let Some(stream) = self.stream.take() {
            stream
        } else {
            let stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream
        };
        let body = if method == "POST" { "Content-Length: 5\r\n\r\nworld" } else { "\r\n" };
        stream.write_all(format!("{method} /{id} HTTP/1.1\r\nHost: soak\r\n{body}").as_bytes())?;
        let (status, goes_on) = answer(&mut stream)?;
        self.stream = goes_on.then_some(stream);
        Ok(status)
    }
}

/// Reads one answer; whether the connection goes on behind it.
fn answer(stream: &mut TcpStream) -> std::io::Result<(u16, bool)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            let length: usize = field("content-length:").and_then(|value| value.parse().ok()).unwrap_or(0);
            if bytes.len() >= head + 4 + length {
                let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
                let goes_on = field("connection:") != Some("close") && field("content-length:").is_some();
                return Ok((status.ok_or(ErrorKind::InvalidData)?, goes_on));
            }
        }
        match stream.read(&mut buffer)? {
            0 => return Err(Error::from(ErrorKind::UnexpectedEof)),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}
