//! Costs and guarantees of the Linux kernel that the arithmetic here needs. Each number names its source.

/// How long a socket stays in `TIME_WAIT` (`TCP_TIMEWAIT_LEN` in net/tcp.h); no sysctl changes it.
pub const TIME_WAIT_SECONDS: u64 = 60;
/// With `tcp_tw_reuse`, `connect()` may reuse a port in `TIME_WAIT` after this long (it needs timestamps).
pub const TIME_WAIT_REUSED_SECONDS: u64 = 1;
/// An idle TCP socket: 2,368 bytes of `tcp_sock`, 832 of inode, 192 each of file and dentry, and the slabs' waste.
pub const SOCKET_BYTES: u64 = 4096;
/// A socket in `TIME_WAIT` (`inet_timewait_sock` with its slab).
pub const TIME_WAIT_BYTES: u64 = 256;
/// A tracked flow (`nf_conn`).
pub const CONNTRACK_BYTES: u64 = 256;
/// `net.ipv4.ip_local_port_range` as shipped: 28,232 ports.
pub const PORTS_DEFAULT: (u16, u16) = (32_768, 60_999);
/// The widest range: only privileged processes get ports below 1024.
pub const PORTS_WIDEST: (u16, u16) = (1024, 65_535);
/// Bytes of one page; `tcp_mem` counts pages.
pub const PAGE_BYTES: u64 = 4096;
/// Bytes on the wire for each segment beside its payload: Ethernet with gap and checksum 38, IPv4 20, TCP with timestamps 32.
pub const SEGMENT_OVERHEAD_BYTES: u64 = 90;
/// Payload of a full segment on Ethernet with timestamps.
pub const SEGMENT_PAYLOAD_BYTES: u64 = 1448;
