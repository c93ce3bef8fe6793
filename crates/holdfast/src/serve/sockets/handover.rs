//! What one program passes to the next. Listening sockets pass in nginx's way: open descriptors, with their numbers in
//! the variable `NGINX`. So this program can replace nginx, and nginx can replace it. Ticket keys pass through the
//! standard input of the next program, which reads them if it is Holdfast.

use super::{Bound, Sockets};
use reactor::{Listener, PeerAddress};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use tls::TicketState;

/// nginx's variable.
pub(in crate::serve) const INHERITED: &str = "NGINX";

/// Its presence means that standard input has ticket keys.
const TICKETS: &str = "HOLDFAST_TICKETS";
/// Most bytes of ticket keys: a pipe holds this much, so the program does not wait until the next one reads. A state
/// has 44 bytes, and a configuration has few different `ssl_session_timeout`s.
const TICKETS_BYTES_MAX: usize = 4096;

/// Descriptors that the next program inherits, as long as this value lives.
pub(in crate::serve) struct Handover {
    descriptors: Vec<OwnedFd>,
}

impl Handover {
    /// Makes duplicates that stay open across exec.
    pub(in crate::serve) fn of(bound: &[Bound]) -> io::Result<Self> {
        let listeners = bound.iter().flat_map(|bound| &bound.listeners);
        let copies = listeners.map(|listener| rustix::io::dup(listener.descriptor()));
        Ok(Self { descriptors: copies.collect::<Result<_, _>>()? })
    }

    /// The value of the variable: `6;7;`.
    pub(in crate::serve) fn value(&self) -> String {
        self.descriptors.iter().fold(String::new(), |mut text, descriptor| {
            let _ = write!(text, "{};", descriptor.as_raw_fd());
            text
        })
    }
}

/// Passes the keys to the program about to start, so that it can resume the sessions of clients.
pub(in crate::serve) fn leave_tickets(command: &mut Command, states: &[TicketState]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for state in states {
        let encoded = state.encode();
        if bytes.len() + encoded.len() < TICKETS_BYTES_MAX {
            bytes.push(u8::try_from(encoded.len()).map_err(io::Error::other)?);
            bytes.extend(encoded);
        }
    }
    let (reader, mut writer) = io::pipe()?;
    writer.write_all(&bytes)?;
    command.env(TICKETS, "stdin").stdin(reader);
    Ok(())
}

/// The keys from the previous program.
pub(in crate::serve) fn tickets_left() -> Vec<TicketState> {
    let mut bytes = Vec::new();
    if std::env::var_os(TICKETS).is_none() || std::env::var_os(INHERITED).is_none() {
        return Vec::new();
    }
    // If reading fails, new keys are made, and clients do a full handshake once.
    let _ = io::stdin().lock().take(TICKETS_BYTES_MAX as u64).read_to_end(&mut bytes);
    decode_tickets(&bytes)
}

fn decode_tickets(mut bytes: &[u8]) -> Vec<TicketState> {
    let mut states = Vec::new();
    while let Some((&length, rest)) = bytes.split_first()
        && let Some((state, behind)) = rest.split_at_checked(usize::from(length))
    {
        states.extend(TicketState::decode(state));
        bytes = behind;
    }
    states
}

impl Sockets {
    /// The sockets that this process was started with; the second part has the errors.
    pub(in crate::serve) fn inherited() -> (Self, Vec<String>) {
        let (mut sockets, mut troubles) = (Self::default(), Vec::new());
        let Some(value) = std::env::var_os(INHERITED) else {
            troubles.extend(sockets.take_activated());
            return (sockets, troubles);
        };
        sockets.recall_activated();
        for number in parse(&value) {
            match number.and_then(take) {
                Ok((address, listener)) => sockets.add(address, listener),
                Err(trouble) => {
                    troubles.push(format!("invalid socket in the {INHERITED} variable, ignored: {trouble}"));
                }
            }
        }
        sockets.shared = true;
        (sockets, troubles)
    }
}

/// Takes over a listening socket by its number.
pub(super) fn take(number: i32) -> Result<(PeerAddress, Arc<Listener>), String> {
    let listener = Listener::from_number(number).map_err(|error| format!("{number}: {error}"))?;
    let address = listener.local_address().map_err(|error| format!("{number}: {error}"))?;
    Ok((address.ok_or_else(|| format!("{number} has no address"))?, Arc::new(listener)))
}

fn parse(value: &OsString) -> impl Iterator<Item = Result<i32, String>> {
    let text = value.to_string_lossy().into_owned();
    let words: Vec<String> = text.split([';', ':']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    words.into_iter().map(|word| word.parse().ok().filter(|number| *number > 2).ok_or(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticket_keys_survive_a_round_trip_and_truncated_ones_drop() {
        let states: Vec<TicketState> = (0..3).filter_map(|_| tls::TicketKeys::random().state()).collect();
        let mut command = Command::new("cat");
        leave_tickets(&mut command, &states).unwrap();
        let bytes = command.output().unwrap().stdout;
        assert_eq!(decode_tickets(&bytes), states);
        assert_eq!(decode_tickets(&bytes[..bytes.len() - 1]), states[..2]);
        assert_eq!(decode_tickets(b""), []);
    }

    #[test]
    fn numbers_are_read_as_nginx_writes_them() {
        let read = |text: &str| parse(&text.into()).collect::<Vec<_>>();
        assert_eq!(read("6;7;"), [Ok(6), Ok(7)]);
        assert_eq!(read("6:x;1;"), [Ok(6), Err("x".to_owned()), Err("1".to_owned())]);
        assert_eq!(read(""), []);
    }
}
