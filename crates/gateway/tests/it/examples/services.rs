//! Services that depend on unchanged paths, fields or cookies.

use crate::examples::run::{Example, answer, named, summary};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::{Peer, Refusing, until};

#[test]
fn keycloak_lives_below_a_path_that_it_does_not_know() {
    let peer = Peer::answering(|request| match request.target() {
        "/login" => answer("", "Location: /realms/a\r\nSet-Cookie: s=1; Path=/\r\n"),
        "/away" => answer("", "Location: http://keycloak:8080/realms/b?c=d\r\n"),
        "/known" => answer("", "Location: http://login.example/auth/x\r\n"),
        _ => answer(&summary("keycloak", request), ""),
    });
    let site = Example::start("keycloak.conf", &[("127.0.0.1:9025", peer.address())], &[]);
    assert_eq!(site.get("/", "").value("Location"), Some("/auth/"));
    assert_eq!(site.get("/auth?x=y", "").value("Location"), Some("/auth/?x=y"));
    let page = site.get("/auth/realms/a%20b?c=d", "X-Forwarded-Proto: https\r\n").text();
    assert!(page.starts_with("keycloak: GET /realms/a%20b?c=d\n"), "{page}");
    assert!(page.contains("x-forwarded-prefix: /auth\n") && page.contains("x-forwarded-proto: https\n"), "{page}");
    let login = site.get("/auth/login", "");
    assert_eq!(login.value("Location"), Some("/auth/realms/a"));
    assert_eq!(login.value("Set-Cookie"), Some("s=1; Path=/auth/; HttpOnly; SameSite=Lax"));
    assert_eq!(site.get("/auth/away", "").value("Location"), Some("/auth/realms/b?c=d"));
    assert_eq!(site.get("/auth/known", "").value("Location"), Some("http://login.example/auth/x"));
    assert!(site.get("/auth/resources/x.js", "").value("Expires").is_some());
    assert_eq!(site.get("/auth/metrics", "").status(), 404);
    assert_eq!(site.get("/auth/admin/x", "").status(), 200);
    assert_eq!(site.get("/auth/admin/x", "X-Forwarded-For: 192.0.2.7, 10.0.0.1\r\n").status(), 403);
    let cookies = site.get("/auth/x", &format!("Cookie: c={}\r\n", "c".repeat(33_000)));
    assert_eq!((cookies.status(), cookies.value("Content-Type")), (431, Some("text/plain")));
    assert!(cookies.text().contains("more cookies than this site takes"), "{}", cookies.text());
}

#[test]
fn a_matrix_client_stays_with_its_worker() {
    let (main, one, other) = (named("main"), named("one"), named("other"));
    let peers =
        [("127.0.0.1:9026", main.address()), ("127.0.0.1:9027", one.address()), ("127.0.0.1:9028", other.address())];
    let files = [("html/index.html", "client"), ("html/bundles/a.js", "js")];
    let site = Example::start("matrix.conf", &peers, &files);
    let worker = |token: usize| {
        let text = site.get("/_matrix/client/v3/sync?since=1", &format!("Authorization: Bearer t{token}\r\n")).text();
        assert!(text.contains("/_matrix/client/v3/sync?since=1\n"), "{text}");
        text.split(':').next().unwrap_or_default().to_owned()
    };
    let workers: Vec<String> = (0..40).map(worker).collect();
    assert!(workers.iter().any(|name| name == "one") && workers.iter().any(|name| name == "other"), "{workers:?}");
    assert_eq!((0..40).map(worker).collect::<Vec<_>>(), workers, "always the same");
    let media = site.get("/_matrix/media/v3/download/a/b%2Fc", "").text();
    assert!(media.starts_with("main: GET /_matrix/media/v3/download/a/b%2Fc\n"), "{media}");
    assert_eq!(site.get("/_synapse/admin/v1/users", "").status(), 404);
    assert_eq!(site.get("/_matrix", "").status(), 200);
    let server = site.get("/.well-known/matrix/server", "");
    assert_eq!(
        (server.value("Content-Type"), server.text().as_str()),
        (Some("application/json"), "{\"m.server\": \"matrix.example:443\"}")
    );
    let asked = site.ask("OPTIONS /.well-known/matrix/client HTTP/1.1\r\nHost: matrix.example\r\n\r\n");
    assert_eq!((asked.status(), asked.value("Access-Control-Allow-Origin")), (204, Some("*")));
    let page = site.get("/room/!a:b", "");
    assert_eq!((page.text().as_str(), page.value("Cache-Control")), ("client", Some("no-cache")));
    assert_eq!(site.get("/bundles/a.js", "").text(), "js");
    assert_eq!(site.get("/bundles/none.js", "").status(), 404);
}

#[test]
fn a_signed_request_reaches_the_store_as_it_was_sent() {
    let (store, console) = (named("store"), named("console"));
    let peers = [("127.0.0.1:9029", store.address()), ("127.0.0.1:9030", console.address())];
    let site = Example::start("object-store.conf", &peers, &[]);
    let text = site.get("/bucket//a%2Fb/../c%20?prefix=a%2F&x", "x-amz-meta-my.note: 1\r\nx_under: 2\r\n").text();
    assert!(text.starts_with("store: GET /bucket//a%2Fb/../c%20?prefix=a%2F&x\n"), "{text}");
    assert!(text.contains("x-amz-meta-my.note: 1\n") && text.contains("x_under: 2\n"), "{text}");
    let upload = site.ask(
        "PUT /bucket/key HTTP/1.1\r\nHost: store.example\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n\
         4\r\npart\r\n0\r\n\r\n",
    );
    // It arrived completely with its head, so it has a length.
    assert!(upload.text().contains("content-length: 4\n"), "{}", upload.text());
    let page = site.get("/console/buckets?x", "").text();
    assert!(page.starts_with("console: GET /buckets?x\n"), "{page}");

    let down = Refusing::new();
    let peers = [("127.0.0.1:9029", down.address()), ("127.0.0.1:9030", console.address())];
    let site = Example::start("object-store.conf", &peers, &[]);
    let answer = site.get("/bucket/key", "");
    assert_eq!((answer.status(), answer.value("Retry-After")), (503, Some("2")));
    assert!(answer.text().contains("<Code>SlowDown</Code><Resource>/bucket/key</Resource>"), "{}", answer.text());
}

#[test]
fn a_cached_api_is_answered_without_its_service() {
    let service = Peer::answering(|request| answer(&summary("service", request), ""));
    let site = Example::start("cached-api.conf", &[("127.0.0.1:9041", service.address())], &[]);
    let status = |target: &str| site.get(target, "").value("X-Cache").map(str::to_owned);
    assert_eq!([status("/items/1"), status("/items/1")].map(Option::unwrap_or_default), ["MISS", "HIT"]);
    assert_eq!((status("/me/a"), status("/me/a")), (None, None));
    let purge = |target: &str| site.ask(&format!("PURGE {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")).status();
    assert_eq!([purge("/items/1"), purge("/items/1")], [204, 404]);
    assert_eq!(status("/items/1").as_deref(), Some("MISS"));
    assert_eq!(service.requests().len(), 4);
}

#[test]
fn a_cached_api_keeps_its_promise_when_the_service_fails() {
    let fails = Arc::new(AtomicBool::new(false));
    let is_down = Arc::clone(&fails);
    let service = Peer::script(move |mut talk| {
        while let Some(request) = talk.request() {
            if is_down.load(Ordering::SeqCst) {
                return;
            }
            talk.send(answer(request.target(), "Cache-Control: max-age=1\r\n"));
        }
    });
    let site = Example::start("cached-api.conf", &[("127.0.0.1:9041", service.address())], &[]);
    let ask = |target: &str| {
        let response = site.get(target, "");
        (response.status(), response.value("X-Cache").unwrap_or_default().to_owned(), response.text())
    };
    let pair = |state: &str, target: &str| (200, state.to_owned(), target.to_owned());
    assert_eq!(ask("/items/2"), pair("MISS", "/items/2"));
    fails.store(true, Ordering::SeqCst);
    assert_eq!(ask("/items/3").0, 502, "it was not asked for before");
    // After its time, while the service is down: the requests that renew it fail in the background.
    let stale = pair("STALE", "/items/2");
    let seen = until("it is stale", || Some(ask("/items/2")).filter(|seen| seen.1 != "HIT"));
    assert_eq!(seen, stale);
    for _ in 0..5 {
        let (status, state, text) = ask("/items/2");
        assert_eq!((status, &*text), (200, "/items/2"));
        assert!(state == "STALE" || state == "UPDATING", "{state}");
    }
    fails.store(false, Ordering::SeqCst);
    until("it is renewed", || (ask("/items/2") == pair("HIT", "/items/2")).then_some(()));
}
