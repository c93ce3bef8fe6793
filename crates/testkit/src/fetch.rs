//! One HTTP/1 request with its errors as values: for clients that expect a server to be gone. [`crate::Talk`] ends the
//! test instead.

use crate::DEADLINE;
use crate::message::{Framing, Message, Response};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs};

/// Most bytes of a response: far above what a test serves, and far below the machine's memory.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// Sends a request on a new connection and reads its response, and the end of the connection after `Connection: close`.
///
/// # Errors
/// The connection is refused, breaks, or ends inside of the response; nothing comes for [`DEADLINE`].
pub fn fetch(to: impl ToSocketAddrs, request: impl AsRef<[u8]>) -> io::Result<Response> {
    let stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let response = ask(&stream, &request)?;
    if is_last(request.as_ref()) {
        // The end of the connection, too: what the server does before it has happened then.
        let mut rest = Vec::new();
        (&stream).read_to_end(&mut rest)?;
        assert!(rest.is_empty(), "bytes behind the response: {}", rest.escape_ascii());
    }
    Ok(response)
}

/// Whether the server is asked to close the connection after its response.
fn is_last(request: &[u8]) -> bool {
    request.to_ascii_lowercase().windows(17).any(|window| window == b"connection: close")
}

/// Sends a request on an open connection and reads its response. The connection keeps its own timeouts.
///
/// # Errors
/// As [`fetch`].
pub fn ask(mut stream: &TcpStream, request: impl AsRef<[u8]>) -> io::Result<Response> {
    stream.write_all(request.as_ref())?;
    let mut received = Vec::new();
    let head_bytes = loop {
        if let Some(at) = received.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        receive(stream, &mut received)?;
    };
    let mut rest = received.split_off(head_bytes);
    let mut response = Message::of_head(&received);
    match response.response_framing(false) {
        Framing::Length(length) => {
            while rest.len() < length {
                receive(stream, &mut rest)?;
            }
            assert_eq!(rest.len(), length, "bytes behind the response: {response:?}");
            response.body = rest;
        }
        Framing::Chunked => response.body = chunked(stream, rest)?,
        Framing::UntilEnd => {
            stream.read_to_end(&mut rest)?;
            response.body = rest;
        }
    }
    Ok(response)
}

/// The body in chunks, without trailers.
fn chunked(stream: &TcpStream, mut rest: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = loop {
            match rest.windows(2).position(|window| window == b"\r\n") {
                Some(at) => break at,
                None => receive(stream, &mut rest)?,
            }
        };
        let size = std::str::from_utf8(&rest[..line]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let size = size.filter(|size| *size <= RESPONSE_BYTES_MAX).ok_or(io::ErrorKind::InvalidData)?;
        while rest.len() < line + size + 4 {
            receive(stream, &mut rest)?;
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest.drain(..line + size + 4);
        if size == 0 {
            return Ok(body);
        }
    }
}

/// One read; the end is an error, because the response is not complete.
fn receive(mut stream: &TcpStream, received: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    let count = stream.read(&mut buffer)?;
    if count == 0 || received.len() > RESPONSE_BYTES_MAX {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    received.extend_from_slice(&buffer[..count]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;

    fn fetched(answer: &'static str) -> io::Result<Response> {
        let peer = Peer::script(move |mut talk| {
            talk.request();
            talk.send_bytewise(answer);
            talk.close();
        });
        fetch(peer.address(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    }

    #[test]
    fn reads_bodies_in_all_framings() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
        ] {
            let response = fetched(answer).unwrap();
            assert_eq!((response.status(), response.text().as_str()), (200, "hello"), "{answer}");
        }
    }

    #[test]
    fn truncated_responses_are_errors() {
        for answer in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n",
        ] {
            assert_eq!(fetched(answer).unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{answer}");
        }
    }

    #[test]
    fn refused_connections_are_errors() {
        let refusing = crate::Refusing::new();
        let error = fetch(refusing.address(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
