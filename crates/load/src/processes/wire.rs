//! The messages between the parts of a load: lines of JSON, over pipes between processes and over a [`crate::remote::Courier`]
//! between machines. The parent sends an [`Order`] and the start time, and closes its pipe to stop. A part sends its workers'
//! messages. Pure: it takes bytes and returns values.

use crate::crew::Part;
use crate::loan::Loan;
use crate::options::Options;
use crate::script::{Globals, ScriptStart};
use crate::websocket;
use crate::worker::Message;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read as _};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Longest line that is read. An order contains the body, at most a gigabyte at four characters a byte. A record has at
/// most a thousand targets, whose full histograms take some hundred kilobytes each.
const LINE_BYTES_MAX: u64 = 5 << 30;

/// The part of the load that a child must run: settings, never a command.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub(crate) part: Part,
    pub(crate) work: Work,
}

/// The shared load, by protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    Http {
        options: Box<Options>,
        /// Address of each target, so that all processes use the same ones.
        addresses: Vec<SocketAddr>,
        /// What the script's `setup` gave to each worker, if there is a script.
        threads: Vec<ScriptStart>,
    },
    WebSocket {
        options: Box<websocket::WebSocketOptions>,
        /// Address of the target.
        address: SocketAddr,
        /// The number of the run, which every message contains.
        run: u32,
        /// The file of the counters that all processes share.
        counters: PathBuf,
    },
}

/// The start time, on the clock that all processes of a machine share (`CLOCK_MONOTONIC`).
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) monotonic_ns: u64,
    /// How far the run has gone when the part joins it.
    #[serde(default)]
    pub(crate) from_ns: u64,
}

/// A message of a child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said<R> {
    /// The workers are built and wait.
    Ready,
    /// The workers have begun, this long after they should have.
    Began { late_ns: u64 },
    /// The child cannot take part, for this reason.
    Refused(String),
    /// [`Message::Interval`].
    Interval { worker: usize, interval: u64, record: Loan<R>, last: bool },
    /// [`Message::Done`].
    Done { worker: usize, ended_ns: u64, completed_ns: u64 },
    /// [`Message::Failed`].
    Failed(String),
    /// [`Message::Stopped`].
    Stopped,
    /// [`Message::Script`].
    Script { worker: usize, globals: Globals },
    /// The part is lost in this way.
    Lost(String),
    /// The child sends nothing more.
    End,
}

impl<R> Said<R> {
    /// The message of a worker, in a form that can be sent.
    pub(crate) fn of(message: Message<R>) -> Option<Self> {
        match message {
            Message::Interval { worker, interval, record, last } => {
                Some(Self::Interval { worker, interval, record, last })
            }
            Message::Done { worker, ended_ns, completed_ns } => Some(Self::Done { worker, ended_ns, completed_ns }),
            Message::Failed(error) => Some(Self::Failed(error.to_string())),
            Message::Stopped => Some(Self::Stopped),
            Message::Script { worker, globals } => Some(Self::Script { worker, globals }),
            // Only a parent sends these, for all workers together.
            Message::Ready | Message::Lost { .. } | Message::Mark(_) | Message::Agents(_) => None,
        }
    }

    /// The same message as from a worker of this process.
    pub(crate) fn into_message(self) -> Option<Message<R>> {
        match self {
            Self::Interval { worker, interval, record, last } => {
                Some(Message::Interval { worker, interval, record, last })
            }
            Self::Done { worker, ended_ns, completed_ns } => Some(Message::Done { worker, ended_ns, completed_ns }),
            Self::Failed(text) => Some(Message::Failed(io::Error::other(text))),
            Self::Stopped => Some(Message::Stopped),
            Self::Script { worker, globals } => Some(Message::Script { worker, globals }),
            Self::Ready | Self::Began { .. } | Self::Refused(_) | Self::Lost(_) | Self::End => None,
        }
    }

    /// The worker that it is about.
    pub(crate) fn worker(&self) -> Option<usize> {
        match self {
            Self::Interval { worker, .. } | Self::Done { worker, .. } | Self::Script { worker, .. } => Some(*worker),
            _ => None,
        }
    }
}

/// One line, with its line end.
pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("numbers, texts and lists are always JSON");
    line.push(b'\n');
    line
}

/// The next line; `None` at the end of the stream, even within a line, because then the writer is gone.
pub(super) fn parse_next<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Ok(None);
    }
    serde_json::from_slice(&line).map(Some).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cause, HttpRecord, Pace, Target};
    use std::time::Duration;

    #[test]
    fn an_order_arrives_as_it_was_given() {
        let mut target = Target::new("http://[::1]:81/x?y={{counter}}".parse().unwrap());
        target.fields.push(("A".to_owned(), "ü\u{0}".to_owned()));
        target.body = (0..=255).collect();
        let pace = Pace::constant(2_400.5, Duration::from_nanos(1_234_567_890));
        let options = Options { pace, seed: u64::MAX, requests: Some(7), ..Options::new(target) };
        let address: SocketAddr = "[::1]:81".parse().unwrap();
        let http =
            Work::Http { options: Box::new(options), addresses: vec![address], threads: vec![ScriptStart::default()] };
        let sound = websocket::WebSocketOptions::new(websocket::parse_url("ws://a/{{room}}").unwrap());
        let storm = Some(websocket::Storm { after: Duration::from_nanos(3), share: 0.1 });
        let options = Box::new(websocket::WebSocketOptions { storm, rooms: Some(7), ramp: 0.3, ..sound });
        let websocket = Work::WebSocket { options, address, run: u32::MAX, counters: "/proc/1/fd/2".into() };
        for work in [http, websocket] {
            let order = Order { part: Part { index: 2, of: 3 }, work };
            let line = encode(&order);
            let read: Order = parse_next(&mut line.as_slice()).unwrap().unwrap();
            assert_eq!((read.part, read.work), (order.part, order.work));
        }
    }

    #[test]
    fn transferred_records_merge_bit_for_bit() {
        let records = (0..4u64).map(|worker| {
            let mut record = HttpRecord::new(2);
            for n in 1..5_000u64 {
                let latency_ns = (n * n * 7 + worker * 13) % 3_000_000_000;
                let target = &mut record.targets[(n % 2) as usize];
                target.response(if n % 50 == 0 { 503 } else { 200 }, n % 9, latency_ns);
                record.generator.lag.record(latency_ns / 1_000);
                record.service.record(latency_ns / 2);
            }
            record.targets[0].failure(Cause::Silent, 30_000_000_000);
            record.opened = worker;
            record.server = Some(format!("server {worker}"));
            record
        });
        let (mut here, mut sent) = (HttpRecord::default(), HttpRecord::default());
        for (worker, record) in records.enumerate() {
            here.add(&record);
            let line = encode(&Said::Interval { worker, interval: 0, record: Loan::of(record), last: true });
            let Ok(Some(Said::Interval { record, .. })) = parse_next(&mut line.as_slice()) else { panic!("a record") };
            sent.add(&record);
        }
        assert_eq!(here, sent);
        let bytes = |record: &HttpRecord| (record.whole().latency.histogram().encode(), encode(record));
        assert_eq!(bytes(&here), bytes(&sent));
    }

    #[test]
    fn ignores_a_line_that_breaks_off() {
        let line = encode(&Said::<HttpRecord>::Ready);
        let cut = line.get(..line.len() - 1).unwrap();
        assert!(matches!(parse_next::<Said<HttpRecord>>(&mut &*cut), Ok(None)));
        assert!(matches!(parse_next::<Said<HttpRecord>>(&mut &b""[..]), Ok(None)));
        assert!(parse_next::<Said<HttpRecord>>(&mut &b"{\"done\":{}}\n"[..]).is_err());
        assert!(parse_next::<Said<HttpRecord>>(&mut &b"\xff\n"[..]).is_err());
    }
}
