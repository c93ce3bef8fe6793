//! The client: it sends a case's bytes and records the answers, until it knows whether the connection continues. It has
//! its own parser, which accepts anything that either side sends, so that the answers can be compared.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use crate::differential::cases::Case;
use testkit::{Came, Talk};

/// How long a client waits for bytes, however loaded the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// More than any head or body in a case.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Asks whether the connection still works and is at the beginning of a request. Both sides answer 204.
const PROBE: &[u8] = b"GET /alive HTTP/1.1\r\nHost: alive\r\n\r\n";

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Including interim responses.
    pub(crate) answers: Vec<Answer>,
    pub(crate) end: End,
}

/// One response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    pub(crate) version: String,
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// One character per byte, without white space around values.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    /// The connection ended before the body did.
    pub(crate) is_cut: bool,
    /// An answer to HEAD.
    pub(crate) to_head: bool,
}

/// What happened to the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The next request on it was answered.
    Open,
    Closed,
    /// The next request was answered with another status: the sides disagree about where the last request ended.
    Confused(u16),
    /// Nothing arrived, not even the end.
    Silent,
    /// The bytes are no response.
    Garbage(String),
}

impl Answer {
    /// The values of a field, in their order.
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value).collect()
    }
}

/// Runs a case against one side.
pub(crate) fn run(address: SocketAddr, case: &Case) -> Observed {
    run_within(PATIENCE, address, case)
}

/// Runs a case against one side. `patience` is the longest wait for bytes.
pub(crate) fn run_within(patience: Duration, address: SocketAddr, case: &Case) -> Observed {
    let talk = Talk::connect(address);
    let mut writer = talk.socket().try_clone().unwrap();
    writer.set_write_timeout(Some(patience)).unwrap();
    std::thread::scope(|scope| {
        // A side may answer before it has read everything, so writing must not block reading.
        scope.spawn(move || {
            let _ = writer.write_all(&case.bytes);
        });
        Client::new(talk, patience).observe(case)
    })
}

/// The same on a connection under TLS, for cases that the sockets can hold.
pub(crate) fn run_secure(mut talk: Talk, case: &Case) -> Observed {
    talk.send(&case.bytes);
    Client::new(talk, PATIENCE).observe(case)
}

struct Client {
    talk: Talk,
    patience: Duration,
    pending: Vec<u8>,
    is_over: bool,
    is_silent: bool,
}

impl Client {
    fn new(talk: Talk, patience: Duration) -> Self {
        Self { talk, patience, pending: Vec::new(), is_over: false, is_silent: false }
    }

    fn observe(&mut self, case: &Case) -> Observed {
        let mut answers = Vec::new();
        for to_head in &case.to_head {
            loop {
                let mut answer = match self.head() {
                    Ok(Some(answer)) => answer,
                    Ok(None) => return Observed { answers, end: self.ended() },
                    Err(garbage) => return Observed { answers, end: End::Garbage(garbage) },
                };
                answer.to_head = *to_head;
                let is_interim = (100..200).contains(&answer.status) && answer.status != 101;
                if !is_interim {
                    self.body(&mut answer);
                }
                answers.push(answer);
                if !is_interim {
                    break;
                }
            }
            if self.is_over {
                return Observed { answers, end: self.ended() };
            }
        }
        let end = self.probe(answers.last());
        Observed { answers, end }
    }

    fn probe(&mut self, last: Option<&Answer>) -> End {
        let announces_close = last.is_some_and(|last| last.values("Connection").contains(&"close"));
        if announces_close {
            self.talk.half_close();
        } else {
            self.talk.send(PROBE);
        }
        match self.head() {
            Ok(None) => self.ended(),
            Ok(Some(answer)) if answer.status == 204 => End::Open,
            Ok(Some(answer)) => End::Confused(answer.status),
            Err(garbage) => End::Garbage(garbage),
        }
    }

    fn ended(&self) -> End {
        if self.is_silent { End::Silent } else { End::Closed }
    }

    /// Receives once; `false`: nothing more will arrive.
    fn receive(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        match self.talk.came_within(self.patience) {
            Came::Bytes(bytes) => {
                self.pending.extend_from_slice(&bytes);
                assert!(self.pending.len() < ANSWER_BYTES_MAX, "an endless answer");
                return true;
            }
            // Whether a close shows as FIN or RST depends on timing.
            Came::End => {}
            Came::Nothing => self.is_silent = true,
        }
        self.is_over = true;
        false
    }

    /// Reads a head; `Ok(None)`: the connection ended instead.
    fn head(&mut self) -> Result<Option<Answer>, String> {
        while !self.pending.windows(4).any(|window| window == b"\r\n\r\n") {
            if !self.receive() {
                if self.pending.is_empty() {
                    return Ok(None);
                }
                return Err(self.pending.escape_ascii().to_string());
            }
        }
        let end = self.pending.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head: String = self.pending.drain(..end + 4).map(char::from).collect();
        let mut lines = head.trim_end_matches("\r\n").split("\r\n");
        let mut words = lines.next().unwrap_or_default().splitn(3, ' ');
        let version = words.next().unwrap_or_default().to_owned();
        let status = words.next().and_then(|word| word.parse().ok()).ok_or_else(|| head.clone())?;
        let reason = words.next().unwrap_or_default().to_owned();
        Ok(Some(Answer { version, status, reason, fields: parse_fields(lines), ..Answer::default() }))
    }

    fn body(&mut self, answer: &mut Answer) {
        if answer.to_head || matches!(answer.status, 101 | 204 | 304) {
            return;
        }
        if answer.values("Transfer-Encoding").contains(&"chunked") {
            answer.is_cut = self.chunks(answer).is_none();
            return;
        }
        if let Some(length) = answer.values("Content-Length").first().and_then(|value| value.parse().ok()) {
            answer.is_cut = !self.take(length, &mut answer.body);
        } else {
            while self.receive() {}
            answer.body.append(&mut self.pending);
        }
    }

    fn take(&mut self, count: usize, into: &mut Vec<u8>) -> bool {
        while self.pending.len() < count && self.receive() {}
        let whole = self.pending.len() >= count;
        into.extend(self.pending.drain(..count.min(self.pending.len())));
        whole
    }

    /// `None`: the connection ended inside, or the framing is invalid.
    fn chunks(&mut self, answer: &mut Answer) -> Option<()> {
        loop {
            let size = usize::from_str_radix(self.line()?.trim(), 16).ok()?;
            if size == 0 {
                break;
            }
            self.take(size, &mut answer.body).then_some(())?;
            self.line()?.is_empty().then_some(())?;
        }
        let mut lines = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                answer.trailers = parse_fields(lines.iter().map(String::as_str));
                return Some(());
            }
            lines.push(line);
        }
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.pending.windows(2).position(|window| window == b"\r\n") {
                let line: Vec<u8> = self.pending.drain(..at + 2).collect();
                return Some(line[..at].iter().copied().map(char::from).collect());
            }
            self.receive().then_some(())?;
        }
    }
}

fn parse_fields<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    lines
        .map(|line| line.split_once(':').map_or((line, "(no colon)"), |(name, value)| (name, value.trim())))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
