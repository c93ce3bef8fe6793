//! A memcached for the conversations: the key says what it answers. `/value/BYTES[/FLAGS]`, `/packed` (gzip, flag 2), `/echo` (the
//! request as a value), `/raw?BYTES` and `/end?BYTES` (percent-encoded; the second closes), `/slow`, `/mute`; other keys have no value.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Starts it; it runs until the test program ends.
pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(&stream));
        }
    });
    address
}

fn serve(mut stream: &TcpStream) -> io::Result<()> {
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let key = line.strip_prefix(b"get ").unwrap_or(&line).trim_ascii_end();
        // What nginx and the gateway have encoded.
        let name = String::from_utf8_lossy(&decoded(key)).into_owned();
        let (path, bytes) = name.split_once('?').unwrap_or((&name, ""));
        let bytes = decoded(bytes.as_bytes());
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match parts[..] {
            ["value", count] => stream.write_all(&value(key, "0", &super::cases::pattern(count.parse().unwrap())))?,
            ["value", count, flags] => {
                stream.write_all(&value(key, flags, &super::cases::pattern(count.parse().unwrap())))?;
            }
            ["packed"] => stream.write_all(&value(key, "2", &packed(b"a value that was stored compressed\n")))?,
            ["page.html" | "style.css" | "data.json" | "none"] => {
                stream.write_all(&value(key, "0", b"a value with a type\n"))?;
            }
            ["echo", ..] => stream.write_all(&value(key, "0", &line))?,
            ["raw"] => stream.write_all(&bytes)?,
            ["end"] => return stream.write_all(&bytes),
            ["slow"] => {
                for piece in value(key, "0", b"piece by piece").chunks(7) {
                    stream.write_all(piece)?;
                    std::thread::park_timeout(Duration::from_millis(5));
                }
            }
            ["mute"] => {}
            _ => stream.write_all(b"END\r\n")?,
        }
    }
}

fn value(key: &[u8], flags: &str, bytes: &[u8]) -> Vec<u8> {
    let line = format!(" {flags} {}\r\n", bytes.len());
    [b"VALUE ", key, line.as_bytes(), bytes, b"\r\nEND\r\n"].concat()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let digits =
            text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        if let Some(byte) = digits.filter(|_| text[at] == b'%') {
            out.push(byte);
            at += 3;
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    out
}
