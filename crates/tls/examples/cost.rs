//! What the engine alone costs: `cargo run --release -p tls --example cost`. CPU of the server's part of handshakes, requests and
//! bodies, and memory of idle sessions. Nothing of it touches a socket; both ends run in one thread, and only the server's calls
//! are timed.

#![expect(clippy::print_stdout, reason = "it speaks to the person who runs it")]

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::{ClientSide, Curves, OneServer, Pair, Protocol, Protocols, RECORD_BYTES_MAX, ServerSide, Session, Trust};

/// Handshakes in a series.
const HANDSHAKES: usize = 300;
/// Requests in a series.
const REQUESTS: usize = 20_000;
/// Bodies of 1 MB in a series.
const BODIES: usize = 200;
/// Sessions that take turns.
const CROWD: usize = 1000;
/// Sessions that are kept.
const SESSIONS: usize = 5000;
/// Pages of 16 KB in a series, and the small records that a connection begins with.
const PAGES: usize = 5000;
const SMALL_RECORD_BYTES: usize = 1369;
/// Series, of which the median and the extremes are shown.
const SERIES: usize = 7;
/// Rounds of a handshake: real ones take three.
const ROUNDS_MAX: usize = 10;
/// The page of the benches with a head of usual size, and a usual request.
const RESPONSE_BYTES: usize = 612 + 238;
const REQUEST_BYTES: usize = 80;
const PAGE_BYTES: u64 = 4096;

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Ends {
    server: Arc<OneServer>,
    client: ClientSide,
    /// Each handshake is that of a new client: it takes tickets, and has none.
    is_new_client: bool,
    curves: Curves,
}

fn pair(rsa: bool) -> Outcome<Pair> {
    let key =
        if rsa { KeyPair::generate_for(&PKCS_RSA_SHA256)? } else { KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)? };
    let certificate = CertificateParams::new(vec!["a.test".to_owned()])?.self_signed(&key)?;
    Ok(Pair::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes(), b"")?)
}

fn ends(protocol: Protocol, rsa: bool, curve: &str, resume: bool) -> Outcome<Ends> {
    let curves = Curves::parse(curve)?;
    let server =
        ServerSide::new().pair(pair(rsa)?).protocols(Protocols::only(protocol)).curves(curves.clone()).build()?;
    let client = client(&curves)?;
    Ok(Ends { server: Arc::new(OneServer(Arc::new(server))), client, is_new_client: !resume, curves })
}

fn client(curves: &Curves) -> Outcome<ClientSide> {
    Ok(ClientSide::new(Trust::Anyone).curves(curves.clone()).build()?)
}

/// A complete handshake, with the time that the server took for it.
fn shake(ends: &Ends) -> Outcome<(Session, Session, Duration)> {
    let side = if ends.is_new_client { client(&ends.curves)? } else { ends.client.clone() };
    let mut client = Session::client(&side, "a.test")?;
    let (mut spent, mut wire) = (Duration::ZERO, Vec::new());
    let begun = Instant::now();
    let mut server = Session::server(ends.server.clone());
    spent += begun.elapsed();
    for _ in 0..ROUNDS_MAX {
        wire.clear();
        client.take_output(&mut wire);
        let begun = Instant::now();
        server.receive(&mut wire, &mut |_| ())?;
        let mut answer = Vec::new();
        server.take_output(&mut answer);
        spent += begun.elapsed();
        client.receive(&mut answer, &mut |_| ())?;
        if !client.is_handshaking() && !server.is_handshaking() && !client.has_output() {
            return Ok((client, server, spent));
        }
    }
    Err("the handshake has no end".into())
}

/// Shows the median of several series, with their extremes, in µs for each of what a series has.
fn show(what: &str, mut series: impl FnMut() -> Outcome<f64>) -> Outcome<()> {
    let mut all = (0..SERIES).map(|_| series()).collect::<Outcome<Vec<f64>>>()?;
    all.sort_by(f64::total_cmp);
    println!("{what:<52} {:>9.2} µs  ({:.2} to {:.2}, {SERIES} series)", all[SERIES / 2], all[0], all[SERIES - 1]);
    Ok(())
}

fn handshakes(what: &str, ends: &Ends, resumed: bool) -> Outcome<()> {
    drop(shake(ends)?);
    show(what, || {
        let mut spent = Duration::ZERO;
        for _ in 0..HANDSHAKES {
            let (_, server, time) = shake(ends)?;
            if server.is_resumed() != resumed {
                return Err("not the kind of handshake that is measured".into());
            }
            spent += time;
        }
        Ok(spent.as_secs_f64() * 1e6 / HANDSHAKES as f64)
    })
}

/// One message from one end to the other, with the times of both.
fn send(from: &mut Session, to: &mut Session, plain: &[u8], wire: &mut [u8]) -> Outcome<(Duration, Duration)> {
    let begun = Instant::now();
    let sealed = from.seal(plain, RECORD_BYTES_MAX, wire)?;
    let sent = begun.elapsed();
    let mut heard = 0;
    let begun = Instant::now();
    to.receive(wire.get_mut(..sealed.written).ok_or("room")?, &mut |plain| heard += plain.len())?;
    let received = begun.elapsed();
    if heard == plain.len() { Ok((sent, received)) } else { Err("not everything has come".into()) }
}

fn requests(protocol: Protocol) -> Outcome<()> {
    let (mut client, mut server, _) = shake(&ends(protocol, false, "X25519", false)?)?;
    let (request, response) = ([b'r'; REQUEST_BYTES], [b'p'; RESPONSE_BYTES]);
    let mut wire = vec![0; 2 << 20];
    show(&format!("request and response of 612 B, {}", protocol.name()), || {
        let mut spent = Duration::ZERO;
        for _ in 0..REQUESTS {
            spent += send(&mut client, &mut server, &request, &mut wire)?.1;
            spent += send(&mut server, &mut client, &response, &mut wire)?.0;
        }
        Ok(spent.as_secs_f64() * 1e6 / REQUESTS as f64)
    })?;
    let body = vec![b'b'; 1 << 20];
    for sends in [true, false] {
        show(&format!("1 MB {}, {}", if sends { "sent" } else { "received" }, protocol.name()), || {
            let mut spent = Duration::ZERO;
            for _ in 0..BODIES {
                spent += if sends {
                    send(&mut server, &mut client, &body, &mut wire)?.0
                } else {
                    send(&mut client, &mut server, &body, &mut wire)?.1
                };
            }
            Ok(spent.as_secs_f64() * 1e6 / BODIES as f64)
        })?;
    }
    Ok(())
}

/// A page of 16 KB in records of these sizes, sealed.
fn pages(protocol: Protocol) -> Outcome<()> {
    let (mut client, mut server, _) = shake(&ends(protocol, false, "X25519", false)?)?;
    let (page, mut wire) = (vec![b'p'; 16 * 1024], vec![0; 32 * 1024]);
    for record in [RECORD_BYTES_MAX, SMALL_RECORD_BYTES] {
        show(&format!("16 KB sent in records of {record} B, {}", protocol.name()), || {
            let mut spent = Duration::ZERO;
            for _ in 0..PAGES {
                let begun = Instant::now();
                let sealed = server.seal(&page, record, &mut wire)?;
                spent += begun.elapsed();
                client.receive(wire.get_mut(..sealed.written).ok_or("room")?, &mut |_| ())?;
            }
            Ok(spent.as_secs_f64() * 1e6 / PAGES as f64)
        })?;
    }
    Ok(())
}

/// Requests on one session after the other, more of them than a thread keeps keys in their computing form.
fn crowd(protocol: Protocol) -> Outcome<()> {
    let ends = ends(protocol, false, "X25519", false)?;
    let mut all = (0..CROWD).map(|_| shake(&ends)).collect::<Outcome<Vec<_>>>()?;
    let (request, response) = ([b'r'; REQUEST_BYTES], [b'p'; RESPONSE_BYTES]);
    let mut wire = vec![0; 2 << 20];
    show(&format!("the same on {CROWD} sessions in turn, {}", protocol.name()), || {
        let mut spent = Duration::ZERO;
        for turn in 0..REQUESTS {
            let (client, server, _) = all.get_mut(turn % CROWD).ok_or("a session")?;
            spent += send(client, server, &request, &mut wire)?.1;
            spent += send(server, client, &response, &mut wire)?.0;
        }
        Ok(spent.as_secs_f64() * 1e6 / REQUESTS as f64)
    })
}

/// Resident memory of this process: it counts what the C library holds as well.
fn resident_bytes() -> Outcome<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    Ok(statm.split_whitespace().nth(1).ok_or("statm")?.parse::<u64>()? * PAGE_BYTES)
}

fn idle(protocol: Protocol) -> Outcome<Vec<Session>> {
    let ends = ends(protocol, false, "X25519", false)?;
    let mut wire = vec![0; 4096];
    let mut kept = Vec::with_capacity(SESSIONS);
    drop(shake(&ends)?);
    let before = resident_bytes()?;
    for _ in 0..SESSIONS {
        let (mut client, mut server, _) = shake(&ends)?;
        send(&mut client, &mut server, &[b'r'; REQUEST_BYTES], &mut wire)?;
        send(&mut server, &mut client, &[b'p'; RESPONSE_BYTES], &mut wire)?;
        kept.push(server);
    }
    let bytes = (resident_bytes()?.saturating_sub(before)) / SESSIONS as u64;
    println!("idle session after a request, {} {:>34} B  ({SESSIONS} sessions, resident)", protocol.name(), bytes);
    Ok(kept)
}

fn main() -> Outcome<()> {
    // Both are kept to the end of their figures: the second must not live in the memory of the first.
    drop((idle(Protocol::Tls13)?, idle(Protocol::Tls12)?));
    for protocol in [Protocol::Tls13, Protocol::Tls12] {
        let name = protocol.name();
        handshakes(&format!("full handshake, P-256, X25519, {name}"), &ends(protocol, false, "X25519", false)?, false)?;
        handshakes(
            &format!("full handshake, RSA 2048, X25519, {name}"),
            &ends(protocol, true, "X25519", false)?,
            false,
        )?;
        handshakes(&format!("resumed handshake, X25519, {name}"), &ends(protocol, false, "X25519", true)?, true)?;
    }
    let hybrid = ends(Protocol::Tls13, false, "X25519MLKEM768", false)?;
    handshakes("full handshake, P-256, X25519MLKEM768, TLSv1.3", &hybrid, false)?;
    for protocol in [Protocol::Tls13, Protocol::Tls12] {
        requests(protocol)?;
        pages(protocol)?;
        crowd(protocol)?;
    }
    Ok(())
}
