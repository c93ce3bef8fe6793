//! Replies as a kernel could write them, for tests of rare kernel behaviour: messages of sockets with any cookie and flags.

use crate::netlink::{AF_INET, AF_INET6};
use crate::{REPLY_BYTES, State};

pub(crate) const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_MULTI: u16 = 0x2;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_DONE: u16 = 3;
const SOCKET_BYTES: usize = 16 + 72;
/// As many sockets without attributes as one read has at most.
pub(crate) const SOCKETS_OF_A_READ: usize = REPLY_BYTES / SOCKET_BYTES;

/// Appends a message.
pub(crate) fn push(bytes: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, payload: &[u8]) {
    bytes.extend((16 + payload.len() as u32).to_ne_bytes());
    bytes.extend([kind.to_ne_bytes(), (flags | NLM_F_MULTI).to_ne_bytes()].concat());
    bytes.extend([sequence.to_ne_bytes(), 0_u32.to_ne_bytes()].concat());
    bytes.extend(payload);
}

/// Appends the end of a dump, with an errno or 0.
pub(crate) fn push_done(bytes: &mut Vec<u8>, sequence: u32, error: i32) {
    push(bytes, NLMSG_DONE, 0, sequence, &(-error).to_ne_bytes());
}

/// Appends a socket with this cookie; its addresses and ports are derived from the cookie.
pub(crate) fn push_socket(bytes: &mut Vec<u8>, family: u8, flags: u16, sequence: u32, cookie: u64) {
    let mut fixed = [0; 72];
    let state = if cookie.is_multiple_of(3) { State::TimeWait } else { State::Established };
    (fixed[0], fixed[1]) = (family, state as u8);
    // The remote end tells 60,000 ports of each address apart.
    fixed[4..6].copy_from_slice(&443_u16.to_be_bytes());
    fixed[6..8].copy_from_slice(&(1024 + (cookie % 60_000) as u16).to_be_bytes());
    let host = (cookie / 60_000) as u32 + 0x0a00_0001;
    let (local, remote) = (0x0a00_0000_u32.to_be_bytes(), host.to_be_bytes());
    let at = if family == AF_INET { 0 } else { 12 };
    fixed[8 + at..12 + at].copy_from_slice(&local);
    fixed[24 + at..28 + at].copy_from_slice(&remote);
    if family == AF_INET6 {
        (fixed[8], fixed[24]) = (0x20, 0x20);
    }
    fixed[44..48].copy_from_slice(&(cookie as u32).to_ne_bytes());
    fixed[48..52].copy_from_slice(&((cookie >> 32) as u32).to_ne_bytes());
    push(bytes, SOCK_DIAG_BY_FAMILY, flags, sequence, &fixed);
}
