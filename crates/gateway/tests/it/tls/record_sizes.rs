//! The sizes of TLS records under `ssl_buffer_size`, as a client sees them on the wire, beside nginx.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use testkit::sides::{Nginx, Side, Sides, nginx_or_skip};
use tls::{Ciphers, ClientSide, Protocol, Protocols, Session, Trust};

/// What AES-GCM adds to the plaintext of a record of TLS 1.2: eight bytes of the nonce, and the tag.
const OVERHEAD: usize = 24;
/// Head of a record, and the type of those with data.
const HEAD: usize = 5;
const APPLICATION_DATA: u8 = 23;
const BODY_BYTES: usize = 300_000;
/// Ten records of 1,369 bytes begin each response of the gateway.
const SMALL_RECORDS: usize = 10;

/// The plaintext bytes of each record of a response, and the plaintext itself. TLS 1.2 shows the sizes.
fn response(to: SocketAddr, side: &ClientSide) -> (Vec<usize>, Vec<u8>) {
    let mut session = Session::client(side, "a.test").unwrap();
    let mut socket = TcpStream::connect(to).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut room = vec![0; 64 * 1024];
    loop {
        let mut output = Vec::new();
        session.take_output(&mut output);
        socket.write_all(&output).unwrap();
        if !session.is_handshaking() {
            break;
        }
        let count = socket.read(&mut room).unwrap();
        assert!(count > 0, "the handshake ended");
        session.receive(&mut room[..count], &mut |_| panic!("nothing was asked for")).unwrap();
    }
    let mut request = Vec::new();
    session.append_sealed(b"GET /body HTTP/1.0\r\nHost: a.test\r\n\r\n", 1000, &mut request).unwrap();
    socket.write_all(&request).unwrap();
    let mut wire = Vec::new();
    socket.read_to_end(&mut wire).unwrap();
    let (mut sizes, mut rest) = (Vec::new(), &wire[..]);
    while let [kind, _, _, high, low, ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind == APPLICATION_DATA {
            sizes.push(length - OVERHEAD);
        }
        rest = &rest[HEAD + length..];
    }
    let mut plain = Vec::new();
    session.receive(&mut wire, &mut |bytes| plain.extend_from_slice(bytes)).unwrap();
    (sizes, plain)
}

#[test]
fn records_have_the_size_of_ssl_buffer_size_as_with_nginx() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let folder = tempfile::tempdir().unwrap();
    testkit::Authority::new("Authority").issue(&["a.test"]).write(folder.path(), "a");
    let at = folder.path().display();
    let sizes = [
        ("", 16 * 1024),
        ("ssl_buffer_size 16k;", 16 * 1024),
        ("ssl_buffer_size 4k;", 4096),
        ("ssl_buffer_size 1400;", 1400),
    ];
    let mut text = format!("access_log off; ssl_certificate {at}/a.crt; ssl_certificate_key {at}/a.key; root .;\n");
    for (number, (words, _)) in sizes.iter().enumerate() {
        let _ = writeln!(text, "server {{ listen {{listen:{number}}} ssl; server_name a.test; {words} }}");
    }
    let body: Vec<u8> = (0..BODY_BYTES).map(|place| (place % 251) as u8).collect();
    let sides = Sides::start(&nginx, &text.replace("{listen:0}", "{listen}"), &[], &[("body", body.clone())]);
    let side = ClientSide::new(Trust::Anyone).protocols(Protocols::only(Protocol::Tls12));
    let side = side.ciphers(Ciphers::parse("ECDHE-ECDSA-AES128-GCM-SHA256")).resume(false).build().unwrap();
    for (number, (words, size)) in sizes.into_iter().enumerate() {
        for of in [Side::Nginx, Side::Ours] {
            let (records, plain) = response(sides.address(of, number), &side);
            assert!(plain.ends_with(&body), "{of:?} {words}");
            assert_eq!(records.iter().sum::<usize>(), plain.len(), "{of:?} {words}");
            let small = if of == Side::Ours { SMALL_RECORDS } else { 0 };
            assert!(records[..small].iter().all(|record| *record == size.min(1369)), "{of:?} {words}: {records:?}");
            // Only the head, and the ends of what was read of the file at once, make other records.
            let full = records[small..].iter().filter(|record| **record == size).count();
            let least = (BODY_BYTES - small * 1369) / size;
            assert!(full + 4 >= least && full <= least + 1, "{of:?} {words}: {full} of {least}: {records:?}");
            assert!(records.iter().all(|record| *record <= size), "{of:?} {words}: {records:?}");
        }
    }
}
