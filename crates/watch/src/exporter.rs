//! `watch --listen` and `load --listen`: serves the last look or interval as a page for Prometheus. One thread, one
//! connection at a time: a scraper comes every few seconds, and slow clients are cut off.

use http1::{Limits, Method, Parse, RequestHead};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use terminal::errno;

/// Longest request head; a scraper's request has a few hundred bytes.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// The time limit for a client's request and its response.
const CLIENT_TIME_MAX: Duration = Duration::from_secs(5);

/// The page that is served.
#[derive(Debug, Clone, Default)]
pub struct Exporter(Arc<Mutex<String>>);

/// A bound socket that does not serve yet. It is bound before the program enters another network namespace.
#[derive(Debug)]
pub struct Bound(TcpListener);

impl Bound {
    /// Binds the socket; the error is for the operator.
    pub fn to(address: SocketAddr) -> Result<Self, String> {
        TcpListener::bind(address).map(Self).map_err(|error| format!("cannot listen on {address} {}", errno(&error)))
    }

    /// The address it listens on; if the port was 0, with the port that the kernel chose.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.local_addr().ok()
    }

    /// Serves until the process ends.
    pub fn serve(self) -> Exporter {
        let exporter = Exporter::default();
        let page = exporter.clone();
        std::thread::spawn(move || {
            for stream in self.0.incoming() {
                match stream {
                    // An error of one client does not matter to the others.
                    Ok(stream) => drop(answer(stream, &page)),
                    // Usually no descriptor is left; trying again at once would only waste processor time.
                    Err(_) => std::thread::park_timeout(CLIENT_TIME_MAX),
                }
            }
        });
        exporter
    }
}

impl Exporter {
    /// Sets the page that is served.
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
