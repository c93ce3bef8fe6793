//! rustls' two connection types driven alike: its states become plaintext, output and a few facts. `session` decides what to feed.

use crate::error::TlsError;
use crate::keys::{self, RECORD_HEADER_BYTES};
use crate::session::{RECORD_BYTES_MAX, RECORD_OVERHEAD_BYTES};
use rustls::Error;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, ReadEarlyData, UnbufferedStatus, WriteTraffic,
};
use std::cell::Cell;

thread_local! {
    /// Room that rustls asks for before it encrypts a record. It writes only the heads of empty records there.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Records that may be left to send when a connection fails: the alert, and what was ready before it.
const ALERTS_MAX: usize = 16;

/// A connection of rustls, of either role.
pub(crate) trait Machine {
    type Data;

    fn next<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// Whether records wait to be sent.
    fn has_output(&self) -> bool;

    /// Takes what came before the handshake was complete; only a server's connection has this state.
    fn take_early(early: ReadEarlyData<'_, '_, Self::Data>, plain: &mut dyn FnMut(&[u8]));
}

impl Machine for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn next<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn has_output(&self) -> bool {
        self.wants_write()
    }

    fn take_early(mut early: ReadEarlyData<'_, '_, Self::Data>, plain: &mut dyn FnMut(&[u8])) {
        while let Some(Ok(record)) = early.next_record() {
            plain(record.payload);
        }
    }
}

impl Machine for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn next<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn has_output(&self) -> bool {
        self.wants_write()
    }

    fn take_early(_: ReadEarlyData<'_, '_, Self::Data>, _: &mut dyn FnMut(&[u8])) {}
}

/// Receives the plaintext and output of a connection.
pub(crate) struct Events<'a> {
    pub(crate) output: &'a mut Vec<u8>,
    pub(crate) plain: &'a mut dyn FnMut(&[u8]),
    pub(crate) early_data: bool,
    pub(crate) peer_closed: bool,
}

/// Feeds bytes until more are wanted; gives the number of those that are done with. After an error the output has the alert for
/// the peer, and the connection must not be used again.
pub(crate) fn feed<M: Machine>(machine: &mut M, incoming: &mut [u8], events: &mut Events<'_>) -> Result<usize, Error> {
    let mut at = 0;
    loop {
        let UnbufferedStatus { discard, state } = machine.next(incoming.get_mut(at..).unwrap_or_default());
        match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                while let Some(record) = traffic.next_record() {
                    (events.plain)(record?.payload);
                }
            }
            Ok(ConnectionState::ReadEarlyData(early)) => {
                events.early_data = true;
                M::take_early(early, events.plain);
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, events.output),
            // It counts as sent when it is in the output: the owner sends that, or gives up the connection.
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            Ok(ConnectionState::PeerClosed) => events.peer_closed = true,
            // Blocked, closed, or ready to write: it wants nothing but bytes.
            Ok(_) => return Ok(at + discard),
            Err(error) => {
                take_alert(machine, events.output);
                return Err(error);
            }
        }
        at += discard;
    }
}

/// Moves the alert of a failed connection to the output. rustls must not see the bytes again that it failed at, so it is only
/// called while it has something to send.
fn take_alert<M: Machine>(machine: &mut M, output: &mut Vec<u8>) {
    for _ in 0..ALERTS_MAX {
        if !machine.has_output() {
            return;
        }
        let Ok(ConnectionState::EncodeTlsData(mut data)) = machine.next(&mut []).state else { return };
        encode(&mut data, output);
    }
}

fn encode<Data>(data: &mut EncodeTlsData<'_, Data>, output: &mut Vec<u8>) {
    let Err(EncodeError::InsufficientSize(needed)) = data.encode(&mut []) else { return };
    let start = output.len();
    output.resize(start + needed.required_size, 0);
    let written = data.encode(output.get_mut(start..).unwrap_or_default()).unwrap_or_default();
    output.truncate(start + written);
}

/// Lets `write` use the connection once it may send data. `held` is what was received and is not consumed: rustls counts its place
/// in an incomplete handshake message from the start of `held`.
fn with_traffic<M: Machine, R>(
    machine: &mut M,
    held: &mut [u8],
    output: &mut Vec<u8>,
    write: impl FnOnce(&mut WriteTraffic<'_, M::Data>) -> R,
) -> Result<R, TlsError> {
    loop {
        match machine.next(held).state.map_err(TlsError::Broken)? {
            ConnectionState::WriteTraffic(mut traffic) => return Ok(write(&mut traffic)),
            ConnectionState::EncodeTlsData(mut data) => encode(&mut data, output),
            ConnectionState::TransmitTlsData(data) => data.done(),
            _ => return Err(TlsError::NotOpen),
        }
    }
}

/// Encrypts plaintext and appends its records; returns how much of it was taken.
pub(crate) fn seal<M: Machine>(
    machine: &mut M,
    held: &mut [u8],
    output: &mut Vec<u8>,
    (plaintext, record_bytes_max): (&[u8], usize),
    records: &mut Vec<u8>,
) -> Result<usize, TlsError> {
    with_traffic(machine, held, output, |traffic| {
        let mut room = ROOM.take();
        room.resize(RECORD_BYTES_MAX + RECORD_OVERHEAD_BYTES, 0);
        let mut taken = 0;
        let outcome = loop {
            let rest = plaintext.get(taken..).unwrap_or_default();
            let part = rest.get(..record_bytes_max.min(rest.len())).unwrap_or_default();
            if part.is_empty() {
                break Ok(taken);
            }
            let start = records.len();
            let sunk = keys::with_sink(std::mem::take(records), || traffic.encrypt(part, &mut room));
            *records = sunk.records;
            match sunk.result {
                Ok(written) => {
                    // What rustls had to send before, such as a message about new keys.
                    let before = written.saturating_sub(sunk.count * RECORD_HEADER_BYTES);
                    if before > 0 {
                        records.splice(start..start, room.iter().take(before).copied());
                    }
                    taken += part.len();
                }
                // A message about new keys goes first: the next call sends it.
                Err(EncryptError::InsufficientSize(_)) => break Ok(taken),
                Err(EncryptError::EncryptExhausted) => break Err(TlsError::KeysExhausted),
            }
        };
        ROOM.set(room);
        outcome
    })?
}

/// Puts `close_notify` into the output.
pub(crate) fn close<M: Machine>(machine: &mut M, held: &mut [u8], output: &mut Vec<u8>) {
    let mut record = [0; 64];
    let written = with_traffic(machine, held, output, |traffic| traffic.queue_close_notify(&mut record));
    if let Ok(Ok(written)) = written {
        output.extend_from_slice(record.get(..written).unwrap_or_default());
    }
}
