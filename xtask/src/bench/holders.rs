//! Clients that open connections, bring them into a state, and hold them there.

use anyhow::{Context as _, Result, bail};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// What a held connection waits in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held {
    /// One exchange is over, the next has not begun.
    IdleKeepalive,
    /// The head has begun and is not complete.
    HalfHead,
    /// A 101 went through, and nothing since.
    IdleTunnel,
}

impl Held {
    pub(super) const ALL: [Held; 3] = [Held::IdleKeepalive, Held::HalfHead, Held::IdleTunnel];

    pub(super) fn name(self) -> &'static str {
        match self {
            Held::IdleKeepalive => "idle keepalive connection",
            Held::HalfHead => "half-sent head",
            Held::IdleTunnel => "idle tunnel",
        }
    }

    /// Descriptors that the proxy needs for one of them.
    pub(super) fn descriptors(self) -> usize {
        if self == Held::IdleTunnel { 2 } else { 1 }
    }
}

/// Opens one connection and brings it there. `page` is what an exchange asks for.
pub(super) fn open(held: Held, port: u16, page: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    // A proxy that hangs must end the bench, not hold it.
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    match held {
        Held::IdleKeepalive => {
            write!(stream, "GET /{page} HTTP/1.1\r\nHost: bench\r\n\r\n")?;
            let (head, mut left) = read_head(&mut stream)?;
            if !head.starts_with("HTTP/1.1 200") {
                bail!("instead of the page came: {}", head.lines().next().unwrap_or_default());
            }
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            left = length.context("the page came without a length")?.saturating_sub(left);
            let mut piece = [0; 16384];
            while left > 0 {
                let n = stream.read(&mut piece)?;
                if n == 0 {
                    bail!("closed inside the page");
                }
                left = left.saturating_sub(n);
            }
        }
        Held::HalfHead => {
            write!(stream, "GET /{page} HTTP/1.1\r\nHost: bench\r\nX-Half: ")?;
        }
        Held::IdleTunnel => {
            write!(
                stream,
                "GET /tunnel HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )?;
            let (head, _) = read_head(&mut stream)?;
            if !head.starts_with("HTTP/1.1 101") {
                bail!("instead of a 101 came: {}", head.lines().next().unwrap_or_default());
            }
        }
    }
    Ok(stream)
}

/// The head as text, and how many bytes of the body came with it.
fn read_head(stream: &mut TcpStream) -> Result<(String, usize)> {
    const HEAD_MAX: usize = 65536; // many times what any of the arms answers
    const END: &[u8] = b"\r\n\r\n";
    let mut bytes = Vec::new();
    loop {
        if let Some(at) = bytes.windows(END.len()).position(|window| window == END) {
            let body = bytes.split_off(at + END.len());
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), body.len()));
        }
        let mut piece = [0; 4096];
        let n = stream.read(&mut piece).context("waiting for a response head")?;
        if n == 0 || bytes.len() > HEAD_MAX {
            bail!("closed before the end of the response head");
        }
        bytes.extend_from_slice(piece.get(..n).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Reads one head, sends the answer in two pieces, and reports what it read.
    fn scripted(answer: &'static [u8]) -> (u16, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (head, _) = read_head(&mut stream).unwrap();
            let (first, second) = answer.split_at(answer.len() / 2);
            stream.write_all(first).unwrap();
            stream.write_all(second).unwrap();
            head
        });
        (port, server)
    }

    #[test]
    fn an_idle_connection_has_read_its_page_and_a_tunnel_its_101() {
        let (port, server) = scripted(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
        open(Held::IdleKeepalive, port, "5").unwrap();
        assert!(server.join().unwrap().starts_with("GET /5 HTTP/1.1\r\n"));

        let (port, server) = scripted(b"HTTP/1.1 101 Switching Protocols\r\n\r\n");
        open(Held::IdleTunnel, port, "5").unwrap();
        assert!(server.join().unwrap().contains("Upgrade: websocket\r\n"));
    }

    #[test]
    fn what_is_not_the_wanted_state_is_an_error() {
        let (port, _) = scripted(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
        assert!(open(Held::IdleKeepalive, port, "5").unwrap_err().to_string().contains("502"));
        let (port, _) = scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort");
        assert!(open(Held::IdleKeepalive, port, "9").unwrap_err().to_string().contains("inside the page"));
    }
}
