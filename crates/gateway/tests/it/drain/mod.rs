//! Tunnels that a reload, an operator or the end of the process drains.

mod causes;
mod frames;
mod moved;
mod pace;

use testkit::{Gateway, Peer, Signal, Talk};
use websocket::{CloseCode, Opcode, encode_close, encode_frame};

/// The key of our clients' masks.
const KEY: [u8; 4] = [1, 2, 3, 4];
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

/// A gateway before some peers, with the locations `/kept` and `/chat`. `drain` is at the top level, `group` in the
/// group, `chat` in the second location.
struct Scene {
    gateway: Gateway,
    peers: Vec<Peer>,
    drain: &'static str,
}

impl Scene {
    fn new(drain: &'static str, peers: Vec<Peer>) -> Self {
        let addresses: Vec<_> = peers.iter().map(Peer::address).collect();
        let gateway = Gateway::start(&text(drain, &group(peers.len()), ""), &addresses);
        Self { gateway, peers, drain }
    }

    /// Gives the location `/chat` these words.
    fn change_chat(&mut self, words: &str) {
        let text = text(self.drain, &group(self.peers.len()), words);
        self.gateway.reload(&text);
    }

    fn change_group(&mut self, group: &str) {
        self.gateway.reload(&text(self.drain, group, ""));
    }

    /// A client in a tunnel of a location.
    fn tunnel(&self, location: &str) -> Talk {
        self.tunnel_for("websocket", location)
    }

    fn tunnel_for(&self, protocol: &str, location: &str) -> Talk {
        tunnel_of(&self.gateway, protocol, location)
    }

    /// Connections are counted behind their last bytes.
    #[track_caller]
    fn until_closed(&self, reason: gateway::CloseReason, count: u64) {
        testkit::until("they are counted", || (self.gateway.shared().closed(reason) == count).then_some(()));
    }

    #[track_caller]
    fn until_drained(&self) {
        self.gateway.until_totals("nothing is drained", |totals| totals.draining == 0);
    }
}

fn tunnel_of(gateway: &Gateway, protocol: &str, location: &str) -> Talk {
    let mut client = gateway.client();
    client.send(format!("GET {location} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"));
    assert_eq!(client.response().status(), 101);
    client
}

fn group(peers: usize) -> String {
    (0..peers).map(|index| format!("server {{upstream:{index}}}; ")).collect::<Vec<_>>().concat()
}

fn text(drain: &str, group: &str, chat: &str) -> String {
    format!(
        "worker_processes 1; {drain} events {{ worker_connections 1024; }} http {{
         log_format line '$status side=$close_side $bytes_sent \"$request\"'; access_log access.log line;
         upstream app {{ {group} }}
         server {{ listen {{listen}}; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
         location /kept {{ proxy_pass http://app; }} location /chat {{ proxy_pass http://app; {chat} }} }} }}"
    )
}

/// A peer that switches protocols and then runs the script.
fn switching(script: impl Fn(Talk) + Send + Sync + 'static) -> Peer {
    Peer::script(move |mut talk| {
        if let Some(request) = talk.request() {
            let protocol = request.value("Upgrade").unwrap_or("websocket").to_owned();
            talk.send(SWITCHING.replace("websocket", &protocol));
            script(talk);
        }
    })
}

/// A peer in the middle of a large frame: it gets our close frame, then sends the rest, another frame, and its own close.
fn in_a_frame(asked: &Signal, large: &[u8]) -> Peer {
    let (asked, large) = (asked.clone(), large.to_vec());
    switching(move |mut talk| {
        talk.send(&large[..1000]);
        // Nothing is in the way towards the upstream, so its close frame comes first.
        assert_eq!(client_frame(&mut talk).unwrap().0, Opcode::Close);
        asked.raise();
        talk.send(&large[1000..]);
        talk.send(frame(b"too late"));
        talk.send(close(CloseCode::SERVICE_RESTART));
        talk.rest();
    })
}

/// A peer that sends each frame of the client back without its mask, answers a close with the same code, and then waits
/// for the end.
fn echo() -> Peer {
    switching(|mut talk| {
        loop {
            let Some((opcode, payload)) = client_frame(&mut talk) else { return };
            let mut out = Vec::new();
            encode_frame(true, opcode, None, &payload, &mut out);
            talk.send(out);
            if opcode == Opcode::Close {
                talk.rest();
                return;
            }
        }
    })
}

/// A short frame of a client: masked. `None` at the end of the connection.
#[track_caller]
fn client_frame(talk: &mut Talk) -> Option<(Opcode, Vec<u8>)> {
    let first = talk.whatever_came()?;
    let mut bytes = first;
    while bytes.len() < 6 || bytes.len() < 6 + usize::from(bytes[1] & 0x7f) {
        bytes.extend(talk.whatever_came()?);
    }
    assert_ne!(bytes[1] & 0x80, 0, "a client's frame is masked: {}", bytes.escape_ascii());
    assert_eq!(bytes.len(), 6 + usize::from(bytes[1] & 0x7f), "one frame at a time: {}", bytes.escape_ascii());
    let key: [u8; 4] = bytes[2..6].try_into().unwrap();
    let payload = bytes[6..].iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    Some((Opcode::parse(bytes[0] & 0x0f).unwrap(), payload))
}

/// A frame of a server.
fn frame(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(true, Opcode::Text, None, payload, &mut bytes);
    bytes
}

/// A frame of a client.
fn masked(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_frame(true, Opcode::Text, Some(KEY), payload, &mut bytes);
    bytes
}

/// A close frame of a server.
fn close(code: CloseCode) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_close(code, "", None, &mut bytes);
    bytes
}

/// A close frame of a client.
fn masked_close(code: CloseCode) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_close(code, "", Some(KEY), &mut bytes);
    bytes
}

/// Checks that a tunnel carries frames both ways.
#[track_caller]
fn echoes(client: &mut Talk) {
    client.send(masked(b"hello"));
    client.expect(frame(b"hello"));
}

/// Answers the close frame that a client gets, and waits for the end.
#[track_caller]
fn closes(client: &mut Talk, code: CloseCode) {
    client.expect(close(code));
    client.send(masked_close(code));
    assert_eq!(client.end(), testkit::End::Fin);
}
