//! An application as an upstream: it answers every path with the request that it received, in the origin's format, and
//! accepts `Upgrade: websocket`. The query changes the answer: `r=STATUS`, `f=Name:value` (percent-encoded, repeated),
//! `page=TEXT&piece=N`: this body instead, in chunks of N bytes, each in its own write.

use std::fmt::Write as _;

use testkit::{Peer, Request};

/// Starts one.
pub(crate) fn start() -> Peer {
    Peer::script(|mut talk| {
        while let Some(request) = talk.request() {
            let wants_socket = request.value("Upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"));
            if wants_socket && request.value("Connection").is_some_and(|value| value.eq_ignore_ascii_case("upgrade")) {
                talk.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
                // The client's next bytes come through the tunnel.
                if talk.request().is_some() {
                    talk.send("HTTP/1.1 204 Tunnelled\r\n\r\n");
                }
                return;
            }
            match in_pieces(&request) {
                Some((head, pieces)) => {
                    talk.send(head);
                    for piece in pieces {
                        talk.send(piece);
                    }
                }
                None => talk.send(answer(&request)),
            }
        }
    })
}

/// The head and the chunks of a page that the query brings.
fn in_pieces(request: &Request) -> Option<(String, Vec<Vec<u8>>)> {
    let (_, query) = request.target().split_once('?')?;
    let value = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let (page, size) = (value("page")?, value("piece")?.parse::<usize>().ok()?);
    let page: Vec<u8> = page.split('%').skip(1).filter_map(|digits| u8::from_str_radix(digits, 16).ok()).collect();
    let framed = |piece: &[u8]| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
    let mut pieces: Vec<Vec<u8>> = page.chunks(size.max(1)).map(framed).collect();
    pieces.push(b"0\r\n\r\n".to_vec());
    let head = "HTTP/1.1 200 Said\r\nServer: app\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";
    Some((head.to_owned(), pieces))
}

fn answer(request: &Request) -> Vec<u8> {
    let query = request.target().split_once('?').map_or("", |(_, query)| query);
    let values = |name: &str| {
        let name = format!("{name}=");
        query.split('&').filter_map(move |part| part.strip_prefix(&name)).map(decoded).collect::<Vec<_>>()
    };
    let status: u16 = values("r").first().and_then(|status| status.parse().ok()).unwrap_or(200);
    let mut head = format!("HTTP/1.1 {status} Said\r\nServer: app\r\n");
    for field in values("f") {
        let (name, value) = field.split_once(':').unwrap_or((&field, ""));
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let sum = request.body.iter().fold(0u32, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let body = serde_json::json!({
        "method": request.method(),
        "target": request.target(),
        "version": request.line.rsplit(' ').next(),
        "fields": request.fields,
        "body": format!("{} bytes, sum {sum:08x}", request.body.len()),
    })
    .to_string();
    if matches!(status, 204 | 304) {
        return format!("{head}\r\n").into_bytes();
    }
    let body = if request.method() == "HEAD" { "" } else { &body };
    format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Decodes a percent-encoded text.
pub(super) fn decoded(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, coded)) = rest.split_once('%') {
        out.push_str(before);
        match coded.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => out.push(char::from(byte)),
            None => out.push('%'),
        }
        rest = coded.get(2..).unwrap_or_default();
    }
    out + rest
}
