//! `oauth2-proxy.conf`: with a service that answers like oauth2-proxy, and with the real one. People sign in to that
//! with the names and passwords of a file, which needs no provider.

use crate::examples::run::{Example, answer, summary};
use std::net::SocketAddr;
use std::process::Command;
use testkit::{Peer, Response, Running, free_port, peer_or_skip};

fn oauth2_proxy(users: &std::path::Path) -> Option<(Running, SocketAddr)> {
    let program = peer_or_skip(&["oauth2-proxy"])?;
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut command = Command::new(program);
    command
        .args(["--http-address", &address.to_string(), "--reverse-proxy", "--set-xauthrequest"])
        .args(["--trusted-proxy-ip", "127.0.0.1/32"])
        .args(["--upstream", "static://202", "--email-domain", "*", "--cookie-secure=false"])
        .args(["--cookie-secret", "0123456789abcdef0123456789abcdef"])
        .args(["--provider", "github", "--client-id", "id", "--client-secret", "secret", "--htpasswd-file"])
        .arg(users);
    Some((Running::listening(&mut command, address), address))
}

/// The cookies that a response sets, as a Cookie field.
fn cookies(response: &Response) -> String {
    let set = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    let pairs: Vec<&str> = set.map(|(_, value)| value.split(';').next().unwrap()).collect();
    format!("Cookie: {}\r\n", pairs.join("; "))
}

/// A service that knows one session.
fn service() -> Peer {
    Peer::answering(|request| {
        let is_known = request.value("Cookie").is_some_and(|cookie| cookie.contains("_oauth2_proxy=known"));
        match request.target().split('?').next() {
            Some("/oauth2/auth") if is_known => {
                let fields = "X-Auth-Request-User: ann\r\nX-Auth-Request-Email: ann@example.com\r\n";
                format!(
                    "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n{fields}Set-Cookie: _oauth2_proxy=known2\r\n\r\n"
                )
                .into_bytes()
            }
            Some("/oauth2/auth") => b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec(),
            _ => answer(&summary("service", request), ""),
        }
    })
}

#[test]
fn a_sign_in_service_decides_and_names_the_user() {
    let (service, application) = (service(), Peer::answering(|request| answer(&summary("application", request), "")));
    let peers = [("127.0.0.1:4180", service.address()), ("127.0.0.1:9044", application.address())];
    let site = Example::start("oauth2-proxy.conf", &peers, &[]);
    let refused = site.get("/page?x=y", "X-User: root\r\n");
    let to = refused.value("Location").unwrap_or_default().to_owned();
    assert!(refused.status() == 302 && to.contains("/oauth2/sign_in?rd=http://localhost/page?x=y"), "{to}");
    assert_eq!((site.get("/api/x", "").status(), site.get("/oauth2/auth", "").status()), (401, 404));
    assert!(site.get("/oauth2/sign_in", "").text().starts_with("service: GET /oauth2/sign_in\n"));
    assert_eq!(application.requests().len(), 0);
    let known = site.get("/page?x=y", "Cookie: _oauth2_proxy=known\r\nX-User: root\r\nX-Email: root\r\n");
    assert_eq!(known.value("Set-Cookie"), Some("_oauth2_proxy=known2"));
    let page = known.text();
    assert!(page.contains("x-user: ann\n") && page.contains("x-email: ann@example.com\n"), "{page}");
    assert!(!page.contains("root"), "{page}");
}

#[test]
fn people_sign_in_with_oauth2_proxy() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    // ann:secret
    std::fs::write(&users, "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n").unwrap();
    let Some((_service, address)) = oauth2_proxy(&users) else { return };
    let application = Peer::answering(|request| answer(&summary("application", request), ""));
    let peers = [("127.0.0.1:4180", address), ("127.0.0.1:9044", application.address())];
    let site = Example::start("oauth2-proxy.conf", &peers, &[]);

    let refused = site.get("/page?x=y", "X-User: root\r\n");
    let to = refused.value("Location").unwrap_or_default().to_owned();
    assert!(refused.status() == 302 && to.contains("/oauth2/sign_in?rd=http://localhost/page?x=y"), "{to}");
    assert_eq!(site.get("/api/x", "").status(), 401);
    assert_eq!(site.get("/oauth2/auth", "").status(), 404, "internal");
    let form = site.get("/oauth2/sign_in", "");
    assert!(form.text().contains("name=\"username\""), "{}", form.text());

    let sign_in = |password: &str| {
        let body = format!("username=ann&password={password}&rd=%2Fpage");
        let length = body.len();
        site.ask(&format!(
            "POST /oauth2/sign_in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ))
    };
    let wrong = sign_in("guess");
    assert!(wrong.status() != 302 && !cookies(&wrong).contains("_oauth2_proxy="), "{wrong:?}");
    let signed_in = sign_in("secret");
    assert_eq!((signed_in.status(), signed_in.value("Location")), (302, Some("/page")));

    let cookie = cookies(&signed_in);
    let page = site.get("/page?x=y", &format!("{cookie}X-User: root\r\n")).text();
    assert!(page.starts_with("application: GET /page?x=y\n") && page.contains("x-user: ann\n"), "{page}");
    assert!(!page.contains("root"), "{page}");
    assert!(site.get("/api/x", &cookie).text().contains("x-user: ann\n"));
    assert_eq!(site.get("/api/x", "Cookie: _oauth2_proxy=forged\r\n").status(), 401);
    assert!(application.requests().iter().all(|(_, request)| request.value("X-User") == Some("ann")));
}
