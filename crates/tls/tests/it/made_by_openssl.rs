//! What the `openssl` program makes: certificates of X.509 v1, encrypted keys in all forms, and the ciphers that a string selects.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tls::{
    Ciphers, ClientCheck, ClientSide, OneServer, Pair, Protocol, Protocols, Revocations, ServerSide, Session, Trust,
};

/// Runs `openssl` in a folder; arguments have no spaces.
fn openssl(folder: &Path, arguments: &str) -> String {
    let output = Command::new("openssl").current_dir(folder).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const EC: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

/// A folder with an authority `ca`, and `leaf`, which it has issued without extensions: that is X.509 v1 from OpenSSL 3.0.
fn issued() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    openssl(at, &format!("req -x509 {EC} -keyout ca.key -out ca.crt -days 30 -subj /CN=Authority"));
    openssl(at, &format!("req {EC} -keyout leaf.key -out leaf.csr -subj /CN=a.test"));
    openssl(at, "x509 -req -in leaf.csr -CA ca.crt -CAkey ca.key -set_serial 1 -days 10 -out leaf.crt");
    let text = openssl(at, "x509 -in leaf.crt -noout -text");
    if !text.contains("Version: 1 ") {
        // OpenSSL 3.4 and later add extensions: an older form has to be asked for.
        openssl(at, "x509 -req -in leaf.csr -CA ca.crt -CAkey ca.key -set_serial 1 -days 10 -x509v1 -out leaf.crt");
    }
    folder
}

fn read(folder: &TempDir, name: &str) -> Vec<u8> {
    fs::read(folder.path().join(name)).unwrap()
}

fn leaf(folder: &TempDir) -> Pair {
    Pair::from_pem(&read(folder, "leaf.crt"), &read(folder, "leaf.key"), b"").unwrap()
}

/// Shakes hands; the error is the first one of either side.
fn shake(client: &ClientSide, server: ServerSide, name: &str) -> Result<Session, String> {
    let mut client = Session::client(client, name).unwrap();
    let mut server = Session::server(Arc::new(OneServer(Arc::new(server))));
    for _ in 0..4 {
        let mut wire = Vec::new();
        client.take_output(&mut wire);
        server.receive(&mut wire, &mut |_| ()).map_err(|error| error.upstream_phrase(name))?;
        let mut wire = Vec::new();
        server.take_output(&mut wire);
        client.receive(&mut wire, &mut |_| ()).map_err(|error| error.upstream_phrase(name))?;
    }
    assert!(!server.is_handshaking() && !client.is_handshaking());
    Ok(server)
}

#[test]
fn a_client_shows_a_certificate_of_version_1() {
    let (folder, other) = (issued(), issued());
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let result = |check: ClientCheck| {
            let server = ServerSide::new().pair(leaf(&other)).protocols(Protocols::only(protocol));
            let client = ClientSide::new(Trust::Anyone).pair(Some(leaf(&folder))).build().unwrap();
            let session = shake(&client, server.client_check(Arc::new(check)).build().unwrap(), "a.test").unwrap();
            assert_eq!(session.peer_certificate().unwrap().subject().unwrap(), "CN=a.test");
            session.client_verification().unwrap().result.text()
        };
        let check = |authority: &[u8]| ClientCheck::new(authority, b"").unwrap();
        assert_eq!(result(check(&read(&folder, "ca.crt"))), "SUCCESS", "{protocol:?}");
        // Another authority with the same name.
        assert_eq!(result(check(&read(&other, "ca.crt"))), "FAILED:unable to verify the first certificate");
        // A certificate that is no authority's issues nothing.
        assert_eq!(result(check(&read(&folder, "leaf.crt"))), "FAILED:unable to verify the first certificate");
        fs::write(folder.path().join("index"), "").unwrap();
        fs::write(folder.path().join("number"), "01\n").unwrap();
        fs::write(
            folder.path().join("ca.cnf"),
            "[ca]\ndefault_ca=d\n[d]\ndatabase=index\ncrlnumber=number\ndefault_md=sha256\n",
        )
        .unwrap();
        openssl(folder.path(), "ca -config ca.cnf -gencrl -crldays 9 -cert ca.crt -keyfile ca.key -out crl.pem");
        let lists = Revocations::from_pem(&read(&folder, "crl.pem")).unwrap();
        assert_eq!(
            result(check(&read(&folder, "ca.crt")).revocations(lists)),
            "FAILED:unable to get certificate CRL",
            "{protocol:?}"
        );
    }
}

#[test]
fn a_server_shows_a_certificate_of_version_1() {
    let (folder, other) = (issued(), issued());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    assert_eq!(leaf(&folder).check(now).len(), 0);
    assert_eq!(leaf(&folder).check(now + 20 * 86_400)[0].key, "expired");
    for protocol in [Protocol::Tls12, Protocol::Tls13] {
        let result = |trust: Trust, name: &str| {
            let server = ServerSide::new().pair(leaf(&folder)).protocols(Protocols::only(protocol)).build().unwrap();
            shake(&ClientSide::new(trust).build().unwrap(), server, name).map(|_| ())
        };
        let authority = |folder: &TempDir| Trust::Authorities(read(folder, "ca.crt"));
        assert_eq!(result(Trust::Anyone, "a.test"), Ok(()), "{protocol:?}");
        assert_eq!(result(authority(&folder), "a.test"), Ok(()), "{protocol:?}");
        let refused = result(authority(&other), "a.test").unwrap_err();
        assert!(refused.contains("21:unable to verify the first certificate"), "{refused}");
        let refused = result(authority(&folder), "b.test").unwrap_err();
        assert!(refused.contains("does not match"), "{refused}");
    }
}

#[test]
fn names_of_certificates_are_written_as_openssl_does() {
    let folder = issued();
    let at = folder.path();
    let subject = "/C=DE/O=A/UID=9+CN=Jörg";
    openssl(
        at,
        &format!(
            "req -x509 {EC} -utf8 -multivalue-rdn -keyout odd.key -out odd.crt -days 30 -subj {subject}/OU=a\\/b,c;<d>#"
        ),
    );
    let legacy = openssl(at, "x509 -in odd.crt -noout -subject -nameopt compat");
    let rfc2253 = openssl(at, "x509 -in odd.crt -noout -subject -nameopt RFC2253");
    let check = ClientCheck::new(b"", b"").unwrap();
    let pair = Pair::from_pem(&read(&folder, "odd.crt"), &read(&folder, "odd.key"), b"").unwrap();
    let client = ClientSide::new(Trust::Anyone).pair(Some(pair)).build().unwrap();
    let server = ServerSide::new().pair(leaf(&folder)).client_check(Arc::new(check)).build().unwrap();
    let session = shake(&client, server, "a.test").unwrap();
    let certificate = session.peer_certificate().unwrap();
    assert_eq!(format!("subject={}\n", certificate.subject().unwrap()), rfc2253);
    assert_eq!(format!("subject={}\n", certificate.subject_legacy().unwrap()), legacy);
}

#[test]
fn an_encrypted_key_opens_in_every_form() {
    let folder = issued();
    let at = folder.path();
    openssl(at, "genrsa -out rsa.key 2048");
    openssl(at, "req -x509 -key rsa.key -out rsa.crt -days 30 -subj /CN=a.test");
    let password = "-passout pass:secret";
    let forms = [
        ("leaf", format!("ec -in leaf.key -aes256 {password}")),
        ("leaf", format!("ec -in leaf.key -des3 {password}")),
        ("rsa", format!("rsa -in rsa.key -traditional -aes128 {password}")),
        ("rsa", format!("rsa -in rsa.key -traditional -aes192 {password}")),
        ("rsa", format!("rsa -in rsa.key -traditional -des3 {password}")),
        ("rsa", format!("pkcs8 -topk8 -in rsa.key -v2 des3 {password}")),
        ("rsa", format!("pkcs8 -topk8 -in rsa.key -v2 aes-256-cbc -v2prf hmacWithSHA1 {password}")),
        ("leaf", format!("pkcs8 -topk8 -in leaf.key -scrypt {password}")),
    ];
    for (name, form) in forms {
        openssl(at, &format!("{form} -out encrypted.key"));
        let (chain, key) = (read(&folder, &format!("{name}.crt")), read(&folder, "encrypted.key"));
        assert!(String::from_utf8_lossy(&key).contains("ENCRYPTED"), "{form}");
        let pair = |passwords: &[u8]| Pair::from_pem(&chain, &key, passwords).map(|_| ()).map_err(|found| found.key);
        assert_eq!(pair(b"other\nsecret\n"), Ok(()), "{form}");
        assert_eq!(pair(b"other\n"), Err("key_wrong_password"), "{form}");
        assert_eq!(pair(b""), Err("key_needs_password"), "{form}");
    }
}

/// The command in the advice is run as it is written, with the names of the files and a password.
#[test]
fn key_under_an_old_cipher_names_the_converting_command() {
    let folder = issued();
    let at = folder.path();
    for (scheme, legacy) in [
        ("PBE-SHA1-3DES", ""),
        ("PBE-SHA1-2DES", ""),
        ("PBE-SHA1-RC4-128", " -provider legacy -provider default"),
        ("PBE-SHA1-RC2-40", " -provider legacy -provider default"),
        ("PBE-MD5-DES", " -provider legacy -provider default"),
    ] {
        openssl(at, &format!("pkcs8 -topk8 -in leaf.key -v1 {scheme}{legacy} -passout pass:secret -out encrypted.key"));
        let pair = |key: &str| Pair::from_pem(&read(&folder, "leaf.crt"), &read(&folder, key), b"secret\n");
        let finding = pair("encrypted.key").unwrap_err();
        assert_eq!(finding.key, "key_cipher_unsupported", "{finding}");
        assert!(finding.text.contains(&format!("encrypted with {scheme},")), "{finding}");
        let (_, command) = finding.advice.split_once("openssl ").unwrap();
        let command = command.replace("KEY", "encrypted.key").replace("NEW", "new.key");
        openssl(at, &format!("{command} -passin pass:secret -passout pass:secret"));
        pair("new.key").unwrap_or_else(|finding| panic!("{scheme}: {finding}"));
        fs::remove_file(at.join("new.key")).unwrap();
    }
    openssl(at, "pkcs8 -topk8 -in leaf.key -v2 camellia-256-cbc -passout pass:secret -out encrypted.key");
    let rare = Pair::from_pem(&read(&folder, "leaf.crt"), &read(&folder, "encrypted.key"), b"secret\n").unwrap_err();
    assert_eq!(rare.key, "key_cipher_unsupported", "{rare}");
}

#[test]
fn cipher_string_selects_as_openssl() {
    let ours = Ciphers::default().names().split_off(3);
    let strings = [
        "HIGH:!aNULL:!MD5",
        "DEFAULT",
        "DEFAULT@SECLEVEL=1",
        "DEFAULT:@SECLEVEL=0",
        "ALL:@STRENGTH",
        "AES128:HIGH:@STRENGTH",
        // Mozilla: intermediate, and old.
        "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
        ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:\
        DHE-RSA-AES256-GCM-SHA384:DHE-RSA-CHACHA20-POLY1305",
        "@SECLEVEL=0:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
        ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:\
        ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA:AES128-GCM-SHA256:AES256-SHA:DES-CBC3-SHA",
        // certbot's.
        "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
        ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256",
        // From guides.
        "ECDH+AESGCM:DH+AESGCM:ECDH+AES256:DH+AES256:ECDH+AES128:DH+AES:RSA+AESGCM:RSA+AES:!aNULL:!MD5:!DSS",
        "EECDH+AESGCM:EDH+AESGCM:AES256+EECDH:AES256+EDH",
        "EECDH+ECDSA+AESGCM EECDH+aRSA+AESGCM EECDH+ECDSA+SHA384 EECDH+aRSA+SHA256 EECDH !aNULL !eNULL !LOW !3DES !MD5 !RC4",
        "HIGH:!aNULL:!eNULL:!SHA1:!SHA256:!SHA384:!RSA",
        "HIGH:!kRSA:!PSK:-AES128:+ECDSA",
        "kEECDH+CHACHA20:kECDHE+AES128:!ECDSA",
        "TLSv1.2+ECDHE:!aRSA",
        "ECDHE+AES256:ECDHE+CHACHA20:!AESCCM:!ARIA",
        "ALL:-AES128:+AESGCM:AES128",
        "ALL:!CHACHA20:COMPLEMENTOFDEFAULT",
    ];
    for text in strings {
        let selected = openssl(Path::new("."), &format!("ciphers {}", text.replace(' ', ":")));
        let selected: Vec<&str> = selected.trim().split(':').filter(|name| ours.contains(name)).collect();
        let parsed = Ciphers::parse(text);
        assert_eq!(parsed.names().split_off(3), selected, "{text}");
        assert!(parsed.is_known, "{text}");
    }
    for refused in ["bogus", "", "@STRENGTH", "PROFILE=SYSTEM", "TLS_AES_256_GCM_SHA384", "!aNULL"] {
        assert!(!Ciphers::parse(refused).is_known, "{refused}");
    }
    let old = Ciphers::parse("AES128-SHA:AES256-SHA");
    assert!(old.is_known && !old.has_tls12());
}
