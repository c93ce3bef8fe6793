//! Plans of small configurations, without sockets, workers or a registry.

use super::*;
use crate::plan::group::AddressSource;
use crate::plan::location::Content;
use crate::plan::proxy::ProxyPlan;
use reactor::PeerAddress;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

/// A configuration of one file.
struct OneFile<'a>(&'a str);

impl conf::Loader for OneFile<'_> {
    fn read(&mut self, _path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn glob(&mut self, _mask: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// The plan of the text in `http`, and the names that were resolved for it. `two.test` has two addresses.
fn lowered(http: &str) -> (Result<Lowered, Vec<Diagnostic>>, Vec<String>) {
    let text = format!("events {{}} http {{ {http} }}");
    let loaded = conf::load(Path::new("/nginx.conf"), Path::new("/"), None, &mut OneFile(&text));
    let (model, found) = conf::model::lower(&loaded.tree, &loaded.sources);
    let errors: Vec<_> = found.iter().filter(|found| found.severity == Severity::Error).collect();
    assert!(loaded.diagnostics.is_empty() && errors.is_empty(), "{:?} {errors:?}", loaded.diagnostics);
    let asked = RefCell::new(Vec::new());
    let options = LowerOptions {
        prefix: "/".into(),
        workers: 2,
        share: Share::default(),
        hostname: "host.test".to_owned(),
        resolve: &|name, port| {
            asked.borrow_mut().push(name.to_owned());
            Ok([1, 2].map(|last| SocketAddr::from(([192, 0, 2, last], port))).to_vec())
        },
        conf_directory: "/".into(),
        now_s: 0,
        read: &|path| std::fs::read(path),
        known_pairs: &KnownPairs::default(),
    };
    let lowered = lower(&model, &options);
    (lowered, asked.into_inner())
}

/// The plan of the text in `http`.
#[track_caller]
pub(crate) fn plan(http: &str) -> Plan {
    match lowered(http).0 {
        Ok(lowered) => lowered.plan,
        Err(found) => panic!("{found:?}"),
    }
}

/// The errors of the text in `http`.
pub(crate) fn errors(http: &str) -> Vec<String> {
    let found = lowered(http).0.err().unwrap_or_default();
    found.into_iter().map(|found| found.message).collect()
}

fn proxy<'a>(plan: &'a Plan, prefix: &str) -> &'a ProxyPlan {
    let location = plan.locations.iter().find(|location| *location.name == *prefix.as_bytes()).unwrap();
    let Content::Proxy(id) = &location.content else { panic!("{prefix} proxies nothing") };
    plan.proxies.get(id.0)
}

#[test]
fn a_group_is_resolved_once_and_shared_by_equal_proxies() {
    let (lowered, asked) = lowered(
        "upstream app { server two.test:80; keepalive 8; }
         server {
             location /a { proxy_pass http://app; }
             location /b { proxy_pass http://app; }
             location /c { proxy_pass http://app; proxy_bind 127.0.0.2; }
         }",
    );
    let plan = lowered.map_err(|_| "errors").unwrap().plan;
    assert_eq!(asked, ["two.test"]);
    assert_eq!(plan.groups.end(), 1);
    let AddressSource::Fixed(addresses) = &plan.groups.get(0).servers[0].source else { panic!("a name") };
    assert_eq!(addresses.len(), 2);
    assert_eq!(proxy(&plan, "/a").group, proxy(&plan, "/b").group);
    assert_ne!(proxy(&plan, "/a").group, proxy(&plan, "/c").group);
    let used = plan.group_uses.get(proxy(&plan, "/c").group.0);
    assert_eq!(used.sharing.source, Some("127.0.0.2".parse().unwrap()));
}

#[test]
fn unused_group_is_not_resolved_or_planned() {
    let (lowered, asked) = lowered("upstream app { server two.test:80; } server { return 204; }");
    assert!(asked.is_empty());
    assert!(lowered.map_err(|_| "errors").unwrap().plan.groups.end() == 0);
}

#[test]
fn resolve_group_is_a_pending_question() {
    let (lowered, asked) = lowered(
        "resolver 127.0.0.1; upstream app { zone app 64k; server two.test:80 resolve; }
         server { location / { proxy_pass http://app; } }",
    );
    let plan = lowered.map_err(|_| "errors").unwrap().plan;
    assert!(asked.is_empty());
    let names: Vec<&str> = plan.groups.get(0).questions().map(|question| &*question.name).collect();
    assert!(plan.groups.get(0).follows_names());
    assert_eq!(names, ["two.test"]);
}

#[test]
fn an_address_behind_a_wildcard_has_no_socket() {
    let plan = plan("server { listen 80; return 204; } server { listen 127.0.0.1:80; return 205; }");
    let sockets = plan.listeners.iter().map(|listener| (listener.address.to_string(), listener.socket.is_some()));
    let sockets: Vec<_> = sockets.collect();
    assert_eq!(sockets, [("0.0.0.0:80".to_owned(), true), ("127.0.0.1:80".to_owned(), false)]);
    assert_eq!(plan.listeners[0].behind, [PeerAddress::Ip("127.0.0.1:80".parse().unwrap())]);
}

#[test]
fn logs_of_one_place_are_one() {
    let plan = plan(
        "server {
             location /a { access_log /l; error_log /e; }
             location /b { access_log /l; error_log /e; }
             location /c { access_log /m; error_log /e warn; }
         }",
    );
    let of = |prefix: &str| {
        let found = plan.locations.iter().find(|location| *location.name == *prefix.as_bytes()).unwrap();
        (found.access_logs[0].sink, found.error_log.unwrap())
    };
    assert_eq!(of("/a"), of("/b"));
    assert_ne!(of("/a").0, of("/c").0);
    assert_ne!(of("/a").1, of("/c").1);
}

#[test]
fn a_log_has_one_buffer_wherever_it_is_written() {
    let (plain, buffered) = ("access_log /l;", "access_log /l combined buffer=4k flush=1s;");
    for (outer, inner) in [(plain, buffered), (buffered, plain), (buffered, buffered)] {
        let plan = plan(&format!("{outer} server {{ location /a {{ {inner} }} location /b {{ access_log /l; }} }}"));
        let buffers: Vec<_> = plan.sinks.iter().map(|sink| sink.buffering.map(|buffer| buffer.bytes)).collect();
        assert_eq!(buffers, [Some(4096)], "{outer} {inner}");
        assert!(!plan.sinks[0].is_awaited(), "lines are held back, so no connection waits for them");
    }
    for other in ["buffer=8k flush=1s", "buffer=4k", "buffer=4k flush=1s gzip"] {
        let differs = format!("{buffered} server {{ location /a {{ access_log /l combined {other}; }} }}");
        assert_eq!(errors(&differs), ["access_log already defined with conflicting parameters"], "{other}");
    }
}

#[test]
fn a_zone_that_limits_nothing_is_left_out() {
    let plan = plan(
        "limit_req_zone $uri zone=used:1m rate=1r/s; limit_req_zone $uri zone=unused:1m rate=1r/s;
         server { location /a { limit_req zone=used; } location /b { limit_req zone=used burst=3; } }",
    );
    let zones: Vec<&str> = plan.request_zones.iter().map(|zone| &*zone.name).collect();
    assert_eq!(zones, ["used"]);
}

#[test]
fn sessions_belong_to_one_group() {
    let group = |name: &str| {
        format!(
            "upstream {name} {{ server 127.0.0.1:81; sticky learn create=$upstream_cookie_s lookup=$cookie_s \
             zone=sessions:1m; }}"
        )
    };
    let http = format!(
        "{} {} server {{ location /a {{ proxy_pass http://a; }} location /b {{ proxy_pass http://b; }} }}",
        group("a"),
        group("b")
    );
    assert_eq!(errors(&http), ["the zone \"sessions\" of \"sticky learn\" belongs to another upstream"]);
}

/// The notes and warnings of the text in `http`.
fn notes(http: &str) -> Vec<String> {
    let found = lowered(http).0.map(|lowered| lowered.warnings).unwrap_or_default();
    found.into_iter().map(|found| found.message).collect()
}

/// The errors and notes of these TLS settings towards an upstream.
fn of_tls(words: &str) -> (Vec<String>, Vec<String>) {
    let http = format!("server {{ location / {{ proxy_pass https://127.0.0.1; {words} }} }}");
    (errors(&http), notes(&http))
}

#[test]
fn upstream_tls_directives_are_refused_as_in_nginx_or_noted() {
    let begins = |words: &str, text: &str| {
        let (errors, notes) = of_tls(words);
        assert!(errors.iter().chain(&notes).any(|found| found.starts_with(text)), "{words}: {errors:?} {notes:?}");
    };
    begins("proxy_ssl_certificate c.pem;", "no \"proxy_ssl_certificate_key\" is defined for certificate \"c.pem\"");
    begins(
        "proxy_ssl_certificate /no/c; proxy_ssl_certificate_key /no/k;",
        "cannot load certificate \"/no/c\": open() failed (2: No such",
    );
    begins("proxy_ssl_certificate data:x; proxy_ssl_certificate_key data:y;", "cannot load certificate");
    begins("proxy_ssl_certificate c; proxy_ssl_certificate_key engine:x:y;", "keys of OpenSSL's engines");
    begins("proxy_ssl_trusted_certificate /no/ca;", "cannot load certificate \"/no/ca\": open() failed (2: No such");
    begins("proxy_ssl_crl /no/crl;", "cannot load CRL \"/no/crl\": open() failed (2: No such");
    begins("proxy_ssl_protocols TLSv1;", "\"proxy_ssl_protocols\" leaves no version that is spoken");
    begins("proxy_ssl_protocols TLSv1 TLSv1.2;", "TLSv1 has no effect");
    begins("proxy_ssl_ciphers DES-CBC3-SHA:ECDHE+AESGCM;", "not available, and left out: DES-CBC3-SHA");
    begins("proxy_ssl_ciphers nonsense;", "SSL_CTX_set_cipher_list(\"nonsense\") failed");
    begins("proxy_ssl_ciphers AES128-SHA;", "no cipher is left for TLSv1.2, which is not spoken therefore");
    begins(
        "proxy_ssl_ciphers AES128-SHA; proxy_ssl_protocols TLSv1.2;",
        "no cipher is left for \"proxy_ssl_protocols\"",
    );
    begins("proxy_ssl_conf_command Protocol -ALL,TLSv1.1;", "\"proxy_ssl_protocols\" leaves no version");
    begins("proxy_ssl_conf_command Protocol TLSv9;", "SSL_CONF_cmd(\"Protocol\", \"TLSv9\") failed");
    begins("proxy_ssl_conf_command Ciphersuites TLS_AES_128_CCM_SHA256;", "no cipher is left for TLSv1.3");
    begins("proxy_ssl_conf_command Made Up;", "SSL_CONF_cmd(\"Made\", \"Up\") failed");
    begins("proxy_ssl_conf_command Options KTLS;", "\"proxy_ssl_conf_command Options\" has no effect here");
    begins(
        "proxy_ssl_conf_command MinProtocol TLSv1.3; proxy_ssl_protocols TLSv1.2;",
        "\"proxy_ssl_protocols\" leaves no version",
    );
    begins("proxy_ssl_verify on; proxy_ssl_name a..b;", "\"a..b\" is no name that TLS can ask for or verify");
    assert_eq!(of_tls("proxy_ssl_verify off; proxy_ssl_name a..b;"), (Vec::new(), Vec::new()), "it is not asked for");
    let by_request = "proxy_ssl_certificate $host.pem; proxy_ssl_certificate_key $host.key;";
    assert_eq!(of_tls(by_request), (Vec::new(), Vec::new()), "they are read when a request names them");
    let floor = "upstream u { server 127.0.0.1; keepalive 4 floor=1; }
        server { proxy_ssl_server_name on; location / { proxy_pass https://u; proxy_ssl_name $host; } }";
    assert!(notes(floor)[0].starts_with("\"floor\" of \"keepalive\" has no effect"), "{:?}", notes(floor));
}

#[test]
fn equal_tls_settings_share_an_identity() {
    let plan = plan(
        "server { proxy_ssl_verify_depth 2;
            location /a { proxy_pass https://127.0.0.1; }
            location /b { proxy_pass https://127.0.0.1; proxy_ssl_ciphers DEFAULT; }
            location /c { proxy_pass https://127.0.0.1; proxy_ssl_session_reuse off; }
            location /d { proxy_pass https://127.0.0.1; proxy_ssl_protocols TLSv1.3; }
            location /e { proxy_pass http://127.0.0.1:443; }
         }",
    );
    let uses: Vec<_> = plan.proxies.iter().map(|proxy| proxy.group.0).collect();
    assert_eq!(uses, [0, 0, 1, 2, 3]);
    assert!(plan.proxies.get(0).redirects.0.len() == 1 && plan.proxies.get(4).tls.is_none());
}

#[test]
fn two_character_sets_need_a_map_between_them() {
    let words = "server { charset utf-8; source_charset koi8-r; location /a { } }";
    let message = "no \"charset_map\" between the charsets \"koi8-r\" and \"utf-8\"";
    assert_eq!(errors(words), [message]);
    assert_eq!(errors(&format!("charset_map utf8 koi8-r {{ }} {words}")), [message]);
    let plan = plan(&format!("charset_map KOI8-R utf-8 {{ C1 D0B0; }} {words}"));
    let charset = plan.locations.get(0).charset.as_deref().expect("the server has one");
    assert_eq!(charset.source.as_ref().and_then(|name| name.as_constant()), Some(&b"KOI8-R"[..]), "as spelled first");
}

#[test]
fn tokens_without_usable_keys_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let good = file("good", r#"{"keys":[{"kty":"oct","k":"AQAB"}]}"#);
    let (text, none) = (file("text", "text"), file("none", r#"{"keys":[]}"#));
    let server = |words: &str| errors(&format!("server {{ location / {{ auth_jwt area; {words} return 204; }} }}"));
    assert_eq!(server(&format!("auth_jwt_key_file {good};")), Vec::<String>::new());
    assert_eq!(server("auth_jwt_key_request /keys;"), Vec::<String>::new());
    assert_eq!(server(""), ["\"auth_jwt\" has no keys"]);
    for (path, reason) in [(&text, "not JSON"), (&none, "no key"), (&format!("{good}.missing"), "No such file")] {
        let found = server(&format!("auth_jwt_key_file {path};"));
        assert!(found.len() == 1 && found[0].contains(reason), "{found:?}");
    }
    let unused = "server { auth_jwt_key_file /nowhere; location / { return 204; } }";
    assert_eq!(errors(unused), Vec::<String>::new(), "no location needs it");
}

#[test]
fn a_database_that_is_none_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.mmdb");
    std::fs::write(&file, "<html>try again later").unwrap();
    let file = file.display();
    let with = |file: &str| errors(&format!("geoip2 {file} {{ $code country iso_code; }}"));
    assert_eq!(
        with(&file.to_string()),
        [format!("cannot use the database \"{file}\": no metadata of a MaxMind database in it")]
    );
    assert_eq!(with("none.mmdb"), ["cannot use the database \"/none.mmdb\": 2: No such file or directory".to_owned()]);
}
