//! `examples/wordpress-fpm.conf` with a real php-fpm, and a small script in the place of the application.

use crate::examples::run::Example;
use crate::php::Fpm;
use std::os::unix::fs::PermissionsExt as _;
use testkit::{Response, until};

/// Counts its calls, so that a page shows whether PHP has made it.
const SCRIPT: &str = r"<?php
$file = __DIR__ . '/wp-content/calls';
$calls = 1 + (int) @file_get_contents($file);
file_put_contents($file, $calls);
header('Cache-Control: no-cache');
header('Expires: Wed, 11 Jan 1984 05:00:00 GMT');
if (isset($_GET['login'])) { setcookie('wordpress_logged_in_1', 'x'); }
if (isset($_GET['slow'])) { usleep(300000); }
if ($_SERVER['REQUEST_URI'] === '/gone') { http_response_code(404); }
echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['SCRIPT_NAME'], ' ',
    strlen(file_get_contents('php://input')), ' call ', $calls;
";

struct Blog {
    site: Example,
    fpm: Fpm,
}

fn blog() -> Blog {
    let fpm = Fpm::start();
    let files = [
        ("wordpress/index.php", SCRIPT),
        ("wordpress/wp-login.php", SCRIPT),
        ("wordpress/wp-content/logo.svg", "<svg/>"),
        ("wordpress/wp-content/uploads/evil.php", "<?php echo 'evil';"),
        ("wordpress/.env", "secret"),
        ("wordpress/wp-content/calls", "0"),
    ];
    let socket = fpm.socket();
    let site = Example::start_below("wordpress-fpm.conf", &[], &files, Some(("/run/php/php-fpm.sock", &socket)));
    // The workers of PHP read the scripts, and write the number of calls, as another user.
    let prefix = site.gateway.prefix();
    for (path, mode) in [(prefix.join("wordpress/wp-content/calls"), 0o666), (prefix, 0o755)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    Blog { site, fpm }
}

/// The state of the cache, and the page.
fn cache_and_body(response: &Response) -> (String, String) {
    (response.value("X-Cache").unwrap_or("-").to_owned(), response.text())
}

fn pair(state: &str, page: &str) -> (String, String) {
    (state.to_owned(), page.to_owned())
}

#[test]
fn wordpress_works_and_readers_get_cached_pages() {
    let Blog { site, fpm: _fpm } = blog();
    let ask = |target: &str, lines: &str| cache_and_body(&site.get(target, lines));
    let page = "GET /2026/a-post/?p=1 /index.php 0 call 1";
    assert_eq!(ask("/2026/a-post/?p=1", ""), pair("MISS", page));
    assert_eq!(ask("/2026/a-post/?p=1", ""), pair("HIT", page));
    let known = "Cookie: a=b; wordpress_logged_in_1=x\r\n";
    assert_eq!(ask("/2026/a-post/?p=1", known), pair("BYPASS", "GET /2026/a-post/?p=1 /index.php 0 call 2"));
    assert_eq!(ask("/2026/a-post/?p=1", ""), pair("HIT", page), "the page of a known reader is not kept");
    assert_eq!(ask("/?s=word", ""), pair("BYPASS", "GET /?s=word /index.php 0 call 3"));
    assert_eq!(ask("/wp-login.php", ""), pair("BYPASS", "GET /wp-login.php /wp-login.php 0 call 4"));
    for (number, state) in [(5, "MISS"), (6, "MISS")] {
        let login = site.get("/a?login", "");
        assert_eq!(
            cache_and_body(&login),
            pair(state, &format!("GET /a?login /index.php 0 call {number}")),
            "it sets a cookie"
        );
        assert!(login.value("Set-Cookie").is_some(), "{login:?}");
    }
    let gone = site.get("/gone", "");
    assert_eq!((gone.status(), cache_and_body(&gone).0.as_str()), (404, "MISS"));
    assert_eq!(cache_and_body(&site.get("/gone", "")).0, "HIT");
    let post = site.ask("POST /comment HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(post.text(), "POST /comment /index.php 3 call 8");
}

#[test]
fn wordpress_serves_files_and_hides_probed_paths() {
    let Blog { site, fpm: _fpm } = blog();
    let logo = site.get("/wp-content/logo.svg", "");
    assert_eq!((logo.text().as_str(), logo.value("Content-Type")), ("<svg/>", Some("image/svg+xml")));
    assert!(logo.values("Cache-Control").contains(&"max-age=2592000"), "{logo:?}");
    assert!(site.get("/wp-content/made.css", "").text().starts_with("GET /wp-content/made.css /index.php"));
    for closed in ["/xmlrpc.php", "/.env", "/wp-content/uploads/evil.php"] {
        assert_eq!(site.get(closed, "").status(), 403, "{closed}");
    }
    assert_eq!(site.get("/none.php", "").status(), 404, "PHP is not asked for a file that is not there");
}

#[test]
fn one_request_makes_a_page_that_many_want() {
    let Blog { site, fpm: _fpm } = blog();
    let pages: Vec<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(|| site.get("/popular?slow", "").text())).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    assert!(pages.iter().all(|page| page == "GET /popular?slow /index.php 0 call 1"), "{pages:?}");
}

#[test]
fn readers_get_the_old_page_while_php_is_away() {
    let Blog { site, fpm } = blog();
    let page = "GET /a /index.php 0 call 1";
    assert_eq!(cache_and_body(&site.get("/a", "")), pair("MISS", page));
    drop(fpm);
    until("php-fpm is away", || (site.get("/b", "").status() == 502).then_some(()));
    assert_eq!(cache_and_body(&site.get("/a", "")), pair("HIT", page));
    assert_eq!(site.get("/a", "Cookie: comment_author=x\r\n").status(), 502);
}
