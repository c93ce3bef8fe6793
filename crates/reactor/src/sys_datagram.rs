//! The system calls for datagrams: several received or sent by one call, with the address of this machine that a
//! datagram came to, or leaves from. Like `sys`, each wrapper turns -1 into the errno and nothing else.
#![allow(unsafe_code)] // this module exists to contain it

use crate::datagram::{BATCH_MAX, Received};
use socket2::SockAddr;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Room for one `in6_pktinfo`, which is the largest control message that is asked for: 40 bytes with its header.
/// Words, because a `cmsghdr` is aligned like one.
type Control = [u64; 8];

/// Receives datagrams into slots of equal size, as many as fit and are there; `WouldBlock` if none is.
pub(crate) fn recvmmsg(socket: BorrowedFd<'_>, bytes: &mut [u8], slots: &mut [Received]) -> io::Result<usize> {
    let count = slots.len().min(BATCH_MAX);
    let size = bytes.len() / slots.len().max(1);
    // SAFETY: all four are plain data, for which all-zero is a value.
    let (mut names, mut parts, mut headers): (
        [libc::sockaddr_storage; BATCH_MAX],
        [libc::iovec; BATCH_MAX],
        [libc::mmsghdr; BATCH_MAX],
    ) = unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed()) };
    let mut controls: [Control; BATCH_MAX] = [[0; 8]; BATCH_MAX];
    for (at, slot) in bytes.chunks_exact_mut(size.max(1)).take(count).enumerate() {
        parts[at] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        let header = &mut headers[at].msg_hdr;
        header.msg_name = (&raw mut names[at]).cast();
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        header.msg_iov = &raw mut parts[at];
        header.msg_iovlen = 1;
        header.msg_control = controls[at].as_mut_ptr().cast();
        header.msg_controllen = size_of::<Control>() as _;
    }
    // SAFETY: each header points to an address, a part and a control buffer of the stated lengths, which outlive the call.
    let result = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as libc::c_uint,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let received = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
    for at in 0..received.min(count) {
        let header = &headers[at];
        slots[at] = Received {
            length: (header.msg_len as usize).min(size),
            truncated: header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
            from: address_of(&names[at]),
            local: local_of(&header.msg_hdr),
        };
    }
    Ok(received)
}

/// Sends datagrams by one call: to the peer of a connected socket, or `to` an address, from an address of this machine.
/// Returns how many left; an error is that of the first.
pub(crate) fn sendmmsg(
    socket: BorrowedFd<'_>,
    datagrams: &[&[u8]],
    to: Option<SocketAddr>,
    from: Option<IpAddr>,
) -> io::Result<usize> {
    let name = to.map(SockAddr::from);
    let mut control: Control = [0; 8];
    let control_length = from.map_or(0, |from| write_local(from, &mut control));
    // SAFETY: both are plain data, for which all-zero is a value.
    let (mut parts, mut headers): ([libc::iovec; BATCH_MAX], [libc::mmsghdr; BATCH_MAX]) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    let count = datagrams.len().min(BATCH_MAX);
    for (at, datagram) in datagrams.iter().take(count).enumerate() {
        parts[at] = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
        let header = &mut headers[at].msg_hdr;
        if let Some(name) = &name {
            header.msg_name = name.as_ptr().cast_mut().cast();
            header.msg_namelen = name.len();
        }
        header.msg_iov = &raw mut parts[at];
        header.msg_iovlen = 1;
        if control_length > 0 {
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = control_length as _;
        }
    }
    // SAFETY: the kernel only reads what the headers point to, and all of it outlives the call.
    let result = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count as libc::c_uint,
            (libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) as _,
        )
    };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// The sender of a datagram; `None` for a family other than IP.
fn address_of(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage, which is larger and aligned for any address, has this struct.
            let v4 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            Some(SocketAddr::new(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the same.
            let v6 = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// The address of this machine that a datagram came to, if the socket asks for it.
fn local_of(header: &libc::msghdr) -> Option<IpAddr> {
    // SAFETY: the kernel has filled the control buffer and stored its length in the header.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !next.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return null or a message that lies within the buffer.
        let (level, kind, data) = unsafe { ((*next).cmsg_level, (*next).cmsg_type, libc::CMSG_DATA(next)) };
        if (level, kind) == (libc::IPPROTO_IP, libc::IP_PKTINFO) {
            // SAFETY: a message of this type has this struct, unaligned.
            let info = unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() };
            // The local address, where the header's destination may be a broadcast or multicast one (ip(7)).
            return Some(Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()).into());
        }
        if (level, kind) == (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) {
            // SAFETY: the same.
            let info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
            return Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
        }
        // SAFETY: `next` is a message of this header.
        next = unsafe { libc::CMSG_NXTHDR(header, next) };
    }
    None
}

/// Writes the control message that sets a datagram's source address; returns its length.
fn write_local(from: IpAddr, control: &mut Control) -> usize {
    let header = control.as_mut_ptr().cast::<libc::cmsghdr>();
    match from {
        IpAddr::V4(ip) => {
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            // SAFETY: the buffer is aligned for a header and has room for it and the struct behind it.
            unsafe {
                (*header).cmsg_level = libc::IPPROTO_IP;
                (*header).cmsg_type = libc::IP_PKTINFO;
                (*header).cmsg_len = libc::CMSG_LEN(size_of_val(&info) as _) as _;
                libc::CMSG_DATA(header).cast::<libc::in_pktinfo>().write_unaligned(info);
                libc::CMSG_SPACE(size_of_val(&info) as _) as usize
            }
        }
        IpAddr::V6(ip) => {
            let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: ip.octets() }, ipi6_ifindex: 0 };
            // SAFETY: the same.
            unsafe {
                (*header).cmsg_level = libc::IPPROTO_IPV6;
                (*header).cmsg_type = libc::IPV6_PKTINFO;
                (*header).cmsg_len = libc::CMSG_LEN(size_of_val(&info) as _) as _;
                libc::CMSG_DATA(header).cast::<libc::in6_pktinfo>().write_unaligned(info);
                libc::CMSG_SPACE(size_of_val(&info) as _) as usize
            }
        }
    }
}
