//! K18-K22: caches of several processes: one folder, one size, one fetch, and news of what each has done.

use super::THREE;
use crate::support::{Instance, children, holdfast, lives, pid, until};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::{Peer, Request, Talk};

const SERVERS: &str = "proxy_cache_path cache levels=1 keys_zone=c:1m ZONE;
    map $request_method $purge { PURGE 1; default 0; }
    server { listen 127.0.0.1:PORT; location = /pid { return 200 $pid; }
    location / { proxy_pass http://UPSTREAM; proxy_cache c; proxy_cache_key $uri; proxy_cache_valid 200 1h;
        proxy_cache_purge $purge; add_header X-Cache $upstream_cache_status always; WORDS } }";

struct Cached {
    instance: Instance,
    peer: Peer,
    asked: Arc<AtomicUsize>,
}

impl Cached {
    /// An upstream that counts requests, and a cache before it; not started.
    fn new(zone: &str, words: &str, script: impl Fn(Talk, &AtomicUsize) + Send + Sync + 'static) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let peer = Peer::script(move |talk| script(talk, &count));
        let instance = Instance::new("", "");
        let servers = SERVERS.replace("ZONE", zone).replace("WORDS", words);
        instance.configure(THREE, &servers.replace("UPSTREAM", &peer.address().to_string()));
        Self { instance, peer, asked }
    }

    fn started(zone: &str, words: &str, script: impl Fn(Talk, &AtomicUsize) + Send + Sync + 'static) -> Self {
        let mut cached = Self::new(zone, words, script);
        cached.instance.start();
        until("all processes run", || cached.processes().len() == 3);
        cached
    }

    fn processes(&self) -> Vec<u32> {
        children(self.instance.pid_file().expect("it runs"))
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn connect(&self) -> Talk {
        Talk::connect(SocketAddr::from(([127, 0, 0, 1], self.instance.port)))
    }

    /// A connection to each of these processes.
    fn clients_of(&self, processes: &[u32]) -> BTreeMap<u32, Talk> {
        let (mut found, mut others) = (BTreeMap::new(), Vec::new());
        until("each process has a connection", || {
            let mut client = self.connect();
            let process = client.get("/pid", "").text().parse().expect("a process id");
            // An open connection makes its process less likely for the next one.
            others.extend(found.insert(process, client).into_iter().filter(|_| processes.contains(&process)));
            processes.iter().all(|process| found.contains_key(process))
        });
        found.retain(|process, _| processes.contains(process));
        found
    }

    /// A connection to each process.
    fn clients(&self) -> [Talk; 3] {
        let clients: Vec<Talk> = self.clients_of(&self.processes()).into_values().collect();
        clients.try_into().expect("three processes")
    }

    fn ctl(&self, words: &[&str]) -> Value {
        let socket = self.instance.path("logs/holdfast.ctl");
        let output = holdfast().arg("ctl").arg("--socket").arg(socket).args(words).arg("--json").output();
        let output = output.expect("it starts");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// The first line of `ctl cache`.
    fn zone(&self) -> Value {
        self.ctl(&["cache"])["caches"][0].clone()
    }

    fn files(&self) -> Vec<u64> {
        files(&self.instance.path("cache"))
    }

    /// A client has its response before the file is complete.
    fn until_files(&self, count: usize) {
        until("the files are complete", || self.files().len() == count);
    }

    fn disk_bytes(&self) -> u64 {
        self.files().iter().sum()
    }
}

/// The sizes of all complete files.
fn files(folder: &Path) -> Vec<u64> {
    let mut sizes = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => sizes.extend(files(&entry.path())),
            // Others are being written, or an index.
            Ok(metadata) if entry.file_name().len() == 32 => sizes.push(metadata.len()),
            // It was removed at this moment.
            Ok(_) | Err(_) => {}
        }
    }
    sizes
}

fn get(client: &mut Talk, target: &str) -> (String, String) {
    let response = client.get(target, "");
    (response.value("X-Cache").unwrap_or_default().to_owned(), response.text())
}

fn status(client: &mut Talk, target: &str) -> String {
    get(client, target).0
}

fn purge(client: &mut Talk, target: &str) -> u16 {
    client.send(format!("PURGE {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.response().status()
}

fn plain(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// Answers each request with its number.
fn numbered(mut talk: Talk, asked: &AtomicUsize) {
    while talk.request().is_some() {
        talk.send(plain("", &format!("response {}", asked.fetch_add(1, Ordering::SeqCst) + 1)));
    }
}

#[test]
fn stored_response_is_a_hit_in_all_processes() {
    let cached = Cached::started("", "", numbered);
    let mut clients = cached.clients();
    assert_eq!(get(&mut clients[0], "/a"), ("MISS".to_owned(), "response 1".to_owned()));
    cached.until_files(1);
    for client in &mut clients[1..] {
        assert_eq!(get(client, "/a"), ("HIT".to_owned(), "response 1".to_owned()));
    }
    // One installation: files are counted once, and requests are summed.
    let zone = cached.zone();
    assert_eq!([&zone["keys"], &zone["hits"], &zone["misses"]], [1, 2, 1], "{zone}");
    assert_eq!(zone["bytes"], 4096, "{zone}");
    // An index knows what its process was never asked for.
    assert_eq!(status(&mut clients[0], "/b"), "MISS");
    assert_eq!(status(&mut clients[1], "/c"), "MISS");
    cached.until_files(3);
    until("an index knows all of them", || cached.zone()["keys"] == 3);
    let list = cached.ctl(&["cache", "list", "c", "*"]);
    assert_eq!(list["matching"], 3, "{list}");
    assert_eq!(cached.asked(), 3);
}

#[test]
fn k18_a_thousand_misses_in_three_processes_are_one_request() {
    let go_on = testkit::Signal::new();
    let waits = go_on.clone();
    let words = "proxy_cache_lock on; proxy_cache_lock_age 1h; proxy_cache_lock_timeout 1h;";
    let mut cached = Cached::new("", words, move |mut talk, asked| {
        while talk.request().is_some() {
            asked.fetch_add(1, Ordering::SeqCst);
            talk.wait(&waits);
            talk.send(plain("", &"x".repeat(100_000)));
        }
    });
    // Room for all clients: each worker has 256 connections.
    let text = cached.instance.text("nginx.conf").replace("worker_processes 3", "worker_processes 9");
    std::fs::write(cached.instance.path("nginx.conf"), text).expect("written");
    let (_, hard) = reactor::descriptor_limit().expect("it has one");
    reactor::raise_descriptor_limit(hard).expect("raised");
    cached.instance.start();
    let mut clients: Vec<Talk> = (0..1000).map(|_| cached.connect()).collect();
    for client in &mut clients {
        client.send_get("/a", "");
    }
    until("all requests wait", || cached.ctl(&["status"])["serving"]["requests"]["under_way"].as_u64() >= Some(1000));
    go_on.raise();
    let mut statuses = BTreeMap::<String, usize>::new();
    for client in &mut clients {
        let response = client.response();
        assert_eq!((response.status(), response.body.len()), (200, 100_000));
        *statuses.entry(response.value("X-Cache").unwrap_or_default().to_owned()).or_default() += 1;
    }
    assert_eq!(cached.asked(), 1, "{statuses:?}");
    assert_eq!(statuses, BTreeMap::from([("HIT".to_owned(), 999), ("MISS".to_owned(), 1)]));
}

#[test]
fn k18_a_killed_process_gives_its_fetch_to_another_one() {
    let go_on = testkit::Signal::new();
    let waits = go_on.clone();
    let words = "proxy_cache_lock on; proxy_cache_lock_age 1h; proxy_cache_lock_timeout 1h;";
    let cached = Cached::started("", words, move |mut talk, asked| {
        while talk.request().is_some() {
            let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
            if number == 1 {
                talk.wait(&waits);
            }
            talk.send(plain("", &format!("response {number}")));
        }
    });
    let mut clients = cached.clients_of(&cached.processes());
    let (victim, mut first) = clients.pop_first().expect("three");
    first.send_get("/a", "");
    until("the first one asks", || cached.asked() == 1);
    for client in clients.values_mut() {
        client.send_get("/a", "");
    }
    assert!(clients.values_mut().all(|client| !client.receives_within(std::time::Duration::from_millis(300))));
    assert_eq!(cached.asked(), 1, "the others wait for it");
    kill(pid(victim), Signal::SIGKILL).expect("it lives");
    let mut statuses: Vec<_> = clients
        .values_mut()
        .map(|client| {
            let response = client.response();
            (response.value("X-Cache").unwrap_or_default().to_owned(), response.text())
        })
        .collect();
    statuses.sort();
    let expected = ["HIT", "MISS"].map(|status| (status.to_owned(), "response 2".to_owned()));
    assert_eq!(statuses, expected);
    go_on.raise();
}

#[test]
fn a_status_that_is_kept_is_kept_for_all() {
    // It accepts and closes: a 502, which is kept.
    let cached = Cached::started("", "proxy_cache_lock on; proxy_cache_valid any 1h;", |mut talk, asked| {
        if talk.request().is_some() {
            asked.fetch_add(1, Ordering::SeqCst);
        }
    });
    let [mut first, mut second, mut third] = cached.clients();
    assert_eq!(first.get("/a", "").status(), 502);
    let asked = cached.asked();
    for client in [&mut second, &mut third] {
        let response = client.get("/a", "");
        assert_eq!((response.status(), response.value("X-Cache")), (502, Some("HIT")));
    }
    assert_eq!(cached.asked(), asked);
}

#[test]
fn k19_a_purge_reaches_all_processes() {
    let vary = |request: &Request| {
        let language = request.value("Accept-Language").unwrap_or_default().to_owned();
        plain("Vary: Accept-Language\r\n", &format!("in {language}"))
    };
    let cached = Cached::started("", "", move |mut talk, asked| {
        while let Some(request) = talk.request() {
            asked.fetch_add(1, Ordering::SeqCst);
            talk.send(vary(&request));
        }
    });
    let mut clients = cached.clients();
    let ask = |client: &mut Talk, language: &str| {
        let response = client.get("/a", &format!("Accept-Language: {language}\r\n"));
        (response.value("X-Cache").unwrap_or_default().to_owned(), response.text())
    };
    let languages = ["de", "en", "fr"];
    // Each process stores a variant.
    let store = |clients: &mut [Talk; 3]| {
        for (at, (client, language)) in clients.iter_mut().zip(languages).enumerate() {
            assert_eq!(ask(client, language), ("MISS".to_owned(), format!("in {language}")));
            cached.until_files(at + 1);
        }
        until("all is told", || cached.zone()["bytes"] == 3 * 4096);
    };
    store(&mut clients);
    // A process removes variants that it was never asked for.
    assert_eq!(purge(&mut clients[2], "/a"), 204);
    assert!(cached.files().is_empty());
    let fill = |clients: &mut [Talk; 3]| {
        store(clients);
        for client in clients.iter_mut() {
            for language in languages {
                assert_eq!(ask(client, language), ("HIT".to_owned(), format!("in {language}")));
            }
        }
    };
    fill(&mut clients);
    assert_eq!(cached.zone()["keys"], 3);
    assert_eq!(purge(&mut clients[2], "/a"), 204);
    assert_eq!(purge(&mut clients[0], "/a"), 404, "it is gone for all");
    fill(&mut clients);
    let purged = cached.ctl(&["cache", "purge", "c", "/a"]);
    assert_eq!(purged["matching"], 3, "{purged}");
    fill(&mut clients);
    let purged = cached.ctl(&["cache", "purge", "c", "/*"]);
    assert_eq!((purged["matching"].clone(), cached.disk_bytes()), (3.into(), 0), "{purged}");
    fill(&mut clients);
    assert_eq!(cached.asked(), 15);
}

/// Fills the cache with files of 64 KB, through all these clients.
fn fill(clients: &mut [Talk], name: &str, count: usize) {
    for number in 0..count {
        for (at, client) in clients.iter_mut().enumerate() {
            assert_eq!(status(client, &format!("/{name}{number}-{at}")), "MISS");
        }
    }
}

const LIMIT: u64 = 1 << 20;

#[test]
fn k20_max_size_holds_for_all_processes_together() {
    let cached = Cached::started("max_size=1m", "", |mut talk, _| {
        while talk.request().is_some() {
            talk.send(plain("", &"x".repeat(64 * 1024)));
        }
    });
    let mut clients = cached.clients();
    assert_eq!(status(&mut clients[0], "/used"), "MISS");
    cached.until_files(1);
    // Each process stores less than the limit.
    for round in 0..12 {
        fill(&mut clients, &format!("r{round}-"), 1);
        let found: Vec<String> = clients.iter_mut().map(|client| status(client, "/used")).collect();
        assert!(found.iter().all(|status| status == "HIT"), "what is used stays: round {round}, {found:?}");
        // The process that removes files follows the others every 100 ms, and what it learns then counts as new.
        until("the limit holds", || cached.disk_bytes() <= LIMIT);
    }
    assert!(cached.disk_bytes() > LIMIT / 2, "not more than necessary is removed");
    until("it is known", || cached.zone()["bytes"].as_u64() <= Some(LIMIT));
    // The process that removed the files dies, as do all others but one.
    let before = cached.processes();
    for process in &before[..2] {
        kill(pid(*process), Signal::SIGKILL).expect("it lives");
        until("it is replaced", || {
            let now = cached.processes();
            now.len() == 3 && !now.contains(process)
        });
    }
    let mut clients = cached.clients();
    (0..3).for_each(|round| fill(&mut clients, &format!("s{round}-"), 4));
    until("the limit holds again", || cached.disk_bytes() <= LIMIT);
}

#[test]
fn k20_a_file_that_only_one_process_uses_stays() {
    // A busy machine may stop this test for a second or two.
    let cached = Cached::started("inactive=5s", "", numbered);
    let mut clients = cached.clients();
    assert_eq!(status(&mut clients[0], "/unused"), "MISS");
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(status(client, &format!("/used{at}")), "MISS");
    }
    cached.until_files(4);
    until("the file that no process uses is removed", || {
        for (at, client) in clients.iter_mut().enumerate() {
            assert_eq!(status(client, &format!("/used{at}")), "HIT");
        }
        cached.files().len() < 4
    });
    assert_eq!(cached.files().len(), 3);
    // Others know them, and they are still removed when no process uses them any more.
    assert_eq!(
        (status(&mut clients[0], "/used1"), status(&mut clients[2], "/used0")),
        ("HIT".to_owned(), "HIT".to_owned())
    );
    until("all are removed", || cached.files().is_empty());
}

#[test]
fn k21_renewed_response_is_fresh_in_all_processes() {
    let cached = Cached::started("", "proxy_cache_revalidate on;", |mut talk, asked| {
        while let Some(request) = talk.request() {
            asked.fetch_add(1, Ordering::SeqCst);
            match request.value("If-None-Match") {
                Some("\"v1\"") => {
                    talk.send("HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nCache-Control: max-age=1000\r\n\r\n");
                }
                _ => talk.send(plain("ETag: \"v1\"\r\nCache-Control: max-age=1\r\n", "one")),
            }
        }
    });
    let mut clients = cached.clients();
    assert_eq!(status(&mut clients[0], "/a"), "MISS");
    cached.until_files(1);
    until("it is stale, and renewed", || status(&mut clients[1], "/a") == "REVALIDATED");
    for client in &mut clients {
        assert_eq!(get(client, "/a"), ("HIT".to_owned(), "one".to_owned()));
    }
    assert_eq!(cached.asked(), 2);
}

#[test]
fn k21_one_process_renews_in_the_background_for_all() {
    let go_on = testkit::Signal::new();
    let waits = go_on.clone();
    let words = "proxy_cache_use_stale updating; proxy_cache_background_update on;";
    let cached = Cached::started("", words, move |mut talk, asked| {
        while talk.request().is_some() {
            let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
            let age = if number == 1 { 1 } else { 1000 };
            if number > 1 {
                talk.wait(&waits);
            }
            talk.send(plain(&format!("Cache-Control: max-age={age}\r\n"), &format!("response {number}")));
        }
    });
    let mut clients = cached.clients();
    assert_eq!(status(&mut clients[0], "/a"), "MISS");
    cached.until_files(1);
    until("it is stale", || status(&mut clients[1], "/a") == "STALE");
    until("it is asked for", || cached.asked() == 2);
    for client in &mut clients {
        assert_eq!(get(client, "/a"), ("UPDATING".to_owned(), "response 1".to_owned()));
    }
    go_on.raise();
    for client in &mut clients {
        until("the new response is there", || get(client, "/a") == ("HIT".to_owned(), "response 2".to_owned()));
    }
    assert_eq!(cached.asked(), 2);
}

#[test]
fn k22_an_upgrade_and_a_reload_keep_the_cache() {
    let cached = Cached::new("max_size=1m", "", |mut talk, asked| {
        while talk.request().is_some() {
            asked.fetch_add(1, Ordering::SeqCst);
            talk.send(plain("", &"x".repeat(64 * 1024)));
        }
    });
    let output = cached.instance.run(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let old = cached.instance.pid_file().expect("it runs");
    until("all processes run", || cached.processes().len() == 3);
    let before = cached.processes();
    let mut old_clients = cached.clients();
    assert_eq!(status(&mut old_clients[0], "/a"), "MISS");
    cached.until_files(1);
    kill(pid(old), Signal::SIGHUP).expect("it runs");
    cached.instance.wait_for_line("the new configuration holds");
    assert!(old_clients.iter_mut().all(|client| status(client, "/a") == "HIT"));
    kill(pid(old), Signal::SIGUSR2).expect("it runs");
    until("another program serves", || {
        cached.instance.text("logs/error.log").matches("holdfast serves").count() == 2
            && cached.instance.pid_file().is_some_and(|master| master != old)
            && cached.processes().len() == 3
    });
    // The old processes store another response when the new ones have read the folder.
    assert_eq!(status(&mut old_clients[0], "/b"), "MISS");
    cached.until_files(2);
    assert!(old_clients.iter_mut().all(|client| status(client, "/b") == "HIT"));
    kill(pid(old), Signal::SIGQUIT).expect("it runs");
    drop(old_clients);
    until("the old program has ended", || !lives(old) && before.iter().all(|process| !lives(*process)));
    let mut clients = cached.clients();
    for client in &mut clients {
        assert_eq!((status(client, "/a"), status(client, "/b")), ("HIT".to_owned(), "HIT".to_owned()));
    }
    assert_eq!(cached.asked(), 2);
    (0..3).for_each(|round| fill(&mut clients, &format!("r{round}-"), 4));
    until("the limit holds", || cached.disk_bytes() <= LIMIT);
    drop(clients);
    let new = cached.instance.pid_file().expect("it runs");
    cached.instance.signal("stop");
    until("the new program has ended", || !lives(new));
    assert!(cached.peer.connections() > 0);
}
