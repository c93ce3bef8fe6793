//! External programs as clients: curl, nghttp, h2load and h2spec, with and without TLS.

use std::net::SocketAddr;
use std::process::{Command, Output};
use testkit::{Authority, Browser, Gateway, peer_program};

/// A gateway with one address without TLS, and one with TLS.
struct Scene {
    gateway: Gateway,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Authority::new("Test").issue(&["localhost"]).write(folder.path(), "pair");
        let at = folder.path().display();
        let server = "root .; client_max_body_size 0; location = / { default_type text/plain; return 200 $server_protocol:$http2:$ssl_alpn_protocol; } \
                      location /echo { proxy_pass http://{listen}/counted; } location /counted { return 200 counted; } \
                      location /through { proxy_pass http://{listen}/large; }";
        let text = format!(
            "events {{ worker_connections 512; }} http {{ access_log off; keepalive_requests 1000000; http2 on; \
             server {{ listen {{listen}}; {server} }} \
             server {{ listen {{listen:1}} ssl; ssl_certificate {at}/pair.crt; ssl_certificate_key {at}/pair.key; {server} }} }}"
        );
        let gateway = Gateway::start(&text, &[]);
        std::fs::write(gateway.prefix().join("large"), vec![b'x'; 1_000_000]).unwrap();
        Self { gateway, _folder: folder }
    }

    fn url(&self, tls: bool, path: &str) -> String {
        let address: SocketAddr = self.gateway.address_of(usize::from(tls));
        format!("{}://{address}{path}", if tls { "https" } else { "http" })
    }
}

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat();
    assert!(status.success(), "{command:?}: {status}\n{text}");
    text
}

#[test]
fn curl_speaks_http2_by_alpn_and_with_prior_knowledge() {
    let scene = Scene::start();
    let curl = |tls: bool, option: &str, path: &str| {
        let mut curl = Command::new(peer_program("curl"));
        curl.args([
            "--silent",
            "--show-error",
            "--insecure",
            option,
            "--write-out",
            " %{http_version} %{response_code}",
        ]);
        run(curl.arg(scene.url(tls, path)))
    };
    assert_eq!(curl(false, "--http2-prior-knowledge", "/"), "HTTP/2.0:h2c: 2 200");
    assert_eq!(curl(true, "--http2", "/"), "HTTP/2.0:h2:h2 2 200");
    assert_eq!(curl(true, "--http1.1", "/"), "HTTP/1.1::http/1.1 1.1 200");
    // As in nginx, the upgrade of RFC 7540 is not supported.
    assert_eq!(curl(false, "--http2", "/"), "HTTP/1.1:: 1.1 200");
}

#[test]
fn curl_uploads_and_downloads() {
    let scene = Scene::start();
    let large = scene.gateway.prefix().join("large");
    for tls in [false, true] {
        let mut curl = Command::new(peer_program("curl"));
        curl.args([
            "--silent",
            "--show-error",
            "--insecure",
            "--output",
            "/dev/null",
            "--write-out",
            "%{size_download}",
        ]);
        curl.arg(if tls { "--http2" } else { "--http2-prior-knowledge" });
        assert_eq!(run(curl.arg(scene.url(tls, "/large"))), "1000000");
        let mut curl = Command::new(peer_program("curl"));
        curl.args([
            "--silent",
            "--show-error",
            "--insecure",
            "--output",
            "/dev/null",
            "--write-out",
            "%{response_code}",
        ]);
        curl.arg(if tls { "--http2" } else { "--http2-prior-knowledge" });
        curl.arg("--data-binary").arg(format!("@{}", large.display()));
        assert_eq!(run(curl.arg(scene.url(tls, "/echo"))), "200");
    }
}

/// curl 7.88 lost one answer in five when a reset followed it at once.
#[test]
fn h105_curl_gets_a_response_before_its_body_ends() {
    let server =
        "client_max_body_size 10; location / { proxy_pass http://{listen}/none; } location /none { return 404; }";
    let gateway = super::gateway(server, &[]);
    let url = format!("http://{}/", gateway.address());
    for _ in 0..30 {
        let mut curl = Command::new(peer_program("curl"));
        curl.args(["--silent", "--show-error", "--http2-prior-knowledge", "--output", "/dev/null"]);
        curl.args(["--write-out", "%{response_code}", "--data", "more than ten bytes"]);
        assert_eq!(run(curl.arg(&url)), "413");
    }
}

#[test]
fn h105_browser_gets_a_response_before_its_body_ends() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    Authority::new("Test").issue(&["localhost"]).write(folder.path(), "pair");
    let at = folder.path().display();
    let text = format!(
        "events {{}} http {{ access_log off; server {{ listen {{listen}} ssl; http2 on; ssl_certificate {at}/pair.crt; \
         ssl_certificate_key {at}/pair.key; client_max_body_size 10; location / {{ default_type text/html; \
         return 200 '<title>page</title>'; }} location /small {{ proxy_pass http://{{listen}}; }} }} }}"
    );
    let gateway = Gateway::start(&text, &[]);
    // Within the window, and far above it.
    let script = "(async () => { const said = []; for (const size of [100, 50000, 100, 3000000, 100]) { \
        const answer = await fetch('/small', { method: 'POST', body: new Uint8Array(size) }); \
        said.push(answer.status); } return said.join(); })()";
    let said = browser.run_at(&format!("https://localhost:{}/", gateway.address().port()), script);
    assert_eq!(said, "413,413,413,413,413");
}

#[test]
fn nghttp_gets_several_streams() {
    let scene = Scene::start();
    let mut nghttp = Command::new(peer_program("nghttp"));
    nghttp.args(["--no-dep", "--null-out", "--stat", "--multiply=20", "--padding=40"]);
    let text = run(nghttp.arg(scene.url(false, "/large")));
    assert_eq!(text.matches(" 200 ").count(), 20, "{text}");
}

#[test]
fn h2load_gets_every_answer() {
    let scene = Scene::start();
    for tls in [false, true] {
        let mut h2load = Command::new(peer_program("h2load"));
        let text = run(h2load.args(["-n", "4000", "-c", "10", "-m", "20"]).arg(scene.url(tls, "/")));
        assert!(text.contains("4000 succeeded, 0 failed, 0 errored, 0 timeout"), "{text}");
        let mut h2load = Command::new(peer_program("h2load"));
        let small_windows = ["-n", "40", "-c", "2", "-m", "10", "-w", "12", "-W", "14"];
        let text = run(h2load.args(small_windows).arg(scene.url(tls, "/large")));
        assert!(text.contains("40 succeeded, 0 failed") && text.contains("(40000000) data"), "{text}");
    }
}

#[test]
fn h2spec_finds_nothing_in_strict_mode() {
    for tls in [false, true] {
        let scene = Scene::start();
        let port = scene.gateway.address_of(usize::from(tls)).port().to_string();
        let mut h2spec = Command::new(peer_program("h2spec"));
        h2spec.args(["--strict", "--timeout", "5", "--host", "127.0.0.1", "--port", &port, "--path", "/through"]);
        if tls {
            h2spec.args(["--tls", "--insecure"]);
        }
        let output = h2spec.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if tls {
            assert!(text.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{text}");
        } else {
            // Without TLS, an invalid preface is treated and answered as HTTP/1.
            assert!(text.contains("146 tests, 145 passed, 0 skipped, 1 failed"), "{text}");
            assert!(text.contains("× 2: Sends invalid connection preface"), "{text}");
        }
    }
}
