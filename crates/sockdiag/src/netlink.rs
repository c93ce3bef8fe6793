//! The wire format of sock_diag: what is asked, as bytes, and the kernel's replies, from bytes. Pure: `census` and
//! `destroyed` own the sockets. The structures are those of `include/uapi/linux/{netlink,inet_diag,sock_diag,tcp}.h`.

use crate::{Error, Memory, Socket, State, StateSet, TcpInfo, Timer, Traffic};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The kernel fills at most 32 KiB in one read of a dump (`netlink_dump()` in `net/netlink/af_netlink.c`), and learns from
/// the size of the first read that it may.
pub const REPLY_BYTES: usize = 32 * 1024;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;
const IPPROTO_TCP: u8 = 6;
pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;

const INET_DIAG_REQ_BYTECODE: u16 = 1;
/// Extensions by their number; the request has them as bits of number less one.
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_SKMEMINFO: u16 = 7;
const INET_DIAG_CGROUP_ID: u16 = 21;

const HEADER_BYTES: usize = 16;
const MESSAGE_BYTES: usize = 72;
/// `struct tcp_info` as far as `tcpi_total_retrans`, and as far as `tcpi_snd_wnd` (Linux 5.4).
const TCP_INFO_BYTES_OLD: usize = 104;
const TCP_INFO_BYTES_NEW: usize = 232;

/// What one dump asks the kernel for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DumpRequest<'a> {
    pub(crate) family: u8,
    pub(crate) states: StateSet,
    pub(crate) tcp_info: bool,
    pub(crate) memory: bool,
    /// A program of `inet_diag_bc_op`s that the kernel runs over each socket; empty for none.
    pub(crate) bytecode: &'a [u8],
    pub(crate) sequence: u32,
}

/// `nlmsghdr`, `inet_diag_req_v2` and the filter as one message.
pub(crate) fn encode_dump(request: DumpRequest<'_>) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_BYTES + 56 + 4 + request.bytecode.len());
    message.extend_from_slice(&0_u32.to_ne_bytes()); // the length, known at the end
    message.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    message.extend_from_slice(&request.sequence.to_ne_bytes());
    message.extend_from_slice(&0_u32.to_ne_bytes());
    let extension = |wanted: bool, number: u16| if wanted { 1_u8 << (number - 1) } else { 0 };
    let extensions = extension(request.tcp_info, INET_DIAG_INFO) | extension(request.memory, INET_DIAG_SKMEMINFO);
    message.extend_from_slice(&[request.family, IPPROTO_TCP, extensions, 0]);
    message.extend_from_slice(&request.states.bits().to_ne_bytes());
    message.extend_from_slice(&[0; 48]); // `inet_diag_sockid`, which a dump does not look at
    if !request.bytecode.is_empty() {
        let length = u16::try_from(4 + request.bytecode.len()).unwrap_or(u16::MAX);
        message.extend_from_slice(&length.to_ne_bytes());
        message.extend_from_slice(&INET_DIAG_REQ_BYTECODE.to_ne_bytes());
        message.extend_from_slice(request.bytecode);
    }
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    if let Some(start) = message.first_chunk_mut() {
        *start = length.to_ne_bytes();
    }
    message
}

/// What one message of a reply says.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(clippy::large_enum_variant)] // it lives on the stack for one call, and nearly all of them are sockets
pub enum Reply {
    /// A socket.
    Socket(Socket),
    /// A socket of a state or family that is not known here; it is counted and left out.
    Unknown,
    /// The dump is complete.
    Done,
    /// The kernel refused, with this errno.
    Refused(i32),
    /// Something else that netlink may send, such as an acknowledgement.
    Other,
}

/// Parses what one read returned and hands over each message, with whether the kernel marked it as part of a dump that
/// was interrupted by changes (`NLM_F_DUMP_INTR`). `sequence` is that of the question: what answers another one, late, is
/// passed over; `None` takes all.
pub fn parse_replies(bytes: &[u8], sequence: Option<u32>, mut visit: impl FnMut(Reply, bool)) -> Result<(), Error> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let header: &[u8; HEADER_BYTES] = rest.first_chunk().ok_or(Error::Malformed("a header is cut off"))?;
        let length = u32_at(header, 0) as usize;
        if length < HEADER_BYTES {
            return Err(Error::Malformed("a message is shorter than its header"));
        }
        let message = rest.get(..length).ok_or(Error::Malformed("a message is longer than what was read"))?;
        let payload = message.get(HEADER_BYTES..).unwrap_or_default();
        if sequence.is_none_or(|sequence| sequence == u32_at(header, 8)) {
            let interrupted = u16_at(header, 6) & NLM_F_DUMP_INTR != 0;
            visit(parse_message(u16_at(header, 4), payload)?, interrupted);
        }
        // The next one begins at a multiple of four; the last one need not be padded.
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

fn parse_message(kind: u16, payload: &[u8]) -> Result<Reply, Error> {
    match kind {
        SOCK_DIAG_BY_FAMILY => Ok(parse_socket(payload)?.map_or(Reply::Unknown, Reply::Socket)),
        // The end of a dump carries a result, too: an error that came when it had begun.
        NLMSG_DONE => match payload.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)) {
            Some(error) if error < 0 => Ok(Reply::Refused(error.saturating_neg())),
            _ => Ok(Reply::Done),
        },
        NLMSG_ERROR => {
            let error = payload.first_chunk().ok_or(Error::Malformed("an error is cut off"))?;
            match i32::from_ne_bytes(*error) {
                0 => Ok(Reply::Other),
                error => Ok(Reply::Refused(error.saturating_neg())),
            }
        }
        _ => Ok(Reply::Other),
    }
}

/// `struct inet_diag_msg` and its attributes; `None` for a family or state that is not known here.
fn parse_socket(payload: &[u8]) -> Result<Option<Socket>, Error> {
    let fixed: &[u8; MESSAGE_BYTES] = payload.first_chunk().ok_or(Error::Malformed("a socket is cut off"))?;
    let [family, state, timer, retransmits, ..] = *fixed;
    let Some(state) = State::from_number(state) else { return Ok(None) };
    if family != AF_INET && family != AF_INET6 {
        return Ok(None);
    }
    let mut socket = Socket {
        state,
        v6_socket: family == AF_INET6,
        local: address(family, fixed, 8, 4),
        remote: address(family, fixed, 24, 6),
        interface: u32_at(fixed, 40),
        cookie: u64::from(u32_at(fixed, 48)) << 32 | u64::from(u32_at(fixed, 44)),
        timer: Timer::from_wire(timer, u32_at(fixed, 52)),
        retransmits,
        recv_queue: u32_at(fixed, 56),
        send_queue: u32_at(fixed, 60),
        uid: u32_at(fixed, 64),
        inode: u32_at(fixed, 68),
        cgroup: None,
        memory: None,
        tcp: None,
    };
    let mut rest = payload.get(MESSAGE_BYTES..).unwrap_or_default();
    // What is left after the last attribute is at most padding.
    while let Some(header) = rest.first_chunk::<4>() {
        let length = u16_at(header, 0) as usize;
        let value = rest.get(4..length).ok_or(Error::Malformed("an attribute is longer than its socket"))?;
        match u16_at(header, 2) {
            INET_DIAG_INFO => socket.tcp = parse_tcp_info(value),
            INET_DIAG_SKMEMINFO => socket.memory = parse_memory(value),
            INET_DIAG_CGROUP_ID => socket.cgroup = value.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(Some(socket))
}

/// Address and port at these places; both are in network byte order. IPv4 peers of IPv6 sockets become IPv4.
fn address(family: u8, fixed: &[u8; MESSAGE_BYTES], at: usize, port_at: usize) -> SocketAddr {
    let port = u16::from_be(u16_at(fixed, port_at));
    let octets: [u8; 16] = fixed.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default();
    let [a, b, c, d, ..] = octets;
    let address = if family == AF_INET {
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    } else {
        IpAddr::V6(Ipv6Addr::from(octets)).to_canonical()
    };
    SocketAddr::new(address, port)
}

fn parse_tcp_info(value: &[u8]) -> Option<TcpInfo> {
    let old: &[u8; TCP_INFO_BYTES_OLD] = value.first_chunk()?;
    let [_, congestion_state, _, probes, backoff, ..] = *old;
    Some(TcpInfo {
        congestion_state,
        probes,
        backoff,
        rto_us: u32_at(old, 8),
        send_mss: u32_at(old, 16),
        unacked: u32_at(old, 24),
        lost: u32_at(old, 32),
        retrans: u32_at(old, 36),
        last_data_sent_ms: u32_at(old, 44),
        last_data_received_ms: u32_at(old, 52),
        rtt_us: u32_at(old, 68),
        congestion_window: u32_at(old, 80),
        retrans_total: u32_at(old, 100),
        traffic: value.first_chunk().map(parse_traffic),
    })
}

fn parse_traffic(new: &[u8; TCP_INFO_BYTES_NEW]) -> Traffic {
    Traffic {
        bytes_acked: u64_at(new, 120),
        bytes_received: u64_at(new, 128),
        segments_out: u32_at(new, 136),
        segments_in: u32_at(new, 140),
        not_sent: u32_at(new, 144),
        data_segments_in: u32_at(new, 152),
        data_segments_out: u32_at(new, 156),
        busy_us: u64_at(new, 168),
        window_limited_us: u64_at(new, 176),
        buffer_limited_us: u64_at(new, 184),
        bytes_sent: u64_at(new, 200),
        bytes_retrans: u64_at(new, 208),
        send_window: u32_at(new, 228),
    }
}

fn parse_memory(value: &[u8]) -> Option<Memory> {
    let words: &[u8; 36] = value.first_chunk()?;
    Some(Memory {
        recv_allocated: u32_at(words, 0),
        recv_limit: u32_at(words, 4),
        send_allocated: u32_at(words, 8),
        send_limit: u32_at(words, 12),
        forward: u32_at(words, 16),
        send_queued: u32_at(words, 20),
        options: u32_at(words, 24),
        backlog: u32_at(words, 28),
        drops: u32_at(words, 32),
    })
}

// The places are constants within arrays of a known size, so that the compiler removes the branch; zero is never returned.

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u16::from_ne_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
#[path = "netlink_tests.rs"]
mod tests;
