//! Static files over real sockets: which file a URI leads to, how it is sent, and what is logged if there is none.

use crate::scene::Gateway;
use std::time::{Duration, Instant};
use testkit::DEADLINE;

/// The static origin of the founding experiment.
const ORIGIN: &str = "location / { root html; index index.html index.htm; }";

fn big(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index / 7 % 251) as u8).collect()
}

#[test]
fn a_file_comes_with_its_validators() {
    let gateway = Gateway::start(ORIGIN, "default_type text/x-none; types { text/css css; }");
    gateway.write("html/a.css", "p {}\n");
    gateway.write("html/b.unknown", "?");
    let response = gateway.get("/a.css");
    assert_eq!((response.status(), response.text().as_str()), (200, "p {}\n"));
    assert_eq!(response.value("Content-Type"), Some("text/css"));
    assert_eq!(response.value("Content-Length"), Some("5"));
    assert_eq!(response.value("Accept-Ranges"), Some("bytes"));
    let modified = std::fs::metadata(gateway.directory.join("html/a.css")).unwrap().modified().unwrap();
    let seconds = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert_eq!(response.value("ETag"), Some(&*format!("\"{seconds:x}-5\"")));
    assert_eq!(response.value("Last-Modified"), Some(&*httpdate::fmt_http_date(modified)));
    assert_eq!(gateway.get("/b.unknown").value("Content-Type"), Some("text/x-none"));

    let head = gateway.request("HEAD", "/a.css", "");
    assert_eq!((head.status(), head.text().as_str(), head.value("Content-Length")), (200, "", Some("5")));
}

#[test]
fn an_index_is_found_by_an_internal_redirect() {
    let server = "location / { root html; index none.html $arg_name.htm /last.html; } location = /sub/b.htm { return 200 'elsewhere'; }";
    let gateway = Gateway::start(server, "");
    gateway.write("html/a.htm", "A");
    gateway.write("html/sub/b.htm", "B");
    gateway.write("html/last.html", "L");
    assert_eq!(gateway.get("/?name=a").text(), "A");
    assert_eq!(gateway.get("/sub/?name=b").text(), "elsewhere", "the index is routed like a request for it");
    assert_eq!(gateway.get("/sub/?name=c").text(), "L");
}

#[test]
fn directory_without_index_is_forbidden_and_gets_a_slash() {
    let gateway = Gateway::start(ORIGIN, "");
    gateway.write("html/a b/x", "");
    let response = gateway.get("/a%20b?q=1");
    assert_eq!(response.status(), 301);
    let port = gateway.address.port();
    assert_eq!(response.value("Location"), Some(&*format!("http://a.example:{port}/a%20b/?q=1")));
    assert_eq!(gateway.get("/a%20b/").status(), 403);
    gateway.expect_error("html/a b/\" is forbidden, client: 127.0.0.1");
    assert_eq!(gateway.get("/none/").status(), 404);
    gateway.expect_error("html/none/index.html\" is not found (2: No such file or directory)");
}

#[test]
fn missing_file_is_404_and_logged() {
    let server = "location / { root html; } location /quiet/ { root html; log_not_found off; }";
    let gateway = Gateway::start(server, "");
    gateway.write("html/file", "");
    assert_eq!(gateway.get("/quiet/none").status(), 404);
    assert_eq!(gateway.get("/none").status(), 404);
    gateway.expect_error("open() \"");
    gateway.expect_error("html/none\" failed (2: No such file or directory), client");
    assert_eq!(gateway.get("/file/below").status(), 404);
    assert_eq!(gateway.get("/a%0ab").status(), 404);
    gateway.expect_error("html/a\\x0Ab\" failed");
    assert!(!gateway.errors().contains("quiet/none\" failed"), "{}", gateway.errors());
    assert_eq!(
        gateway.get(&format!("/{}", "n".repeat(300))).status(),
        404,
        "a name longer than the file system allows"
    );
}

#[test]
fn a_path_never_leaves_the_root() {
    let gateway = Gateway::start("root html; error_page 404 /$arg_page;", "");
    gateway.write("secret", "secret");
    for target in ["/../secret", "/%2e%2e/secret", "/a/..%2f../secret", "/%00"] {
        let response = gateway.get(target);
        assert_eq!(response.status(), 400, "{target}");
    }
    let response = gateway.get("/none?page=../secret");
    assert_eq!(response.status(), 404);
    assert!(!response.text().contains("secret"));
    gateway.expect_error("html/../secret\" leaves its root");
}

#[test]
fn traversal_by_alias_host_or_index_is_refused() {
    let server = "location /t/ { root html; try_files /../v/a =403; } location /i { alias html/i/; } \
        location /v/ { root html/$http_x; } location /n/ { root html; index $arg_n; }";
    let gateway = Gateway::start(server, "");
    gateway.write("html/secret", "secret");
    gateway.write("html/i/a", "A");
    gateway.write("html/n/a", "A");
    gateway.write("v/a", "secret");
    assert_eq!(gateway.get("/i/a").text(), "A");
    for (target, field) in [("/i../secret", ""), ("/v/a", "X: ..\r\n"), ("/n/?n=../secret", "")] {
        let response = gateway.request("GET", target, field);
        assert_eq!(response.status(), 404, "{target}");
        assert!(!response.text().contains("secret"), "{target}");
    }
    assert_eq!(gateway.get("/t/x").status(), 403, "not even whether it is there");
    gateway.expect_error("html/i/../secret\" leaves its root");
    gateway.expect_error("html/../v/a\" leaves its root");
}

#[test]
fn only_get_and_head_are_allowed() {
    let gateway = Gateway::start(ORIGIN, "");
    gateway.write("html/index.html", "I");
    for (method, target) in [("PUT", "/"), ("DELETE", "/index.html"), ("POST", "/index.html"), ("POST", "/")] {
        assert_eq!(gateway.request(method, target, "").status(), 405, "{method} {target}");
    }
    assert_eq!(gateway.request("POST", "/none", "").status(), 404, "as in nginx the file is looked for first");
}

#[test]
fn alias_replaces_the_matched_prefix() {
    let server = "location /i/ { alias data/images/; location /i/deep/ { } } \
        location ~ ^/r/(.*)$ { alias data/$1; } location = /one { alias data/images/a.gif; }";
    let gateway = Gateway::start(server, "");
    gateway.write("data/images/a.gif", "GIF");
    gateway.write("data/images/deep/b.gif", "DEEP");
    for (target, expected) in
        [("/i/a.gif", "GIF"), ("/i/deep/b.gif", "DEEP"), ("/r/images/a.gif", "GIF"), ("/one", "GIF")]
    {
        assert_eq!(gateway.get(target).text(), expected, "{target}");
    }
}

#[test]
fn follows_symlinks_and_forbids_unreadable_files() {
    let gateway = Gateway::start("root html; location = /name { return 200 $document_root:$request_filename; }", "");
    gateway.write("elsewhere", "E");
    let html = gateway.directory.join("html");
    std::os::unix::fs::symlink("../elsewhere", html.join("link")).unwrap();
    std::os::unix::fs::symlink("loop", html.join("loop")).unwrap();
    assert_eq!(gateway.get("/link").text(), "E");
    assert_eq!(gateway.get("/loop").status(), 403);
    let html = html.display();
    assert_eq!(gateway.get("/name").text(), format!("{html}:{html}/name"));
}

#[test]
fn conditions_are_evaluated() {
    let gateway = Gateway::start("root html;", "");
    gateway.write("html/a", "A");
    let first = gateway.get("/a");
    let (tag, modified) = (first.value("ETag").unwrap(), first.value("Last-Modified").unwrap());
    let status = |field: &str| gateway.request("GET", "/a", &format!("{field}\r\n")).status();
    assert_eq!(status(&format!("If-Modified-Since: {modified}")), 304);
    assert_eq!(status("If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"), 200, "exact by default");
    assert_eq!(status(&format!("If-None-Match: W/{tag}")), 304);
    assert_eq!(status("If-None-Match: \"other\""), 200);
    assert_eq!(status(&format!("If-Match: {tag}")), 200);
    assert_eq!(status("If-Match: \"other\""), 412);
    assert_eq!(status("If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT"), 412);
    let not_modified = gateway.request("GET", "/a", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((not_modified.value("ETag"), not_modified.value("Last-Modified")), (Some(tag), Some(modified)));
    assert_eq!((not_modified.value("Content-Length"), not_modified.text().as_str()), (None, ""));
}

#[test]
fn one_range_is_sent_as_206() {
    let gateway = Gateway::start("root html; location /off/ { root html; max_ranges 0; }", "");
    gateway.write("html/a", "0123456789");
    gateway.write("html/off/a", "0123456789");
    let range = |target: &str, fields: &str| gateway.request("GET", target, fields);
    let part = range("/a", "Range: bytes=2-4\r\n");
    assert_eq!((part.status(), part.text().as_str()), (206, "234"));
    assert_eq!((part.value("Content-Range"), part.value("Content-Length")), (Some("bytes 2-4/10"), Some("3")));
    assert_eq!(range("/a", "Range: bytes=-2\r\n").text(), "89");
    let beyond = range("/a", "Range: bytes=10-\r\n");
    assert_eq!((beyond.status(), beyond.value("Content-Range")), (416, Some("bytes */10")));
    let tag = gateway.get("/a").value("ETag").unwrap().to_owned();
    assert_eq!(range("/a", &format!("Range: bytes=0-0\r\nIf-Range: {tag}\r\n")).status(), 206);
    assert_eq!(range("/a", "Range: bytes=0-0\r\nIf-Range: \"other\"\r\n").status(), 200);
    assert_eq!(range("/a", "Range: bytes=0-7,5-9\r\n").text(), "0123456789", "more than there is");
    let off = range("/off/a", "Range: bytes=2-4\r\n");
    assert_eq!((off.status(), off.value("Accept-Ranges")), (200, None));
    let head = gateway.request("HEAD", "/a", "Range: bytes=2-4\r\n");
    assert_eq!((head.status(), head.text().as_str(), head.value("Content-Length")), (206, "", Some("3")));
}

#[test]
fn large_files_arrive_whole_with_and_without_sendfile() {
    let server =
        "location /send/ { alias html/; sendfile on; sendfile_max_chunk 64k; } location /read/ { alias html/; }";
    let gateway = Gateway::start(server, "");
    for bytes in [0, 1, 16 * 1024, 16 * 1024 + 1, 5 * 1024 * 1024 + 3] {
        let content = big(bytes);
        gateway.write("html/f", &content);
        for target in ["/send/f", "/read/f"] {
            let response = gateway.get(target);
            assert_eq!(response.value("Content-Length"), Some(&*bytes.to_string()), "{target}");
            assert!(response.body == content, "{target} of {bytes} bytes");
        }
        if bytes > 2000 {
            let part = gateway.request("GET", "/send/f", &format!("Range: bytes=1000-{}\r\n", bytes - 2));
            assert!(part.body == content[1000..bytes - 1], "a part of {bytes} bytes");
        }
    }
}

#[test]
fn a_slow_client_delays_no_other() {
    let gateway = Gateway::start("root html; sendfile on;", "");
    let content = big(16 * 1024 * 1024);
    gateway.write("html/big", &content);
    gateway.write("html/small", "S");
    let mut slow = gateway.connect();
    slow.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\nGET /small HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(slow.receives_within(DEADLINE), "it begins");
    assert_eq!(gateway.get("/small").text(), "S");
    assert!(slow.response().body == content, "the first response");
    assert_eq!(slow.response().text(), "S", "the one that was pipelined behind it");
    slow.end();
}

#[test]
fn a_client_that_takes_nothing_is_closed_after_send_timeout() {
    for sendfile in ["on", "off"] {
        let gateway = Gateway::start(&format!("root html; send_timeout 200ms; sendfile {sendfile};"), "");
        gateway.write("html/big", vec![b'x'; 32 * 1024 * 1024]);
        let mut client = gateway.connect();
        client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
        // Sending bytes does not count as reading.
        let deadline = Instant::now() + DEADLINE;
        while !gateway.errors().contains("client timed out") {
            assert!(Instant::now() < deadline, "{}", gateway.errors());
            client.send("G");
            std::thread::park_timeout(Duration::from_millis(20));
        }
        // The connection ends early, by FIN or by reset.
        let (rest, _) = client.rest();
        assert!(rest.len() < 32 * 1024 * 1024, "{} bytes", rest.len());
    }
}

#[test]
fn truncated_file_ends_its_connection() {
    // Files of sysfs state 4096 bytes and contain fewer. Reading them without blocking is not supported either, so the
    // offload pool reads this one.
    if !std::path::Path::new("/sys/kernel/uevent_seqnum").exists() {
        return;
    }
    let gateway = Gateway::start("location / { alias /sys/kernel/; }", "");
    let mut client = gateway.connect();
    client.send("GET /uevent_seqnum HTTP/1.1\r\nHost: a\r\n\r\n");
    let (response, _) = client.cut_response();
    assert_eq!((response.status(), response.value("Content-Length")), (200, Some("4096")));
    assert!(!response.body.is_empty() && response.body.len() < 4096, "{} bytes", response.body.len());
    gateway.expect_error("the file was truncated while it was sent");
}

#[test]
fn several_ranges_of_a_large_file_come_as_parts() {
    let gateway = Gateway::start("root html; sendfile on; types { image/png png; }", "");
    let content: Vec<u8> = (0..600_000_u32).map(|at| (at % 251) as u8).collect();
    gateway.write("html/a.png", &content);
    let response = gateway.request("GET", "/a.png", "Range: bytes=0-299999,300001-599999\r\n");
    let media = response.value("Content-Type").unwrap();
    let boundary = media.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let head = |range: &str| {
        format!("\r\n--{boundary}\r\nContent-Type: image/png\r\nContent-Range: bytes {range}/600000\r\n\r\n")
            .into_bytes()
    };
    let end = format!("\r\n--{boundary}--\r\n").into_bytes();
    let (first, second) = (&content[..300_000], &content[300_001..]);
    let expected = [&head("0-299999")[..], first, &head("300001-599999"), second, &end].concat();
    assert_eq!(response.value("Content-Length"), Some(expected.len().to_string().as_str()));
    assert!(response.body == expected, "{} bytes instead of {}", response.body.len(), expected.len());
    let head = gateway.request("HEAD", "/a.png", "Range: bytes=0-299999,300001-599999\r\n");
    assert_eq!((head.status(), head.body.len()), (206, 0));
}

#[test]
fn trailers_are_known_when_the_body_has_ended() {
    let http = "log_format sent '$sent_http_x_added|$sent_trailer_x_bytes|$sent_http_content_type';";
    let server = "root html; add_header X-Added $sent_http_etag; add_trailer X-Bytes $body_bytes_sent;
        access_log sent.log sent;";
    let gateway = Gateway::start(server, http);
    gateway.write("html/a", vec![b'x'; 100_000]);
    let mut client = gateway.connect();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let response = client.head().unwrap();
    let tag = response.value("ETag").unwrap();
    assert_eq!((response.value("X-Added"), response.value("Content-Length")), (Some(tag), None));
    // As all bytes after the head count, the framing of the chunks before the last one counts too.
    let (body, _) = client.rest();
    let last = body.windows(3).rposition(|window| window == b"0\r\n").unwrap();
    assert!(last > 100_000);
    assert_eq!(body[last..].escape_ascii().to_string(), format!("0\\r\\nX-Bytes: {last}\\r\\n\\r\\n"));
    assert_eq!(gateway.access_line(), format!("{}|{last}|text/plain", tag.replace('"', "\\x22")));
}

#[test]
fn value_with_a_line_end_is_sent_as_one_line() {
    let gateway =
        Gateway::start("location ~ \"(?s)^/(.*)$\" { add_header X-Path $1; add_header X-Other 1; return 200; }", "");
    let response = gateway.get("/a%0d%0aSet-Cookie:x");
    assert_eq!((response.value("X-Path"), response.value("X-Other")), (Some("a Set-Cookie:x"), Some("1")));
    assert_eq!(response.value("Set-Cookie"), None);
    gateway.expect_error(
        "a control character in the value of \"add_header X-Path\", from $1; the value is sent as one line",
    );
}

#[test]
fn directory_redirect_is_one_line_with_any_arguments() {
    let server = "set $args $remote_user; location /d/ { proxy_pass http://127.0.0.1:1; }";
    let gateway = Gateway::start(server, "");
    // `a\r\nX-Evil=y` as the user name.
    let response = gateway.request("GET", "/d", "Authorization: Basic YQ0KWC1FdmlsPXk6Yg==\r\n");
    assert_eq!((response.status(), response.value("X-Evil=y")), (301, None));
    assert!(response.value("Location").unwrap().ends_with("/d/?a X-Evil=y"), "{response:?}");
    gateway.expect_error("a control character in the value of \"Location\"; the value is sent as one line");
}

#[test]
fn open_files_are_kept_while_valid() {
    let server = "open_file_cache max=10; location / { root html; }
        location /looked-at/ { root html; open_file_cache_valid 0; }
        location /errors/ { root html; open_file_cache_errors on; }
        location /uses/ { root html; open_file_cache_min_uses 3; }
        location /off/ { root html; open_file_cache off; }";
    let gateway = Gateway::start(server, "");
    let replace = |name: &str, text: &str| {
        gateway.write(&format!("html/{name}.new"), text);
        let place = gateway.directory.join("html").join(name);
        std::fs::rename(place.with_extension("new"), place).unwrap();
    };
    let ask = |path: &str| {
        let response = gateway.get(path);
        (response.status(), response.text())
    };
    for (name, second) in [("a", "old"), ("looked-at/a", "newer"), ("off/a", "newer"), ("uses/a", "newer")] {
        replace(name, "old");
        assert_eq!(ask(&format!("/{name}")), (200, "old".to_owned()));
        replace(name, "newer");
        assert_eq!(ask(&format!("/{name}")), (200, second.to_owned()), "{name}");
    }
    // After the third use, this file stays open.
    assert_eq!(ask("/uses/a").1, "newer");
    replace("uses/a", "newest");
    assert_eq!(ask("/uses/a").1, "newer");
    for (name, second) in [("missing", 200), ("errors/missing", 404)] {
        assert_eq!(ask(&format!("/{name}")).0, 404);
        replace(name, "here");
        assert_eq!(ask(&format!("/{name}")).0, second, "{name}");
    }
}
