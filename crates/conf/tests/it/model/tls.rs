//! TLS towards clients: what servers inherit from `http`, and the checks of one server and of one address.

use conf::diagnostic::Severity;
use conf::model::{Ocsp, PemSource, SessionCache, VerifyClient};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{found, http};
use crate::support::Files;

/// The session cache of the only server, with the size of a shared zone.
fn session_cache(body: &str) -> String {
    match &http(body).servers[0].settings.tls.session_cache {
        SessionCache::Off => "off".into(),
        SessionCache::None => "none".into(),
        SessionCache::Builtin { sessions_max } => format!("builtin {sessions_max:?}"),
        SessionCache::Shared(zone) => format!("shared {} {}", zone.name, zone.size),
        SessionCache::Both { sessions_max, zone } => format!("builtin {sessions_max:?} shared {}", zone.name),
    }
}

#[test]
fn defaults_match_nginx() {
    let http = http("server { }");
    let tls = &http.servers[0].settings.tls;
    assert!(tls.certificates.is_empty() && tls.protocols.is_empty() && tls.ciphers.is_none());
    assert_eq!((tls.session_timeout, tls.buffer_size, tls.verify_depth), (Duration::from_mins(5), 16384, 1));
    assert!(tls.session_tickets && !tls.early_data && !tls.reject_handshake && !tls.prefer_server_ciphers);
    assert_eq!((tls.verify_client, tls.ocsp), (VerifyClient::Off, Ocsp::Off));
    assert_eq!(tls.session_cache, SessionCache::None);
}

#[test]
fn a_server_takes_lists_over_as_a_whole() {
    let http = http(
        "ssl_certificate a.pem; ssl_certificate_key a.key; ssl_protocols TLSv1.2; ssl_protocols tlsv1.3; ssl_crl all.pem;
         server { listen 443 ssl; server_name a; }
         server { listen 443 ssl; server_name b; ssl_certificate b.pem; ssl_certificate $ssl_server_name.pem;
                  ssl_certificate_key data:$key; ssl_certificate_key b.key; ssl_protocols TLSv1.3; ssl_crl \"\"; }",
    );
    let [first, second] = [0, 1].map(|at| &http.servers[at].settings.tls);
    assert_eq!(first.certificates[0].as_text(), Some(&b"a.pem"[..]));
    assert_eq!(first.protocols.iter().map(|word| word.value).collect::<Vec<_>>(), ["TLSv1.2", "TLSv1.3"]);
    assert_eq!(first.crl.as_ref().map(|file| file.value.as_path()), Some(Path::new("all.pem")));
    assert_eq!((second.certificates.len(), second.certificate_keys.len()), (2, 2));
    assert_eq!(second.certificates[1].variables().collect::<Vec<_>>(), ["ssl_server_name"]);
    assert_eq!(second.protocols.len(), 1);
    assert_eq!(second.crl, None);
    assert!(http.listeners[0].options.ssl);
}

#[test]
fn pem_is_inline_text_or_a_relative_file() {
    let folder = Path::new("/etc/nginx");
    assert_eq!(PemSource::of(b"data:x", folder), PemSource::Inline(b"x"));
    assert_eq!(PemSource::of(b"a.pem", folder), PemSource::File(PathBuf::from("/etc/nginx/a.pem")));
    assert_eq!(PemSource::of(b"/b.pem", folder), PemSource::File(PathBuf::from("/b.pem")));
}

#[test]
fn session_caches_add_up_and_are_inherited_by_kind() {
    for (body, expected) in [
        ("server { ssl_session_cache shared:a:1m; }", "shared a 1048576"),
        ("server { ssl_session_cache builtin:10 shared:a:32k; }", "builtin Some(10) shared a"),
        ("server { ssl_session_cache shared:a:1m; ssl_session_cache builtin; }", "builtin None shared a"),
        ("ssl_session_cache shared:a:1m; server { ssl_session_cache builtin; }", "builtin None shared a"),
        ("ssl_session_cache builtin; server { ssl_session_cache shared:a:1m; }", "shared a 1048576"),
        ("ssl_session_cache shared:a:1m; server { ssl_session_cache off; }", "off"),
        ("server { ssl_session_cache off shared:a:1m; }", "off"),
        ("ssl_session_cache off; server { ssl_session_cache shared:a:1m; }", "shared a 1048576"),
        ("server { ssl_session_cache none; }", "none"),
    ] {
        assert_eq!(session_cache(body), expected, "{body}");
    }
}

#[test]
fn refuses_invalid_tls_words() {
    for (body, expected) in [
        ("ssl_protocols TLSv1.4;", "invalid value \"TLSv1.4\" <- TLSv1.4"),
        ("ssl_protocols TLSv1.2 TLSv1.2;", "warning: duplicate value \"TLSv1.2\" <- TLSv1.2"),
        ("ssl_verify_client maybe;", "invalid value \"maybe\" <- maybe"),
        ("ssl_ocsp maybe;", "invalid value \"maybe\" <- maybe"),
        ("ssl_verify_depth x;", "\"ssl_verify_depth\" directive invalid number <- x"),
        ("ssl_buffer_size x;", "\"ssl_buffer_size\" directive invalid value <- x"),
        ("ssl_session_timeout 5ms;", "\"ssl_session_timeout\" directive invalid value <- 5ms"),
        ("ssl_session_cache shared:a;", "invalid session cache \"shared:a\" <- shared:a"),
        ("ssl_session_cache shared::1m;", "invalid session cache \"shared::1m\" <- shared::1m"),
        ("ssl_session_cache shared:a:1g;", "invalid session cache \"shared:a:1g\" <- shared:a:1g"),
        ("ssl_session_cache shared:a:31k;", "session cache \"shared:a:31k\" is too small <- shared:a:31k"),
        ("ssl_session_cache builtin:x;", "invalid session cache \"builtin:x\" <- builtin:x"),
        ("ssl_session_cache all;", "invalid session cache \"all\" <- all"),
        ("ssl_ocsp_cache shared:a:1k;", "OCSP cache \"shared:a:1k\" is too small <- shared:a:1k"),
        ("ssl_ocsp_cache on;", "invalid OCSP cache \"on\" <- on"),
        ("ssl_certificate_cache max=0;", "invalid parameter \"max=0\" <- max=0"),
        ("ssl_certificate_cache on;", "invalid parameter \"on\" <- on"),
        (
            "ssl_certificate_cache valid=1m;",
            "\"ssl_certificate_cache\" must have the \"max\" parameter <- ssl_certificate_cache valid=1m;",
        ),
        ("ssl_certificate a$;", "invalid variable name <- a$"),
    ] {
        assert_eq!(found(body), [expected], "{body}");
    }
}

#[test]
fn a_certificate_has_a_key_and_a_check_has_authorities() {
    let pair = "ssl_certificate a; ssl_certificate_key b;";
    assert_eq!(
        found("server { ssl_certificate a.pem; ssl_certificate b.pem; ssl_certificate_key a.key; }"),
        ["no \"ssl_certificate_key\" is defined for certificate \"b.pem\" <- b.pem"]
    );
    assert_eq!(
        found("ssl_certificate /a/$ssl_server_name; server { } server { server_name b; }"),
        ["no \"ssl_certificate_key\" is defined for certificate \"/a/$ssl_server_name\" <- /a/$ssl_server_name"]
    );
    let no_authority = "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client <- ";
    assert_eq!(
        found(&format!("server {{ {pair} ssl_verify_client optional; }}")),
        [format!("{no_authority}ssl_verify_client optional;")]
    );
    assert_eq!(
        found(&format!("ssl_verify_client on; server {{ {pair} }}")),
        [format!("{no_authority}ssl_verify_client on;")]
    );
    for authority in ["ssl_client_certificate c;", "ssl_trusted_certificate c;", "ssl_verify_client optional_no_ca;"] {
        let is_on = if authority.contains("verify") { "" } else { "ssl_verify_client on;" };
        http(&format!("server {{ {pair} {is_on} {authority} }}"));
    }
    // Without certificates the settings have no effect, and nginx does not check them.
    http("server { ssl_verify_client on; }");
    assert_eq!(
        found(&format!("server {{ {pair} ssl_verify_client optional_no_ca; ssl_ocsp leaf; }}")),
        ["\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\" <- ssl_ocsp leaf;"]
    );
}

#[test]
fn refuses_unsupported_parameters_of_a_tls_listener() {
    let server = |listen: &str, words: &str| {
        format!("server {{ listen 443 {listen}; ssl_certificate a; ssl_certificate_key {words} }}")
    };
    assert_eq!(
        found(&server("ssl", "engine:pkcs11:x;")),
        ["a key by \"engine:\" is known but not supported by holdfast <- engine:pkcs11:x"]
    );
    http(&server("", "engine:pkcs11:x;"));
}

#[test]
fn a_name_is_one_zone() {
    assert_eq!(
        found("ssl_session_cache shared:a:1m; server { } server { server_name b; ssl_session_cache shared:a:2m; }"),
        ["the size 2097152 of shared memory zone \"a\" conflicts with already declared size 1048576 <- shared:a:2m"]
    );
    assert_eq!(
        found("limit_req_zone $host zone=a:1m rate=1r/s; server { ssl_session_cache shared:a:1m; }"),
        ["the shared memory zone \"a\" is already declared for a different use <- shared:a:1m"]
    );
    http("ssl_session_cache shared:a:1m; server { } server { server_name b; ssl_session_cache shared:a:1m; }");
}

#[test]
fn a_listener_of_tls_needs_a_certificate() {
    let missing = "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive <- server";
    let pair = "ssl_certificate a; ssl_certificate_key b;";
    assert_eq!(found("server { listen 443 ssl; }"), [missing]);
    // The default server's certificate replaces all others.
    http(&format!("server {{ listen 443 ssl; {pair} }} server {{ listen 443 ssl; server_name b; }}"));
    assert_eq!(
        found(&format!(
            "server {{ listen 443 ssl; server_name a; }} server {{ listen 443 ssl; server_name b; {pair} }}"
        )),
        [missing]
    );
    // A default server that refuses handshakes replaces no certificate.
    assert_eq!(
        found(&format!(
            "server {{ listen 443 ssl; ssl_reject_handshake on; }} server {{ listen 443 ssl; server_name a; {pair} }}
             server {{ listen 443 ssl; server_name b; }}"
        )),
        [missing]
    );
    http(&format!(
        "server {{ listen 443 ssl; ssl_reject_handshake on; }} server {{ listen 443 ssl; server_name a; {pair} }}"
    ));
    // `ssl` in one `listen` applies to the address.
    assert_eq!(
        found(&format!("server {{ listen 443; }} server {{ listen 443 ssl; server_name b; {pair} }}")),
        [missing]
    );
}

#[test]
fn words_for_upstreams_act_where_a_proxy_may_speak_tls() {
    let notes = |to: &str| {
        let text = format!(
            "events {{}} http {{ proxy_ssl_verify on; server {{ listen 80; location / {{ if ($arg_a) {{ proxy_pass {to}; }} }} }} }}"
        );
        let loaded = Files::new([("/etc/nginx/nginx.conf", &text)]).load();
        let found = conf::check(&loaded, conf::table::all());
        found.into_iter().map(|found| format!("{}: {}", found.message, found.hint.unwrap_or_default())).collect()
    };
    let idle: Vec<String> = notes("http://a");
    assert_eq!(
        idle,
        [
            "\"proxy_ssl_verify\" directive has no effect here: it acts only with a `proxy_pass` that leads to `https://`"
        ]
    );
    for to in ["https://a", "HTTPS://a", "$to", "https://$to"] {
        assert_eq!(notes(to), [""; 0], "{to}");
    }
}

#[test]
fn words_act_with_a_listener_of_tls_only() {
    let notes = |listen: &str| {
        let text = format!(
            "events {{}} http {{ ssl_protocols TLSv1.3; ssl_stapling on; server {{ listen {listen}; ssl_certificate a; \
             ssl_certificate_key b; ssl_dhparam d; }} }}"
        );
        let loaded = Files::new([("/etc/nginx/nginx.conf", &text)]).load();
        let found = conf::check(&loaded, conf::table::all());
        assert!(found.iter().all(|found| found.severity == Severity::Note), "{found:?}");
        found.into_iter().map(|found| format!("{}: {}", found.message, found.hint.unwrap_or_default())).collect()
    };
    let idle = |name: &str| {
        format!("\"{name}\" directive has no effect here: it acts only with a TLS listener (`listen … ssl`)")
    };
    let stapling = idle("ssl_stapling");
    let dhparam =
        "\"ssl_dhparam\" directive has no effect here: ciphers with DHE are not spoken, only those with ECDHE"
            .to_owned();
    let in_clear: Vec<String> = notes("80");
    let words = ["ssl_protocols", "ssl_certificate", "ssl_certificate_key"].map(idle);
    let [protocols, certificate, key] = words;
    assert_eq!(in_clear, [protocols, stapling, certificate, key, dhparam.clone()]);
    let secure: Vec<String> = notes("443 ssl");
    assert_eq!(secure, [dhparam]);
}
