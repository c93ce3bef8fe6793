//! A server that keeps all requests and answers each by a function, so that tests compare what a load claims with what it
//! sent.

use super::server;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Number of its connection.
    pub(crate) connection: usize,
}

impl Received {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Recorder {
    /// `answer` returns the bytes of a response. One that starts with `HTTP/1.0` ends its connection.
    pub(crate) fn start(answer: impl Fn(&Received) -> String + Send + Sync + 'static) -> Self {
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (kept, connections) = (Arc::clone(&received), Mutex::new(0));
        let address = server(move |stream| {
            let connection = {
                let mut connections = connections.lock().unwrap();
                *connections += 1;
                *connections
            };
            stream.set_nodelay(true).unwrap();
            let mut from = BufReader::new(stream.try_clone().unwrap());
            while let Some(request) = read(&mut from, connection) {
                let text = answer(&request);
                kept.lock().unwrap().push(request);
                if (&stream).write_all(text.as_bytes()).is_err() || text.starts_with("HTTP/1.0") {
                    return;
                }
            }
        });
        Self { address, received }
    }

    /// All requests in the order of their arrival.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Number of requests whose path begins with this.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.received.lock().unwrap().iter().filter(|request| request.path.starts_with(path)).count()
    }
}

fn read(from: &mut BufReader<std::net::TcpStream>, connection: usize) -> Option<Received> {
    let mut line = String::new();
    from.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut fields = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|length| *length > 0)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => fields.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    let length =
        fields.iter().find(|(name, _)| name == "Content-Length").map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    Some(Received { method, path, fields, body, connection })
}

/// A response with a body and more fields, each with its line end.
pub(crate) fn ok(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}
