//! Opens connections one after the other, brings each into a state and holds it there, so that the server's memory per
//! connection can be measured. It sends no further requests. The program behind `program = "hold"` of an experiment.

use super::ask::Url;
use super::{StageError, hold_http2};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tls::{ClientSide, RECORD_BYTES_MAX, RECORD_OVERHEAD_BYTES, Session, Trust};

/// A server that does not respond within this time ends the program with an error.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Many times the size of any response head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The state of a held connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// One exchange is complete, and the next has not begun.
    Idle,
    /// The same over HTTP/2 under TLS.
    IdleHttp2,
    /// The request head has begun and is not complete.
    HalfHead,
    /// A 101 was received, and nothing since.
    Tunnel,
}

/// A held connection, with or without TLS.
#[derive(Debug)]
pub struct Line {
    stream: TcpStream,
    session: Option<Session>,
    /// Decrypted bytes that are not read yet.
    plain: Vec<u8>,
}

/// Opens this many connections for a URL such as `http://10.77.0.1:8080/page`, and returns them in their state. With
/// `https://` each does a full handshake and accepts any certificate.
pub fn open_url(held: Held, url: &str, count: usize) -> Result<Vec<Line>, StageError> {
    let secure = url.strip_prefix("https://");
    if held == Held::IdleHttp2 && secure.is_none() {
        return Err(StageError::new(format!("{url} is not https://ADDRESS:PORT/PATH")));
    }
    let in_clear = secure.map_or_else(|| url.to_owned(), |rest| format!("http://{rest}"));
    let parsed = Url::parse(&in_clear);
    let parsed = parsed.ok_or_else(|| StageError::new(format!("{url} is not http://ADDRESS:PORT/PATH")))?;
    let side = secure
        .filter(|_| held != Held::IdleHttp2)
        .map(|_| ClientSide::new(Trust::Anyone).resume(false).build())
        .transpose();
    let side = side.map_err(|error| StageError::new(error.to_string()))?;
    open_all(held, parsed.address, &parsed.path, (count, side.as_ref()))
}

/// The same for a path at an address.
fn open_all(
    held: Held,
    address: SocketAddr,
    path: &str,
    (count, side): (usize, Option<&ClientSide>),
) -> Result<Vec<Line>, StageError> {
    let mut streams = Vec::new();
    let http2 = (held == Held::IdleHttp2).then(hold_http2::side).transpose();
    let http2 = http2.map_err(|error| StageError::new(error.to_string()))?;
    for number in 1..=count {
        let stream = open(held, address, path, (side, http2.as_ref()));
        streams.push(stream.map_err(|error| StageError::new(format!("connection {number} of {count}: {error}")))?);
    }
    Ok(streams)
}

fn open(
    held: Held,
    address: SocketAddr,
    path: &str,
    (side, http2): (Option<&ClientSide>, Option<&ClientSide>),
) -> io::Result<Line> {
    let mut stream = Line::connect(address, side)?;
    match held {
        Held::Idle => {
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
            let (head, come) = read_head(&mut stream)?;
            expect(&head, "HTTP/1.1 200")?;
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<u64>().ok())?
            });
            let length = length.ok_or_else(|| io::Error::other("the page came without a length"))?;
            read_away(&mut stream, length.saturating_sub(come))?;
        }
        Held::IdleHttp2 => {
            let http2 = http2.ok_or_else(|| io::Error::other("HTTP/2 is held under TLS only"))?;
            hold_http2::exchange(&mut stream.stream, &address.to_string(), path, http2)?;
        }
        Held::HalfHead => write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nX-Half: ")?,
        Held::Tunnel => {
            // The example key of RFC 6455, 1.2; it is not secret.
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )?;
            expect(&read_head(&mut stream)?.0, "HTTP/1.1 101")?;
        }
    }
    Ok(stream)
}

impl Line {
    fn connect(address: SocketAddr, side: Option<&ClientSide>) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_TIME_MAX)?;
        stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        let session = side.map(|side| Session::client(side, &address.ip().to_string())).transpose();
        let mut line = Self { stream, session: session.map_err(io::Error::other)?, plain: Vec::new() };
        while line.session.as_ref().is_some_and(Session::is_handshaking) {
            line.flush()?;
            line.receive()?;
        }
        line.flush()?;
        Ok(line)
    }

    /// Reads once from the socket; 0 bytes mean its end.
    fn receive(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 16 * 1024];
        let count = self.stream.read(&mut bytes)?;
        let come = bytes.get_mut(..count).unwrap_or_default();
        match &mut self.session {
            Some(session) => {
                let plain = &mut self.plain;
                session.receive(come, &mut |part| plain.extend_from_slice(part)).map_err(io::Error::other)?;
                if count == 0 && session.is_handshaking() {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed inside the handshake"));
                }
            }
            None => self.plain.extend_from_slice(come),
        }
        Ok(count)
    }
}

impl io::Read for Line {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.plain.is_empty() {
            if self.receive()? == 0 {
                return Ok(0);
            }
        }
        let count = self.plain.len().min(into.len());
        for (to, from) in into.iter_mut().zip(self.plain.drain(..count)) {
            *to = from;
        }
        if self.plain.is_empty() {
            // Free the buffer, so that a held connection takes no memory for it here.
            self.plain = Vec::new();
        }
        Ok(count)
    }
}

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = &mut self.session else { return self.stream.write(bytes) };
        let bytes = bytes.get(..RECORD_BYTES_MAX).unwrap_or(bytes);
        let mut sealed = vec![0; bytes.len() + RECORD_OVERHEAD_BYTES];
        let done = session.seal(bytes, RECORD_BYTES_MAX, &mut sealed).map_err(io::Error::other)?;
        self.stream.write_all(sealed.get(..done.written).unwrap_or_default())?;
        Ok(done.taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut output = Vec::new();
        if let Some(session) = &mut self.session {
            session.take_output(&mut output);
        }
        self.stream.write_all(&output)
    }
}

fn expect(head: &str, begins: &str) -> io::Result<()> {
    let first = head.lines().next().unwrap_or_default();
    if head.starts_with(begins) { Ok(()) } else { Err(io::Error::other(format!("instead of {begins} came: {first}"))) }
}

fn read_away(stream: &mut impl io::Read, mut left: u64) -> io::Result<()> {
    let mut piece = [0; 16 * 1024];
    while left > 0 {
        let read = stream.read(&mut piece)? as u64;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed inside the page"));
        }
        left = left.saturating_sub(read);
    }
    Ok(())
}

/// The head as text, and the number of body bytes that came with it.
fn read_head(stream: &mut impl io::Read) -> io::Result<(String, u64)> {
    const END: &[u8] = b"\r\n\r\n";
    let mut bytes = Vec::new();
    loop {
        if let Some(at) = bytes.windows(END.len()).position(|window| window == END) {
            let body = bytes.split_off(at + END.len());
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), body.len() as u64));
        }
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece)?;
        if read == 0 || bytes.len() > HEAD_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed before the end of the head"));
        }
        bytes.extend_from_slice(piece.get(..read).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    /// Reads one head, sends the answer in two pieces, and returns what it read.
    fn scripted(answer: &'static [u8]) -> (SocketAddr, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (head, _) = read_head(&mut stream).unwrap();
            let (first, second) = answer.split_at(answer.len() / 2);
            stream.write_all(first).unwrap();
            stream.write_all(second).unwrap();
            head
        });
        (address, server)
    }

    #[test]
    fn idle_connection_read_its_page_and_tunnel_its_101() {
        let (address, server) = scripted(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
        assert_eq!(open_all(Held::Idle, address, "/5", (1, None)).unwrap().len(), 1);
        assert!(server.join().unwrap().starts_with("GET /5 HTTP/1.1\r\n"));

        let (address, server) = scripted(b"HTTP/1.1 101 Switching Protocols\r\n\r\n");
        open_all(Held::Tunnel, address, "/room", (1, None)).unwrap();
        assert!(server.join().unwrap().contains("Upgrade: websocket\r\n"));
    }

    #[test]
    fn an_idle_connection_may_be_under_tls() {
        let pair = tls::Pair::self_made(&["a.test".to_owned()]).unwrap();
        let side = std::sync::Arc::new(tls::ServerSide::new().pair(pair).build().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let session = Session::server(std::sync::Arc::new(tls::OneServer(side)));
            let mut line = Line { stream, session: Some(session), plain: Vec::new() };
            while line.session.as_ref().unwrap().is_handshaking() {
                line.receive().unwrap();
                line.flush().unwrap();
            }
            let (head, _) = read_head(&mut line).unwrap();
            line.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap();
            head
        });
        assert_eq!(open_url(Held::Idle, &format!("https://{address}/5"), 1).unwrap().len(), 1);
        assert!(server.join().unwrap().starts_with("GET /5 HTTP/1.1\r\n"));
    }

    #[test]
    fn a_wrong_state_is_an_error_that_names_the_connection() {
        let (address, _) = scripted(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
        let error = open_all(Held::Idle, address, "/", (1, None)).unwrap_err().to_string();
        assert!(error.starts_with("connection 1 of 1: ") && error.contains("502"), "{error}");
        let (address, _) = scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort");
        assert!(
            open_all(Held::Idle, address, "/", (1, None)).unwrap_err().to_string().contains("closed inside the page")
        );
        let (address, _) = scripted(b"HTTP/1.1 200 OK\r\n\r\n");
        assert!(
            open_all(Held::Tunnel, address, "/", (1, None))
                .unwrap_err()
                .to_string()
                .contains("instead of HTTP/1.1 101")
        );
    }
}
