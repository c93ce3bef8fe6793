//! `acme_issuer` and `acme_certificate`.

use super::{found, http};
use conf::model::{AccountKey, AcmeChallenge, AcmeIdentifier, AcmeIssuerId, CertificateKey, StatePath};

const ISSUER: &str = "acme_issuer ca { uri https://ca.example/dir; }";

fn identifiers(server: &str) -> Vec<String> {
    let http = http(&format!("{ISSUER} server {{ {server} }}"));
    let acme = http.servers[0].acme.as_ref().expect("the server asks for one");
    acme.identifiers.iter().map(AcmeIdentifier::to_string).collect()
}

#[test]
fn an_issuer_has_nginx_s_defaults() {
    let http = http(ISSUER);
    let issuer = &http.acme_issuers[0];
    assert_eq!((issuer.name.as_str(), issuer.settings.uri.as_deref()), ("ca", Some("https://ca.example/dir")));
    assert_eq!(issuer.settings.account_key, AccountKey::Made);
    assert_eq!((issuer.settings.challenge, issuer.settings.verify), (AcmeChallenge::Http01, true));
    assert_eq!((&issuer.settings.state_path, issuer.settings.accepts_terms), (&StatePath::ByName, false));
}

#[test]
fn an_issuer_takes_every_word() {
    let http = http(
        "acme_issuer ca { uri https://ca.example/dir; contact admin@example.com; contact tel:+1; challenge tls-alpn;
           account_key account.key; ssl_trusted_certificate ca.pem; ssl_verify off; state_path off;
           accept_terms_of_service; profile shortlived require; }
         acme_issuer bound { uri https://b.example/dir; external_account_key kid data:c2VjcmV0; state_path /var/acme; }
         acme_shared_zone zone=acme:1M;",
    );
    let [ca, bound] = http.acme_issuers.as_slice() else { panic!() };
    assert_eq!(ca.settings.contacts, ["mailto:admin@example.com", "tel:+1"]);
    assert_eq!(ca.settings.challenge, AcmeChallenge::TlsAlpn01);
    assert!(
        matches!(&ca.settings.account_key, AccountKey::File(file) if file.value == std::path::Path::new("account.key"))
    );
    assert!(!ca.settings.verify && ca.settings.accepts_terms && ca.settings.state_path == StatePath::Off);
    assert!(ca.settings.profile.as_ref().is_some_and(|profile| profile.require && profile.name == "shortlived"));
    assert_eq!(bound.settings.external_account_key.as_ref().map(|key| key.id.as_str()), Some("kid"));
}

#[test]
fn a_certificate_has_its_identifiers_or_the_server_s_names() {
    assert_eq!(
        identifiers("server_name a.example; acme_certificate ca B.example 192.0.2.1 [2001:db8::1];"),
        ["b.example", "192.0.2.1", "2001:db8::1"]
    );
    assert_eq!(
        identifiers("acme_certificate ca key=rsa:4096; server_name A.example .b.example a.example;"),
        ["a.example", "www.b.example", "b.example"]
    );
    let http = http(&format!("server {{ server_name a.b; acme_certificate ca key=ecdsa:384; }} {ISSUER}"));
    let acme = http.servers[0].acme.as_ref().unwrap();
    assert_eq!((acme.issuer, acme.key), (AcmeIssuerId(0), CertificateKey::Ecdsa384));
}

#[test]
fn reports_errors_at_their_place() {
    let server = |text: &str| found(&format!("{ISSUER} server {{ server_name a.b; {text} }}"));
    assert_eq!(server("acme_certificate cb;"), ["acme_issuer \"cb\" is not defined <- cb"]);
    assert_eq!(server("acme_certificate ca *.a.b;"), ["invalid identifier \"*.a.b\" in \"acme_certificate\" <- *.a.b"]);
    assert_eq!(server("acme_certificate ca a..b;"), ["invalid identifier \"a..b\" in \"acme_certificate\" <- a..b"]);
    assert_eq!(server("acme_certificate ca key=dsa;"), ["invalid value \"dsa\" <- dsa"]);
    assert_eq!(
        found(&format!("{ISSUER} server {{ acme_certificate ca; }}")),
        ["\"acme_certificate\" has no identifiers <- acme_certificate ca;"]
    );
    assert_eq!(
        found(&format!("{ISSUER} server {{ server_name ~^a a.b; acme_certificate ca; }}")),
        ["warning: \"acme_certificate\" leaves out server name \"~^a\": it is no host name <- ~^a"]
    );
    let issuer = |text: &str| found(&format!("acme_issuer ca {{ {text} }}"));
    assert_eq!(issuer(""), ["\"uri\" is missing in acme_issuer \"ca\" <- acme_issuer"]);
    assert_eq!(issuer("uri http://a/;"), ["invalid \"uri\" value \"http://a/\" <- http://a/"]);
    assert_eq!(
        issuer("uri https://a/; account_key rsa:2048;"),
        ["\"account_key\" value \"rsa:2048\" is known but not supported by holdfast <- rsa:2048"]
    );
    assert_eq!(issuer("uri https://a/; challenge dns-01;"), ["unsupported challenge: dns-01 <- dns-01"]);
    assert_eq!(
        issuer("uri https://a/; account_key k.pem; external_account_key kid data:YQ;"),
        ["an account with \"external_account_key\" cannot have a key of its own in a file here <- k.pem"]
    );
    assert_eq!(found(&format!("{ISSUER} {ISSUER}")), ["duplicate \"acme_issuer\" name \"ca\" <- ca"]);
    assert_eq!(found("acme_shared_zone zone=a;"), ["invalid zone size \"a\" <- zone=a"]);
}
