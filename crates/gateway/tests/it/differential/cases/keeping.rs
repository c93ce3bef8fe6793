//! How long a client's connection is kept, and what the response says about it.

use super::Case;

const HOSTS: &[&str] = &["any.test", "limit.test", "one.test", "header.test", "off.test", "disabled.test", "time.test"];

/// What a client says about its connection, with its version.
const CLIENTS: &[(&str, &str, &str)] = &[
    ("1.1", "HTTP/1.1", ""),
    ("1.1 keep-alive", "HTTP/1.1", "Connection: keep-alive\r\n"),
    ("1.1 close", "HTTP/1.1", "Connection: close\r\n"),
    ("1.1 Close", "HTTP/1.1", "Connection: Close\r\n"),
    ("1.1 close among others", "HTTP/1.1", "Connection: x, close\r\n"),
    ("1.1 both", "HTTP/1.1", "Connection: close, keep-alive\r\n"),
    ("1.1 two fields", "HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n"),
    ("1.0", "HTTP/1.0", ""),
    ("1.0 keep-alive", "HTTP/1.0", "Connection: keep-alive\r\n"),
    ("1.0 Keep-Alive", "HTTP/1.0", "Connection: Keep-Alive\r\n"),
    ("1.0 close", "HTTP/1.0", "Connection: close\r\n"),
];

const AGENTS: &[&str] = &[
    "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X) AppleWebKit/5 (KHTML, like Gecko) Version/5 Safari/5",
    "Mozilla/5.0 (X11; Linux) AppleWebKit/5 (KHTML, like Gecko) Chrome/1 Safari/5",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for host in HOSTS {
        for (name, version, lines) in CLIENTS {
            let text = format!("GET / {version}\r\nHost: {host}\r\n{lines}\r\n");
            cases.push(Case::raw(format!("{host} {name}"), text));
        }
    }
    for host in ["any.test", "limit.test", "off.test"] {
        for (name, version, lines) in CLIENTS {
            let text = format!("GET /echo {version}\r\nHost: {host}\r\n{lines}\r\n");
            cases.push(Case::raw(format!("proxied {host} {name}"), text));
        }
    }
    let get = b"GET / HTTP/1.1\r\nHost: limit.test\r\n\r\n";
    let echo = b"GET /echo HTTP/1.1\r\nHost: limit.test\r\n\r\n";
    cases.push(Case::pipeline("limit of requests", &[get, get, get]));
    cases.push(Case::pipeline("limit of requests, proxied", &[echo, echo, echo]));
    let off = "GET /off/ HTTP/1.1\r\nHost: header.test\r\n\r\n";
    cases.push(Case::raw("keepalive off in a location", off));
    for agent in AGENTS {
        for method in ["GET", "POST"] {
            let text = format!("{method} / HTTP/1.1\r\nHost: disabled.test\r\nUser-Agent: {agent}\r\n\r\n");
            cases.push(Case::raw(format!("disabled {method} {agent}"), text));
        }
    }
    cases
}
