//! Applications behind the gateway: which server gets a request, and in which form.

use crate::examples::run::{Example, answer, named, summary};
use testkit::{Peer, Refusing};

#[test]
fn a_single_page_application_and_its_api() {
    let (v1, v2) = (named("v1"), named("v2"));
    let peers = [("127.0.0.1:9012", v1.address()), ("127.0.0.1:9013", v2.address())];
    let site = Example::start("spa-api.conf", &peers, &[("html/index.html", "app"), ("html/assets/a.1f.js", "js")]);
    let page = site.get("/settings/profile", "");
    assert_eq!((page.text(), page.value("Cache-Control")), ("app".to_owned(), Some("no-cache")));
    assert_eq!(site.get("/assets/a.1f.js", "").status(), 200);
    assert_eq!(site.get("/assets/none.js", "").status(), 404);
    assert!(site.get("/api/users/1?full=1", "").text().starts_with("v1: GET /users/1?full=1\n"));
    let second = site.get("/api/users", "Accept: application/vnd.app.v2+json\r\nOrigin: http://app.example\r\n");
    assert!(second.text().starts_with("v2: GET /users\n"), "{}", second.text());
    assert_eq!(second.value("Access-Control-Allow-Origin"), Some("http://app.example"));
    let foreign = site.get("/api/users", "Origin: http://evil.example\r\n");
    assert_eq!(foreign.value("Access-Control-Allow-Origin"), None);
    let asked = "OPTIONS /api/x HTTP/1.1\r\nHost: app.example\r\nOrigin: https://my.app.example\r\n\r\n";
    let preflight = site.ask(asked);
    assert_eq!((preflight.status(), preflight.value("Access-Control-Max-Age")), (204, Some("600")));
    assert_eq!(preflight.value("Access-Control-Allow-Origin"), Some("https://my.app.example"));
}

#[test]
fn a_chat_is_upgraded_unless_a_foreign_page_asks() {
    let upgrading = || {
        Peer::script(|mut talk| {
            while let Some(request) = talk.request() {
                if request.value("Upgrade") != Some("websocket") {
                    talk.send(answer(&summary("chat", &request), ""));
                    continue;
                }
                talk.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
                talk.expect("ping");
                talk.send("pong");
            }
        })
    };
    let (one, other) = (upgrading(), upgrading());
    let peers = [("127.0.0.1:9014", one.address()), ("127.0.0.1:9015", other.address())];
    let site = Example::start("websocket-chat.conf", &peers, &[]);
    let plain = site.get("/chat/history?room=1", "").text();
    assert!(plain.starts_with("chat: GET /history?room=1\n") && !plain.contains("upgrade:"), "{plain}");
    let socket = "Upgrade: websocket\r\nConnection: Upgrade\r\n";
    let mut client = site.gateway.client();
    client.send(format!("GET /chat/ws HTTP/1.1\r\nHost: a\r\nOrigin: https://chat.example\r\n{socket}\r\n"));
    assert_eq!(client.head().unwrap().status(), 101);
    client.send("ping");
    client.expect("pong");
    assert_eq!(site.get("/chat/ws", &format!("Origin: http://evil.example\r\n{socket}")).status(), 403);
}

#[test]
fn grafana_lives_below_a_path() {
    let peer = named("grafana");
    let site = Example::start("grafana.conf", &[("127.0.0.1:9016", peer.address())], &[]);
    assert_eq!(site.get("/", "").value("Location"), Some("/grafana/"));
    assert_eq!(site.get("/grafana", "").status(), 301);
    let page = site.get("/grafana/d/abc%20d?orgId=1", "").text();
    assert!(page.starts_with("grafana: GET /d/abc%20d?orgId=1\n"), "{page}");
    assert!(page.contains("x-forwarded-prefix: /grafana\n") && !page.contains("upgrade"), "{page}");
    let live = site.get("/grafana/api/live/ws", "Upgrade: websocket\r\nConnection: Upgrade\r\n").text();
    assert!(live.contains("upgrade: websocket\n") && live.contains("connection: upgrade\n"), "{live}");
    assert_eq!(site.get("/grafana/render/x", "").status(), 200, "this host is allowed");
}

#[test]
fn gitlab_accepts_pushes_and_shows_restarts() {
    let peer = named("gitlab");
    let site = Example::start("gitlab.conf", &[("127.0.0.1:9017", peer.address())], &[]);
    let clone = site.get("/group/sub/project/info/refs?service=git-upload-pack", "");
    assert_eq!(clone.value("Location"), Some("/group/sub/project.git/info/refs?service=git-upload-pack"));
    let refs = site.get("/group/project.git/info/refs?service=git-upload-pack", "").text();
    assert!(refs.starts_with("gitlab: GET /group/project.git/info/refs?service=git-upload-pack"), "{refs}");
    let push = site.ask(
        "POST /group/project.git/git-receive-pack HTTP/1.1\r\nHost: git\r\nTransfer-Encoding: chunked\r\n\r\n\
         4\r\npack\r\n0\r\n\r\n",
    );
    assert!(push.text().starts_with("gitlab: POST /group/project.git/git-receive-pack"), "{}", push.text());
    assert_eq!(site.get("/x?private_token=secret&page=2", "").status(), 200);
    let lines = site.gateway.access_lines(4);
    assert!(lines[3].contains("\"GET /x?private_token=[FILTERED]&page=2 HTTP/1.1\""), "{lines:?}");

    let down = Refusing::new();
    let site = Example::start("gitlab.conf", &[("127.0.0.1:9017", down.address())], &[]);
    let page = site.get("/group/project", "");
    assert_eq!((page.status(), page.value("Content-Type")), (502, Some("text/html")));
    assert!(page.text().contains("GitLab is starting"), "{}", page.text());
}

#[test]
fn a_registry_turns_old_clients_away_and_streams_layers() {
    let peer = Peer::answering(|request| match request.target() {
        "/v2/" => answer("{}", "Docker-Distribution-Api-Version: registry/2.1\r\n"),
        _ => answer(&summary("registry", request), ""),
    });
    let site = Example::start("registry.conf", &[("127.0.0.1:9018", peer.address())], &[]);
    let own = site.get("/v2/", "User-Agent: docker/24.0.1 go/go1.20\r\n");
    assert_eq!(own.value("Docker-Distribution-Api-Version"), Some("registry/2.1"));
    assert_eq!(site.get("/v2/", "User-Agent: docker/1.5.0\r\n").status(), 404);
    assert_eq!(site.get("/v1/search", "").status(), 404);
    let layer = "x".repeat(3 << 20);
    let length = layer.len();
    let upload = site.ask(&format!(
        "PUT /v2/a/blobs/uploads/1 HTTP/1.1\r\nHost: registry.example:5000\r\nContent-Length: {length}\r\n\r\n{layer}"
    ));
    assert_eq!(upload.value("Docker-Distribution-Api-Version"), Some("registry/2.0"));
    let text = upload.text();
    assert!(
        text.contains("host: registry.example:5000\n") && text.contains(&format!("content-length: {length}\n")),
        "{text}"
    );
}

#[test]
fn a_canary_gets_its_share_and_never_payments() {
    let (stable, canary) = (named("stable"), named("canary"));
    let peers = [("127.0.0.1:9020", stable.address()), ("127.0.0.1:9021", canary.address())];
    let site = Example::start("canary.conf", &peers, &[]);
    let version = |target: &str, lines: &str| {
        let answer = site.get(target, lines);
        let version = answer.value("X-Version").unwrap().to_owned();
        assert!(answer.text().starts_with(&version), "{}", answer.text());
        version
    };
    let sessions: Vec<String> = (0..300).map(|number| format!("Cookie: session=s{number}\r\n")).collect();
    let canaries = sessions.iter().filter(|cookie| version("/", cookie) == "canary").count();
    assert!((10..=60).contains(&canaries), "{canaries} of 300");
    for cookie in &sessions[..10] {
        assert_eq!(version("/", cookie), version("/other", cookie), "always the same");
    }
    assert_eq!(version("/", "Cookie: version=canary\r\n"), "canary");
    assert_eq!(version("/", "X-Version: canary\r\n"), "canary");
    assert_eq!(version("/", "Cookie: version=stable\r\n"), "stable");
    assert_eq!(version("/payments/1", "Cookie: version=canary\r\n"), "stable");

    let down = Refusing::new();
    let peers = [("127.0.0.1:9020", stable.address()), ("127.0.0.1:9021", down.address())];
    let site = Example::start("canary.conf", &peers, &[]);
    let answer = site.get("/a?b", "Cookie: version=canary\r\n");
    assert_eq!((answer.status(), answer.value("X-Version")), (200, Some("stable")));
    assert!(answer.text().starts_with("stable: GET /a?b\n"), "{}", answer.text());
}

#[test]
fn each_tenant_gets_its_servers() {
    let (shared, acme) = (named("shared"), named("acme"));
    let peers = [("127.0.0.1:9022", shared.address()), ("127.0.0.1:9023", acme.address())];
    let site = Example::start("tenants.conf", &peers, &[]);
    let ask = |host: &str, target: &str| site.ask(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    for (host, start, tenant) in [
        ("blue.saas.example", "shared: GET /a", "x-tenant: blue\n"),
        ("www.blue-shop.example", "shared: GET /a", "x-tenant: blue\n"),
        ("shop.acme.example", "acme: GET /a", "x-tenant: acme\n"),
        ("ACME.example:8119", "acme: GET /a", "x-tenant: acme\n"),
    ] {
        let text = ask(host, "/a").text();
        assert!(text.starts_with(start) && text.contains(tenant), "{host}: {text}");
    }
    assert_eq!(ask("old.saas.example", "/").status(), 402);
    assert_eq!(ask("nobody.example", "/").status(), 404);
    assert_eq!(ask("blue.saas.example", "/t/red/echo?x=1").value("Location"), Some("/echo?x=1"));
}
