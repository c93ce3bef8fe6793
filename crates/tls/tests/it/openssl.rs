//! OpenSSL's client against a server's session over a socket: early data, and keys that change.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tls::{OneServer, Pair, RECORD_BYTES_MAX, ServerSide, Session, SessionCache};

/// No conversation here takes longer, however loaded the machine is.
const DEADLINE: Duration = Duration::from_secs(20);

/// What a connection has brought.
struct Served {
    session: Session,
    early: Vec<u8>,
    plain: Vec<u8>,
}

fn flush(session: &mut Session, stream: &mut TcpStream) {
    let mut wire = Vec::new();
    session.take_output(&mut wire);
    // A client that has gone reads nothing.
    let _ = stream.write_all(&wire);
}

/// Serves one connection: answers `pong` to each `ping`, and closes at `bye`.
fn serve(listener: &TcpListener, side: &Arc<OneServer>) -> Served {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut served =
        Served { session: Session::server(Arc::<OneServer>::clone(side)), early: Vec::new(), plain: Vec::new() };
    let Served { session, early, plain } = &mut served;
    let (mut room, mut answered) = (vec![0; 4096], 0);
    loop {
        let count = stream.read(&mut room).unwrap();
        if count == 0 {
            return served;
        }
        let mut heard = Vec::new();
        session.receive(&mut room[..count], &mut |part| heard.extend_from_slice(part)).unwrap();
        if session.is_handshaking() {
            early.extend(heard);
        } else {
            plain.extend(heard);
        }
        flush(session, &mut stream);
        let text = String::from_utf8_lossy(plain).into_owned();
        while answered < text.matches("ping").count() {
            answered += 1;
            let mut record = [0; 100];
            let sealed = session.seal(b"pong\n", RECORD_BYTES_MAX, &mut record).unwrap();
            stream.write_all(&record[..sealed.written]).unwrap();
        }
        if text.contains("bye") {
            session.close();
            flush(session, &mut stream);
            return served;
        }
    }
}

/// Runs `openssl s_client` while one connection is served. Each line is typed once the client has shown the text that belongs to it.
fn s_client(side: &Arc<OneServer>, arguments: &[&str], lines: &[(&str, &str)]) -> (Served, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| serve(&listener, side));
        // Both of its outputs in one.
        let mut client = Command::new("sh")
            .args(["-c", "exec openssl s_client \"$@\" 2>&1", "sh", "-tls1_3", "-connect", &address])
            .args(["-servername", "a.test"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut stdin, mut stdout) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
        let mut said = Vec::new();
        for (text, line) in lines {
            let from = said.len();
            while !String::from_utf8_lossy(&said[from..]).contains(text) {
                let mut room = [0; 1024];
                let count = stdout.read(&mut room).unwrap();
                assert!(count > 0, "no {text:?} in {}", String::from_utf8_lossy(&said));
                said.extend_from_slice(&room[..count]);
            }
            stdin.write_all(line.as_bytes()).unwrap();
        }
        let served = served.join().unwrap();
        drop(stdin);
        stdout.read_to_end(&mut said).unwrap();
        client.wait().unwrap();
        (served, String::from_utf8_lossy(&said).into_owned())
    })
}

fn pair() -> Pair {
    Pair::self_made(&["a.test".to_owned()]).unwrap()
}

#[test]
fn openssl_sends_early_data_with_a_session_of_the_cache() {
    let cache = Some(Arc::new(SessionCache::new(10)));
    let side =
        ServerSide::new().pair(pair()).session_cache(cache).ticket_keys(None).early_data(16_384).build().unwrap();
    let side = Arc::new(OneServer(Arc::new(side)));
    let folder = tempfile::tempdir().unwrap();
    let (session, early) = (folder.path().join("session"), folder.path().join("early"));
    fs::write(&early, "GET /early HTTP/1.1").unwrap();
    let session = session.to_str().unwrap();
    let (first, _) = s_client(&side, &["-sess_out", session], &[("", "ping\n"), ("pong", "bye\n")]);
    assert!(!first.session.is_resumed() && first.early.is_empty());
    let (second, said) =
        s_client(&side, &["-sess_in", session, "-early_data", early.to_str().unwrap()], &[("", "bye\n")]);
    assert!(said.contains("Early data was accepted"), "{said}");
    assert_eq!(second.early, b"GET /early HTTP/1.1");
    assert!(second.session.is_resumed() && second.session.took_early_data() && !second.session.is_early_data());
    // The session was taken out of the cache: the same ticket brings nothing early any more.
    let (third, said) =
        s_client(&side, &["-sess_in", session, "-early_data", early.to_str().unwrap()], &[("", "bye\n")]);
    assert!(said.contains("Early data was rejected"), "{said}");
    assert!(third.early.is_empty() && !third.session.is_resumed());
}

#[test]
fn openssl_changes_keys_and_goes_on() {
    let side = Arc::new(OneServer(Arc::new(ServerSide::new().pair(pair()).build().unwrap())));
    // A line that begins with `k` changes the client's keys, one with `K` those of both.
    let lines = [
        ("", "ping\n"),
        ("pong", "k\n"),
        ("KEYUPDATE", "ping\n"),
        ("pong", "K\n"),
        ("KEYUPDATE", "ping\n"),
        ("pong", "bye\n"),
    ];
    let (served, said) = s_client(&side, &[], &lines);
    assert_eq!(served.plain, b"ping\nping\nping\nbye\n", "{said}");
}
