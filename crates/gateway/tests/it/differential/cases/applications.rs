//! Complete configurations of applications, and the requests of browsers, clients and scanners.

use super::{Case, chunked, pattern};

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("html/cloud/robots.txt", b"User-agent: *\n".to_vec()),
        ("html/cloud/core/a.css", b"p { margin: 0 }\n".repeat(40)),
        ("html/cloud/core/b.mjs", b"export {}\n".to_vec()),
        ("html/cloud/core/font.woff2", pattern(600)),
        ("html/cloud/apps/index.html", b"an app\n".to_vec()),
        ("html/cloud/.well-known/acme-challenge/token", b"token".to_vec()),
        ("html/git/logo.png", pattern(3000)),
        ("html/git/site.css", b"p {}\n".to_vec()),
        ("html/home/camera.png", pattern(100)),
        ("html/element/index.html", b"<title>Element</title>\n".to_vec()),
        ("html/element/config.json", b"{}\n".to_vec()),
        ("html/element/config/own.json", b"{\"own\":1}\n".to_vec()),
        ("html/element/bundles/a.js", b"1;\n".repeat(900)),
        ("html/down.html", b"down\n".to_vec()),
        ("html/maintenance.html", b"back soon\n".to_vec()),
    ]
}

const HOSTS: &[&str] = &[
    "cloud.test",
    "auth.test",
    "harbor.test",
    "git.test",
    "home.test",
    "vault.test",
    "media.test",
    "store.test",
    "lab.test",
    "chat.test",
    "matrix.test",
    "logs.test",
    "metrics.test",
];

/// Requested from every host.
const COMMON: &[&str] = &[
    "/",
    "/?a=1&b=2",
    "//",
    "//x//y",
    "/%2F",
    "/a%2Fb/c",
    "/a/../b",
    "/a/./b//c/",
    "/a%20b/%E4%BD%A0?q=%20+",
    "/a;b=c/d@e:f",
    "/a?b?c",
    "/a+b/c%2bd",
    "/%2e%2e/etc/passwd",
    "/.git/config",
    "/.well-known/security.txt",
    "/index.php",
    "/favicon.ico",
    "/x?",
    "/x/?&&=",
    "/x%3Fy=z",
    "/x%25y",
];

/// Requests of each application's clients.
const OWN: &[(&str, &[&str])] = &[
    (
        "cloud.test",
        &[
            "/remote.php/dav/files/me/a%20b.txt",
            "/remote/x?y",
            "/.well-known/carddav",
            "/.well-known/acme-challenge/token",
            "/.well-known/acme-challenge/none",
            "/.well-known/webfinger?resource=acct:a@b",
            "/core/a.css?v=1",
            "/core/none.css?v=1",
            "/core/b.mjs",
            "/core/font.woff2",
            "/core/none.woff2",
            "/apps/",
            "/apps",
            "/data/secret",
            "/config",
            "/login.php/x?y=z",
            "/ocs/v1.php/cloud?format=json",
            "/robots.txt",
            "/index.php/apps/files/?dir=/a&r=200&f=X-Powered-By:PHP",
        ],
    ),
    (
        "auth.test",
        &[
            "/auth",
            "/auth/",
            "/auth/realms/master/x%20y?z=1",
            "/auth/js/keycloak.js",
            "/auth/admin/master",
            "/auth/metrics/x",
            "/auth/x?r=302&f=Location:/realms/a",
            "/auth/x?r=302&f=Location:http://auth.test/realms/a",
            "/auth/x?r=302&f=Location:http://other.test/",
            "/auth/x?r=200&f=Set-Cookie:a=b;%20Path=/&f=Set-Cookie:c=d;%20Path=/x;%20Secure",
            "/auth/x?r=200&f=Refresh:0;%20url=/a",
            "/auth//double//x",
            "/auth/a%2Fb",
        ],
    ),
    (
        "harbor.test",
        &[
            "/v1/x",
            "/v2",
            "/v2/",
            "/v2/a/b/blobs/uploads/?digest=sha256:x",
            "/v2/a%2Fb",
            "/c/login",
            "/service/token?scope=repository:a/b:pull",
            "/service/notifications/x",
            "/x?r=200&f=Set-Cookie:sid=1;%20Path=/",
            "/v2/x?r=202&f=Location:http://harbor.test/v2/y",
            "/x?r=302&f=Location:http://app/x",
        ],
    ),
    (
        "git.test",
        &[
            "/git",
            "/git/",
            "/git/a/b",
            "/git/a%2Fb/c%20d?x=y",
            "/git//a//b",
            "/git/a/../b",
            "/git/_/static/assets/logo.png",
            "/git/_/static/assets/site.css",
            "/git/_/static/assets/",
            "/git/_/static/assets/none",
            "/me/repo.git/info/refs?service=git-upload-pack",
            "/m%20e/re%2Fpo.git/info/refs?service=x",
            "/git/x%3Fy",
            "/git/%C3%A9",
        ],
    ),
    ("home.test", &["/api/states", "/local/camera.png", "/x?r=302&f=Location:http://home.test/a", "/api/websocket"]),
    ("vault.test", &["/admin", "/admin/x", "/adminx", "/notifications/hub/negotiate", "/404.txt", "/api/sync?r=403"]),
    (
        "media.test",
        &[
            "/web/",
            "/web/x",
            "/Items/12/Images/Primary?n=1",
            "/Videos/ab%20c/stream.mp4?Static=true",
            "/videos/x/STREAM",
            "/Items/1/Images?r=200&f=Cache-Control:no-store&f=Expires:0",
        ],
    ),
    (
        "store.test",
        &[
            "/bucket/key%2Fwith%2Fslashes",
            "/bucket/?list-type=2&prefix=a%2F",
            "/minio/ui/login",
            "/minio/ui/a%20b?c",
            "/minio/ui",
            "/bucket/a//b/../c",
            "/b/k?r=200&f=ETag:%22abc%22&f=x-amz-meta-a:1",
        ],
    ),
    (
        "lab.test",
        &[
            "/hub",
            "/hub?x=1",
            "/tree/a%20b/c?user=me",
            "/jupyter/user/me/tree",
            "/jupyter/.well-known/x",
            "/jupyter/.ssh",
            "/jupyter/user/me/api/kernels/1/channels?session_id=1",
            "/jupyter/user/me/terminals/websocket/1",
        ],
    ),
    (
        "chat.test",
        &[
            "/api/v4/websocket",
            "/team/pl/abc123",
            "/x?r=503&f=Retry-After:5",
            "/x?r=401&f=WWW-Authenticate:Basic",
            "/down.html",
            "/api/v4/users/websocket",
        ],
    ),
    (
        "matrix.test",
        &[
            "/_matrix/client/v3/sync?since=1",
            "/_matrix/client/versions",
            "/_matrix/media/v3/download/a/b%2Fc",
            "/_synapse/client/x",
            "/_synapse/admin",
            "/.well-known/matrix/server",
            "/.well-known/matrix/client",
            "/bundles/a.js",
            "/bundles/",
            "/room/!abc:matrix.test",
            "/config/own.json",
            "/config/none.json",
        ],
    ),
    (
        "logs.test",
        &[
            "/kibana",
            "/kibana?x",
            "/kibana/app/x%20y?z",
            "/kibana/app/a%2Fb",
            "/kibana/x?r=302&f=Location:/login",
            "/kibana/x?r=302&f=Location:http://app/login?a=b",
            "/kibana/x?r=302&f=Location:/kibana/login",
            "/kibana/x?r=200&f=Set-Cookie:a=b;%20Path=/;%20Domain=app",
            "/es/_search?q=x",
            "/es//x%2Fy",
            "/down/x",
        ],
    ),
    (
        "metrics.test",
        &[
            "/prometheus",
            "/prometheus/graph?g0.expr=up%7Bjob%3D%22x%22%7D",
            "/prometheus/-/reload",
            "/prometheus/api/v1/admin/tsdb/snapshot",
            "/federate?match[]=x",
            "/alerts",
            "/alerts/x?y=z",
            "/target/9100/metrics?a=b",
            "/target/x/metrics",
        ],
    ),
];

/// Further request fields, sent to each host's `/api/x` with a name.
const FIELDS: &[&str] = &[
    "Range: bytes=0-9",
    "If-None-Match: \"x\"",
    "X-Forwarded-For: 203.0.113.7, 10.1.2.3",
    "X-Forwarded-Proto: https",
    "Cookie: a=b; c=d",
    "Authorization: Bearer abc",
    "Accept-Encoding: gzip",
    "Upgrade: websocket",
    "Upgrade: websocket\r\nConnection: Upgrade",
    "Connection: close",
    "X_Under: 1",
    "Content-Type: text/plain",
    "TE: trailers",
];

/// The URL by which each host reaches its application.
const PROXIED: &[(&str, &str)] = &[
    ("cloud.test", "/index.php/x"),
    ("auth.test", "/auth/x"),
    ("harbor.test", "/x"),
    ("git.test", "/git/x"),
    ("home.test", "/x"),
    ("vault.test", "/x"),
    ("media.test", "/Items/1/Images"),
    ("store.test", "/minio/ui/x"),
    ("lab.test", "/jupyter/x"),
    ("chat.test", "/x"),
    ("matrix.test", "/_matrix/x"),
    ("logs.test", "/kibana/x"),
    ("metrics.test", "/prometheus/x"),
];

/// Answers of applications.
const ANSWERS: &[&str] = &[
    "r=301&f=Location:/y",
    "r=302&f=Location:y%20z?a=b",
    "r=302&f=Location:http://127.0.0.1:1/y",
    "r=302&f=Location:https://auth.test/y",
    "r=303&f=Location:",
    "r=307&f=Location://other.test/y",
    "r=201&f=Location:/created/1",
    "r=204",
    "r=304&f=ETag:%22a%22",
    "r=400",
    "r=401&f=WWW-Authenticate:Bearer&f=WWW-Authenticate:Basic",
    "r=403",
    "r=404",
    "r=410",
    "r=416&f=Content-Range:bytes%20*/5",
    "r=429&f=Retry-After:3",
    "r=500",
    "r=502",
    "r=503",
    "r=504",
    "r=599",
    "f=Set-Cookie:a=b&f=Set-Cookie:c=d;%20path=/;%20Domain=app;%20HttpOnly",
    "f=Set-Cookie:e=f;%20Path=/auth;%20SameSite=None;%20Secure",
    "f=Refresh:5;%20url=/y",
    "f=Refresh:5",
    "f=Cache-Control:no-store&f=Expires:0&f=Pragma:no-cache",
    "f=Last-Modified:Sun,%2006%20Nov%201994%2008:49:37%20GMT&f=ETag:W/%22x%22",
    "f=Vary:Origin&f=Vary:Accept-Encoding&f=Access-Control-Allow-Origin:*",
    "f=X-Accel-Expires:9&f=X-Powered-By:x&f=X-Pad:x&f=Date:today",
    "f=Content-Disposition:attachment;%20filename=%22a%20b%22",
    "f=Strict-Transport-Security:max-age=1&f=X-Frame-Options:DENY&f=Referrer-Policy:origin",
    "f=Link:%3C/a%3E;%20rel=preload&f=Accept-Ranges:bytes",
    "f=Keep-Alive:timeout=5&f=Trailer:X&f=x-lower:1&f=X_Under:1&f=X.Dot:1",
    "f=Content-Language:de&f=Content-Encoding:identity",
    "f=Via:1.1%20app&f=Age:5&f=Warning:199&f=Alt-Svc:h3",
];

fn of_applications(host: &str, target: &str, cases: &mut Vec<Case>) {
    for answer in ANSWERS {
        for method in ["GET", "HEAD"] {
            cases.push(Case::simple(method, host, &format!("{target}?answer&{answer}")).named(host));
        }
    }
    let length = "Range: bytes=5-9\r\n";
    cases.push(with(host, target, "a range", length));
    cases.push(with(host, target, "a range that is not there", "Range: bytes=99999-\r\n"));
    cases.push(with(
        host,
        target,
        "a condition",
        "If-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT\r\nIf-Match: *\r\n",
    ));
    cases.push(with(
        host,
        target,
        "hops",
        "Connection: keep-alive, x-gone\r\nKeep-Alive: 5\r\nProxy-Authorization: x\r\n",
    ));
    cases.push(with(
        host,
        target,
        "several lists",
        "Accept: a\r\nAccept: b\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\n",
    ));
    cases.push(with(host, target, "an empty field", "X-Empty:\r\nX-Space:   \r\n"));
    cases.push(with(host, target, "a long cookie", &format!("Cookie: {}\r\n", "c".repeat(7000))));
    for (name, other) in [("no name", ""), ("a dot", "."), ("another", "unknown.test")] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: {other}\r\n\r\n");
        cases.push(Case::raw(format!("{host}: {target} for {name}"), text));
    }
    let kept = format!("GET {target} HTTP/1.0\r\nHost: {host}\r\nConnection: keep-alive\r\n\r\n");
    cases.push(Case::raw(format!("{host}: 1.0, kept"), kept));
    let post = format!("POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n\r\nabc");
    let get = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    cases.push(Case::pipeline(format!("{host}: after a body"), &[post.as_bytes(), get.as_bytes()]));
    let old = format!("POST {target} HTTP/1.0\r\nHost: {host}\r\nContent-Length: 3\r\n\r\nabc");
    cases.push(Case::raw(format!("{host}: 1.0 with a body"), old));
    let get_body = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n\r\nabc");
    cases.push(Case::raw(format!("{host}: GET with a body"), get_body));
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (host, target) in PROXIED {
        of_applications(host, target, &mut cases);
    }
    for host in HOSTS {
        let own = OWN.iter().find(|(known, _)| known == host).map_or(&[][..], |(_, targets)| targets);
        for target in COMMON.iter().chain(own) {
            cases.push(Case::simple("GET", host, target).named(host));
        }
        for target in own.iter().chain(&["/", "/api/x"]) {
            for method in ["HEAD", "OPTIONS", "DELETE", "PROPFIND"] {
                cases.push(Case::simple(method, host, target).named(host));
            }
            cases.push(post(host, target, "small", &pattern(20), None));
            cases.push(post(host, target, "chunked", &pattern(9000), Some(700)));
            let socket = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n";
            cases.push(with(host, target, "a socket", socket));
        }
        for fields in FIELDS {
            cases.push(with(host, "/api/x?n=1", &fields.escape_debug().to_string(), &format!("{fields}\r\n")));
        }
        cases.push(post(host, "/api/large", "large", &pattern(60_000), None));
        cases.push(post(host, "/index.php/large", "large in chunks", &pattern(60_000), Some(5000)));
        let long = format!("/api/{}?{}", "x".repeat(2500), "y".repeat(2500));
        cases.push(Case::raw(format!("{host}: long"), format!("GET {long} HTTP/1.1\r\nHost: {host}\r\n\r\n")));
        cases.push(Case::raw(format!("{host}: 1.0"), format!("GET /api/x HTTP/1.0\r\nHost: {host}\r\n\r\n")));
        let port = format!("GET /api/x HTTP/1.1\r\nHost: {}:8443\r\n\r\n", host.to_ascii_uppercase());
        cases.push(Case::raw(format!("{host}: capitals and a port"), port));
        let absolute = format!("GET http://{host}/api/x HTTP/1.1\r\nHost: other\r\n\r\n");
        cases.push(Case::raw(format!("{host}: absolute target"), absolute));
        let first = format!("GET /api/1 HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let second = format!("HEAD /api/2 HTTP/1.1\r\nHost: {host}\r\n\r\n");
        cases
            .push(Case::pipeline(format!("{host}: several"), &[first.as_bytes(), second.as_bytes(), first.as_bytes()]));
        let get = format!("GET /api/1 HTTP/1.1\r\nHost: {host}\r\n\r\n");
        cases.push(Case::pipeline(format!("{host}: garbage behind"), &[get.as_bytes(), b"garbage\r\n\r\n"]));
    }
    cases
}

fn with(host: &str, target: &str, name: &str, lines: &str) -> Case {
    Case::raw(
        format!("{host}: GET {target} with {name}"),
        format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n"),
    )
}

fn post(host: &str, target: &str, name: &str, body: &[u8], chunk: Option<usize>) -> Case {
    let head = format!("POST {target} HTTP/1.1\r\nHost: {host}\r\n");
    let rest = match chunk {
        Some(chunk) => [b"Transfer-Encoding: chunked\r\n\r\n", &chunked(body, chunk)[..]].concat(),
        None => [format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat(),
    };
    Case::raw(format!("{host}: POST {target}, {name}"), [head.as_bytes(), &rest].concat())
}
