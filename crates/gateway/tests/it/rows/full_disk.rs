//! K2: a disk that is full or fails costs the cache only. The first request, those that wait for it (`proxy_cache_lock`)
//! and those that read along get whole responses.

use super::caches::{cached, files, get, status_and_body};
use super::collapse::{LOCK, pattern};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use testkit::{Gateway, Peer, Signal, SmallDisk, Talk, until, with_own_mounts};

const KB: usize = 1024;

/// Makes the folder of a cache useless: a file has its name.
fn replace_folder(gateway: &Gateway) {
    let place = gateway.prefix().join("cache");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::write(&place, "").unwrap();
}

/// An upstream with a response of this many bytes, which comes when all of `together` requests have. It counts requests.
fn together(bytes: usize, together: usize) -> (Peer, Arc<AtomicUsize>) {
    let (all, count) = (Barrier::new(together), Arc::new(AtomicUsize::new(0)));
    let (asked, body) = (Arc::clone(&count), pattern(bytes));
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            // The first request comes alone: the others wait for its response.
            let number = asked.fetch_add(1, Ordering::SeqCst);
            if (1..=together).contains(&number) {
                all.wait();
            }
            talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()));
            talk.send(&body);
        }
    });
    (peer, count)
}

/// All clients ask at once, and get the whole response, each from the upstream: those behind the first one at the same time.
fn all_are_served(gateway: &Gateway, bytes: usize, count: &AtomicUsize, clients: usize) {
    let mut clients: Vec<_> = (0..clients).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send_get("/a", "");
    }
    for client in &mut clients {
        let response = client.response();
        assert_eq!((response.status(), response.value("X-Cache")), (200, Some("MISS")));
        assert!(response.body == pattern(bytes));
    }
    assert_eq!(count.load(Ordering::SeqCst), clients.len());
}

#[test]
fn k02_waiting_requests_ask_the_upstream_without_a_folder() {
    for bytes in [20, 200_000] {
        let (peer, count) = together(bytes, 9);
        let gateway = cached("", LOCK, &peer);
        replace_folder(&gateway);
        all_are_served(&gateway, bytes, &count, 10);
        assert!(gateway.logged("cannot be written").contains("Not a directory"));
        let failed = || gateway.error_log().matches("cannot be written").count();
        until("all writes have failed", || (failed() == 10).then_some(()));
        std::fs::remove_file(gateway.prefix().join("cache")).unwrap();
        let mut client = gateway.client();
        assert_eq!(get(&mut client, "/a").0, "MISS");
        until("it is stored again", || (get(&mut client, "/a").0 == "HIT").then_some(()));
    }
}

#[test]
fn k02_requests_that_wait_ask_the_upstream_if_the_disk_is_full() {
    with_own_mounts(|| {
        let (peer, count) = together(200_000, 9);
        let gateway = cached("", LOCK, &peer);
        let disk = SmallDisk::mount(&gateway.prefix().join("cache"), 64 * KB);
        all_are_served(&gateway, 200_000, &count, 10);
        assert!(gateway.logged("cannot be written").contains("No space left on device"));
        let failed = || gateway.error_log().matches("cannot be written").count();
        until("all writes have failed", || (failed() == 10).then_some(()));
        until("no file is left", || files(&gateway).is_empty().then_some(()));
        disk.resize(512 * KB);
        let mut client = gateway.client();
        assert_eq!(get(&mut client, "/a").0, "MISS");
        until("it is stored again", || (get(&mut client, "/a").0 == "HIT").then_some(()));
    });
}

/// An upstream without a stated length that sends `first` bytes, and the others after the signal. It also counts what it has
/// sent of them.
pub(crate) fn without_length(first: usize, body: Arc<Vec<u8>>) -> (Peer, Signal, Arc<AtomicUsize>) {
    let (go_on, sent) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
    let (held, told) = (go_on.clone(), Arc::clone(&sent));
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            let (first, second) = body.split_at(first);
            talk.send(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len()));
            talk.send(first);
            talk.wait(&held);
            for piece in second.chunks(64 * KB) {
                talk.send(piece);
                told.fetch_add(piece.len(), Ordering::SeqCst);
            }
            talk.send("\r\n0\r\n\r\n");
        }
    });
    (peer, go_on, sent)
}

/// Asks for a response without chunks.
fn begin(gateway: &Gateway, status: &str) -> Talk {
    let mut client = gateway.client();
    client.send("GET /a HTTP/1.0\r\nHost: x\r\n\r\n");
    assert_eq!(client.head().unwrap().value("X-Cache"), Some(status));
    client
}

/// A gateway whose cache has a disk of 64 KB.
pub(crate) fn on_a_small_disk(main: &str, peer: &Peer) -> (Gateway, SmallDisk) {
    let text = format!(
        "{main} error_log stderr info; events {{}} http {{
            proxy_cache_path cache levels=1:2 keys_zone=one:1m;
            add_header X-Cache $upstream_cache_status always;
            server {{ listen {{listen}}; http2 on; location / {{
                proxy_pass http://{{upstream:0}}; proxy_cache one; proxy_cache_key $uri; proxy_cache_valid 200 1h; {LOCK}
            }} }}
        }}"
    );
    let gateway = Gateway::start(&text, &[peer.address()]);
    let disk = SmallDisk::mount(&gateway.prefix().join("cache"), 64 * KB);
    (gateway, disk)
}

/// The disk fills while several clients read along, one of them slowly: all get the whole response, and only a bounded
/// part of it waits for the slow ones.
fn fills_in_the_middle(main: &str, slow_first: bool) {
    const BYTES: usize = 32 << 20;
    let body = Arc::new(pattern(BYTES));
    let (peer, go_on, sent) = without_length(30_000, Arc::clone(&body));
    let (gateway, disk) = on_a_small_disk(main, &peer);
    let first = begin(&gateway, "MISS");
    let mut leaves = begin(&gateway, "HIT");
    let second = begin(&gateway, "HIT");
    let mut eager = begin(&gateway, "HIT");
    let (mut slow, mut fast) = if slow_first { (first, second) } else { (second, first) };
    assert!(eager.read(30_000) == body[..30_000], "out of the file");
    go_on.raise();
    gateway.logged("No space left on device");
    std::thread::scope(|scope| {
        let rest = scope.spawn(|| eager.read(BYTES - 30_000));
        let all = scope.spawn(|| fast.read(BYTES));
        assert!(leaves.read(1000) == body[..1000]);
        // They stop: the slow client reads nothing, and what it lacks is kept for it.
        let mut last = 0;
        until("the upstream is not read any more", || {
            std::thread::park_timeout(std::time::Duration::from_millis(300));
            let now = sent.load(Ordering::SeqCst);
            (std::mem::replace(&mut last, now) == now && now > 0).then_some(())
        });
        assert!(last < BYTES - 30_000, "all of it was read");
        leaves.reset();
        assert!(slow.read(BYTES) == *body, "the slow client");
        assert!(rest.join().unwrap() == body[30_000..], "the eager client");
        assert!(all.join().unwrap() == *body, "the other client");
    });
    until("no file is left", || files(&gateway).is_empty().then_some(()));
    gateway.until_totals("all of them have ended", |totals| totals.writing == 0);
    disk.resize(64 << 20);
    assert!(begin(&gateway, "MISS").read(BYTES) == *body);
    until("it is stored again", || (files(&gateway).len() == 1).then_some(()));
    assert!(begin(&gateway, "HIT").read(BYTES) == *body);
}

#[test]
fn k02_filling_disk_does_not_cut_a_slow_first_client() {
    with_own_mounts(|| fills_in_the_middle("", true));
}

#[test]
fn k02_filling_disk_does_not_cut_a_slow_follower() {
    with_own_mounts(|| fills_in_the_middle("", false));
}

#[test]
fn k02_filling_disk_and_short_memory_cut_no_client() {
    with_own_mounts(|| fills_in_the_middle("memory_budget 1m;", true));
}

#[test]
fn k02_a_file_that_cannot_get_its_name_cuts_no_client() {
    for sendfile in ["off", "on"] {
        a_name_is_taken(sendfile);
    }
}

fn a_name_is_taken(sendfile: &str) {
    let body = pattern(100_000);
    let (go_on, sent) = (Signal::new(), body.clone());
    let held = go_on.clone();
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
            talk.send(&sent[..50_000]);
            talk.wait(&held);
            talk.send(&sent[50_000..]);
        }
    });
    let gateway = cached("", &format!("{LOCK} sendfile {sendfile};"), &peer);
    let mut clients = [begin(&gateway, "MISS"), begin(&gateway, "HIT")];
    // The temporary file shows the final name, which is given to a directory.
    let temporary = until("the file", || files(&gateway).pop());
    let name = temporary.file_name().unwrap().to_str().unwrap().split('.').next().unwrap();
    std::fs::create_dir(temporary.with_file_name(name)).unwrap();
    for client in &mut clients {
        assert!(client.read(50_000) == body[..50_000], "out of the file");
    }
    go_on.raise();
    for client in &mut clients {
        assert!(client.read(50_000) == body[50_000..], "from memory");
    }
    assert!(gateway.logged("cannot be written").contains("Is a directory"));
    assert_eq!(get(&mut gateway.client(), "/b"), status_and_body("MISS", std::str::from_utf8(&body).unwrap()));
}
