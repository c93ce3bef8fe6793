//! `watch --listen` and `load --listen`: the last look, or interval, as a page for Prometheus. One thread, one connection at a time: a scraper comes every few
//! seconds, and slow clients are cut off.

use http1::{Limits, Method, Parse, RequestHead};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use terminal::errno;

/// A scraper's request has a few hundred bytes.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// A client has this long for its request and its response.
const CLIENT_TIME_MAX: Duration = Duration::from_secs(5);

/// The page that is served.
#[derive(Debug, Clone, Default)]
pub struct Exporter(Arc<Mutex<String>>);

/// A bound socket that is not served yet. It is bound before another network namespace is entered.
#[derive(Debug)]
pub struct Bound(TcpListener);

impl Bound {
    /// Binds it; the error is for the operator.
    pub fn to(address: SocketAddr) -> Result<Self, String> {
        TcpListener::bind(address).map(Self).map_err(|error| format!("cannot listen on {address} {}", errno(&error)))
    }

    /// Where it listens; the port was chosen by the kernel if it was 0.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }

    /// Answers from now on, until the process ends.
    pub fn serve(self) -> Exporter {
        let exporter = Exporter::default();
        let page = exporter.clone();
        std::thread::spawn(move || {
            for stream in self.0.incoming() {
                match stream {
                    // A client that goes away harms only itself.
                    Ok(stream) => drop(answer(stream, &page)),
                    // Out of descriptors, as a rule; trying again at once would only burn the processor.
                    Err(_) => std::thread::park_timeout(CLIENT_TIME_MAX),
                }
            }
        });
        exporter
    }
}

impl Exporter {
    /// What is served from now on.
    pub fn show(&self, page: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }

    fn page(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn answer(mut stream: TcpStream, page: &Exporter) -> std::io::Result<()> {
    let deadline = Instant::now() + CLIENT_TIME_MAX;
    stream.set_write_timeout(Some(CLIENT_TIME_MAX))?;
    let mut bytes = Vec::new();
    let mut head = RequestHead::default();
    let (status, body) = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || bytes.len() > HEAD_BYTES_MAX {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 1024];
        let length = stream.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(piece.get(..length).unwrap_or_default());
        match http1::request::parse(&bytes, &Limits::default(), &mut head) {
            Ok(Parse::Partial) => {}
            Ok(Parse::Complete { .. }) => break respond(&head, &bytes, page),
            Err(_) => break ("400 Bad Request", String::new()),
        }
    };
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(response.as_bytes())?;
    if head.method != Method::Head {
        stream.write_all(body.as_bytes())?;
    }
    Ok(())
}

fn respond(head: &RequestHead, bytes: &[u8], page: &Exporter) -> (&'static str, String) {
    if !matches!(head.method, Method::Get | Method::Head) {
        return ("405 Method Not Allowed", String::new());
    }
    match head.target.path.of(bytes) {
        b"/metrics" => ("200 OK", page.page()),
        _ => ("404 Not Found", "the page is /metrics\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    #[test]
    fn a_scraper_gets_the_last_page_and_others_a_reason() {
        let bound = Bound::to("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = bound.address().unwrap();
        let exporter = bound.serve();
        exporter.show("first 1\n".to_owned());
        exporter.show("holdfast_x 1\n".to_owned());
        let get = |path| ask(address, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(get("/metrics").ends_with("\r\nContent-Length: 13\r\nConnection: close\r\n\r\nholdfast_x 1\n"));
        assert!(get("/").starts_with("HTTP/1.1 404 Not Found\r\n"));
        assert!(
            ask(address, "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").starts_with("HTTP/1.1 405 ")
        );
        assert!(ask(address, "\x01\r\n\r\n").starts_with("HTTP/1.1 400 "));
        let taken = Bound::to(address).unwrap_err();
        assert!(taken.contains("cannot listen on") && taken.contains("Address already in use"), "{taken}");
    }
}
