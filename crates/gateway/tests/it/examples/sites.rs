//! Sites: files, moved pages, maintenance, downloads.

use crate::examples::run::{Example, answer, named, summary};
use std::process::Command;
use testkit::Peer;

#[test]
fn wordpress_sends_files_from_disk_and_knows_its_readers() {
    let peer = named("wordpress");
    let site = Example::start(
        "wordpress.conf",
        &[("127.0.0.1:9010", peer.address())],
        &[("wordpress/wp-content/logo.svg", "<svg/>"), ("wordpress/.env", "secret")],
    );
    let post = site.get("/2026/a-post/?p=1", "");
    assert!(post.text().starts_with("wordpress: GET /2026/a-post/?p=1\n"), "{}", post.text());
    assert_eq!((post.value("X-Reader"), post.value("Cache-Control")), (Some("anonymous"), Some("public, max-age=60")));
    let known = site.get("/", "Cookie: a=b; wordpress_logged_in_1=x\r\n");
    assert_eq!((known.value("X-Reader"), known.value("Cache-Control")), (Some("known"), Some("private, no-store")));
    let logo = site.get("/wp-content/logo.svg", "");
    assert_eq!((logo.status(), logo.value("Content-Type")), (200, Some("image/svg+xml")));
    assert!(logo.values("Cache-Control").contains(&"max-age=2592000"), "{logo:?}");
    assert!(site.get("/wp-content/made.css", "").text().starts_with("wordpress: GET /wp-content/made.css"));
    for closed in ["/xmlrpc.php", "/.env", "/wp-content/uploads/evil.php"] {
        assert_eq!(site.get(closed, "").status(), 403, "{closed}");
    }
    let feed = site.get("/feed.xml?a=b", "");
    assert_eq!(feed.status(), 301);
    assert!(feed.value("Location").unwrap().ends_with("/feed/?a=b"), "{feed:?}");
}

#[test]
fn a_moved_site_knows_old_addresses() {
    let site = Example::start(
        "moved-site.conf",
        &[],
        &[("html/about.html", "about"), ("html/404.html", "no such page"), ("html/index.html", "home")],
    );
    let moved = |target: &str| {
        let answer = site.ask(&format!("GET {target} HTTP/1.1\r\nHost: moved.example\r\n\r\n"));
        (answer.status(), answer.value("Location").unwrap_or_default().to_owned(), answer.text())
    };
    assert_eq!(moved("/about.php").1, "/about");
    assert_eq!(moved("/news/2019/03/launch-day").1, "/archive/launch-day");
    assert_eq!(moved("/contact.html").1, "/contact");
    assert_eq!((moved("/about").0, moved("/about").2), (200, "about".to_owned()));
    assert_eq!((moved("/").0, moved("/").2), (200, "home".to_owned()));
    assert_eq!((moved("/nothing").0, moved("/nothing").2), (404, "no such page".to_owned()));
    assert_eq!(moved("/gone/for/good").0, 410);
    let www = site.ask("GET /x?y=1 HTTP/1.1\r\nHost: www.moved.example\r\n\r\n");
    assert_eq!((www.status(), www.value("Location")), (301, Some("http://moved.example/x?y=1")));
}

#[test]
fn maintenance_is_switched_by_a_file() {
    let peer = named("shop");
    let site = Example::start("maintenance.conf", &[("127.0.0.1:9019", peer.address())], &[]);
    assert!(site.get("/cart", "").text().starts_with("shop: GET /cart"));
    let html = site.gateway.prefix().join("html");
    std::fs::create_dir_all(&html).unwrap();
    std::fs::write(html.join("maintenance.on"), "").unwrap();

    let closed = site.get("/cart", "");
    assert_eq!((closed.status(), closed.value("Retry-After")), (503, Some("600")));
    assert!(closed.text().contains("Back soon"), "{}", closed.text());
    let api = site.get("/api/cart", "");
    assert_eq!((api.status(), api.text().starts_with("{\"error\":\"maintenance\"")), (503, true));
    assert_eq!(site.get("/health", "").status(), 200);
    assert!(site.get("/cart", "X-Forwarded-For: 192.0.2.10\r\n").text().starts_with("shop:"), "the crew works on");
    assert_eq!(site.get("/cart", "X-Forwarded-For: 192.0.2.99\r\n").status(), 503);

    std::fs::remove_file(html.join("maintenance.on")).unwrap();
    assert!(site.get("/cart", "").text().starts_with("shop:"));
}

#[test]
fn application_authorizes_downloads_served_from_disk() {
    let peer = Peer::answering(|request| match request.target() {
        "/get/report" => {
            let lines = "X-Accel-Redirect: /files/q3%20report.pdf\r\nContent-Type: application/pdf\r\n\
                         Content-Disposition: attachment; filename=q3.pdf\r\nSet-Cookie: seen=1\r\nETag: \"no\"\r\n";
            answer("not this", lines)
        }
        "/get/other" => answer("", "X-Accel-Redirect: /elsewhere/real?id=7\r\n"),
        _ => answer(&summary("application", request), ""),
    });
    let peers = [("127.0.0.1:9024", peer.address())];
    let site = Example::start("downloads.conf", &peers, &[("html/q3 report.pdf", "0123456789")]);
    let report = site.get("/get/report", "");
    assert_eq!((report.status(), report.text()), (200, "0123456789".to_owned()));
    assert_eq!(report.value("Content-Type"), Some("application/pdf"));
    assert_eq!(report.value("Content-Disposition"), Some("attachment; filename=q3.pdf"));
    assert_eq!((report.value("Set-Cookie"), report.value("X-Accel-Redirect")), (Some("seen=1"), None));
    assert_ne!(report.value("ETag"), Some("\"no\""), "the tag is the file's own");
    let part = site.get("/get/report", "Range: bytes=2-4\r\n");
    assert_eq!((part.status(), part.text()), (206, "234".to_owned()));
    assert!(site.get("/get/other", "").text().starts_with("application: GET /real?id=7\n"));
    assert_eq!(site.get("/files/q3%20report.pdf", "").status(), 404);
}

#[test]
fn compressed_files_go_to_clients_that_accept_them() {
    let packed = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let site = Example::start("ready-made.conf", &[], &[("html/app.js", "let plain;"), ("html/pub/a.txt", "a")]);
    site.write("html/app.js.gz", &packed("let packed;"));
    site.write("html/archive/old.html.gz", &packed("an old page"));
    let plain = site.get("/app.js", "");
    assert_eq!((plain.text(), plain.value("Vary")), ("let plain;".to_owned(), Some("Accept-Encoding")));
    let script = site.get("/app.js", "Accept-Encoding: gzip\r\n");
    assert_eq!((script.value("Content-Encoding"), script.value("Vary")), (Some("gzip"), Some("Accept-Encoding")));
    assert_eq!(script.value("Content-Type"), Some("application/javascript"));
    assert_eq!(site.get("/archive/old.html", "").text(), "an old page");
    assert_eq!(site.get("/archive/old.html", "Accept-Encoding: gzip\r\n").value("Content-Encoding"), Some("gzip"));
    assert!(site.get("/pub/", "").text().contains("<a href=\"a.txt\">a.txt</a>"));
}

#[test]
fn protected_downloads_need_staff_or_a_valid_link() {
    let users = ("staff.users", "ann:$apr1$pepper$zfWWBLilXnzFotEbSQE5H.\n");
    let site = Example::start("protected-downloads.conf", &[], &[("html/report.pdf", "a report"), users]);
    let refused = site.get("/staff/report.pdf", "");
    assert_eq!((refused.status(), refused.value("WWW-Authenticate")), (401, Some("Basic realm=\"staff only\"")));
    // ann:secret
    let ann = "Authorization: Basic YW5uOnNlY3JldA==\r\n";
    assert_eq!(site.get("/staff/report.pdf", ann).text(), "a report");
    assert_eq!(site.get("/get/report.pdf", "").status(), 403);
    assert_eq!(site.get("/get/report.pdf?sum=k5YaWzIRHgIbGhUgzAlgEQ&end=2147483647", "").text(), "a report");
    assert_eq!(site.get("/get/report.pdf?sum=Wd-3rnlVzTnF6xk9uY4mew&end=1", "").status(), 410);
    assert_eq!(site.get("/get/report.pdf?sum=k5YaWzIRHgIbGhUgzAlgEQ&end=2147483646", "").status(), 403);
    assert_eq!(site.get("/images/report.pdf", "Referer: http://elsewhere.example/\r\n").status(), 403);
    assert_eq!(site.get("/images/report.pdf", "Referer: http://downloads.example/\r\n").status(), 200);
}

#[test]
fn page_combines_shop_cache_and_file() {
    let shop = Peer::answering(|request| match request.target() {
        "/fragments/menu" => answer("<nav>menu</nav>", "Content-Type: text/html\r\n"),
        _ => answer(
            "<!--#include virtual=\"/fragments/menu\" --><h1><!--#echo var=\"uri\" --></h1><!--#include file=\"/foot.html\" -->",
            "Content-Type: text/html\r\nETag: \"x\"\r\n",
        ),
    });
    let files = [
        ("html/foot.html", "<footer><!--#echo var=\"host\" --></footer>"),
        (
            "html/about.html",
            "about <!--#include virtual=\"/fragments/menu\" --><!--#include virtual=\"foot.html\" --><!--#bad -->",
        ),
    ];
    let site = Example::start("ssi.conf", &[("127.0.0.1:9051", shop.address())], &files);
    for _ in 0..2 {
        let page = site.get("/shop/item/1", "");
        assert_eq!(page.text(), "<nav>menu</nav><h1>/shop/item/1</h1><footer>localhost</footer>");
        assert_eq!((page.value("Content-Length"), page.value("ETag")), (None, None));
    }
    let about = site.get("/about.html", "").text();
    assert_eq!(
        about,
        "about <nav>menu</nav><footer>localhost</footer>[an error occurred while processing the directive]"
    );
    let asked = shop.requests();
    assert_eq!(asked.iter().filter(|(_, request)| request.target() == "/fragments/menu").count(), 1, "the others hit");
    assert_eq!(site.get("/fragments/menu", "").status(), 404);
}

#[test]
fn compressed_site_serves_precompressed_files_first() {
    let style = "p { margin: 0 }\n".repeat(100);
    let site = Example::start("static-compressed.conf", &[], &[("html/style.css", &style), ("html/made.css", &style)]);
    let html = site.gateway.prefix().join("html");
    let mut packed = Vec::new();
    brotli::BrotliCompress(&mut style.as_bytes(), &mut packed, &brotli::enc::BrotliEncoderParams::default()).unwrap();
    std::fs::write(html.join("made.css.br"), &packed).unwrap();
    let mut zstd = vec![0; 4096];
    let count = zstd_safe::compress(&mut zstd[..], style.as_bytes(), 19).unwrap();
    std::fs::write(html.join("made.css.zst"), &zstd[..count]).unwrap();

    let ask = |target: &str, accepted: &str| site.get(target, &format!("Accept-Encoding: {accepted}\r\n"));
    let made = ask("/made.css", "gzip, br, zstd");
    assert_eq!((made.value("Content-Encoding"), &made.body), (Some("br"), &packed));
    assert_eq!(made.values("Vary"), ["Accept-Encoding"]);
    let made = ask("/made.css", "gzip;q=0.5, zstd");
    assert_eq!((made.value("Content-Encoding"), &made.body[..]), (Some("zstd"), &zstd[..count]));
    // Without a ready-made form it is compressed while it is sent.
    assert_eq!(ask("/made.css", "gzip").value("Content-Encoding"), Some("gzip"));
    assert_eq!(ask("/style.css", "gzip, br").value("Content-Encoding"), Some("br"));
    let plain = ask("/style.css", "identity");
    assert_eq!((plain.value("Content-Encoding"), plain.value("Vary")), (None, Some("Accept-Encoding")));
    assert!(plain.text() == style);

    // curl unpacks what it has asked for.
    let Some(curl) = testkit::peer_or_skip(&["curl"]) else { return };
    for target in ["made.css", "style.css"] {
        let url = format!("http://{}/{target}", site.gateway.address());
        let output = Command::new(&curl).args(["-sS", "--compressed", &url]).output().unwrap();
        assert!(output.stdout == style.as_bytes(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
