//! K1–K9: caches with truncated files, a full disk, or a small index; responses and requests that would poison them.

use cache::Key;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use testkit::{Gateway, Peer, Request, Signal, Talk, until};

/// A gateway with one cache; `zone` and `words` are added to it.
pub(super) fn cached(zone: &str, words: &str, peer: &Peer) -> Gateway {
    cached_at("cache levels=1:2", zone, words, peer)
}

/// The same with its files at this path, so that another gateway can have them afterwards.
fn cached_at(path: &str, zone: &str, words: &str, peer: &Peer) -> Gateway {
    let text = format!(
        "error_log stderr info; events {{ worker_connections 4096; }} http {{
            proxy_cache_path {path} keys_zone=one:1m {zone};
            add_header X-Cache $upstream_cache_status always;
            server {{ listen {{listen}}; location /status {{ status_page; }} location / {{
                proxy_pass http://{{upstream:0}}; proxy_cache one; proxy_cache_key $uri; proxy_cache_valid 200 1h; {words}
            }} }}
        }}"
    );
    Gateway::start(&text, &[peer.address()])
}

/// A figure of the cache.
pub(super) fn metric(gateway: &Gateway, name: &str) -> String {
    let page = gateway.client().get("/status/metrics", "").text();
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name}{{zone=\"one\"}} ")));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).to_owned()
}

/// An upstream that counts what it is asked.
fn counting(body: impl Fn(&Request, usize) -> Vec<u8> + Send + Sync + 'static) -> (Peer, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&count);
    let peer = Peer::answering(move |request| body(request, asked.fetch_add(1, Ordering::SeqCst) + 1));
    (peer, count)
}

fn plain(request: &Request, number: usize) -> Vec<u8> {
    let body = format!("response {number} to {}", request.target());
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// The cache status and the body of a response.
pub(super) fn get(client: &mut Talk, target: &str) -> (String, String) {
    let response = client.get(target, "");
    (response.value("X-Cache").unwrap_or_default().to_owned(), response.text())
}

pub(super) fn status_and_body(status: &str, body: &str) -> (String, String) {
    (status.to_owned(), body.to_owned())
}

/// The files of the cache.
pub(crate) fn files(gateway: &Gateway) -> Vec<PathBuf> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(&gateway.prefix().join("cache"), &mut found);
    found
}

/// Damages the bytes of a file.
type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);

#[test]
fn k01_truncated_or_changed_file_is_not_sent() {
    let (peer, _) = counting(plain);
    let gateway = cached("", "", &peer);
    let mut client = gateway.client();
    let mut number = 1;
    assert_eq!(get(&mut client, "/a"), status_and_body("MISS", "response 1 to /a"));
    assert_eq!(get(&mut client, "/a"), status_and_body("HIT", "response 1 to /a"));
    let whole = std::fs::read(&files(&gateway)[0]).unwrap();
    let damages: [Damage<'_>; 7] = [
        &|bytes| bytes.truncate(bytes.len() - 1),
        &|bytes| bytes.truncate(50),
        &|bytes| bytes.clear(),
        &|bytes| bytes.push(b'x'),
        &|bytes| bytes[30] ^= 1,
        &|bytes| bytes[120] ^= 1,
        &|bytes| bytes.fill(0),
    ];
    for damage in damages {
        let path = &files(&gateway)[0];
        let mut bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes.len(), whole.len());
        damage(&mut bytes);
        std::fs::write(path, bytes).unwrap();
        number += 1;
        let expected = format!("response {number} to /a");
        assert_eq!(get(&mut client, "/a"), status_and_body("MISS", &expected));
        assert_eq!(get(&mut client, "/a"), status_and_body("HIT", &expected));
    }
    gateway.logged("is not used: its checksum is wrong");
    assert_eq!(metric(&gateway, "holdfast_cache_bad_files_total"), "7");
}

#[test]
fn k02_a_disk_that_takes_nothing_costs_the_cache_alone() {
    let (peer, _) = counting(plain);
    let gateway = cached("", "", &peer);
    // The directory cannot be created: a file has its name.
    let place = gateway.prefix().join("cache");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::write(&place, "").unwrap();
    let mut client = gateway.client();
    for number in 1..=3 {
        assert_eq!(get(&mut client, "/a"), status_and_body("MISS", &format!("response {number} to /a")));
    }
    let line = gateway.logged("cannot be written");
    assert!(line.contains(" [crit] ") && line.contains("the response is not cached"), "{line}");
    // Files are written after their responses.
    let failed = || gateway.error_log().matches("cannot be written").count();
    until("the third response was not written", || (failed() == 3).then_some(()));
    assert_eq!(metric(&gateway, "holdfast_cache_write_failures_total"), "3");
    std::fs::remove_file(&place).unwrap();
    assert_eq!(get(&mut client, "/a"), status_and_body("MISS", "response 4 to /a"));
    assert_eq!(get(&mut client, "/a"), status_and_body("HIT", "response 4 to /a"), "it works again");
}

#[test]
fn k03_a_response_that_breaks_off_is_not_stored() {
    let peer = Peer::script(|mut talk| {
        if talk.request().is_some() {
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        }
    });
    let gateway = cached("", "", &peer);
    for _ in 0..2 {
        let mut client = gateway.client();
        client.send_get("/a", "");
        let (response, _) = client.cut_response();
        assert_eq!((response.value("X-Cache"), &*response.body), (Some("MISS"), &b"half"[..]));
    }
    until("no file is left", || files(&gateway).is_empty().then_some(()));
}

#[test]
fn k04_abandoned_response_is_stored_completely() {
    let (go_on, count) = (Signal::default(), Arc::new(AtomicUsize::new(0)));
    let (held, asked) = (go_on.clone(), Arc::clone(&count));
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            asked.fetch_add(1, Ordering::SeqCst);
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
            talk.wait(&held);
            talk.send("half");
        }
    });
    let gateway = cached("", "", &peer);
    let mut client = gateway.client();
    client.send_get("/a", "");
    client.expect("HTTP/1.1 200 OK\r\n");
    client.reset();
    go_on.raise();
    until("the response is stored", || (files(&gateway).len() == 1).then_some(()));
    let mut client = gateway.client();
    until("a hit", || {
        let (status, body) = get(&mut client, "/a");
        (status == "HIT" && body == "halfhalf").then_some(())
    });
}

#[test]
fn k05_a_thousand_misses_at_once_are_one_request() {
    let go_on = Signal::default();
    let held = go_on.clone();
    let count = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&count);
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            asked.fetch_add(1, Ordering::SeqCst);
            talk.wait(&held);
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nonce");
        }
    });
    let gateway = cached("", "proxy_cache_lock on; proxy_cache_lock_age 1h; proxy_cache_lock_timeout 1h;", &peer);
    let mut clients: Vec<_> = (0..1000).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send_get("/a", "");
    }
    gateway.until_totals("all of them are exchanges", |totals| totals.writing == 1000);
    go_on.raise();
    let mut statuses: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            let response = client.response();
            assert_eq!(response.text(), "once");
            response.value("X-Cache").unwrap_or_default().to_owned()
        })
        .collect();
    statuses.sort();
    assert_eq!((statuses.iter().filter(|status| *status == "MISS").count(), &*statuses[0]), (1, "HIT"));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn k05_waiting_requests_survive_the_first_ones_failure() {
    let count = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&count);
    let barrier = Arc::new(Barrier::new(2));
    let begun = Arc::clone(&barrier);
    let peer = Peer::script(move |mut talk| {
        while talk.request().is_some() {
            if asked.fetch_add(1, Ordering::SeqCst) == 0 {
                begun.wait();
                begun.wait();
                return;
            }
            talk.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let gateway = cached("", "proxy_cache_lock on; proxy_cache_lock_age 1h; proxy_cache_lock_timeout 1h;", &peer);
    let [mut first, mut second] = [gateway.client(), gateway.client()];
    first.send_get("/a", "");
    barrier.wait();
    second.send_get("/a", "");
    gateway.until_totals("both are exchanges", |totals| totals.writing == 2);
    barrier.wait();
    assert_eq!(first.response().status(), 502);
    assert_eq!(second.response().text(), "ok");
}

#[test]
fn k06_a_cache_stays_within_its_size() {
    let (peer, _) = counting(|_, _| {
        let body = "x".repeat(3000);
        format!("HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n{body}").into_bytes()
    });
    let gateway = cached("max_size=40k manager_sleep=10ms", "", &peer);
    let mut client = gateway.client();
    for number in 0..60 {
        assert_eq!(get(&mut client, &format!("/{number}")).0, "MISS");
    }
    until("the oldest ones are removed", || (files(&gateway).len() <= 10).then_some(()));
    assert_eq!(get(&mut client, "/59").0, "HIT", "the newest one stays");
}

#[test]
fn k06_a_cache_leaves_room_on_its_disk() {
    testkit::with_own_mounts(|| {
        let (peer, _) = counting(|_, _| {
            let body = "x".repeat(3000);
            format!("HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n{body}").into_bytes()
        });
        let gateway = cached("min_free=64k manager_sleep=10ms", "", &peer);
        let _disk = testkit::SmallDisk::mount(&gateway.prefix().join("cache"), 256 * 1024);
        let mut client = gateway.client();
        for number in 0..60 {
            assert_eq!(get(&mut client, &format!("/{number}")).0, "MISS");
        }
        // A file has one block of 4 KB.
        until("64 KB are free", || (files(&gateway).len() <= 48).then_some(()));
        assert_eq!(get(&mut client, "/59").0, "HIT", "the newest one stays");
    });
}

#[test]
fn k06_unused_responses_are_removed() {
    let (peer, _) = counting(plain);
    let gateway = cached("inactive=1s manager_sleep=10ms", "", &peer);
    let mut client = gateway.client();
    // The second answer comes when the first one is stored.
    assert_eq!([get(&mut client, "/a").0, get(&mut client, "/a").0], ["MISS", "HIT"]);
    until("it is removed", || files(&gateway).is_empty().then_some(()));
    assert_eq!(get(&mut client, "/a"), status_and_body("MISS", "response 2 to /a"));
}

/// Stores the responses to /a, /b and /c in the folder, and returns their files.
fn three_files_in(folder: &Path, peer: &Peer) -> Vec<PathBuf> {
    let gateway = cached_at(&folder.display().to_string(), "", "", peer);
    for target in ["/a", "/b", "/c"] {
        gateway.client().get(target, "");
    }
    until("they are stored", || {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let whole = entries.filter(|entry| Key::from_hex(entry.file_name().as_encoded_bytes()).is_some());
        Some(whole.map(|entry| entry.path()).collect::<Vec<_>>()).filter(|files| files.len() == 3)
    })
}

#[test]
fn k07_files_outlive_the_process_and_are_counted_again() {
    let (peer, count) = counting(plain);
    let folder = tempfile::tempdir().unwrap();
    three_files_in(folder.path(), &peer);
    let second = cached_at(&folder.path().display().to_string(), "loader_files=1 loader_sleep=100ms", "", &peer);
    assert_eq!(get(&mut second.client(), "/b"), status_and_body("HIT", "response 2 to /b"), "at once");
    assert_eq!(count.load(Ordering::SeqCst), 3, "the upstream was not asked again");
    until("all are counted", || (metric(&second, "holdfast_cache_keys") == "3").then_some(()));
}

#[test]
fn k07_walk_keeps_foreign_files_and_removes_damaged_ones() {
    let (peer, _) = counting(plain);
    let folder = tempfile::tempdir().unwrap();
    let files = three_files_in(folder.path(), &peer);
    // A file of nginx, one that a power failure has left, and one that is whole.
    let nginx = [&[5, 0, 0, 0, 0, 0, 0, 0, 0x80][..], &[0; 300], b"\nKEY: /a\nHTTP/1.1 200 OK\r\n\r\nbody"].concat();
    std::fs::write(&files[0], &nginx).unwrap();
    std::fs::write(&files[1], [0; 500]).unwrap();
    std::fs::write(folder.path().join("index.snapshot"), "garbage").unwrap();
    let second = cached_at(&folder.path().display().to_string(), "", "", &peer);
    let line = second.logged("are not of Holdfast");
    assert!(line.contains(" [warn] ") && line.contains("cache \"one\": 1 files in"), "{line}");
    assert!(second.logged("damaged files in").contains("cache \"one\": 1 damaged files"));
    assert!(second.logged("index.snapshot\" is not used").contains("it has no header of this version"));
    let counted = ["holdfast_cache_foreign_files", "holdfast_cache_bad_files_total"].map(|name| metric(&second, name));
    assert_eq!(counted, ["1", "1"]);
    assert_eq!(std::fs::read(&files[0]).unwrap(), nginx);
    assert!(!files[1].exists() && files[2].exists());
}

#[test]
fn k08_hostile_vary_and_huge_heads_are_not_stored() {
    let (peer, _) = counting(|request, number| {
        let field = match request.target() {
            "/star" => "Vary: *".to_owned(),
            "/list" => format!("Vary: {}", "a,".repeat(200)),
            "/mixed" => "Vary: Accept, *".to_owned(),
            _ => format!("X-Long: {}", "x".repeat(3500)),
        };
        format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{field}\r\n\r\n{}", number % 10).into_bytes()
    });
    let gateway = cached("", "", &peer);
    let mut client = gateway.client();
    for target in ["/star", "/list", "/mixed"] {
        assert_eq!([get(&mut client, target).0, get(&mut client, target).0], ["MISS", "MISS"], "{target}");
    }
    assert_eq!([get(&mut client, "/long").0, get(&mut client, "/long").0], ["MISS", "HIT"]);
    // A key so long that the buffer has no room for the head.
    let long = format!("/{}", "k".repeat(3800));
    assert_eq!(get(&mut client, &long).0, "");
    gateway.logged("proxy_buffer_size 4096 is not enough for cache key, it should be increased to at least");
}

#[test]
fn k09_private_responses_are_not_stored() {
    let (peer, _) = counting(|request, number| {
        let control = match request.target() {
            "/public" => "Cache-Control: public\r\n",
            _ => "",
        };
        format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n{control}\r\n{number}").into_bytes()
    });
    let gateway = cached("", "", &peer);
    let mut client = gateway.client();
    let mut status =
        |target: &str, fields: &str| client.get(target, fields).value("X-Cache").unwrap_or_default().to_owned();
    let authorized = "Authorization: Basic eDp5\r\n";
    assert_eq!([status("/a", authorized), status("/a", authorized), status("/a", "")], ["MISS", "MISS", "MISS"]);
    assert_eq!(status("/a", authorized), "HIT", "it was stored for everybody");
    assert_eq!([status("/public", authorized), status("/public", "")], ["MISS", "HIT"]);
    let told = cached("", "proxy_cache_authorization on;", &peer);
    let mut client = told.client();
    let mut status =
        |target: &str, fields: &str| client.get(target, fields).value("X-Cache").unwrap_or_default().to_owned();
    assert_eq!([status("/a", authorized), status("/a", "")], ["MISS", "HIT"]);
}

/// As `holdfast ingress` writes it for `auth-cache-key`.
#[test]
fn cached_answers_of_auth_request_have_no_credentials_in_files() {
    let (peer, asked) = counting(|request, number| {
        let is_known = request.value("authorization") == Some("Bearer known");
        let status = match request.target() {
            "/check" if !is_known => "401 Unauthorized",
            _ => "200 OK",
        };
        let user = request.value("x-user").unwrap_or_default();
        let body = format!("{user}.{}", request.target());
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nX-User: user-{number}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
    });
    let conf = "events {} http { access_log off;
        proxy_cache_path cache levels=1:2 keys_zone=one:1m;
        server { listen {listen};
            location / {
                auth_request /check; auth_request_set $user $upstream_http_x_user;
                proxy_set_header X-User $user; proxy_pass http://{upstream:0};
            }
            location = /check {
                internal; proxy_pass_request_body off; proxy_set_header Content-Length '';
                proxy_cache one; proxy_cache_key '$server_name $http_authorization'; proxy_cache_key_digest on;
                proxy_cache_authorization on; proxy_cache_valid 200 401 5m; proxy_pass http://{upstream:0}/check;
            }
        } }";
    let gateway = Gateway::start(conf, &[peer.address()]);
    let mut client = gateway.client();
    let known = "Authorization: Bearer known\r\n";
    assert_eq!(client.get("/a", known).text(), "user-1./a");
    assert_eq!(client.get("/b", known).text(), "user-1./b", "its fields come from the cache");
    for _ in 0..2 {
        assert_eq!(client.get("/a", "Authorization: Bearer other\r\n").status(), 401);
    }
    assert_eq!(client.get("/a", "").status(), 401, "another key");
    assert_eq!(client.get("/c", known).text(), "user-1./c");
    assert_eq!(asked.load(Ordering::SeqCst), 6, "three questions and three requests");
    let files = files(&gateway);
    assert_eq!(files.len(), 3);
    let digest = tls::digest(b" Bearer known").map(|byte| format!("{byte:02x}")).concat();
    let texts: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    let has = |text: &Vec<u8>, part: &str| text.windows(part.len()).any(|window| window == part.as_bytes());
    assert!(texts.iter().all(|text| !has(text, "Bearer")), "credentials are in a file");
    assert_eq!(texts.iter().filter(|text| has(text, &digest)).count(), 1);
    assert!(
        files.iter().any(|file| file.ends_with(String::from_utf8_lossy(&Key::of(digest.as_bytes()).hex()).as_ref()))
    );
}

#[test]
fn a_purge_removes_a_response_with_its_variants() {
    let (peer, _) = counting(|_, number| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nVary: Accept\r\n\r\n{number}").into_bytes()
    });
    let gateway = cached("", "proxy_cache_purge $http_x_purge;", &peer);
    let mut client = gateway.client();
    let mut ask = |fields: &str| client.get("/a", fields);
    for accept in ["Accept: a\r\n", "Accept: b\r\n"] {
        assert_eq!(ask(accept).value("X-Cache"), Some("MISS"));
        assert_eq!(ask(accept).value("X-Cache"), Some("HIT"));
    }
    assert_eq!(files(&gateway).len(), 2);
    assert_eq!(ask("X-Purge: 1\r\n").status(), 204);
    assert!(files(&gateway).is_empty());
    assert_eq!(ask("X-Purge: 1\r\n").status(), 404);
    assert_eq!(ask("Accept: b\r\n").value("X-Cache"), Some("MISS"));
}

#[test]
fn hits_of_every_size_come_whole_and_in_part() {
    let peer = Peer::answering(|request| {
        let mut parts = request.target().trim_start_matches('/').split('-').map(|part| part.parse().unwrap());
        let (size, field): (usize, usize) = (parts.next().unwrap(), parts.next().unwrap());
        let body: String = (0..size).map(|at| char::from(b'a' + (at / 7 % 26) as u8)).collect();
        let field = "f".repeat(field);
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nAccept-Ranges: bytes\r\nX-Long: {field}\r\n\r\n");
        (head + &body).into_bytes()
    });
    for sendfile in ["off", "on"] {
        let words = format!("proxy_buffer_size 16k; proxy_buffers 8 16k; limit_rate $arg_rate; sendfile {sendfile};");
        hits_come_whole_and_in_part(&cached("", &words, &peer), sendfile);
    }
}

fn hits_come_whole_and_in_part(gateway: &Gateway, sendfile: &str) {
    let mut client = gateway.client();
    // Around what is read with the head (4 KB of a large file, 20 KB of another one), and what one `sendfile` moves.
    for size in [0, 1, 3_500, 4_096, 16_384, 16_385, 19_900, 20_000, 20_480, 20_481, 61_000, 65_536, 70_000, 3_000_000]
    {
        for field in [1, 6_000] {
            let target = format!("/{size}-{field}");
            let whole = client.get(&target, "").text();
            assert_eq!(whole.len(), size);
            let hit = client.get(&target, "");
            let what = format!("{target}, sendfile {sendfile}");
            assert_eq!((hit.value("X-Cache"), hit.text() == whole), (Some("HIT"), true), "{what}");
            assert!(client.get(&format!("{target}?rate=100m"), "").text() == whole, "{what}, with a rate");
            for (from, to) in [(0, 0), (0, 99), (100, 5_000), (4_000, 30_000), (1, 2_999_999)] {
                if to < size {
                    let part = client.get(&target, &format!("Range: bytes={from}-{to}\r\n"));
                    assert_eq!((part.status(), part.text() == whole[from..=to]), (206, true), "{what}, {from}-{to}");
                }
            }
        }
    }
}

#[test]
fn open_file_cache_notices_changes_and_expires() {
    let (peer, count) = counting(plain);
    let gateway = cached("", "", &peer);
    let mut client = gateway.client();
    let open = || {
        let prefix = gateway.prefix().join("cache");
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        links.filter_map(|link| std::fs::read_link(link.path()).ok()).filter(|path| path.starts_with(&prefix)).count()
    };
    let mut ask = || get(&mut client, "/a");
    assert_eq!(ask(), status_and_body("MISS", "response 1 to /a"));
    assert_eq!(ask(), status_and_body("HIT", "response 1 to /a"));
    assert_eq!(ask(), status_and_body("HIT", "response 1 to /a"));
    assert_eq!(open(), 1, "the file of a response in use stays open");
    let [file] = files(&gateway).try_into().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(ask(), status_and_body("MISS", "response 2 to /a"), "an administrator has removed it");
    assert_eq!(ask(), status_and_body("HIT", "response 2 to /a"));
    // Another process stores a response: its file takes the place of this one.
    let bytes = std::fs::read(&file).unwrap();
    let other = file.with_extension("new");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let at = text.rfind("response 2").unwrap();
    let mut changed = bytes.clone();
    let end = changed.len() - (text.len() - at) + "response ".len();
    changed[end] = b'7';
    std::fs::write(&other, &changed).unwrap();
    std::fs::rename(&other, &file).unwrap();
    assert_eq!(ask(), status_and_body("HIT", "response 7 to /a"));
    assert_eq!(count.load(Ordering::SeqCst), 2);
    until("the file is closed when it is not used", || (open() == 0).then_some(()));
    assert_eq!(ask(), status_and_body("HIT", "response 7 to /a"));
}
