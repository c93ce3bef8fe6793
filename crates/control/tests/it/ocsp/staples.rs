//! OCSP responses stapled to a server's certificate.

use crate::ocsp::{Files, LAST_REQUEST, Scene, conf, s_client};
use control::Control;
use rcgen::ExtendedKeyUsagePurpose;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use testkit::{Gateway, Habit, Issued, peer_program, until};
use tls::Pair;

const HERE: &str = "return 200 here;";

/// Whether a client that requests a response gets one.
fn stapled(to: SocketAddr, flags: &[&str]) -> bool {
    let said = s_client(to, &[&["-status"], flags].concat(), LAST_REQUEST);
    assert!(said.contains("here"), "{said}");
    let is_good = said.contains("OCSP Response Status: successful (0x0)") && said.contains("Cert Status: good");
    assert!(is_good || said.contains("OCSP response: no response sent"), "{said}");
    is_good
}

#[test]
fn staples_prefetched_responses_in_both_versions() {
    let words = format!("ssl_stapling on; {HERE}");
    let scene = Scene::start(Files::new(), &words);
    until("it is stapled", || stapled(scene.gateway.address(), &[]).then_some(()));
    assert!(stapled(scene.gateway.address(), &["-tls1_2"]) && stapled(scene.gateway.address(), &["-tls1_3"]));
    assert!(
        !s_client(scene.gateway.address(), &[], LAST_REQUEST).contains("OCSP"),
        "a client that does not ask gets none"
    );
    let asked = scene.files.responder.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    // nginx asks at its first handshake, with the same request.
    let Some(nginx) = scene.nginx(&words) else { return };
    until("nginx staples it", || stapled(nginx.address, &[]).then_some(()));
    let by_nginx = scene.files.responder.asked();
    assert_eq!(by_nginx[1], asked[0]);
}

/// Row T8.
#[test]
fn bad_status_is_logged_as_in_nginx_and_not_stapled() {
    let http =
        |body: &str| format!("HTTP/1.0 200 OK\r\nContent-Type: application/ocsp-response\r\n\r\n{body}").into_bytes();
    let other = "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n".to_owned().into_bytes();
    // `tryLater`, in DER.
    let later = [http(""), vec![0x30, 3, 10, 1, 3]].concat();
    let cases: [(char, Habit, &str); 6] = [
        ('V', Habit::Ended, "OCSP_check_validity() failed"),
        ('R', Habit::Answers, "certificate status \"revoked\" in the OCSP response"),
        ('?', Habit::Answers, "certificate status \"unknown\" in the OCSP response"),
        ('V', Habit::Says(http("nothing")), "d2i_OCSP_RESPONSE() failed"),
        ('V', Habit::Says(later), "OCSP response not successful (3: trylater)"),
        ('V', Habit::Says(other), "OCSP responder sent invalid \"Content-Type\" header: \"text/html\""),
    ];
    for (standing, habit, phrase) in cases {
        let words = format!("ssl_stapling on; {HERE}");
        let files = Files::new();
        files.responder.note(if standing == '?' { 99 } else { 10 }, if standing == '?' { 'V' } else { standing });
        if standing == '?' {
            files.write("a", &files.responder.issue(&files.authority, &["a.test"], 11));
        }
        files.responder.set(habit);
        let scene = Scene::start(files, &words);
        let line = scene.gateway.logged(phrase);
        assert!(line.contains(" while requesting certificate status, responder: 127.0.0.1"), "{line}");
        assert!(line.contains("certificate: ") && line.contains("a.crt"), "{line}");
        assert!(!stapled(scene.gateway.address(), &[]), "{phrase}");
        let Some(nginx) = scene.nginx(&words) else { continue };
        assert!(!stapled(nginx.address, &[]));
        nginx.logged(phrase);
    }
}

/// Row T8.
#[test]
fn silent_responder_delays_no_start_and_no_handshake() {
    let files = Files::new();
    files.responder.set(Habit::Silent);
    let scene = Scene::start(files, &format!("ssl_stapling on; {HERE}"));
    until("it is asked", || (!scene.files.responder.asked().is_empty()).then_some(()));
    assert!(!stapled(scene.gateway.address(), &[]));
}

/// Nothing listens at the responder's address. nginx asks at a handshake, and the gateway ahead of it.
#[test]
fn handshakes_continue_while_the_responder_is_down() {
    let down = format!("http://127.0.0.1:{}", testkit::free_port());
    let words = format!("ssl_stapling on; ssl_stapling_responder {down}; {HERE}");
    let scene = Scene::start(Files::new(), &words);
    let phrase = "failed (111: Connection refused) while requesting certificate status, responder: 127.0.0.1";
    let line = scene.gateway.logged(phrase);
    assert!(line.contains("[error]") && line.contains("a.crt"), "{line}");
    for version in ["-tls1_2", "-tls1_3"] {
        assert!(!stapled(scene.gateway.address(), &[version]));
    }
    assert!(scene.files.responder.asked().is_empty());
    let Some(nginx) = scene.nginx(&words) else { return };
    assert!(!stapled(nginx.address, &[]));
    nginx.logged(phrase);
}

#[test]
fn reload_keeps_staples_and_asks_about_new_certificates() {
    let words = format!("ssl_stapling on; {HERE}");
    let mut scene = Scene::start(Files::new(), &words);
    until("it is stapled", || stapled(scene.gateway.address(), &[]).then_some(()));
    scene.files.responder.set(Habit::Silent);
    let text = conf(&scene.files.server(&words));
    scene.gateway.reload(&text);
    assert!(stapled(scene.gateway.address(), &[]));
    // After a change of the directives the responders are asked again; the earlier answer is not used meanwhile.
    scene.files.responder.set(Habit::Answers);
    scene.files.write("a", &scene.files.responder.issue(&scene.files.authority, &["a.test"], 12));
    scene.files.responder.note(12, 'V');
    let changed = ["a.crt", "a.key"].map(|name| scene.files.folder.path().join(name));
    let renewal = scene.gateway.shared().renew_certificates(&changed, &|path| fs::read(path));
    assert_eq!(renewal.renewed.len(), 1, "{renewal:?}");
    until("the new one is stapled", || {
        let said = s_client(scene.gateway.address(), &["-status"], LAST_REQUEST);
        said.contains("Serial Number: 0C").then_some(())
    });
    assert_eq!(scene.files.responder.asked().len(), 2);
}

/// A signer with a certificate of the authority, with or without the purpose.
fn signer(files: &Files, purpose: Option<ExtendedKeyUsagePurpose>) -> Habit {
    let issued = files.authority.issue_with(&["signer.test"], |params| params.extended_key_usages.extend(purpose));
    let (certificate, key) = issued.write(files.folder.path(), "signer");
    Habit::SignedBy(certificate, key)
}

#[test]
fn the_issuer_may_let_another_key_sign() {
    for verify in ["off", "on"] {
        let files = Files::new();
        files.responder.set(signer(&files, Some(ExtendedKeyUsagePurpose::OcspSigning)));
        let words = format!("ssl_stapling on; ssl_stapling_verify {verify}; {HERE}");
        let scene = Scene::start(files, &words);
        until("it is stapled", || stapled(scene.gateway.address(), &[]).then_some(()));
        let Some(nginx) = scene.nginx(&words) else { continue };
        until("nginx staples it", || stapled(nginx.address, &[]).then_some(()));
    }
}

#[test]
fn a_key_that_may_not_sign_is_not_believed() {
    let files = Files::new();
    files.responder.set(signer(&files, Some(ExtendedKeyUsagePurpose::ServerAuth)));
    let words = format!("ssl_stapling on; ssl_stapling_verify on; {HERE}");
    let scene = Scene::start(files, &words);
    scene.gateway.logged("OCSP_basic_verify() failed: the issuer does not let this signer sign");
    assert!(!stapled(scene.gateway.address(), &[]));
    let Some(nginx) = scene.nginx(&words) else { return };
    assert!(!stapled(nginx.address, &[]));
    nginx.logged("OCSP_basic_verify() failed");
}

#[test]
fn responder_and_response_may_be_configured() {
    let files = Files::new();
    // The certificate names no responder.
    files.write("a", &files.authority.issue_with(&["a.test"], |params| params.serial_number = Some(10_u64.into())));
    let url = files.responder.url();
    let scene = Scene::start(files, &format!("ssl_stapling on; ssl_stapling_responder {url}/here; {HERE}"));
    until("it is stapled", || stapled(scene.gateway.address(), &[]).then_some(()));
    let asked = scene.files.responder.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("/here/"), "{asked:?}");

    let at = |name: &str| scene.files.folder.path().join(name);
    let mut openssl = Command::new(peer_program("openssl"));
    openssl.args(["ocsp", "-url", &url, "-issuer"]).arg(at("ca.pem")).arg("-cert").arg(at("a.crt"));
    let output = openssl.arg("-CAfile").arg(at("ca.pem")).arg("-respout").arg(at("response")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let words = format!("ssl_stapling on; ssl_stapling_file {}; {HERE}", at("response").display());
    let gateway = Gateway::start(&conf(&scene.files.server(&words)), &[]);
    let _control = Control::start(gateway.shared()).unwrap();
    assert!(stapled(gateway.address(), &[]));
}

#[test]
fn certificate_without_a_responder_serves_unstapled() {
    let files = Files::new();
    let nobody = files.authority.issue_with(&["a.test"], |_| ());
    let secure =
        files.authority.issue_with(&["a.test"], |params| testkit::names_responder(params, 10, "https://a.test"));
    for (issued, phrase) in [
        (nobody, "\"ssl_stapling\" ignored, no OCSP responder URL in the certificate"),
        (secure, "\"ssl_stapling\" ignored, invalid URL prefix in OCSP responder \"https://a.test\""),
    ] {
        files.write("a", &issued);
        let gateway = Gateway::start(&conf(&files.server(&format!("ssl_stapling on; {HERE}"))), &[]);
        assert!(gateway.warnings().iter().any(|warning| warning.contains(phrase)), "{:?}", gateway.warnings());
        assert!(!stapled(gateway.address(), &[]));
    }
    let alone = files.server(&format!("ssl_stapling on; {HERE}"));
    let alone = alone.replace("ssl_trusted_certificate", "ssl_client_certificate").replace("ca.pem", "a.crt");
    let gateway = Gateway::start(&conf(&alone), &[]);
    let phrase = "\"ssl_stapling\" ignored, issuer certificate not found for certificate";
    assert!(gateway.warnings().iter().any(|warning| warning.contains(phrase)), "{:?}", gateway.warnings());
}

/// A server whose certificate comes by ACME, from an authority that is down.
fn by_acme(files: &Files, words: &str) -> String {
    let issuer = "acme_issuer ca { uri https://127.0.0.1:1/; state_path off; accept_terms_of_service; }";
    let server = "server { listen {listen} ssl; server_name a.test; acme_certificate ca; ssl_certificate $acme_certificate; \
                  ssl_certificate_key $acme_certificate_key; ssl_trusted_certificate {at}/ca.pem;";
    let server = server.replace("{at}", &files.folder.path().display().to_string());
    conf(&format!("{issuer} {server} {words} {HERE} }}"))
}

#[test]
fn acme_certificates_are_stapled_and_so_are_renewals() {
    let files = Files::new();
    let mut gateway = Gateway::start(&by_acme(&files, "ssl_stapling on;"), &[]);
    let _control = Control::start(gateway.shared()).unwrap();
    let order = until("it is wanted", || gateway.shared().acme().wanted().1.first().cloned());
    // As the control plane does with what it gets.
    let install = |issued: &Issued| {
        order.install(Pair::from_pem(issued.chain.as_bytes(), issued.key.as_bytes(), b"").unwrap());
        gateway.shared().acme_staples_changed();
    };
    let shown = |gateway: &Gateway| s_client(gateway.address(), &["-status"], LAST_REQUEST);
    for (serial, text) in [(10, "Serial Number: 0A"), (12, "Serial Number: 0C")] {
        files.responder.note(serial, 'V');
        install(&files.responder.issue(&files.authority, &["a.test"], serial));
        until("it is stapled", || shown(&gateway).contains(text).then_some(()));
        assert!(stapled(gateway.address(), &[]));
    }
    assert_eq!(files.responder.asked().len(), 2);
    // One whose authority has no responder.
    install(&files.authority.issue_with(&["a.test"], |_| ()));
    let line = gateway.logged("\"ssl_stapling\" ignored, no OCSP responder URL in the certificate acme ca/a.test-");
    assert!(line.contains("[warn]"), "{line}");
    assert!(!stapled(gateway.address(), &[]));
    // A reload that wants no staple takes it off.
    install(&files.responder.issue(&files.authority, &["a.test"], 12));
    until("it is stapled", || stapled(gateway.address(), &[]).then_some(()));
    gateway.reload(&by_acme(&files, ""));
    assert!(!stapled(gateway.address(), &[]));
}
