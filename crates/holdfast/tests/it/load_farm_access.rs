//! The connection of a farm to NATS: wrong and missing credentials and faults of TLS are named, before anything is loaded.

use crate::support::farm::FarmAgent;
use crate::support::holdfast;
use crate::support::load::{load, text};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use testkit::{Authority, Nats};

const PASSWORD: &str = "authorization { users = [ { user: farm, password: \"sesame\" } ] }";

/// What `holdfast load` with these words says, with its exit code.
fn said(words: &[&str]) -> (Option<i32>, String) {
    let output = load(words);
    (output.status.code(), text(&output.stderr))
}

fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).expect("written");
    path.to_string_lossy().into_owned()
}

#[test]
fn wrong_and_missing_credentials_are_named() {
    let nats = Nats::start(PASSWORD);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (right, wrong) = (file(folder.path(), "right", "sesame\n"), file(folder.path(), "wrong", "x"));
    let url = nats.url();
    let (code, text) = said(&["--farm", &url, "-n", "1", "http://127.0.0.1:9/"]);
    assert!(code == Some(1) && text.contains("demands credentials: --farm-creds, --farm-nkey"), "{code:?} {text}");
    let (code, text) = said(&["agent", &url]);
    assert!(code == Some(2) && text.contains("demands credentials: --creds, --nkey"), "{code:?} {text}");
    let (code, text) = said(&["agent", &url, "--user", "farm", "--password-file", &wrong]);
    assert!(code == Some(2) && text.contains("does not accept the credentials given"), "{code:?} {text}");
    let (code, text) = said(&["farm-status", &url, "--token-file", &format!("{wrong}.none")]);
    assert!(code == Some(2) && text.contains("wrong.none: No such file"), "{code:?} {text}");
    let (code, text) = said(&["agent", &url, "--creds", &right]);
    assert!(code == Some(2) && text.contains("no file of credentials"), "{code:?} {text}");
    let agent = FarmAgent::start(&url, "a", &["--user", "farm", "--password-file", &right]);
    let output = holdfast().args(["load", "farm-status", &url, "--user", "farm", "--password-file", &right]).output();
    let listed = String::from_utf8_lossy(&output.expect("it starts").stdout).into_owned();
    assert!(listed.contains("1 agents") && listed.contains(&agent.name), "{listed}");
}

#[test]
fn remote_hub_requires_credentials_first() {
    for words in [
        ["--farm", "nats://192.0.2.1:4222", "-n", "1", "http://127.0.0.1:9/"].as_slice(),
        &["agent", "tls://nats.example"],
        &["farm-status", "nats://[2001:db8::1]:4222"],
    ] {
        let (code, text) = said(words);
        assert!(code == Some(2) && text.contains("so credentials are necessary"), "{code:?} {text}");
    }
    let (code, text) = said(&["agent", "nats://farm:sesame@127.0.0.1:4222"]);
    assert!(code == Some(2) && text.contains("can be read by every user of this machine"), "{code:?} {text}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let port = testkit::free_port();
    let (code, text) = said(&["--farm", &format!("nats://127.0.0.1:{port}"), "-n", "1", "http://127.0.0.1:9/"]);
    let expected = format!("NATS at 127.0.0.1:{port} cannot be reached");
    assert!(code == Some(1) && text.contains(&expected), "{code:?} {text}");
}

#[test]
fn tls_faults_are_named_and_custom_ca_works() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::new("farm");
    let issued = authority.issue(&["127.0.0.1"]);
    let (certificate, key) = issued.write(folder.path(), "server");
    let ca = file(folder.path(), "ca.pem", &authority.pem());
    let other = file(folder.path(), "other.pem", &Authority::new("other").pem());
    let nats = Nats::start(&format!("tls {{ cert_file: {certificate:?}, key_file: {key:?} }}"));
    let url = format!("tls://127.0.0.1:{}", nats.port());
    let (code, text) = said(&["agent", &url, "--ca", &other]);
    assert!(
        code == Some(2) && text.contains("TLS with NATS at ") && text.contains("--ca names the authority"),
        "{code:?} {text}"
    );
    let (code, text) = said(&["agent", &url, "--ca", &format!("{ca}.none")]);
    assert!(code == Some(2) && text.contains("ca.pem.none: No such file"), "{code:?} {text}");
    let plain = Nats::start("");
    let (code, text) = said(&["farm-status", &format!("tls://127.0.0.1:{}", plain.port())]);
    assert!(code == Some(2) && text.contains("TLS with NATS at "), "{code:?} {text}");
    let _agent = FarmAgent::start(&url, "secured", &["--ca", &ca]);
    let mut status = holdfast();
    let output =
        status.args(["load", "farm-status", &url, "--ca", &ca]).stdin(Stdio::null()).output().expect("it starts");
    assert!(String::from_utf8_lossy(&output.stdout).contains("secured"), "{output:?}");
}
