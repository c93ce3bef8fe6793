//! Connections that are opened one after the other, brought into a state, and held there: what a server keeps for each of them is
//! measured meanwhile. No load: nothing is asked for a second time. The program behind `program = "hold"` of an experiment.

use super::StageError;
use super::ask::Url;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that does not answer ends the holding, and does not hold it up.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Many times what any server answers.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What a held connection waits in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// One exchange is over, the next has not begun.
    Idle,
    /// The head has begun and is not complete.
    HalfHead,
    /// A 101 came, and nothing since.
    Tunnel,
}

/// Opens so many connections for a URL such as `http://10.77.0.1:8080/page`, and returns them in their state.
pub fn open_url(held: Held, url: &str, count: usize) -> Result<Vec<TcpStream>, StageError> {
    let url = Url::parse(url).ok_or_else(|| StageError::new(format!("{url} is not http://ADDRESS:PORT/PATH")))?;
    open_all(held, url.address, &url.path, count)
}

/// The same for a page of an address.
fn open_all(held: Held, address: SocketAddr, path: &str, count: usize) -> Result<Vec<TcpStream>, StageError> {
    let mut streams = Vec::new();
    for number in 1..=count {
        let stream = open(held, address, path);
        streams.push(stream.map_err(|error| StageError::new(format!("connection {number} of {count}: {error}")))?);
    }
    Ok(streams)
}

fn open(held: Held, address: SocketAddr, path: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIME_MAX)?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
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
        Held::HalfHead => write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nX-Half: ")?,
        Held::Tunnel => {
            // The key of RFC 6455, 1.2: nobody's secret.
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

fn expect(head: &str, begins: &str) -> io::Result<()> {
    let first = head.lines().next().unwrap_or_default();
    if head.starts_with(begins) { Ok(()) } else { Err(io::Error::other(format!("instead of {begins} came: {first}"))) }
}

fn read_away(stream: &mut TcpStream, mut left: u64) -> io::Result<()> {
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

/// The head as text, and how many bytes of the body came with it.
fn read_head(stream: &mut TcpStream) -> io::Result<(String, u64)> {
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

    /// Reads one head, sends the answer in two pieces, and reports what it read.
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
    fn an_idle_connection_has_read_its_page_and_a_tunnel_its_101() {
        let (address, server) = scripted(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
        assert_eq!(open_all(Held::Idle, address, "/5", 1).unwrap().len(), 1);
        assert!(server.join().unwrap().starts_with("GET /5 HTTP/1.1\r\n"));

        let (address, server) = scripted(b"HTTP/1.1 101 Switching Protocols\r\n\r\n");
        open_all(Held::Tunnel, address, "/room", 1).unwrap();
        assert!(server.join().unwrap().contains("Upgrade: websocket\r\n"));
    }

    #[test]
    fn what_is_not_the_wanted_state_is_an_error_that_says_which_connection() {
        let (address, _) = scripted(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
        let error = open_all(Held::Idle, address, "/", 1).unwrap_err().to_string();
        assert!(error.starts_with("connection 1 of 1: ") && error.contains("502"), "{error}");
        let (address, _) = scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort");
        assert!(open_all(Held::Idle, address, "/", 1).unwrap_err().to_string().contains("closed inside the page"));
        let (address, _) = scripted(b"HTTP/1.1 200 OK\r\n\r\n");
        assert!(open_all(Held::Tunnel, address, "/", 1).unwrap_err().to_string().contains("instead of HTTP/1.1 101"));
    }
}
