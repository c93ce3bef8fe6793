//! Sends one HTTP request, and parses numbers in the response: whether a process serves, and which metrics it reports.
//! `processes` uses it for readiness, `looks` for metrics. Not a general HTTP client: it uses HTTP/1.0 with one request per
//! connection, and the response ends with the connection.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A response within a host's own network takes a millisecond. A server that needs longer than this is overloaded, and
/// waiting would delay the looks.
const TIME_MAX: Duration = Duration::from_secs(1);
/// A page of metrics has some ten thousand bytes; the rest of a longer one is not read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Most numbers that are kept of one page; Holdfast has some hundred.
const NUMBERS_MAX: usize = 1000;

/// The server and the path of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) address: SocketAddr,
    pub(super) path: String,
}

impl Url {
    /// Parses `http://10.77.0.1:8080/status`; the default port is 80. `None` if the host is not an IP address.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("http://")?;
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let address = authority.parse().or_else(|_| format!("{authority}:80").parse()).ok()?;
        Some(Self { address, path: path.to_owned() })
    }

    /// The status and the complete response as text, including the head.
    pub(super) fn ask(&self) -> io::Result<(u16, String)> {
        let mut stream = TcpStream::connect_timeout(&self.address, TIME_MAX)?;
        stream.set_read_timeout(Some(TIME_MAX))?;
        stream.set_write_timeout(Some(TIME_MAX))?;
        write!(stream, "GET {} HTTP/1.0\r\nHost: {}\r\nConnection: close\r\n\r\n", self.path, self.address)?;
        let mut answer = Vec::new();
        match stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer) {
            // A server that keeps the connection open anyway has still responded.
            Err(error) if answer.is_empty() => return Err(error),
            _ => {}
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))?;
        Ok((status, answer))
    }
}

/// The numbers of a response by name: nginx's `stub_status`, or Prometheus text, where the values of one name with
/// different labels are summed. Empty for other formats. `asked` is the number of requests sent so far, including this one:
/// `stub_status` counts a connection and a request for each, and these are subtracted.
pub(super) fn parse_numbers(answer: &str, asked: u64) -> BTreeMap<String, f64> {
    let body = answer.split_once("\r\n\r\n").map_or(answer, |(_, body)| body);
    if !body.starts_with("Active connections:") {
        return parse_prometheus(body);
    }
    let mut numbers = parse_stub_status(body);
    for name in ["accepts", "handled", "requests"] {
        if let Some(count) = numbers.get_mut(name) {
            *count -= asked as f64;
        }
    }
    numbers
}

fn parse_stub_status(body: &str) -> BTreeMap<String, f64> {
    let mut numbers = BTreeMap::new();
    let mut lines = body.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("server accepts") {
            let values = lines.next().unwrap_or_default().split_ascii_whitespace().map_while(|word| word.parse().ok());
            numbers.extend(["accepts", "handled", "requests"].map(str::to_owned).into_iter().zip(values));
            continue;
        }
        let mut name = "";
        for word in line.split_ascii_whitespace() {
            if let Some(named) = word.strip_suffix(':') {
                name = if named == "connections" { "active" } else { named };
            } else if let Ok(value) = word.parse() {
                numbers.insert(name.to_ascii_lowercase(), value);
            }
        }
    }
    numbers
}

fn parse_prometheus(body: &str) -> BTreeMap<String, f64> {
    let mut numbers = BTreeMap::new();
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let name_end = line.find(['{', ' ']).unwrap_or(line.len());
        let (name, rest) = line.split_at(name_end);
        // Buckets of histograms would only repeat their count.
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'));
        if name.is_empty() || !is_name || name.ends_with("_bucket") {
            continue;
        }
        let behind_labels = rest.rfind('}').map_or(rest, |at| rest.get(at + 1..).unwrap_or_default());
        let value = behind_labels.split_ascii_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        let Some(value) = value.filter(|value| value.is_finite()) else { continue };
        if numbers.len() < NUMBERS_MAX || numbers.contains_key(name) {
            *numbers.entry(name.to_owned()).or_insert(0.0) += value;
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_an_address() {
        let url = Url::parse("http://10.77.0.1:8080/status?x").unwrap();
        assert_eq!((url.address.to_string(), url.path), ("10.77.0.1:8080".to_owned(), "/status?x".to_owned()));
        assert_eq!(Url::parse("http://10.77.0.1").unwrap().address.port(), 80);
        assert_eq!((Url::parse("http://name/"), Url::parse("ftp://10.77.0.1/")), (None, None));
    }

    #[test]
    fn the_status_of_nginx_is_read() {
        let said = "HTTP/1.1 200 OK\r\n\r\nActive connections: 2 \nserver accepts handled requests\n 31 30 4711 \n\
                    Reading: 0 Writing: 1 Waiting: 5 \n";
        let numbers = parse_numbers(said, 1);
        let of = |name: &str| numbers.get(name).copied();
        assert_eq!((of("active"), of("accepts"), of("handled")), (Some(2.0), Some(30.0), Some(29.0)));
        assert_eq!((of("requests"), of("waiting"), numbers.len()), (Some(4710.0), Some(5.0), 7));
    }

    #[test]
    fn metrics_of_one_name_are_added_up_whatever_their_labels() {
        let said = "HTTP/1.1 200 OK\r\n\r\n# HELP x y\nx{a=\"1\"} 2\nx{a=\"} 9\",b=\"2\"} 3.5\ny 4 1700000000\nz_bucket{le=\"1\"} 5\n\
                    n NaN\nbad\n{} 1\n";
        let numbers = parse_numbers(said, 1);
        assert_eq!(numbers.into_iter().collect::<Vec<_>>(), [("x".to_owned(), 5.5), ("y".to_owned(), 4.0)]);
        assert!(parse_numbers("HTTP/1.1 404 Not Found\r\n\r\n<html> no </html>", 1).is_empty());
    }
}
