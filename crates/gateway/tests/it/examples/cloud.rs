//! Nextcloud's configuration with a real php-fpm and small scripts in the place of the application.

use crate::examples::run::Example;
use crate::php::Fpm;
use std::os::unix::fs::PermissionsExt as _;

/// Says how it was called; takes what is uploaded.
const SCRIPT: &str = r"<?php
if ($_SERVER['REQUEST_METHOD'] === 'PUT') {
    echo 'put ', strlen(file_get_contents('php://input'));
} else {
    echo $_SERVER['SCRIPT_NAME'], '|', $_SERVER['PATH_INFO'] ?? '', '|', $_SERVER['QUERY_STRING'], '|',
        basename($_SERVER['SCRIPT_FILENAME']), ' ', $_SERVER['modHeadersAvailable'], ' ', $_SERVER['front_controller_active'];
}
";

struct Cloud {
    site: Example,
    _fpm: Fpm,
}

fn cloud() -> Cloud {
    let fpm = Fpm::start();
    let style = "a { color: red; }\n".repeat(100);
    let files = [
        ("nextcloud/index.php", SCRIPT),
        ("nextcloud/remote.php", SCRIPT),
        ("nextcloud/status.php", SCRIPT),
        ("nextcloud/ocs/v2.php", SCRIPT),
        ("nextcloud/config/config.php", "<?php echo 'secret';"),
        ("nextcloud/core/js/a.js", "let a;"),
        ("nextcloud/core/css/a.css", style.as_str()),
        ("nextcloud/core/fonts/a.woff2", "font"),
        ("nextcloud/.htaccess", "secret"),
        ("nextcloud/.well-known/acme-challenge/token", "proof"),
    ];
    let socket = fpm.socket();
    let site = Example::start_below("nextcloud.conf", &[], &files, Some(("/run/php/php-fpm.sock", &socket)));
    // The workers of PHP read the scripts as another user.
    std::fs::set_permissions(site.gateway.prefix(), std::fs::Permissions::from_mode(0o755)).unwrap();
    Cloud { site, _fpm: fpm }
}

#[test]
fn nextcloud_has_front_controllers() {
    let Cloud { site, _fpm } = cloud();
    let called = |target: &str| site.get(target, "").text();
    for (target, script, path, query) in [
        ("/", "/index.php", "", ""),
        ("/index.php/login?user=a", "/index.php", "/login", "user=a"),
        ("/apps/files/?dir=/x", "/index.php", "/apps/files/", "dir=/x"),
        ("/apps/theming/favicon.svg?v=1", "/index.php", "/apps/theming/favicon.svg", "v=1"),
        ("/apps/old/page.php", "/index.php", "/apps/old/page.php", ""),
        ("/remote.php/dav/files/a%20b", "/remote.php", "/dav/files/a b", ""),
        ("/ocs/v2.php/cloud/user?format=json", "/ocs/v2.php", "/cloud/user", "format=json"),
        ("/status.php", "/status.php", "", ""),
    ] {
        let file = script.rsplit('/').next().unwrap();
        assert_eq!(called(target), format!("{script}|{path}|{query}|{file} true true"), "{target}");
    }
    let response = site.get("/status.php", "");
    assert_eq!((response.status(), response.value("X-Powered-By")), (200, None));
    assert_eq!(response.value("X-Robots-Tag"), Some("noindex, nofollow"));
    let windows = site.get("/", "User-Agent: DavClnt\r\n");
    assert_eq!(windows.status(), 302);
    assert!(windows.value("Location").unwrap().ends_with("/remote.php/webdav/"), "{windows:?}");
    for hidden in ["/config/config.php", "/data/a/b.txt", "/.htaccess", "/occ", "/lib/private/x.php", "/remote.php5"] {
        let response = site.get(hidden, "");
        assert!(!response.text().contains("secret"), "{hidden}: {response:?}");
        assert!(hidden == "/remote.php5" || response.status() == 404, "{hidden}: {response:?}");
    }
}

#[test]
fn nextcloud_redirects_clients_that_look_for_it() {
    let Cloud { site, _fpm } = cloud();
    for (target, place) in [
        ("/.well-known/carddav", "/remote.php/dav/"),
        ("/.well-known/caldav", "/remote.php/dav/"),
        ("/.well-known/webfinger?resource=a", "/index.php/.well-known/webfinger?resource=a"),
        ("/remote/files", "/remote.php/remote/files"),
    ] {
        let response = site.get(target, "");
        assert_eq!(response.status(), 301, "{target}: {response:?}");
        assert!(response.value("Location").unwrap().ends_with(place), "{target}: {response:?}");
    }
    assert_eq!(site.get("/.well-known/acme-challenge/token", "").text(), "proof");
    assert_eq!(site.get("/.well-known/acme-challenge/none", "").status(), 404);
}

#[test]
fn nextclouds_assets_are_kept_by_browsers() {
    let Cloud { site, _fpm } = cloud();
    for (target, control) in [
        ("/core/js/a.js?v=1", "public, max-age=15778463, immutable"),
        ("/core/js/a.js", "public, max-age=15778463"),
        ("/core/fonts/a.woff2", "max-age=604800"),
    ] {
        let response = site.get(target, "");
        assert_eq!((response.status(), response.value("Cache-Control")), (200, Some(control)), "{target}");
    }
    let style = site.get("/core/css/a.css", "Accept-Encoding: gzip\r\n");
    assert_eq!((style.value("Content-Encoding"), style.value("Referrer-Policy")), (Some("gzip"), Some("no-referrer")));
}

#[test]
fn nextcloud_takes_uploads_as_they_arrive() {
    let Cloud { site, _fpm } = cloud();
    let mut client = site.gateway.client();
    for bytes in [0usize, 1, 700_000, 5_000_000] {
        client.send(format!("PUT /remote.php/dav/a HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n"));
        client.send(vec![b'x'; bytes]);
        assert_eq!(client.response().text(), format!("put {bytes}"));
    }
    client.send("PUT /remote.php/dav/a HTTP/1.1\r\nHost: a\r\nContent-Length: 600000000\r\n\r\n");
    assert_eq!(client.response().status(), 413);
}
