//! Applications behind FastCGI, SCGI and uwsgi: they answer with the parameters and the body that they received. The
//! query changes the answer: `r=STATUS`, `f=Name:value` (percent-encoded, repeated), `raw=OUTPUT` (all of its output),
//! `e=TEXT` on standard error, `split=BYTES` a record, `pad=BYTES` after each, `size=BYTES` of a body, `cut` (no end of
//! the request), `mute` (no output), `behind` (bytes after the end), `http` (an HTTP status line).

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Record types.
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// The protocol of an application.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Protocol {
    Fastcgi,
    Scgi,
    Uwsgi,
}

/// Starts an application; it runs until the test program ends.
pub(crate) fn start(protocol: Protocol) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || match protocol {
                Protocol::Fastcgi => while serve(&stream).unwrap_or_default() {},
                // The connection ends with the response.
                Protocol::Scgi | Protocol::Uwsgi => drop(serve_one(&stream, protocol)),
            });
        }
    });
    address
}

struct Asked {
    keeps: bool,
    params: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// Serves one request. Returns whether the connection continues.
fn serve(mut stream: &TcpStream) -> io::Result<bool> {
    let asked = receive(stream)?;
    let query = query_of(&asked);
    let output = output(&asked, query);
    let number = |name: &str| number(query, name);
    let has = |word: &str| has(query, word);
    let (split, padding) = (number("split").unwrap_or(60_000), number("pad").unwrap_or_default());
    let mut bytes = Vec::new();
    for text in values(query, "e") {
        bytes.extend(record(STDERR, &text, padding));
    }
    for piece in output.chunks(split.max(1)) {
        bytes.extend(record(STDOUT, piece, padding));
    }
    if !has("cut") {
        bytes.extend(record(3, &[0; 8], 0));
    }
    if has("behind") {
        bytes.extend(b"behind");
    }
    stream.write_all(&bytes)?;
    Ok(asked.keeps && !has("cut"))
}

fn query_of(asked: &Asked) -> &str {
    asked.params.get("QUERY_STRING").map_or("", String::as_str)
}

fn values(query: &str, name: &str) -> Vec<Vec<u8>> {
    let name = format!("{name}=");
    query.split('&').filter_map(|part| part.strip_prefix(&name)).map(decoded).collect()
}

fn number(query: &str, name: &str) -> Option<usize> {
    values(query, name).first().and_then(|text| String::from_utf8_lossy(text).parse().ok())
}

fn has(query: &str, word: &str) -> bool {
    query.split('&').any(|part| part == word)
}

/// The application's output: the head and the body of its response.
fn output(asked: &Asked, query: &str) -> Vec<u8> {
    let mut output = Vec::new();
    for raw in values(query, "raw") {
        output.extend(raw);
    }
    if output.is_empty() && !has(query, "mute") {
        for status in values(query, "r") {
            output.extend([b"Status: ", &status[..], b"\r\n"].concat());
        }
        for field in values(query, "f") {
            output.extend([&field[..], b"\r\n"].concat());
        }
        output.extend(b"Content-Type: text/plain\r\n\r\n");
        match number(query, "size") {
            Some(bytes) => output.extend((0..bytes).map(|at| b'a' + (at % 23) as u8)),
            None => output.extend(shown(asked).into_bytes()),
        }
    }
    output
}

/// Serves the only request of a connection.
fn serve_one(mut stream: &TcpStream, protocol: Protocol) -> io::Result<()> {
    let mut asked = Asked { keeps: false, params: BTreeMap::new(), body: Vec::new() };
    let texts = match protocol {
        Protocol::Scgi => netstring(stream)?,
        Protocol::Uwsgi | Protocol::Fastcgi => packet(stream, &mut asked)?,
    };
    for pair in texts.chunks(2) {
        let [name, value] = [0, 1].map(|at| pair[at].escape_ascii().to_string());
        asked
            .params
            .entry(name)
            .and_modify(|known| *known = format!("{known}|{value}"))
            .or_insert_with(|| value.clone());
    }
    let length = asked.params.get("CONTENT_LENGTH").and_then(|text| text.split('|').next()?.parse().ok());
    asked.body.resize(length.unwrap_or(0), 0);
    stream.read_exact(&mut asked.body)?;
    let query = query_of(&asked);
    let mut output = output(&asked, query);
    if has(query, "http") {
        output.splice(0..0, *b"HTTP/1.1 200 Fine\r\n");
    }
    if has(query, "cut") {
        output.truncate(output.len() / 2);
    }
    stream.write_all(&output)
}

/// Reads the names and values of SCGI.
fn netstring(mut stream: &TcpStream) -> io::Result<Vec<Vec<u8>>> {
    let mut digits = Vec::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        if byte[0] == b':' {
            break;
        }
        digits.push(byte[0]);
    }
    let length: usize = String::from_utf8_lossy(&digits).parse().expect("the length of a netstring");
    let mut bytes = vec![0; length + 1];
    stream.read_exact(&mut bytes)?;
    assert_eq!(bytes.pop(), Some(b','));
    assert_eq!(bytes.pop(), Some(0));
    Ok(bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
}

/// Reads the names and values of uwsgi; the modifiers become a parameter.
fn packet(mut stream: &TcpStream, asked: &mut Asked) -> io::Result<Vec<Vec<u8>>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    asked.params.insert("modifiers".to_owned(), format!("{} {}", header[0], header[3]));
    let mut bytes = vec![0; usize::from(u16::from_le_bytes([header[1], header[2]]))];
    stream.read_exact(&mut bytes)?;
    let (mut rest, mut texts) = (&bytes[..], Vec::new());
    while let [low, high, behind @ ..] = rest {
        let (text, behind) = behind.split_at(usize::from(u16::from_le_bytes([*low, *high])));
        texts.push(text.to_vec());
        rest = behind;
    }
    Ok(texts)
}

/// The parameters, without those that depend on the side, and the body.
fn shown(asked: &Asked) -> String {
    let is_shown =
        |name: &&String| !matches!(name.as_str(), "REMOTE_PORT" | "SERVER_PORT" | "HTTP_HOST" | "SERVER_ADDR");
    let params: Vec<String> = asked
        .params
        .iter()
        .filter(|(name, _)| is_shown(name))
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    let sum = asked.body.iter().fold(0u32, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("{}{} bytes, sum {sum:08x}\n", params.concat(), asked.body.len())
}

fn record(kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    let mut bytes = vec![1, kind, 0, 1, length[0], length[1], padding as u8, 0];
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + padding, b'p');
    bytes
}

fn receive(mut stream: &TcpStream) -> io::Result<Asked> {
    let mut asked = Asked { keeps: false, params: BTreeMap::new(), body: Vec::new() };
    let mut params = Vec::new();
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header)?;
        let mut content = vec![0; usize::from(u16::from_be_bytes([header[4], header[5]]))];
        stream.read_exact(&mut content)?;
        stream.read_exact(&mut vec![0; usize::from(header[6])])?;
        assert_eq!((header[0], header[2], header[3]), (1, 0, 1), "version and id of a request");
        match header[1] {
            1 => asked.keeps = content[2] & 1 == 1,
            4 => params.extend(content),
            STDIN if content.is_empty() => break,
            STDIN => asked.body.extend(content),
            other => panic!("a record of type {other}"),
        }
    }
    let mut rest = &params[..];
    while !rest.is_empty() {
        let mut length = || {
            let four = rest[0] >= 128;
            let (bytes, behind) = rest.split_at(if four { 4 } else { 1 });
            rest = behind;
            bytes.iter().fold(0, |all, &byte| all << 8 | usize::from(byte)) & 0x7fff_ffff
        };
        let (name, value) = (length(), length());
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        let value_of = text(&rest[name..name + value]);
        // Names that occur twice are shown twice.
        asked
            .params
            .entry(text(&rest[..name]))
            .and_modify(|known| *known = format!("{known}|{value_of}"))
            .or_insert_with(|| value_of.clone());
        rest = &rest[name + value..];
    }
    Ok(asked)
}

fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes();
    let mut out = Vec::new();
    while let Some((&byte, rest)) = bytes.split_first() {
        let digits = rest.get(..2).filter(|_| byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let (decoded, used) =
            digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).map_or((byte, 0), |byte| (byte, 2));
        out.push(decoded);
        bytes = &rest[used..];
    }
    out
}
