//! Certificates that a handshake names by variables.

use crate::tls::scene::{Scene, get};
use gateway::CloseReason;
use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::thread;
use testkit::{Talk, peer_program, until};

/// `{at}/a.crt`, `{at}/b.crt` and so on, by the label before the first dot.
const BY_NAME: &str = "map $ssl_server_name $label { default a; ~^(?<first>[^.]+)\\.test$ $first; } \
    server { listen {listen} ssl; server_name _; ssl_certificate {at}/$label.crt; ssl_certificate_key {at}/$label.key; \
    return 200 $label; }";

fn serial(client: &Talk) -> String {
    client.session().peer_certificate().unwrap().serial().unwrap()
}

#[test]
fn the_name_of_the_client_chooses_the_files() {
    let scene = Scene::new(BY_NAME, &[]);
    // The client verifies the names.
    assert_eq!(scene.ask("a.test", "a.test").0, 200);
    assert_eq!(scene.ask("b.test", "b.test").0, 200);
    scene.authority.issue(&["new.test"]).write(scene.folder.path(), "new");
    assert_eq!(scene.ask("new.test", "new.test").0, 200, "without a reload");
    let first = serial(&scene.client("a.test"));
    scene.authority.issue(&["a.test"]).write(scene.folder.path(), "a");
    assert_ne!(serial(&scene.client("a.test")), first, "without a cache each handshake reads");
}

#[test]
fn a_certificate_can_be_the_value_of_a_variable() {
    let scene = Scene::new("server { listen {listen} ssl; {a} return 200 old; }", &[]);
    let text = |name: &str| fs::read_to_string(scene.path(name)).unwrap();
    let http = format!(
        "map $server_port $chain {{ default \"data:{}\"; }} map $https $key {{ on \"data:{}\"; }} \
         server {{ listen {{listen}} ssl; ssl_certificate $chain; ssl_certificate_key $key; return 200 new; }}",
        text("b.crt"),
        text("b.key")
    );
    let mut scene = scene;
    scene.reload(&http);
    assert_eq!(scene.ask("b.test", "b.test"), (200, "new".to_owned()));
}

#[test]
fn files_that_are_missing_or_broken_end_their_handshake_alone() {
    let scene = Scene::new(BY_NAME, &[]);
    fs::write(scene.path("broken.crt"), "nonsense").unwrap();
    fs::copy(scene.path("a.key"), scene.path("broken.key")).unwrap();
    fs::copy(scene.path("a.crt"), scene.path("other.crt")).unwrap();
    fs::copy(scene.path("b.key"), scene.path("other.key")).unwrap();
    for (name, phrase) in [
        ("missing", "missing.crt\": open() failed (2: No such file or directory)"),
        ("broken", "broken.crt\": there is no certificate"),
        ("other", "the private key does not belong to the certificate"),
    ] {
        let refused = scene.try_client(&scene.authority.client(), &format!("{name}.test")).err().unwrap();
        assert!(refused.to_string().contains("InternalError"), "{refused}");
        let line = scene.gateway.logged(phrase);
        for part in [" [error] ", "cannot load certificate", "while SSL handshaking", &format!("host: \"{name}.test\"")]
        {
            assert!(line.contains(part), "{line}");
        }
    }
    assert_eq!(scene.ask("a.test", "a.test").0, 200);
    until("they are counted", || (scene.gateway.shared().closed(CloseReason::HandshakeFailed) == 3).then_some(()));
}

#[test]
fn a_name_that_is_a_path_reaches_no_file() {
    let scene = Scene::new(
        "server { listen {listen} ssl; ssl_certificate {at}/sub/$ssl_server_name.crt; \
         ssl_certificate_key {at}/sub/$ssl_server_name.key; return 200 a; }",
        &[],
    );
    fs::create_dir(scene.path("sub")).unwrap();
    let mut command = Command::new(peer_program("openssl"));
    command.args(["s_client", "-connect", &scene.gateway.address().to_string(), "-servername", "../a"]);
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("alert internal error"), "{said}");
    scene.gateway.logged("client sent invalid server name while SSL handshaking");
}

#[test]
fn slow_disk_delays_no_other_handshake() {
    let http = BY_NAME.replace("return 200", "client_header_timeout 5s; return 200");
    let scene = Scene::new(&http, &[]);
    let pipe = scene.path("slow.crt");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (_, key) = scene.authority.issue(&["slow.test"]).write(&scene.path(""), "kept");
    fs::copy(key, scene.path("slow.key")).unwrap();
    let (address, side) = (scene.gateway.address(), scene.authority.client());
    let shake = move || {
        Talk::connect_secure(address, &side, "slow.test").map(|mut client| {
            client.send(get("slow.test"));
            client.response().status()
        })
    };
    // Opening the writing end of a pipe blocks until a reader opens the other: the handshake waits for its file.
    let slow = thread::spawn(shake.clone());
    let mut write = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    assert_eq!(scene.ask("a.test", "a.test").0, 200);
    write.write_all(&fs::read(scene.path("kept.crt")).unwrap()).unwrap();
    drop(write);
    assert_eq!(slow.join().unwrap().unwrap(), 200);
    // This time no thread writes.
    let timed_out = thread::spawn(shake);
    let _write = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    assert!(timed_out.join().unwrap().is_err());
    scene.gateway.logged("client timed out (110: Connection timed out) while SSL handshaking");
}

#[test]
fn a_cache_keeps_certificates_as_long_as_it_says() {
    let http = format!("ssl_certificate_cache max=10 inactive=1h valid=1h; {BY_NAME}");
    let mut scene = Scene::new(&http, &[]);
    let first = serial(&scene.client("a.test"));
    scene.authority.issue(&["a.test"]).write(scene.folder.path(), "a");
    assert_eq!(serial(&scene.client("a.test")), first);
    scene.reload(&http);
    assert_ne!(serial(&scene.client("a.test")), first, "a reload begins anew, as in nginx");
}

#[test]
fn sessions_are_resumed_where_each_name_has_its_file() {
    let scene = Scene::new(BY_NAME, &[]);
    let side = scene.authority.client();
    let reused = |name: &str| {
        let mut client = scene.try_client(&side, name).unwrap();
        client.send(get(name));
        assert_eq!(client.response().status(), 200);
        client.session().is_resumed()
    };
    assert_eq!([reused("a.test"), reused("a.test"), reused("b.test")], [false, true, false]);
}
