//! A site as most rows need it: one gateway, one upstream group, an address that always answers by itself.

use crate::{End, Gateway, Peer, Response, Talk};

/// A small whole response.
pub const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
/// A small whole request.
pub const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// The configuration with further directives for the group, the server and the location.
pub fn text(peers: usize, group: &str, location: &str) -> String {
    let servers = (0..peers).map(|index| format!("server {{upstream:{index}}}; ")).collect::<Vec<_>>().concat();
    format!(
        "worker_processes 1;
        events {{ worker_connections 64; }}
        http {{
            log_format line '$status side=$close_side bytes=$bytes_sent tries=$upstream_status \
             reused=$upstream_reused closed=$upstream_close_reason \"$request\"';
            access_log access.log line;
            client_max_body_size 100m;
            upstream peers {{ {servers} keepalive 4; {group} }}
            server {{
                listen {{listen}};
                location = /alive {{ return 200 alive; }}
                location / {{
                    proxy_pass http://peers;
                    {location}
                }}
            }}
        }}"
    )
}

/// A gateway before one upstream.
pub struct Site {
    /// Dropped first: the upstream outlives what talks to it.
    pub gateway: Gateway,
    /// The upstream.
    pub peer: Peer,
}

impl Site {
    /// Everything passes through to the peer.
    pub fn of(peer: Peer) -> Self {
        Self::with(peer, "")
    }

    /// With further directives in the location.
    pub fn with(peer: Peer, location: &str) -> Self {
        Self { gateway: Gateway::start(&text(1, "", location), &[peer.address()]), peer }
    }

    /// A new client.
    pub fn client(&self) -> Talk {
        self.gateway.client()
    }

    /// One request on a new connection, and its response.
    #[track_caller]
    pub fn ask(&self, request: impl AsRef<[u8]>) -> Response {
        let mut client = self.client();
        client.send(request);
        client.response()
    }

    /// Another connection is served after any fault on this one.
    #[track_caller]
    pub fn is_alive(&self) {
        is_alive(&self.gateway);
    }

    /// The request is refused with this status, a phrase in the log, and the end of the connection, and no other client notices
    /// anything.
    #[track_caller]
    pub fn refuses(&self, request: impl AsRef<[u8]>, status: u16, phrase: &str) -> Response {
        let request = request.as_ref();
        let mut client = self.client();
        client.send(request);
        let response = client.response();
        assert_eq!(response.status(), status, "to {}", request.escape_ascii());
        assert!(response.announces_close(), "{response:?}");
        assert_eq!(client.end(), End::Fin, "to {}", request.escape_ascii());
        let line = self.gateway.logged(phrase);
        // nginx logs what a client does wrong at `info`, except for bodies.
        let level = if status == 413 || line.contains("chunked body") { " [error] " } else { " [info] " };
        assert!(line.contains(level) && line.contains(", client: 127.0.0.1"), "{line}");
        assert!(line.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "not escaped: {line}");
        response
    }

    /// The upstream has received nothing: a request that is sent to it now is the first that it sees.
    #[track_caller]
    pub fn peer_saw_nothing(&self) {
        assert_eq!(self.ask("GET /first HTTP/1.1\r\nHost: a\r\n\r\n").status(), 200);
        assert_eq!(self.peer.only_request().target(), "/first");
        assert!(self.peer.received(0).starts_with(b"GET /first HTTP/1.1\r\n"));
        assert_eq!(self.peer.connections(), 1);
    }
}

/// A new connection is served.
#[track_caller]
pub fn is_alive(gateway: &Gateway) {
    let mut client = gateway.client();
    client.send("GET /alive HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "alive");
}

/// A request with these lines behind its first two.
pub fn post(lines: &str) -> String {
    format!("POST /x HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
}
