//! Certificates by ACME with Pebble as the authority: first issue, renewal, refusals, an authority that is down,
//! restarts.

use crate::support::pebble::{MAC_KEY, Pebble, Settings};
use crate::support::{Instance, comes_true, until};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{free_port, peer_program};

/// Ninety days.
const LONG_S: u32 = 90 * 86_400;

/// A plain server on `PORT`, where authorities validate, and a TLS server for `a.test`.
fn servers(tls_port: u16, more: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:PORT; return 200 plain; }}
         server {{ listen 127.0.0.1:{tls_port} ssl; server_name a.test; acme_certificate ca; return 200 secure;
            ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }}
         {more}"
    )
}

fn settings(instance: &Instance, tls_port: u16) -> Settings {
    Settings { http_port: instance.port, tls_port, validity_s: LONG_S, bound_accounts: false }
}

/// The response that curl gets from `a.test`, and the certificate that it saw; the error of a handshake that fails.
fn secure(tls_port: u16, flags: &[&str]) -> Result<(String, String), String> {
    let output = Command::new(peer_program("curl"))
        .args(["--silent", "--show-error", "--max-time", "20", "--write-out", "\n%{certs}"])
        .args(["--resolve", &format!("a.test:{tls_port}:127.0.0.1")])
        .args(flags)
        .arg(format!("https://a.test:{tls_port}/"))
        .output()
        .expect("curl runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let (body, certificates) = text.split_once('\n').expect("both");
    Ok((body.to_owned(), certificates.to_owned()))
}

/// The file that holds the certificate.
fn kept(state: &Path) -> PathBuf {
    let named = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "pem");
    let mut files = fs::read_dir(state).expect("it is there").flatten().map(|entry| entry.path());
    files.find(named).expect("a certificate is kept")
}

fn issued(instance: &Instance) -> usize {
    instance.text("logs/error.log").matches("is issued").count()
}

#[test]
fn http_01_certificate_survives_a_restart_offline() {
    let tls_port = free_port();
    let mut instance = Instance::new("", "");
    let mut pebble = Pebble::started(settings(&instance, tls_port));
    let issuer = pebble.issuer("accept_terms_of_service; contact admin@a.test;");
    instance.configure("worker_processes 2;", &(issuer + &servers(tls_port, "")));
    instance.start();
    instance.wait_for_line("is issued");
    fs::write(instance.path("root.pem"), pebble.root()).unwrap();
    let root = instance.path("root.pem").display().to_string();
    let (body, first) = secure(tls_port, &["--cacert", &root]).unwrap();
    assert_eq!(body, "secure");
    // A token that holdfast did not order is an ordinary path.
    assert!(instance.fetch("/.well-known/acme-challenge/other").unwrap().ends_with("plain"));

    let state = instance.path("acme_ca");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    for file in fs::read_dir(&state).unwrap().flatten() {
        assert_eq!(mode(&file.path()), 0o600, "{}", file.path().display());
    }
    pebble.stop();
    instance.signal("quit");
    instance.wait();
    fs::remove_file(instance.path("logs/error.log")).unwrap();
    instance.start();
    let (_, again) = secure(tls_port, &["--cacert", &root]).unwrap();
    assert_eq!(again, first, "the certificate that was kept");
    assert_eq!(issued(&instance), 0);
}

#[test]
fn issues_by_tls_alpn_01_with_a_bound_account() {
    let tls_port = free_port();
    let mut instance = Instance::new("", "");
    let mut pebble = Pebble::new(Settings { bound_accounts: true, ..settings(&instance, tls_port) });
    let issuer = pebble.issuer(&format!(
        "challenge tls-alpn-01; accept_terms_of_service; external_account_key kid data:{MAC_KEY}; state_path state;"
    ));
    instance.configure("", &(issuer + &servers(tls_port, "")));
    instance.start();
    instance.wait_for_line("the authority cannot be asked");
    let text = instance.text("logs/error.log");
    assert!(
        text.contains("[error]") && text.contains("there is none, so handshakes for it fail; next attempt in 6"),
        "{text}"
    );
    // Without a certificate handshakes fail, and everything else is served.
    assert!(secure(tls_port, &["--insecure"]).is_err());
    assert!(instance.fetch("/").unwrap().ends_with("plain"));
    pebble.start();
    instance.signal("reload");
    instance.wait_for_line("is issued");
    assert_eq!(secure(tls_port, &["--insecure"]).unwrap().0, "secure");
    assert!(instance.path("state/account.key").is_file(), "{}", pebble.log());
}

#[test]
fn renews_in_time_and_serves_the_old_one_meanwhile() {
    let tls_port = free_port();
    let mut instance = Instance::new("", "");
    let mut pebble = Pebble::started(Settings { validity_s: 8, ..settings(&instance, tls_port) });
    let issuer = pebble.issuer("accept_terms_of_service;");
    instance.configure("", &(issuer + &servers(tls_port, "")));
    instance.start();
    instance.wait_for_line("is issued");
    let (_, first) = secure(tls_port, &["--insecure"]).unwrap();
    assert!(comes_true(|| issued(&instance) > 1), "it is not renewed: {}", instance.text("logs/error.log"));
    let (_, second) = secure(tls_port, &["--insecure"]).unwrap();
    assert_ne!(first, second);
    pebble.stop();
    let stored = fs::read(kept(&instance.path("acme_ca"))).unwrap();
    instance.wait_for_line("the authority cannot be asked");
    let text = instance.text("logs/error.log");
    assert!(text.contains("the present one serves until") || text.contains("has expired"), "{text}");
    assert!(secure(tls_port, &["--insecure"]).is_ok());
    assert_eq!(fs::read(kept(&instance.path("acme_ca"))).unwrap(), stored, "a failure leaves what there is");
}

#[test]
fn renews_at_once_when_the_authority_asks_for_it() {
    let tls_port = free_port();
    let mut instance = Instance::new("", "");
    let pebble = Pebble::started(settings(&instance, tls_port));
    let issuer = pebble.issuer("accept_terms_of_service;");
    instance.configure("", &(issuer + &servers(tls_port, "")));
    instance.start();
    instance.wait_for_line("is issued");
    let before = fs::read_to_string(kept(&instance.path("acme_ca"))).unwrap();
    pebble.ask_to_renew(&before);
    instance.signal("quit");
    instance.wait();
    instance.start();
    let renewed = comes_true(|| fs::read_to_string(kept(&instance.path("acme_ca"))).unwrap() != before);
    assert!(renewed, "it is not renewed: {}{}", instance.text("logs/error.log"), pebble.log());
    until("the log says so", || issued(&instance) == 2);
    assert_eq!(pebble.log().matches("accounts in memory").count(), 1, "the account is used again: {}", pebble.log());
}

#[test]
fn refusal_names_its_reason_and_spares_other_certificates() {
    let tls_port = free_port();
    let mut instance = Instance::new("", "");
    let pebble = Pebble::started(settings(&instance, tls_port));
    let nowhere = "server { listen 127.0.0.1:PORT; server_name nowhere.test; acme_certificate ca; }";
    instance.configure("", &(pebble.issuer("accept_terms_of_service;") + nowhere + &servers(tls_port, "")));
    instance.start();
    instance.wait_for_line("the challenge for nowhere.test was rejected");
    instance.wait_for_line("\"ca/a.test-");
    let text = instance.text("logs/error.log");
    assert_eq!(secure(tls_port, &["--insecure"]).map(|(body, _)| body).as_deref(), Ok("secure"), "{text}");
    assert!(text.contains("check that the name leads to this machine"), "{text}");
    // Without agreement to the terms there is no account.
    let careless = pebble.issuer("state_path other;");
    instance.configure("", &(careless + &servers(tls_port, "")));
    instance.signal("reload");
    instance.wait_for_line("did not agree to the terms of service");
    instance.wait_for_line("set \"accept_terms_of_service\"");
}

#[test]
fn the_state_belongs_to_the_user_of_the_workers() {
    if !nix::unistd::geteuid().is_root() {
        return testkit::skip("only root starts as another user");
    }
    let Ok(Some(user)) = nix::unistd::User::from_name("www-data") else {
        return testkit::skip("there is no user www-data");
    };
    let tls_port = free_port();
    let mut instance = Instance::new("", "");
    let pebble = Pebble::started(settings(&instance, tls_port));
    let issuer = pebble.issuer("accept_terms_of_service;");
    instance.configure("", &(issuer + &servers(tls_port, "")));
    let text = instance.text("nginx.conf").replace("user root;", "user www-data;");
    fs::write(instance.path("nginx.conf"), text).unwrap();
    // Workers may pass through the prefix. The master reads the files that they may not read.
    fs::set_permissions(instance.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(pebble.folder(), fs::Permissions::from_mode(0o700)).unwrap();
    instance.start();
    instance.wait_for_line("is issued");
    for path in [instance.path("acme_ca"), instance.path("acme_ca/account.key"), kept(&instance.path("acme_ca"))] {
        assert_eq!(fs::metadata(&path).unwrap().uid(), user.uid.as_raw(), "{}", path.display());
    }
    assert_eq!(secure(tls_port, &["--insecure"]).unwrap().0, "secure");
    // A reload reads the files that the workers have stored.
    instance.signal("reload");
    instance.wait_for_line("the new configuration holds");
    assert_eq!((secure(tls_port, &["--insecure"]).unwrap().0.as_str(), issued(&instance)), ("secure", 1));
}
