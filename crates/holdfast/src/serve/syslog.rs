//! Sends messages to a syslog server, one datagram each. Never called on a thread that serves requests; if the server
//! does not accept a message, that message is lost. Used by the log writer and by the master.

use gateway::{Level, SyslogPlace};
use reactor::PeerAddress;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most bytes of one message: as in nginx, 2,048 for an error line, 21 for a date, then a host name and a tag.
const MESSAGE_BYTES_MAX: usize = 2048 + 21 + 255 + 1 + 32 + 2;
/// How long a message waits for space in a local socket, whose queue is ten datagrams on many systems. Long enough for
/// a running syslog daemon, and short enough that a daemon that hangs does not delay other logs.
const SEND_TIMEOUT: Duration = Duration::from_millis(50);

/// A server, with the socket to it once it is open.
pub(super) struct Syslog {
    place: SyslogPlace,
    socket: Option<Socket>,
    utc_offset_minutes: i16,
}

enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

impl Syslog {
    /// Opens nothing yet: the server may come up after the start.
    pub(super) fn new(place: SyslogPlace, utc_offset_minutes: i16) -> Self {
        Self { place, socket: None, utc_offset_minutes }
    }

    /// Sends messages in order; after the first failure the others are given up, too. Returns how many were lost, and
    /// why.
    pub(super) fn send_all<'a>(
        &mut self,
        messages: impl Iterator<Item = (Level, &'a [u8])>,
    ) -> Option<(u64, io::Error)> {
        let mut lost: Option<(u64, io::Error)> = None;
        for (level, message) in messages {
            match &mut lost {
                Some((count, _)) => *count += 1,
                None => lost = self.send(level, message).err().map(|error| (1, error)),
            }
        }
        lost
    }

    fn send(&mut self, level: Level, message: &[u8]) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
        let moment = rules::time_format::Moment::new(now, self.utc_offset_minutes);
        let mut packet = Vec::with_capacity(message.len() + 64);
        self.place.encode_head(level, &moment, &mut packet);
        packet.extend_from_slice(message);
        packet.truncate(MESSAGE_BYTES_MAX);
        let known = self.socket.is_some();
        let outcome = self.send_packet(&packet);
        match outcome {
            // A restarted server has a new socket, or it refused an earlier message: try once more with a new socket.
            Err(_) if known => self.send_packet(&packet),
            outcome => outcome,
        }
    }

    fn send_packet(&mut self, packet: &[u8]) -> io::Result<()> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => Socket::open(&self.place.server)?,
        };
        let sent = match &socket {
            Socket::Udp(socket) => socket.send(packet),
            Socket::Unix(socket) => socket.send(packet),
        };
        sent?;
        self.socket = Some(socket);
        Ok(())
    }
}

impl Socket {
    fn open(server: &PeerAddress) -> io::Result<Self> {
        match server {
            PeerAddress::Ip(address) => {
                let any = match address {
                    SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                    SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_write_timeout(Some(SEND_TIMEOUT))?;
                Ok(Self::Udp(socket))
            }
            PeerAddress::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(SEND_TIMEOUT))?;
                Ok(Self::Unix(socket))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syslog(server: PeerAddress) -> Syslog {
        let place = SyslogPlace {
            server,
            facility: 1,
            severity: Level::Info,
            tag: "t".to_owned(),
            hostname: Some("h".to_owned()),
        };
        Syslog::new(place, 0)
    }

    #[test]
    fn a_message_arrives_and_a_new_server_gets_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut syslog = syslog(PeerAddress::Unix(path.clone()));
        let lost = syslog.send_all([(Level::Info, &b"early"[..]), (Level::Info, b"too")].into_iter());
        assert_eq!(lost.map(|(count, _)| count), Some(2), "no reader");
        for text in ["one", "two"] {
            let server = UnixDatagram::bind(&path).unwrap();
            server.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            assert!(syslog.send_all(std::iter::once((Level::Error, text.as_bytes()))).is_none());
            let mut bytes = [0; 100];
            let count = server.recv(&mut bytes).unwrap();
            let message = String::from_utf8_lossy(&bytes[..count]);
            assert!(message.starts_with("<11>") && message.ends_with(&format!(" h t: {text}")), "{message}");
            drop(server);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn stalled_syslog_server_drops_messages_without_delay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let _server = UnixDatagram::bind(&path).unwrap();
        let mut syslog = syslog(PeerAddress::Unix(path));
        let lost = syslog.send_all((0..100_000).map(|_| (Level::Info, &[b'x'; 4000][..])));
        assert_eq!(lost.map(|(_, error)| error.kind()), Some(io::ErrorKind::WouldBlock));
    }
}
