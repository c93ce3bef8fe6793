//! An OCSP responder: `openssl ocsp` makes its answers from a list of certificates, as an authority keeps it.

use crate::authority::{Authority, Issued};
use crate::peer::Peer;
use crate::program::peer_program;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, CustomExtension, SerialNumber};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

/// A responder for the certificates of one authority. It answers each request on a connection of its own.
pub struct Responder {
    peer: Peer,
    folder: Arc<tempfile::TempDir>,
    habit: Arc<Mutex<Habit>>,
}

/// What a responder does with requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Habit {
    /// It answers.
    Answers,
    /// It answers with a signer of its own instead of the authority.
    SignedBy(PathBuf, PathBuf),
    /// It answers, and its answers have ended an hour ago.
    Ended,
    /// It sends nothing until the client has gone.
    Silent,
    /// It sends these bytes.
    Says(Vec<u8>),
}

impl Responder {
    /// A responder that knows no certificate yet.
    pub fn start(authority: &Authority) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        fs::write(folder.path().join("ca.key"), authority.key_pem()).unwrap();
        fs::write(folder.path().join("index"), "").unwrap();
        let habit = Arc::new(Mutex::new(Habit::Answers));
        let peer = Peer::script({
            let (folder, habit) = (Arc::clone(&folder), Arc::clone(&habit));
            move |mut talk| {
                let Some(request) = talk.request() else { return };
                let habit = habit.lock().unwrap().clone();
                let is_ended = habit == Habit::Ended;
                let signer = match habit {
                    Habit::Says(bytes) => return talk.send(bytes),
                    Habit::Silent => {
                        talk.end();
                        return;
                    }
                    Habit::SignedBy(certificate, key) => (certificate, key),
                    Habit::Answers | Habit::Ended => (folder.path().join("ca.pem"), folder.path().join("ca.key")),
                };
                let asked = if request.body.is_empty() { of_target(request.target()) } else { request.body };
                let body = answer(folder.path(), &asked, &signer);
                let body = if is_ended { ended(folder.path(), &body) } else { body };
                talk.send(with_head(body));
            }
        });
        Self { peer, folder, habit }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.peer.address())
    }

    /// Sets what it does from now on.
    pub fn set(&self, habit: Habit) {
        *self.habit.lock().unwrap() = habit;
    }

    /// The targets of the requests so far.
    pub fn asked(&self) -> Vec<String> {
        self.peer.requests().into_iter().map(|(_, request)| request.target().to_owned()).collect()
    }

    /// Sets the status of a certificate: `V` is valid, `R` revoked. The last call counts.
    pub fn note(&self, serial: u64, standing: char) {
        let path = self.folder.path().join("index");
        let number = format!("{serial:02X}");
        let known = fs::read_to_string(&path).unwrap();
        let others = known.lines().filter(|line| !line.contains(&format!("\t{number}\t")));
        let revoked = if standing == 'R' { "250101000000Z" } else { "" };
        let line = format!("{standing}\t400101000000Z\t{revoked}\t{number}\tunknown\t/CN=x{number}");
        let lines: Vec<&str> = others.chain([line.as_str()]).collect();
        fs::write(path, lines.join("\n") + "\n").unwrap();
    }

    /// A certificate with this number that names this responder.
    pub fn issue(&self, authority: &Authority, names: &[&str], serial: u64) -> Issued {
        let url = self.url();
        authority.issue_with(names, |params| names_responder(params, serial, &url))
    }
}

/// Puts a number and the URL of a responder (RFC 5280, 4.2.2.1) into a certificate.
pub fn names_responder(params: &mut CertificateParams, serial: u64, url: &str) {
    // The number of the index has no zeros in front.
    params.serial_number = Some(SerialNumber::from(vec![u8::try_from(serial).unwrap()]));
    let wrapped = |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
    let place = [&[6, 8, 0x2b, 6, 1, 5, 5, 7, 48, 1], wrapped(0x86, url.as_bytes()).as_slice()].concat();
    let content = wrapped(0x30, &wrapped(0x30, &place));
    params.custom_extensions.push(CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], content));
}

/// The request that the last segment of a target has.
fn of_target(target: &str) -> Vec<u8> {
    let encoded = target.rsplit('/').next().unwrap_or_default();
    let encoded = encoded.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
    STANDARD.decode(encoded).unwrap()
}

fn answer(folder: &Path, asked: &[u8], (certificate, key): &(PathBuf, PathBuf)) -> Vec<u8> {
    let work = tempfile::tempdir().unwrap();
    let (request, response) = (work.path().join("request"), work.path().join("response"));
    fs::write(&request, asked).unwrap();
    let mut openssl = Command::new(peer_program("openssl"));
    openssl.args(["ocsp", "-nmin", "30", "-CA"]).arg(folder.join("ca.pem")).arg("-index").arg(folder.join("index"));
    openssl.arg("-rsigner").arg(certificate).arg("-rkey").arg(key);
    let said = openssl.arg("-reqin").arg(&request).arg("-respout").arg(&response).output().unwrap();
    fs::read(&response).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&said.stderr)))
}

fn with_head(body: Vec<u8>) -> Vec<u8> {
    let head =
        format!("HTTP/1.0 200 OK\r\nContent-type: application/ocsp-response\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.into_bytes(), body].concat()
}

/// The same answer, from two hours ago, and signed again: `openssl ocsp` gives no answers of the past.
fn ended(folder: &Path, response: &[u8]) -> Vec<u8> {
    // OCSPResponse: a status, and in [0] the type with the BasicOCSPResponse (RFC 6960 §4.2.1).
    let outer = children(only(response));
    let typed = children(only(only(outer[1])));
    let basic = children(only(only(typed[1])));
    let mut said = basic[0].to_vec();
    let now = time::OffsetDateTime::now_utc();
    let text = |hours: i64| {
        let at = now - time::Duration::hours(hours);
        let (date, clock) = (at.date(), at.time());
        format!(
            "{:04}{:02}{:02}{:02}{:02}{:02}Z",
            date.year(),
            u8::from(date.month()),
            date.day(),
            clock.hour(),
            clock.minute(),
            clock.second()
        )
    };
    // producedAt, thisUpdate, nextUpdate: the only values of GeneralizedTime, which are 15 bytes long.
    let mut hours = [2, 2, 1].into_iter();
    for place in 0..=said.len() - 17 {
        if said[place..].starts_with(&[0x18, 15]) {
            said[place + 2..place + 17].copy_from_slice(text(hours.next().unwrap()).as_bytes());
        }
    }
    assert_eq!(hours.next(), None);
    let work = tempfile::tempdir().unwrap();
    fs::write(work.path().join("said"), &said).unwrap();
    let mut openssl = Command::new(peer_program("openssl"));
    openssl.args(["dgst", "-sha256", "-sign"]).arg(folder.join("ca.key")).arg(work.path().join("said"));
    let signature = openssl.output().unwrap().stdout;
    let signature = wrapped(0x03, &[&[0], &signature[..]].concat());
    let parts = [&said[..], basic[1], &signature].into_iter().chain(basic[3..].iter().copied());
    let basic = wrapped(0x30, &parts.collect::<Vec<_>>().concat());
    let typed = wrapped(0x30, &[typed[0], &wrapped(0x04, &basic)].concat());
    wrapped(0x30, &[outer[0], &wrapped(0xa0, &typed)].concat())
}

/// The content of the value that DER begins with.
fn only(der: &[u8]) -> &[u8] {
    let (head, length) = extent(der);
    &der[head..head + length]
}

/// The values in DER, whole.
fn children(mut der: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while !der.is_empty() {
        let (head, length) = extent(der);
        let (value, rest) = der.split_at(head + length);
        found.push(value);
        der = rest;
    }
    found
}

/// Bytes of tag and length, and of the content.
fn extent(der: &[u8]) -> (usize, usize) {
    match der[1] {
        short @ 0..0x80 => (2, usize::from(short)),
        long => {
            let count = usize::from(long & 0x7f);
            (2 + count, der[2..2 + count].iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
        }
    }
}

fn wrapped(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let [high, low] = u16::try_from(length).unwrap().to_be_bytes();
    let head = match length {
        0..0x80 => vec![tag, low],
        0x80..0x100 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [head, content.to_vec()].concat()
}
