//! `/proc/net/tcp` and `/proc/net/tcp6`: the fallback, which every kernel has and which costs several times as much as
//! netlink. [`parse_line`] is pure; [`Files`] reads.

use crate::{Error, Socket, State, Timer};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A line has 150 bytes (IPv6: 190). Longer text is no line of these files.
const LINE_BYTES_MAX: u64 = 1024;
/// The kernel formats as many lines as fit into one read.
const READ_BYTES: usize = 64 * 1024;
/// `USER_HZ`, in which these files count time on every architecture that we build for, as milliseconds.
const TICK_MS: u32 = 10;

/// The two files. They list the sockets of the network namespace in which they were opened.
#[derive(Debug, Default)]
pub(crate) struct Files(Vec<File>);

impl Files {
    pub(crate) fn open() -> Result<Self, Error> {
        let open = |path| File::open(path).map_err(|error| Error::System { what: "opening /proc/net/tcp", error });
        let mut files = vec![open("/proc/thread-self/net/tcp")?];
        match open("/proc/thread-self/net/tcp6") {
            Ok(file) => files.push(file),
            // A kernel without IPv6 has no such sockets either.
            Err(Error::System { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self(files))
    }

    pub(crate) fn for_each(&mut self, mut visit: impl FnMut(&Socket)) -> Result<(), Error> {
        self.read(&mut visit).map_err(|error| Error::System { what: "reading /proc/net/tcp", error })
    }

    fn read(&mut self, visit: &mut dyn FnMut(&Socket)) -> io::Result<()> {
        for file in &mut self.0 {
            file.rewind()?;
            let mut lines = BufReader::with_capacity(READ_BYTES, file);
            let mut line = Vec::with_capacity(256);
            while lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? > 0 {
                if let Some(socket) = parse_line(&line) {
                    visit(&socket);
                }
                line.clear();
            }
        }
        Ok(())
    }
}

/// One line (`get_tcp4_sock()` in `net/ipv4/tcp_ipv4.c`); `None` for the head line and other text that is no socket.
pub fn parse_line(line: &[u8]) -> Option<Socket> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let _index = words.next()?;
    let (local, v6_socket) = parse_end(words.next()?)?;
    let (remote, _) = parse_end(words.next()?)?;
    let state = State::from_number(u8::try_from(hexadecimal(words.next()?)?).ok()?)?;
    let (send_queue, recv_queue) = pair(words.next()?)?;
    let (timer, when) = pair(words.next()?)?;
    let retransmits = hexadecimal(words.next()?)?;
    let uid = decimal(words.next()?)?;
    let _timeout = words.next()?;
    let inode = decimal(words.next()?)?;
    Some(Socket {
        state,
        v6_socket,
        local,
        remote,
        interface: 0,
        cookie: 0,
        timer: Timer::from_wire(u8::try_from(timer).unwrap_or(0), when.saturating_mul(TICK_MS)),
        retransmits: u8::try_from(retransmits).unwrap_or(u8::MAX),
        recv_queue,
        send_queue,
        uid,
        inode,
        cgroup: None,
        memory: None,
        tcp: None,
    })
}

/// `0100007F:1F90`: words of the address in the machine's byte order, the port as a number.
fn parse_end(word: &[u8]) -> Option<(SocketAddr, bool)> {
    let colon = word.iter().position(|byte| *byte == b':')?;
    let (address, port) = (word.get(..colon)?, word.get(colon + 1..)?);
    let port = u16::try_from(hexadecimal(port)?).ok()?;
    let quad = |digits: &[u8]| hexadecimal(digits).map(u32::to_ne_bytes);
    let (ip, v6) = if address.len() == 8 {
        (IpAddr::V4(Ipv4Addr::from(quad(address)?)), false)
    } else if address.len() == 32 {
        let mut octets = [0; 16];
        for (into, digits) in octets.chunks_exact_mut(4).zip(address.chunks_exact(8)) {
            into.copy_from_slice(&quad(digits)?);
        }
        (IpAddr::V6(Ipv6Addr::from(octets)).to_canonical(), true)
    } else {
        return None;
    };
    Some((SocketAddr::new(ip, port), v6))
}

fn pair(word: &[u8]) -> Option<(u32, u32)> {
    let colon = word.iter().position(|byte| *byte == b':')?;
    Some((hexadecimal(word.get(..colon)?)?, hexadecimal(word.get(colon + 1..)?)?))
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | (*digit as char).to_digit(16)?))
}

fn decimal(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_both_files_are_read() {
        assert_eq!(parse_line(b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt"), None);
        let listener = parse_line(
            b"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000   107        0 555 1 00 100 0 0 10 0\n",
        )
        .unwrap();
        assert_eq!((listener.state, listener.local.to_string()), (State::Listen, "127.0.0.1:8080".to_owned()));
        assert_eq!((listener.recv_queue, listener.uid, listener.inode), (3, 107, 555));
        let waiting = parse_line(
            b"   3: 0100007F:1F90 0200007F:C351 06 00000000:00000000 03:000017A7 00000000     0        0 0 3 00",
        )
        .unwrap();
        assert_eq!(
            (waiting.timer, waiting.remote.to_string()),
            (Timer::TimeWait(60_550), "127.0.0.2:50001".to_owned())
        );
        let mapped = parse_line(
            b"1: 0000000000000000FFFF00000100007F:1F90 B80D01200000000000000000 01 0:0 00:0 0 0 0 7 1 00".as_slice(),
        );
        assert_eq!(mapped, None);
        let mapped = parse_line(
            b"1: 0000000000000000FFFF00000100007F:1F90 B80D0120000000000000000001000000:C350 08 00000010:00000005 01:00000014 \
              00000002     0        0 9 1 00",
        )
        .unwrap();
        assert_eq!(
            (mapped.local.to_string(), mapped.remote.to_string(), mapped.v6_socket),
            ("127.0.0.1:8080".to_owned(), "[2001:db8::1]:50000".to_owned(), true)
        );
        assert_eq!((mapped.send_queue, mapped.recv_queue, mapped.timer), (16, 5, Timer::Retransmit(200)));
        assert_eq!((mapped.retransmits, mapped.state), (2, State::CloseWait));
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "[ 0-9A-F:]{0,200}", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (parse_line(line.as_bytes()), parse_line(&bytes));
        }
    }
}
