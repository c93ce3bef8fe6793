//! An upstream for caches: it counts requests for each side and path, and answers with the count. Its query controls
//! the answer: `f=Name:value` (percent-encoded, repeated) in each response, `f2=…` from the second one on; `r=STATUS`,
//! `r2=…`; `d=MS` delays the first answer; `s2=1` sends no answer from the second one on; `b=BYTES` of body; `c=1` in chunks, `u=1` until it closes; `x2=1` closes without an answer; `v=1` answers a
//! conditional request with 304; `g=1` serves the requested range of a constant body (`p=…` states another one in
//! `Content-Range`).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::application::decoded;
use testkit::{Peer, Request, until};

/// Starts one.
pub(crate) fn start() -> Peer {
    let counts: Arc<Mutex<HashMap<String, u32>>> = Arc::default();
    Peer::script(move |mut talk| {
        while let Some(request) = talk.request() {
            let place = request.target().split_once('?').map_or(request.target(), |(path, _)| path);
            let side = request.value("X-Side").unwrap_or_default();
            let count = {
                let mut counts = counts.lock().unwrap();
                let count = counts.entry(format!("{side} {place}")).or_default();
                *count += 1;
                *count
            };
            if count > 1 && request.target().contains("&s2=1") {
                let _ = talk.rest();
                return;
            }
            if let Some(delay) = delay_ms(request.target()).filter(|_| count == 1) {
                let begun = Instant::now();
                until("the delay is over", || (begun.elapsed() >= delay).then_some(()));
            }
            let Some((answer, keeps)) = answer(&request, count) else { return };
            talk.send(answer);
            if !keeps {
                return;
            }
        }
    })
}

fn delay_ms(target: &str) -> Option<Duration> {
    let ms = target.split(['?', '&']).find_map(|part| part.strip_prefix("d="))?;
    Some(Duration::from_millis(ms.parse().unwrap()))
}

/// The response, and whether the connection continues; `None`: no response.
fn answer(request: &Request, count: u32) -> Option<(Vec<u8>, bool)> {
    let query = request.target().split_once('?').map_or("", |(_, query)| query);
    let values = |name: &str| {
        let name = format!("{name}=");
        query.split('&').filter_map(move |part| part.strip_prefix(&name)).map(decoded).collect::<Vec<_>>()
    };
    // The parameters for later responses apply from the second one on.
    let later = |name: &str| Some(values(&format!("{name}2"))).filter(|list| count > 1 && !list.is_empty());
    let said = |name: &str| later(name).unwrap_or_else(|| values(name));
    let number = |name: &str| said(name).first().and_then(|value| value.parse::<usize>().ok());
    if count > 1 && !values("x2").is_empty() || !values("x").is_empty() {
        return None;
    }
    let conditions: Vec<String> = ["If-None-Match", "If-Modified-Since", "If-Match", "If-Range", "Range"]
        .iter()
        .filter_map(|name| request.value(name).map(|value| format!("{name}={value}")))
        .collect();
    if !values("g").is_empty() && (count == 1 || values("r2").is_empty()) {
        return Some((
            ranged(request, &said("f"), values("p").first().map(String::as_str), number("b").unwrap_or(0)),
            true,
        ));
    }
    let is_conditional = conditions.iter().any(|said| said.starts_with("If-N") || said.starts_with("If-Mod"));
    let status = if is_conditional && !values("v").is_empty() { 304 } else { number("r").unwrap_or(200) };
    let mut head = format!("HTTP/1.1 {status} Said\r\nServer: app\r\n");
    for field in said("f") {
        let (name, value) = field.split_once(':').unwrap_or((&field, ""));
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if matches!(status, 204 | 304) {
        return Some((format!("{head}\r\n").into_bytes(), true));
    }
    let mut body = format!("response {count} to {} [{}]", request.method(), conditions.join(" "));
    if let Some(bytes) = number("b") {
        while body.len() < bytes {
            let next = char::from(b'a' + (body.len() % 23) as u8);
            body.push(next);
        }
    }
    if request.method() == "HEAD" {
        return Some((format!("{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes(), true));
    }
    if !values("c").is_empty() {
        let size = body.len();
        return Some((
            format!("{head}Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n").into_bytes(),
            true,
        ));
    }
    if !values("u").is_empty() {
        return Some((format!("{head}Connection: close\r\n\r\n{body}").into_bytes(), false));
    }
    // `t=1`: it announces more bytes than it sends.
    let promised = body.len() + if values("t").is_empty() { 0 } else { 10 };
    Some((format!("{head}Content-Length: {promised}\r\n\r\n{body}").into_bytes(), promised == body.len()))
}

/// A part of a body, or 416.
fn ranged(request: &Request, fields: &[String], said: Option<&str>, bytes: usize) -> Vec<u8> {
    let body: Vec<u8> = (0..bytes).map(|at| b'a' + (at % 23) as u8).collect();
    let asked = request.value("Range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let part =
        asked.and_then(|(first, last)| Some(first.parse().ok()?..last.parse().map_or(bytes, |last: usize| last + 1)));
    let mut head = String::new();
    for field in fields {
        let (name, value) = field.split_once(':').unwrap_or((field, ""));
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let (line, part) = match part {
        None => ("200 OK".to_owned(), 0..bytes),
        Some(part) if part.start >= bytes => {
            return format!("HTTP/1.1 416 No\r\nContent-Range: bytes */{bytes}\r\nContent-Length: 0\r\n\r\n")
                .into_bytes();
        }
        Some(part) => {
            let part = part.start..part.end.min(bytes);
            let place = said.map_or_else(|| format!("bytes {}-{}/{bytes}", part.start, part.end - 1), str::to_owned);
            (format!("206 Part\r\nContent-Range: {place}"), part)
        }
    };
    let mut answer =
        format!("HTTP/1.1 {line}\r\nServer: app\r\n{head}Content-Length: {}\r\n\r\n", part.len()).into_bytes();
    if request.method() != "HEAD" {
        answer.extend_from_slice(&body[part]);
    }
    answer
}
