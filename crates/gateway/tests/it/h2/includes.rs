//! Pages with commands (`ssi`) over HTTP/2.

use testkit::{Gateway, Http2Talk, Peer, Signal};

const TEXT: &str = "worker_processes 1;
    events { worker_connections 64; }
    http {
        default_type text/html;
        server {
            listen {listen};
            http2 on;
            ssi on;
            location / { proxy_pass http://{upstream:0}; }
            location = /text { return 200 text; }
        }
    }";

/// I11
#[test]
fn a_reset_stream_ends_the_fetch_of_an_included_page() {
    let (asked, left) = (Signal::new(), Signal::new());
    let (raise_asked, raise_left) = (asked.clone(), left.clone());
    let page = "a<!--#include virtual=\"/text\" --><!--#include virtual=\"/part\" -->b";
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}", page.len());
    let parts = Peer::script(move |mut talk| {
        while let Some(request) = talk.request() {
            if request.target() != "/part" {
                talk.send(&answer);
                continue;
            }
            raise_asked.raise();
            assert!(talk.request().is_none());
            return raise_left.raise();
        }
    });
    let gateway = Gateway::start(TEXT, &[parts.address()]);
    let mut client = Http2Talk::connect(gateway.address());
    let stream = client.open("GET", "/", &[], true);
    client.until("the part before", |client| client.so_far(stream).body == b"atext");
    asked.wait();
    client.reset(stream);
    left.wait();
    gateway.until_totals("nothing is left", |totals| totals.exchanges == 0);
}
