//! A gateway with a control plane, and peers that answer with their name.

use control::Control;
use std::net::SocketAddr;
use testkit::{Gateway, NameServer, Peer, Response, Talk};

/// A gateway with its control plane. The control plane ends first.
pub(crate) struct Site {
    _control: Control,
    pub(crate) gateway: Gateway,
}

impl Site {
    /// `{dns}` in the text is the name server's address.
    pub(crate) fn start(text: &str, server: &NameServer, upstreams: &[SocketAddr]) -> Self {
        let text = text.replace("{dns}", &server.address().to_string());
        let text = format!(
            "events {{}} http {{ log_format line '$status $upstream_addr'; access_log access.log line;
             {text} }}"
        );
        let gateway = Gateway::start(&text, upstreams);
        let control = Control::start(gateway.shared()).unwrap();
        Self { _control: control, gateway }
    }

    #[track_caller]
    pub(crate) fn ask(&self, target: &str) -> Response {
        ask(&mut self.gateway.client(), target)
    }
}

#[track_caller]
pub(crate) fn ask(client: &mut Talk, target: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.response()
}

/// A peer that answers with its name.
pub(crate) fn peer(name: &str) -> Peer {
    Peer::saying(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()))
}
