//! The clients of the soak: threads with one connection each. Clients of peers with an idle limit send bursts, with
//! pauses that end when the peers close; all others run in a closed loop. A connection that the proxy closes is opened
//! again, as a browser would do.

use super::plan::{BURST_OFFSET_MS, BURST_REQUESTS, Group, is_post, mixed};
use anyhow::{Result, anyhow};
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::Duration;

/// Clients of a group that pause together resume within this time.
const JITTER_US: u64 = 4000;
/// A later answer counts as none.
const PATIENCE: Duration = Duration::from_secs(30);

/// The result of a request: the status of its answer, or 1 without one.
pub(super) type Status = u16;

/// Whether a proxy answers at the port.
pub(super) fn answers(port: u16, groups: usize) -> bool {
    let mut client = Client { port, stream: None };
    client.ask("GET", groups - 1, u64::MAX).is_ok_and(|status| status == 200)
}

/// Sends all requests; returns the status of each by its number.
pub(super) fn run(port: u16, groups: &[Group]) -> Result<Vec<Status>> {
    let all = groups.last().map_or(0, |group| group.ids.end);
    let mut statuses = vec![0; usize::try_from(all)?];
    let barriers: Vec<Barrier> = groups.iter().map(|group| Barrier::new(group.clients as usize)).collect();
    let parts: Result<Vec<_>> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (index, (group, together)) in groups.iter().zip(&barriers).enumerate() {
            for number in 0..group.clients {
                let client = Client { port, stream: None };
                threads.push(scope.spawn(move || client.part(index, group, number, together)));
            }
        }
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a client panicked"))).collect()
    });
    for (id, status) in parts?.into_iter().flatten() {
        statuses[usize::try_from(id)?] = status;
    }
    Ok(statuses)
}

/// Length of the pause of a group's clients before a burst: the peers' idle limit, slightly varied. `burst` is the same
/// for all of them.
fn pause(limit: Duration, burst: u64, client: u64) -> Duration {
    let earliest = limit.saturating_sub(Duration::from_millis(BURST_OFFSET_MS));
    let offset = Duration::from_millis(mixed(burst) % (2 * BURST_OFFSET_MS));
    earliest + offset + Duration::from_micros(mixed(client) % JITTER_US)
}

struct Client {
    port: u16,
    stream: Option<TcpStream>,
}

impl Client {
    /// The requests of one client of a group.
    fn part(mut self, index: usize, group: &Group, number: u64, together: &Barrier) -> Vec<(u64, Status)> {
        let mut done = Vec::new();
        let ids = (group.ids.start + number..group.ids.end).step_by(group.clients as usize);
        for (turn, id) in ids.enumerate() {
            if let Some(limit) = group.habit.idle()
                && (turn as u64).is_multiple_of(BURST_REQUESTS)
            {
                // All clients have the same number of turns, so none waits for one that has ended.
                together.wait();
                if turn > 0 {
                    std::thread::park_timeout(pause(limit, group.ids.start + turn as u64, id));
                }
            }
            let status = self.ask(if is_post(id) { "POST" } else { "GET" }, index, id).unwrap_or(1);
            done.push((id, status));
        }
        done
    }

    /// Sends one request; returns the status of its answer.
    fn ask(&mut self, method: &str, group: usize, id: u64) -> std::io::Result<Status> {
        let mut stream = if let Some(stream) = self.stream.take() {
            stream
        } else {
            let stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream
        };
        let body = if method == "POST" { "Content-Length: 5\r\n\r\nworld" } else { "\r\n" };
        stream.write_all(format!("{method} /{group}/{id} HTTP/1.1\r\nHost: soak\r\n{body}").as_bytes())?;
        let (status, goes_on) = answer(&mut stream)?;
        self.stream = goes_on.then_some(stream);
        Ok(status)
    }
}

/// Reads one answer; returns whether the connection stays open.
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
