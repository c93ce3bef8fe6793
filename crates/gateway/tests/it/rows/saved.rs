//! K13–K17: `proxy_store` with truncated responses, a disk that fails, clients that leave, and paths that lead elsewhere.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use testkit::{Gateway, Peer, Signal, until};

/// A gateway that saves what `peer` answers, below `saved`.
fn saving(words: &str, peer: &Peer) -> Gateway {
    let text = format!(
        "error_log stderr info; events {{}} http {{
            root saved;
            server {{ listen {{listen}}; location / {{ proxy_pass http://{{upstream:0}}; {words} }} }}
        }}"
    );
    Gateway::start(&text, &[peer.address()])
}

/// All files below the folder, temporary ones too.
fn files(gateway: &Gateway) -> Vec<PathBuf> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(&gateway.prefix().join("saved"), &mut found);
    found
}

#[test]
fn k13_half_a_response_is_not_saved_and_leaves_no_file() {
    let bodies = ["Content-Length: 400000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n61a80\r\n"];
    for body in bodies {
        let peer = Peer::script(move |mut talk| {
            if talk.request().is_some() {
                talk.send(format!("HTTP/1.1 200 OK\r\n{body}{}", "x".repeat(300_000)));
            }
        });
        let gateway = saving("proxy_store on;", &peer);
        std::fs::create_dir_all(gateway.prefix().join("saved")).unwrap();
        std::fs::write(gateway.prefix().join("saved/a"), "earlier").unwrap();
        let mut client = gateway.client();
        client.send_get("/a", "");
        client.cut_response();
        until("no other file is left", || (files(&gateway).len() == 1).then_some(()));
        assert_eq!(std::fs::read_to_string(&files(&gateway)[0]).unwrap(), "earlier");
    }
}

#[test]
fn k14_a_disk_that_fails_costs_the_file_and_not_the_response() {
    let large = "y".repeat(500_000);
    let peer = Peer::answering(move |request| {
        let body = if request.target() == "/large" { &large[..] } else { "small" };
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    });
    let gateway = saving("proxy_store on;", &peer);
    // A file has the name of the folder, so nothing can be created below it.
    std::fs::write(gateway.prefix().join("saved"), "").unwrap();
    let mut client = gateway.client();
    assert_eq!(client.get("/small", "").text(), "small");
    assert_eq!(client.get("/large", "").body.len(), 500_000);
    assert_eq!(client.get("/small", "").text(), "small");
    let line = gateway.logged("the response is not saved");
    assert!(line.contains("[crit]") && line.contains("saved/"), "{line}");
    std::fs::remove_file(gateway.prefix().join("saved")).unwrap();
    assert_eq!(client.get("/large", "").body.len(), 500_000);
    until("it works again", || gateway.prefix().join("saved/large").exists().then_some(()));
}

#[test]
fn k14_a_full_disk_costs_the_file_and_not_the_response() {
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    // A write to this device fails with ENOSPC; its folder refuses new files for other reasons as well.
    let gateway = saving("proxy_store /dev/full/$uri;", &peer);
    assert_eq!(gateway.client().get("/a", "").text(), "hello");
    gateway.logged("the response is not saved");
}

#[test]
fn k15_a_client_that_leaves_does_not_stop_saving() {
    let go_on = Signal::default();
    let held = go_on.clone();
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
            talk.wait(&held);
            talk.send("half");
        }
    });
    let gateway = saving("proxy_store on; proxy_store_access group:r;", &peer);
    let mut client = gateway.client();
    client.send_get("/a", "");
    client.expect("HTTP/1.1 200 OK\r\n");
    client.reset();
    go_on.raise();
    let path = gateway.prefix().join("saved/a");
    until("the response is saved", || path.exists().then_some(()));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "halfhalf");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn k16_a_path_that_leaves_its_folder_is_not_written() {
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let gateway = saving("proxy_store $document_root/$arg_to;", &peer);
    let mut client = gateway.client();
    for target in ["/x?to=../outside", "/x?to=a/../../outside", "/x?to=..", "/x?to=a/.."] {
        assert_eq!(client.get(target, "").text(), "hello", "{target}");
    }
    gateway.logged("leaves its directory: the response is not saved");
    assert_eq!(client.get("/x?to=folder/", "").text(), "hello");
    gateway.logged("is the name of a directory: the response is not saved");
    assert_eq!(client.get("/x?to=inside", "").text(), "hello");
    until("a path inside is written", || (files(&gateway).len() == 1).then_some(()));
    assert!(!gateway.prefix().join("outside").exists());
}

#[test]
fn k16_an_alias_cut_inside_a_segment_cannot_lead_out() {
    let peer = Peer::saying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let text = "error_log stderr info; events {} http { server { listen {listen};
        location /i { alias saved/; proxy_pass http://{upstream:0}; proxy_store on; } } }";
    let gateway = Gateway::start(text, &[peer.address()]);
    assert_eq!(gateway.client().get("/i../outside", "").text(), "hello");
    gateway.logged("leaves its directory: the response is not saved");
    assert!(!gateway.prefix().join("outside").exists());
}

#[test]
fn k17_readers_never_find_a_part_of_a_file() {
    let peer = Peer::script(|mut talk| {
        while let Some(request) = talk.request() {
            let letter = request.target().rsplit('=').next().unwrap_or("a").to_owned();
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n{}", letter.repeat(300_000)));
        }
    });
    let gateway = saving("proxy_store on;", &peer);
    let path = gateway.prefix().join("saved/a");
    assert_eq!(gateway.client().get("/a?is=0", "").body.len(), 300_000);
    until("the first one is saved", || path.exists().then_some(()));
    std::thread::scope(|scope| {
        for number in 1..5 {
            let gateway = &gateway;
            scope.spawn(move || gateway.client().get(&format!("/a?is={number}"), "").body.len());
        }
        for _ in 0..200 {
            let bytes = std::fs::read(&path).unwrap();
            assert!(bytes.len() == 300_000 && bytes.iter().all(|byte| *byte == bytes[0]), "{} bytes", bytes.len());
        }
    });
    until("no temporary file is left", || (files(&gateway).len() == 1).then_some(()));
}
