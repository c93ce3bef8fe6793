//! A load over plain TCP: the messages that it sends and the replies that it expects. The connections are those of `http`,
//! which drives messages as it drives requests. Connections that are only held open are in `websocket`. Pure.

use crate::cause::Cause;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Longest message: if the target does not read, the connection keeps the message in memory.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Number of different messages: a prime, so that messages of one connection do not repeat in step with any round number.
const MESSAGES: usize = 65_521;

/// What happens on a connection of a load over TCP, again and again if connections are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Bytes that are sent. Nothing is sent if this is 0; then each connection is used once.
    pub bytes: usize,
    /// What must come back.
    pub reply: Reply,
}

impl Default for Exchange {
    fn default() -> Self {
        Self { bytes: 128, reply: Reply::Echo }
    }
}

impl Exchange {
    /// One word for reports, in the place of a method.
    pub fn name(self) -> &'static str {
        match (self.bytes, self.reply) {
            (0, Reply::None) => "connect",
            (0, _) => "receive",
            (_, Reply::None) => "send",
            (_, Reply::Echo) => "echo",
            (_, Reply::Bytes(_)) => "exchange",
        }
    }
}

/// What must come back for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The same bytes.
    Echo,
    /// This many bytes. They are not compared.
    Bytes(u64),
    /// Nothing: a message is complete when the socket has taken all of it.
    None,
}

impl FromStr for Reply {
    type Err = String;

    /// `echo`, `none`, or a number of bytes.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "echo" => Ok(Self::Echo),
            "none" => Ok(Self::None),
            _ => match report::typed::bytes(text) {
                Ok(0) => Ok(Self::None),
                Ok(bytes) => Ok(Self::Bytes(bytes)),
                Err(_) => Err("echo, none, or a number of bytes".to_owned()),
            },
        }
    }
}

/// The messages of a run. Each is a part of one block of random bytes, so that neighbours differ and none takes memory.
#[derive(Debug)]
pub(crate) struct Messages {
    block: Vec<u8>,
    exchange: Exchange,
    keepalive: bool,
}

impl Messages {
    pub(crate) fn new(exchange: Exchange, keepalive: bool, seed: u64) -> Self {
        let mut block = vec![0; if exchange.bytes == 0 { 0 } else { exchange.bytes + MESSAGES }];
        fastrand::Rng::with_seed(seed).fill(&mut block);
        Self { block, exchange, keepalive }
    }

    /// The message of this number.
    pub(crate) fn of(&self, number: u32) -> &[u8] {
        let begin = number as usize % MESSAGES;
        self.block.get(begin..begin + self.exchange.bytes).unwrap_or_default()
    }

    /// Whether nothing comes back.
    pub(crate) fn are_unanswered(&self) -> bool {
        self.exchange.reply == Reply::None
    }

    /// Whether a connection may carry another message.
    pub(crate) fn keep_connections(&self) -> bool {
        self.keepalive
    }

    /// Takes bytes of the reply to a message, of which `received` came before, and returns whether it is complete.
    pub(crate) fn take_reply(&self, number: u32, received: &mut u64, bytes: &mut &[u8]) -> Result<bool, Cause> {
        let expected = match self.exchange.reply {
            Reply::Echo => self.exchange.bytes as u64,
            Reply::Bytes(bytes) => bytes,
            Reply::None => 0,
        };
        let left = expected.saturating_sub(*received);
        let (taken, rest) = bytes.split_at(usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len())));
        if self.exchange.reply == Reply::Echo {
            let sent = self.of(number).get(*received as usize..).unwrap_or_default();
            if !sent.starts_with(taken) {
                return Err(Cause::Mismatch);
            }
        }
        *received += taken.len() as u64;
        *bytes = rest;
        Ok(*received >= expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(bytes: usize, reply: Reply) -> Messages {
        Messages::new(Exchange { bytes, reply }, true, 1)
    }

    #[test]
    fn replies_are_compared_in_pieces_of_any_size() {
        let messages = messages(1000, Reply::Echo);
        let sent = messages.of(7).to_vec();
        assert_ne!(sent, messages.of(8), "neighbours differ");
        assert_eq!(sent, messages.of(7 + MESSAGES as u32));
        for piece in [1, 7, 999, 1000] {
            let mut received = 0;
            let mut complete = false;
            for mut bytes in sent.chunks(piece) {
                assert!(!complete);
                complete = messages.take_reply(7, &mut received, &mut bytes).unwrap();
                assert!(bytes.is_empty());
            }
            assert!(complete, "{piece}");
        }
        let mut changed = sent.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(messages.take_reply(7, &mut 0, &mut changed.as_slice()), Err(Cause::Mismatch));
        assert_eq!(
            messages.take_reply(8, &mut 0, &mut sent.as_slice()),
            Err(Cause::Mismatch),
            "that of another message"
        );
    }

    #[test]
    fn bytes_behind_a_reply_are_left() {
        let mut received = 2;
        let mut bytes = b"abcdef".as_slice();
        assert_eq!(messages(9, Reply::Bytes(5)).take_reply(0, &mut received, &mut bytes), Ok(true));
        assert_eq!(bytes, b"def");
        assert_eq!(messages(9, Reply::None).take_reply(0, &mut 0, &mut bytes), Ok(true));
        assert_eq!(bytes, b"def");
    }

    #[test]
    fn replies_are_read_as_written() {
        let read = |text: &str| text.parse::<Reply>();
        assert_eq!((read("echo"), read("none"), read("0")), (Ok(Reply::Echo), Ok(Reply::None), Ok(Reply::None)));
        assert_eq!(read("64k"), Ok(Reply::Bytes(report::typed::bytes("64k").unwrap())));
        assert!(read("").is_err() && read("x").is_err());
        let names = [(0, Reply::None), (0, Reply::Bytes(1)), (1, Reply::None), (1, Reply::Echo), (1, Reply::Bytes(1))];
        let names = names.map(|(bytes, reply)| Exchange { bytes, reply }.name());
        assert_eq!(names, ["connect", "receive", "send", "echo", "exchange"]);
    }
}
