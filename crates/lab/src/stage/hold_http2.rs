//! One exchange over HTTP/2 under TLS on a blocking socket, after which the connection is idle; used by `hold`. It uses the
//! engines of the crates `tls` and `http2` and drops them after the exchange, because no further request follows.

use http2::{Config, Connection, Event, Head, RequestLine, Role};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use tls::{ClientSide, RECORD_BYTES_MAX, RECORD_OVERHEAD_BYTES, Session, SetupError, Trust};

/// Bytes per read.
const READ_BYTES: usize = 32 * 1024;

/// A client that speaks HTTP/2 and accepts any certificate.
pub(super) fn side() -> Result<ClientSide, SetupError> {
    ClientSide::new(Trust::Anyone).alpn(["h2"]).build()
}

/// Requests a page and reads it to its end.
pub(super) fn exchange(stream: &mut TcpStream, authority: &str, path: &str, side: &ClientSide) -> io::Result<()> {
    let mut session = Session::client(side, "localhost").map_err(io::Error::other)?;
    let mut plain = Vec::new();
    while session.is_handshaking() {
        send_output(stream, &mut session)?;
        receive(stream, &mut session, &mut plain)?;
    }
    send_output(stream, &mut session)?;
    if session.alpn() != Some(b"h2") {
        return Err(io::Error::other("the server does not speak HTTP/2"));
    }
    let mut out = Vec::new();
    let mut engine = Connection::new(Role::Client, Config::default(), 0, &mut out);
    let (authority, path) = (authority.as_bytes(), path.as_bytes());
    let line = RequestLine { method: b"GET", scheme: b"https", authority, path, protocol: b"" };
    let asked = engine.open(&line, true, &mut out, |_| ()).map_err(io::Error::other)?;
    let mut head = Head::default();
    loop {
        send(stream, &mut session, &out)?;
        out.clear();
        if !engine.is_open(asked) {
            return Ok(());
        }
        receive(stream, &mut session, &mut plain)?;
        let mut input = plain.as_slice();
        while let Some(event) = engine.receive(0, &mut input, &mut head, &mut out).map_err(io::Error::other)? {
            match event {
                Event::Head { .. } if head.status != 200 => {
                    return Err(io::Error::other(format!("instead of 200 came {}", head.status)));
                }
                Event::Data { stream, bytes, .. } => engine.consume(stream, bytes.len(), &mut out),
                Event::Reset { .. } => return Err(io::Error::other("the stream was reset")),
                _ => {}
            }
        }
        plain.clear();
    }
}

fn send_output(stream: &mut TcpStream, session: &mut Session) -> io::Result<()> {
    let mut wire = Vec::new();
    session.take_output(&mut wire);
    stream.write_all(&wire)
}

fn receive(stream: &mut TcpStream, session: &mut Session, plain: &mut Vec<u8>) -> io::Result<()> {
    let mut read = vec![0; READ_BYTES];
    let len = stream.read(&mut read)?;
    if len == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed before the page was complete"));
    }
    let bytes = read.get_mut(..len).unwrap_or_default();
    session.receive(bytes, &mut |part| plain.extend_from_slice(part)).map_err(io::Error::other)
}

fn send(stream: &mut TcpStream, session: &mut Session, mut bytes: &[u8]) -> io::Result<()> {
    send_output(stream, session)?;
    let mut record = vec![0; RECORD_BYTES_MAX + RECORD_OVERHEAD_BYTES];
    while !bytes.is_empty() {
        let sealed = session.seal(bytes, RECORD_BYTES_MAX, &mut record).map_err(io::Error::other)?;
        stream.write_all(record.get(..sealed.written).unwrap_or_default())?;
        bytes = bytes.get(sealed.taken..).unwrap_or_default();
    }
    Ok(())
}
