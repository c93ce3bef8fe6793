//! What coordinator and agents say to each other. A message is a line of JSON, and after it the bytes that it carries. No message
//! has a command: an order is the settings of a load.

use load::Limits;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Changed with the messages. Agents and coordinators with another number do not work together.
const PROTOCOL: u32 = 1;
/// Longest line of JSON; an agent's beat is the longest of them.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Longest name: it is a part of a subject, and a column of tables.
const NAME_BYTES_MAX: usize = 64;

/// The version that both sides must have: the settings of a load change with the program.
pub(crate) fn version() -> String {
    format!("{}/{PROTOCOL}", env!("CARGO_PKG_VERSION"))
}

/// The name of a farm or an agent: letters, digits, `-` and `_`, so that it is one token of a NATS subject.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.chars().all(is_allowed) {
            return Err(format!("a name has 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Name {
    /// The name of this machine, with a `-` for each letter that a name cannot have.
    pub fn of_this_machine() -> Self {
        let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
        let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
        let name: String = host.chars().map(letter).take(NAME_BYTES_MAX).collect();
        if name.is_empty() { Self("agent".to_owned()) } else { Self(name) }
    }
}

/// The subjects of a farm.
#[derive(Debug, Clone)]
pub(crate) struct Subjects(pub(crate) Name);

impl Subjects {
    /// Where agents say that they live.
    pub(crate) fn beats(&self) -> String {
        format!("holdfast.farm.{}.beat", self.0)
    }

    /// Where an agent gets orders.
    pub(crate) fn orders(&self, agent: &Name) -> String {
        format!("holdfast.farm.{}.order.{agent}", self.0)
    }

    /// Where the agents of a run report.
    pub(crate) fn reports(&self, run: u64) -> String {
        format!("holdfast.farm.{}.report.{run:016x}", self.0)
    }
}

/// Whether an agent has work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// It takes orders.
    Idle,
    /// It runs a part of a load.
    Busy,
    /// It is about to end.
    Leaving,
}

impl fmt::Display for AgentState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Leaving => "leaving",
        })
    }
}

/// What an agent says of itself, twice a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beat {
    /// Its version of the program and of these messages.
    pub version: String,
    /// Its name.
    pub name: Name,
    /// A random number of this process: two agents with one name have two.
    pub session: u64,
    /// Its processors.
    pub cores: usize,
    /// The addresses of its machine, without those of loopback.
    pub addresses: Vec<IpAddr>,
    /// The limits of its machine, such as the ports.
    pub limits: Limits,
    /// The targets that it may load.
    pub allow: String,
    /// Whether it has work.
    pub state: AgentState,
}

/// A message to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToAgent {
    /// Asks for its clock; the answer has the same number.
    Clock { run: u64, ask: u64 },
    /// A piece of the order for a part.
    Order { run: u64, part: usize, version: String, piece: usize, pieces: usize, abandon_ms: u64 },
    /// Lets a part begin, at a time of the agent's clock.
    Begin { run: u64, part: usize, monotonic_ns: u64, from_ns: u64 },
    /// All reports of a part before this number have arrived.
    Ack { run: u64, part: usize, next: u64 },
    /// The run goes on.
    Beat { run: u64 },
    /// Lets all parts stop and report.
    Stop { run: u64 },
    /// Ends all parts; their reports are no longer wanted.
    Forget { run: u64 },
}

/// A message of an agent in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromAgent {
    /// Its clock.
    Clock { agent: Name, ask: u64, now_ns: u64 },
    /// A piece of what a part says; a line of the part ends with a piece for which `more` is false.
    Report { agent: Name, part: usize, number: u64, more: bool },
}

/// A message as bytes.
pub(crate) fn encode(head: &impl Serialize, body: &[u8]) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(head).expect("numbers, texts and lists are always JSON");
    bytes.push(b'\n');
    bytes.extend_from_slice(body);
    bytes
}

/// The message that bytes have; `None` if they have none.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let end = bytes.iter().take(HEAD_BYTES_MAX).position(|byte| *byte == b'\n')?;
    let (head, body) = bytes.split_at(end);
    Some((serde_json::from_slice(head).ok()?, body.get(1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_arrives_as_it_was_sent() {
        let head = ToAgent::Begin { run: u64::MAX, part: 3, monotonic_ns: 5, from_ns: 0 };
        let bytes = encode(&head, b"\n\0body");
        assert_eq!(decode::<ToAgent>(&bytes), Some((head, b"\n\0body".as_slice())));
    }

    #[test]
    fn names_are_one_token_of_a_subject() {
        for name in ["", "a.b", "*", ">", "a b", "ü", &"x".repeat(65)] {
            assert!(name.parse::<Name>().is_err(), "{name}");
        }
        assert!("web-3_a".parse::<Name>().is_ok());
        assert!(Name::of_this_machine().to_string().parse::<Name>().is_ok());
        assert_eq!(decode::<FromAgent>(b"{\"clock\":{\"agent\":\"a.b\",\"ask\":1,\"now_ns\":2}}\n"), None);
    }

    proptest! {
        #[test]
        fn bytes_of_the_network_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<ToAgent>(&bytes);
            let _ = decode::<FromAgent>(&bytes);
            let _ = decode::<Beat>(&bytes);
        }
    }
}
