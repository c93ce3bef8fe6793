//! First messages that are not what they should be.

use crate::hostile::forge::{HANDSHAKE, TLS12, TLS13, message, record};
use crate::hostile::{Fate, feed, new_server};
use crate::raw;
use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use std::sync::Arc;
use tls::{OneServer, ServerSide, Session};

const CLIENT_HELLO: u8 = 1;
/// Numbers of extensions.
const SERVER_NAME: u16 = 0;
const GROUPS: u16 = 10;
const SIGNATURES: u16 = 13;
const ALPN: u16 = 16;
const PRE_SHARED_KEY: u16 = 41;
const VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;

fn side() -> Arc<OneServer> {
    raw::server(ServerSide::new().pair(raw::pair(false)).alpn(["http/1.1"]))
}

/// A first message, taken apart.
#[derive(Clone)]
struct Hello {
    version: [u8; 2],
    random: Vec<u8>,
    session: Vec<u8>,
    ciphers: Vec<u8>,
    compressions: Vec<u8>,
    extensions: Vec<(u16, Vec<u8>)>,
    /// Behind the extensions.
    rest: Vec<u8>,
}

fn short(bytes: &[u8], at: usize) -> usize {
    usize::from(bytes[at]) << 8 | usize::from(bytes[at + 1])
}

impl Hello {
    /// rustls' own.
    fn usual() -> Self {
        let (config, _) = raw::config(vec![TLS13, TLS12]);
        Self::of(&raw::of_client(&mut raw::client(&Arc::new(config))))
    }

    fn of(wire: &[u8]) -> Self {
        let body = &wire[9..];
        let mut at = 34;
        let mut take = |width: usize| {
            let length = if width == 1 { usize::from(body[at]) } else { short(body, at) };
            at += width + length;
            body[at - length..at].to_vec()
        };
        let (session, ciphers, compressions, all) = (take(1), take(2), take(1), take(2));
        let (mut extensions, mut at) = (Vec::new(), 0);
        while at < all.len() {
            let length = short(&all, at + 2);
            extensions.push((short(&all, at) as u16, all[at + 4..at + 4 + length].to_vec()));
            at += 4 + length;
        }
        let (version, random) = ([body[0], body[1]], body[2..34].to_vec());
        Self { version, random, session, ciphers, compressions, extensions, rest: Vec::new() }
    }

    fn set(mut self, number: u16, value: &[u8]) -> Self {
        self.extensions.retain(|(known, _)| *known != number);
        self.add(number, value)
    }

    fn without(mut self, number: u16) -> Self {
        self.extensions.retain(|(known, _)| *known != number);
        self
    }

    fn add(mut self, number: u16, value: &[u8]) -> Self {
        self.extensions.push((number, value.to_vec()));
        self
    }

    fn value(&self, number: u16) -> Vec<u8> {
        self.extensions.iter().find(|(known, _)| *known == number).expect("it is there").1.clone()
    }

    fn body(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for (number, value) in &self.extensions {
            all.extend(number.to_be_bytes());
            all.extend((value.len() as u16).to_be_bytes());
            all.extend(value);
        }
        let mut body = [&self.version[..], &self.random, &[self.session.len() as u8], &self.session].concat();
        body.extend((self.ciphers.len() as u16).to_be_bytes());
        body.extend(&self.ciphers);
        body.push(self.compressions.len() as u8);
        body.extend(&self.compressions);
        body.extend((all.len() as u16).to_be_bytes());
        body.extend(&all);
        body.extend(&self.rest);
        body
    }

    fn message(&self) -> Vec<u8> {
        message(CLIENT_HELLO, &self.body())
    }

    fn wire(&self) -> Vec<u8> {
        record(HANDSHAKE, &self.message())
    }
}

/// The server has answered with its own first message, or asks for another key.
fn answers(server: &mut Session) -> bool {
    let mut wire = Vec::new();
    server.take_output(&mut wire);
    wire.starts_with(&[HANDSHAKE, 3, 3]) && wire[5] == 2
}

#[test]
fn dissected_hello_reassembles_unchanged() {
    let (config, _) = raw::config(ALL_CIPHER_SUITES.to_vec());
    let wire = raw::of_client(&mut raw::client(&Arc::new(config)));
    assert_eq!(Hello::of(&wire).wire()[5..], wire[5..]);
}

type Case = (&'static str, Vec<u8>);

/// Lengths and lists that do not fit.
fn broken_outside(usual: &Hello) -> Vec<Case> {
    let cut = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut body = usual.body();
        change(&mut body);
        record(HANDSHAKE, &message(CLIENT_HELLO, &body))
    };
    let with = |change: &dyn Fn(&mut Hello)| {
        let mut hello = usual.clone();
        change(&mut hello);
        hello.wire()
    };
    let extensions_at = usual.body().len() - usual.extensions.iter().map(|(_, value)| value.len() + 4).sum::<usize>();
    vec![
        ("no body", cut(&Vec::clear)),
        ("a version alone", cut(&|body| body.truncate(2))),
        ("a random that is cut", cut(&|body| body.truncate(20))),
        ("extensions that are cut", cut(&|body| body.truncate(body.len() - 1))),
        ("bytes behind the extensions", with(&|hello| hello.rest = vec![0; 3])),
        ("extensions longer than the message", cut(&|body| body[extensions_at - 2] = 0xff)),
        ("an id of 33 bytes", with(&|hello| hello.session = vec![1; 33])),
        ("an id longer than the message", cut(&|body| body[34] = 255)),
        ("ciphers of an odd length", with(&|hello| hello.ciphers.push(0))),
        ("no cipher", with(&|hello| hello.ciphers.clear())),
        ("no compression", with(&|hello| hello.compressions.clear())),
        ("compression without none", with(&|hello| hello.compressions = vec![1])),
    ]
}

/// Extensions that are not what they should be.
fn broken_extensions(usual: &Hello) -> Vec<Case> {
    vec![
        ("an extension twice", usual.clone().add(GROUPS, &usual.value(GROUPS)).wire()),
        ("a name without a list", usual.clone().set(SERVER_NAME, &[]).wire()),
        ("an empty list of names", usual.clone().set(SERVER_NAME, &[0, 0]).wire()),
        ("an empty name", usual.clone().set(SERVER_NAME, &[0, 3, 0, 0, 0]).wire()),
        ("a name longer than its list", usual.clone().set(SERVER_NAME, &[0, 4, 0, 0, 9, b'a']).wire()),
        ("two names", usual.clone().set(SERVER_NAME, &[0, 8, 0, 0, 1, b'a', 0, 0, 1, b'b']).wire()),
        ("a name with a null", usual.clone().set(SERVER_NAME, &[0, 6, 0, 0, 3, b'a', 0, b'b']).wire()),
        ("an empty list of versions", usual.clone().set(VERSIONS, &[0]).wire()),
        ("versions of an odd length", usual.clone().set(VERSIONS, &[3, 3, 4, 3]).wire()),
        ("unknown versions", usual.clone().set(VERSIONS, &[2, 3, 9]).wire()),
        ("groups of an odd length", usual.clone().set(GROUPS, &[0, 3, 0, 29, 0]).wire()),
        ("unknown groups", usual.clone().set(GROUPS, &[0, 2, 0xee, 0xee]).set(KEY_SHARE, &[0, 0]).wire()),
        ("no group", usual.clone().without(GROUPS).wire()),
        ("no signature", usual.clone().without(SIGNATURES).wire()),
        ("signatures of an odd length", usual.clone().set(SIGNATURES, &[0, 3, 4, 3, 8]).wire()),
        ("no key", usual.clone().without(KEY_SHARE).wire()),
        ("a key that is cut", usual.clone().set(KEY_SHARE, &[0, 6, 0, 29, 0, 2, 1, 1]).wire()),
        ("a key of zeros", usual.clone().set(KEY_SHARE, &[&[0, 36, 0, 29, 0, 32][..], &[0; 32]].concat()).wire()),
        ("a key twice", {
            let one = [&[0, 29, 0, 32][..], &[9; 32]].concat();
            usual.clone().set(KEY_SHARE, &[&[0, 72][..], &one, &one].concat()).wire()
        }),
        ("a point that is not on the curve", {
            let point = [&[0, 69, 0, 23, 0, 65, 4][..], &[7; 64]].concat();
            usual.clone().set(GROUPS, &[0, 2, 0, 23]).set(KEY_SHARE, &point).wire()
        }),
        ("an empty list of protocols", usual.clone().set(ALPN, &[0, 0]).wire()),
        ("an empty protocol", usual.clone().set(ALPN, &[0, 1, 0]).wire()),
        ("no protocol in common", usual.clone().set(ALPN, &[0, 3, 2, b'h', b'2']).wire()),
        ("a key that is shared and not last", {
            let psk = [&[0, 7, 0, 1, 1, 0, 0, 0, 0][..], &[0, 33, 32], &[0; 32]].concat();
            let with_modes = usual.clone().set(45, &[1, 1]);
            with_modes.set(PRE_SHARED_KEY, &psk).add(21, &[0; 4]).wire()
        }),
        ("a shared key without a binder", {
            usual.clone().set(45, &[1, 1]).set(PRE_SHARED_KEY, &[0, 7, 0, 1, 1, 0, 0, 0, 0, 0, 0]).wire()
        }),
    ]
}

/// Records that are cut in the wrong way, or say more than one thing.
fn broken_records(usual: &Hello) -> Vec<Case> {
    vec![
        ("a record without bytes", record(HANDSHAKE, &[])),
        ("a message behind it in its record", record(HANDSHAKE, &[usual.message(), message(20, &[0; 32])].concat())),
        ("a hello twice in a record", record(HANDSHAKE, &[usual.message(), usual.message()].concat())),
        ("data in the middle", {
            let whole = usual.message();
            [record(HANDSHAKE, &whole[..50]), record(23, b"data"), record(HANDSHAKE, &whole[50..])].concat()
        }),
        ("an alert in the middle", {
            let whole = usual.message();
            [record(HANDSHAKE, &whole[..50]), record(21, &[1, 0]), record(HANDSHAKE, &whole[50..])].concat()
        }),
    ]
}

/// Row T1.
#[test]
fn messages_that_break_the_rules_are_refused() {
    let usual = Hello::usual();
    let cases = [broken_outside(&usual), broken_extensions(&usual), broken_records(&usual)].concat();
    let side = side();
    let mut wrong = Vec::new();
    for (name, wire) in cases {
        for piece in [1, 7, usize::MAX] {
            let mut server = new_server(&side);
            if feed(&mut server, &wire, piece) != Fate::Fails {
                wrong.push(format!("{name}, in pieces of {piece}"));
            }
            assert!(server.held().len() <= 20_000);
        }
    }
    assert!(wrong.is_empty(), "these were not refused: {wrong:#?}");
}

/// Row T2.
#[test]
fn messages_that_are_only_unusual_are_answered() {
    let usual = Hello::usual();
    let whole = usual.message();
    let by_byte: Vec<u8> = whole.iter().flat_map(|byte| record(HANDSHAKE, &[*byte])).collect();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("as usual", usual.wire()),
        ("in records of one byte", by_byte),
        ("an unknown extension", usual.clone().add(0x1234, &[1, 2, 3]).wire()),
        ("greased extensions, ciphers and groups", {
            let mut hello = usual.clone().add(0x0a0a, &[]).add(0xfafa, &[0]);
            hello.ciphers.splice(..0, [0x1a, 0x1a]);
            let groups = hello.value(GROUPS);
            let count = (groups.len() as u16).to_be_bytes();
            let groups = [&count[..], &[0x2a, 0x2a], &groups[2..]].concat();
            hello.set(GROUPS, &groups).wire()
        }),
        ("ten kilobytes of padding", usual.clone().add(21, &vec![0; 10_000]).wire()),
        ("an id of 32 bytes", {
            let mut hello = usual.clone();
            hello.session = vec![7; 32];
            hello.wire()
        }),
        ("more ways of compression", {
            let mut hello = usual.clone();
            hello.compressions = vec![1, 0];
            hello.version = [3, 3];
            hello.without(VERSIONS).without(KEY_SHARE).wire()
        }),
        ("versions of the future first", usual.clone().set(VERSIONS, &[6, 3, 9, 3, 4, 3, 3]).wire()),
        ("a key of another group", usual.clone().set(KEY_SHARE, &[0, 0]).wire()),
        ("no name", usual.clone().without(SERVER_NAME).wire()),
    ];
    let side = side();
    for (name, wire) in cases {
        for piece in [1, 11, usize::MAX] {
            let mut server = new_server(&side);
            assert_eq!(feed(&mut server, &wire, piece), Fate::GoesOn, "{name}");
            assert!(answers(&mut server), "{name}, in pieces of {piece}");
        }
    }
}

#[test]
fn each_byte_of_a_first_message_may_be_wrong() {
    let (side, wire) = (side(), Hello::usual().wire());
    let mut refused = 0;
    for place in 0..wire.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut wire = wire.clone();
            wire[place] ^= change;
            let mut server = new_server(&side);
            refused += u32::from(feed(&mut server, &wire, usize::MAX) == Fate::Fails);
            assert!(server.is_handshaking() && server.held().len() <= wire.len());
        }
    }
    assert!(refused > 100, "{refused}");
}
