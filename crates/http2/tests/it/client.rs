//! The client's role against a server of others: nginx, over a Unix socket in clear.

use http2::{Config, Connection, ErrorCode, Event, Head, RequestLine, ResetBy, Role, StreamId};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use testkit::{Running, peer_program};

/// How long nginx may take for anything here.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of the file that is fetched: many windows.
const FILE_BYTES: usize = 1_000_000;

/// nginx in a folder of its own. Dropping it stops it.
struct Nginx {
    running: Running,
    home: TempDir,
}

impl Nginx {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("file"), pattern(FILE_BYTES)).unwrap();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path t;"));
        let text = format!(
            "daemon off; master_process off; pid nginx.pid; error_log error.log; events {{}}
             http {{ access_log off; {} keepalive_requests 30; http2 on;
                     server {{ listen unix:{}/socket; root {};
                               location /small {{ return 200 small; }}
                               location /early {{ return 200 early; }} }} }}",
            temporary.join(" "),
            home.path().display(),
            home.path().display(),
        );
        std::fs::write(home.path().join("nginx.conf"), text).unwrap();
        let mut command = Command::new(peer_program("nginx-new"));
        command.arg("-p").arg(home.path()).arg("-c").arg(home.path().join("nginx.conf"));
        // The file and the socket belong to the user that runs this test.
        Self { running: Running::start(command.args(["-g", &user()])), home }
    }

    fn connect(&self) -> UnixStream {
        let socket = self.home.path().join("socket");
        let stream = self.running.until("nginx listens", || UnixStream::connect(&socket).ok());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

/// As root nginx would change to a user that cannot read the folder.
fn user() -> String {
    let is_root = Path::new("/root").read_dir().is_ok();
    if is_root { "user root;".to_owned() } else { String::new() }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// What came of one stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    status: u16,
    body: Vec<u8>,
    ended: bool,
    reset: Option<ResetBy>,
}

struct Client {
    stream: UnixStream,
    engine: Connection,
    out: Vec<u8>,
    head: Head,
    answers: BTreeMap<u32, Answer>,
    goaway: Option<ErrorCode>,
}

impl Client {
    fn new(nginx: &Nginx, config: Config) -> Self {
        let mut out = Vec::new();
        let engine = Connection::new(Role::Client, config, 0, &mut out);
        let stream = nginx.connect();
        Self { stream, engine, out, head: Head::default(), answers: BTreeMap::new(), goaway: None }
    }

    fn get(&mut self, path: &[u8]) -> StreamId {
        let line = RequestLine { method: b"GET", scheme: b"http", authority: b"a.test", path, protocol: b"" };
        let fill = |fields: &mut http2::Fields<'_>| fields.add(b"User-Agent", b"holdfast test").unwrap();
        let stream = self.engine.open(&line, true, &mut self.out, fill).unwrap();
        self.answers.insert(stream.0, Answer::default());
        stream
    }

    /// Writes what there is, and reads once.
    fn turn(&mut self) -> bool {
        self.stream.write_all(&std::mem::take(&mut self.out)).unwrap();
        let mut buffer = vec![0; 30_000];
        let len = self.stream.read(&mut buffer).unwrap();
        let mut bytes = &buffer[..len];
        while let Some(event) = self.engine.receive(0, &mut bytes, &mut self.head, &mut self.out).unwrap() {
            match event {
                Event::Head { stream, end } => {
                    let answer = self.answers.get_mut(&stream.0).unwrap();
                    (answer.status, answer.ended) = (self.head.status, end);
                }
                Event::Data { stream, bytes, end } => {
                    let answer = self.answers.get_mut(&stream.0).unwrap();
                    answer.body.extend_from_slice(bytes);
                    answer.ended = end;
                    self.engine.consume(stream, bytes.len(), &mut self.out);
                }
                Event::Reset { stream, by } => self.answers.get_mut(&stream.0).unwrap().reset = Some(by),
                Event::GoAway { code, .. } => self.goaway = Some(code),
                _ => {}
            }
        }
        len > 0
    }

    fn finish(&mut self) {
        while self.engine.streams() > 0 {
            assert!(self.turn(), "nginx has closed: {:?}", self.goaway);
        }
    }
}

#[test]
fn many_streams_fetch_from_nginx_at_once() {
    let nginx = Nginx::start();
    let mut client = Client::new(&nginx, Config { stream_window: 10_000, ..Config::default() });
    let streams: Vec<StreamId> = (0..20).map(|at| client.get(if at % 2 == 0 { b"/file" } else { b"/small" })).collect();
    client.finish();
    for (at, stream) in streams.iter().enumerate() {
        let body = if at % 2 == 0 { pattern(FILE_BYTES) } else { b"small".to_vec() };
        let expected = Answer { status: 200, body, ended: true, reset: None };
        assert!(client.answers[&stream.0] == expected, "stream {stream}");
    }
}

#[test]
fn nginx_takes_a_body_and_answers_before_its_end() {
    let nginx = Nginx::start();
    let mut client = Client::new(&nginx, Config::default());
    let line = RequestLine { method: b"POST", scheme: b"http", authority: b"a", path: b"/early", protocol: b"" };
    let stream = client.engine.open(&line, false, &mut client.out, |_| ()).unwrap();
    client.answers.insert(stream.0, Answer::default());
    client.engine.send_data(stream, &[1; 5000], false, &mut client.out, 1 << 20).unwrap();
    while client.answers[&stream.0].body.is_empty() {
        assert!(client.turn());
    }
    assert_eq!(client.answers[&stream.0].status, 200);
    client.engine.reset(stream, ErrorCode::CANCEL, &mut client.out);
    let next = client.get(b"/small");
    client.finish();
    assert_eq!(client.answers[&next.0].body, b"small");
}

#[test]
fn a_connection_that_nginx_ends_is_known_to_end() {
    let nginx = Nginx::start();
    let mut client = Client::new(&nginx, Config::default());
    // As many as `keepalive_requests` allows.
    while client.goaway.is_none() {
        let stream = client.get(b"/small");
        while client.engine.is_open(stream) {
            assert!(client.turn(), "no answer");
        }
        assert_eq!(client.answers[&stream.0].status, 200);
        assert!(client.answers.len() <= 31);
    }
    assert_eq!((client.goaway, client.engine.is_finished()), (Some(ErrorCode::NO_ERROR), true));
}
