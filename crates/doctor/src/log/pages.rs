//! The handbook's symptom pages: one for each phrase, with an example line of a log. Written by `cargo xtask docs`.

use super::phrases::{PHRASES, Phrase};
use std::fmt::Write as _;

/// The origin of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// A request to nginx or Holdfast.
    Request,
    /// nginx or Holdfast, outside of any request.
    Process,
    /// The kernel; the line is in `dmesg`.
    Kernel,
}

/// A page of the handbook.
pub struct Page {
    /// Its file, without `.md`.
    pub name: &'static str,
    /// The message that people search for.
    pub title: String,
    /// The whole page.
    pub text: String,
}

/// The message of each phrase as in a log.
#[rustfmt::skip] // a table: a row is a line
const LINES: [(&str, By, &str); 38] = [
    ("log-source-address-not-here", By::Request, "bind(10.9.9.9) failed (99: Cannot assign requested address), no interface has this address while connecting to upstream"),
    ("log-ports-exhausted", By::Request, "connect() failed (99: Cannot assign requested address) while connecting to upstream"),
    ("log-descriptors-exhausted", By::Process, "accept4() failed (24: Too many open files); accepting pauses until a descriptor is free"),
    ("log-worker-connections-exhausted", By::Process, "4096 worker_connections are not enough; a new connection is closed"),
    ("log-upstream-socket-missing", By::Request, "connect() to unix:/run/app/app.sock failed (2: No such file or directory) while connecting to upstream"),
    ("log-upstream-forbidden", By::Request, "connect() to unix:/run/app/app.sock failed (13: Permission denied) while connecting to upstream"),
    ("log-upstream-certificate-refused", By::Request, "upstream SSL certificate verify error: (10:certificate has expired) while SSL handshaking to upstream"),
    ("log-upstream-handshake-failed", By::Request, "SSL_do_handshake() failed (SSL: error:0A00010B:SSL routines::wrong version number) while SSL handshaking to upstream"),
    ("log-upstream-refused", By::Request, "connect() failed (111: Connection refused) while connecting to upstream"),
    ("log-upstream-queue-full", By::Request, "connect() to unix:/run/app/app.sock failed (11: Resource temporarily unavailable) while connecting to upstream"),
    ("log-upstream-unreachable", By::Request, "connect() failed (113: No route to host) while connecting to upstream"),
    ("log-network-unreachable", By::Request, "connect() to [2001:db8::1]:80 failed (101: Network is unreachable) while connecting to upstream"),
    ("log-upstream-connect-timeout", By::Request, "upstream timed out (110: Connection timed out) while connecting to upstream"),
    ("log-upstream-read-timeout", By::Request, "upstream timed out (110: Connection timed out) while reading response header from upstream"),
    ("log-upstream-read-timeout-inside", By::Request, "upstream timed out (110: Connection timed out) while reading upstream"),
    ("log-client-gone", By::Request, "client prematurely closed connection, so upstream connection is closed too while reading response header from upstream"),
    ("log-upstream-closed-early", By::Request, "upstream prematurely closed connection while reading response header from upstream"),
    ("log-upstream-head-too-large", By::Request, "upstream sent too big header while reading response header from upstream"),
    ("log-upstream-no-http", By::Request, "upstream sent no valid HTTP/1.0 header while reading response header from upstream"),
    ("log-upstream-chunks-broken", By::Request, "upstream sent invalid chunked response while reading upstream"),
    ("log-upstream-head-invalid", By::Request, "upstream sent invalid header: \"X Y: z\" while reading response header from upstream"),
    ("log-upstream-truncated", By::Request, "upstream prematurely closed connection while reading upstream"),
    ("log-upstream-broke-while-sending", By::Request, "writev() failed (32: Broken pipe) while sending request to upstream"),
    ("log-upstream-reset", By::Request, "recv() failed (104: Connection reset by peer) while reading response header from upstream"),
    ("log-no-live-upstreams", By::Request, "no live upstreams while connecting to upstream"),
    ("log-no-resolver", By::Request, "no resolver defined to resolve app.example while sending to client"),
    ("log-name-not-resolved", By::Request, "app.example could not be resolved (3: Host not found) while sending to client"),
    ("log-response-to-disk", By::Request, "an upstream response is buffered to a temporary file /var/lib/nginx/proxy/1/00/0000000001 while reading upstream"),
    ("log-disk-full", By::Request, "pwrite() \"/var/lib/nginx/proxy/1/00/0000000001\" failed (28: No space left on device) while reading upstream"),
    ("log-temporary-file-forbidden", By::Request, "open() \"/var/lib/nginx/proxy/1/00/0000000001\" failed (13: Permission denied) while reading upstream"),
    ("log-worker-killed", By::Process, "worker process 4711 exited on signal 9"),
    ("log-worker-crashed", By::Process, "worker process 4711 exited on signal 11 (core dumped)"),
    ("log-request-limited", By::Request, "limiting requests, excess: 5.340 by zone \"per_client\""),
    ("log-connections-limited", By::Request, "limiting connections by zone \"per_client\""),
    ("log-conntrack-full", By::Kernel, "nf_conntrack: table full, dropping packet"),
    ("log-tw-buckets-full", By::Kernel, "TCP: time wait bucket table overflow"),
    ("log-syn-flood", By::Kernel, "TCP: request_sock_TCP: Possible SYN flooding on port 80. Sending cookies.  Check SNMP counters."),
    ("log-address-in-use", By::Process, "bind() to 0.0.0.0:80 failed (98: Address already in use)"),
];

/// The end of a line about a request.
const REQUEST: &str = ", client: 198.51.100.7, server: shop.example, request: \"GET /cart HTTP/1.1\", upstream: \
                       \"http://10.0.0.1:8080/cart\", host: \"shop.example\"";

/// All pages, in the order of the phrases.
pub fn pages() -> Vec<Page> {
    PHRASES
        .iter()
        .filter_map(|phrase| Some((phrase, LINES.iter().find(|line| line.0 == phrase.name)?)))
        .map(page)
        .collect()
}

fn page((phrase, (_, by, message)): (&'static Phrase, &(&str, By, &str))) -> Page {
    let line = match by {
        By::Request => format!("2026/11/22 20:30:01 [error] 7#7: *12 {message}{REQUEST}"),
        By::Process => format!("2026/11/22 20:30:01 [alert] 7#7: {message}"),
        By::Kernel => format!("[ 4711.123456] {message}"),
    };
    let (place, reader) = match by {
        By::Kernel => ("the kernel's log (`dmesg`)", ""),
        _ => ("the error log of nginx or Holdfast", "holdfast doctor -c nginx.conf --log error.log"),
    };
    let mut text = format!("# {message}\n\nA line in {place}:\n\n    {line}\n\n## What it means\n\n");
    let _ = writeln!(text, "{}{}.", phrase.cause[..1].to_uppercase(), &phrase.cause[1..]);
    if !phrase.status.is_empty() && *by == By::Request {
        let _ = writeln!(text, "The client gets {}.", phrase.status);
    }
    let _ = write!(text, "\n{}\n\n## What to do\n\n", phrase.meaning);
    for line in phrase.cure.lines() {
        let _ = writeln!(text, "    {line}");
    }
    let _ = write!(text, "\nSide effect: {}\n", phrase.side_effect);
    if !reader.is_empty() {
        let _ = write!(
            text,
            "\n## See your own case\n\n    {reader}\n\ncounts these lines by peer, shows the settings that matter, and prints the change for your files. \
             Its name for this cause is `{}`.\n",
            phrase.name
        );
    }
    Page { name: phrase.name.trim_start_matches("log-"), title: (*message).to_owned(), text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;
    use crate::log::Log;

    #[test]
    fn doctor_recognizes_the_line_of_every_symptom_page() {
        let pages = pages();
        assert_eq!(pages.len(), PHRASES.len());
        for (phrase, page) in PHRASES.iter().zip(&pages) {
            let line = page.text.lines().find(|line| line.starts_with("    ")).expect("a line of a log");
            let mut log = Log::default();
            log.read_line(line.trim().as_bytes());
            let found = log.findings("error.log", &Facts::default());
            assert_eq!(found.first().map(|finding| finding.rule.as_str()), Some(phrase.name), "{line}");
        }
    }
}
